//! Writing down what happened: events of operations, and anomalies.

use std::sync::Arc;

use rusqlite::Connection;
use unavez_core::identity::RecordId;
use unavez_core::record::Record;
use unavez_core::time::Time;
use unavez_store::sqlite::WriteTx;

use super::Outside;
use super::check::Mismatch;
use crate::acquirer::{Account, Kind};
use crate::books::anomalies::{self, NewAnomaly, Noted};
use crate::books::events::{self, NewEvent};
use crate::books::operations::{self, Operation, OperationRow};
use crate::books::{EventKind, Heard, Reason, Through};
use crate::charge::Charge;
use crate::request_id::RequestId;

/// How something was heard.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hearing<'a> {
    /// In the answer to the first send, caused by the request that claimed: the operation's row tells all of it.
    FirstAnswer {
        /// The request.
        request_id: RequestId,
        /// When it was sent.
        sent_at: Time,
        /// The charge as it was claimed.
        charge: &'a Charge,
    },
    /// In the answer to a send, caused by a request.
    Answer(RequestId),
    /// In the answer to a question.
    Question,
    /// In the answer to a question that a request put before it sent anything.
    FirstQuestion(RequestId),
    /// In an event with this id.
    Webhook(&'a str),
    /// From this operator.
    Hand(&'a str),
}

impl<'a> Hearing<'a> {
    pub(super) const fn heard(self) -> Heard {
        match self {
            Self::FirstAnswer { .. } | Self::Answer(_) => Heard::Answer,
            // A ruling stands on a question that was asked for it.
            Self::Question | Self::FirstQuestion(_) | Self::Hand(_) => Heard::Question,
            Self::Webhook(_) => Heard::Webhook,
        }
    }

    pub(super) const fn through(self) -> Through {
        match self {
            Self::FirstAnswer { .. } | Self::Answer(_) => Through::Answer,
            Self::Question => Through::Question,
            Self::FirstQuestion(_) => Through::FirstQuestion,
            Self::Webhook(_) => Through::Webhook,
            Self::Hand(_) => Through::Hand,
        }
    }

    /// Who is named in the event.
    pub(super) fn caller(self, account: &'a Account) -> &'a str {
        match self {
            Self::Hand(operator) => operator,
            Self::FirstAnswer { .. }
            | Self::Answer(_)
            | Self::Question
            | Self::FirstQuestion(_)
            | Self::Webhook(_) => account.as_str(),
        }
    }

    pub(super) const fn request_id(self) -> Option<RequestId> {
        match self {
            Self::FirstAnswer { request_id, .. }
            | Self::Answer(request_id)
            | Self::FirstQuestion(request_id) => Some(request_id),
            Self::Question | Self::Webhook(_) | Self::Hand(_) => None,
        }
    }

    /// When it was sent, if the operation's row is to tell it.
    pub(super) const fn sent_at(self) -> Option<Time> {
        match self {
            Self::FirstAnswer { sent_at, .. } => Some(sent_at),
            Self::Answer(_) | Self::Question | Self::FirstQuestion(_) | Self::Webhook(_) | Self::Hand(_) => {
                None
            }
        }
    }

    /// The charge as it stands, as far as this can be known without its row. A payment that is not settled is the only
    /// operation of its charge; at most it was seen to be pending, and its end is the same then.
    pub(super) fn charge(self, operation: &Operation) -> Option<&'a Charge> {
        match self {
            Self::FirstAnswer { charge, .. } if operation.kind == Kind::Payment => Some(charge),
            _ => None,
        }
    }

    const fn event(self) -> Option<&'a str> {
        match self {
            Self::Webhook(event) => Some(event),
            Self::FirstAnswer { .. }
            | Self::Answer(_)
            | Self::Question
            | Self::FirstQuestion(_)
            | Self::Hand(_) => None,
        }
    }

    /// The kind of event that tells of it where it settles nothing.
    pub(super) const fn kind(self) -> EventKind {
        match self {
            Self::FirstAnswer { .. } | Self::Answer(_) => EventKind::Answered,
            Self::Question | Self::FirstQuestion(_) => EventKind::Asked,
            Self::Webhook(_) => EventKind::Webhook,
            Self::Hand(_) => EventKind::Operator,
        }
    }
}

