//! Rows of a component that are found through the records' index, and outlive their records.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use unavez_core::record::Finish;
use unavez_store::Store as _;
use unavez_store::clock::ManualClock;
use unavez_store::sqlite::{
    Abort, Claimed, Component, FindRows as _, Guests, Migration, OneCommit, Options, SqliteStore, WriteTx,
};

use crate::support::{Folder, RESPONSE_TTL, claim, finish, forgetful, id, load, on};

const SHOP: Component = Component {
    name: "shop",
    migrations: &[Migration {
        number: 1,
        name: "visits",
        sql: "create table visits (id integer primary key, record blob not null) strict",
    }],
    indexes: &[],
    guests: Some(Guests {
        rows_after: "select record, id from visits where id > ?1",
        stand_at: "select exists (select 1 from visits where id = ?1)",
    }),
};

fn options(clock: &ManualClock, unfiled_least: usize) -> Options {
    Options { components: vec![SHOP], unfiled_least, ..forgetful(on(clock)) }
}

fn visit(tx: &WriteTx<'_>, claimed: &Claimed) -> Result<Finish, Abort<()>> {
    let mut insert = tx.prepare_cached("insert into visits (id, record) values (?1, ?2)")?;
    insert.execute((claimed.position, claimed.id.as_bytes()))?;
    Ok(finish("seen"))
}

fn pass_by(_: &WriteTx<'_>, _: &Claimed) -> Result<Finish, Abort<()>> {
    Ok(finish("not seen"))
}

/// Visits found under a key, by a reader.
async fn visits(store: &SqliteStore, key: &str) -> i64 {
    let (index, id) = (store.index_of_records().clone(), id(key));
    let count = move |db: &rusqlite::Connection| {
        let mut find = db.prepare_cached("select count(*) from visits where id = ?1 and record = ?2")?;
        let mut count = 0;
        for position in db.find_rows(&index, id.as_bytes())? {
            count += find.query_row((position, id.as_bytes()), |row| row.get::<_, i64>(0))?;
        }
        Ok(count)
    };
    store.read(count).await.unwrap()
}

/// Filed at once, filed now and then, not filed: with a purge after every tenth, a restart after every seventh and a kill
/// after every ninth operation.
#[tokio::test]
async fn p21_a_guest_is_found_whatever_became_of_its_record() {
    for unfiled_least in [1, 3, 1000] {
        let (mut folder, clock) = (Folder::new(), ManualClock::new());
        let mut store = folder.open(options(&clock, unfiled_least)).unwrap();
        for number in 1..=60 {
            let (visitor, other) = (format!("v{number}"), format!("o{number}"));
            let seen = store.claim_and_finish(id(&visitor), claim(&visitor, 1), visit).await.unwrap();
            assert!(matches!(seen, OneCommit::Finished { .. }));
            drop(store.claim_and_finish(id(&other), claim(&other, 1), pass_by).await.unwrap());
            if number % 10 == 0 {
                clock.advance(RESPONSE_TTL + Duration::from_secs(1));
                assert_eq!(store.purge(usize::MAX).await.unwrap().deleted, 20);
                // The key is used again: its new record stands elsewhere, and the guest where it stood.
                drop(store.claim_and_finish(id(&visitor), claim(&visitor, 2), pass_by).await.unwrap());
                assert!(load(&store, &visitor).await.is_some());
                clock.advance(RESPONSE_TTL + Duration::from_secs(1));
                assert_eq!(store.purge(usize::MAX).await.unwrap().deleted, 1);
            }
            if number % 7 == 0 {
                store.close().await;
                store = folder.open(options(&clock, unfiled_least)).unwrap();
            }
            if number % 9 == 0 {
                let found = Folder::new();
                for suffix in ["", "-wal"] {
                    let with = |path: std::path::PathBuf| format!("{}{suffix}", path.display());
                    fs::copy(with(folder.database()), with(found.database())).unwrap();
                }
                store.close().await;
                store = found.open(options(&clock, unfiled_least)).unwrap();
                folder = found;
            }
            for earlier in 1..=number {
                assert_eq!(visits(&store, &format!("v{earlier}")).await, 1, "v{earlier} at {number}");
                assert_eq!(visits(&store, &format!("o{earlier}")).await, 0);
            }
        }
        store.close().await;
        assert_eq!(entries_without_rows(&folder), 0, "what left no guest leaves no entry");
    }
}

fn entries_without_rows(folder: &Folder) -> i64 {
    let sql = "select count(*) from idempotency_records_by_id
        where position not in (select id from visits) and position not in (select position from idempotency_records)";
    folder.beside().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_follows_a_commit_does_not_follow_work_that_is_undone() {
    let (folder, clock) = (Folder::new(), ManualClock::new());
    let store = folder.open(options(&clock, 1)).unwrap();
    let told = Arc::new(AtomicU32::new(0));
    let visit_and_tell = |number: i64, refuses: bool| {
        let told = Arc::clone(&told);
        move |tx: &WriteTx<'_>| {
            tx.execute("insert into visits (id, record) values (?1, x'00')", [number]).map_err(|_| "sql")?;
            let told = Arc::clone(&told);
            tx.when_committed(move || {
                told.fetch_add(1, Ordering::SeqCst);
            });
            if refuses { Err("refused") } else { Ok(()) }
        }
    };
    store.transaction(visit_and_tell(1, false)).await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    let tell_and_refuse = {
        let told = Arc::clone(&told);
        move |tx: &WriteTx<'_>| {
            let told = Arc::clone(&told);
            tx.when_committed(move || {
                told.fetch_add(1, Ordering::SeqCst);
            });
            Err::<(), _>("refused")
        }
    };
    // In one batch with work that is committed.
    let (refused, done) = tokio::join!(
        store.repeatable_transaction(tell_and_refuse),
        store.transaction(visit_and_tell(3, false))
    );
    assert!(refused.is_err() && done.is_ok());
    assert_eq!(told.swap(1, Ordering::SeqCst), 2, "of two, one was committed");
    store.transaction(visit_and_tell(2, true)).await.unwrap_err();
    store.repeatable_transaction(visit_and_tell(2, true)).await.unwrap_err();
    assert_eq!(told.load(Ordering::SeqCst), 1, "nothing was committed");
    store.repeatable_transaction(visit_and_tell(2, false)).await.unwrap();
    assert_eq!(told.load(Ordering::SeqCst), 2);
}
