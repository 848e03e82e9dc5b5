//! Those who order, and remember what they were told.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use serde_json::json;

use super::super::deed::{Deed, Operation, charge};
use super::super::dice::Dice;
use super::super::process::pause;
use crate::wire;

/// Customers at a time.
const CUSTOMERS: u64 = 3;

/// Slower than payments settle whose answers are lost and whose service dies every second: a backlog that only grows is no
/// fault, and would be all that is seen.
const BETWEEN_ORDERS_MS_MAX: u64 = 1_500;

/// How a payment can go: approved, declined, and the ways in which an answer is late or lost.
const TOKENS: [&str; 6] =
    ["tok_approve", "tok_approve", "tok_decline", "tok_lost", "tok_error_after", "tok_slow_200"];

/// An order that was sent.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    pub(super) id: String,
    /// Somebody was told that it is accepted.
    pub(super) is_accepted: bool,
    token: &'static str,
}

impl Ordered {
    /// One that nobody was told of.
    #[cfg(test)]
    pub(super) fn sample(id: &str) -> Self {
        Self { id: id.to_owned(), is_accepted: false, token: "tok_approve" }
    }

    pub(super) fn key(&self) -> String {
        format!("charge:{}", self.id)
    }

    /// What the shop must have asked the service for.
    pub(super) fn operation(&self) -> Operation {
        let mut operation = Operation::new(&self.id, charge(self.token), None);
        operation.key = self.key();
        operation.body = self.body("order_id", &operation);
        operation
    }

    fn body(&self, name_of_id: &str, operation: &Operation) -> String {
        let Deed::Charge { token, .. } = operation.deed else { unreachable!("orders are charges") };
        let (amount, id) = (operation.amount, &self.id);
        json!({ name_of_id: id, "amount": amount, "currency": "EUR", "payment_method": token }).to_string()
    }
}

pub(super) struct Customers {
    shop: SocketAddr,
    seed: u64,
}

impl Customers {
    pub(super) fn of(shop: SocketAddr, seed: u64) -> Self {
        Self { shop, seed }
    }

    /// Each orders until it is over, and returns what it ordered.
    pub(super) fn order_until<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        is_over: &'scope AtomicBool,
    ) -> Vec<ScopedJoinHandle<'scope, Result<Vec<Ordered>, String>>> {
        let (shop, seed) = (self.shop, self.seed);
        let customer = |number| {
            scope.spawn(move || {
                let (mut ordered, mut dice) = (Vec::new(), Dice::of_lane(seed, number));
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("o-{seed}-{number}-{}", ordered.len());
                    let order = Ordered { id, is_accepted: false, token: dice.pick(&TOKENS) };
                    ordered.push(order_one(shop, order, &mut dice)?);
                    pause(Duration::from_millis(dice.below(BETWEEN_ORDERS_MS_MAX)));
                }
                Ok(ordered)
            })
        };
        (1..=CUSTOMERS).map(customer).collect()
    }
}

/// Sends it until it is accepted, or the customer goes away.
fn order_one(shop: SocketAddr, mut order: Ordered, dice: &mut Dice) -> Result<Ordered, String> {
    let body = order.body("id", &order.operation());
    loop {
        // The header is of no use to the shop: the order has an id.
        match wire::post(shop, "/orders", &order.key(), &body) {
            Ok(answer) if answer.status() == 202 => {
                order.is_accepted = true;
                return Ok(order);
            }
            Ok(answer) if answer.status() != 503 => {
                return Err(format!("{}: no order is answered {}", order.id, answer.shown()));
            }
            Ok(_) | Err(_) if dice.one_in(4) => return Ok(order),
            Ok(_) | Err(_) => pause(Duration::from_millis(dice.below(200))),
        }
    }
}
