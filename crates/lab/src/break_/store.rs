//! Stores with one piece missing: decorations around a real store, each as small as the mistake it makes.
//!
//! A decoration changes what one kind of write does or says; reads and everything else go to the real store. Where the
//! real store would refuse a write that the mistake lets through, the decoration says "written" all the same.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use unavez_core::{
    identity::{AttemptId, Realm, RecordId},
    record::{Change, Claim, Fence, Next, Record, State},
    time::Time,
};
use unavez_store::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

use crate::{Mutation, servers::Meeting};

mod reclaim;

use reclaim::{OneClock, UnconditionalTakeover, ZombieNeverReclaimed};

/// A store around another one, whose writes go through a mistake.
struct Decorated<M> {
    inner: Arc<dyn Store>,
    mistake: M,
}

/// What a write does instead of what it should.
trait Mistake: Send + Sync + 'static {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>>;
}

/// The store without the piece, if the piece is one of the store's; else the store itself.
pub(crate) fn without(mutation: Option<Mutation>, inner: Arc<dyn Store>) -> Arc<dyn Store> {
    match mutation {
        None
        | Some(
            Mutation::KeyPerAttempt
            | Mutation::KeyFromAmount
            | Mutation::NoLookup
            | Mutation::NoVisibilityDelay
            | Mutation::WebhookTwice
            | Mutation::NewOperationIdOnReclaim,
        ) => inner,
        Some(Mutation::CheckThenWrite) => decorated(inner, CheckThenWrite),
        Some(Mutation::NoFingerprint) => decorated(inner, NoFingerprint),
        Some(Mutation::NoFence) => decorated(inner, NoFence),
        Some(Mutation::AnswerNotStored) => decorated(inner, AnswerNotStored),
        Some(Mutation::KeyAfterWork) => decorated(inner, KeyAfterWork::default()),
        Some(Mutation::InProgressIgnored) => decorated(inner, InProgressIgnored),
        Some(Mutation::UnconditionalTakeover) => decorated(inner, UnconditionalTakeover),
        Some(Mutation::OneClock) => decorated(inner, OneClock),
        Some(Mutation::ZombieNeverReclaimed) => decorated(inner, ZombieNeverReclaimed),
    }
}

/// The store with a meeting before its writes: no mistake, only the moment at which a mistake would show.
pub(crate) fn with_meeting(meeting: Arc<Meeting>, inner: Arc<dyn Store>) -> Arc<dyn Store> {
    decorated(inner, Meets(meeting))
}

fn decorated(inner: Arc<dyn Store>, mistake: impl Mistake) -> Arc<dyn Store> {
    Arc::new(Decorated { inner, mistake })
}

impl<M: Mistake> Store for Decorated<M> {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        self.mistake.swap(&*self.inner, id, expected, change)
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        self.inner.load(id)
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        self.inner.due(limit)
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        self.inner.purge(limit)
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.inner.list(filter, after, limit)
    }

    fn realm(&self) -> Option<Realm> {
        self.inner.realm()
    }
}

struct Meets(Arc<Meeting>);

impl Mistake for Meets {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            self.0.arrive(&change).await;
            inner.swap(id, expected, change).await
        })
    }
}

/// Looks whether the record is there, and writes it in a second step, over whatever came in between.
struct CheckThenWrite;

impl Mistake for CheckThenWrite {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let (None, Change::Claim(claim)) = (expected, &change) else {
                return inner.swap(id, expected, change).await;
            };
            let Loaded { record, now } = inner.load(id).await?;
            if record.is_some() {
                return Ok(Swap::Conflict { record, now });
            }
            let claim = claim.clone();
            match inner.swap(id, None, change).await? {
                Swap::Conflict { record: Some(came_between), now } => {
                    write_over(inner, &came_between, claim, now).await
                }
                written => Ok(written),
            }
        })
    }
}

