//! What every request passes on its way in and out: the request id, the limit of requests inside, the caller, the
//! count.
//!
//! The order is P7's: overloaded, then 401, then whatever the route says. There is one edge around each route, so that
//! its counters are at hand, and one around "no such route", so that an unknown path without a key is 401 as well.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue};
use tower::{Layer, Service};
use unavez_core::problem::Code;
use unavez_tower::headers::IDEMPOTENT_REPLAYED;
use unavez_tower::problem::Problem;

use crate::auth::{Caller, Role};
use crate::metrics::{How, Route};
use crate::request_id::RequestId;
use crate::service::App;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Who may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Anybody, also where there are keys.
    Everybody,
    /// Anybody whose body is signed; the route checks that. Bounded like callers.
    Signed,
    /// Whoever has a key; the route asks for roles itself.
    Callers,
    /// Callers with the operator role.
    Operators,
}

/// What the edge found out about a request: an extension of it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) request_id: RequestId,
    pub(super) caller: Arc<Caller>,
}

/// Wraps a route's handlers.
#[derive(Clone)]
pub(super) struct EdgeLayer {
    pub(super) app: Arc<App>,
    pub(super) route: Route,
    pub(super) access: Access,
}

impl<S> Layer<S> for EdgeLayer {
    type Service = Edge<S>;

    fn layer(&self, inner: S) -> Edge<S> {
        Edge { inner, edge: self.clone() }
    }
}

/// See [`EdgeLayer`].
#[derive(Clone)]
pub(super) struct Edge<S> {
    inner: S,
    edge: EdgeLayer,
}

impl<S> Service<Request> for Edge<S>
where
    S: Service<Request, Error = Infallible, Future: Send> + Clone + Send + 'static,
    S::Response: IntoResponse,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let clone = self.inner.clone();
        // The clone may not be ready; the one that was asked is.
        let ready = std::mem::replace(&mut self.inner, clone);
        let edge = self.edge.clone();
        Box::pin(edge.pass(ready, request))
    }
}

impl EdgeLayer {
    async fn pass<S>(self, mut inner: S, mut request: Request) -> Result<Response, Infallible>
    where
        S: Service<Request, Error = Infallible>,
        S::Response: IntoResponse,
    {
        let request_id = RequestId::next();
        let mut response = match self.admit(&request) {
            Ok(Admitted { caller, _place }) => {
                if self.access == Access::Operators {
                    // The console is another package's: it sees the caller, and not what is ours alone.
                    request.extensions_mut().insert(Caller::clone(&caller));
                }
                request.extensions_mut().insert(Call { request_id, caller });
                inner.call(request).await?.into_response()
            }
            Err(problem) => problem.into_response().map(axum::body::Body::new),
        };
        response.headers_mut().insert(REQUEST_ID, header(request_id));
        self.app.metrics.answered(self.route, how(&response));
        tracing::debug!(%request_id, route = self.route.path(), status = response.status().as_u16(), "answered");
        Ok(response)
    }

    fn admit(&self, request: &Request) -> Result<Admitted, Problem> {
        match self.access {
            // Whoever watches the service must see it above all when it is overloaded.
            Access::Everybody => Ok(Admitted { caller: self.app.gate.anyone(), _place: None }),
            Access::Signed => {
                let place = self.app.inside.enter()?;
                Ok(Admitted { caller: self.app.gate.anyone(), _place: Some(place) })
            }
            Access::Operators => {
                let caller = self.app.gate.caller(request.headers())?;
                caller.require(&[Role::Operator])?;
                Ok(Admitted { caller, _place: None })
            }
            Access::Callers => {
                let place = self.app.inside.enter()?;
                Ok(Admitted { caller: self.app.gate.caller(request.headers())?, _place: Some(place) })
            }
        }
    }
}

/// A request that may go on.
struct Admitted {
    caller: Arc<Caller>,
    /// Held until it is answered.
    _place: Option<Place>,
}

fn how(response: &Response) -> How {
    if response.headers().contains_key(IDEMPOTENT_REPLAYED) {
        return How::Replayed;
    }
    response.extensions().get::<Code>().map_or(How::First, |code| How::Problem(*code))
}

/// Counts the requests inside.
#[derive(Clone)]
pub(crate) struct Inside {
    count: Arc<AtomicUsize>,
    max: usize,
}

impl Inside {
    pub(crate) fn new(max: usize) -> Self {
        Self { count: Arc::default(), max }
    }

    fn enter(&self) -> Result<Place, Problem> {
        let place = Place(Arc::clone(&self.count));
        if self.count.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(place);
        }
        let detail = format!("{} requests are inside, limit {}", self.max, self.max);
        Err(Problem::new(Code::Overloaded).with_detail(detail))
    }
}

/// One request inside; leaves when dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside").field("count", &self.count).field("max", &self.max).finish()
    }
}

fn header(id: RequestId) -> HeaderValue {
    HeaderValue::try_from(id.to_string()).expect("hex digits are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_up_to_the_limit_and_come_back() {
        let inside = Inside::new(2);
        let places = [inside.enter().unwrap(), inside.enter().unwrap()];
        assert_eq!(inside.enter().map(|_| ()).unwrap_err().code(), Code::Overloaded);
        drop(places);
        assert!(inside.enter().is_ok());
        assert_eq!(inside.count.load(Ordering::Relaxed), 0, "a refusal takes no place");
    }
}
