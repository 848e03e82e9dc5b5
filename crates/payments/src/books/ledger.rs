//! The ledger: a balanced pair of accounts for each movement of money, written with the charge's own row.

use std::fmt;

use rusqlite::{Connection, OptionalExtension};
use unavez_core::time::Time;
use unavez_store::sqlite::WriteTx;

use super::places::{Listed, Places};
use super::{TenantNumber, operation, rows};
use crate::charge::ChargeId;
use crate::money::{Amount, Currency};

/// A line of the ledger: one account debited and another credited with the same amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id, which names its charge.
    pub id: EntryId,
    /// Why money moved.
    pub kind: EntryKind,
    /// Whose account pays.
    pub debit: Account,
    /// Whose account gets it.
    pub credit: Account,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// When.
    pub created_at: Time,
}

/// `le_`, the digits of the charge's id, and which of the charge's entries it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    /// The charge whose money moved.
    pub charge: ChargeId,
    /// Counted from 1.
    pub number: u32,
}

/// Why money moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// From the customer to the merchant.
    Capture,
    /// Back again.
    Refund,
}

/// One side of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Account {
    /// Who pays.
    Customer,
    /// Who is paid.
    Merchant,
}

/// Money that moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub(crate) tenant: TenantNumber,
    /// The charge's row.
    pub(crate) charge: i64,
    pub(crate) kind: EntryKind,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
}

/// Books money that moved. A charge is captured once, which is its first entry; refunds are counted on from there.
pub(crate) fn book(
    tx: &WriteTx<'_>,
    places: &Places,
    movement: &Movement,
    now: Time,
) -> rusqlite::Result<()> {
    let entry = insert(tx, movement, now)?;
    places.list(tx, Listed::Entries, movement.tenant, entry)
}

fn insert(connection: &Connection, movement: &Movement, now: Time) -> rusqlite::Result<i64> {
    let sql = match movement.kind {
        EntryKind::Capture => include_str!("sql/insert_capture.sql"),
        EntryKind::Refund => include_str!("sql/insert_refund.sql"),
    };
    connection.prepare_cached(sql)?.insert((
        movement.tenant,
        movement.charge,
        movement.amount.minor_units(),
        movement.currency.code(),
        now.as_micros(),
    ))
}

pub(super) fn list_entries(
    connection: &Connection,
    tenant: TenantNumber,
    before: i64,
    rows: u32,
) -> rusqlite::Result<Vec<Entry>> {
    let mut list = connection.prepare_cached(include_str!("sql/list_entries.sql"))?;
    list.query_map((tenant, before, rows), rows::entry)?.collect()
}

/// The entries of the charge that stands in this row.
pub(super) fn list_entries_of(
    connection: &Connection,
    tenant: TenantNumber,
    charge: i64,
    before: i64,
    rows: u32,
) -> rusqlite::Result<Vec<Entry>> {
    let mut list = connection.prepare_cached(include_str!("sql/list_entries_of_charge.sql"))?;
    list.query_map((tenant, before, rows, charge), rows::entry)?.collect()
}

pub(super) fn entry_position(
    connection: &Connection,
    charge: i64,
    number: u32,
) -> rusqlite::Result<Option<i64>> {
    let mut find = connection.prepare_cached(include_str!("sql/entry_position.sql"))?;
    find.query_row((charge, number), |row| row.get(0)).optional()
}

impl EntryId {
    /// Reads `le_`, 32 hex digits, `_` and a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, number) = text.strip_prefix("le_")?.split_once('_')?;
        let charge = ChargeId::parse(&["ch_", digits].concat())?;
        let id = Self { charge, number: number.parse().ok()? };
        // Only the one spelling: `+1` and `01` also parse as numbers.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "le_{}_{}", operation(self.charge), self.number)
    }
}

impl EntryKind {
    /// The word on the wire and in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Refund => "refund",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::Capture, Self::Refund].into_iter().find(|kind| kind.as_str() == word)
    }
}

impl Account {
    /// The word on the wire and in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Merchant => "merchant",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        [Self::Customer, Self::Merchant].into_iter().find(|account| account.as_str() == word)
    }
}
