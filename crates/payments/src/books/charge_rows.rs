//! Rows of charges as the steps of their lives read and write them.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::time::Time;
use unavez_store::sqlite::{FindRows, WriteTx};

use super::places::{Places, first_of};
use super::{TenantNumber, rows};
use crate::acquirer::{self, Kind};
use crate::charge::life::Life;
use crate::charge::{Charge, ChargeId, ChargeRequest, Status};
use crate::request_id::RequestId;

/// A row of `charges`. Given once and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ChargeRow(i64);

impl ChargeRow {
    /// Its position, as indexes name it.
    pub(crate) const fn position(self) -> i64 {
        self.0
    }
}

/// A charge, whose it is, and where it went.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) row: ChargeRow,
    pub(crate) tenant: Tenant,
    pub(crate) tenant_number: TenantNumber,
    pub(crate) life: Life,
    /// The acquirer it went to. `None`: the ledger.
    pub(crate) account: Option<acquirer::Account>,
    /// The acquirer's own name for the payment.
    pub(crate) reference: Option<Box<str>>,
}

/// A charge that is about to be sent.
#[derive(Debug)]
pub(crate) struct NewCharge<'a> {
    pub(crate) operation: RecordId,
    pub(crate) tenant: TenantNumber,
    pub(crate) request: &'a ChargeRequest,
    pub(crate) fingerprint: &'a [u8],
    pub(crate) request_id: RequestId,
    pub(crate) suspected_duplicate_of: Option<ChargeId>,
}

/// The row of the charge that an operation made. Every question by an operation's id comes through here.
pub(crate) fn row_of(
    rows: &impl FindRows,
    places: &Places,
    operation: RecordId,
) -> rusqlite::Result<Option<ChargeRow>> {
    let mut find = rows.connection().prepare_cached(include_str!("sql/charge_row.sql"))?;
    first_of(places.of_operation(rows, operation)?, |position| {
        find.query_row((operation.as_bytes(), position), |row| row.get(0)).optional()
    })
}

/// A charge as it stands now.
pub(crate) fn read(connection: &Connection, row: ChargeRow) -> rusqlite::Result<Standing> {
    let mut find = connection.prepare_cached(include_str!("sql/find_charge_state.sql"))?;
    find.query_row([row], |found| {
        Ok(Standing {
            row,
            tenant: rows::tenant(found, 12)?,
            tenant_number: found.get(16)?,
            life: Life {
                charge: rows::charge(found)?,
                refunding: found.get(11)?,
                slot: rows::optional_word(found, 13, "kind", Kind::parse)?,
            },
            account: rows::optional_word(found, 14, "account", acquirer::Account::parse)?,
            reference: found.get(15)?,
        })
    })
}

/// The charge a step speaks of, if it is its tenant's (P4).
pub(crate) fn to_step(
    tx: &WriteTx<'_>,
    places: &Places,
    tenant: &Tenant,
    charge: Option<ChargeId>,
) -> rusqlite::Result<Option<Standing>> {
    let Some(charge) = charge else { return Ok(None) };
    let Some(row) = row_of(tx, places, charge.operation_id().record_id())? else { return Ok(None) };
    let standing = read(tx, row)?;
    Ok(Some(standing).filter(|standing| standing.tenant == *tenant))
}

/// Writes a charge that is about to be sent.
pub(crate) fn insert(
    tx: &WriteTx<'_>,
    places: &Places,
    charge: &NewCharge<'_>,
    now: Time,
) -> rusqlite::Result<(ChargeRow, Charge)> {
    let metadata = charge.request.metadata.to_json();
    let mut insert = tx.prepare_cached(include_str!("sql/insert_charge_outside.sql"))?;
    let position = tx.position_of_record(charge.operation);
    insert.execute(rusqlite::params![
        charge.operation.as_bytes(),
        charge.tenant,
        charge.request.order_id.as_str(),
        charge.request.amount.minor_units(),
        charge.request.currency.code(),
        now.as_micros(),
        charge.fingerprint,
        charge.request_id.to_bytes(),
        &metadata,
        charge.suspected_duplicate_of.map(|id| *id.operation_id().record_id().as_bytes()),
        position,
    ])?;
    places.enter(tx, charge.tenant, charge.request.order_id.as_str(), position)?;
    let written = Charge {
        id: ChargeId::of(charge.operation.operation_id()),
        order_id: charge.request.order_id.as_str().into(),
        amount: charge.request.amount,
        currency: charge.request.currency,
        status: Status::Created,
        amount_captured: 0,
        amount_refunded: 0,
        metadata,
        suspected_duplicate_of: charge.suspected_duplicate_of,
        next_action: None,
        created_at: now,
    };
    Ok((ChargeRow(position), written))
}

/// Writes where a charge stands.
pub(crate) fn update(connection: &Connection, row: ChargeRow, life: &Life) -> rusqlite::Result<()> {
    let charge = &life.charge;
    let updated = connection.prepare_cached(include_str!("sql/update_charge.sql"))?.execute((
        row,
        charge.status.as_str(),
        charge.amount_captured,
        charge.amount_refunded,
        life.refunding,
        &charge.next_action,
    ))?;
    rows::exactly_one(updated)
}

/// Names the charge that this one may be a second of, when it is about to be sent.
pub(crate) fn suspect(
    connection: &Connection,
    row: ChargeRow,
    suspected_duplicate_of: Option<ChargeId>,
) -> rusqlite::Result<()> {
    let first = suspected_duplicate_of.map(|id| *id.operation_id().record_id().as_bytes());
    let updated = connection.prepare_cached(include_str!("sql/suspect_charge.sql"))?.execute((row, first))?;
    rows::exactly_one(updated)
}

impl ToSql for ChargeRow {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for ChargeRow {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}
