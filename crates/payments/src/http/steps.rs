//! `/v1/charges/{id}/capture`, `/void` and `/refunds`: the steps of a charge's life, each under a key of its own.
//!
//! A step is judged in the transaction that claims its key, so that two of them never both find the same room (see
//! [`crate::charge::life`]). With an acquirer outside it is then sent; with the ledger it is done in that very commit.

use std::sync::Arc;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use unavez_core::problem::Code;
use unavez_core::record::Finish;
use unavez_store::sqlite::{Abort, Claimed, OneCommit, WriteTx};
use unavez_tower::answers::Ran;
use unavez_tower::body::Body;
use unavez_tower::door::{Admitted, Entry};
use unavez_tower::engine::Met;
use unavez_tower::headers::IDEMPOTENT_REPLAYED;
use unavez_tower::problem::Problem;

use super::charges::{fault_problem, refuse_invalid};
use super::edge::Call;
use super::post::{self, Received, Stage};
use super::told::{self, Past, Told};
use super::{READERS, answer, books_problem, json, wire};
use crate::acquirer::Kind;
use crate::auth::Role;
use crate::books::operations::{NewOperation, Via};
use crate::books::{self, EntryKind, charge_rows, ledger, operations};
use crate::charge::life::{Ended, Step};
use crate::charge::request::{Capture, parse_step};
use crate::charge::{ChargeId, RefundId, card};
use crate::metrics::Route;
use crate::outside::begin::Task;
use crate::outside::carry::Errand;
use crate::request_id::RequestId;
use crate::service::App;

/// Lost races against expiring records; each was won by somebody else, so few are plenty.
const ROUNDS_MAX: usize = 4;

