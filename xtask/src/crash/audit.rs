//! Two sets of books side by side: what the acquirer says it executed, and what the service says it charged. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::deed::{Deed, Operation};

/// An operation of the harness, and what both sides say of it.
pub(crate) struct Seen<'a> {
    pub(crate) operation: &'a Operation,
    /// The service's document about its key.
    pub(crate) key: Value,
    /// The acquirer's document about it.
    pub(crate) outside: Value,
}

/// What does not fit in one operation.
pub(crate) fn operation_faults(seen: &Seen<'_>, stats: &Value) -> Vec<String> {
    let Seen { operation, key, outside } = seen;
    let id = key["operation_id"].as_str().unwrap_or("none");
    let executed = stats["by_operation"][id].as_u64().unwrap_or(0);
    let approved = operation.told.as_ref().is_some_and(|told| told.status() == 201);
    let standing = if approved { "approved" } else { "declined" };
    let mut faults = Vec::new();
    let mut expect = |what: &str, found: &Value, expected: Value| {
        if *found != expected {
            faults.push(format!("{}: {what} is {found}, expected {expected}", operation.key));
        }
    };
    expect("state of the key", &key["state"], "finished".into());
    expect("executions at the acquirer", &executed.into(), 1.into());
    expect("the acquirer's word", &outside["status"], standing.into());
    expect("kind at the acquirer", &outside["kind"], operation.deed.kind().into());
    expect("amount at the acquirer", &outside["amount"], operation.amount.into());
    faults
}

/// Minor units that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) captured: u64,
    pub(crate) refunded: u64,
}

impl Moved {
    /// By the acquirer's list, with each execution counted as often as it is there.
    pub(crate) fn by_the_acquirer(list: &[Value], operations: &BTreeMap<String, &Operation>) -> Self {
        let mut moved = Self::default();
        for row in list.iter().filter(|row| row["status"] == "approved") {
            let amount = row["amount"].as_u64().unwrap_or(0);
            let id = row["operation_id"].as_str().unwrap_or_default();
            match (row["kind"].as_str(), operations.get(id).map(|operation| &operation.deed)) {
                (Some("payment"), Some(Deed::Charge { capture: false, .. })) => {}
                (Some("payment" | "capture"), _) => moved.captured += amount,
                (Some("refund"), _) => moved.refunded += amount,
                _ => {}
            }
        }
        moved
    }

