//! The two clocks and what must fit into them (P9, P13).

use core::fmt;
use core::time::Duration;

use crate::record::AttemptTiming;

/// Every length of time the protocol knows. The defaults are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// First clock: how long an attempt may take before its owner counts as lost.
    pub operation_timeout: Duration,
    /// Second clock: how long a finished answer is repeated.
    pub response_ttl: Duration,
    /// How long one call of the store may take.
    pub store_timeout: Duration,
    /// How long one call to the outside system may take; zero where there is none.
    pub outside_timeout: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self {
            operation_timeout: Duration::from_secs(60),
            response_ttl: Duration::from_secs(24 * 3600),
            store_timeout: Duration::from_secs(2),
            outside_timeout: Duration::ZERO,
        }
    }
}

/// Two settings that contradict each other. Displays both values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// An attempt needs some time at all.
    OperationTimeoutTooShort {
        /// The value seen.
        operation_timeout: Duration,
    },
    /// A finished answer must outlive the attempt that made it.
    ResponseTtlTooShort {
        /// The value seen.
        response_ttl: Duration,
        /// The least that makes sense.
        operation_timeout: Duration,
    },
    /// The outside call and two store calls do not fit into the attempt's deadline.
    DoesNotFit {
        /// What is needed.
        needed: Duration,
        /// The attempt's deadline.
        attempt_deadline: Duration,
    },
}

impl Timings {
    /// How long an attempt runs before it stops by itself: 5/6 of the operation timeout (P13).
    pub fn attempt_deadline(&self) -> Duration {
        self.operation_timeout / 6 * 5
    }

    /// The lengths a claim or takeover records.
    pub fn attempt(&self) -> AttemptTiming {
        AttemptTiming { operation_timeout: self.operation_timeout, attempt_deadline: self.attempt_deadline() }
    }

    /// Refuses settings that cannot be safe together (P13).
    ///
    /// # Errors
    /// The first [`Contradiction`] found.
    pub fn check(&self) -> Result<(), Contradiction> {
        if self.operation_timeout < Duration::from_millis(1) {
            return Err(Contradiction::OperationTimeoutTooShort {
                operation_timeout: self.operation_timeout,
            });
        }
        if self.response_ttl < self.operation_timeout {
            return Err(Contradiction::ResponseTtlTooShort {
                response_ttl: self.response_ttl,
                operation_timeout: self.operation_timeout,
            });
        }
        let needed = self.outside_timeout.saturating_add(self.store_timeout.saturating_mul(2));
        let attempt_deadline = self.attempt_deadline();
        if needed > attempt_deadline {
            return Err(Contradiction::DoesNotFit { needed, attempt_deadline });
        }
        Ok(())
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OperationTimeoutTooShort { operation_timeout } => {
                write!(f, "operation timeout {operation_timeout:?} is below 1ms")
            }
            Self::ResponseTtlTooShort { response_ttl, operation_timeout } => write!(
                f,
                "response ttl {response_ttl:?} is below the operation timeout {operation_timeout:?}: \
                 an answer must be repeated at least as long as its attempt may take"
            ),
            Self::DoesNotFit { needed, attempt_deadline } => write!(
                f,
                "outside timeout and two store timeouts need {needed:?}, \
                 but an attempt stops after {attempt_deadline:?} (5/6 of the operation timeout)"
            ),
        }
    }
}

impl core::error::Error for Contradiction {}
