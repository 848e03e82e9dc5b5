//! What went outside, as pages show it: operations, what happened to them, and what does not fit.

use unavez_core::time::Time;
use unavez_payments::books::{Anomaly, KeyEvent, OperationHistory};
use unavez_payments::charge::ChargeId;

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
    /// The order it belongs to, where that is not on the page already.
    pub(super) order_id: Option<String>,
    /// The acquirer, and its own name for the operation.
    pub(super) there: String,
    pub(super) claimed: Moment,
    pub(super) events: Vec<EventRow>,
    pub(super) anomalies: Vec<AnomalyRow>,
}

/// A finding on a page of its own.
#[derive(Clone, Debug)]
pub(super) struct FindingRow {
    pub(super) finding: AnomalyRow,
    /// The charge it is about, if that is one of the tenant's.
    pub(super) href: Option<String>,
    pub(super) found: Moment,
}

impl FindingRow {
    pub(super) fn new(anomaly: &Anomaly, charge: Option<ChargeId>, now: Time) -> Self {
        Self {
            finding: AnomalyRow::new(anomaly),
            href: charge.map(|id| format!("/console/charges/{id}")),
            found: Moment::new(anomaly.found_at, now),
        }
    }
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
            standing: Pill::of_operation(history),
            id: history.operation_id.to_string(),
            charge: history.charge.to_string(),
            order_id: None,
            there: match &history.reference {
                Some(reference) => format!("{account}, {reference}"),
                None => account.to_owned(),
            },
            claimed: Moment::new(history.created_at, now),
            events: history.in_order().into_iter().map(|event| EventRow::new(event, now)).collect(),
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
