//! A server that is silent, or is killed and started again.

use std::sync::Arc;
use std::time::Duration;

use test_redis::Server;
use tokio::task::JoinSet;
use unavez_core::record::State;
use unavez_store::redis::Options;
use unavez_store::{Store, StoreError, Swap};

use crate::support::{claim, claimed, finish, finished, id, loaded, open, open_with};

/// Operations under way when the server is killed, for each kill.
const CALLERS: u32 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn c113_a_killed_server_loses_nothing_acknowledged_and_is_found_again() {
    let server = Arc::new(Server::start(&[]));
    let store = open(&server.database().url()).await.unwrap();
    for round in 0..3 {
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let store = store.clone();
            callers.spawn(async move {
                let key = format!("r{round}-{caller}");
                let claimed = store.swap(id(&key), None, claim(&key, 1)).await;
                let fence = match &claimed {
                    Ok(Swap::Swapped { record, .. }) => record.fence,
                    _ => return (key, claimed, None),
                };
                let finished = store.swap(id(&key), Some(fence), finish()).await;
                (key, claimed, Some(finished))
            });
        }
        // Some are done, the others meet the end of the server wherever they are.
        let mut told: Vec<_> = vec![callers.join_next().await.unwrap().unwrap()];
        let killed = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            killed.kill();
            killed.start_again();
        })
        .await
        .unwrap();
        told.extend(callers.join_all().await);
        for (key, claimed, finished) in told {
            let record = loaded(&store, &key).await;
            let is_finished = record.as_ref().is_some_and(|it| matches!(it.state, State::Finished { .. }));
            match claimed {
                Ok(_) => assert!(record.is_some(), "{key} was claimed"),
                Err(error) if error.may_have_happened() => {}
                Err(error) => assert_eq!(record, None, "{key}: {error}"),
            }
            match finished {
                Some(Ok(_)) => assert!(is_finished, "{key} was finished"),
                Some(Err(error)) if error.may_have_happened() => {}
                Some(Err(_)) | None => assert!(!is_finished, "{key} was not finished"),
            }
        }
    }
}

#[tokio::test]
async fn c113_without_a_server_nothing_happens_and_that_is_said() {
    let server = Server::start(&[]);
    let store = open(&server.database().url()).await.unwrap();
    let record = finished(&store, "k1").await;
    server.kill();
    // The first call may find the end of the connection; the next one finds nobody.
    store.load(id("k1")).await.unwrap_err();
    let refused = store.swap(id("k2"), None, claim("k2", 1)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    server.start_again();
    assert_eq!(loaded(&store, "k1").await, Some(record));
    assert_eq!(loaded(&store, "k2").await, None);
}

#[tokio::test]
async fn p12_a_call_without_an_answer_is_in_doubt_and_resolved_by_its_attempt_id() {
    let server = Server::start(&[]);
    let options = Options { answer_timeout: Duration::from_millis(200), ..Options::default() };
    let store = open_with(&server.database().url(), options).await.unwrap();
    claimed(&store, "before").await;
    server.freeze();
    let doubt = store.swap(id("k1"), None, claim("k1", 1)).await.unwrap_err();
    assert!(matches!(doubt, StoreError::InDoubt(_)), "{doubt:?}");
    server.wake();
    // What was sent before may be done before this, or after it: either way its owner knows.
    let record = match store.swap(id("k1"), None, claim("k1", 1)).await.unwrap() {
        Swap::Swapped { record, .. } => record,
        Swap::Conflict { record, .. } => record.unwrap(),
    };
    assert_eq!(loaded(&store, "k1").await, Some(record));
}
