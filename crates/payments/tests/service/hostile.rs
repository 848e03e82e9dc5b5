//! Clients that mean no good, or know no better: on a raw socket, byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use unavez_payments::{Limits, Settings, server};

use crate::support::{B1, Service, Setup};

/// Long enough for a loaded machine, and still an end.
const PATIENCE: Duration = Duration::from_secs(20);

async fn connect(service: &Service) -> TcpStream {
    TcpStream::connect(service.address).await.unwrap()
}

/// Everything the server says until it closes.
async fn hear(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
    // A reset also ends a conversation; what was heard before it counts.
    drop(read.expect("the server closes the connection"));
    String::from_utf8_lossy(&heard).into_owned()
}

async fn say(service: &Service, text: &[u8]) -> String {
    let mut stream = connect(service).await;
    stream.write_all(text).await.unwrap();
    hear(&mut stream).await
}

fn post(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\nconnection: close\r\nidempotency-key: K1\r\n\
         content-type: application/json\r\n{headers}\r\n{body}"
    )
}

fn short(header_read_timeout: Duration, idle_timeout: Duration) -> Setup {
    let server = server::Limits { header_read_timeout, idle_timeout, ..server::Limits::default() };
    Setup { server, ..Setup::default() }
}

#[tokio::test]
async fn malformed_requests_are_400_and_the_service_stays_up() {
    let service = Service::start().await;
    for text in [
        "nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\ncontent-length: x\r\n\r\n",
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        "POST /v1/charges HTTP/1.1\r\nhost: x\r\nbad header: 1\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
    ] {
        let heard = say(&service, text.as_bytes()).await;
        assert!(heard.starts_with("HTTP/1.1 400 "), "{text:?}: {heard}");
    }
    let long_head = format!("GET / HTTP/1.1\r\nidempotency-key: {}\r\n\r\n", "k".repeat(70_000));
    let heard = say(&service, long_head.as_bytes()).await;
    assert!(heard.starts_with("HTTP/1.1 431 "), "c38: {heard}");
    assert_eq!(service.rows().await, [0, 0, 0]);
    assert_eq!(service.charge("K1", B1).await.status, 201);
}

