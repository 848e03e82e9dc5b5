//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulConnection, GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower::{Service, ServiceExt};

use super::pulse::{Pulse, Running};
use super::{BoxError, Limits, Tls};

/// Room for a head: more than any honest one, less than an attack wants.
const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// Streams of one HTTP/2 connection at a time.
const STREAMS_MAX: u32 = 256;

/// What all connections of a server share.
pub(super) struct Connections<S> {
    service: S,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    graceful: GracefulShutdown,
    header_read_timeout: Duration,
    idle_timeout: Duration,
    tls: Option<Tls>,
}

impl<S> Connections<S> {
    pub(super) fn new(service: S, limits: &Limits) -> Self {
        let mut http1 = http1::Builder::new();
        // Our own pulse keeps this time: hyper's would also count an idle connection as a slow head.
        http1.timer(TokioTimer::new()).header_read_timeout(None).max_header_size(HEAD_BYTES_MAX as usize);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX);
        Self {
            service,
            http1,
            http2,
            graceful: GracefulShutdown::new(),
            header_read_timeout: limits.header_read_timeout,
            idle_timeout: limits.idle_timeout,
            tls: limits.tls.clone(),
        }
    }

    /// Lets every connection finish what is running, and resolves when all have.
    pub(super) async fn finish(self) {
        self.graceful.shutdown().await;
    }

    /// The whole life of one connection, to be spawned.
    pub(super) fn run<B>(&self, stream: std::net::TcpStream) -> impl Future<Output = ()> + Send + use<S, B>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let pulse = Pulse::new(self.header_read_timeout, self.idle_timeout);
        let life = Life {
            service: self.service.clone(),
            http1: self.http1.clone(),
            http2: self.http2.clone(),
            watcher: self.graceful.watcher(),
            pulse: Arc::clone(&pulse),
        };
        let tls = self.tls.clone();
        async move {
            let serving = async {
                let stream = TcpStream::from_std(stream)?;
                match tls {
                    None => {
                        let protocol = spoken(&stream).await?;
                        life.speak(protocol, stream).await
                    }
                    Some(tls) => {
                        let stream = tls.accept(stream).await?;
                        life.speak(stream.protocol(), stream.into_inner()).await
                    }
                }
            };
            tokio::select! {
                biased;
                served = serving => {
                    if let Err(error) = served {
                        tracing::debug!(%error, "connection ended");
                    }
                }
                () = pulse.too_quiet() => tracing::debug!("connection was quiet for too long"),
            }
        }
    }
}

/// How a connection is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Bytes outside a request begin a head.
    Http1,
    /// Bytes outside a request may be pings and window updates, so only requests count.
    Http2,
}

/// Which protocol the client begins with. Looks at three bytes without taking them: no method of HTTP/1 begins with
/// the `PRI` of HTTP/2's preface, and no client sends that in pieces.
async fn spoken(stream: &TcpStream) -> io::Result<Protocol> {
    let mut first = [0; 3];
    let seen = stream.peek(&mut first).await?;
    Ok(if &first[..seen] == b"PRI" { Protocol::Http2 } else { Protocol::Http1 })
}

/// What one connection needs.
struct Life<S> {
    service: S,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    watcher: Watcher,
    pulse: Arc<Pulse>,
}

impl<S, B> Life<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    async fn speak<Io>(self, protocol: Protocol, stream: Io) -> Result<(), BoxError>
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { service, http1, http2, watcher, pulse } = self;
        let requests = Arc::clone(&pulse);
        let service = service_fn(move |request| {
            let running = requests.request();
            let response = service.clone().oneshot(request);
            async move { response.await.map(|response| response.map(|body| Held { body, _running: running })) }
        });
        match protocol {
            Protocol::Http1 => {
                let io = Heard { stream: TokioIo::new(stream), pulse };
                served(watcher, http1.serve_connection(io, service)).await
            }
            Protocol::Http2 => served(watcher, http2.serve_connection(TokioIo::new(stream), service)).await,
        }
    }
}

async fn served<C>(watcher: Watcher, connection: C) -> Result<(), BoxError>
where
    C: GracefulConnection<Error: Into<BoxError>>,
{
    watcher.watch(connection).await.map_err(Into::into)
}

/// A response's body, whose request is running until it has been said to its end.
struct Held<B> {
    body: B,
    _running: Running,
}

impl<B: Body + Unpin> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells the pulse when bytes arrive.
struct Heard<Io> {
    stream: TokioIo<Io>,
    pulse: Arc<Pulse>,
}

impl<Io: AsyncRead + Unpin> Read for Heard<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        // The end of the stream also reads as ready; what it starts is over at once.
        if let Poll::Ready(Ok(())) = read {
            self.pulse.received();
        }
        read
    }
}

impl<Io: AsyncWrite + Unpin> Write for Heard<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }
}
