//! What an outbox refuses, and what its database could not do.

use std::fmt;
use std::path::PathBuf;

use crate::transport::Cause;

/// Why an outbox did not do what it was asked.
///
/// Whatever it is, putting or sending again is harmless: the key is the same. [`is_temporary`](Self::is_temporary) says
/// whether it can be of use.
#[derive(Debug)]
#[non_exhaustive]
pub enum OutboxError {
    /// The operation has no key, so nothing could be resumed.
    NoKey,
    /// The key stands there already, for another request.
    KeyTaken {
        /// It.
        key: Box<str>,
    },
    /// The body is larger than the outbox takes.
    BodyTooLarge {
        /// Bytes seen.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// So many operations wait already.
    Full {
        /// Operations allowed to wait.
        limit: usize,
    },
    /// The transaction belongs to another database than the outbox.
    OtherFile {
        /// The outbox's.
        outbox: PathBuf,
        /// The transaction's.
        transaction: PathBuf,
    },
    /// The transaction's connection does not sync what it commits: a power failure could forget an operation that was
    /// sent. Set `pragma synchronous = full` on it.
    NotSynced {
        /// Its setting.
        synchronous: i64,
    },
    /// The SQLite in this program is too old to be trusted with a WAL that two processes write.
    LibraryTooOld {
        /// Its version.
        version: &'static str,
    },
    /// The tables were made by a newer program.
    UnknownFormat {
        /// Seen.
        format: i64,
        /// Known.
        known: i64,
    },
    /// The database did not do it, or did not say so.
    Database {
        /// What was being done.
        doing: &'static str,
        /// The database's file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The runtime is shutting down.
    ShuttingDown,
}

impl OutboxError {
    /// Whether the same can succeed later by itself, or once room has been made on the disk.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, SystemIoFailure};
        match self {
            Self::Full { .. } => true,
            Self::Database { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure)
            ),
            _ => false,
        }
    }
}

impl fmt::Display for OutboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("operation has no key, so it could not be resumed"),
            Self::KeyTaken { key } => {
                write!(f, "key `{key}` stands in the outbox already, for another request")
            }
            Self::BodyTooLarge { bytes, limit } => {
                write!(f, "body has {bytes} bytes, the outbox takes {limit}")
            }
            Self::Full { limit } => write!(f, "{limit} operations wait in the outbox already"),
            Self::OtherFile { outbox, transaction } => write!(
                f,
                "transaction is of `{}`, the outbox of `{}`",
                transaction.display(),
                outbox.display()
            ),
            Self::NotSynced { synchronous } => {
                write!(
                    f,
                    "transaction's connection has `pragma synchronous = {synchronous}`, needed is 2 (full)"
                )
            }
            Self::LibraryTooOld { version } => {
                write!(f, "SQLite {version} can lose committed writes of a WAL, needed is 3.51.3")
            }
            Self::UnknownFormat { format, known } => {
                write!(f, "outbox has format {format}, this program knows {known}")
            }
            Self::Database { doing, path, source } => {
                write!(f, "{}", Cause::of(&format!("{doing} `{}`", path.display()), source))
            }
            Self::ShuttingDown => f.write_str("runtime is shutting down"),
        }
    }
}

impl std::error::Error for OutboxError {}
