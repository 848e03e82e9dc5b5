//! What the trials found, as medians with their range.

use std::fmt;

use serde::Serialize;

use super::Plan;
use super::trial::Found;
use crate::bench::generator::Generated;
use crate::bench::report::Machine;
use crate::bench::table::{Spread, table};

#[derive(Serialize)]
pub(crate) struct Report {
    machine: Machine,
    attempts: u64,
    seconds: u64,
    connections: u32,
    runs: u64,
    recovery_alone: Recovery,
    recovery_beside: Beside,
    load_alone: Callers,
    /// In the latest run: operations at the acquirer, each executed once and in the ledger.
    executed_once: u64,
}

#[derive(Serialize)]
struct Recovery {
    settled_per_second: Spread,
    cpu_us: f64,
    written_bytes: f64,
}

#[derive(Serialize)]
struct Beside {
    settled_per_second: Spread,
    #[serde(flatten)]
    callers: Callers,
}

/// What callers of new charges saw.
#[derive(Serialize)]
struct Callers {
    rps: Spread,
    p50_ms: Spread,
    p99_ms: Spread,
    p999_ms: Spread,
    errors: u64,
}

impl Callers {
    fn of<'a>(loads: impl Iterator<Item = &'a Generated> + Clone) -> Self {
        let spread = |figure: fn(&Generated) -> f64| Spread::of(loads.clone().map(figure));
        Self {
            rps: spread(|load| load.rps),
            p50_ms: spread(|load| load.p50_ms),
            p99_ms: spread(|load| load.p99_ms),
            p999_ms: spread(|load| load.p999_ms),
            errors: loads.clone().map(|load| load.errors).sum(),
        }
    }
}

impl Report {
    pub(super) fn of(machine: Machine, plan: Plan, found: &[Found]) -> Self {
        let spread = |figure: fn(&Found) -> f64| Spread::of(found.iter().map(figure));
        let Plan { attempts, seconds, connections, runs } = plan;
        Self {
            machine,
            attempts,
            seconds,
            connections,
            runs,
            recovery_alone: Recovery {
                settled_per_second: spread(|one| one.alone),
                cpu_us: spread(|one| one.cpu_us).median,
                written_bytes: spread(|one| one.written_bytes).median,
            },
            recovery_beside: Beside {
                settled_per_second: spread(|one| one.beside),
                callers: Callers::of(found.iter().map(|one| &one.load_beside)),
            },
            load_alone: Callers::of(found.iter().map(|one| &one.load_alone)),
            executed_once: found.last().map(|one| one.executed).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, attempts, seconds, connections, runs, .. } = self;
        writeln!(
            f,
            "{machine}; {attempts} lost outcomes; new charges at {connections} connections for {seconds} s; runs: \
             {runs}, medians (range)\n"
        )?;
        let header = ["", "settled/s", "charges/s", "p50 ms", "p99 ms", "p99.9 ms", "errors"];
        let alone = self.recovery_alone.settled_per_second.shown(0);
        let beside = self.recovery_beside.settled_per_second.shown(0);
        let rows = [
            ["recovery alone", &alone, "-", "-", "-", "-", "-"].map(str::to_owned),
            line("recovery beside new charges", beside, &self.recovery_beside.callers),
            line("new charges alone", "-".to_owned(), &self.load_alone),
        ];
        writeln!(f, "{}", table(header, rows.into_iter(), 1))?;
        let Recovery { cpu_us, written_bytes, .. } = self.recovery_alone;
        write!(
            f,
            "each one settled alone cost the service {cpu_us:.0} us of processor time and {written_bytes:.0} bytes \
             written;\nafterwards {} operations stood at the acquirer, each executed once and each in the ledger",
            self.executed_once
        )
    }
}

fn line(name: &str, settled: String, callers: &Callers) -> [String; 7] {
    let Callers { rps, p50_ms, p99_ms, p999_ms, errors } = callers;
    let name = name.to_owned();
    [name, settled, rps.shown(0), p50_ms.shown(2), p99_ms.shown(2), p999_ms.shown(2), errors.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(rps: f64) -> Generated {
        Generated { requests: 10, errors: 0, rps, p50_ms: 1.0, p99_ms: 2.0, p999_ms: 3.0 }
    }

    fn found(alone: f64) -> Found {
        Found {
            alone,
            cpu_us: 100.0,
            written_bytes: 5000.0,
            beside: 900.0,
            load_beside: generated(7000.0),
            load_alone: generated(9000.0),
            executed: 110_000,
        }
    }

    #[test]
    fn a_line_for_each_stretch_and_a_document_with_the_same() {
        let plan = Plan { attempts: 100_000, seconds: 10, connections: 64, runs: 2 };
        let report = Report::of(Machine::sample(), plan, &[found(1000.0), found(3000.0)]);
        let text = report.to_string();
        assert!(text.contains("recovery alone               2000 (1000-3000)          -"), "{text}");
        assert!(text.contains("recovery beside new charges               900       7000    1.00"), "{text}");
        assert!(text.contains("110000 operations"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["recovery_beside"]["rps"]["median"], 7000.0);
        assert_eq!(json["load_alone"]["p99_ms"]["median"], 2.0);
    }
}
