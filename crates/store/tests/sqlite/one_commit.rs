//! One-commit mode and transactions with business rows (P8, P11, P14).

use std::sync::Arc;

use unavez_core::record::{Change, Finish};
use unavez_store::clock::ManualClock;
use unavez_store::sqlite::{
    Abort, Claimed, FinishInError, OneCommit, Options, SqliteStore, TransactionError, WriteTx, finish_in,
};
use unavez_store::{Store, StoreError, Swap};

use crate::support::{
    BUSINESS, Folder, RESPONSE_TTL, claim, finish, finished, forgetful, id, in_one_batch, load, on, swapped,
};

fn book(tx: &WriteTx<'_>, claimed: &Claimed, amount: i64) -> rusqlite::Result<usize> {
    tx.prepare_cached("insert into charges (record, amount) values (?1, ?2)")?
        .execute((claimed.id.as_bytes(), amount))
}

fn charge(tx: &WriteTx<'_>, claimed: &Claimed) -> Result<Finish, Abort<&'static str>> {
    book(tx, claimed, 500)?;
    Ok(finish("charged"))
}

async fn shop(folder: &Folder, options: Options) -> SqliteStore {
    let store = folder.open(options).unwrap();
    store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
    store
}

#[tokio::test]
async fn p8_effect_record_and_answer_are_one_commit() {
    let folder = Folder::new();
    let store = shop(&folder, forgetful(Options::default())).await;
    let commits = store.stats().commits;
    let done = store.claim_and_finish(id("k1"), claim("k1", 1), charge).await.unwrap();
    let OneCommit::Finished { record, now } = done else { panic!("{done:?}") };
    assert_eq!(store.stats().commits, commits + 1);
    assert_eq!((record.fence.version, record.created_at), (2, now));
    assert_eq!(load(&store, "k1").await, Some(Arc::clone(&record)));

    let again = store.claim_and_finish(id("k1"), claim("k1", 2), charge).await.unwrap();
    assert!(matches!(again, OneCommit::Conflict { record: standing, .. } if standing == record));
    assert_eq!((folder.charges(), store.stats().commits), (1, commits + 1));
}

#[tokio::test]
async fn p4_one_commit_does_not_answer_from_anothers_record() {
    let folder = Folder::new();
    for options in [Options::default(), forgetful(Options::default())] {
        let store = folder.open(options).unwrap();
        store
            .transaction(|tx| {
                tx.execute_batch(&BUSINESS.replace("create table", "create table if not exists"))
            })
            .await
            .unwrap();
        drop(store.claim_and_finish(id("k1"), claim("k1", 1), charge).await.unwrap());
        let other = store.claim_and_finish(id("k1"), claim("k2", 2), charge).await;
        assert!(matches!(other, Err(StoreError::Collision(hash)) if hash == id("k1")), "{other:?}");
        store.close().await;
    }
    assert_eq!(folder.charges(), 1);
}

#[tokio::test]
async fn p14_a_refusal_rolls_back_its_rows_and_leaves_the_key_free() {
    let folder = Folder::new();
    let store = shop(&folder, Options::default()).await;
    let refused = store
        .claim_and_finish(id("k1"), claim("k1", 1), |tx, claimed| {
            book(tx, claimed, 500)?;
            Err(Abort::Refuse("no money"))
        })
        .await
        .unwrap();
    assert!(matches!(refused, OneCommit::Refused("no money")));
    assert_eq!((folder.charges(), load(&store, "k1").await), (0, None));

    let failed = store
        .claim_and_finish(id("k1"), claim("k1", 1), |tx, claimed| -> Result<Finish, Abort<()>> {
            book(tx, claimed, 500)?;
            tx.execute("insert into charges (record, amount) values (null, 1)", [])?;
            Ok(finish("unreachable"))
        })
        .await;
    assert!(matches!(failed, Err(StoreError::RolledBack(_))), "{failed:?}");
    assert_eq!((folder.charges(), load(&store, "k1").await), (0, None));
    store.claim_and_finish(id("k1"), claim("k1", 1), charge).await.unwrap();
    assert_eq!(folder.charges(), 1);
}

#[tokio::test]
async fn p8_equal_keys_in_one_batch_have_one_effect() {
    let folder = Folder::new();
    for (key, options) in [("k1", Options::default()), ("k2", forgetful(Options::default()))] {
        let store = folder.open(options).unwrap();
        store.transaction(|tx| tx.execute_batch("drop table if exists charges")).await.unwrap();
        store.transaction(|tx| tx.execute_batch(BUSINESS)).await.unwrap();
        let calls = (1..=20).map(|number| {
            let store = store.clone();
            async move { store.claim_and_finish(id(key), claim(key, number), charge).await.unwrap() }
        });
        let results = in_one_batch(&store, calls.collect()).await;
        let won = results.iter().filter(|it| matches!(it, OneCommit::Finished { .. })).count();
        assert_eq!((won, folder.charges()), (1, 1));
        assert!(results.iter().all(|it| !matches!(it, OneCommit::Refused(_))));
        store.close().await;
    }
}

#[tokio::test]
async fn c21_of_many_repeats_of_an_expired_key_one_runs() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = shop(&folder, on(&clock)).await;
    store.claim_and_finish(id("k1"), claim("k1", 1), charge).await.unwrap();
    clock.advance(RESPONSE_TTL);
    let calls = (2..=20).map(|number| {
        let store = store.clone();
        async move { store.claim_and_finish(id("k1"), claim("k1", number), charge).await.unwrap() }
    });
    let results = in_one_batch(&store, calls.collect()).await;
    assert_eq!(results.iter().filter(|it| matches!(it, OneCommit::Finished { .. })).count(), 1);
    assert_eq!(folder.charges(), 2);
}

