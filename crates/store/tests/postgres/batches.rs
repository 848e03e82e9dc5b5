//! Calls of many callers and of several processes in one statement.

use std::collections::HashMap;
use std::time::Duration;

use test_postgres::Server;
use tokio_postgres::NoTls;
use unavez_core::record::{Cause, Change};
use unavez_store::postgres::finish_in;
use unavez_store::{Store, StoreError, Swap};

use crate::support::{Call, claim, claimed, finish, id, loaded, open, together};

#[tokio::test]
async fn c103_one_refused_command_does_not_fail_its_neighbours() {
    let database = Server::shared().database();
    let store = open(&database).await;
    let mut calls = Vec::new();
    for number in 0..40 {
        let key = format!("k{number}");
        let fence = claimed(&store, &key, 1).await.fence;
        // A column of text takes no NUL; the body, which is bytes, does in all of them.
        let resource = if number == 17 { "ch_\0" } else { "ch_1" };
        let change = Change::Finish(finish(resource));
        calls.push(Call { store: store.clone(), key, expected: Some(fence), change });
    }
    for (number, result) in together(calls).await.into_iter().enumerate() {
        match result {
            Ok(Swap::Swapped { record, .. }) if number != 17 => {
                assert_eq!(loaded(&store, &format!("k{number}")).await, Some(record));
            }
            Err(StoreError::RolledBack(why)) if number == 17 => assert!(why.contains("22021"), "{why}"),
            other => panic!("{number}: {other:?}"),
        }
    }
    assert_eq!(loaded(&store, "k17").await.unwrap().state.name(), "in_progress");
}

#[tokio::test]
async fn p8_further_claims_of_a_key_in_a_batch_are_decided_against_the_first() {
    let database = Server::shared().database();
    let store = open(&database).await;
    let call = |number: u128| Call {
        store: store.clone(),
        key: "k1".to_owned(),
        expected: None,
        change: claim("k1", number),
    };
    let mut results = together((1..=20).map(call).collect()).await.into_iter();
    let Some(Ok(Swap::Swapped { record: winner, .. })) = results.next() else { panic!("the first wins") };
    for result in results {
        let Ok(Swap::Conflict { record: Some(record), .. }) = result else { panic!("{result:?}") };
        assert_eq!(record, winner);
    }
    // One statement created it, although nineteen others asked.
    assert_eq!(database.query("select count(*), min(version) from idempotency_records"), "1|1");
}

/// A handler's own transaction holds the record it has finished until it commits, however long that takes.
#[tokio::test]
async fn c103_a_record_that_an_open_transaction_holds_does_not_hold_its_neighbours() {
    let database = Server::shared().database();
    let store = open(&database).await;
    let (mut client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let held = claimed(&store, "held", 1).await.fence;
    let tx = client.transaction().await.unwrap();
    finish_in(&tx, id("held"), held, finish("ch_1")).await.unwrap();

    let mut calls = Vec::new();
    for number in 0..20 {
        let key = if number == 7 { "held".to_owned() } else { format!("k{number}") };
        let fence = if number == 7 { held } else { claimed(&store, &key, 1).await.fence };
        let change = Change::Finish(finish("ch_2"));
        calls.push(Call { store: store.clone(), key, expected: Some(fence), change });
    }
    for (number, result) in together(calls).await.into_iter().enumerate() {
        match result {
            Ok(Swap::Swapped { .. }) if number != 7 => {}
            Err(StoreError::Unavailable(why)) if number == 7 => assert!(why.contains("55P03"), "{why}"),
            other => panic!("{number}: {other:?}"),
        }
    }
    for change in [Change::Release, Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::ZERO }] {
        let refused = store.swap(id("held"), Some(held), change).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
    let patience: String = tx.query_one("show lock_timeout", &[]).await.unwrap().get(0);
    assert_eq!(patience, "0", "the caller's transaction keeps its settings");
    tx.rollback().await.unwrap();
    let change = Change::Finish(finish("ch_3"));
    assert!(matches!(store.swap(id("held"), Some(held), change).await, Ok(Swap::Swapped { .. })));
}

/// Two processes claim the same keys at once, in opposite orders, under the isolation of a distributed database.
async fn race_of_two(settings: &[&str]) {
    let database = Server::shared().database_with(settings);
    let stores = [open(&database).await, open(&database).await];
    let mut winners = HashMap::new();
    for round in 0..10 {
        let mut calls = Vec::new();
        for number in 0..60 {
            for (owner, key) in [(0, number), (1, 59 - number)] {
                let key = format!("r{round}-{key}");
                let change = claim(&key, owner as u128 + 1);
                calls.push(Call { store: stores[owner].clone(), key, expected: None, change });
            }
        }
        let keys: Vec<String> = calls.iter().map(|call| call.key.clone()).collect();
        for (key, result) in keys.into_iter().zip(together(calls).await) {
            match result.unwrap() {
                Swap::Swapped { record, .. } => {
                    assert!(winners.insert(key, record).is_none(), "a key has one winner");
                }
                Swap::Conflict { record, .. } => assert!(record.is_some(), "the loser gets the record"),
            }
        }
    }
    assert_eq!(winners.len(), 600);
    for (key, record) in winners {
        assert_eq!(loaded(&stores[0], &key).await, Some(record));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_two_processes_claim_the_same_keys_and_each_has_one_winner() {
    race_of_two(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_also_where_every_transaction_is_serializable() {
    race_of_two(&["default_transaction_isolation = 'serializable'"]).await;
}

#[tokio::test]
async fn p12_a_call_whose_caller_left_before_it_was_sent_is_not_begun() {
    let database = Server::shared().database();
    let store = open(&database).await;
    let mut call = store.swap(id("k1"), None, claim("k1", 1));
    // Polled once it is queued; the lane has not run yet on this thread.
    assert!(
        std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context)))
            .await
            .is_pending()
    );
    drop(call);
    assert_eq!(claimed(&store, "k1", 2).await.fence.attempt, crate::support::attempt(2));
}

#[tokio::test]
async fn c59_two_processes_share_a_purge() {
    let database = Server::shared().database();
    let stores = [open(&database).await, open(&database).await];
    for number in 0..50 {
        let key = format!("k{number}");
        let fence = claimed(&stores[0], &key, 1).await.fence;
        let change = Change::Finish(finish("ch_1"));
        stores[0].swap(id(&key), Some(fence), change).await.unwrap();
    }
    database.query("update idempotency_records set expires_at = finished_at");
    let (one, other) = tokio::join!(stores[0].purge(50), stores[1].purge(50));
    assert_eq!(one.unwrap().deleted + other.unwrap().deleted, 50);
    assert_eq!(database.query("select count(*) from idempotency_records"), "0");
}
