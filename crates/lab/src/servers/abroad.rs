//! The lesson server that charges at a bank: the real engine with a recovery hook, and again a ledger without unique ids.
//!
//! 1. The engine is the only net. The bank executes what it is sent, and a ledger line is appended whenever an answer, a
//!    question or an event says that a charge was made.
//! 2. Two replicas of it run over one store, as two processes would: each has questions of its own, and only the store is
//!    between them.
//! 3. Its clock is advanced by the test, and so is the bank's.
//! 4. An event is known by its id and by nothing else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use unavez_core::{
    answer::{Answer as StoredAnswer, Conclusion, Content},
    identity::{OperationId, Tenant},
    record::{Change, Fence, Finish, State as RecordState},
    recovery::Promise,
    timing::Timings,
};
use unavez_payments::{
    acquirer::{Acquirer, Answer, Instruction, Kind, News, Standing, Subject},
    charge::OrderId,
    money::{Amount, Currency},
};
use unavez_store::{
    Store, StoreError, Swap,
    clock::ManualClock,
    sqlite::{SqliteStore, SwapInError, TransactionError, WriteTx, swap_in},
};
use unavez_tower::{
    IdempotencyLayer,
    once::Once,
    recover::{Question, Recover, Recovered, Settlement},
};

use super::{
    Bank, Running,
    floor::{Floor, Meeting},
    ledger,
    lesson::{self, Refusal, STORE_TIMEOUT, books, tenant},
    throw_away_folder,
};
use crate::{Error, Mutation, break_};

/// A running lesson server that charges at a bank, perhaps with a piece missing.
pub(crate) struct Abroad {
    bank: Arc<Bank>,
    clock: ManualClock,
    meeting: Arc<Meeting>,
    records: Arc<dyn Store>,
    desk: Desk,
    replicas: [Running; 2],
    // Last: the store must not outlive its files.
    _folder: TempDir,
}

impl Abroad {
    /// Starts both replicas, and the bank.
    pub(crate) async fn start(mutation: Option<Mutation>) -> Result<Self, Error> {
        let (clock, folder) = (ManualClock::new(), throw_away_folder()?);
        let bank = Bank::open(&clock).await?;
        let store = lesson::open(&folder, Some(&clock)).await?;
        let meeting = Arc::<Meeting>::default();
        let real: Arc<dyn Store> = Arc::new(store.clone());
        let records = break_::without(mutation, break_::with_meeting(Arc::clone(&meeting), real));
        let acquirer = break_::without_at_the_acquirer(mutation, Arc::clone(&bank) as _);
        let desk = Desk { store, acquirer, orders: Arc::default() };
        let replicas = [serve(&desk, &records).await?, serve(&desk, &records).await?];
        Ok(Self { bank, clock, meeting, records, desk, replicas, _folder: folder })
    }

    pub(crate) fn bank(&self) -> &Bank {
        &self.bank
    }

    /// Where writes to the store meet.
    pub(crate) fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Moves the clock of everybody.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// `host:port` of each replica.
    pub(crate) fn authorities(&self) -> [&str; 2] {
        [self.replicas[0].authority(), self.replicas[1].authority()]
    }

    /// Ends both replicas and starts others: nothing is left of what they knew but the store.
    pub(crate) async fn restart(&mut self) -> Result<(), Error> {
        for replica in &mut self.replicas {
            replica.stop().await;
            *replica = serve(&self.desk, &self.records).await?;
        }
        Ok(())
    }

    pub(crate) async fn stop(mut self) {
        for replica in &mut self.replicas {
            replica.stop().await;
        }
        self.desk.store.close().await;
        self.bank.close().await;
    }
}

/// What the handlers of both replicas share.
#[derive(Clone)]
struct Desk {
    store: SqliteStore,
    acquirer: Arc<dyn Acquirer>,
    /// What was ordered, by the operation that pays it. Written before anything is sent.
    orders: Arc<Mutex<HashMap<OperationId, Ordered>>>,
}

/// What somebody orders.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    order_id: String,
    amount: u32,
    currency: String,
    payment_method: Option<String>,
}

#[derive(Clone)]
struct Ordered {
    tenant: Tenant,
    line: ledger::Order,
}

