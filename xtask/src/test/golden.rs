//! The figures that must come out exactly, from the released binary over real HTTP.
//!
//! The rows are published figures of another program; they are data here and never computed, so that a fault shared
//! by the measurement and its check cannot hide.

use serde_json::{Value, json};

/// One published row: `unavez lab fleet` with these settings, and what it must say. Money in whole dollars.
pub(crate) struct Fleet {
    pub(crate) seed: u64,
    pub(crate) orders: u64,
    pub(crate) loss: &'static str,
    pub(crate) attempts: u64,
    intent: u64,
    requests: u64,
    charged_before: u64,
    overcharge: u64,
    overcharge_percent: f64,
    charged_twice: u64,
    unconfirmed: u64,
}

#[rustfmt::skip]
pub(crate) const FLEET: &[Fleet] = &[
    Fleet { seed: 42, orders: 1000, loss: "0.15", attempts: 4, intent: 256_979, requests: 1_184, charged_before: 305_118, overcharge:  48_139, overcharge_percent:  18.7, charged_twice: 146, unconfirmed:   0 },
    Fleet { seed: 42, orders: 1000, loss: "0.30", attempts: 4, intent: 256_979, requests: 1_401, charged_before: 364_315, overcharge: 107_336, overcharge_percent:  41.8, charged_twice: 283, unconfirmed:   3 },
    Fleet { seed: 42, orders: 1000, loss: "0.90", attempts: 4, intent: 256_979, requests: 3_450, charged_before: 885_212, overcharge: 628_233, overcharge_percent: 244.5, charged_twice: 901, unconfirmed: 663 },
    Fleet { seed:  7, orders: 1000, loss: "0.15", attempts: 4, intent: 247_660, requests: 1_173, charged_before: 291_378, overcharge:  43_718, overcharge_percent:  17.7, charged_twice: 149, unconfirmed:   0 },
];

impl Fleet {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Self { seed, orders, loss, attempts, .. } = self;
        format!("lab fleet --seed {seed} --orders {orders} --loss {loss} --attempts {attempts} --format json")
            .split(' ')
            .map(str::to_owned)
            .collect()
    }

    /// Where the report parts from the row.
    pub(crate) fn faults(&self, report: &Value) -> Vec<String> {
        // Before, every request is an execution; after, every order is one.
        let expected = [
            ("/intent/charges", json!(self.orders)),
            ("/intent/total", json!(self.intent)),
            ("/before/requests", json!(self.requests)),
            ("/before/executions", json!(self.requests)),
            ("/before/ledger_charges", json!(self.requests)),
            ("/before/orders_charged_twice", json!(self.charged_twice)),
            ("/before/orders_not_charged", json!(0)),
            ("/before/total_charged", json!(self.charged_before)),
            ("/before/overcharge", json!(self.overcharge)),
            ("/before/undercharge", json!(0)),
            ("/before/overcharge_percent", json!(self.overcharge_percent)),
            ("/before/unconfirmed", json!(self.unconfirmed)),
            ("/after/requests", json!(self.requests)),
            ("/after/executions", json!(self.orders)),
            ("/after/ledger_charges", json!(self.orders)),
            ("/after/orders_charged_twice", json!(0)),
            ("/after/orders_not_charged", json!(0)),
            ("/after/total_charged", json!(self.intent)),
            ("/after/overcharge", json!(0)),
            ("/after/undercharge", json!(0)),
            ("/after/overcharge_percent", json!(0.0)),
            ("/after/unconfirmed", json!(self.unconfirmed)),
            ("/after/found_by_key_status", json!(self.unconfirmed)),
        ];
        differences(report, &expected)
    }
}

/// The lab's own tests in their order, and what those whose figures are promised must have charged: (name, charges, total).
const ACCEPTED: &[(&str, Option<(u64, u64)>)] = &[
    ("retries-same-key", Some((1, 500))),
    ("distinct-operations", Some((2, 1000))),
    ("concurrent-race", Some((1, 500))),
    ("same-key-other-body", None),
    ("repeat-in-progress", None),
    ("after-restart", None),
    ("after-kill", None),
    ("two-tenants", None),
    ("lost-owner", None),
    ("late-owner", None),
    ("outcome-lost", Some((1, 500))),
    ("pending-then-webhook", Some((1, 500))),
    ("declined-is-replayed", Some((1, 500))),
    ("zombie-reclaimed-once", Some((1, 500))),
    ("late-arrival", Some((1, 500))),
];

