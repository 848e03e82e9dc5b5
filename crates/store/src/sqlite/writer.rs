//! The one thread that writes: group commit.
//!
//! 1. It takes every command that waits, runs them in one transaction, commits once, and answers all. There is no
//!    timer: a lone command is committed at once, and under load batches form while the previous one is synced.
//! 2. A command that fails undoes itself alone. If the transaction falls beneath a batch (a full disk does that), the
//!    commands that can run again do so one by one, and the others are told that nothing happened.
//! 3. Nothing commits on this connection but the writer's own COMMIT: work that outlives its transaction, or sends one
//!    itself, is rolled back by the commit hook.
//! 4. Every commit names the epoch; if another process has raised it, this one never writes again.
//! 5. A failed COMMIT is in doubt until the file was opened anew: the number of the last batch in it tells whether it
//!    happened. Only if that fails too do callers learn that they are in doubt.
//! 6. After an I/O error the file is opened anew and everything remembered of it is dropped.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rusqlite::{Connection, ErrorCode, params};
use unavez_core::identity::RecordId;
use unavez_core::record::Record;
use unavez_core::time::Time;

use super::checkpoints::Wal;
use super::commands::{Command, Isolation, Ran};
use super::digest_index::Clerk;
use super::error::{needs_reopening, unavailable};
use super::open::{Owned, Reopened, reopen};
use super::queue::Queue;
use super::shared::Shared;
use super::tx::{Trouble, WriteTx};
use crate::StoreError;

/// Most commands of one transaction: bounds how long the first of them waits for the last.
const BATCH_MAX: usize = 1024;

pub(super) struct Writer {
    shared: Arc<Shared>,
    /// `None` for a database in memory, which cannot be opened again.
    path: Option<PathBuf>,
    file_bytes_max: Option<u64>,
    state: State,
    clerk: Clerk,
    epoch: i64,
    /// Number of the last commit.
    batch: i64,
    /// Set while the writer itself commits.
    may_commit: Arc<AtomicBool>,
    wal: Arc<Wal>,
    checkpoints: Arc<Queue<()>>,
}

enum State {
    Open(Connection),
    /// To be opened anew before the next batch.
    Doubtful,
    /// Another process writes now.
    Overtaken,
}

/// Why a batch did not commit.
enum Failure {
    /// Nothing of it was begun.
    NotBegun(rusqlite::Error),
    /// Nothing of it happened.
    RolledBack(rusqlite::Error),
    /// Nothing of it happened, and what is remembered of the file may be wrong.
    FileInDoubt(rusqlite::Error),
    /// COMMIT was sent and failed.
    CommitInDoubt(rusqlite::Error),
    /// Nothing of it happened: another process has raised the epoch.
    Overtaken,
    /// Nothing of it happened, and all of it can run again: work refused after it had written.
    Tainted,
}

