//! From any name to the charges that go by it.

use rusqlite::{Connection, OptionalExtension as _};
use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::Record;
use unavez_store::Filter;
use unavez_store::sqlite::{ReadError, Viewer};

use super::super::charge_rows::ChargeRow;
use super::super::{EntryId, Places, TenantNumber, charge_rows, operations, rows, tenants};
use super::CHARGES_MAX;
use crate::charge::{ChargeId, RefundId};
use crate::request_id::RequestId;

/// Records read at a time when a key is looked for by its hash.
const PAGE: usize = 1_000;

/// What a name leads to.
#[derive(Default)]
pub(super) struct Found {
    pub(super) charges: Vec<ChargeRow>,
    /// Keys without a charge.
    pub(super) keys: Vec<Record>,
}

/// Where a name is looked for.
pub(super) struct Names<'a> {
    pub(super) viewer: &'a Viewer,
    pub(super) connection: &'a Connection,
    pub(super) places: &'a Places,
    pub(super) tenant: Option<&'a Tenant>,
}

impl Names<'_> {
    /// A name can be several things at once, an order id and a key above all: all of them are found.
    pub(super) fn find(&self, name: &str) -> Result<Found, ReadError> {
        let mut found = Found::default();
        if let Some(id) = by_form(self.connection, self.places, name)? {
            self.add_operation(&mut found, id)?;
        }
        for tenant in self.tenants()? {
            self.add_order(&mut found, &tenant, name)?;
            if let Ok(key) = Key::parse_path(name) {
                self.add_operation(&mut found, RecordId::of(self.viewer.realm(), &tenant, &key))?;
            }
        }
        if found.charges.is_empty() && found.keys.is_empty() {
            self.add_scanned(&mut found, name)?;
        }
        Ok(found)
    }

    /// All tenants that ever charged, and the one that is asked for.
    fn tenants(&self) -> Result<Vec<Tenant>, ReadError> {
        if let Some(tenant) = self.tenant {
            return Ok(vec![tenant.clone()]);
        }
        let mut list = self.connection.prepare_cached(include_str!("../sql/all_tenants.sql"))?;
        let tenants = list.query_map([], |row| rows::tenant(row, 1))?;
        let mut tenants = tenants.collect::<rusqlite::Result<Vec<_>>>()?;
        // Whoever never charged anything has no number yet, and may have keys.
        if !tenants.contains(&Tenant::single()) {
            tenants.push(Tenant::single());
        }
        Ok(tenants)
    }

    fn add_operation(&self, found: &mut Found, id: RecordId) -> Result<(), ReadError> {
        let row = match operations::find(self.connection, self.places, id)? {
            Some(operation) => Some(operation.charge),
            None => charge_rows::row_of(self.connection, self.places, id)?,
        };
        if let Some(row) = row {
            return self.add_charge(found, row);
        }
        let Some(record) = self.viewer.record(id)?.filter(|record| self.is_asked_for(&record.tenant)) else {
            return Ok(());
        };
        match resource_of(&record) {
            // A refusal that names the charge it was about.
            Some(charge) if charge != id => self.add_operation(found, charge),
            _ => {
                if !found.keys.iter().any(|known| known.id == record.id) {
                    found.keys.push(record);
                }
                Ok(())
            }
        }
    }

    fn add_charge(&self, found: &mut Found, row: ChargeRow) -> Result<(), ReadError> {
        let is_new = !found.charges.contains(&row);
        if is_new && self.is_asked_for(&charge_rows::read(self.connection, row)?.tenant) {
            found.charges.push(row);
        }
        Ok(())
    }

    fn is_asked_for(&self, tenant: &Tenant) -> bool {
        self.tenant.is_none_or(|asked| asked == tenant)
    }

    fn add_order(&self, found: &mut Found, tenant: &Tenant, order: &str) -> Result<(), ReadError> {
        for row in charges_of_order(self.connection, self.places, tenant, order)? {
            self.add_charge(found, row)?;
        }
        Ok(())
    }

    /// By names that have no index.
    fn add_scanned(&self, found: &mut Found, name: &str) -> Result<(), ReadError> {
        for row in of_request(self.connection, name)? {
            self.add_charge(found, row)?;
        }
        for id in operations_by_reference(self.connection, name)? {
            self.add_operation(found, id)?;
        }
        if name.len() == HASH_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            for id in self.keys_with_hash(name)? {
                self.add_operation(found, id)?;
            }
        }
        Ok(())
    }

    /// Records whose key is logged so. A purged record takes its key with it.
    fn keys_with_hash(&self, hash: &str) -> Result<Vec<RecordId>, ReadError> {
        let filter = Filter { tenant: self.tenant.cloned(), state: None };
        let (mut ids, mut after) = (Vec::new(), None);
        loop {
            let (records, next) = self.viewer.list(&filter, after, PAGE)?;
            let hashed = records.iter().filter(|record| record.key.log_hash().to_string() == hash);
            ids.extend(hashed.map(|record| record.id));
            after = next;
            if after.is_none() {
                return Ok(ids);
            }
        }
    }
}

