//! Reading a request's body whole, up to a cap.

use std::pin::pin;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use unavez_core::problem::Code;

use crate::body::BoxError;
use crate::problem::Problem;

/// The whole body. One that announces more than `bytes_max` is refused before a byte of it is read.
pub(super) async fn whole<B>(headers: &HeaderMap, body: B, bytes_max: usize) -> Result<Bytes, Problem>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let announced = announced.unwrap_or(0).max(body.size_hint().lower());
    if announced > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| cut_off(&error.into()))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if first.len() + joined.len() + chunk.len() > bytes_max {
            return Err(too_large(bytes_max));
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

fn too_large(bytes_max: usize) -> Problem {
    Problem::new(Code::TooLarge).with_detail(format!("body is larger than the limit of {bytes_max} bytes"))
}

/// A fault of the way here, so a repeat may succeed (P15). The caller is most likely gone; if it is not, it learns that
/// nothing was run.
fn cut_off(error: &BoxError) -> Problem {
    tracing::debug!(%error, "request body was cut off");
    Problem::new(Code::RequestIncomplete).with_detail("body was cut off before its end")
}
