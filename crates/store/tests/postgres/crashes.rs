//! A server that is killed under load and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use test_postgres::Server;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use unavez_core::record::{Change, Fence, Record, State};
use unavez_store::postgres::PostgresStore;
use unavez_store::{Store, StoreError, Swap};

use crate::support::{attempt, claim, finish, id, loaded, open};

const CALLERS: u64 = 32;
const KILLS: u64 = 3;
/// Acknowledged operations between two kills.
const STRETCH: u64 = 150;

/// What a caller was told of one operation.
struct Told {
    key: String,
    claim: Word,
    finish: Option<Word>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Acknowledged,
    InDoubt,
    /// Nothing happened.
    Refused,
}

impl Word {
    fn of(result: &Result<Swap, StoreError>) -> Self {
        match result {
            Ok(Swap::Swapped { .. }) => Self::Acknowledged,
            Err(error) if error.may_have_happened() => Self::InDoubt,
            Err(StoreError::Unavailable(_)) => Self::Refused,
            other => panic!("keys are used once: {other:?}"),
        }
    }
}

/// Claims and finishes new keys until enough was acknowledged.
async fn call(
    store: PostgresStore,
    caller: u64,
    acknowledged: Arc<Acknowledged>,
    mut starts: watch::Receiver<u64>,
) -> Vec<Told> {
    let mut told = Vec::new();
    for number in 0.. {
        starts.borrow_and_update();
        if acknowledged.count.load(Ordering::SeqCst) >= STRETCH * (KILLS + 1) {
            break;
        }
        let key = format!("c{caller}-{number}");
        let claimed = store.swap(id(&key), None, claim(&key, caller.into())).await;
        let mut word = Told { key, claim: Word::of(&claimed), finish: None };
        if let Ok(Swap::Swapped { record, .. }) = claimed {
            let finish = Change::Finish(finish("ch_1"));
            word.finish = Some(Word::of(&store.swap(id(&word.key), Some(record.fence), finish).await));
        }
        if word.finish == Some(Word::Acknowledged) {
            acknowledged.count.fetch_add(1, Ordering::SeqCst);
            acknowledged.one_more.notify_one();
        }
        let was_refused = [Some(word.claim), word.finish].contains(&Some(Word::Refused));
        told.push(word);
        if was_refused && starts.changed().await.is_err() {
            break;
        }
    }
    told
}

#[derive(Default)]
struct Acknowledged {
    count: AtomicU64,
    one_more: Notify,
}

#[tokio::test(flavor = "multi_thread")]
async fn c113_a_server_killed_under_load_loses_nothing_acknowledged_and_is_found_again() {
    let server = Arc::new(Server::start(&[]));
    let store = open(&server.database()).await;
    let acknowledged = Arc::new(Acknowledged::default());
    let starts = watch::Sender::new(1);
    let mut callers = JoinSet::new();
    for caller in 1..=CALLERS {
        callers.spawn(call(store.clone(), caller, Arc::clone(&acknowledged), starts.subscribe()));
    }
    for kill in 1..=KILLS {
        while acknowledged.count.load(Ordering::SeqCst) < STRETCH * kill {
            acknowledged.one_more.notified().await;
        }
        let server = Arc::clone(&server);
        let killed = tokio::task::spawn_blocking(move || {
            server.kill();
            server.start_again();
        });
        killed.await.unwrap();
        starts.send_modify(|starts| *starts += 1);
    }
    let told: Vec<Told> = callers.join_all().await.into_iter().flatten().collect();
    for told in &told {
        check(&store, told).await;
    }
    let finished = told.iter().filter(|told| told.finish == Some(Word::Acknowledged)).count();
    assert!(finished as u64 >= STRETCH * (KILLS + 1), "{finished}");
}

/// What is stored agrees with what was said, and what was in doubt is resolved by a write that conflicts (P12).
async fn check(store: &PostgresStore, Told { key, claim: claimed, finish: finished }: &Told) {
    let record = loaded(store, key).await;
    let is_finished = record.as_ref().is_some_and(|record| matches!(record.state, State::Finished { .. }));
    match claimed {
        Word::Refused => assert_eq!(record, None, "{key} was refused"),
        Word::Acknowledged => assert!(record.is_some(), "{key} was claimed"),
        Word::InDoubt => resolve(store, key, record.as_deref()).await,
    }
    match finished {
        Some(Word::Acknowledged) => assert!(is_finished, "{key} was finished"),
        Some(Word::Refused) | None => assert!(!is_finished, "{key} was not finished"),
        Some(Word::InDoubt) => {}
    }
}

async fn resolve(store: &PostgresStore, key: &str, seen: Option<&Record>) {
    let caller = key.trim_start_matches('c').split('-').next().unwrap().parse().unwrap();
    let own = Fence { version: 1, attempt: attempt(caller) };
    match (store.swap(id(key), None, claim(key, caller)).await.unwrap(), seen) {
        (Swap::Swapped { record, .. }, None) => assert_eq!(record.fence, own, "{key}"),
        (Swap::Conflict { record: Some(record), .. }, Some(_)) => assert_eq!(record.fence, own, "{key}"),
        other => panic!("{key}: {other:?}"),
    }
}
