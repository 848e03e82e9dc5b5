//! `cargo xtask bench`: how fast, against what.
//!
//! 1. Only ratios inside one run mean anything: generator, service and database share the machine, and machines
//!    differ. Every figure stands beside the bare contestant's of the same run.
//! 2. Contestants take turns (A B C A B C …), so that a slow minute of the machine hits all of them. Each figure is
//!    the median of the runs, with its range.
//! 3. The same generator (`unavez bench`) sends the same bodies to all. Databases lie in the target folder, on a real
//!    disk, and are deleted at the end.
//! 4. Keys that a stretch of load repeats are charged before what it uses is counted.
//!
//! No test asserts a speed. `--check` is for a person, or a machine that does nothing else.

mod contestant;
mod generator;
mod postgres;
mod probe;
mod race;
mod recovery;
mod report;
mod table;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::bench::generator::{Answers, Mode};
use crate::bench::race::Race;
use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// Measure the service and its middleware against a bare axum server, in one run
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench
      every contestant at 16, 64 and 256 connections, three times in turn
  cargo xtask bench --quick
  cargo xtask bench --only bare-axum,middleware-memory --connections 64
      what the middleware costs a handler: the column \"over bare\" is its processor time
  cargo xtask bench --postgres
      the PostgreSQL store against the textbook's two transactions on the same server
  cargo xtask bench --recovery 100000
      how fast lost outcomes are found out, and what that costs callers meanwhile")]
pub(crate) struct Args {
    /// A first look instead of a measurement: 2 s per figure, 100,000 keys, one run, 64 connections
    #[arg(long)]
    quick: bool,

    /// Instead: let this many charges lose their outcome, and measure how fast it is found out, alone and beside new
    /// charges, which --seconds and the first of --connections are then about
    #[arg(long, value_name = "N", conflicts_with_all = ["quick", "keys", "only", "check"])]
    #[arg(value_parser = clap::value_parser!(u64).range(2..))]
    recovery: Option<u64>,

    /// Instead: the PostgreSQL store against the textbook's SQL in pgbench, on a server of its own
    #[arg(long, conflicts_with_all = ["recovery", "keys", "only", "connections", "check"])]
    postgres: bool,

    /// Leave out the other contestants
    #[arg(long, value_name = "NAME,NAME", value_enum, value_delimiter = ',', num_args = 1..)]
    only: Vec<Subject>,

    /// How long each figure is measured [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// How many random keys the loaded database holds beforehand; 0 leaves it out [default: 2000000]
    #[arg(long, value_name = "N")]
    keys: Option<u64>,

    /// How often every contestant takes its turn; an odd number has a true median [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,

    /// How many connections the generator keeps, one figure for each [default: 16,64,256]
    #[arg(long, value_name = "N,N", value_delimiter = ',', num_args = 1..)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    connections: Vec<u32>,

    /// What goes to standard output
    #[arg(long, value_enum, default_value = "table")]
    format: Format,

    /// Write the JSON document to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Exit 1 if a new charge or a replay at 64 connections falls below its share of bare axum
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Table,
    Json,
}

/// What is measured, with every choice made.
struct Plan {
    seconds: u64,
    keys: u64,
    runs: u64,
    connections: Vec<u32>,
    subjects: Vec<Subject>,
}

impl Plan {
    fn of(args: &Args) -> Self {
        let (seconds, keys, runs) = if args.quick { (2, 100_000, 1) } else { (10, 2_000_000, 3) };
        let keys = args.keys.unwrap_or(keys);
        let is_asked_for = |subject: &Subject| args.only.is_empty() || args.only.contains(subject);
        let takes_part =
            |subject: &Subject| is_asked_for(subject) && (keys > 0 || *subject != Subject::UnavezLoaded);
        Self {
            seconds: args.seconds.unwrap_or(seconds),
            keys: if is_asked_for(&Subject::UnavezLoaded) { keys } else { 0 },
            runs: args.runs.unwrap_or(runs),
            connections: connections(args),
            subjects: Subject::value_variants().iter().copied().filter(takes_part).collect(),
        }
    }
}

fn connections(args: &Args) -> Vec<u32> {
    let by_default: &[u32] = if args.quick || args.recovery.is_some() { &[64] } else { &[16, 64, 256] };
    if args.connections.is_empty() { by_default.to_vec() } else { args.connections.clone() }
}

/// Who answers, in the order of their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum Subject {
    /// Parses JSON and answers 201
    BareAxum,
    /// The same handler behind the layer, on the memory store
    MiddlewareMemory,
    /// The same handler behind the layer as a recoverable route, on SQLite: two commits, no call outside
    MiddlewareSqlite,
    /// The service on a database that is new in every turn
    UnavezEmpty,
    /// The service on a new database, with the sandbox acquirer in a process of its own: two commits here, and a call
    UnavezSandbox,
    /// The service on the database that was loaded beforehand, and grows from turn to turn
    UnavezLoaded,
}

