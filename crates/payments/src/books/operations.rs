//! Operations: what goes outside, and the ledger's captures, voids and refunds.
//!
//! 1. A row is written with the claim and says all that the operation is, amounts resolved. It outlives the idempotency
//!    record (P21).
//! 2. The request is stored with it, before the first send; those bytes alone are sent, on every attempt (P16).
//! 3. A released operation keeps its row: the same key finds it again, and another request under the key is still
//!    another request (P15).

use bytes::Bytes;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::time::Time;
use unavez_store::sqlite::FindRows;

use super::charge_rows::ChargeRow;
use super::ledger::Movement;
use super::places::{Places, first_of};
use super::{EntryKind, TenantNumber, rows};
use crate::acquirer::{Account, Kind, Outgoing, Payment, Subject};
use crate::charge::request::Capture;
use crate::charge::{ChargeId, RefundId};
use crate::money::{Amount, Currency};
use crate::request_id::RequestId;

/// A row of `operations`. Given once and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OperationRow(i64);

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationStanding {
    /// An attempt runs, or its owner is lost.
    Open,
    /// An attempt ended, and nobody knows how.
    Unknown,
    /// Known outside, and not decided.
    Pending,
    /// It took effect.
    Done,
    /// Refused outside, for good.
    Declined,
    /// Certainly nothing was sent; the key is free.
    Released,
}

/// One operation as its row says.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) row: OperationRow,
    pub(crate) id: RecordId,
    pub(crate) tenant: Tenant,
    pub(crate) tenant_number: TenantNumber,
    pub(crate) charge: ChargeRow,
    pub(crate) charge_id: ChargeId,
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    /// Of a payment; [`Capture::Later`] for all others.
    pub(crate) capture: Capture,
    pub(crate) standing: OperationStanding,
    /// `None`: the ledger.
    pub(crate) account: Option<Account>,
    pub(crate) reference: Option<Box<str>>,
    pub(crate) decline_code: Option<Box<str>>,
    /// The acquirer's own name for the payment it belongs to.
    pub(crate) payment_reference: Option<Box<str>>,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) request_id: RequestId,
    pub(crate) created_at: Time,
}

/// What is written with a claim.
#[derive(Debug)]
pub(crate) struct NewOperation<'a> {
    pub(crate) id: RecordId,
    pub(crate) charge: ChargeRow,
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) amount: Amount,
    pub(crate) capture: Capture,
    pub(crate) via: Via<'a>,
    pub(crate) fingerprint: &'a [u8],
    pub(crate) request_id: RequestId,
}

/// What is written of an operation when something becomes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) standing: OperationStanding,
    pub(crate) reference: Option<&'a str>,
    pub(crate) decline_code: Option<&'a str>,
    /// When it was sent, if that one send's answer settles it: the row tells its whole history then.
    pub(crate) sent_at: Option<Time>,
}

impl Change<'_> {
    /// It stands so, and nothing more is known.
    pub(crate) const fn to(standing: OperationStanding) -> Self {
        Self { standing, reference: None, decline_code: None, sent_at: None }
    }
}

/// Where an operation takes effect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Via<'a> {
    /// Here, with its claim.
    Ledger,
    /// Outside, by this request, claimed by this process.
    Outside(&'a Account, &'a Outgoing, &'a str),
}

impl Operation {
    /// The operation as an acquirer is asked about it.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            operation_id: self.id.operation_id(),
            kind: self.kind,
            tenant: self.tenant.clone(),
            amount: self.amount,
            currency: self.currency,
            payment: (self.kind != Kind::Payment).then(|| Payment {
                operation_id: self.charge_id.operation_id(),
                reference: self.payment_reference.clone(),
            }),
            claimed_at: self.created_at,
        }
    }

    /// The money that moved, where it took effect.
    pub(crate) const fn movement(&self, kind: EntryKind) -> Movement {
        Movement {
            tenant: self.tenant_number,
            charge: self.charge.position(),
            kind,
            amount: self.amount,
            currency: self.currency,
        }
    }

    /// What the operation makes or changes, by the id its caller knows.
    pub(crate) fn resource(&self) -> String {
        match self.kind {
            Kind::Refund => self.refund_id().to_string(),
            Kind::Payment | Kind::Capture | Kind::Void => self.charge_id.to_string(),
        }
    }

    /// The id of a refund.
    pub(crate) fn refund_id(&self) -> RefundId {
        RefundId { charge: self.charge_id, number: self.number }
    }
}

