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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use unavez_core::{
        identity::AttemptId,
        record::{Cause, State},
    };

    use super::super::tests::{claim, finish, store, stored, timing, won};
    use super::*;
    use crate::Mutation;

    fn take_over(attempt: u8) -> Change {
        Change::TakeOver { attempt: AttemptId::from_bytes([attempt; 16]), timing: timing() }
    }

    /// The fence of an attempt whose owner said that it was cut off.
    async fn lost(store: &dyn Store) -> Fence {
        let claimed = won(store, None, claim(1)).await.expect("the first claim wins");
        let unknown = Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::from_secs(1) };
        won(store, Some(claimed.fence), unknown).await.expect("its owner may say so").fence
    }

    #[tokio::test]
    async fn p11_two_take_over_and_one_finishes() {
        let (store, _) = store(Mutation::UnconditionalTakeover);
        let lost = lost(&*store).await;
        let one = won(&*store, Some(lost), take_over(2)).await.expect("wins");
        let other = won(&*store, Some(lost), take_over(3)).await.expect("wins, too");
        assert_ne!(one.fence.attempt, other.fence.attempt);
        let finished = [
            won(&*store, Some(one.fence), finish(201)).await,
            won(&*store, Some(other.fence), finish(201)).await,
        ];
        assert_eq!(finished.into_iter().flatten().count(), 1, "other writes are fenced");
    }

    #[tokio::test]
    async fn p16_nobody_takes_over() {
        let (store, _) = store(Mutation::ZombieNeverReclaimed);
        let lost = lost(&*store).await;
        assert!(won(&*store, Some(lost), take_over(2)).await.is_none());
        won(&*store, Some(lost), finish(201)).await.expect("other writes go through");
    }

    #[tokio::test]
    async fn p9_an_answer_is_kept_for_as_long_as_an_attempt_may_take() {
        let (store, real) = store(Mutation::OneClock);
        let claimed = won(&*store, None, claim(1)).await.expect("wins");
        let finished = won(&*store, Some(claimed.fence), finish(201)).await.expect("its owner finishes");
        let State::Finished { at, expires_at, .. } = finished.state else { panic!("finished") };
        assert_eq!(expires_at.since(at), Timings::default().operation_timeout);
        assert!(stored(&*real).await.is_some());
    }
}
