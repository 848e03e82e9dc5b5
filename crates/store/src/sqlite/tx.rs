//! Changes of records inside the writer's transaction.
//!
//! A [`WriteTx`] lasts for one batch. It remembers what the batch has changed so far: later commands see it, and the
//! memory of recent records learns it once the batch is committed.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;
use unavez_core::identity::RecordId;
use unavez_core::record::{Change, Claim, Fence, Finish, Record};
use unavez_core::time::Time;

use super::recent::Recent;
use super::{FinishInError, SwapInError, records};
use crate::Swap;
use crate::rules::{Verdict, judge};

/// The transaction that work of a caller runs in. It derefs to the connection, for statements on the caller's own
/// tables; records are changed by [`swap_in`] and [`finish_in`] alone.
///
/// Work must neither commit nor roll back: the writer refuses every commit but its own.
pub struct WriteTx<'a> {
    connection: &'a Connection,
    now: Time,
    recent: &'a Recent,
    changes: RefCell<Changes>,
    trouble: Cell<Option<Trouble>>,
}

/// Why nothing of a batch may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Work has lost the transaction it ran in.
    Fallen,
    /// A row is not what this process remembers of it: somebody else wrote.
    Misremembered,
}

#[derive(Default)]
struct Changes {
    /// What the batch sees under an id; `None`: no record.
    records: HashMap<RecordId, Option<Arc<Record>>>,
    /// What the work that runs now has overwritten in `records`, oldest first.
    overwritten: Vec<(RecordId, Option<Option<Arc<Record>>>)>,
}

impl Deref for WriteTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl fmt::Debug for WriteTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTx").field("now", &self.now).finish_non_exhaustive()
    }
}

/// Why isolated work was rolled back.
pub(super) enum Undone<E> {
    Refused(E),
    Panicked(String),
    Sql(rusqlite::Error),
}

impl<'a> WriteTx<'a> {
    pub(super) fn new(connection: &'a Connection, now: Time, recent: &'a Recent) -> Self {
        Self { connection, now, recent, changes: RefCell::default(), trouble: Cell::new(None) }
    }

    /// The store's time of this transaction.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The record as this transaction sees it.
    ///
    /// # Errors
    /// The library's, or an unreadable row.
    pub fn record(&self, id: RecordId) -> rusqlite::Result<Option<Arc<Record>>> {
        if let Some(record) = self.remembered(id) {
            return Ok(record);
        }
        let record = records::find(self.connection, id)?.map(Arc::new);
        self.changes.borrow_mut().records.insert(id, record.clone());
        Ok(record)
    }

    /// What is known about an id without asking the database.
    fn remembered(&self, id: RecordId) -> Option<Option<Arc<Record>>> {
        self.changes.borrow().records.get(&id).cloned().or_else(|| self.recent.find(id).map(Some))
    }

    /// Notes what this transaction leaves under an id.
    pub(super) fn note(&self, id: RecordId, record: Option<Arc<Record>>) {
        let mut changes = self.changes.borrow_mut();
        let before = changes.records.insert(id, record);
        changes.overwritten.push((id, before));
    }

