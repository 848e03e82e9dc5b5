//! A store that fails on purpose: at the n-th call, by kind, and in every way a real one can.
//!
//! Tests raise n until a run meets no fault, so that every call of a flow fails once. [`Fault::InDoubt`] is the one
//! that finds bugs: the caller cannot tell whether its change happened, and both truths must end well (P12).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use unavez_core::identity::RecordId;
//! use unavez_store::fault::{Call, Fault, Faulty};
//! use unavez_store::{Store, memory::MemoryStore};
//!
//! let store = Faulty::new(MemoryStore::new());
//! store.fail_call_of(Call::Load, 2, Fault::Fail);
//! let id = RecordId::from_bytes([7; 16]);
//! assert!(store.load(id).await.is_ok());
//! assert!(store.load(id).await.is_err());
//! # }
//! ```

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use unavez_core::identity::RecordId;
use unavez_core::record::{Change, Fence};

use crate::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

/// Kind of a call: the change of a swap, or the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the call or change of the same name")]
pub enum Call {
    Claim,
    TakeOver,
    Finish,
    Release,
    MarkUnknown,
    AskAgain,
    StampDeadline,
    Abandon,
    Load,
    Due,
    Purge,
    List,
}

impl Call {
    /// The kind of a swap with this change.
    #[must_use]
    pub const fn of(change: &Change) -> Self {
        match change {
            Change::Claim(_) => Self::Claim,
            Change::TakeOver { .. } => Self::TakeOver,
            Change::Finish(_) => Self::Finish,
            Change::Release => Self::Release,
            Change::MarkUnknown { .. } => Self::MarkUnknown,
            Change::AskAgain { .. } => Self::AskAgain,
            Change::StampDeadline { .. } => Self::StampDeadline,
            Change::Abandon => Self::Abandon,
        }
    }
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// [`StoreError::Unavailable`]; nothing is done.
    Fail,
    /// Done and answered after so long, on tokio's clock.
    Delay(Duration),
    /// Never answered; nothing is done.
    BlackHole,
    /// [`StoreError::InDoubt`].
    InDoubt(Truth),
}

/// What really became of a call in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It was done before the answer was lost.
    Happened,
    /// It was lost before it was done.
    DidNotHappen,
}

/// A store that fails on purpose. Without faults it is the store inside.
pub struct Faulty<S> {
    inner: S,
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Every call so far, in order.
    seen: Vec<Call>,
    once: Vec<Planned>,
    always: Option<Fault>,
}

struct Planned {
    /// `None`: any kind.
    call: Option<Call>,
    /// Matching calls to let pass before this one.
    skip: u64,
    fault: Fault,
}

impl Plan {
    /// Notes the call and says what goes wrong with it. A planned fault comes once; the earliest planned wins.
    fn next(&mut self, call: Call) -> Option<Fault> {
        self.seen.push(call);
        let mut struck = None;
        self.once.retain_mut(|planned| {
            if planned.call.is_some_and(|only| only != call) {
                return true;
            }
            if planned.skip > 0 {
                planned.skip -= 1;
                return true;
            }
            struck = struck.or(Some(planned.fault));
            false
        });
        struck.or(self.always)
    }
}

impl<S: Store> Faulty<S> {
    /// Wraps a store; nothing fails yet.
    pub fn new(inner: S) -> Self {
        Self { inner, plan: Mutex::default() }
    }

    /// The store inside.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Plans a fault for the `n`-th call from now (1: the next one), of whatever kind.
    pub fn fail_call(&self, n: u64, fault: Fault) {
        self.plan().once.push(Planned { call: None, skip: n.saturating_sub(1), fault });
    }

    /// Plans a fault for the `n`-th call of this kind from now.
    pub fn fail_call_of(&self, call: Call, n: u64, fault: Fault) {
        self.plan().once.push(Planned { call: Some(call), skip: n.saturating_sub(1), fault });
    }

    /// Every call fails like this from now on, until [`Faulty::heal`].
    pub fn fail_all(&self, fault: Fault) {
        self.plan().always = Some(fault);
    }

    /// Forgets every planned fault.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.once.clear();
        plan.always = None;
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.plan().seen.len() as u64
    }

    /// Calls of this kind so far.
    pub fn calls_of(&self, call: Call) -> u64 {
        self.plan().seen.iter().filter(|seen| **seen == call).count() as u64
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs `work` as the plan has it for this call.
    async fn run<T>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let fault = self.plan().next(call);
        match fault {
            None => work.await,
            Some(Fault::Fail) => Err(StoreError::Unavailable("a fault was planned".into())),
            Some(Fault::Delay(by)) => {
                tokio::time::sleep(by).await;
                work.await
            }
            Some(Fault::BlackHole) => std::future::pending().await,
            Some(Fault::InDoubt(truth)) => {
                if truth == Truth::Happened {
                    work.await?;
                }
                Err(StoreError::InDoubt("a doubt was planned".into()))
            }
        }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        Box::pin(async move { self.run(Call::of(&change), self.inner.swap(id, expected, change)).await })
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(self.run(Call::Load, self.inner.load(id)))
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        Box::pin(self.run(Call::Due, self.inner.due(limit)))
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.run(Call::Purge, self.inner.purge(limit)))
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(self.run(Call::List, self.inner.list(filter, after, limit)))
    }

    fn realm(&self) -> Option<unavez_core::identity::Realm> {
        self.inner.realm()
    }
}

impl<S: fmt::Debug> fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    const ID: RecordId = RecordId::from_bytes([1; 16]);

    #[tokio::test]
    async fn a_fault_strikes_the_planned_call_once() {
        let store = Faulty::new(MemoryStore::new());
        store.fail_call(2, Fault::Fail);
        store.fail_call_of(Call::Purge, 1, Fault::InDoubt(Truth::DidNotHappen));
        assert!(store.load(ID).await.is_ok());
        assert!(matches!(store.load(ID).await, Err(StoreError::Unavailable(_))));
        assert!(store.load(ID).await.is_ok());
        assert!(matches!(store.purge(1).await, Err(StoreError::InDoubt(_))));
        assert_eq!((store.calls(), store.calls_of(Call::Load), store.calls_of(Call::Purge)), (4, 3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_takes_virtual_time_and_a_black_hole_never_answers() {
        let store = Faulty::new(MemoryStore::new());
        store.fail_call(1, Fault::Delay(Duration::from_secs(5)));
        let start = tokio::time::Instant::now();
        assert!(store.load(ID).await.is_ok());
        assert_eq!(start.elapsed(), Duration::from_secs(5));

        store.fail_all(Fault::BlackHole);
        assert!(tokio::time::timeout(Duration::from_secs(3600), store.load(ID)).await.is_err());
        store.heal();
        assert!(store.load(ID).await.is_ok());
    }
}
