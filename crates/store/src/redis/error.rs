//! What goes wrong with a server, and what is known then of the call that was sent.

use std::fmt;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use unavez_core::identity::Realm;

use crate::StoreError;

/// Why a server was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The connection string is not one.
    Url(String),
    /// No connection, or it broke.
    Connect(String),
    /// The server acknowledges what it can lose by itself.
    Unsafe {
        /// Its setting.
        setting: &'static str,
        /// The value seen.
        value: String,
        /// What that means.
        consequence: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// The server lacks what the scripts need.
    TooOld {
        /// Its version.
        version: String,
    },
    /// The server was first used by another deployment.
    RealmMismatch {
        /// The realm on the server.
        stored: Realm,
        /// The realm asked for.
        named: Realm,
    },
    /// What is stored is not what this program writes.
    Corrupt(String),
    /// The server refused a command.
    Refused(String),
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(why) => Self::Refused(why.to_string()),
            Failure::Unreached(why) | Failure::CutOff(why) => Self::Connect(why.to_string()),
            Failure::Overloaded { .. } => Self::Connect("too many calls".to_owned()),
        }
    }
}

/// Of the first reading.
impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => write!(f, "connection string of Redis: {why}"),
            Self::Connect(why) => write!(f, "no connection to Redis: {why}"),
            Self::Unsafe { setting, value, consequence, remedy } => {
                write!(f, "the server has {setting} = {value}, so {consequence}; {remedy}")
            }
            Self::TooOld { version } => {
                write!(f, "the server is version {version}, and scripts as these need 7.0 or later")
            }
            Self::RealmMismatch { stored, named } => {
                write!(
                    f,
                    "the server's records belong to realm `{}`, not to `{}`",
                    stored.as_str(),
                    named.as_str()
                )
            }
            Self::Corrupt(why) => write!(f, "what the server holds is corrupt: {why}"),
            Self::Refused(why) => write!(f, "the server refused: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What is known of a call that brought no result.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The server refused it before it did anything.
    Refused(Arc<str>),
    /// It was never sent.
    Unreached(Arc<str>),
    /// It was not sent: too many are under way.
    Overloaded { waiting: usize },
    /// It was sent, and nothing says what became of it (P12).
    CutOff(Arc<str>),
}

/// Codes with which a server refuses a script before it begins. Any other error of a script may come from its middle, and
/// nothing that it wrote before is taken back.
const REFUSALS: [&str; 13] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
];

impl Failure {
    pub(super) fn of(error: &RedisError) -> Self {
        let why: Arc<str> = error.to_string().into();
        if error.code().is_some_and(|code| REFUSALS.contains(&code)) {
            return Self::Refused(why);
        }
        match error.kind() {
            ErrorKind::ClusterConnectionNotFound | ErrorKind::Client | ErrorKind::InvalidClientConfig => {
                Self::Unreached(why)
            }
            _ => Self::CutOff(why),
        }
    }

    pub(super) fn unreached(error: &RedisError) -> Self {
        Self::Unreached(error.to_string().into())
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
            Self::Refused(why) | Self::Unreached(why) | Self::CutOff(why) => StoreError::Unavailable(why),
            Self::Overloaded { waiting } => StoreError::Overloaded { waiting },
        }
    }
}

/// Whether the server does not know the script that was called by its digest.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether the slot has gone to another node, which the driver knows from then on.
pub(super) fn is_moved(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Moved)
}

/// Whether the connection is of no further use: it broke, it is silent, or the server does not take writes any more.
pub(super) fn ends_the_session(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse | ErrorKind::Server(ServerErrorKind::ReadOnly))
}
