//! Operations that go outside: claimed here, carried out there, and settled by whatever is heard first.
//!
//! ```text
//! T1  claim, charge, reservation, request        begin.rs     one commit, before the first byte is sent
//!     after a restore: ask first            forgotten.rs instead of sending or refusing what may be forgotten (P16)
//!     send, within the attempt's deadline        carry.rs     a task of its own (P12)
//! T2  record, charge, ledger entries             settle.rs    one commit, fenced by the record
//!     asked by repeats and by the night shift    ask.rs       look up, then T2 (P16)
//!     told by webhooks                           webhook.rs   event and T2 in one commit (P24 to P28)
//!     ruled by an operator                       by_hand.rs   look up, then T2 with the reason
//!     and asked about while it was silent        confirm.rs   look up, then keep what contradicts (P27)
//! ```
//!
//! 1. The claim stores account, amounts and the outgoing bytes. That account alone is asked and sent to, and those bytes
//!    alone are sent, on every attempt (P16).
//! 2. Whatever is heard is checked against the stored rows before it settles anything (P28): [`check`].
//! 3. Answers, lookups and events settle through the same function, in one transaction with the record. A final state
//!    never goes back; a truth against it is kept as a contradiction (P27).
//! 4. What may have been sent is released by nobody but its first attempt's owner, who knows that nothing left (P15).
//! 5. A negative answer is told only once it is stored, a positive one even if the store is down (P17).
//!
//! What breaks it in deployment: an acquirer that promises more than it keeps. A visibility delay that is too short for a
//! network that holds requests back lets a lost request be sent again, and only the acquirer's own deduplication is then
//! left between the customer and a second charge.

use std::sync::Arc;
use std::time::Duration;

use unavez_core::recovery::Promise;
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::{SqliteStore, SwapInError, TransactionError, WriteTx};
use unavez_tower::engine::Engine;

use self::presence::Presence;
use crate::acquirer::{Acquirer, Kind};
use crate::books::Places;
use crate::metrics::Metrics;
use crate::request_id::RequestId;
use crate::settings::SameOrder;

pub(crate) mod alarms;
mod ask;
pub(crate) mod begin;
pub(crate) mod by_hand;
pub(crate) mod carry;
mod check;
pub(crate) mod confirm;
mod ending;
mod forgotten;
pub(crate) mod in_process;
mod night;
mod note;
mod parked;
mod presence;
mod settle;
pub(crate) mod way;
pub(crate) mod webhook;

pub(crate) use ask::Asking;

/// An acquirer, and what its operations share.
pub(crate) struct Outside {
    pub(crate) acquirer: Arc<dyn Acquirer>,
    store: SqliteStore,
    places: Places,
    engine: Engine,
    metrics: Arc<Metrics>,
    /// This process, in stored events.
    instance: Box<str>,
    visibility_delay: Option<Duration>,
    ask_first_until: Option<Time>,
    presence: Presence,
    /// When this process became the database's owner: nothing of an earlier one was sent later.
    owner_since: Time,
    same_order: SameOrder,
    same_order_window: Duration,
}

/// What an operation outside is told to do.
pub(crate) struct Settings {
    /// V, where the deployment knows better than the adapter.
    pub(crate) visibility_delay: Option<Duration>,
    /// Until when new claims are asked about before anything is sent for them.
    pub(crate) ask_first_until: Option<Time>,
    pub(crate) same_order: SameOrder,
    pub(crate) same_order_window: Duration,
}

impl Outside {
    pub(crate) fn new(
        acquirer: Arc<dyn Acquirer>,
        store: SqliteStore,
        engine: Engine,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Self {
        let owner_since = store.clock().now();
        Self {
            acquirer,
            places: Places::of(&store),
            owner_since,
            presence: Presence::default(),
            ask_first_until: settings.ask_first_until,
            store,
            engine,
            metrics,
            instance: RequestId::process().into(),
            visibility_delay: settings.visibility_delay,
            same_order: settings.same_order,
            same_order_window: settings.same_order_window,
        }
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Time {
        self.store.clock().now()
    }

    /// What is promised for a kind of operation.
    fn promise(&self, kind: Kind) -> Promise {
        let promise = self.acquirer.promise(kind);
        Promise { visibility_delay: self.visibility_delay.unwrap_or(promise.visibility_delay), ..promise }
    }

    /// What is promised for every kind alike, if it is: then nobody has to read which kind an operation is.
    fn only_promise(&self) -> Option<Promise> {
        let [first, rest @ ..] = Kind::ALL.map(|kind| self.promise(kind));
        rest.iter().all(|promise| *promise == first).then_some(first)
    }

    /// The most careful of all promises.
    fn least_promise(&self) -> Promise {
        let promises = Kind::ALL.map(|kind| self.promise(kind));
        Promise {
            visibility_delay: promises.iter().map(|it| it.visibility_delay).max().unwrap_or_default(),
            // `None` is less than any window.
            resend_window: promises.iter().map(|it| it.resend_window).min().flatten(),
        }
    }

    /// Runs work on the store, which may repeat it after a run of which nothing was kept: what it logs and counts is told
    /// again then.
    async fn transaction<T: Send + 'static>(
        &self,
        work: impl FnMut(&WriteTx<'_>) -> Result<T, Halt> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.store.repeatable_transaction(work).await.map_err(|error| match error {
            TransactionError::Refused(Halt(error)) | TransactionError::Store(error) => error,
        })
    }
}

/// Why a transaction was rolled back. `?` makes it of everything that can fail inside.
#[derive(Debug)]
pub(crate) struct Halt(pub(crate) StoreError);

impl From<rusqlite::Error> for Halt {
    fn from(error: rusqlite::Error) -> Self {
        Self(StoreError::RolledBack(error.to_string().into()))
    }
}

impl From<SwapInError> for Halt {
    fn from(error: SwapInError) -> Self {
        match error {
            SwapInError::Illegal(illegal) => Self(StoreError::Illegal(illegal)),
            SwapInError::Collision(id) => Self(StoreError::Collision(id)),
            SwapInError::Sql(error) => error.into(),
        }
    }
}
