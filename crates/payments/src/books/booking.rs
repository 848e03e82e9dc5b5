//! Writing a charge into the books: what runs inside the one commit.

use rusqlite::OptionalExtension;
use unavez_core::identity::{OperationId, RecordId};
use unavez_core::time::Time;
use unavez_store::sqlite::{Claimed, FindRows, WriteTx};

use super::ledger::{self, Movement};
use super::places::{Places, first_of};
use super::{EntryKind, TenantNumber, rows};
use crate::charge::request::Capture;
use crate::charge::same_order::Rival;
use crate::charge::{Charge, ChargeId, ChargeRequest, OrderId, Status, TestToken};
use crate::request_id::RequestId;

/// Everything about a charge that is known before its transaction.
#[derive(Debug)]
pub(crate) struct Booking {
    pub(crate) operation: RecordId,
    pub(crate) tenant: TenantNumber,
    pub(crate) request: ChargeRequest,
    pub(crate) token: TestToken,
    /// Encoded.
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) request_id: RequestId,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Captured,
    Authorized,
    Declined,
}

/// A charge whose record is gone, and what its request was.
#[derive(Debug)]
pub(crate) struct Earlier {
    pub(crate) charge: Charge,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) request_id: RequestId,
}

impl Verdict {
    /// What the ledger says: the token decides.
    pub(crate) const fn of(token: TestToken, capture: Capture) -> Self {
        match (token, capture) {
            (TestToken::Decline, _) => Self::Declined,
            (TestToken::Approve, Capture::AtOnce) => Self::Captured,
            (TestToken::Approve, Capture::Later) => Self::Authorized,
        }
    }

    pub(crate) const fn status(self) -> Status {
        match self {
            Self::Captured => Status::Captured,
            Self::Authorized => Status::Authorized,
            Self::Declined => Status::Declined,
        }
    }
}

impl Booking {
    /// The charge as it will stand in the books.
    pub(crate) fn charge(&self, now: Time) -> Charge {
        let verdict = Verdict::of(self.token, self.request.capture);
        Charge {
            id: crate::charge::ChargeId::of(OperationId::from(self.operation)),
            order_id: self.request.order_id.as_str().into(),
            amount: self.request.amount,
            currency: self.request.currency,
            status: verdict.status(),
            amount_captured: self.captured(verdict),
            amount_refunded: 0,
            metadata: self.request.metadata.to_json(),
            suspected_duplicate_of: None,
            next_action: None,
            created_at: now,
        }
    }

    fn captured(&self, verdict: Verdict) -> i64 {
        match verdict {
            Verdict::Captured => self.request.amount.minor_units(),
            Verdict::Authorized | Verdict::Declined => 0,
        }
    }

    /// Writes the charge, and for an approved one that captures at once its ledger entry. The caller knows that the
    /// operation has no charge.
    pub(crate) fn write(
        &self,
        tx: &WriteTx<'_>,
        places: &Places,
        suspected_duplicate_of: Option<ChargeId>,
        claimed: &Claimed,
    ) -> rusqlite::Result<Verdict> {
        let Claimed { now, position: charge, .. } = *claimed;
        let verdict = Verdict::of(self.token, self.request.capture);
        let mut insert = tx.prepare_cached(include_str!("sql/insert_charge.sql"))?;
        insert.execute(rusqlite::params![
            self.operation.as_bytes(),
            self.tenant,
            self.request.order_id.as_str(),
            self.request.amount.minor_units(),
            self.request.currency.code(),
            verdict.status().as_str(),
            self.captured(verdict),
            now.as_micros(),
            self.fingerprint,
            self.request_id.to_bytes(),
            self.request.metadata.to_json(),
            suspected_duplicate_of.map(|id| *id.operation_id().record_id().as_bytes()),
            charge,
        ])?;
        places.enter(tx, self.tenant, self.request.order_id.as_str(), charge)?;
        if verdict == Verdict::Captured {
            let movement = Movement {
                tenant: self.tenant,
                charge,
                kind: EntryKind::Capture,
                amount: self.request.amount,
                currency: self.request.currency,
            };
            ledger::book(tx, places, &movement, now)?;
        }
        Ok(verdict)
    }
}

/// The other charge of an order that counts most, where one counts at all ([`crate::charge::same_order`]); a decided one
/// counts if it was claimed or settled after `since`. Every question by an order comes through here.
pub(crate) fn rival(
    tx: &WriteTx<'_>,
    places: &Places,
    (tenant, order_id): (TenantNumber, &OrderId),
    operation: RecordId,
    since: Time,
) -> rusqlite::Result<Option<Rival>> {
    let positions = places.of_order(tx, tenant, order_id.as_str())?;
    if positions.is_empty() {
        return Ok(None);
    }
    let mut find = tx.prepare_cached(include_str!("sql/rival_of_order.sql"))?;
    let mut open = None;
    for position in positions {
        let key = (tenant, order_id.as_str(), since.as_micros(), position, operation.as_bytes());
        let found = find.query_row(key, |row| Ok((RecordId::from_bytes(row.get(0)?), row.get(1)?)));
        match found.optional()? {
            Some((id, true)) => return Ok(Some(Rival::Decided(ChargeId::of(id.operation_id())))),
            Some((id, false)) => open = open.or(Some(Rival::Open(ChargeId::of(id.operation_id())))),
            None => {}
        }
    }
    Ok(open)
}

/// The charge that an operation made, and what its request was.
pub(crate) fn find(
    rows: &impl FindRows,
    places: &Places,
    operation: RecordId,
) -> rusqlite::Result<Option<Earlier>> {
    let positions = places.of_operation(rows, operation)?;
    if positions.is_empty() {
        return Ok(None);
    }
    let mut find = rows.connection().prepare_cached(include_str!("sql/find_charge.sql"))?;
    first_of(positions, |position| {
        let found = find.query_row((operation.as_bytes(), position), |row| {
            Ok(Earlier {
                charge: rows::charge(row)?,
                fingerprint: row.get(11)?,
                request_id: RequestId::from_bytes(row.get(12)?),
            })
        });
        found.optional()
    })
}
