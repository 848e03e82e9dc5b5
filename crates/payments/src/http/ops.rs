//! What machines ask: is it alive, is it ready, what does it count, what does it speak.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use unavez_core::problem::Code;
use unavez_tower::body::Body;
use unavez_tower::problem::Problem;

use super::{answer, json, wire};
use crate::readiness;
use crate::service::App;

/// Answers as long as the process does.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operations",
    responses((status = 200, description = "The process answers", body = wire::Health<'_>))
)]
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    let health =
        wire::Health { status: "ok", acquirer: app.acquirer_word(), version: env!("CARGO_PKG_VERSION") };
    answer(Ok(json(wire::to_json(&health))))
}

/// Whether charges can be made now: the store commits, and the start-up scan is done.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "Ready"),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    let verdict = async {
        if !app.scanned.load(Ordering::Acquire) {
            return Err("the start-up scan is not done".to_owned());
        }
        let timeout = app.settings.timings.store_timeout;
        readiness::reads(&app.store, timeout).await?;
        let probe = async {
            readiness::commits(&app.store, timeout).await?;
            readiness::has_room(&app.store).await
        };
        app.readiness.probed(probe).await
    };
    let not_ready = |why: String| Problem::new(Code::StoreUnavailable).with_detail(why);
    answer(verdict.await.map(|()| json("{\"status\":\"ready\"}".to_owned())).map_err(not_ready))
}

/// Prometheus' text form.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "Metrics", content_type = "application/openmetrics-text", body = String),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Response {
    app.measure_undecided().await;
    let encoded = app.metrics.encode(&app.store.stats()).map(|text| {
        let mut response = http::Response::new(Body::from(text));
        let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    });
    answer(encoded.map_err(|_| Problem::new(Code::Internal)))
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "operations",
    responses((status = 200, description = "The OpenAPI document"))
)]
pub(super) async fn openapi(State(app): State<Arc<App>>) -> Response {
    answer(Ok(json(Bytes::clone(&app.openapi))))
}
