//! The sandbox over HTTP: a thin skin around [`Sandbox::exchange`].

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use tower::Service;

use super::Sandbox;
use super::desk::Reply;

/// No honest request comes near.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long an answer that never comes is waited for, before the connection gets an error instead. Clients leave long
/// before, and take their connection with them.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// A tower service, for [`crate::server::serve`].
#[derive(Clone, Debug)]
pub struct SandboxService(Sandbox);

impl SandboxService {
    /// The service of that sandbox.
    #[must_use]
    pub fn new(sandbox: Sandbox) -> Self {
        Self(sandbox)
    }
}

impl Service<Request<Incoming>> for SandboxService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let sandbox = self.0.clone();
        Box::pin(async move { Ok(answer(&sandbox, request).await) })
    }
}

async fn answer(sandbox: &Sandbox, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return response(StatusCode::BAD_REQUEST, Bytes::new());
    };
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    match sandbox.exchange(head.method.as_str(), target, &body.to_bytes()).await {
        Reply::Answer { status, body } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            response(status, body)
        }
        Reply::Silence => {
            say_nothing(sandbox).await;
            response(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new())
        }
    }
}

/// Holds the connection open. It is dropped when the client leaves.
async fn say_nothing(sandbox: &Sandbox) {
    let mut closing = sandbox.0.closing.subscribe();
    // Either end is an end: nobody is told anything.
    let _ = tokio::time::timeout(SILENCE_MAX, closing.wait_for(|closing| *closing)).await;
}

fn response(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
