//! One HTTP request to an acquirer, and what its end says about whether it was received.
//!
//! 1. [`Exchanged::NotSent`] only where the connection was never made: refused, no such host, no TLS. A request that
//!    was given to a connection may have been received, however it ended.
//! 2. Nothing is sent twice: neither the pool nor a redirect repeats a request.
//! 3. A body is read to its end or not at all; what breaks off, or is larger than [`BODY_BYTES_MAX`], says nothing.
//! 4. Certificates are judged by the system's trust store, so that an operator adds an authority in one known place.
//!
//! What breaks it in deployment: an HTTP proxy between here and the acquirer that repeats requests, or answers for it.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_rustls::builderstates::WantsSchemes;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::Reason;
use super::pool::{Failed, Pool};

/// The largest answer that is read. A page of a hundred payments of the chattiest acquirer stays below.
pub const BODY_BYTES_MAX: usize = 2 << 20;

/// How long making a connection may take. Nothing was sent when it is over.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where an acquirer is: scheme, host, port and what its paths begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    text: Box<str>,
    authority: Box<str>,
    is_https: bool,
    is_loopback: bool,
}

/// A text that is no base address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(&'static str);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected http://HOST:PORT or https://HOST, perhaps with a path", self.0)
    }
}

impl std::error::Error for BadUrl {}

