//! Mistakes about what was lost: who may take it over, and for how long its end is remembered.

use unavez_core::{
    identity::RecordId,
    record::{Change, Fence, Finish},
    timing::Timings,
};
use unavez_store::{BoxFuture, Loaded, Store, StoreError, Swap};

use super::{Mistake, NoFence};

/// Accepts a takeover whatever version and attempt its writer saw; every other write is fenced.
pub(super) struct UnconditionalTakeover;

impl Mistake for UnconditionalTakeover {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        match change {
            Change::TakeOver { .. } => NoFence.swap(inner, id, expected, change),
            _ => inner.swap(id, expected, change),
        }
    }
}

/// Remembers an answer for as long as an attempt may take.
pub(super) struct OneClock;

impl Mistake for OneClock {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        let response_ttl = Timings::default().operation_timeout;
        inner.swap(
            id,
            expected,
            match change {
                Change::Finish(finish) => Change::Finish(Finish { response_ttl, ..finish }),
                other => other,
            },
        )
    }
}

/// Lets nobody take a lost attempt over.
pub(super) struct ZombieNeverReclaimed;

impl Mistake for ZombieNeverReclaimed {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let Change::TakeOver { .. } = change else { return inner.swap(id, expected, change).await };
            let Loaded { record, now } = inner.load(id).await?;
            Ok(Swap::Conflict { record, now })
        })
    }
}
