//! Rows to values. A row that does not read back is an error, never a guess.

use std::fmt;

use rusqlite::Row;
use rusqlite::types::Type;
use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::time::Time;

use super::{Account, Entry, EntryId, EntryKind};
use crate::charge::{Charge, ChargeId, Status};
use crate::money::{Amount, Currency};

/// A text or number that the schema allows and this version does not know.
#[derive(Debug)]
struct Unreadable(&'static str);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stored {} cannot be read", self.0)
    }
}

impl std::error::Error for Unreadable {}

fn unreadable(column: usize, what: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(Unreadable(what)))
}

/// A charge from the columns that every query about charges begins with.
pub(super) fn charge(row: &Row<'_>) -> rusqlite::Result<Charge> {
    Ok(Charge {
        id: charge_id(row, 0)?,
        order_id: row.get(1)?,
        amount: amount(row, 2)?,
        currency: currency(row, 3)?,
        status: word(row, 4, "status", Status::parse)?,
        amount_captured: row.get(5)?,
        amount_refunded: row.get(6)?,
        created_at: time(row, 7)?,
        metadata: row.get(8)?,
        suspected_duplicate_of: row
            .get::<_, Option<[u8; 16]>>(9)?
            .map(|id| charge_of(RecordId::from_bytes(id))),
        next_action: row.get(10)?,
    })
}

pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: EntryId { charge: charge_id(row, 0)?, number: row.get(1)? },
        kind: word(row, 2, "kind", EntryKind::parse)?,
        debit: word(row, 3, "account", Account::parse)?,
        credit: word(row, 4, "account", Account::parse)?,
        amount: amount(row, 5)?,
        currency: currency(row, 6)?,
        created_at: time(row, 7)?,
    })
}

pub(crate) fn currency(row: &Row<'_>, column: usize) -> rusqlite::Result<Currency> {
    word(row, column, "currency", Currency::parse)
}

pub(crate) fn word<T>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    parse(row.get_ref(column)?.as_str()?).ok_or_else(|| unreadable(column, what))
}

pub(super) fn charge_id(row: &Row<'_>, column: usize) -> rusqlite::Result<ChargeId> {
    row.get(column).map(|id| charge_of(RecordId::from_bytes(id)))
}

fn charge_of(operation: RecordId) -> ChargeId {
    ChargeId::of(OperationId::from(operation))
}

/// A text that is parsed, where there is one.
pub(super) fn optional_word<T>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(None) };
    parse(text).map(Some).ok_or_else(|| unreadable(column, what))
}

/// What an update of one row must come to.
pub(super) fn exactly_one(rows: usize) -> rusqlite::Result<()> {
    if rows == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(rows)) }
}

pub(super) fn tenant(row: &Row<'_>, column: usize) -> rusqlite::Result<Tenant> {
    word(row, column, "tenant", |name| Tenant::parse(name).ok())
}

pub(crate) fn amount(row: &Row<'_>, column: usize) -> rusqlite::Result<Amount> {
    Amount::of_minor_units(row.get(column)?).ok_or_else(|| unreadable(column, "amount"))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Time> {
    row.get(column).map(Time::from_micros)
}
