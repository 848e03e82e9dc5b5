//! Carrying an operation out, in a task of its own (P12), from T1 to T2.

use std::sync::Arc;

use http::Response;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use unavez_core::identity::RecordId;
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Claim, Exposure, Fence, Record, State};
use unavez_store::sqlite::{WriteTx, swap_in};
use unavez_store::{StoreError, Swap};
use unavez_tower::answers::Ran;
use unavez_tower::body::Body;
use unavez_tower::door::Admitted;
use unavez_tower::engine::{self, Met, Settled, Stopwatch};
use unavez_tower::headers::ORIGINAL_REQUEST_ID;
use unavez_tower::problem::Problem;

use super::begin::{Attempt, Begin, Begun, Claiming, Entry, Task};
use super::ending::{Conclusion, Course, Ending};
use super::forgotten::First;
use super::note::Happened;
use super::settle::Heeded;
use super::{Halt, Outside};
use crate::acquirer::{Answer, Kind, Reason, Standing};
use crate::books::operations;
use crate::books::{EventKind, OperationStanding};
use crate::crash::{self, Point};
use crate::http::post::{self, Stage};
use crate::http::told;
use crate::metrics::Route;
use crate::outage;
use crate::request_id::RequestId;

/// Lost races against other writers of the record; each got further, so few are plenty.
const ROUNDS_MAX: usize = 8;

/// A request that may claim its key, and what it wants done.
pub(crate) struct Errand {
    pub(crate) outside: Arc<Outside>,
    pub(crate) kind: engine::Kind,
    pub(crate) admitted: Admitted,
    pub(crate) task: Task,
    pub(crate) request_id: RequestId,
    pub(crate) route: Route,
}

/// The way back to the caller, who may be gone. The first answer counts.
struct Reply(Option<oneshot::Sender<Response<Body>>>);

impl Reply {
    fn send(&mut self, response: impl Into<Response<Body>>) {
        if let Some(sender) = self.0.take() {
            // A caller that hung up needs no answer.
            let _ = sender.send(response.into());
        }
    }
}

impl Errand {
    /// Carries it out, whatever becomes of the caller.
    ///
    /// # Errors
    /// 503 `overloaded`: nothing was begun.
    pub(crate) async fn run(self) -> Result<Response<Body>, Problem> {
        let engine = self.outside.engine.clone();
        let permit = engine.enter(self.admitted.tenant())?;
        let tracked = engine.track();
        let (sender, answer) = oneshot::channel();
        tokio::spawn(async move {
            self.carry_out(Reply(Some(sender))).await;
            drop((permit, tracked));
        });
        // The task ends without an answer only by a panic: what it had sent is asked about.
        Ok(answer.await.unwrap_or_else(|_| Problem::own_outcome_unknown().into_response()))
    }

    async fn carry_out(self, mut reply: Reply) {
        let Self { outside, kind, admitted, task, request_id, route } = self;
        let claiming = Claiming {
            outside: Arc::clone(&outside),
            id: admitted.id(),
            task: Arc::new(task),
            fingerprint: admitted.fingerprint().encode(),
            request_id,
        };
        let Some(started) = begin(&claiming, &admitted, &kind, &mut reply).await else { return };
        outside.metrics.executed(route);
        outside.carry(started, request_id, reply).await;
    }
}

/// An attempt and the clock of its owner.
struct Started {
    attempt: Box<Attempt>,
    stopwatch: Stopwatch,
}

/// How the next T1 enters the record.
#[derive(Clone, Copy)]
enum Next {
    Claim(Option<Fence>),
    TakeOver(Fence),
}

/// Claims the key, or answers the caller. `None`: answered.
async fn begin(
    claiming: &Claiming,
    admitted: &Admitted,
    kind: &engine::Kind,
    reply: &mut Reply,
) -> Option<Started> {
    // A task is allocated as large as its largest part: what is rare is boxed apart.
    let engine = &claiming.outside.engine;
    let mut next = Next::Claim(None);
    for _ in 0..ROUNDS_MAX {
        // Before the claim is sent, so that the owner's end comes before the one that the store records (P13).
        let stopwatch = Stopwatch::start(engine.timings().attempt_deadline());
        let begun = match begin_once(claiming, admitted, next, stopwatch, reply).await {
            Ok(begun) => begun,
            Err(problem) => {
                reply.send(problem);
                return None;
            }
        };
        next = match begun {
            Begun::Sends(attempt) => return Some(Started { attempt, stopwatch }),
            Begun::Met(None, _) => Next::Claim(None),
            Begun::Met(Some(record), now) => match Box::pin(engine.meet(record, now, admitted, kind)).await {
                Met::Claim(expected) => Next::Claim(expected),
                Met::TakeOver(fence) => Next::TakeOver(fence),
                Met::Answer(response) => {
                    reply.send(response);
                    return None;
                }
            },
            other => {
                reply.send(Box::pin(claiming.outside.told_at_once(other, admitted, kind)).await);
                return None;
            }
        };
    }
    reply.send(Problem::new(Code::StoreUnavailable).with_detail("the key's record changed too often"));
    None
}

