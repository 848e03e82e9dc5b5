//! The numbers of `/metrics`. Their names are promised.
//!
//! Counters of a request are found by index, not by label: a request touches no lock and hashes nothing.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use unavez_core::problem::Code;
use unavez_store::sqlite;
use unavez_tower::observe::{Event, Observer};

use unavez_core::time::Time;

use crate::books::{Reason, UndecidedSum};
use crate::money::{Amount, Currency};
use crate::outside::alarms::Alarms;

/// A route as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    Charges,
    Charge,
    Capture,
    Void,
    Refunds,
    Refund,
    Webhook,
    Entries,
    Summary,
    KeyStatus,
    KeyCancel,
    Health,
    Ready,
    OpenApi,
    Metrics,
    Console,
    /// No route of ours: all unknown paths are one, or a scan would fill the metrics.
    Unknown,
}

/// How a request was answered, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    /// By doing what it asked.
    First,
    /// From a stored outcome.
    Replayed,
    /// By a problem.
    Problem(Code),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Route,
    answer: How,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Route,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CurrencyLabels {
    currency: Currency,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Every number of one service.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_cells: [[OnceLock<Counter>; How::COUNT]; Route::COUNT],
    executions: Family<RouteLabels, Counter>,
    execution_cells: [OnceLock<Counter>; Route::COUNT],
    replays: Family<RouteLabels, Counter>,
    replay_cells: [OnceLock<Counter>; Route::COUNT],
    recoveries: Family<VerdictLabels, Counter>,
    anomalies: Family<ReasonLabels, Counter>,
    undecided: Gauge,
    undecided_oldest: Gauge<f64, AtomicU64>,
    undecided_amount: Family<CurrencyLabels, Gauge<f64, AtomicU64>>,
    replayed_value: Family<CurrencyLabels, Counter>,
    suspected_duplicates: Counter,
    fence_refused: Counter,
    finish_lost: Counter,
    purged: Counter,
    purge_lag: Gauge<f64, AtomicU64>,
    writer_queue: Gauge,
    commit_time: Histogram,
}

