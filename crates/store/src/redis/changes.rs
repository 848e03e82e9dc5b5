//! Changes as arguments of the scripts.

use std::time::Duration;

use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Exposure, Finish};

use super::scripts::Call;
use crate::columns::StateColumns;

/// Scripts count in doubles, which hold microseconds exactly until the year 2255; nothing that is promised for longer than
/// this is promised.
const LENGTH_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The change with no length above [`LENGTH_MAX`].
pub(super) fn bounded(change: Change) -> Change {
    let timing = |timing: AttemptTiming| AttemptTiming {
        operation_timeout: timing.operation_timeout.min(LENGTH_MAX),
        attempt_deadline: timing.attempt_deadline.min(LENGTH_MAX),
    };
    match change {
        Change::Claim(claim) => Change::Claim(Claim { timing: timing(claim.timing), ..claim }),
        Change::TakeOver { attempt, timing: lengths } => {
            Change::TakeOver { attempt, timing: timing(lengths) }
        }
        Change::Finish(finish) => {
            Change::Finish(Finish { response_ttl: finish.response_ttl.min(LENGTH_MAX), ..finish })
        }
        Change::MarkUnknown { cause, ask_after } => {
            Change::MarkUnknown { cause, ask_after: ask_after.min(LENGTH_MAX) }
        }
        Change::AskAgain { cause, after, sighted } => {
            Change::AskAgain { cause, after: after.min(LENGTH_MAX), sighted }
        }
        Change::StampDeadline { operation_timeout } => {
            Change::StampDeadline { operation_timeout: operation_timeout.min(LENGTH_MAX) }
        }
        Change::Release | Change::Abandon => change,
    }
}

impl Call {
    /// The arguments of `claim.lua`.
    pub(super) fn claim(self, claim: &Claim, position: i64) -> Self {
        self.arg(claim.tenant.as_str())
            .arg(claim.key.as_str())
            .arg(claim.fingerprint.encode())
            .attempt(claim.attempt)
            .flag(claim.exposure == Exposure::MayBeSent)
            .timing(claim.timing)
            .number(position)
    }

    /// The arguments of `change.lua`.
    pub(super) fn change(self, change: &Change) -> Self {
        let call = self.arg(change.name());
        match change {
            Change::TakeOver { attempt, timing } => call.attempt(*attempt).timing(*timing),
            Change::Finish(finish) => call.finish(finish),
            Change::MarkUnknown { cause, ask_after } => call.arg(word(*cause)).length(*ask_after),
            Change::AskAgain { cause, after, sighted } => {
                call.arg(word(*cause)).length(*after).flag(*sighted)
            }
            Change::StampDeadline { operation_timeout } => call.length(*operation_timeout),
            // A claim where a record is expected has a script of its own.
            Change::Claim(_) | Change::Release | Change::Abandon => call,
        }
    }

    fn timing(self, timing: AttemptTiming) -> Self {
        self.length(timing.operation_timeout).length(timing.attempt_deadline)
    }

    fn length(self, length: Duration) -> Self {
        self.number(i64::try_from(length.as_micros()).unwrap_or(i64::MAX))
    }

    /// The promise's length, then names and values.
    fn finish(self, finish: &Finish) -> Self {
        let columns = StateColumns::of_content(&finish.answer.content);
        let texts = [
            ("conclusion", Some(finish.conclusion.as_str())),
            ("resource", finish.resource.as_deref()),
            ("not_kept", columns.not_kept),
            ("sealed_by", columns.sealed_by),
            ("headers", columns.headers.as_deref()),
        ];
        let mut call = self.length(finish.response_ttl).arg("status").number(finish.answer.status);
        for (name, text) in texts {
            if let Some(text) = text {
                call = call.arg(name).arg(text);
            }
        }
        match columns.body {
            Some(body) => call.arg("body").arg(body),
            None => call,
        }
    }
}

/// The state that an unknown outcome has for this cause.
fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Pending => "pending",
        Cause::CutOff => "unknown",
    }
}
