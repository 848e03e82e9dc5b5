//! The door: what a request must bring before anything is claimed.
//!
//! Answers come in the order of P7: the key (400) before the body (413), the body before the claim. Everything that
//! passes is an [`Admitted`], which cannot be wrong in form.
//!
//! 1. A key is read from the configured headers, malformed ones are refused on every route, and none is ever invented
//!    (P1, P2).
//! 2. Methods that are not covered pass untouched (P3).
//! 3. The body is read whole, up to a cap, and handed to the operation as it came; the fingerprint is made of it and of
//!    the path as the client sent it (P5).
//! 4. Marks that only a server sets are removed (P19).
//!
//! What breaks it in deployment: a gateway in front that rewrites paths, joins header lines or re-encodes bodies
//! differently from one attempt to the next. Honest repeats then look like other requests, and are refused with 422.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body::Body as HttpBody;
use tokio::time::Instant;
pub use unavez_core::fingerprint::{Differs, Fields, Rules};
use unavez_core::fingerprint::{Fingerprint, NotComparable, RequestParts};
use unavez_core::identity::{Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::problem::Code;
use unavez_core::record::Record;

use crate::body::{Body, BoxError};
use crate::headers::{IDEMPOTENCY_KEY, PREFER, strip_marks};
use crate::problem::Problem;

mod prefer;
mod read;

/// Whether a route needs a key (P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// No key: 400 `idempotency-key-missing`.
    Required,
    /// No key: the request passes through and nothing is stored.
    Optional,
}

/// Whether answers of a route are kept whole (P20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bodies {
    /// Up to [`Door::with_kept_bytes_max`].
    Kept,
    /// Only the status and the headers that do not describe the body.
    Redacted,
}

/// When the caller gives up, as far as it said: a request extension, set by whatever reads it from the request.
///
/// An operation whose caller's deadline is over is refused before the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerDeadline(pub Instant);

/// The settings of a covered route's door. Cheap to clone.
///
/// ```
/// use http::{Method, header::HeaderName};
/// use unavez_tower::door::{Door, Presence};
///
/// let door = Door::new()
///     .with_route("charges")
///     .with_presence(Presence::Required)
///     .with_body_bytes_max(256 * 1024)
///     .add_key_header(HeaderName::from_static("x-idempotency-key"))
///     .add_method(Method::PUT);
/// assert!(door.covers(&Method::POST) && door.covers(&Method::PUT));
/// assert!(!door.covers(&Method::GET));
/// ```
#[derive(Clone)]
pub struct Door(Arc<Settings>);

#[derive(Clone)]
struct Settings {
    route: Arc<str>,
    key_headers: Vec<HeaderName>,
    presence: Presence,
    methods: Vec<Method>,
    body_bytes_max: usize,
    kept_bytes_max: usize,
    rules: Rules,
    bodies: Bodies,
}

/// Bodies of charges and orders are a few hundred bytes; this leaves room and still bounds the memory of a burst.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The largest answer that is kept (P20).
const KEPT_BYTES_MAX: usize = 1024 * 1024;

impl Default for Door {
    fn default() -> Self {
        Self::new()
    }
}

