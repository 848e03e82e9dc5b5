//! The server without memory: the lesson server's ledger and routes, without the engine. It is sent keys and does not
//! read them, so every POST charges.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use tempfile::TempDir;
use unavez_store::sqlite::SqliteStore;

use super::{
    Running,
    floor::Floor,
    ledger::{self, Charge, Order},
    lesson::{self, Desk, Refusal},
    throw_away_folder,
};
use crate::Error;

/// A running server without memory.
pub(crate) struct Raw {
    store: SqliteStore,
    running: Running,
    /// Thrown away when the server is gone.
    _folder: TempDir,
}

impl Raw {
    pub(crate) async fn start() -> Result<Self, Error> {
        let folder = throw_away_folder()?;
        let store = lesson::open(&folder, None).await?;
        let desk = Desk { store: store.clone(), floor: Arc::<Floor>::default() };
        let app = Router::new().route("/v1/charges", post(charge)).merge(lesson::books()).with_state(desk);
        let running = Running::serve(app).await?;
        Ok(Self { store, running, _folder: folder })
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    pub(crate) async fn stop(mut self) {
        self.running.stop().await;
        self.store.close().await;
    }
}

async fn charge(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<(StatusCode, Json<Charge>), Refusal> {
    let charge = ledger::append(&desk.store, lesson::tenant(&headers), order).await?;
    Ok((StatusCode::CREATED, Json(charge)))
}
