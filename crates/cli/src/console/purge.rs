//! `POST /admin/keys/purge`: deletes expired records now rather than at the night shift's pace.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use unavez_payments::Payments;
use unavez_store::sqlite::SqliteStore;
use unavez_store::{Store as _, StoreError};

/// Records deleted in one transaction.
const BATCH: usize = 1_000;

/// What a purge is asked for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PurgeRequest {
    /// An operator has looked at the wall clock and says that it is right: a step seen since is taken over (P9).
    pub(crate) confirm_clock: bool,
}

/// What a purge did; also what `unavez keys purge` prints.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PurgeReport {
    /// Records deleted.
    pub(crate) purged: u64,
    /// How long the oldest expired record that is still there has been expired.
    pub(crate) lag_seconds: u64,
}

/// JSON only: a page of somebody else's can send a form here, but no JSON without asking first (CORS).
pub(super) async fn purge(
    State(payments): State<Payments>,
    request: Result<Json<PurgeRequest>, JsonRejection>,
) -> Response {
    let Json(request) = match request {
        Ok(request) => request,
        Err(rejection) => return (rejection.status(), format!("{rejection}\n")).into_response(),
    };
    match purge_all(payments.store(), request).await {
        Ok(report) => Json(report).into_response(),
        Err(error @ StoreError::ClockStepped { .. }) => {
            (StatusCode::CONFLICT, format!("{error}\n")).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// Purges batch by batch, so that charges get their turn in between.
pub(crate) async fn purge_all(store: &SqliteStore, request: PurgeRequest) -> Result<PurgeReport, StoreError> {
    if request.confirm_clock {
        store.confirm_clock().await?;
    }
    let mut purged = 0;
    loop {
        let batch = store.purge(BATCH).await?;
        purged += batch.deleted;
        if batch.deleted == 0 {
            return Ok(PurgeReport { purged, lag_seconds: batch.lag.as_secs() });
        }
    }
}