    /// By the service's ledger; nothing moved in no currency.
    pub(crate) fn by_the_ledger(summary: &Value) -> Self {
        let sum = |name: &str| {
            let currencies = summary["currencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            currencies.iter().filter_map(|currency| currency[name].as_u64()).sum()
        };
        Self { captured: sum("captured"), refunded: sum("refunded") }
    }
}

/// What does not fit in one charge: what the service says was taken and given back, against the acquirer's rows of it.
pub(crate) fn charge_faults(
    charge: &Value,
    list: &[Value],
    operations: &BTreeMap<String, &Operation>,
) -> Vec<String> {
    let payment = &charge["operation_id"];
    let is_its = |row: &&Value| row["operation_id"] == *payment || row["payment_operation_id"] == *payment;
    let rows: Vec<Value> = list.iter().filter(is_its).cloned().collect();
    let acquirer = Moved::by_the_acquirer(&rows, operations);
    let amount = |name: &str| charge[name].as_u64().unwrap_or(0);
    let service = Moved { captured: amount("amount_captured"), refunded: amount("amount_refunded") };
    if service == acquirer {
        return Vec::new();
    }
    vec![format!("{}: the service says {service:?}, the acquirer {acquirer:?}", charge["id"])]
}

/// What does not fit in the books as a whole.
pub(crate) fn book_faults(
    summary: &Value,
    list: &[Value],
    stats: &Value,
    operations: &BTreeMap<String, &Operation>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let currencies = summary["currencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    if currencies.iter().any(|currency| currency["balanced"] != true) {
        faults.push(format!("the ledger is not balanced: {summary}"));
    }
    let (ledger, acquirer) = (Moved::by_the_ledger(summary), Moved::by_the_acquirer(list, operations));
    if ledger != acquirer {
        faults.push(format!("the ledger says {ledger:?}, the acquirer {acquirer:?}"));
    }
    let executed = stats["by_operation"].as_object();
    for (id, times) in executed.into_iter().flatten() {
        match operations.get(id) {
            None => faults.push(format!("the acquirer executed {id}, which nobody here asked for")),
            Some(operation) if *times != 1 => {
                faults.push(format!("{}: executed {times} times", operation.key));
            }
            Some(_) => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::json;

    use super::super::deed::charge;
    use super::*;
    use crate::wire::Message;

    fn told() -> Operation {
        let mut operation = Operation::new("a", charge("tok_approve"), None);
        let answer = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
        operation.told = Message::read(&mut BufReader::new(answer.as_bytes())).unwrap();
        operation
    }

    fn seen<'a>(operation: &'a Operation, state: &str, status: &str) -> Seen<'a> {
        Seen {
            operation,
            key: json!({ "state": state, "operation_id": "op_1" }),
            outside: json!({ "status": status, "kind": "payment", "amount": 2500 }),
        }
    }

    #[test]
    fn an_operation_that_fits_has_no_faults() {
        let operation = told();
        let stats = json!({ "by_operation": { "op_1": 1 } });
        assert_eq!(operation_faults(&seen(&operation, "finished", "approved"), &stats), Vec::<String>::new());
    }

    #[test]
    fn twice_executed_still_open_and_otherwise_told_are_faults() {
        let operation = told();
        let stats = json!({ "by_operation": { "op_1": 2 } });
        assert_eq!(
            operation_faults(&seen(&operation, "unknown", "declined"), &stats),
            [
                r#"key-a: state of the key is "unknown", expected "finished""#,
                "key-a: executions at the acquirer is 2, expected 1",
                r#"key-a: the acquirer's word is "declined", expected "approved""#,
            ]
        );
    }

    #[test]
    fn a_charge_that_differs_is_named() {
        let operation = told();
        let operations = BTreeMap::from([("op_1".to_owned(), &operation)]);
        let list = [
            json!({ "operation_id": "op_1", "kind": "payment", "status": "approved", "amount": 2500 }),
            json!({ "operation_id": "op_2", "kind": "refund", "status": "approved", "amount": 100,
                    "payment_operation_id": "op_1" }),
            json!({ "operation_id": "op_3", "kind": "refund", "status": "approved", "amount": 100,
                    "payment_operation_id": "op_9" }),
        ];
        let charge = |refunded: u64| json!({ "id": "ch_1", "operation_id": "op_1", "amount_captured": 2500, "amount_refunded": refunded });
        assert_eq!(charge_faults(&charge(100), &list, &operations), Vec::<String>::new());
        assert_eq!(charge_faults(&charge(200), &list, &operations).len(), 1);
    }

    #[test]
    fn books_that_differ_are_named() {
        let operation = told();
        let operations = BTreeMap::from([("op_1".to_owned(), &operation)]);
        let row = json!({ "operation_id": "op_1", "kind": "payment", "status": "approved", "amount": 2500 });
        let summary = json!({ "currencies": [{ "captured": 2500, "refunded": 0, "balanced": true }] });
        let stats = |times: u64| json!({ "by_operation": { "op_1": times } });
        let once = book_faults(&summary, std::slice::from_ref(&row), &stats(1), &operations);
        assert_eq!(once, Vec::<String>::new());
        let twice = book_faults(&summary, &[row.clone(), row], &stats(2), &operations);
        assert_eq!(twice.len(), 2, "{twice:?}");
        assert!(twice[1].ends_with("executed 2 times"), "{twice:?}");
        let strange = book_faults(&summary, &[], &json!({ "by_operation": { "op_2": 1 } }), &operations);
        assert_eq!(strange.len(), 2, "{strange:?}");
    }
}