/// One T1. The caller is not kept waiting for a store that does not answer; a claim that happens all the same is owned by
/// this task, and is carried out.
async fn begin_once(
    claiming: &Claiming,
    admitted: &Admitted,
    next: Next,
    stopwatch: Stopwatch,
    reply: &mut Reply,
) -> Result<Begun, Problem> {
    let timings = *claiming.outside.engine.timings();
    let stage = Arc::new(Stage::default());
    let entry = claiming.outside.entry(admitted, next);
    let begin = Begin { entry, claiming: claiming.clone(), stage: Arc::clone(&stage) };
    crash::reached(Point::BeforeClaim);
    let mut commit = Box::pin(begin.run());
    let committed = match timeout(timings.store_timeout, &mut commit).await {
        Ok(committed) => committed,
        Err(_) if stage.withdraw() => {
            return Err(Problem::new(Code::StoreUnavailable)
                .with_detail(format!("the store did not begin within {:?}", timings.store_timeout)));
        }
        Err(_) => {
            reply.send(post::in_doubt(admitted.key()));
            stopwatch
                .run(commit)
                .await
                .unwrap_or_else(|| Err(StoreError::InDoubt("cut off at the attempt's deadline".into())))
        }
    };
    // In doubt, nothing is sent: should the claim stand, it is asked about once its time is over (P12).
    committed.inspect(|_| outage::answered()).map_err(|error| post::not_committed(admitted.key(), &error))
}

impl Outside {
    fn entry(&self, admitted: &Admitted, next: Next) -> Entry {
        let (attempt, timing) = (self.engine.new_attempt(), self.engine.timings().attempt());
        match next {
            Next::TakeOver(fence) => Entry::TakeOver(fence, Change::TakeOver { attempt, timing }),
            Next::Claim(expected) => {
                let claim = Claim {
                    tenant: admitted.tenant().clone(),
                    key: admitted.key().clone(),
                    fingerprint: admitted.fingerprint().clone(),
                    attempt,
                    timing,
                    exposure: Exposure::MayBeSent,
                };
                Entry::Claim(expected, claim)
            }
        }
    }

    /// The answer to a request that has nothing to send.
    async fn told_at_once(&self, begun: Begun, admitted: &Admitted, kind: &engine::Kind) -> Response<Body> {
        match begun {
            Begun::Refused(record, code) => {
                let mut response = self.first_answer(&record);
                response.extensions_mut().insert(code);
                response
            }
            Begun::Settled(record) => {
                self.engine.notify(record.id.operation_id());
                self.engine.replay(&record, Ran::Another)
            }
            Begun::Sighted(record) => post::in_doubt(&record.key).into_response(),
            Begun::Pending(attempt) => post::first_of(&told::pending(&attempt.operation, &attempt.charge)),
            Begun::Past(past) => {
                let now = self.store.clock().now();
                post::answer_past(&self.engine, *past, admitted, kind, now).await.unwrap_or_else(Into::into)
            }
            Begun::NotNow(problem) => problem.into_response(),
            Begun::Withdrawn | Begun::Sends(_) | Begun::Met(..) => {
                Problem::own_outcome_unknown().into_response()
            }
        }
    }

    /// The stored answer, given to the request that made it.
    fn first_answer(&self, record: &Record) -> Response<Body> {
        let mut response = self.engine.replay(record, Ran::Itself);
        response.headers_mut().remove(ORIGINAL_REQUEST_ID);
        response
    }

    /// Sends, and writes down what came of it.
    async fn carry(self: &Arc<Self>, started: Started, request_id: RequestId, reply: Reply) {
        crash::reached(Point::AfterClaim);
        let Started { mut attempt, stopwatch } = started;
        let sent_at = self.now();
        let (answer, course) = match (self.ask_first(&mut attempt).await, attempt.rival) {
            (First::Answered(known), _) => (known, Course::Asked(sent_at)),
            (First::NotThere, None) => (self.send(&attempt, stopwatch).await, Course::AskedThenSent(sent_at)),
            (First::NotAsked, None) => (self.send(&attempt, stopwatch).await, Course::Sent),
            (first, Some(_)) => {
                let course = first.course_of_a_send(sent_at);
                (Answer::NotSent(Reason("the order has a charge under another key".into())), course)
            }
        };
        let ending =
            Ending::read(answer, &attempt.operation, attempt.record.attempts, self.acquirer.account());
        let conclusion = Arc::new(Conclusion { attempt: *attempt, ending, course, sent_at, request_id });
        conclusion.say_unknown();
        self.conclude(conclusion, stopwatch, reply).await;
    }