impl Failure {
    /// An I/O error puts the file in doubt wherever it was met.
    fn seen_as_doubt(self) -> Self {
        match self {
            Self::NotBegun(error) | Self::RolledBack(error) if needs_reopening(&error) => {
                Self::FileInDoubt(error)
            }
            other => other,
        }
    }
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        owned: Owned,
        file_bytes_max: Option<u64>,
        wal: Arc<Wal>,
        checkpoints: Arc<Queue<()>>,
    ) -> rusqlite::Result<Self> {
        let mut writer = Self {
            path: shared.path.clone(),
            shared,
            file_bytes_max,
            state: State::Doubtful,
            clerk: owned.clerk,
            epoch: owned.epoch,
            batch: owned.batch,
            may_commit: Arc::default(),
            wal,
            checkpoints,
        };
        writer.use_connection(owned.connection)?;
        writer.clerk.start();
        Ok(writer)
    }

    /// Works until the queue is closed and empty, then hands the connection back, to be closed last.
    pub(super) fn run(mut self) -> Option<Connection> {
        let mut taken = Vec::new();
        while self.shared.commands.take(&mut taken, BATCH_MAX) {
            self.perform(std::mem::take(&mut taken));
            self.tend_wal();
        }
        match self.state {
            State::Open(connection) => Some(connection),
            State::Doubtful | State::Overtaken => None,
        }
    }

    fn use_connection(&mut self, mut connection: Connection) -> rusqlite::Result<()> {
        let may_commit = Arc::clone(&self.may_commit);
        connection.commit_hook(Some(move || !may_commit.load(Ordering::Relaxed)))?;
        let wal = Arc::clone(&self.wal);
        connection.wal_hook(Some(move |_: &mut _, pages| {
            wal.committed(u32::try_from(pages).unwrap_or_default());
            Ok(())
        }))?;
        self.state = State::Open(connection);
        Ok(())
    }

    fn tend_wal(&mut self) {
        let State::Open(connection) = &self.state else { return };
        if let Err(error) = self.wal.tend(connection, &self.checkpoints) {
            tracing::error!(%error, "checkpoint failed");
            if needs_reopening(&error) {
                self.give_up_connection(State::Doubtful);
            }
        }
    }

    fn perform(&mut self, mut batch: Vec<Box<dyn Command>>) {
        if let Err(error) = self.ensure_open() {
            return answer(batch, &Err(error));
        }
        batch.sort_by_key(|command| !command.is_repeatable());
        let attempted = match self.attempt(&mut batch, Isolation::Bare) {
            Err(Failure::Tainted) => self.attempt(&mut batch, Isolation::Savepoints),
            attempted => attempted,
        };
        let failure = match attempted {
            Ok(()) => return answer(batch, &Ok(())),
            Err(failure) => failure,
        };
        match failure.seen_as_doubt() {
            Failure::RolledBack(error) if batch.len() > 1 => self.perform_singly(batch, &error),
            Failure::RolledBack(error) | Failure::NotBegun(error) => answer(batch, &Err(unavailable(error))),
            Failure::FileInDoubt(error) => {
                tracing::error!(%error, "database failed, opening it anew");
                self.give_up_connection(State::Doubtful);
                answer(batch, &Err(unavailable(error)));
            }
            Failure::CommitInDoubt(error) => {
                tracing::error!(%error, "commit failed, opening the database anew to see whether it happened");
                let fate = self.fate_of_doubtful_commit(&error);
                answer(batch, &fate);
            }
            Failure::Tainted => unreachable!("behind savepoints work is undone alone"),
            Failure::Overtaken => {
                tracing::error!(epoch = self.epoch, "another process has taken the database over");
                self.give_up_connection(State::Overtaken);
                answer(batch, &Err(overtaken()));
            }
        }
    }

    /// A batch fell as a whole: what can run again runs alone, so that only the guilty command fails.
    fn perform_singly(&mut self, batch: Vec<Box<dyn Command>>, error: &rusqlite::Error) {
        for command in batch {
            if command.can_run_again() {
                self.perform(vec![command]);
            } else {
                command.answer(Err(unavailable(error)));
            }
        }
    }

    /// Runs a batch in one transaction and commits it.
    fn attempt(&mut self, batch: &mut [Box<dyn Command>], isolation: Isolation) -> Result<(), Failure> {
        let State::Open(connection) = &self.state else { return Err(Failure::Overtaken) };
        let started = Instant::now();
        step(connection, "begin immediate").map_err(Failure::NotBegun)?;
        let now = self.shared.clock.now();
        let tx = WriteTx::new(connection, now, &self.shared, &self.clerk);
        let run = run_all(&tx, batch, isolation);
        let done = tx.into_done();
        let wrote = match run {
            Ok(wrote) => wrote,
            Err(failure) => {
                roll_back(connection);
                return Err(failure);
            }
        };
        if !wrote {
            // Nothing to make durable, so nothing to wait for.
            roll_back(connection);
            self.remember(done.records);
            return Ok(());
        }
        let filed = self.clerk.file(connection, &done.entries).map_err(Failure::RolledBack);
        let filed =
            filed.and_then(|filed| self.commit(connection, now).map(|()| filed)).inspect_err(|_| {
                roll_back(connection);
            })?;
        self.batch += 1;
        self.clerk.committed(done.entries, &filed);
        self.remember(done.records);
        done.hooks.into_iter().for_each(|then| then());
        self.shared.count_commit(batch.len(), started.elapsed());
        Ok(())
    }

    /// Teaches the memory what the file holds now.
    fn remember(&self, records: impl IntoIterator<Item = (RecordId, Option<Arc<Record>>)>) {
        for (id, record) in records {
            self.shared.recent.committed(id, record);
        }
    }

    fn commit(&self, connection: &Connection, now: Time) -> Result<(), Failure> {
        let stamped = connection
            .prepare_cached(include_str!("sql/stamp.sql"))
            .and_then(|mut stamp| stamp.execute(params![self.epoch, self.batch + 1, now.as_micros()]))
            .map_err(Failure::RolledBack)?;
        if stamped == 0 {
            return Err(Failure::Overtaken);
        }
        self.may_commit.store(true, Ordering::Relaxed);
        let committed = step(connection, "commit");
        self.may_commit.store(false, Ordering::Relaxed);
        committed.map_err(|error| match error.sqlite_error_code() {
            // Refused before anything was written: a deferred constraint of the caller's tables.
            Some(ErrorCode::ConstraintViolation) => Failure::RolledBack(error),
            // A frame of the WAL did not fit; the one that says "committed" is the last, so it is not there. (A sync
            // that finds no space is an I/O error.)
            Some(ErrorCode::DiskFull) => Failure::RolledBack(error),
            _ => Failure::CommitInDoubt(error),
        })
    }

    /// Opens the file anew if it is in doubt.
    fn ensure_open(&mut self) -> Result<(), StoreError> {
        match self.state {
            State::Open(_) => return Ok(()),
            State::Overtaken => return Err(overtaken()),
            State::Doubtful => {}
        }
        let path = self.path.as_deref().ok_or_else(|| unavailable("the database in memory is lost"))?;
        match reopen(path, self.file_bytes_max, self.epoch).map_err(unavailable)? {
            Reopened::Owner { connection, epoch, batch } => {
                (self.epoch, self.batch) = (epoch, batch);
                self.clerk.recall(&connection).map_err(unavailable)?;
                self.use_connection(connection).map_err(unavailable)
            }
            Reopened::Overtaken => {
                self.give_up_connection(State::Overtaken);
                Err(overtaken())
            }
        }
    }

    /// What is remembered of the file may be wrong from now on.
    fn give_up_connection(&mut self, state: State) {
        self.state = state;
        self.shared.recent.clear();
    }

    fn fate_of_doubtful_commit(&mut self, error: &rusqlite::Error) -> Result<(), StoreError> {
        let number = self.batch + 1;
        self.give_up_connection(State::Doubtful);
        match self.ensure_open() {
            Ok(()) if self.batch == number => Ok(()),
            Ok(()) => Err(unavailable(error)),
            Err(reopening) => Err(StoreError::InDoubt(format!("{error}; then {reopening}").into())),
        }
    }
}

