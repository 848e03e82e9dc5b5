//! `cargo xtask bench`: how fast, against what.
//!
//! 1. Only ratios inside one run mean anything: generator, service and database share the machine, and machines
//!    differ. Every figure stands beside the bare contestant's of the same run.
//! 2. Contestants take turns (A B C A B C …), so that a slow minute of the machine hits all of them. Each figure is
//!    the median of the runs, with its range.
//! 3. The same generator (`unavez bench`) sends the same bodies to all. Databases lie in the target folder, on a real
//!    disk, and are deleted at the end.
//!
//! No test asserts a speed. `--check` is for a person, or a machine that does nothing else.

mod contestant;
mod probe;
mod race;
mod report;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::bench::race::Race;
use crate::failure::Failure;
use crate::shell;
use crate::workspace::Workspace;

/// Measure the service against a bare axum server, in one run
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A first look instead of a measurement: 2 s per figure, 100,000 keys, one run, 64 connections
    #[arg(long)]
    quick: bool,

    /// How long each figure is measured [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// How many random keys the loaded database holds beforehand; 0 leaves it out [default: 2000000]
    #[arg(long, value_name = "N")]
    keys: Option<u64>,

    /// How often every contestant takes its turn; an odd number has a true median [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,

    /// How many connections the generator keeps
    #[arg(long, value_name = "N,N", value_delimiter = ',', num_args = 1.., default_values_t = [64, 256])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    connections: Vec<u32>,

    /// What goes to standard output
    #[arg(long, value_enum, default_value = "table")]
    format: Format,

    /// Write the JSON document to this file too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

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
}

impl Plan {
    fn of(args: &Args) -> Self {
        let (seconds, keys, runs) = if args.quick { (2, 100_000, 1) } else { (10, 2_000_000, 3) };
        let connections = if args.quick {
            args.connections.iter().take(1).copied().collect()
        } else {
            args.connections.clone()
        };
        Self {
            seconds: args.seconds.unwrap_or(seconds),
            keys: args.keys.unwrap_or(keys),
            runs: args.runs.unwrap_or(runs),
            connections,
        }
    }
}

/// What the generator asks for: keys never seen, keys it has already charged, or half of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    New,
    Replay,
    Mixed,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Replay => "replay",
            Self::Mixed => "mixed",
        }
    }
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Subject {
    BareAxum,
    /// The service on a database that is new in every turn.
    UnavezEmpty,
    /// The service on the database that was loaded beforehand, and grows from turn to turn.
    UnavezLoaded,
    /// The service on a new database, with the sandbox acquirer in a process of its own: two commits here, and a call.
    UnavezSandbox,
}

impl Subject {
    /// A server without memory cannot tell a repeat from a new key.
    fn modes(self) -> &'static [Mode] {
        match self {
            Self::BareAxum => &[Mode::New],
            Self::UnavezEmpty | Self::UnavezLoaded => &[Mode::New, Mode::Replay, Mode::Mixed],
            Self::UnavezSandbox => &[Mode::New],
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
    build(workspace)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&workspace.target)
        .map_err(|error| Failure::file("make a folder in", &workspace.target, &error))?;
    let race = Race { binaries: workspace.target.join("release"), folder: folder.path(), plan: &plan };
    let report = race.run()?;
    if let Some(path) = &args.out {
        std::fs::write(path, report.to_json()).map_err(|error| Failure::file("write", path, &error))?;
    }
    match args.format {
        Format::Table => println!("{report}"),
        Format::Json => println!("{}", report.to_json()),
    }
    let missed = report.missed();
    if args.check && !missed.is_empty() {
        return Err(Failure::check(missed.join("\n")));
    }
    Ok(())
}

fn build(workspace: &Workspace) -> Result<(), Failure> {
    let packages = ["--package", "unavez", "--package", "contestant-bare-axum"];
    shell::run(workspace.cargo(&["build", "--locked", "--release"]).args(packages))
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
        let Plan { seconds, keys, runs, connections } = Plan::of(&bench.args);
        (seconds, keys, runs, connections)
    }

    #[test]
    fn a_measurement_is_three_turns_on_two_million_keys() {
        assert_eq!(plan("bench"), (10, 2_000_000, 3, vec![64, 256]));
    }

    #[test]
    fn quick_is_short_and_what_is_said_outright_counts() {
        assert_eq!(plan("bench --quick"), (2, 100_000, 1, vec![64]));
        assert_eq!(plan("bench --quick --keys 0 --runs 3"), (2, 0, 3, vec![64]));
        assert_eq!(plan("bench --connections 8,16"), (10, 2_000_000, 3, vec![8, 16]));
    }
}
