//! The alerts and the dashboard of `deploy/` ask for numbers that exist, by labels that exist.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;

/// The names that are promised to whoever builds upon them.
const PROMISED: [&str; 16] = [
    "unavez_requests_total",
    "unavez_executions_total",
    "unavez_replays_total",
    "unavez_fence_refused_total",
    "unavez_finish_lost_total",
    "unavez_unknown",
    "unavez_unknown_oldest_seconds",
    "unavez_unknown_amount",
    "unavez_recovery_total",
    "unavez_webhook_anomalies_total",
    "unavez_purged_total",
    "unavez_purge_lag_seconds",
    "unavez_writer_queue",
    "unavez_commit_seconds",
    "unavez_replayed_value_total",
    "unavez_suspected_duplicates_total",
];

/// Labels that Prometheus adds to what it scrapes.
const ADDED: [&str; 2] = ["instance", "job"];

/// Every series of a service in which everything has happened: name, then label, then its values.
type Series = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn series() -> Series {
    let metrics = Metrics::new();
    let eur = Currency::parse("EUR").unwrap();
    for answer in [How::First, How::Replayed].into_iter().chain(Code::ALL.map(How::Problem)) {
        metrics.answered(Route::Charges, answer);
    }
    metrics.executed(Route::Charges);
    metrics.replayed(Route::Charges);
    // The words of the engine, which names them as it observes.
    for verdict in ["settled", "pending", "send-again", "cannot-say", "held"] {
        metrics.recovered(verdict);
    }
    let sum = UndecidedSum { currency: eur, operations: 1, oldest: Time::from_micros(0), amount: 1 };
    metrics.undecided(&[sum], Time::from_micros(1));
    metrics.saved(Amount::of_minor_units(1).unwrap(), eur);
    let text = metrics.encode(&sqlite::Stats::default()).unwrap();
    let mut series = Series::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = series.entry(name.to_owned()).or_default();
        let Some((inside, _)) = rest.rsplit_once('}') else { continue };
        for label in inside.split("\",") {
            let (label, value) = label.split_once("=\"").unwrap();
            labels.entry(label.to_owned()).or_default().insert(value.trim_end_matches('"').to_owned());
        }
    }
    series
}

/// The expressions of the alerts, one a line, as the file has them.
fn of_alerts() -> Vec<String> {
    let text = include_str!("../../../../deploy/alerts.yml");
    let rules = text.lines().filter(|line| line.trim_start().starts_with("- alert: ")).count();
    let expressions: Vec<String> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("expr: ").map(str::to_owned)).collect();
    assert_eq!(expressions.len(), rules, "one expression a rule, on one line");
    expressions
}

fn of_dashboard() -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(text) if name == "expr" => found.push(text.clone()),
                        _ => collect(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(&serde_json::from_str(include_str!("../../../../deploy/grafana.json")).unwrap(), &mut found);
    found
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// What an expression asks for: each name of ours with the matchers behind it.
fn asked(expression: &str) -> Vec<(&str, &str)> {
    expression
        .match_indices("unavez_")
        .map(|(at, _)| {
            let rest = &expression[at..];
            let (name, behind) = rest.split_at(rest.find(|it| !is_word(it)).unwrap_or(rest.len()));
            let matchers = behind.strip_prefix('{').map_or("", |inside| inside.split_once('}').unwrap().0);
            (name, matchers)
        })
        .collect()
}

/// The labels an expression groups by.
fn grouped_by(expression: &str) -> impl Iterator<Item = &str> {
    let groups = expression.split("by (").skip(1).map(|rest| rest.split_once(')').unwrap().0);
    groups.flat_map(|labels| labels.split(", "))
}

/// What is wrong with an expression; empty: nothing.
fn faults(expression: &str, series: &Series) -> Vec<String> {
    let mut faults = Vec::new();
    let count = |one| expression.matches(one).count();
    if count('(') != count(')') || count('{') != count('}') || count('[') != count(']') {
        faults.push("brackets that do not close".to_owned());
    }
    let asked = asked(expression);
    let known = |label: &str| ADDED.contains(&label) || label == "le";
    for (name, matchers) in &asked {
        let Some(labels) = series.get(*name) else {
            faults.push(format!("no metric {name}"));
            continue;
        };
        for matcher in matchers.split("\",").filter(|it| !it.is_empty()) {
            let (label, pattern) = matcher.split_once(['=', '!']).unwrap();
            let pattern = pattern.trim_start_matches(['=', '~']).trim_matches('"');
            match labels.get(label) {
                None if known(label) => {}
                None => faults.push(format!("{name} has no label {label}")),
                Some(values) => faults.extend(
                    pattern
                        .split('|')
                        .map(|value| value.trim_end_matches(".*"))
                        .filter(|value| !values.contains(*value))
                        .map(|value| format!("{name} has no {label} {value}")),
                ),
            }
        }
    }
    for label in grouped_by(expression) {
        if !known(label)
            && !asked.iter().all(|(name, _)| series.get(*name).is_some_and(|it| it.contains_key(label)))
        {
            faults.push(format!("grouped by {label}, which is no label"));
        }
    }
    faults
}

#[test]
fn the_service_has_every_metric_that_is_promised() {
    let series = series();
    for name in PROMISED {
        assert!(series.contains_key(name) || series.contains_key(&format!("{name}_bucket")), "{name}");
    }
}

#[test]
fn alerts_and_dashboard_ask_for_what_exists() {
    let series = series();
    for expression in of_alerts().into_iter().chain(of_dashboard()) {
        assert!(!asked(&expression).is_empty(), "asks for nothing of ours: {expression}");
        assert_eq!(faults(&expression, &series), [""; 0], "{expression}");
    }
}

#[test]
fn the_dashboard_shows_every_promised_metric() {
    let shown = of_dashboard().join("\n");
    for name in PROMISED {
        assert!(shown.contains(name), "{name}");
    }
}

/// An alert about growth needs a series before the first finding: what appears with its first count has not grown.
#[test]
fn every_reason_is_there_before_anything_was_found() {
    let text = Metrics::new().encode(&sqlite::Stats::default()).unwrap();
    for reason in Reason::ALL {
        let line = format!("unavez_webhook_anomalies_total{{reason=\"{}\"}} 0", reason.as_str());
        assert!(text.lines().any(|it| it == line), "{line}");
    }
}

#[test]
fn faults_are_found() {
    let series = series();
    for (expression, fault) in [
        ("sum(unavez_nothing_total)", "no metric unavez_nothing_total"),
        ("rate(unavez_requests_total{answer=\"novel\"}[5m])", "unavez_requests_total has no answer novel"),
        ("unavez_unknown{reason=\"held\"}", "unavez_unknown has no label reason"),
        ("sum by (route) (unavez_unknown)", "grouped by route, which is no label"),
        ("sum(unavez_unknown", "brackets that do not close"),
    ] {
        assert_eq!(faults(expression, &series), [fault], "{expression}");
    }
}
