//! Any history of calls ends the same in every store: memory, SQLite in memory, SQLite in a file, and SQLite that
//! remembers nothing. Four implementations of one table, so a difference is a fault of one of them.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Exposure, Fence, Finish};
use unavez_store::clock::ManualClock;
use unavez_store::memory::MemoryStore;
use unavez_store::sqlite::{Location, Options, SqliteStore};
use unavez_store::{Filter, Store};

/// One call, with small numbers for its arguments so that calls meet.
#[derive(Clone, Debug)]
enum Step {
    Swap { key: u8, fence: Naming, change: Kind, attempt: u8, seconds: u16 },
    Advance { seconds: u16 },
    Purge { limit: u8 },
    Due { limit: u8 },
}

/// Which fence a call names.
#[derive(Clone, Copy, Debug)]
enum Naming {
    Nothing,
    Current,
    Other,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Claim,
    ClaimContained,
    TakeOver,
    Finish,
    Release,
    MarkPending,
    MarkCutOff,
    AskAgain,
    Stamp,
    Abandon,
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec![
        Kind::Claim,
        Kind::Claim,
        Kind::ClaimContained,
        Kind::TakeOver,
        Kind::Finish,
        Kind::Finish,
        Kind::Release,
        Kind::MarkPending,
        Kind::MarkCutOff,
        Kind::AskAgain,
        Kind::Stamp,
        Kind::Abandon,
    ]);
    let fence = prop::sample::select(vec![Naming::Nothing, Naming::Current, Naming::Current, Naming::Other]);
    prop_oneof![
        8 => (0..4_u8, fence, kind, any::<u8>(), 1..90_u16).prop_map(|(key, fence, change, attempt, seconds)| {
            Step::Swap { key, fence, change, attempt, seconds }
        }),
        3 => (1..40_u16).prop_map(|seconds| Step::Advance { seconds }),
        1 => (0..5_u8).prop_map(|limit| Step::Purge { limit }),
        1 => (0..5_u8).prop_map(|limit| Step::Due { limit }),
    ]
}

fn name(key: u8) -> (Tenant, Key, RecordId) {
    let tenant = Tenant::parse(if key.is_multiple_of(2) { "even" } else { "odd" }).unwrap();
    let key = Key::parse_path(&format!("k{key}")).unwrap();
    let id = RecordId::of(&Realm::parse("histories").unwrap(), &tenant, &key);
    (tenant, key, id)
}

fn change(kind: Kind, key: u8, attempt: u8, length: Duration) -> Change {
    let attempt = AttemptId::from_bytes([attempt; 16]);
    let timing = AttemptTiming { operation_timeout: length, attempt_deadline: length / 6 * 5 };
    let claim = |exposure| {
        let (tenant, key, _) = name(key);
        let request = RequestParts {
            method: "POST",
            path: "/",
            query: None,
            content_type: None,
            content_encoding: None,
            body: key.as_str().as_bytes(),
        };
        let fingerprint = Fingerprint::of(&request, &Rules::default()).unwrap();
        Change::Claim(Claim { tenant, key, fingerprint, attempt, timing, exposure })
    };
    match kind {
        Kind::Claim => claim(Exposure::MayBeSent),
        Kind::ClaimContained => claim(Exposure::Contained),
        Kind::TakeOver => Change::TakeOver { attempt, timing },
        Kind::Finish => Change::Finish(Finish {
            conclusion: Conclusion::Declined,
            answer: Answer {
                status: 402,
                content: Content::Kept {
                    headers: vec![("a".into(), Bytes::from_static(b"b"))],
                    body: Bytes::new(),
                },
            },
            response_ttl: length,
            resource: None,
        }),
        Kind::Release => Change::Release,
        Kind::MarkPending => Change::MarkUnknown { cause: Cause::Pending, ask_after: length },
        Kind::MarkCutOff => Change::MarkUnknown { cause: Cause::CutOff, ask_after: length },
        Kind::AskAgain => Change::AskAgain { cause: Cause::CutOff, after: length, sighted: true },
        Kind::Stamp => Change::StampDeadline { operation_timeout: length },
        Kind::Abandon => Change::Abandon,
    }
}

/// Everything a store says during a history and holds after it.
async fn told(store: &dyn Store, clock: &ManualClock, steps: &[Step]) -> Vec<String> {
    let mut told = Vec::new();
    for step in steps {
        match *step {
            Step::Swap { key, fence, change: kind, attempt, seconds } => {
                let (_, _, id) = name(key);
                let current = store.load(id).await.unwrap().record.map(|record| record.fence);
                let expected = match fence {
                    Naming::Nothing => None,
                    Naming::Current => current,
                    Naming::Other => Some(Fence { version: 1, attempt: AttemptId::from_bytes([77; 16]) }),
                };
                let change = change(kind, key, attempt, Duration::from_secs(seconds.into()));
                told.push(format!("{:?}", store.swap(id, expected, change).await));
            }
            Step::Advance { seconds } => clock.advance(Duration::from_secs(seconds.into())),
            // Which of several equally old records go first is nobody's promise: all or none.
            Step::Purge { limit } => {
                let limit = if limit == 0 { 0 } else { usize::MAX };
                told.push(format!("{:?}", store.purge(limit).await));
            }
            Step::Due { limit } => told.push(format!("{:?}", store.due(limit.into()).await)),
        }
    }
    told.push(format!("{:?}", store.list(Filter::default(), None, 100).await));
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn p11_every_store_tells_the_same_history(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::new();
            let expected = told(&MemoryStore::with_clock(Arc::new(clock.clone())), &clock, &steps).await;
            let folder = tempfile::tempdir().unwrap();
            let file = |name: &str| Location::File(folder.path().join(name));
            for (location, recent_bytes_max) in
                [(Location::Memory, 1 << 20), (file("a.db"), 1 << 20), (file("b.db"), 0)]
            {
                let clock = ManualClock::new();
                let options = Options {
                    clock: Some(Arc::new(clock.clone())),
                    recent_bytes_max,
                    ..Options::default()
                };
                let store = SqliteStore::open(location.clone(), options).unwrap();
                assert_eq!(told(&store, &clock, &steps).await, expected, "{location:?}, {recent_bytes_max}");
            }
        });
    }
}
