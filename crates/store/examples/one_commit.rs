//! Measures one-commit operations on random keys: claim, two rows of a business with two further unique indexes, and
//! the stored answer, all in one commit, with 64 callers in flight.
//!
//! `cargo run --release -p unavez-store --features sqlite --example one_commit -- [records before] [seconds] [file]`
//!
//! Prints operations per second, the slowest percent, and bytes written to the device for each operation, checkpoints
//! included (Linux).

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Claim, Exposure, Finish};
use unavez_core::timing::Timings;
use unavez_store::sqlite::{Abort, Claimed, Location, OneCommit, Options, SqliteStore, WriteTx};

const IN_FLIGHT: u64 = 64;

const SCHEMA: &str = "
    create table if not exists charges (
        position integer primary key, charge_id blob not null unique, order_id text not null, amount integer not null,
        currency text not null, status text not null, body text not null, created_at integer not null
    ) strict;
    create table if not exists entries (
        position integer primary key, operation_id blob not null, debit text not null, credit text not null,
        amount integer not null, currency text not null, created_at integer not null
    ) strict;
    create index if not exists entries_by_operation on entries (operation_id);
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let records: u64 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let path = arguments.next().map_or_else(|| std::env::temp_dir().join("one_commit.db"), PathBuf::from);

    let store = SqliteStore::open(Location::File(path), Options::default())?;
    store.transaction(|tx| tx.execute_batch(SCHEMA)).await.map_err(|error| error.to_string())?;
    let numbers = Arc::new(AtomicU64::new(0));
    let there: u64 = store
        .read(|db| {
            db.query_row("select coalesce(max(position), 0) from charges", [], |row| row.get::<_, i64>(0))
        })
        .await?
        .try_into()?;
    numbers.store(there, Ordering::Relaxed);

    run(&store, &numbers, 1024, Until::Count(records)).await?;
    run(&store, &numbers, IN_FLIGHT, Until::After(Duration::from_secs(1))).await?;
    let (before, commits_before, started) = (bytes_written(), store.stats().commits, Instant::now());
    let mut times = run(&store, &numbers, IN_FLIGHT, Until::After(Duration::from_secs(seconds))).await?;
    let took = started.elapsed();
    let commits = store.stats().commits - commits_before;
    let file_bytes = store.stats().file_bytes;
    store.close().await;
    let written = bytes_written() - before;

    times.sort_unstable();
    let count = times.len();
    let percentile = |of: usize| times[(count - 1) * of / 1000].as_secs_f64() * 1e3;
    println!(
        "records {} ops/s {:.0} p50 {:.2} ms p99 {:.2} ms p99.9 {:.2} ms per commit {:.1} bytes/op {:.0} file {} MB",
        numbers.load(Ordering::Relaxed),
        count as f64 / took.as_secs_f64(),
        percentile(500),
        percentile(990),
        percentile(999),
        count as f64 / commits as f64,
        written as f64 / count as f64,
        file_bytes >> 20,
    );
    Ok(())
}

#[derive(Clone, Copy)]
enum Until {
    Count(u64),
    After(Duration),
}

/// Runs operations with so many in flight, and returns how long each took.
async fn run(
    store: &SqliteStore,
    numbers: &Arc<AtomicU64>,
    in_flight: u64,
    until: Until,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let started = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..in_flight {
        let (store, numbers) = (store.clone(), Arc::clone(numbers));
        callers.push(tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let go_on = match until {
                    Until::Count(count) => number < count,
                    Until::After(length) => started.elapsed() < length,
                };
                if !go_on {
                    numbers.fetch_sub(1, Ordering::Relaxed);
                    return times;
                }
                let began = Instant::now();
                charge(&store, number).await;
                times.push(began.elapsed());
            }
        }));
    }
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await?);
    }
    Ok(times)
}

async fn charge(store: &SqliteStore, number: u64) {
    let random = u128::from(spread(number)) << 64 | u128::from(spread(number ^ u64::MAX));
    let key = format!("{random:032x}");
    let body = format!(
        "{{\"order_id\":\"{key}\",\"amount\":2500,\"currency\":\"EUR\",\"payment_method\":\"tok_approve\"}}"
    );
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body: body.as_bytes(),
    };
    let tenant = Tenant::single();
    let key = Key::parse_path(&key).expect("hex digits are a key");
    let id = RecordId::of(store.realm(), &tenant, &key);
    let claim = Claim {
        tenant,
        key,
        fingerprint: Fingerprint::of(&request, &Rules::default()).expect("the body is canonical"),
        attempt: AttemptId::from_bytes(random.rotate_left(32).to_be_bytes()),
        timing: Timings::default().attempt(),
        exposure: Exposure::Contained,
    };
    let done = store.claim_and_finish(id, claim, move |tx, claimed| effect(tx, claimed, &body)).await;
    assert!(matches!(done, Ok(OneCommit::Finished { .. })), "{done:?}");
}

fn effect(tx: &WriteTx<'_>, claimed: &Claimed, body: &str) -> Result<Finish, Abort<()>> {
    let operation = claimed.id.as_bytes();
    let now = claimed.now.as_micros();
    tx.prepare_cached(
        "insert into charges (charge_id, order_id, amount, currency, status, body, created_at)
         values (?1, ?2, 2500, 'EUR', 'captured', ?3, ?4)",
    )?
    .execute((operation, &body[13..45], body, now))?;
    tx.prepare_cached(
        "insert into entries (operation_id, debit, credit, amount, currency, created_at)
         values (?1, 'customer', 'merchant', 2500, 'EUR', ?2)",
    )?
    .execute((operation, now))?;
    let answer = format!(
        "{{\"id\":\"ch_{}\",\"object\":\"charge\",\"status\":\"captured\",\"charge\":{body}}}",
        claimed.id
    );
    Ok(Finish {
        conclusion: Conclusion::Approved,
        answer: Answer {
            status: 201,
            content: Content::Kept {
                headers: vec![("content-type".into(), Bytes::from_static(b"application/json"))],
                body: answer.into(),
            },
        },
        response_ttl: Duration::from_secs(24 * 3600),
        resource: Some(format!("ch_{}", claimed.id).into()),
    })
}

/// Spreads numbers over 64 bits (the finaliser of SplitMix64).
fn spread(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Bytes this process has sent to the device.
fn bytes_written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or_default()
}
