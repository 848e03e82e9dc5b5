//! How many attempts one host can hold at a time, and who waits for a place (P33).
//!
//! 1. A permit is held, or free; what is handed to a waiter was never free in between, so nobody overtakes.
//! 2. A waiter that gives up leaves the queue, or passes on the permit it was handed and had not noticed.
//! 3. The queue has an end: who waits longest is likeliest to have been given up by its caller.

use alloc::collections::VecDeque;

/// What a bulkhead holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkheadLimits {
    /// Attempts at a time.
    pub permits: usize,
    /// Attempts that may wait for a permit; one more is refused at once.
    pub waiting_max: usize,
}

impl Default for BulkheadLimits {
    fn default() -> Self {
        Self { permits: 256, waiting_max: 1024 }
    }
}

/// A host's permits. `W` is how the edge reaches a waiter: a waker, a channel, a number.
#[derive(Debug)]
pub struct Bulkhead<W> {
    limits: BulkheadLimits,
    held: usize,
    /// Sorted by place: places are given out in order, and waiters join at the end.
    queue: VecDeque<(Place, W)>,
    next: u64,
}

/// A place in the queue. Never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

/// What came of asking for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a permit is held until it is given back, a place until it is left"]
pub enum Entry {
    /// A permit is held now.
    Admitted,
    /// Waiting, and reached when a permit is handed over.
    Queued(Place),
    /// Neither a permit nor a place in the queue.
    Full,
}

impl<W> Bulkhead<W> {
    /// A bulkhead with all its permits free.
    pub fn new(limits: BulkheadLimits) -> Self {
        Self { limits, held: 0, queue: VecDeque::new(), next: 0 }
    }

    /// Asks for a permit. `waiter` is made only if it has to wait.
    pub fn enter(&mut self, waiter: impl FnOnce() -> W) -> Entry {
        if self.held < self.limits.permits {
            self.held += 1;
            return Entry::Admitted;
        }
        if self.queue.len() >= self.limits.waiting_max {
            return Entry::Full;
        }
        let place = Place(self.next);
        self.next += 1;
        self.queue.push_back((place, waiter()));
        Entry::Queued(place)
    }

    /// Gives a permit back. It goes to the first waiter, who is returned and must be told.
    #[must_use = "the waiter holds a permit and does not know it"]
    pub fn leave(&mut self) -> Option<W> {
        let Some((_, waiter)) = self.queue.pop_front() else {
            debug_assert!(self.held > 0, "a permit is given back once");
            self.held = self.held.saturating_sub(1);
            return None;
        };
        Some(waiter)
    }

    /// A waiter gives up. If it had been handed a permit already, that goes to the next one, who is returned.
    #[must_use = "the waiter holds a permit and does not know it"]
    pub fn give_up(&mut self, place: Place) -> Option<W> {
        match self.position(place) {
            Some(index) => {
                self.queue.remove(index);
                None
            }
            None => self.leave(),
        }
    }

    /// The waiter at this place, to be reached another way from now on; `None`: it was handed a permit.
    pub fn waiter(&mut self, place: Place) -> Option<&mut W> {
        let index = self.position(place)?;
        self.queue.get_mut(index).map(|(_, waiter)| waiter)
    }

    /// Permits held, those handed over and not noticed yet included.
    pub fn held(&self) -> usize {
        self.held
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn position(&self, place: Place) -> Option<usize> {
        self.queue.binary_search_by_key(&place, |(place, _)| *place).ok()
    }
}
