//! The PostgreSQL store alone, as fast as it goes: each of many callers claims a new key and finishes it with an answer of
//! 200 bytes, again and again.
//!
//! ```text
//! contestant-postgres-store URL CALLERS SECONDS
//! ```
//!
//! Prints operations per second, and how long half of them and all but a hundredth took at most, in microseconds.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Change, Claim, Exposure, Finish};
use unavez_store::postgres::{Location, Migrate, Options, PostgresStore};
use unavez_store::{Store, StoreError, Swap};
use uuid::Uuid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, callers, seconds] = arguments.as_slice() else { return Err("URL CALLERS SECONDS".into()) };
    let (callers, seconds): (u32, u64) = (callers.parse()?, seconds.parse()?);
    let options = Options { migrate: Migrate::Auto, ..Options::default() };
    let store = Arc::new(PostgresStore::open(Location::parse(url)?, options).await?);

    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let callers: Vec<_> = (0..callers).map(|_| tokio::spawn(call_until(Arc::clone(&store), until))).collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await??);
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).map_or(0, Duration::as_micros);
    println!("{rate:.0} {} {}", at(50), at(99));
    Ok(())
}

/// One caller: how long each of its operations took.
async fn call_until(store: Arc<PostgresStore>, until: Instant) -> Result<Vec<Duration>, StoreError> {
    let mut took = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        operate(&*store).await?;
        took.push(began.elapsed());
    }
    Ok(took)
}

async fn operate(store: &dyn Store) -> Result<(), StoreError> {
    let name = Uuid::new_v4().to_string();
    let key = Key::parse_path(&name).expect("a UUID is a key");
    let (realm, tenant) = (Realm::parse("bench").expect("a word is a realm"), Tenant::single());
    let id = RecordId::of(&realm, &tenant, &key);
    let claim = Change::Claim(claim(tenant, key));
    let Swap::Swapped { record, .. } = store.swap(id, None, claim).await? else {
        return Err(StoreError::Unavailable("a new key was taken".into()));
    };
    let finish = Change::Finish(finish());
    match store.swap(id, Some(record.fence), finish).await? {
        Swap::Swapped { .. } => Ok(()),
        Swap::Conflict { .. } => Err(StoreError::Unavailable("somebody else finished it".into())),
    }
}

fn claim(tenant: Tenant, key: Key) -> Claim {
    let request = RequestParts {
        method: "POST",
        path: "/orders",
        query: None,
        content_type: Some("text/plain"),
        content_encoding: None,
        body: key.as_str().as_bytes(),
    };
    let fingerprint = Fingerprint::of(&request, &Rules::default()).expect("plain text is not ambiguous");
    let operation_timeout = Duration::from_secs(60);
    let timing = AttemptTiming { operation_timeout, attempt_deadline: operation_timeout / 6 * 5 };
    let attempt = AttemptId::from_bytes(Uuid::new_v4().into_bytes());
    Claim { tenant, key, fingerprint, attempt, timing, exposure: Exposure::MayBeSent }
}

fn finish() -> Finish {
    let headers = vec![("content-type".into(), Bytes::from_static(b"application/json"))];
    let content = Content::Kept { headers, body: Bytes::from_static(&[b'x'; 200]) };
    Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content },
        response_ttl: Duration::from_secs(24 * 3600),
        resource: None,
    }
}