/// Hex digits of a key's hash in the log.
const HASH_DIGITS: usize = 12;

/// The operation that an id of ours names by its form.
fn by_form(connection: &Connection, places: &Places, name: &str) -> rusqlite::Result<Option<RecordId>> {
    if let Some(refund) = RefundId::parse(name) {
        let mut find = connection.prepare_cached(include_str!("../sql/refund_of_charge.sql"))?;
        let Some(row) = charge_rows::row_of(connection, places, refund.charge.operation_id().record_id())?
        else {
            return Ok(None);
        };
        return find.query_row((row, refund.number), |row| row.get(0).map(RecordId::from_bytes)).optional();
    }
    let operation = OperationId::parse(name).ok();
    let charge = ChargeId::parse(name).or(EntryId::parse(name).map(|entry| entry.charge));
    Ok(operation.or(charge.map(ChargeId::operation_id)).map(OperationId::record_id))
}

/// The charge that a record's answer is about.
fn resource_of(record: &Record) -> Option<RecordId> {
    let unavez_core::record::State::Finished { resource, .. } = &record.state else { return None };
    ChargeId::parse(resource.as_deref()?).map(|charge| charge.operation_id().record_id())
}

/// The charges of an order, oldest first; the newest [`CHARGES_MAX`].
pub(super) fn charges_of_order(
    connection: &Connection,
    places: &Places,
    tenant: &Tenant,
    order: &str,
) -> rusqlite::Result<Vec<ChargeRow>> {
    let Some(number) = tenants::find(connection, tenant)? else { return Ok(Vec::new()) };
    let mut positions = places.of_order(connection, number, order)?;
    positions.drain(..positions.len().saturating_sub(CHARGES_MAX as usize));
    let is_of = |position: &i64| is_of_order(connection, number, order, *position).transpose();
    positions.iter().filter_map(is_of).collect()
}

fn is_of_order(
    connection: &Connection,
    tenant: TenantNumber,
    order: &str,
    position: i64,
) -> rusqlite::Result<Option<ChargeRow>> {
    let mut find = connection.prepare_cached(include_str!("../sql/charge_in_order.sql"))?;
    find.query_row((tenant, order, position), |row| row.get(0)).optional()
}

/// The charges that a request (`req_…`) had to do with, on any connection. Reads through all operations and events.
///
/// # Errors
/// The library's, or a row that cannot be read.
pub fn charges_of_request_on(connection: &Connection, request_id: &str) -> rusqlite::Result<Vec<ChargeId>> {
    let rows = of_request(connection, request_id)?.into_iter();
    rows.map(|row| Ok(charge_rows::read(connection, row)?.life.charge.id)).collect()
}

/// The charges that an acquirer knows under a name of its own, on any connection. Reads through all operations.
///
/// # Errors
/// The library's, or a row that cannot be read.
pub fn charges_of_reference_on(connection: &Connection, reference: &str) -> rusqlite::Result<Vec<ChargeId>> {
    let ids = operations_by_reference(connection, reference)?.into_iter();
    let charges = ids.filter_map(|id| operations::find(connection, &Places::beside(), id).transpose());
    charges.map(|found| found.map(|operation| operation.charge_id)).collect()
}

fn of_request(connection: &Connection, request_id: &str) -> rusqlite::Result<Vec<ChargeRow>> {
    let Some(request) = RequestId::parse(request_id) else { return Ok(Vec::new()) };
    let mut list = connection.prepare_cached(include_str!("../sql/charges_of_request.sql"))?;
    list.query_map([request.to_bytes()], |row| row.get(0))?.collect()
}

/// The operations that an acquirer knows under this name.
fn operations_by_reference(connection: &Connection, reference: &str) -> rusqlite::Result<Vec<RecordId>> {
    let mut find = connection.prepare_cached(include_str!("../sql/operations_by_reference.sql"))?;
    find.query_map([reference], |found| found.get(0).map(RecordId::from_bytes))?.collect()
}
