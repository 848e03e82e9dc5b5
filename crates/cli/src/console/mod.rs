//! The console: pages for people about charges and keys.
//!
//! 1. Everything is rendered here; the pages have no scripts and load nothing from elsewhere, and the content security
//!    policy says so to the browser.
//! 2. Pages only read. What changes something are `POST /admin/keys/purge` and `/settle`, which no form reaches.
//! 3. Who sees what is decided by the service around it: callers need the operator role and see their own tenant.
//!    Browsers cannot send a bearer key, so [`sign_in`] keeps one for a session.
//! 4. Without API keys only names of this machine are answered: a page of somebody else's whose name was pointed at
//!    127.0.0.1 (DNS rebinding) gets nothing.

mod operations;
mod pages;
mod purge;
mod settle;
mod sign_in;
mod view;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::{HeaderName, HeaderValue, StatusCode, header};
use unavez_payments::Payments;

pub(crate) use purge::{PurgeReport, PurgeRequest, purge_all};
pub(crate) use settle::{RulingWord, SettleRefusal, SettleReport, SettleRequest, settle_one};
pub(crate) use sign_in::{Transport, with_sign_in};

/// The pages and the administrator's routes, to be put behind the operator role.
pub(crate) fn router(payments: &Payments, transport: Transport) -> Router {
    let pages = Router::new()
        .route("/", get(pages::overview))
        .route("/console/charges", get(pages::charges))
        .route("/console/charges/{id}", get(pages::charge))
        .route("/console/keys", get(pages::keys))
        .route("/console/key", get(pages::key))
        .route("/console/search", get(pages::search))
        .route("/console/{*path}", get(pages::nowhere))
        .layer(Extension(transport))
        .layer(middleware::map_response(harden))
        .layer(middleware::from_fn_with_state(payments.clone(), refuse_foreign_names));
    pages
        .route("/admin/keys/purge", post(purge::purge))
        .route("/admin/keys/settle", post(settle::settle))
        .with_state(payments.clone())
}

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every page.
async fn harden(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

async fn refuse_foreign_names(
    axum::extract::State(payments): axum::extract::State<Payments>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = host.or(request.uri().authority().map(http::uri::Authority::as_str)).unwrap_or_default();
    if payments.is_open_to_all() && !is_this_machine(authority) {
        let text = "without API keys the console answers only to names of this machine, such as localhost\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    next.run(request).await
}

/// Whether a `Host` names this machine in a way that no DNS server of somebody else's can.
fn is_this_machine(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<http::uri::Authority>() else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_nobody_else_can_claim_are_this_machine() {
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "[::ffff:127.0.0.1]"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "10.0.0.1", "a b"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
