//! Recovery: what an answer of the outside system is worth (P16).
//!
//! Time alone never turns unknown into failed, and "not found" is only worth something when the question was asked
//! after the last moment at which a send could still take effect.

use core::time::Duration;

use crate::record::{AttemptTiming, Cause, Change, Fence, Record, State};
use crate::time::Time;

/// What the outside system promises about one kind of operation. Declared by the hook or adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// V: longest flight + processing + visibility. After latest send + V, "not found" counts.
    pub visibility_delay: Duration,
    /// How long, counted from the first send, creates with one id are deduplicated and can be looked up.
    /// `None`: nothing is ever sent twice.
    pub resend_window: Option<Duration>,
}

/// What the outside system said, without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It knows the final result.
    Done {
        /// Whether the operation took effect.
        positive: bool,
    },
    /// It knows the operation and has not decided.
    Pending,
    /// Its own defined "not found".
    NotFound,
    /// An error, a timeout, any other status.
    CannotSay,
}

/// What to do after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Finish the record with the result, naming this fence, and replay it.
    Settle(Fence),
    /// 409 `outcome-pending`: note the answer.
    StillPending {
        /// Whether the answer shows that the outside system knows the operation.
        sighted: bool,
    },
    /// Take the record over, naming the fence read before asking, and send again with the same operation id.
    SendAgain(Fence),
    /// 409 `outcome-unknown`: nothing changes.
    CannotSay,
    /// Held and alarmed: a person must look.
    Hold(Held),
}

/// Why a record is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Held {
    /// Sent three times, and still not there.
    TooManyAttempts,
    /// The outside system may have forgotten the first send.
    WindowOver,
    /// It was seen there once and is not there now.
    SightedBefore,
    /// The outside system does not deduplicate: nothing is sent twice.
    NeverResend,
    /// It was sent under an account that is not configured now: no other account can be asked about it.
    OtherAccount,
}

impl Held {
    /// A phrase for the log and the key's status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooManyAttempts => "sent three times without being found",
            Self::WindowOver => "the first send is older than the outside system's deduplication window",
            Self::SightedBefore => "seen outside once and not found now",
            Self::NeverResend => "the outside system does not deduplicate, so nothing is sent twice",
            Self::OtherAccount => "sent under an account that is not configured now",
        }
    }
}

/// At most so many attempts are ever sent (P16).
pub const ATTEMPTS_MAX: u32 = 3;

/// The longest wait between two questions of the worker.
const ASK_INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// Reads an answer to a question that was asked at `asked_at` about `record`, as it was read before asking.
///
/// `now` is the moment of the answer; the question's moment is what counts for "not found" (a slow answer is an old
/// one). `next` are the lengths of the attempt that would follow.
pub fn read(
    record: &Record,
    told: Told,
    asked_at: Time,
    promise: &Promise,
    next: AttemptTiming,
    now: Time,
) -> Verdict {
    let last_could_have_arrived = asked_at > record.latest_send_at.plus(promise.visibility_delay);
    match told {
        Told::Done { positive: true } => Verdict::Settle(record.fence),
        Told::Done { positive: false } if record.attempts <= 1 || last_could_have_arrived => {
            Verdict::Settle(record.fence)
        }
        Told::Done { positive: false } | Told::Pending => Verdict::StillPending { sighted: true },
        Told::CannotSay => Verdict::CannotSay,
        Told::NotFound if record.sighted => Verdict::Hold(Held::SightedBefore),
        Told::NotFound if !last_could_have_arrived => Verdict::StillPending { sighted: false },
        Told::NotFound => send_again(record, promise, next, now),
    }
}

/// Whether an operation that is certainly not there may be sent once more.
fn send_again(record: &Record, promise: &Promise, next: AttemptTiming, now: Time) -> Verdict {
    let Some(window) = promise.resend_window else {
        return Verdict::Hold(Held::NeverResend);
    };
    // The new attempt must have arrived inside the window, not merely have started in it; and it may take its whole
    // time, however early the one before it ended. Once the window is over, "not found" says nothing of any attempt,
    // which is why it is the first reason to hold.
    let arrived_by = now.plus(next.attempt_deadline).plus(promise.visibility_delay);
    if arrived_by >= record.created_at.plus(window) {
        return Verdict::Hold(Held::WindowOver);
    }
    if record.attempts >= ATTEMPTS_MAX {
        return Verdict::Hold(Held::TooManyAttempts);
    }
    Verdict::SendAgain(record.fence)
}

/// How long the worker waits before its next question: 1x, 2x, 4x ... the operation timeout, up to an hour (P16).
pub fn ask_interval(asked: u32, operation_timeout: Duration) -> Duration {
    let factor = 1_u32.checked_shl(asked.min(31)).unwrap_or(u32::MAX);
    operation_timeout.saturating_mul(factor).min(ASK_INTERVAL_MAX.max(operation_timeout))
}

/// How an answer that settles nothing is written down, when nothing runs: an attempt that was lost has ended with it.
pub fn note(record: &Record, sighted: bool, after: Duration) -> Change {
    match record.state {
        State::InProgress { .. } => {
            let cause = if sighted { Cause::Pending } else { Cause::CutOff };
            Change::MarkUnknown { cause, ask_after: after }
        }
        _ => Change::AskAgain { cause: cause_after(record, sighted), after, sighted },
    }
}

/// The cause a still undecided record carries after an answer.
pub fn cause_after(record: &Record, sighted: bool) -> Cause {
    match record.state {
        State::Unknown { cause: Cause::Pending, .. } => Cause::Pending,
        _ if sighted => Cause::Pending,
        _ => Cause::CutOff,
    }
}
