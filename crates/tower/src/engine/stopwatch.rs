//! The clock of an attempt's owner (P13).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until};

/// Measures one attempt from before its claim is sent.
///
/// The monotonic clock stands still while the machine is suspended, and the wall clock steps. An owner that believes
/// the one that shows more time never thinks itself younger than it is, short of a suspension and a step back at once;
/// a step forth only ends the attempt early, as unknown.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    wall: SystemTime,
    limit: Duration,
}

impl Stopwatch {
    /// Starts now. To be called before the claim is sent, so that the owner's end comes before the one the store records.
    #[must_use]
    pub fn start(limit: Duration) -> Self {
        Self { started: Instant::now(), wall: wall(), limit }
    }

    /// How long ago it was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed().max(wall().duration_since(self.wall).unwrap_or_default())
    }

    /// Whether the attempt's time is over. To be asked just before anything is sent: another attempt may have taken its
    /// place.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.elapsed() >= self.limit
    }

    /// When the limit is reached, by the monotonic clock.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.started + self.limit
    }

    /// Runs a future until it ends or the attempt is over (P13); `None`: it was cut off. The clock is read before each
    /// poll, since the timer sleeps while the machine does.
    pub async fn run<F: Future>(self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut end = pin!(sleep_until(self.end()));
        poll_fn(|cx| {
            if self.is_over() || end.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only to notice a suspension, which the monotonic clock sleeps through"
)]
fn wall() -> SystemTime {
    SystemTime::now()
}
