//! Answers: what of a handler's response is stored, and the response a stored answer becomes again.
//!
//! 1. Kept are status, body bytes and the end-to-end headers that belong to the outcome, in order, with repeats (P18).
//! 2. What cannot be kept is not: the record then finishes without a body, and a repeat gets `response-not-kept` (P20).
//! 3. `Idempotent-Replayed` stands exactly on answers that this request did not itself run (P19).
//! 4. With sealing keys, headers and body are stored encrypted, bound to realm, tenant and key (P23).

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, response};
use jiff::Timestamp;
use unavez_core::answer::{self, Answer, Content, Headers, NotKept, describes_body, is_kept};
use unavez_core::problem::Code;
use unavez_core::record::{Record, State};
use unavez_core::seal::{OpenError, Owner, SealKeys};
use unavez_core::time::Time;

use crate::body::Body;
use crate::headers::{IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED, ORIGINAL_REQUEST_ID, PREFERENCE_APPLIED};
use crate::problem::Problem;

mod sealed;

/// The stored form of an answer whose body is kept whole.
#[must_use]
pub fn keep(head: &response::Parts, body: Bytes) -> Answer {
    Answer {
        status: head.status.as_u16(),
        content: Content::Kept { headers: kept_headers(&head.headers), body },
    }
}

/// The stored form of an answer whose body is not kept.
#[must_use]
pub fn keep_without_body(head: &response::Parts, why: NotKept) -> Answer {
    let mut headers = kept_headers(&head.headers);
    headers.retain(|(name, _)| !describes_body(name));
    Answer { status: head.status.as_u16(), content: Content::NotKept { headers, why } }
}

fn kept_headers(headers: &HeaderMap) -> Headers {
    let declared: Vec<&str> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(',').map(str::trim))
        .collect();
    headers
        .iter()
        // The layer stands inside compression, so bodies are identity-encoded; a handler that encodes by itself keeps
        // its label, or its bytes would come back under a wrong one.
        .filter(|(name, _)| is_kept(name.as_str(), &declared) || **name == CONTENT_ENCODING)
        .map(|(name, value)| (answer::header_name(name.as_str()), Bytes::copy_from_slice(value.as_bytes())))
        .collect()
}

/// Seals headers and body for one owner. `nonce` is random.
#[must_use]
pub fn seal(answer: &Answer, keys: &SealKeys, nonce: [u8; 24], owner: Owner<'_>) -> Answer {
    let sealed = keys.seal(nonce, owner, &sealed::encode(&answer.content));
    let content =
        Content::Sealed { key_id: sealed.key_id().as_str().into(), bytes: Bytes::from(sealed.encode()) };
    Answer { status: answer.status, content }
}

/// The content of an answer, opened if it is sealed.
///
/// # Errors
/// The key is not configured, or the text was damaged or belongs to another owner.
pub fn open<'a>(
    answer: &'a Answer,
    keys: Option<&SealKeys>,
    owner: Owner<'_>,
) -> Result<Cow<'a, Content>, OpenError> {
    match &answer.content {
        Content::Sealed { bytes, .. } => sealed::open(bytes, keys, owner).map(Cow::Owned),
        content => Ok(Cow::Borrowed(content)),
    }
}

/// Whether the request that gets an answer ran the attempt behind it (P19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// This request did: no mark.
    Itself,
    /// Another one did, or the outcome was recovered: marked as replayed.
    Another,
}

/// The response that a stored answer becomes again, without marks.
#[must_use]
pub fn restore(status: u16, content: &Content) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match content {
        Content::Kept { headers, body } => {
            let mut response = Response::new(Body::whole(body.clone()));
            *response.status_mut() = status;
            restore_headers(headers, response.headers_mut());
            response
        }
        Content::NotKept { headers, why } => {
            let detail = format!("the first answer's body was not kept: {}", why.as_str());
            let problem = Problem::new(Code::ResponseNotKept).with_status(status).with_detail(detail);
            let mut response = problem.into_response();
            restore_headers(headers, response.headers_mut());
            response
        }
        Content::Sealed { .. } => Problem::new(Code::Internal).into_response(),
    }
}

/// What else an answer is given on its way out: the marks, the request's id, the length. One room for all is cheaper
/// than a move to a larger one.
const MORE_HEADERS: usize = 4;

fn restore_headers(from: &Headers, into: &mut HeaderMap) {
    into.reserve(from.len() + MORE_HEADERS);
    for (name, value) in from {
        let value = HeaderValue::from_maybe_shared(value.clone());
        if let (Some(name), Ok(value)) = (header_name(name), value) {
            into.append(name, value);
        }
    }
}

/// Names that nearly every answer has need no parsing.
fn header_name(name: &str) -> Option<HeaderName> {
    match name {
        "content-type" => Some(CONTENT_TYPE),
        "location" => Some(LOCATION),
        "original-request-id" => Some(ORIGINAL_REQUEST_ID),
        name => HeaderName::from_bytes(name.as_bytes()).ok(),
    }
}

/// Puts the marks of a finished record on a response (P19).
pub fn mark(response: &mut Response<Body>, ran: Ran, expires_at: Option<Time>) {
    let headers = response.headers_mut();
    if ran == Ran::Another {
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    if let Some(value) = expires_at.and_then(rfc3339) {
        headers.insert(IDEMPOTENCY_EXPIRES, value);
    }
}

/// Notes that the answer waited, as the caller preferred (P10).
pub(crate) fn mark_waited(response: &mut Response<Body>, seconds: u64) {
    if let Ok(value) = HeaderValue::try_from(format!("wait={seconds}")) {
        response.headers_mut().insert(PREFERENCE_APPLIED, value);
    }
}

/// Whole seconds, rounded down: a promise is never stated longer than it is.
fn rfc3339(time: Time) -> Option<HeaderValue> {
    let timestamp = Timestamp::from_second(time.as_micros().div_euclid(1_000_000)).ok()?;
    HeaderValue::try_from(timestamp.to_string()).ok()
}

/// The answer of a finished record, ready for the caller; `None` for any other record.
///
/// # Errors
/// As [`open`].
pub fn replay(
    record: &Record,
    keys: Option<&SealKeys>,
    owner: Owner<'_>,
    ran: Ran,
) -> Result<Option<Response<Body>>, OpenError> {
    let State::Finished { answer, expires_at, .. } = &record.state else { return Ok(None) };
    let mut response = restore(answer.status, &*open(answer, keys, owner)?);
    mark(&mut response, ran, Some(*expires_at));
    Ok(Some(response))
}
