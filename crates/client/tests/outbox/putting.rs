//! What can be put, and what is found afterwards.

use std::time::Duration;

use unavez_client::outbox::rusqlite::{Connection, TransactionBehavior};
use unavez_client::outbox::{Backlog, End, OutboxError, OutboxLimits, Standing};

use crate::shop::{HOUR, Server, Shop, Step, key, sent, state, worker};

#[tokio::test(start_paused = true)]
async fn p29_what_was_put_is_sent_as_it_was_and_its_answer_kept() {
    let (shop, server) = (Shop::new(), Server::new([]));
    let outbox = shop.open();
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let delivered = worker(&outbox, &server).deliver_one().await.unwrap().unwrap();
    assert_eq!((&*delivered.key, delivered.end), ("charge:o-1", End::Done));
    assert_eq!(server.requests(), [sent("o-1")]);
    let Some(Standing::Done(answer)) = shop.open().find(&key("o-1")).await.unwrap() else { panic!() };
    assert_eq!((answer.headers()["x-answer"].to_str().unwrap(), &answer.body()[..]), ("kept", &b"paid"[..]));
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn p29_an_operation_and_the_callers_rows_exist_together_or_not_at_all() {
    let (shop, server) = (Shop::new(), Server::new([]));
    let outbox = shop.open();
    let mut db = shop.sql();
    db.execute_batch("create table orders (id text primary key) strict").unwrap();
    for (order, commits) in [("o-1", false), ("o-2", true)] {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("insert into orders values (?1)", [order]).unwrap();
        outbox.put_in(&tx, &shop.charge(order)).unwrap();
        if commits {
            tx.commit().unwrap();
        }
    }
    while worker(&outbox, &server).deliver_one().await.unwrap().is_some() {}
    assert_eq!(server.requests(), [sent("o-2")]);
    assert_eq!((&*state(&outbox, "o-1").await, &*state(&outbox, "o-2").await), ("none", "done 201"));
    let Some(Standing::Done(_)) = outbox.find_in(&db, &key("o-2")).unwrap() else { panic!() };
}

#[tokio::test(start_paused = true)]
async fn p29_a_transaction_that_is_not_synced_or_of_another_file_is_refused() {
    let shop = Shop::new();
    let outbox = shop.open();
    let mut db = shop.sql();
    db.pragma_update(None, "synchronous", "normal").unwrap();
    let error = outbox.put_in(&db.transaction().unwrap(), &shop.charge("o-1")).unwrap_err();
    assert!(matches!(error, OutboxError::NotSynced { synchronous: 1 }), "{error}");
    let mut other = Connection::open_in_memory().unwrap();
    let error = outbox.put_in(&other.transaction().unwrap(), &shop.charge("o-1")).unwrap_err();
    assert!(matches!(error, OutboxError::OtherFile { .. }), "{error}");
    assert_eq!(state(&outbox, "o-1").await, "none");
}

#[tokio::test(start_paused = true)]
async fn p29_putting_again_changes_nothing_and_another_request_is_refused() {
    let (shop, server) = (Shop::new(), Server::new([]));
    let outbox = shop.open();
    outbox.put(&shop.charge("o-1")).await.unwrap();
    shop.set_forth(HOUR);
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let other = shop.charge("o-1").with_body("{}");
    let error = outbox.put(&other).await.unwrap_err();
    assert_eq!(error.to_string(), "key `charge:o-1` stands in the outbox already, for another request");
    outbox.of_tenant("another").put(&other).await.unwrap();
    while worker(&outbox, &server).deliver_one().await.unwrap().is_some() {}
    outbox.put(&shop.charge("o-1")).await.unwrap();
    assert_eq!(worker(&outbox, &server).deliver_one().await.unwrap(), None);
    assert_eq!(server.requests(), [sent("o-1")]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_resumed_or_is_too_much_is_not_taken() {
    let shop = Shop::new();
    let outbox =
        shop.open_with(OutboxLimits { waiting_max: 1, body_bytes_max: 15, ..OutboxLimits::default() });
    let error = outbox.put(&shop.charge("o-1").without_key()).await.unwrap_err();
    assert!(matches!(error, OutboxError::NoKey) && !error.is_temporary(), "{error}");
    let error = outbox.put(&shop.charge("o-1").with_body("x".repeat(16))).await.unwrap_err();
    assert_eq!(error.to_string(), "body has 16 bytes, the outbox takes 15");
    outbox.put(&shop.charge("o-1")).await.unwrap();
    let error = outbox.put(&shop.charge("o-2")).await.unwrap_err();
    assert_eq!(error.to_string(), "1 operations wait in the outbox already");
    assert!(error.is_temporary());
    let oldest_waiting = Some(Duration::ZERO);
    assert_eq!(outbox.backlog().await.unwrap(), Backlog { waiting: 1, unknown: 0, oldest_waiting });
}

#[tokio::test(start_paused = true)]
async fn done_ones_are_purged_after_a_time_and_open_ones_never() {
    let (shop, server) = (Shop::new(), Server::new([Step::Say(201), Step::Say(422), Step::Say(503)]));
    let outbox = shop.open_with(OutboxLimits { answers_kept: 2 * HOUR, ..OutboxLimits::default() });
    for order in ["o-1", "o-2", "o-3"] {
        outbox.put(&shop.charge(order)).await.unwrap();
        worker(&outbox, &server).deliver_one().await.unwrap();
    }
    assert_eq!(state(&outbox, "o-2").await, "refused 422");
    shop.set_forth(HOUR);
    assert_eq!(outbox.purge().await.unwrap(), 0);
    shop.set_forth(2 * HOUR);
    assert_eq!(outbox.purge().await.unwrap(), 2);
    assert_eq!((&*state(&outbox, "o-1").await, &*state(&outbox, "o-3").await), ("none", "waiting, 1 calls"));
}
