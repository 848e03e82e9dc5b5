//! A restored database: nothing is sent before it was asked about, and nothing refused for good by what it has forgotten.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use unavez_payments::{SameOrder, Settings};
use unavez_store::clock::Clock as _;

use super::scripted::{Look, Plan, Scripted};
use super::{HOUR, SECOND, anomalies, authorized, captured, later, setup, start};
use crate::support::{B1, Service, Setup, refused};

/// The service on a copy from before, asking first for an hour.
async fn restored(
    service: Service,
    acquirer: &Arc<Scripted>,
    copy: Arc<TempDir>,
    rule: SameOrder,
) -> Service {
    let clock = service.setup_clock().restarted();
    drop(service.stop().await);
    let settings = Settings {
        ask_first_until: Some(clock.now().plus(HOUR)),
        same_order: rule,
        ..setup(acquirer).settings
    };
    let service = Service::start_in(copy, Setup { clock: Some(clock), settings, ..setup(acquirer) }).await;
    later(&service, SECOND).await;
    service
}

async fn refunded(service: &Service, charge: &str) -> i64 {
    service.get(&format!("/v1/charges/{charge}")).await.json()["amount_refunded"].as_i64().unwrap()
}

/// The repeat of a step is not refused for good, and leaves nothing behind.
async fn comes_again(service: &Service, path: &str, key: &str, body: &str) {
    let answer = service.post(path, key, body).await;
    assert_eq!(answer.refusal(), refused(504, "outcome-unknown"), "{path}: {answer:?}");
    assert_eq!(answer.json()["retryable"], true);
    assert!(answer.detail().contains("asks first until"), "{answer:?}");
    assert_eq!(service.get(&format!("/v1/idempotency-keys/{key}")).await.status, 404, "nothing is stored");
}

