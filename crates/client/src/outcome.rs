//! The three results of a call (P32).

use std::fmt;

use bytes::Bytes;
use http::Response;
use unavez_core::key::Key;
use unavez_core::retry::{Reason, Received};

use crate::transport::Cause;

/// What a call came to.
#[derive(Debug)]
#[must_use = "an unknown operation must be resolved with its key"]
pub enum Outcome {
    /// It took effect. The answer is the operation's.
    Done(Response<Bytes>),
    /// It did not, and never will under this key: a final negative answer.
    Refused(Response<Bytes>),
    /// Nobody knows, or it has not ended. This is no failure: the operation may have happened.
    Unknown(Box<Unknown>),
}

/// An operation whose result is not known. Its key is not replaced and its body not edited while it is.
#[derive(Debug)]
pub struct Unknown {
    /// The key. `None`: it had none, and nobody can ask.
    pub key: Option<Key>,
    /// How to find out.
    pub resolve: Resolve,
    /// Why the call ended.
    pub reason: Reason,
    /// Whether any attempt may have been received. [`Received::No`]: nothing happened, and a later call starts afresh.
    pub received: Received,
    /// Where the server says what became of the key, if it can be asked (P22).
    pub key_status: Option<Box<str>>,
    /// What the last attempt met.
    pub last: Last,
}

/// What the last attempt met.
#[derive(Debug)]
pub enum Last {
    /// Nothing was attempted.
    Nothing,
    /// An answer, which does not settle the operation.
    Answer(Box<Response<Bytes>>),
    /// No answer.
    Failed(Cause),
}

/// How an unknown operation is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolve {
    /// Call the same operation again: same key, same body.
    Repeat,
    /// Mend what the server objects to (credentials, address), then call the same operation again.
    MendAndRepeat,
    /// Look at the server whether it happened. Sending it again could make it happen again.
    Look,
}

impl Resolve {
    pub(crate) const fn after(reason: Reason, received: Received, has_key: bool) -> Self {
        match reason {
            Reason::Credentials | Reason::Redirected => match (received, has_key) {
                (Received::Perhaps, false) => Self::Look,
                _ => Self::MendAndRepeat,
            },
            Reason::Abandoned | Reason::TooOld => Self::Look,
            _ if has_key || matches!(received, Received::No) => Self::Repeat,
            _ => Self::Look,
        }
    }

    /// A phrase for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Repeat => "repeat the same operation with the same key",
            Self::MendAndRepeat => "mend what the server objects to, then repeat with the same key",
            Self::Look => "look at the server whether it happened before sending anything",
        }
    }
}

impl Outcome {
    /// The answer of a call that is done or refused.
    pub fn answer(&self) -> Option<&Response<Bytes>> {
        match self {
            Self::Done(answer) | Self::Refused(answer) => Some(answer),
            Self::Unknown(_) => None,
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.received {
            Received::No => f.write_str("nothing happened yet: ")?,
            Received::Perhaps => f.write_str("nobody knows whether it happened: ")?,
        }
        f.write_str(self.reason.as_str())?;
        match &self.last {
            Last::Nothing => {}
            Last::Answer(answer) => write!(f, " (last answer: {})", answer.status())?,
            Last::Failed(cause) => write!(f, " (last: {cause})")?,
        }
        write!(f, "; {}", self.resolve.as_str())
    }
}

impl std::error::Error for Unknown {}
