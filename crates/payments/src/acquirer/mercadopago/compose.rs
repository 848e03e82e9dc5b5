//! Requests to Mercado Pago: JSON, built from the instruction alone.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::money;
use crate::acquirer::{Instruction, Kind, Outgoing, Reason, Subject, Unsendable};
use crate::money::Currency;

/// Most instalments that any of their countries knows.
const INSTALLMENTS_MAX: u8 = 36;

#[derive(Serialize)]
struct PaymentBody<'a> {
    transaction_amount: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    payment_method_id: &'a str,
    installments: u8,
    capture: bool,
    external_reference: &'a str,
    description: &'a str,
    payer: Payer,
    metadata: MetadataBody<'a>,
}

#[derive(Serialize)]
struct Payer {
    email: String,
}

#[derive(Serialize)]
struct MetadataBody<'a> {
    order_id: &'a str,
    unavez_tenant: &'a str,
}

#[derive(Serialize)]
struct CaptureBody {
    capture: bool,
    transaction_amount: Box<RawValue>,
}

#[derive(Serialize)]
struct VoidBody {
    status: &'static str,
}

#[derive(Serialize)]
struct RefundBody {
    amount: Box<RawValue>,
}

/// Mercado Pago's own name of the payment that a step belongs to: digits.
pub(super) fn reference(subject: &Subject) -> Result<&str, Reason> {
    let reference = subject.payment.as_ref().and_then(|payment| payment.reference.as_deref());
    let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    reference
        .filter(is_name)
        .ok_or_else(|| Reason("Mercado Pago's own name of the payment is not known".into()))
}

pub(super) fn compose(instruction: &Instruction, currency: Currency) -> Result<Outgoing, Unsendable> {
    let subject = &instruction.subject;
    if subject.currency != currency {
        let detail =
            format!("currency is {}, and the account at Mercado Pago has {currency} alone", subject.currency);
        return Err(Unsendable { member: "currency", detail: detail.into() });
    }
    let amount = RawValue::from_string(money::write(subject.amount, currency)?).expect("digits are JSON");
    let id = subject.operation_id.to_string();
    match subject.kind {
        Kind::Payment => {
            let body = payment(instruction, amount, &id)?;
            Ok(outgoing("POST", "/v1/payments".to_owned(), &id, &body))
        }
        Kind::Capture => {
            let body = CaptureBody { capture: true, transaction_amount: amount };
            Ok(outgoing("PUT", step(subject, "")?, &id, &body))
        }
        Kind::Void => Ok(outgoing("PUT", step(subject, "")?, &id, &VoidBody { status: "cancelled" })),
        Kind::Refund => {
            let mut outgoing = outgoing("POST", step(subject, "/refunds")?, &id, &RefundBody { amount });
            // Without it a refund that is still in process is told as a 400.
            outgoing.headers.push(("x-render-in-process-refunds".into(), "true".into()));
            Ok(outgoing)
        }
    }
}

fn outgoing(method: &str, path: String, id: &str, body: &impl Serialize) -> Outgoing {
    let headers = [("content-type", "application/json"), ("x-idempotency-key", id)];
    Outgoing {
        method: method.into(),
        path: path.into(),
        headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
        body: serde_json::to_vec(body).expect("texts and numbers have no failing members").into(),
    }
}

fn step(subject: &Subject, action: &str) -> Result<String, Unsendable> {
    let payment = reference(subject).map_err(|Reason(why)| Unsendable { member: "payment", detail: why })?;
    Ok(format!("/v1/payments/{payment}{action}"))
}

fn payment<'a>(
    instruction: &'a Instruction,
    transaction_amount: Box<RawValue>,
    id: &'a str,
) -> Result<PaymentBody<'a>, Unsendable> {
    let (payment_method_id, token) = method(instruction.payment_method.as_deref())?;
    let said = metadata(instruction);
    Ok(PaymentBody {
        transaction_amount,
        token,
        payment_method_id,
        installments: installments(said.get("installments"))?,
        capture: instruction.captures_at_once,
        external_reference: id,
        description: instruction.order_id.as_str(),
        payer: Payer { email: email(said.get("payer_email"))? },
        metadata: MetadataBody {
            order_id: instruction.order_id.as_str(),
            unavez_tenant: instruction.subject.tenant.as_str(),
        },
    })
}

/// `visa:TOKEN`, or a method that needs no token.
fn method(text: Option<&str>) -> Result<(&str, Option<&str>), Unsendable> {
    let unsendable = |detail: &str| Unsendable { member: "payment_method", detail: detail.into() };
    let text =
        text.ok_or_else(|| unsendable("payment_method is missing; Mercado Pago takes visa:TOKEN or pix"))?;
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    match text.split_once(':') {
        None if is_word(text) => Ok((text, None)),
        Some((method, token)) if is_word(method) && is_word(token) => Ok((method, Some(token))),
        _ => Err(unsendable(
            "payment_method is not a method of Mercado Pago's, or one with a card token: visa:TOKEN",
        )),
    }
}

/// The caller's members; what is no object of texts has none.
fn metadata(instruction: &Instruction) -> BTreeMap<String, String> {
    let json = instruction.metadata.as_deref().unwrap_or("{}");
    serde_json::from_str(json).unwrap_or_default()
}

fn email(said: Option<&String>) -> Result<String, Unsendable> {
    said.filter(|email| email.contains('@')).cloned().ok_or_else(|| Unsendable {
        member: "metadata",
        detail: "metadata.payer_email is missing or no address; Mercado Pago asks for the payer's".into(),
    })
}

fn installments(said: Option<&String>) -> Result<u8, Unsendable> {
    let Some(said) = said else { return Ok(1) };
    said.parse().ok().filter(|count| (1..=INSTALLMENTS_MAX).contains(count)).ok_or_else(|| Unsendable {
        member: "metadata",
        detail: format!("metadata.installments is no whole number from 1 to {INSTALLMENTS_MAX}").into(),
    })
}
