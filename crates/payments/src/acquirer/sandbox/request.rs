//! What can be asked of the sandbox, parsed.
//!
//! Members are strict: an unknown one, a missing one and a malformed one are refused, so that a mistake of the service
//! shows here and not in its books.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use unavez_core::identity::{OperationId, Tenant};

use super::Token;
use crate::acquirer::{Instruction, Kind, Unsendable};
use crate::charge::OrderId;
use crate::money::{Amount, Currency};

/// Something to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Payment(Payment),
    Step(Step),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payment {
    pub(super) operation: OperationId,
    pub(super) tenant: Tenant,
    pub(super) order_id: OrderId,
    pub(super) amount: Amount,
    pub(super) currency: Currency,
    pub(super) token: Token,
    pub(super) captures_at_once: bool,
}

/// A capture, void or refund.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) operation: OperationId,
    pub(super) kind: StepKind,
    pub(super) payment: OperationId,
    pub(super) amount: Amount,
}

/// What can be done with a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Capture,
    Void,
    Refund,
}

impl StepKind {
    const ALL: [Self; 3] = [Self::Capture, Self::Void, Self::Refund];

    pub(super) fn of(kind: Kind) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.kind() == kind)
    }

    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Capture => Kind::Capture,
            Self::Void => Kind::Void,
            Self::Refund => Kind::Refund,
        }
    }

    /// The last segment of its path.
    const fn segment(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refunds",
        }
    }
}

/// The body of `POST /payments`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PaymentBody<'a> {
    #[serde(borrow)]
    operation_id: Cow<'a, str>,
    #[serde(borrow)]
    tenant: Cow<'a, str>,
    #[serde(borrow)]
    order_id: Cow<'a, str>,
    amount: i64,
    #[serde(borrow)]
    currency: Cow<'a, str>,
    #[serde(borrow)]
    payment_method: Cow<'a, str>,
    capture: bool,
}

/// The body of a step.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody<'a> {
    #[serde(borrow)]
    operation_id: Cow<'a, str>,
    amount: i64,
}

impl Request {
    pub(super) const fn operation(&self) -> OperationId {
        match self {
            Self::Payment(payment) => payment.operation,
            Self::Step(step) => step.operation,
        }
    }

    /// Reads a `POST`; the path says what it is.
    pub(super) fn parse(path: &Path, body: &[u8]) -> Result<Self, String> {
        match path {
            Path::Payments => Payment::parse(body).map(Self::Payment),
            Path::Step { payment, kind } => Step::parse(*payment, *kind, body).map(Self::Step),
        }
    }

    /// The request that an instruction becomes.
    pub(super) fn of(instruction: &Instruction) -> Result<Self, Unsendable> {
        let subject = &instruction.subject;
        let Some(kind) = StepKind::of(subject.kind) else {
            return Ok(Self::Payment(Payment {
                operation: subject.operation_id,
                tenant: subject.tenant.clone(),
                order_id: instruction.order_id.clone(),
                amount: subject.amount,
                currency: subject.currency,
                token: token(instruction.payment_method.as_deref())?,
                captures_at_once: instruction.captures_at_once,
            }));
        };
        let unsendable = || Unsendable { member: "payment", detail: "names no payment to act on".into() };
        let payment = subject.payment.as_ref().ok_or_else(unsendable)?.operation_id;
        let step = Step { operation: subject.operation_id, kind, payment, amount: subject.amount };
        Ok(Self::Step(step))
    }

    pub(super) fn path(&self) -> String {
        match self {
            Self::Payment(_) => "/payments".to_owned(),
            Self::Step(step) => format!("/payments/{}/{}", step.payment, step.kind.segment()),
        }
    }

    pub(super) fn body(&self) -> String {
        let written = match self {
            Self::Payment(payment) => serde_json::to_string(&PaymentBody {
                operation_id: payment.operation.to_string().into(),
                tenant: payment.tenant.as_str().into(),
                order_id: payment.order_id.as_str().into(),
                amount: payment.amount.minor_units(),
                currency: payment.currency.code().into(),
                payment_method: payment.token.to_string().into(),
                capture: payment.captures_at_once,
            }),
            Self::Step(step) => serde_json::to_string(&StepBody {
                operation_id: step.operation.to_string().into(),
                amount: step.amount.minor_units(),
            }),
        };
        written.expect("texts, numbers and truth values have no failing members")
    }
}

fn token(text: Option<&str>) -> Result<Token, Unsendable> {
    let Some(text) = text else { return Ok(Token::default()) };
    Token::parse(text).ok_or_else(|| Unsendable {
        member: "payment_method",
        detail: format!("payment_method is no test token of the sandbox, allowed: {}", Token::CHOICES).into(),
    })
}

impl Payment {
    fn parse(body: &[u8]) -> Result<Self, String> {
        let body: PaymentBody<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        Ok(Self {
            operation: operation(&body.operation_id)?,
            tenant: Tenant::parse(&body.tenant).map_err(|error| error.to_string())?,
            order_id: OrderId::parse(&body.order_id).map_err(|error| format!("order_id {error}"))?,
            amount: amount(body.amount)?,
            currency: Currency::parse(&body.currency).ok_or("currency is no code of ISO 4217")?,
            token: Token::parse(&body.payment_method)
                .ok_or_else(|| format!("payment_method is none of {}", Token::CHOICES))?,
            captures_at_once: body.capture,
        })
    }
}

impl Step {
    fn parse(payment: OperationId, kind: StepKind, body: &[u8]) -> Result<Self, String> {
        let body: StepBody<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        Ok(Self { operation: operation(&body.operation_id)?, kind, payment, amount: amount(body.amount)? })
    }
}

fn operation(text: &str) -> Result<OperationId, String> {
    OperationId::parse(text).map_err(|error| error.to_string())
}

fn amount(minor_units: i64) -> Result<Amount, String> {
    Amount::of_minor_units(minor_units)
        .ok_or_else(|| format!("amount is {minor_units}, allowed are 1 to 999999999999 minor units"))
}

/// Where requests are posted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Payments,
    Step { payment: OperationId, kind: StepKind },
}

impl Path {
    pub(super) fn parse(path: &str) -> Option<Self> {
        let rest = path.strip_prefix("/payments")?;
        if rest.is_empty() {
            return Some(Self::Payments);
        }
        let (payment, step) = rest.strip_prefix('/')?.split_once('/')?;
        let kind = StepKind::ALL.into_iter().find(|kind| kind.segment() == step)?;
        Some(Self::Step { payment: OperationId::parse(payment).ok()?, kind })
    }
}
