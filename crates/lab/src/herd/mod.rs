//! A herd: many callers whose orders fall into one second, and a server that is away just then.
//!
//! What keeps the server down after an outage is the repeating, and what charges twice is the repeating too. Each way of
//! waiting is run against a server that remembers and one that does not: everything else - orders, losses, the server's
//! strength - is the same. The rules stand at the head of the module `crowd`.

mod render;
mod run;
mod strategy;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub use crate::crowd::{Fault, UnknownFault};
pub(crate) use render::{head, peak_and_served, served, times};
pub use run::run;
pub use strategy::Strategy;

use crate::{crowd::Capacity, fleet::Loss};

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Draws when orders are placed, the jitter, and which answers are lost.
    pub seed: u64,
    /// Callers, each with one order.
    pub clients: u32,
    /// Programs that they run in. Those of one program share a budget and a breaker.
    pub processes: u32,
    /// What goes wrong.
    pub fault: Fault,
    /// For how long, from the beginning on.
    pub outage: Duration,
    /// The share of answers that is lost on any day.
    pub loss: Loss,
    /// How long a caller waits for an answer.
    pub timeout: Duration,
    /// Charges that the server works on at once.
    pub workers: u32,
    /// How long one of them takes.
    pub work: Duration,
    /// Requests that may wait for a worker; one more is refused.
    pub queue: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 42,
            clients: 1_000,
            processes: 10,
            fault: Fault::Outage,
            outage: Duration::from_secs(30),
            loss: Loss::new(0.01).expect("a hundredth is a share"),
            timeout: Duration::from_secs(2),
            workers: 8,
            work: Duration::from_millis(40),
            queue: 1_000,
        }
    }
}

impl Options {
    /// The command that gives the same figures again.
    pub fn command(&self) -> String {
        let Self { seed, clients, processes, fault, loss, workers, queue, .. } = self;
        let [outage, timeout, work] = [self.outage, self.timeout, self.work].map(|time| time.as_millis());
        format!(
            "unavez lab herd --seed {seed} --clients {clients} --processes {processes} --fault {fault} \
             --outage {outage}ms --loss {loss} --timeout {timeout}ms --workers {workers} --work {work}ms \
             --queue {queue}"
        )
    }

    pub(crate) fn capacity(&self) -> Capacity {
        Capacity { workers: self.workers, work: self.work, queue: self.queue }
    }
}

/// The measurement: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Draws everything.
    pub seed: u64,
    /// Callers, each with one order.
    pub clients: u32,
    /// Programs that they run in.
    pub processes: u32,
    /// What went wrong.
    pub fault: Fault,
    /// For how long, from the beginning on.
    #[serde(rename = "outage_s", serialize_with = "seconds")]
    pub outage: Duration,
    /// The share of answers that was lost on top of that.
    pub loss: Loss,
    /// Each way of waiting.
    pub strategies: Vec<Measured>,
}

/// One way of waiting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Which.
    pub name: Strategy,
    /// Against the server that remembers.
    #[serde(flatten)]
    pub with_engine: World,
    /// Against one that does not.
    pub without_engine: World,
}

/// What came of a way of waiting at one server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct World {
    /// Attempts that were sent.
    pub attempts: u64,
    /// Attempts for each order.
    pub amplification: f64,
    /// The most attempts in any tenth of a second after the outage.
    pub peak_per_100ms: u32,
    /// How long after the outage the last caller had its answer. `None`: not while it was watched.
    pub served_after_s: Option<f64>,
    /// Charges beyond the first of each order.
    pub double_charges: u64,
    /// Charges in the ledger.
    pub charges: u64,
    /// Orders without an answer when the watching ended.
    pub unserved: u64,
    /// Attempts that found the server's door open.
    pub arrived: u64,
    /// Attempts that were an order's first.
    pub first_attempts: u64,
    /// Attempts that were not.
    pub repeats: u64,
    /// Attempts that a breaker kept from being sent.
    pub held_back: u64,
    /// Calls that the budget ended, and that were begun anew from the outbox.
    pub resumed: u64,
    /// Attempts in each second, from the beginning on.
    pub load_by_second: Vec<u32>,
    /// Attempts in each tenth of a second.
    #[serde(skip)]
    pub load_by_tenth: Vec<u32>,
}

impl Figures {
    /// Whether the server that remembers charged nobody twice, however it was pressed.
    pub fn passed(&self) -> bool {
        self.strategies.iter().all(|measured| measured.with_engine.double_charges == 0)
    }

    /// The way of waiting with the lowest peak at the server that remembers.
    pub fn calmest(&self) -> Option<Strategy> {
        let calmest = self.strategies.iter().min_by_key(|measured| measured.with_engine.peak_per_100ms);
        calmest.map(|measured| measured.name)
    }

    pub(crate) fn of(&self, name: Strategy) -> Option<&Measured> {
        self.strategies.iter().find(|measured| measured.name == name)
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// A herd in which the engine held and its lack was felt.
#[cfg(test)]
pub(crate) fn sample() -> Figures {
    let world = |peak_per_100ms: u32, double_charges: u64| World {
        attempts: u64::from(peak_per_100ms) * 100,
        amplification: f64::from(peak_per_100ms),
        peak_per_100ms,
        served_after_s: (peak_per_100ms < 1_000 || double_charges == 0).then_some(12.5),
        double_charges,
        charges: 100 + double_charges,
        unserved: 0,
        arrived: 100,
        first_attempts: 100,
        repeats: u64::from(peak_per_100ms) * 100 - 100,
        held_back: 0,
        resumed: 0,
        load_by_second: vec![peak_per_100ms; 20],
        load_by_tenth: vec![peak_per_100ms; 200],
    };
    let measured = |(name, peak)| Measured {
        name,
        with_engine: world(peak, 0),
        without_engine: world(peak, u64::from(peak) / 4),
    };
    Figures {
        seed: 42,
        clients: 100,
        processes: 10,
        fault: Fault::Silence,
        outage: Duration::from_secs(10),
        loss: Loss::new(0.01).expect("a hundredth is a share"),
        strategies: Strategy::ALL.into_iter().zip([1_000, 120, 110, 18, 8, 29]).map(measured).collect(),
    }
}
