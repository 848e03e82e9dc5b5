//! Clocks: promises end when they were said to, and not otherwise.

use std::time::Duration;

use http::Method;
use unavez_core::timing::Timings;
use unavez_payments::Settings;
use unavez_store::Store;
use unavez_store::clock::ManualClock;

use crate::support::{B1, B2, Service, Setup, hold, refused};

const HOUR: Duration = Duration::from_secs(3600);

fn setup(clock: &ManualClock) -> Setup {
    Setup { clock: Some(clock.clone()), ..Setup::default() }
}

async fn purge(service: &Service) {
    while service.payments.store().purge(100).await.expect("the store purges").deleted > 0 {}
}

#[tokio::test]
async fn p21_a_key_never_charges_again_after_its_record_is_gone() {
    let clock = ManualClock::new();
    let service = Service::start_with(setup(&clock)).await;
    let declined = r#"{"order_id":"d","amount":1,"currency":"EUR","payment_method":"tok_decline"}"#;
    let first = service.charge("K1", B1).await;
    let first_declined = service.charge("K2", declined).await;
    for purged in [false, true] {
        clock.advance(25 * HOUR);
        if purged {
            purge(&service).await;
            assert_eq!(service.rows().await, [0, 2, 1]);
        }
        assert_eq!(service.get("/v1/idempotency-keys/K1").await.status, 404);
        let late = service.charge("K1", B1).await;
        assert_eq!((late.status.as_u16(), late.is_replayed()), (201, true), "purged: {purged}");
        assert_eq!((&late.body, late.header("location")), (&first.body, first.header("location")));
        assert_eq!(late.header("original-request-id"), first.header("request-id"));
        let late_declined = service.charge("K2", declined).await;
        assert_eq!((late_declined.status.as_u16(), late_declined.is_replayed()), (402, true));
        assert_eq!(late_declined.body, first_declined.body);
        let other = service.charge("K1", B2).await;
        assert_eq!(other.refusal(), refused(422, "idempotency-key-reused"));
        assert_eq!(other.json()["differs"], serde_json::json!(["amount"]));
        let invalid = service.charge("K1", "[]").await;
        assert_eq!(
            invalid.refusal(),
            refused(422, "idempotency-key-reused"),
            "P7: the charge answers, not the form"
        );
        let cancel = service.call(Method::POST, "/v1/idempotency-keys/K1/cancel").key("K1").send().await;
        assert_eq!(cancel.json()["outcome"], "approved");
        let borrowed = service.call(Method::POST, "/v1/idempotency-keys/K9/cancel").key("K1").send().await;
        assert_eq!(borrowed.refusal(), refused(422, "idempotency-key-reused"), "the kind counts too");
    }
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn c101_a_clock_that_steps_ends_and_purges_nothing() {
    let clock = ManualClock::new();
    let service = Service::start_with(setup(&clock)).await;
    let first = service.charge("K1", B1).await;
    hold(&service, "running", B1).await;
    let mut service = service;
    for (step, at) in [(-3600, "back"), (3600, "forth"), (3 * 24 * 3600, "far ahead")] {
        clock.step_wall(step);
        for restarted in [false, true] {
            if restarted {
                service = service.restart_with(setup(&clock.restarted())).await;
            }
            let again = service.charge("K1", B1).await;
            assert!(again.is_replayed(), "{at}, restarted: {restarted}");
            assert_eq!(again.body, first.body);
            let running = service.charge("running", B1).await;
            assert_eq!(
                running.refusal(),
                refused(409, "operation-in-progress"),
                "{at}, restarted: {restarted}"
            );
            assert_eq!(running.header("retry-after"), Some("1"));
            // A large step stops the purge by itself; the small ones must not make it delete.
            drop(service.payments.store().purge(100).await);
            assert_eq!(service.rows().await, [2, 1, 1], "{at}, restarted: {restarted}");
        }
    }
}

#[tokio::test]
async fn c116_a_lowered_ttl_breaks_no_promise() {
    let clock = ManualClock::new();
    let service = Service::start_with(setup(&clock)).await;
    let first = service.charge("K1", B1).await;
    let timings = Timings { response_ttl: HOUR, ..Timings::default() };
    let service = service
        .restart_with(Setup {
            settings: Settings { timings, ..Settings::default() },
            ..setup(&clock.restarted())
        })
        .await;
    let clock = service.setup_clock();
    service.charge("K2", B2).await;
    clock.advance(2 * HOUR);
    purge(&service).await;
    assert_eq!(service.get("/v1/idempotency-keys/K2").await.status, 404, "promised for an hour");
    assert_eq!(service.get("/v1/idempotency-keys/K1").await.status, 200, "promised for a day");
    let again = service.charge("K1", B1).await;
    assert_eq!(again.header("idempotency-expires"), first.header("idempotency-expires"));
}

#[tokio::test]
async fn c118_a_cancelled_key_stays_cancelled() {
    let clock = ManualClock::new();
    let service = Service::start_with(setup(&clock)).await;
    service.call(Method::POST, "/v1/idempotency-keys/K1/cancel").key("C1").send().await;
    clock.advance(10 * 365 * 24 * HOUR);
    purge(&service).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "invalid-state"));
    assert_eq!(service.ledger().await, (0, 0));
}
