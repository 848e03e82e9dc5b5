//! What customers were told, and the books of shop, service and acquirer, side by side.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::asking::{all_executions, ask, find, patiently};
use super::super::audit::{self, Seen};
use super::super::deed::Operation;
use super::Town;
use super::customers::Ordered;
use crate::wire::{self, Message};

/// Compares everything.
pub(super) fn compare(town: &Town, ordered: &[Ordered]) -> Result<(), String> {
    let (serve, acquirer) = (town.serve.address(), town.acquirer.address());
    let stats = ask(acquirer, "/stats")?;
    let (mut charged, mut faults) = (Vec::new(), Vec::new());
    for order in ordered {
        let row = find(town.shop(), &format!("/orders/{}", order.id))?;
        let key = find(serve, &format!("/v1/idempotency-keys/{}", order.key()))?;
        match (row, key) {
            (Some(row), Some(key)) => {
                let mut operation = order.operation();
                operation.told = patiently(|| post(town, &operation));
                faults.extend(operation.told.as_ref().and_then(|told| shop_fault(&row, told)));
                let id = key["operation_id"].as_str().unwrap_or_default().to_owned();
                let outside = ask(acquirer, &format!("/operations/{id}"))?;
                faults.extend(audit::operation_faults(&Seen { operation: &operation, key, outside }, &stats));
                charged.push((id, operation));
            }
            (row, key) => faults.extend(absence_fault(order, row.as_ref(), key.as_ref())),
        }
    }
    let by_id: BTreeMap<String, &Operation> =
        charged.iter().map(|(id, operation)| (id.clone(), operation)).collect();
    let summary = ask(serve, "/v1/ledger/summary")?;
    faults.extend(audit::book_faults(&summary, &all_executions(acquirer)?, &stats, &by_id));
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The same request once more: by now it only fetches the stored answer.
fn post(town: &Town, operation: &Operation) -> Option<Message> {
    wire::post(town.serve.address(), &operation.path, &operation.key, &operation.body).ok()
}

/// Where the shop says something else than the service's stored answer.
fn shop_fault(row: &Value, told: &Message) -> Option<String> {
    let expected = match told.status() {
        201 => "charged",
        402 => "refused",
        _ => "nothing that is settled",
    };
    let is_replay = told.header("idempotent-replayed") == Some("true");
    let is_equal = row["state"] == expected && row["charge"] == told.json();
    (!is_replay || !is_equal).then(|| format!("the shop says {row}, the service {}", told.shown()))
}

/// Where an order is in one book and not in the other. In none it may be missing only if nobody was told of it.
fn absence_fault(order: &Ordered, row: Option<&Value>, key: Option<&Value>) -> Option<String> {
    match (row, key) {
        (None, None) if order.is_accepted => Some(format!("{}: accepted, and forgotten", order.id)),
        (None, None) => None,
        (row, key) => Some(format!("{}: the shop has {row:?}, the service {key:?}", order.id)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::json;

    use super::*;

    fn told(status: u16, header: &str) -> Message {
        let answer = format!("HTTP/1.1 {status} -\r\n{header}content-length: 11\r\n\r\n{{\"id\":\"ch\"}}");
        Message::read(&mut BufReader::new(answer.as_bytes())).unwrap().unwrap()
    }

    const REPLAYED: &str = "idempotent-replayed: true\r\n";

    #[test]
    fn what_the_shop_says_must_be_the_stored_answer() {
        let row = |state: &str, id: &str| json!({ "state": state, "charge": { "id": id } });
        assert_eq!(shop_fault(&row("charged", "ch"), &told(201, REPLAYED)), None);
        assert_eq!(shop_fault(&row("refused", "ch"), &told(402, REPLAYED)), None);
        assert!(shop_fault(&row("charged", "ch"), &told(402, REPLAYED)).is_some());
        assert!(shop_fault(&row("charged", "another"), &told(201, REPLAYED)).is_some());
        assert!(shop_fault(&row("charging", "ch"), &told(201, REPLAYED)).is_some());
        assert!(shop_fault(&row("charged", "ch"), &told(201, "")).is_some(), "it was executed just now");
    }

    #[test]
    fn an_accepted_order_is_never_missing_and_another_only_whole() {
        let mut order = Ordered::sample("o-1");
        assert_eq!(absence_fault(&order, None, None), None);
        assert!(absence_fault(&order, Some(&json!({})), None).is_some());
        assert!(absence_fault(&order, None, Some(&json!({}))).is_some());
        order.is_accepted = true;
        let fault = absence_fault(&order, None, None);
        assert_eq!(fault.as_deref(), Some("o-1: accepted, and forgotten"));
    }
}
