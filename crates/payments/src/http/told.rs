//! What a caller is told of an operation: a function of stored rows, so that whoever asks hears the same.

use http::StatusCode;
use unavez_core::answer::{Answer, Conclusion};
use unavez_core::problem::Code;
use unavez_core::time::Time;
use unavez_tower::problem::Problem;

use super::{post, wire};
use crate::acquirer::Kind;
use crate::books::OperationStanding;
use crate::books::booking::Earlier;
use crate::books::operations::Operation;
use crate::charge::life::Illegal;
use crate::charge::{Charge, ChargeId, Status};
use crate::outside::by_hand::SETTLED_BY_HAND;
use crate::request_id::RequestId;

/// A final answer, and what a record says beside it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) conclusion: Conclusion,
    pub(crate) answer: Answer,
    /// What the operation made.
    pub(crate) resource: Option<Box<str>>,
}

/// An operation whose record is gone, and what its request was (P21).
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) created_at: Time,
    /// `None`: nothing final is known of it, so nothing may be told but that.
    pub(crate) told: Option<Told>,
}

impl Told {
    /// Of an operation that is done or declined, with its charge as it stands now.
    pub(crate) fn of(operation: &Operation, charge: &Charge) -> Self {
        let (conclusion, answer) = match operation.standing {
            OperationStanding::Declined => (Conclusion::Declined, declined(operation)),
            _ => (Conclusion::Approved, made(StatusCode::CREATED, operation, charge)),
        };
        Self { conclusion, answer, resource: Some(operation.resource().into()) }
    }

    /// Of a refusal that is final.
    pub(crate) fn refusal(problem: &Problem, request_id: RequestId) -> Self {
        let answer = post::problem_answer(problem, request_id);
        Self { conclusion: Conclusion::Refused, answer, resource: None }
    }
}

/// 202: the acquirer has accepted the operation and not decided.
pub(crate) fn pending(operation: &Operation, charge: &Charge) -> Answer {
    made(StatusCode::ACCEPTED, operation, charge)
}

fn made(status: StatusCode, operation: &Operation, charge: &Charge) -> Answer {
    let request_id = operation.request_id;
    match operation.kind {
        Kind::Refund => {
            let path = format!("/v1/refunds/{}", operation.refund_id());
            post::json_answer(status, Some(path), wire::refund_json(operation), request_id)
        }
        Kind::Payment | Kind::Capture | Kind::Void => {
            charge_answer(status, charge.id, wire::charge_json(charge), request_id)
        }
    }
}

/// The document of a charge, as an answer.
pub(crate) fn charge_answer(status: StatusCode, id: ChargeId, json: String, request_id: RequestId) -> Answer {
    post::json_answer(status, Some(format!("/v1/charges/{id}")), json, request_id)
}

fn declined(operation: &Operation) -> Answer {
    let what = match operation.kind {
        Kind::Payment => "payment method",
        kind => kind.as_str(),
    };
    let is_ruled = operation.decline_code.as_deref() == Some(SETTLED_BY_HAND);
    let problem = Problem::new(Code::ChargeDeclined).with_resource(operation.resource());
    // An operator's word is not the acquirer's: whoever takes it for that charges again under a new key.
    let mut problem = match is_ruled {
        true => problem
            .with_detail(format!(
                "an operator ruled that the {} did not take effect; the acquirer did not decline it",
                operation.kind.as_str()
            ))
            .with_next("ask the operators before a new key: they can compare it with the acquirer's list"),
        false => problem.with_detail(format!("the acquirer declined the {what}")),
    };
    if let Some(code) = &operation.decline_code {
        problem = problem.with("decline_code", &**code);
    }
    post::problem_answer(&problem, operation.request_id)
}

/// 402 of the ledger's.
pub(crate) fn declined_by_ledger(id: ChargeId, request_id: RequestId) -> Answer {
    let problem = Problem::new(Code::ChargeDeclined)
        .with_detail("the acquirer declined the payment method")
        .with_resource(id.to_string());
    post::problem_answer(&problem, request_id)
}