/// Commits take from a tenth of a millisecond (a fast disk) to seconds (one that is about to fail).
const COMMIT_BUCKETS: [f64; 12] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.25, 1.0, 2.5];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("unavez");
        let requests = Family::default();
        registry.register("requests", "Requests by route and kind of answer", requests.clone());
        let executions = Family::<RouteLabels, Counter>::default();
        registry.register("executions", "Operations that ran", executions.clone());
        let replays = Family::<RouteLabels, Counter>::default();
        registry.register("replays", "Requests answered from a stored outcome", replays.clone());
        let replayed_value = Family::default();
        registry.register(
            "replayed_value",
            "Minor units that repeated requests would have charged again",
            replayed_value.clone(),
        );
        let recoveries = Family::default();
        registry.register(
            "recovery",
            "Questions to the acquirer, by what the answer was worth",
            recoveries.clone(),
        );
        let anomalies = Family::<ReasonLabels, Counter>::default();
        // All of them, so that the first finding is growth and not a new series.
        for reason in Reason::ALL {
            drop(anomalies.get_or_create(&ReasonLabels { reason: reason.as_str() }));
        }
        registry.register(
            "webhook_anomalies",
            "What was heard of an acquirer and does not fit, by the rule it breaks",
            anomalies.clone(),
        );
        let undecided = Gauge::default();
        registry.register("unknown", "Operations whose outcome is not known", undecided.clone());
        let undecided_oldest = Gauge::default();
        registry.register_with_unit(
            "unknown_oldest",
            "How long ago the oldest operation was claimed whose outcome is not known",
            Unit::Seconds,
            undecided_oldest.clone(),
        );
        let undecided_amount = Family::default();
        registry.register(
            "unknown_amount",
            "Minor units of operations whose outcome is not known",
            undecided_amount.clone(),
        );
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let suspected_duplicates =
            counter("suspected_duplicates", "Charges of an order that was charged under another key");
        let fence_refused = counter("fence_refused", "Writes of owners that had been overtaken");
        let finish_lost = counter("finish_lost", "Outcomes that could not be stored in time");
        let purged = counter("purged", "Expired records deleted");
        let purge_lag = Gauge::default();
        registry.register_with_unit(
            "purge_lag",
            "How long the oldest expired record has been waiting for the purge",
            Unit::Seconds,
            purge_lag.clone(),
        );
        let writer_queue = Gauge::default();
        registry.register("writer_queue", "Commands waiting for the writer", writer_queue.clone());
        let commit_time = Histogram::new(COMMIT_BUCKETS);
        registry.register_with_unit("commit", "How long a commit takes", Unit::Seconds, commit_time.clone());
        Self {
            requests,
            request_cells: std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new())),
            executions,
            execution_cells: std::array::from_fn(|_| OnceLock::new()),
            replays,
            replay_cells: std::array::from_fn(|_| OnceLock::new()),
            recoveries,
            anomalies,
            undecided,
            undecided_oldest,
            undecided_amount,
            replayed_value,
            suspected_duplicates,
            fence_refused,
            finish_lost,
            purged,
            purge_lag,
            writer_queue,
            commit_time,
            registry,
        }
    }

    pub(crate) fn answered(&self, route: Route, answer: How) {
        let cell = &self.request_cells[route.index()][answer.index()];
        cell.get_or_init(|| self.requests.get_or_create_owned(&RequestLabels { route, answer })).inc();
    }

    /// An operation ran: an attempt of it, where there can be several.
    pub(crate) fn executed(&self, route: Route) {
        let cell = &self.execution_cells[route.index()];
        cell.get_or_init(|| self.executions.get_or_create_owned(&RouteLabels { route })).inc();
    }

    pub(crate) fn replayed(&self, route: Route) {
        let cell = &self.replay_cells[route.index()];
        cell.get_or_init(|| self.replays.get_or_create_owned(&RouteLabels { route })).inc();
    }

    fn recovered(&self, verdict: &'static str) {
        self.recoveries.get_or_create(&VerdictLabels { verdict }).inc();
    }

    pub(crate) fn anomaly(&self, reason: Reason) {
        self.anomalies.get_or_create(&ReasonLabels { reason: reason.as_str() }).inc();
    }

    /// What is not decided just now.
    pub(crate) fn undecided(&self, sums: &[UndecidedSum], now: Time) {
        let count: u64 = sums.iter().map(|sum| sum.operations).sum();
        self.undecided.set(i64::try_from(count).unwrap_or(i64::MAX));
        let oldest = sums.iter().map(|sum| now.since(sum.oldest)).max().unwrap_or_default();
        self.undecided_oldest.set(oldest.as_secs_f64());
        self.undecided_amount.clear();
        for sum in sums {
            let amount = self.undecided_amount.get_or_create(&CurrencyLabels { currency: sum.currency });
            #[expect(
                clippy::cast_precision_loss,
                reason = "a gauge is a float; the exact sum is in the books"
            )]
            amount.set(sum.amount as f64);
        }
    }

    /// Without the key this amount would have been charged once more.
    pub(crate) fn saved(&self, amount: Amount, currency: Currency) {
        self.replayed_value
            .get_or_create(&CurrencyLabels { currency })
            .inc_by(amount.minor_units().unsigned_abs());
    }

    pub(crate) fn suspect_duplicate(&self) {
        self.suspected_duplicates.inc();
    }

    pub(crate) fn purged(&self, records: u64, lag: Duration) {
        self.purged.inc_by(records);
        self.purge_lag.set(lag.as_secs_f64());
    }

    /// The text of `/metrics`, with the store's present numbers.
    pub(crate) fn encode(&self, store: &sqlite::Stats) -> Result<String, fmt::Error> {
        self.writer_queue.set(i64::try_from(store.queued).unwrap_or(i64::MAX));
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Hears the store's commits.
pub(crate) struct CommitWatch(pub(crate) Arc<Metrics>);

impl sqlite::Observer for CommitWatch {
    fn committed(&self, _commands: usize, took: Duration) {
        self.0.commit_time.observe(took.as_secs_f64());
    }
}

/// Hears the engine's events.
pub(crate) struct EngineWatch {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) alarms: Arc<Alarms>,
}

impl Observer for EngineWatch {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::FenceRefused { .. } => drop(self.metrics.fence_refused.inc()),
            Event::FinishLost { .. } => drop(self.metrics.finish_lost.inc()),
            Event::Recovered { verdict } => self.metrics.recovered(verdict),
            Event::Alarmed { operation_id, held } => self.alarms.raise(*operation_id, *held),
            // Requests and executions are counted where they are answered, and what is unknown where it is stored.
            _ => {}
        }
    }
}

