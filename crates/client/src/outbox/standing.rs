//! What stands in an outbox, for those who look.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use unavez_core::retry::Received;

/// How an operation stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Standing {
    /// It waits, or is being sent.
    Waiting(Waiting),
    /// It took effect.
    Done(Response<Bytes>),
    /// It did not, and never will under this key.
    Refused(Response<Bytes>),
    /// Nobody knows, and it is not sent any more: a person must look (see [`Outbox::resume`](super::Outbox::resume)).
    Unknown {
        /// Why.
        reason: String,
        /// [`Received::No`]: nothing happened for sure.
        received: Received,
    },
}

/// An operation that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How often a worker has taken it, in all processes together.
    pub calls: u32,
    /// What the last call met.
    pub last: Option<String>,
}

/// How much there is to do, for a metric and an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Operations that wait or are being sent.
    pub waiting: u32,
    /// Operations that a person must look at.
    pub unknown: u32,
    /// How long ago the oldest waiting one was made.
    pub oldest_waiting: Option<Duration>,
}
