//! What a test holds in its hands to force a race: the floor where work is done, and the meeting before a write.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Barrier, watch},
    time::timeout,
};
use unavez_core::record::Change;

/// The floor where the lesson server's handlers work. A test can hold them there, count them, and have one break down.
#[derive(Debug)]
pub(crate) struct Floor {
    held: watch::Sender<Held>,
    entered: watch::Sender<usize>,
    breaks_down: AtomicBool,
}

/// Who has to wait on the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Nobody,
    Everybody,
    /// Whoever entered as this one; those before and after go on.
    Only(usize),
}

/// A handler broke down before it had done anything.
#[derive(Debug)]
pub(crate) struct BrokeDown;

impl Default for Floor {
    fn default() -> Self {
        Self {
            held: watch::Sender::new(Held::Nobody),
            entered: watch::Sender::new(0),
            breaks_down: AtomicBool::new(false),
        }
    }
}

impl Floor {
    /// From now on handlers that enter wait.
    pub(crate) fn hold(&self) {
        self.held.send_replace(Held::Everybody);
    }

    /// The next handler that enters waits; those after it do not.
    pub(crate) fn hold_next(&self) {
        self.held.send_replace(Held::Only(*self.entered.borrow() + 1));
    }

    /// Lets everybody go on, now and later.
    pub(crate) fn open(&self) {
        self.held.send_replace(Held::Nobody);
    }

    /// The next handler that enters breaks down at once.
    pub(crate) fn break_down_once(&self) {
        self.breaks_down.store(true, Ordering::Release);
    }

    /// How many handlers have entered so far; tells when another one does.
    pub(crate) fn entered(&self) -> watch::Receiver<usize> {
        self.entered.subscribe()
    }

    /// A handler comes in and may do its work when this returns.
    pub(super) async fn enter(&self) -> Result<(), BrokeDown> {
        if self.breaks_down.swap(false, Ordering::AcqRel) {
            return Err(BrokeDown);
        }
        let mut held = self.held.subscribe();
        let mut place = 0;
        self.entered.send_modify(|count| {
            *count += 1;
            place = *count;
        });
        // The sender is this floor, which outlives the wait.
        let _ = held.wait_for(|held| !held.holds(place)).await;
        Ok(())
    }
}

impl Held {
    fn holds(self, place: usize) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everybody => true,
            Self::Only(held) => held == place,
        }
    }
}

/// The writes that can be made to meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A key is claimed.
    Claim,
    /// A lost or unknown attempt is taken over.
    TakeOver,
}

impl Step {
    fn of(change: &Change) -> Option<Self> {
        match change {
            Change::Claim(_) => Some(Self::Claim),
            Change::TakeOver { .. } => Some(Self::TakeOver),
            _ => None,
        }
    }
}

/// Holds writes back until as many as expected have arrived, so that each was decided before any was written.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    expected: Mutex<Option<Expected>>,
}

#[derive(Debug)]
struct Expected {
    step: Step,
    missing: usize,
    barrier: Arc<Barrier>,
}

/// How long a write waits for the others. Only a fault that keeps one away makes it this long; then the test goes on and
/// says what it saw.
const MEETING_TIMEOUT: Duration = Duration::from_secs(5);

impl Meeting {
    /// The next `parties` writes of this step meet; later ones pass.
    pub(crate) fn expect(&self, step: Step, parties: usize) {
        let expected = Expected { step, missing: parties, barrier: Arc::new(Barrier::new(parties)) };
        *self.expected.lock().expect("no holder of this lock panics") = Some(expected);
    }

    /// A write is about to be made.
    pub(crate) async fn arrive(&self, change: &Change) {
        if let Some(barrier) = self.barrier_for(change) {
            let _ = timeout(MEETING_TIMEOUT, barrier.wait()).await;
        }
    }

    fn barrier_for(&self, change: &Change) -> Option<Arc<Barrier>> {
        let mut slot = self.expected.lock().expect("no holder of this lock panics");
        let expected = slot.as_mut().filter(|expected| Step::of(change) == Some(expected.step))?;
        expected.missing -= 1;
        let barrier = Arc::clone(&expected.barrier);
        if expected.missing == 0 {
            *slot = None;
        }
        Some(barrier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_enters_a_held_floor_waits_until_it_opens() {
        let floor = Arc::new(Floor::default());
        floor.enter().await.expect("an open floor");
        floor.hold();
        let mut entered = floor.entered();
        let worker = tokio::spawn({
            let floor = Arc::clone(&floor);
            async move { floor.enter().await.is_ok() }
        });
        entered.wait_for(|&count| count == 2).await.expect("the floor lives");
        assert!(!worker.is_finished());
        floor.open();
        assert!(worker.await.expect("no panic"));
    }

    #[tokio::test]
    async fn one_is_held_and_the_next_passes() {
        let floor = Arc::new(Floor::default());
        floor.hold_next();
        let mut entered = floor.entered();
        let held = tokio::spawn({
            let floor = Arc::clone(&floor);
            async move { floor.enter().await.is_ok() }
        });
        entered.wait_for(|&count| count == 1).await.expect("the floor lives");
        floor.enter().await.expect("the second passes");
        assert!(!held.is_finished());
        floor.open();
        assert!(held.await.expect("no panic"));
    }

    #[tokio::test]
    async fn one_breaks_down_and_the_next_does_not() {
        let floor = Floor::default();
        floor.break_down_once();
        assert!(floor.enter().await.is_err());
        assert!(floor.enter().await.is_ok());
        assert_eq!(*floor.entered().borrow(), 1);
    }
}
