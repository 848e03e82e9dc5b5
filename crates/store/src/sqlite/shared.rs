//! What the handles, the writer and the readers of one store share.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use unavez_core::identity::Realm;

use super::AppliedMigration;
use super::commands::Command;
use super::digest_index::DigestIndex;
use super::queue::Queue;
use super::readers::Read;
use super::recent::Recent;
use crate::clock::Clock;

/// Hears about every commit, on the writer's thread: it must not wait for anything.
pub trait Observer: Send + Sync + 'static {
    /// A transaction of so many commands was committed in so long.
    fn committed(&self, commands: usize, took: Duration);
}

pub(super) struct Shared {
    pub(super) commands: Queue<Box<dyn Command>>,
    pub(super) reads: Arc<Queue<Box<dyn Read>>>,
    pub(super) recent: Recent,
    /// Finds the row of a record.
    pub(super) by_id: DigestIndex,
    /// The other components' indexes.
    pub(super) indexes: Vec<DigestIndex>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) realm: Realm,
    pub(super) migrations: Vec<AppliedMigration>,
    /// `None` for a database in memory.
    pub(super) path: Option<PathBuf>,
    pub(super) observer: Option<Arc<dyn Observer>>,
    pub(super) commits: AtomicU64,
    pub(super) committed_commands: AtomicU64,
    pub(super) commit_us: AtomicU64,
}

impl Shared {
    pub(super) fn count_commit(&self, commands: usize, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.committed_commands.fetch_add(commands as u64, Ordering::Relaxed);
        self.commit_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if let Some(observer) = &self.observer {
            observer.committed(commands, took);
        }
    }
}

thread_local! {
    static IS_STORE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one of a store's own.
pub(super) fn enter_store_thread() {
    IS_STORE_THREAD.set(true);
}

/// Whether work of a caller that runs here must not wait for a store's threads to end.
pub(super) fn is_store_thread() -> bool {
    IS_STORE_THREAD.get()
}
