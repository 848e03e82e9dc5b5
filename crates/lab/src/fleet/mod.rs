//! The fleet: the same orders, losses and retries against a server without memory and against the idempotent one.
//!
//! Orders are charged over a network that loses responses. A lost response means that the server has done the work; an
//! order is attempted until a response arrives or its attempts are used up. Everything is drawn beforehand from one
//! seed, so the figures are the same on every machine and at any concurrency; all money is read from the servers'
//! ledgers afterwards.

mod audit;
mod client;
mod draw;
mod render;
mod run;

use std::{fmt, num::NonZeroUsize, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{Mutation, Remote};

pub(crate) use render::percent_of;
pub use run::{run, sweep};

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Draws the amounts; the losses are drawn from the next seed.
    pub seed: u64,
    /// How many orders.
    pub orders: u32,
    /// The share of responses that is lost.
    pub loss: Loss,
    /// How often an order is attempted at most; at least 1.
    pub attempts: u32,
    /// How many orders are under way at once. Changes the duration, never a figure.
    pub concurrency: NonZeroUsize,
    /// One piece taken out of the idempotent side, which then runs on the lesson server.
    pub mutation: Option<Mutation>,
    /// Measure this running service, and only it, instead of starting two.
    pub target: Option<Remote>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 42,
            orders: 1_000,
            loss: Loss(0.15),
            attempts: 4,
            concurrency: NonZeroUsize::MIN,
            mutation: None,
            target: None,
        }
    }
}

impl Options {
    /// The command that gives the same figures again.
    pub fn command(&self) -> String {
        let Self { seed, orders, loss, attempts, .. } = self;
        let mut command =
            format!("unavez lab fleet --seed {seed} --orders {orders} --loss {loss} --attempts {attempts}");
        if let Some(mutation) = self.mutation {
            command.push_str(&format!(" --break {mutation}"));
        }
        if let Some(remote) = &self.target {
            command.push_str(&format!(" --target {}", remote.named()));
        }
        command
    }
}

/// A share between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss(f64);

impl Loss {
    /// A share, if it is one: at least 0 and at most 1.
    pub fn new(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(Self(share))
    }

    /// The share as a number.
    pub fn share(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = text.parse().map_err(|_| format!("loss {text:?} is not a number from 0 to 1"))?;
        Self::new(share).ok_or_else(|| format!("loss {text} is not from 0 to 1"))
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

/// The measurement: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Draws the amounts; the losses are drawn from the next seed.
    pub seed: u64,
    /// How many orders.
    pub orders: u32,
    /// The share of responses that was lost.
    pub loss: Loss,
    /// How often an order was attempted at most.
    pub attempts: u32,
    /// The piece that was taken out of the idempotent side.
    #[serde(rename = "break", skip_serializing_if = "Option::is_none")]
    pub mutation: Option<Mutation>,
    /// What the orders were meant to cost.
    pub intent: Intent,
    /// The server without memory; `None` when a running service was measured.
    pub before: Option<World>,
    /// The idempotent server.
    pub after: World,
}

/// What the orders were meant to cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Intent {
    /// One per order.
    pub charges: u64,
    /// Whole dollars.
    pub total: u64,
}

/// What one server did with the fleet. Money in whole dollars, read from its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct World {
    /// Requests the fleet sent.
    pub requests: u64,
    /// Charges the server executed for the fleet's orders.
    pub executions: u64,
    /// Lines of the ledger that charge the fleet's orders.
    pub ledger_charges: u64,
    /// Orders with two charges or more.
    pub orders_charged_twice: u64,
    /// Orders with none.
    pub orders_not_charged: u64,
    /// What the ledger took for the orders.
    pub total_charged: u64,
    /// What it took beyond the orders' prices.
    pub overcharge: u64,
    /// What it did not take of them.
    pub undercharge: u64,
    /// Overcharge in percent of the intent, one decimal; 0 for no orders.
    pub overcharge_percent: f64,
    /// Orders for which no response ever arrived.
    pub unconfirmed: u64,
    /// Those of them that the server's key status could tell about afterwards.
    pub found_by_key_status: u64,
}

impl Figures {
    /// Whether the idempotent side charged every order exactly once.
    pub fn passed(&self) -> bool {
        self.after.overcharge == 0 && self.after.undercharge == 0
    }
}

/// Overcharge against loss: one small fleet per loss rate, each really run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// Orders at each point.
    pub orders: u32,
    /// One measurement for each loss rate, rising.
    pub points: Vec<Figures>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_share() {
        assert_eq!("0.15".parse(), Ok(Loss(0.15)));
        assert_eq!("1".parse(), Ok(Loss(1.0)));
        for wrong in ["", "15%", "-0.1", "1.01", "NaN", "inf", "1e3"] {
            assert!(wrong.parse::<Loss>().is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn the_command_repeats_the_measurement() {
        assert_eq!(
            Options::default().command(),
            "unavez lab fleet --seed 42 --orders 1000 --loss 0.15 --attempts 4"
        );
        let broken = Options { mutation: Some(Mutation::CheckThenWrite), ..Options::default() };
        assert!(broken.command().ends_with("--attempts 4 --break check-then-write"));
    }
}
