//! What was measured, as medians with their range, as one table or one JSON document.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::bench::probe;
use crate::bench::{Mode, Subject};
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
    resident_mib: f64,
}

/// A median and what lies around it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => 0.0,
            even if even % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        let end = |value: Option<&f64>| value.copied().unwrap_or_default();
        Self { median, min: end(sorted.first()), max: end(sorted.last()) }
    }

    /// The range stands there only if there is one.
    fn shown(self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        if min < max {
            format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
        } else {
            format!("{median:.decimals$}")
        }
    }
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

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and names always have a JSON form")
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
    SHARES.iter().find(|(of, _)| *of == mode).map(|(_, least)| *least)
}

fn is_row(measured: &Measured, subject: Subject, mode: Mode, connections: u32) -> bool {
    measured.subject == subject && measured.mode == mode && measured.connections == connections
}

fn row(first: &Measured, all: &[Measured]) -> Row {
    let turns = || all.iter().filter(|one| is_row(one, first.subject, first.mode, first.connections));
    let bare = Spread::of(
        all.iter()
            .filter(|one| is_row(one, Subject::BareAxum, Mode::New, first.connections))
            .map(|one| one.rps),
    );
    let rps = Spread::of(turns().map(|one| one.rps));
    let median = |figure: fn(&Measured) -> f64| Spread::of(turns().map(figure)).median;
    Row {
        subject: first.subject,
        mode: first.mode,
        connections: first.connections,
        rps,
        of_bare: (bare.median > 0.0).then(|| rps.median / bare.median),
        p50_ms: median(|one| one.p50_ms),
        p99_ms: Spread::of(turns().map(|one| one.p99_ms)),
        p999_ms: median(|one| one.p999_ms),
        errors: turns().map(|one| one.errors).sum(),
        written_bytes: median(|one| one.written_bytes),
        cpu_us: median(|one| one.cpu_us),
        resident_mib: median(|one| one.resident_mib),
    }
}

fn name(subject: Subject) -> &'static str {
    match subject {
        Subject::BareAxum => "bare axum",
        Subject::UnavezEmpty => "unavez, empty",
        Subject::UnavezLoaded => "unavez, loaded",
        Subject::UnavezSandbox => "unavez, sandbox beside",
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, seconds, keys, runs, rows } = self;
        writeln!(
            f,
            "{machine}; runs: {runs} of {seconds} s each, medians (range); loaded: {keys} keys beforehand\n"
        )?;
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
            "RSS MiB",
        ];
        let cells: Vec<Vec<String>> =
            [header.map(str::to_owned).to_vec()].into_iter().chain(rows.iter().map(cells)).collect();
        let widths: Vec<usize> = (0..header.len())
            .map(|column| cells.iter().map(|line| line[column].chars().count()).max().unwrap_or_default())
            .collect();
        for line in &cells {
            let padded = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                // Names to the left, numbers to the right.
                if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        write!(
            f,
            "\nbytes written to the device and processor time are per request, of the server's process;\nthose of replays \
             include the making of the keys that are repeated"
        )
    }
}

fn cells(row: &Row) -> Vec<String> {
    vec![
        name(row.subject).to_owned(),
        row.mode.name().to_owned(),
        row.connections.to_string(),
        row.rps.shown(0),
        row.of_bare.map_or("-".to_owned(), |share| format!("{share:.2}")),
        format!("{:.2}", row.p50_ms),
        row.p99_ms.shown(2),
        format!("{:.2}", row.p999_ms),
        row.errors.to_string(),
        format!("{:.0}", row.written_bytes),
        format!("{:.1}", row.cpu_us),
        format!("{:.0}", row.resident_mib),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(subject: Subject, mode: Mode, rps: f64) -> Measured {
        Measured {
            subject,
            mode,
            connections: 64,
            rps,
            p50_ms: 1.0,
            p99_ms: 2.0,
            p999_ms: 3.0,
            errors: 0,
            written_bytes: 4096.0,
            cpu_us: 20.0,
            resident_mib: 50.0,
        }
    }

    fn report(new: f64, replay: f64) -> Report {
        let turns = [
            measured(Subject::BareAxum, Mode::New, 90_000.0),
            measured(Subject::UnavezLoaded, Mode::New, new),
            measured(Subject::UnavezLoaded, Mode::Replay, replay),
            measured(Subject::BareAxum, Mode::New, 110_000.0),
            measured(Subject::BareAxum, Mode::New, 100_000.0),
        ];
        Report::of(Machine { processors: 2, fsync_ms: 0.09 }, 10, 2_000_000, 3, &turns)
    }

    #[test]
    fn a_median_with_its_range() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0].into_iter()), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0].into_iter()), Spread { median: 2.5, min: 1.0, max: 4.0 });
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
        let json: serde_json::Value = serde_json::from_str(&report(25_000.0, 70_000.0).to_json()).unwrap();
        assert_eq!(json["rows"][1]["subject"], "unavez-loaded");
        assert_eq!(json["rows"][1]["of_bare"], 0.25);
        assert_eq!(json["machine"]["processors"], 2);
    }
}