    async fn send(&self, attempt: &Attempt, stopwatch: Stopwatch) -> Answer {
        if stopwatch.is_over() {
            return Answer::NotSent(Reason("the attempt's time was over before it was sent".into()));
        }
        let limit = self.engine.timings().outside_timeout;
        let subject = attempt.operation.subject();
        crash::reached(Point::BeforeSend);
        let call = timeout(limit, self.acquirer.send(&subject, &attempt.outgoing));
        let late = |what: String| Answer::CannotSay(Reason(what.into()));
        let answered = stopwatch.run(call).await;
        crash::reached(Point::AfterSend);
        let answer = match answered {
            Some(Ok(answer)) => answer.within_limits(),
            Some(Err(_)) => late(format!("no answer within {limit:?}")),
            None => late("stopped at the attempt's deadline".to_owned()),
        };
        self.presence.heard(self.acquirer.account(), &answer);
        answer
    }

    async fn conclude(self: &Arc<Self>, conclusion: Arc<Conclusion>, stopwatch: Stopwatch, mut reply: Reply) {
        let record = &conclusion.attempt.record;
        let until =
            Instant::now() + self.engine.timings().operation_timeout.saturating_sub(stopwatch.elapsed());
        let write = || self.write(Arc::clone(&conclusion));
        let late = || reply.send(conclusion.unstored());
        let ending = conclusion.ending.in_words();
        let settled = self.engine.persist_by(record.id, record.fence, ending, write, until, late).await;
        crash::reached(Point::AfterFinish);
        match settled {
            Settled::Stored { record } => reply.send(self.stored(&conclusion, &record)),
            Settled::Seen { record, in_doubt: false } => reply.send(self.truth(&record, Ran::Itself)),
            // A write in doubt that can be seen is not yet a write that is safe.
            Settled::Seen { in_doubt: true, .. } | Settled::Released | Settled::Lost => {
                reply.send(conclusion.unstored());
            }
            Settled::Overtaken { record } => {
                Box::pin(self.heed_overtaken(&conclusion)).await;
                reply.send(match record {
                    Some(record) => self.truth(&record, Ran::Another),
                    None => Problem::own_outcome_unknown().into_response(),
                });
            }
        }
    }

