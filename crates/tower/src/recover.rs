//! Recovery: finding out an unknown outcome by asking the outside system (P16).

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;

use http::Response;
use unavez_core::identity::{OperationId, Realm, Tenant};
use unavez_core::record::Fence;
pub use unavez_core::recovery::{Held, Promise};
use unavez_store::{BoxFuture, StoreError, Swap};

use crate::body::Body;

mod worker;

pub use worker::{Pass, RecoveryWorker};

/// A question to the outside system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The deployment.
    pub realm: Realm,
    /// Whose operation.
    pub tenant: Tenant,
    /// The operation, by the name that every attempt sent.
    pub operation_id: OperationId,
}

/// What the outside system said.
#[derive(Debug)]
pub enum Recovered {
    /// It knows the final result: the answer that the first attempt would have given. A status below 400 says that the
    /// operation took effect.
    Done(Response<Body>),
    /// It knows the operation and has not decided.
    Pending,
    /// It says, in its own defined way, that it does not know the operation. A status 404 of some gateway is not that.
    NotFound,
    /// It could not be asked, or its answer proves nothing.
    CannotSay,
    /// It knows the final result, and the hook writes that down itself, so that rows of its own commit with the record.
    Settles(Settlement),
    /// It cannot be asked at all, and nothing may be sent: the operation is held and alarmed.
    Held(Held),
}

/// A result found outside, and how it is written down.
pub struct Settlement {
    positive: bool,
    write: Box<dyn FnOnce(Fence) -> BoxFuture<'static, Result<Swap, StoreError>> + Send>,
    unstored: Response<Body>,
}

impl Settlement {
    /// `positive`: the operation took effect. `write` finishes the record that has this fence, in one commit with rows of
    /// the hook's own, and answers what became of it; it is not called where the result does not count (P16). `unstored`
    /// is the answer of a positive result that the store does not take just now.
    pub fn new(
        positive: bool,
        unstored: Response<Body>,
        write: impl FnOnce(Fence) -> BoxFuture<'static, Result<Swap, StoreError>> + Send + 'static,
    ) -> Self {
        Self { positive, write: Box::new(write), unstored }
    }

    pub(crate) const fn is_positive(&self) -> bool {
        self.positive
    }

    /// Writes it down; the second part is what a positive result is told as where that fails.
    pub(crate) fn write(
        self,
        fence: Fence,
    ) -> (BoxFuture<'static, Result<Swap, StoreError>>, Response<Body>) {
        ((self.write)(fence), self.unstored)
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settlement").field("positive", &self.positive).finish_non_exhaustive()
    }
}

/// How a route asks the outside system what became of an operation.
///
/// The same id must be sent by every attempt ([`Once::operation_id`](crate::Once::operation_id)), or "not found" means
/// nothing. With a [`RecoveryWorker`] the hook is also asked about operations of other routes in the same store; what it
/// does not know is [`Recovered::CannotSay`].
///
/// ```
/// use std::time::Duration;
/// use unavez_tower::recover::{Promise, Question, Recover, Recovered};
///
/// struct Acquirer;
///
/// impl Recover for Acquirer {
///     async fn recover(&self, question: Question) -> Recovered {
///         let _path = format!("/operations/{}", question.operation_id);
///         Recovered::CannotSay // … until the answer of the acquirer was read
///     }
///
///     fn promise(&self) -> Promise {
///         Promise {
///             visibility_delay: Duration::from_secs(30),
///             resend_window: Some(Duration::from_secs(24 * 3600)),
///         }
///     }
/// }
/// ```
pub trait Recover: Send + Sync + 'static {
    /// Asks. Must not have effects. Cut off after the outside timeout of the
    /// [`Timings`](unavez_core::timing::Timings), which counts as [`Recovered::CannotSay`].
    fn recover(&self, question: Question) -> impl Future<Output = Recovered> + Send;

    /// What the outside system promises: V, and how long it deduplicates.
    fn promise(&self) -> Promise;

    /// What it promises for one operation, where kinds of operations differ. By default [`Recover::promise`].
    fn promise_for(&self, question: Question) -> impl Future<Output = Promise> + Send {
        let _ = question;
        ready(self.promise())
    }
}

/// A [`Recover`] behind a pointer. Cheap to clone.
#[derive(Clone)]
pub struct Hook(Arc<dyn Erased>);

trait Erased: Send + Sync {
    fn recover(&self, question: Question) -> Pin<Box<dyn Future<Output = Recovered> + Send + '_>>;
    fn promise(&self) -> Promise;
    fn promise_for(&self, question: Question) -> Pin<Box<dyn Future<Output = Promise> + Send + '_>>;
}

impl<R: Recover> Erased for R {
    fn recover(&self, question: Question) -> Pin<Box<dyn Future<Output = Recovered> + Send + '_>> {
        Box::pin(Recover::recover(self, question))
    }

    fn promise(&self) -> Promise {
        Recover::promise(self)
    }

    fn promise_for(&self, question: Question) -> Pin<Box<dyn Future<Output = Promise> + Send + '_>> {
        Box::pin(Recover::promise_for(self, question))
    }
}

impl Hook {
    /// Wraps a hook.
    #[must_use]
    pub fn new(hook: impl Recover) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) async fn recover(&self, question: Question) -> Recovered {
        self.0.recover(question).await
    }

    pub(crate) async fn promise_for(&self, question: Question) -> Promise {
        self.0.promise_for(question).await
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("promise", &self.0.promise()).finish_non_exhaustive()
    }
}
