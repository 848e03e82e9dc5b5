//! The worker: asks about operations whose callers do not come back (P16).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use unavez_store::StoreError;

use super::{Hook, Recover};
use crate::door::Door;
use crate::engine::{Asked, Asker, Engine, Sight};

/// Asks the outside system about every operation that is due, and settles what it learns. It has no callers, so it never
/// sends anything again.
///
/// One for each store and process; several processes may run one each, since the fence lets one answer win.
///
/// ```
/// # use unavez_tower::{IdempotencyLayer, MemoryStore, tenant};
/// # use unavez_tower::recover::{Promise, Question, Recover, RecoveryWorker, Recovered};
/// # struct Acquirer;
/// # impl Recover for Acquirer {
/// #     async fn recover(&self, _: Question) -> Recovered { Recovered::CannotSay }
/// #     fn promise(&self) -> Promise { Promise { visibility_delay: Default::default(), resend_window: None } }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
/// let worker = RecoveryWorker::new(layer.engine().clone(), Acquirer);
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let running = tokio::spawn(worker.run(async { drop(stopped.await) }));
/// # drop(stop);
/// # running.await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RecoveryWorker {
    engine: Engine,
    hook: Hook,
    door: Door,
    interval: Duration,
    batch: usize,
    questions_max: usize,
}

/// A question is mostly waiting, and outside systems limit how many may wait at once.
const QUESTIONS_MAX: usize = 16;

/// What one pass of the worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Records that were due.
    pub due: usize,
    /// Records whose outcome is known now.
    pub settled: usize,
}

impl RecoveryWorker {
    /// A worker that looks every second for up to 100 records.
    #[must_use]
    pub fn new(engine: Engine, hook: impl Recover) -> Self {
        Self {
            engine,
            hook: Hook::new(hook),
            door: Door::new(),
            interval: Duration::from_secs(1),
            batch: 100,
            questions_max: QUESTIONS_MAX,
        }
    }

    /// How recovered answers are kept: caps and redaction of this door.
    #[must_use]
    pub fn with_door(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    /// How long it rests after a pass that found little.
    #[must_use]
    pub const fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many questions are on their way at once.
    #[must_use]
    pub fn with_questions_max(mut self, questions: usize) -> Self {
        self.questions_max = questions.max(1);
        self
    }

    /// Works until `stop` is ready. A question that is on its way then is dropped; the next worker asks it again.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let full = tokio::select! {
                () = &mut stop => return,
                pass = self.pass() => match pass {
                    Ok(pass) => pass.due >= self.batch,
                    Err(error) => {
                        tracing::warn!(%error, "recovery could not read what is due");
                        false
                    }
                },
            };
            if !full {
                tokio::select! {
                    () = &mut stop => return,
                    () = sleep(self.interval) => {}
                }
            }
        }
    }

    /// Asks once about everything that is due. One store trip, and one for each record. Dropping the future drops the
    /// questions that are on their way.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn pass(&self) -> Result<Pass, StoreError> {
        let due = timeout(self.engine.timings().store_timeout, self.engine.store().due(self.batch))
            .await
            .unwrap_or_else(|_| {
                Err(StoreError::Unavailable("due took longer than the store timeout".into()))
            })?;
        let mut pass = Pass { due: due.records.len(), settled: 0 };
        let mut questions = JoinSet::new();
        for record in due.records {
            if questions.len() >= self.questions_max {
                pass.count(questions.join_next().await);
            }
            // Earlier questions of this pass took time, which only makes this reading older and the answer worth less.
            questions.spawn(self.clone().ask(Sight { record, now: due.now }));
        }
        while let Some(answered) = questions.join_next().await {
            pass.count(Some(answered));
        }
        Ok(pass)
    }

    /// Whether the outcome is known now.
    async fn ask(self, sight: Sight) -> bool {
        matches!(self.engine.ask(&sight, &self.hook, &self.door, Asker::Worker).await, Asked::Answer(_))
    }
}

impl Pass {
    /// A question that panicked settled nothing.
    fn count(&mut self, answered: Option<Result<bool, JoinError>>) {
        self.settled += usize::from(matches!(answered, Some(Ok(true))));
    }
}
