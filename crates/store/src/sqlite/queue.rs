//! Where commands wait for a thread: bounded, and taken in bulk.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A bounded queue between tasks and one or more threads.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    length_max: usize,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// Threads asleep: only then a push pays for waking one.
    idle: usize,
    closed: bool,
}

/// Why something was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotQueued {
    Closed,
    Full { waiting: usize },
}

impl<T> Queue<T> {
    pub(super) fn new(length_max: usize) -> Self {
        let state = State { waiting: VecDeque::new(), idle: 0, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), length_max }
    }

    pub(super) fn push(&self, item: T) -> Result<(), NotQueued> {
        let mut state = self.lock();
        if state.closed {
            return Err(NotQueued::Closed);
        }
        if state.waiting.len() >= self.length_max {
            return Err(NotQueued::Full { waiting: state.waiting.len() });
        }
        state.waiting.push_back(item);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for items and moves at most `limit` of them to the end of `taken`. `false` once the queue is closed and
    /// empty.
    pub(super) fn take(&self, taken: &mut Vec<T>, limit: usize) -> bool {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state.idle += 1;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        let count = limit.min(state.waiting.len());
        taken.extend(state.waiting.drain(..count));
        true
    }

    /// Refuses further items; what waits is still taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    pub(super) fn len(&self) -> usize {
        self.lock().waiting.len()
    }

    /// No code of a caller runs under the lock, so a poisoned one still guards a whole queue.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c103_a_full_queue_refuses_and_a_closed_one_drains() {
        let queue = Queue::new(2);
        assert_eq!([queue.push(1), queue.push(2)], [Ok(()), Ok(())]);
        assert_eq!(queue.push(3), Err(NotQueued::Full { waiting: 2 }));
        queue.close();
        assert_eq!(queue.push(3), Err(NotQueued::Closed));
        let mut taken = Vec::new();
        assert!(queue.take(&mut taken, 1) && queue.take(&mut taken, 9));
        assert_eq!(taken, [1, 2]);
        assert!(!queue.take(&mut taken, 1));
    }
}
