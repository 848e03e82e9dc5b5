//! Sums of the ledger that are really made of its rows.
//!
//! 1. Entries and charges are summed up apart. `balanced` says that both come to the same: a capture without its
//!    entry, or an entry without its capture, shows.
//! 2. Rows are summed once, in the order of their numbers, and the sums are kept in memory: a summary reads only what
//!    came since the last one. A new process sums everything anew, so every start is a full audit.
//! 3. Both sums end at one snapshot of the database.
//! 4. A charge's amounts change after it was summed: by a later capture, by a refund, by an answer from outside. Each
//!    change leaves a row of its own (a trigger of the table sees to that), and those rows are summed, too.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Row};
use unavez_store::StoreError;
use unavez_store::sqlite::SqliteStore;

use super::{CurrencySummary, EntryKind, TenantNumber, rows};
use crate::money::Currency;

/// Rows summed in one read: a few milliseconds, and readers of replays get in between.
const STEP: i64 = 50_000;

/// Units in the upper half of a sum; see `sum_entries.sql`.
const MILLION: i128 = 1_000_000;

#[derive(Default)]
pub(super) struct Audit {
    /// Sums in the making. Locked across a catch-up, so that callers at the same time share one.
    working: tokio::sync::Mutex<Sums>,
    /// Sums that ended at one snapshot.
    complete: Mutex<Sums>,
}

/// Sums of every row up to a point.
#[derive(Clone, Default)]
struct Sums {
    upto: Position,
    by_currency: BTreeMap<(TenantNumber, Currency), Both>,
}

/// The last rows that are summed up.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    entry: i64,
    charge: i64,
    change: i64,
}

/// The two sides that must agree.
#[derive(Clone, Copy, Default)]
struct Both {
    entries: Side,
    charges: Side,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Side {
    captures: i64,
    captured: i128,
    refunded: i128,
}

impl Audit {
    /// Reads what came since the last time.
    pub(super) async fn catch_up(&self, store: &SqliteStore) -> Result<(), StoreError> {
        let mut working = self.working.lock().await;
        loop {
            let mut sums = working.clone();
            let (sums, reached) = store
                .read(move |connection| {
                    let reached = sums.step(connection)?;
                    Ok((sums, reached))
                })
                .await?;
            *working = sums;
            if reached == Reached::End {
                *self.lock() = working.clone();
                return Ok(());
            }
        }
    }

    /// The sums of one tenant, as of the last catch-up.
    pub(super) fn summary(&self, tenant: TenantNumber) -> Vec<CurrencySummary> {
        self.lock().summaries(|owner| owner == tenant).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.complete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sums of every tenant and currency, of one snapshot: also of a database whose charges have no changes yet.
pub(super) fn summaries_on(connection: &Connection) -> rusqlite::Result<Vec<CurrencySummary>> {
    let mut sums = Sums::default();
    sums.add_entries(connection, i64::MAX)?;
    sums.add_charges(connection, i64::MAX)?;
    Ok(sums.summaries(|_| true).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// Sums of entries and charges may disagree: there is more of one or the other.
    Middle,
    /// Everything in one snapshot.
    End,
}

impl Sums {
    fn summaries(&self, of: impl Fn(TenantNumber) -> bool) -> impl Iterator<Item = CurrencySummary> {
        self.by_currency
            .iter()
            .filter(move |((owner, _), _)| of(*owner))
            // A currency in which nothing was ever captured has charges and no ledger.
            .filter(|(_, both)| both.entries != Side::default() || both.charges != Side::default())
            .map(|((_, currency), both)| CurrencySummary {
                currency: *currency,
                charges: both.entries.captures.unsigned_abs(),
                captured: both.entries.captured,
                refunded: both.entries.refunded,
                balanced: both.entries == both.charges,
            })
    }

    /// Adds the next rows.
    fn step(&mut self, connection: &Connection) -> rusqlite::Result<Reached> {
        // A read sees one state of the database, so both ends belong together.
        let end = Position {
            entry: last_id(connection, "select coalesce(max(id), 0) from ledger_entries")?,
            charge: last_id(connection, "select coalesce(max(id), 0) from charges")?,
            change: last_id(connection, "select coalesce(max(id), 0) from charge_changes")?,
        };
        let upto = Position {
            entry: end.entry.min(self.upto.entry + STEP),
            charge: end.charge.min(self.upto.charge + STEP),
            // All of them: the charges of this step are read as they are now.
            change: end.change,
        };
        self.add_entries(connection, upto.entry)?;
        self.add_changes(connection, upto.change)?;
        self.add_charges(connection, upto.charge)?;
        self.upto = upto;
        Ok(if upto == end { Reached::End } else { Reached::Middle })
    }

    fn add_entries(&mut self, connection: &Connection, upto: i64) -> rusqlite::Result<()> {
        let mut sum = connection.prepare_cached(include_str!("sql/sum_entries.sql"))?;
        let mut found = sum.query((self.upto.entry, upto))?;
        while let Some(row) = found.next()? {
            let entries = &mut self.both(row)?.entries;
            match rows::word(row, 2, "kind", EntryKind::parse)? {
                EntryKind::Capture => {
                    entries.captures += row.get::<_, i64>(3)?;
                    entries.captured += whole(row, 4)?;
                }
                EntryKind::Refund => entries.refunded += whole(row, 4)?,
            }
        }
        Ok(())
    }

    fn add_charges(&mut self, connection: &Connection, upto: i64) -> rusqlite::Result<()> {
        let mut sum = connection.prepare_cached(include_str!("sql/sum_charges.sql"))?;
        let mut found = sum.query((self.upto.charge, upto))?;
        while let Some(row) = found.next()? {
            let charges = &mut self.both(row)?.charges;
            charges.captures += row.get::<_, i64>(2)?;
            charges.captured += whole(row, 3)?;
            charges.refunded += whole(row, 5)?;
        }
        Ok(())
    }

    /// What changed since on charges that are summed already.
    fn add_changes(&mut self, connection: &Connection, upto: i64) -> rusqlite::Result<()> {
        // A new process has summed nothing yet, and need not look through all there ever was.
        if self.upto.charge == 0 || self.upto.change == upto {
            return Ok(());
        }
        let mut sum = connection.prepare_cached(include_str!("sql/sum_charge_changes.sql"))?;
        let mut found = sum.query((self.upto.change, upto, self.upto.charge))?;
        while let Some(row) = found.next()? {
            let charges = &mut self.both(row)?.charges;
            charges.captures += row.get::<_, i64>(2)?;
            charges.captured += whole(row, 3)?;
            charges.refunded += whole(row, 5)?;
        }
        Ok(())
    }

    fn both(&mut self, row: &Row<'_>) -> rusqlite::Result<&mut Both> {
        let owner = (row.get(0)?, rows::currency(row, 1)?);
        Ok(self.by_currency.entry(owner).or_default())
    }
}

fn last_id(connection: &Connection, query: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(query)?.query_row([], |row| row.get(0))
}

/// A sum from its halves.
fn whole(row: &Row<'_>, column: usize) -> rusqlite::Result<i128> {
    let (millions, rest): (i64, i64) = (row.get(column)?, row.get(column + 1)?);
    Ok(i128::from(millions) * MILLION + i128::from(rest))
}
