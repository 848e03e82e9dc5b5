//! Changes of records inside the writer's transaction.
//!
//! A [`WriteTx`] lasts for one batch. It remembers what the batch has changed so far: later commands see it, and the
//! memory of recent records learns it once the batch is committed.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;
use unavez_core::identity::RecordId;
use unavez_core::record::{Change, Fence, Finish, Record};
use unavez_core::time::Time;

use super::digest_index::{Clerk, Digest, DigestHasher, DigestIndex, FindRows};
use super::pending::Pending;
use super::recent::Recent;
use super::shared::Shared;
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
    clerk: &'a Clerk,
    by_id: &'a DigestIndex,
    changes: RefCell<Changes>,
    pending: RefCell<Pending>,
    hooks: RefCell<Vec<Hook>>,
    trouble: Cell<Option<Trouble>>,
}

/// What is to be done after a commit.
pub(super) type Hook = Box<dyn FnOnce() + Send>;

/// Why nothing of a batch may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Work has lost the transaction it ran in, or was left half done in it.
    Fallen,
    /// A row is not what this process remembers of it: somebody else wrote.
    Misremembered,
}

#[derive(Default)]
struct Changes {
    /// What the batch sees under an id; `None`: no record.
    records: HashMap<RecordId, Option<Arc<Record>>, BuildHasherDefault<DigestHasher>>,
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

impl FindRows for WriteTx<'_> {
    fn find_rows(&self, index: &DigestIndex, digest: &Digest) -> rusqlite::Result<Vec<i64>> {
        let mut positions = self.clerk.rows(self.connection, index, digest)?;
        self.pending.borrow().correct(index.number(), digest, &mut positions);
        Ok(positions)
    }

    fn connection(&self) -> &Connection {
        self.connection
    }
}

/// Why isolated work was rolled back.
pub(super) enum Undone<E> {
    Refused(E),
    Panicked(String),
    Sql(rusqlite::Error),
    /// It wrote before it refused (`None`: panicked), and nothing stands around it that could be undone alone.
    Not(Option<E>),
}

impl<'a> WriteTx<'a> {
    pub(super) fn new(connection: &'a Connection, now: Time, shared: &'a Shared, clerk: &'a Clerk) -> Self {
        Self {
            connection,
            now,
            recent: &shared.recent,
            clerk,
            by_id: &shared.by_id,
            changes: RefCell::default(),
            pending: RefCell::default(),
            hooks: RefCell::default(),
            trouble: Cell::new(None),
        }
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
        let positions = self.find_rows(self.by_id, id.as_bytes())?;
        let record = records::find(self.connection, id, &positions)?.map(Arc::new);
        self.changes.borrow_mut().records.insert(id, record.clone());
        Ok(record)
    }

    /// A position for a new row of the table that an index belongs to: above all earlier ones, and never given twice
    /// while this process owns the file.
    #[must_use]
    pub fn next_position(&self, index: &DigestIndex) -> i64 {
        index.next_position()
    }

    /// Where a row belongs that is found through the records' index: at the position of the record that this batch claimed
    /// under `id`, or, if none was, at a new one.
    #[must_use]
    pub fn position_of_record(&self, id: RecordId) -> i64 {
        let claimed = self.pending.borrow().newest(self.by_id.number(), id.as_bytes());
        claimed.unwrap_or_else(|| {
            let position = self.next_position(self.by_id);
            self.index_row(self.by_id, *id.as_bytes(), position);
            position
        })
    }

    /// Runs `then` on the writer's thread once what this work does is committed, and never if it is not.
    pub fn when_committed(&self, then: impl FnOnce() + Send + 'static) {
        self.hooks.borrow_mut().push(Box::new(then));
    }

    /// Enters a new row in an index. Its position is above all earlier ones.
    pub fn index_row(&self, index: &DigestIndex, digest: Digest, position: i64) {
        self.pending.borrow_mut().add(index.number(), digest, position);
    }

    /// Takes a row that is deleted out of an index, unless a guest stands at its position.
    ///
    /// # Errors
    /// The library's.
    pub fn unindex_row(&self, index: &DigestIndex, digest: &Digest, position: i64) -> rusqlite::Result<()> {
        if index.has_guest(self.connection, position)? {
            return Ok(());
        }
        if index.may_be_filed(digest) {
            self.connection.prepare_cached(index.delete_statement())?.execute((digest, position))?;
        }
        self.pending.borrow_mut().remove(index.number(), *digest, position);
        Ok(())
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
        let (mark, hooks) = (self.pending.borrow().mark(), self.hooks.borrow().len());
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
        self.pending.borrow_mut().undo_to(mark);
        self.hooks.borrow_mut().truncate(hooks);
        Err(undone)
    }

