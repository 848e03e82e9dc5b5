//! The promises, asked of the product, of the lesson server, and of services that run somewhere.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    http::StatusCode,
    routing::{get, post},
};
use tokio::net::TcpListener;
use unavez_lab::{
    Mutation, Remote,
    accept::{Options, Outcome, run},
    progress::Silent,
};
use unavez_payments::{Payments, Settings, server};
use unavez_store::sqlite;

const NAMES: [&str; 15] = [
    "retries-same-key",
    "distinct-operations",
    "concurrent-race",
    "same-key-other-body",
    "repeat-in-progress",
    "after-restart",
    "after-kill",
    "two-tenants",
    "lost-owner",
    "late-owner",
    "outcome-lost",
    "pending-then-webhook",
    "declined-is-replayed",
    "zombie-reclaimed-once",
    "late-arrival",
];

async fn serve(router: Router) -> Remote {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(server::serve(listener, router, server::Limits::default(), std::future::pending()));
    Remote::parse(&address).expect("an address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_product_keeps_every_promise() {
    let report = run(&Options::default(), &Silent).await.expect("private servers");
    assert_eq!(report.tests.iter().map(|test| test.name).collect::<Vec<_>>(), NAMES);
    for test in &report.tests {
        let expected = if test.name == "after-kill" { Outcome::Skipped } else { Outcome::Passed };
        assert_eq!(test.result, expected, "{}: {}", test.name, test.detail);
        if test.passed {
            assert_eq!((test.charges, test.total), (test.expected_charges, test.expected_charges * 500));
        }
    }
    assert_eq!((report.passed, report.failed, report.skipped), (14, 0, 1));
    assert!(report.passed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_claims_atomicity_only_the_race_fails() {
    let options = Options { mutation: Some(Mutation::CheckThenWrite), ..Options::default() };
    let report = run(&options, &Silent).await.expect("private servers");
    let failed: Vec<_> = report.tests.iter().filter(|test| test.result == Outcome::Failed).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((failed[0].name, failed[0].charges, failed[0].total), ("concurrent-race", 2, 1_000));
    assert!(!report.passed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_service_is_asked_what_can_be_asked_from_outside() {
    let payments = Payments::open(sqlite::Location::Memory, sqlite::Options::default(), Settings::default())
        .await
        .expect("a database in memory");
    let remote = serve(payments.router()).await;
    for round in 1..=2 {
        let options = Options { target: Some(remote.clone()), ..Options::default() };
        let report = run(&options, &Silent).await.expect("it answers");
        let made: Vec<_> = report.tests.iter().filter(|test| test.result != Outcome::Skipped).collect();
        let names: Vec<_> = made.iter().map(|test| test.name).collect();
        assert_eq!(
            names,
            ["retries-same-key", "distinct-operations", "concurrent-race", "same-key-other-body"]
        );
        assert!(made.iter().all(|test| test.passed), "round {round}: {made:?}");
        assert!(
            report.tests.iter().filter(|test| !test.passed).all(|test| !test.detail.to_string().is_empty())
        );
    }
}

/// A service of somebody else's that offers no more than the tests need, and charges whatever it is sent.
fn forgetful() -> Router {
    let charges = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&charges);
    let charge = move || async move {
        let id = count.fetch_add(1, Ordering::SeqCst);
        (StatusCode::CREATED, format!(r#"{{"id":"ch_{id}"}}"#))
    };
    let summary = move || async move {
        let charges = charges.load(Ordering::SeqCst);
        let captured = charges * 50_000;
        format!(
            r#"{{"currencies":[{{"currency":"USD","charges":{charges},"captured":{captured},"refunded":0,"balanced":true}}]}}"#
        )
    };
    Router::new()
        .route("/healthz", get(|| async { r#"{"acquirer":"sandbox"}"# }))
        .route("/v1/charges", post(charge))
        .route("/v1/ledger/summary", get(summary))
}

#[tokio::test]
async fn a_service_needs_nothing_but_charging_and_a_summary_to_be_found_out() {
    let options = Options { target: Some(serve(forgetful()).await), ..Options::default() };
    let report = run(&options, &Silent).await.expect("it answers");
    let seen =
        |name| report.tests.iter().find(|test| test.name == name).map(|test| (test.charges, test.total));
    assert_eq!(seen("retries-same-key"), Some((3, 1_500)));
    assert_eq!(seen("distinct-operations"), Some((2, 1_000)));
    assert_eq!(seen("concurrent-race"), Some((16, 8_000)));
    assert_eq!((report.passed, report.failed), (1, 3));
}

#[tokio::test]
async fn a_service_that_may_move_real_money_is_refused() {
    let health = || async { r#"{"status":"ok","acquirer":"stripe"}"# };
    let remote = serve(Router::new().route("/healthz", get(health))).await;
    let refused =
        run(&Options { target: Some(remote), ..Options::default() }, &Silent).await.expect_err("real money");
    assert_eq!(refused.exit_code(), 2);
    assert!(refused.to_string().contains("--i-know"), "{refused}");
}

#[tokio::test]
async fn a_service_that_is_not_there_is_not_reachable() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let remote =
        Remote::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("an address");
    drop(listener);
    let refused = run(&Options { target: Some(remote), ..Options::default() }, &Silent)
        .await
        .expect_err("nobody there");
    assert_eq!(refused.exit_code(), 3);
}

#[tokio::test]
async fn a_running_service_cannot_be_broken_from_outside() {
    let options = Options {
        mutation: Some(Mutation::NoFence),
        target: Some(Remote::parse("http://127.0.0.1:1").expect("an address")),
        ..Options::default()
    };
    assert_eq!(run(&options, &Silent).await.expect_err("not ours").exit_code(), 2);
}
