//! What goes wrong with a database, and what of it is the file's, the disk's or the caller's fault.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::ErrorCode;
use unavez_core::identity::{Realm, RecordId};
use unavez_core::record::{IllegalTransition, Record};

use crate::StoreError;
use crate::rules::Refusal;

/// Why a database was not opened. Nothing was changed, except that earlier migrations may have been applied.
#[derive(Debug)]
pub enum OpenError {
    /// Another process owns the file.
    Locked {
        /// The database.
        path: PathBuf,
        /// Who holds the lock, if it said so.
        pid: Option<u32>,
        /// How long was waited.
        waited: Duration,
    },
    /// The file has several names (hard links), each of which would have a log of recent commits of its own.
    Linked {
        /// The database.
        path: PathBuf,
        /// How many names.
        names: u64,
    },
    /// The file is damaged.
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// A newer version of this program has written the file.
    Newer {
        /// The database.
        path: PathBuf,
        /// Whose tables.
        component: String,
        /// Latest migration in the file.
        found: u32,
        /// Latest migration this program knows.
        known: u32,
    },
    /// The file lacks migrations, and [`Migrate::Check`](super::Migrate::Check) forbids applying them.
    Outdated {
        /// The database.
        path: PathBuf,
        /// Whose tables.
        component: String,
        /// Latest migration in the file; 0 for none.
        found: u32,
        /// Latest migration this program knows.
        known: u32,
    },
    /// The file or its folder cannot be written.
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// The disk, or the limit set for the file, is full.
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The file is something else.
    NotADatabase {
        /// The database.
        path: PathBuf,
    },
    /// The SQLite library has a fault that loses committed writes.
    LibraryTooOld {
        /// Its version.
        found: &'static str,
        /// The oldest that is safe.
        least: &'static str,
    },
    /// The database was created for another deployment.
    RealmMismatch {
        /// The database.
        path: PathBuf,
        /// The realm in the database.
        stored: Realm,
        /// The realm asked for.
        named: Realm,
    },
    /// Everything else.
    Io {
        /// The file.
        path: PathBuf,
        /// The system's or the library's words.
        detail: String,
    },
}

impl OpenError {
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { path, detail: error.to_string() },
        }
    }

    pub(super) fn sql(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, detail) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, detail },
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly { path },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            _ => Self::Io { path, detail },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path, pid, waited } => {
                write!(f, "database {} is owned by ", path.display())?;
                match pid {
                    Some(pid) => write!(f, "process {pid}")?,
                    None => f.write_str("another process")?,
                }
                if waited.is_zero() { Ok(()) } else { write!(f, ", waited {waited:?}") }
            }
            Self::Linked { path, names } => write!(
                f,
                "database {} has {names} names (hard links), allowed: 1; its log lies beside the name, \
                 so each name would be another database",
                path.display()
            ),
            Self::Corrupt { path, detail } => write!(f, "database {} is corrupt: {detail}", path.display()),
            Self::Newer { path, component, found, known } => write!(
                f,
                "database {} is newer than this program: migration {found} of {component}, known up to {known}",
                path.display()
            ),
            Self::Outdated { path, component, found, known } => write!(
                f,
                "database {} is older than this program: migration {found} of {component}, needed {known}",
                path.display()
            ),
            Self::ReadOnly { path } => write!(f, "cannot write {}: read-only", path.display()),
            Self::Full { path } => write!(f, "cannot write {}: disk or file limit is full", path.display()),
            Self::NotADatabase { path } => write!(f, "{} is not a sqlite database", path.display()),
            Self::LibraryTooOld { found, least } => {
                write!(f, "sqlite {found} can lose committed writes, needed at least {least}")
            }
            Self::RealmMismatch { path, stored, named } => write!(
                f,
                "database {} belongs to realm {}, not to {}",
                path.display(),
                stored.as_str(),
                named.as_str()
            ),
            Self::Io { path, detail } => write!(f, "cannot open {}: {detail}", path.display()),
        }
    }
}

impl std::error::Error for OpenError {}

/// How an effect of [`SqliteStore::claim_and_finish`](super::SqliteStore::claim_and_finish) refuses. All it did is
/// rolled back. `?` on the library's errors makes [`Abort::Sql`].
#[derive(Debug)]
pub enum Abort<T> {
    /// The caller gets this back.
    Refuse(T),
    /// The caller gets [`StoreError::RolledBack`].
    Sql(rusqlite::Error),
}

impl<T> From<rusqlite::Error> for Abort<T> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Why a transaction did not commit.
#[derive(Debug)]
pub enum TransactionError<E> {
    /// The work refused; all it did is rolled back.
    Refused(E),
    /// The store failed: whether the work can have happened is part of the error.
    Store(StoreError),
}

impl<E: fmt::Display> fmt::Display for TransactionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error> std::error::Error for TransactionError<E> {}

/// Why a change inside a transaction failed. The work must return an error then, so that all of it is rolled back.
#[derive(Debug)]
pub enum SwapInError {
    /// The transition is not in the table.
    Illegal(IllegalTransition),
    /// Another tenant's or key's record has this hash.
    Collision(RecordId),
    /// The library refused.
    Sql(rusqlite::Error),
}

/// Why a finish inside a transaction failed. The work must return an error then, so that its rows are rolled back.
#[derive(Debug)]
pub enum FinishInError {
    /// Another attempt owns the record, or nobody does (P11).
    Overtaken {
        /// What stands there.
        record: Option<Arc<Record>>,
    },
    /// The transition is not in the table.
    Illegal(IllegalTransition),
    /// The library refused.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for SwapInError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<rusqlite::Error> for FinishInError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Refusal> for SwapInError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Illegal(illegal) => Self::Illegal(illegal),
            Refusal::Collision(id) => Self::Collision(id),
        }
    }
}

impl From<SwapInError> for FinishInError {
    fn from(error: SwapInError) -> Self {
        match error {
            SwapInError::Illegal(illegal) => Self::Illegal(illegal),
            // A finish carries neither tenant nor key, so it cannot collide; whoever stands there is not its owner.
            SwapInError::Collision(_) => Self::Overtaken { record: None },
            SwapInError::Sql(error) => Self::Sql(error),
        }
    }
}

impl fmt::Display for SwapInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Illegal(illegal) => illegal.fmt(f),
            Self::Collision(id) => StoreError::Collision(*id).fmt(f),
            Self::Sql(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for FinishInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overtaken { record: Some(record) } => {
                let (attempt, state) = (record.fence.attempt, record.state.name());
                write!(f, "overtaken by attempt {attempt}, record is {state}")
            }
            Self::Overtaken { record: None } => f.write_str("overtaken, there is no record any more"),
            Self::Illegal(illegal) => illegal.fmt(f),
            Self::Sql(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SwapInError {}
impl std::error::Error for FinishInError {}

/// Whether an error says that what this process believes about the file may be wrong: then it opens the file anew.
pub(super) fn needs_reopening(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
                | ErrorCode::CannotOpen
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

/// A failure before COMMIT was sent, or shown to be rolled back.
pub(super) fn unavailable(error: impl fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string().into())
}
