//! What is stored of an answer, and what a repeat gets (P15, P18 to P20).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tower::{Layer, ServiceExt};
use tower_http::compression::CompressionLayer;
use tower_http::decompression::DecompressionLayer;
use unavez_store::Store;
use unavez_tower::door::Bodies;
use unavez_tower::observe::{Answered, Event, Observer};
use unavez_tower::{OnLost, Said};

use crate::support::*;

/// Gives the prepared answers, one for each execution.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<VecDeque<Response>>>);

impl Script {
    fn of(answers: impl IntoIterator<Item = Response>) -> Self {
        Self(Arc::new(Mutex::new(answers.into_iter().collect())))
    }

    fn next(&self) -> Response {
        self.0.lock().unwrap().pop_front().expect("an execution that the test did not expect")
    }

    fn left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

fn scripted(world: &World, script: &Script) -> Router {
    let script = script.clone();
    app(world.layer().opaque(OnLost::Hold), async move || script.next())
}

/// Counts replays, as a metric would.
#[derive(Clone, Default)]
struct Replays(Counter);

impl Observer for Replays {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Answered { how: Answered::Replayed, route } = event {
            assert_eq!(*route, "orders");
            self.0.hit();
        }
    }
}

/// C47 on any store.
pub(crate) async fn check_statuses(store: Arc<dyn Store>) {
    let replays = Replays::default();
    let layer =
        layer_over(store, |settings| settings.observer = Arc::new(replays.clone())).with_route("orders");
    let effects = Counter::default();
    let app = app(layer.opaque(OnLost::Hold), {
        let effects = effects.clone();
        async move |headers: HeaderMap| {
            effects.hit();
            let status: u16 = headers["idempotency-key"].to_str().unwrap().parse().unwrap();
            let headers = [
                ("location", "/orders/1"),
                ("etag", "\"v1\""),
                ("content-type", "text/plain; charset=iso-8859-1"),
                ("link", "</a>; rel=next"),
                ("link", "</b>; rel=prev"),
            ];
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            for (name, value) in headers {
                response.headers_mut().append(name, value.parse().unwrap());
            }
            if status != 204 {
                *response.body_mut() = Body::from(&b"bytes \xe9\0"[..]);
            }
            response
        }
    });
    for (count, status) in [201, 202, 204, 303, 402, 404].into_iter().enumerate() {
        let key = status.to_string();
        let first = send(&app, post(&key, B1)).await;
        let repeat = send(&app, post(&key, B1)).await;
        assert_eq!((first.status, repeat.status), (status, status));
        assert_eq!((first.is_replay(), repeat.is_replay()), (false, true), "{status}");
        assert_eq!(first.body, repeat.body, "{status}");
        for name in ["location", "etag", "content-type", "idempotency-expires"] {
            assert_eq!(first.header(name), repeat.header(name), "{status} {name}");
            assert!(first.header(name).is_some(), "{status} {name}");
        }
        let links: Vec<_> = repeat.headers.get_all("link").iter().collect();
        assert_eq!(links, ["</a>; rel=next", "</b>; rel=prev"], "{status}: repeats in order");
        assert_eq!((effects.count(), replays.0.count()), (count + 1, count + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn c47_every_final_status_comes_back_as_it_was() {
    check_statuses(World::new().store).await;
}

#[tokio::test(start_paused = true)]
async fn c48_headers_of_one_exchange_do_not_come_back() {
    let fleeting = [
        ("set-cookie", "session=1"),
        ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("www-authenticate", "Bearer"),
        ("x-request-id", "r-1"),
        ("x-ratelimit-remaining", "7"),
        ("retry-after", "9"),
        ("connection", "x-foo"),
        ("x-foo", "hop"),
        ("trailer", "x-sum"),
    ];
    let mut response = (StatusCode::CREATED, "made").into_response();
    for (name, value) in fleeting {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response.headers_mut().insert("x-kept", "end to end".parse().unwrap());
    let (world, script) = (World::new(), Script::of([response]));
    let app = scripted(&world, &script);
    let first = send(&app, post("K1", B1)).await;
    let repeat = send(&app, post("K1", B1)).await;
    for (name, value) in fleeting {
        assert_eq!(first.header(name), Some(value), "the first caller gets the handler's own");
        assert_eq!(repeat.header(name), None);
    }
    assert_eq!((repeat.header("x-kept"), repeat.is_replay()), (Some("end to end"), true));
}

#[tokio::test(start_paused = true)]
async fn c50_compression_outside_labels_what_it_sends() {
    let (world, text) = (World::new(), "a body that is worth compressing ".repeat(64));
    let inner = {
        let text = text.clone();
        app(world.layer().opaque(OnLost::Hold), async move |headers: HeaderMap| {
            assert!(!headers.contains_key("accept-encoding"), "an inner compression has nothing to go by");
            text
        })
    };
    let app = inner.layer(CompressionLayer::new());
    let zipped = send(&app, with_header(post("K1", B1), "accept-encoding", "gzip")).await;
    assert_eq!(zipped.header("content-encoding"), Some("gzip"));
    assert!(zipped.body.len() < text.len() / 4);
    let unzipped = DecompressionLayer::new().layer(app.clone()).oneshot(post("K1", B1)).await.unwrap();
    assert_eq!(unzipped.headers().get("idempotent-replayed").unwrap(), "true");
    assert_eq!(unzipped.into_body().collect().await.unwrap().to_bytes(), text, "decodes to the same");
    for request in [with_header(post("K1", B1), "accept-encoding", "identity"), post("K1", B1)] {
        let plain = send(&app, request).await;
        assert_eq!((plain.header("content-encoding"), plain.is_replay()), (None, true));
        assert_eq!(plain.body, text);
    }
    let again = send(&app, with_header(post("K1", B1), "accept-encoding", "gzip")).await;
    assert_eq!((&again.body, again.is_replay()), (&zipped.body, true));
}

#[tokio::test(start_paused = true)]
async fn c53_bodies_come_back_byte_for_byte() {
    let bodies: [&[u8]; 6] =
        [b"", b"null", b"\x00\xff\xfe\n", b"\xc3\x28", br#"{"b":1, "a":1.0}"#, &[7; 100_000]];
    let world = World::new();
    for (key, body) in bodies.into_iter().enumerate() {
        let script = Script::of([Body::from(body).into_response()]);
        let app = scripted(&world, &script);
        let key = format!("K{key}");
        let first = send(&app, post(&key, B1)).await;
        let repeat = send(&app, post(&key, B1)).await;
        assert_eq!(first.body, body);
        assert_eq!((&repeat.body[..], repeat.status, repeat.is_replay()), (body, 200, true));
    }
    let script = Script::of([StatusCode::NO_CONTENT.into_response()]);
    let app = scripted(&world, &script);
    for replay in [false, true] {
        let seen = send(&app, post("empty", B1)).await;
        assert_eq!((seen.status, seen.body.len(), seen.is_replay()), (204, 0, replay));
    }
}

#[tokio::test(start_paused = true)]
async fn c10_a_business_conflict_is_final() {
    let answers = [(StatusCode::CONFLICT, "insufficient stock").into_response()];
    let (world, script) = (World::new(), Script::of(answers));
    let app = scripted(&world, &script);
    for replay in [false, true, true] {
        let seen = send(&app, post("K1", B1)).await;
        assert_eq!(
            (seen.status, &seen.body[..], seen.is_replay()),
            (409, &b"insufficient stock"[..], replay)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c54_released_statuses_run_again_and_final_ones_do_not() {
    let answers = [401, 429, 201].map(|status| StatusCode::from_u16(status).unwrap().into_response());
    let (world, script) = (World::new(), Script::of(answers));
    let app = scripted(&world, &script);
    for (status, replay) in [(401, false), (429, false), (201, false), (201, true)] {
        let seen = send(&app, post("K1", B1)).await;
        assert_eq!((seen.status, seen.is_replay()), (status, replay));
    }
    for status in [402, 404, 409, 422] {
        let answers = [status, 201].map(|status| StatusCode::from_u16(status).unwrap().into_response());
        let (world, script) = (World::new(), Script::of(answers));
        let app = scripted(&world, &script);
        for replay in [false, true] {
            let seen = send(&app, post("K1", B1)).await;
            assert_eq!((seen.status, seen.is_replay()), (status, replay));
        }
        assert_eq!(send(&app, post("K2", B1)).await.status, 201, "another key runs after a {status}");
        assert_eq!(script.left(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn c55_a_500_releases_a_transactional_route_and_holds_an_opaque_one() {
    let fail = || StatusCode::INTERNAL_SERVER_ERROR.into_response();
    let refuse = || StatusCode::PAYMENT_REQUIRED.into_response();
    let (world, script) = (World::new(), Script::of([fail(), refuse()]));
    let handler = script.clone();
    let app = app(world.layer().transactional(), async move || handler.next());
    assert_eq!(send(&app, post("K1", B1)).await.status, 500);
    assert_eq!(send(&app, post("K1", B1)).await.status, 402, "released, so the retry runs");
    assert!(
        send(&app, post("K1", B1)).await.is_replay(),
        "a final refusal is recorded without business rows"
    );

    let (world, script) = (World::new(), Script::of([fail()]));
    let app = scripted(&world, &script);
    assert_eq!(send(&app, post("K1", B1)).await.status, 500);
    assert_eq!(send(&app, post("K1", B1)).await.code(), "outcome-unknown");
}

#[tokio::test(start_paused = true)]
async fn p15_a_handler_says_its_outcome_and_the_client_does_not_see_it() {
    let by_header = |status, word: &str| {
        let mut response = StatusCode::from_u16(status).unwrap().into_response();
        response.headers_mut().insert("idempotency-outcome", word.parse().unwrap());
        response
    };
    let by_extension = |status, said: Said| {
        let mut response = StatusCode::from_u16(status).unwrap().into_response();
        response.extensions_mut().insert(said);
        response
    };
    // (what the handler answers, what the first caller sees, what the repeat sees)
    let cases = [
        (by_header(503, "final"), 503, (503, true)),
        (by_header(404, "released"), 404, (200, false)),
        (by_header(200, "unknown"), 504, (409, false)),
        (by_header(202, "pending"), 202, (409, false)),
        (by_header(500, "no such word"), 500, (409, false)),
        (by_extension(500, Said::Final), 500, (500, true)),
        (by_extension(402, Said::Released), 402, (200, false)),
        (by_extension(201, Said::Unknown), 504, (409, false)),
    ];
    for (answer, first_status, repeat) in cases {
        let (world, script) = (World::new(), Script::of([answer, StatusCode::OK.into_response()]));
        let app = scripted(&world, &script);
        let first = send(&app, post("K1", B1)).await;
        assert_eq!((first.status, first.header("idempotency-outcome")), (first_status, None));
        let seen = send(&app, post("K1", B1)).await;
        assert_eq!((seen.status, seen.is_replay()), repeat, "after a first {first_status}");
    }
}

/// An event stream whose events come one each second.
fn events(count: usize) -> Response {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
    tokio::spawn(async move {
        for event in 0..count {
            if event > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            if sender.send(Bytes::from(format!("data: {event}\n\n"))).await.is_err() {
                return;
            }
        }
    });
    ([("content-type", "text/event-stream; charset=utf-8"), ("etag", "\"e\"")], streamed(receiver))
        .into_response()
}

fn streamed(receiver: tokio::sync::mpsc::Receiver<Bytes>) -> Body {
    Body::new(Channel(receiver))
}

/// A body of these chunks, of a length that is not announced.
pub(crate) fn chunks<const N: usize>(
    chunks: [&'static str; N],
) -> impl HttpBody<Data = Bytes, Error = Infallible> + Send + 'static {
    Frames(chunks.map(|chunk| Frame::data(Bytes::from_static(chunk.as_bytes()))).into())
}

/// Frames that are all there, of a length that is not announced.
struct Frames(VecDeque<Frame<Bytes>>);

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

struct Channel(tokio::sync::mpsc::Receiver<Bytes>);

impl HttpBody for Channel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

#[tokio::test(start_paused = true)]
async fn c51_an_event_stream_starts_at_once_and_its_repeat_is_told_that_it_was_not_kept() {
    let (world, script) = (World::new(), Script::of([events(3)]));
    let app = scripted(&world, &script);
    let begun = tokio::time::Instant::now();
    let response = app.clone().oneshot(post("K1", B1)).await.unwrap();
    assert!(
        response.headers().get("idempotency-expires").is_none(),
        "a streamed first answer has no promise yet"
    );
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"data: 0\n\n");
    assert!(begun.elapsed() < Duration::from_millis(100));

    // Repeats do not wait for the end of the stream, and nothing runs again.
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((repeat.status, repeat.code()), (200, "response-not-kept".to_owned()));
    assert_eq!((repeat.is_replay(), repeat.header("etag")), (true, None));
    assert_eq!(repeat.header("content-type"), Some("application/problem+json"));
    let rest = body.collect().await.unwrap().to_bytes();
    assert_eq!(&rest[..], b"data: 1\n\ndata: 2\n\n", "the first caller gets it whole");
    assert_eq!(begun.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn c51_an_endless_body_is_passed_on_within_bounded_memory() {
    for pause in [Duration::ZERO, Duration::from_millis(40)] {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        let produced = Counter::default();
        let count = produced.clone();
        tokio::spawn(async move {
            while sender.send(Bytes::from(vec![b'x'; 1024])).await.is_ok() {
                count.hit();
                tokio::time::sleep(pause).await;
            }
        });
        let (world, script) = (World::new(), Script::of([streamed(receiver).into_response()]));
        let layer = world.layer().opaque(OnLost::Hold).with_kept_bytes_max(64 * 1024);
        let app = {
            let script = script.clone();
            app(layer, async move || script.next())
        };
        let begun = tokio::time::Instant::now();
        let response = app.clone().oneshot(post("K1", B1)).await.unwrap();
        let mut body = response.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), 1024);
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        assert!(produced.count() <= 64 + 4, "read ahead no further than the cap: {}", produced.count());
        for _ in 0..200 {
            assert!(body.frame().await.is_some(), "still coming");
        }
        let repeat = send(&app, post("K1", B1)).await;
        assert_eq!((repeat.code(), repeat.is_replay()), ("response-not-kept".to_owned(), true));
    }
}

#[tokio::test(start_paused = true)]
async fn p20_an_answer_above_the_cap_reaches_its_first_caller_whole() {
    let large = vec![b'y'; 2000];
    for known_length in [true, false] {
        let body = if known_length {
            Body::from(large.clone())
        } else {
            let chunks = large.chunks(100).map(|chunk| Frame::data(Bytes::copy_from_slice(chunk)));
            Body::new(Frames(chunks.collect()))
        };
        let answer = (StatusCode::CREATED, [("location", "/orders/1"), ("content-language", "es")], body);
        let (world, script) = (World::new(), Script::of([answer.into_response()]));
        let handler = script.clone();
        let layer = world.layer().opaque(OnLost::Hold).with_kept_bytes_max(1000);
        let app = app(layer, async move || handler.next());
        let first = send(&app, post("K1", B1)).await;
        assert_eq!((first.status, &first.body[..]), (201, &large[..]));
        assert!(first.header("idempotency-expires").is_some());
        let repeat = send(&app, post("K1", B1)).await;
        assert_eq!((repeat.status, repeat.code()), (201, "response-not-kept".to_owned()));
        assert_eq!((repeat.header("location"), repeat.header("content-language")), (Some("/orders/1"), None));
        assert!(repeat.is_replay());
    }
}

#[tokio::test(start_paused = true)]
async fn p20_a_redacted_route_keeps_no_body() {
    let answer = (StatusCode::CREATED, [("location", "/cards/1")], "card 4111");
    let (world, script) = (World::new(), Script::of([answer.into_response()]));
    let handler = script.clone();
    let layer = world.layer().opaque(OnLost::Hold).with_bodies(Bodies::Redacted);
    let app = app(layer, async move || handler.next());
    assert_eq!(send(&app, post("K1", B1)).await.body, "card 4111");
    assert!(!format!("{:?}", world.record("K1").await).contains("4111"));
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!(
        (repeat.status, repeat.code(), repeat.is_replay()),
        (201, "response-not-kept".to_owned(), true)
    );
}

#[tokio::test(start_paused = true)]
async fn p21_a_key_runs_again_after_its_ttl_with_any_body() {
    let answers = ["one", "two"].map(IntoResponse::into_response);
    let (world, script) = (World::new(), Script::of(answers));
    let app = scripted(&world, &script);
    let first = send(&app, post("K1", B1)).await;
    world.advance_secs(24 * 3600 - 1).await;
    assert!(send(&app, post("K1", B1)).await.is_replay());
    world.advance_secs(1).await;
    let anew = send(&app, post("K1", B2)).await;
    assert_eq!((anew.is_replay(), &anew.body[..]), (false, &b"two"[..]));
    assert_ne!(first.header("idempotency-expires"), anew.header("idempotency-expires"));
}

/// Two bodies of the same bytes are of one length, whatever the handler's framing was.
#[tokio::test(start_paused = true)]
async fn p18_trailers_reach_the_first_caller() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "1".parse().unwrap());
    let frames = [Frame::data(Bytes::from_static(b"body")), Frame::trailers(trailers.clone())];
    let body = Body::new(Frames(frames.into()));
    let (world, script) = (World::new(), Script::of([body.into_response()]));
    let app = scripted(&world, &script);
    let first = app.clone().oneshot(post("K1", B1)).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(first.trailers(), Some(&trailers));
    assert_eq!(send(&app, post("K1", B1)).await.body, "body");
}
