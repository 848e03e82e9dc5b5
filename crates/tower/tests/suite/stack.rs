//! The layer among other tower layers, without axum.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tower::{Layer, Service, ServiceBuilder, ServiceExt};
use unavez_tower::{Body, IdempotencyLayer, MemoryStore, OnLost, tenant};

use crate::support::*;

/// A service that insists on being polled ready before each call, on the very instance that is called.
struct Strict {
    calls: Counter,
    is_ready: bool,
}

impl Strict {
    fn new(calls: &Counter) -> Self {
        Self { calls: calls.clone(), is_ready: false }
    }
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::new(&self.calls)
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "called an instance that was not polled ready");
        let mut response = Response::new(Body::from(format!("call {}", self.calls.hit())));
        *response.status_mut() = StatusCode::CREATED;
        ready(Ok(response))
    }
}

fn plain(key: &str) -> Request<Body> {
    Request::post("/orders").header("idempotency-key", key).body(Body::from(B1)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn c76_each_call_goes_to_the_instance_that_was_polled_ready() {
    let (calls, layer) = (Counter::default(), IdempotencyLayer::new(MemoryStore::new(), tenant::single()));
    let mut service = layer.opaque(OnLost::Hold).layer(Strict::new(&calls));
    for (key, replay) in [("K1", false), ("K1", true), ("K2", false)] {
        assert_eq!(read(call(&mut service, plain(key)).await).await.is_replay(), replay);
    }
    let uncovered = Request::get("/orders").body(Body::empty()).unwrap();
    assert_eq!(call(&mut service, uncovered).await.status(), 201);
    assert_eq!(calls.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn c76_works_under_limits_buffers_and_load_shedding() {
    let (calls, layer) = (Counter::default(), IdempotencyLayer::new(MemoryStore::new(), tenant::single()));
    let service = ServiceBuilder::new()
        .buffer::<Request<Body>>(4)
        .load_shed()
        .concurrency_limit(1)
        .layer(layer.opaque(OnLost::Hold))
        .map_err(|error: tower::BoxError| -> Infallible { unreachable!("{error}") })
        .timeout(Duration::from_secs(1))
        .service(Strict::new(&calls));
    for (key, replay) in [("K1", false), ("K1", true), ("K2", false), ("K2", true)] {
        let response = service.clone().oneshot(plain(key)).await.unwrap();
        assert_eq!(read(response).await.is_replay(), replay, "{key}");
    }
    assert_eq!(calls.count(), 2);
}
