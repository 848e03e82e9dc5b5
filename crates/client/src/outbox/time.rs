//! The outbox's clock: it never goes back, not even from one process to the next.
//!
//! A wall clock that is set back would make an old operation young, and it would be sent to a server that has forgotten
//! its key (P29). So time goes on from the largest that was ever stored, as fast as this process lives, and follows the
//! wall clock only where that is ahead. A clock that is set forth makes operations older than they are: then they are not
//! sent, which is the harmless mistake.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use unavez_core::time::Time;

use crate::operation;

/// Reads the time of day.
pub(super) type Wall = Arc<dyn Fn() -> Time + Send + Sync>;

pub(super) struct OutboxClock {
    wall: Wall,
    /// When this process came, and no earlier than the largest time that was stored then.
    base: Time,
    started: Instant,
}

impl OutboxClock {
    pub(super) fn system() -> Wall {
        Arc::new(operation::now)
    }

    pub(super) fn resume(wall: Wall, latest: Time) -> Self {
        Self { base: latest.max(wall()), wall, started: Instant::now() }
    }

    pub(super) fn now(&self) -> Time {
        self.base.plus(self.started.elapsed()).max((self.wall)())
    }

    /// A time of the wall clock, on this one.
    pub(super) fn on_this(&self, wall_time: Time, now: Time) -> Time {
        now.minus((self.wall)().since(wall_time))
    }
}

impl fmt::Debug for OutboxClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxClock").field("base", &self.base).finish_non_exhaustive()
    }
}
