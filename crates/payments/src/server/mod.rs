//! The accept loop: HTTP/1.1 and HTTP/2, with TLS or without, under limits.
//!
//! 1. A connection that is over the limit is told so (503 `overloaded`) and closed; it costs nobody else a place.
//! 2. A request's head must be there within [`Limits::header_read_timeout`] of its first byte (of the accept, for a
//!    connection's first one), and a connection may be idle for [`Limits::idle_timeout`]. Neither clock runs while
//!    a request is inside. There is one timer a connection, none a request.
//! 3. Shutdown stops accepting, lets running requests finish, and cuts what takes longer than
//!    [`Limits::drain_timeout`].
//! 4. Malformed HTTP is answered 400 by hyper, a head above 64 KiB 431; the connection then closes.
//!
//! What breaks it in deployment: a limit of open files below the wanted number of connections. The limit in force is
//! then lower, and said so in the log.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::Service;

use connection::Connections;

mod connection;
mod lanes;
mod open_files;
mod pulse;
mod refusal;
mod tls;

pub use lanes::Lanes;
pub use tls::{Tls, TlsError};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What connections may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; above: 503 `overloaded`, closed. Never more than the process may open files.
    pub connections_max: usize,
    /// From a request's first byte to the end of its head.
    pub header_read_timeout: Duration,
    /// How long a connection stays open between requests.
    pub idle_timeout: Duration,
    /// How long a shutdown waits for running requests.
    pub drain_timeout: Duration,
    /// `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Where connections are driven.
    pub lanes: Lanes,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            header_read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(50),
            tls: None,
            lanes: Lanes::default(),
        }
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still open when the drain was over, and were cut.
    pub cut: usize,
}

/// Serves `service`, such as an `axum::Router`, until `shutdown` resolves and the connections are drained.
///
/// Dropping the future cuts every connection at once. With [`Lanes`], keep a clone until what requests have left running
/// is done.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Drained
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data: Send, Error: Into<BoxError>> + Unpin + Send + 'static,
{
    let connections_max = open_files::clamp(limits.connections_max);
    let places = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    let refusals = refusal::Refusals::new(connections_max);
    let connections = Connections::new(service, &limits);
    let mut tasks = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = tasks.join_next() => {}
            stream = accept(&listener) => match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    let Some(stream) = detached(stream) else { continue };
                    let connection = connections.run(stream);
                    limits.lanes.spawn(&mut tasks, async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(_) => refusals.refuse(stream, limits.tls.is_some()),
            },
        }
    }
    drop(listener);
    drain(connections, tasks, limits.drain_timeout).await
}

async fn drain<S>(connections: Connections<S>, mut tasks: JoinSet<()>, drain_timeout: Duration) -> Drained {
    let finished = async {
        connections.finish().await;
        while tasks.join_next().await.is_some() {}
    };
    let in_time = tokio::time::timeout(drain_timeout, finished).await.is_ok();
    let cut = if in_time { 0 } else { tasks.len() };
    if cut > 0 {
        tracing::warn!(connections = cut, ?drain_timeout, "connections were cut at shutdown");
    }
    tasks.shutdown().await;
    Drained { cut }
}

/// The next connection. Errors of single connections are skipped; where the process is out of files, accepting pauses,
/// since the next call would fail as fast.
async fn accept(listener: &TcpListener) -> TcpStream {
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are written whole: waiting to fill a segment only delays them.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "connection without TCP_NODELAY");
                }
                return stream;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, pause = ?PAUSE, "accepting connections pauses");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The connection for the runtime of its lane, which may be another than the one that accepted it.
fn detached(stream: TcpStream) -> Option<std::net::TcpStream> {
    let detached = stream.into_std();
    detached.inspect_err(|error| tracing::warn!(%error, "connection cannot be handed to its lane")).ok()
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
