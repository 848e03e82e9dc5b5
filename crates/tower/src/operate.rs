//! One operation, from its claim to its stored outcome, in a task of its own (P12).

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::{Request, Response};
use http_body::Body as HttpBody;
use tokio::time::Instant;
use tower::Service;
use unavez_core::answer::{Conclusion, Content, NotKept};
use unavez_core::outcome::{self, Effect, Ended, Outcome, Said};
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Finish, Record, State};

use crate::answers::{Ran, mark};
use crate::body::{Body, BoxError};
use crate::caught::caught;
use crate::door::{Admitted, Door};
use crate::engine::{Attempt, Engine, Kind, Reply, Settled, Sight};
use crate::gather::{Gathered, gather};
use crate::headers::{IDEMPOTENCY_OUTCOME, strip_marks};
use crate::observe::Event;
use crate::once::{Mark, Once, Written};
use crate::problem::Problem;

/// Claims, runs and settles. Answers through `reply`, exactly once.
pub(crate) async fn operate<S, B>(engine: Engine, kind: Kind, admitted: Admitted, inner: S, mut reply: Reply)
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let Some(attempt) = engine.claim(&admitted, &kind, &mut reply).await else { return };
    let door = admitted.door().clone();
    engine.observe(Event::Executed { route: door.route() });
    let once = Once::new(engine.clone(), attempt.clone());
    let run = Run { engine, kind, door, attempt, once };
    // Boxed, so that the tasks of replays and refusals, which end above, do not carry room for a run.
    Box::pin(run.all(inner, admitted, reply)).await;
}

/// A running attempt and what its end needs.
struct Run {
    engine: Engine,
    kind: Kind,
    door: Door,
    attempt: Attempt,
    once: Once,
}

