//! Webhooks of the sandbox: written with what they tell, and sent until they are taken.
//!
//! 1. An event is committed together with the execution it is about, with the very bytes of all its deliveries.
//! 2. A delivery counts when it was answered 2xx. Otherwise it is sent again, after 1 s, 2 s, 4 s ... up to an hour,
//!    each wait shortened by chance to no less than half; after 24 failures, half a day, it is given up.
//! 3. A delivery whose success was not noted is sent again: receivers know events by their ids (P25).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use rusqlite::{Connection, params};
use tokio::task::JoinSet;
use unavez_core::identity::Tenant;
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::TransactionError;
use unavez_tower::engine::Random as _;
use uuid::Uuid;

use super::document::{Event, Operation, PENDING, SETTLED};
use super::execution::Execution;
use super::{Sandbox, Webhooks};
use crate::acquirer::http::{Client, Exchanged};
use crate::acquirer::signature::Secrets;
use crate::acquirer::{BoxFuture, Reason};
use crate::books::rows::word;
use crate::crash::{self, Point};
use crate::hex::Hex;
use crate::http::wire::{rfc3339, to_json};
use crate::random::Stream;

/// After so many failures an event is given up.
const FAILURES_MAX: u32 = 24;

/// The longest wait between two attempts.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How long one delivery may take.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Deliveries at a time.
const AT_ONCE: i64 = 16;

/// How often events are looked for when nothing rings: the clock they are due by is not the one that sleeps.
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// One signed webhook.
#[derive(Clone, Debug)]
pub struct Letter {
    /// The headers of the signature, and the content type.
    pub headers: HeaderMap,
    /// The event.
    pub body: Bytes,
}

/// Carries webhooks to a receiver.
pub trait Courier: Send + Sync + 'static {
    /// Delivers once. Success is that the receiver took it: a 2xx.
    fn deliver<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), Reason>>;
}

/// Posts webhooks to a URL.
#[derive(Debug)]
pub struct HttpCourier {
    client: Client,
}

impl HttpCourier {
    /// Posts to the client's own address. `None`: others on the way could read and change what is posted there.
    #[must_use]
    pub fn new(client: Client) -> Option<Self> {
        client.base().is_private().then_some(Self { client })
    }
}

impl Courier for HttpCourier {
    fn deliver<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), Reason>> {
        Box::pin(async move {
            let headers =
                letter.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
            match self.client.exchange("POST", "", headers, letter.body.clone()).await {
                Exchanged::Answered { status: 200..=299, .. } => Ok(()),
                Exchanged::Answered { status, .. } => Err(Reason(format!("answered {status}").into())),
                Exchanged::Cut(reason) | Exchanged::NotSent(reason) => Err(reason),
            }
        })
    }
}

/// Sends the events of a sandbox.
#[derive(Clone)]
pub struct Deliveries {
    sandbox: Sandbox,
    secrets: Secrets,
    courier: Arc<dyn Courier>,
    chance: Arc<Stream>,
}

impl Deliveries {
    /// `secrets` sign what `courier` carries. Nothing is sent before [`Deliveries::run`] or [`Deliveries::deliver_due`].
    #[must_use]
    pub fn new(sandbox: Sandbox, secrets: Secrets, courier: Arc<dyn Courier>) -> Self {
        Self { sandbox, secrets, courier, chance: Arc::new(Stream::new()) }
    }

    /// Delivers whatever falls due, until the books are closed. To be spawned; dropping it stops at any point.
    pub async fn run(self) {
        while let Ok(next) = self.deliver_due().await {
            let news = self.sandbox.0.news.notified();
            let now = self.sandbox.clock().now();
            match next {
                Some(due_at) => {
                    let wait = due_at.since(now).clamp(Duration::from_millis(1), LOOK_AROUND);
                    // Whichever comes first.
                    let _ = tokio::time::timeout(wait, news).await;
                }
                None => news.await,
            }
        }
    }

    /// Delivers what is due by the sandbox's clock, once, and says when the next event is due.
    ///
    /// # Errors
    /// The store's: it is closed, or cannot be reached.
    pub async fn deliver_due(&self) -> Result<Option<Time>, StoreError> {
        let now = self.sandbox.clock().now();
        let due = self.sandbox.0.store.read(move |db| due(db, now)).await?;
        let mut deliveries = JoinSet::new();
        for event in due {
            let this = self.clone();
            deliveries.spawn(async move { this.deliver(event).await });
        }
        while let Some(delivered) = deliveries.join_next().await {
            // A delivery that panicked is due as before.
            delivered.unwrap_or(Ok(()))?;
        }
        self.sandbox.0.store.read(next_due).await
    }

