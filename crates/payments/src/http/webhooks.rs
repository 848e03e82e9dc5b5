//! `/v1/webhooks/acquirer`: what the acquirer tells by itself (P24 to P28).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use unavez_core::problem::Code;
use unavez_tower::body::Body;
use unavez_tower::problem::Problem;

use super::{answer, body, json};
use crate::acquirer::EventRefusal;
use crate::outside::webhook::Received;
use crate::service::App;
use crate::settings::Limits;

/// The largest event that is read.
const BODY_BYTES_MAX: usize = 2 << 20;

/// Takes an event of the acquirer's: signed over its raw bytes, taken once, and settled in the same commit.
#[utoipa::path(
    post,
    path = "/v1/webhooks/acquirer",
    tag = "operations",
    request_body(content = String, description = "The event, as the acquirer signed it"),
    responses(
        (status = 200, description = "Taken, now or before"),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 413, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn receive(State(app): State<Arc<App>>, request: Request) -> Response {
    answer(Box::pin(received(&app, request)).await)
}

async fn received(app: &App, request: Request) -> Result<http::Response<Body>, Problem> {
    let Some(outside) = &app.outside else {
        return Err(Problem::new(Code::Unauthorized).with_detail("no acquirer outside is configured"));
    };
    let (head, incoming) = request.into_parts();
    let limits = Limits { body_bytes_max: BODY_BYTES_MAX, ..app.settings.limits };
    let raw = body::read(&head.headers, incoming, &limits).await?;
    let received = match outside.acquirer.read_event(&head.headers, &raw, app.store.clock().now()).await {
        Ok(event) => outside.receive(event).await,
        Err(EventRefusal::NotSigned(reason)) => {
            tracing::warn!(reason = &*reason.0, "webhook refused");
            return Err(
                Problem::new(Code::Unauthorized).with_detail("the signature or its time is not right")
            );
        }
        Err(EventRefusal::Malformed(reason)) => outside.keep_malformed(None, reason.0.into()).await,
        Err(EventRefusal::Unavailable(reason)) => {
            tracing::warn!(reason = &*reason.0, "webhook cannot be read now");
            Received::Again
        }
    };
    match received {
        Received::Acknowledged => Ok(json("{\"received\":true}")),
        Received::Again => {
            Err(Problem::new(Code::StoreUnavailable).with_detail("the event was not taken, send it again"))
        }
    }
}
