//! The HTTP API: routes, and what all their answers have in common.
//!
//! Every refusal is `application/problem+json`, also for paths and methods that do not exist. Handlers return problems
//! as errors; [`answer`] is the one place where they become responses.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use tower::ServiceBuilder;
use unavez_core::problem::Code;
use unavez_tower::body::Body;
use unavez_tower::problem::Problem;

use crate::auth::Role;
use crate::books::BooksError;
use crate::metrics::Route;
use crate::service::App;
use edge::{Access, EdgeLayer};

mod body;
mod booked;
mod charges;
pub(crate) mod edge;
mod keys;
mod ledger;
pub(crate) mod openapi;
mod ops;
pub(crate) mod post;
mod query;
mod steps;
pub(crate) mod told;
mod webhooks;
pub(crate) mod wire;

/// Roles that may look at charges and the ledger.
const READERS: &[Role] = &[Role::Read, Role::Operator];

/// The public API.
pub(crate) fn public(app: &Arc<App>) -> Router {
    let routes = Routes { app };
    let unknown = EdgeLayer { app: Arc::clone(app), route: Route::Unknown, access: Access::Callers };
    Router::new()
        .merge(routes.of(Route::Charges, Access::Callers, post(charges::create).get(charges::list)))
        .merge(routes.of(Route::Charge, Access::Callers, get(charges::show)))
        .merge(routes.of(Route::Capture, Access::Callers, post(steps::capture)))
        .merge(routes.of(Route::Void, Access::Callers, post(steps::void)))
        .merge(routes.of(Route::Refunds, Access::Callers, post(steps::refund)))
        .merge(routes.of(Route::Refund, Access::Callers, get(steps::show_refund)))
        .merge(routes.of(Route::Webhook, Access::Signed, post(webhooks::receive)))
        .merge(routes.of(Route::Entries, Access::Callers, get(ledger::entries)))
        .merge(routes.of(Route::Summary, Access::Callers, get(ledger::summary)))
        .merge(routes.at("/v1/idempotency-keys", Route::KeyStatus, Access::Callers, get(keys::find)))
        .merge(routes.of(Route::KeyStatus, Access::Callers, get(keys::show)))
        .merge(routes.of(Route::KeyCancel, Access::Callers, post(keys::cancel)))
        .merge(routes.of(Route::Health, Access::Everybody, get(ops::health)))
        .merge(routes.of(Route::Ready, Access::Everybody, get(ops::ready)))
        .merge(routes.of(Route::OpenApi, Access::Everybody, get(ops::openapi)))
        .fallback_service(ServiceBuilder::new().layer(unknown).service(tower::service_fn(not_found)))
}

/// Metrics and `console`, for operators.
pub(crate) fn admin(app: &Arc<App>, console: Router) -> Router {
    let routes = Routes { app };
    let edge = EdgeLayer { app: Arc::clone(app), route: Route::Console, access: Access::Operators };
    routes.of(Route::Metrics, Access::Operators, get(ops::metrics)).merge(console.layer(edge))
}

/// What is not there, where only the admin routes are served.
pub(crate) fn with_unknown(app: &Arc<App>, router: Router) -> Router {
    let unknown = EdgeLayer { app: Arc::clone(app), route: Route::Unknown, access: Access::Callers };
    router.fallback_service(ServiceBuilder::new().layer(unknown).service(tower::service_fn(not_found)))
}

/// Puts handlers on paths, each inside an edge of its own.
struct Routes<'a> {
    app: &'a Arc<App>,
}

impl Routes<'_> {
    fn of(&self, route: Route, access: Access, methods: MethodRouter<Arc<App>>) -> Router {
        self.at(route.path(), route, access, methods)
    }

    fn at(&self, path: &str, route: Route, access: Access, methods: MethodRouter<Arc<App>>) -> Router {
        let edge = EdgeLayer { app: Arc::clone(self.app), route, access };
        let methods = methods.fallback(method_not_allowed).layer(edge);
        Router::new().route(path, methods).with_state(Arc::clone(self.app))
    }
}

/// What a handler found, as a response.
pub(super) fn answer(found: Result<http::Response<Body>, Problem>) -> Response {
    found.unwrap_or_else(Problem::into_response).map(axum::body::Body::new)
}

/// 200 with a JSON document.
fn json(document: impl Into<Bytes>) -> http::Response<Body> {
    let mut response = http::Response::new(Body::whole(document.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn books_problem(error: &BooksError) -> Problem {
    match error {
        BooksError::UnknownPosition => query::invalid("after", "after names nothing in this list"),
        BooksError::Store(error) => post::store_problem(error),
    }
}

async fn not_found(_: axum::extract::Request) -> Result<Response, std::convert::Infallible> {
    Ok(answer(Err(Problem::new(Code::NotFound).with_detail("no route has this path"))))
}

/// The router adds `Allow`.
async fn method_not_allowed(method: Method) -> Response {
    let known = method.as_str().len() <= 16;
    let detail =
        if known { format!("{method} is not allowed here") } else { "the method is not allowed here".into() };
    answer(Err(Problem::new(Code::MethodNotAllowed).with_detail(detail)))
}
