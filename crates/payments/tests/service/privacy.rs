//! What must be nowhere in clear.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use unavez_core::identity::{Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_payments::Settings;
use unavez_payments::auth::{Roles, generate};

use crate::support::{Service, Setup, database, refused};

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn contains(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle.as_bytes())
}

/// Stands in every stored answer of a charge, and in no other column.
const ANSWER: &str = "\"object\":\"charge\"";

#[tokio::test]
async fn c60_sealed_answers_are_nowhere_in_clear_and_open_for_nobody_else() {
    let log = Log::default();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).init();

    let secrets = tempfile::tempdir().unwrap();
    let seal_key_file = secrets.path().join("seal-keys");
    let seal_key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    std::fs::write(&seal_key_file, format!("k1 {seal_key}\n")).unwrap();
    let (a, line_a) = generate(Tenant::parse("a").unwrap(), Roles::ALL, None);
    let (b, line_b) = generate(Tenant::parse("b").unwrap(), Roles::ALL, None);
    let api_keys_file = secrets.path().join("api-keys");
    std::fs::write(&api_keys_file, format!("{line_a}\n{line_b}\n")).unwrap();

    let body = r#"{"order_id":"o-secret","amount":1,"currency":"EUR","metadata":{"note":"private"}}"#;
    let charge = async |service: &Service, api_key: &str, body: &str| {
        let call = service
            .call(http::Method::POST, "/v1/charges")
            .header("authorization", format!("Bearer {api_key}"));
        call.key("K-secret").json(body).send().await
    };
    for sealed in [false, true] {
        let settings = Settings {
            seal_key_file: sealed.then(|| seal_key_file.clone()),
            api_keys_file: Some(api_keys_file.clone()),
            ..Settings::default()
        };
        let setup = Setup { settings, ..Setup::default() };
        let service = Service::start_with(setup.clone()).await;
        let first = charge(&service, &a, body).await;
        assert_eq!(first.status, 201);
        assert!(contains(&first.body, ANSWER));
        let files = || {
            let mut bytes = Vec::new();
            for file in std::fs::read_dir(service.folder()).unwrap() {
                bytes.extend(std::fs::read(file.unwrap().path()).unwrap());
            }
            bytes
        };
        assert_eq!(contains(&files(), ANSWER), !sealed, "the file and its WAL, sealed: {sealed}");
        let again = charge(&service, &a, body).await;
        assert!(again.is_replayed());
        assert_eq!(again.body, first.body);
        charge(&service, &a, "[]").await;

        let realm = service.payments.realm().clone();
        let (folder, _) = service.stop().await;
        steal(&database(&folder), &realm);
        let service = Service::start_in(folder, setup).await;
        let stolen = charge(&service, &b, body).await;
        if sealed {
            assert_eq!(stolen.refusal(), refused(500, "internal"));
            assert!(!contains(&stolen.body, "o-secret"));
            assert_eq!(charge(&service, &a, body).await.body, first.body, "its owner can still open it");
        } else {
            assert!(stolen.is_replayed(), "without sealing a copied row is as good as the first: {stolen:?}");
        }
        service.stop().await;
    }

    let log = log.0.lock().unwrap();
    assert!(contains(&log, "answered"), "something was logged");
    for secret in ["K-secret", "o-secret", "private", ANSWER, &a, &b, seal_key] {
        assert!(!contains(&log, secret), "{secret} was logged");
    }
}

/// Copies tenant a's record to tenant b's same key, as somebody with write access to the file could.
fn steal(file: &std::path::Path, realm: &Realm) {
    let key = Key::parse_path("K-secret").unwrap();
    let [from, to] = ["a", "b"].map(|tenant| RecordId::of(realm, &Tenant::parse(tenant).unwrap(), &key));
    let database = rusqlite::Connection::open(file).unwrap();
    let copy = "
        create temp table copy as select * from idempotency_records where id = ?1;
    ";
    database.execute(copy, [from.as_bytes()]).unwrap();
    database
        .execute("update copy set position = position + 1000, tenant = 'b', id = ?1", [to.as_bytes()])
        .unwrap();
    database.execute("insert into idempotency_records select * from copy", []).unwrap();
}
