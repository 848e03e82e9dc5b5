//! API and console on one address, without a layer around the API: a charge costs a look at its path, no more.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::HttpBody;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use bytes::Bytes;
use http::Request;
use tower::{BoxError, Service};

/// Sends each request to one of two routers by its path.
#[derive(Clone)]
pub(super) struct OneAddress {
    /// The API, and everything nobody knows.
    pub(super) public: Router,
    /// Console, metrics and the administrator's routes.
    pub(super) guarded: Router,
}

impl<B> Service<Request<B>> for OneAddress
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routers are always ready: they have no state of their own between requests.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_guarded(request.uri().path()) { self.guarded.call(request) } else { self.public.call(request) }
    }
}

fn is_guarded(path: &str) -> bool {
    matches!(path, "/" | "/metrics") || path.starts_with("/console/") || path.starts_with("/admin/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_and_unknown_paths_are_public() {
        for path in [
            "/v1/charges",
            "/v1/idempotency-keys/console%2F",
            "/healthz",
            "/openapi.json",
            "/x",
            "/console",
            "",
        ] {
            assert!(!is_guarded(path), "{path}");
        }
        for path in ["/", "/metrics", "/console/style.css", "/console/key", "/admin/keys/purge"] {
            assert!(is_guarded(path), "{path}");
        }
    }
}
