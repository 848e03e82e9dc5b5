//! How long to wait before the next attempt (P31).

use core::time::Duration;

/// Exponential backoff with full jitter: a wait anywhere between nothing and the ceiling, which doubles with every
/// retry until it meets the cap.
///
/// Full, not partial: clients that failed together must not come back together, and only a spread over the whole
/// interval keeps the load after an outage below the load that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Ceiling of the first wait.
    pub base: Duration,
    /// No ceiling is above it.
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(200), cap: Duration::from_secs(20) }
    }
}

impl Backoff {
    /// The longest wait before retry number `retry`, counted from 0.
    pub fn ceiling(&self, retry: u32) -> Duration {
        let factor = 1_u32.checked_shl(retry).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// The wait before retry number `retry`, counted from 0. `random` is uniform over all of `u64`.
    pub fn wait(&self, retry: u32, random: u64) -> Duration {
        // 64 bits of nanoseconds are five centuries; a longer ceiling is cut, and the product below cannot overflow.
        let ceiling = u64::try_from(self.ceiling(retry).as_nanos()).unwrap_or(u64::MAX);
        let scaled = (u128::from(ceiling) * u128::from(random)) >> 64;
        Duration::from_nanos(u64::try_from(scaled).expect("below the ceiling, which has 64 bits"))
    }
}
