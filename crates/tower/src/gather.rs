//! Reading a handler's answer as far as it can be kept (P18, P20).
//!
//! The first caller always gets the whole answer; what is read here is put before what is not. Memory is bounded by the
//! cap of the route.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};
use unavez_core::answer::{Answer, NotKept};

use crate::answers::{keep, keep_without_body};
use crate::body::{Body, BoxError};
use crate::door::{Bodies, Door};

/// An answer for the record and the response for the first caller.
pub(crate) struct Gathered {
    pub(crate) answer: Answer,
    pub(crate) response: Response<Body>,
}

/// A body that takes longer than this is a stream: its first bytes are not held back any further (P20).
const PATIENCE: Duration = Duration::from_millis(50);

/// Reads the body up to the cap. An event stream, a body above the cap, and one that keeps its reader waiting are passed
/// on as they come.
pub(crate) async fn gather<B>(response: Response<B>, door: &Door) -> Result<Gathered, BoxError>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (head, body) = response.into_parts();
    let read = match passes_through(&head, &body, door) {
        Some(why) => Read::Not(why, Body::stream(body)),
        None => read(body, door.kept_bytes_max()).await?,
    };
    Ok(match read {
        Read::Whole { chunks, trailers } => {
            let answer = keep(&head, joined(&chunks));
            Gathered { answer, response: Response::from_parts(head, Body::collected(chunks, trailers)) }
        }
        Read::Not(why, body) => {
            let answer = keep_without_body(&head, why);
            Gathered { answer, response: Response::from_parts(head, body) }
        }
    })
}

enum Read {
    Whole { chunks: VecDeque<Bytes>, trailers: Option<HeaderMap> },
    Not(NotKept, Body),
}

fn passes_through<B: HttpBody>(head: &response::Parts, body: &B, door: &Door) -> Option<NotKept> {
    if door.bodies() == Bodies::Redacted {
        return Some(NotKept::Redacted);
    }
    let essence = head.headers.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    if essence.get(..17).is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream")) {
        return Some(NotKept::Streamed);
    }
    (body.size_hint().lower() > door.kept_bytes_max() as u64).then_some(NotKept::TooLarge)
}

async fn read<B>(body: B, bytes_max: usize) -> Result<Read, BoxError>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut body = Box::pin(body);
    let mut chunks = VecDeque::new();
    let mut bytes = 0;
    let end = Instant::now() + PATIENCE;
    loop {
        let Ok(frame) = timeout_at(end, body.frame()).await else {
            return Ok(Read::Not(NotKept::Streamed, Body::resumed(chunks, body)));
        };
        let Some(frame) = frame else {
            return Ok(Read::Whole { chunks, trailers: None });
        };
        match frame.map_err(Into::into)?.into_data() {
            Ok(chunk) => {
                bytes += chunk.len();
                chunks.push_back(chunk);
            }
            Err(frame) => return Ok(Read::Whole { chunks, trailers: frame.into_trailers().ok() }),
        }
        if bytes > bytes_max {
            return Ok(Read::Not(NotKept::TooLarge, Body::resumed(chunks, body)));
        }
    }
}

fn joined(chunks: &VecDeque<Bytes>) -> Bytes {
    match chunks.len() {
        0 => Bytes::new(),
        1 => chunks[0].clone(),
        _ => {
            let mut whole = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
            chunks.iter().for_each(|chunk| whole.extend_from_slice(chunk));
            whole.freeze()
        }
    }
}
