//! What a run found, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::Mode;
use super::cpu::{self, Load};
use super::tally::Tally;

/// The result of a run; its fields up to `p999_ms` are part of the contract.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    mode: Mode,
    /// Exchanges that ended within the measured time, good or not.
    requests: u64,
    errors: u64,
    seconds: f64,
    /// Good answers per second.
    rps: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    connections: usize,
    threads: usize,
    errors_by_kind: BTreeMap<String, u64>,
    /// Stopped by Ctrl-C before its time.
    interrupted: bool,
    /// Share of the time the busiest generator thread was on a core; null where the system does not say.
    generator_busy_percent: Option<f64>,
    hint: Option<String>,
}

/// How the load was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) mode: Mode,
    pub(super) connections: usize,
    pub(super) threads: usize,
}

impl Report {
    pub(super) fn new(
        shape: Shape,
        tally: &Tally,
        measured: Duration,
        interrupted: bool,
        load: Option<Load>,
    ) -> Self {
        let seconds = measured.as_secs_f64();
        Self {
            mode: shape.mode,
            requests: tally.good() + tally.errors(),
            errors: tally.errors(),
            seconds: rounded(seconds, 1000.0),
            rps: rounded(per_second(tally.good(), seconds), 10.0),
            p50_ms: tally.quantile_ms(0.5),
            p99_ms: tally.quantile_ms(0.99),
            p999_ms: tally.quantile_ms(0.999),
            max_ms: tally.max_ms(),
            connections: shape.connections,
            threads: shape.threads,
            errors_by_kind: tally.faults().map(|(fault, count)| (fault.to_string(), count)).collect(),
            interrupted,
            generator_busy_percent: load.map(|load| rounded(load.ran * 100.0, 10.0)),
            hint: load.and_then(cpu::hint),
        }
    }

    /// The report as a person reads it.
    pub(super) fn text(&self) -> String {
        let bold = anstyle::Style::new().bold();
        let red = anstyle::AnsiColor::Red.on_default();
        let yellow = anstyle::AnsiColor::Yellow.on_default();
        let mut text = format!(
            "{bold}{rps} charges/s{bold:#}   {mode}, {connections} connections, {seconds:.1} s, {requests} requests\n\
             latency   p50 {p50:.2} ms   p99 {p99:.2} ms   p99.9 {p999:.2} ms   max {max:.2} ms\n",
            rps = grouped(self.rps),
            mode = self.mode.name(),
            connections = self.connections,
            seconds = self.seconds,
            requests = self.requests,
            p50 = self.p50_ms,
            p99 = self.p99_ms,
            p999 = self.p999_ms,
            max = self.max_ms,
        );
        if self.errors == 0 {
            text.push_str("errors    none\n");
        } else {
            let kinds: Vec<String> =
                self.errors_by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            let _ = writeln!(text, "{red}errors    {}   ({}){red:#}", self.errors, kinds.join(", "));
        }
        if self.interrupted {
            let _ = writeln!(text, "{yellow}stopped by Ctrl-C{yellow:#}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{yellow}hint{yellow:#}      {hint}");
        }
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run stay far below 2^53")]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn rounded(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

/// `123456.7` as `123,457`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tally::Fault;
    use super::*;

    const SHAPE: Shape = Shape { mode: Mode::Mixed, connections: 64, threads: 1 };

    #[test]
    fn rate_counts_good_answers_and_requests_all() {
        let mut tally = Tally::new();
        (0..300).for_each(|_| tally.add_good(Duration::from_millis(2)));
        (0..100).for_each(|_| tally.add_fault(Fault::Status(503)));
        let report = Report::new(SHAPE, &tally, Duration::from_secs(2), false, None);
        assert_eq!((report.requests, report.errors), (400, 100));
        assert!((report.rps - 150.0).abs() < f64::EPSILON);
        let json = serde_json::to_value(&report).expect("plain data");
        assert_eq!(json["mode"], "mixed");
        assert_eq!(json["errors_by_kind"]["status-503"], 100);
        let text = report.text();
        assert!(text.contains("150 charges/s") && text.contains("status-503 100"), "{text}");
    }

    #[test]
    fn a_run_stopped_before_it_measured_says_so_without_dividing_by_zero() {
        let report = Report::new(SHAPE, &Tally::new(), Duration::ZERO, true, Some(Load::default()));
        assert!(report.rps.abs() < f64::EPSILON);
        assert!(report.text().contains("stopped by Ctrl-C"));
    }

    #[test]
    fn large_numbers_are_grouped() {
        for (value, text) in [(0.0, "0"), (999.4, "999"), (1000.0, "1,000"), (1_234_567.0, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }
}
