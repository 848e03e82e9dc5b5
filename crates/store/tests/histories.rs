//! Any history of calls ends the same in every store: memory, SQLite in memory, SQLite in a file, SQLite that remembers
//! nothing, SQLite that files its indexes all the time and is closed or killed now and then, and PostgreSQL, opened anew
//! now and then. Implementations of one table, so a difference is a fault of one of them.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "postgres")]
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Exposure, Fence, Finish};
use unavez_store::clock::{Clock, ManualClock};
use unavez_store::memory::MemoryStore;
#[cfg(feature = "postgres")]
use unavez_store::postgres::{self, PostgresStore};
use unavez_store::sqlite::{Location, Options, SqliteStore};
use unavez_store::{Filter, Store};

/// One call, with small numbers for its arguments so that calls meet.
#[derive(Clone, Debug)]
enum Step {
    Swap {
        key: u8,
        fence: Naming,
        change: Kind,
        attempt: u8,
        seconds: u16,
    },
    Advance {
        seconds: u16,
    },
    Purge {
        limit: u8,
    },
    Due {
        limit: u8,
    },
    /// A store in a file is closed and opened again.
    Reopen(Ending),
}

/// How a process that owns a file ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Closed,
    /// Its files are taken as they lie there, as a process finds them whose predecessor was killed.
    Killed,
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

/// Few, so that calls meet.
const KEYS: u8 = 6;

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
        12 => (0..KEYS, fence, kind, any::<u8>(), 1..90_u16).prop_map(|(key, fence, change, attempt, seconds)| {
            Step::Swap { key, fence, change, attempt, seconds }
        }),
        3 => (1..40_u16).prop_map(|seconds| Step::Advance { seconds }),
        1 => (0..5_u8).prop_map(|limit| Step::Purge { limit }),
        1 => (0..5_u8).prop_map(|limit| Step::Due { limit }),
        1 => prop::sample::select(vec![Ending::Closed, Ending::Killed]).prop_map(Step::Reopen),
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

/// A store, and how to begin it anew.
enum Subject {
    Memory(MemoryStore),
    Sqlite {
        store: SqliteStore,
        at: Place,
        clock: ManualClock,
        folder: tempfile::TempDir,
        lives: u32,
    },
    #[cfg(feature = "postgres")]
    Postgres {
        store: PostgresStore,
        url: String,
        clock: ManualClock,
    },
}

/// Where a SQLite store lives, and what it remembers.
#[derive(Clone, Copy, Debug)]
enum Place {
    Memory,
    File { recent_bytes_max: usize, unfiled_least: usize },
}

impl Place {
    fn open(self, folder: &Path, clock: &ManualClock, life: u32) -> SqliteStore {
        let clock: Option<Arc<dyn Clock>> = Some(Arc::new(clock.clone()));
        match self {
            Self::Memory => {
                SqliteStore::open(Location::Memory, Options { clock, ..Options::default() }).unwrap()
            }
            Self::File { recent_bytes_max, unfiled_least } => {
                let options = Options { clock, recent_bytes_max, unfiled_least, ..Options::default() };
                SqliteStore::open(Location::File(database(folder, life)), options).unwrap()
            }
        }
    }
}

fn database(folder: &Path, life: u32) -> PathBuf {
    folder.join(format!("{life}.db"))
}

impl Subject {
    fn sqlite(at: Place) -> Self {
        let (clock, folder) = (ManualClock::new(), tempfile::tempdir().unwrap());
        let store = at.open(folder.path(), &clock, 0);
        Self::Sqlite { store, at, clock, folder, lives: 0 }
    }

    fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => store,
            Self::Sqlite { store, .. } => store,
            #[cfg(feature = "postgres")]
            Self::Postgres { store, .. } => store,
        }
    }

    #[cfg(feature = "postgres")]
    /// One database for all histories, emptied for each: making one takes longer than most of them.
    async fn postgres() -> Self {
        static DATABASE: OnceLock<test_postgres::Database<'static>> = OnceLock::new();
        let database = DATABASE.get_or_init(|| test_postgres::Server::shared().database());
        let (url, clock) = (database.url(), ManualClock::new());
        let store = open_postgres(&url, &clock).await;
        database.query("truncate idempotency_records");
        Self::Postgres { store, url, clock }
    }

    async fn reopen(&mut self, ending: Ending) {
        #[cfg(feature = "postgres")]
        if let Self::Postgres { store, url, clock } = self {
            // Its process ends, whichever way: what it acknowledged is the server's.
            *store = open_postgres(url, clock).await;
        }
        let Self::Sqlite { store, at: at @ Place::File { .. }, clock, folder, lives } = self else { return };
        match ending {
            Ending::Closed => store.close().await,
            Ending::Killed => {
                let (old, new) = (database(folder.path(), *lives), database(folder.path(), *lives + 1));
                for suffix in ["", "-wal"] {
                    let with = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
                    fs::copy(with(&old), with(&new)).unwrap();
                }
                *lives += 1;
            }
        }
        *store = at.open(folder.path(), clock, *lives);
    }

    /// Ids with more than one row.
    fn doubled(&self) -> i64 {
        let Self::Sqlite { at: Place::File { .. }, folder, lives, .. } = self else { return 0 };
        let sql = "select count(*) - count(distinct id) from idempotency_records";
        let beside = rusqlite::Connection::open(database(folder.path(), *lives)).unwrap();
        beside.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str, clock: &ManualClock) -> PostgresStore {
    let clock = Some(Arc::new(clock.clone()) as _);
    let options = postgres::Options { migrate: postgres::Migrate::Auto, clock, ..Default::default() };
    PostgresStore::open(postgres::Location::parse(url).unwrap(), options).await.unwrap()
}

/// Everything a store says during a history and holds after it.
async fn told(subject: &mut Subject, clock: &ManualClock, steps: &[Step]) -> Vec<String> {
    let mut told = Vec::new();
    for step in steps {
        let store = subject.store();
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
            // Nor which of several equally old ones comes first: how many, and of which.
            Step::Due { limit } => {
                let some = store.due(limit.into()).await.unwrap();
                let mut all = store.due(usize::MAX).await.unwrap().records;
                all.sort_by_key(|record| record.id);
                told.push(format!("{} of {all:?}", some.records.len()));
            }
            Step::Reopen(ending) => subject.reopen(ending).await,
        }
    }
    told.push(format!("{:?}", subject.store().list(Filter::default(), None, 100).await));
    assert_eq!(subject.doubled(), 0, "one row for each key");
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn p8_p11_every_store_tells_the_same_history(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = ManualClock::new();
            let mut memory = Subject::Memory(MemoryStore::with_clock(Arc::new(clock.clone())));
            let expected = told(&mut memory, &clock, &steps).await;
            for at in [
                Place::Memory,
                Place::File { recent_bytes_max: 1 << 20, unfiled_least: 65_536 },
                Place::File { recent_bytes_max: 0, unfiled_least: 3 },
                Place::File { recent_bytes_max: 0, unfiled_least: 1 },
            ] {
                let mut subject = Subject::sqlite(at);
                let Subject::Sqlite { clock, .. } = &subject else { unreachable!("made just now") };
                let clock = clock.clone();
                assert_eq!(told(&mut subject, &clock, &steps).await, expected, "{at:?}");
            }
            #[cfg(feature = "postgres")]
            {
                let mut subject = Subject::postgres().await;
                let Subject::Postgres { clock, .. } = &subject else { unreachable!("made just now") };
                let clock = clock.clone();
                assert_eq!(told(&mut subject, &clock, &steps).await, expected, "PostgreSQL");
            }
        });
    }
}
