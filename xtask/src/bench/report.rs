//! What was measured, as medians with their range, as one table or one JSON document.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::bench::generator::Mode;
use crate::bench::table::{Spread, table};
use crate::bench::{Subject, probe};
use crate::failure::Failure;

/// The least share of bare axum at [`CHECKED_CONNECTIONS`] that `--check` accepts.
const SHARES: &[(Mode, f64)] = &[(Mode::New, 0.25), (Mode::Replay, 0.70)];
/// The same for a charge that goes through an acquirer in another process.
const SANDBOX_SHARE: f64 = 0.12;
pub(super) const CHECKED_CONNECTIONS: u32 = 64;

/// One figure of one turn.
pub(crate) struct Measured {
    pub(crate) subject: Subject,
    pub(crate) mode: Mode,
    pub(crate) connections: u32,
    /// Counted from 1.
    pub(crate) turn: u64,
    pub(crate) rps: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) errors: u64,
    /// Per request, like the processor time.
    pub(crate) written_bytes: f64,
    pub(crate) cpu_us: f64,
    pub(crate) resident_mib: f64,
}

/// What the figures depend on and a reader elsewhere cannot see.
#[derive(Serialize)]
pub(crate) struct Machine {
    processors: usize,
    fsync_ms: f64,
}

impl Machine {
    pub(crate) fn probe(folder: &Path) -> Result<Self, Failure> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { processors, fsync_ms: probe::fsync_time(folder)?.as_secs_f64() * 1e3 })
    }

    #[cfg(test)]
    pub(super) const fn sample() -> Self {
        Self { processors: 2, fsync_ms: 0.09 }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} processors, an fsync takes {:.3} ms", self.processors, self.fsync_ms)
    }
}

#[derive(Serialize)]
pub(crate) struct Report {
    machine: Machine,
    seconds: u64,
    keys: u64,
    runs: u64,
    rows: Vec<Row>,
}

/// One line: the medians over the turns.
#[derive(Serialize)]
struct Row {
    subject: Subject,
    mode: Mode,
    connections: u32,
    rps: Spread,
    /// Of the bare contestant at the same number of connections; 1 for itself.
    of_bare: Option<f64>,
    p50_ms: f64,
    p99_ms: Spread,
    p999_ms: f64,
    errors: u64,
    written_bytes: f64,
    cpu_us: f64,
    /// Processor time beyond that of the bare contestant in the same turn.
    cpu_over_bare_us: Option<Spread>,
    resident_mib: f64,
}

impl Report {
    pub(crate) fn of(machine: Machine, seconds: u64, keys: u64, runs: u64, measured: &[Measured]) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for first in measured {
            let known = |row: &Row| is_row(first, row.subject, row.mode, row.connections);
            if !rows.iter().any(known) {
                rows.push(row(first, measured));
            }
        }
        Self { machine, seconds, keys, runs, rows }
    }

    /// Every figure below its share, in words.
    pub(crate) fn missed(&self) -> Vec<String> {
        let checked = self
            .rows
            .iter()
            .filter(|row| row.subject != Subject::BareAxum && row.connections == CHECKED_CONNECTIONS);
        checked
            .filter_map(|row| {
                let least = share_of(row.subject, row.mode)?;
                let share = row.of_bare.unwrap_or(0.0);
                (share < least).then(|| {
                    format!(
                        "{} {}: {share:.2} of bare axum, at least {least:.2}",
                        name(row.subject),
                        row.mode.name()
                    )
                })
            })
            .collect()
    }
}

/// The least share of bare axum, where there is one.
fn share_of(subject: Subject, mode: Mode) -> Option<f64> {
    if subject == Subject::UnavezSandbox {
        return Some(SANDBOX_SHARE);
    }
    if !matches!(subject, Subject::UnavezEmpty | Subject::UnavezLoaded) {
        return None;
    }
    SHARES.iter().find(|(of, _)| *of == mode).map(|(_, least)| *least)
}

fn is_row(measured: &Measured, subject: Subject, mode: Mode, connections: u32) -> bool {
    measured.subject == subject && measured.mode == mode && measured.connections == connections
}

fn row(first: &Measured, all: &[Measured]) -> Row {
    let turns = || all.iter().filter(|one| is_row(one, first.subject, first.mode, first.connections));
    let bare = || all.iter().filter(|one| is_row(one, Subject::BareAxum, Mode::New, first.connections));
    let bare_rps = Spread::of(bare().map(|one| one.rps)).median;
    let over_bare = turns().filter_map(|one| {
        let beside = bare().find(|bare| bare.turn == one.turn)?;
        Some(one.cpu_us - beside.cpu_us)
    });
    let rps = Spread::of(turns().map(|one| one.rps));
    let median = |figure: fn(&Measured) -> f64| Spread::of(turns().map(figure)).median;
    Row {
        subject: first.subject,
        mode: first.mode,
        connections: first.connections,
        rps,
        of_bare: (bare_rps > 0.0).then(|| rps.median / bare_rps),
        p50_ms: median(|one| one.p50_ms),
        p99_ms: Spread::of(turns().map(|one| one.p99_ms)),
        p999_ms: median(|one| one.p999_ms),
        errors: turns().map(|one| one.errors).sum(),
        written_bytes: median(|one| one.written_bytes),
        cpu_us: median(|one| one.cpu_us),
        cpu_over_bare_us: (bare_rps > 0.0).then(|| Spread::of(over_bare)),
        resident_mib: median(|one| one.resident_mib),
    }
}