/// Captures an authorized charge, or a part of it. The rest of the authorization is given up.
#[utoipa::path(
    post,
    path = "/v1/charges/{id}/capture",
    tag = "charges",
    params(("id" = String, Path, description = "`ch_` and 32 hex digits"), super::openapi::IdempotencyKey),
    request_body(content = super::openapi::StepRequestDocument, content_type = "application/json"),
    responses(
        (status = 201, description = "The charge, captured", body = wire::ChargeDocument),
        (status = 202, description = "Accepted, and not decided by the acquirer", body = wire::ChargeDocument),
        (status = "default", response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn capture(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    answer(Box::pin(step(&app, &call, Kind::Capture, id, request)).await)
}

/// Gives an authorized charge up.
#[utoipa::path(
    post,
    path = "/v1/charges/{id}/void",
    tag = "charges",
    params(("id" = String, Path, description = "`ch_` and 32 hex digits"), super::openapi::IdempotencyKey),
    responses(
        (status = 201, description = "The charge, voided", body = wire::ChargeDocument),
        (status = 202, description = "Accepted, and not decided by the acquirer", body = wire::ChargeDocument),
        (status = "default", response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn void(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    answer(Box::pin(step(&app, &call, Kind::Void, id, request)).await)
}

/// Pays back what was captured, or a part of it: all refunds together never more than was captured.
#[utoipa::path(
    post,
    path = "/v1/charges/{id}/refunds",
    tag = "refunds",
    params(("id" = String, Path, description = "`ch_` and 32 hex digits"), super::openapi::IdempotencyKey),
    request_body(content = super::openapi::StepRequestDocument, content_type = "application/json"),
    responses(
        (status = 201, description = "The refund", body = wire::RefundDocument),
        (status = 202, description = "Accepted, and not decided by the acquirer", body = wire::RefundDocument),
        (status = "default", response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn refund(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    answer(Box::pin(step(&app, &call, Kind::Refund, id, request)).await)
}

/// One refund as it is now.
#[utoipa::path(
    get,
    path = "/v1/refunds/{id}",
    tag = "refunds",
    params(("id" = String, Path, description = "`re_`, 32 hex digits, `_` and a number")),
    responses(
        (status = 200, description = "The refund", body = wire::RefundDocument),
        (status = "default", response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn show_refund(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let shown = async {
        call.caller.require(READERS)?;
        let nothing = || Problem::new(Code::NotFound).with_detail("no refund has this id");
        let id = id.ok().and_then(|Path(id)| RefundId::parse(&id)).ok_or_else(nothing)?;
        let found = app.books.refund(&call.caller.tenant, id).await.map_err(|error| books_problem(&error))?;
        Ok(json(wire::refund_json(&found.ok_or_else(nothing)?)))
    };
    answer(shown.await)
}

async fn step(
    app: &Arc<App>,
    call: &Call,
    kind: Kind,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<http::Response<Body>, Problem> {
    let (role, route) = place(kind);
    call.caller.require(&[role])?;
    let received = Received::read(app, request).await?;
    let parsed = parse_step(kind, &received.body);
    let hides_card = parsed.is_err() && card::is_in_json(&received.body);
    let door = if hides_card { &app.discreet_door } else { &app.door };
    let (admitted, amount) = match (received.admit(app, door, &call.caller.tenant)?, parsed) {
        (Entry::Admitted(admitted), _) if card::is_in_text(admitted.key().as_str()) => {
            return refuse_invalid(app, &admitted, post::card_in_key()).await;
        }
        (Entry::Admitted(admitted), Ok(amount)) => (admitted, amount),
        (Entry::Admitted(admitted), Err(fault)) => {
            return refuse_invalid(app, &admitted, fault_problem(&fault)).await;
        }
        (Entry::Ambiguous(_), Err(fault)) if hides_card => return Err(fault_problem(&fault)),
        (Entry::Ambiguous(ambiguous), _) => return Ok(app.engine.refuse_ambiguous(ambiguous).await),
        (Entry::Keyless(_), _) => return Err(Problem::new(Code::KeyMissing)),
    };
    // An id that cannot be one is a charge that is not there: judged after the claim.
    let charge = id.ok().and_then(|Path(id)| ChargeId::parse(&id));
    let response = take(app, call.request_id, admitted, Step { kind, charge, amount }, route).await?;
    if response.headers().contains_key(IDEMPOTENT_REPLAYED) {
        app.metrics.replayed(route);
    }
    Ok(response)
}

/// Who may take a step, and what metrics call it.
const fn place(kind: Kind) -> (Role, Route) {
    match kind {
        Kind::Capture => (Role::Charge, Route::Capture),
        Kind::Void => (Role::Charge, Route::Void),
        Kind::Refund => (Role::Refund, Route::Refunds),
        Kind::Payment => (Role::Charge, Route::Charges),
    }
}

async fn take(
    app: &Arc<App>,
    request_id: RequestId,
    admitted: Admitted,
    step: Step,
    route: Route,
) -> Result<http::Response<Body>, Problem> {
    if let Some(outside) = &app.outside {
        let errand = Errand {
            outside: Arc::clone(outside),
            kind: app.kind.clone(),
            admitted,
            task: Task::Step(step),
            request_id,
            route,
        };
        return Box::pin(errand.run()).await;
    }
    in_ledger(app, request_id, &admitted, step, route).await
}

/// Claim, step, ledger entry and stored answer in one commit.
async fn in_ledger(
    app: &Arc<App>,
    request_id: RequestId,
    admitted: &Admitted,
    step: Step,
    route: Route,
) -> Result<http::Response<Body>, Problem> {
    for _ in 0..ROUNDS_MAX {
        let stage = Arc::new(Stage::default());
        let job = Job {
            app: Arc::clone(app),
            stage: Arc::clone(&stage),
            step,
            request_id,
            fingerprint: admitted.fingerprint().encode(),
        };
        let claim = post::claim(app, admitted);
        let owner = (admitted.tenant().clone(), admitted.key().clone());
        let effect = move |tx: &WriteTx<'_>, claimed: &Claimed| {
            let told = job.run(tx, claimed, &owner.0)?;
            Ok(Finish {
                conclusion: told.conclusion,
                answer: job.app.engine.seal(&owner.0, &owner.1, told.answer),
                response_ttl: job.app.settings.timings.response_ttl,
                resource: told.resource,
            })
        };
        let commit = Box::pin(app.store.claim_and_finish(admitted.id(), claim, effect));
        match post::committed(app, admitted.key(), &stage, commit).await? {
            OneCommit::Finished { record, .. } => {
                app.metrics.executed(route);
                return Ok(post::first_answer(app, &record));
            }
            OneCommit::Conflict { record, .. } if post::is_cancelled(&record) => {
                return Ok(app.engine.replay(&record, Ran::Another));
            }
            OneCommit::Conflict { record, now } => {
                match app.engine.meet(record, now, admitted, &app.kind).await {
                    Met::Answer(response) => return Ok(response),
                    Met::Claim(_) => {}
                    Met::TakeOver(_) => return Err(Problem::new(Code::OutcomeUnknown)),
                }
            }
            OneCommit::Refused(Refusal::Past(past)) => {
                let now = app.store.clock().now();
                return post::answer_past(&app.engine, *past, admitted, &app.kind, now).await;
            }
            OneCommit::Refused(Refusal::OtherAcquirer) => return Err(told::other_acquirer(step.kind)),
            OneCommit::Refused(Refusal::Withdrawn) => break,
        }
    }
    Err(Problem::new(Code::StoreUnavailable).with_detail("the key's record changed too often"))
}

/// Why nothing was written.
enum Refusal {
    /// The caller gave up before the writer began.
    Withdrawn,
    /// The operation is known from before its record expired.
    Past(Box<Past>),
    /// The charge went outside, and the service keeps a ledger alone now.
    OtherAcquirer,
}

/// What the writer does for one step of the ledger.
struct Job {
    app: Arc<App>,
    stage: Arc<Stage>,
    step: Step,
    request_id: RequestId,
    fingerprint: Vec<u8>,
}

impl Job {
    fn run(
        &self,
        tx: &WriteTx<'_>,
        claimed: &Claimed,
        tenant: &unavez_core::identity::Tenant,
    ) -> Result<Told, Abort<Refusal>> {
        if !self.stage.begin() {
            return Err(Abort::Refuse(Refusal::Withdrawn));
        }
        if let Some(past) = books::past(tx, self.app.books.places(), claimed.id)? {
            return Err(Abort::Refuse(Refusal::Past(Box::new(past))));
        }
        let refused = |problem: &Problem| Ok(Told::refusal(problem, self.request_id));
        let Some(mut standing) = charge_rows::to_step(tx, self.app.books.places(), tenant, self.step.charge)?
        else {
            return refused(&told::unknown_charge());
        };
        if standing.account.is_some() {
            return Err(Abort::Refuse(Refusal::OtherAcquirer));
        }
        let Step { kind, amount, .. } = self.step;
        let amount = match standing.life.admit(kind, amount) {
            Ok(amount) => amount,
            Err(illegal) => return refused(&told::illegal_step(illegal, standing.life.charge.id)),
        };
        let new = NewOperation {
            id: claimed.id,
            charge: standing.row,
            kind,
            number: operations::next_number(tx, standing.row, kind)?,
            amount,
            capture: Capture::Later,
            via: Via::Ledger,
            fingerprint: &self.fingerprint,
            request_id: self.request_id,
        };
        let row = operations::insert(tx, &new, claimed.position, claimed.now)?;
        standing.life.reserve(kind, amount);
        let entry: Option<EntryKind> = standing.life.end(kind, amount, Capture::Later, Ended::Done);
        charge_rows::update(tx, standing.row, &standing.life)?;
        let operation = operations::at(tx, row)?;
        if let Some(entry) = entry {
            ledger::book(tx, self.app.books.places(), &operation.movement(entry), claimed.now)?;
        }
        Ok(Told::of(&operation, &standing.life.charge))
    }
}
