//! The ledger: a balanced pair of accounts for each movement of money, written with the charge's own row.

use rusqlite::Connection;
use unavez_core::time::Time;
use unavez_store::sqlite::WriteTx;

use super::places::{Listed, Places};
use super::{EntryKind, TenantNumber};
use crate::money::{Amount, Currency};

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
