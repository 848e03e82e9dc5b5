//! The same as one JSON document. Amounts are minor units, as in the API.

use serde::Serialize;
use unavez_core::record::Record;
use unavez_core::time::Time;
use unavez_payments::Confirmation;
use unavez_payments::books::trace::{Around, ChargeTrace, OrderTrace, Trace, Verdict};
use unavez_payments::books::{Anomaly, ByOperator, Entry, KeyEvent, OperationHistory};

use super::words::{Step, Words};
use crate::keys::Row;
use crate::remedy::Desk;
use crate::time::rfc3339;

#[derive(Serialize)]
pub(super) struct Document {
    name: String,
    read_at: String,
    orders: Vec<OrderDocument>,
    keys: Vec<Row>,
}

#[derive(Serialize)]
struct OrderDocument {
    tenant: String,
    order_id: String,
    verdict: &'static str,
    /// null: not known.
    charged_twice: Option<bool>,
    headline: String,
    why: Vec<String>,
    next: Vec<Step>,
    charges: Vec<ChargeDocument>,
    around: Option<AroundDocument>,
}

#[derive(Serialize)]
struct ChargeDocument {
    id: String,
    amount: i64,
    currency: &'static str,
    status: &'static str,
    amount_captured: i64,
    amount_refunded: i64,
    suspected_duplicate_of: Option<String>,
    created_at: String,
    request_id: String,
    acquirer: Option<String>,
    key: Option<Row>,
    entries: Vec<EntryDocument>,
    operations: Vec<OperationDocument>,
}

#[derive(Serialize)]
struct EntryDocument {
    id: String,
    kind: &'static str,
    debit: &'static str,
    credit: &'static str,
    amount: i64,
    created_at: String,
}

#[derive(Serialize)]
struct OperationDocument {
    operation_id: String,
    kind: &'static str,
    amount: i64,
    standing: &'static str,
    reference: Option<String>,
    decline_code: Option<String>,
    resource_id: String,
    request_id: String,
    created_at: String,
    key: Option<Row>,
    events: Vec<EventDocument>,
    anomalies: Vec<AnomalyDocument>,
    ruling: Option<RulingDocument>,
}

#[derive(Serialize)]
struct RulingDocument {
    at: String,
    ruling: &'static str,
    by: String,
    reason: String,
    /// null: the acquirer was silent, and has not answered since.
    acquirer: Option<&'static str>,
}

#[derive(Serialize)]
struct EventDocument {
    at: String,
    kind: &'static str,
    attempt: Option<u32>,
    version: Option<u64>,
    instance: String,
    request_id: Option<String>,
    caller: Option<String>,
    detail: Option<String>,
}

#[derive(Serialize)]
struct AnomalyDocument {
    found_at: String,
    reason: &'static str,
    heard: &'static str,
    detail: String,
    proposal: Option<String>,
}

