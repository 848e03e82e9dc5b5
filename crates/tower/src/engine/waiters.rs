//! Callers that wait for another's operation (P10), woken when this process writes its record.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use unavez_core::identity::RecordId;

#[derive(Default)]
pub(super) struct Waiters {
    /// Lets a finish without waiters, the usual one, pass without the lock.
    count: AtomicUsize,
    by_record: Mutex<HashMap<RecordId, (Arc<Notify>, usize)>>,
}

impl Waiters {
    /// Registers a waiter; it misses no wake from here on.
    pub(super) fn wait(&self, id: RecordId) -> Waiter<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut by_record = self.lock();
        let (notify, count) = by_record.entry(id).or_default();
        *count += 1;
        Waiter { waiters: self, id, notify: Arc::clone(notify) }
    }

    pub(super) fn wake(&self, id: RecordId) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some((notify, _)) = self.lock().get(&id) {
            notify.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RecordId, (Arc<Notify>, usize)>> {
        self.by_record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Waiter<'a> {
    waiters: &'a Waiters,
    id: RecordId,
    pub(super) notify: Arc<Notify>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        if let Entry::Occupied(mut entry) = self.waiters.lock().entry(self.id) {
            entry.get_mut().1 -= 1;
            if entry.get().1 == 0 {
                entry.remove();
            }
        }
    }
}
