//! Settling a record from outside its attempts: by an event of the outside system (P27), or by a person.
//!
//! 1. An event is an answer to a question that nobody asked: what it says of success settles an open record, what it
//!    says of failure only where a single attempt can have caused it (P27).
//! 2. A final state never goes back. What contradicts it is reported, not written (P27).
//! 3. A person needs what recovery needs: an attempt older than timeout + V, and for "failed" a fresh answer that would
//!    have allowed a further send, or a refusal. "Not found" beyond the horizon of lookups, or after a sighting, proves
//!    nothing, whoever asks.
//! 4. Where a person stood in for silence, the outside system is asked once it answers again, and what it says then is
//!    compared with the ruling ([`confirm`]); the answer that was given stays.

use core::time::Duration;

use crate::record::{AttemptTiming, Fence, Record, State};
use crate::recovery::{self, Held, Promise, Told, Verdict};
use crate::time::Time;

/// What an event about an operation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Finish the record with the event's result, naming this fence.
    Settle(Fence),
    /// A sighting that settles nothing: write [`recovery::note`] down, naming this fence, so that recovery asks.
    Note(Fence),
    /// Nothing can be written while an attempt is alive, or where a person has to look: keep the event and read it
    /// again later. The attempt will learn the outcome by itself.
    Later,
    /// The record says so already, or what it says is newer.
    Known,
    /// It speaks against a final state: keep it, alarm, and propose what undoes the money (P27).
    Contradiction,
}

/// Reads an event that has passed every check of P28.
pub fn by_event(record: &Record, told: Told, now: Time) -> News {
    let State::Finished { conclusion, .. } = &record.state else {
        return open(record, told, now);
    };
    match told {
        Told::Done { positive } if positive == conclusion.is_positive() => News::Known,
        // A refusal of one attempt and the success of another are both true.
        Told::Done { positive: false } if record.attempts > 1 => News::Known,
        Told::Done { .. } => News::Contradiction,
        Told::Pending | Told::NotFound | Told::CannotSay => News::Known,
    }
}

/// Reads an event about a record whose outcome is open. Nobody asked, so it counts as asked before everything.
fn open(record: &Record, told: Told, now: Time) -> News {
    const NOTHING: Promise = Promise { visibility_delay: Duration::ZERO, resend_window: None };
    const NO_TIME: AttemptTiming =
        AttemptTiming { operation_timeout: Duration::ZERO, attempt_deadline: Duration::ZERO };
    match recovery::read(record, told, Time::MIN, &NOTHING, NO_TIME, now) {
        Verdict::Settle(fence) => News::Settle(fence),
        Verdict::StillPending { sighted: true } if can_be_noted(record, now) => News::Note(record.fence),
        Verdict::StillPending { sighted: true } => News::Later,
        Verdict::StillPending { sighted: false }
        | Verdict::SendAgain(_)
        | Verdict::CannotSay
        | Verdict::Hold(_) => News::Known,
    }
}

/// A note ends the attempt, and with it the time in which something may be sent: never one that is alive.
fn can_be_noted(record: &Record, now: Time) -> bool {
    match record.state {
        State::InProgress { .. } => record.is_lost(now),
        State::Unknown { .. } => true,
        State::Finished { .. } | State::Abandoned { .. } => false,
    }
}

/// What a person says became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// The money moved.
    Done,
    /// It did not, and will not.
    Failed,
}

impl Ruling {
    /// The word in stored rows and on command lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// What the outside system said when it was asked for the ruling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Its answer.
    pub told: Told,
    /// The moment of the question, on the store's clock.
    pub asked_at: Time,
}

/// Why a person's ruling is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The record is final.
    Final,
    /// An attempt may still take effect: ask again after this moment.
    TooEarly(Time),
    /// The outside system says otherwise.
    Contradicts,
    /// The outside system knows the operation and has not decided.
    Undecided,
    /// "Failed" needs an answer that proves it, and this one does not.
    ProvesNothing,
}

/// Decides whether a person may settle a record; the fence is the one to name. `timing` are the lengths of an attempt.
///
/// # Errors
/// [`Refusal`].
pub fn by_hand(
    record: &Record,
    ruling: Ruling,
    evidence: Evidence,
    promise: &Promise,
    timing: AttemptTiming,
    now: Time,
) -> Result<Fence, Refusal> {
    if matches!(record.state, State::Finished { .. }) {
        return Err(Refusal::Final);
    }
    let settled_after = last_effect(record, promise, timing);
    if evidence.asked_at <= settled_after {
        return Err(Refusal::TooEarly(settled_after));
    }
    match (worth(record, evidence, promise, timing, now), ruling) {
        (Worth::Undecided, _) => Err(Refusal::Undecided),
        (Worth::Nothing, Ruling::Failed) => Err(Refusal::ProvesNothing),
        (Worth::Nothing | Worth::Done, Ruling::Done) | (Worth::Failed, Ruling::Failed) => Ok(record.fence),
        (Worth::Done, Ruling::Failed) | (Worth::Failed, Ruling::Done) => Err(Refusal::Contradicts),
    }
}

/// The last moment at which an attempt can take effect and not be seen yet: its timeout, or its stored deadline, + V.
fn last_effect(record: &Record, promise: &Promise, timing: AttemptTiming) -> Time {
    let by_setting = record.attempt_started_at.plus(timing.operation_timeout);
    let by_record = match record.state {
        State::InProgress { deadline: Some(deadline) } => deadline,
        State::InProgress { deadline: None } => Time::MAX,
        _ => record.latest_send_at,
    };
    by_setting.max(by_record).plus(promise.visibility_delay)
}

/// What the outside system says of a ruling that was made without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confirmation {
    /// The same.
    Agrees,
    /// Otherwise: money moved that was ruled not to have, or the reverse.
    Contradicts,
    /// It has forgotten by now what it may have known.
    ProvesNothing,
}

/// Compares a ruling with the first answer after it; `None`: that was none, so it is asked again. The question came
/// after everything that a "not found" has to wait for, since the ruling did.
pub fn confirm(
    ruling: Ruling,
    told: Told,
    promise: &Promise,
    created_at: Time,
    now: Time,
) -> Option<Confirmation> {
    let is_forgotten = promise.resend_window.is_some_and(|window| now >= created_at.plus(window));
    match (told, ruling) {
        (Told::Pending | Told::CannotSay, _) => None,
        (Told::NotFound, _) if is_forgotten => Some(Confirmation::ProvesNothing),
        (Told::Done { positive: true }, Ruling::Done)
        | (Told::Done { positive: false } | Told::NotFound, Ruling::Failed) => Some(Confirmation::Agrees),
        (Told::Done { positive: true }, Ruling::Failed)
        | (Told::Done { positive: false } | Told::NotFound, Ruling::Done) => Some(Confirmation::Contradicts),
    }
}

/// What an answer proves.
enum Worth {
    Done,
    Failed,
    Undecided,
    Nothing,
}

fn worth(record: &Record, evidence: Evidence, promise: &Promise, timing: AttemptTiming, now: Time) -> Worth {
    match recovery::read(record, evidence.told, evidence.asked_at, promise, timing, now) {
        Verdict::Settle(_) if evidence.told == (Told::Done { positive: true }) => Worth::Done,
        Verdict::Settle(_)
        | Verdict::SendAgain(_)
        | Verdict::Hold(Held::TooManyAttempts | Held::NeverResend) => Worth::Failed,
        Verdict::StillPending { .. } => Worth::Undecided,
        Verdict::CannotSay | Verdict::Hold(Held::WindowOver | Held::SightedBefore | Held::OtherAccount) => {
            Worth::Nothing
        }
    }
}
