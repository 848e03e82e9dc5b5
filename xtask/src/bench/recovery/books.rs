//! Whether both sides say the same of what was charged. Pure.

use serde_json::Value;

/// What every charge of the generator is over.
const AMOUNT: u64 = 2500;

/// The two sets of books, as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    /// Executions at the acquirer.
    pub(super) executed: u64,
    /// Operations there.
    operations: u64,
    /// The most often that one of them was executed.
    executed_most: u64,
    /// Charges in the ledger.
    charges: u64,
    captured: u64,
    refunded: u64,
    balanced: bool,
}

impl Books {
    /// Of the acquirer's statistics and the ledger's summary; what a document lacks counts as nothing.
    pub(super) fn read(stats: &Value, summary: &Value) -> Self {
        let times =
            stats["by_operation"].as_object().into_iter().flatten().filter_map(|(_, times)| times.as_u64());
        let currencies = summary["currencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        let sum = |name: &str| currencies.iter().filter_map(|currency| currency[name].as_u64()).sum();
        Self {
            executed: stats["executed"].as_u64().unwrap_or_default(),
            operations: times.clone().map(|_| 1).sum(),
            executed_most: times.max().unwrap_or_default(),
            charges: sum("charges"),
            captured: sum("captured"),
            refunded: sum("refunded"),
            balanced: !currencies.is_empty()
                && currencies.iter().all(|currency| currency["balanced"] == true),
        }
    }
}

/// What does not fit. `at_least`: as many charges as somebody was told of, or is to find out.
pub(super) fn faults(books: Books, at_least: u64) -> Vec<String> {
    let Books { executed, operations, executed_most, charges, captured, refunded, balanced } = books;
    let mut faults = Vec::new();
    if executed != operations || executed_most > 1 {
        faults.push(format!(
            "the acquirer executed {operations} operations {executed} times, one of them {executed_most} times"
        ));
    }
    if charges != executed || captured != executed * AMOUNT || refunded != 0 {
        faults.push(format!(
            "the acquirer executed {executed}, the ledger has {charges} charges, {captured} captured and {refunded} \
             refunded, expected {AMOUNT} for each"
        ));
    }
    if executed < at_least {
        faults.push(format!("the acquirer executed {executed}, expected at least {at_least}"));
    }
    if !balanced {
        faults.push("the ledger is not balanced".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn books(first: u64, charges: u64, balanced: bool) -> Books {
        let stats = json!({ "executed": first + 1, "by_operation": { "op_1": first, "op_2": 1 } });
        let euro = json!({ "currency": "EUR", "charges": charges, "captured": charges * AMOUNT, "refunded": 0,
                           "balanced": balanced });
        Books::read(&stats, &json!({ "currencies": [euro] }))
    }

    #[test]
    fn books_that_agree_have_no_faults() {
        assert_eq!(faults(books(1, 2, true), 2), Vec::<String>::new());
    }

    #[test]
    fn executed_twice_is_a_fault_however_the_sums_agree() {
        assert_eq!(
            faults(books(2, 3, true), 2),
            ["the acquirer executed 2 operations 3 times, one of them 2 times"]
        );
    }

    #[test]
    fn missing_charges_lost_executions_and_unbalanced_sums_are_faults() {
        assert_eq!(faults(books(1, 1, true), 2).len(), 1);
        assert_eq!(faults(books(1, 2, true), 3), ["the acquirer executed 2, expected at least 3"]);
        assert_eq!(faults(books(1, 2, false), 2), ["the ledger is not balanced"]);
        let nothing = Books::read(&json!({}), &json!({ "currencies": [] }));
        assert_eq!(faults(nothing, 1).len(), 2);
    }
}
