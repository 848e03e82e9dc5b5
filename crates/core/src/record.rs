//! The record of one operation, and the one table of its legal transitions.
//!
//! A store keeps [`Record`]s and applies [`Change`]s to them; what a change does to a record is decided here, so that
//! every store obeys the same rules and only has to be atomic.
//!
//! ```text
//! (none) --Claim--> InProgress --Finish--> Finished --(expired) Claim--> InProgress
//!                   InProgress --Release--> (none)
//!                   InProgress --MarkUnknown--> Unknown --Finish--> Finished
//!                   InProgress (lost) --TakeOver--> InProgress
//!                                     Unknown --TakeOver--> InProgress
//!                                     Unknown --Abandon--> Abandoned --Finish--> Finished
//! ```
//!
//! 1. Every change raises the version; version and attempt id together are the [`Fence`] (P11).
//! 2. A claim starts versions anew, so the attempt id must be fresh: no (version, attempt id) pair is used twice (P8).
//! 3. What may have been sent is never released by a later attempt (P15).

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use crate::answer::{Answer, Conclusion};
use crate::fingerprint::Fingerprint;
use crate::identity::{AttemptId, RecordId, Tenant};
use crate::key::Key;
use crate::time::Time;

/// Version and attempt id: what a writer must name to change a record (P11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Raised by every write.
    pub version: u64,
    /// Who holds, or last held, the record.
    pub attempt: AttemptId,
}

/// The stored row for (scope, key).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Hash of realm, tenant and key.
    pub id: RecordId,
    /// Whose key it is. Compared on every read, whatever the hash says.
    pub tenant: Tenant,
    /// The caller's name for the operation.
    pub key: Key,
    /// Digest of the request that claimed the key.
    pub fingerprint: Fingerprint,
    /// Names the latest write.
    pub fence: Fence,
    /// Attempts started so far, 1 after the claim.
    pub attempts: u32,
    /// Whether any attempt may have reached an outside system (P15).
    pub exposure: Exposure,
    /// Whether the outside system was ever seen to know the operation (P16).
    pub sighted: bool,
    /// When the key was claimed: also the earliest possible send.
    pub created_at: Time,
    /// When the latest attempt started.
    pub attempt_started_at: Time,
    /// The latest moment at which any attempt can have sent something (P13).
    pub latest_send_at: Time,
    /// Where the operation stands.
    pub state: State,
}

/// Where an operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// An attempt runs, or its owner is lost.
    InProgress {
        /// When the owner counts as lost. `None` in rows of older writers: alive until stamped (P9).
        deadline: Option<Time>,
    },
    /// An attempt ended and nobody knows how.
    Unknown {
        /// Cut off, or pending outside.
        cause: Cause,
        /// How often the outside system was asked.
        asked: u32,
        /// When it is asked next.
        next_ask_at: Time,
    },
    /// The outcome is known and repeated until it expires.
    Finished {
        /// When it became known.
        at: Time,
        /// When the answer stops being repeated (second clock).
        expires_at: Time,
        /// What became of the operation.
        conclusion: Conclusion,
        /// The first answer.
        answer: Answer,
        /// Id of what the operation made, if it named one.
        resource: Option<Box<str>>,
    },
    /// Held so long that nobody may run it any more: a tombstone until an operator settles it (P14).
    Abandoned {
        /// Since when.
        at: Time,
    },
}

/// Why an outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The attempt was cut off.
    CutOff,
    /// The outside system has not decided yet.
    Pending,
}

/// Whether an operation may have been sent to an outside system: a property of the operation, not of an attempt (P15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exposure {
    /// Effect and record share a transaction: nothing leaves.
    Contained,
    /// Set with the claim on recoverable and opaque routes.
    MayBeSent,
}

/// Two lengths of an attempt, fixed when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptTiming {
    /// How long until the owner counts as lost (first clock, P9).
    pub operation_timeout: Duration,
    /// How long until the owner stops by itself; shorter than the timeout (P13).
    pub attempt_deadline: Duration,
}

/// What a claim writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose key.
    pub tenant: Tenant,
    /// The key.
    pub key: Key,
    /// The request's digest.
    pub fingerprint: Fingerprint,
    /// A fresh random id.
    pub attempt: AttemptId,
    /// Lengths of the attempt.
    pub timing: AttemptTiming,
    /// Whether the operation reaches outside.
    pub exposure: Exposure,
}

