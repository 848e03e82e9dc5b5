//! Copying the WAL into the file, beside the writer instead of on its thread.
//!
//! A checkpoint of thousands of random pages takes tens of milliseconds, and a writer that does it makes every caller
//! wait that long. Here a second connection copies most of the WAL while the writer goes on appending; a few rounds
//! leave little. The rest is the writer's, because only between two of its commits can all of the WAL be copied, and
//! only then does it start again at its beginning instead of growing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::open::open_checkpointer;
use super::queue::Queue;
use super::shared::enter_store_thread;

/// Pages of the WAL at which copying begins: less often costs disk and start-up time, more often copies hot pages more
/// than once.
pub(super) const BEGIN_PAGES: u32 = 8000;

/// Pages that the writer may copy itself: a millisecond or two.
const FINISH_PAGES: u32 = 400;

/// Rounds after which the writer finishes whatever is left: the disk does not keep up, and callers have to wait.
const ROUNDS_MAX: u32 = 8;

/// What the writer and the copying thread tell each other.
#[derive(Debug)]
pub(super) struct Wal {
    /// Pages in the WAL after the latest commit.
    pages: AtomicU32,
    begin_pages: u32,
    /// Pages at which the next copying begins.
    begin_at: AtomicU32,
    /// From the request until the writer has finished.
    running: AtomicBool,
    /// It is the writer's turn.
    finish: AtomicBool,
}

impl Wal {
    /// Copying begins at so many pages.
    pub(super) fn new(begin_pages: u32) -> Self {
        Self {
            pages: AtomicU32::new(0),
            begin_pages,
            begin_at: AtomicU32::new(begin_pages),
            running: AtomicBool::new(false),
            finish: AtomicBool::new(false),
        }
    }

    /// The library's hook calls this after every commit.
    pub(super) fn committed(&self, pages: u32) {
        self.pages.store(pages, Ordering::Relaxed);
    }

    /// Called by the writer between two transactions.
    pub(super) fn tend(&self, connection: &Connection, requests: &Queue<()>) -> rusqlite::Result<()> {
        if self.finish.swap(false, Ordering::Acquire) {
            let copied = copy(connection);
            let pages = self.pages.load(Ordering::Relaxed);
            // Where a long read keeps the WAL from starting again, the next try comes after as many pages more.
            let all = copied.as_ref().is_ok_and(|copied| *copied >= pages);
            let begin_at = if all { self.begin_pages } else { pages.saturating_add(self.begin_pages) };
            self.begin_at.store(begin_at, Ordering::Relaxed);
            self.running.store(false, Ordering::Release);
            return copied.map(drop);
        }
        let due = self.pages.load(Ordering::Relaxed) >= self.begin_at.load(Ordering::Relaxed);
        if due && !self.running.swap(true, Ordering::Acquire) && requests.push(()).is_err() {
            self.running.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// The copying thread's part, after which it is the writer's turn.
    fn copy_beside(&self, connection: &Connection) {
        if let Err(error) = self.copy_most(connection) {
            tracing::warn!(%error, "checkpoint failed, the writer tries it");
        }
        self.finish.store(true, Ordering::Release);
    }

    /// Copies until little is left.
    fn copy_most(&self, connection: &Connection) -> rusqlite::Result<()> {
        for _ in 0..ROUNDS_MAX {
            let copied = copy(connection)?;
            if self.pages.load(Ordering::Relaxed).saturating_sub(copied) <= FINISH_PAGES {
                break;
            }
        }
        Ok(())
    }
}

/// Copies what no reader needs any more; returns how many pages of the WAL are copied now.
fn copy(connection: &Connection) -> rusqlite::Result<u32> {
    connection.prepare_cached("pragma wal_checkpoint(passive)")?.query_row([], |row| {
        let copied: i64 = row.get(2)?;
        Ok(u32::try_from(copied).unwrap_or_default())
    })
}

/// The thread.
pub(super) struct Checkpointer {
    requests: Arc<Queue<()>>,
    thread: JoinHandle<()>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, wal: Arc<Wal>, requests: Arc<Queue<()>>) -> rusqlite::Result<Self> {
        let connection = open_checkpointer(path)?;
        let queue = Arc::clone(&requests);
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || {
                enter_store_thread();
                let mut taken = Vec::new();
                while queue.take(&mut taken, 1) {
                    taken.clear();
                    wal.copy_beside(&connection);
                }
            })
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        Ok(Self { requests, thread })
    }

    pub(super) fn stop(self) {
        self.requests.close();
        // It has nothing to tell: what it did not copy, closing the database copies.
        drop(self.thread.join());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 50;

    struct Bench {
        _folder: tempfile::TempDir,
        path: std::path::PathBuf,
        writer: Connection,
        wal: Arc<Wal>,
        requests: Queue<()>,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.db");
            let mut writer = Connection::open(&path).unwrap();
            writer.execute_batch("pragma journal_mode = wal; create table t (x blob)").unwrap();
            let wal = Arc::new(Wal::new(PAGES));
            let told = Arc::clone(&wal);
            let hook = move |_: &mut _, pages| {
                told.committed(u32::try_from(pages).unwrap());
                Ok(())
            };
            writer.wal_hook(Some(hook)).unwrap();
            Self { _folder: folder, path, writer, wal, requests: Queue::new(1) }
        }

        /// One commit of the writer, and what it does after it. Tells how long the WAL is then.
        fn commit(&self) -> u32 {
            self.writer.execute("insert into t values (zeroblob(20000))", []).unwrap();
            self.wal.tend(&self.writer, &self.requests).unwrap();
            self.wal.pages.load(Ordering::Relaxed)
        }

        /// Commits until copying is asked for.
        fn fill(&self) -> u32 {
            while self.requests.len() == 0 {
                assert!(self.commit() < 20 * PAGES, "copying is never asked for");
            }
            assert!(self.requests.take(&mut Vec::new(), 1));
            self.wal.pages.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_copied_wal_starts_again_instead_of_growing() {
        let bench = Bench::new();
        let beside = open_checkpointer(&bench.path).unwrap();
        for _ in 0..3 {
            let full = bench.fill();
            assert!((PAGES..2 * PAGES).contains(&full), "{full}");
            // The writer goes on while the copying thread works, and is asked no second time.
            bench.commit();
            bench.wal.copy_beside(&beside);
            bench.commit();
            assert_eq!(bench.requests.len(), 0);
            assert!(bench.commit() < PAGES / 2, "the WAL has started again");
        }
    }

    #[test]
    fn a_long_read_delays_the_next_try_instead_of_repeating_it() {
        let bench = Bench::new();
        let beside = open_checkpointer(&bench.path).unwrap();
        bench.commit();
        let reader = Connection::open(&bench.path).unwrap();
        reader.execute_batch("begin; select count(*) from t").unwrap();
        let full = bench.fill();
        bench.wal.copy_beside(&beside);
        bench.commit();
        assert!(bench.fill() >= full + PAGES, "tried again only after as many pages more");

        reader.execute_batch("commit").unwrap();
        bench.wal.copy_beside(&beside);
        bench.commit();
        assert!(bench.commit() < PAGES, "the WAL has started again");
    }
}
