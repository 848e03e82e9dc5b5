//! Writing down how an attempt ended (P11, P17).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use unavez_core::identity::RecordId;
use unavez_core::record::{Change, Fence, Record};
use unavez_store::{BoxFuture, StoreError, Swap};

use super::Engine;
use crate::observe::Event;

/// What became of an owner's write.
#[derive(Debug)]
pub enum Settled {
    /// Acknowledged.
    Stored {
        /// As it is now; as it was, for a release.
        record: Arc<Record>,
    },
    /// The same attempt has written already: in its own transaction, or by a write in doubt that can be seen now but was
    /// never acknowledged.
    Seen {
        /// What stands there.
        record: Arc<Record>,
        /// Whether an earlier try was in doubt: what can be seen is then not yet known to be safe.
        in_doubt: bool,
    },
    /// A release in doubt, whose record is gone.
    Released,
    /// The fence refused it: another owner, or nothing, stands there.
    Overtaken {
        /// What stands there.
        record: Option<Arc<Record>>,
    },
    /// Not stored while the attempt lasted, or not allowed.
    Lost,
}

/// How an owner ends its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The record stays: finished, or unknown.
    Keep(&'static str),
    /// The record goes, and the key is free.
    Release,
}

impl Ending {
    fn of(change: &Change) -> Self {
        match change {
            Change::Release => Self::Release,
            change => Self::Keep(change.name()),
        }
    }

    /// The word for errors and logs.
    const fn name(self) -> &'static str {
        match self {
            Self::Keep(name) => name,
            Self::Release => "release",
        }
    }
}

/// Pauses between two tries grow up to this.
const PAUSE_MAX: Duration = Duration::from_millis(500);

impl Engine {
    /// Writes an owner's change, and tries again until `until`. As [`Engine::persist_by`].
    pub(crate) async fn persist(
        &self,
        id: RecordId,
        fence: Fence,
        change: Change,
        until: Instant,
        on_late: impl FnOnce(),
    ) -> Settled {
        let write = || self.inner.store.swap(id, Some(fence), change.clone());
        self.persist_by(id, fence, Ending::of(&change), write, until, on_late).await
    }

    /// Makes an owner's write, and makes it again until `until`: a store that is down now may be up before the attempt is
    /// over, and the fence makes a repeated write harmless. `on_late` is called once when the store timeout has passed
    /// without an acknowledgement.
    ///
    /// For owners whose own rows commit with the record: `write` begins one try, names `fence`, and answers what became
    /// of the record. Those who wait for the record are woken.
    pub async fn persist_by<'a>(
        &self,
        id: RecordId,
        fence: Fence,
        ending: Ending,
        mut write: impl FnMut() -> BoxFuture<'a, Result<Swap, StoreError>>,
        until: Instant,
        on_late: impl FnOnce(),
    ) -> Settled {
        let answer_by = Instant::now() + self.timings().store_timeout;
        let mut on_late = Some(on_late);
        let mut in_doubt = false;
        let mut pause = Duration::from_millis(10);
        loop {
            let mut call = write();
            let result = match timeout_at(answer_by, &mut call).await {
                Ok(result) => result,
                Err(_) => {
                    if let Some(tell) = on_late.take() {
                        tell();
                    }
                    timeout_at(until, call)
                        .await
                        .unwrap_or_else(|_| Err(StoreError::InDoubt("cut off at the attempt's end".into())))
                }
            };
            match result {
                Ok(Swap::Swapped { record, .. }) => {
                    self.inner.waiters.wake(id);
                    return Settled::Stored { record };
                }
                Ok(Swap::Conflict { record, .. }) => return self.overtaken(fence, ending, record, in_doubt),
                Err(StoreError::Illegal(illegal)) => {
                    tracing::error!(%id, %illegal, "owner's write refused");
                    break;
                }
                Err(error) => {
                    in_doubt |= error.may_have_happened();
                    tracing::warn!(%id, change = ending.name(), %error, "owner's write not acknowledged");
                }
            }
            let next_try = Instant::now() + pause;
            if next_try >= answer_by
                && let Some(tell) = on_late.take()
            {
                tell();
            }
            if next_try >= until {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.observe(Event::FinishLost { operation_id: id.operation_id() });
        tracing::error!(%id, change = ending.name(), "outcome not recorded; recovery has to find it out");
        Settled::Lost
    }

    fn overtaken(
        &self,
        fence: Fence,
        ending: Ending,
        record: Option<Arc<Record>>,
        in_doubt: bool,
    ) -> Settled {
        match record {
            Some(record) if record.fence.attempt == fence.attempt => Settled::Seen { record, in_doubt },
            None if in_doubt && ending == Ending::Release => Settled::Released,
            record => {
                self.observe(Event::FenceRefused { change: ending.name() });
                tracing::warn!(change = ending.name(), "late owner refused by the fence");
                Settled::Overtaken { record }
            }
        }
    }
}