/// Runs every command that is still wanted. `true` if there is something to commit.
fn run_all(tx: &WriteTx<'_>, batch: &mut [Box<dyn Command>], isolation: Isolation) -> Result<bool, Failure> {
    let mut wrote = false;
    for command in batch.iter_mut().filter(|command| !command.is_withdrawn()) {
        let mut failed = None;
        match command.run(tx, isolation) {
            Ran::Wrote => wrote = true,
            Ran::Nothing => {}
            Ran::Tainted => return Err(Failure::Tainted),
            Ran::Failed(error) => failed = Some(error),
        }
        let trouble = tx.trouble();
        if trouble == Some(Trouble::Misremembered) || failed.as_ref().is_some_and(needs_reopening) {
            return Err(Failure::FileInDoubt(failed.unwrap_or_else(fallen)));
        }
        // Whatever ran now would not belong to the batch.
        if trouble == Some(Trouble::Fallen) {
            return Err(Failure::RolledBack(failed.unwrap_or_else(fallen)));
        }
    }
    Ok(wrote)
}

/// Ends the transaction if it still stands. A failure shows at the next `begin`.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = step(connection, "rollback")
    {
        tracing::error!(%error, "rollback failed");
    }
}

fn step(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn answer(batch: Vec<Box<dyn Command>>, fate: &Result<(), StoreError>) {
    for command in batch {
        command.answer(fate.clone());
    }
}

/// The transaction is gone, and the work that lost it did not say why.
fn fallen() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK);
    rusqlite::Error::SqliteFailure(code, Some("the transaction was rolled back beneath its work".to_owned()))
}

