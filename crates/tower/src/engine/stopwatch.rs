//! The clock of an attempt's owner (P13).

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// Measures one attempt from before its claim is sent.
///
/// The monotonic clock stands still while the machine is suspended, and the wall clock steps. An owner that believes
/// the one that shows more time never thinks itself younger than it is, short of a suspension and a step back at once;
/// a step forth only ends the attempt early, as unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    started: Instant,
    wall: SystemTime,
    limit: Duration,
}

impl Stopwatch {
    pub(crate) fn start(limit: Duration) -> Self {
        Self { started: Instant::now(), wall: wall(), limit }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed().max(wall().duration_since(self.wall).unwrap_or_default())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.elapsed() >= self.limit
    }

    /// When the limit is reached, by the monotonic clock.
    pub(crate) fn end(&self) -> Instant {
        self.started + self.limit
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only to notice a suspension, which the monotonic clock sleeps through"
)]
fn wall() -> SystemTime {
    SystemTime::now()
}
