//! Operations in a worker's hands, and what came of them.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use unavez_core::retry::{Backoff, Reason, Received};

use super::row::Tampered;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::unfit::Unfit;

/// What a worker asks for.
pub(super) struct Lease<'a> {
    pub(super) tenant: &'a str,
    pub(super) duration: Duration,
    pub(super) busy_hosts: &'a [Box<str>],
}

/// An operation that nobody else takes until its lease is over.
#[derive(Clone, Debug)]
pub(super) struct Leased {
    pub(super) id: i64,
    pub(super) lease: u32,
    pub(super) key: Box<str>,
    pub(super) host: Box<str>,
}

/// What a worker gets.
pub(super) enum Taken {
    Operation(Leased, Box<Operation>),
    Tampered(Leased, Tampered),
    /// Nothing is due, but perhaps later.
    Nothing {
        due_in: Option<Duration>,
    },
}

/// What a call came to, as it is written down.
#[derive(Debug)]
pub(super) enum Settlement {
    Done(Response<Bytes>),
    Refused(Response<Bytes>),
    Unknown { reason: String, received: Received },
    Later { wait: Duration, reason: String, received: Received },
}

impl Settlement {
    /// `calls`: how often it was taken, this time included. `random` is uniform over all of `u64`.
    pub(super) fn of(
        outcome: Result<Outcome, Unfit>,
        before: Received,
        backoff: Backoff,
        calls: u32,
        random: u64,
    ) -> Self {
        match outcome {
            Ok(Outcome::Done(answer)) => Self::Done(answer),
            Ok(Outcome::Refused(answer)) => Self::Refused(answer),
            Ok(Outcome::Unknown(unknown)) => {
                let (reason, received) = (unknown.to_string(), unknown.received);
                match unknown.reason {
                    Reason::TooOld | Reason::Abandoned | Reason::NoKey => Self::Unknown { reason, received },
                    // Everything else can change: the server comes back, or somebody mends what it objects to.
                    _ => {
                        Self::Later { wait: backoff.wait(calls.saturating_sub(1), random), reason, received }
                    }
                }
            }
            Err(unfit) => Self::Unknown { reason: unfit.to_string(), received: before },
        }
    }

    /// Of a row that is not what was put. Whatever it says of earlier attempts is not believed either.
    pub(super) fn tampered() -> Self {
        Self::Unknown { reason: Tampered::REASON.to_owned(), received: Received::Perhaps }
    }

    pub(super) const fn state(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Refused(_) => "refused",
            Self::Unknown { .. } => "unknown",
            Self::Later { .. } => "waiting",
        }
    }

    pub(super) const fn answer(&self) -> Option<&Response<Bytes>> {
        match self {
            Self::Done(answer) | Self::Refused(answer) => Some(answer),
            Self::Unknown { .. } | Self::Later { .. } => None,
        }
    }

    pub(super) fn reason(&self) -> Option<&str> {
        match self {
            Self::Unknown { reason, .. } | Self::Later { reason, .. } => Some(reason),
            Self::Done(_) | Self::Refused(_) => None,
        }
    }

    pub(super) const fn received(&self) -> Received {
        match self {
            Self::Done(_) | Self::Refused(_) => Received::Perhaps,
            Self::Unknown { received, .. } | Self::Later { received, .. } => *received,
        }
    }
}
