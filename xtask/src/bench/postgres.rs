//! `cargo xtask bench --postgres`: the PostgreSQL store against the textbook's own SQL on the same server.
//!
//! 1. The textbook is two transactions, as `pgbench -M prepared` runs them: insert the key unless it is there, then update
//!    its row with the answer. It has 8, 32 and 64 clients, and the best of them counts.
//! 2. The store claims and finishes as many new keys as it can, for 256 callers, and for one alone.
//! 3. All have the same server, which keeps its word at every commit, and a new database at every turn: a plan made on an
//!    empty table must not be a bad one later.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::Serialize;
use test_postgres::{Database, Server};

use crate::bench::report::Machine;
use crate::bench::table::{Spread, table};
use crate::failure::Failure;
use crate::shell;

/// What a server has on a machine of its own; the rest is as it comes.
const SETTINGS: &[&str] = &["shared_buffers = '1GB'", "max_wal_size = '8GB'", "checkpoint_timeout = '15min'"];

const TEXTBOOK_TABLE: &str = "
create table textbook (
    tenant text not null,
    key text not null,
    fingerprint text not null,
    state text not null,
    status integer,
    body text,
    created_at timestamptz not null default now(),
    primary key (tenant, key)
)";

const TEXTBOOK_CLIENTS: [u32; 3] = [8, 32, 64];
const CALLERS: [u32; 2] = [256, 1];

/// What is measured.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) seconds: u64,
    pub(super) runs: u64,
}

/// Operations of one contestant: a claim and a finish each.
#[derive(Serialize)]
struct Row {
    contestant: String,
    operations_per_second: Spread,
    /// In milliseconds.
    mean_or_median_ms: Spread,
}

#[derive(Serialize)]
pub(crate) struct Report {
    machine: Machine,
    seconds: u64,
    runs: u64,
    rows: Vec<Row>,
    /// The store's rate with 256 callers over the best of the textbook's.
    over_textbook: f64,
}

/// Who takes a turn.
#[derive(Clone, Copy)]
enum Subject {
    Textbook { clients: u32 },
    Store { callers: u32 },
}

impl Subject {
    fn all() -> Vec<Self> {
        let textbook = TEXTBOOK_CLIENTS.map(|clients| Self::Textbook { clients });
        textbook.into_iter().chain(CALLERS.map(|callers| Self::Store { callers })).collect()
    }

    fn name(self) -> String {
        match self {
            Self::Textbook { clients } => format!("textbook, pgbench with {clients} clients"),
            Self::Store { callers } => format!("unavez-store, {callers} in flight"),
        }
    }
}

/// Runs it as often as planned.
pub(super) fn run(plan: Plan, store: &Path, folder: &Path) -> Result<Report, Failure> {
    let machine = Machine::probe(folder)?;
    let server = Server::start(SETTINGS);
    let subjects = Subject::all();
    let mut found: Vec<Vec<(f64, f64)>> = subjects.iter().map(|_| Vec::new()).collect();
    for run in 1..=plan.runs {
        for (subject, found) in subjects.iter().zip(&mut found) {
            eprintln!("run {run} of {}: {}", plan.runs, subject.name());
            let database = server.database();
            found.push(match subject {
                Subject::Textbook { clients } => {
                    textbook(&server, &database, *clients, plan.seconds, folder)?
                }
                Subject::Store { callers } => of_store(store, &database, *callers, plan.seconds)?,
            });
        }
    }
    Ok(Report::of(machine, plan, &subjects, &found))
}

/// Operations per second, and their mean latency in milliseconds.
fn textbook(
    server: &Server,
    database: &Database<'_>,
    clients: u32,
    seconds: u64,
    folder: &Path,
) -> Result<(f64, f64), Failure> {
    database.query(TEXTBOOK_TABLE);
    // The server's user must be able to read it.
    let script = std::env::temp_dir().join(format!("unavez-textbook-{}.sql", std::process::id()));
    std::fs::write(&script, include_str!("textbook.sql"))
        .map_err(|error| Failure::file("write", folder, &error))?;
    let mut pgbench = server.command("pgbench");
    pgbench.args(["--no-vacuum", "--protocol=prepared", "--username=postgres", "--jobs=2"]);
    pgbench.arg("--host").arg(server.folder()).arg("--file").arg(&script);
    pgbench.arg(format!("--client={clients}")).arg(format!("--time={seconds}")).arg(database.name());
    let said = shell::capture(&mut pgbench);
    std::fs::remove_file(&script).ok();
    let said = said?;
    match (after(&said, "tps = "), after(&said, "latency average = ")) {
        (Some(rate), Some(latency)) => Ok((rate, latency)),
        _ => Err(Failure::check(format!("pgbench told no rate:\n{said}"))),
    }
}

fn after(text: &str, label: &str) -> Option<f64> {
    text.split_once(label)?.1.split_whitespace().next()?.parse().ok()
}

/// Operations per second, and their median latency in milliseconds.
fn of_store(
    store: &Path,
    database: &Database<'_>,
    callers: u32,
    seconds: u64,
) -> Result<(f64, f64), Failure> {
    let mut command = Command::new(store);
    let said = shell::capture(command.args([database.url(), callers.to_string(), seconds.to_string()]))?;
    let figures: Vec<f64> = said.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
    match figures.as_slice() {
        [rate, median_us, _] => Ok((*rate, median_us / 1000.0)),
        _ => Err(Failure::check(format!("the store's contestant told no rate: {said}"))),
    }
}

impl Report {
    fn of(machine: Machine, plan: Plan, subjects: &[Subject], found: &[Vec<(f64, f64)>]) -> Self {
        let rows: Vec<Row> = subjects
            .iter()
            .zip(found)
            .map(|(subject, found)| Row {
                contestant: subject.name(),
                operations_per_second: Spread::of(found.iter().map(|(rate, _)| *rate)),
                mean_or_median_ms: Spread::of(found.iter().map(|(_, latency)| *latency)),
            })
            .collect();
        let (textbook, store) = rows.split_at(TEXTBOOK_CLIENTS.len());
        let best = textbook.iter().map(|row| row.operations_per_second.median).fold(0.0, f64::max);
        let over_textbook = store[0].operations_per_second.median / best;
        Self { machine, seconds: plan.seconds, runs: plan.runs, rows, over_textbook }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| {
            [row.contestant.clone(), row.operations_per_second.shown(0), row.mean_or_median_ms.shown(2)]
        });
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{}", table(["contestant", "operations/s", "latency ms"], rows, 1))?;
        write!(
            f,
            "{:.1} times the best of the textbook; {} runs of {} s, pgbench tells the mean latency and the store the median",
            self.over_textbook, self.runs, self.seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_out_of_what_pgbench_says() {
        let said =
            "latency average = 2.850 ms\ninitial connection time = 9 ms\ntps = 11226.5 (without initial)\n";
        assert_eq!((after(said, "tps = "), after(said, "latency average = ")), (Some(11226.5), Some(2.85)));
        assert_eq!(after("nothing", "tps = "), None);
    }
}