    /// Runs `work` that can be repeated: if it refuses or panics before it has written anything, there is nothing to
    /// undo, and else the batch has to fall.
    pub(super) fn bare<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, Undone<E>> {
        let (written, mark) = (self.connection.total_changes(), self.pending.borrow().mark());
        let has_written =
            || self.connection.total_changes() != written || self.pending.borrow().mark() != mark;
        let hooks = self.hooks.borrow().len();
        let outcome = catch_unwind(AssertUnwindSafe(work));
        if !matches!(outcome, Ok(Ok(_))) {
            self.hooks.borrow_mut().truncate(hooks);
        }
        match outcome {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(refusal)) if has_written() => Err(Undone::Not(Some(refusal))),
            Ok(Err(refusal)) => Err(Undone::Refused(refusal)),
            Err(_) if has_written() => Err(Undone::Not(None)),
            Err(panic) => Err(Undone::Panicked(panic_message(panic.as_ref()))),
        }
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

    /// What was done, to be remembered once it is committed.
    pub(super) fn into_done(self) -> Done {
        Done {
            records: self.changes.into_inner().records,
            entries: self.pending.into_inner(),
            hooks: self.hooks.into_inner(),
        }
    }

    /// Writes a record in its place.
    pub(super) fn write(&self, record: Record, place: Place) -> rusqlite::Result<Arc<Record>> {
        match place {
            Place::Free { position } => self.insert(&record, position)?,
            Place::Expired { before, position } => {
                self.remove(&before)?;
                self.insert(&record, position).inspect_err(|_| self.fall())?;
            }
            Place::Held(before) => {
                let positions = self.find_rows(self.by_id, record.id.as_bytes())?;
                if !records::update(self.connection, &record, before, &positions)? {
                    return Err(self.misremembered());
                }
            }
        }
        let record = Arc::new(record);
        self.note(record.id, Some(Arc::clone(&record)));
        Ok(record)
    }

    /// A position for a record that is about to be claimed.
    pub(super) fn next_record_position(&self) -> i64 {
        self.next_position(self.by_id)
    }

    fn insert(&self, record: &Record, position: i64) -> rusqlite::Result<()> {
        records::insert(self.connection, record, position)?;
        self.index_row(self.by_id, *record.id.as_bytes(), position);
        Ok(())
    }

    fn remove(&self, record: &Record) -> rusqlite::Result<()> {
        let id = record.id.as_bytes();
        let positions = self.find_rows(self.by_id, id)?;
        match records::delete(self.connection, record, &positions)? {
            Some(position) => self.unindex_row(self.by_id, id, position).inspect_err(|_| self.fall()),
            None => Err(self.misremembered()),
        }
    }

    /// A statement failed whose predecessor belongs to it, and no savepoint stands around the two.
    fn fall(&self) {
        self.trouble.set(Some(Trouble::Fallen));
    }

    fn delete(&self, record: &Record) -> rusqlite::Result<()> {
        self.remove(record)?;
        self.note(record.id, None);
        Ok(())
    }

    /// A record was purged from this row.
    pub(super) fn purged(&self, id: RecordId, position: i64) -> rusqlite::Result<()> {
        self.unindex_row(self.by_id, id.as_bytes(), position)?;
        self.note(id, None);
        Ok(())
    }
}

/// What a transaction did.
pub(super) struct Done {
    pub(super) records: HashMap<RecordId, Option<Arc<Record>>, BuildHasherDefault<DigestHasher>>,
    pub(super) entries: Pending,
    pub(super) hooks: Vec<Hook>,
}

/// What a record is written over.
pub(super) enum Place {
    /// Nothing.
    Free { position: i64 },
    /// An expired record of the same key, which gives way to one at another position.
    Expired { before: Arc<Record>, position: i64 },
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
    let before = tx.record(id)?;
    let starts_anew = matches!(change, Change::Claim(_));
    let verdict = judge(id, before.as_deref(), expected, change, now)?;
    match (verdict, before) {
        (Verdict::Keep(record), None) => {
            let place = Place::Free { position: tx.next_record_position() };
            Ok(Swap::Swapped { record: tx.write(record, place)?, now })
        }
        (Verdict::Keep(record), Some(before)) if starts_anew => {
            let place = Place::Expired { before, position: tx.next_record_position() };
            Ok(Swap::Swapped { record: tx.write(record, place)?, now })
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
