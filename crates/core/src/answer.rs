//! The answer a finished record keeps, and which headers may be kept (P18, P20).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::Bytes;

/// Header fields in the order they were given, repeats included. Names are lower case, and those that nearly every answer
/// has are no allocations; values are untouched bytes.
pub type Headers = Vec<(Cow<'static, str>, Bytes)>;

/// The name of a kept header field.
#[must_use]
pub fn header_name(name: &str) -> Cow<'static, str> {
    const FREQUENT: [&str; 3] = ["content-type", "location", "original-request-id"];
    match FREQUENT.into_iter().find(|frequent| *frequent == name) {
        Some(frequent) => Cow::Borrowed(frequent),
        None => Cow::Owned(name.into()),
    }
}

/// What a finished record repeats: the status and what could be kept of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status of the first answer.
    pub status: u16,
    /// Headers and body, as far as they are kept.
    pub content: Content,
}

/// Headers and body of an [`Answer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Kept whole: a replay is byte-equal.
    Kept {
        /// The kept headers.
        headers: Headers,
        /// The body, identity-encoded.
        body: Bytes,
    },
    /// The body was too large, streamed or redacted (P20): a repeat gets `response-not-kept`.
    NotKept {
        /// The kept headers less `Content-*` and `ETag`.
        headers: Headers,
        /// Why the body is not there.
        why: NotKept,
    },
    /// Encrypted by [`crate::seal`]; opens to one of the other two (P23).
    Sealed {
        /// Which key opens it.
        key_id: Box<str>,
        /// Nonce, ciphertext and tag.
        bytes: Bytes,
    },
}

/// Why a body is not kept (P20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// Larger than the route's cap.
    TooLarge,
    /// A stream without a known end.
    Streamed,
    /// The route redacts its answers.
    Redacted,
}

impl NotKept {
    /// The word used in stored rows and in the problem's detail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Streamed => "streamed",
            Self::Redacted => "redacted",
        }
    }

    /// The reverse of [`NotKept::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::TooLarge, Self::Streamed, Self::Redacted].into_iter().find(|why| why.as_str() == word)
    }
}

/// What became of the operation in the words of the key status (`outcome` on the wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conclusion {
    /// It took effect.
    Approved,
    /// The outside system or the business declined it (402).
    Declined,
    /// The request was refused for good (any other 4xx).
    Refused,
    /// Its key was cancelled before anybody claimed it (P22).
    Cancelled,
}

impl Conclusion {
    /// The conclusion a bare status stands for.
    pub const fn of_status(status: u16) -> Self {
        match status {
            402 => Self::Declined,
            400..=599 => Self::Refused,
            _ => Self::Approved,
        }
    }

    /// Whether the operation took effect: only such a result settles a record over a later attempt (P16).
    pub const fn is_positive(self) -> bool {
        matches!(self, Self::Approved)
    }

    /// The word on the wire and in stored rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Declined => "declined",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
        }
    }

    /// The reverse of [`Conclusion::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Approved, Self::Declined, Self::Refused, Self::Cancelled]
            .into_iter()
            .find(|it| it.as_str() == word)
    }
}

/// Headers that belong to one exchange, not to the outcome: never stored (P18).
///
/// Hop-by-hop and framing fields are the connection's; dates, cookies, challenges, request ids and rate limits are
/// the moment's; the marks are set anew on every answer (P19).
const NEVER_KEPT: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "date",
    "idempotency-expires",
    "idempotency-outcome",
    "idempotent-replayed",
    "keep-alive",
    "original-request-id",
    "preference-applied",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "request-id",
    "retry-after",
    "server-timing",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-correlation-id",
    "x-request-id",
];

/// Whether a header with this lower-case name may be stored and replayed. `named_by_connection` lists the further
/// hop-by-hop names that the answer's own `Connection` header declares.
pub fn is_kept(name: &str, named_by_connection: &[&str]) -> bool {
    NEVER_KEPT.binary_search(&name).is_err()
        && !name.starts_with("x-ratelimit-")
        && !name.starts_with("x-rate-limit-")
        && !name.starts_with("ratelimit")
        && !named_by_connection.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// Whether a kept header describes the body, and so is left out when the body is not kept (P20).
pub fn describes_body(name: &str) -> bool {
    name.starts_with("content-") || name == "etag"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p18_the_list_is_sorted_for_its_search() {
        assert!(NEVER_KEPT.is_sorted());
    }

    #[test]
    fn p18_exchange_headers_are_dropped_and_others_kept() {
        for name in
            ["date", "set-cookie", "retry-after", "x-ratelimit-remaining", "connection", "x-request-id"]
        {
            assert!(!is_kept(name, &[]), "{name}");
        }
        for name in ["location", "etag", "content-type", "link", "x-foo"] {
            assert!(is_kept(name, &[]), "{name}");
        }
        assert!(!is_kept("x-foo", &["X-Foo"]));
    }

    #[test]
    fn words_read_back() {
        for it in [Conclusion::Approved, Conclusion::Declined, Conclusion::Refused, Conclusion::Cancelled] {
            assert_eq!(Conclusion::parse(it.as_str()), Some(it));
        }
        for it in [NotKept::TooLarge, NotKept::Streamed, NotKept::Redacted] {
            assert_eq!(NotKept::parse(it.as_str()), Some(it));
        }
    }
}