#[tokio::test]
async fn large_bodies_are_refused_however_they_come() {
    let service = Service::start().await;
    let large = " ".repeat(300 * 1024);
    let chunked: String =
        large.as_bytes().chunks(1000).map(|chunk| format!("3e8\r\n{}\r\n", &large[..chunk.len()])).collect();
    for (name, text) in [
        ("with its length", post(&format!("content-length: {}\r\n", large.len()), &large)),
        ("announced and not sent", post("expect: 100-continue\r\ncontent-length: 999999999\r\n", "")),
        ("in chunks", post("transfer-encoding: chunked\r\n", &format!("{chunked}0\r\n\r\n"))),
    ] {
        let heard = say(&service, text.as_bytes()).await;
        assert!(heard.starts_with("HTTP/1.1 413 "), "{name}: {heard}");
        assert!(heard.contains("\"code\":\"too-large\""), "{name}: {heard}");
        assert!(heard.contains("request-id: req_"), "{name}: {heard}");
    }
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_lying_content_length_charges_nothing() {
    let service = Service::start().await;
    let too_short = say(&service, post("content-length: 5\r\n", B1).as_bytes()).await;
    assert!(too_short.starts_with("HTTP/1.1 400 "), "{too_short}");

    let mut stream = connect(&service).await;
    stream.write_all(post("content-length: 99\r\n", B1).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let cut_off = hear(&mut stream).await;
    assert!(cut_off.is_empty() || cut_off.starts_with("HTTP/1.1 408 "), "{cut_off}");

    let both = post(&format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", B1.len()), "0\r\n\r\n");
    let smuggled = say(&service, both.as_bytes()).await;
    assert!(smuggled.is_empty() || smuggled.starts_with("HTTP/1.1 400 "), "{smuggled}");
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_slow_head_is_cut_and_a_slow_body_is_408() {
    let limits = Limits { body_timeout: Duration::from_millis(100), ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let setup = short(Duration::from_millis(100), Duration::from_secs(60));
    let service = Service::start_with(Setup { settings, ..setup }).await;
    for begun in ["", "P", "PR", "PRI * HT", "POST /v1/charges HTTP/1.1\r\nhost:"] {
        let heard = say(&service, begun.as_bytes()).await;
        // HTTP/2 greets first.
        assert!(!heard.starts_with("HTTP/1.1"), "{begun:?}: {heard}");
    }
    let heard = say(&service, post("content-length: 60\r\n", "{").as_bytes()).await;
    assert!(heard.starts_with("HTTP/1.1 408 ") && heard.contains("retry-after: 1\r\n"), "{heard}");
    assert!(heard.contains("\"request-incomplete\"") && heard.contains("\"retryable\":true"), "{heard}");
    assert!(heard.contains("body did not arrive within 100ms"), "{heard}");
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn an_idle_connection_outlives_the_timeout_of_heads_and_ends_by_its_own() {
    let service = Service::start_with(short(Duration::from_millis(50), Duration::from_millis(500))).await;
    let mut stream = connect(&service).await;
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let start = std::time::Instant::now();
    stream.write_all(request).await.unwrap();
    let heard = hear(&mut stream).await;
    assert!(heard.starts_with("HTTP/1.1 200 "), "{heard}");
    assert!(start.elapsed() >= Duration::from_millis(400), "closed after {:?}", start.elapsed());
}

#[tokio::test]
async fn connections_above_the_limit_hear_so_and_cost_nobody_a_place() {
    let server = server::Limits {
        connections_max: 20,
        idle_timeout: Duration::from_secs(60),
        ..server::Limits::default()
    };
    let service = Service::start_with(Setup { server, ..Setup::default() }).await;
    assert_eq!(service.charge("K1", B1).await.status, 201, "the client's own connection stays open");
    let mut idle = Vec::new();
    for _ in 0..19 {
        let mut stream = connect(&service).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        idle.push(stream);
    }
    for _ in 0..2_000 {
        drop(connect(&service).await);
    }
    let heard = say(&service, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(heard.starts_with("HTTP/1.1 503 "), "{heard}");
    for part in
        ["\"code\":\"overloaded\"", "limit 20", "retry-after: 1", "connection: close", "request-id: req_"]
    {
        assert!(heard.contains(part), "{part} is not in {heard}");
    }
    assert!(service.charge("K1", B1).await.is_replayed(), "who is inside is served");
    idle.pop();
    while !say(&service, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .starts_with("HTTP/1.1 200")
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn http2_is_spoken_to_whoever_begins_with_it() {
    let service = Service::start().await;
    let stream = connect(&service).await;
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(executor, hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for replayed in [false, true] {
        let request = http::Request::post(format!("http://{}/v1/charges", service.address))
            .header("idempotency-key", "K1")
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from_static(B1.as_bytes())))
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
    }
}

/// A body of five chunks, one every 50 ms.
struct Slow {
    ticks: tokio::time::Interval,
    left: u8,
}

impl hyper::body::Body for Slow {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, Self::Error>>> {
        if self.left == 0 {
            return std::task::Poll::Ready(None);
        }
        self.ticks.poll_tick(cx).map(|_| {
            self.left -= 1;
            Some(Ok(hyper::body::Frame::data(bytes::Bytes::from_static(b"tick"))))
        })
    }
}

#[tokio::test]
async fn a_long_answer_is_not_an_idle_connection() {
    let answer = || async {
        let ticks = tokio::time::interval(Duration::from_millis(50));
        axum::body::Body::new(Slow { ticks, left: 5 })
    };
    let router = axum::Router::new().route("/", axum::routing::get(answer));
    let limits = server::Limits {
        header_read_timeout: Duration::from_millis(40),
        idle_timeout: Duration::from_millis(40),
        ..server::Limits::default()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(server::serve(listener, router, limits, std::future::pending()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let heard = hear(&mut stream).await;
    assert_eq!(heard.matches("tick").count(), 5, "{heard}");
}
