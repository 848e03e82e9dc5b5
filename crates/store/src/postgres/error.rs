//! What goes wrong with a database, and what is known then of the statement that was sent.

use std::fmt;
use std::sync::Arc;

use tokio_postgres::error::{DbError, Severity, SqlState};
use unavez_core::identity::{Realm, RecordId};
use unavez_core::record::{IllegalTransition, Record};

use crate::StoreError;

/// Why a database was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The connection string is not one.
    Url(String),
    /// The certificates that the connection string names, or the system's, cannot be read.
    Certificates(String),
    /// No connection, or it broke.
    Connect(String),
    /// The server acknowledges what a crash can take back.
    Unsafe {
        /// Its setting.
        setting: &'static str,
        /// The value seen.
        value: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A newer version of this program has written the tables.
    Newer {
        /// Whose tables.
        component: String,
        /// Latest migration in the database.
        found: u32,
        /// Latest migration this program knows.
        known: u32,
    },
    /// The database lacks migrations, and [`Migrate::Check`](super::Migrate::Check) forbids applying them.
    Outdated {
        /// Whose tables.
        component: String,
        /// Latest migration in the database; 0 for none.
        found: u32,
        /// Latest migration this program knows.
        known: u32,
    },
    /// What is stored is not what this program writes.
    Corrupt(String),
    /// The database was created for another deployment.
    RealmMismatch {
        /// The realm in the database.
        stored: Realm,
        /// The realm asked for.
        named: Realm,
    },
    /// The server refused a statement.
    Refused(String),
}

impl OpenError {
    /// While connecting.
    pub(super) fn connect(error: &tokio_postgres::Error) -> Self {
        Self::Connect(words(error).to_string())
    }
}

impl From<tokio_postgres::Error> for OpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        match Failure::of(&error) {
            Failure::Refused(refusal) => Self::Refused(refusal.to_string()),
            Failure::Unreached(why) | Failure::CutOff(why) => Self::Connect(why.to_string()),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => write!(f, "connection string of the database: {why}"),
            Self::Certificates(why) => write!(f, "certificates for the database: {why}"),
            Self::Connect(why) => write!(f, "no connection to the database: {why}"),
            Self::Unsafe { setting, value, remedy } => {
                write!(
                    f,
                    "the database has {setting} = {value}, so a crash can take back what it acknowledged; {remedy}"
                )
            }
            Self::Newer { component, found, known } => write!(
                f,
                "database is newer than this program: migration {found} of {component}, known up to {known}"
            ),
            Self::Outdated { component, found, known } => write!(
                f,
                "database lacks migrations of {component}: it has {found}, this program needs {known}; \
                 open it once with `Migrate::Auto`"
            ),
            Self::Corrupt(why) => write!(f, "database is corrupt: {why}"),
            Self::RealmMismatch { stored, named } => {
                write!(f, "database belongs to realm `{}`, not to `{}`", stored.as_str(), named.as_str())
            }
            Self::Refused(why) => write!(f, "database refused: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What a server said against a statement.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    code: SqlState,
    message: Arc<str>,
}

impl Refusal {
    /// Whether the same statement may succeed at once: it lost against another, and nothing is wrong with it.
    pub(super) fn is_transient(&self) -> bool {
        self.code == SqlState::T_R_SERIALIZATION_FAILURE || self.code == SqlState::T_R_DEADLOCK_DETECTED
    }

    /// Whether the server would say this to any command: it is about the session, the tables or the machine.
    pub(super) fn is_about_all(&self) -> bool {
        ["25", "28", "42", "53", "57", "58"].iter().any(|class| self.code.code().starts_with(class))
    }

    /// Whether somebody else's transaction holds a row for too long: said of any batch with that row, and may end.
    pub(super) fn is_about_a_lock(&self) -> bool {
        self.code == SqlState::LOCK_NOT_AVAILABLE
    }

    /// Whether this is no longer the server that takes writes.
    pub(super) fn is_read_only(&self) -> bool {
        self.code == SqlState::READ_ONLY_SQL_TRANSACTION
    }

    pub(super) fn is_race_of_creations(&self) -> bool {
        [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT]
            .contains(&self.code)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code.code())
    }
}

/// What is known of a statement that brought no result.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The server refused it whole: nothing happened.
    Refused(Refusal),
    /// It was never sent.
    Unreached(Arc<str>),
    /// It was sent, and no answer of the server says what became of it (P12).
    CutOff(Arc<str>),
}

impl Failure {
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) if !leaves_open(said) => {
                Self::Refused(Refusal { code: said.code().clone(), message: said.message().into() })
            }
            _ => Self::CutOff(words(error)),
        }
    }

    /// For a write.
    pub(super) fn of_write(self) -> StoreError {
        match self {
            Self::CutOff(why) => StoreError::InDoubt(why),
            other => other.of_read(),
        }
    }

    /// For a read, which cannot have happened.
    pub(super) fn of_read(self) -> StoreError {
        match self {
            Self::CutOff(why) | Self::Unreached(why) => StoreError::Unavailable(why),
            // The server would say the same again.
            Self::Refused(refusal)
                if !refusal.is_transient() && !refusal.is_about_all() && !refusal.is_about_a_lock() =>
            {
                StoreError::RolledBack(refusal.to_string().into())
            }
            Self::Refused(refusal) => StoreError::Unavailable(refusal.to_string().into()),
        }
    }
}

/// Whether the statement can have been committed although this was said: the session ended over it, or the server does
/// not know itself.
fn leaves_open(said: &DbError) -> bool {
    matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        || said.code().code().starts_with("08")
        || *said.code() == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
}

/// Whether a notice says that a commit stands here, and perhaps nowhere else: the wait for a standby was broken off.
pub(super) fn is_doubt(notice: &DbError) -> bool {
    matches!(notice.parsed_severity(), Some(Severity::Warning))
        && [SqlState::WARNING, SqlState::ADMIN_SHUTDOWN].contains(notice.code())
}

/// The driver's words with their causes; they hold no parameters.
pub(super) fn words(error: &tokio_postgres::Error) -> Arc<str> {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text.into()
}

/// Why a record was not finished inside a caller's transaction. The transaction must roll back.
#[derive(Debug)]
pub enum FinishInError {
    /// Another attempt owns the record, or it is gone (P11).
    Overtaken(Option<Arc<Record>>),
    /// The record is in a state that cannot be finished.
    Illegal(IllegalTransition),
    /// Another tenant's or key's record has this hash.
    Collision(RecordId),
    /// The database refused, or the connection broke.
    Sql(tokio_postgres::Error),
    /// The stored record does not read back.
    Unreadable(String),
}

impl From<tokio_postgres::Error> for FinishInError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl fmt::Display for FinishInError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overtaken(Some(record)) => write!(f, "record {} belongs to another attempt", record.id),
            Self::Overtaken(None) => f.write_str("the record is gone"),
            Self::Illegal(illegal) => illegal.fmt(f),
            Self::Collision(id) => write!(f, "record {id} belongs to another key"),
            Self::Sql(error) => f.write_str(&words(error)),
            Self::Unreadable(why) => write!(f, "record does not read back: {why}"),
        }
    }
}

impl std::error::Error for FinishInError {}