pub(super) const fn name(subject: Subject) -> &'static str {
    match subject {
        Subject::BareAxum => "bare axum",
        Subject::MiddlewareMemory => "middleware, memory",
        Subject::MiddlewareSqlite => "middleware, sqlite",
        Subject::UnavezEmpty => "unavez, empty",
        Subject::UnavezLoaded => "unavez, loaded",
        Subject::UnavezSandbox => "unavez, sandbox beside",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, seconds, keys, runs, rows } = self;
        let loaded = if *keys > 0 { format!("; loaded: {keys} keys beforehand") } else { String::new() };
        writeln!(f, "{machine}; runs: {runs} of {seconds} s each, medians (range){loaded}\n")?;
        let header = [
            "contestant",
            "asked",
            "conn",
            "requests/s",
            "of bare",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "errors",
            "bytes written",
            "cpu us",
            "over bare",
            "RSS MiB",
        ];
        writeln!(f, "{}", table(header, rows.iter().map(cells), 2))?;
        write!(
            f,
            "bytes written to the device and processor time are per request, of the server's process; over bare: \
             processor\ntime beyond the bare contestant's in the same turn"
        )
    }
}

fn cells(row: &Row) -> [String; 13] {
    let none = || "-".to_owned();
    [
        name(row.subject).to_owned(),
        row.mode.name().to_owned(),
        row.connections.to_string(),
        row.rps.shown(0),
        row.of_bare.map_or_else(none, |share| format!("{share:.2}")),
        format!("{:.2}", row.p50_ms),
        row.p99_ms.shown(2),
        format!("{:.2}", row.p999_ms),
        row.errors.to_string(),
        format!("{:.0}", row.written_bytes),
        format!("{:.1}", row.cpu_us),
        row.cpu_over_bare_us.map_or_else(none, |over| over.shown(1)),
        format!("{:.0}", row.resident_mib),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(subject: Subject, mode: Mode, turn: u64, rps: f64) -> Measured {
        Measured {
            subject,
            mode,
            connections: 64,
            turn,
            rps,
            p50_ms: 1.0,
            p99_ms: 2.0,
            p999_ms: 3.0,
            errors: 0,
            written_bytes: 4096.0,
            cpu_us: 1e6 / rps,
            resident_mib: 50.0,
        }
    }

    fn report(new: f64, replay: f64) -> Report {
        let turns = [
            measured(Subject::BareAxum, Mode::New, 1, 90_000.0),
            measured(Subject::UnavezLoaded, Mode::New, 3, new),
            measured(Subject::UnavezLoaded, Mode::Replay, 3, replay),
            measured(Subject::BareAxum, Mode::New, 2, 110_000.0),
            measured(Subject::BareAxum, Mode::New, 3, 100_000.0),
        ];
        Report::of(Machine::sample(), 10, 2_000_000, 3, &turns)
    }

    #[test]
    fn shares_are_of_the_bare_median() {
        assert_eq!(report(25_000.0, 70_000.0).missed(), Vec::<String>::new());
        assert_eq!(
            report(24_000.0, 69_000.0).missed(),
            [
                "unavez, loaded new: 0.24 of bare axum, at least 0.25",
                "unavez, loaded replay: 0.69 of bare axum, at least 0.70",
            ]
        );
    }

    #[test]
    fn the_table_has_one_line_per_figure() {
        let table = report(25_000.0, 70_000.0).to_string();
        assert!(table.contains("bare axum       new       64  100000 (90000-110000)     1.00"), "{table}");
        assert!(table.contains("unavez, loaded  replay    64                  70000     0.70"), "{table}");
    }

    #[test]
    fn the_document_can_be_read_by_programs() {
        let json: serde_json::Value = serde_json::to_value(report(25_000.0, 70_000.0)).unwrap();
        assert_eq!(json["rows"][1]["subject"], "unavez-loaded");
        assert_eq!(json["rows"][1]["of_bare"], 0.25);
        assert_eq!(json["machine"]["processors"], 2);
    }

    #[test]
    fn processor_time_is_held_against_the_bare_contestant_of_the_same_turn() {
        let over = report(25_000.0, 70_000.0).rows[1].cpu_over_bare_us;
        assert_eq!(over, Some(Spread::of([40.0 - 10.0].into_iter())));
    }
}
