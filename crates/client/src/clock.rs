//! Time and chance, which the rules take as arguments.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use unavez_core::time::Time;
use uuid::Uuid;

/// A clock that does not step: time since the client was made. It stands still and advances with tokio's.
#[derive(Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_micros(0).plus(self.0.elapsed())
    }
}

/// Where the spread of the waits comes from.
#[derive(Debug)]
pub(crate) enum Random {
    /// A stream of a client's own, from a seed that the system gave. Nobody needs to be kept from guessing a wait.
    Stream(AtomicU64),
    /// A caller's.
    Given(fn() -> u64),
}

impl Random {
    pub(crate) fn new(given: Option<fn() -> u64>) -> Self {
        let seed = || Uuid::new_v4().as_u64_pair().0;
        given.map_or_else(|| Self::Stream(AtomicU64::new(seed())), Self::Given)
    }

    /// Uniform over all of `u64`.
    pub(crate) fn bits(&self) -> u64 {
        /// 2^64 over the golden ratio: the step of SplitMix64, whose mixing follows.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        match self {
            Self::Given(random) => random(),
            Self::Stream(state) => {
                let bits = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
                let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                bits ^ (bits >> 31)
            }
        }
    }
}
