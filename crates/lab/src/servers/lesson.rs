//! The lesson server: an append-only ledger without unique ids, behind the real engine and over any store.
//!
//! 1. The engine is the only net. What it lets through twice stands in the ledger twice.
//! 2. Claim, ledger line and finish are commits of their own, so there is a time in which an operation is under way.
//! 3. A test can hold the work at that time, or have an owner break down ([`Floor`]), and can make writes to the store
//!    meet ([`Meeting`]).
//! 4. One route commits line and finish together, as the product does; its clock can be advanced, so that an owner that
//!    is merely slow counts as lost.
//! 5. On the other routes a lost attempt is run again, since nothing outside could be asked. That is chosen by name, and
//!    is right only because an owner here breaks down before it has done anything.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use unavez_core::{
    identity::{Realm, RecordId, Tenant},
    key::Key,
    outcome::OnLost,
    record::State as RecordState,
    timing::Timings,
};
use unavez_store::{
    Store, StoreError,
    clock::{Clock, ManualClock},
    sqlite::{Location, Options, SqliteStore, TransactionError},
};
use unavez_tower::{
    IdempotencyLayer,
    once::{CommitError, Once},
};

use super::{
    Running,
    floor::{Floor, Meeting},
    ledger::{self, Order},
    throw_away_folder,
};
use crate::{Error, Mutation, break_};

/// The route whose work `repeat-in-progress` holds. It is the ordinary route under another name.
pub(crate) const SLOW_PATH: &str = "/v1/slow-charges";

/// The route whose ledger line and finish commit together (P14).
pub(crate) const ONE_COMMIT_PATH: &str = "/v1/transactional-charges";

/// How long the engine waits for the store: longer than writes wait for each other at a [`Meeting`].
pub(super) const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// A running lesson server, perhaps with a piece missing.
pub(crate) struct Lesson {
    mutation: Option<Mutation>,
    folder: TempDir,
    floor: Arc<Floor>,
    meeting: Arc<Meeting>,
    clock: Option<ManualClock>,
    store: SqliteStore,
    running: Running,
}

impl Lesson {
    /// Starts it on the machine's clock.
    pub(crate) async fn start(mutation: Option<Mutation>) -> Result<Self, Error> {
        Self::start_by(None, mutation).await
    }

    /// Starts it on a clock that stands still until it is told otherwise.
    pub(crate) async fn start_with_clock(mutation: Option<Mutation>) -> Result<Self, Error> {
        Self::start_by(Some(ManualClock::new()), mutation).await
    }

    async fn start_by(clock: Option<ManualClock>, mutation: Option<Mutation>) -> Result<Self, Error> {
        let folder = throw_away_folder()?;
        let (floor, meeting) = (Arc::<Floor>::default(), Arc::<Meeting>::default());
        let store = open(&folder, clock.as_ref()).await?;
        let running = serve(mutation, &store, &floor, &meeting).await?;
        Ok(Self { mutation, folder, floor, meeting, clock, store, running })
    }

    /// Lets so much time pass that every attempt under way counts as lost (P9).
    pub(crate) fn pass_the_operation_timeout(&self) -> Result<(), Error> {
        let clock =
            self.clock.as_ref().ok_or_else(|| Error::broken("the machine's clock cannot be advanced"))?;
        clock.advance(Timings::default().operation_timeout + Duration::from_secs(1));
        Ok(())
    }

    /// Stops the server and starts it again on the same file, with the same piece missing.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        self.running.stop().await;
        self.store.close().await;
        self.store = open(&self.folder, self.clock.as_ref()).await?;
        self.running = serve(self.mutation, &self.store, &self.floor, &self.meeting).await?;
        Ok(())
    }

    pub(crate) fn running(&self) -> &Running {
        &self.running
    }

    /// Where the handlers work.
    pub(crate) fn floor(&self) -> &Floor {
        &self.floor
    }

    /// Where writes to the store meet.
    pub(crate) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    pub(crate) async fn stop(mut self) {
        self.floor.open();
        self.running.stop().await;
        self.store.close().await;
    }
}

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) store: SqliteStore,
    pub(super) floor: Arc<Floor>,
}

/// Opens the records and the ledger, which share a file.
pub(super) async fn open(folder: &TempDir, clock: Option<&ManualClock>) -> Result<SqliteStore, Error> {
    let location = Location::File(folder.path().join("lesson.db"));
    let clock = clock.map(|clock| Arc::new(clock.clone()) as Arc<dyn Clock>);
    let options = Options { components: vec![ledger::COMPONENT], clock, ..Options::default() };
    tokio::task::spawn_blocking(move || SqliteStore::open(location, options))
        .await
        .map_err(|error| Error::broken(format!("opening the lesson server's file: {error}")))?
        .map_err(|error| Error::broken(format!("the lesson server's file: {error}")))
}

