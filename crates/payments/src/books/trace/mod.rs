//! What became of an order: everything that is stored about it, found by any of its names, and a verdict.
//!
//! 1. Only reads, on one state of the database, beside the process that owns it.
//! 2. An order is judged as a whole: whoever asks about one charge learns of the others under other keys.
//! 3. The verdict is a function of stored rows ([`Verdict::of`]); what is not stored is not guessed. Replays are not:
//!    they change nothing.
//!
//! It is about the whole deployment: whoever may read the file is an operator.

mod find;
mod verdict;

use std::time::Duration;

use rusqlite::Connection;
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::record::Record;
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::{ReadError, Viewer};

use self::find::Names;
pub use self::find::{charges_of_reference_on, charges_of_request_on};
pub use self::verdict::{How, Nothing, Verdict};
use super::charge_rows::ChargeRow;
use super::{
    Entry, EventKind, OperationHistory, Places, booking, charge_rows, list_entries_of,
    operations_of_charge_on, tenants,
};
use crate::acquirer::Account;
use crate::charge::Charge;

/// Charges of one order that are shown; the newest.
pub const CHARGES_MAX: u32 = 100;

/// How far before and after a case others are looked for.
const NEIGHBOURHOOD: Duration = Duration::from_secs(15 * 60);

/// All that is stored about a name.
#[derive(Clone, Debug)]
pub struct Trace {
    /// When this was read, on the reader's clock.
    pub now: Time,
    /// The orders it leads to: usually one.
    pub orders: Vec<OrderTrace>,
    /// Keys that it leads to and that made no charge: cancelled ones, and refusals.
    pub keys: Vec<Record>,
}

/// One order of one tenant.
#[derive(Clone, Debug)]
pub struct OrderTrace {
    /// Whose.
    pub tenant: Tenant,
    /// The caller's name for it.
    pub order_id: Box<str>,
    /// In the order of their claims.
    pub charges: Vec<ChargeTrace>,
    /// Who else had no definite answer then; `None` where this order always had one.
    pub around: Option<Around>,
}

/// One charge of it.
#[derive(Clone, Debug)]
pub struct ChargeTrace {
    /// As it stands.
    pub charge: Charge,
    /// The request that claimed its key: `req_…`.
    pub request_id: Box<str>,
    /// The acquirer it went to. `None`: the ledger.
    pub account: Option<Account>,
    /// The record of its key, until that is purged.
    pub record: Option<Record>,
    /// Its payment, where it went outside, and the steps that followed, with the records of their keys.
    pub operations: Vec<(OperationHistory, Option<Record>)>,
    /// The money that moved, oldest first.
    pub entries: Vec<Entry>,
}

/// Other operations at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// From when on.
    pub since: Time,
    /// Up to when.
    pub until: Time,
    /// How many others had no definite answer.
    pub operations: u64,
    /// When the first of them was hit.
    pub first_at: Option<Time>,
    /// How many of them are still not decided.
    pub undecided: u64,
}

/// Finds everything that goes by `name`: an order id, a key or its hash in the log, the id of a charge, refund, entry,
/// operation or request, or the acquirer's own name. With `tenant`, only that one's.
///
/// Order ids, keys and our own ids are found by index; the others by reading through their tables.
///
/// # Errors
/// The file cannot be read.
pub fn trace(viewer: &Viewer, name: &str, tenant: Option<&Tenant>, now: Time) -> Result<Trace, StoreError> {
    viewer.read(|connection| {
        let places = &Places::beside();
        let found = Names { viewer, connection, places, tenant }.find(name)?;
        let reader = Reader { viewer, connection, places, now };
        let mut orders: Vec<OrderTrace> = Vec::new();
        for row in found.charges {
            let standing = charge_rows::read(connection, row)?;
            let (tenant, order_id) = (standing.tenant, standing.life.charge.order_id);
            if !orders.iter().any(|order| order.tenant == tenant && order.order_id == order_id) {
                orders.push(reader.order(tenant, order_id)?);
            }
        }
        Ok(Trace { now, orders, keys: found.keys })
    })
}

/// One state of the database.
struct Reader<'a> {
    viewer: &'a Viewer,
    connection: &'a Connection,
    places: &'a Places,
    now: Time,
}

impl Reader<'_> {
    fn order(&self, tenant: Tenant, order_id: Box<str>) -> Result<OrderTrace, ReadError> {
        let mut charges = Vec::new();
        for row in find::charges_of_order(self.connection, self.places, &tenant, &order_id)? {
            charges.push(self.charge(&tenant, row)?);
        }
        let around = match trouble(&charges, self.now) {
            Some(stretch) => Some(self.around(stretch, &tenant, &order_id)?),
            None => None,
        };
        Ok(OrderTrace { tenant, order_id, charges, around })
    }

    fn charge(&self, tenant: &Tenant, row: ChargeRow) -> Result<ChargeTrace, ReadError> {
        let standing = charge_rows::read(self.connection, row)?;
        let charge = standing.life.charge;
        let id = charge.id.operation_id().record_id();
        let earlier = booking::find(self.connection, self.places, id)?;
        let mut operations = Vec::new();
        for history in operations_of_charge_on(self.connection, self.places, charge.id)? {
            let record = self.record(history.operation_id.record_id(), tenant)?;
            operations.push((history, record));
        }
        let mut entries = match tenants::find(self.connection, tenant)? {
            Some(number) => list_entries_of(self.connection, number, row.position(), i64::MAX, CHARGES_MAX)?,
            None => Vec::new(),
        };
        entries.reverse();
        Ok(ChargeTrace {
            request_id: earlier.map(|it| it.request_id.to_string()).unwrap_or_default().into(),
            account: standing.account,
            record: self.record(id, tenant)?,
            operations,
            entries,
            charge,
        })
    }

    fn record(&self, id: RecordId, tenant: &Tenant) -> Result<Option<Record>, ReadError> {
        Ok(self.viewer.record(id)?.filter(|record| record.tenant == *tenant))
    }

    fn around(&self, (first, last): (Time, Time), tenant: &Tenant, order: &str) -> Result<Around, ReadError> {
        let (since, until) = (first.minus(NEIGHBOURHOOD), last.plus(NEIGHBOURHOOD).min(self.now));
        let mut count = self.connection.prepare_cached(include_str!("../sql/troubled_operations.sql"))?;
        let key = (since.as_micros(), until.as_micros(), tenant.as_str(), order);
        Ok(count.query_row(key, |row| {
            let first_at = row.get::<_, Option<i64>>(1)?.map(Time::from_micros);
            Ok(Around { since, until, operations: unsigned(row, 0)?, first_at, undecided: unsigned(row, 2)? })
        })?)
    }
}

fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

/// From the first to the last sign that an answer was not definite; up to now where there is still none.
fn trouble(charges: &[ChargeTrace], now: Time) -> Option<(Time, Time)> {
    let histories = charges.iter().flat_map(|charge| &charge.operations).map(|(history, _)| history);
    let signs = histories.flat_map(|history| {
        let events = history.events.iter().filter(|event| is_trouble(event.kind)).map(|event| event.at);
        let lasts = !history.standing.is_decided() && history.events.iter().any(|it| is_trouble(it.kind));
        events.chain(lasts.then_some(now))
    });
    signs.fold(None, |stretch, at| match stretch {
        None => Some((at, at)),
        Some((first, last)) => Some((first.min(at), last.max(at))),
    })
}

/// The kinds of `sql/troubled_operations.sql`.
const fn is_trouble(kind: EventKind) -> bool {
    matches!(kind, EventKind::Answered | EventKind::TakenOver | EventKind::Held | EventKind::Contradicted)
}
