//! Whether charges can be made now, found out by a commit.
//!
//! 1. Only a commit proves that commits work: a full disk and a file that another process has taken over can still be
//!    read.
//! 2. The commit's own stamp needs no room, and a charge does. So a file of [`ROOM_BYTES`] is written beside the database and
//!    removed: a disk, or a quota, that is full refuses it.
//! 3. All who ask within [`FRESH`] share one commit, so that asking often costs the disk nothing. Everybody asks a
//!    reader, which is free and hears of a closed database at once.
//!
//! What breaks it in deployment: nothing is promised beyond the probe's moment. A disk with a little room left may be
//! full at the next charge, which is then refused and not lost.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Mutex;
use tokio::time::Instant;
use unavez_store::sqlite::SqliteStore;

/// How long what was found out holds.
const FRESH: Duration = Duration::from_secs(1);

/// Pages of the file that must be left where its size is limited: more than one charge can take.
const PAGES_LEFT_MIN: i64 = 16;

/// What must still fit beside the database: more than one charge with all that it may carry, in table and log.
const ROOM_BYTES: usize = 1 << 20;

/// What a probe found out: ready, or why not.
type Verdict = Result<(), String>;

/// The latest verdict. Whoever comes while a probe runs waits for its end.
#[derive(Default)]
pub(crate) struct Readiness {
    latest: Mutex<Option<(Instant, Verdict)>>,
}

impl Readiness {
    /// The latest verdict, or the one of `probe` if that is too old.
    pub(crate) async fn probed(&self, probe: impl Future<Output = Verdict>) -> Verdict {
        let mut latest = self.latest.lock().await;
        if let Some((at, verdict)) = &*latest
            && at.elapsed() < FRESH
        {
            return verdict.clone();
        }
        let verdict = probe.await;
        *latest = Some((Instant::now(), verdict.clone()));
        verdict
    }
}

/// Whether the store answers at all.
pub(crate) async fn reads(store: &SqliteStore, timeout: Duration) -> Verdict {
    let read = store.read(|connection| connection.query_row("select 1", [], |_| Ok(())));
    match tokio::time::timeout(timeout, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the store did not answer within {timeout:?}")),
    }
}

/// Commits nothing but the store's own stamp.
pub(crate) async fn commits(store: &SqliteStore, timeout: Duration) -> Verdict {
    let commit = store.transaction(|tx| pages_left(tx));
    match tokio::time::timeout(timeout, commit).await {
        Ok(Ok(left)) if left < PAGES_LEFT_MIN => {
            Err(format!("the database file has room for {left} more pages, least {PAGES_LEFT_MIN}"))
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("the store did not commit within {timeout:?}")),
    }
}

/// Whether the disk takes more than is in the database already. Nothing to be found out about one in memory.
pub(crate) async fn has_room(store: &SqliteStore) -> Verdict {
    let Some(path) = store.path() else { return Ok(()) };
    let mut name = path.as_os_str().to_owned();
    name.push(".room");
    let written = tokio::task::spawn_blocking(move || write_and_remove(Path::new(&name))).await;
    let full = |error: &dyn std::fmt::Display| {
        format!("no room for {ROOM_BYTES} more bytes beside the database: {error}")
    };
    match written {
        Ok(written) => written.map_err(|error| full(&error)),
        Err(error) => Err(full(&error)),
    }
}

/// What a process that died has left behind is written over.
fn write_and_remove(path: &Path) -> io::Result<()> {
    let written = std::fs::write(path, vec![0xA5; ROOM_BYTES]);
    let removed = match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    written.and(removed)
}

/// By how many pages the tables can grow before the file's limit: the stamp itself needs none.
fn pages_left(connection: &Connection) -> rusqlite::Result<i64> {
    let pragma = |name| connection.query_row(&format!("pragma {name}"), [], |row| row.get::<_, i64>(0));
    Ok(pragma("max_page_count")? - pragma("page_count")? + pragma("freelist_count")?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn what_cannot_be_written_beside_the_database_is_told_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unavez.db.room");
        write_and_remove(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "left behind").unwrap();
        write_and_remove(&path).unwrap();
        assert!(!path.exists());
        assert!(write_and_remove(&folder.path().join("gone").join("unavez.db.room")).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_within_a_second_shares_one_probe() {
        let (readiness, probes) = (Readiness::default(), AtomicU32::new(0));
        let ask = || {
            readiness.probed(async {
                let number = probes.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                if number == 0 { Err("full".to_owned()) } else { Ok(()) }
            })
        };
        assert_eq!(tokio::join!(ask(), ask()), (Err("full".to_owned()), Err("full".to_owned())));
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        assert_eq!(ask().await, Err("full".to_owned()));
        assert_eq!(probes.load(Ordering::Relaxed), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask().await, Ok(()), "a verdict does not outlive its second");
        assert_eq!(probes.load(Ordering::Relaxed), 2);
    }
}