#[tokio::test]
async fn p12_a_one_commit_call_in_doubt_is_resolved_by_its_attempt_id() {
    let folder = Folder::new();
    let store = shop(&folder, Options::default()).await;
    store.claim_and_finish(id("k1"), claim("k1", 7), charge).await.unwrap();
    let again = store.claim_and_finish(id("k1"), claim("k1", 7), charge).await.unwrap();
    let OneCommit::Conflict { record, .. } = again else { panic!("{again:?}") };
    assert_eq!(record.fence.attempt, claim("k1", 7).attempt);
}

#[tokio::test]
async fn c18_an_overtaken_owner_keeps_no_business_row() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = shop(&folder, on(&clock)).await;
    let slow = swapped(&store, "k1", None, Change::Claim(claim("k1", 1))).await;
    clock.advance(crate::support::OPERATION_TIMEOUT);
    let timing = claim("k1", 2).timing;
    let taken = swapped(
        &store,
        "k1",
        Some(slow.fence),
        Change::TakeOver { attempt: crate::support::attempt(2), timing },
    )
    .await;

    let finish_as = |fence| {
        move |tx: &WriteTx<'_>| {
            tx.execute("insert into charges (record, amount) values (x'00', 500)", [])?;
            finish_in(tx, id("k1"), fence, finish("late"))
        }
    };
    let late = store.transaction(finish_as(slow.fence)).await;
    let Err(TransactionError::Refused(FinishInError::Overtaken { record })) = late else {
        panic!("{late:?}")
    };
    assert_eq!((record, folder.charges()), (Some(Arc::clone(&taken)), 0));

    let done = store.transaction(finish_as(taken.fence)).await.unwrap();
    assert_eq!((load(&store, "k1").await, folder.charges()), (Some(done), 1));
}

#[tokio::test]
async fn c18_two_equal_keys_in_one_batch_have_one_winner() {
    let folder = Folder::new();
    for (key, options) in [("k1", Options::default()), ("k2", forgetful(Options::default()))] {
        let store = folder.open(options).unwrap();
        let calls = (1..=2).map(|number| {
            let store = store.clone();
            async move { store.swap(id(key), None, Change::Claim(claim(key, number))).await.unwrap() }
        });
        let results = in_one_batch(&store, calls.collect()).await;
        let [Swap::Swapped { record: won, .. }, Swap::Conflict { record: Some(met), .. }] =
            results.as_slice()
        else {
            panic!("{results:?}");
        };
        assert_eq!(won, met);
        store.close().await;
    }
}

#[tokio::test]
async fn c16_a_lost_race_is_told_the_record_and_never_overwrites() {
    let folder = Folder::new();
    let store = folder.open(forgetful(Options::default())).unwrap();
    let record = finished(&store, "k1").await;
    let calls = (2..=9).map(|number| {
        let store = store.clone();
        async move { store.swap(id("k1"), None, Change::Claim(claim("k1", number))).await.unwrap() }
    });
    for lost in in_one_batch(&store, calls.collect()).await {
        assert!(matches!(lost, Swap::Conflict { record: Some(met), .. } if met == record));
    }
    assert_eq!(load(&store, "k1").await, Some(record));
}

#[tokio::test]
async fn a_conflict_commits_nothing() {
    let folder = Folder::new();
    let store = folder.open(forgetful(Options::default())).unwrap();
    finished(&store, "k1").await;
    let commits = store.stats().commits;
    for number in 2..9 {
        store.swap(id("k1"), None, Change::Claim(claim("k1", number))).await.unwrap();
    }
    assert_eq!(store.stats().commits, commits);
}
