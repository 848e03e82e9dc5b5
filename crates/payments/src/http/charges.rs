//! `/v1/charges`: what a request for a charge turns out to be, and where it goes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use unavez_core::identity::Tenant;
use unavez_core::problem::Code;
use unavez_tower::body::Body;
use unavez_tower::door::{Admitted, Ambiguous, Entry};
use unavez_tower::headers::IDEMPOTENT_REPLAYED;
use unavez_tower::problem::Problem;

use super::booked::Charging;
use super::edge::Call;
use super::post::{self, Received};
use super::query::{Query, invalid};
use super::{answer, books_problem, json, wire};
use crate::acquirer::{self, Instruction, Outgoing, Subject, Unsendable};
use crate::auth::Role;
use crate::books::{ChargeFilter, TenantNumber};
use crate::charge::request::Capture;
use crate::charge::{ChargeId, ChargeRequest, Fault, OrderId, Status, TestToken, card};
use crate::metrics::Route;
use crate::money::{Amount, Currency};
use crate::outside::Outside;
use crate::outside::begin::Task;
use crate::outside::carry::Errand;
use crate::service::App;

/// Charges once per key.
///
/// With the ledger acquirer the ledger line is the whole effect, and the answer is final when it arrives.
#[utoipa::path(
    post,
    path = "/v1/charges",
    tag = "charges",
    params(super::openapi::IdempotencyKey),
    request_body(content = super::openapi::ChargeRequestDocument, content_type = "application/json"),
    responses(
        (status = 201, description = "Charged, now or by an earlier request with this key", body = wire::ChargeDocument,
            headers(
                ("Location" = String, description = "Path of the charge"),
                ("Idempotent-Replayed" = bool, description = "`true`: an earlier request ran"),
                ("Idempotency-Expires" = String, description = "Until when this answer is repeated"),
                ("Original-Request-Id" = String, description = "On a replay: the request that ran"),
            )),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 402, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 409, response = super::openapi::ProblemResponse),
        (status = 413, response = super::openapi::ProblemResponse),
        (status = 415, response = super::openapi::ProblemResponse),
        (status = 422, response = super::openapi::ProblemResponse),
        (status = 500, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
        (status = 504, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    request: Request,
) -> Response {
    answer(Box::pin(charge(&app, &call, request)).await)
}

// A future is allocated as large as its largest part, and large pieces are what an allocator is slow at: parts are boxed
// apart, and what is rare as well.
async fn charge(app: &Arc<App>, call: &Call, request: Request) -> Result<http::Response<Body>, Problem> {
    call.caller.require(&[Role::Charge])?;
    let received = Box::pin(Received::read(app, request)).await?;
    match judge(app, &call.caller.tenant, received)? {
        Judged::Repeat(response, worth) => Ok(count_replay(app, response, worth)),
        Judged::Valid(order) => pay(app, call, *order).await,
        Judged::Invalid(admitted, problem) => Box::pin(refuse_invalid(app, &admitted, *problem)).await,
        Judged::Ambiguous(ambiguous) => Ok(Box::pin(app.engine.refuse_ambiguous(*ambiguous)).await),
    }
}

/// What a request turned out to be.
#[expect(clippy::large_enum_variant, reason = "moved once for each request; a box would cost an allocation")]
enum Judged {
    /// A plain repeat, its answer, and what it would have charged.
    Repeat(http::Response<Body>, Option<(Amount, Currency)>),
    Valid(Box<Order>),
    Invalid(Box<Admitted>, Box<Problem>),
    Ambiguous(Box<Ambiguous>),
}

/// A request that may claim its key, and what it wants.
struct Order {
    admitted: Admitted,
    request: ChargeRequest,
    way: Way,
}

/// Where a charge goes, and what it needs there.
enum Way {
    Ledger(TestToken),
    Outside(Arc<Outside>, Outgoing),
}

fn judge(app: &App, tenant: &Tenant, received: Received) -> Result<Judged, Problem> {
    let keyed = received.keyed(app, tenant)?;
    if let Some(response) = keyed.as_ref().and_then(|keyed| received.replay_verbatim(app, keyed)) {
        return Ok(Judged::Repeat(response, ChargeRequest::worth(&received.body)));
    }
    let parsed = ChargeRequest::parse(&received.body);
    let hides_card = parsed.is_err() && card::is_in_json(&received.body);
    // What differs from the first request is told by its name, and names can be card numbers too.
    let door = if hides_card { &app.discreet_door } else { &app.door };
    let invalid = |admitted, problem| Judged::Invalid(Box::new(admitted), Box::new(problem));
    Ok(match (received.admit_keyed(door, keyed), parsed) {
        (Entry::Admitted(admitted), _) if card::is_in_text(admitted.key().as_str()) => {
            invalid(admitted, post::card_in_key())
        }
        (Entry::Admitted(admitted), Ok(request)) => match Way::of(app, &admitted, &request) {
            Ok(way) => Judged::Valid(Box::new(Order { admitted, request, way })),
            Err(fault) => invalid(admitted, fault_problem(&fault)),
        },
        (Entry::Admitted(admitted), Err(fault)) => invalid(admitted, fault_problem(&fault)),
        (Entry::Ambiguous(_), Err(fault)) if hides_card => return Err(fault_problem(&fault)),
        (Entry::Ambiguous(ambiguous), _) => Judged::Ambiguous(Box::new(ambiguous)),
        (Entry::Keyless(_), _) => return Err(Problem::new(Code::KeyMissing)),
    })
}

impl Way {
    /// What cannot be sent is refused before anything is claimed: composing a request is a pure function of it.
    fn of(app: &App, admitted: &Admitted, request: &ChargeRequest) -> Result<Self, Fault> {
        let Some(outside) = &app.outside else { return TestToken::of(request).map(Self::Ledger) };
        let instruction = Instruction {
            subject: Subject {
                operation_id: admitted.id().operation_id(),
                kind: acquirer::Kind::Payment,
                tenant: admitted.tenant().clone(),
                amount: request.amount,
                currency: request.currency,
                payment: None,
                claimed_at: app.store.clock().now(),
            },
            order_id: request.order_id.clone(),
            payment_method: request.payment_method.as_ref().map(|method| method.as_str().into()),
            captures_at_once: request.capture == Capture::AtOnce,
            metadata: request.metadata.to_json(),
        };
        match outside.acquirer.compose(&instruction) {
            Ok(outgoing) => Ok(Self::Outside(Arc::clone(outside), outgoing)),
            Err(Unsendable { member, detail }) => Err(Fault { member: member.into(), detail }),
        }
    }
}

async fn pay(app: &Arc<App>, call: &Call, order: Order) -> Result<http::Response<Body>, Problem> {
    let worth = (order.request.amount, order.request.currency);
    let tenant = match app.tenants.known(order.admitted.tenant()) {
        Some(number) => number,
        None => Box::pin(register(app, order.admitted.tenant())).await?,
    };
    let response = match order.way {
        Way::Ledger(token) => {
            let order = (&order.admitted, &order.request, token);
            Charging::new(app, call, tenant, order).run().await?
        }
        Way::Outside(outside, outgoing) => {
            let errand = Errand {
                outside,
                kind: app.kind.clone(),
                admitted: order.admitted,
                task: Task::Payment { request: order.request, tenant, outgoing },
                request_id: call.request_id,
                route: Route::Charges,
            };
            Box::pin(errand.run()).await?
        }
    };
    Ok(count_replay(app, response, Some(worth)))
}

/// Counts an answer if it is a replay, and the money that was not charged again.
fn count_replay(
    app: &App,
    response: http::Response<Body>,
    worth: Option<(Amount, Currency)>,
) -> http::Response<Body> {
    if response.headers().contains_key(IDEMPOTENT_REPLAYED) {
        app.metrics.replayed(Route::Charges);
        if let (StatusCode::CREATED, Some((amount, currency))) = (response.status(), worth) {
            app.metrics.saved(amount, currency);
        }
    }
    response
}

/// An invalid request claims nothing, but a record that is there answers for itself (P7), and so does an operation whose
/// record is gone (P21).
pub(super) async fn refuse_invalid(
    app: &App,
    admitted: &Admitted,
    problem: Problem,
) -> Result<http::Response<Body>, Problem> {
    let id = admitted.id();
    if let Some(past) = app.books.past(id).await.map_err(|error| books_problem(&error))? {
        let live = app.books.has_live_record(id).await.map_err(|error| books_problem(&error))?;
        if !live {
            return post::answer_past(&app.engine, past, admitted, &app.kind, app.store.clock().now()).await;
        }
    }
    Ok(app.engine.refuse_invalid(admitted, &app.kind, problem).await)
}

pub(super) fn fault_problem(fault: &Fault) -> Problem {
    invalid(&fault.member, fault.detail.to_string())
}

/// Gives a tenant that charges for the first time its number.
async fn register(app: &App, tenant: &Tenant) -> Result<TenantNumber, Problem> {
    let registered = app.tenants.register(&app.store, tenant);
    match tokio::time::timeout(app.settings.timings.store_timeout, registered).await {
        Ok(number) => number.map_err(|error| post::store_problem(&error)),
        Err(_) => Err(Problem::new(Code::StoreUnavailable).with_detail("the store did not answer in time")),
    }
}

/// One charge as it is now.
#[utoipa::path(
    get,
    path = "/v1/charges/{id}",
    tag = "charges",
    params(("id" = String, Path, description = "`ch_` and 32 hex digits")),
    responses(
        (status = 200, description = "The charge", body = wire::ChargeDocument),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 404, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    id: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Response {
    let shown = async {
        call.caller.require(super::READERS)?;
        let nothing = || Problem::new(Code::NotFound).with_detail("no charge has this id");
        let id = id.ok().and_then(|Path(id)| ChargeId::parse(&id)).ok_or_else(nothing)?;
        let found = app.books.charge(&call.caller.tenant, id).await.map_err(|error| books_problem(&error))?;
        Ok(json(wire::charge_json(&found.ok_or_else(nothing)?)))
    };
    answer(shown.await)
}

/// Charges, newest first.
#[utoipa::path(
    get,
    path = "/v1/charges",
    tag = "charges",
    params(
        ("order_id" = Option<String>, Query, description = "Only this order's"),
        ("status" = Option<wire::ChargeStatus>, Query, description = "Only those that stand so"),
        super::openapi::PageParameters,
    ),
    responses(
        (status = 200, description = "One page", body = wire::ChargeList),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    uri: Uri,
) -> Response {
    let listed = async {
        call.caller.require(super::READERS)?;
        let query = Query::parse(uri.query(), &["order_id", "status", "limit", "after"])?;
        let statuses = "created, pending, authorized, captured, declined, voided";
        let filter = ChargeFilter {
            order_id: query.parsed("order_id", "1 to 128 printable characters", |text| {
                OrderId::parse(text).ok().map(|order_id| order_id.as_str().into())
            })?,
            status: query.parsed("status", statuses, Status::parse)?,
        };
        let after = query.parsed("after", "a charge's id", ChargeId::parse)?;
        let page = app.books.charges(&call.caller.tenant, filter, after, query.limit()?).await;
        let page = page.map_err(|error| books_problem(&error))?;
        let next = page.next.map(|id| id.to_string());
        Ok(json(wire::list_json(page.items.iter().map(wire::charge_json), next)))
    };
    answer(listed.await)
}
