//! Records in one SQLite file, written by one process with group commit.
//!
//! 1. One process owns the file: a lock beside it, and a writer epoch that every commit checks, keep a second one from
//!    writing. Reading is free for everybody, with any SQLite tool.
//! 2. One thread writes. It takes all that waits, commits once and answers all (`writer.rs`); a lone call is committed
//!    at once.
//! 3. A call that was answered is durable: WAL with `synchronous = full`.
//! 4. Recent records are held in memory as they were committed; repeats of their keys touch neither writer nor disk.
//! 5. Business rows commit with the record: [`SqliteStore::claim_and_finish`] runs a whole operation in one commit, and
//!    [`finish_in`] finishes a record inside [`SqliteStore::transaction`].
//!
//! What breaks it in deployment: a network file system (WAL needs shared memory, so the readers must be on the same
//! host), a copy of the file taken while it is open without its `-wal`, and a disk that acknowledges before it keeps.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use unavez_store::sqlite::{Location, Options, SqliteStore};
//!
//! let store = SqliteStore::open(Location::Memory, Options::default())?;
//! store.transaction(|tx| tx.execute_batch("create table orders (id text primary key) strict")).await?;
//! let orders: i64 = store.read(|db| db.query_row("select count(*) from orders", [], |row| row.get(0))).await?;
//! assert_eq!(orders, 0);
//! # Ok(()) }
//! ```

mod checkpoints;
mod commands;
mod copy;
mod digest_index;
mod error;
mod lock;
mod migrations;
mod open;
mod pending;
mod place;
mod queue;
mod readers;
mod recent;
mod records;
mod rows;
mod shared;
mod tx;
mod viewer;
mod writer;

use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};
use unavez_core::identity::{Realm, RecordId};
use unavez_core::record::{Change, Claim, Fence, Finish, Record};
use unavez_core::time::Time;

use self::checkpoints::{BEGIN_PAGES, Checkpointer, Wal};
use self::commands::{Command, OneCommitCommand, RepeatableCommand, SwapCommand, TransactionCommand};
use self::error::unavailable;
use self::lock::Lock;
use self::queue::Queue;
use self::readers::{Readers, not_queued, read_on};
use self::recent::Recent;
use self::shared::{Shared, enter_store_thread, is_store_thread};
use self::writer::Writer;
use crate::clock::{Clock, SystemClock};
use crate::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

pub use self::commands::Claimed;
pub use self::copy::{Contents, Copied, CopyError, Progress, Target, Watch, copy};
pub use self::digest_index::{Digest, DigestIndex, FindRows, Guests, IndexSpec};
pub use self::error::{Abort, FinishInError, OpenError, SwapInError, TransactionError};
pub use self::migrations::Component;
pub use self::open::{Location, Options};
pub use self::place::Place;
pub use self::shared::Observer;
pub use self::tx::{WriteTx, finish_in, swap_in};
pub use self::viewer::{ReadError, Viewer};
pub use crate::migrations::{AppliedMigration, Migrate, Migration};

/// Most records that one transaction of a purge deletes. Each dirties a page of every index it leaves, so a larger bite
/// would hold up the calls behind it.
const PURGE_BITE: usize = 200;

/// A handle to the store; clones share it. Dropping the last one runs what is queued and closes the database, which
/// takes as long as a commit; [`SqliteStore::close`] does the same without blocking the thread.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    closer: Arc<Closer>,
}

/// What became of [`SqliteStore::claim_and_finish`].
#[derive(Clone, Debug)]
pub enum OneCommit<T> {
    /// Effect and record are durable.
    Finished {
        /// The finished record.
        record: Arc<Record>,
        /// The store's time of it.
        now: Time,
    },
    /// A live record stands there, unfinished, or finished and not expired. Nothing was run.
    Conflict {
        /// It. Its attempt is the claim's own where an earlier call in doubt had happened (P12).
        record: Arc<Record>,
        /// The store's time of the reading.
        now: Time,
    },
    /// The effect refused. Nothing is left of it, and the key is as it was.
    Refused(T),
}

/// Numbers about a store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Commands waiting for the writer.
    pub queued: usize,
    /// Commits since the opening.
    pub commits: u64,
    /// Commands in them.
    pub commands: u64,
    /// Time spent in them.
    pub commit_time: Duration,
    /// Size of the file and its WAL.
    pub file_bytes: u64,
    /// Memory held for recent records.
    pub recent_bytes: usize,
}

