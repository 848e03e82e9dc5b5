//! Many records: purge under load, and a file that stops growing (P21, C59, C116).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use unavez_core::record::{Change, Finish};
use unavez_store::clock::ManualClock;
use unavez_store::sqlite::{Observer, Options, SqliteStore, WriteTx, finish_in, swap_in};
use unavez_store::{Filter, Store, Swap};

use crate::support::{Folder, RESPONSE_TTL, claim, finish, finished, id, load, on, swapped};

/// Puts finished records in, many a transaction.
async fn stock(store: &SqliteStore, prefix: &'static str, count: usize) {
    const AT_ONCE: usize = 1000;
    for start in (0..count).step_by(AT_ONCE) {
        let work = move |tx: &WriteTx<'_>| -> Result<(), String> {
            for number in start..(start + AT_ONCE).min(count) {
                let key = format!("{prefix}-{number}");
                let claimed = swap_in(tx, id(&key), None, Change::Claim(claim(&key, 1)));
                let Ok(Swap::Swapped { record, .. }) = claimed else { return Err(format!("{claimed:?}")) };
                finish_in(tx, record.id, record.fence, finish(key)).map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        store.transaction(work).await.unwrap();
    }
}

/// Counts the writer's commits.
#[derive(Default)]
struct Commits {
    count: AtomicUsize,
}

impl Observer for Commits {
    fn committed(&self, _commands: usize, _took: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn pages_of(store: &SqliteStore) -> i64 {
    store.read(|db| db.query_row("pragma page_count", [], |row| row.get(0))).await.unwrap()
}

#[tokio::test]
async fn c59_a_purge_goes_in_bites_and_the_file_stops_growing() {
    const EXPIRED: usize = 20_000;
    const LIVE: usize = 1000;
    let folder = Folder::new();
    let clock = ManualClock::new();
    let commits = Arc::new(Commits::default());
    let store = folder.open(Options { observer: Some(Arc::clone(&commits) as _), ..on(&clock) }).unwrap();
    for number in 0..100 {
        let key = format!("running-{number}");
        swapped(&store, &key, None, Change::Claim(claim(&key, 1))).await;
    }
    let mut pages = Vec::new();
    let mut expired = EXPIRED;
    for (old, new) in [("old-1", "new-1"), ("old-2", "new-2")] {
        stock(&store, old, EXPIRED).await;
        clock.advance(RESPONSE_TTL);
        stock(&store, new, LIVE).await;
        pages.push(pages_of(&store).await);

        let before = commits.count.load(Ordering::Relaxed);
        let mut deleted = 0;
        loop {
            let purged = store.purge(5000).await.unwrap();
            deleted += purged.deleted;
            if purged.deleted < 5000 {
                assert_eq!(purged.lag, Duration::ZERO);
                break;
            }
        }
        assert_eq!(deleted, expired as u64);
        let bites = commits.count.load(Ordering::Relaxed) - before;
        assert!(bites >= EXPIRED / 200, "{bites} commits for {deleted} records");
        assert!(load(&store, &format!("{new}-0")).await.is_some());
        assert!(load(&store, "running-99").await.is_some());
        // What was live in this round expires with the next.
        expired += LIVE;
    }
    let limit = pages[0] + pages[0] / 10;
    assert!(pages[1] <= limit, "pages are used again, so the file grows by the live records only: {pages:?}");
    let running = store.list(Filter { tenant: None, state: Some("in_progress") }, None, 200).await.unwrap();
    assert_eq!(running.records.len(), 100);
}

#[tokio::test]
async fn p9_a_purge_waits_for_nobody_and_nobody_waits_for_it() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = folder.open(on(&clock)).unwrap();
    stock(&store, "old", 2000).await;
    clock.advance(RESPONSE_TTL);
    let purging = {
        let store = store.clone();
        tokio::spawn(async move { store.purge(usize::MAX).await })
    };
    for number in 0..50 {
        finished(&store, &format!("new-{number}")).await;
    }
    assert_eq!(purging.await.unwrap().unwrap().deleted, 2000);
    assert!(load(&store, "new-49").await.is_some() && load(&store, "old-0").await.is_none());
}

#[tokio::test]
async fn c116_a_lowered_ttl_keeps_what_is_stored() {
    let folder = Folder::new();
    let clock = ManualClock::new();
    let store = folder.open(on(&clock)).unwrap();
    finished(&store, "promised").await;
    store.close().await;

    let store = folder.open(on(&clock)).unwrap();
    let fence = swapped(&store, "lowered", None, Change::Claim(claim("lowered", 1))).await.fence;
    let lowered = Finish { response_ttl: Duration::from_secs(3600), ..finish("x") };
    swapped(&store, "lowered", Some(fence), Change::Finish(lowered)).await;
    clock.advance(Duration::from_secs(7200));
    assert_eq!(store.purge(9).await.unwrap().deleted, 1);
    assert!(load(&store, "promised").await.is_some() && load(&store, "lowered").await.is_none());
}

#[tokio::test]
async fn recent_records_are_bounded_in_bytes() {
    let folder = Folder::new();
    let limit = 1 << 20;
    let store = folder.open(Options { recent_bytes_max: limit, ..Options::default() }).unwrap();
    stock(&store, "k", 5000).await;
    let held = store.stats().recent_bytes;
    assert!(held <= limit && held > limit / 2, "{held}");
    assert!(load(&store, "k-0").await.is_some() && load(&store, "k-4999").await.is_some());
}