#[derive(Serialize)]
struct AroundDocument {
    since: String,
    until: String,
    operations: u64,
    first_at: Option<String>,
    undecided: u64,
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

impl Document {
    pub(super) fn new(name: &str, trace: &Trace, desk: &Desk) -> Self {
        Self {
            name: name.to_owned(),
            read_at: rfc3339(trace.now),
            orders: trace.orders.iter().map(|order| OrderDocument::new(order, trace.now, desk)).collect(),
            keys: trace.keys.iter().map(|record| Row::new(record, trace.now)).collect(),
        }
    }
}

impl OrderDocument {
    fn new(order: &OrderTrace, now: Time, desk: &Desk) -> Self {
        let verdict = Verdict::of(order);
        let Words { headline, why, next } = Words::of(order, &verdict, desk, now);
        Self {
            tenant: order.tenant.as_str().to_owned(),
            order_id: order.order_id.to_string(),
            verdict: verdict.as_str(),
            charged_twice: verdict.is_charged_twice(),
            headline,
            why,
            next,
            charges: order.charges.iter().map(|charge| ChargeDocument::new(charge, now)).collect(),
            around: order.around.as_ref().map(AroundDocument::new),
        }
    }
}

impl ChargeDocument {
    fn new(trace: &ChargeTrace, now: Time) -> Self {
        let charge = &trace.charge;
        Self {
            id: charge.id.to_string(),
            amount: charge.amount.minor_units(),
            currency: charge.currency.code(),
            status: charge.status.as_str(),
            amount_captured: charge.amount_captured,
            amount_refunded: charge.amount_refunded,
            suspected_duplicate_of: charge.suspected_duplicate_of.map(|id| id.to_string()),
            created_at: rfc3339(charge.created_at),
            request_id: trace.request_id.to_string(),
            acquirer: trace.account.as_ref().map(|account| account.as_str().to_owned()),
            key: row(trace.record.as_ref(), trace.payment(), now),
            entries: trace.entries.iter().map(EntryDocument::new).collect(),
            operations: trace
                .operations
                .iter()
                .map(|(history, record)| OperationDocument::new(history, record.as_ref(), now))
                .collect(),
        }
    }
}

fn row(record: Option<&Record>, history: Option<&OperationHistory>, now: Time) -> Option<Row> {
    record.map(|record| Row::new(record, now).with_history(history))
}

impl EntryDocument {
    fn new(entry: &Entry) -> Self {
        Self {
            id: entry.id.to_string(),
            kind: entry.kind.as_str(),
            debit: entry.debit.as_str(),
            credit: entry.credit.as_str(),
            amount: entry.amount.minor_units(),
            created_at: rfc3339(entry.created_at),
        }
    }
}

impl OperationDocument {
    fn new(history: &OperationHistory, record: Option<&Record>, now: Time) -> Self {
        Self {
            operation_id: history.operation_id.to_string(),
            kind: history.kind.as_str(),
            amount: history.amount.minor_units(),
            standing: history.standing.as_str(),
            reference: owned(history.reference.as_deref()),
            decline_code: owned(history.decline_code.as_deref()),
            resource_id: history.resource.to_string(),
            request_id: history.request_id.to_string(),
            created_at: rfc3339(history.created_at),
            key: row(record, Some(history), now),
            events: history.in_order().into_iter().map(EventDocument::new).collect(),
            anomalies: history.anomalies.iter().map(AnomalyDocument::new).collect(),
            ruling: history.ruling.as_ref().map(RulingDocument::new),
        }
    }
}

impl RulingDocument {
    fn new(ruling: &ByOperator) -> Self {
        Self {
            at: rfc3339(ruling.ruled_at),
            ruling: ruling.ruling.as_str(),
            by: ruling.operator.to_string(),
            reason: ruling.reason.to_string(),
            acquirer: ruling.confirmation.map(|(confirmation, _)| match confirmation {
                Confirmation::Agrees => "agrees",
                Confirmation::Contradicts => "contradicts",
                Confirmation::ProvesNothing => "proves_nothing",
            }),
        }
    }
}

impl EventDocument {
    fn new(event: &KeyEvent) -> Self {
        Self {
            at: rfc3339(event.at),
            kind: event.kind.as_str(),
            attempt: event.attempt,
            version: event.version,
            instance: event.instance.to_string(),
            request_id: owned(event.request_id.as_deref()),
            caller: owned(event.caller.as_deref()),
            detail: owned(event.detail.as_deref()),
        }
    }
}

impl AnomalyDocument {
    fn new(anomaly: &Anomaly) -> Self {
        Self {
            found_at: rfc3339(anomaly.found_at),
            reason: anomaly.reason.as_str(),
            heard: anomaly.heard.as_str(),
            detail: anomaly.detail.to_string(),
            proposal: owned(anomaly.proposal.as_deref()),
        }
    }
}

impl AroundDocument {
    fn new(around: &Around) -> Self {
        Self {
            since: rfc3339(around.since),
            until: rfc3339(around.until),
            operations: around.operations,
            first_at: around.first_at.map(rfc3339),
            undecided: around.undecided,
        }
    }
}
