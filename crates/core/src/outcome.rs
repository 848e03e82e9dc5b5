//! What became of an attempt, read from what its handler did (P14, P15).

use crate::answer::Conclusion;
use crate::record::{Cause, Exposure, Record};

/// How one covered route takes effect: stated per route, never guessed (P14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Business rows and finish commit in one transaction, fenced by the record.
    Transactional,
    /// A hook can ask the outside system what became of the operation.
    Recoverable,
    /// Neither. What a lost attempt leads to must be chosen.
    Opaque(OnLost),
}

/// What happens to a repeat on an opaque route whose attempt was lost (P14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLost {
    /// Held until an operator settles it, or until it is abandoned.
    Hold,
    /// Run again. Safe only where running twice is harmless.
    Rerun,
}

impl Effect {
    /// What a claim on this route records about sending (P15).
    pub const fn exposure(self) -> Exposure {
        match self {
            Self::Transactional => Exposure::Contained,
            Self::Recoverable | Self::Opaque(_) => Exposure::MayBeSent,
        }
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stored and repeated.
    Final(Conclusion),
    /// Certainly no effect: the key is free again.
    Released,
    /// Cut off, or pending outside.
    Unknown(Cause),
}

/// How an attempt ended, as its owner saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The handler answered with this status.
    Status(u16),
    /// The handler said its outcome itself; the status is the answer's.
    Said(Said, u16),
    /// The handler panicked.
    Panicked,
    /// The attempt's deadline stopped it (P13).
    CutOff,
}

/// What a handler can say about its own outcome (`Idempotency-Outcome`, or the response extension).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Final, whatever the status.
    Final,
    /// Nothing took effect and nothing was sent.
    Released,
    /// Cut off.
    Unknown,
    /// Accepted outside and not decided yet.
    Pending,
}

impl Said {
    /// Reads the value of the header `Idempotency-Outcome`.
    pub fn parse(value: &str) -> Option<Self> {
        match value {
            "final" => Some(Self::Final),
            "released" => Some(Self::Released),
            "unknown" => Some(Self::Unknown),
            "pending" => Some(Self::Pending),
            _ => None,
        }
    }
}

/// Statuses that say "nothing happened, come again": the client repeats them with the same key, so they are never
/// stored (P15). One list for server and client.
pub const fn is_released_status(status: u16) -> bool {
    matches!(status, 401 | 403 | 408 | 425 | 429)
}

/// Reads how an attempt ended. `attempts` counts the operation's attempts, this one included: only the first may
/// take back that something may have been sent (P15).
pub fn read(ended: Ended, effect: Effect, attempts: u32) -> Outcome {
    let lost = match effect {
        Effect::Transactional => Outcome::Released,
        Effect::Recoverable | Effect::Opaque(_) => Outcome::Unknown(Cause::CutOff),
    };
    let released = match effect {
        Effect::Transactional => Outcome::Released,
        _ if attempts <= 1 => Outcome::Released,
        _ => Outcome::Unknown(Cause::CutOff),
    };
    match ended {
        Ended::Panicked | Ended::CutOff => lost,
        Ended::Said(Said::Final, status) => Outcome::Final(Conclusion::of_status(status)),
        Ended::Said(Said::Released, _) => released,
        Ended::Said(Said::Unknown, _) => Outcome::Unknown(Cause::CutOff),
        Ended::Said(Said::Pending, _) => Outcome::Unknown(Cause::Pending),
        Ended::Status(status) if is_released_status(status) => released,
        Ended::Status(500..) => lost,
        Ended::Status(status) => Outcome::Final(Conclusion::of_status(status)),
    }
}

/// Whether the record, rather than the route's present configuration, allows an attempt to be run again without
/// asking: a route that was opaque yesterday does not become harmless by being declared transactional today.
pub fn is_contained(record: &Record, effect: Effect) -> bool {
    record.exposure == Exposure::Contained && effect == Effect::Transactional
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Effect; 4] = [
        Effect::Transactional,
        Effect::Recoverable,
        Effect::Opaque(OnLost::Hold),
        Effect::Opaque(OnLost::Rerun),
    ];

    #[test]
    fn p15_every_status_has_one_reading() {
        for effect in KINDS {
            for status in 100..=599 {
                let outcome = read(Ended::Status(status), effect, 1);
                match status {
                    401 | 403 | 408 | 425 | 429 => assert_eq!(outcome, Outcome::Released),
                    100..=499 => assert_eq!(outcome, Outcome::Final(Conclusion::of_status(status))),
                    _ if effect == Effect::Transactional => assert_eq!(outcome, Outcome::Released),
                    _ => assert_eq!(outcome, Outcome::Unknown(Cause::CutOff)),
                }
            }
        }
    }

    #[test]
    fn c55_a_500_releases_a_transactional_route_and_holds_an_opaque_one() {
        assert_eq!(read(Ended::Status(500), Effect::Transactional, 1), Outcome::Released);
        assert_eq!(
            read(Ended::Status(500), Effect::Opaque(OnLost::Hold), 1),
            Outcome::Unknown(Cause::CutOff)
        );
    }

    #[test]
    fn c107_only_the_first_attempt_takes_back_that_something_was_sent() {
        for ended in [Ended::Status(429), Ended::Status(408), Ended::Said(Said::Released, 503)] {
            assert_eq!(read(ended, Effect::Recoverable, 1), Outcome::Released);
            assert_eq!(read(ended, Effect::Recoverable, 2), Outcome::Unknown(Cause::CutOff));
            assert_eq!(read(ended, Effect::Transactional, 2), Outcome::Released);
        }
    }

    #[test]
    fn p14_a_panic_is_unknown_where_something_may_have_left() {
        assert_eq!(read(Ended::Panicked, Effect::Transactional, 1), Outcome::Released);
        assert_eq!(read(Ended::Panicked, Effect::Recoverable, 1), Outcome::Unknown(Cause::CutOff));
        assert_eq!(read(Ended::CutOff, Effect::Opaque(OnLost::Rerun), 1), Outcome::Unknown(Cause::CutOff));
    }
}