/// 404, final: judged after the claim.
pub(crate) fn unknown_charge() -> Problem {
    Problem::new(Code::NotFound).with_detail("no charge has this id")
}

/// 503, to be repeated: a step goes where its charge went, and that is not where the service goes now. A start with other
/// settings takes it.
pub(crate) fn other_acquirer(step: Kind) -> Problem {
    Problem::new(Code::AcquirerUnavailable).with_detail(format!(
        "nothing was sent: the charge was made with another acquirer than the service has now, and a {} has to go to the same",
        step.as_str()
    ))
}

/// 504, to be repeated: the books, which were restored, refuse this, and may have forgotten what speaks for it.
pub(crate) fn asks_first(refusal: Code, until: Time) -> Problem {
    Problem::own_outcome_unknown().with_detail(format!(
        "the books say {}, and may have forgotten this very step or what it needs: repeat the charge's own request and the \
         steps before this one with their keys, then this one; asks first until {}",
        refusal.as_str(),
        wire::rfc3339(until)
    ))
}

/// 503, to be repeated: the books may have forgotten this charge, but the acquirer does not know it, and the order has
/// another.
pub(crate) fn not_found_first(first: ChargeId) -> Problem {
    Problem::new(Code::AcquirerUnavailable)
        .with_detail(
            "nothing was sent: the order has a charge under another key, and the books are restored ones",
        )
        .with_resource(first.to_string())
}

/// 409: the order has a charge already.
pub(crate) fn already_charged(first: ChargeId) -> Problem {
    Problem::new(Code::OrderAlreadyCharged)
        .with_detail("the order has a charge under another key")
        .with_member("order_id")
        .with_resource(first.to_string())
}

/// 409, to be repeated: the order has a charge that nobody has decided yet.
pub(crate) fn order_undecided(first: ChargeId) -> Problem {
    Problem::new(Code::OutcomePending)
        .with_detail(
            "the order has a charge under another key that is not decided yet; nothing was sent for this one",
        )
        .with_resource(first.to_string())
}

/// 409, to be repeated: this charge may have been sent, and meanwhile the order has another one.
pub(crate) fn not_sent_again(first: ChargeId) -> Problem {
    Problem::new(Code::OutcomeUnknown)
        .with_detail("not sent again: the order has a charge under another key by now")
        .with_resource(first.to_string())
}

/// 409 for a step that the charge's state does not allow.
pub(crate) fn illegal_step(illegal: Illegal, charge: ChargeId) -> Problem {
    let problem = match illegal {
        Illegal::Stands { .. } | Illegal::UnderWay { .. } => Problem::new(Code::InvalidState),
        Illegal::Exceeds { .. } => Problem::new(Code::AmountExceeds).with_member("amount"),
        Illegal::NothingLeft => Problem::new(Code::AmountExceeds),
    };
    problem.with_detail(illegal.to_string()).with_resource(charge.to_string())
}

impl Past {
    /// Of an operation with a row of its own.
    pub(crate) fn of(operation: &Operation, charge: &Charge) -> Self {
        Self {
            fingerprint: operation.fingerprint.clone(),
            created_at: operation.created_at,
            told: operation.standing.is_final().then(|| Told::of(operation, charge)),
        }
    }
}

impl From<Earlier> for Past {
    /// Of a charge in the ledger.
    fn from(earlier: Earlier) -> Self {
        let Earlier { charge, fingerprint, request_id } = earlier;
        let told = |conclusion, answer| {
            Some(Told { conclusion, answer, resource: Some(charge.id.to_string().into()) })
        };
        let told = match charge.status {
            Status::Declined => told(Conclusion::Declined, declined_by_ledger(charge.id, request_id)),
            // It went outside, and has not come back.
            Status::Created | Status::Pending => None,
            Status::Authorized | Status::Captured | Status::Voided => told(
                Conclusion::Approved,
                charge_answer(StatusCode::CREATED, charge.id, wire::charge_json(&charge), request_id),
            ),
        };
        Self { fingerprint, created_at: charge.created_at, told }
    }
}
