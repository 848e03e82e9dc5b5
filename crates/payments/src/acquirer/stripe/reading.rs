//! What Stripe's answers mean.

use serde::de::DeserializeOwned;
use unavez_core::identity::{OperationId, Tenant};

use super::compose::{CAPTURE_ID, TENANT};
use super::money;
use super::object::{Failure, Fault, Metadata, Object, PaymentIntent, Refund};
use crate::acquirer::http::Exchanged;
use crate::acquirer::{Answer, Kind, Reason, Report, Standing, Subject};

/// The document of a 200.
pub(super) fn document<T: DeserializeOwned>(exchanged: Exchanged) -> Result<T, Reason> {
    match exchanged {
        Exchanged::Answered { status: 200, body } => {
            serde_json::from_slice(&body).map_err(|_| Reason("the answer cannot be read".into()))
        }
        Exchanged::Answered { status, body } => Err(failed(status, failure(&body).as_ref())),
        Exchanged::Cut(reason) | Exchanged::NotSent(reason) => Err(reason),
    }
}

fn failure(body: &[u8]) -> Option<Fault> {
    serde_json::from_slice(body).ok().map(|Failure { error }| error)
}

fn failed(status: u16, fault: Option<&Fault>) -> Reason {
    Reason(
        fault
            .map_or_else(|| format!("answered {status}"), |it| format!("answered {status} {}", it.word()))
            .into(),
    )
}

/// The answer to a send.
pub(super) fn answer(exchanged: Exchanged, subject: &Subject) -> Answer {
    let answer = match exchanged {
        Exchanged::NotSent(reason) => return Answer::NotSent(reason),
        Exchanged::Answered { status: status @ (400 | 402), body } => match failure(&body) {
            Some(fault) => refused(status, &fault, subject),
            None => Answer::CannotSay(failed(status, None)),
        },
        other => executed(other, subject).unwrap_or_else(Answer::CannotSay),
    };
    match answer {
        Answer::NotFound => Answer::CannotSay(Reason("the answer says that nothing was done".into())),
        answer => answer,
    }
}

fn executed(exchanged: Exchanged, subject: &Subject) -> Result<Answer, Reason> {
    Ok(match subject.kind {
        Kind::Payment => payment(&document(exchanged)?, subject),
        Kind::Capture | Kind::Void => step(&document(exchanged)?, subject),
        Kind::Refund => refund(&document(exchanged)?, subject),
    })
}

/// What a 400 or 402 says. Where it shows the payment, that tells more: a void of what is void already is done.
fn refused(status: u16, fault: &Fault, subject: &Subject) -> Answer {
    // The key was used for another request.
    if fault.kind == "idempotency_error" {
        return Answer::Sighted(failed(status, Some(fault)));
    }
    let is_refusal = match fault.kind.as_str() {
        "card_error" => true,
        "invalid_request_error" => !fault.code.as_deref().is_some_and(says_nothing),
        _ => false,
    };
    if !is_refusal {
        return Answer::CannotSay(failed(status, Some(fault)));
    }
    let shown = fault.payment_intent.as_deref().map(|intent| match subject.kind {
        Kind::Payment => payment(intent, subject),
        Kind::Capture | Kind::Void => step(intent, subject),
        Kind::Refund => Answer::NotFound,
    });
    match shown {
        None | Some(Answer::NotFound) => Answer::Declined(of_subject(subject, fault.word())),
        Some(answer) => answer,
    }
}

/// Codes of requests that were not judged at all.
fn says_nothing(code: &str) -> bool {
    ["lock_timeout", "rate_limit", "idempotency_key_in_use", "api_key_expired", "account_invalid"]
        .contains(&code)
}

/// A refusal shows no object; it is about what was sent.
fn of_subject(subject: &Subject, decline_code: &str) -> Report {
    Report {
        operation_id: subject.operation_id,
        kind: subject.kind,
        tenant: None,
        amount: subject.amount,
        currency: subject.currency,
        payment: subject.payment.as_ref().map(|payment| payment.operation_id),
        reference: None,
        decline_code: Some(decline_code.into()),
        next_action: None,
    }
}

/// How a payment stands, if it is the one that is asked about.
pub(super) fn payment(intent: &PaymentIntent, subject: &Subject) -> Answer {
    match read_payment(intent) {
        Ok((_, report)) if report.operation_id != subject.operation_id => another(),
        Ok((standing, report)) => told(standing, report),
        Err(reason) => Answer::CannotSay(reason),
    }
}

fn another() -> Answer {
    Answer::CannotSay(Reason("the answer is about another operation".into()))
}

pub(super) fn told(standing: Standing, report: Report) -> Answer {
    match standing {
        Standing::Done => Answer::Done(report),
        Standing::Declined => Answer::Declined(report),
        Standing::Pending => Answer::Pending(report),
    }
}

/// A PaymentIntent as the payment it is.
pub(super) fn read_payment(intent: &PaymentIntent) -> Result<(Standing, Report), Reason> {
    let standing = standing_of(intent)?;
    let mut report = report(Kind::Payment, intent.amount, &intent.currency, &intent.metadata, &intent.id)?;
    if standing == Standing::Declined {
        let error = intent.last_payment_error.as_ref().map(Fault::word);
        let word = error.or(intent.cancellation_reason.as_deref()).unwrap_or(&intent.status);
        report.decline_code = Some(word.into());
    }
    if standing == Standing::Pending {
        report.next_action =
            intent.next_action.as_ref().map(|action| action.get()).filter(|it| *it != "null").map(Into::into);
    }
    Ok((standing, report))
}

