//! The same rules as a tower layer, for programs that have a client already.
//!
//! 1. A request keeps its own key. A POST or PATCH without one gets a random one, made before the first attempt.
//! 2. The body is collected first, up to a limit, so that every attempt sends the same bytes. What is larger is refused
//!    before anything is sent.
//! 3. Each attempt waits for its own clone of the inner service to be ready, and calls that clone.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tower::{Layer, Service};
use unavez_core::key::Key;
use unavez_core::retry::Received;

use crate::client::{Client, ClientBuilder};
use crate::operation::{self, Operation, OperationParts, random_key};
use crate::outcome::{Outcome, Unknown};
use crate::preset::{KeyPlace, Preset};
use crate::transport::{BoxError, Cause, Exchanged, Transport, read_whole};
use crate::unfit::Unfit;

/// The largest body that is kept for another attempt, unless another limit is set.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Applies [`Retry`] to a service.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response, StatusCode};
/// use http_body_util::Full;
/// use tower::{Layer, ServiceExt, service_fn};
/// use unavez_client::{Client, Preset, RetryLayer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let server = service_fn(|request: Request<Full<Bytes>>| async move {
///     let status = match request.headers().get("idempotency-key") {
///         Some(_) => StatusCode::CREATED,
///         None => StatusCode::BAD_REQUEST,
///     };
///     Ok::<_, std::io::Error>(Response::builder().status(status).body(Full::<Bytes>::default()).unwrap())
/// });
/// let client = RetryLayer::new(Client::builder(Preset::stripe())).layer(server);
///
/// let request = Request::post("https://api.test/v1/charges").body(Full::<Bytes>::from("amount=500")).unwrap();
/// let answer = client.oneshot(request).await.unwrap();
/// assert_eq!(answer.status(), StatusCode::CREATED);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RetryLayer {
    builder: ClientBuilder,
    body_bytes_max: usize,
    not_sent: NotSent,
}

/// How an error says that nothing was sent.
type NotSent = fn(&(dyn Error + 'static)) -> bool;

impl RetryLayer {
    /// A layer with these settings. All services it is applied to have hosts of their own.
    #[must_use]
    pub fn new(builder: ClientBuilder) -> Self {
        Self { builder, body_bytes_max: BODY_BYTES_MAX, not_sent: is_connect_error }
    }

    /// The largest body that is kept for another attempt [default: 1 MiB].
    #[must_use]
    pub fn with_body_bytes_max(self, bytes: usize) -> Self {
        Self { body_bytes_max: bytes, ..self }
    }

    /// Which errors of the inner service say that nothing was sent. It is asked for each error in the chain of causes
    /// [default: a connection that hyper could not make]. All others count as perhaps received.
    #[must_use]
    pub fn with_not_sent(self, not_sent: fn(&(dyn Error + 'static)) -> bool) -> Self {
        Self { not_sent, ..self }
    }
}

fn is_connect_error(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect())
}

impl<S> Layer<S> for RetryLayer
where
    Carried<S>: Transport,
{
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        let carried = Carried { inner, not_sent: self.not_sent };
        Retry { client: self.builder.clone().build_over(carried), body_bytes_max: self.body_bytes_max }
    }
}

/// Calls the inner service until the operation is done, refused or unknown. A final answer, positive or negative, is the
/// response; everything else is a [`NoAnswer`]. Clones share the host's budget, breaker and bulkhead, and no keys.
#[derive(Debug)]
pub struct Retry<S> {
    client: Client<Carried<S>>,
    body_bytes_max: usize,
}

impl<S> Clone for Retry<S> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), body_bytes_max: self.body_bytes_max }
    }
}

/// Why there is no final answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// Nobody knows, or it has not ended.
    Unknown(Box<Unknown>),
    /// It cannot be sent, and nothing was.
    Unfit(Unfit),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(unknown) => unknown.fmt(f),
            Self::Unfit(unfit) => unfit.fmt(f),
        }
    }
}

impl Error for NoAnswer {}

type Answered = Result<Response<Full<Bytes>>, NoAnswer>;

/// The future of [`Retry`]. Dropping it leaves the operation unknown.
pub struct ResponseFuture(Pin<Box<dyn Future<Output = Answered> + Send>>);

impl Future for ResponseFuture {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

impl<S, B> Service<Request<B>> for Retry<S>
where
    Carried<S>: Transport + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = NoAnswer;
    type Future = ResponseFuture;

    /// Always ready: how much may be under way at a time is the bulkhead's business, for each host.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoAnswer>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let this = self.clone();
        ResponseFuture(Box::pin(async move {
            let operation = collected(request, this.client.preset(), this.body_bytes_max)
                .await
                .map_err(NoAnswer::Unfit)?;
            match this.client.call(&operation).await.map_err(NoAnswer::Unfit)? {
                Outcome::Done(answer) | Outcome::Refused(answer) => Ok(answer.map(Full::new)),
                Outcome::Unknown(unknown) => Err(NoAnswer::Unknown(unknown)),
            }
        }))
    }
}

/// The request as an operation: its own key, or one made now.
async fn collected<B>(request: Request<B>, preset: &Preset, body_bytes_max: usize) -> Result<Operation, Unfit>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (mut parts, body) = request.into_parts();
    let body = Limited::new(body, body_bytes_max).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Unfit::BodyTooLarge { limit: body_bytes_max };
        }
        Unfit::Body(Cause::of("its source failed", error.as_ref()).to_string())
    })?;
    let own = own_key(&mut parts.headers, preset)?;
    let makes_key = matches!(parts.method, http::Method::POST | http::Method::PATCH);
    Operation::from_parts(OperationParts {
        key: own.or_else(|| makes_key.then(random_key)),
        method: parts.method,
        url: parts.uri,
        headers: parts.headers,
        body: body.to_bytes(),
        created_at: operation::now(),
        received: Received::No,
    })
}

/// Takes the key out of the request, where it has one.
fn own_key(headers: &mut http::HeaderMap, preset: &Preset) -> Result<Option<Key>, Unfit> {
    let (KeyPlace::Bare(name) | KeyPlace::BareOrString(name) | KeyPlace::String(name)) = &preset.key else {
        return Ok(None);
    };
    let lines = headers.get_all(name).iter().map(http::HeaderValue::as_bytes);
    let key = Key::parse_header_values(lines).map_err(Unfit::Key)?;
    headers.remove(name);
    Ok(key)
}

/// A tower service as a transport.
#[derive(Clone, Debug)]
pub struct Carried<S> {
    inner: S,
    not_sent: NotSent,
}

impl<S, B> Transport for Carried<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    async fn exchange(&self, request: Request<Full<Bytes>>, answer_bytes_max: usize) -> Exchanged {
        let mut inner = self.inner.clone();
        if let Err(error) = poll_fn(|cx| inner.poll_ready(cx)).await {
            // It was not called, so it has sent nothing.
            return Exchanged::NotSent(Cause::of("not ready", error.into().as_ref()));
        }
        match inner.call(request).await {
            Ok(answer) => read_whole(answer, answer_bytes_max).await,
            Err(error) => self.failed(error.into()),
        }
    }
}

impl<S> Carried<S> {
    fn failed(&self, error: BoxError) -> Exchanged {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error.as_ref());
        while let Some(error) = cause {
            if (self.not_sent)(error) {
                return Exchanged::NotSent(Cause::of("not sent", error));
            }
            cause = error.source();
        }
        Exchanged::Cut(Cause::of("no answer", error.as_ref()))
    }
}
