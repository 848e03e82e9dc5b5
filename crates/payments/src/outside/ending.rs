//! How an attempt ended, and what its caller is told of that.

use http::Response;
use unavez_core::problem::Code;
use unavez_core::record::Record;
use unavez_core::time::Time;
use unavez_tower::body::Body;
use unavez_tower::engine;
use unavez_tower::problem::Problem;

use super::begin::Attempt;
use super::check::{Mismatch, check};
use super::note::{Happened, Hearing};
use super::settle::{Definite, told_pending, told_unstored};
use crate::acquirer::{Account, Answer, Reason, Report};
use crate::books::EventKind;
use crate::books::events::ASKED_FIRST;
use crate::books::operations::Operation;
use crate::http::{post, told};
use crate::request_id::RequestId;

/// What an attempt came to, and all that is needed to write it down.
pub(super) struct Conclusion {
    pub(super) attempt: Attempt,
    pub(super) ending: Ending,
    pub(super) course: Course,
    pub(super) sent_at: Time,
    pub(super) request_id: RequestId,
}

/// How an attempt came to its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Its request was sent.
    Sent,
    /// The acquirer was asked first, did not have it, and it was sent.
    AskedThenSent(Time),
    /// The acquirer was asked first, and nothing was sent.
    Asked(Time),
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    /// Definite.
    Settles(Definite, Report),
    /// Accepted, and not decided.
    Pending(Report),
    /// Declined, though an earlier attempt may have been approved: only a question tells (P16).
    Sighted(Report),
    /// Nobody knows.
    Unknown(Reason),
    /// Answered with what does not fit this operation.
    Disagrees(Mismatch),
    /// Certainly nothing left.
    Released(Reason),
}

impl Ending {
    /// What an answer to a send is worth (P15, P16, P28). `attempts` counts this one.
    pub(super) fn read(answer: Answer, operation: &Operation, attempts: u32, account: &Account) -> Self {
        let is_first = attempts <= 1;
        if let Answer::Done(report) | Answer::Declined(report) | Answer::Pending(report) = &answer
            && let Err(mismatch) = check(operation, account, report)
        {
            return Self::Disagrees(mismatch);
        }
        match answer {
            Answer::Done(report) => Self::Settles(Definite::Done, report),
            Answer::Declined(report) if is_first => Self::Settles(Definite::Declined, report),
            Answer::Declined(report) => Self::Sighted(report),
            Answer::Pending(report) => Self::Pending(report),
            Answer::Sighted(reason) => Self::Disagrees(Mismatch::sighted(&reason)),
            Answer::NotSent(reason) if is_first => Self::Released(reason),
            Answer::NotSent(reason) | Answer::CannotSay(reason) => Self::Unknown(reason),
            Answer::NotFound => Self::Unknown(Reason("answered a send with not found".into())),
        }
    }

    /// Whether it shows that the acquirer knows the operation, and settles nothing.
    pub(super) const fn is_sighting(&self) -> bool {
        match self {
            Self::Pending(_) | Self::Sighted(_) => true,
            Self::Disagrees(mismatch) => mismatch.is_sighting,
            Self::Settles(..) | Self::Unknown(_) | Self::Released(_) => false,
        }
    }

    pub(super) const fn in_words(&self) -> engine::Ending {
        match self {
            Self::Settles(..) => engine::Ending::Keep("finish"),
            Self::Released(_) => engine::Ending::Release,
            _ => engine::Ending::Keep("mark-unknown"),
        }
    }

    pub(super) fn detail(&self) -> String {
        match self {
            Self::Settles(definite, _) => if definite.is_positive() { "done" } else { "declined" }.to_owned(),
            Self::Pending(_) => "pending".to_owned(),
            Self::Sighted(_) => "declined, after an earlier attempt that may have been approved".to_owned(),
            Self::Disagrees(mismatch) => format!("does not fit: {}", mismatch.detail),
            Self::Unknown(reason) | Self::Released(reason) => reason.0.to_string(),
        }
    }
}

