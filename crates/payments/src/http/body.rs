//! Reading a request's body: up to a cap, within a time, and so that a refusal is heard.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use unavez_core::problem::Code;
use unavez_tower::problem::Problem;

use crate::settings::Limits;

/// How much of a refused body is still read, and for how long: a client that is writing when the connection closes
/// gets a reset, and never sees why it was refused.
const UNHEARD_BYTES_MAX: usize = 4 * 1024 * 1024;
const UNHEARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Refuses a body that is not JSON: 415. No type at all is fine where there is no body.
pub(super) fn require_json(headers: &HeaderMap, body: &Body) -> Result<(), Problem> {
    let refuse = |detail: String| Err(Problem::new(Code::UnsupportedMediaType).with_detail(detail));
    if headers.get_all(CONTENT_ENCODING).iter().any(|encoding| encoding.as_bytes() != b"identity") {
        return refuse("content-encoding is there, allowed is none".to_owned());
    }
    match headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("")) {
        None if body.is_end_stream() => Ok(()),
        None => refuse("content-type is not there, allowed is application/json".to_owned()),
        Some(kind) if is_json(kind) => Ok(()),
        Some(_) => refuse("content-type is something else than application/json or …+json".to_owned()),
    }
}

fn is_json(content_type: &str) -> bool {
    let essence = content_type.split_once(';').map_or(content_type, |(essence, _)| essence).trim_ascii();
    let is_structured = || {
        let suffix = essence.len().checked_sub("+json".len()).and_then(|start| essence.get(start..));
        suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case("+json"))
    };
    essence.eq_ignore_ascii_case("application/json") || is_structured()
}

/// The whole body.
pub(super) async fn read(headers: &HeaderMap, mut body: Body, limits: &Limits) -> Result<Bytes, Problem> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > limits.body_bytes_max) {
        // Whoever asks before sending hears the refusal by itself.
        if !headers.contains_key(EXPECT) {
            Box::pin(hear_out(body)).await;
        }
        return Err(too_large(limits.body_bytes_max));
    }
    match in_time(collect(&mut body, limits.body_bytes_max), limits.body_timeout).await {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(Fault::TooLarge)) => {
            Box::pin(hear_out(body)).await;
            Err(too_large(limits.body_bytes_max))
        }
        Some(Err(Fault::CutOff)) => Err(incomplete("body was cut off before its end".to_owned())),
        None => Err(incomplete(format!("body did not arrive within {:?}", limits.body_timeout))),
    }
}

enum Fault {
    TooLarge,
    CutOff,
}

async fn collect(body: &mut Body, bytes_max: usize) -> Result<Bytes, Fault> {
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame.map_err(|_| Fault::CutOff)?.into_data() else { continue };
        if first.len() + joined.len() + chunk.len() > bytes_max {
            return Err(Fault::TooLarge);
        }
        // Nearly every body arrives in one chunk, which is then not copied.
        if first.is_empty() && joined.is_empty() {
            first = chunk;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut first));
            joined.extend_from_slice(&chunk);
        }
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}

/// The result of `work`, unless it takes too long. Most bodies are there with their head, and need no timer.
async fn in_time<T>(work: impl Future<Output = T>, timeout: Duration) -> Option<T> {
    let mut work = pin!(work);
    if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        return Some(done);
    }
    tokio::time::timeout(timeout, work).await.ok()
}

/// Reads on for a while, for nothing but good manners.
async fn hear_out(mut body: Body) {
    let read = async {
        let mut heard = 0;
        while let Some(Ok(frame)) = body.frame().await {
            heard += frame.data_ref().map_or(0, Bytes::len);
            if heard > UNHEARD_BYTES_MAX {
                return;
            }
        }
    };
    // Whether the end was reached makes no difference to the answer.
    let _ = tokio::time::timeout(UNHEARD_TIMEOUT, read).await;
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(Code::TooLarge).with_detail(format!("body is larger than the limit of {bytes_max} bytes"))
}

/// A fault of the way here: the same request may be repeated.
fn incomplete(detail: String) -> Problem {
    Problem::new(Code::RequestIncomplete).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_by_its_essence() {
        for kind in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.shop+json",
            "a/b+JSON ;x",
        ] {
            assert!(is_json(kind), "{kind}");
        }
        for kind in
            ["", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "json", "é+jso"]
        {
            assert!(!is_json(kind), "{kind}");
        }
    }
}