impl SqliteStore {
    /// Opens or creates a database and becomes its owner. Blocks for as long as [`Options::lock_wait`] says, and for
    /// migrations.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(location: Location, options: Options) -> Result<Self, OpenError> {
        let location = match location {
            Location::File(path) => Location::File(open::resolved(&path)),
            Location::Memory => Location::Memory,
        };
        let path = match &location {
            Location::File(path) => Some(path.clone()),
            Location::Memory => None,
        };
        let lock = path
            .as_deref()
            .map(|path| Lock::acquire(path, options.lock_wait, options.on_lock_wait.as_ref()))
            .transpose()?;
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        let owned = open::own(&location, &options, clock.as_ref())?;
        let mut indexes = owned.clerk.indexes();
        let by_id = indexes.remove(0);
        let shared = Arc::new(Shared {
            commands: Queue::new(options.queue_max),
            reads: Arc::new(Queue::new(options.queue_max)),
            recent: Recent::new(options.recent_bytes_max),
            by_id,
            indexes,
            clock,
            realm: owned.realm.clone(),
            migrations: owned.migrations.clone(),
            path: path.clone(),
            observer: options.observer.clone(),
            commits: AtomicU64::new(0),
            committed_commands: AtomicU64::new(0),
            commit_us: AtomicU64::new(0),
        });
        Self::start(shared, owned, lock, &options)
            .map_err(|error| OpenError::sql(path.as_deref().unwrap_or(Path::new(":memory:")), &error))
    }

    fn start(
        shared: Arc<Shared>,
        owned: open::Owned,
        lock: Option<Lock>,
        options: &Options,
    ) -> rusqlite::Result<Self> {
        let (wal, requests) = (Arc::new(Wal::new(BEGIN_PAGES)), Arc::new(Queue::new(1)));
        let beside = match shared.path.as_deref() {
            Some(path) => Some((
                Readers::start(path, options.readers.max(1), Arc::clone(&shared.reads))?,
                Checkpointer::start(path, Arc::clone(&wal), Arc::clone(&requests))?,
            )),
            None => None,
        };
        let writer = Writer::new(Arc::clone(&shared), owned, options.file_bytes_max, wal, requests)?;
        let (closed, done) = watch::channel(false);
        let shared_by_writer = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("store-write".to_owned())
            .spawn(move || {
                enter_store_thread();
                // The writer's connection is the last to close: it empties the WAL. The lock goes after it.
                let connection = run_to_the_end(writer, &shared_by_writer);
                if let Some((readers, checkpointer)) = beside {
                    readers.stop();
                    checkpointer.stop();
                }
                drop(connection);
                drop(lock);
                closed.send_replace(true);
            })
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        let closer = Closer { shared: Arc::clone(&shared), thread: Mutex::new(Some(thread)), done };
        Ok(Self { shared, closer: Arc::new(closer) })
    }

    /// Names the deployment; part of every operation id.
    #[must_use]
    pub fn realm(&self) -> &Realm {
        &self.shared.realm
    }

    /// The clock on which the store measures ages.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// The file, unless the database is in memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.shared.path.as_deref()
    }

    /// An index that one of [`Options::components`] declared, by the name of its table.
    #[must_use]
    pub fn index(&self, table: &str) -> Option<&DigestIndex> {
        self.shared.indexes.iter().find(|index| index.table() == table)
    }

    /// The index of records by their ids. A component's rows can be found through it too, if each is added in the
    /// transaction that claims the record, at the record's position: [`Claimed::position`] or
    /// [`WriteTx::position_of_record`]. Such rows are [`Guests`].
    #[must_use]
    pub fn index_of_records(&self) -> &DigestIndex {
        &self.shared.by_id
    }

    /// Every migration of the database, by component and number.
    #[must_use]
    pub fn migrations(&self) -> &[AppliedMigration] {
        &self.shared.migrations
    }

    /// The record under `id` as the last commit left it, if it is among the recent ones, and the store's time. No store
    /// trip; `None` proves nothing. Whose record it is, is for the caller to compare (P4).
    #[must_use]
    pub fn recall(&self, id: RecordId) -> Option<(Arc<Record>, Time)> {
        self.shared.recent.find(id).map(|record| (record, self.shared.clock.now()))
    }

    /// Claims `id`, runs `effect` and finishes the record, all in one commit (P8, one-commit mode). One store trip.
    ///
    /// `effect` runs on the writer's thread, inside the batch's transaction: it must be quick and wait for nothing. It
    /// is not run if a live record stands there. An expired record is replaced. If it refuses, all it wrote is rolled
    /// back, the key stays free, and other callers' work in the same batch is not touched. It may be run again after a
    /// run of which nothing was kept, so what it does outside the transaction must bear that.
    ///
    /// Dropping the future withdraws a call that has not begun, or leaves it to happen whole.
    ///
    /// # Errors
    /// [`StoreError::RolledBack`] when a statement failed or the effect panicked: nothing happened. After any error
    /// except [`StoreError::InDoubt`] nothing happened; that one is resolved by calling again with the same attempt id.
    pub async fn claim_and_finish<T, F>(
        &self,
        id: RecordId,
        claim: Claim,
        effect: F,
    ) -> Result<OneCommit<T>, StoreError>
    where
        F: FnMut(&WriteTx<'_>, &Claimed) -> Result<Finish, Abort<T>> + Send + 'static,
        T: Send + 'static,
    {
        let now = self.shared.clock.now();
        if let Some(record) = self.standing_in_the_way(id, &claim)?.filter(|record| !record.is_expired(now)) {
            return Ok(OneCommit::Conflict { record, now });
        }
        let (reply, answer) = oneshot::channel();
        self.command(OneCommitCommand { id, claim, effect, outcome: None, reply })?;
        answer.await.unwrap_or_else(|_| Err(cut_off()))
    }

    /// Runs `work` in a transaction of its own, committed with whatever else waits. One store trip.
    ///
    /// `work` runs on the writer's thread: it must be quick and wait for nothing. If it returns an error or panics, all
    /// it wrote is rolled back and nothing else. Records are changed by [`swap_in`] and [`finish_in`] only.
    ///
    /// Dropping the future withdraws work that has not begun, or leaves it to happen whole.
    ///
    /// # Errors
    /// [`TransactionError`]: the work's own refusal, or the store's failure.
    pub async fn transaction<T, E, F>(&self, work: F) -> Result<T, TransactionError<E>>
    where
        F: FnOnce(&WriteTx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.command(TransactionCommand { work: Some(work), outcome: None, reply })
            .map_err(TransactionError::Store)?;
        answer.await.unwrap_or_else(|_| Err(TransactionError::Store(cut_off())))
    }

    /// As [`SqliteStore::transaction`], for work that can be repeated. It may be run again after a run of which nothing
    /// was kept, so what it does outside the transaction must bear that.
    ///
    /// It costs no savepoint, which copies every page that is written in it. So it should refuse before it writes: work
    /// that refuses later has its whole batch run again, with savepoints.
    ///
    /// # Errors
    /// As [`SqliteStore::transaction`].
    pub async fn repeatable_transaction<T, E, F>(&self, work: F) -> Result<T, TransactionError<E>>
    where
        F: FnMut(&WriteTx<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.command(RepeatableCommand { work, outcome: None, reply }).map_err(TransactionError::Store)?;
        answer.await.unwrap_or_else(|_| Err(TransactionError::Store(cut_off())))
    }

    /// Runs `read` on a read-only connection, in a thread of the store's own. All its statements see one state of the
    /// database, at least as new as the last acknowledged write. One store trip.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] and [`StoreError::Overloaded`].
    pub async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        if self.shared.path.is_some() {
            return read_on(&self.shared.reads, read).await;
        }
        // A database in memory has one connection, the writer's.
        self.transaction(move |tx| read(tx)).await.map_err(store_error)
    }

    /// By how much the clock stepped, if purging waits for that to be confirmed (P9).
    #[must_use]
    pub fn clock_step(&self) -> Option<Duration> {
        self.shared.clock.step()
    }

    /// An operator says that the wall clock is right now: purging goes on. Stored, so that a restart does not ask again.
    ///
    /// # Errors
    /// [`StoreError`]; the clock of this process is confirmed in any case.
    pub async fn confirm_clock(&self) -> Result<(), StoreError> {
        self.shared.clock.confirm();
        let reading = self.shared.clock.reading();
        self.transaction(move |tx| open::confirm_reading(tx, &reading)).await.map_err(store_error)
    }

    /// Numbers for metrics and status pages.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        Stats {
            queued: shared.commands.len(),
            commits: shared.commits.load(Ordering::Relaxed),
            commands: shared.committed_commands.load(Ordering::Relaxed),
            commit_time: Duration::from_micros(shared.commit_us.load(Ordering::Relaxed)),
            file_bytes: shared.path.as_deref().map_or(0, file_bytes),
            recent_bytes: shared.recent.bytes(),
        }
    }

    /// Runs what is queued, then closes the database. Later calls are refused. May be called more than once.
    pub async fn close(&self) {
        self.shared.commands.close();
        // An error means that the writer's thread is gone, and with it everything there was to close.
        drop(self.closer.done.clone().wait_for(|done| *done).await);
    }

    fn command(&self, command: impl Command + 'static) -> Result<(), StoreError> {
        self.shared.commands.push(Box::new(command)).map_err(not_queued)
    }

    /// A remembered record under the claim's key.
    fn standing_in_the_way(&self, id: RecordId, claim: &Claim) -> Result<Option<Arc<Record>>, StoreError> {
        let Some(record) = self.shared.recent.find(id) else { return Ok(None) };
        commands::check_owner(&record, claim)?;
        Ok(Some(record))
    }

    async fn swap_one(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> Result<Swap, StoreError> {
        if let (None, Change::Claim(claim)) = (expected, &change)
            && let Some(record) = self.standing_in_the_way(id, claim)?
        {
            return Ok(Swap::Conflict { record: Some(record), now: self.shared.clock.now() });
        }
        let (reply, answer) = oneshot::channel();
        self.command(SwapCommand { id, expected, change, outcome: None, reply })?;
        answer.await.unwrap_or_else(|_| Err(cut_off()))
    }

    async fn load_one(&self, id: RecordId) -> Result<Loaded, StoreError> {
        let record = match self.shared.recent.find(id) {
            Some(record) => Some(record),
            None => {
                let by_id = self.shared.by_id.clone();
                let find = move |db: &Connection| records::find(db, id, &by_id.rows(db, id.as_bytes())?);
                self.read(find).await?.map(Arc::new)
            }
        };
        Ok(Loaded { record, now: self.shared.clock.now() })
    }

    async fn purge_some(&self, limit: usize) -> Result<Purged, StoreError> {
        if let Some(step) = self.shared.clock.step() {
            return Err(StoreError::ClockStepped { step });
        }
        let mut deleted = 0;
        while deleted < limit && self.purge_lag().await?.is_some() {
            deleted += self.purge_bite(PURGE_BITE.min(limit - deleted)).await?;
        }
        Ok(Purged { deleted: deleted as u64, lag: self.purge_lag().await?.unwrap_or_default() })
    }

    /// How long the oldest expired record has been expired; `None` if none is.
    async fn purge_lag(&self) -> Result<Option<Duration>, StoreError> {
        let oldest = self.read(records::oldest_expiry).await?;
        let now = self.shared.clock.now();
        Ok(oldest.filter(|expires_at| *expires_at <= now).map(|expires_at| now.since(expires_at)))
    }

    async fn purge_bite(&self, bite: usize) -> Result<usize, StoreError> {
        let purge = move |tx: &WriteTx<'_>| {
            let purged = records::purge(tx, tx.now(), bite)?;
            for (id, position) in &purged {
                tx.purged(*id, *position)?;
            }
            Ok(purged.len())
        };
        self.transaction(purge).await.map_err(store_error)
    }
}

