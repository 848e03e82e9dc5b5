//! Connections to one place, each driven by whoever uses it.
//!
//! A connection with a task of its own wakes that task, and is woken by it, several times for every exchange. Here an
//! exchange drives its connection itself, in the task that waits for the answer.
//!
//! 1. A connection carries one exchange at a time, and comes back only after a whole answer. An exchange that is dropped
//!    takes its connection with it.
//! 2. An idle connection is looked at before it is used: one that the other side has closed, or that was idle for
//!    [`IDLE_TIMEOUT`], is dropped.
//! 3. No request is repeated. Once it was given to a connection, it may have been received.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::Service as _;

/// How long an unused connection is kept: less than servers keep theirs, or requests would meet closing ones.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// How often an exchange goes from its answer to its connection and back before it waits: once for the head of an answer,
/// once for its body.
const ROUNDS: usize = 2;

type Body = Full<Bytes>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Connections to one place.
pub(super) struct Pool {
    connector: HttpsConnector<HttpConnector>,
    place: Uri,
    idle: Mutex<Idle>,
}

/// Why there is no answer.
pub(super) enum Failed {
    /// There was no connection to give the request to.
    NotConnected(Box<dyn std::error::Error + Send + Sync>),
    /// The connection failed under it.
    Broken(hyper::Error),
}

#[derive(Default)]
struct Idle {
    /// And since when; the latest last.
    lines: Vec<(Box<Line>, Instant)>,
    /// Whether a task looks after them.
    is_swept: bool,
}

impl Pool {
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, place: Uri) -> Arc<Self> {
        Arc::new(Self { connector, place, idle: Mutex::default() })
    }

    /// Sends one request once, and reads its answer.
    pub(super) async fn exchange<T, R>(
        self: &Arc<Self>,
        request: Request<Body>,
        read: impl FnOnce(Response<Incoming>) -> R + Send,
    ) -> Result<T, Failed>
    where
        R: Future<Output = T> + Send,
    {
        let mut line = match self.take() {
            Some(line) => line,
            // Rare, and larger than all the rest.
            None => Box::pin(self.connect()).await?,
        };
        let answer = line.exchange(request, read).await.map_err(Failed::Broken)?;
        if line.is_free() {
            self.put(line);
        }
        Ok(answer)
    }

    async fn connect(&self) -> Result<Box<Line>, Failed> {
        let mut connector = self.connector.clone();
        poll_fn(|cx| connector.poll_ready(cx)).await.map_err(Failed::NotConnected)?;
        let stream = connector.call(self.place.clone()).await.map_err(Failed::NotConnected)?;
        let (sender, connection) = http1::handshake(stream).await.map_err(Failed::Broken)?;
        Ok(Box::new(Line { sender, connection: Some(connection) }))
    }

    /// The connection that was used last, since it is the likeliest to be there still.
    fn take(&self) -> Option<Box<Line>> {
        loop {
            let (mut line, since) = self.idle().lines.pop()?;
            if since.elapsed() < IDLE_TIMEOUT && line.is_free() {
                return Some(line);
            }
        }
    }

    fn put(self: &Arc<Self>, line: Box<Line>) {
        let mut idle = self.idle();
        idle.lines.push((line, Instant::now()));
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Drops what was idle for too long; whether anything is left.
    fn drop_old(&self) -> bool {
        let mut idle = self.idle();
        idle.lines.retain(|(_, since)| since.elapsed() < IDLE_TIMEOUT);
        idle.is_swept = !idle.lines.is_empty();
        idle.is_swept
    }

    /// No code of others runs under the lock, so a poisoned one still guards whole connections.
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nobody else notices that the other side has closed an idle connection.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        if !pool.upgrade().is_some_and(|pool| pool.drop_old()) {
            return;
        }
    }
}

/// One connection.
struct Line {
    sender: SendRequest<Body>,
    /// `None`: it is over.
    connection: Option<Connection<Stream, Body>>,
}

