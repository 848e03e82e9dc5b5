//! Many callers, one server, and what lies between them, in virtual time.
//!
//! 1. Callers obey core's own rules: [`Call`](unavez_core::retry::Call), `Backoff`, `Budget` and `Breaker` decide, and are
//!    handed time and randomness. Nothing here knows how long a wait is.
//! 2. The server has so many workers, a queue with an end, and a time for each request. One that remembers asks the
//!    product's store and core's decision table, so a repeat of a finished charge is looked up instead of worked for.
//! 3. A server works on what it has taken, whether or not the caller still waits. That is how an answer comes too late,
//!    and how a server without memory charges twice.
//! 4. A call that core ends without an outcome is not forgotten: its order waits in the caller's outbox and becomes a
//!    call again, with the same key, after a pause that is spread and doubles.
//! 5. Events of one moment happen in the order in which they were planned, and every draw has a generator of its own, so a
//!    run is a function of its [`Plan`].
//! 6. Money is counted in the ledger, line by line, never from what callers believe.

mod callers;
mod desk;
mod line;
mod load;
mod run;
mod server;

use std::time::Duration;

use unavez_core::{
    retry::{Backoff, BreakerLimits, BudgetLimits, Nature, Policy},
    time::Time,
};

use crate::{Error, lang::Noun};

pub use line::{Fault, UnknownFault};

pub(crate) use callers::{State, Turn};
pub(crate) use line::Line;
pub(crate) use load::Load;
pub(crate) use run::run;
pub(crate) use server::Entry;

/// What is counted in both languages.
pub(crate) const DOUBLE_CHARGES: Noun =
    Noun::new(["double charge", "double charges"], ["cobro doble", "cobros dobles"]);

/// When a run begins.
pub(crate) const START: Time = Time::from_micros(0);

/// Everything that decides a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Draws the jitter; which answers get lost on the way is drawn from the next seed.
    pub(crate) seed: u64,
    /// When each order is placed, in this order.
    pub(crate) orders: Vec<Time>,
    /// Programs that the callers run in. Those of one program share its budget and its breaker.
    pub(crate) processes: u32,
    pub(crate) habits: Habits,
    pub(crate) line: Line,
    pub(crate) server: Capacity,
    pub(crate) memory: Memory,
    /// When watching ends, whoever still waits.
    pub(crate) until: Time,
}

/// How callers behave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habits {
    pub(crate) policy: Policy,
    pub(crate) spread: Spread,
    /// `None`: retries are not bounded.
    pub(crate) budget: Option<BudgetLimits>,
    /// `None`: everything is sent.
    pub(crate) breaker: Option<BreakerLimits>,
    /// What callers hold their orders for.
    pub(crate) nature: Nature,
}

/// Where between nothing and its ceiling a wait lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Always at the ceiling.
    None,
    /// Anywhere: full jitter.
    Full,
}

/// What the server can do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    pub(crate) workers: u32,
    /// How long a charge takes one of them.
    pub(crate) work: Duration,
    /// Requests that may wait; one more is refused with 503.
    pub(crate) queue: u32,
}

/// Whether the server remembers what it has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// The engine: a claim before the work, the answer kept after it.
    Engine,
    /// Every request is new.
    Nothing,
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Attempts that left a caller, first ones and repeats.
    pub(crate) attempts: u64,
    /// Those that found the door open.
    pub(crate) arrived: u64,
    /// Those that were an order's first.
    pub(crate) first_attempts: u64,
    /// Those that were not.
    pub(crate) repeats: u64,
    /// Attempts that a breaker kept from leaving.
    pub(crate) held_back: u64,
    /// Calls that were begun anew from the outbox.
    pub(crate) resumed: u64,
    /// Attempts at the server's door, let in or not.
    pub(crate) load: Load,
    /// Every charge, in the order of the ledger.
    pub(crate) ledger: Vec<Entry>,
    /// What became of each order.
    pub(crate) states: Vec<State>,
    /// What the breakers did, if there are any.
    pub(crate) turns: Vec<Turn>,
    /// Probes that were sent.
    pub(crate) probes: u64,
}

impl Outcome {
    /// Charges of each order.
    pub(crate) fn charges_by_order(&self) -> Vec<u32> {
        let mut charges = vec![0; self.states.len()];
        for entry in &self.ledger {
            charges[entry.order] += 1;
        }
        charges
    }

    /// Charges beyond the first of each order.
    pub(crate) fn double_charges(&self) -> u64 {
        self.charges_by_order().iter().map(|&charges| u64::from(charges.saturating_sub(1))).sum()
    }

    /// When the last caller had its answer; `None`: some have none.
    pub(crate) fn served_at(&self) -> Option<Time> {
        self.states.iter().map(|state| state.served_at()).try_fold(START, |last, at| Some(last.max(at?)))
    }

    /// Orders without an answer.
    pub(crate) fn unserved(&self) -> u64 {
        self.states.iter().filter(|state| state.served_at().is_none()).count() as u64
    }
}

/// The longest fault that is worth watching: what it does shows long before.
const FAULT_MAX: Duration = Duration::from_secs(600);

/// Refuses a fault that would be watched for hours of the machine's time.
///
/// # Errors
///
/// Usage: names the length and the limit.
pub(crate) fn check_length(fault: Duration) -> Result<(), Error> {
    if fault <= FAULT_MAX {
        return Ok(());
    }
    let (seen, most) = (fault.as_secs(), FAULT_MAX.as_secs());
    Err(Error::usage((
        format!("outage is {seen} s; at most {most} s"),
        format!("outage es {seen} s; a lo sumo {most} s"),
    )))
}

/// How long an order rests in the outbox after a call that ended without an outcome.
const OUTBOX: Backoff = Backoff { base: Duration::from_secs(30), cap: Duration::from_secs(60) };