/// What a finish writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// What became of the operation.
    pub conclusion: Conclusion,
    /// The answer to repeat.
    pub answer: Answer,
    /// How long it is repeated, from the moment of this write.
    pub response_ttl: Duration,
    /// Id of what was made.
    pub resource: Option<Box<str>>,
}

/// One write to a record. Lengths of time are durations; the store turns them into times on its own clock (P9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates the record, or replaces an expired one.
    Claim(Claim),
    /// A new attempt takes the place of a lost or unknown one.
    TakeOver {
        /// A fresh random id.
        attempt: AttemptId,
        /// Lengths of the new attempt.
        timing: AttemptTiming,
    },
    /// The outcome is known.
    Finish(Finish),
    /// Certainly no effect: the record is deleted and the key is free.
    Release,
    /// The attempt ended and its outcome is not known.
    MarkUnknown {
        /// Cut off or pending.
        cause: Cause,
        /// When to ask first.
        ask_after: Duration,
    },
    /// Asked, and still not known: when to ask again, and whether the answer was a sighting.
    AskAgain {
        /// What is known now.
        cause: Cause,
        /// Wait before the next question.
        after: Duration,
        /// The outside system knows the operation.
        sighted: bool,
    },
    /// Gives a deadline to a record that has none (P9).
    StampDeadline {
        /// The operation timeout, counted from now.
        operation_timeout: Duration,
    },
    /// Turns an unknown outcome into a tombstone (P14).
    Abandon,
}

/// What a change leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "taken apart where it is returned, never kept")]
pub enum Next {
    /// The record in its new form.
    Keep(Record),
    /// Nothing: the key is free.
    Delete,
}

/// A transition that the table does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalTransition {
    /// State the record is in.
    pub state: &'static str,
    /// What was asked of it.
    pub change: &'static str,
    /// Why not.
    pub why: &'static str,
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal transition: {} of a record that is {} ({})", self.change, self.state, self.why)
    }
}

impl core::error::Error for IllegalTransition {}

impl Record {
    /// The record that a claim creates at `now`.
    pub fn claimed(id: RecordId, claim: Claim, now: Time) -> Self {
        Self {
            id,
            tenant: claim.tenant,
            key: claim.key,
            fingerprint: claim.fingerprint,
            fence: Fence { version: 1, attempt: claim.attempt },
            attempts: 1,
            exposure: claim.exposure,
            sighted: false,
            created_at: now,
            attempt_started_at: now,
            latest_send_at: now.plus(claim.timing.attempt_deadline),
            state: State::InProgress { deadline: Some(now.plus(claim.timing.operation_timeout)) },
        }
    }

    /// What `change` makes of this record at `now`. The caller has compared the fence.
    ///
    /// # Errors
    /// [`IllegalTransition`] for everything the table does not name.
    pub fn apply(&self, change: Change, now: Time) -> Result<Next, IllegalTransition> {
        self.check(&change, now)?;
        Ok(self.clone().changed(change, now))
    }

    /// As [`Record::apply`], where the record is not needed any more.
    ///
    /// # Errors
    /// As [`Record::apply`].
    pub fn applied(self, change: Change, now: Time) -> Result<Next, IllegalTransition> {
        self.check(&change, now)?;
        Ok(self.changed(change, now))
    }

    /// The table.
    fn check(&self, change: &Change, now: Time) -> Result<(), IllegalTransition> {
        let refuse = |why| Err(IllegalTransition { state: self.state.name(), change: change.name(), why });
        match (&self.state, change) {
            (State::Finished { .. }, Change::Claim(_)) if !self.is_expired(now) => {
                return refuse("its answer is still promised");
            }
            (State::Finished { .. }, Change::Claim(claim)) if claim.attempt == self.fence.attempt => {
                return refuse("the attempt id was used before");
            }
            (State::InProgress { .. }, Change::TakeOver { .. }) if !self.is_lost(now) => {
                return refuse("its owner is alive");
            }
            (State::InProgress { .. }, Change::Release)
                if self.exposure == Exposure::MayBeSent && self.attempts > 1 =>
            {
                return refuse("an earlier attempt may have been sent");
            }
            (State::InProgress { deadline: Some(_) }, Change::StampDeadline { .. }) => {
                return refuse("it has a deadline");
            }
            (State::Finished { .. }, Change::Claim(_))
            | (
                State::InProgress { .. },
                Change::TakeOver { .. }
                | Change::Finish(_)
                | Change::Release
                | Change::MarkUnknown { .. }
                | Change::StampDeadline { .. },
            )
            | (
                State::Unknown { .. },
                Change::TakeOver { .. }
                | Change::Finish(_)
                | Change::MarkUnknown { .. }
                | Change::AskAgain { .. }
                | Change::Abandon,
            )
            | (State::Abandoned { .. }, Change::Finish(_)) => {}
            _ => return refuse("no such step"),
        }
        Ok(())
    }

