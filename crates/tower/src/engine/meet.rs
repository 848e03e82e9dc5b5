//! What a request is told when its key has a record already: core's decision, performed.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use tokio::time::{Instant, sleep_until, timeout};
use unavez_core::decision::{Decision, Incoming, decide};
use unavez_core::fingerprint::NotComparable;
use unavez_core::identity::RecordId;
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Fence, Record, State};
use unavez_core::time::Time;
use unavez_store::{StoreError, Swap};

use super::recovery::{Asked, Asker};
use super::{Engine, Kind};
use crate::answers::{Ran, mark_waited};
use crate::body::Body;
use crate::door::{Admitted, Ambiguous, Differs};
use crate::observe::Event;
use crate::problem::Problem;

/// What a request may do that met a record.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved once for each request; a box would cost an allocation")]
pub enum Met {
    /// Answer this; nothing is to be run.
    Answer(Response<Body>),
    /// Claim the key, naming what stands there: nothing, or a record whose promise is over.
    Claim(Option<Fence>),
    /// Run again under a new attempt, naming this fence; the same operation id is sent.
    TakeOver(Fence),
}

/// A record and the store's time at which it was read.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) record: Arc<Record>,
    pub(crate) now: Time,
}

/// One step of judging a record.
#[expect(clippy::large_enum_variant, reason = "moved once for each request; a box would cost an allocation")]
enum Judged {
    Met(Met),
    /// An attempt runs; the caller may wait for it.
    Running,
    /// A race was lost: judge what stands there now.
    Look(Sight),
    /// A race was lost, and nothing stands there any more.
    Nobody,
}

/// Each round is a lost race against a writer that got further, so a few are plenty.
const ROUNDS_MAX: usize = 8;

/// A waiter of another process's operation looks at the store at growing intervals, up to this.
const POLL_MAX: Duration = Duration::from_secs(2);

impl Engine {
    /// Judges a request whose key has `record`, read at the store's `now`: replays, refuses, asks the outside system,
    /// waits if the caller prefers that, or says that the request may run (P6, P10, P14, P16).
    ///
    /// Dropping the future stops waiting; a question or write that was begun may still have happened, and the next
    /// request finds out. No store trips for a replay or a refusal; one where a state is noted; one each poll of a
    /// waiter.
    pub async fn meet(&self, record: Arc<Record>, now: Time, admitted: &Admitted, kind: &Kind) -> Met {
        self.meet_while(Sight { record, now }, admitted, kind, pending()).await
    }

    /// As [`Engine::meet`]; a waiter leaves when `gone` is ready.
    pub(crate) async fn meet_while(
        &self,
        mut sight: Sight,
        admitted: &Admitted,
        kind: &Kind,
        gone: impl Future<Output = ()>,
    ) -> Met {
        for _ in 0..ROUNDS_MAX {
            match self.judge(&sight, admitted, kind).await {
                Judged::Met(met) => return met,
                Judged::Running => return Met::Answer(Box::pin(self.wait(admitted, kind, gone)).await),
                Judged::Look(next) => sight = next,
                Judged::Nobody => return Met::Claim(None),
            }
        }
        Met::Answer(restless().into_response())
    }

    /// Answers a request whose body is invalid: it claims nothing, but an existing record wins (P7). `problem` is what
    /// it is told where there is none. One store trip.
    pub async fn refuse_invalid(&self, admitted: &Admitted, kind: &Kind, problem: Problem) -> Response<Body> {
        match self.look(admitted.id()).await {
            Ok(Some(sight)) => match self.meet(sight.record, sight.now, admitted, kind).await {
                Met::Answer(response) => response,
                Met::Claim(_) => problem.into_response(),
                // The same request was accepted once, and its outcome is not known: it must not hear "refused".
                Met::TakeOver(_) => {
                    self.with_status(Problem::new(Code::OutcomeUnknown), admitted).into_response()
                }
            },
            Ok(None) => problem.into_response(),
            Err(error) => unavailable(&error).into_response(),
        }
    }

    /// Answers a request whose body is ambiguous: 422 where its key has a record, since no such body ever claimed one,
    /// and 400 where it has none (P5, P7). One store trip.
    pub async fn refuse_ambiguous(&self, request: Ambiguous) -> Response<Body> {
        match self.look(request.id).await {
            Ok(Some(Sight { record, now })) if !record.is_expired(now) => {
                if record.tenant != request.tenant || record.key != request.key {
                    return collision(&record).into_response();
                }
                let names =
                    if request.differs == Differs::Named { vec![":body".to_owned()] } else { Vec::new() };
                reused(names).into_response()
            }
            Ok(_) => request.problem.into_response(),
            Err(error) => unavailable(&error).into_response(),
        }
    }