async fn serve(desk: &Desk, records: &Arc<dyn Store>) -> Result<Running, Error> {
    let layer = IdempotencyLayer::new(Arc::clone(records), |head: &Parts| Some(tenant(&head.headers)))
        .with_timings(Timings { store_timeout: STORE_TIMEOUT, ..Timings::default() })
        .map_err(|contradiction| Error::broken(format!("the lesson server's timings: {contradiction}")))?;
    let once = layer.recoverable(desk.clone());
    let floor = Arc::<Floor>::default();
    let app = Router::new()
        .route("/v1/charges", post(charge).layer(once))
        .route("/v1/webhooks/acquirer", post(receive))
        .with_state(desk.clone())
        .merge(books().with_state(lesson::Desk { store: desk.store.clone(), floor }));
    Running::serve(app).await
}

/// Sends the order to the bank, and answers as the bank did.
async fn charge(State(desk): State<Desk>, once: Once, Json(order): Json<Order>) -> Result<Response, Refusal> {
    let subject = desk.accept(&once, &order)?;
    let outgoing = desk
        .acquirer
        .compose(&instruction(subject.clone(), &order)?)
        .map_err(|unsendable| Refusal(unsendable.to_string()))?;
    once.check_deadline().map_err(|over| Refusal(over.to_string()))?;
    Ok(match desk.acquirer.send(&subject, &outgoing).await {
        Answer::Done(_) => {
            let Ordered { tenant, line } = desk.ordered(subject.operation_id)?;
            let charge = ledger::append(&desk.store, tenant, line).await?;
            (StatusCode::CREATED, Json(charge)).into_response()
        }
        Answer::Declined(_) => (StatusCode::PAYMENT_REQUIRED, declined()).into_response(),
        Answer::Pending(_) => {
            once.pending();
            (StatusCode::ACCEPTED, Json(json!({ "status": "pending" }))).into_response()
        }
        Answer::NotFound | Answer::Sighted(_) | Answer::CannotSay(_) | Answer::NotSent(_) => {
            once.unknown();
            (StatusCode::GATEWAY_TIMEOUT, Json(json!({ "code": "outcome-unknown" }))).into_response()
        }
    })
}

fn declined() -> Json<serde_json::Value> {
    Json(json!({ "code": "charge-declined" }))
}

fn instruction(subject: Subject, order: &Order) -> Result<Instruction, Refusal> {
    Ok(Instruction {
        subject,
        order_id: OrderId::parse(&order.order_id).map_err(|error| Refusal(format!("order_id {error}")))?,
        payment_method: order.payment_method.as_deref().map(Into::into),
        captures_at_once: true,
        metadata: None,
    })
}

impl Desk {
    /// Writes down what is ordered, before anything is sent for it.
    fn accept(&self, once: &Once, order: &Order) -> Result<Subject, Refusal> {
        let Order { order_id, amount, currency, .. } = order.clone();
        let ordered =
            Ordered { tenant: once.tenant().clone(), line: ledger::Order { order_id, amount, currency } };
        let subject = self.subject(once.operation_id(), &ordered)?;
        self.orders.lock().expect("no holder of this lock panics").insert(once.operation_id(), ordered);
        Ok(subject)
    }

    fn ordered(&self, operation_id: OperationId) -> Result<Ordered, Refusal> {
        let orders = self.orders.lock().expect("no holder of this lock panics");
        let unknown = || Refusal(format!("{operation_id} was never ordered"));
        orders.get(&operation_id).cloned().ok_or_else(unknown)
    }

    fn subject(&self, operation_id: OperationId, ordered: &Ordered) -> Result<Subject, Refusal> {
        let line = &ordered.line;
        Ok(Subject {
            operation_id,
            kind: Kind::Payment,
            tenant: ordered.tenant.clone(),
            amount: Amount::of_minor_units(line.amount.into())
                .ok_or_else(|| Refusal("amount is 0".into()))?,
            currency: Currency::parse(&line.currency).ok_or_else(|| Refusal("no such currency".into()))?,
            payment: None,
            claimed_at: self.store.clock().now(),
        })
    }

    /// What a question was answered, and how that is written down: the line and the finish in one commit.
    fn found(&self, operation_id: OperationId, ordered: Ordered, standing: Standing) -> Recovered {
        let desk = self.clone();
        let is_positive = standing == Standing::Done;
        let unstored = if is_positive { StatusCode::CREATED } else { StatusCode::PAYMENT_REQUIRED };
        let unstored = unstored.into_response().map(|_| unavez_tower::body::Body::default());
        Recovered::Settles(Settlement::new(is_positive, unstored, move |fence| {
            Box::pin(async move {
                let settled = desk.store.transaction(move |tx| {
                    match settle_in(tx, operation_id, &ordered, standing, fence)? {
                        swapped @ Swap::Swapped { .. } => Ok(swapped),
                        // Its line goes with it.
                        conflict @ Swap::Conflict { .. } => Err(Undone::Overtaken(conflict)),
                    }
                });
                match settled.await {
                    Ok(swap) | Err(TransactionError::Refused(Undone::Overtaken(swap))) => Ok(swap),
                    Err(
                        TransactionError::Refused(Undone::Failed(error)) | TransactionError::Store(error),
                    ) => Err(error),
                }
            })
        }))
    }