pub(super) fn standing_of(intent: &PaymentIntent) -> Result<Standing, Reason> {
    match intent.status.as_str() {
        "requires_capture" => Ok(Standing::Done),
        // A part may have been captured of what was authorised; without a capture of its own it is all or nothing.
        "succeeded" if intent.capture_method == "manual" || intent.amount_received == intent.amount => {
            Ok(Standing::Done)
        }
        "succeeded" => Err(Reason("another amount was received than was to be paid".into())),
        "processing" | "requires_action" | "requires_confirmation" => Ok(Standing::Pending),
        "requires_payment_method" | "canceled" => Ok(Standing::Declined),
        _ => Err(Reason("the payment has a status that is not known".into())),
    }
}

fn report(kind: Kind, amount: i64, currency: &str, metadata: &Metadata, id: &str) -> Result<Report, Reason> {
    let unreadable = |what: &str| Reason(format!("the {what} of the answer cannot be read").into());
    let name = if kind == Kind::Capture { CAPTURE_ID } else { super::compose::OPERATION_ID };
    let operation_id = metadata.get(name).and_then(|id| OperationId::parse(id).ok());
    let (amount, currency) = money::read(amount, currency).ok_or_else(|| unreadable("amount"))?;
    Ok(Report {
        operation_id: operation_id.ok_or_else(|| unreadable("operation id"))?,
        kind,
        tenant: metadata.get(TENANT).and_then(|tenant| Tenant::parse(tenant).ok()),
        amount,
        currency,
        payment: None,
        reference: Some(id.into()),
        decline_code: None,
        next_action: None,
    })
}

/// What became of a capture or void, by how its payment stands.
pub(super) fn step(intent: &PaymentIntent, subject: &Subject) -> Answer {
    let parent = subject.payment.as_ref().map(|payment| payment.operation_id.to_string());
    if intent.operation_id() != parent.as_ref() {
        return another();
    }
    match (subject.kind, intent.status.as_str()) {
        (Kind::Capture, "succeeded" | "processing") => match read_capture(intent) {
            Ok((standing, report)) if report.operation_id == subject.operation_id => told(standing, report),
            _ => Answer::Declined(of_subject(subject, "already_captured")),
        },
        (Kind::Void, "canceled") => voided(intent, subject),
        (Kind::Void, "succeeded") => Answer::Declined(of_subject(subject, "already_captured")),
        (Kind::Capture, "canceled") => Answer::Declined(of_subject(subject, "payment_canceled")),
        (_, "requires_capture") => Answer::NotFound,
        _ => Answer::CannotSay(Reason("the payment's status does not tell what became of the step".into())),
    }
}

/// A PaymentIntent as the capture that was made of it.
pub(super) fn read_capture(intent: &PaymentIntent) -> Result<(Standing, Report), Reason> {
    let done = intent.status == "succeeded";
    let amount = if done { intent.amount_received } else { intent.amount };
    let mut report = report(Kind::Capture, amount, &intent.currency, &intent.metadata, &intent.id)?;
    report.payment = intent.operation_id().and_then(|id| OperationId::parse(id).ok());
    Ok((if done { Standing::Done } else { Standing::Pending }, report))
}

fn voided(intent: &PaymentIntent, subject: &Subject) -> Answer {
    let Some((amount, currency)) = money::read(intent.amount, &intent.currency) else {
        return Answer::CannotSay(Reason("the amount of the answer cannot be read".into()));
    };
    let reference = Some(intent.id.as_str().into());
    Answer::Done(Report { amount, currency, reference, decline_code: None, ..of_subject(subject, "") })
}

/// How a refund stands, if it is the one that is asked about.
pub(super) fn refund(refund: &Refund, subject: &Subject) -> Answer {
    let reference = subject.payment.as_ref().and_then(|payment| payment.reference.as_deref());
    match read_refund(refund) {
        Ok((_, report)) if report.operation_id != subject.operation_id => another(),
        Ok(_) if refund.payment_intent.as_deref() != reference => another(),
        Ok((standing, report)) => told(standing, report),
        Err(reason) => Answer::CannotSay(reason),
    }
}

pub(super) fn read_refund(refund: &Refund) -> Result<(Standing, Report), Reason> {
    let standing = standing_of_refund(refund)?;
    let mut report = report(Kind::Refund, refund.amount, &refund.currency, &refund.metadata, &refund.id)?;
    if standing == Standing::Declined {
        report.decline_code = Some(refund.failure_reason.as_deref().unwrap_or(&refund.status).into());
    }
    Ok((standing, report))
}

pub(super) fn standing_of_refund(refund: &Refund) -> Result<Standing, Reason> {
    match refund.status.as_str() {
        "succeeded" => Ok(Standing::Done),
        "pending" | "requires_action" => Ok(Standing::Pending),
        "failed" | "canceled" => Ok(Standing::Declined),
        _ => Err(Reason("the refund has a status that is not known".into())),
    }
}
