//! Running the herd: each way of waiting at each server, one after the other.

use std::time::Duration;

use unavez_core::time::Time;

use super::{Figures, Measured, Options, Strategy, World};
use crate::{
    Error,
    crowd::{self, Line, Memory, Outcome, Plan, START},
    progress::Progress,
    random::PythonRandom,
};

/// How long each way takes between a customer and a server.
const LATENCY: Duration = Duration::from_millis(20);

/// How long is watched after the outage: whoever is not served by then is hardly ever.
const WATCHED: Duration = Duration::from_secs(180);

/// Orders are placed within this time: a billing run, a ticket sale, the stroke of midnight.
const PLACED_WITHIN: Duration = Duration::from_secs(1);

/// Measures what the options ask for.
///
/// # Errors
///
/// Usage: nobody, or nothing, to measure. Broken: the store or the decision table did what they should not.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Figures, Error> {
    check(options)?;
    let worlds = 2 * Strategy::ALL.len() as u64;
    progress.begin(&("herds", "manadas").into(), worlds * u64::from(options.clients));
    let orders = place(options);
    let mut strategies = Vec::new();
    for name in Strategy::ALL {
        let with_engine = world(options, &orders, name, Memory::Engine, progress).await?;
        let without_engine = world(options, &orders, name, Memory::Nothing, progress).await?;
        strategies.push(Measured { name, with_engine, without_engine });
    }
    progress.end();
    let Options { seed, clients, processes, fault, outage, loss, .. } = *options;
    Ok(Figures { seed, clients, processes, fault, outage, loss, strategies })
}

fn check(options: &Options) -> Result<(), Error> {
    let counts =
        [("clients", options.clients), ("processes", options.processes), ("workers", options.workers)];
    for (name, count) in counts {
        if count == 0 {
            return Err(Error::usage((
                format!("{name} is 0; there must be at least 1"),
                format!("{name} es 0; tiene que haber al menos 1"),
            )));
        }
    }
    for (name, time) in [("timeout", options.timeout), ("work", options.work)] {
        if time.is_zero() {
            return Err(Error::usage((
                format!("{name} is 0; it must be longer"),
                format!("{name} es 0; tiene que ser más largo"),
            )));
        }
    }
    crowd::check_length(options.outage)
}

/// When each order is placed: the same for every strategy and both servers.
fn place(options: &Options) -> Vec<Time> {
    let mut random = PythonRandom::new(u128::from(options.seed) + 2);
    (0..options.clients).map(|_| START.plus(PLACED_WITHIN.mul_f64(random.random()))).collect()
}

async fn world(
    options: &Options,
    orders: &[Time],
    strategy: Strategy,
    memory: Memory,
    progress: &dyn Progress,
) -> Result<World, Error> {
    let over = START.plus(options.outage);
    let plan = Plan {
        seed: options.seed,
        orders: orders.to_vec(),
        processes: options.processes,
        habits: strategy.habits(options.timeout),
        line: Line { latency: LATENCY, loss: options.loss, fault: options.fault, from: START, until: over },
        server: options.capacity(),
        memory,
        until: over.plus(WATCHED),
    };
    let outcome = crowd::run(&plan, progress).await?;
    progress.steps(outcome.unserved());
    Ok(world_of(&outcome, over))
}

fn world_of(outcome: &Outcome, over: Time) -> World {
    let tenths = outcome.load.tenths();
    World {
        attempts: outcome.attempts,
        amplification: hundredths(outcome.attempts, outcome.states.len() as u64),
        peak_per_100ms: outcome.load.peak(),
        served_after_s: outcome.served_at().map(|at| tenths_of_a_second(at.since(over))),
        double_charges: outcome.double_charges(),
        charges: outcome.ledger.len() as u64,
        unserved: outcome.unserved(),
        arrived: outcome.arrived,
        first_attempts: outcome.first_attempts,
        repeats: outcome.repeats,
        held_back: outcome.held_back,
        resumed: outcome.resumed,
        load_by_second: tenths.chunks(10).map(|second| second.iter().sum()).collect(),
        load_by_tenth: tenths.to_vec(),
    }
}

/// So many for each, to two decimals.
fn hundredths(count: u64, of: u64) -> f64 {
    let hundredths = (count * 100 + of / 2) / of.max(1);
    u32::try_from(hundredths).map_or(f64::from(u32::MAX), f64::from) / 100.0
}

fn tenths_of_a_second(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
