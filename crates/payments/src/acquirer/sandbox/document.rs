//! What the sandbox says, and how it is read.
//!
//! Both sides of the wire stand here, so that they cannot drift apart; what is written comes from rows, what is read is
//! believed only where every member is there and of its form.

use serde::{Deserialize, Serialize};
use unavez_core::identity::{OperationId, Tenant};
use unavez_core::time::Time;

use super::execution::{Execution, What};
use crate::acquirer::{Kind, Listed, Report, Standing};
use crate::http::wire::rfc3339;
use crate::money::{Amount, Currency};

/// An operation, as `GET /operations/{id}` tells it. Members beyond the promised ones may come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Operation {
    operation_id: String,
    kind: String,
    status: String,
    amount: i64,
    currency: String,
    tenant: String,
    payment_operation_id: Option<String>,
    /// Of payments only.
    #[serde(skip_serializing_if = "Option::is_none")]
    order_id: Option<String>,
    /// The sandbox's own name for the execution.
    reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decline_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_action: Option<NextAction>,
    created_at: String,
}

/// What the customer has to do about a pending payment.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct NextAction {
    #[serde(rename = "type")]
    kind: String,
    url: String,
}

/// One page of operations.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Page {
    pub(super) data: Vec<Operation>,
    pub(super) next: Option<String>,
}

/// A webhook's body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) created_at: String,
    pub(super) data: Operation,
}

/// Why a request was not carried out.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) error: Fault,
    /// Which operation was asked about: a "not found" that does not name it was not said by a sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) operation_id: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Fault {
    pub(super) code: String,
    pub(super) detail: String,
}

/// The code of a defined "not found".
pub(super) const NOT_FOUND: &str = "operation_not_found";

/// The code of a request whose operation id has other content already.
pub(super) const OPERATION_ID_REUSED: &str = "operation_id_reused";

/// Tells that an operation is decided now.
pub(super) const SETTLED: &str = "operation.settled";

/// Tells that an operation is pending, which its answer has told already.
pub(super) const PENDING: &str = "operation.pending";

impl Operation {
    /// An execution as it stands at that time.
    pub(super) fn of(execution: &Execution, now: Time) -> Self {
        let standing = execution.standing(now);
        let (order_id, payment) = match &execution.what {
            What::Payment { order_id, .. } => (Some(order_id.as_str().to_owned()), None),
            What::Step { payment, .. } => (None, Some(payment.to_string())),
        };
        let operation_id = execution.operation.to_string();
        let next_action = (standing == Standing::Pending).then(|| NextAction {
            kind: "redirect".to_owned(),
            url: format!("https://sandbox.invalid/confirm/{operation_id}"),
        });
        Self {
            operation_id,
            kind: execution.kind().as_str().to_owned(),
            status: status(standing).to_owned(),
            amount: execution.amount.minor_units(),
            currency: execution.currency.code().to_owned(),
            tenant: execution.tenant.as_str().to_owned(),
            payment_operation_id: payment,
            order_id,
            reference: format!("sbx_{}", execution.number),
            decline_code: execution
                .declined
                .as_deref()
                .filter(|_| standing == Standing::Declined)
                .map(Into::into),
            next_action,
            created_at: rfc3339(execution.created_at),
        }
    }

    /// What it says, if all of it has its form.
    pub(super) fn read(&self) -> Option<(Standing, Report)> {
        let standing = standing(&self.status)?;
        let kind = Kind::parse(&self.kind)?;
        let payment = match (kind, &self.payment_operation_id) {
            (Kind::Payment, None) => None,
            (Kind::Capture | Kind::Void | Kind::Refund, Some(id)) => Some(OperationId::parse(id).ok()?),
            _ => return None,
        };
        let report = Report {
            operation_id: OperationId::parse(&self.operation_id).ok()?,
            kind,
            tenant: Some(Tenant::parse(&self.tenant).ok()?),
            amount: Amount::of_minor_units(self.amount)?,
            currency: Currency::parse(&self.currency)?,
            payment,
            reference: Some(self.reference.as_str().into()),
            decline_code: self.decline_code.as_deref().map(Into::into),
            next_action: self.next_action.as_ref().map(NextAction::to_json),
        };
        Some((standing, report))
    }

    /// The same as a line of a list.
    pub(super) fn read_listed(&self) -> Option<Listed> {
        let (standing, report) = self.read()?;
        let created_at: jiff::Timestamp = self.created_at.parse().ok()?;
        Some(Listed {
            operation_id: Some(report.operation_id),
            kind: report.kind,
            standing,
            tenant: report.tenant,
            amount: report.amount,
            currency: report.currency,
            payment: report.payment,
            reference: report.reference,
            created_at: Time::from_micros(created_at.as_microsecond()),
        })
    }
}

impl NextAction {
    fn to_json(&self) -> Box<str> {
        serde_json::to_string(self).expect("two texts have no failing members").into()
    }
}

const WORDS: [(&str, Standing); 3] =
    [("approved", Standing::Done), ("declined", Standing::Declined), ("pending", Standing::Pending)];

fn status(standing: Standing) -> &'static str {
    let (word, _) = WORDS.iter().find(|(_, other)| *other == standing).expect("every standing has a word");
    word
}

fn standing(word: &str) -> Option<Standing> {
    WORDS.iter().find(|(other, _)| *other == word).map(|(_, standing)| *standing)
}
