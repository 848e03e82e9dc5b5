//! Asking the outside system, and writing down what was learned (P16).

use http::Response;
use tokio::time::{Instant, timeout};
use unavez_core::answer::Conclusion;
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Fence, Finish, Record, State};
use unavez_core::recovery::{self, Held, Told, Verdict, ask_interval};
use unavez_store::{BoxFuture, StoreError, Swap};

use super::Engine;
use super::asks::Turn;
use super::meet::Sight;
use crate::answers::{Ran, mark};
use crate::body::Body;
use crate::caught::caught;
use crate::door::Door;
use crate::gather::gather;
use crate::observe::Event;
use crate::problem::Problem;
use crate::recover::{Hook, Question, Recovered, Settlement};

/// Who wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A caller's repeat, which may send again.
    Caller,
    /// The worker: it has no caller and never sends.
    Worker,
}

/// What came of a question.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The outcome is known and stored.
    Answer(Response<Body>),
    /// The record stands as it stood, and this is what its caller is told (P17).
    Unstored(Response<Body>),
    /// Certainly not there: may be sent again under this fence.
    SendAgain(Fence),
    /// Still not known.
    Refuse(Code),
    /// Somebody else asked or wrote meanwhile: read the record again.
    Look,
}

impl Engine {
    /// Asks about the record, or joins or recalls a question about it, and writes down what was learned.
    pub(crate) async fn ask(&self, sight: &Sight, hook: &Hook, door: &Door, asker: Asker) -> Asked {
        let mut open = match self.inner.asks.turn(&sight.record, self.inner.settings.ask_interval) {
            Turn::Yours(open) => open,
            Turn::Recent(code) => return Asked::Refuse(code),
            Turn::Another(mut waits) => {
                // Ends with an error when the asker is done, which is all that is waited for.
                let _ = waits.changed().await;
                return Asked::Look;
            }
        };
        let asked = self.ask_now(sight, hook, door, asker).await;
        open.code = match &asked {
            Asked::Refuse(code) => Some(*code),
            Asked::SendAgain(_) => Some(Code::InProgress),
            Asked::Answer(_) | Asked::Unstored(_) | Asked::Look => None,
        };
        asked
    }

    async fn ask_now(&self, sight: &Sight, hook: &Hook, door: &Door, asker: Asker) -> Asked {
        let Sight { record, now: asked_at } = sight;
        let begun = Instant::now();
        let question = Question {
            realm: self.inner.realm.clone(),
            tenant: record.tenant.clone(),
            operation_id: record.id.operation_id(),
        };
        let recovered = self.question(question.clone(), hook).await;
        let verdict = match told(&recovered) {
            Ok(told) => {
                let promise = hook.promise_for(question).await;
                let now = asked_at.plus(begun.elapsed());
                recovery::read(record, told, *asked_at, &promise, self.timings().attempt(), now)
            }
            Err(held) => Verdict::Hold(held),
        };
        self.observe(Event::Recovered { verdict: word(verdict) });
        match (verdict, recovered) {
            (Verdict::Settle(fence), Recovered::Done(response)) => {
                self.settle_found(record, fence, response, door).await
            }
            (Verdict::Settle(fence), Recovered::Settles(settlement)) => {
                self.settle_by_hook(fence, settlement).await
            }
            (Verdict::StillPending { sighted }, _) => {
                self.note_answer(record, sighted, asker).await;
                Asked::Refuse(Code::OutcomePending)
            }
            (Verdict::SendAgain(fence), _) => {
                self.put_off(record, asker).await;
                Asked::SendAgain(fence)
            }
            (Verdict::Hold(held), _) => {
                let operation_id = record.id.operation_id();
                if self.inner.held.is_news(operation_id, held) {
                    tracing::error!(%operation_id, why = held.as_str(), "operation is held");
                }
                self.observe(Event::Alarmed { operation_id, held });
                self.put_off(record, asker).await;
                Asked::Refuse(Code::OutcomeUnknown)
            }
            (Verdict::CannotSay | Verdict::Settle(_), _) => {
                self.put_off(record, asker).await;
                Asked::Refuse(Code::OutcomeUnknown)
            }
        }
    }

