//! Running the three worlds, one after the other.

use std::time::Duration;

use unavez_core::{
    retry::{BreakerLimits, Nature, Policy},
    time::Time,
};

use super::{Figures, Options, Phases, Setting, Turn, World};
use crate::{
    Error,
    crowd::{self, Capacity, Habits, Line, Memory, Outcome, Plan, START, Spread, State},
    progress::Progress,
    random::PythonRandom,
};

/// How long each way takes between a customer and a server.
const LATENCY: Duration = Duration::from_millis(20);

/// A server that is never the reason: far stronger than these orders need.
const CAPACITY: Capacity = Capacity { workers: 8, work: Duration::from_millis(40), queue: 1_000 };

/// How long is watched after the last order was placed.
const WATCHED: Duration = Duration::from_secs(120);

/// When the fault begins and ends, and when the last order is placed.
struct Times {
    from: Time,
    until: Time,
    placed_by: Time,
}

/// Measures what the options ask for.
///
/// # Errors
///
/// Usage: nothing to measure. Broken: the store or the decision table did what they should not.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Figures, Error> {
    check(options)?;
    let Options { seed, orders, fault, loss, .. } = *options;
    progress.begin(&("breaker", "cortacircuitos").into(), 3 * u64::from(orders));
    let times = Times::of(options);
    let placed = place(options, &times);
    let mut worlds = Vec::new();
    for name in Setting::ALL {
        let outcome = crowd::run(&plan(options, &times, &placed, name), progress).await?;
        progress.steps(outcome.unserved());
        worlds.push(world_of(name, &outcome, &times));
    }
    progress.end();
    let [from, until] = [times.from, times.until].map(|at| at.since(START));
    Ok(Figures { seed, orders, fault, from, until, loss, worlds })
}

fn check(options: &Options) -> Result<(), Error> {
    let Options { orders, failures, outage, timeout, open_for, .. } = *options;
    for (name, is_zero) in [
        ("orders", orders == 0),
        ("failures", failures == 0),
        ("outage", outage.is_zero()),
        ("timeout", timeout.is_zero()),
        ("open-for", open_for.is_zero()),
    ] {
        if is_zero {
            return Err(Error::usage((
                format!("{name} is 0; it must be more"),
                format!("{name} es 0; tiene que ser más"),
            )));
        }
    }
    crowd::check_length(outage)
}

impl Times {
    fn of(options: &Options) -> Self {
        let [from, until, placed_by] =
            [1, 2, 3].map(|times| START.plus(options.outage.saturating_mul(times)));
        Self { from, until, placed_by }
    }
}

fn place(options: &Options, times: &Times) -> Vec<Time> {
    let mut random = PythonRandom::new(u128::from(options.seed) + 2);
    let within = times.placed_by.since(START);
    (0..options.orders).map(|_| START.plus(within.mul_f64(random.random()))).collect()
}

fn plan(options: &Options, times: &Times, placed: &[Time], name: Setting) -> Plan {
    let Options { seed, fault, loss, timeout, open_for, failures, .. } = *options;
    let policy =
        Policy { attempts: u32::MAX, attempt_timeout: timeout, deadline: Duration::MAX, ..Policy::default() };
    let habits = Habits {
        policy,
        spread: Spread::Full,
        budget: None,
        breaker: Some(BreakerLimits { failures, open_for, probe_lease: timeout }),
        nature: if name == Setting::HealthProbes { Nature::Bare } else { Nature::Keyed },
    };
    Plan {
        seed,
        orders: placed.to_vec(),
        processes: 1,
        habits,
        line: Line { latency: LATENCY, loss, fault, from: times.from, until: times.until },
        server: CAPACITY,
        memory: if name == Setting::WithEngine { Memory::Engine } else { Memory::Nothing },
        until: times.placed_by.plus(WATCHED),
    }
}

fn world_of(name: Setting, outcome: &Outcome, times: &Times) -> World {
    let by_order = outcome.charges_by_order();
    let mut probed = vec![false; by_order.len()];
    for entry in outcome.ledger.iter().filter(|entry| entry.probe) {
        probed[entry.order] = true;
    }
    let beyond = |order: usize| u64::from(by_order[order].saturating_sub(1));
    let unknown = || outcome.states.iter().enumerate().filter(|(_, state)| **state == State::Unknown);
    let count = |state: State| outcome.states.iter().filter(|seen| **seen == state).count() as u64;
    let probe_charges_s: Vec<Duration> =
        outcome.ledger.iter().filter(|entry| entry.probe).map(|entry| entry.at.since(START)).collect();
    World {
        name,
        charges: phases(outcome, times),
        double_charges: outcome.double_charges(),
        double_charges_of_probes: (0..by_order.len()).filter(|&order| probed[order]).map(beyond).sum(),
        unknown: count(State::Unknown),
        unknown_and_charged: unknown().filter(|(order, _)| by_order[*order] > 0).count() as u64,
        waiting: count(State::Waiting),
        attempts: outcome.attempts,
        held_back: outcome.held_back,
        probes: outcome.probes,
        charged_by_probes: probe_charges_s.len() as u64,
        turns: outcome
            .turns
            .iter()
            .map(|turn| Turn { at: turn.at.since(START), opened: turn.opened })
            .collect(),
        charges_by_second: by_second(outcome),
        probe_charges_s,
    }
}

fn phases(outcome: &Outcome, times: &Times) -> Phases {
    let between = |from: Time, until: Time| {
        outcome.ledger.iter().filter(|entry| from <= entry.at && entry.at < until).count() as u64
    };
    Phases {
        before: between(START, times.from),
        during: between(times.from, times.until),
        after: between(times.until, Time::MAX),
    }
}

/// Charges that were an order's first, and those that were not.
fn by_second(outcome: &Outcome) -> Vec<[u32; 2]> {
    let mut charged = vec![false; outcome.states.len()];
    let mut seconds: Vec<[u32; 2]> = Vec::new();
    for entry in &outcome.ledger {
        let second = usize::try_from(entry.at.since(START).as_secs()).expect("a run lasts minutes");
        if seconds.len() <= second {
            seconds.resize(second + 1, [0, 0]);
        }
        seconds[second][usize::from(charged[entry.order])] += 1;
        charged[entry.order] = true;
    }
    seconds
}
