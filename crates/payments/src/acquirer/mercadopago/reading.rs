//! What Mercado Pago's answers mean.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use unavez_core::identity::{OperationId, Tenant};
use unavez_core::time::Time;

use super::money;
use super::object::{Failure, Payment, Refund};
use crate::acquirer::http::Exchanged;
use crate::acquirer::{Answer, EventRefusal, Kind, Listed, News, Reason, Report, Standing, Subject};
use crate::money::{Amount, Currency};

/// The document of a 200 or 201.
pub(super) fn document<T: DeserializeOwned>(exchanged: Exchanged) -> Result<T, Reason> {
    match exchanged {
        Exchanged::Answered { status: 200 | 201, body } => {
            serde_json::from_slice(&body).map_err(|_| Reason("the answer cannot be read".into()))
        }
        Exchanged::Answered { status, body } => Err(failed(status, &codes(status, &body))),
        Exchanged::Cut(reason) | Exchanged::NotSent(reason) => Err(reason),
    }
}

/// The codes of an error of theirs; none, if it is somebody else's.
fn codes(status: u16, body: &[u8]) -> Vec<u32> {
    let failure: Option<Failure> = serde_json::from_slice(body).ok();
    let causes = failure.filter(|failure| failure.status == status).and_then(|failure| failure.cause);
    causes.unwrap_or_default().iter().filter_map(|cause| cause.code()).collect()
}

fn failed(status: u16, codes: &[u32]) -> Reason {
    let words: Vec<String> = codes.iter().map(u32::to_string).collect();
    Reason(format!("answered {status} {}", words.join(",")).trim_end().into())
}