impl Line {
    async fn exchange<T, R>(
        &mut self,
        request: Request<Body>,
        read: impl FnOnce(Response<Incoming>) -> R + Send,
    ) -> hyper::Result<T>
    where
        R: Future<Output = T> + Send,
    {
        let sent = self.sender.send_request(request);
        let mut answer = pin!(async move { Ok(read(sent.await?).await) });
        let connection = &mut self.connection;
        poll_fn(|cx| {
            for _ in 0..ROUNDS {
                if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                drive(connection, cx);
            }
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Whether the connection stands and waits for a request.
    fn is_free(&mut self) -> bool {
        drive(&mut self.connection, &mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Lets a connection get on. Why it ended is told by the answer that was waited for.
fn drive(connection: &mut Option<Connection<Stream, Body>>, cx: &mut Context<'_>) {
    if connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
        *connection = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::acquirer::http::{Client, Exchanged};

    /// Answers on every connection until it is asked for `/last`, and closes that connection then without a word.
    struct Server {
        client: Client,
        connections: Arc<AtomicUsize>,
        open: Arc<AtomicUsize>,
    }

    impl Server {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let base = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let (connections, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let counts = (Arc::clone(&connections), Arc::clone(&open));
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    counts.0.fetch_add(1, Ordering::SeqCst);
                    counts.1.fetch_add(1, Ordering::SeqCst);
                    let open = Arc::clone(&counts.1);
                    tokio::spawn(async move {
                        answer(stream).await;
                        open.fetch_sub(1, Ordering::SeqCst);
                    });
                }
            });
            Self { client: Client::new(base).unwrap(), connections, open }
        }

        async fn ask(&self, target: &str) -> Exchanged {
            self.client.exchange("GET", target, [], Bytes::new()).await
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::SeqCst)
        }

        async fn until_open(&self, count: usize) {
            while self.open.load(Ordering::SeqCst) != count {
                tokio::task::yield_now().await;
            }
            // And once more, for the end of a connection to be seen on this side.
            tokio::task::yield_now().await;
        }
    }

    async fn answer(mut stream: TcpStream) {
        let (mut request, mut part) = (Vec::new(), [0; 1024]);
        while let Ok(read @ 1..) = stream.read(&mut part).await {
            request.extend_from_slice(&part[..read]);
            if !request.ends_with(b"\r\n\r\n") {
                continue;
            }
            if request.starts_with(b"GET /silence ") {
                request.clear();
                continue;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            if request.starts_with(b"GET /last ") {
                return;
            }
            request.clear();
        }
    }

    fn ok() -> Exchanged {
        Exchanged::Answered { status: 200, body: Bytes::from("ok") }
    }

    #[tokio::test]
    async fn a_connection_is_used_again_until_the_other_side_closes_it() {
        let server = Server::start().await;
        assert_eq!((server.ask("/a").await, server.ask("/last").await), (ok(), ok()));
        assert_eq!(server.connections(), 1);
        server.until_open(0).await;
        assert_eq!((server.ask("/b").await, server.connections()), (ok(), 2));
    }

    #[tokio::test]
    async fn exchanges_at_one_time_have_connections_of_their_own() {
        let server = Server::start().await;
        assert_eq!(tokio::join!(server.ask("/a"), server.ask("/b")), (ok(), ok()));
        assert_eq!(tokio::join!(server.ask("/c"), server.ask("/d")), (ok(), ok()));
        assert_eq!(server.connections(), 2);
    }

    #[tokio::test]
    async fn an_exchange_that_is_given_up_takes_its_connection_with_it() {
        let server = Server::start().await;
        assert_eq!(server.ask("/a").await, ok());
        let silent = tokio::time::timeout(Duration::from_millis(1), server.ask("/silence")).await;
        assert!(silent.is_err(), "{silent:?}");
        server.until_open(0).await;
        assert_eq!((server.ask("/b").await, server.connections()), (ok(), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_idle_for_too_long_is_closed_by_itself() {
        let server = Server::start().await;
        assert_eq!(server.ask("/a").await, ok());
        tokio::time::sleep(IDLE_TIMEOUT).await;
        server.until_open(0).await;
    }
}
