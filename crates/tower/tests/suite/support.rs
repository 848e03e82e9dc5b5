//! What the tests share: a small shop behind the layer, a store with faults on a clock of its own, and a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tower::{Service, ServiceExt};
use unavez_core::identity::RecordId;
use unavez_core::key::Key;
use unavez_core::record::Record;
use unavez_store::Store;
use unavez_store::clock::ManualClock;
use unavez_store::fault::Faulty;
use unavez_store::memory::MemoryStore;
use unavez_tower::engine::{Engine, Kind, Settings};
use unavez_tower::tenant::{self, Tenant};
use unavez_tower::{IdempotencyLayer, Realm, Timings};

pub(crate) const B1: &str = r#"{"amount":2500,"currency":"EUR","order_id":"o-1001"}"#;
pub(crate) const B2: &str = r#"{"amount":9900,"currency":"EUR","order_id":"o-1001"}"#;

/// The timings that the cases assume.
pub(crate) fn timings() -> Timings {
    Timings { operation_timeout: Duration::from_secs(10), ..Timings::default() }
}

/// A store in memory with faults, on a clock that only the test moves. Clones are the same world.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<Faulty<MemoryStore>>,
    records: MemoryStore,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let records = MemoryStore::with_clock(clock.clone());
        let store = Arc::new(Faulty::new(records.clone()));
        Self { clock, store, records }
    }

    pub(crate) fn layer(&self) -> IdempotencyLayer {
        self.layer_with(|_| {})
    }

    pub(crate) fn layer_with(&self, change: impl FnOnce(&mut Settings)) -> IdempotencyLayer {
        layer_over(self.store.clone(), change)
    }

    /// The single tenant's record under a key.
    pub(crate) async fn record(&self, key: &str) -> Option<Arc<Record>> {
        self.store.load(record_id(key)).await.unwrap().record
    }

    /// The same, past the faults and their counters.
    pub(crate) async fn peek(&self, key: &str) -> Option<Arc<Record>> {
        self.records.load(record_id(key)).await.unwrap().record
    }

    /// Moves the store's clock and tokio's.
    pub(crate) async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        tokio::time::advance(by).await;
    }

    pub(crate) async fn advance_secs(&self, seconds: u64) {
        self.advance(Duration::from_secs(seconds)).await;
    }
}

fn record_id(key: &str) -> RecordId {
    let realm = Realm::parse("test").unwrap();
    RecordId::of(&realm, &Tenant::single(), &Key::parse_path(key).unwrap())
}

pub(crate) fn layer_over(store: Arc<dyn Store>, change: impl FnOnce(&mut Settings)) -> IdempotencyLayer {
    // Named, since every engine over one store must agree on it.
    let realm = Realm::parse("test").unwrap();
    let mut settings = Settings { realm: Some(realm), timings: timings(), ..Settings::default() };
    change(&mut settings);
    IdempotencyLayer::with_engine(Engine::new(store, settings).unwrap(), tenant::single())
}

/// `/orders` behind the layer; `/plain` beside it.
pub(crate) fn app<H, T>(layer: IdempotencyLayer<Kind>, handler: H) -> Router
where
    H: Handler<T, ()>,
    T: 'static,
{
    Router::new().route("/orders", any(handler)).route_layer(layer).route("/plain", any(async || "plain"))
}

/// How often something really happened.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn hit(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A door that a handler waits at until the test opens it, and that tells the test when somebody stands there.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    arrived: Arc<Notify>,
    open: Arc<Notify>,
}

impl Gate {
    pub(crate) async fn pass(&self) {
        self.arrived.notify_one();
        self.open.notified().await;
    }

    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    pub(crate) fn open(&self) {
        self.open.notify_one();
    }
}

/// What a caller saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The member `code` of a problem.
    pub(crate) fn code(&self) -> String {
        let document = self.json();
        document["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Status and code of a problem, with its wait.
    pub(crate) fn problem(&self) -> (u16, String, Option<&str>) {
        (self.status, self.code(), self.header("retry-after"))
    }
}

pub(crate) fn request(method: Method, path: &str, key: Option<&str>, body: &str) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Body::from(body.to_owned())).unwrap()
}

pub(crate) fn post(key: &str, body: &str) -> Request<Body> {
    request(Method::POST, "/orders", Some(key), body)
}

pub(crate) fn with_header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().append(name, value.parse().unwrap());
    request
}

/// Sends one request and reads the whole answer.
pub(crate) async fn send(app: &Router, request: Request<Body>) -> Seen {
    read(app.clone().oneshot(request).await.unwrap()).await
}

pub(crate) async fn read<B>(response: http::Response<B>) -> Seen
where
    B: http_body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Seen { status: head.status.as_u16(), headers: head.headers, body }
}

/// Sends a request in a task of its own.
pub(crate) fn send_aside(app: &Router, request: Request<Body>) -> tokio::task::JoinHandle<Seen> {
    let app = app.clone();
    tokio::spawn(async move { send(&app, request).await })
}

/// Calls a service the way `tower` wants it: ready first, on the same instance.
pub(crate) async fn call<S, R>(service: &mut S, request: R) -> S::Response
where
    S: Service<R, Error = std::convert::Infallible>,
{
    service.ready().await.unwrap().call(request).await.unwrap()
}

/// Lets every task that can run do so.
pub(crate) async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}
