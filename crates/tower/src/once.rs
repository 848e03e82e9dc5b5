//! What an operation knows about itself, and how it says what became of it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use tokio::time::Instant;
use unavez_core::answer::Conclusion;
use unavez_core::identity::{OperationId, RecordId, Tenant};
pub use unavez_core::outcome::Said;
use unavez_core::record::{Fence, Finish, Record};

use crate::answers::keep;
use crate::body::{Body, BoxError};
use crate::engine::{Attempt, Engine};

#[cfg(feature = "axum")]
mod extract;
#[cfg(feature = "tokio-postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "sqlite")]
pub use sqlite::CommitError;

/// The running operation: a request extension on every covered request that has a key, and an axum extractor.
///
/// Cheap to clone; clones are the same operation.
#[derive(Clone)]
pub struct Once(Arc<Inner>);

struct Inner {
    engine: Engine,
    attempt: Attempt,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    said: Option<Said>,
    mark: Mark,
}

/// How far the finish inside the handler's transaction got.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mark {
    /// No finish was written by the handler.
    #[default]
    None,
    /// Written, but whether the transaction was committed is not known here.
    InTransaction,
    /// The commit was acknowledged; the record as it was written.
    Committed(Arc<Record>),
}

/// The attempt's time is over: nothing more may be sent by it (P13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineOver;

impl fmt::Display for DeadlineOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attempt's deadline is over, nothing more may be sent by it")
    }
}

impl std::error::Error for DeadlineOver {}

impl Once {
    pub(crate) fn new(engine: Engine, attempt: Attempt) -> Self {
        Self(Arc::new(Inner { engine, attempt, state: Mutex::default() }))
    }

    /// The operation's name at the outside system: the same on every attempt, so that it can be deduplicated and asked
    /// about there.
    #[must_use]
    pub fn operation_id(&self) -> OperationId {
        self.0.attempt.operation_id()
    }

    /// Whose operation it is.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.0.attempt.record.tenant
    }

    /// Which attempt of the operation this is, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt.record.attempts
    }

    /// How long this attempt may still run; zero when it is over.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        let stopwatch = &self.0.attempt.stopwatch;
        if stopwatch.is_over() {
            Duration::ZERO
        } else {
            stopwatch.end().saturating_duration_since(Instant::now())
        }
    }

    /// To be called just before something is sent outside: an attempt that is over must not send, since another one may
    /// have taken its place (P13).
    ///
    /// # Errors
    /// The attempt is over.
    pub fn check_deadline(&self) -> Result<(), DeadlineOver> {
        if self.0.attempt.stopwatch.is_over() { Err(DeadlineOver) } else { Ok(()) }
    }

    /// Says that nothing took effect and nothing was sent: the key is free again. Only the first attempt can know that;
    /// on a later one it counts as unknown (P15).
    pub fn released(&self) {
        self.lock().said = Some(Said::Released);
    }

    /// Says that nobody knows what became of the operation: it is asked about before anything runs again (P15).
    pub fn unknown(&self) {
        self.lock().said = Some(Said::Unknown);
    }

    /// Says that the outside system has accepted the operation and not decided yet. The answer, usually 202, goes to
    /// this caller alone; repeats get 409 `outcome-pending` (P15).
    pub fn pending(&self) {
        self.lock().said = Some(Said::Pending);
    }

    /// Writes the outcome inside the caller's own transaction, fenced by the record, so that business rows and answer
    /// commit together (P14). Return what comes of it from the handler.
    ///
    /// What `T::Output` is depends on the driver: for SQLite a result, for asynchronous drivers a future.
    ///
    /// If the transaction then rolls back, the outcome goes with it. A handler that answers a success without having
    /// committed one is answered 500.
    pub fn commit<T, B>(&self, tx: T, response: Response<B>) -> T::Output
    where
        T: FinishIn,
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        tx.finish_in(self.finishing(response))
    }

    /// Prepares the stored form of a response whose body is whole.
    fn finishing<B>(&self, response: Response<B>) -> Result<Finishing, NotWhole>
    where
        B: HttpBody<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (head, body) = response.into_parts();
        let body = whole(body)?;
        let Inner { engine, attempt, .. } = &*self.0;
        let finish = Finish {
            conclusion: Conclusion::of_status(head.status.as_u16()),
            answer: engine.seal(&attempt.record.tenant, &attempt.record.key, keep(&head, body.clone())),
            response_ttl: engine.timings().response_ttl,
            resource: None,
        };
        let response = Response::from_parts(head, Body::whole(body));
        Ok(Finishing { once: self.clone(), finish, response })
    }

    pub(crate) fn said(&self) -> Option<Said> {
        self.lock().said
    }

    pub(crate) fn mark(&self) -> Mark {
        self.lock().mark.clone()
    }

    fn set_mark(&self, mark: Mark) {
        self.lock().mark = mark;
    }

    /// Two plain values: nothing can be half written when a panic passes.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("operation_id", &self.operation_id()).finish_non_exhaustive()
    }
}

/// A transaction of some driver, in which the record can be finished.
///
/// Implemented for the transactions of the stores of this workspace; other drivers can follow.
pub trait FinishIn {
    /// A result, or a future of one.
    type Output;

    /// Finishes the record inside this transaction. A refusal must roll back everything the transaction did.
    fn finish_in(self, finishing: Result<Finishing, NotWhole>) -> Self::Output;
}

/// A finish on its way into a transaction.
#[derive(Debug)]
pub struct Finishing {
    once: Once,
    finish: Finish,
    response: Response<Body>,
}

impl Finishing {
    /// Names the record.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.once.operation_id().record_id()
    }

    /// Names the attempt. A record with another fence must be left alone, and the transaction rolled back (P11).
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.once.0.attempt.record.fence
    }

    /// What is to be written.
    #[must_use]
    pub const fn finish(&self) -> &Finish {
        &self.finish
    }

    /// Notes that the finish is part of a transaction which still has to commit. The engine looks whether it did before
    /// it passes a success on.
    #[must_use]
    pub fn in_transaction(self) -> Response<Body> {
        self.noted(Mark::InTransaction)
    }

    /// Notes that the transaction was committed with this record, and that the commit was acknowledged.
    #[must_use]
    pub fn committed(self, record: Arc<Record>) -> Response<Body> {
        self.noted(Mark::Committed(record))
    }

    fn noted(mut self, mark: Mark) -> Response<Body> {
        self.once.set_mark(mark);
        self.response.extensions_mut().insert(Written);
        self.response
    }
}

/// On the response that was written into the transaction: whatever else a handler answers is not the stored truth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written;

/// The body of a response to commit was not in memory: a transaction cannot wait for it.
#[derive(Debug)]
pub struct NotWhole(Option<BoxError>);

impl fmt::Display for NotWhole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(error) => write!(f, "body of the response failed: {error}"),
            None => f.write_str("body of the response is a stream, which a transaction cannot wait for"),
        }
    }
}

impl std::error::Error for NotWhole {}

/// The bytes of a body that is in memory already.
fn whole<B>(body: B) -> Result<Bytes, NotWhole>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    match pin!(body.collect()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(collected)) => Ok(collected.to_bytes()),
        Poll::Ready(Err(error)) => Err(NotWhole(Some(error.into()))),
        Poll::Pending => Err(NotWhole(None)),
    }
}