    async fn deliver(&self, event: Due) -> Result<(), StoreError> {
        crash::reached(Point::BeforeDelivery);
        let now = self.sandbox.clock().now();
        let sent = match self.letter(&event, now) {
            Some(letter) => {
                let delivery = self.courier.deliver(&letter);
                let timed_out = |_| Err(Reason("not answered in time".into()));
                tokio::time::timeout(DELIVERY_TIMEOUT, delivery).await.unwrap_or_else(timed_out)
            }
            None => Err(Reason("no secret speaks for the tenant".into())),
        };
        if let Err(Reason(reason)) = &sent {
            tracing::warn!(
                event = event.id(),
                failures = event.failures + 1,
                reason,
                "a webhook was not taken"
            );
        }
        crash::reached(Point::AfterDelivery);
        let noted = event.after(sent.is_ok(), self.sandbox.clock().now(), &self.chance);
        let updated = self.sandbox.0.store.transaction(move |tx| noted.update(tx)).await;
        updated.map_err(|error| match error {
            TransactionError::Refused(error) => StoreError::Unavailable(error.to_string().into()),
            TransactionError::Store(error) => error,
        })
    }

    fn letter(&self, event: &Due, now: Time) -> Option<Letter> {
        let mut headers = self.secrets.sign(Some(&event.tenant), &event.id(), now, event.body.as_bytes())?;
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        Some(Letter { headers, body: Bytes::copy_from_slice(event.body.as_bytes()) })
    }
}

impl std::fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliveries").field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

/// Writes the events that an execution will be told by: those of a decision that takes its time.
pub(super) fn announce(db: &Connection, execution: &Execution, webhooks: Webhooks) -> rusqlite::Result<()> {
    let decided_at = execution.decided_at;
    if decided_at == execution.created_at {
        return Ok(());
    }
    let deliveries = if webhooks == Webhooks::Twice { 2 } else { 1 };
    insert(db, SETTLED, execution, decided_at, decided_at, deliveries)?;
    if webhooks == Webhooks::Reversed {
        let late = decided_at.plus(Duration::from_secs(1));
        insert(db, PENDING, execution, execution.created_at, late, 1)?;
    }
    Ok(())
}

fn insert(
    db: &Connection,
    kind: &str,
    execution: &Execution,
    told_at: Time,
    due_at: Time,
    deliveries: u8,
) -> rusqlite::Result<()> {
    let id = Uuid::new_v4().into_bytes();
    let event = Event {
        id: event_id(&id),
        kind: kind.to_owned(),
        created_at: rfc3339(told_at),
        data: Operation::of(execution, told_at),
    };
    db.prepare_cached(include_str!("sql/insert_event.sql"))?
        .execute(params![id, execution.tenant.as_str(), to_json(&event), due_at.as_micros(), deliveries])
        .map(drop)
}

fn event_id(id: &[u8; 16]) -> String {
    format!("evt_{}", Hex::of(id).as_str())
}

/// An event that is to be sent now.
struct Due {
    number: i64,
    event: [u8; 16],
    tenant: Tenant,
    body: String,
    failures: u32,
    deliveries_left: u32,
}

fn due(db: &Connection, now: Time) -> rusqlite::Result<Vec<Due>> {
    let mut due = db.prepare_cached(include_str!("sql/due_events.sql"))?;
    let found = due.query_map((now.as_micros(), AT_ONCE), |row| {
        Ok(Due {
            number: row.get(0)?,
            event: row.get(1)?,
            tenant: word(row, 2, "tenant", |text| Tenant::parse(text).ok())?,
            body: row.get(3)?,
            failures: row.get(4)?,
            deliveries_left: row.get(5)?,
        })
    })?;
    found.collect()
}

fn next_due(db: &Connection) -> rusqlite::Result<Option<Time>> {
    let due_at: Option<i64> = db.query_row(include_str!("sql/next_due.sql"), [], |row| row.get(0))?;
    Ok(due_at.map(Time::from_micros))
}

/// What an event's row says after a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    number: i64,
    due_at: Option<Time>,
    failures: u32,
    deliveries_left: u32,
}

impl Due {
    fn id(&self) -> String {
        event_id(&self.event)
    }

    fn after(&self, was_taken: bool, now: Time, chance: &Stream) -> Noted {
        let Self { number, failures, deliveries_left, .. } = *self;
        if was_taken {
            let deliveries_left = deliveries_left - 1;
            return Noted { number, due_at: (deliveries_left > 0).then_some(now), failures, deliveries_left };
        }
        let failures = failures + 1;
        let due_at = (failures < FAILURES_MAX).then(|| now.plus(wait(failures, chance.bits())));
        Noted { number, due_at, failures, deliveries_left }
    }
}

impl Noted {
    fn update(self, db: &Connection) -> rusqlite::Result<()> {
        let due_at = self.due_at.map(Time::as_micros);
        let mut update = db.prepare_cached(include_str!("sql/update_event.sql"))?;
        update.execute((self.number, due_at, self.failures, self.deliveries_left)).map(drop)
    }
}

/// The wait after so many failures, between half and all of it.
fn wait(failures: u32, chance: [u8; 16]) -> Duration {
    let whole =
        1_u64.checked_shl(failures.saturating_sub(1)).map_or(WAIT_MAX, Duration::from_secs).min(WAIT_MAX);
    whole / 2 + whole * u32::from(chance[0]) / (2 * 255)
}
