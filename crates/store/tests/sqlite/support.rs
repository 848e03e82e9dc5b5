//! A store in a folder of its own, and the operations the tests perform on it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::task::JoinHandle;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Change, Claim, Exposure, Fence, Finish, Record};
use unavez_store::clock::ManualClock;
use unavez_store::sqlite::{Location, OpenError, Options, SqliteStore};
use unavez_store::{Store, StoreError, Swap};

pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);
pub(crate) const RESPONSE_TTL: Duration = Duration::from_secs(24 * 3600);

/// A table of the tests' own business.
pub(crate) const BUSINESS: &str =
    "create table charges (record blob not null, amount integer not null) strict";

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.path().join("a.db")
    }

    pub(crate) fn open(&self, options: Options) -> Result<SqliteStore, OpenError> {
        SqliteStore::open(Location::File(self.database()), options)
    }

    /// A connection beside the store, as a tool would open it.
    pub(crate) fn beside(&self) -> Connection {
        let connection = Connection::open(self.database()).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    /// Rows of the tests' own business.
    pub(crate) fn charges(&self) -> i64 {
        self.beside().query_row("select count(*) from charges", [], |row| row.get(0)).unwrap()
    }
}

pub(crate) fn on(clock: &ManualClock) -> Options {
    Options { clock: Some(Arc::new(clock.clone())), ..Options::default() }
}

/// With no memory of recent records, every answer comes from the file.
pub(crate) fn forgetful(options: Options) -> Options {
    Options { recent_bytes_max: 0, ..options }
}

pub(crate) fn id(key: &str) -> RecordId {
    RecordId::of(&Realm::parse("test").unwrap(), &Tenant::single(), &Key::parse_path(key).unwrap())
}

pub(crate) fn attempt(number: u128) -> AttemptId {
    AttemptId::from_bytes(number.to_be_bytes())
}

pub(crate) fn claim(key: &str, number: u128) -> Claim {
    claim_for(key, number, OPERATION_TIMEOUT)
}

pub(crate) fn claim_for(key: &str, number: u128, operation_timeout: Duration) -> Claim {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("text/plain"),
        content_encoding: None,
        body: key.as_bytes(),
    };
    Claim {
        tenant: Tenant::single(),
        key: Key::parse_path(key).unwrap(),
        fingerprint: Fingerprint::of(&request, &Rules::default()).unwrap(),
        attempt: attempt(number),
        timing: AttemptTiming { operation_timeout, attempt_deadline: operation_timeout / 6 * 5 },
        exposure: Exposure::MayBeSent,
    }
}

pub(crate) fn finish(body: impl Into<Bytes>) -> Finish {
    let headers = vec![("content-type".into(), Bytes::from_static(b"application/json"))];
    Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content: Content::Kept { headers, body: body.into() } },
        response_ttl: RESPONSE_TTL,
        resource: Some("ch_1".into()),
    }
}

pub(crate) async fn swapped(
    store: &SqliteStore,
    key: &str,
    expected: Option<Fence>,
    change: Change,
) -> Arc<Record> {
    match store.swap(id(key), expected, change).await {
        Ok(Swap::Swapped { record, .. }) => record,
        other => panic!("the change must happen, got {other:?}"),
    }
}

pub(crate) async fn finished(store: &SqliteStore, key: &str) -> Arc<Record> {
    let fence = swapped(store, key, None, Change::Claim(claim(key, 1))).await.fence;
    swapped(store, key, Some(fence), Change::Finish(finish(key.to_owned()))).await
}

pub(crate) async fn load(store: &SqliteStore, key: &str) -> Option<Arc<Record>> {
    store.load(id(key)).await.unwrap().record
}

/// Keeps the writer busy, so that everything queued meanwhile becomes one batch.
pub(crate) struct Busy {
    release: mpsc::Sender<()>,
    work: JoinHandle<()>,
}

impl Busy {
    pub(crate) async fn new(store: &SqliteStore) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let store = store.clone();
        let work = tokio::spawn(async move {
            let work = move |_: &unavez_store::sqlite::WriteTx<'_>| {
                begun.send(()).unwrap();
                released.recv().map_err(|_| "the test gave up")
            };
            store.transaction(work).await.unwrap();
        });
        begins.await.unwrap();
        Self { release, work }
    }

    pub(crate) async fn end(self) {
        self.release.send(()).unwrap();
        self.work.await.unwrap();
    }
}

/// Runs the futures as one batch: all are queued before the writer takes the first.
pub(crate) async fn in_one_batch<T: Send + 'static>(
    store: &SqliteStore,
    calls: Vec<impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let busy = Busy::new(store).await;
    let count = calls.len();
    let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
    while store.stats().queued < count {
        tokio::task::yield_now().await;
    }
    busy.end().await;
    let mut results = Vec::with_capacity(count);
    for call in calls {
        results.push(call.await.unwrap());
    }
    results
}

pub(crate) fn nothing_happened<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    result.as_ref().is_err_and(|error| !error.may_have_happened())
}
