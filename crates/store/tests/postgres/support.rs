//! A store on a database of its own, and the operations the tests perform on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use test_postgres::Database;
use tokio::task::JoinSet;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Change, Claim, Exposure, Fence, Finish, Record};
use unavez_store::postgres::{Location, Migrate, OpenError, Options, PostgresStore};
use unavez_store::{Store, StoreError, Swap};

pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);

/// On the database's own clock.
pub(crate) async fn open(database: &Database<'_>) -> PostgresStore {
    open_at(&database.url()).await.unwrap()
}

pub(crate) async fn open_at(url: &str) -> Result<PostgresStore, OpenError> {
    open_with(url, Options { migrate: Migrate::Auto, ..Options::default() }).await
}

pub(crate) async fn open_with(url: &str, options: Options) -> Result<PostgresStore, OpenError> {
    PostgresStore::open(Location::parse(url).unwrap(), options).await
}

pub(crate) fn id(key: &str) -> RecordId {
    RecordId::of(&Realm::parse("test").unwrap(), &Tenant::single(), &Key::parse_path(key).unwrap())
}

pub(crate) fn attempt(number: u128) -> AttemptId {
    AttemptId::from_bytes(number.to_be_bytes())
}

pub(crate) fn claim(key: &str, number: u128) -> Change {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("text/plain"),
        content_encoding: None,
        body: key.as_bytes(),
    };
    Change::Claim(Claim {
        tenant: Tenant::single(),
        key: Key::parse_path(key).unwrap(),
        fingerprint: Fingerprint::of(&request, &Rules::default()).unwrap(),
        attempt: attempt(number),
        timing: AttemptTiming {
            operation_timeout: OPERATION_TIMEOUT,
            attempt_deadline: OPERATION_TIMEOUT / 6 * 5,
        },
        exposure: Exposure::MayBeSent,
    })
}

pub(crate) fn finish(resource: &str) -> Finish {
    let headers = vec![("content-type".into(), Bytes::from_static(b"application/json"))];
    Finish {
        conclusion: Conclusion::Approved,
        answer: Answer {
            status: 201,
            content: Content::Kept { headers, body: Bytes::from_static(b"\0 is a byte") },
        },
        response_ttl: Duration::from_secs(24 * 3600),
        resource: Some(resource.into()),
    }
}

pub(crate) async fn swapped(
    store: &PostgresStore,
    key: &str,
    expected: Option<Fence>,
    change: Change,
) -> Arc<Record> {
    match store.swap(id(key), expected, change).await {
        Ok(Swap::Swapped { record, .. }) => record,
        other => panic!("the change must happen, got {other:?}"),
    }
}

pub(crate) async fn claimed(store: &PostgresStore, key: &str, number: u128) -> Arc<Record> {
    swapped(store, key, None, claim(key, number)).await
}

pub(crate) async fn loaded(store: &PostgresStore, key: &str) -> Option<Arc<Record>> {
    store.load(id(key)).await.unwrap().record
}

/// One of many calls that begin together.
pub(crate) struct Call {
    pub(crate) store: PostgresStore,
    pub(crate) key: String,
    pub(crate) expected: Option<Fence>,
    pub(crate) change: Change,
}

/// Makes all calls together and returns what became of each, in their order.
pub(crate) async fn together(calls: Vec<Call>) -> Vec<Result<Swap, StoreError>> {
    let mut running = JoinSet::new();
    for (number, Call { store, key, expected, change }) in calls.into_iter().enumerate() {
        running.spawn(async move { (number, store.swap(id(&key), expected, change).await) });
    }
    let mut ended = running.join_all().await;
    ended.sort_by_key(|(number, _)| *number);
    ended.into_iter().map(|(_, result)| result).collect()
}
