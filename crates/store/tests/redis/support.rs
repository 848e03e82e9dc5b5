//! A store on a database of its own, and the operations the tests perform on it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Change, Claim, Exposure, Fence, Finish, Record};
use unavez_store::redis::{Location, OpenError, Options, RedisStore};
use unavez_store::{Store, Swap};

const OPERATION_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn open(url: &str) -> Result<RedisStore, OpenError> {
    open_with(url, Options::default()).await
}

pub(crate) async fn open_with(url: &str, options: Options) -> Result<RedisStore, OpenError> {
    RedisStore::open(Location::parse(url)?, options).await
}

pub(crate) fn id(key: &str) -> RecordId {
    RecordId::of(&Realm::parse("test").unwrap(), &Tenant::single(), &Key::parse_path(key).unwrap())
}

pub(crate) fn claim(key: &str, attempt: u128) -> Change {
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
        attempt: AttemptId::from_bytes(attempt.to_be_bytes()),
        timing: AttemptTiming {
            operation_timeout: OPERATION_TIMEOUT,
            attempt_deadline: OPERATION_TIMEOUT / 6 * 5,
        },
        exposure: Exposure::MayBeSent,
    })
}

/// Promised for a day.
pub(crate) fn finish() -> Change {
    finish_for(Duration::from_secs(24 * 3600))
}

pub(crate) fn finish_for(response_ttl: Duration) -> Change {
    let body = Bytes::from_static(b"\0 is a byte");
    Change::Finish(Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content: Content::Kept { headers: Vec::new(), body } },
        response_ttl,
        resource: None,
    })
}

pub(crate) async fn swapped(
    store: &RedisStore,
    key: &str,
    expected: Option<Fence>,
    change: Change,
) -> Arc<Record> {
    match store.swap(id(key), expected, change).await {
        Ok(Swap::Swapped { record, .. }) => record,
        other => panic!("the change must happen, got {other:?}"),
    }
}

pub(crate) async fn claimed(store: &RedisStore, key: &str) -> Arc<Record> {
    swapped(store, key, None, claim(key, 1)).await
}

pub(crate) async fn finished(store: &RedisStore, key: &str) -> Arc<Record> {
    let fence = claimed(store, key).await.fence;
    swapped(store, key, Some(fence), finish()).await
}

pub(crate) async fn loaded(store: &RedisStore, key: &str) -> Option<Arc<Record>> {
    store.load(id(key)).await.unwrap().record
}
