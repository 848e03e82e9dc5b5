//! Scenarios: what somebody reads who asks whether an order was charged twice.

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use tempfile::TempDir;
use tower::ServiceExt as _;
use unavez_core::identity::Realm;
use unavez_core::timing::Timings;
use unavez_payments::books::trace::{Verdict, trace};
use unavez_payments::charge::Status;
use unavez_payments::{AcquirerKind, Payments, Settings};
use unavez_store::clock::{Clock as _, ManualClock};
use unavez_store::sqlite::{Location, Options, Viewer};

use super::document::Document;
use super::page::page;
use crate::output::Room;
use crate::remedy::Desk;

/// Nobody said where the service is.
const DESK: Desk = Desk { target: None, has_api_keys: false };

/// A service with the sandbox, on a clock of its own and with ids that are the same every time.
struct Scene {
    payments: Payments,
    clock: ManualClock,
    folder: TempDir,
}

impl Scene {
    async fn open(acquirer: AcquirerKind) -> Self {
        Self::open_with(acquirer, Settings::default().acquirer_timeout).await
    }

    async fn open_with(acquirer: AcquirerKind, acquirer_timeout: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let settings = Settings {
            acquirer,
            acquirer_timeout,
            timings: Timings { operation_timeout: Duration::from_secs(60), ..Timings::default() },
            ..Settings::default()
        };
        let options = Options {
            realm: Some(Realm::parse("scenes").unwrap()),
            clock: Some(std::sync::Arc::new(clock.clone())),
            ..Options::default()
        };
        let location = Location::File(folder.path().join("unavez.db"));
        let payments = Payments::open(location, options, settings).await.unwrap();
        Self { payments, clock, folder }
    }

    /// One charge of 25.00 EUR for order `o-1`.
    async fn charge(&self, key: &str, method: &str) -> u16 {
        let body = serde_json::json!({
            "order_id": "o-1", "amount": 2500, "currency": "EUR", "payment_method": method,
        });
        self.post("/v1/charges", key, &body.to_string()).await
    }

    async fn post(&self, path: &str, key: &str, body: &str) -> u16 {
        let request = Request::post(path)
            .header("idempotency-key", format!("\"{key}\""))
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        self.clock.advance(Duration::from_secs(1));
        self.payments.router().oneshot(request).await.unwrap().status().as_u16()
    }

    fn page(&self, name: &str) -> String {
        let viewer = Viewer::open(&self.folder.path().join("unavez.db")).unwrap();
        let found = trace(&viewer, name, None, self.clock.now()).unwrap();
        assert_eq!((found.orders.len(), found.keys.len()), (1, 0), "{found:?}");
        steady(&page(name, &found, &DESK, Room(None)))
    }

    fn verdict(&self, name: &str) -> Verdict {
        let viewer = Viewer::open(&self.folder.path().join("unavez.db")).unwrap();
        let found = trace(&viewer, name, None, self.clock.now()).unwrap();
        // Must be writable as well as readable.
        serde_json::to_string(&Document::new(name, &found, &DESK)).unwrap();
        Verdict::of(found.orders.first().unwrap_or_else(|| panic!("nothing goes by {name}")))
    }
}

/// Without what is random: ids of requests by their order, the process by a word.
fn steady(page: &str) -> String {
    let mut text = anstream::adapter::strip_str(page).to_string();
    let Some(at) = text.find("req_") else { return text };
    let process = text[at + 4..at + 20].to_owned();
    for number in 1.. {
        let Some(at) = text.find(&format!("req_{process}")) else { break };
        let id = text[at..at + 36].to_owned();
        text = text.replace(&id, &format!("req_{number}"));
    }
    text.replace(&process, "0123456789abcdef")
}

const CREATED: u16 = StatusCode::CREATED.as_u16();
const LOST: u16 = StatusCode::GATEWAY_TIMEOUT.as_u16();

#[tokio::test]
async fn a_plain_retry_is_no_second_charge() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    for _ in 0..3 {
        assert_eq!(scene.charge("checkout-7", "tok_approve").await, CREATED);
    }
    insta::assert_snapshot!(scene.page("o-1"));
}

#[tokio::test]
async fn the_ledger_tells_as_much_as_it_knows() {
    let scene = Scene::open(AcquirerKind::Ledger).await;
    for _ in 0..2 {
        assert_eq!(scene.charge("checkout-7", "tok_approve").await, CREATED);
    }
    insta::assert_snapshot!(scene.page("checkout-7"));
}

#[tokio::test]
async fn two_keys_for_one_order_are_two_charges() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    for key in ["attempt-1", "attempt-2"] {
        assert_eq!(scene.charge(key, "tok_approve").await, CREATED);
    }
    insta::assert_snapshot!(scene.page("attempt-1"));
}

