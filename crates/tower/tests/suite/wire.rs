//! A real server on loopback: framing, connections that break, and heads that are too large.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use http_body::{Body as HttpBody, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use unavez_tower::engine::Engine;
use unavez_tower::{IdempotencyLayer, MemoryStore, OnLost, tenant};

use crate::answers::chunks;
use crate::support::*;

/// A server, and a message for each connection that has ended.
struct Server {
    address: SocketAddr,
    ended: mpsc::Receiver<()>,
}

impl Server {
    async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (service, end) = (TowerToHyperService::new(app.clone()), end.clone());
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // How a connection ends is the test's doing.
                    let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                    let _ = end.send(()).await;
                });
            }
        });
        Self { address, ended }
    }

    async fn connect(&self) -> Http1 {
        Http1 { socket: TcpStream::connect(self.address).await.unwrap(), read: Vec::new() }
    }
}

/// An HTTP/1.1 client that trusts nothing but the bytes.
struct Http1 {
    socket: TcpStream,
    read: Vec<u8>,
}

/// An answer as it stood on the wire.
struct Raw {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Raw {
    fn lines(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }
}

impl Http1 {
    async fn write(&mut self, key: &str, headers: &str) {
        let head = format!(
            "POST /orders HTTP/1.1\r\nhost: shop\r\ncontent-type: application/json\r\nidempotency-key: {key}\r\n\
             {headers}content-length: {}\r\n\r\n{B1}",
            B1.len()
        );
        // A server may refuse and close before it has read everything.
        let _ = self.socket.write_all(head.as_bytes()).await;
    }

    async fn send(&mut self, key: &str) -> Raw {
        self.write(key, "").await;
        self.answer().await.expect("a whole answer")
    }

    /// The next answer, read by the framing that it announces; `None`: the connection ended before.
    async fn answer(&mut self) -> Option<Raw> {
        let end = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break end;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut raw = Raw { status, head, body: Vec::new() };
        let (lengths, codings) = (raw.lines("content-length"), raw.lines("transfer-encoding"));
        match (&lengths[..], &codings[..]) {
            ([length], []) => {
                let length = length.parse().unwrap();
                while self.read.len() < length {
                    self.more().await?;
                }
                raw.body = self.read.drain(..length).collect();
            }
            ([], ["chunked"]) => raw.body = self.chunked().await?,
            ([], []) if status == 204 => {}
            framing => panic!("exactly one framing, not {framing:?}"),
        }
        Some(raw)
    }

    async fn chunked(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = find(&self.read, b"\r\n") {
                    break end;
                }
                self.more().await?;
            };
            let line: Vec<u8> = self.read.drain(..end + 2).collect();
            let length = usize::from_str_radix(std::str::from_utf8(&line[..end]).unwrap(), 16).unwrap();
            while self.read.len() < length + 2 {
                self.more().await?;
            }
            body.extend(self.read.drain(..length));
            self.read.drain(..2);
            if length == 0 {
                return Some(body);
            }
        }
    }

    async fn more(&mut self) -> Option<()> {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                self.read.extend(&buffer[..count]);
                Some(())
            }
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

async fn send_over_http2(server: &Server, key: &str) -> Seen {
    let socket = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = post(key, B1);
    *request.uri_mut() = "http://shop/orders".parse().unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    let seen = read(response).await;
    drop(sender);
    connection.abort();
    seen
}

#[tokio::test]
async fn c49_replays_have_one_framing_and_leave_the_connection_usable() {
    let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
    let app = app(layer.opaque(OnLost::Hold), async |headers: HeaderMap| {
        match headers["idempotency-key"].as_bytes()[0] {
            b'c' => (StatusCode::CREATED, Body::new(chunks(["first ", "second"]))).into_response(),
            b'e' => StatusCode::NO_CONTENT.into_response(),
            _ => (StatusCode::CREATED, "first second").into_response(),
        }
    });
    let server = Server::start(app).await;
    let mut connection = server.connect().await;
    for key in ["c1", "l1", "c2", "l2"] {
        for replayed in [false, true, true] {
            let raw = connection.send(key).await;
            assert_eq!((raw.status, &raw.body[..]), (201, &b"first second"[..]), "{key}");
            assert_eq!(!raw.lines("idempotent-replayed").is_empty(), replayed, "{key}");
        }
        let seen = send_over_http2(&server, key).await;
        assert_eq!((seen.status, &seen.body[..], seen.is_replay()), (201, &b"first second"[..], true));
        assert_eq!(seen.header("transfer-encoding"), None);
    }
    for replayed in [false, true] {
        let raw = connection.send("e1").await;
        assert_eq!((raw.status, raw.lines("content-length").len()), (204, 0));
        assert_eq!(!raw.lines("idempotent-replayed").is_empty(), replayed);
    }
    // First over HTTP/2, then over 1.1.
    for key in ["c3", "l3"] {
        assert!(!send_over_http2(&server, key).await.is_replay());
        let raw = connection.send(key).await;
        assert_eq!((&raw.body[..], raw.lines("idempotent-replayed")), (&b"first second"[..], vec!["true"]));
    }
}

