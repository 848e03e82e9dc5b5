//! The payment methods of the sandbox: each is a way for a payment to go.

use std::fmt;
use std::time::Duration;

/// How long a pending payment stays undecided.
pub const PENDING: Duration = Duration::from_secs(2);

/// The longest `tok_slow_MS`.
const SLOW_MS_MAX: u64 = 600_000;

/// A test payment method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Token {
    /// `tok_approve`: approved.
    #[default]
    Approve,
    /// `tok_decline`: declined.
    Decline,
    /// `tok_pending`: pending for [`PENDING`], then approved.
    Pending,
    /// `tok_pending_decline`: pending for [`PENDING`], then declined.
    PendingDecline,
    /// `tok_lost`: executed, and never answered.
    Lost,
    /// `tok_error_after`: executed, then an error.
    ErrorAfter,
    /// `tok_error`: an error, and nothing executed.
    Error,
    /// `tok_slow_MS`: executed, and answered so many milliseconds later.
    Slow {
        /// How many; at most ten minutes of them.
        ms: u64,
    },
}

/// What becomes of the answer to a payment that was executed just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is given, after a while.
    After(Duration),
    /// It never comes.
    Lost,
    /// An error takes its place.
    Error,
}

impl Token {
    /// Every token but `tok_slow_MS`.
    const FIXED: [(&'static str, Self); 7] = [
        ("tok_approve", Self::Approve),
        ("tok_decline", Self::Decline),
        ("tok_pending", Self::Pending),
        ("tok_pending_decline", Self::PendingDecline),
        ("tok_lost", Self::Lost),
        ("tok_error_after", Self::ErrorAfter),
        ("tok_error", Self::Error),
    ];

    /// The tokens, for messages.
    pub const CHOICES: &'static str = "tok_approve, tok_decline, tok_pending, tok_pending_decline, tok_lost, \
                                       tok_error_after, tok_error, tok_slow_MS";

    /// Reads a token.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((_, token)) = Self::FIXED.iter().find(|(name, _)| *name == text) {
            return Some(*token);
        }
        let digits = text.strip_prefix("tok_slow_")?;
        let ms = digits.parse().ok().filter(|ms| *ms <= SLOW_MS_MAX)?;
        // Only the one spelling: `+5` and `05` also parse as numbers.
        let token = Self::Slow { ms };
        (token.to_string() == text).then_some(token)
    }

    /// Whether the payment is executed at all.
    pub(super) fn executes(self) -> bool {
        self != Self::Error
    }

    pub(super) const fn approves(self) -> bool {
        !matches!(self, Self::Decline | Self::PendingDecline)
    }

    /// How long the decision takes.
    pub(super) const fn decides_after(self) -> Duration {
        match self {
            Self::Pending | Self::PendingDecline => PENDING,
            _ => Duration::ZERO,
        }
    }

    pub(super) const fn fate(self) -> Fate {
        match self {
            Self::Lost => Fate::Lost,
            Self::ErrorAfter | Self::Error => Fate::Error,
            Self::Slow { ms } => Fate::After(Duration::from_millis(ms)),
            Self::Approve | Self::Decline | Self::Pending | Self::PendingDecline => {
                Fate::After(Duration::ZERO)
            }
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Slow { ms } = self {
            return write!(f, "tok_slow_{ms}");
        }
        let (name, _) =
            Self::FIXED.iter().find(|(_, token)| token == self).expect("all others stand in the table");
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back() {
        for (name, token) in Token::FIXED {
            assert_eq!(Token::parse(name), Some(token));
            assert_eq!(token.to_string(), name);
            assert!(Token::CHOICES.contains(name));
        }
        assert_eq!(Token::parse("tok_slow_1500"), Some(Token::Slow { ms: 1500 }));
        assert_eq!(Token::default(), Token::Approve);
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in [
            "",
            "tok_",
            "tok_APPROVE",
            "tok_slow_",
            "tok_slow_05",
            "tok_slow_+5",
            "tok_slow_-1",
            "tok_slow_600001",
        ] {
            assert_eq!(Token::parse(text), None, "{text:?}");
        }
    }
}
