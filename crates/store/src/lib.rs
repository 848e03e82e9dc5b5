//! Stores for idempotency records.
//!
//! A store is compare-and-swap ([`Store::swap`]) and a few reads. What a change does to a record is decided in
//! `unavez-core`; a store only has to be atomic and durable:
//!
//! 1. A swap happens whole or not at all, and is durable when it is acknowledged.
//! 2. Ages are measured on the store's own clock; a [`Change`] carries durations (P9).
//! 3. The loser of a race receives the current record from the same call (P8).
//! 4. A call that may or may not have happened is [`StoreError::InDoubt`], never "failed" (P12).
//! 5. Every read compares tenant and key, whatever the hash says (P4).
//!
//! [`memory::MemoryStore`] forgets with its process. `SqliteStore` (feature `sqlite`) keeps one file, written by one
//! process, with group commit. `PostgresStore` (feature `postgres`) keeps tables that any number of processes share, with
//! group commit in each. Every adapter passes the same public suite, [`mod@conformance`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use unavez_core::identity::{Realm, RecordId, Tenant};
use unavez_core::record::{Change, Fence, IllegalTransition, Record};
use unavez_core::time::Time;

pub mod clock;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod columns;
pub mod conformance;
pub mod fault;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod headers;
pub mod memory;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migrations;
#[cfg(feature = "postgres")]
pub mod postgres;
mod rules;
#[cfg(feature = "sqlite")]
pub mod sqlite;

/// A future that owns what it needs. Dropping it does not undo a call that has been queued (P12).
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Atomic, durable storage of idempotency records.
pub trait Store: Send + Sync + 'static {
    /// Applies `change` to the record `id` if its fence is `expected` (`None`: if there is no record).
    ///
    /// One store trip. Dropping the future withdraws a change that is still queued, or leaves it to happen; it never
    /// happens in part.
    ///
    /// # Errors
    /// [`StoreError`]: whether the change can have happened is part of the error.
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>>;

    /// Reads one record, expired ones included. One store trip.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] and [`StoreError::Overloaded`].
    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>>;

    /// Records whose outcome should be asked about now: unknown ones whose time has come, and lost attempts that may
    /// have sent something. At most `limit`, picked fairly between tenants, oldest first (P16).
    ///
    /// # Errors
    /// As [`Store::load`].
    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>>;

    /// Deletes at most `limit` expired records, re-checking each in the delete (P9, P21). Unfinished records are
    /// never deleted.
    ///
    /// # Errors
    /// As [`Store::load`], and [`StoreError::ClockStepped`] until the step is confirmed.
    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>>;

    /// Lists records, newest first.
    ///
    /// # Errors
    /// As [`Store::load`].
    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// The deployment's name, where the store keeps one. `None`: it must be named, or is random for each process.
    ///
    /// No default: a wrapper that forgot to pass it on would make other operation ids after every restart.
    fn realm(&self) -> Option<Realm>;
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        (**self).swap(id, expected, change)
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        (**self).load(id)
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        (**self).due(limit)
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        (**self).purge(limit)
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        (**self).list(filter, after, limit)
    }

    fn realm(&self) -> Option<Realm> {
        (**self).realm()
    }
}

/// What became of a swap.
#[derive(Clone, Debug)]
pub enum Swap {
    /// The change happened.
    Swapped {
        /// The record as it is now; as it was, for a release.
        record: Arc<Record>,
        /// The store's time of the change.
        now: Time,
    },
    /// The fence did not match: nothing changed.
    Conflict {
        /// The record that stands there, if any.
        record: Option<Arc<Record>>,
        /// The store's time of the reading.
        now: Time,
    },
}

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The record, if there is one.
    pub record: Option<Arc<Record>>,
    /// The store's time of the reading.
    pub now: Time,
}

/// Records to ask about.
#[derive(Clone, Debug)]
pub struct Due {
    /// Oldest first.
    pub records: Vec<Arc<Record>>,
    /// The store's time of the reading.
    pub now: Time,
}

/// What one purge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// Records deleted.
    pub deleted: u64,
    /// How long the oldest record still there has been expired; zero when none is.
    pub lag: Duration,
}

/// Which records to list. Every part narrows the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this tenant's.
    pub tenant: Option<Tenant>,
    /// Only records whose state has this name on the wire (`in_progress`, `pending`, `unknown`, ...).
    pub state: Option<&'static str>,
}

impl Filter {
    /// Whether a list with this filter shows the record.
    #[must_use]
    pub fn admits(&self, record: &Record) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == record.tenant)
            && self.state.is_none_or(|state| state == record.state.name())
    }
}

/// Where a page of a list ends: the position of its last record. Opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u64);

/// One page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// Newest first.
    pub records: Vec<Arc<Record>>,
    /// Where the next page starts, if there is more.
    pub next: Option<Cursor>,
    /// The store's time of the reading.
    pub now: Time,
}

/// Why a call of a store failed, and whether it can have happened.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// Nothing happened; may be tried again.
    Unavailable(Arc<str>),
    /// Nothing happened: the queue is full. May be tried again.
    Overloaded {
        /// Calls waiting.
        waiting: usize,
    },
    /// It may have happened. Resolved by a conflicting acknowledged write with the same attempt id (P12).
    InDoubt(Arc<str>),
    /// Nothing happened: the transition is not in the table.
    Illegal(IllegalTransition),
    /// Nothing happened: another tenant's or key's record has this hash.
    Collision(RecordId),
    /// Nothing happened: the clock stepped, and purging waits until that is confirmed (P9).
    ClockStepped {
        /// By how much, forward or back.
        step: Duration,
    },
    /// Nothing happened: the work of a transaction refused, and all of it was rolled back.
    RolledBack(Arc<str>),
}

impl StoreError {
    /// Whether the change can have happened.
    pub const fn may_have_happened(&self) -> bool {
        matches!(self, Self::InDoubt(_))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "store unavailable: {why}"),
            Self::Overloaded { waiting } => write!(f, "store overloaded: {waiting} calls are waiting"),
            Self::InDoubt(why) => write!(f, "store call in doubt: {why}"),
            Self::Illegal(illegal) => illegal.fmt(f),
            Self::Collision(id) => write!(f, "record {id} belongs to another key"),
            Self::ClockStepped { step } => {
                write!(f, "the clock stepped by {step:?}; purging waits until that is confirmed")
            }
            Self::RolledBack(why) => write!(f, "transaction rolled back: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}
