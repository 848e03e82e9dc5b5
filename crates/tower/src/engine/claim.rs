//! Claiming a key: one atomic call, with an owner for whatever it brings about (P8, P12).

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use unavez_core::identity::{AttemptId, OperationId};
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Claim, Fence, Record};
use unavez_store::{StoreError, Swap};

use super::meet::{Met, Sight, late, restless, unavailable};
use super::{Engine, Kind, Stopwatch};
use crate::body::Body;
use crate::door::Admitted;
use crate::problem::Problem;

/// What an owner knows about its attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// As it was when the attempt began; its fence is the owner's.
    pub(crate) record: Arc<Record>,
    pub(crate) stopwatch: Stopwatch,
}

impl Attempt {
    pub(crate) fn operation_id(&self) -> OperationId {
        self.record.id.operation_id()
    }
}

/// The way back to the caller. Answers once; the caller may be gone, which changes nothing (P12).
pub(crate) struct Reply(Option<oneshot::Sender<Response<Body>>>);

impl Reply {
    pub(crate) fn new() -> (Self, oneshot::Receiver<Response<Body>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(sender)), receiver)
    }

    /// The first answer counts; later ones are dropped.
    pub(crate) fn send(&mut self, response: impl Into<Response<Body>>) {
        if let Some(sender) = self.0.take() {
            // A caller that hung up needs no answer.
            let _ = sender.send(response.into());
        }
    }

    /// Once the caller was told that nothing ran, nothing may run.
    pub(crate) fn is_answered(&self) -> bool {
        self.0.is_none()
    }

    /// Ready when the caller has left.
    async fn gone(&mut self) {
        if let Some(sender) = &mut self.0 {
            sender.closed().await;
        }
    }
}

/// How to become the owner.
#[derive(Clone, Copy)]
enum Step {
    Claim(Option<Fence>),
    TakeOver(Fence),
}

/// What one try came to.
enum Tried {
    Won(Attempt),
    Met(Sight),
    /// Nothing stands there: claim again.
    Nobody,
    Refused(Problem),
}

/// A claim is tried anew only after a race that another request won and gave up.
const ROUNDS_MAX: usize = 8;

/// Between two tries to resolve a doubt.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

