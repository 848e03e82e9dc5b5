//! `cargo xtask crash`: the service and its acquirer, killed at every point of an operation.
//!
//! 1. Both are the real binary, in processes of their own over real HTTP with their own files. It is built with the
//!    feature `crash-points`, by which a process dies at a named point ([`plan::POINTS`]); besides, both are killed by
//!    SIGKILL at any moment.
//! 2. A round sends operations, lets its blows fall, starts the dead again, and repeats under the same keys until every
//!    operation has its final answer. One of them is repeated by nobody: the service has to find its end by itself.
//! 3. Then the two sets of books are compared ([`audit`]): executed once, told the truth, balanced, equal, and nothing
//!    definite open. At the end every answer that was ever given must still be the answer, byte for byte.
//! 4. Half of the lanes run with an acquirer that executes whatever it is sent, twice if it is sent twice. Behind one that
//!    remembers ids a service that never asked would pass as well.
//! 5. Further lanes have a network between the two that loses, cuts, holds up and doubles requests ([`weather`]), while
//!    somebody dies now and then. One world has a visibility delay of zero, and its check must find the charge that is then
//!    made twice ([`late`]): what the other worlds pass is a check that can fail.
//! 6. A lane's draws follow from the seed alone. What the machine makes of them does not, so a failure names the command
//!    and not a promise.

mod asking;
mod audit;
mod deed;
mod dice;
mod late;
pub(crate) mod orders;
mod plan;
mod process;
mod proxy;
mod setting;
mod weather;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;
use dice::Dice;
use plan::{POINTS, Plan};
use setting::{Network, Terms};
use weather::Weather;
use world::World;

/// Worlds at a time in which everything is killed. A round is mostly waiting for timeouts.
const LANES: u64 = 6;

/// Worlds besides with a foul network: one for either kind of deduplication.
const FOUL_LANES: u64 = 2;

/// The longest that the foul network holds a request up, and the visibility delay that goes with it: longer by more than
/// the acquirer takes.
const LATE_MS_MAX: u64 = 2_000;
const VISIBILITY_DELAY_WHEN_FOUL: Duration = Duration::from_millis(LATE_MS_MAX + 1_500);

/// Longer than any request is on its way between two processes of one machine, however busy that is.
const VISIBILITY_DELAY: Duration = Duration::from_millis(1_500);

/// Kill the service and its acquirer at every point of an operation, and compare their books
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many rounds; each point is met about once in 18 of them
    #[arg(long, default_value_t = 1_000)]
    rounds: u64,

    /// Which rounds; printed by every run
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl Args {
    /// What the gate can spend: every point with and without deduplication, and some more.
    pub(crate) const SHORT: Self = Self { rounds: 60, seed: 42 };

    /// The command that does it again.
    fn command(&self) -> String {
        format!("cargo xtask crash --rounds {} --seed {}", self.rounds, self.seed)
    }
}

/// How often each point was aimed at, and how often hit.
type Hits = BTreeMap<&'static str, (u64, u64)>;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(), Failure> {
    let binary = build(workspace)?;
    println!("{} rounds, seed {}: {}", args.rounds, args.seed, args.command());
    let lanes: Vec<_> = std::thread::scope(|scope| {
        let binary = &binary;
        let bites = scope.spawn(move || late::prove(binary, args.seed).map(|()| (Hits::new(), 0)));
        let lanes: Vec<_> =
            (0..LANES + FOUL_LANES).map(|lane| scope.spawn(move || run_lane(binary, args, lane))).collect();
        lanes.into_iter().chain([bites]).map(|lane| lane.join().expect("no lane panics")).collect()
    });
    let mut hits = Hits::new();
    let mut operations = 0;
    for lane in lanes {
        let (of_lane, count) =
            lane.map_err(|failure| Failure::check(format!("{failure}\nrepeat it with: {}", args.command())))?;
        operations += count;
        for (point, (aimed, hit)) in of_lane {
            let sum = hits.entry(point).or_default();
            *sum = (sum.0 + aimed, sum.1 + hit);
        }
    }
    tell(&hits, operations);
    missed(&hits)
}

/// Looks for the crash points in a binary that must not have them: it would name the variable they are chosen by.
pub(crate) fn absent_from(binary: &Path) -> Result<(), Failure> {
    let bytes = std::fs::read(binary).map_err(|error| Failure::file("read", binary, &error))?;
    if names_the_variable(&bytes) {
        let what = "was built with the feature crash-points, which no release may have";
        return Err(Failure::check(format!("{} {what}", binary.display())));
    }
    Ok(())
}

