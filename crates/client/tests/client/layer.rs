//! The tower layer: bodies, keys, and services that must be ready before they are called.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimit;
use tower::load_shed::LoadShed;
use tower::{Layer as _, Service, ServiceExt as _};
use unavez_client::{Client, NoAnswer, Preset, RetryLayer, Unfit};

/// Answers with these statuses and notes key and body. It panics if it is called without having been ready, which a clone
/// never is.
#[derive(Default)]
struct Server {
    seen: Arc<Mutex<Seen>>,
    is_ready: bool,
}

#[derive(Default)]
struct Seen {
    statuses: VecDeque<u16>,
    keys: Vec<String>,
    bodies: Vec<Bytes>,
}

impl Server {
    fn new(statuses: impl IntoIterator<Item = u16>) -> (Self, Arc<Mutex<Seen>>) {
        let seen = Arc::new(Mutex::new(Seen { statuses: statuses.into_iter().collect(), ..Seen::default() }));
        (Self { seen: Arc::clone(&seen), is_ready: false }, seen)
    }
}

impl Clone for Server {
    fn clone(&self) -> Self {
        Self { seen: Arc::clone(&self.seen), is_ready: false }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Infallible>> + Send>>;

impl Service<Request<Full<Bytes>>> for Server {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answering {
        assert!(std::mem::take(&mut self.is_ready), "called without having been ready");
        let seen = Arc::clone(&self.seen);
        Box::pin(async move {
            let key = request.headers().get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut seen = seen.lock().unwrap();
            seen.keys.push(key.unwrap_or_default());
            seen.bodies.push(body);
            let status = seen.statuses.pop_front().unwrap_or(201);
            Ok(Response::builder().status(status).body(Full::default()).unwrap())
        })
    }
}

fn retry() -> RetryLayer {
    RetryLayer::new(Client::builder(Preset::stripe()))
}

fn post(key: Option<&str>) -> Request<Full<Bytes>> {
    let mut request = Request::post("http://shop.test/v1/charges");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.body(Full::from("{}")).unwrap()
}

/// A body that comes in parts and does not say how long it is.
struct Stream(VecDeque<&'static str>);

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(Bytes::from(part)))))
    }
}

#[tokio::test(start_paused = true)]
async fn c66_every_attempt_sends_the_same_body_whatever_it_came_from() {
    let known = Full::from("{\"amount\":500}").boxed();
    let unknown = Stream(["{\"amount\"", ":500}"].into()).boxed();
    assert_eq!((known.size_hint().exact(), unknown.size_hint().exact()), (Some(14), None));
    for body in [known, unknown] {
        let (server, seen) = Server::new([503, 201]);
        let request = Request::post("http://shop.test/").body(body).unwrap();
        let answer = retry().layer(server).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 201);
        assert_eq!(seen.lock().unwrap().bodies, ["{\"amount\":500}"; 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn c66_what_is_too_large_to_keep_is_refused_before_it_is_sent() {
    let (server, seen) = Server::new([503, 201]);
    let refused = retry().with_body_bytes_max(1).layer(server).oneshot(post(None)).await.unwrap_err();
    assert!(matches!(&refused, NoAnswer::Unfit(Unfit::BodyTooLarge { limit: 1 })), "{refused}");
    assert!(seen.lock().unwrap().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn c67_a_callers_key_is_kept_and_the_next_call_gets_another() {
    let (server, seen) = Server::new([503, 503, 201, 503, 201]);
    let client = retry().layer(server);
    client.clone().oneshot(post(Some("K1"))).await.unwrap();
    client.oneshot(post(None)).await.unwrap();
    let keys = seen.lock().unwrap().keys.clone();
    assert_eq!(keys[..3], ["K1"; 3]);
    assert_eq!(keys[3], keys[4]);
    assert!(keys[3] != "K1" && keys[3].len() == 36, "{keys:?}");
}

#[tokio::test(start_paused = true)]
async fn c67_clones_never_share_a_key_and_get_carries_none() {
    let (server, seen) = Server::new([]);
    let client = retry().layer(server);
    let (one, other) = tokio::join!(client.clone().oneshot(post(None)), client.clone().oneshot(post(None)));
    assert!(one.is_ok() && other.is_ok());
    let get = Request::builder().method(Method::GET).uri("http://shop.test/").body(Full::<Bytes>::default());
    client.oneshot(get.unwrap()).await.unwrap();
    let keys = seen.lock().unwrap().keys.clone();
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2], "");
}

#[tokio::test(start_paused = true)]
async fn p33_a_request_that_names_no_host_is_refused() {
    let (server, seen) = Server::new([]);
    let nowhere = Request::post("/v1/charges").body(Full::<Bytes>::default()).unwrap();
    let refused = retry().layer(server).oneshot(nowhere).await.unwrap_err();
    assert!(matches!(refused, NoAnswer::Unfit(Unfit::Url(_))), "{refused}");
    assert!(seen.lock().unwrap().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn p1_a_malformed_key_of_the_request_is_refused_before_it_is_sent() {
    let (server, seen) = Server::new([]);
    let refused = retry().layer(server).oneshot(post(Some("a,b"))).await.unwrap_err();
    assert!(matches!(refused, NoAnswer::Unfit(Unfit::Key(_))), "{refused}");
    assert!(seen.lock().unwrap().keys.is_empty());
}

#[tokio::test(start_paused = true)]
async fn c76_what_is_called_was_ready_under_and_over_other_layers() {
    let check = async |statuses: &Arc<Mutex<Seen>>, answered: bool| {
        assert!(answered);
        assert_eq!(statuses.lock().unwrap().keys.len(), 3);
    };
    let (server, seen) = Server::new([503, 503, 201]);
    let limited = retry().layer(ConcurrencyLimit::new(server, 1));
    check(&seen, ConcurrencyLimit::new(limited, 1).oneshot(post(None)).await.is_ok()).await;

    let (server, seen) = Server::new([503, 503, 201]);
    let buffered = retry().layer(Buffer::new(server, 1));
    check(&seen, Buffer::new(buffered, 1).oneshot(post(None)).await.is_ok()).await;

    let (server, seen) = Server::new([503, 503, 201]);
    let shedding = retry().layer(LoadShed::new(ConcurrencyLimit::new(server, 1)));
    check(&seen, LoadShed::new(shedding).oneshot(post(None)).await.is_ok()).await;
}

/// While a call waits for its next attempt, it must not sit on the inner service's only permit.
#[tokio::test(start_paused = true)]
async fn c76_a_wait_holds_no_permit_of_the_inner_service() {
    let (server, seen) = Server::new([503, 503]);
    let client = retry().layer(ConcurrencyLimit::new(server, 1));
    let (one, other) = tokio::join!(client.clone().oneshot(post(Some("a"))), client.oneshot(post(Some("b"))));
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(seen.lock().unwrap().keys.len(), 4);
}