#[tokio::test]
async fn a_lost_answer_is_found_again() {
    let scene = Scene::open_with(AcquirerKind::Sandbox, Duration::from_secs(1)).await;
    assert_eq!(scene.charge("checkout-7", "tok_lost").await, LOST);
    assert!(matches!(scene.verdict("o-1"), Verdict::NotKnown { held: false, taken: None, .. }));
    assert_eq!(scene.charge("checkout-7", "tok_lost").await, CREATED);
    insta::assert_snapshot!(scene.page("o-1"));
}

#[tokio::test]
async fn what_was_pending_is_told_by_webhook() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    assert_eq!(scene.charge("checkout-7", "tok_pending").await, 202);
    insta::assert_snapshot!("pending", scene.page("o-1"));
    scene.clock.advance(Duration::from_secs(3));
    let books = scene.payments.books();
    let filter = unavez_payments::books::ChargeFilter { order_id: Some("o-1".into()), status: None };
    let tenant = unavez_core::identity::Tenant::single();
    while books.charges(&tenant, filter.clone(), None, 1).await.unwrap().items[0].status != Status::Captured {
        tokio::task::yield_now().await;
    }
    insta::assert_snapshot!("told", scene.page("o-1"));
}

#[tokio::test]
async fn a_declined_charge_took_nothing() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    assert_eq!(scene.charge("checkout-7", "tok_decline").await, 402);
    insta::assert_snapshot!(scene.page("o-1"));
}

#[tokio::test]
async fn what_is_held_says_what_a_person_has_to_do() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    for _ in 0..3 {
        assert_eq!(scene.charge("checkout 7", "tok_error").await, LOST);
        scene.clock.advance(Duration::from_secs(120));
    }
    assert_eq!(scene.charge("checkout 7", "tok_error").await, 409);
    // Alarms are written by the night shift.
    while scene.payments.books().anomalies(0, 1).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    insta::assert_snapshot!(scene.page("o-1"));
}

#[tokio::test]
async fn an_authorisation_and_its_capture_are_one_charge() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    let body =
        r#"{"order_id":"o-1","amount":2500,"currency":"EUR","payment_method":"tok_approve","capture":false}"#;
    assert_eq!(scene.post("/v1/charges", "hold", body).await, CREATED);
    let Verdict::Once(charge, _) = scene.verdict("hold") else { panic!("authorised") };
    assert_eq!(scene.post(&format!("/v1/charges/{charge}/capture"), "take", "{}").await, CREATED);
    insta::assert_snapshot!(scene.page("take"));
}

#[tokio::test]
async fn every_name_leads_to_the_order() {
    let scene = Scene::open(AcquirerKind::Sandbox).await;
    assert_eq!(scene.charge("checkout-7", "tok_approve").await, CREATED);
    let Verdict::Once(charge, _) = scene.verdict("o-1") else { panic!("charged") };
    assert_eq!(
        scene.post(&format!("/v1/charges/{charge}/refunds"), "back", r#"{"amount":500}"#).await,
        CREATED
    );
    let viewer = Viewer::open(&scene.folder.path().join("unavez.db")).unwrap();
    let found = trace(&viewer, "o-1", None, scene.clock.now()).unwrap();
    let traced = &found.orders[0].charges[0];
    let (refund, record) = traced.operations.last().unwrap();
    let hash = traced.record.as_ref().unwrap().key.log_hash().to_string();
    let names = [
        "o-1".to_owned(),
        "checkout-7".to_owned(),
        "back".to_owned(),
        hash,
        record.as_ref().unwrap().key.log_hash().to_string(),
        charge.to_string(),
        charge.operation_id().to_string(),
        traced.entries[0].id.to_string(),
        traced.request_id.to_string(),
        refund.request_id.to_string(),
        refund.resource.to_string(),
        refund.operation_id.to_string(),
        refund.reference.as_deref().unwrap().to_owned(),
        traced.operations[0].0.reference.as_deref().unwrap().to_owned(),
    ];
    for name in names {
        let order = trace(&viewer, &name, None, scene.clock.now()).unwrap();
        assert_eq!(order.orders.iter().map(|it| &*it.order_id).collect::<Vec<_>>(), ["o-1"], "{name}");
        let other = unavez_core::identity::Tenant::parse("other").unwrap();
        let of_other = trace(&viewer, &name, Some(&other), scene.clock.now()).unwrap();
        assert!(of_other.orders.is_empty() && of_other.keys.is_empty(), "{name}");
    }
}
