//! `/v1/ledger`: what moved, entry by entry and in sums.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::Uri;

use super::edge::Call;
use super::query::Query;
use super::{READERS, answer, books_problem, json, wire};
use crate::books::EntryId;
use crate::charge::ChargeId;
use crate::service::App;

/// Lines of the ledger, newest first.
#[utoipa::path(
    get,
    path = "/v1/ledger/entries",
    tag = "ledger",
    params(
        ("charge_id" = Option<String>, Query, description = "Only this charge's"),
        super::openapi::PageParameters,
    ),
    responses(
        (status = 200, description = "One page", body = wire::EntryList),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn entries(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    uri: Uri,
) -> Response {
    let listed = async {
        call.caller.require(READERS)?;
        let query = Query::parse(uri.query(), &["charge_id", "limit", "after"])?;
        let charge = query.parsed("charge_id", "a charge's id", ChargeId::parse)?;
        let after = query.parsed("after", "an entry's id", EntryId::parse)?;
        let page = app.books.entries(&call.caller.tenant, charge, after, query.limit()?).await;
        let page = page.map_err(|error| books_problem(&error))?;
        let items = page.items.iter().map(|entry| wire::to_json(&wire::EntryDocument::from(entry)));
        Ok(json(wire::list_json(items, page.next.map(|id| id.to_string()))))
    };
    answer(listed.await)
}

/// The sums of every currency of the caller's ledger.
#[utoipa::path(
    get,
    path = "/v1/ledger/summary",
    tag = "ledger",
    responses(
        (status = 200, description = "The sums", body = wire::Summary),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn summary(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    uri: Uri,
) -> Response {
    let summed = async {
        call.caller.require(READERS)?;
        Query::parse(uri.query(), &[])?;
        let summary = app.books.summary(&call.caller.tenant).await.map_err(|error| books_problem(&error))?;
        Ok(json(wire::to_json(&wire::Summary::of(&summary))))
    };
    answer(summed.await)
}