    /// One try of T2.
    fn write<'a>(
        self: &Arc<Self>,
        conclusion: Arc<Conclusion>,
    ) -> unavez_store::BoxFuture<'a, Result<Swap, StoreError>> {
        let outside = Arc::clone(self);
        Box::pin(async move {
            let desk = Arc::clone(&outside);
            outside.transaction(move |tx| desk.conclude_in(tx, &conclusion)).await
        })
    }

    fn conclude_in(&self, tx: &WriteTx<'_>, conclusion: &Conclusion) -> Result<Swap, Halt> {
        crash::reached(Point::BeforeFinish);
        let Conclusion { attempt, ending, .. } = conclusion;
        let swap = match ending {
            Ending::Settles(definite, report) => {
                let fence = attempt.record.fence;
                self.settle_in(tx, &attempt.operation, fence, (*definite, report), conclusion.hearing())?
            }
            other => {
                let change = self.change(other, self.is_sighted_in(tx, attempt.record.id)?);
                let swap = swap_in(tx, attempt.record.id, Some(attempt.record.fence), change)?;
                if let Swap::Swapped { record, .. } = &swap {
                    self.note_in(tx, conclusion, record)?;
                }
                swap
            }
        };
        if let Swap::Swapped { .. } = &swap {
            self.course_in(tx, conclusion)?;
        }
        crash::reached(Point::DuringFinish);
        Ok(swap)
    }

    /// What was done to come to the ending: asked, sent, or both. A send whose answer settled it is told by the
    /// operation's row.
    fn course_in(&self, tx: &WriteTx<'_>, conclusion: &Conclusion) -> rusqlite::Result<()> {
        let Conclusion { attempt, sent_at, ending, .. } = conclusion;
        let row = attempt.operation.row;
        if let Some((asked_at, detail)) = conclusion.asked_first() {
            let asked = conclusion.happened(EventKind::Asked, &attempt.record);
            self.happened_in(tx, row, asked_at, Happened { detail: Some(&detail), ..asked })?;
        }
        let is_told = matches!(ending, Ending::Settles(..)) && conclusion.hearing().sent_at().is_some();
        if conclusion.was_sent() && !is_told {
            self.happened_in(tx, row, *sent_at, conclusion.happened(EventKind::Sent, &attempt.record))?;
        }
        Ok(())
    }

    /// Whether something was heard of the operation while its attempt ran: its row remembers that.
    fn is_sighted_in(&self, tx: &WriteTx<'_>, id: RecordId) -> rusqlite::Result<bool> {
        let operation = operations::find(tx, &self.places, id)?;
        Ok(operation.is_some_and(|it| it.standing == OperationStanding::Pending))
    }

    /// What an ending that settles nothing does to the record. What was sighted meanwhile was sent by somebody, even if
    /// this attempt sent nothing: it is not released.
    fn change(&self, ending: &Ending, is_sighted: bool) -> Change {
        let ask_after = self.engine.timings().operation_timeout;
        match ending {
            Ending::Released(_) if !is_sighted => Change::Release,
            ending if is_sighted || ending.is_sighting() => {
                Change::MarkUnknown { cause: Cause::Pending, ask_after }
            }
            _ => Change::MarkUnknown { cause: Cause::CutOff, ask_after },
        }
    }

    fn note_in(&self, tx: &WriteTx<'_>, conclusion: &Conclusion, record: &Record) -> Result<(), Halt> {
        let now = tx.now();
        // An event may have told something meanwhile.
        let operation =
            operations::find(tx, &self.places, record.id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let kind = match &conclusion.ending {
            Ending::Released(_) if operation.standing != OperationStanding::Pending => {
                self.release_in(tx, &operation)?;
                EventKind::Released
            }
            Ending::Pending(report) | Ending::Sighted(report) => {
                self.pend_in(tx, &operation, report)?;
                EventKind::Answered
            }
            ending => {
                if operation.standing == OperationStanding::Open {
                    operations::update(
                        tx,
                        operation.row,
                        operations::Change::to(OperationStanding::Unknown),
                        now,
                    )?;
                }
                if let Ending::Disagrees(mismatch) = ending {
                    self.mismatch_in(tx, &operation, now, conclusion.hearing(), mismatch)?;
                }
                EventKind::Answered
            }
        };
        // Where nothing was sent there is no answer to a send: the question tells of itself.
        if !matches!(conclusion.course, Course::Asked(_)) {
            let detail = conclusion.ending.detail();
            let happened = Happened { detail: Some(&detail), ..conclusion.happened(kind, record) };
            self.happened_in(tx, operation.row, now, happened)?;
        }
        Ok(())
    }

    /// An answer that came too late to settle anything can still be a truth against what did (P27).
    async fn heed_overtaken(self: &Arc<Self>, conclusion: &Conclusion) {
        let Ending::Settles(definite, report) = conclusion.ending.clone() else { return };
        let (id, hearing, outside) =
            (conclusion.attempt.record.id, conclusion.late_hearing(), Arc::clone(self));
        let standing = if definite.is_positive() { Standing::Done } else { Standing::Declined };
        let heeded = self.transaction(move |tx| {
            let operation =
                operations::find(tx, &outside.places, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            outside.heed_in(tx, &operation, (standing, &report), hearing)
        });
        match heeded.await {
            Ok(Heeded::Settled) => self.engine.notify(id.operation_id()),
            Ok(_) => {}
            Err(error) => tracing::warn!(%id, %error, "late answer not heeded; a question will tell"),
        }
    }

    /// The answer of an ending that is stored.
    fn stored(&self, conclusion: &Conclusion, record: &Record) -> Response<Body> {
        let Ending::Settles(definite, _) = &conclusion.ending else { return conclusion.unstored() };
        let mut response = self.first_answer(record);
        if !definite.is_positive() {
            response.extensions_mut().insert(Code::ChargeDeclined);
        } else if let (Kind::Payment, Some(first)) =
            (conclusion.attempt.operation.kind, conclusion.attempt.charge.suspected_duplicate_of)
        {
            // Counted with the charge alone: what gives a duplicate back is none.
            self.metrics.suspect_duplicate();
            let (key, charge) = (record.key.log_hash(), conclusion.attempt.charge.id);
            tracing::warn!(%key, %charge, %first, "order was charged before under another key");
        }
        response
    }

    /// What the record says to its owner, or to one that was overtaken (P11).
    fn truth(&self, record: &Record, ran: Ran) -> Response<Body> {
        match (&record.state, ran) {
            (State::Finished { .. }, Ran::Itself) => self.first_answer(record),
            (State::Finished { .. }, Ran::Another) => self.engine.replay(record, ran),
            (State::InProgress { .. }, Ran::Another) => Problem::new(Code::InProgress).into_response(),
            _ => Problem::own_outcome_unknown().into_response(),
        }
    }
}
