//! Sessions for browsers, which cannot send `Authorization: Bearer` by themselves.
//!
//! 1. A session holds the API key it was opened with, in memory only; the cookie holds a random name for it.
//! 2. A session is opened only for a key that the service lets in, so that strangers cannot crowd out others' sessions.
//! 3. A session reads pages and does nothing else: its key is put into GET requests for the console alone.
//! 4. What the key may do is decided anew for every request by the service; a revoked key ends its sessions.
//! 5. The cookie is HttpOnly and SameSite=Strict, and Secure where the service speaks TLS.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Form, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use tower::ServiceExt as _;

use super::view;

const COOKIE: &str = "unavez_console";

/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The most sessions at once; the oldest makes room.
const SESSIONS_MAX: usize = 1_000;

/// Whether the cookie is only for encrypted connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

/// Puts signing in around the routes that want the operator role.
pub(crate) fn with_sign_in(guarded: Router, transport: Transport) -> Router {
    let sessions = Sessions::default();
    let desk = Desk { sessions: sessions.clone(), guarded: guarded.clone(), transport };
    let open = Router::new()
        .route("/console/login", get(form).post(sign_in))
        .route("/console/logout", post(sign_out))
        .route(
            "/console/style.css",
            get(|| asset("text/css; charset=utf-8", include_str!("../../templates/console/style.css"))),
        )
        .route(
            "/console/icon.svg",
            get(|| asset("image/svg+xml", include_str!("../../templates/console/icon.svg"))),
        )
        .layer(middleware::map_response(super::harden))
        .with_state(desk);
    guarded.layer(middleware::from_fn_with_state(sessions, use_session)).merge(open)
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

/// What signing in and out needs.
#[derive(Clone)]
struct Desk {
    sessions: Sessions,
    /// The routes themselves, to ask whether a key opens them.
    guarded: Router,
    transport: Transport,
}

#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<String, Session>>>);

struct Session {
    authorization: HeaderValue,
    opened: Instant,
}

impl Sessions {
    fn open(&self, authorization: HeaderValue, now: Instant) -> String {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let mut sessions = self.lock();
        sessions.retain(|_, session| now.duration_since(session.opened) < LIFETIME);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) =
                sessions.iter().min_by_key(|(_, session)| session.opened).map(|(name, _)| name.clone())
        {
            sessions.remove(&oldest);
        }
        sessions.insert(name.clone(), Session { authorization, opened: now });
        name
    }

    fn authorization(&self, name: &str, now: Instant) -> Option<HeaderValue> {
        let sessions = self.lock();
        let session = sessions.get(name).filter(|session| now.duration_since(session.opened) < LIFETIME)?;
        Some(session.authorization.clone())
    }

    fn close(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Session>> {
        // Every change is one call of the map, so that a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the request names a session. Says nothing about whether there is one.
pub(super) fn has_session(headers: &HeaderMap) -> bool {
    session_name(headers).is_some()
}

fn session_name(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// Lends a page's request its session's key, and sends browsers without one to the form.
async fn use_session(State(sessions): State<Sessions>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let is_page = request.method() == Method::GET && (path == "/" || path.starts_with("/console/"));
    if !is_page || request.headers().contains_key(header::AUTHORIZATION) {
        return next.run(request).await;
    }
    let name = session_name(request.headers()).map(str::to_owned);
    if let Some(key) = name.as_deref().and_then(|name| sessions.authorization(name, Instant::now())) {
        request.headers_mut().insert(header::AUTHORIZATION, key);
    }
    let wants_html = accepts_html(request.headers());
    let target = request.uri().path_and_query().map_or(path, ToString::to_string);
    let response = next.run(request).await;
    match response.status() {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if wants_html => {
            if let Some(name) = &name {
                sessions.close(name);
            }
            let why = match (&name, response.status()) {
                (None, _) => "",
                (Some(_), StatusCode::FORBIDDEN) => "role",
                (Some(_), _) => "key",
            };
            Redirect::to(&login_href(&target, why)).into_response()
        }
        _ => response,
    }
}

fn accepts_html(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

#[derive(Deserialize)]
struct FormQuery {
    #[serde(default)]
    next: String,
    #[serde(default)]
    why: String,
}

async fn form(Query(query): Query<FormQuery>) -> Response {
    let refusal = match query.why.as_str() {
        "role" => Some("This key does not have the operator role."),
        "key" => Some("This key is not known, or the session is over."),
        "shape" => Some("This is not an API key."),
        _ => None,
    };
    super::pages::rendered(&view::Login { refusal, next: local(&query.next) })
}

#[derive(Deserialize)]
struct SignIn {
    key: String,
    #[serde(default)]
    next: String,
}

async fn sign_in(State(desk): State<Desk>, Form(given): Form<SignIn>) -> Response {
    let next = local(&given.next);
    let refuse = |why: &str| Redirect::to(&login_href(&next, why)).into_response();
    let Ok(mut authorization) = HeaderValue::try_from(format!("Bearer {}", given.key.trim())) else {
        return refuse("shape");
    };
    authorization.set_sensitive(true);
    match desk.opens(&authorization).await {
        StatusCode::UNAUTHORIZED => return refuse("key"),
        StatusCode::FORBIDDEN => return refuse("role"),
        _ => {}
    }
    let name = desk.sessions.open(authorization, Instant::now());
    (set_cookie(&name, LIFETIME, desk.transport), Redirect::to(&next)).into_response()
}

impl Desk {
    /// What the service answers to a page under this key.
    async fn opens(&self, authorization: &HeaderValue) -> StatusCode {
        let mut probe = Request::new(Body::empty());
        *probe.uri_mut() = http::Uri::from_static("/console/search");
        probe.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        let answer = self.guarded.clone().oneshot(probe).await;
        answer.map_or_else(|never| match never {}, |response| response.status())
    }
}

async fn sign_out(State(desk): State<Desk>, headers: HeaderMap) -> Response {
    if let Some(name) = session_name(&headers) {
        desk.sessions.close(name);
    }
    (set_cookie("", Duration::ZERO, desk.transport), Redirect::to("/console/login")).into_response()
}

fn login_href(next: &str, why: &str) -> String {
    format!("/console/login?next={}&why={why}", view::in_query(next))
}

fn set_cookie(value: &str, lifetime: Duration, transport: Transport) -> [(header::HeaderName, String); 1] {
    let secure = if transport == Transport::Tls { "; Secure" } else { "" };
    let seconds = lifetime.as_secs();
    [(
        header::SET_COOKIE,
        format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"),
    )]
}

/// A path of ours, never another site's: `//host` and `/\host` are addresses to a browser.
fn local(target: &str) -> String {
    let is_local = target == "/" || target.starts_with("/console/");
    if is_local && !target.contains('\\') { target.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &'static str) -> HeaderValue {
        HeaderValue::from_static(text)
    }

    #[test]
    fn a_session_lends_its_key_until_it_is_closed_or_over() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let name = sessions.open(key("Bearer a"), now);
        assert_eq!(sessions.authorization(&name, now), Some(key("Bearer a")));
        assert_eq!(sessions.authorization("another", now), None);
        assert_eq!(sessions.authorization(&name, now + LIFETIME), None);
        sessions.close(&name);
        assert_eq!(sessions.authorization(&name, now), None);
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let oldest = sessions.open(key("Bearer a"), now);
        for at in 1..=SESSIONS_MAX as u64 {
            sessions.open(key("Bearer b"), now + Duration::from_millis(at));
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert_eq!(sessions.authorization(&oldest, now), None);
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; unavez_console_x=no"));
        assert_eq!(session_name(&headers), None);
        headers.append(header::COOKIE, HeaderValue::from_static("c=d; unavez_console=yes; e=f"));
        assert_eq!(session_name(&headers), Some("yes"));
    }

    #[test]
    fn nobody_is_sent_elsewhere_after_signing_in() {
        for target in ["/", "/console/keys?state=unknown"] {
            assert_eq!(local(target), target);
        }
        for target in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/console/\\..", "/v1/charges"]
        {
            assert_eq!(local(target), "/", "{target}");
        }
    }
}