    /// Runs `work` so that its refusal or panic undoes what it did, and only that.
    pub(super) fn isolated<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, Undone<E>> {
        self.changes.borrow_mut().overwritten.clear();
        self.step("savepoint work").map_err(Undone::Sql)?;
        let undone = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(done)) => match self.step("release work") {
                Ok(()) => return Ok(done),
                Err(error) => Undone::Sql(error),
            },
            Ok(Err(refusal)) => Undone::Refused(refusal),
            Err(panic) => Undone::Panicked(panic_message(panic.as_ref())),
        };
        self.undo();
        Err(undone)
    }

    fn undo(&self) {
        // Where the transaction fell beneath the work, the savepoint fell with it; the writer sees to the batch.
        if !self.connection.is_autocommit() {
            let undone = self.step("rollback to work").and_then(|()| self.step("release work"));
            if undone.is_err() {
                self.trouble.set(Some(Trouble::Fallen));
            }
        }
        let mut changes = self.changes.borrow_mut();
        let overwritten = std::mem::take(&mut changes.overwritten);
        for (id, before) in overwritten.into_iter().rev() {
            match before {
                Some(before) => changes.records.insert(id, before),
                None => changes.records.remove(&id),
            };
        }
    }

    fn step(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Why nothing of this batch may be committed, if so. (A transaction that is gone is trouble too.)
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.trouble.get().or_else(|| self.connection.is_autocommit().then_some(Trouble::Fallen))
    }

    fn misremembered(&self) -> rusqlite::Error {
        self.trouble.set(Some(Trouble::Misremembered));
        rusqlite::Error::StatementChangedRows(0)
    }

    /// Teaches the memory what was committed.
    pub(super) fn remember_in(self, recent: &Recent) {
        for (id, record) in self.changes.into_inner().records {
            recent.committed(id, record);
        }
    }

    /// Writes a record in its place.
    pub(super) fn write(&self, record: Record, place: Place) -> rusqlite::Result<Arc<Record>> {
        let written = match place {
            Place::Free => records::insert(self.connection, &record)?,
            Place::Expired => records::replace(self.connection, &record).map(|()| true)?,
            Place::Held(before) => records::update(self.connection, &record, before)?,
        };
        if !written {
            return Err(self.misremembered());
        }
        let record = Arc::new(record);
        self.note(record.id, Some(Arc::clone(&record)));
        Ok(record)
    }

    fn delete(&self, record: &Record) -> rusqlite::Result<()> {
        if !records::delete(self.connection, record)? {
            return Err(self.misremembered());
        }
        self.note(record.id, None);
        Ok(())
    }

    /// Claims a key of which nothing is remembered: most often it is new, and one statement is enough.
    fn claim(&self, id: RecordId, claim: Claim) -> Result<Swap, SwapInError> {
        let record = Record::claimed(id, claim, self.now);
        if records::insert(self.connection, &record)? {
            let record = Arc::new(record);
            self.note(id, Some(Arc::clone(&record)));
            return Ok(Swap::Swapped { record, now: self.now });
        }
        let current = self.record(id)?.ok_or_else(|| self.misremembered())?;
        if current.tenant != record.tenant || current.key != record.key {
            return Err(SwapInError::Collision(id));
        }
        Ok(Swap::Conflict { record: Some(current), now: self.now })
    }
}

/// What a record is written over.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// Nothing.
    Free,
    /// An expired record of the same key.
    Expired,
    /// The same record, with this fence.
    Held(Fence),
}

/// Applies `change` to the record `id` in the caller's transaction if its fence is `expected` (`None`: if there is no
/// record). As [`Store::swap`](crate::Store::swap), but it commits with the caller's rows.
///
/// # Errors
/// [`SwapInError`]. The work must fail then.
pub fn swap_in(
    tx: &WriteTx<'_>,
    id: RecordId,
    expected: Option<Fence>,
    change: Change,
) -> Result<Swap, SwapInError> {
    let now = tx.now;
    let change = match change {
        Change::Claim(claim) if expected.is_none() && tx.remembered(id).is_none() => {
            return tx.claim(id, claim);
        }
        change => change,
    };
    let before = tx.record(id)?;
    let starts_anew = matches!(change, Change::Claim(_));
    let verdict = judge(id, before.as_deref(), expected, change, now)?;
    match (verdict, before) {
        (Verdict::Keep(record), None) => Ok(Swap::Swapped { record: tx.write(record, Place::Free)?, now }),
        (Verdict::Keep(record), Some(_)) if starts_anew => {
            Ok(Swap::Swapped { record: tx.write(record, Place::Expired)?, now })
        }
        (Verdict::Keep(record), Some(before)) => {
            Ok(Swap::Swapped { record: tx.write(record, Place::Held(before.fence))?, now })
        }
        (Verdict::Delete, Some(before)) => {
            tx.delete(&before)?;
            Ok(Swap::Swapped { record: before, now })
        }
        (Verdict::Conflict | Verdict::Delete, record) => Ok(Swap::Conflict { record, now }),
    }
}

/// Finishes the record `id` in the caller's transaction, together with the caller's rows (P14).
///
/// # Errors
/// [`FinishInError::Overtaken`] if the record's fence is no longer `fence` (P11). The work must fail then, so that its
/// rows are rolled back.
pub fn finish_in(
    tx: &WriteTx<'_>,
    id: RecordId,
    fence: Fence,
    finish: Finish,
) -> Result<Arc<Record>, FinishInError> {
    match swap_in(tx, id, Some(fence), Change::Finish(finish))? {
        Swap::Swapped { record, .. } => Ok(record),
        Swap::Conflict { record, .. } => Err(FinishInError::Overtaken { record }),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}