impl Conclusion {
    /// Whether its request may have left.
    pub(super) const fn was_sent(&self) -> bool {
        !matches!((&self.ending, self.course), (Ending::Released(_), _) | (_, Course::Asked(_)))
    }

    /// When the acquirer was asked before anything was sent, and what it said.
    pub(super) fn asked_first(&self) -> Option<(Time, String)> {
        match self.course {
            Course::Sent => None,
            Course::AskedThenSent(at) => Some((at, format!("{ASKED_FIRST}: not found"))),
            Course::Asked(at) => Some((at, format!("{ASKED_FIRST}: {}", self.ending.detail()))),
        }
    }

    /// How the ending was heard.
    pub(super) fn hearing(&self) -> Hearing<'_> {
        let Self { attempt, course, sent_at, request_id, .. } = self;
        match course {
            Course::Asked(_) => Hearing::FirstQuestion(*request_id),
            // Whoever claims a released operation again is another request.
            Course::Sent | Course::AskedThenSent(_)
                if attempt.record.attempts == 1 && attempt.operation.request_id == *request_id =>
            {
                Hearing::FirstAnswer { request_id: *request_id, sent_at: *sent_at, charge: &attempt.charge }
            }
            Course::Sent | Course::AskedThenSent(_) => Hearing::Answer(*request_id),
        }
    }

    /// How it was heard, where that settles nothing any more.
    pub(super) const fn late_hearing(&self) -> Hearing<'static> {
        match self.course {
            Course::Sent | Course::AskedThenSent(_) => Hearing::Answer(self.request_id),
            Course::Asked(_) => Hearing::FirstQuestion(self.request_id),
        }
    }

    /// One line for each outcome that is not known, so that a caller's request id or key leads from the log to it.
    pub(super) fn say_unknown(&self) {
        if let Ending::Unknown(_) | Ending::Disagrees(_) | Ending::Sighted(_) = &self.ending {
            let record = &self.attempt.record;
            tracing::warn!(
                key = %record.key.log_hash(),
                operation_id = %record.id.operation_id(),
                request_id = %self.request_id,
                why = self.ending.detail(),
                "outcome not known: it may have been executed, and is asked about"
            );
        }
    }

    /// Why the caller's own attempt is not known.
    const fn why_unknown(&self) -> &'static str {
        match (self.course, &self.ending) {
            (Course::Asked(_), _) => {
                "the database was put back from a copy, so the acquirer is asked before anything is sent, and it has not \
                 given an answer that counts; nothing was sent now, an earlier attempt may have been executed"
            }
            (_, Ending::Settles(..)) => "the acquirer's answer could not be stored",
            _ => {
                "the request was sent, and no definite answer of the acquirer's came back: it may have been executed"
            }
        }
    }

    pub(super) fn happened<'a>(&self, kind: EventKind, record: &'a Record) -> Happened<'a> {
        Happened {
            kind,
            record: Some(record),
            request_id: Some(self.request_id),
            caller: Some(record.tenant.as_str()),
            detail: None,
        }
    }

    /// What the caller is told while the ending is not stored, or where nothing is: a positive answer as it is, a negative
    /// one not at all (P17).
    pub(super) fn unstored(&self) -> Response<Body> {
        let Attempt { operation, charge, .. } = &self.attempt;
        match &self.ending {
            Ending::Settles(Definite::Done, report) => {
                post::first_of(&told_unstored(operation, charge, report))
            }
            Ending::Pending(report) => post::first_of(&told_pending(operation, charge, report)),
            Ending::Released(_) if let Some(first) = self.attempt.rival => {
                told::not_found_first(first).into_response()
            }
            Ending::Released(_) => Problem::new(Code::AcquirerUnavailable)
                .with_detail("the acquirer could not be reached, nothing was sent")
                .into_response(),
            Ending::Settles(Definite::Declined, _)
            | Ending::Sighted(_)
            | Ending::Unknown(_)
            | Ending::Disagrees(_) => {
                post::in_doubt(&self.attempt.record.key).with_detail(self.why_unknown()).into_response()
            }
        }
    }
}