/// Takes every repeat for the request that claimed the key.
struct NoFingerprint;

impl Mistake for NoFingerprint {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let Change::Claim(claim) = &change else { return inner.swap(id, expected, change).await };
            let asked = claim.fingerprint.clone();
            match inner.swap(id, expected, change).await? {
                Swap::Conflict { record: Some(record), now } => {
                    let record = Record { fingerprint: asked, ..Record::clone(&record) };
                    Ok(Swap::Conflict { record: Some(Arc::new(record)), now })
                }
                other => Ok(other),
            }
        })
    }
}

/// Accepts a write whatever version and attempt its writer names.
struct NoFence;

impl Mistake for NoFence {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let (standing, now) = match inner.swap(id, expected, change.clone()).await? {
                Swap::Conflict { record: Some(standing), now } if expected.is_some() => (standing, now),
                fenced => return Ok(fenced),
            };
            match inner.swap(id, Some(standing.fence), change.clone()).await {
                Ok(written @ Swap::Swapped { .. }) => Ok(written),
                Ok(Swap::Conflict { .. }) | Err(_) => Ok(as_if_written(&standing, &change, now)),
            }
        })
    }
}

/// Acknowledges the end of an operation and writes nothing: the key stays in progress, its answer is nowhere.
struct AnswerNotStored;

impl Mistake for AnswerNotStored {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let Change::Finish(_) = change else { return inner.swap(id, expected, change).await };
            let Loaded { record, now } = inner.load(id).await?;
            Ok(match record.as_deref().map(|record| record.apply(change, now)) {
                Some(Ok(Next::Keep(finished))) => Swap::Swapped { record: Arc::new(finished), now },
                _ => Swap::Conflict { record, now },
            })
        })
    }
}

/// Keeps a claim in its memory and writes it when the work is over.
#[derive(Default)]
struct KeyAfterWork {
    unwritten: Mutex<HashMap<(RecordId, AttemptId), Claim>>,
}

impl KeyAfterWork {
    fn remember(&self, id: RecordId, claim: Claim) {
        self.unwritten.lock().expect("no holder of this lock panics").insert((id, claim.attempt), claim);
    }

    fn recall(&self, id: RecordId, attempt: AttemptId) -> Option<Claim> {
        self.unwritten.lock().expect("no holder of this lock panics").remove(&(id, attempt))
    }
}

impl Mistake for KeyAfterWork {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            if let (None, Change::Claim(claim)) = (expected, &change) {
                let Loaded { record, now } = inner.load(id).await?;
                if record.is_some() {
                    return Ok(Swap::Conflict { record, now });
                }
                let record = Arc::new(Record::claimed(id, claim.clone(), now));
                self.remember(id, claim.clone());
                return Ok(Swap::Swapped { record, now });
            }
            match expected.and_then(|fence| self.recall(id, fence.attempt)) {
                None => inner.swap(id, expected, change).await,
                Some(claim) => match inner.swap(id, None, Change::Claim(claim)).await? {
                    Swap::Swapped { record, .. } => inner.swap(id, Some(record.fence), change).await,
                    late => Ok(late),
                },
            }
        })
    }
}

/// Gives a key that somebody is working on to whoever asks for it.
struct InProgressIgnored;

impl Mistake for InProgressIgnored {
    fn swap<'a>(
        &'a self,
        inner: &'a dyn Store,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'a, Result<Swap, StoreError>> {
        Box::pin(async move {
            let Change::Claim(claim) = &change else { return inner.swap(id, expected, change).await };
            let claim = claim.clone();
            match inner.swap(id, expected, change).await? {
                Swap::Conflict { record: Some(record), now }
                    if matches!(record.state, State::InProgress { .. }) =>
                {
                    write_over(inner, &record, claim, now).await
                }
                other => Ok(other),
            }
        })
    }
}