    /// The event's id and its effect, in one commit.
    async fn take_effect(&self, event: Box<str>, id: OperationId, standing: Standing) -> Result<(), Refusal> {
        let ordered = self.ordered(id)?;
        let taken = self.store.transaction(move |tx| {
            if !is_news(tx, &event)? {
                return Ok(());
            }
            let fence = match tx.record(id.record_id())?.as_deref() {
                Some(record) if !matches!(record.state, RecordState::Finished { .. }) => record.fence,
                // The record has its end already; the line is booked all the same: only ids tell repeats.
                _ => {
                    ledger::append_in(tx, &ordered.tenant, &ordered.line)?;
                    return Ok(());
                }
            };
            settle_in(tx, id, &ordered, standing, fence).map(drop)
        });
        taken.await.map_err(|error| match error {
            TransactionError::Refused(Undone::Failed(error)) | TransactionError::Store(error) => error.into(),
            TransactionError::Refused(Undone::Overtaken(_)) => Refusal("overtaken".into()),
        })
    }
}

/// Why a transaction was rolled back.
enum Undone {
    Overtaken(Swap),
    Failed(StoreError),
}

impl From<rusqlite::Error> for Undone {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(StoreError::RolledBack(error.to_string().into()))
    }
}

impl From<SwapInError> for Undone {
    fn from(error: SwapInError) -> Self {
        Self::Failed(StoreError::RolledBack(error.to_string().into()))
    }
}

fn is_news(tx: &WriteTx<'_>, event: &str) -> rusqlite::Result<bool> {
    let mut note = tx.prepare_cached("insert into lesson_events (id) values (?1) on conflict do nothing")?;
    Ok(note.execute([event])? == 1)
}

/// Appends the line of a charge that was made, and finishes its record.
fn settle_in(
    tx: &WriteTx<'_>,
    operation_id: OperationId,
    ordered: &Ordered,
    standing: Standing,
    fence: Fence,
) -> Result<Swap, Undone> {
    let (status, conclusion, body) = if standing == Standing::Done {
        let charge = ledger::append_in(tx, &ordered.tenant, &ordered.line)?;
        (201, Conclusion::Approved, serde_json::to_vec(&charge))
    } else {
        (402, Conclusion::Declined, serde_json::to_vec(&declined().0))
    };
    let body = body.expect("documents have text keys and no failing members").into();
    let finish = Finish {
        conclusion,
        answer: StoredAnswer { status, content: Content::Kept { headers: Vec::new(), body } },
        response_ttl: Timings::default().response_ttl,
        resource: None,
    };
    Ok(swap_in(tx, operation_id.record_id(), Some(fence), Change::Finish(finish))?)
}

impl Recover for Desk {
    async fn recover(&self, question: Question) -> Recovered {
        let id = question.operation_id;
        let Ok(ordered) = self.ordered(id) else { return Recovered::CannotSay };
        let Ok(subject) = self.subject(id, &ordered) else { return Recovered::CannotSay };
        match self.acquirer.look_up(&subject).await {
            Answer::Done(_) => self.found(id, ordered, Standing::Done),
            Answer::Declined(_) => self.found(id, ordered, Standing::Declined),
            Answer::Pending(_) | Answer::Sighted(_) => Recovered::Pending,
            Answer::NotFound => Recovered::NotFound,
            Answer::CannotSay(_) | Answer::NotSent(_) => Recovered::CannotSay,
        }
    }

    fn promise(&self) -> Promise {
        self.acquirer.promise(Kind::Payment)
    }
}

async fn receive(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> Result<StatusCode, Refusal> {
    let now = desk.store.clock().now();
    let Ok(event) = desk.acquirer.read_event(&headers, &body, now).await else {
        return Ok(StatusCode::UNAUTHORIZED);
    };
    if let News::Operation(standing @ (Standing::Done | Standing::Declined), report) = event.news {
        desk.take_effect(event.id, report.operation_id, standing).await?;
    }
    Ok(StatusCode::OK)
}
