//! A service on a port of its own with a database in a folder of its own, and a client that speaks plain HTTP to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Change, Claim, Exposure};
use unavez_core::timing::Timings;
use unavez_payments::acquirer::Acquirer;
use unavez_payments::server::{self, Drained};
use unavez_payments::{Payments, Settings};
use unavez_store::clock::ManualClock;
use unavez_store::sqlite::{Location, Options};
use unavez_store::{Store, Swap};

/// The two bodies of the cases.
pub(crate) const B1: &str = r#"{"amount":2500,"currency":"EUR","order_id":"o-1001"}"#;
pub(crate) const B2: &str = r#"{"amount":9900,"currency":"EUR","order_id":"o-1001"}"#;

/// What a service is started with.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) server: server::Limits,
    pub(crate) clock: Option<ManualClock>,
    pub(crate) file_bytes_max: Option<u64>,
    pub(crate) acquirer: Option<Arc<dyn Acquirer>>,
}

/// A running service.
pub(crate) struct Service {
    pub(crate) payments: Payments,
    pub(crate) address: std::net::SocketAddr,
    setup: Setup,
    folder: Arc<TempDir>,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Drained>,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Service {
    pub(crate) async fn start() -> Self {
        Self::start_with(Setup::default()).await
    }

    pub(crate) async fn start_with(setup: Setup) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().expect("a temporary folder")), setup).await
    }

    pub(crate) async fn start_in(folder: Arc<TempDir>, setup: Setup) -> Self {
        let payments = open(&folder, &setup).await.expect("the service opens");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (stop, stopped) = oneshot::channel();
        let router = payments.router_with_admin(axum::Router::new());
        let shutdown = async { drop(stopped.await) };
        let serving = tokio::spawn(server::serve(listener, router, setup.server.clone(), shutdown));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { payments, address, setup, folder, client, stop, serving }
    }

    /// Stops everything and says how the server drained. The database stays in the returned folder.
    pub(crate) async fn stop(self) -> (Arc<TempDir>, Drained) {
        drop(self.client);
        self.stop.send(()).expect("the server is running");
        let drained = self.serving.await.expect("the server does not panic");
        self.payments.close().await;
        (self.folder, drained)
    }

    /// A new process on the same database.
    pub(crate) async fn restart(self) -> Self {
        let setup = self.setup.clone();
        self.restart_with(setup).await
    }

    pub(crate) async fn restart_with(self, setup: Setup) -> Self {
        let (folder, _) = self.stop().await;
        Self::start_in(folder, setup).await
    }

    /// The database's files as they are, in a folder of their own.
    pub(crate) fn copy(&self) -> Arc<TempDir> {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        for name in ["unavez.db", "unavez.db-wal"] {
            std::fs::copy(self.folder().join(name), folder.path().join(name)).expect("the file is there");
        }
        folder
    }

    /// What a process finds whose predecessor was killed just now: the files as they are. The predecessor's tasks go on,
    /// and reach nothing of it.
    pub(crate) async fn kill_and_restart(self) -> Self {
        let folder = self.copy();
        let setup =
            Setup { clock: self.setup.clock.as_ref().map(ManualClock::restarted), ..self.setup.clone() };
        std::mem::forget(self);
        Self::start_in(folder, setup).await
    }

    /// The clock this service was started with.
    pub(crate) fn setup_clock(&self) -> ManualClock {
        self.setup.clock.clone().expect("started with a clock of its own")
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub(crate) fn call(&self, method: Method, path: &str) -> Call<'_> {
        Call {
            service: self,
            request: Request::builder().method(method).uri(self.url(path)),
            body: Bytes::new(),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path).send().await
    }

    /// `POST /v1/charges` as an honest client sends it.
    pub(crate) async fn charge(&self, key: &str, body: &str) -> Reply {
        self.call(Method::POST, "/v1/charges").key(key).json(body).send().await
    }

    pub(crate) async fn post(&self, path: &str, key: &str, body: &str) -> Reply {
        self.call(Method::POST, path).key(key).json(body).send().await
    }

    /// (charges, captured) of the default tenant in EUR, as the ledger says.
    pub(crate) async fn ledger(&self) -> (u64, u64) {
        let summary = self.get("/v1/ledger/summary").await.json();
        let currencies = summary["currencies"].as_array().expect("a list of currencies").clone();
        for currency in &currencies {
            assert_eq!(currency["balanced"], true, "{summary}");
        }
        currencies.iter().find(|it| it["currency"] == "EUR").map_or((0, 0), |euros| {
            (euros["charges"].as_u64().expect("a count"), euros["captured"].as_u64().expect("a sum"))
        })
    }

    /// How many rows each table has: what a refusal must leave as it was.
    pub(crate) async fn rows(&self) -> [i64; 3] {
        self.payments
            .store()
            .read(|connection| {
                let count = |table| {
                    connection.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0))
                };
                Ok([count("idempotency_records")?, count("charges")?, count("ledger_entries")?])
            })
            .await
            .expect("the store reads")
    }
}