impl Door {
    /// POST and PATCH, `Idempotency-Key` required, bodies and answers up to 1 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Settings {
            route: "".into(),
            key_headers: vec![IDEMPOTENCY_KEY],
            presence: Presence::Required,
            methods: vec![Method::POST, Method::PATCH],
            body_bytes_max: BODY_BYTES_MAX,
            kept_bytes_max: KEPT_BYTES_MAX,
            rules: Rules::default(),
            bodies: Bodies::Kept,
        }))
    }

    fn change(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The route's name in metrics and logs.
    #[must_use]
    pub fn with_route(self, name: &str) -> Self {
        self.change(|it| it.route = name.into())
    }

    /// Whether a key is required.
    #[must_use]
    pub fn with_presence(self, presence: Presence) -> Self {
        self.change(|it| it.presence = presence)
    }

    /// Reads the key from this header, and from it alone.
    #[must_use]
    pub fn with_key_header(self, name: HeaderName) -> Self {
        self.change(|it| it.key_headers = vec![name])
    }

    /// Reads the key from this header too. A request with two of them is refused (P1).
    #[must_use]
    pub fn add_key_header(self, name: HeaderName) -> Self {
        self.change(|it| it.key_headers.push(name))
    }

    /// Covers a further method, such as PUT or DELETE. GET, HEAD and OPTIONS are never covered (P3).
    #[must_use]
    pub fn add_method(self, method: Method) -> Self {
        self.change(|it| it.methods.push(method))
    }

    /// The largest body of a request; above: 413.
    #[must_use]
    pub fn with_body_bytes_max(self, bytes: usize) -> Self {
        self.change(|it| it.body_bytes_max = bytes)
    }

    /// The largest body of an answer that is kept; above, a repeat gets `response-not-kept` (P20).
    #[must_use]
    pub fn with_kept_bytes_max(self, bytes: usize) -> Self {
        self.change(|it| it.kept_bytes_max = bytes)
    }

    /// How fingerprints are made, and with which keys (P5, P23).
    #[must_use]
    pub fn with_fingerprint_rules(self, rules: Rules) -> Self {
        self.change(|it| it.rules = rules)
    }

    /// Whether a 422 names what differs (P23).
    #[must_use]
    pub fn with_differs(self, differs: Differs) -> Self {
        self.change(|it| it.rules.differs = differs)
    }

    /// Whether answers are kept whole (P20).
    #[must_use]
    pub fn with_bodies(self, bodies: Bodies) -> Self {
        self.change(|it| it.bodies = bodies)
    }

    /// Changes the rules of the fingerprint in place.
    pub(crate) fn with_rules(self, change: impl FnOnce(&mut Rules)) -> Self {
        self.change(|it| change(&mut it.rules))
    }

    /// The route's name.
    #[must_use]
    pub fn route(&self) -> &str {
        &self.0.route
    }

    pub(crate) fn kept_bytes_max(&self) -> usize {
        self.0.kept_bytes_max
    }

    pub(crate) fn bodies(&self) -> Bodies {
        self.0.bodies
    }

    /// Whether requests with this method can read or write a record (P3).
    #[must_use]
    pub fn covers(&self, method: &Method) -> bool {
        !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) && self.0.methods.contains(method)
    }

    /// Whether a request goes past the engine: without a key, on a route that does not need one (P2).
    pub(crate) fn passes(&self, headers: &HeaderMap) -> bool {
        self.0.presence == Presence::Optional
            && !self.0.key_headers.iter().any(|name| headers.contains_key(name))
    }

    /// The request's key (P1). `None`: there is none, and the route does not need one.
    ///
    /// # Errors
    /// 400 `idempotency-key-invalid`, or 400 `idempotency-key-missing` on a route that needs one (P2).
    pub fn key(&self, headers: &HeaderMap) -> Result<Option<Key>, Problem> {
        let lines =
            self.0.key_headers.iter().flat_map(|name| headers.get_all(name)).map(HeaderValue::as_bytes);
        match Key::parse_header_values(lines) {
            Ok(None) if self.0.presence == Presence::Required => {
                let name = self.0.key_headers.first().map_or("", HeaderName::as_str);
                Err(Problem::new(Code::KeyMissing).with_detail(format!("header {name} is not there")))
            }
            Ok(key) => Ok(key),
            Err(error) => Err(Problem::new(Code::KeyInvalid).with_detail(error.to_string())),
        }
    }

    /// Reads key, body and fingerprint. The body is read only if there is a key.
    ///
    /// Dropping the future drops the request; nothing is stored here. No store trips.
    ///
    /// # Errors
    /// In the order of P7: 400 for the key, 413 for a body above the cap, 408 for one that was cut off.
    pub async fn admit<B>(
        &self,
        realm: &Realm,
        tenant: Tenant,
        request: Request<B>,
    ) -> Result<Entry<B>, Problem>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let Some(key) = self.key(request.headers())? else {
            return Ok(Entry::Keyless(request));
        };
        let (head, body) = request.into_parts();
        let body = read::whole(&head.headers, body, self.0.body_bytes_max).await?;
        let id = RecordId::of(realm, &tenant, &key);
        Ok(self.enter(Keyed { id, tenant, key }, head, body))
    }

    /// As [`Door::admit`], for a body that was read already; the cap is then the reader's affair.
    ///
    /// # Errors
    /// 400 for the key.
    pub fn admit_whole(
        &self,
        realm: &Realm,
        tenant: Tenant,
        head: Parts,
        body: Bytes,
    ) -> Result<Entry<Bytes>, Problem> {
        Ok(match self.keyed(realm, &tenant, &head)? {
            Some(keyed) => self.enter(keyed, head, body),
            None => Entry::Keyless(Request::from_parts(head, body)),
        })
    }

    /// The name of the record that a request asks for. `None`: there is no key, and the route does not need one.
    ///
    /// # Errors
    /// 400 for the key.
    pub fn keyed(&self, realm: &Realm, tenant: &Tenant, head: &Parts) -> Result<Option<Keyed>, Problem> {
        let key = self.key(&head.headers)?;
        Ok(key.map(|key| Keyed { id: RecordId::of(realm, tenant, &key), tenant: tenant.clone(), key }))
    }

    /// As [`Door::admit_whole`], for a request whose record was looked up before.
    #[must_use]
    pub fn admit_keyed(&self, keyed: Keyed, head: Parts, body: Bytes) -> Entry<Bytes> {
        self.enter(keyed, head, body)
    }

    /// Whether a request is, byte for byte, the one that a record was claimed with: then it may be answered by what the
    /// record says, without a look into its body. `false` says nothing.
    #[must_use]
    pub fn is_verbatim(&self, claimed_with: &Fingerprint, head: &Parts, body: &[u8]) -> bool {
        claimed_with.is_verbatim(&parts(head, body), &self.0.rules)
    }

    fn enter<B>(&self, keyed: Keyed, mut head: Parts, body: Bytes) -> Entry<B> {
        strip_marks(&mut head.headers);
        let Keyed { id, tenant, key } = keyed;
        let rules = &self.0.rules;
        match Fingerprint::of(&parts(&head, &body), rules) {
            Ok(fingerprint) => {
                Entry::Admitted(Admitted { door: self.clone(), id, tenant, key, fingerprint, head, body })
            }
            Err(ambiguous) => {
                let problem = Problem::new(Code::BodyAmbiguous).with_detail(ambiguous.to_string());
                Entry::Ambiguous(Ambiguous { id, tenant, key, problem, differs: rules.differs })
            }
        }
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("route", &self.0.route).finish_non_exhaustive()
    }
}