#[tokio::test]
async fn c102_a_refund_that_is_forgotten_is_found_once_its_charge_is() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let copy = service.copy();
    let id = captured(&service, "pay").await;
    let refunds = format!("/v1/charges/{id}/refunds");
    let first = service.post(&refunds, "R", r#"{"amount":400}"#).await.json();
    let service = restored(service, &acquirer, copy, SameOrder::Warn).await;
    let put_back = "insert into restores (restored_at, copy_of, ask_first_until) values (1, 1, 1)";
    service.payments.store().transaction(move |tx| tx.execute(put_back, []).map(drop)).await.unwrap();
    let sends = acquirer.sends().len();

    comes_again(&service, &refunds, "R", r#"{"amount":400}"#).await;
    assert_eq!(service.charge("pay", B1).await.status, 201);
    // Another refund in between is another operation, and has an id that was never told.
    let second = service.post(&refunds, "R2", r#"{"amount":400}"#).await;
    assert_eq!((second.status.as_u16(), acquirer.sends().len()), (201, sends + 1));
    assert_ne!(second.json()["id"], first["id"]);
    let found = service.post(&refunds, "R", r#"{"amount":400}"#).await;
    assert_eq!((found.status.as_u16(), &found.json()["amount"]), (201, &400.into()), "{found:?}");
    assert_eq!(acquirer.sends().len(), sends + 1, "found, and not sent");
    assert_eq!(found.json()["operation_id"], first["operation_id"]);
    assert!(service.post(&refunds, "R", r#"{"amount":400}"#).await.is_replayed());
    assert_eq!(refunded(&service, &id).await, 800);
    assert!(anomalies(&service).await.is_empty());
}

#[tokio::test]
async fn c102_captures_and_voids_that_are_forgotten_are_found_in_their_order() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let copy = service.copy();
    let body = r#"{"amount":2500,"currency":"EUR","order_id":"o-1001","capture":false}"#;
    let (taken, given_up) = (authorized(&service, "A1").await, authorized(&service, "A2").await);
    let path = |id: &str, step: &str| format!("/v1/charges/{id}/{step}");
    assert_eq!(service.post(&path(&taken, "capture"), "C", r#"{"amount":700}"#).await.status, 201);
    assert_eq!(service.post(&path(&taken, "refunds"), "R", r#"{"amount":200}"#).await.status, 201);
    assert_eq!(service.post(&path(&given_up, "void"), "V", "{}").await.status, 201);
    let service = restored(service, &acquirer, copy, SameOrder::Warn).await;
    let sends = acquirer.sends().len();

    comes_again(&service, &path(&taken, "capture"), "C", r#"{"amount":700}"#).await;
    comes_again(&service, &path(&given_up, "void"), "V", "{}").await;
    for key in ["A1", "A2"] {
        assert_eq!(service.charge(key, body).await.json()["status"], "authorized");
    }
    // Its capture is forgotten still.
    comes_again(&service, &path(&taken, "refunds"), "R", r#"{"amount":200}"#).await;
    for (id, step, key, body) in [
        (&taken, "capture", "C", r#"{"amount":700}"#),
        (&taken, "refunds", "R", r#"{"amount":200}"#),
        (&given_up, "void", "V", "{}"),
    ] {
        let found = service.post(&path(id, step), key, body).await;
        assert_eq!(found.status, 201, "{step}: {found:?}");
    }
    assert_eq!(acquirer.sends().len(), sends, "all of it found, and nothing sent");
    assert_eq!(service.ledger().await, (1, 700));
    assert_eq!(refunded(&service, &taken).await, 200);
    assert_eq!(service.get(&format!("/v1/charges/{given_up}")).await.json()["status"], "voided");
}

#[tokio::test]
async fn c102_an_amount_that_the_books_resolve_anew_is_the_one_that_is_known_there() {
    for (key, body, others) in [("B", "{}", 300), ("B", r#"{"amount":2200}"#, 300)] {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        let id = captured(&service, "pay").await;
        let copy = service.copy();
        let refunds = format!("/v1/charges/{id}/refunds");
        let other = format!(r#"{{"amount":{others}}}"#);
        assert_eq!(service.post(&refunds, "A", &other).await.status, 201);
        assert_eq!(service.post(&refunds, key, body).await.json()["amount"], 2200);
        let service = restored(service, &acquirer, copy, SameOrder::Warn).await;
        // The books know of no refund: "all" would be 2500 now, and there would be nothing left for the other one.
        let found = service.post(&refunds, key, body).await;
        assert_eq!((found.status.as_u16(), &found.json()["amount"]), (201, &2200.into()), "{found:?}");
        assert_eq!(service.post(&refunds, "A", &other).await.status, 201, "it blocks no other");
        assert_eq!(refunded(&service, &id).await, 2500);
        assert!(anomalies(&service).await.is_empty());
    }
}

#[tokio::test]
async fn c102_another_request_under_a_forgotten_key_closes_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let id = captured(&service, "pay").await;
    let copy = service.copy();
    let refunds = format!("/v1/charges/{id}/refunds");
    assert_eq!(service.post(&refunds, "R", r#"{"amount":400}"#).await.status, 201);
    let service = restored(service, &acquirer, copy, SameOrder::Warn).await;
    let sends = acquirer.sends().len();
    assert_eq!(service.post(&refunds, "R", r#"{"amount":500}"#).await.status, 504);
    acquirer.look(Look::NotFound);
    later(&service, 11 * SECOND).await;
    assert_eq!(service.post(&refunds, "R", r#"{"amount":500}"#).await.status, 409);
    assert_eq!((acquirer.sends().len(), refunded(&service, &id).await), (sends, 0));
    assert!(anomalies(&service).await.contains(&"amount"));
}

#[tokio::test]
async fn c102_after_that_time_the_books_refuse_for_good() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let id = captured(&service, "pay").await;
    let copy = service.copy();
    let service = restored(service, &acquirer, copy, SameOrder::Warn).await;
    let (refunds, unknown) =
        (format!("/v1/charges/{id}/refunds"), format!("/v1/charges/ch_{:032x}/refunds", 7));
    comes_again(&service, &refunds, "R", r#"{"amount":2501}"#).await;
    comes_again(&service, &unknown, "U", "{}").await;
    assert_eq!(service.post("/v1/charges/none/refunds", "N", "{}").await.status, 404, "that never was an id");
    later(&service, HOUR + Duration::from_secs(1)).await;
    let exceeds = service.post(&refunds, "R", r#"{"amount":2501}"#).await;
    assert_eq!(exceeds.refusal(), refused(409, "amount-exceeds"));
    assert_eq!(service.post(&unknown, "U", "{}").await.refusal(), refused(404, "not-found"));
    assert!(service.post(&unknown, "U", "{}").await.is_replayed());
}

#[tokio::test]
async fn c102_a_charge_that_is_forgotten_is_found_though_its_order_has_another() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let copy = service.copy();
    captured(&service, "K1").await;
    let service = restored(service, &acquirer, copy, SameOrder::Refuse).await;
    let second = captured(&service, "K2").await;
    let found = service.charge("K1", B1).await;
    assert_eq!((found.status.as_u16(), acquirer.sends().len()), (201, 2), "{found:?}");
    assert_eq!(found.json()["suspected_duplicate_of"], second);
    let refusal = service.charge("K3", B1).await;
    assert_eq!(refusal.refusal(), refused(503, "acquirer-unavailable"), "asked about, and not sent");
    assert_eq!((acquirer.sends().len(), acquirer.questions()), (2, 3));
    later(&service, HOUR).await;
    assert_eq!(service.charge("K3", B1).await.refusal(), refused(409, "order-already-charged"));
}

#[tokio::test]
async fn p16_a_step_of_another_acquirers_charge_is_refused_for_the_time_being() {
    let (one, other) = (Scripted::new(), Scripted::with("scripted:two", Some(24 * HOUR), Duration::ZERO));
    let service = start(&one).await;
    let (id, held) = (captured(&service, "pay").await, authorized(&service, "hold").await);
    let steps = [
        (format!("/v1/charges/{id}/refunds"), "R"),
        (format!("/v1/charges/{held}/capture"), "C"),
        (format!("/v1/charges/{held}/void"), "V"),
    ];
    // Started by mistake with another account, and with the ledger.
    let elsewhere = Setup { clock: Some(service.setup_clock()), ..setup(&other) };
    let ledger = Setup { acquirer: None, settings: Settings::default(), ..elsewhere.clone() };
    let mut service = service;
    for wrong in [elsewhere, ledger] {
        service = service.restart_with(wrong).await;
        for (path, key) in &steps {
            let refusal = service.post(path, key, "{}").await;
            assert_eq!(refusal.refusal(), refused(503, "acquirer-unavailable"), "{path}");
            assert_eq!(service.get(&format!("/v1/idempotency-keys/{key}")).await.status, 404);
        }
    }
    assert!(other.sends().is_empty());
    let right = Setup { clock: Some(service.setup_clock()), ..setup(&one) };
    let service = service.restart_with(right).await;
    one.plan([Plan::Approve]);
    for (path, key) in &steps[..2] {
        assert_eq!(service.post(path, key, "{}").await.status, 201, "{path}");
    }
}