impl FromStr for BaseUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let uri: Uri = text.parse().map_err(|_| BadUrl("it is no URL"))?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(BadUrl("its scheme is neither http nor https")),
        };
        let authority = uri.authority().ok_or(BadUrl("it has no host"))?.as_str();
        if authority.contains('@') {
            return Err(BadUrl("it has a user name or password, which would end up in logs"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(BadUrl("it has a query or fragment"));
        }
        let host = uri.host().ok_or(BadUrl("it has no host"))?;
        Ok(Self { text: text.into(), authority: authority.into(), is_https, is_loopback: is_loopback(host) })
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

impl BaseUrl {
    /// The address of a path below; an empty one is the base itself, as it was written.
    fn join(&self, target: &str) -> String {
        if target.is_empty() {
            self.text.to_string()
        } else {
            format!("{}{target}", self.text.trim_end_matches('/'))
        }
    }

    /// Host and port, as requests name them: without a port that goes without saying.
    fn host(&self) -> &str {
        let default = if self.is_https { ":443" } else { ":80" };
        self.authority.strip_suffix(default).unwrap_or(&self.authority)
    }

    /// Host and port, as they were written.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether nobody on the way can read or change what goes there: HTTPS, or this machine.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.is_https || self.is_loopback
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// A whole answer came back.
    Answered {
        /// Its status.
        status: u16,
        /// Its body.
        body: Bytes,
    },
    /// The request may have been received, and there is no answer.
    Cut(Reason),
    /// Not one byte of it has left.
    NotSent(Reason),
}

/// A client with a pool of connections to one acquirer. Clones share it.
#[derive(Clone)]
pub struct Client {
    base: BaseUrl,
    host: HeaderValue,
    pool: Arc<Pool>,
}

impl Client {
    /// A client for that place. Connections are made when they are needed.
    ///
    /// # Errors
    /// For HTTPS: the system's trust store cannot be read, or is empty.
    pub fn new(base: BaseUrl) -> io::Result<Self> {
        let tls = HttpsConnectorBuilder::new();
        let tls = if base.is_https {
            tls.with_provider_and_native_roots(ring::default_provider())?
        } else {
            tls.with_tls_config(trusting_nobody())
        };
        Self::with_tls(base, tls)
    }

    fn with_tls(base: BaseUrl, tls: HttpsConnectorBuilder<WantsSchemes>) -> io::Result<Self> {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.enforce_http(false);
        let connector = tls.https_or_http().enable_http1().wrap_connector(http);
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let place: Uri = base.text.parse().map_err(malformed)?;
        let host = HeaderValue::from_str(base.host()).map_err(io::Error::other)?;
        Ok(Self { base, host, pool: Pool::new(connector, place) })
    }

    /// Where it sends to.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Sends one request once. Dropping the future leaves it open whether it was received.
    pub async fn exchange<'h>(
        &self,
        method: &str,
        target: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: Bytes,
    ) -> Exchanged {
        let request = match self.request(method, target, headers, body) {
            Ok(request) => request,
            Err(why) => return Exchanged::NotSent(Reason(why.into())),
        };
        match self.pool.exchange(request, read).await {
            Ok(exchanged) => exchanged,
            Err(Failed::NotConnected(error)) => Exchanged::NotSent(reason("no connection", error.as_ref())),
            Err(Failed::Broken(error)) => Exchanged::Cut(reason("no answer", &error)),
        }
    }

    fn request<'h>(
        &self,
        method: &str,
        target: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, &'static str> {
        let place: Uri = self.base.join(target).parse().map_err(|_| "the path is malformed")?;
        let path = place.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() =
            Method::from_bytes(method.as_bytes()).map_err(|_| "the method is malformed")?;
        *request.uri_mut() = path.into();
        request.headers_mut().insert(HOST, self.host.clone());
        for (name, value) in headers {
            let name: HeaderName = name.parse().map_err(|_| "a header's name is malformed")?;
            let value: HeaderValue = value.parse().map_err(|_| "a header's value is malformed")?;
            request.headers_mut().append(name, value);
        }
        Ok(request)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Plain HTTP looks at no certificate, and starts without a trust store.
fn trusting_nobody() -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth()
}

async fn read(response: http::Response<hyper::body::Incoming>) -> Exchanged {
    let status = response.status();
    match Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await {
        Ok(body) => Exchanged::Answered { status: status.as_u16(), body: body.to_bytes() },
        Err(error) => Exchanged::Cut(broken_off(status, error.as_ref())),
    }
}

fn broken_off(status: StatusCode, error: &(dyn std::error::Error + 'static)) -> Reason {
    reason(&format!("the answer with status {} broke off", status.as_u16()), error)
}

/// A fragment with the whole chain of causes: the outermost alone only says that there was an error.
fn reason(what: &str, error: &(dyn std::error::Error + 'static)) -> Reason {
    let mut text = what.to_owned();
    let mut cause = Some(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    Reason(text.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that is not the one whose certificate was trusted sees the beginning of a handshake and no request.
    #[tokio::test]
    async fn p15_a_handshake_that_fails_has_sent_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = [0; 4096];
            let read = stream.read(&mut seen).unwrap();
            seen[..read].to_vec()
        });
        let client =
            Client::with_tls(base, HttpsConnectorBuilder::new().with_tls_config(trusting_nobody())).unwrap();
        let exchanged = client.exchange("POST", "/v1/x", [("x-secret", "s3cret")], Bytes::from("body")).await;
        assert!(matches!(exchanged, Exchanged::NotSent(_)), "{exchanged:?}");
        let seen = server.join().unwrap();
        assert_eq!(seen[0], 22, "a record of a handshake");
        assert!(!String::from_utf8_lossy(&seen).contains("s3cret"));
    }

    #[test]
    fn base_addresses_are_read() {
        let check = |text: &str, shown: &str, authority: &str, private: bool| {
            let base: BaseUrl = text.parse().unwrap();
            assert_eq!(
                (base.to_string().as_str(), base.authority(), base.is_private()),
                (shown, authority, private)
            );
        };
        check("http://127.0.0.1:9090", "http://127.0.0.1:9090", "127.0.0.1:9090", true);
        check("http://[::1]:9090/", "http://[::1]:9090/", "[::1]:9090", true);
        check("http://localhost/a/", "http://localhost/a/", "localhost", true);
        check("https://api.example.com", "https://api.example.com", "api.example.com", true);
        check("http://acquirer:9090", "http://acquirer:9090", "acquirer:9090", false);
    }

    #[test]
    fn paths_are_put_below_a_base_with_one_slash_between() {
        let joined = |base: &str, target: &str| base.parse::<BaseUrl>().unwrap().join(target);
        for base in ["http://host", "http://host/"] {
            assert_eq!(joined(base, "/v1/x?a=b"), "http://host/v1/x?a=b");
            assert_eq!(joined(base, ""), base);
        }
        assert_eq!(joined("http://host/a/", "/x"), "http://host/a/x");
        assert_eq!(
            joined("http://host/hook/", ""),
            "http://host/hook/",
            "somebody else's path stays as it is"
        );
    }

    #[test]
    fn what_is_no_base_address_is_refused() {
        for (text, why) in [
            ("", "no URL"),
            ("127.0.0.1:9090", "neither http nor https"),
            ("ftp://host", "neither http nor https"),
            ("/path", "neither http nor https"),
            ("http://user:secret@host", "password"),
            ("http://host/?a=b", "query"),
            ("http://host/#a", "fragment"),
        ] {
            let refused = text.parse::<BaseUrl>().expect_err(text).to_string();
            assert!(refused.contains(why), "{text}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