fn overtaken() -> StoreError {
    unavailable("another process has taken the database over")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::sqlite::checkpoints::BEGIN_PAGES;
    use crate::sqlite::commands::TransactionCommand;
    use crate::sqlite::open::{Location, Options, own};
    use crate::sqlite::recent::Recent;

    /// A writer without a thread, and the folder its file lies in.
    fn writer() -> (Writer, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
        let owned = own(&Location::File(path.clone()), &Options::default(), clock.as_ref()).unwrap();
        let mut indexes = owned.clerk.indexes();
        let shared = Shared {
            by_id: indexes.remove(0),
            indexes,
            commands: Queue::new(1),
            reads: Arc::new(Queue::new(1)),
            recent: Recent::new(1 << 20),
            clock,
            realm: owned.realm.clone(),
            migrations: Vec::new(),
            path: Some(path),
            observer: None,
            commits: AtomicU64::new(0),
            committed_commands: AtomicU64::new(0),
            commit_us: AtomicU64::new(0),
        };
        let writer = Writer::new(
            Arc::new(shared),
            owned,
            None,
            Arc::new(Wal::new(BEGIN_PAGES)),
            Arc::new(Queue::new(1)),
        );
        (writer.unwrap(), folder)
    }

    /// Commits one command that creates a table.
    fn commit_table(writer: &mut Writer, name: &'static str) {
        let (reply, mut answer) = tokio::sync::oneshot::channel();
        let work = move |tx: &WriteTx<'_>| tx.execute_batch(&format!("create table {name} (x any) strict"));
        writer.perform(vec![Box::new(TransactionCommand { work: Some(work), outcome: None, reply })]);
        answer.try_recv().unwrap().unwrap();
    }

    fn doubt() -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC), None)
    }

    #[test]
    fn p12_a_doubtful_commit_that_is_in_the_file_has_happened() {
        let (mut writer, _folder) = writer();
        commit_table(&mut writer, "one");
        // As if the answer of this COMMIT had been lost.
        writer.batch -= 1;
        let epoch = writer.epoch;
        assert!(writer.fate_of_doubtful_commit(&doubt()).is_ok());
        assert_eq!(writer.epoch, epoch + 1);
        commit_table(&mut writer, "two");
    }

    #[test]
    fn p12_a_doubtful_commit_that_is_not_in_the_file_has_not_happened() {
        let (mut writer, _folder) = writer();
        commit_table(&mut writer, "one");
        let fate = writer.fate_of_doubtful_commit(&doubt());
        assert!(matches!(fate, Err(StoreError::Unavailable(_))), "{fate:?}");
        commit_table(&mut writer, "two");
    }

    #[test]
    fn p12_a_doubtful_commit_of_a_file_that_cannot_be_opened_stays_in_doubt() {
        let (mut writer, folder) = writer();
        commit_table(&mut writer, "one");
        let elsewhere = folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let path = writer.path.replace(elsewhere);
        let fate = writer.fate_of_doubtful_commit(&doubt());
        assert!(matches!(fate, Err(StoreError::InDoubt(_))), "{fate:?}");

        // Until it can be opened again nothing is done; then everything goes on.
        writer.path = path;
        commit_table(&mut writer, "two");
    }

    #[test]
    fn a_writer_that_was_overtaken_while_its_file_was_away_stays_out() {
        let (mut writer, _folder) = writer();
        let other = Connection::open(writer.path.as_deref().unwrap()).unwrap();
        other.execute("update unavez_store set epoch = epoch + 1", []).unwrap();
        let fate = writer.fate_of_doubtful_commit(&doubt());
        assert!(matches!(fate, Err(StoreError::InDoubt(_))), "{fate:?}");
        assert!(matches!(writer.state, State::Overtaken));
    }
}