/// The operation with this id. Every question by an operation's id comes through here.
pub(crate) fn find(
    rows: &impl FindRows,
    places: &Places,
    id: RecordId,
) -> rusqlite::Result<Option<Operation>> {
    let positions = places.of_operation(rows, id)?;
    if positions.is_empty() {
        return Ok(None);
    }
    let mut find = rows.connection().prepare_cached(include_str!("sql/operation_row.sql"))?;
    let row = first_of(positions, |position| {
        find.query_row((id.as_bytes(), position), |row| row.get(0)).optional()
    })?;
    match row {
        Some(row) => at(rows.connection(), row).map(Some),
        None => Ok(None),
    }
}

/// The operation in this row.
pub(crate) fn at(connection: &Connection, row: OperationRow) -> rusqlite::Result<Operation> {
    connection.prepare_cached(include_str!("sql/find_operation.sql"))?.query_row([row], read)
}

/// One of a tenant's refunds.
pub(crate) fn find_refund(
    connection: &Connection,
    places: &Places,
    tenant: TenantNumber,
    id: RefundId,
) -> rusqlite::Result<Option<Operation>> {
    let charge = id.charge.operation_id().record_id();
    let mut find_id = connection.prepare_cached(include_str!("sql/find_refund.sql"))?;
    let row = first_of(places.of_operation(connection, charge)?, |position| {
        find_id.query_row((charge.as_bytes(), tenant, id.number, position), |row| row.get(0)).optional()
    })?;
    match row {
        Some(row) => at(connection, row).map(Some),
        None => Ok(None),
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Operation> {
    Ok(Operation {
        row: row.get(0)?,
        id: RecordId::from_bytes(row.get(1)?),
        tenant: rows::tenant(row, 2)?,
        tenant_number: row.get(18)?,
        charge: row.get(3)?,
        charge_id: rows::charge_id(row, 4)?,
        kind: rows::word(row, 5, "kind", Kind::parse)?,
        number: row.get(6)?,
        amount: rows::amount(row, 7)?,
        currency: rows::currency(row, 8)?,
        capture: match row.get(9)? {
            Some(true) => Capture::AtOnce,
            Some(false) | None => Capture::Later,
        },
        standing: rows::word(row, 10, "standing", OperationStanding::parse)?,
        account: rows::optional_word(row, 11, "account", Account::parse)?,
        reference: row.get(12)?,
        decline_code: row.get(13)?,
        payment_reference: row.get(14)?,
        fingerprint: row.get(15)?,
        request_id: RequestId::from_bytes(row.get(16)?),
        created_at: rows::time(row, 17)?,
    })
}

/// The number of a charge's next operation of a kind.
pub(crate) fn next_number(connection: &Connection, charge: ChargeRow, kind: Kind) -> rusqlite::Result<u32> {
    let mut next = connection.prepare_cached(include_str!("sql/next_number.sql"))?;
    next.query_row((charge, kind.as_str()), |row| row.get(0))
}

/// Writes a claimed operation at its record's position: open with an acquirer outside, done with the ledger.
pub(crate) fn insert(
    connection: &Connection,
    new: &NewOperation<'_>,
    position: i64,
    now: Time,
) -> rusqlite::Result<OperationRow> {
    let request = match new.via {
        Via::Ledger => None,
        Via::Outside(account, outgoing, instance) => Some((account, outgoing, instance)),
    };
    let outgoing = request.map(|(_, outgoing, _)| outgoing);
    let standing = match new.via {
        Via::Ledger => OperationStanding::Done,
        Via::Outside(..) => OperationStanding::Open,
    };
    connection.prepare_cached(include_str!("sql/insert_operation.sql"))?.execute(rusqlite::params![
        new.id.as_bytes(),
        new.charge,
        new.kind.as_str(),
        new.number,
        new.amount.minor_units(),
        (new.kind == Kind::Payment).then_some(new.capture == Capture::AtOnce),
        standing.as_str(),
        request.map(|(account, _, _)| account.as_str()),
        outgoing.map(|it| &it.method),
        outgoing.map(|it| &it.path),
        outgoing.map(|it| headers_json(&it.headers)),
        outgoing.map(|it| &it.body[..]),
        // A payment's stands in its charge.
        (new.kind != Kind::Payment).then_some(new.fingerprint),
        new.request_id.to_bytes(),
        request.map(|(_, _, instance)| instance),
        now.as_micros(),
        request.is_none().then_some(now.as_micros()),
        position,
    ])?;
    Ok(OperationRow(position))
}

/// Opens a released operation again, for the acquirer of today.
pub(crate) fn claim_again(
    connection: &Connection,
    row: OperationRow,
    account: &Account,
    outgoing: &Outgoing,
) -> rusqlite::Result<()> {
    let updated = connection.prepare_cached(include_str!("sql/claim_operation_again.sql"))?.execute((
        row,
        account.as_str(),
        &outgoing.method,
        &outgoing.path,
        headers_json(&outgoing.headers),
        &outgoing.body[..],
    ))?;
    rows::exactly_one(updated)
}

/// The request that was stored with the claim.
pub(crate) fn outgoing(connection: &Connection, row: OperationRow) -> rusqlite::Result<Outgoing> {
    let mut find = connection.prepare_cached(include_str!("sql/outgoing.sql"))?;
    find.query_row([row], |found| {
        Ok(Outgoing {
            method: found.get(0)?,
            path: found.get(1)?,
            headers: rows::word(found, 2, "headers", |text| serde_json::from_str(text).ok())?,
            body: Bytes::from(found.get::<_, Vec<u8>>(3)?),
        })
    })
}

/// The operations of a charge, in the order of their claims.
pub(crate) fn of_charge(connection: &Connection, charge: ChargeRow) -> rusqlite::Result<Vec<Operation>> {
    let mut list = connection.prepare_cached(include_str!("sql/operations_of_charge.sql"))?;
    let rows = list.query_map([charge], |row| row.get(0))?;
    rows.map(|row| at(connection, row?)).collect()
}

/// Writes where an operation stands. A reference once known stays.
pub(crate) fn update(
    connection: &Connection,
    row: OperationRow,
    change: Change<'_>,
    now: Time,
) -> rusqlite::Result<()> {
    let Change { standing, reference, decline_code, sent_at } = change;
    let settled_at = standing.is_final().then_some(now.as_micros());
    let mut update = connection.prepare_cached(include_str!("sql/update_operation.sql"))?;
    let updated = update.execute((
        row,
        standing.as_str(),
        reference,
        decline_code,
        settled_at,
        sent_at.map(Time::as_micros),
    ))?;
    rows::exactly_one(updated)
}

/// Writes the amount that the acquirer knows an open operation with.
pub(crate) fn adopt(connection: &Connection, row: OperationRow, amount: Amount) -> rusqlite::Result<()> {
    let mut adopt = connection.prepare_cached(include_str!("sql/adopt_amount.sql"))?;
    rows::exactly_one(adopt.execute((row, amount.minor_units()))?)
}

/// Notes that the acquirer knows an open operation, and nothing else about it.
pub(crate) fn sight(connection: &Connection, row: OperationRow) -> rusqlite::Result<()> {
    connection.prepare_cached(include_str!("sql/sight_operation.sql"))?.execute([row]).map(drop)
}

/// Operations that are not decided, oldest first; running ones only from before `running_since`.
pub(crate) fn undecided(
    connection: &Connection,
    running_since: Time,
    limit: usize,
) -> rusqlite::Result<Vec<Operation>> {
    let mut list = connection.prepare_cached(include_str!("sql/undecided.sql"))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = list.query_map((running_since.as_micros(), limit), |row| row.get(0))?;
    rows.map(|row| at(connection, row?)).collect()
}

fn headers_json(headers: &[(Box<str>, Box<str>)]) -> String {
    serde_json::to_string(headers).expect("pairs of texts have a JSON form")
}

impl OperationStanding {
    const ALL: [Self; 6] =
        [Self::Open, Self::Unknown, Self::Pending, Self::Done, Self::Declined, Self::Released];

    /// The word in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unknown => "unknown",
            Self::Pending => "pending",
            Self::Done => "done",
            Self::Declined => "declined",
            Self::Released => "released",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|standing| standing.as_str() == word)
    }

    /// Whether nothing more becomes of it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Declined)
    }

    /// Whether it is known what became of it: final, or certainly never sent.
    #[must_use]
    pub const fn is_decided(self) -> bool {
        matches!(self, Self::Done | Self::Declined | Self::Released)
    }
}

impl ToSql for OperationRow {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for OperationRow {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}