/// The answer to a send.
pub(super) fn answer(exchanged: Exchanged, subject: &Subject) -> Answer {
    let answer = match exchanged {
        Exchanged::Answered { status: 400, body } => return refused(&codes(400, &body), subject),
        exchanged => executed(exchanged, subject).unwrap_or_else(Answer::CannotSay),
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

fn refused(codes: &[u32], subject: &Subject) -> Answer {
    match codes.first() {
        Some(code) if codes.iter().all(|code| is_about_content(*code)) => {
            let decline_code = Some(format!("mercadopago_{code}").into());
            Answer::Declined(Report { decline_code, ..report_of(subject) })
        }
        _ => Answer::CannotSay(failed(400, codes)),
    }
}

/// Codes by which a request was judged and refused. Left out on purpose: 2001 (the same was posted a minute ago), 2004
/// and 2007 (a gateway of theirs failed), and what is about accounts and tokens of access.
fn is_about_content(code: u32) -> bool {
    matches!(code,
        1 | 8 | 23
        | 2002 | 2006 | 2009 | 2024 | 2062 | 2063
        | 3000..=3003 | 3005..=3008 | 3010..=3040
        | 4000..=4050 | 4293..=4296)
}

/// What was sent, as a report about itself.
fn report_of(subject: &Subject) -> Report {
    Report {
        operation_id: subject.operation_id,
        kind: subject.kind,
        tenant: None,
        amount: subject.amount,
        currency: subject.currency,
        payment: subject.payment.as_ref().map(|payment| payment.operation_id),
        reference: None,
        decline_code: None,
        next_action: None,
    }
}

/// Of several payments under one reference the one that moved money is the truth.
pub(super) fn strongest(answers: impl Iterator<Item = Answer>) -> Option<Answer> {
    let strength = |answer: &Answer| match answer {
        Answer::Done(_) => 0,
        Answer::CannotSay(_) => 1,
        Answer::Pending(_) => 2,
        _ => 3,
    };
    answers.min_by_key(strength)
}

/// How a payment stands, if it is the one that is asked about.
pub(super) fn payment(payment: &Payment, subject: &Subject) -> Answer {
    match read_payment(payment) {
        Ok((_, report)) if report.operation_id != subject.operation_id => another(),
        Ok((Standing::Done, report)) => Answer::Done(report),
        Ok((Standing::Declined, report)) => Answer::Declined(report),
        Ok((Standing::Pending, report)) => Answer::Pending(report),
        Err(reason) => Answer::CannotSay(reason),
    }
}

fn another() -> Answer {
    Answer::CannotSay(Reason("the answer is about another operation".into()))
}

fn read_payment(payment: &Payment) -> Result<(Standing, Report), Reason> {
    let unreadable = |what: &str| Reason(format!("the {what} of the answer cannot be read").into());
    let standing = standing_of(payment)?;
    let (amount, currency) = amount_of(payment).ok_or_else(|| unreadable("amount"))?;
    let detail = || payment.status_detail.as_deref().unwrap_or(&payment.status).into();
    let action =
        payment.point_of_interaction.as_ref().map(|action| action.get()).filter(|action| *action != "null");
    let report = Report {
        operation_id: operation_of(payment).ok_or_else(|| unreadable("external_reference"))?,
        kind: Kind::Payment,
        tenant: tenant_of(payment),
        amount,
        currency,
        payment: None,
        reference: Some(payment.id.to_string().into()),
        decline_code: (standing == Standing::Declined).then(detail),
        next_action: action.filter(|_| standing == Standing::Pending).map(Into::into),
    };
    Ok((standing, report))
}

fn operation_of(payment: &Payment) -> Option<OperationId> {
    OperationId::parse(payment.external_reference.as_deref()?).ok()
}

fn tenant_of(payment: &Payment) -> Option<Tenant> {
    Tenant::parse(payment.metadata.as_ref()?.unavez_tenant.as_deref()?).ok()
}

fn amount_of(payment: &Payment) -> Option<(Amount, Currency)> {
    let currency = Currency::parse(&payment.currency_id)?;
    Some((money::read(payment.transaction_amount.get(), currency)?, currency))
}

fn standing_of(payment: &Payment) -> Result<Standing, Reason> {
    match payment.status.as_str() {
        // What was paid back or is disputed was paid.
        "approved" | "authorized" | "refunded" | "charged_back" | "in_mediation" => Ok(Standing::Done),
        "pending" | "in_process" => Ok(Standing::Pending),
        "rejected" | "cancelled" => Ok(Standing::Declined),
        _ => Err(Reason("the payment has a status that is not known".into())),
    }
}

/// What became of a capture or void, by how its payment stands. Neither leaves a mark of its own.
pub(super) fn step(payment: &Payment, subject: &Subject) -> Answer {
    let parent = subject.payment.as_ref().map(|payment| payment.operation_id);
    if parent.is_none() || operation_of(payment) != parent {
        return another();
    }
    let done = |amount, currency| {
        let reference = Some(payment.id.to_string().into());
        Answer::Done(Report { amount, currency, reference, ..report_of(subject) })
    };
    let declined =
        |code: &str| Answer::Declined(Report { decline_code: Some(code.into()), ..report_of(subject) });
    match (subject.kind, payment.status.as_str(), amount_of(payment)) {
        (_, _, None) => Answer::CannotSay(Reason("the amount of the answer cannot be read".into())),
        (_, "authorized", _) => Answer::NotFound,
        (Kind::Void, "cancelled", Some((amount, currency))) => done(amount, currency),
        (Kind::Void, "approved", _) => declined("already_captured"),
        (Kind::Capture, "approved", Some((amount, currency)))
            if payment.captured == Some(true) && amount == subject.amount =>
        {
            done(amount, currency)
        }
        (Kind::Capture, "cancelled" | "rejected", _) => declined("payment_cancelled"),
        _ => Answer::CannotSay(Reason("the payment's status does not tell what became of the step".into())),
    }
}

/// The answer to a refund: whose it is follows from the request, since nothing in it says so.
fn refund(refund: &Refund, subject: &Subject) -> Answer {
    let payment = subject.payment.as_ref().and_then(|payment| payment.reference.as_deref());
    let amount = money::read(refund.amount.get(), subject.currency);
    if payment != Some(&*refund.payment_id.to_string()) || amount != Some(subject.amount) {
        return Answer::CannotSay(Reason("the answer is about another refund".into()));
    }
    let reference = Some(refund.id.to_string().into());
    let report = Report { reference, ..report_of(subject) };
    match refund.status.as_str() {
        "approved" => Answer::Done(report),
        "in_process" => Answer::Pending(report),
        "rejected" | "cancelled" => {
            Answer::Declined(Report { decline_code: Some(refund.status.as_str().into()), ..report })
        }
        _ => Answer::CannotSay(Reason("the refund has a status that is not known".into())),
    }
}

/// What a payment tells that a webhook spoke of. One without our reference was not made here.
pub(super) fn news(payment: &Payment) -> Result<News, EventRefusal> {
    if operation_of(payment).is_none() {
        return Ok(News::Other);
    }
    let (standing, report) = read_payment(payment).map_err(EventRefusal::Malformed)?;
    Ok(News::Operation(standing, report))
}

/// A payment and its refunds as lines of a list. Those of others are listed too, without an id of ours.
pub(super) fn listed(payment: &Payment) -> Result<Vec<Listed>, Reason> {
    let unreadable = || Reason("the list cannot be read".into());
    let (amount, currency) = amount_of(payment).ok_or_else(unreadable)?;
    let line = Listed {
        operation_id: operation_of(payment),
        kind: Kind::Payment,
        standing: standing_of(payment)?,
        tenant: tenant_of(payment),
        amount,
        currency,
        payment: None,
        reference: Some(payment.id.to_string().into()),
        created_at: time(&payment.date_created).ok_or_else(unreadable)?,
    };
    let mut lines = vec![line];
    for refund in payment.refunds.iter().flatten() {
        lines.push(Listed {
            operation_id: None,
            kind: Kind::Refund,
            standing: if refund.status == "approved" { Standing::Done } else { Standing::Pending },
            amount: money::read(refund.amount.get(), currency).ok_or_else(unreadable)?,
            payment: lines[0].operation_id,
            reference: Some(format!("refund:{}", refund.id).into()),
            created_at: time(&refund.date_created).ok_or_else(unreadable)?,
            ..lines[0].clone()
        });
    }
    Ok(lines)
}

fn time(text: &str) -> Option<Time> {
    let stamp: Timestamp = text.parse().ok()?;
    Some(Time::from_micros(stamp.as_microsecond()))
}
