//! Files that cannot be written.

use std::fs;

use unavez_client::outbox::{Outbox, OutboxError, OutboxLimits};

use crate::shop::{Server, Shop, Step, sent, state, worker};

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_named_and_nothing_is_sent_that_was_not_put() {
    let (shop, server) = (Shop::new(), Server::new([]));
    let outbox = shop.open();
    // As SQLite meets a full disk: a file that may not grow.
    let full = |db: &unavez_client::outbox::rusqlite::Connection| {
        let pages: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        db.pragma_update(None, "max_page_count", pages).unwrap();
    };
    let mut db = shop.sql();
    full(&db);
    let tx = db.transaction().unwrap();
    let large = shop.charge("o-1").with_body("x".repeat(100_000));
    let error = outbox.put_in(&tx, &large).unwrap_err();
    assert!(error.is_temporary(), "{error}");
    let said = error.to_string();
    assert!(said.starts_with("putting an operation into `") && said.contains("full"), "{said}");
    assert!(!said.contains("xxx"), "{said}");
    drop(tx);
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap(), None);
    assert_eq!(server.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_stored_is_found_again_under_the_same_key() {
    let (shop, server) = (Shop::new(), Server::new([Step::Say(201), Step::Say(201)]));
    let outbox = shop.open();
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let refuse = "create trigger refuse before update of state on unavez_outbox_operations
        begin select raise(abort, 'no room'); end";
    shop.sql().execute_batch(refuse).unwrap();
    let error = worker(&outbox, &server).deliver_one().await.unwrap_err();
    assert!(error.to_string().starts_with("storing a result in `"), "{error}");
    shop.sql().execute_batch("drop trigger refuse").unwrap();
    tokio::time::advance(std::time::Duration::from_secs(15)).await;
    worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert_eq!(server.requests(), [sent("o-1"), sent("o-1")]);
    assert_eq!(state(&outbox, "o-1").await, "done 201");
}

#[test]
fn a_file_that_cannot_be_opened_is_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| Outbox::open(folder.path().join(name), OutboxLimits::default()).unwrap_err();
    let error = open("missing/outbox.db");
    assert!(error.to_string().contains("missing/outbox.db`: unable to open database file"), "{error}");
    fs::write(folder.path().join("text"), "no database, and longer than its head would be ".repeat(4))
        .unwrap();
    let error = open("text");
    assert!(error.to_string().contains("file is not a database"), "{error}");
}

#[test]
fn tables_of_a_newer_program_are_not_touched() {
    let shop = Shop::new();
    drop(shop.open());
    shop.sql().execute("update unavez_outbox set format = 2", []).unwrap();
    let error = Outbox::open(shop.path(), OutboxLimits::default()).unwrap_err();
    assert!(matches!(error, OutboxError::UnknownFormat { format: 2, known: 1 }), "{error}");
}

#[cfg(unix)]
#[test]
fn a_new_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let shop = Shop::new();
    drop(shop.open());
    assert_eq!(fs::metadata(shop.path()).unwrap().permissions().mode() & 0o777, 0o600);
}
