//! P23: a sealing key that is lost or changed is found at the start, never by an honest repeat.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Change, Claim, Exposure};
use unavez_core::seal::SealKeys;
use unavez_core::timing::Timings;
use unavez_payments::{OpenError, Settings};
use unavez_store::clock::ManualClock;
use unavez_store::{Store, Swap};

use crate::support::{B1, Service, Setup, open};

/// A deployment whose key file changes between its starts.
struct Deployment {
    folder: Arc<TempDir>,
    secrets: TempDir,
    clock: ManualClock,
}

fn line(id: &str, digit: &str) -> String {
    format!("{id} {}\n", digit.repeat(64))
}

impl Deployment {
    fn new() -> Self {
        let folder = || tempfile::tempdir().unwrap();
        Self { folder: Arc::new(folder()), secrets: folder(), clock: ManualClock::new() }
    }

    /// With this text in its key file; `None`: without one.
    fn setup(&self, keys: Option<&str>) -> Setup {
        let seal_key_file: Option<PathBuf> = keys.map(|text| {
            let file = self.secrets.path().join("seal-keys");
            std::fs::write(&file, text).unwrap();
            file
        });
        let settings = Settings { seal_key_file, ..Settings::default() };
        Setup { settings, clock: Some(self.clock.clone()), ..Setup::default() }
    }

    async fn start(&self, keys: Option<&str>) -> Service {
        Service::start_in(Arc::clone(&self.folder), self.setup(keys)).await
    }

    async fn refusal(&self, keys: Option<&str>) -> OpenError {
        open(&self.folder, &self.setup(keys)).await.map(drop).unwrap_err()
    }
}

async fn charge_once(service: Service) {
    assert_eq!(service.charge("K1", B1).await.status, 201);
    service.stop().await;
}

async fn replay(service: Service) {
    assert!(service.charge("K1", B1).await.is_replayed());
    service.stop().await;
}

#[tokio::test]
async fn other_bytes_under_a_known_id_are_refused_for_ever() {
    let deployment = Deployment::new();
    let (first, other) = (line("k1", "1"), line("k1", "2"));
    charge_once(deployment.start(Some(&first)).await).await;
    let refused = deployment.refusal(Some(&other)).await;
    assert!(matches!(&refused, OpenError::SealKeyChanged { id } if id.as_str() == "k1"), "{refused}");
    assert!(refused.to_string().contains("`k1`") && !refused.to_string().contains("2222"), "{refused}");
    replay(deployment.start(Some(&first)).await).await;

    // Not needed any more, not there for a while, and still the same key or none.
    deployment.clock.advance(Duration::from_secs(25 * 3600));
    deployment.start(None).await.stop().await;
    let refused = deployment.refusal(Some(&other)).await;
    assert!(matches!(refused, OpenError::SealKeyChanged { .. }), "{refused}");
    deployment.start(Some(&first)).await.stop().await;
}

#[tokio::test]
async fn a_key_that_unexpired_answers_need_has_to_be_there() {
    let deployment = Deployment::new();
    let (first, second) = (line("k1", "1"), line("k2", "2"));
    charge_once(deployment.start(Some(&first)).await).await;
    for keys in [None, Some(second.as_str())] {
        let refused = deployment.refusal(keys).await;
        assert!(
            matches!(&refused, OpenError::SealKeyMissing { id, records: 1 } if id == "k1"),
            "{keys:?}: {refused}"
        );
        assert!(refused.to_string().contains("`k1` is not there, and 1 open"), "{refused}");
    }
    replay(deployment.start(Some(&format!("{second}{first}"))).await).await;
    deployment.clock.advance(Duration::from_secs(25 * 3600));
    deployment.start(Some(&second)).await.stop().await;
}

#[tokio::test]
async fn a_key_that_an_open_record_was_claimed_with_has_to_be_there() {
    let deployment = Deployment::new();
    let first = line("k1", "1");
    let service = deployment.start(Some(&first)).await;
    hold(&service, &SealKeys::parse(&first).unwrap()).await;
    service.stop().await;
    deployment.clock.advance(Duration::from_secs(25 * 3600));
    let refused = deployment.refusal(None).await;
    assert!(matches!(refused, OpenError::SealKeyMissing { records: 1, .. }), "{refused}");
    deployment.start(Some(&first)).await.stop().await;
}

/// Leaves a record that is running, fingerprinted with these keys.
async fn hold(service: &Service, keys: &SealKeys) {
    let store = service.payments.store();
    let (tenant, key) = (Tenant::single(), Key::parse_path("K1").unwrap());
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body: B1.as_bytes(),
    };
    let rules = Rules { keys: keys.fingerprint_keys(), ..Rules::default() };
    let id = RecordId::of(store.realm(), &tenant, &key);
    let claim = Claim {
        tenant,
        key,
        fingerprint: Fingerprint::of(&request, &rules).unwrap(),
        attempt: AttemptId::from_bytes([7; 16]),
        timing: Timings::default().attempt(),
        exposure: Exposure::MayBeSent,
    };
    let swap = store.swap(id, None, Change::Claim(claim)).await.unwrap();
    assert!(matches!(swap, Swap::Swapped { .. }), "{swap:?}");
}
