//! A refusal as a value, and the `application/problem+json` answer it becomes (RFC 9457).

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value};
use unavez_core::problem::TYPE_PREFIX;
pub use unavez_core::problem::{Code, Repeat};

use crate::body::Body;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// What a caller whose outcome is open has to do next: a new key could charge twice.
const SAME_KEY: &str = "same key, never a new one";

/// Why a request was refused: a stable code, and what is known about this occurrence.
///
/// ```
/// use unavez_tower::problem::{Code, Problem};
///
/// let problem = Problem::new(Code::Validation).with_detail("amount is 0, least 1").with_member("amount");
/// let response = problem.into_response();
/// assert_eq!(response.status(), 400);
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// ```
#[derive(Clone, Debug)]
pub struct Problem(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    status: StatusCode,
    repeat: Repeat,
    detail: Option<String>,
    extra: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem with the code's own status and wait.
    #[must_use]
    pub fn new(code: Code) -> Self {
        let status = StatusCode::from_u16(code.status()).expect("the table of codes holds statuses");
        let extra = Map::new();
        let problem = Self(Box::new(Inner {
            code,
            status,
            repeat: code.repeat(),
            detail: None,
            extra,
            headers: Vec::new(),
        }));
        match code {
            Code::OutcomeUnknown | Code::OutcomePending => problem.with_next(SAME_KEY),
            _ => problem,
        }
    }

    /// 504 `outcome-unknown`: for the caller whose own attempt ended so (P12, P17).
    #[must_use]
    pub fn own_outcome_unknown() -> Self {
        Self::new(Code::OutcomeUnknown).with_status(StatusCode::GATEWAY_TIMEOUT)
    }

    /// 409 `outcome-unknown` for good: a tombstone, without `Retry-After` (P14).
    #[must_use]
    pub fn abandoned() -> Self {
        Self::new(Code::OutcomeUnknown).with_repeat(Repeat::Never)
    }

    /// What happened this time: a lower-case fragment that names the limit and the shape seen, never a secret.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Another status than the code's own.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self
    }

    /// Another rule for repeating than the code's own.
    #[must_use]
    pub fn with_repeat(mut self, repeat: Repeat) -> Self {
        self.0.repeat = repeat;
        self
    }

    /// Names what differs from the first request with this key (P6).
    #[must_use]
    pub fn with_differs(self, names: Vec<String>) -> Self {
        self.with("differs", names)
    }

    /// Names the member of the body that breaks a rule.
    #[must_use]
    pub fn with_member(self, name: &str) -> Self {
        self.with("member", name)
    }

    /// Where the key's status can be read.
    #[must_use]
    pub fn with_key_status(self, url: impl Into<Value>) -> Self {
        self.with("key_status", url)
    }

    /// The resource that the problem is about.
    #[must_use]
    pub fn with_resource(self, resource: impl Into<Value>) -> Self {
        self.with("resource", resource)
    }

    /// What the caller has to do next.
    #[must_use]
    pub fn with_next(self, next: impl Into<Value>) -> Self {
        self.with("next", next)
    }

    /// Any further member of the document.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.extra.insert(name.to_owned(), value.into());
        self
    }

    /// A header of the answer, such as `WWW-Authenticate`.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// The stable name.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The document.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        let inner = &*self.0;
        let mut document = Map::new();
        document.insert("type".into(), format!("{TYPE_PREFIX}{}", inner.code).into());
        document.insert("code".into(), inner.code.as_str().into());
        document.insert("title".into(), inner.code.title().into());
        document.insert("status".into(), inner.status.as_u16().into());
        if let Some(detail) = &inner.detail {
            document.insert("detail".into(), detail.as_str().into());
        }
        document.insert("retryable".into(), (inner.repeat != Repeat::Never).into());
        document.extend(inner.extra.clone());
        Bytes::from(Value::Object(document).to_string())
    }

    /// The answer.
    #[must_use]
    pub fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::whole(self.to_json()));
        *response.status_mut() = self.0.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Repeat::After(wait) = self.0.repeat {
            headers.insert(RETRY_AFTER, whole_seconds(wait).into());
        }
        for (name, value) in self.0.headers {
            headers.append(name, value);
        }
        response.extensions_mut().insert(self.0.code);
        response
    }
}

/// `Retry-After` counts whole seconds, and 0 would be an invitation to hammer.
fn whole_seconds(wait: Duration) -> u64 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.max(1)
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl From<Problem> for Response<Body> {
    fn from(problem: Problem) -> Self {
        problem.into_response()
    }
}

#[cfg(feature = "axum")]
impl axum::response::IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        Problem::into_response(self).map(axum::body::Body::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c57_a_wait_is_a_whole_number_of_seconds_and_never_zero() {
        let check = |wait, expected: &str| {
            let response = Problem::new(Code::InProgress).with_repeat(Repeat::After(wait)).into_response();
            assert_eq!(response.headers()[RETRY_AFTER], expected, "{wait:?}");
        };
        check(Duration::ZERO, "1");
        check(Duration::from_millis(1), "1");
        check(Duration::from_millis(1001), "2");
        check(Duration::from_secs(5), "5");
        for repeat in [Repeat::Never, Repeat::SameKey] {
            let response = Problem::new(Code::InProgress).with_repeat(repeat).into_response();
            assert!(!response.headers().contains_key(RETRY_AFTER));
        }
    }

    #[test]
    fn a_problem_is_one_document() {
        let problem = Problem::own_outcome_unknown().with_detail("a \"quoted\" detail").with("extra", 1);
        let document: Value = serde_json::from_slice(&problem.to_json()).unwrap();
        let expected = serde_json::json!({
            "type": "https://unavez.dev/problems/outcome-unknown",
            "code": "outcome-unknown",
            "title": "the outcome is not known",
            "status": 504,
            "detail": "a \"quoted\" detail",
            "retryable": true,
            "next": "same key, never a new one",
            "extra": 1,
        });
        assert_eq!(document, expected);
    }
}
