//! What reconciliation reads of the books. Every question reads through a table: none of them is asked by a request.

use rusqlite::Connection;
use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::time::Time;

use super::charge_rows::{self, ChargeRow};
use super::places::Places;
use super::rows;
use crate::acquirer::Account;
use crate::charge::{Charge, ChargeId, Status};
use crate::money::Currency;

/// A charge whose amounts are not what other rows say. Minor units; captured first, then refunded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unbooked {
    /// Which.
    pub charge: ChargeId,
    /// In which currency.
    pub currency: Currency,
    /// What its row says.
    pub row: (i64, i64),
    /// What the ledger says.
    pub ledger: (i64, i64),
    /// What its operations outside say; with the ledger as acquirer, what its row says.
    pub operations: (i64, i64),
}

/// Charges of one order and one amount under several keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameOrder {
    /// Whose.
    pub tenant: Tenant,
    /// In the order of their claims.
    pub charges: Vec<Charge>,
}

/// Where the next page of [`done_outside`] starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(i64);

/// A page of what took effect at an account, claimed in a stretch of time; empty behind the last one.
pub(crate) fn done_outside(
    connection: &Connection,
    account: &Account,
    (since, until): (Time, Time),
    after: Position,
) -> rusqlite::Result<(Vec<OperationId>, Position)> {
    let mut list = connection.prepare_cached(include_str!("sql/done_outside.sql"))?;
    let key = (account.as_str(), since.as_micros(), until.as_micros(), after.0);
    let rows = list.query_map(key, |row| {
        Ok((row.get::<_, i64>(0)?, RecordId::from_bytes(row.get(1)?).operation_id()))
    })?;
    let page = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let last = page.last().map_or(after, |(position, _)| Position(*position));
    Ok((page.into_iter().map(|(_, id)| id).collect(), last))
}

/// Charges since a time that do not agree with the ledger or with their operations.
pub(crate) fn unbooked(connection: &Connection, since: Time) -> rusqlite::Result<Vec<Unbooked>> {
    let mut list = connection.prepare_cached(include_str!("sql/unbooked_charges.sql"))?;
    let found = list.query_map([since.as_micros()], |row| {
        Ok(Unbooked {
            charge: rows::charge_id(row, 0)?,
            row: (row.get(1)?, row.get(2)?),
            ledger: (row.get(3)?, row.get(4)?),
            operations: (row.get(5)?, row.get(6)?),
            currency: rows::currency(row, 7)?,
        })
    })?;
    found.collect()
}

/// Charges since a time that look like one purchase charged several times. The first of them may be older.
pub(crate) fn same_order(connection: &Connection, since: Time) -> rusqlite::Result<Vec<SameOrder>> {
    let mut list = connection.prepare_cached(include_str!("sql/charges_of_one_order.sql"))?;
    let found = list.query_map([since.as_micros()], |row| row.get(0))?;
    let (mut groups, places): (Vec<SameOrder>, _) = (Vec::new(), Places::beside());
    for row in found.collect::<rusqlite::Result<Vec<ChargeRow>>>()? {
        let standing = charge_rows::read(connection, row)?;
        let (tenant, charge) = (standing.tenant, standing.life.charge);
        if let Some(group) = groups.iter_mut().find(|group| group.is_of(&tenant, &charge)) {
            group.charges.push(charge);
            continue;
        }
        let mut charges: Vec<Charge> = first_of(connection, &places, &charge)?.into_iter().collect();
        charges.push(charge);
        groups.push(SameOrder { tenant, charges });
    }
    groups.retain(|group| group.charges.len() > 1);
    Ok(groups)
}

/// The charge that this one was suspected to repeat, where it is of the same amount and kept its money.
fn first_of(connection: &Connection, places: &Places, charge: &Charge) -> rusqlite::Result<Option<Charge>> {
    let Some(first) = charge.suspected_duplicate_of else { return Ok(None) };
    let id = first.operation_id().record_id();
    let Some(row) = charge_rows::row_of(connection, places, id)? else { return Ok(None) };
    let first = charge_rows::read(connection, row)?.life.charge;
    let keeps_money = match first.status {
        Status::Authorized => true,
        Status::Captured => first.amount_refunded < first.amount_captured,
        Status::Created | Status::Pending | Status::Declined | Status::Voided => false,
    };
    let is_same = (first.amount, first.currency) == (charge.amount, charge.currency);
    Ok(Some(first).filter(|_| keeps_money && is_same))
}

impl SameOrder {
    fn is_of(&self, tenant: &Tenant, charge: &Charge) -> bool {
        let value = |it: &Charge| (it.amount, it.currency, it.order_id.clone());
        self.tenant == *tenant && self.charges.first().is_some_and(|first| value(first) == value(charge))
    }
}
