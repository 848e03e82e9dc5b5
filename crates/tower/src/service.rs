//! The middleware: one request from the door to its answer.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tokio::sync::oneshot;
use tower::Service;
use tracing::Instrument;
use unavez_core::problem::Code;

use crate::body::{Body, BoxError};
use crate::door::{Admitted, Entry};
use crate::engine::{Engine, Kind, Permit, Reply};
use crate::headers::{IDEMPOTENT_REPLAYED, strip_marks};
use crate::layer::Route;
use crate::observe::{Answered, Event};
use crate::operate::operate;
use crate::problem::Problem;

/// Middleware that lets each operation take effect once. Made by [`IdempotencyLayer`](crate::IdempotencyLayer).
///
/// Stand it inside compression, so that answers are stored as the handler made them, and outside whatever the operation
/// needs. The inner service must be `Clone`; each call uses the instance that was polled ready.
#[derive(Clone)]
pub struct Idempotency<S> {
    inner: S,
    route: Arc<Route>,
    kind: Kind,
}

impl<S> Idempotency<S> {
    pub(crate) const fn new(inner: S, route: Arc<Route>, kind: Kind) -> Self {
        Self { inner, route, kind }
    }
}

impl<S: fmt::Debug> fmt::Debug for Idempotency<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("inner", &self.inner)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        // The instance that was polled ready is the one to call; its clone may not be ready.
        let clone = self.inner.clone();
        let inner = mem::replace(&mut self.inner, clone);
        if !self.route.door.covers(request.method()) {
            return ResponseFuture::new(pass(inner, request));
        }
        ResponseFuture::new(cover(inner, request, Arc::clone(&self.route), self.kind.clone()))
    }
}

/// The answer of [`Idempotency`]. Dropping it leaves a running operation running (P12).
pub struct ResponseFuture {
    future: Pin<Box<dyn Future<Output = Response<Body>> + Send>>,
}

impl ResponseFuture {
    fn new(future: impl Future<Output = Response<Body>> + Send + 'static) -> Self {
        Self { future: Box::pin(future) }
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// A request that can neither read nor write a record (P2, P3). Forged marks are removed here too.
async fn pass<S, B, R>(mut inner: S, request: Request<B>) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let mut request = request.map(Body::stream);
    strip_marks(request.headers_mut());
    match inner.call(request).await {
        Ok(response) => response.map(Body::stream),
        Err(never) => match never {},
    }
}

async fn cover<S, B, R>(inner: S, request: Request<B>, route: Arc<Route>, kind: Kind) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    if route.door.passes(request.headers()) {
        return pass(inner, request).await;
    }
    let response = match answer(inner, request, &route, kind).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    route.engine.observe(Event::Answered { route: route.door.route(), how: how(&response) });
    response
}

/// The answer of a request with a key, in the order of P7.
async fn answer<S, B, R>(
    inner: S,
    request: Request<B>,
    route: &Route,
    kind: Kind,
) -> Result<Response<Body>, Problem>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let Route { engine, door, tenant, validation } = route;
    let (head, body) = request.into_parts();
    let tenant = tenant.tenant(&head).ok_or_else(|| Problem::new(Code::Unauthorized))?;
    let permit = engine.enter(&tenant)?;
    let admitted = match door.admit(engine.realm(), tenant, Request::from_parts(head, body)).await? {
        Entry::Admitted(admitted) => admitted,
        Entry::Ambiguous(request) => return Ok(engine.refuse_ambiguous(request).await),
        Entry::Keyless(request) => return Ok(pass(inner, request).await),
    };
    if let Some(validation) = validation
        && let Err(problem) = validation.validate(admitted.head(), admitted.body())
    {
        return Ok(engine.refuse_invalid(&admitted, &kind, problem).await);
    }
    // The task answers unless it is torn down with its runtime.
    let answer = start(engine.clone(), kind, admitted, inner, permit);
    Ok(answer.await.unwrap_or_else(|_| Problem::own_outcome_unknown().into_response()))
}

/// Starts the operation's own task, which its caller may outlive or leave (P12).
fn start<S, R>(
    engine: Engine,
    kind: Kind,
    admitted: Admitted,
    inner: S,
    permit: Permit,
) -> oneshot::Receiver<Response<Body>>
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Send + 'static,
    S::Future: Send,
    R: HttpBody<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let (reply, answer) = Reply::new();
    let tracked = engine.track();
    let operation = async move {
        operate(engine, kind, admitted, inner, reply).await;
        drop((permit, tracked));
    };
    tokio::spawn(operation.in_current_span());
    answer
}

fn how(response: &Response<Body>) -> Answered {
    if response.headers().contains_key(IDEMPOTENT_REPLAYED) {
        return Answered::Replayed;
    }
    response.extensions().get::<Code>().map_or(Answered::First, |code| Answered::Problem(*code))
}
