//! What a connection is doing, seen from three places without a lock: its bytes, its requests and its timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Shared by the parts of one connection. Each field is written alone and read as a hint a little later, so relaxed
/// order is enough: the worst that a stale reading does is to look again.
pub(super) struct Pulse {
    started_at: Instant,
    /// Requests whose head is read and whose answer is not yet said to its end.
    running: AtomicU32,
    /// Whether a request's head has begun to arrive.
    in_head: AtomicBool,
    /// When the present phase began, in milliseconds after `started_at`.
    since_ms: AtomicU64,
    header_read_timeout: Duration,
    idle_timeout: Duration,
}

impl Pulse {
    /// The pulse of a connection accepted now: its first head is due.
    pub(super) fn new(header_read_timeout: Duration, idle_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            started_at: Instant::now(),
            running: AtomicU32::new(0),
            in_head: AtomicBool::new(true),
            since_ms: AtomicU64::new(0),
            header_read_timeout,
            idle_timeout,
        })
    }

    /// Bytes arrived.
    pub(super) fn received(&self) {
        if !self.in_head.load(Ordering::Relaxed) && self.running.load(Ordering::Relaxed) == 0 {
            self.in_head.store(true, Ordering::Relaxed);
            self.mark();
        }
    }

    /// A request's head is complete; the guard lives until its answer is said.
    pub(super) fn request(self: &Arc<Self>) -> Running {
        self.in_head.store(false, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// Resolves when the connection has been quiet for too long.
    pub(super) async fn too_quiet(&self) {
        loop {
            let now = Instant::now();
            let Some(deadline) = self.deadline() else {
                tokio::time::sleep_until(now + self.header_read_timeout).await;
                continue;
            };
            if deadline <= now {
                return;
            }
            // An idle connection may begin a head at any moment, whose deadline is nearer than that of idling.
            tokio::time::sleep_until(deadline.min(now + self.header_read_timeout)).await;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.running.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let since = self.started_at + Duration::from_millis(self.since_ms.load(Ordering::Relaxed));
        let timeout =
            if self.in_head.load(Ordering::Relaxed) { self.header_read_timeout } else { self.idle_timeout };
        Some(since + timeout)
    }

    fn mark(&self) {
        let elapsed = u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since_ms.store(elapsed, Ordering::Relaxed);
    }
}

/// One running request.
pub(super) struct Running(Arc<Pulse>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.mark();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    async fn quiet_for(pulse: &Pulse) -> u64 {
        let start = Instant::now();
        pulse.too_quiet().await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_owes_a_head() {
        assert_eq!(quiet_for(&Pulse::new(HEAD, IDLE)).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_it_may_rest_longer() {
        let pulse = Pulse::new(HEAD, IDLE);
        drop(pulse.request());
        assert_eq!(quiet_for(&pulse).await, 75);
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_began_after_a_rest_is_due_soon() {
        let pulse = Pulse::new(HEAD, IDLE);
        drop(pulse.request());
        let seen = Arc::clone(&pulse);
        let quiet = tokio::spawn(async move { quiet_for(&seen).await });
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(15)).await;
        pulse.received();
        pulse.received();
        let quiet = quiet.await.unwrap();
        assert!((25..=35).contains(&quiet), "{quiet}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_clock_runs_while_a_request_is_inside() {
        let pulse = Pulse::new(HEAD, IDLE);
        let running = pulse.request();
        let waited = tokio::time::timeout(Duration::from_secs(3600), pulse.too_quiet()).await;
        assert!(waited.is_err());
        drop(running);
        assert!(quiet_for(&pulse).await >= 70);
    }
}
