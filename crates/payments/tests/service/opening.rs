//! Starting: what cannot be true together is refused with both values, and nothing is left open.

use std::time::Duration;

use unavez_core::timing::Timings;
use unavez_payments::{OpenError, Settings};
use unavez_store::clock::ManualClock;
use unavez_store::sqlite;

use crate::support::{B1, Service, Setup, open};

async fn refusal(settings: Settings) -> OpenError {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { settings, ..Setup::default() };
    let refused = open(&folder, &setup).await.map(|_| ()).unwrap_err();
    // Nothing holds the database: the next one opens it.
    open(&folder, &Setup::default()).await.unwrap().close().await;
    refused
}

#[tokio::test]
async fn contradicting_settings_are_refused_with_both_values() {
    let timings = Timings { response_ttl: Duration::from_secs(1), ..Timings::default() };
    let refused = refusal(Settings { timings, ..Settings::default() }).await.to_string();
    assert!(refused.contains("response ttl 1s") && refused.contains("operation timeout 60s"), "{refused}");
    let timings = Timings { operation_timeout: Duration::from_secs(4), ..Timings::default() };
    let refused = refusal(Settings { timings, ..Settings::default() }).await.to_string();
    assert!(refused.contains("need 4s"), "{refused}");
}

#[tokio::test]
async fn files_that_cannot_be_read_are_named_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    std::fs::write(&file, "# mine\nhunter2\n").unwrap();
    let refused = refusal(Settings { api_keys_file: Some(file.clone()), ..Settings::default() }).await;
    assert!(matches!(&refused, OpenError::ApiKeys(error) if error.line == Some(2)), "{refused}");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    let refused = refusal(Settings { seal_key_file: Some(file), ..Settings::default() }).await;
    assert!(matches!(&refused, OpenError::SealKeys { path, .. } if path.ends_with("secrets")), "{refused}");
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    let missing = Some(folder.path().join("missing"));
    let refused = refusal(Settings { api_keys_file: missing, ..Settings::default() }).await;
    assert!(matches!(&refused, OpenError::ApiKeys(error) if error.line.is_none()), "{refused}");
}

#[tokio::test]
async fn a_database_has_one_owner() {
    let service = Service::start().await;
    let folder = service.folder().to_owned();
    let options = sqlite::Options { lock_wait: Duration::ZERO, ..sqlite::Options::default() };
    let location = sqlite::Location::File(folder.join("unavez.db"));
    let refused = unavez_payments::Payments::open(location, options, Settings::default())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(refused, OpenError::Store(sqlite::OpenError::Locked { .. })), "{refused}");
    assert_eq!(service.charge("K1", B1).await.status, 201);
}

#[tokio::test]
async fn the_night_shift_purges_what_is_expired() {
    let clock = ManualClock::new();
    let service = Service::start_with(Setup { clock: Some(clock.clone()), ..Setup::default() }).await;
    for at in 0..3 {
        service.charge(&format!("K{at}"), B1).await;
    }
    clock.advance(Duration::from_secs(25 * 3600));
    service.charge("K3", B1).await;
    while service.rows().await != [1, 4, 4] {
        tokio::task::yield_now().await;
    }
    let metrics = async || String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
    while !metrics().await.contains("unavez_purged_total 3\n") {
        tokio::task::yield_now().await;
    }
    assert!(metrics().await.contains("unavez_purge_lag_seconds 0.0\n"));
}

#[tokio::test]
async fn a_service_that_is_dropped_lets_go_of_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let payments = open(&folder, &Setup::default()).await.unwrap();
    drop(payments);
    let mut opened = open(&folder, &Setup::default()).await;
    while opened.is_err() {
        tokio::task::yield_now().await;
        opened = open(&folder, &Setup::default()).await;
    }
}
