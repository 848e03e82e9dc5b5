//! Which operations still run: what shutdown waits for (P12).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

#[derive(Clone, Default)]
pub(super) struct Tracker(Arc<State>);

#[derive(Default)]
struct State {
    running: AtomicUsize,
    ended: Notify,
}

impl Tracker {
    pub(super) fn enter(&self) -> Tracked {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        Tracked(self.clone())
    }

    pub(super) async fn drain(&self, limit: Duration) -> usize {
        // Whoever runs out of time is counted below.
        let _ = timeout(limit, self.empty()).await;
        self.0.running.load(Ordering::SeqCst)
    }

    async fn empty(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.running.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// One running operation. Counted until dropped.
pub struct Tracked(Tracker);

impl Drop for Tracked {
    fn drop(&mut self) {
        if self.0.0.running.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.0.ended.notify_waiters();
        }
    }
}

impl fmt::Debug for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").finish_non_exhaustive()
    }
}
