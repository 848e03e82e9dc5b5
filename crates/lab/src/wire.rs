//! HTTP as the lab's clients speak it: one connection, kept alive, that never repeats a request by itself.
//!
//! A pooled client would decide on its own which connection carries a request; here every request is bound to one, so
//! that its loss can be. Whatever goes wrong between sending and the last byte of the answer is [`Cut`]: the client
//! cannot know what became of its request.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};

use crate::{
    Error, Said,
    link::{Fate, Link},
};

/// How long a service may take to answer. Beyond it nothing is measured but patience.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Where a client's connections go.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// Straight to the service at this `host:port`.
    Direct(String),
    /// Through a network that may lose responses, to the service at this `host:port`.
    Through(Arc<Link>, String),
}

/// A request as the lab thinks of it.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) bearer: Option<&'a str>,
    pub(crate) body: Option<Bytes>,
}

/// An answer that arrived whole.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
}

/// No whole answer arrived; whether the request did is unknown.
#[derive(Debug)]
pub(crate) enum Cut {
    /// The connection failed or ended.
    Broken(String),
    /// Nothing came within [`ANSWER_MAX`].
    Silent,
}

impl Cut {
    pub(crate) fn said(&self) -> Said {
        let seconds = ANSWER_MAX.as_secs();
        match self {
            Self::Broken(error) => (error.as_str(), error.as_str()).into(),
            Self::Silent => {
                (format!("no answer within {seconds} s"), format!("ninguna respuesta en {seconds} s")).into()
            }
        }
    }
}

/// One client's connection, opened when it is first needed and again after it was cut.
#[derive(Debug)]
pub(crate) struct Wire {
    route: Route,
    open: Option<(SendRequest<Full<Bytes>>, Fate)>,
}

impl Wire {
    pub(crate) fn new(route: Route) -> Self {
        Self { route, open: None }
    }

    /// Sends one request and waits for its answer. Nothing is ever sent twice.
    pub(crate) async fn send(&mut self, call: &Call<'_>) -> Result<Answer, Cut> {
        self.send_losing(call, false).await
    }

    /// Like [`Wire::send`], over a network that loses the response if `lost`. On a direct route nothing is lost.
    pub(crate) async fn send_losing(&mut self, call: &Call<'_>, lost: bool) -> Result<Answer, Cut> {
        let request = self.request(call);
        let answered = match timeout(ANSWER_MAX, self.try_send(request, lost)).await {
            Ok(answered) => answered.map_err(|error| Cut::Broken(error.to_string())),
            Err(_) => Err(Cut::Silent),
        };
        if answered.is_err() {
            self.open = None;
        }
        answered
    }

    async fn try_send(&mut self, request: Request<Full<Bytes>>, lost: bool) -> io::Result<Answer> {
        let (sender, fate) = self.ready().await?;
        fate.lose_next(lost);
        exchange(sender, request).await.map_err(io::Error::other)
    }

    /// The open connection, or a new one if there is none or the service closed it while it was idle.
    async fn ready(&mut self) -> io::Result<&mut (SendRequest<Full<Bytes>>, Fate)> {
        let usable = match &mut self.open {
            Some((sender, _)) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            self.open = None;
        }
        match &mut self.open {
            Some(open) => Ok(open),
            closed => Ok(closed.insert(connect(&self.route).await?)),
        }
    }

    fn request(&self, call: &Call<'_>) -> Request<Full<Bytes>> {
        let (Route::Direct(authority) | Route::Through(_, authority)) = &self.route;
        let mut request =
            Request::builder().method(&call.method).uri(call.path).header(header::HOST, authority);
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(bearer) = call.bearer {
            let mut value =
                HeaderValue::try_from(format!("Bearer {bearer}")).unwrap_or(HeaderValue::from_static(""));
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if call.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request
            .body(Full::new(call.body.clone().unwrap_or_default()))
            .expect("the lab's own paths and keys are valid in a request")
    }
}

async fn connect(route: &Route) -> io::Result<(SendRequest<Full<Bytes>>, Fate)> {
    let (stream, fate) = match route {
        Route::Direct(authority) => (TcpStream::connect(authority.as_str()).await?, Fate::default()),
        Route::Through(link, _) => {
            let line = link.dial().await?;
            (line.stream, line.fate)
        }
    };
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Ends with the sender, or with the stream; its error is also the sender's.
    tokio::spawn(connection);
    Ok((sender, fate))
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Answer> {
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

impl<'a> Call<'a> {
    /// A `GET`.
    pub(crate) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, key: None, bearer: None, body: None }
    }

    /// A `POST` of a JSON body under a key.
    pub(crate) fn post(path: &'a str, key: &'a str, body: Bytes) -> Self {
        Self { method: Method::POST, path, key: Some(key), bearer: None, body: Some(body) }
    }

    /// The same request from whoever holds this API key.
    pub(crate) fn authorized(mut self, bearer: Option<&'a str>) -> Self {
        self.bearer = bearer;
        self
    }
}

impl Answer {
    /// Reads the body as JSON of the expected shape.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::broken(format!(
                "answer {} is not what was expected: {error}: {}",
                self.status,
                self.excerpt()
            ))
        })
    }

    /// The problem code of a refusal, if the body has one.
    pub(crate) fn problem_code(&self) -> Option<String> {
        let problem: Value = serde_json::from_slice(&self.body).ok()?;
        Some(problem.get("code")?.as_str()?.to_owned())
    }

    /// The beginning of the body, for a person.
    pub(crate) fn excerpt(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::Running;

    async fn service() -> Running {
        let app = axum::Router::new()
            .route("/kept", axum::routing::get(|| async { "kept" }))
            .route("/closed", axum::routing::get(|| async { ([("connection", "close")], "closed") }));
        Running::serve(app).await.expect("a free port")
    }

    #[tokio::test]
    async fn opens_again_after_the_service_closed_the_connection() {
        let service = service().await;
        let mut wire = Wire::new(Route::Direct(service.authority().to_owned()));
        for path in ["/kept", "/closed", "/kept"] {
            assert_eq!(wire.send(&Call::get(path)).await.expect("answered").status, StatusCode::OK, "{path}");
        }
    }

    #[tokio::test]
    async fn a_lost_response_is_a_cut_and_the_next_request_gets_through() {
        let service = service().await;
        let authority = service.authority().to_owned();
        let link = Arc::new(Link::open(authority.clone()).await.expect("a free port"));
        let mut wire = Wire::new(Route::Through(Arc::clone(&link), authority));
        for lost in [false, true, false, true, true, false] {
            assert_eq!(wire.send_losing(&Call::get("/kept"), lost).await.is_err(), lost);
        }
        assert_eq!(link.lost(), 3);
    }
}
