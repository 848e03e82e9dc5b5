//! The sandbox in the service's own process: every payment method of the contract, and its database beside the service's.

use std::sync::Arc;
use std::time::Duration;

use unavez_core::timing::Timings;
use unavez_payments::{AcquirerKind, Settings};
use unavez_store::clock::ManualClock;

use super::{SECOND, later};
use crate::support::{Reply, Service, Setup, refused};

async fn start() -> Service {
    let timings = Timings { operation_timeout: Duration::from_secs(10), ..Timings::default() };
    let settings = Settings { acquirer: AcquirerKind::Sandbox, timings, ..Settings::default() };
    Service::start_with(Setup { settings, clock: Some(ManualClock::new()), ..Setup::default() }).await
}

/// A charge whose key is its payment method.
async fn pay(service: &Service, method: &str) -> Reply {
    let body =
        format!(r#"{{"amount":2500,"currency":"EUR","order_id":"o-{method}","payment_method":"{method}"}}"#);
    service.charge(method, &body).await
}

/// How often the sandbox executed anything.
async fn executed(service: &Service) -> u64 {
    let sandbox = service.payments.sandbox().expect("the sandbox is in this process");
    sandbox.executed().await.unwrap().iter().map(|(_, times)| times).sum()
}

#[tokio::test]
async fn the_payment_methods_of_the_contract_do_what_it_says() {
    let service = start().await;
    assert_eq!(service.get("/healthz").await.json()["acquirer"], "sandbox");
    for (method, first, repeat) in [
        ("tok_approve", 201, 201),
        ("tok_decline", 402, 402),
        ("tok_slow_50", 201, 201),
        ("tok_error_after", 504, 201),
    ] {
        assert_eq!(pay(&service, method).await.status, first, "{method}");
        let again = pay(&service, method).await;
        assert_eq!((again.status.as_u16(), again.is_replayed()), (repeat, true), "{method}: {again:?}");
    }
    assert_eq!(service.ledger().await, (3, 7500));
    let unknown = pay(&service, "tok_unknown").await;
    assert_eq!(
        (unknown.refusal(), &unknown.json()["member"]),
        (refused(400, "validation"), &"payment_method".into())
    );
    assert!(service.folder().join("unavez-sandbox.db").exists());
}

#[tokio::test]
async fn a_pending_charge_is_settled_by_its_webhook() {
    let service = start().await;
    for (method, settled) in [("tok_pending", 201), ("tok_pending_decline", 402)] {
        assert_eq!(pay(&service, method).await.status, 202, "{method}");
        assert_eq!(pay(&service, method).await.refusal(), refused(409, "outcome-pending"), "{method}");
        let mut repeat = pay(&service, method).await;
        while repeat.status == 409 {
            later(&service, SECOND).await;
            repeat = pay(&service, method).await;
        }
        assert_eq!((repeat.status.as_u16(), repeat.is_replayed()), (settled, true), "{method}");
    }
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn an_error_that_executed_nothing_is_sent_three_times_and_then_held() {
    let service = start().await;
    for attempt in 1..=3 {
        assert_eq!(pay(&service, "tok_error").await.refusal(), refused(504, "outcome-unknown"), "{attempt}");
        later(&service, 11 * SECOND).await;
    }
    assert_eq!(pay(&service, "tok_error").await.refusal(), refused(409, "outcome-unknown"));
    assert_eq!((executed(&service).await, service.ledger().await), (0, (0, 0)));
}

#[tokio::test]
async fn a_lost_answer_is_found_by_the_next_repeat_without_a_second_execution() {
    let service = Arc::new(start().await);
    let first = tokio::spawn({
        let service = Arc::clone(&service);
        async move { pay(&service, "tok_lost").await }
    });
    while executed(&service).await == 0 {
        tokio::task::yield_now().await;
    }
    while !first.is_finished() {
        later(&service, SECOND).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(first.await.unwrap().refusal(), refused(504, "outcome-unknown"));
    let mut repeat = pay(&service, "tok_lost").await;
    while repeat.status == 409 {
        later(&service, 11 * SECOND).await;
        repeat = pay(&service, "tok_lost").await;
    }
    assert_eq!((repeat.status.as_u16(), repeat.is_replayed()), (201, true), "{repeat:?}");
    assert_eq!((executed(&service).await, service.ledger().await), (1, (1, 2500)));
}

#[tokio::test]
async fn captures_voids_and_refunds_go_through_the_sandbox() {
    let service = start().await;
    let authorize = r#"{"amount":2500,"currency":"EUR","order_id":"o-1","capture":false}"#;
    let charge = service.charge("K1", authorize).await.json();
    let id = charge["id"].as_str().unwrap();
    let captured = service.post(&format!("/v1/charges/{id}/capture"), "C1", r#"{"amount":2000}"#).await;
    assert_eq!((captured.status.as_u16(), &captured.json()["amount_captured"]), (201, &2000.into()));
    let refunded = service.post(&format!("/v1/charges/{id}/refunds"), "R1", r#"{"amount":500}"#).await;
    assert_eq!((refunded.status.as_u16(), &refunded.json()["status"]), (201, &"succeeded".into()));
    let other = service.charge("K2", authorize).await.json();
    let void = format!("/v1/charges/{}/void", other["id"].as_str().unwrap());
    assert_eq!(service.post(&void, "V1", "{}").await.json()["status"], "voided");
    assert_eq!((executed(&service).await, service.ledger().await), (5, (1, 2000)));
}
