//! The orders a test places, and sending them.

use bytes::Bytes;
use serde_json::json;
use tokio::task::{JoinError, JoinSet};

use super::{
    PRICE,
    play::Complaint,
    stage::{Caller, Stage},
};
use crate::{
    Error,
    keys::{KeyPolicy, run_nonce},
    money::{CENTS, CURRENCY},
    wire::{Answer, Call, Cut},
};

/// The ordinary route.
pub(super) const CHARGES_PATH: &str = "/v1/charges";

/// Requests under way, in tasks of their own.
pub(super) type Sent = JoinSet<Result<Answer, Cut>>;

/// Makes a test's orders, with ids that no other test or run uses.
pub(super) struct Orders {
    run: String,
    pub(super) keys: KeyPolicy,
}

/// One order and the key of its charge.
#[derive(Clone)]
pub(super) struct Order {
    order_id: String,
    pub(super) key: String,
    dollars: u64,
    payment_method: Option<&'static str>,
}

impl Orders {
    /// The orders of one test, which the stage will count.
    pub(super) fn new(stage: &mut Stage, keys: KeyPolicy) -> Self {
        let run = run_nonce();
        stage.counts_orders((1..=2).map(|number| order_id(&run, number)).collect());
        Self { run, keys }
    }

    /// Order 1 or 2, under the key that the right policy gives it.
    pub(super) fn order(&self, number: u32) -> Order {
        self.order_by(KeyPolicy::Once, number)
    }

    /// Order 1 or 2, under the key that the client's policy gives it.
    pub(super) fn order_by_policy(&self, number: u32) -> Order {
        self.order_by(self.keys, number)
    }

    fn order_by(&self, keys: KeyPolicy, number: u32) -> Order {
        let order_id = order_id(&self.run, number);
        let key = keys.operation_key(&order_id, PRICE);
        Order { order_id, key, dollars: PRICE, payment_method: None }
    }
}

fn order_id(run: &str, number: u32) -> String {
    format!("accept-{run}-{number}")
}

impl Order {
    /// The same order at twice the price, under the same key.
    pub(super) fn dearer(&self) -> Self {
        Self { dollars: self.dollars * 2, ..self.clone() }
    }

    /// The same order, paid so.
    pub(super) fn paid_with(&self, payment_method: &'static str) -> Self {
        Self { payment_method: Some(payment_method), ..self.clone() }
    }

    /// The same order as another operation: somebody tries once more, and means it.
    pub(super) fn under_another_key(&self) -> Self {
        Self { key: format!("{}:again", self.key), ..self.clone() }
    }

    fn body(&self) -> Bytes {
        let cents = self.dollars * CENTS;
        let mut body = json!({ "order_id": self.order_id, "amount": cents, "currency": CURRENCY });
        if let Some(payment_method) = self.payment_method {
            body["payment_method"] = payment_method.into();
        }
        Bytes::from(body.to_string())
    }
}

/// Sends one order on the ordinary route, over a connection of its own.
pub(super) async fn charge(caller: &Caller, order: &Order) -> Result<Answer, Cut> {
    charge_at(caller, CHARGES_PATH, &order.key, order).await
}

/// Sends one order on any route and under any key, over a connection of its own.
pub(super) async fn charge_at(caller: &Caller, path: &str, key: &str, order: &Order) -> Result<Answer, Cut> {
    caller.wire().send(&Call::post(path, key, order.body()).authorized(caller.bearer.as_deref())).await
}

/// Sends one order in a task.
pub(super) fn send(caller: Caller, path: &'static str, order: &Order) -> Sent {
    let order = order.clone();
    let mut sent = Sent::new();
    sent.spawn(async move { charge_at(&caller, path, &order.key, &order).await });
    sent
}

/// What became of a request that was sent in a task.
pub(super) fn answer_of(ended: Option<Result<Result<Answer, Cut>, JoinError>>) -> Result<Answer, Complaint> {
    let ended = ended.ok_or_else(|| Error::broken("no request was under way"))?;
    Ok(ended.map_err(|error| Error::broken(format!("a request died: {error}")))??)
}