    async fn judge(&self, sight: &Sight, admitted: &Admitted, kind: &Kind) -> Judged {
        let record = &sight.record;
        let operation_timeout = self.timings().operation_timeout;
        let decision = match self.decide(sight, admitted, kind) {
            Ok(decision) => decision,
            Err(problem) => return Judged::answer(problem),
        };
        match decision {
            Decision::Replay => Judged::Met(Met::Answer(self.replay(record, Ran::Another))),
            Decision::RefuseInProgress => Judged::Running,
            Decision::ClaimExpired(fence) => Judged::Met(Met::Claim(Some(fence))),
            Decision::TakeOver(fence) => Judged::Met(Met::TakeOver(fence)),
            Decision::Ask(_) => Box::pin(self.judge_by_asking(sight, admitted, kind)).await,
            Decision::MarkUnknown(_) => {
                let change = Change::MarkUnknown { cause: Cause::CutOff, ask_after: operation_timeout };
                self.note(record, change, self.refuse(admitted, Code::OutcomeUnknown)).await
            }
            Decision::Abandon(_) => {
                self.note(
                    record,
                    Change::Abandon,
                    Judged::answer(self.with_status(Problem::abandoned(), admitted)),
                )
                .await
            }
            Decision::StampDeadline(_) => {
                self.note(record, Change::StampDeadline { operation_timeout }, Judged::Running).await
            }
            Decision::RefuseReused(names) => Judged::answer(reused(names)),
            Decision::RefusePending => self.refuse(admitted, Code::OutcomePending),
            Decision::RefuseUnknown => self.refuse(admitted, Code::OutcomeUnknown),
            Decision::RefuseAbandoned => Judged::answer(self.with_status(Problem::abandoned(), admitted)),
        }
    }

    fn decide(&self, sight: &Sight, admitted: &Admitted, kind: &Kind) -> Result<Decision, Problem> {
        let Sight { record, now } = sight;
        if record.tenant != *admitted.tenant() || record.key != *admitted.key() {
            return Err(collision(record));
        }
        let fingerprint = match admitted.fingerprint_like(&record.fingerprint) {
            Ok(fingerprint) => fingerprint,
            Err(_) if record.is_expired(*now) => return Ok(Decision::ClaimExpired(record.fence)),
            Err(error) => return Err(not_comparable(record, &error)),
        };
        let incoming = Incoming {
            fingerprint: &fingerprint,
            effect: kind.effect(),
            response_ttl: self.timings().response_ttl,
        };
        Ok(decide(record, &incoming, *now))
    }

    async fn judge_by_asking(&self, sight: &Sight, admitted: &Admitted, kind: &Kind) -> Judged {
        let Some(hook) = kind.hook() else {
            return self.refuse(admitted, Code::OutcomeUnknown);
        };
        match self.ask(sight, hook, admitted.door(), Asker::Caller).await {
            Asked::Answer(response) | Asked::Unstored(response) => Judged::Met(Met::Answer(response)),
            Asked::SendAgain(fence) => Judged::Met(Met::TakeOver(fence)),
            Asked::Refuse(code) => self.refuse(admitted, code),
            Asked::Look => match self.look(admitted.id()).await {
                Ok(Some(sight)) => Judged::Look(sight),
                Ok(None) => Judged::Nobody,
                Err(error) => Judged::answer(unavailable(&error)),
            },
        }
    }

    /// Notes a state that the reader saw first, and goes on as `seen` says. Should the store not take it, that is true all
    /// the same, and the next reader will note it.
    async fn note(&self, record: &Record, change: Change, seen: Judged) -> Judged {
        let name = change.name();
        let swap = self.inner.store.swap(record.id, Some(record.fence), change);
        match timeout(self.timings().store_timeout, swap).await {
            Ok(Ok(Swap::Conflict { record: Some(record), now })) => {
                return Judged::Look(Sight { record, now });
            }
            Ok(Ok(Swap::Conflict { record: None, .. })) => return Judged::Nobody,
            Ok(Ok(Swap::Swapped { record, .. })) => {
                if let State::Unknown { cause, .. } = record.state {
                    self.observe(Event::OutcomeUnknown { cause });
                }
                self.inner.waiters.wake(record.id);
            }
            Ok(Err(error)) => tracing::warn!(id = %record.id, change = name, %error, "state not noted"),
            Err(_) => tracing::warn!(id = %record.id, change = name, "state not noted in time"),
        }
        seen
    }