/// Puts a claim in the place of a record that somebody else holds.
async fn write_over(
    inner: &dyn Store,
    standing: &Record,
    claim: Claim,
    now: Time,
) -> Result<Swap, StoreError> {
    let as_if = Swap::Swapped { record: Arc::new(Record::claimed(standing.id, claim.clone(), now)), now };
    match inner.swap(standing.id, Some(standing.fence), Change::Release).await {
        Ok(Swap::Swapped { .. }) => inner.swap(standing.id, None, Change::Claim(claim)).await,
        Ok(Swap::Conflict { .. }) | Err(StoreError::Illegal(_)) => Ok(as_if),
        Err(error) => Err(error),
    }
}

/// What a store without a fence says to a writer whose write the table of transitions would not even know.
fn as_if_written(standing: &Record, change: &Change, now: Time) -> Swap {
    let mut record = standing.clone();
    record.fence.version += 1;
    if let Some(attempt) = change.new_attempt() {
        record.fence.attempt = attempt;
        record.attempts += 1;
    }
    Swap::Swapped { record: Arc::new(record), now }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use unavez_core::{
        answer::{Answer, Conclusion, Content},
        fingerprint::{Fingerprint, RequestParts, Rules},
        identity::Tenant,
        key::Key,
        record::{AttemptTiming, Cause, Exposure, Finish},
    };
    use unavez_store::memory::MemoryStore;

    use super::*;
    use crate::servers::Step;

    const ID: RecordId = RecordId::from_bytes([7; 16]);

    fn claim_of(attempt: u8, body: &[u8]) -> Claim {
        let request = RequestParts {
            method: "POST",
            path: "/charges",
            query: None,
            content_type: Some("application/json"),
            content_encoding: None,
            body,
        };
        Claim {
            tenant: Tenant::single(),
            key: Key::parse_path("k-1").expect("a key"),
            fingerprint: Fingerprint::of(&request, &Rules::default()).expect("not ambiguous"),
            attempt: AttemptId::from_bytes([attempt; 16]),
            timing: timing(),
            exposure: Exposure::MayBeSent,
        }
    }

    pub(super) fn timing() -> AttemptTiming {
        AttemptTiming {
            operation_timeout: Duration::from_secs(60),
            attempt_deadline: Duration::from_secs(50),
        }
    }

    pub(super) fn claim(attempt: u8) -> Change {
        Change::Claim(claim_of(attempt, b"one"))
    }

    pub(super) fn finish(status: u16) -> Change {
        let content = Content::Kept { headers: Vec::new(), body: "done".into() };
        Change::Finish(Finish {
            conclusion: Conclusion::Approved,
            answer: Answer { status, content },
            response_ttl: Duration::from_secs(60),
            resource: None,
        })
    }

    /// The store without the piece, and the real one beneath it.
    pub(super) fn store(mutation: Mutation) -> (Arc<dyn Store>, Arc<dyn Store>) {
        let real: Arc<dyn Store> = Arc::new(MemoryStore::new());
        (without(Some(mutation), Arc::clone(&real)), real)
    }

    pub(super) async fn won(
        store: &dyn Store,
        expected: Option<Fence>,
        change: Change,
    ) -> Option<Arc<Record>> {
        match store.swap(ID, expected, change).await.expect("the store answers") {
            Swap::Swapped { record, .. } => Some(record),
            Swap::Conflict { .. } => None,
        }
    }

    pub(super) async fn stored(store: &dyn Store) -> Option<Arc<Record>> {
        store.load(ID).await.expect("the store answers").record
    }

    #[tokio::test]
    async fn p8_two_that_checked_before_either_wrote_both_win() {
        let meeting = Arc::new(Meeting::default());
        let real: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let store = without(Some(Mutation::CheckThenWrite), with_meeting(Arc::clone(&meeting), real));
        meeting.expect(Step::Claim, 2);
        let (one, other) = tokio::join!(won(&*store, None, claim(1)), won(&*store, None, claim(2)));
        assert!(one.is_some() && other.is_some());
        assert!(won(&*store, None, claim(3)).await.is_none(), "one after the other is no race");
    }

    #[tokio::test]
    async fn p8_a_meeting_alone_changes_no_winner() {
        let meeting = Arc::new(Meeting::default());
        let store = with_meeting(Arc::clone(&meeting), Arc::new(MemoryStore::new()));
        meeting.expect(Step::Claim, 2);
        let (one, other) = tokio::join!(won(&*store, None, claim(1)), won(&*store, None, claim(2)));
        assert_eq!([one, other].into_iter().flatten().count(), 1);
    }

    #[tokio::test]
    async fn p5_every_repeat_is_taken_for_the_first_request() {
        let (store, _) = store(Mutation::NoFingerprint);
        won(&*store, None, claim(1)).await.expect("the first claim wins");
        let other = claim_of(2, b"other");
        let asked = other.fingerprint.clone();
        let Ok(Swap::Conflict { record: Some(record), .. }) =
            store.swap(ID, None, Change::Claim(other)).await
        else {
            panic!("the key is claimed");
        };
        assert!(record.fingerprint.matches(&asked));
    }

    #[tokio::test]
    async fn p11_two_take_over_and_both_finish() {
        let (store, real) = store(Mutation::NoFence);
        let lost = won(&*store, None, claim(1)).await.expect("the first claim wins");
        let unknown = Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::from_secs(1) };
        let lost = won(&*store, Some(lost.fence), unknown).await.expect("its owner may say so").fence;
        let take_over =
            |attempt| Change::TakeOver { attempt: AttemptId::from_bytes([attempt; 16]), timing: timing() };
        let one = won(&*store, Some(lost), take_over(2)).await.expect("wins");
        let other = won(&*store, Some(lost), take_over(3)).await.expect("wins, too");
        assert_ne!(one.fence.attempt, other.fence.attempt);
        won(&*store, Some(other.fence), finish(201)).await.expect("the overtaken may finish");
        won(&*store, Some(one.fence), finish(202)).await.expect("and so may the other");
        assert_eq!(stored(&*real).await.map(|record| record.state.name()), Some("finished"));
    }

    #[tokio::test]
    async fn p18_the_finish_is_acknowledged_and_nowhere() {
        let (store, real) = store(Mutation::AnswerNotStored);
        let record = won(&*store, None, claim(1)).await.expect("wins");
        let finished = won(&*store, Some(record.fence), finish(201)).await.expect("acknowledged");
        assert_eq!(finished.state.name(), "finished");
        assert_eq!(stored(&*real).await.map(|record| record.state.name()), Some("in_progress"));
    }

    #[tokio::test]
    async fn p8_the_key_appears_when_the_work_is_over() {
        let (store, real) = store(Mutation::KeyAfterWork);
        let one = won(&*store, None, claim(1)).await.expect("wins");
        let other = won(&*store, None, claim(2)).await.expect("wins, too: nothing is there");
        assert_eq!(stored(&*real).await, None);
        won(&*store, Some(one.fence), finish(201)).await.expect("written now");
        assert!(won(&*store, Some(other.fence), finish(201)).await.is_none(), "too late");
        assert!(won(&*store, None, claim(3)).await.is_none(), "and now the key is there");
    }

    #[tokio::test]
    async fn p10_a_key_in_progress_is_given_to_whoever_asks() {
        let (store, _) = store(Mutation::InProgressIgnored);
        let one = won(&*store, None, claim(1)).await.expect("wins");
        let other = won(&*store, None, claim(2)).await.expect("wins, too");
        assert!(won(&*store, Some(one.fence), finish(201)).await.is_none(), "overtaken");
        won(&*store, Some(other.fence), finish(201)).await.expect("the owner finishes");
        assert!(won(&*store, None, claim(3)).await.is_none(), "finished keys are kept");
    }
}