impl Route {
    const COUNT: usize = Self::Unknown as usize + 1;

    const fn index(self) -> usize {
        self as usize
    }

    /// The path with its parameters' names.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Charges => "/v1/charges",
            Self::Charge => "/v1/charges/{id}",
            Self::Capture => "/v1/charges/{id}/capture",
            Self::Void => "/v1/charges/{id}/void",
            Self::Refunds => "/v1/charges/{id}/refunds",
            Self::Refund => "/v1/refunds/{id}",
            Self::Webhook => "/v1/webhooks/acquirer",
            Self::Entries => "/v1/ledger/entries",
            Self::Summary => "/v1/ledger/summary",
            Self::KeyStatus => "/v1/idempotency-keys/{key}",
            Self::KeyCancel => "/v1/idempotency-keys/{key}/cancel",
            Self::Health => "/healthz",
            Self::Ready => "/readyz",
            Self::OpenApi => "/openapi.json",
            Self::Metrics => "/metrics",
            Self::Console => "console",
            Self::Unknown => "unknown",
        }
    }
}

impl How {
    const COUNT: usize = Code::ALL.len() + 2;

    const fn index(self) -> usize {
        match self {
            Self::First => 0,
            Self::Replayed => 1,
            // Codes are declared in the order of `Code::ALL`, from 0 (tested).
            Self::Problem(code) => 2 + code as usize,
        }
    }
}

impl EncodeLabelValue for Route {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.path().encode(encoder)
    }
}

impl EncodeLabelValue for How {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        let word = match self {
            Self::First => "first",
            Self::Replayed => "replayed",
            Self::Problem(code) => code.as_str(),
        };
        word.encode(encoder)
    }
}

impl EncodeLabelValue for Currency {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.code().encode(encoder)
    }
}

#[cfg(test)]
mod deploy;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_has_a_cell_of_its_own() {
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(How::Problem(code).index(), at + 2, "{code}");
        }
    }

    #[test]
    fn names_are_the_promised_ones() {
        let metrics = Metrics::new();
        metrics.answered(Route::Charges, How::First);
        metrics.answered(Route::Charges, How::Problem(Code::KeyReused));
        metrics.executed(Route::Charges);
        metrics.replayed(Route::Charges);
        metrics.executed(Route::Refunds);
        metrics.recovered("settled");
        metrics.anomaly(Reason::Amount);
        let sum = UndecidedSum {
            currency: Currency::parse("EUR").unwrap(),
            operations: 2,
            oldest: Time::from_micros(0),
            amount: 5000,
        };
        metrics.undecided(&[sum], Time::from_micros(90_000_000));
        metrics.saved(Amount::of_minor_units(500).unwrap(), Currency::parse("EUR").unwrap());
        metrics.purged(3, Duration::from_millis(1500));
        let text = metrics.encode(&sqlite::Stats { queued: 7, ..sqlite::Stats::default() }).unwrap();
        for line in [
            "unavez_requests_total{route=\"/v1/charges\",answer=\"first\"} 1",
            "unavez_requests_total{route=\"/v1/charges\",answer=\"idempotency-key-reused\"} 1",
            "unavez_executions_total{route=\"/v1/charges\"} 1",
            "unavez_executions_total{route=\"/v1/charges/{id}/refunds\"} 1",
            "unavez_recovery_total{verdict=\"settled\"} 1",
            "unavez_webhook_anomalies_total{reason=\"amount\"} 1",
            "unavez_unknown 2",
            "unavez_unknown_oldest_seconds 90.0",
            "unavez_unknown_amount{currency=\"EUR\"} 5000.0",
            "unavez_replays_total{route=\"/v1/charges\"} 1",
            "unavez_replayed_value_total{currency=\"EUR\"} 500",
            "unavez_suspected_duplicates_total 0",
            "unavez_fence_refused_total 0",
            "unavez_finish_lost_total 0",
            "unavez_purged_total 3",
            "unavez_purge_lag_seconds 1.5",
            "unavez_writer_queue 7",
            "unavez_commit_seconds_count 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    }
}