fn names_the_variable(binary: &[u8]) -> bool {
    binary.windows(process::CRASH_AT.len()).any(|bytes| bytes == process::CRASH_AT.as_bytes())
}

fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let [binary] = build_all(workspace, ["unavez"])?;
    Ok(binary)
}

/// With the same features as the gate's tests, whose build it therefore shares.
fn build_all<const N: usize>(workspace: &Workspace, names: [&str; N]) -> Result<[PathBuf; N], Failure> {
    let mut build = workspace.cargo(&["build", "--quiet", "--locked", "--workspace", "--all-features"]);
    shell::run(build.args(names.iter().flat_map(|name| ["--bin", name])))?;
    Ok(names.map(|name| workspace.target.join("debug").join(name)))
}

/// The rounds of one lane, one after the other, in one world.
fn run_lane(binary: &Path, args: &Args, lane: u64) -> Result<(Hits, usize), Failure> {
    let dedupe = if lane.is_multiple_of(2) { "off" } else { "forever" };
    let is_foul = lane >= LANES;
    let (visibility_delay, network) = if is_foul {
        (VISIBILITY_DELAY_WHEN_FOUL, foul_network(args.seed, dedupe)?)
    } else {
        (VISIBILITY_DELAY, Network::direct()?)
    };
    let name = format!("{}-{lane}", args.seed);
    let mut dice = Dice::of_lane(args.seed, lane);
    let mut world = World::start(binary, &name, Terms { dedupe, visibility_delay }, network)?;
    let mut hits = Hits::new();
    for round in (0..args.rounds).filter(|round| round % LANES == lane % LANES) {
        // Who is sent to through a foul network does not also die by plan in every round: three attempts are all there are.
        let point = (!is_foul).then(|| point_of(round));
        let plan = Plan::draw(point, &mut dice);
        let struck = world.play(&plan).map_err(|failure| {
            let network = if is_foul { "foul" } else { "direct" };
            let blows = &plan.blows;
            Failure::check(format!(
                "round {round}, dedupe {dedupe}, network {network}, {blows:?}:\n{failure}"
            ))
        })?;
        for (point, hit) in struck {
            let sum = hits.entry(point).or_default();
            *sum = (sum.0 + 1, sum.1 + u64::from(hit));
        }
    }
    Ok((hits, world.close()?))
}

/// A request that is doubled on its way to an acquirer that does not deduplicate is executed twice, whoever sent it.
fn foul_network(seed: u64, dedupe: &str) -> Result<Network, Failure> {
    let foul = |seed, doubles| Weather::Foul { seed, late_ms_max: LATE_MS_MAX, doubles };
    Network::through(foul(seed, true), foul(!seed, dedupe == "forever"))
}

/// Two rounds after each other are of two lanes, one with and one without deduplication, and get the same point.
fn point_of(round: u64) -> plan::Point {
    let place = (round / 2) % POINTS.len() as u64;
    POINTS[usize::try_from(place).expect("below a length")]
}

fn tell(hits: &Hits, operations: usize) {
    for point in POINTS {
        if let Some((aimed, hit)) = hits.get(point.name) {
            println!("  {:<18} {hit} of {aimed}", point.name);
        }
    }
    println!("{operations} operations, each executed once, told once, and the same in both books");
    println!("held up and arrived late: charged once with a visibility delay, and found out without one");
}

/// A point that is aimed at again and again and never hit is none: the harness would prove nothing about it.
fn missed(hits: &Hits) -> Result<(), Failure> {
    let never = hits.iter().filter(|(_, (aimed, hit))| *aimed >= 2 && *hit == 0);
    let never: Vec<&str> = never.map(|(point, _)| *point).collect();
    if never.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("never reached, though aimed at: {}", never.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_meets_every_point_with_and_without_deduplication() {
        let mut met = BTreeMap::new();
        for round in 0..Args::SHORT.rounds {
            met.entry((point_of(round).name, point_of(round).victim as u8, round % LANES % 2)).or_insert(0);
        }
        assert_eq!(met.len(), POINTS.len() * 2);
    }

    #[test]
    fn crash_points_are_found_in_a_binary_that_has_them() {
        assert!(names_the_variable(b"\x7fELF..UNAVEZ_CRASH_AT\0.."));
        assert!(!names_the_variable(b"\x7fELF..UNAVEZ_CRASH\0_AT.."));
    }

    #[test]
    fn a_point_that_is_never_reached_is_a_failure() {
        assert!(missed(&Hits::from([("after-send", (5, 1)), ("after-claim", (1, 0))])).is_ok());
        let failure = missed(&Hits::from([("after-send", (2, 0))])).unwrap_err();
        assert!(failure.to_string().contains("after-send"), "{failure}");
    }
}