impl Engine {
    /// Claims the key for this request, or answers it. `None`: answered.
    ///
    /// Must run in a task of its own: whatever is claimed here is owned by it, and is undone here if it cannot be run.
    /// One store trip for a fresh key, a replay and a refusal.
    pub(crate) async fn claim(&self, admitted: &Admitted, kind: &Kind, reply: &mut Reply) -> Option<Attempt> {
        if admitted.caller_deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            reply.send(Problem::new(Code::Overloaded).with_detail("the caller's deadline is over"));
            return None;
        }
        let mut step = Step::Claim(None);
        for _ in 0..ROUNDS_MAX {
            let tried = self.try_once(admitted, kind, step, reply).await;
            if reply.is_answered() {
                return None;
            }
            step = match tried {
                Tried::Won(attempt) => return Some(attempt),
                Tried::Nobody => Step::Claim(None),
                Tried::Met(sight) => match self.meet_while(sight, admitted, kind, reply.gone()).await {
                    Met::Claim(expected) => Step::Claim(expected),
                    Met::TakeOver(fence) => Step::TakeOver(fence),
                    Met::Answer(response) => {
                        reply.send(response);
                        return None;
                    }
                },
                Tried::Refused(problem) => {
                    reply.send(problem);
                    return None;
                }
            };
        }
        reply.send(restless());
        None
    }

    async fn try_once(&self, admitted: &Admitted, kind: &Kind, step: Step, reply: &mut Reply) -> Tried {
        let attempt = self.new_attempt();
        // Started before the call, so that the owner's end comes before the one that the store records (P13).
        let stopwatch = Stopwatch::start(self.timings().attempt_deadline());
        let (expected, change) = self.change(admitted, kind, step, attempt);
        let mut call = self.inner.store.swap(admitted.id(), expected, change);
        let result = match timeout(self.timings().store_timeout, &mut call).await {
            Ok(result) => result,
            Err(_) => {
                // The caller is told that nothing was run, and from here on nothing will be: this task stays only to
                // undo the claim, should it still happen.
                reply.send(late());
                timeout_at(stopwatch.end(), call)
                    .await
                    .unwrap_or_else(|_| Err(StoreError::InDoubt("cut off at the attempt's deadline".into())))
            }
        };
        match result {
            Ok(Swap::Swapped { record, .. }) => self.won(record, stopwatch, reply).await,
            Ok(Swap::Conflict { record: Some(record), now }) => Tried::Met(Sight { record, now }),
            Ok(Swap::Conflict { record: None, .. }) => Tried::Nobody,
            Err(error) if error.may_have_happened() => {
                tracing::warn!(id = %admitted.id(), %error, "claim in doubt");
                // Boxed like all rare paths here: the future of every operation is as large as its largest path.
                Box::pin(self.resolve(admitted, kind, step, attempt, stopwatch, reply)).await
            }
            Err(error) => Tried::Refused(unavailable(&error)),
        }
    }

    fn change(
        &self,
        admitted: &Admitted,
        kind: &Kind,
        step: Step,
        attempt: AttemptId,
    ) -> (Option<Fence>, Change) {
        let timing = self.timings().attempt();
        match step {
            Step::TakeOver(fence) => (Some(fence), Change::TakeOver { attempt, timing }),
            Step::Claim(expected) => {
                let claim = Claim {
                    tenant: admitted.tenant().clone(),
                    key: admitted.key().clone(),
                    fingerprint: admitted.fingerprint().clone(),
                    attempt,
                    timing,
                    exposure: kind.effect().exposure(),
                };
                (expected, Change::Claim(claim))
            }
        }
    }

    /// Runs what was claimed, unless its time is over or its caller was told otherwise: then it is undone.
    async fn won(&self, record: Arc<Record>, stopwatch: Stopwatch, reply: &mut Reply) -> Tried {
        if reply.is_answered() || stopwatch.is_over() {
            let until = Instant::now() + self.timings().operation_timeout;
            let nothing_ran = || reply.send(late());
            Box::pin(self.persist(record.id, record.fence, undo(&record), until, nothing_ran)).await;
            return Tried::Refused(late());
        }
        Tried::Won(Attempt { record, stopwatch })
    }

    /// Finds out whether a claim in doubt happened, by writes with the same attempt id that are acknowledged: the claim
    /// once more, and, where that meets our own attempt, its undoing. A read would not do: the commit could still be
    /// pending, or visible and not yet safe (P12).
    async fn resolve(
        &self,
        admitted: &Admitted,
        kind: &Kind,
        step: Step,
        attempt: AttemptId,
        stopwatch: Stopwatch,
        reply: &mut Reply,
    ) -> Tried {
        let answer_by = Instant::now() + self.timings().store_timeout;
        while !stopwatch.is_over() {
            let (expected, change) = self.change(admitted, kind, step, attempt);
            match self.swap_by(admitted, expected, change, answer_by, stopwatch, reply).await {
                Ok(Swap::Swapped { record, .. }) => return self.won(record, stopwatch, reply).await,
                Ok(Swap::Conflict { record: None, .. }) => return Tried::Nobody,
                Ok(Swap::Conflict { record: Some(record), now }) if record.fence.attempt != attempt => {
                    return Tried::Met(Sight { record, now });
                }
                Ok(Swap::Conflict { record: Some(record), .. }) => {
                    let undone = self
                        .swap_by(admitted, Some(record.fence), undo(&record), answer_by, stopwatch, reply)
                        .await;
                    match undone {
                        Ok(Swap::Swapped { .. } | Swap::Conflict { record: None, .. }) => {
                            return Tried::Nobody;
                        }
                        Ok(Swap::Conflict { record: Some(record), now })
                            if record.fence.attempt != attempt =>
                        {
                            return Tried::Met(Sight { record, now });
                        }
                        Ok(Swap::Conflict { .. }) | Err(_) => {}
                    }
                }
                Err(_) => {}
            }
            sleep(DOUBT_PAUSE).await;
            if Instant::now() >= answer_by {
                reply.send(Problem::own_outcome_unknown());
            }
        }
        Tried::Refused(Problem::own_outcome_unknown())
    }

    /// A call of the store while in doubt: at `answer_by` the caller hears 504, and the call goes on.
    async fn swap_by(
        &self,
        admitted: &Admitted,
        expected: Option<Fence>,
        change: Change,
        answer_by: Instant,
        stopwatch: Stopwatch,
        reply: &mut Reply,
    ) -> Result<Swap, StoreError> {
        let mut call = self.inner.store.swap(admitted.id(), expected, change);
        if let Ok(result) = timeout_at(answer_by, &mut call).await {
            return result;
        }
        reply.send(Problem::own_outcome_unknown());
        timeout_at(stopwatch.end(), call)
            .await
            .unwrap_or_else(|_| Err(StoreError::InDoubt("cut off at the attempt's deadline".into())))
    }
}

/// What takes back an attempt that sent nothing: the first is released, a later one leaves its predecessors' doubt.
fn undo(record: &Record) -> Change {
    if record.attempts <= 1 {
        return Change::Release;
    }
    Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::ZERO }
}