    /// Performs a step that the table allows.
    fn changed(self, change: Change, now: Time) -> Next {
        let asked = self.asked();
        let mut next = self;
        next.fence.version += 1;
        match change {
            Change::Claim(claim) => return Next::Keep(Self::claimed(next.id, claim, now)),
            Change::Release => return Next::Delete,
            Change::TakeOver { attempt, timing } => {
                next.fence.attempt = attempt;
                next.attempts += 1;
                next.attempt_started_at = now;
                next.latest_send_at = next.latest_send_at.max(now.plus(timing.attempt_deadline));
                next.state = State::InProgress { deadline: Some(now.plus(timing.operation_timeout)) };
            }
            Change::Finish(finish) => {
                next.state = State::Finished {
                    at: now,
                    expires_at: now.plus(finish.response_ttl),
                    conclusion: finish.conclusion,
                    answer: finish.answer,
                    resource: finish.resource,
                };
            }
            Change::MarkUnknown { cause, ask_after } => {
                next.latest_send_at = next.latest_send_at.min(now);
                next.sighted |= cause == Cause::Pending;
                next.state = State::Unknown { cause, asked: 0, next_ask_at: now.plus(ask_after) };
            }
            Change::AskAgain { cause, after, sighted } => {
                next.sighted |= sighted;
                next.state = State::Unknown { cause, asked: asked + 1, next_ask_at: now.plus(after) };
            }
            Change::StampDeadline { operation_timeout } => {
                next.state = State::InProgress { deadline: Some(now.plus(operation_timeout)) };
            }
            Change::Abandon => next.state = State::Abandoned { at: now },
        }
        Next::Keep(next)
    }

    /// Whether the answer's promise is over (second clock). Only finished records expire.
    pub fn is_expired(&self, now: Time) -> bool {
        matches!(self.state, State::Finished { expires_at, .. } if expires_at <= now)
    }

    /// Whether the owner counts as lost (first clock). Without a deadline it counts as alive (P9).
    pub fn is_lost(&self, now: Time) -> bool {
        matches!(self.state, State::InProgress { deadline: Some(deadline) } if deadline <= now)
    }

    /// How often the outside system was asked since the attempt ended.
    pub fn asked(&self) -> u32 {
        match self.state {
            State::Unknown { asked, .. } => asked,
            _ => 0,
        }
    }

    /// When the answer stops being repeated, for finished records.
    pub fn expires_at(&self) -> Option<Time> {
        match self.state {
            State::Finished { expires_at, .. } => Some(expires_at),
            _ => None,
        }
    }
}

impl State {
    /// The word on the wire and in stored rows.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::InProgress { .. } => "in_progress",
            Self::Unknown { cause: Cause::Pending, .. } => "pending",
            Self::Unknown { cause: Cause::CutOff, .. } => "unknown",
            Self::Finished { .. } => "finished",
            Self::Abandoned { .. } => "abandoned",
        }
    }
}

impl Change {
    /// The word used in errors and logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Claim(_) => "claim",
            Self::TakeOver { .. } => "takeover",
            Self::Finish(_) => "finish",
            Self::Release => "release",
            Self::MarkUnknown { .. } => "mark-unknown",
            Self::AskAgain { .. } => "ask-again",
            Self::StampDeadline { .. } => "stamp-deadline",
            Self::Abandon => "abandon",
        }
    }

    /// The attempt id that this change makes the owner, if it makes one.
    pub const fn new_attempt(&self) -> Option<AttemptId> {
        match self {
            Self::Claim(claim) => Some(claim.attempt),
            Self::TakeOver { attempt, .. } => Some(*attempt),
            _ => None,
        }
    }
}
