//! What was measured: latencies of good answers, and errors by kind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies are kept in microseconds up to a minute, with three digits.
const LATENCY_US_MAX: u64 = 60_000_000;

/// Why an exchange was not what the mode expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The connection could not be made.
    Connect,
    /// The connection ended before the answer was complete.
    CutOff,
    /// No answer within the time limit.
    Timeout,
    /// What came is no HTTP response.
    Malformed,
    /// A status the mode does not expect.
    Status(u16),
    /// A new key was answered as a replay: the server knows a key that was never sent.
    ReplayOfNew,
    /// A known key was answered without the replay mark: the server may have charged again.
    NotReplayed,
}

impl Fault {
    /// Whether the server broke the promise that is being measured, rather than merely failing to answer.
    pub(super) fn breaks_promise(self) -> bool {
        matches!(self, Self::ReplayOfNew | Self::NotReplayed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::CutOff => f.write_str("cut-off"),
            Self::Timeout => f.write_str("timeout"),
            Self::Malformed => f.write_str("malformed"),
            Self::Status(status) => write!(f, "status-{status}"),
            Self::ReplayOfNew => f.write_str("replay-of-new-key"),
            Self::NotReplayed => f.write_str("not-replayed"),
        }
    }
}

/// The counts of one thread, or of all together.
#[derive(Debug)]
pub(super) struct Tally {
    latency_us: Histogram<u64>,
    faults: BTreeMap<Fault, u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("constant bounds are valid");
        Self { latency_us, faults: BTreeMap::new() }
    }

    /// Counts an answer as it should be.
    pub(super) fn add_good(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latency_us.saturating_record(us.max(1));
    }

    /// Counts an exchange that was not.
    pub(super) fn add_fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Adds the counts of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("both histograms have the same bounds");
        for (&fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }

    /// Answers as they should be.
    pub(super) fn good(&self) -> u64 {
        self.latency_us.len()
    }

    /// Exchanges that were not.
    pub(super) fn errors(&self) -> u64 {
        self.faults.values().sum()
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = (Fault, u64)> {
        self.faults.iter().map(|(&fault, &count)| (fault, count))
    }

    /// The latency below which this share of the good answers stays, in milliseconds.
    pub(super) fn quantile_ms(&self, share: f64) -> f64 {
        ms(self.latency_us.value_at_quantile(share))
    }

    pub(super) fn max_ms(&self) -> f64 {
        ms(self.latency_us.max())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a minute in microseconds has 26 bits")]
fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_good_answers_alone() {
        let mut tally = Tally::new();
        for ms in 1..=1000 {
            tally.add_good(Duration::from_millis(ms));
        }
        tally.add_fault(Fault::Status(503));
        assert_eq!((tally.good(), tally.errors()), (1000, 1));
        assert!((tally.quantile_ms(0.5) - 500.0).abs() < 1.0);
        assert!((tally.quantile_ms(0.999) - 999.0).abs() < 2.0);
        assert!((tally.max_ms() - 1000.0).abs() < 1.0);
    }

    #[test]
    fn merging_adds_latencies_and_faults_by_kind() {
        let (mut one, mut two) = (Tally::new(), Tally::new());
        one.add_good(Duration::from_micros(10));
        one.add_fault(Fault::CutOff);
        two.add_good(Duration::from_secs(3600));
        two.add_fault(Fault::CutOff);
        two.add_fault(Fault::NotReplayed);
        one.merge(&two);
        assert_eq!(one.good(), 2);
        assert_eq!(one.faults().collect::<Vec<_>>(), [(Fault::CutOff, 2), (Fault::NotReplayed, 1)]);
        assert!(one.max_ms() <= 60_100.0, "an hour is kept as the longest latency that has a place");
    }

    #[test]
    fn nothing_measured_is_all_zero() {
        let tally = Tally::new();
        assert_eq!((tally.good(), tally.errors()), (0, 0));
        assert!(tally.quantile_ms(0.99).abs() < f64::EPSILON);
    }
}
