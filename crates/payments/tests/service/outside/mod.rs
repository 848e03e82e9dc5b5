//! The service with an acquirer outside: what is sent, what is asked, and what is told, whatever dies in the middle.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use unavez_core::identity::OperationId;
use unavez_core::timing::Timings;
use unavez_payments::Settings;
use unavez_payments::acquirer::{Report, Standing};
use unavez_store::clock::ManualClock;

use crate::support::{B1, Reply, Service, Setup};
use scripted::Scripted;

mod by_hand;
mod forgotten;
mod life;
mod lost;
mod reconcile;
mod same_order;
mod sandbox;
mod scripted;
mod sightings;
mod steps;
mod trace;
mod webhooks;

/// 10 s of operation timeout, as the cases say.
pub(crate) fn setup(acquirer: &Arc<Scripted>) -> Setup {
    let timings = Timings { operation_timeout: Duration::from_secs(10), ..Timings::default() };
    Setup {
        settings: Settings { timings, ..Settings::default() },
        clock: Some(ManualClock::new()),
        acquirer: Some(Arc::clone(acquirer) as _),
        ..Setup::default()
    }
}

pub(crate) async fn start(acquirer: &Arc<Scripted>) -> Service {
    Service::start_with(setup(acquirer)).await
}

/// Moves every clock on.
pub(crate) async fn later(service: &Service, duration: Duration) {
    service.setup_clock().advance(duration);
    tokio::time::pause();
    tokio::time::advance(duration.min(Duration::from_secs(3))).await;
    tokio::time::resume();
}

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The operation behind a key of the default tenant.
pub(crate) async fn operation(service: &Service, key: &str) -> OperationId {
    let status = service.get(&format!("/v1/idempotency-keys/{key}")).await.json();
    OperationId::parse(status["operation_id"].as_str().expect("the key has a record")).unwrap()
}

/// Delivers an event.
pub(crate) async fn tell(
    service: &Service,
    acquirer: &Scripted,
    id: &str,
    standing: Standing,
    report: Report,
) -> Reply {
    deliver(service, acquirer.event(id, standing, report)).await
}

pub(crate) async fn deliver(service: &Service, event: String) -> Reply {
    service
        .call(Method::POST, "/v1/webhooks/acquirer")
        .header("x-signed", "yes")
        .body(event.into())
        .send()
        .await
}

/// The reasons of everything that was found not to fit.
pub(crate) async fn anomalies(service: &Service) -> Vec<&'static str> {
    let found = service.payments.books().anomalies(0, 1000).await.unwrap();
    found.iter().map(|anomaly| anomaly.reason.as_str()).collect()
}

/// A charge that is captured, and its id.
pub(crate) async fn captured(service: &Service, key: &str) -> String {
    let charge = service.charge(key, B1).await;
    assert_eq!(charge.status, 201, "{charge:?}");
    charge.json()["id"].as_str().unwrap().to_owned()
}

/// A charge of 2500 that is authorized, and its id.
pub(crate) async fn authorized(service: &Service, key: &str) -> String {
    let body = r#"{"amount":2500,"currency":"EUR","order_id":"o-1001","capture":false}"#;
    let charge = service.charge(key, body).await;
    assert_eq!((charge.status.as_u16(), &charge.json()["status"]), (201, &"authorized".into()), "{charge:?}");
    charge.json()["id"].as_str().unwrap().to_owned()
}
