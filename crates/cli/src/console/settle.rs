//! `POST /admin/keys/settle`: an operator says what became of a key's operation.
//!
//! An operator's API key belongs to a tenant, and settles keys of that tenant alone (P4).

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use unavez_core::identity::Tenant;
use unavez_core::key::Key;
use unavez_payments::auth::Caller;
use unavez_payments::{ByHand, NotRuled, Operator, Payments, Refusal, Ruled, Ruling, RulingReason, Witness};

use crate::remedy::acquirer_flags;

/// What is to be settled, as it goes over the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    pub(crate) key: String,
    /// `None`: the tenant that the API key belongs to.
    pub(crate) tenant: Option<String>,
    pub(crate) ruling: RulingWord,
    pub(crate) reason: String,
    /// Who says so; the tenant is added.
    pub(crate) by: Option<String>,
    /// The operator looked there by other means, where the acquirer does not answer for itself.
    pub(crate) acquirer_cannot_be_asked: bool,
}

/// [`Ruling`] as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RulingWord {
    /// The money moved
    Done,
    /// It did not, and will not
    Failed,
}

/// What was settled; also what `unavez keys settle` prints.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SettleReport {
    pub(crate) key: String,
    pub(crate) tenant: String,
    pub(crate) operation_id: String,
    pub(crate) standing: String,
    pub(crate) resource_id: String,
    pub(crate) acquirer_said: String,
}

/// A ruling that was not written: why, and what can be done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SettleRefusal {
    pub(crate) refused: String,
    pub(crate) help: Option<String>,
}

impl SettleRefusal {
    fn new(refused: impl Into<String>) -> Self {
        Self { refused: refused.into(), help: None }
    }
}

/// JSON only: a page of somebody else's can send a form here, but no JSON without asking first (CORS).
pub(super) async fn settle(
    State(payments): State<Payments>,
    Extension(caller): Extension<Caller>,
    request: Result<Json<SettleRequest>, JsonRejection>,
) -> Response {
    let Json(request) = match request {
        Ok(request) => request,
        Err(rejection) => {
            return (rejection.status(), Json(SettleRefusal::new(rejection.to_string()))).into_response();
        }
    };
    if request.tenant.as_deref().is_some_and(|tenant| tenant != caller.tenant.as_str()) {
        let refusal = SettleRefusal::new(format!(
            "the API key belongs to tenant {}, and settles its keys alone",
            caller.tenant.as_str()
        ));
        return (StatusCode::FORBIDDEN, Json(refusal)).into_response();
    }
    match settle_one(&payments, caller.tenant, request).await {
        Ok(report) => Json(report).into_response(),
        Err((status, refusal)) => (status, Json(refusal)).into_response(),
    }
}

/// Settles one key of a tenant.
pub(crate) async fn settle_one(
    payments: &Payments,
    tenant: Tenant,
    request: SettleRequest,
) -> Result<SettleReport, (StatusCode, SettleRefusal)> {
    let order = parse(tenant, &request).map_err(|why| (StatusCode::BAD_REQUEST, SettleRefusal::new(why)))?;
    let (key, tenant) = (order.key.as_str().to_owned(), order.tenant.as_str().to_owned());
    match payments.settle_by_hand(order).await {
        Ok(Ruled { operation_id, standing, resource, acquirer_said }) => Ok(SettleReport {
            key,
            tenant,
            operation_id: operation_id.to_string(),
            standing: standing.as_str().to_owned(),
            resource_id: resource.into(),
            acquirer_said: acquirer_said.into(),
        }),
        Err(refused) => {
            let status = match refused {
                NotRuled::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::CONFLICT,
            };
            let help = help(&refused);
            Err((status, SettleRefusal { refused: refused.to_string(), help }))
        }
    }
}

fn parse(tenant: Tenant, request: &SettleRequest) -> Result<ByHand, String> {
    let by = request.by.as_deref().unwrap_or("an operator");
    let operator = format!("{by}, of tenant {}", tenant.as_str());
    Ok(ByHand {
        key: Key::parse_path(&request.key).map_err(|error| format!("key: {error}"))?,
        ruling: match request.ruling {
            RulingWord::Done => Ruling::Done,
            RulingWord::Failed => Ruling::Failed,
        },
        witness: match request.acquirer_cannot_be_asked {
            true => Witness::Operator,
            false => Witness::Acquirer,
        },
        operator: Operator::parse(&operator)
            .ok_or("by: expected a name, with the tenant's at most 255 characters on one line")?,
        reason: RulingReason::parse(&request.reason)
            .ok_or("reason: expected 1 to 1000 characters on one line, not blank")?,
        tenant,
    })
}

/// What an operator can do about a ruling that was not written.
fn help(refused: &NotRuled) -> Option<String> {
    let help = match refused {
        NotRuled::NoRecord => {
            "`unavez trace KEY` shows what is known of it; an operation that is settled outlives its record"
        }
        NotRuled::NothingOutside => "`unavez trace KEY` shows what became of it",
        NotRuled::Refused(Refusal::Final, _) => {
            "if the acquirer says otherwise, that is kept as a contradiction: `unavez trace KEY` shows it, with what undoes it"
        }
        NotRuled::Refused(Refusal::TooEarly(_), _) => "wait for that moment, and settle it then",
        // The service goes on by itself from what the acquirer knows, and not from what it does not have.
        NotRuled::Refused(Refusal::Contradicts, said) if **said == *"not found" => {
            "it is not there, so `done` cannot be right. Settle it as `failed`, or let its caller repeat it with the same key \
             where it is not held"
        }
        NotRuled::Refused(Refusal::Contradicts, _) => {
            "leave it to the service: the next question settles it as the acquirer says"
        }
        NotRuled::Refused(Refusal::Undecided, _) => "wait for the acquirer, or have it decided there",
        NotRuled::Refused(Refusal::ProvesNothing, _) => {
            "it was seen there once, or the acquirer may have forgotten it: ask them in writing, and settle it as `done` if \
             the money moved"
        }
        NotRuled::NotConfirmed(_) => {
            "look it up at the acquirer by other means; if it cannot be asked from here, say so: --acquirer-cannot-be-asked, \
             with what you saw as --reason"
        }
        NotRuled::OtherAccount { sent_under, .. } => {
            return Some(format!(
                "where no service answers at --target, the file is opened with the acquirer's flags, as `serve` has them: {}. \
                 If that account is gone, look it up there by other means and say so: --acquirer-cannot-be-asked",
                acquirer_flags(sent_under.as_str())
            ));
        }
        NotRuled::Overtaken => "look at it again: unavez trace KEY",
        NotRuled::Store(_) => return None,
    };
    Some(help.to_owned())
}