/// How a caller leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    /// Orderly: FIN.
    Finish,
    /// At once: RST.
    Reset,
}

#[tokio::test]
async fn c11_a_connection_that_breaks_at_any_step_stops_nothing() {
    for leave in [Leave::Finish, Leave::Reset] {
        for left_at in 0..3 {
            let (gate, steps) = (Gate::default(), Counter::default());
            let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
            let engine: Engine = layer.engine().clone();
            let app = app(layer.opaque(OnLost::Hold), {
                let (gate, steps) = (gate.clone(), steps.clone());
                async move || {
                    for _ in 0..3 {
                        gate.pass().await;
                        steps.hit();
                    }
                    (StatusCode::CREATED, "made")
                }
            });
            let mut server = Server::start(app).await;
            let mut connection = server.connect().await;
            connection.write("K1", "").await;
            for step in 0..3 {
                gate.arrived().await;
                if step == left_at {
                    if let Leave::Reset = leave {
                        connection.socket.set_zero_linger().unwrap();
                    }
                    drop(std::mem::replace(&mut connection, server.connect().await));
                    server.ended.recv().await.expect("the server has noticed");
                }
                gate.open();
            }
            assert_eq!(engine.drain(Duration::from_secs(30)).await, 0);
            let repeat = connection.send("K1").await;
            assert_eq!((repeat.status, &repeat.body[..]), (201, &b"made"[..]), "{leave:?} at step {left_at}");
            assert_eq!(repeat.lines("idempotent-replayed"), ["true"]);
            assert_eq!(steps.count(), 3, "one run, to its end");
        }
    }
}

#[tokio::test]
async fn c38_a_key_of_any_length_is_answered_with_a_refusal() {
    let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
    let app = app(layer.opaque(OnLost::Hold), async || StatusCode::CREATED);
    let server = Server::start(app).await;
    for (length, allowed) in [(255, &[201][..]), (256, &[400]), (8_000, &[400]), (70_000, &[400, 431])] {
        let mut connection = server.connect().await;
        connection.write(&"k".repeat(length), "").await;
        let raw = connection.answer().await.expect("an answer, not a closed connection");
        assert!(allowed.contains(&raw.status), "{length}: {}", raw.status);
    }
    let mut connection = server.connect().await;
    connection.write("K1", "idempotency-key: K1\r\n").await;
    assert_eq!(connection.answer().await.unwrap().status, 400, "two header lines, even equal ones");
    assert_eq!(connection.send("K1").await.status, 201);
}

#[tokio::test]
async fn p5_a_body_that_is_cut_off_claims_nothing() {
    let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
    let effects = Counter::default();
    let handler = effects.clone();
    let app = app(layer.opaque(OnLost::Hold), async move |body: Bytes| {
        handler.hit();
        (StatusCode::CREATED, format!("{} bytes", body.len()))
    });
    let mut server = Server::start(app).await;
    let mut connection = server.connect().await;
    let head =
        "POST /orders HTTP/1.1\r\nhost: shop\r\nidempotency-key: K1\r\ncontent-length: 100\r\n\r\n{\"half\"";
    connection.socket.write_all(head.as_bytes()).await.unwrap();
    drop(connection);
    server.ended.recv().await.unwrap();
    let whole = server.connect().await.send("K1").await;
    assert_eq!((whole.status, whole.body), (201, format!("{} bytes", B1.len()).into_bytes()));
    assert_eq!(effects.count(), 1);
}

/// A body whose connection breaks.
struct Broken;

impl HttpBody for Broken {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())))
    }
}

#[tokio::test]
async fn p15_a_body_that_is_cut_off_is_a_fault_of_the_network_and_may_be_repeated() {
    let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
    let app = app(layer.opaque(OnLost::Hold), async || StatusCode::CREATED);
    let refused = send(&app, post("K1", B1).map(|_| Body::new(Broken))).await;
    assert_eq!(refused.problem(), (408, "request-incomplete".to_owned(), Some("1")));
    assert_eq!(refused.json()["retryable"], true);
    assert!(!send(&app, post("K1", B1)).await.is_replay(), "nothing was claimed");
}
