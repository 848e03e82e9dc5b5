//! The fleet's client: charges every order over a lossy network, and knows only what it was answered.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use super::draw::Order;
use crate::{
    Error,
    keys::{KeyPolicy, as_segment, run_nonce},
    money::{CENTS, CURRENCY},
    progress::Progress,
    wire::{Answer, Call, Cut, Route, Wire},
};

/// Wait before the first repeat that an answer asked for; doubled for each further one. A cut is repeated at once: the
/// network of the lab does not get better by waiting.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The request of every order, as an error names it.
const THE_CHARGE: (&str, &str) = ("POST /v1/charges", "POST /v1/charges");

/// Who charges: how it makes keys, how often it tries, and over which networks, taken in turn.
pub(super) struct Client {
    pub(super) keys: KeyPolicy,
    pub(super) attempts: u32,
    pub(super) concurrency: usize,
    pub(super) routes: Vec<Route>,
    pub(super) bearer: Option<String>,
}

/// An order with the names this run gives it.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) order_id: String,
    pub(super) key: String,
    pub(super) amount: u32,
    lost: u32,
}

/// What the client knows when it is through.
#[derive(Debug, Default)]
pub(super) struct Belief {
    /// Requests it sent.
    pub(super) requests: u64,
    /// Places of the orders that never had a response.
    pub(super) unconfirmed: Vec<usize>,
}

/// What the client knows about one order.
struct Attempted {
    place: usize,
    requests: u32,
    confirmed: bool,
}

/// Where workers say what became of each order.
type Reports = mpsc::UnboundedSender<Result<Attempted, Error>>;

impl Client {
    /// Gives the orders names that no other run has used, and makes each key, once.
    pub(super) fn name(&self, orders: &[Order]) -> Arc<[Named]> {
        let run = run_nonce();
        let named = |(place, order): (usize, &Order)| {
            let order_id = format!("fleet-{run}-{:04}", place + 1);
            let key = self.keys.operation_key(&order_id, u64::from(order.amount));
            Named { order_id, key, amount: order.amount, lost: order.lost }
        };
        orders.iter().enumerate().map(named).collect()
    }

    /// Charges all orders, `concurrency` at a time.
    pub(super) async fn charge(
        self: &Arc<Self>,
        orders: &Arc<[Named]>,
        progress: &dyn Progress,
    ) -> Result<Belief, Error> {
        let next = Arc::new(AtomicUsize::new(0));
        let (report, mut reports) = mpsc::unbounded_channel();
        // Dropped with this call, and the workers with it.
        let mut workers = JoinSet::new();
        for _ in 0..self.concurrency.min(orders.len()) {
            workers.spawn(Arc::clone(self).work(Arc::clone(orders), Arc::clone(&next), report.clone()));
        }
        drop(report);

        let mut belief = Belief::default();
        while let Some(attempted) = reports.recv().await {
            let attempted = attempted?;
            belief.requests += u64::from(attempted.requests);
            if !attempted.confirmed {
                belief.unconfirmed.push(attempted.place);
            }
            progress.step();
        }
        Ok(belief)
    }

    /// One worker: takes orders until none is left.
    async fn work(self: Arc<Self>, orders: Arc<[Named]>, next: Arc<AtomicUsize>, report: Reports) {
        let mut wires: Vec<_> = self.routes.iter().cloned().map(Wire::new).collect();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(order) = orders.get(place) else { return };
            if report.send(self.charge_one(order, place, &mut wires).await).is_err() {
                return;
            }
        }
    }

    /// Attempts one order until it is answered or its attempts are used up.
    async fn charge_one(&self, order: &Named, place: usize, wires: &mut [Wire]) -> Result<Attempted, Error> {
        let body = order.body();
        let wires_count = wires.len();
        for attempt in 1..=self.attempts {
            let key = self.keys.attempt_key(&order.key, attempt);
            let call = Call::post("/v1/charges", &key, body.clone()).authorized(self.bearer.as_deref());
            let wire = &mut wires[(place + attempt as usize) % wires_count];
            match wire.send_losing(&call, attempt <= order.lost).await {
                Ok(answer) if is_last_word(&answer)? => {
                    return Ok(Attempted { place, requests: attempt, confirmed: true });
                }
                Ok(_) if attempt < self.attempts => {
                    tokio::time::sleep(FIRST_PAUSE * (1 << (attempt - 1).min(5))).await
                }
                // A lost response cuts the connection; silence is a service that has stopped working.
                Err(silent @ Cut::Silent) => {
                    return Err(Error::cut(THE_CHARGE, &silent));
                }
                Ok(_) | Err(Cut::Broken(_)) => {}
            }
        }
        Ok(Attempted { place, requests: self.attempts, confirmed: false })
    }

    /// Asks the service about the orders that were never answered; says how many of them it could tell about (P22).
    pub(super) async fn find_out(
        &self,
        orders: &[Named],
        belief: &Belief,
        direct: &Route,
    ) -> Result<u64, Error> {
        let mut wire = Wire::new(direct.clone());
        let mut found = 0;
        for &place in &belief.unconfirmed {
            let key = self.keys.attempt_key(&orders[place].key, self.attempts);
            let path = format!("/v1/idempotency-keys/{}", as_segment(&key));
            let answer =
                wire.send(&Call::get(&path).authorized(self.bearer.as_deref())).await.map_err(|cut| {
                    let what = (format!("asking about {key}"), format!("al preguntar por {key}"));
                    Error::cut(what, &cut)
                })?;
            found += u64::from(tells_the_outcome(&answer)?);
        }
        Ok(found)
    }
}

impl Named {
    fn body(&self) -> Bytes {
        let cents = u64::from(self.amount) * CENTS;
        Bytes::from(json!({ "order_id": self.order_id, "amount": cents, "currency": CURRENCY }).to_string())
    }
}

/// Whether an answer ends the order (P30): the statuses a client repeats do not.
fn is_last_word(answer: &Answer) -> Result<bool, Error> {
    match answer.status {
        status if status.is_success() => Ok(true),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let (status, said) = (answer.status, answer.excerpt());
            Err(Error::usage((
                format!("the service refuses the API key: {status} {said}"),
                format!("el servicio rechaza la clave de API: {status} {said}"),
            )))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => Ok(false),
        status if status.is_server_error() => Ok(false),
        StatusCode::CONFLICT => Ok(!says_retryable(answer)),
        StatusCode::PAYMENT_REQUIRED | StatusCode::UNPROCESSABLE_ENTITY => Ok(true),
        _ => Err(Error::broken(format!("POST /v1/charges answered {} {}", answer.status, answer.excerpt()))),
    }
}

fn says_retryable(answer: &Answer) -> bool {
    answer.json::<Value>().is_ok_and(|problem| problem["retryable"] == true)
}

/// Whether a key status names an outcome. "None" is an answer too: the service has no record of the key.
fn tells_the_outcome(answer: &Answer) -> Result<bool, Error> {
    match answer.status {
        StatusCode::OK => Ok(answer.json::<Value>()?["state"] == "finished"),
        StatusCode::NOT_FOUND => Ok(false),
        _ => Err(Error::broken(format!("key status answered {} {}", answer.status, answer.excerpt()))),
    }
}
