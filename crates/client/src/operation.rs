//! One thing that a caller wants to happen once, as a plain value (P29).

use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use unavez_core::key::Key;
use unavez_core::retry::{Nature, Received};
use unavez_core::time::Time;
use uuid::Uuid;

use crate::unfit::Unfit;

/// An operation: what is sent, on every attempt and after every restart the same.
///
/// POST and PATCH have a key from the moment they are made, random unless another is given. All other methods have none
/// unless one is given, and GET, HEAD and OPTIONS never carry one.
///
/// It is a value: [`into_parts`](Self::into_parts) and [`from_parts`](Self::from_parts) take it to a store and back. The
/// client's own headers (credentials, above all) are not part of it, so that they need not be stored and can be mended.
///
/// ```
/// use unavez_client::{Operation, derive};
///
/// let charge = Operation::post("https://shop.test/v1/charges")?
///     .with_key(derive("charge", &["o-1001"])?)
///     .with_json(r#"{"order_id":"o-1001","amount":500,"currency":"USD"}"#);
/// assert_eq!(charge.key().unwrap().as_str(), "charge:o-1001");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Operation(OperationParts);

/// Everything an [`Operation`] is made of, for a store.
#[derive(Clone)]
pub struct OperationParts {
    /// The method.
    pub method: Method,
    /// The whole address.
    pub url: Uri,
    /// The operation's own headers. The key is not among them.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// The key.
    pub key: Option<Key>,
    /// When it was made, on this machine's clock.
    pub created_at: Time,
    /// Whether an attempt may have been received. A store that does not know says [`Received::Perhaps`].
    pub received: Received,
}

/// A key nobody else makes: a UUIDv7, 36 characters, which every vendor takes.
#[must_use]
pub fn random_key() -> Key {
    Key::parse_path(&Uuid::now_v7().to_string()).expect("a UUID is printable and short")
}

impl Operation {
    /// A POST with a random key and an empty body.
    ///
    /// # Errors
    /// The address is not one of HTTP, names a password, or has a port that is none.
    pub fn post(url: &str) -> Result<Self, Unfit> {
        Self::new(Method::POST, url)
    }

    /// An operation with an empty body; with a random key if the method is POST or PATCH.
    ///
    /// # Errors
    /// The address is not one of HTTP, names a password, or has a port that is none.
    pub fn new(method: Method, url: &str) -> Result<Self, Unfit> {
        let key = matches!(method, Method::POST | Method::PATCH).then(random_key);
        let url = url.parse().map_err(|_| Unfit::Url("it is no URL"))?;
        Self::from_parts(OperationParts {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            key,
            created_at: now(),
            received: Received::No,
        })
    }

    /// An operation from where it was stored. It is sent exactly as it was.
    ///
    /// # Errors
    /// The address is not one of HTTP, names a password, or has a port that is none.
    pub fn from_parts(parts: OperationParts) -> Result<Self, Unfit> {
        check_url(&parts.url)?;
        Ok(Self(parts))
    }

    /// What it is made of.
    #[must_use]
    pub fn into_parts(self) -> OperationParts {
        self.0
    }

    /// Takes this key instead.
    #[must_use]
    pub fn with_key(mut self, key: Key) -> Self {
        self.0.key = Some(key);
        self
    }

    /// Gives up the key: the operation is then sent again only if nothing of it had left.
    #[must_use]
    pub fn without_key(mut self) -> Self {
        self.0.key = None;
        self
    }

    /// Takes this body, whose type the caller names in a header.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.0.body = body.into();
        self
    }

    /// Takes this body, which is JSON.
    #[must_use]
    pub fn with_json(self, body: impl Into<Bytes>) -> Self {
        self.with_body(body).add_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// Adds a header. It is stored with the operation; credentials are the client's.
    #[must_use]
    pub fn add_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.append(name, value);
        self
    }

    /// The key it is sent with.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref().filter(|_| !is_safe(&self.0.method))
    }

    /// Where it is sent.
    #[must_use]
    pub fn url(&self) -> &Uri {
        &self.0.url
    }

    /// What kind it is for the rules of repeating.
    #[must_use]
    pub fn nature(&self) -> Nature {
        match self.key() {
            Some(_) => Nature::Keyed,
            None if is_safe(&self.0.method) => Nature::Safe,
            None => Nature::Bare,
        }
    }

    pub(crate) fn parts(&self) -> &OperationParts {
        &self.0
    }
}

/// Shows neither key nor body nor headers: each of them can hold what no log may.
impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &self.0;
        let mut shown = f.debug_struct("Operation");
        shown.field("method", &parts.method).field("host", &parts.url.host()).field("key", &parts.key);
        shown.field("body_bytes", &parts.body.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OperationParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationParts").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Methods without effect (RFC 9110, 9.2.1).
pub(crate) fn is_safe(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE)
}

/// This machine's clock. Only the age of a stored operation is read from it (P29).
pub(crate) fn now() -> Time {
    Time::from_micros(jiff::Timestamp::now().as_microsecond())
}

fn check_url(url: &Uri) -> Result<(), Unfit> {
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err(Unfit::Url("its scheme is neither http nor https"));
    }
    let authority = url.authority().ok_or(Unfit::Url("it has no host"))?;
    if authority.as_str().contains('@') {
        return Err(Unfit::Url("it has a user name or password, which would end up in logs"));
    }
    if authority.host().is_empty() {
        return Err(Unfit::Url("it has no host"));
    }
    check_port(authority)
}

/// [`Uri`] takes any text for a port, and connectors take the scheme's own for one they cannot read: the operation would
/// reach another server, credentials and all.
fn check_port(authority: &Authority) -> Result<(), Unfit> {
    let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or(authority.as_str());
    if after_host.is_empty() || after_host.strip_prefix(':').is_some_and(is_port) {
        return Ok(());
    }
    Err(Unfit::Port { seen: after_host.to_owned() })
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}
