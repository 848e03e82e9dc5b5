//! The transport over HTTP/1.1: hyper, with a pool of connections for each host.
//!
//! 1. [`Exchanged::NotSent`] only where no connection was made: refused, no such host, no TLS.
//! 2. The pool repeats nothing, not even what it believes was never written.
//! 3. Redirects are answers like all others.
//! 4. Certificates are judged by the system's trust store.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::transport::{Cause, Exchanged, Transport, read_whole};

/// How long making a connection may take. Nothing was sent when it is over.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an unused connection is kept: less than servers keep theirs, or requests would meet closing ones.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Idle connections kept for each host.
const IDLE_MAX: usize = 256;

/// HTTP/1.1 over TCP and TLS. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Wire<C = HttpsConnector<HttpConnector>> {
    pool: Client<C, Full<Bytes>>,
}

impl Wire {
    /// For https and http.
    ///
    /// # Errors
    /// The system's trust store cannot be read, or is empty.
    pub fn new() -> io::Result<Self> {
        let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(ring::default_provider())?;
        Ok(Self::with_connector(tls.https_or_http().enable_http1().wrap_connector(tcp())))
    }

    /// For http alone, on machines that have no trust store. An https address is not sent to.
    #[must_use]
    pub fn plain() -> Self {
        let trusting_nobody = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring knows the default versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let tls = HttpsConnectorBuilder::new().with_tls_config(trusting_nobody);
        Self::with_connector(tls.https_or_http().enable_http1().wrap_connector(tcp()))
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.enforce_http(false);
    tcp
}

impl<C: Connect + Clone + Send + Sync + 'static> Wire<C> {
    /// Over connections that `connector` makes.
    #[must_use]
    pub fn with_connector(connector: C) -> Self {
        let pool = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        Self { pool }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Transport for Wire<C> {
    async fn exchange(&self, request: Request<Full<Bytes>>, answer_bytes_max: usize) -> Exchanged {
        match self.pool.request(request).await {
            Ok(answer) => read_whole(answer, answer_bytes_max).await,
            Err(error) if error.is_connect() => Exchanged::NotSent(Cause::of("no connection", &error)),
            Err(error) => Exchanged::Cut(Cause::of("no answer", &error)),
        }
    }
}