async fn serve(
    mutation: Option<Mutation>,
    store: &SqliteStore,
    floor: &Arc<Floor>,
    meeting: &Arc<Meeting>,
) -> Result<Running, Error> {
    let real: Arc<dyn Store> = Arc::new(store.clone());
    let records = break_::without(mutation, break_::with_meeting(Arc::clone(meeting), real));
    let layer = IdempotencyLayer::new(records, |head: &Parts| Some(tenant(&head.headers)))
        .with_timings(Timings { store_timeout: STORE_TIMEOUT, ..Timings::default() })
        .map_err(|contradiction| Error::broken(format!("the lesson server's timings: {contradiction}")))?;
    let once = layer.opaque(OnLost::Rerun);
    let desk = Desk { store: store.clone(), floor: Arc::clone(floor) };
    let app = Router::new()
        .route("/v1/charges", post(charge).layer(once.clone()))
        .route(SLOW_PATH, post(charge).layer(once))
        .route(ONE_COMMIT_PATH, post(charge_in_one_commit).layer(layer.transactional()))
        .route("/v1/idempotency-keys/{key}", get(key_status))
        .merge(books())
        .with_state(desk);
    Running::serve(app).await
}

/// What the ledger can be asked.
pub(super) fn books() -> Router<Desk> {
    Router::new()
        .route("/v1/charges", get(charges))
        .route("/v1/ledger/summary", get(summary))
        .route("/v1/ledger/entries", get(entries))
}

/// The tenant is whatever the caller's API key says: a lesson is no place for secrets.
pub(super) fn tenant(headers: &HeaderMap) -> Tenant {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    bearer.and_then(|name| Tenant::parse(name).ok()).unwrap_or_else(Tenant::single)
}

/// The slow work of two commits: the claim before it, the ledger line here, the finish after it.
async fn charge(State(desk): State<Desk>, once: Once, Json(order): Json<Order>) -> Result<Response, Refusal> {
    if desk.floor.enter().await.is_err() {
        once.unknown();
        return Err(Refusal("the owner broke down before it had done anything".into()));
    }
    once.check_deadline().map_err(|over| Refusal(over.to_string()))?;
    let charge = ledger::append(&desk.store, once.tenant().clone(), order).await?;
    Ok((StatusCode::CREATED, Json(charge)).into_response())
}

/// The ledger line and the finish in one transaction, which the fence lets only the owner commit.
async fn charge_in_one_commit(
    State(desk): State<Desk>,
    once: Once,
    Json(order): Json<Order>,
) -> Result<Response, Refusal> {
    if desk.floor.enter().await.is_err() {
        return Err(Refusal("the owner broke down before it had done anything".into()));
    }
    let tenant = once.tenant().clone();
    let committed = once
        .transaction(&desk.store, move |tx| {
            let charge = ledger::append_in(tx, &tenant, &order)?;
            Ok((StatusCode::CREATED, Json(charge)).into_response())
        })
        .await;
    committed.map(IntoResponse::into_response).map_err(|error| match error {
        TransactionError::Refused(refusal) => refusal,
        TransactionError::Store(error) => error.into(),
    })
}

#[derive(Deserialize)]
struct OfOrder {
    order_id: String,
}

async fn charges(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Query(of): Query<OfOrder>,
) -> Result<Json<Value>, Refusal> {
    let charges = ledger::charges(&desk.store, tenant(&headers), of.order_id).await?;
    Ok(Json(json!({ "data": charges, "next": null })))
}

#[derive(Deserialize)]
struct OfCharge {
    charge_id: String,
}

async fn entries(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Query(of): Query<OfCharge>,
) -> Result<Json<Value>, Refusal> {
    let entries = ledger::entries(&desk.store, tenant(&headers), of.charge_id).await?;
    Ok(Json(json!({ "data": entries, "next": null })))
}

async fn summary(State(desk): State<Desk>, headers: HeaderMap) -> Result<Json<Value>, Refusal> {
    let sums = ledger::sums(&desk.store, tenant(&headers)).await?;
    Ok(Json(json!({ "currencies": sums })))
}

/// What the store really holds about a key, whatever piece is missing above it.
async fn key_status(
    State(desk): State<Desk>,
    headers: HeaderMap,
    Path(key): Path<String>,
) -> Result<Response, Refusal> {
    let Ok(key) = Key::parse_path(&key) else { return Ok(StatusCode::BAD_REQUEST.into_response()) };
    let id = RecordId::of(realm(&desk.store), &tenant(&headers), &key);
    let Some(record) = desk.store.load(id).await?.record else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let status = match &record.state {
        RecordState::Finished { answer, .. } => Some(answer.status),
        _ => None,
    };
    Ok(Json(json!({ "key": key.as_str(), "state": record.state.name(), "status": status })).into_response())
}

fn realm(store: &SqliteStore) -> &Realm {
    SqliteStore::realm(store)
}

/// Something of the lesson server's own went wrong: 500, with the reason for whoever reads the lab's output.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) String);

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<CommitError> for Refusal {
    fn from(error: CommitError) -> Self {
        Self(error.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "code": "internal", "detail": self.0 })))
            .into_response()
    }
}