    /// Reads a record within the store timeout.
    pub(crate) async fn look(&self, id: RecordId) -> Result<Option<Sight>, StoreError> {
        let loaded =
            timeout(self.timings().store_timeout, self.inner.store.load(id)).await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable("load took longer than the store timeout".into()))
            })?;
        Ok(loaded.record.map(|record| Sight { record, now: loaded.now }))
    }

    /// Waits for a running operation as long as its caller prefers, then answers; never claims (P10).
    async fn wait(&self, admitted: &Admitted, kind: &Kind, gone: impl Future<Output = ()>) -> Response<Body> {
        let in_progress = || Problem::new(Code::InProgress).into_response();
        let Some(limit) = admitted.prefer_wait() else { return in_progress() };
        let Some(_permit) = self.inner.waiting.enter(admitted.tenant()) else { return in_progress() };
        let mut gone = pin!(gone);
        let end = Instant::now() + limit;
        let waiter = self.inner.waiters.wait(admitted.id());
        let mut poll = self.inner.settings.poll_interval;
        loop {
            // Enabled before the look, so that a finish between the two is not missed.
            let mut woken = pin!(waiter.notify.notified());
            woken.as_mut().enable();
            // A store that fails now may answer at the next look.
            if let Ok(Some(mut response)) = self.look_in(admitted, kind).await {
                mark_waited(&mut response, limit.as_secs());
                return response;
            }
            tokio::select! {
                () = &mut woken => {}
                () = sleep_until((Instant::now() + poll).min(end)) => poll = (poll * 2).min(POLL_MAX),
                () = &mut gone => return in_progress(),
            }
            if Instant::now() >= end {
                return match self.look_in(admitted, kind).await {
                    Ok(response) => response.unwrap_or_else(in_progress),
                    Err(error) => unavailable(&error).into_response(),
                };
            }
        }
    }

    /// What a waiter is told about the record as it is now; `None`: wait on.
    async fn look_in(&self, admitted: &Admitted, kind: &Kind) -> Result<Option<Response<Body>>, StoreError> {
        let Some(sight) = self.look(admitted.id()).await? else {
            // Released: the key is free, but a waiter claims nothing.
            return Ok(Some(Problem::new(Code::InProgress).into_response()));
        };
        let decision = match self.decide(&sight, admitted, kind) {
            Ok(decision) => decision,
            Err(problem) => return Ok(Some(problem.into_response())),
        };
        let problem = match decision {
            Decision::Replay => return Ok(Some(self.replay(&sight.record, Ran::Another))),
            Decision::RefuseInProgress | Decision::StampDeadline(_) => return Ok(None),
            Decision::RefuseReused(names) => reused(names),
            Decision::RefusePending => Problem::new(Code::OutcomePending),
            Decision::RefuseUnknown => Problem::new(Code::OutcomeUnknown),
            Decision::RefuseAbandoned => Problem::abandoned(),
            // To be noted, asked about or run again: by a caller that does not only wait.
            _ if matches!(sight.record.state, State::Unknown { .. }) => Problem::new(Code::OutcomeUnknown),
            _ => Problem::new(Code::InProgress),
        };
        Ok(Some(self.with_status(problem, admitted).into_response()))
    }

    fn refuse(&self, admitted: &Admitted, code: Code) -> Judged {
        Judged::answer(self.with_status(Problem::new(code), admitted))
    }

    /// With the path of the key's state, where the outcome is open and the service has such a path.
    fn with_status(&self, problem: Problem, admitted: &Admitted) -> Problem {
        match (problem.code(), self.inner.settings.key_status) {
            (Code::OutcomePending | Code::OutcomeUnknown, Some(path)) => {
                problem.with_key_status(path(admitted.key()))
            }
            _ => problem,
        }
    }
}

impl Judged {
    fn answer(problem: Problem) -> Self {
        Self::Met(Met::Answer(problem.into_response()))
    }
}

/// 422: `differs` names what differs, where names are kept (P6, P23).
fn reused(names: Vec<String>) -> Problem {
    let problem = Problem::new(Code::KeyReused);
    if names.is_empty() { problem } else { problem.with_differs(names) }
}

/// Two keys with one 128-bit hash: an attack or a damaged store. Neither may see the other (P4).
fn collision(record: &Record) -> Problem {
    tracing::error!(id = %record.id, "record belongs to another tenant or key");
    Problem::new(Code::Internal)
}

/// Without a comparison nothing may be replayed: the request could be another one.
fn not_comparable(record: &Record, error: &NotComparable) -> Problem {
    if let NotComparable::Ambiguous(ambiguous) = error {
        return Problem::new(Code::BodyAmbiguous).with_detail(ambiguous.to_string());
    }
    tracing::error!(id = %record.id, ?error, "stored fingerprint cannot be compared");
    Problem::new(Code::Internal).with_detail("the stored fingerprint cannot be compared")
}

/// What a caller is told of a store that did not do what was asked, when nothing was run.
pub(crate) fn unavailable(error: &StoreError) -> Problem {
    match error {
        StoreError::Overloaded { .. } => Problem::new(Code::Overloaded),
        StoreError::Collision(id) => {
            tracing::error!(%id, "record belongs to another tenant or key");
            Problem::new(Code::Internal)
        }
        error => {
            tracing::warn!(%error, "store did not answer");
            // Not the error's text: any store can stand below, and what its errors name is not for callers.
            Problem::new(Code::StoreUnavailable).with_detail("the store failed before the operation began")
        }
    }
}

/// What a caller is told whose claim the store did not acknowledge in time.
pub(crate) fn late() -> Problem {
    Problem::new(Code::StoreUnavailable).with_detail("the store did not answer in time")
}

/// What a caller is told whose record was another one at each look.
pub(crate) fn restless() -> Problem {
    Problem::new(Code::StoreUnavailable).with_detail("the key's record changed too often")
}
