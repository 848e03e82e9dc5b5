//! The worker: asks about operations whose callers do not come back (P16).
//!
//! 1. So many questions are on their way at once and no more, so that callers keep most of store and outside system.
//! 2. A question that gets no answer holds up its own place and no other: what is due is read again while it waits.
//! 3. After a round in which nothing was settled it rests, however much is due. An outside system that is down, or a
//!    store that does not write, is then asked about a batch for each interval.
//!
//! What breaks it in deployment: an outside system that allows fewer questions than are asked at once. It answers with
//! errors, which settle nothing.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::task::{self, JoinSet};
use tokio::time::{sleep, timeout};
use unavez_core::identity::RecordId;
use unavez_store::{Due, StoreError};

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
    questions_max: usize,
}

/// A question is mostly waiting, and outside systems limit how many may wait at once.
const QUESTIONS_MAX: usize = 16;

/// The least number of records that are read at once.
const BATCH: usize = 100;

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
            questions_max: QUESTIONS_MAX,
        }
    }

    /// How recovered answers are kept: caps and redaction of this door.
    #[must_use]
    pub fn with_door(mut self, door: Door) -> Self {
        self.door = door;
        self
    }

    /// How long it rests after a round that found little, or settled nothing.
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
        let mut open = Questions::default();
        loop {
            let goes_on = tokio::select! {
                () = &mut stop => return,
                round = self.round(&mut open) => match round {
                    Ok(round) => round.due >= self.batch() && round.settled > 0,
                    Err(error) => {
                        tracing::warn!(%error, "recovery could not read what is due");
                        false
                    }
                },
            };
            if !goes_on {
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
        let mut open = Questions::default();
        let mut pass = self.round(&mut open).await?;
        while let Some(settled) = open.answered().await {
            pass.settled += usize::from(settled);
        }
        Ok(pass)
    }

    /// Asks about everything that is due and not being asked about, and counts what was settled meanwhile. The latest
    /// questions are left open.
    async fn round(&self, open: &mut Questions) -> Result<Pass, StoreError> {
        let settled = open.answered_already();
        let asking: HashSet<RecordId> = open.about.values().copied().collect();
        // What is being asked about is still due.
        let due = self.due(self.batch() + asking.len()).await?;
        let fresh: Vec<_> = due.records.into_iter().filter(|record| !asking.contains(&record.id)).collect();
        let mut pass = Pass { due: fresh.len(), settled };
        for record in fresh {
            if open.tasks.len() >= self.questions_max {
                pass.settled += usize::from(open.answered().await == Some(true));
            }
            // Earlier questions of this round took time, which only makes this reading older and the answer worth less.
            let (id, sight) = (record.id, Sight { record, now: due.now });
            open.about.insert(open.tasks.spawn(self.clone().ask(sight)).id(), id);
        }
        Ok(pass)
    }

    /// More than are asked about at once, so that a full round has heard some answers when it ends.
    fn batch(&self) -> usize {
        BATCH.max(self.questions_max.saturating_mul(2))
    }

    async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        let due = timeout(self.engine.timings().store_timeout, self.engine.store().due(limit)).await;
        due.unwrap_or_else(|_| Err(StoreError::Unavailable("due took longer than the store timeout".into())))
    }

    /// Whether the outcome is known now, and stored.
    async fn ask(self, sight: Sight) -> bool {
        matches!(self.engine.ask(&sight, &self.hook, &self.door, Asker::Worker).await, Asked::Answer(_))
    }
}

/// Questions on their way, and what each is about. Dropped with it.
#[derive(Default)]
struct Questions {
    tasks: JoinSet<bool>,
    about: HashMap<task::Id, RecordId>,
}

impl Questions {
    /// Waits for one of them, and says whether it settled its record; `None` if there is none. One that panicked settled
    /// nothing.
    async fn answered(&mut self) -> Option<bool> {
        let ended = self.tasks.join_next_with_id().await?;
        Some(self.close(ended))
    }

    /// How many records were settled by those that have ended.
    fn answered_already(&mut self) -> usize {
        let mut settled = 0;
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            settled += usize::from(self.close(ended));
        }
        settled
    }

    fn close(&mut self, ended: Result<(task::Id, bool), task::JoinError>) -> bool {
        let (id, settled) = ended.unwrap_or_else(|panicked| (panicked.id(), false));
        self.about.remove(&id);
        settled
    }
}