    async fn question(&self, question: Question, hook: &Hook) -> Recovered {
        let operation_id = question.operation_id;
        let timings = self.timings();
        let limit = if timings.outside_timeout.is_zero() {
            timings.attempt_deadline()
        } else {
            timings.outside_timeout
        };
        match timeout(limit, caught(hook.recover(question))).await {
            Ok(Ok(recovered)) => recovered,
            Ok(Err(_panic)) => {
                tracing::error!(%operation_id, "recovery hook panicked");
                Recovered::CannotSay
            }
            Err(_) => Recovered::CannotSay,
        }
    }

    /// Finishes the record with the result found outside, and replays it.
    async fn settle_found(
        &self,
        record: &Record,
        fence: Fence,
        response: Response<Body>,
        door: &Door,
    ) -> Asked {
        let unknown = || Asked::Unstored(Problem::own_outcome_unknown().into_response());
        let Ok(gathered) = gather(response, door).await else { return unknown() };
        let status = gathered.response.status();
        let finish = Finish {
            conclusion: Conclusion::of_status(status.as_u16()),
            answer: self.seal(&record.tenant, &record.key, gathered.answer),
            response_ttl: self.timings().response_ttl,
            resource: None,
        };
        let swap = self.inner.store.swap(record.id, Some(fence), Change::Finish(finish));
        self.written(swap, (status.as_u16() < 400).then_some(gathered.response)).await
    }

    /// Lets the hook finish the record together with rows of its own.
    async fn settle_by_hook(&self, fence: Fence, settlement: Settlement) -> Asked {
        let is_positive = settlement.is_positive();
        let (swap, unstored) = settlement.write(fence);
        self.written(swap, is_positive.then_some(unstored)).await
    }

    /// Replays what was written. The truth is outside and can be asked for again, so a positive one is told as `positive`
    /// though it is not stored; a refusal is told only once it is (P17).
    async fn written(
        &self,
        swap: BoxFuture<'_, Result<Swap, StoreError>>,
        positive: Option<Response<Body>>,
    ) -> Asked {
        match (timeout(self.timings().store_timeout, swap).await, positive) {
            (Ok(Ok(Swap::Swapped { record, .. })), _) => {
                self.inner.waiters.wake(record.id);
                Asked::Answer(self.replay(&record, Ran::Another))
            }
            (Ok(Ok(Swap::Conflict { .. })), _) => Asked::Look,
            (Ok(Err(_)) | Err(_), Some(mut response)) => {
                mark(&mut response, Ran::Another, None);
                Asked::Unstored(response)
            }
            (Ok(Err(_)) | Err(_), None) => Asked::Unstored(Problem::own_outcome_unknown().into_response()),
        }
    }

    /// Notes an answer that settles nothing, where that is news.
    async fn note_answer(&self, record: &Record, sighted: bool, asker: Asker) {
        let is_pending = matches!(record.state, State::Unknown { cause: Cause::Pending, .. });
        if asker == Asker::Worker || is_pending || (sighted && !record.sighted) {
            self.write_answer(record, sighted).await;
        }
    }

    /// The worker's next question is put off; a caller's answer that says nothing new is not written.
    async fn put_off(&self, record: &Record, asker: Asker) {
        if asker == Asker::Worker {
            self.write_answer(record, false).await;
        }
    }

    async fn write_answer(&self, record: &Record, sighted: bool) {
        let after = ask_interval(record.asked(), self.timings().operation_timeout);
        let change = recovery::note(record, sighted, after);
        let swap = self.inner.store.swap(record.id, Some(record.fence), change);
        // Not noted, the same question is asked once more; nothing depends on it.
        if !matches!(timeout(self.timings().store_timeout, swap).await, Ok(Ok(_))) {
            tracing::debug!(id = %record.id, "answer of the outside system not noted");
        }
    }
}

fn told(recovered: &Recovered) -> Result<Told, Held> {
    Ok(match recovered {
        Recovered::Done(response) => Told::Done { positive: response.status().as_u16() < 400 },
        Recovered::Settles(settlement) => Told::Done { positive: settlement.is_positive() },
        Recovered::Pending => Told::Pending,
        Recovered::NotFound => Told::NotFound,
        Recovered::CannotSay => Told::CannotSay,
        Recovered::Held(held) => return Err(*held),
    })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Settle(_) => "settled",
        Verdict::StillPending { .. } => "pending",
        Verdict::SendAgain(_) => "send-again",
        Verdict::CannotSay => "cannot-say",
        Verdict::Hold(_) => "held",
    }
}