/// An event in the making.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happened<'a> {
    pub(super) kind: EventKind,
    pub(super) record: Option<&'a Record>,
    pub(super) request_id: Option<RequestId>,
    pub(super) caller: Option<&'a str>,
    pub(super) detail: Option<&'a str>,
}

impl Outside {
    /// Adds an event to an operation.
    pub(super) fn happened_in(
        &self,
        connection: &Connection,
        operation: OperationRow,
        at: Time,
        happened: Happened<'_>,
    ) -> rusqlite::Result<()> {
        let Happened { kind, record, request_id, caller, detail } = happened;
        let event = NewEvent { at, kind, record, instance: &self.instance, request_id, caller, detail };
        events::write(connection, operation, &event)
    }

    /// Tells of something heard that settled nothing.
    pub(super) fn heard_in(
        &self,
        connection: &Connection,
        operation: &Operation,
        now: Time,
        hearing: Hearing<'_>,
        detail: &str,
    ) -> rusqlite::Result<()> {
        let happened = Happened {
            kind: hearing.kind(),
            record: None,
            request_id: hearing.request_id(),
            caller: Some(self.acquirer.account().as_str()),
            detail: Some(detail),
        };
        self.happened_in(connection, operation.row, now, happened)
    }

    /// Keeps what does not fit together, counts it and says so aloud; once for each finding, when it is committed.
    pub(super) fn anomaly_in(
        &self,
        tx: &WriteTx<'_>,
        anomaly: &NewAnomaly<'_>,
        now: Time,
    ) -> rusqlite::Result<Noted> {
        if anomalies::write(tx, anomaly, now)? == Noted::Before {
            return Ok(Noted::Before);
        }
        let metrics = Arc::clone(&self.metrics);
        let (reason, heard) = (anomaly.reason, anomaly.heard);
        let operation = anomaly.operation.map(RecordId::operation_id).map(|id| id.to_string());
        let [event, proposal] = [anomaly.event, anomaly.proposal].map(|text| text.map(str::to_owned));
        let detail = anomaly.detail.to_owned();
        tx.when_committed(move || {
            tracing::error!(
                reason = reason.as_str(),
                operation_id = operation.as_deref(),
                heard = heard.as_str(),
                event,
                detail,
                proposal,
                "anomaly: a person has to look"
            );
            metrics.anomaly(reason);
        });
        Ok(Noted::New)
    }

    /// A report that does not fit what was stored: nothing closes (P28). Where it shows that the acquirer knows the
    /// operation, the operation's row remembers that, and nothing is sent for it any more.
    pub(super) fn mismatch_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        now: Time,
        hearing: Hearing<'_>,
        mismatch: &Mismatch,
    ) -> rusqlite::Result<()> {
        self.heard_in(tx, operation, now, hearing, &mismatch.detail)?;
        if mismatch.is_sighting {
            operations::sight(tx, operation.row)?;
        }
        self.finding_in(tx, operation, now, hearing, (mismatch.reason, &mismatch.detail), None)
    }

    /// A truth against a final state (P27).
    pub(super) fn contradiction_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        now: Time,
        hearing: Hearing<'_>,
        (reason, detail): (Reason, &str),
        proposal: &str,
    ) -> rusqlite::Result<()> {
        let happened = Happened {
            kind: EventKind::Contradicted,
            record: None,
            request_id: hearing.request_id(),
            caller: Some(self.acquirer.account().as_str()),
            detail: Some(detail),
        };
        self.happened_in(tx, operation.row, now, happened)?;
        self.finding_in(tx, operation, now, hearing, (reason, detail), Some(proposal))
    }

    fn finding_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        now: Time,
        hearing: Hearing<'_>,
        (reason, detail): (Reason, &str),
        proposal: Option<&str>,
    ) -> rusqlite::Result<()> {
        let anomaly = NewAnomaly {
            reason,
            operation: Some(operation.id),
            heard: hearing.heard(),
            account: Some(self.acquirer.account().as_str()),
            event: hearing.event(),
            detail,
            proposal,
        };
        self.anomaly_in(tx, &anomaly, now).map(drop)
    }
}