/// Whose key a request has, and the record it names.
#[derive(Debug)]
pub struct Keyed {
    id: RecordId,
    tenant: Tenant,
    key: Key,
}

impl Keyed {
    /// Names the record.
    #[must_use]
    pub const fn id(&self) -> RecordId {
        self.id
    }

    /// Whether a record is this key's: the id is a hash, and a hash alone never decides whose record it is (P4).
    #[must_use]
    pub fn owns(&self, record: &Record) -> bool {
        record.tenant == self.tenant && record.key == self.key
    }
}

/// What came through the door.
#[derive(Debug)]
pub enum Entry<B> {
    /// No key on a route that does not need one: to be passed on as it is (P2).
    Keyless(Request<B>),
    /// A request that may claim its key.
    Admitted(Admitted),
    /// A body that two parsers may read differently. It claims nothing; an existing record wins (P5, P7): see
    /// [`Engine::refuse_ambiguous`](crate::engine::Engine::refuse_ambiguous).
    Ambiguous(Ambiguous),
}

/// A request with a body that has no fingerprint.
#[derive(Debug)]
pub struct Ambiguous {
    pub(crate) id: RecordId,
    pub(crate) tenant: Tenant,
    pub(crate) key: Key,
    pub(crate) problem: Problem,
    pub(crate) differs: Differs,
}

/// A request with everything that a claim needs.
pub struct Admitted {
    door: Door,
    id: RecordId,
    tenant: Tenant,
    key: Key,
    fingerprint: Fingerprint,
    head: Parts,
    body: Bytes,
}

impl Admitted {
    /// Names the record.
    #[must_use]
    pub const fn id(&self) -> RecordId {
        self.id
    }

    /// Whose key it is.
    #[must_use]
    pub const fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// The request's digest, by the current algorithm and key.
    #[must_use]
    pub const fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The request's head, without forged marks.
    #[must_use]
    pub const fn head(&self) -> &Parts {
        &self.head
    }

    /// The body as it was received.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The door it came through.
    #[must_use]
    pub const fn door(&self) -> &Door {
        &self.door
    }

    /// How long the caller is ready to wait for a running operation (P10), at most 30 s.
    #[must_use]
    pub fn prefer_wait(&self) -> Option<Duration> {
        prefer::wait(self.head.headers.get_all(PREFER))
    }

    /// The request for the operation.
    #[must_use]
    pub fn into_request(self) -> Request<Body> {
        Request::from_parts(self.head, Body::whole(self.body))
    }

    /// When the caller gives up.
    pub(crate) fn caller_deadline(&self) -> Option<Instant> {
        self.head.extensions.get::<CallerDeadline>().map(|deadline| deadline.0)
    }

    /// This request's digest made the way `stored` was made, so that the two compare (P5).
    pub(crate) fn fingerprint_like(
        &self,
        stored: &Fingerprint,
    ) -> Result<Cow<'_, Fingerprint>, NotComparable> {
        if stored.comparable(&self.fingerprint) {
            return Ok(Cow::Borrowed(&self.fingerprint));
        }
        Fingerprint::like(stored, &parts(&self.head, &self.body), &self.door.0.rules).map(Cow::Owned)
    }
}

/// Never the key, the headers or the body (P23).
impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").field("id", &self.id).field("key", &self.key).finish_non_exhaustive()
    }
}

fn parts<'a>(head: &'a Parts, body: &'a [u8]) -> RequestParts<'a> {
    let text = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let uri = uri_as_sent(head);
    RequestParts {
        method: head.method.as_str(),
        path: uri.path(),
        query: uri.query(),
        content_type: text(CONTENT_TYPE),
        content_encoding: text(CONTENT_ENCODING),
        body,
    }
}

/// A nested axum router cuts its prefix off; two mounts of one route must not be one operation.
#[cfg(feature = "axum")]
fn uri_as_sent(head: &Parts) -> &Uri {
    head.extensions.get::<axum::extract::OriginalUri>().map_or(&head.uri, |original| &original.0)
}

#[cfg(not(feature = "axum"))]
fn uri_as_sent(head: &Parts) -> &Uri {
    &head.uri
}