impl Run {
    async fn all<S, B>(self, inner: S, admitted: Admitted, reply: Reply)
    where
        S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        match self.handler(inner, admitted).await {
            Ok(response) => self.settle_answer(response.map(Body::stream), reply).await,
            Err(ended) => self.settle_outcome(self.read(ended), self.problem_of(ended), reply).await,
        }
    }

    async fn handler<S, B>(&self, mut inner: S, admitted: Admitted) -> Result<Response<B>, Ended>
    where
        S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
    {
        let mut request = admitted.into_request();
        request.extensions_mut().insert(self.once.clone());
        // What is stored is identity-encoded (P18): whoever compresses stands outside and sees the caller's own header.
        request.headers_mut().remove(ACCEPT_ENCODING);
        let call = caught(async move { inner.call(request).await });
        match self.attempt.stopwatch.run(call).await {
            Some(Ok(Ok(response))) => Ok(response),
            Some(Ok(Err(never))) => match never {},
            Some(Err(_panic)) => {
                tracing::error!(operation_id = %self.attempt.operation_id(), "handler panicked");
                Err(Ended::Panicked)
            }
            None => {
                tracing::warn!(operation_id = %self.attempt.operation_id(), "attempt stopped at its deadline");
                Err(Ended::CutOff)
            }
        }
    }

    async fn settle_answer(&self, mut response: Response<Body>, mut reply: Reply) {
        let said = self.said(&mut response);
        strip_marks(response.headers_mut());
        let is_written = response.extensions_mut().remove::<Written>().is_some();
        let status = response.status().as_u16();
        if is_success(status) {
            match self.committed().await {
                Committed::Yes(record) => {
                    self.engine.notify(self.attempt.operation_id());
                    // Another success than the committed one would not be what a repeat gets.
                    let answer =
                        if is_written { expiring(response, &record) } else { self.own_truth(&record) };
                    return reply.send(answer);
                }
                // The store does not answer now. The handler says that it committed: a positive answer is given (P17).
                Committed::Unseen => {
                    self.engine.observe(Event::FinishLost { operation_id: self.attempt.operation_id() });
                    return reply.send(response);
                }
                Committed::No if self.kind.effect() == Effect::Transactional && !says_open(said) => {
                    return self.never_committed(reply).await;
                }
                Committed::No => {}
            }
        }
        let ended = said.map_or(Ended::Status(status), |said| Ended::Said(said, status));
        self.settle_outcome(self.read(ended), response, reply).await;
    }

    async fn settle_outcome(&self, outcome: Outcome, response: Response<Body>, reply: Reply) {
        match outcome {
            Outcome::Final(conclusion) => self.settle_final(conclusion, response, reply).await,
            Outcome::Released => self.write(Change::Release, response, reply).await,
            Outcome::Unknown(cause) => {
                self.engine.observe(Event::OutcomeUnknown { cause });
                let ask_after = self.engine.timings().operation_timeout;
                self.write(Change::MarkUnknown { cause, ask_after }, told_unknown(cause, response), reply)
                    .await;
            }
        }
    }

    /// Stores the outcome with its answer, then tells the caller. While it is not stored, a success is told all the same,
    /// and a refusal is not: a caller told "declined" moves on to a new key (P17).
    async fn settle_final(&self, conclusion: Conclusion, response: Response<Body>, mut reply: Reply) {
        let Gathered { answer, response } = match gather(response, &self.door).await {
            Ok(gathered) => gathered,
            Err(error) => {
                tracing::warn!(operation_id = %self.attempt.operation_id(), %error, "handler's body was cut off");
                let outcome = self.read(Ended::CutOff);
                return Box::pin(self.settle_outcome(outcome, self.problem_of(Ended::CutOff), reply)).await;
            }
        };
        let is_streamed = matches!(answer.content, Content::NotKept { why: NotKept::Streamed, .. });
        let record = &self.attempt.record;
        let finish = Finish {
            conclusion,
            answer: self.engine.seal(&record.tenant, &record.key, answer),
            response_ttl: self.engine.timings().response_ttl,
            resource: None,
        };
        let is_positive = is_success(response.status().as_u16());
        let mut answer = Some(response);
        let unstored = |answer: &mut Option<Response<Body>>| {
            answer.take_if(|_| is_positive).unwrap_or_else(|| Problem::own_outcome_unknown().into_response())
        };
        let late = || reply.send(unstored(&mut answer));
        match self.persist(Change::Finish(finish), late).await {
            Settled::Stored { record } => {
                let Some(response) = answer else { return };
                reply.send(if is_streamed { response } else { expiring(response, &record) });
            }
            // A write in doubt that can be seen is not yet a write that is safe.
            Settled::Seen { in_doubt: true, .. } | Settled::Released | Settled::Lost => {
                reply.send(unstored(&mut answer));
            }
            Settled::Seen { record, in_doubt: false } => reply.send(self.own_truth(&record)),
            Settled::Overtaken { record } => reply.send(self.truth(record.as_deref())),
        }
    }

    /// Writes an ending without an answer, then tells the caller.
    async fn write(&self, change: Change, response: Response<Body>, mut reply: Reply) {
        let mut answer = Some(response);
        let settled = self
            .persist(change, || {
                if let Some(response) = answer.take() {
                    reply.send(response);
                }
            })
            .await;
        match settled {
            Settled::Seen { record, in_doubt: false } => reply.send(self.own_truth(&record)),
            Settled::Overtaken { record } => reply.send(self.truth(record.as_deref())),
            Settled::Stored { .. } | Settled::Seen { .. } | Settled::Released | Settled::Lost => {
                if let Some(response) = answer {
                    reply.send(response);
                }
            }
        }
    }

    /// A success on a transactional route without a committed record is a fault of the program, found here rather than by
    /// the second charge (P14).
    async fn never_committed(&self, reply: Reply) {
        tracing::error!(
            operation_id = %self.attempt.operation_id(),
            route = self.door.route(),
            "handler of a transactional route answered a success that it never committed"
        );
        self.engine.observe(Event::NeverCommitted { route: self.door.route() });
        let problem = Problem::new(Code::Internal).with_detail("the operation was not committed");
        self.write(Change::Release, problem.into_response(), reply).await;
    }

    async fn persist(&self, change: Change, on_late: impl FnOnce()) -> Settled {
        let timeout = self.engine.timings().operation_timeout;
        let until = Instant::now() + timeout.saturating_sub(self.attempt.stopwatch.elapsed());
        self.engine.persist(self.attempt.record.id, self.attempt.record.fence, change, until, on_late).await
    }

    /// Whether the handler committed its outcome by itself.
    async fn committed(&self) -> Committed {
        match self.once.mark() {
            Mark::None => Committed::No,
            Mark::Committed(record) => Committed::Yes(record),
            Mark::InTransaction => match self.engine.look(self.attempt.record.id).await {
                Ok(Some(Sight { record, .. })) if self.finished_here(&record) => Committed::Yes(record),
                Ok(_) => Committed::No,
                Err(_) => Committed::Unseen,
            },
        }
    }

    fn finished_here(&self, record: &Record) -> bool {
        record.fence.attempt == self.attempt.record.fence.attempt
            && matches!(record.state, State::Finished { .. })
    }

    /// What the record says about an attempt that wrote it: this request ran it.
    fn own_truth(&self, record: &Record) -> Response<Body> {
        match record.state {
            State::Finished { .. } => self.engine.replay(record, Ran::Itself),
            _ => Problem::own_outcome_unknown().into_response(),
        }
    }

    /// What the record says to an owner that was overtaken (P11).
    fn truth(&self, record: Option<&Record>) -> Response<Body> {
        let problem = match record.map(|record| (&record.state, record)) {
            Some((_, record)) if !record.fingerprint.matches(&self.attempt.record.fingerprint) => {
                Problem::own_outcome_unknown()
            }
            Some((State::Finished { .. }, record)) => return self.engine.replay(record, Ran::Another),
            Some((State::InProgress { .. }, _)) => Problem::new(Code::InProgress),
            Some((State::Unknown { cause: Cause::Pending, .. }, _)) => Problem::new(Code::OutcomePending),
            Some((State::Abandoned { .. }, _)) => Problem::abandoned(),
            Some((State::Unknown { .. }, _)) | None => Problem::own_outcome_unknown(),
        };
        problem.into_response()
    }

    fn read(&self, ended: Ended) -> Outcome {
        outcome::read(ended, self.kind.effect(), self.attempt.record.attempts)
    }

    /// What the caller of an attempt without an answer is told.
    fn problem_of(&self, ended: Ended) -> Response<Body> {
        let problem = match (self.kind.effect(), ended) {
            (Effect::Transactional, Ended::CutOff) => Problem::new(Code::Internal)
                .with_detail("the attempt was stopped at its deadline; nothing took effect"),
            (Effect::Transactional, _) => Problem::new(Code::Internal),
            (Effect::Recoverable | Effect::Opaque(_), _) => Problem::own_outcome_unknown(),
        };
        problem.into_response()
    }

    /// What the handler says about its outcome: through `Once`, a response extension, or a header, in this order.
    fn said(&self, response: &mut Response<Body>) -> Option<Said> {
        let extension = response.extensions_mut().remove::<Said>();
        self.once.said().or(extension).or_else(|| {
            let word = response.headers().get(IDEMPOTENCY_OUTCOME)?.to_str().ok()?;
            let said = Said::parse(word);
            if said.is_none() {
                tracing::error!(route = self.door.route(), "handler said an outcome that does not exist");
            }
            said
        })
    }
}

/// Whether the handler's transaction holds its outcome for certain.
enum Committed {
    Yes(Arc<Record>),
    No,
    /// It may, and the store cannot be asked.
    Unseen,
}

const fn is_success(status: u16) -> bool {
    status < 400
}

/// Whether the handler says that its success is not one to be stored.
const fn says_open(said: Option<Said>) -> bool {
    matches!(said, Some(Said::Released | Said::Unknown | Said::Pending))
}

/// A caller whose outcome is unknown hears so with a 5xx: the handler's own, or else 504. A pending one is accepted.
fn told_unknown(cause: Cause, response: Response<Body>) -> Response<Body> {
    if cause == Cause::Pending || response.status().is_server_error() {
        return response;
    }
    Problem::own_outcome_unknown().into_response()
}

fn expiring(mut response: Response<Body>, record: &Record) -> Response<Body> {
    mark(&mut response, Ran::Itself, record.expires_at());
    response
}
