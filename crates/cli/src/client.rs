//! What the commands that talk to a running service have in common.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::uri::Authority;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::Failure;

/// How long a service may take to answer at all. What accepts connections and says nothing is no service at work.
const SIGN_OF_LIFE_MAX: Duration = Duration::from_secs(10);

/// How long a service may take to do what an administrator asks.
const ANSWER_MAX: Duration = Duration::from_secs(300);

/// Reads an API key: the first line of a file, so that it stands in no process list and no shell history.
pub(crate) fn read_api_key(path: &Path) -> Result<String, Failure> {
    let refuse = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let key = text.lines().next().unwrap_or_default().trim();
    if key.is_empty() {
        return Err(refuse("the first line holds no API key".to_owned()));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refuse("an API key is printable ASCII without spaces".to_owned()));
    }
    Ok(key.to_owned())
}

/// A running service, as `--target` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    authority: String,
}

/// What came back for a request.
#[derive(Debug)]
pub(crate) enum Answered<T> {
    /// 2xx.
    Done(T),
    /// Any other status, with its body.
    Refused(StatusCode, Bytes),
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

impl Service {
    /// Reads `http://HOST[:PORT]`. For clap's `value_parser`.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected http://HOST:PORT";
        let uri: Uri = url.parse().map_err(|error| format!("{error}; {EXPECTED}"))?;
        if uri.scheme_str() != Some("http") || uri.path_and_query().is_some_and(|rest| rest.as_str() != "/") {
            return Err(EXPECTED.to_owned());
        }
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(EXPECTED)?;
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => 80,
            _ => read_port(authority).ok_or(EXPECTED)?,
        };
        Ok(Self { authority: format!("{}:{port}", authority.host()) })
    }

    /// Whether a service listens there and answers requests, whatever it answers.
    ///
    /// A failure if it accepts the connection and is silent.
    pub(crate) async fn is_answering(&self) -> Result<bool, Failure> {
        let request = Request::get(format!("{self}/healthz"))
            .body(Full::default())
            .map_err(|error| Failure::usage(format!("{self}: {error}")))?;
        Ok(self.exchange(request, SIGN_OF_LIFE_MAX).await?.is_some())
    }

    /// Posts JSON and reads the JSON of a 2xx answer; any other is a failure. `None`: nothing listens there.
    pub(crate) async fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        api_key: Option<&str>,
    ) -> Result<Option<T>, Failure> {
        match self.post(path, body, api_key).await? {
            None => Ok(None),
            Some(Answered::Done(answer)) => Ok(Some(answer)),
            Some(Answered::Refused(status, body)) => Err(self.refused(status, &body)),
        }
    }

    /// Posts JSON. `None`: nothing listens there.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        api_key: Option<&str>,
    ) -> Result<Option<Answered<T>>, Failure> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Failure::usage(format!("the request cannot be written: {error}")))?;
        let mut request = Request::post(format!("{self}{path}")).header(CONTENT_TYPE, "application/json");
        if let Some(key) = api_key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::usage(format!("{self}: {error}")))?;
        let Some((status, body)) = self.exchange(request, ANSWER_MAX).await? else { return Ok(None) };
        if !status.is_success() {
            return Ok(Some(Answered::Refused(status, body)));
        }
        let answer = serde_json::from_slice(&body)
            .map_err(|error| Failure::unavailable(format!("{self} is no unavez: {error}")))?;
        Ok(Some(Answered::Done(answer)))
    }

    /// A refusal that says no more than its status.
    pub(crate) fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let failure = Failure::unavailable(format!("{self} answered {status}: {}", excerpt(body)));
        match status.as_u16() {
            401 | 403 => failure.with_help("--api-key-file names a file with an operator's API key"),
            409 => failure.with_help(crate::keys::CONFIRM_CLOCK),
            404 => failure.with_help("with --admin-listen the service has these routes on that address"),
            _ => failure,
        }
    }

    /// Sends a request and reads the whole answer within a limit. `None`: nothing listens there.
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Option<(StatusCode, Bytes)>, Failure> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let answered = async {
            let answer = match client.request(request).await {
                Ok(answer) => answer,
                Err(error) if error.is_connect() => return Ok(None),
                Err(error) => return Err(Failure::unavailable(format!("{self}: {error}"))),
            };
            let status = answer.status();
            let body = answer.into_body().collect().await;
            let body = body.map_err(|error| Failure::unavailable(format!("{self}: {error}")))?;
            Ok(Some((status, body.to_bytes())))
        };
        let silent = |_| Failure::unavailable(format!("{self}: no answer within {} s", limit.as_secs()));
        tokio::time::timeout(limit, answered).await.map_err(silent)?
    }
}

/// Digits alone: `Uri` takes any text, and a port that is not read must not become the default one.
fn read_port(authority: &Authority) -> Option<u16> {
    let text = authority.as_str().strip_prefix(authority.host())?.strip_prefix(':')?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port > 0)
}

/// The beginning of a body, for an error message.
pub(crate) fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_whose_port_is_none_is_refused() {
        for (url, authority) in [
            ("http://h", "h:80"),
            ("http://h:8080/", "h:8080"),
            ("http://[::1]", "[::1]:80"),
            ("http://[::1]:65535", "[::1]:65535"),
        ] {
            assert_eq!(Service::parse(url).map(|service| service.authority).as_deref(), Ok(authority));
        }
        for port in [":", ":0", ":+80", ":65536", ":99999", ":8080abc", ":0x50"] {
            for host in ["h", "127.0.0.1", "[::1]"] {
                let url = format!("http://{host}{port}");
                assert!(Service::parse(&url).is_err(), "{url}");
            }
        }
    }
}
