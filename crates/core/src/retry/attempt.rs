//! How an attempt ended, in the words that the rules know.

use core::time::Duration;

use crate::outcome::is_released_status;

/// What kind of operation is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// It carries a key, and the server takes effect once for it.
    Keyed,
    /// Its method has no effect (GET, HEAD, OPTIONS).
    Safe,
    /// It has an effect and no key: sent again, it may happen again. PUT and DELETE without a key are such, since what
    /// they answer the second time is not what they answered the first time.
    Bare,
}

impl Nature {
    /// Whether sending it again can do no harm (P30).
    pub const fn is_safe_to_repeat(self) -> bool {
        !matches!(self, Self::Bare)
    }
}

/// Whether the server may have received an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing took effect, for sure.
    No,
    /// Nobody knows.
    Perhaps,
}

impl Received {
    /// Of two attempts.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match self {
            Self::No => other,
            Self::Perhaps => self,
        }
    }
}

/// How one attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Not a byte of the request left: no connection, the breaker is open, the bulkhead full.
    NotSent {
        /// When it is worth trying again, where that is known.
        wait: Option<Duration>,
    },
    /// The request may have left, and there is no whole answer to it.
    Cut,
    /// A whole answer.
    Answered(Answer),
}

/// An answer, as the server's preset reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// What it says beyond its status.
    pub says: Says,
    /// Whether the server said that the same request may be sent again; `None`: the status decides.
    pub retryable: Option<bool>,
    /// For how long the server asked not to be asked.
    pub wait: Option<Duration>,
}

/// What an answer says beyond its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Nothing: any layer between here and the key's record may have made it.
    Nothing,
    /// It is the outcome that the server keeps for the key, and would be the same again.
    Recorded,
    /// Accepted, and not decided yet.
    Pending,
    /// It is not what the server keeps: that would be marked.
    Unmarked,
}

impl Answer {
    /// An answer that says no more than its status.
    pub const fn of_status(status: u16) -> Self {
        Self { status, says: Says::Nothing, retryable: None, wait: None }
    }

    /// An answer from the key's record.
    pub const fn recorded(status: u16) -> Self {
        Self { says: Says::Recorded, ..Self::of_status(status) }
    }

    /// Whether the status alone, under a key, is one to repeat (P30). A conflict is only if the server says so.
    pub(crate) const fn is_repeated(&self) -> bool {
        match self.retryable {
            Some(said) => said,
            None => matches!(self.status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
        }
    }
}

impl Ended {
    /// Whether the attempt may have taken effect. Statuses with which a server says that nothing ran are believed; a
    /// gateway's are not (P15, P32).
    pub const fn received(&self) -> Received {
        match self {
            Self::NotSent { .. } => Received::No,
            Self::Cut => Received::Perhaps,
            Self::Answered(answer) if is_released_status(answer.status) => Received::No,
            Self::Answered(_) => Received::Perhaps,
        }
    }

    /// How the breaker counts it (P33). What was not sent because of the breaker or the bulkhead holds no ticket and is
    /// not counted at all.
    pub const fn class(&self) -> Class {
        match self {
            Self::NotSent { .. } | Self::Cut => Class::Failure,
            Self::Answered(answer) => Class::of_status(answer.status),
        }
    }

    pub(crate) const fn wait(&self) -> Option<Duration> {
        match self {
            Self::NotSent { wait } => *wait,
            Self::Cut => None,
            Self::Answered(answer) => answer.wait,
        }
    }
}

/// What an attempt says about the host's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The host works.
    Success,
    /// It does not.
    Failure,
    /// A refusal: about the request, not about the host.
    Neutral,
}

impl Class {
    /// 2xx and 3xx are success, 500, 502, 503 and 504 failure, all else neutral (P33).
    pub const fn of_status(status: u16) -> Self {
        match status {
            200..=399 => Self::Success,
            500 | 502..=504 => Self::Failure,
            _ => Self::Neutral,
        }
    }
}

/// What the server says about a key when it is asked (P22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Its outcome is stored: the same request gets it.
    Finished,
    /// It is running, or the outside system has not decided.
    Open,
    /// Nobody knows yet: the same request makes the server find out.
    Unknown,
    /// Given up: a person must look.
    Abandoned,
    /// No record. It proves nothing, since the request may still be on its way.
    Nothing,
    /// No usable answer.
    CannotSay,
}