impl Subject {
    /// A server without memory cannot tell a repeat from a new key.
    fn modes(self) -> &'static [Mode] {
        match self {
            Self::BareAxum | Self::UnavezSandbox => &[Mode::New],
            Self::MiddlewareMemory | Self::MiddlewareSqlite => &[Mode::New, Mode::Replay],
            Self::UnavezEmpty | Self::UnavezLoaded => &[Mode::New, Mode::Replay, Mode::Mixed],
        }
    }

    const fn answers(self) -> Answers {
        match self {
            Self::BareAxum => Answers::Any,
            Self::MiddlewareMemory | Self::MiddlewareSqlite => Answers::WithKeys,
            Self::UnavezEmpty | Self::UnavezLoaded | Self::UnavezSandbox => Answers::OfTheService,
        }
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<(), Failure> {
    if !Path::new("/proc/self/io").exists() {
        return Err(Failure::lacking(
            "the bench reads /proc, which this system does not have: run it on Linux",
        ));
    }
    let plan = Plan::of(args);
    if args.check && !plan.connections.contains(&report::CHECKED_CONNECTIONS) {
        return Err(Failure::Usage(format!(
            "--check judges the figures at {} connections, which --connections leaves out",
            report::CHECKED_CONNECTIONS
        )));
    }
    build(workspace, args)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&workspace.target)
        .map_err(|error| Failure::file("make a folder in", &workspace.target, &error))?;
    let binaries = workspace.target.join("release");
    if args.postgres {
        let plan = postgres::Plan { seconds: plan.seconds, runs: plan.runs };
        return told(args, &postgres::run(plan, &binaries.join("contestant-postgres-store"), folder.path())?);
    }
    if let Some(attempts) = args.recovery {
        let Plan { seconds, runs, ref connections, .. } = plan;
        let plan = recovery::Plan { attempts, seconds, connections: connections[0], runs };
        return told(args, &recovery::run(plan, &binaries.join("unavez"), folder.path())?);
    }
    let report = Race::new(&binaries, folder.path(), &plan).run()?;
    told(args, &report)?;
    let missed = report.missed();
    if args.check && !missed.is_empty() {
        return Err(Failure::check(missed.join("\n")));
    }
    Ok(())
}

/// Shows a report in the form that was asked for.
fn told(args: &Args, report: &(impl Serialize + std::fmt::Display)) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report).expect("numbers and names always have a JSON form");
    if let Some(path) = &args.json {
        std::fs::write(path, &json).map_err(|error| Failure::file("write", path, &error))?;
    }
    match args.format {
        Format::Table => println!("{report}"),
        Format::Json => println!("{json}"),
    }
    Ok(())
}

fn build(workspace: &Workspace, args: &Args) -> Result<(), Failure> {
    let packages: &[&str] = if args.postgres {
        &["contestant-postgres-store"]
    } else {
        &["unavez", "contestant-bare-axum", "contestant-middleware"]
    };
    let mut build = workspace.cargo(&["build", "--locked", "--release"]);
    shell::run(build.args(packages.iter().flat_map(|package| ["--package", package])))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        args: Args,
    }

    fn plan(line: &str) -> (u64, u64, u64, Vec<u32>) {
        let bench = Bench::try_parse_from(line.split(' ')).unwrap();
        let Plan { seconds, keys, runs, connections, .. } = Plan::of(&bench.args);
        (seconds, keys, runs, connections)
    }

    #[test]
    fn a_measurement_is_three_turns_on_two_million_keys() {
        assert_eq!(plan("bench"), (10, 2_000_000, 3, vec![16, 64, 256]));
    }

    #[test]
    fn quick_is_short_and_what_is_said_outright_counts() {
        assert_eq!(plan("bench --quick"), (2, 100_000, 1, vec![64]));
        assert_eq!(plan("bench --quick --keys 0 --runs 3"), (2, 0, 3, vec![64]));
        assert_eq!(plan("bench --connections 8,16"), (10, 2_000_000, 3, vec![8, 16]));
        assert_eq!(plan("bench --recovery 9"), (10, 2_000_000, 3, vec![64]));
    }

    #[test]
    fn contestants_are_all_or_those_asked_for_and_none_is_loaded_with_nothing() {
        let subjects = |line: &str| Plan::of(&Bench::try_parse_from(line.split(' ')).unwrap().args).subjects;
        assert_eq!(subjects("bench"), Subject::value_variants());
        assert!(!subjects("bench --keys 0").contains(&Subject::UnavezLoaded));
        assert_eq!(
            subjects("bench --only middleware-memory,bare-axum"),
            [Subject::BareAxum, Subject::MiddlewareMemory]
        );
    }

    #[test]
    fn recovery_is_a_measurement_of_its_own() {
        assert!(Bench::try_parse_from(["bench", "--recovery", "100", "--check"]).is_err());
        assert!(Bench::try_parse_from(["bench", "--recovery", "1"]).is_err());
    }
}