/// Opens the service's database without serving it.
pub(crate) async fn open(folder: &TempDir, setup: &Setup) -> Result<Payments, unavez_payments::OpenError> {
    let clock = setup.clock.clone().map(|clock| Arc::new(clock) as Arc<dyn unavez_store::clock::Clock>);
    let file_bytes_max = setup.file_bytes_max;
    let options = Options { clock, file_bytes_max, lock_wait: Duration::ZERO, ..Options::default() };
    let location = Location::File(database(folder));
    match &setup.acquirer {
        Some(acquirer) => {
            Payments::open_with(location, options, setup.settings.clone(), Arc::clone(acquirer)).await
        }
        None => Payments::open(location, options, setup.settings.clone()).await,
    }
}

pub(crate) fn database(folder: &TempDir) -> PathBuf {
    folder.path().join("unavez.db")
}

/// A request in the making.
pub(crate) struct Call<'a> {
    service: &'a Service,
    request: http::request::Builder,
    body: Bytes,
}

impl Call<'_> {
    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.request = self.request.header(name, value.as_ref());
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.header("content-type", "application/json").body(Bytes::copy_from_slice(body.as_bytes()))
    }

    pub(crate) fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    pub(crate) async fn send(self) -> Reply {
        let request = self.request.body(Full::new(self.body)).expect("a request that can be sent");
        let response = self.service.client.request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("the whole answer").to_bytes();
        let reply = Reply { status: head.status, headers: head.headers, body };
        reply.check();
        reply
    }
}

impl Reply {
    /// What holds for every answer.
    fn check(&self) {
        let id = self.header("request-id").expect("every answer has a request id");
        assert!(id.starts_with("req_") && id.len() == 36, "{id}");
        if !self.body.is_empty() && (self.status.is_client_error() || self.status.is_server_error()) {
            assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
            let problem = self.json();
            let code = problem["code"].as_str().expect("a code");
            assert_eq!(problem["type"], format!("https://unavez.dev/problems/{code}"));
            assert_eq!(problem["status"], self.status.as_u16());
            assert!(problem["title"].is_string() && problem["retryable"].is_boolean(), "{problem}");
            assert!(
                self.header("retry-after").is_none_or(|wait| wait.parse::<u32>().is_ok_and(|wait| wait >= 1))
            );
        }
        assert_eq!(self.is_replayed(), self.header("original-request-id").is_some(), "{self:?}");
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a readable header"))
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed").is_some_and(|value| value == "true")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Status and code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status.as_u16(), self.json()["code"].as_str().unwrap_or("").to_owned())
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap_or("").to_owned()
    }
}

pub(crate) fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// The digest of `POST /v1/charges` with this body.
pub(crate) fn fingerprint(body: &str) -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body: body.as_bytes(),
    };
    Fingerprint::of(&request, &Rules::default()).expect("an unambiguous body")
}

/// Leaves the record of a request that is still running, as a service with an outside acquirer would.
pub(crate) async fn hold(service: &Service, key: &str, body: &str) {
    let store = service.payments.store();
    let (tenant, key) = (Tenant::single(), Key::parse_path(key).expect("a key"));
    let id = RecordId::of(store.realm(), &tenant, &key);
    let claim = Claim {
        tenant,
        key,
        fingerprint: fingerprint(body),
        attempt: AttemptId::from_bytes([7; 16]),
        timing: Timings::default().attempt(),
        exposure: Exposure::MayBeSent,
    };
    let swap = store.swap(id, None, Change::Claim(claim)).await.expect("the store answers");
    assert!(matches!(swap, Swap::Swapped { .. }), "{swap:?}");
}
