//! The problem codes: what a caller can be told, with which status, and whether it may repeat (RFC 9457).

use core::fmt;
use core::time::Duration;

/// Prefix of a problem's `type`; the code follows.
pub const TYPE_PREFIX: &str = "https://unavez.dev/problems/";

/// A stable name for a refusal. Its spelling on the wire is [`Code::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// A required key is not there (P2).
    KeyMissing,
    /// A key is there and malformed (P1).
    KeyInvalid,
    /// A JSON body that two parsers may read differently (P5).
    BodyAmbiguous,
    /// A member of the body or a parameter breaks its rule.
    Validation,
    /// No or a wrong credential.
    Unauthorized,
    /// The credential lacks the role.
    Forbidden,
    /// The acquirer declined the charge.
    ChargeDeclined,
    /// No such route or resource.
    NotFound,
    /// The route exists under another method.
    MethodNotAllowed,
    /// The request broke off, or did not arrive whole in time; nothing was claimed.
    RequestIncomplete,
    /// Another attempt with this key is running (P10).
    InProgress,
    /// The outside system has not decided yet (P16).
    OutcomePending,
    /// Nobody knows what became of the operation (P14).
    OutcomeUnknown,
    /// The resource's state does not allow this step.
    InvalidState,
    /// More than is there to capture or refund.
    AmountExceeds,
    /// The order has a charge under another key.
    OrderAlreadyCharged,
    /// The body is over the cap.
    TooLarge,
    /// The content type is not one the route reads.
    UnsupportedMediaType,
    /// The same key came with another request (P6).
    KeyReused,
    /// A fault of ours.
    Internal,
    /// The store does not answer; nothing was run (P17).
    StoreUnavailable,
    /// The acquirer does not answer; nothing was sent.
    AcquirerUnavailable,
    /// Too much at once; nothing was run.
    Overloaded,
    /// The first answer's body was not kept (P20).
    ResponseNotKept,
}

/// Whether and how a caller may repeat what met a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The answer will not change.
    Never,
    /// The same request with the same key, after the wait.
    After(Duration),
    /// The same request with the same key; nothing says when.
    SameKey,
}

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Self; 24] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::BodyAmbiguous,
        Self::Validation,
        Self::Unauthorized,
        Self::Forbidden,
        Self::ChargeDeclined,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestIncomplete,
        Self::InProgress,
        Self::OutcomePending,
        Self::OutcomeUnknown,
        Self::InvalidState,
        Self::AmountExceeds,
        Self::OrderAlreadyCharged,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::KeyReused,
        Self::Internal,
        Self::StoreUnavailable,
        Self::AcquirerUnavailable,
        Self::Overloaded,
        Self::ResponseNotKept,
    ];

    /// The code on the wire.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The usual HTTP status. `outcome-unknown` is 504 to the caller whose own attempt ended so, and
    /// `response-not-kept` takes the first answer's.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// A short human title, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        self.row().3
    }

    /// Whether the same request may be repeated.
    pub const fn repeat(self) -> Repeat {
        self.row().2
    }

    /// `retryable` on the wire.
    pub const fn is_retryable(self) -> bool {
        !matches!(self.repeat(), Repeat::Never)
    }

    /// The code with this spelling.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }

    const fn row(self) -> (&'static str, u16, Repeat, &'static str) {
        use Repeat::{After, Never, SameKey};
        const SOON: Repeat = After(Duration::from_secs(1));
        const LATER: Repeat = After(Duration::from_secs(5));
        match self {
            Self::KeyMissing => ("idempotency-key-missing", 400, Never, "an idempotency key is required"),
            Self::KeyInvalid => ("idempotency-key-invalid", 400, Never, "the idempotency key is malformed"),
            Self::BodyAmbiguous => ("body-ambiguous", 400, Never, "the JSON body can be read in two ways"),
            Self::Validation => ("validation", 400, Never, "the request breaks a rule"),
            Self::Unauthorized => ("unauthorized", 401, Never, "a valid API key is required"),
            Self::Forbidden => ("forbidden", 403, Never, "the API key lacks the role"),
            Self::ChargeDeclined => ("charge-declined", 402, Never, "the charge was declined"),
            Self::NotFound => ("not-found", 404, Never, "there is nothing here"),
            Self::MethodNotAllowed => ("method-not-allowed", 405, Never, "the method is not allowed here"),
            Self::RequestIncomplete => ("request-incomplete", 408, SOON, "the request did not arrive whole"),
            Self::InProgress => ("operation-in-progress", 409, SOON, "the operation is still running"),
            Self::OutcomePending => ("outcome-pending", 409, LATER, "the outcome is not decided yet"),
            Self::OutcomeUnknown => ("outcome-unknown", 409, LATER, "the outcome is not known"),
            Self::InvalidState => ("invalid-state", 409, Never, "the resource's state does not allow this"),
            Self::AmountExceeds => ("amount-exceeds", 409, Never, "the amount exceeds what is there"),
            Self::OrderAlreadyCharged => {
                ("order-already-charged", 409, Never, "the order is already charged")
            }
            Self::TooLarge => ("too-large", 413, Never, "the body is too large"),
            Self::UnsupportedMediaType => {
                ("unsupported-media-type", 415, Never, "the content type is not supported")
            }
            Self::KeyReused => ("idempotency-key-reused", 422, Never, "the key belongs to another request"),
            Self::Internal => ("internal", 500, SameKey, "something failed on our side"),
            Self::StoreUnavailable => ("store-unavailable", 503, SOON, "the store does not answer"),
            Self::AcquirerUnavailable => ("acquirer-unavailable", 503, LATER, "the acquirer does not answer"),
            Self::Overloaded => ("overloaded", 503, SOON, "too many requests at once"),
            Self::ResponseNotKept => {
                ("response-not-kept", 200, Never, "the first answer's body was not kept")
            }
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back_and_is_unique() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(code));
        }
    }

    #[test]
    fn p6_a_reused_key_is_never_repeatable() {
        assert_eq!(Code::KeyReused.repeat(), Repeat::Never);
        assert_eq!(Code::KeyReused.status(), 422);
    }

    #[test]
    fn c57_every_wait_is_at_least_a_second() {
        for code in Code::ALL {
            if let Repeat::After(wait) = code.repeat() {
                assert!(wait >= Duration::from_secs(1), "{code}");
            }
        }
    }
}