/// Work of callers cannot make the writer panic; if a fault of ours does, nobody is left waiting for it.
fn run_to_the_end(writer: Writer, shared: &Shared) -> Option<Connection> {
    match catch_unwind(AssertUnwindSafe(|| writer.run())) {
        Ok(connection) => connection,
        Err(_) => {
            tracing::error!("the writer panicked: the store is closed");
            shared.commands.close();
            let mut unanswered = Vec::new();
            while shared.commands.take(&mut unanswered, usize::MAX) {
                unanswered.clear();
            }
            None
        }
    }
}

/// For work of the store's own, which refuses nothing by itself.
fn store_error(error: TransactionError<rusqlite::Error>) -> StoreError {
    match error {
        TransactionError::Refused(error) => unavailable(error),
        TransactionError::Store(error) => error,
    }
}

/// The writer's thread ended with the call in its hands.
fn cut_off() -> StoreError {
    StoreError::InDoubt("the store's writer ended".into())
}

fn file_bytes(path: &Path) -> u64 {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    [path.to_owned(), PathBuf::from(wal)]
        .iter()
        .filter_map(|file| fs::metadata(file).ok())
        .map(|it| it.len())
        .sum()
}

impl Store for SqliteStore {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        Box::pin(self.swap_one(id, expected, change))
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(self.load_one(id))
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        Box::pin(async move {
            let now = self.shared.clock.now();
            let records = self.read(move |db| records::due(db, now, limit)).await?;
            Ok(Due { records: records.into_iter().map(Arc::new).collect(), now })
        })
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.purge_some(limit))
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move {
            let (records, next) = self.read(move |db| records::list(db, &filter, after, limit)).await?;
            let records = records.into_iter().map(Arc::new).collect();
            Ok(Page { records, next, now: self.shared.clock.now() })
        })
    }

    fn realm(&self) -> Option<Realm> {
        Some(self.shared.realm.clone())
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

/// Closes the store when the last handle goes.
struct Closer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    done: watch::Receiver<bool>,
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.shared.commands.close();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Work of a caller may hold the last handle; the thread it runs on cannot wait for itself.
        if let Some(thread) = thread.filter(|_| !is_store_thread()) {
            drop(thread.join());
        }
    }
}