/// Further tests may follow these; all of them must pass.
pub(crate) fn accept_faults(report: &Value) -> Vec<String> {
    let tests = report["tests"].as_array().map_or(0, Vec::len);
    let expected = [("/passed", json!(tests)), ("/failed", json!(0)), ("/skipped", json!(0))];
    let mut faults = differences(report, &expected);
    for (place, (name, figures)) in ACCEPTED.iter().enumerate() {
        let test = &report["tests"][place];
        let mut expected =
            vec![("/name", json!(name)), ("/result", json!("passed")), ("/passed", json!(true))];
        if let Some((charges, total)) = figures {
            expected.extend([
                ("/charges", json!(charges)),
                ("/expected_charges", json!(charges)),
                ("/total", json!(total)),
            ]);
        }
        faults.extend(differences(test, &expected).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    faults
}

/// The one test that catches a mutation, and what it then observes.
#[derive(Clone, Copy)]
struct Caught {
    by: &'static str,
    charges: u64,
    total: u64,
}

/// Each piece removed on purpose. Where one test alone fails, it also stands which, and with what figures.
const MUTATIONS: &[(&str, Option<Caught>)] = &[
    ("key-per-attempt", Some(Caught { by: "retries-same-key", charges: 3, total: 1500 })),
    ("key-from-amount", Some(Caught { by: "distinct-operations", charges: 1, total: 500 })),
    ("check-then-write", Some(Caught { by: "concurrent-race", charges: 2, total: 1000 })),
    ("no-fingerprint", None),
    ("no-fence", None),
    ("answer-not-stored", None),
    ("key-after-work", None),
    ("in-progress-ignored", None),
    ("no-lookup", None),
    ("unconditional-takeover", None),
    ("one-clock", Some(Caught { by: "declined-is-replayed", charges: 2, total: 1000 })),
    ("zombie-never-reclaimed", None),
    ("no-visibility-delay", Some(Caught { by: "late-arrival", charges: 2, total: 1000 })),
    ("webhook-twice", Some(Caught { by: "pending-then-webhook", charges: 2, total: 1000 })),
    ("new-operation-id-on-reclaim", Some(Caught { by: "zombie-reclaimed-once", charges: 2, total: 1000 })),
];

pub(crate) fn break_faults(report: &Value) -> Vec<String> {
    let empty = Vec::new();
    let found = report["mutations"].as_array().unwrap_or(&empty);
    let mut faults = Vec::new();
    if found.len() != MUTATIONS.len() {
        faults.push(format!("{} mutations, expected {}", found.len(), MUTATIONS.len()));
    }
    for (name, lesson) in MUTATIONS {
        let Some(mutation) = found.iter().find(|mutation| mutation["name"] == *name) else {
            faults.push(format!("{name} is not there"));
            continue;
        };
        faults.extend(mutation_faults(mutation, *lesson).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    faults
}

fn mutation_faults(mutation: &Value, lesson: Option<Caught>) -> Vec<String> {
    let mut faults = differences(mutation, &[("/as_predicted", json!(true))]);
    // A mutation that nothing catches would be "as predicted" by an empty prediction.
    if mutation["breaks"].as_array().is_none_or(Vec::is_empty) {
        faults.push("breaks nothing".to_owned());
    }
    if let Some(Caught { by, charges, total }) = lesson {
        let observed = format!("/observed/{by}");
        faults.extend(differences(
            mutation,
            &[
                ("/breaks", json!([by])),
                (&format!("{observed}/charges"), json!(charges)),
                (&format!("{observed}/total"), json!(total)),
            ],
        ));
    }
    faults
}

/// Every pointer at which the report says something else than expected. Whole and decimal numbers are compared by value.
fn differences(report: &Value, expected: &[(&str, Value)]) -> Vec<String> {
    let same = |found: &Value, expected: &Value| {
        found == expected || found.as_f64().is_some_and(|number| Some(number) == expected.as_f64())
    };
    expected
        .iter()
        .filter_map(|(pointer, expected)| match report.pointer(pointer) {
            Some(found) if same(found, expected) => None,
            Some(found) => Some(format!("{pointer} is {found}, expected {expected}")),
            None => Some(format!("{pointer} is not there, expected {expected}")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_row() -> Value {
        json!({
            "intent": { "charges": 1000, "total": 256_979 },
            "before": {
                "requests": 1184, "executions": 1184, "ledger_charges": 1184, "orders_charged_twice": 146,
                "orders_not_charged": 0, "total_charged": 305_118, "overcharge": 48_139, "undercharge": 0,
                "overcharge_percent": 18.7, "unconfirmed": 0, "found_by_key_status": 0
            },
            "after": {
                "requests": 1184, "executions": 1000, "ledger_charges": 1000, "orders_charged_twice": 0,
                "orders_not_charged": 0, "total_charged": 256_979, "overcharge": 0, "undercharge": 0,
                "overcharge_percent": 0.0, "unconfirmed": 0, "found_by_key_status": 0
            }
        })
    }

    #[test]
    fn the_published_row_passes() {
        assert_eq!(FLEET[0].faults(&first_row()), Vec::<String>::new());
    }

    #[test]
    fn one_charge_too_many_is_named() {
        let mut report = first_row();
        report["after"]["executions"] = json!(1001);
        report["after"]["found_by_key_status"].take();
        assert_eq!(
            FLEET[0].faults(&report),
            ["/after/executions is 1001, expected 1000", "/after/found_by_key_status is null, expected 0"]
        );
        assert_eq!(FLEET[0].faults(&json!({})).len(), 23, "a report that says nothing is no pass");
    }

    fn accepted() -> Value {
        let tests: Vec<Value> = ACCEPTED
            .iter()
            .map(|(name, figures)| {
                let (charges, total) = figures.unwrap_or((1, 500));
                json!({ "name": name, "result": "passed", "passed": true, "charges": charges, "total": total,
                        "expected_charges": charges, "detail": "" })
            })
            .collect();
        json!({ "passed": ACCEPTED.len(), "failed": 0, "skipped": 0, "tests": tests })
    }

    #[test]
    fn acceptance_needs_every_test_and_the_missions_figures() {
        assert_eq!(accept_faults(&accepted()), Vec::<String>::new());
        let mut skipped = accepted();
        skipped["tests"][6]["result"] = json!("skipped");
        assert_eq!(accept_faults(&skipped), [r#"after-kill: /result is "skipped", expected "passed""#]);
        let mut longer = accepted();
        longer["tests"].as_array_mut().unwrap().push(json!({ "name": "further", "result": "failed" }));
        assert_eq!(accept_faults(&longer), ["/passed is 15, expected 16"]);
        assert!(!accept_faults(&json!({ "passed": 0, "failed": 0, "skipped": 0, "tests": [] })).is_empty());
        let mut doubled = accepted();
        doubled["tests"][0]["charges"] = json!(3);
        assert_eq!(accept_faults(&doubled), ["retries-same-key: /charges is 3, expected 1"]);
    }

    fn broken() -> Value {
        let mutation = |(name, lesson): &(&str, Option<Caught>)| {
            let Caught { by, charges, total } =
                lesson.unwrap_or(Caught { by: "after-kill", charges: 2, total: 1000 });
            json!({ "name": name, "predicted": [by], "breaks": [by], "as_predicted": true,
                    "observed": { by: { "charges": charges, "total": total } } })
        };
        json!({ "mutations": MUTATIONS.iter().map(mutation).collect::<Vec<_>>() })
    }

    #[test]
    fn every_mutation_must_be_caught_as_the_lesson_says() {
        assert_eq!(break_faults(&broken()), Vec::<String>::new());
        let mut survived = broken();
        survived["mutations"][4]["breaks"] = json!([]);
        assert_eq!(break_faults(&survived), ["no-fence: breaks nothing"]);
        let mut other = broken();
        other["mutations"][2]["breaks"] = json!(["concurrent-race", "after-kill"]);
        assert_eq!(
            break_faults(&other),
            [
                r#"check-then-write: /breaks is ["concurrent-race","after-kill"], expected ["concurrent-race"]"#
            ]
        );
        assert_eq!(break_faults(&json!({})).len(), 1 + MUTATIONS.len());
    }
}
