//! The header fields of the protocol, and which of them a caller may not send.

use http::{HeaderMap, HeaderName};

/// The caller's name for the operation (P1).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// `true` on answers with an outcome that this request did not itself run (P19).
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// RFC 3339: until when the answer is repeated (P19).
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");
/// How a handler says its outcome; removed before the client (P15).
pub const IDEMPOTENCY_OUTCOME: HeaderName = HeaderName::from_static("idempotency-outcome");
/// `wait=N`: the caller waits for a running operation (RFC 7240, P10).
pub const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Which preference was honoured.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The request id of the first answer, on replays.
pub const ORIGINAL_REQUEST_ID: HeaderName = HeaderName::from_static("original-request-id");

/// Fields that only a server sets. A caller that sends them is not believed, and the operation never sees them (P19).
const MARKS: [HeaderName; 5] =
    [IDEMPOTENT_REPLAYED, IDEMPOTENCY_EXPIRES, IDEMPOTENCY_OUTCOME, PREFERENCE_APPLIED, ORIGINAL_REQUEST_ID];

/// Removes forged marks from a request, and marks of an inner service from a first answer.
pub fn strip_marks(headers: &mut HeaderMap) {
    // Hardly any request has one, and looking is cheaper than five removals.
    if headers.keys().any(|name| MARKS.contains(name)) {
        for mark in MARKS {
            headers.remove(mark);
        }
    }
}
