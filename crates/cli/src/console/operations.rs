//! What went outside, as pages show it: operations, what happened to them, and what does not fit.

use unavez_core::time::Time;
use unavez_payments::books::{Anomaly, KeyEvent, OperationHistory};

use super::view::{Moment, Pill, money};

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct OperationRow {
    pub(super) kind: &'static str,
    pub(super) amount: String,
    pub(super) currency: &'static str,
    pub(super) standing: Pill,
    pub(super) id: String,
    pub(super) charge: String,
    /// The acquirer, and its own name for the operation.
    pub(super) there: String,
    pub(super) claimed: Moment,
    pub(super) events: Vec<EventRow>,
    pub(super) anomalies: Vec<AnomalyRow>,
}

/// Something that happened to it.
#[derive(Clone, Debug)]
pub(super) struct EventRow {
    pub(super) what: String,
    pub(super) who: String,
    pub(super) request_id: Option<String>,
    pub(super) at: Moment,
}

/// Something that needs a person.
#[derive(Clone, Debug)]
pub(super) struct AnomalyRow {
    pub(super) reason: &'static str,
    pub(super) detail: String,
    pub(super) proposal: Option<String>,
}

impl OperationRow {
    pub(super) fn new(history: &OperationHistory, now: Time) -> Self {
        let account = history.account.as_ref().map_or("the ledger here", |account| account.as_str());
        Self {
            kind: history.kind.as_str(),
            amount: money(history.currency, history.amount.minor_units()),
            currency: history.currency.code(),
            standing: Pill::of_standing(history.standing),
            id: history.operation_id.to_string(),
            charge: history.charge.to_string(),
            there: match &history.reference {
                Some(reference) => format!("{account}, {reference}"),
                None => account.to_owned(),
            },
            claimed: Moment::new(history.created_at, now),
            events: history.events.iter().map(|event| EventRow::new(event, now)).collect(),
            anomalies: history.anomalies.iter().map(AnomalyRow::new).collect(),
        }
    }
}

impl EventRow {
    fn new(event: &KeyEvent, now: Time) -> Self {
        let kind = event.kind.as_str().replace('_', " ");
        let attempt = event.attempt.map_or(String::new(), |attempt| format!(", attempt {attempt}"));
        Self {
            what: match &event.detail {
                Some(detail) => format!("{kind}: {detail}"),
                None => kind,
            },
            who: format!("{}{attempt}", event.caller.as_deref().unwrap_or("the service")),
            request_id: event.request_id.as_deref().map(str::to_owned),
            at: Moment::new(event.at, now),
        }
    }
}

impl AnomalyRow {
    fn new(anomaly: &Anomaly) -> Self {
        Self {
            reason: anomaly.reason.as_str(),
            detail: anomaly.detail.to_string(),
            proposal: anomaly.proposal.as_deref().map(str::to_owned),
        }
    }
}
