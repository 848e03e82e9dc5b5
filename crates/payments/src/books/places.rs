//! Where rows of the books stand: by operation, by order, and by tenant.
//!
//! Every question that begins with an operation or an order asks here first. Both are found through the store's digest
//! indexes, so a charge costs no page of a tree while it is made:
//!
//! 1. A charge and its operation stand at the position of the idempotency record they came with, and share its index: one
//!    look-up tells whether anything at all is known of an operation.
//! 2. Of a tenant's rows, only the blocks of numbers are kept in which some stand, so a row adds to no list but the first
//!    of its tenant in a block.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest as _, Sha256};
use unavez_core::identity::RecordId;
use unavez_store::sqlite::{Digest, DigestIndex, FindRows, Guests, IndexSpec, SqliteStore, WriteTx};

use super::TenantNumber;

const BY_ORDER: &str = "charges_by_order";

/// The index of [`COMPONENT`](super::COMPONENT).
pub(super) const INDEXES: &[IndexSpec] = &[IndexSpec {
    table: BY_ORDER,
    rows_after: include_str!("sql/orders_after.sql"),
    entry: |row| Ok((order_digest(row.get(0)?, row.get_ref(1)?.as_str()?), row.get(2)?)),
    guests: None,
}];

/// What [`COMPONENT`](super::COMPONENT) finds through the records' index.
pub(super) const GUESTS: Guests = Guests {
    rows_after: include_str!("sql/operations_after.sql"),
    stand_at: include_str!("sql/operation_stands_at.sql"),
};

/// The records' index, for those who look for charges and operations in it.
const BY_OPERATION: IndexSpec = IndexSpec {
    table: "idempotency_records_by_id",
    rows_after: GUESTS.rows_after,
    entry: |row| Ok((row.get(0)?, row.get(1)?)),
    guests: None,
};

/// Rows whose numbers differ in these last bits alone make a block.
const BLOCK_BITS: u32 = 8;

/// The two indexes of a database, and the blocks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Places {
    by_operation: DigestIndex,
    by_order: DigestIndex,
    blocks: Arc<Blocks>,
}

/// What has a list by tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Listed {
    Charges,
    Entries,
}

/// The newest block that is known to be listed: a matter of speed, since listing it again does nothing.
#[derive(Debug, Default)]
struct Blocks(RwLock<HashMap<(Listed, TenantNumber), i64>>);

impl Places {
    pub(crate) fn of(store: &SqliteStore) -> Self {
        let by_order = store.index(BY_ORDER).expect("the component declares it").clone();
        Self { by_operation: store.index_of_records().clone(), by_order, blocks: Arc::default() }
    }

    /// As a process beside the service sees them, in one database. Reads what is not filed yet once, so it is worth keeping.
    #[must_use]
    pub fn beside() -> Self {
        let by_order = DigestIndex::beside(&INDEXES[0]);
        Self { by_operation: DigestIndex::beside(&BY_OPERATION), by_order, blocks: Arc::default() }
    }

    /// Rows that may be of this operation; the newest last.
    pub(crate) fn of_operation(
        &self,
        rows: &impl FindRows,
        operation: RecordId,
    ) -> rusqlite::Result<Vec<i64>> {
        rows.find_rows(&self.by_operation, operation.as_bytes())
    }

    /// The row of a tenant's charge.
    pub(super) fn of_charge(
        &self,
        connection: &Connection,
        tenant: TenantNumber,
        operation: RecordId,
    ) -> rusqlite::Result<Option<i64>> {
        let mut find = connection.prepare_cached(include_str!("sql/charge_position.sql"))?;
        first_of(self.of_operation(connection, operation)?, |position| {
            find.query_row((operation.as_bytes(), tenant, position), |row| row.get(0)).optional()
        })
    }

    /// Rows that may be of this order; the newest last.
    pub(super) fn of_order(
        &self,
        rows: &impl FindRows,
        tenant: TenantNumber,
        order_id: &str,
    ) -> rusqlite::Result<Vec<i64>> {
        rows.find_rows(&self.by_order, &order_digest(tenant, order_id))
    }

    /// Enters a charge that was just added, at its record's position.
    pub(super) fn enter(
        &self,
        tx: &WriteTx<'_>,
        tenant: TenantNumber,
        order_id: &str,
        position: i64,
    ) -> rusqlite::Result<()> {
        tx.index_row(&self.by_order, order_digest(tenant, order_id), position);
        self.list(tx, Listed::Charges, tenant, position)
    }

    /// Lists a row that was just added among its tenant's.
    pub(super) fn list(
        &self,
        tx: &WriteTx<'_>,
        listed: Listed,
        tenant: TenantNumber,
        row: i64,
    ) -> rusqlite::Result<()> {
        let block = row >> BLOCK_BITS;
        if self.blocks.newest(listed, tenant) == Some(block) {
            return Ok(());
        }
        tx.prepare_cached(listed.insert())?.execute((tenant, block))?;
        let blocks = Arc::clone(&self.blocks);
        tx.when_committed(move || blocks.learn(listed, tenant, block));
        Ok(())
    }
}

impl Listed {
    const fn insert(self) -> &'static str {
        match self {
            Self::Charges => include_str!("sql/list_charge_block.sql"),
            Self::Entries => include_str!("sql/list_entry_block.sql"),
        }
    }
}

impl Blocks {
    fn newest(&self, listed: Listed, tenant: TenantNumber) -> Option<i64> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&(listed, tenant)).copied()
    }

    fn learn(&self, listed: Listed, tenant: TenantNumber, block: i64) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert((listed, tenant), block);
    }
}

/// The newest row in which something is found.
pub(super) fn first_of<T>(
    positions: Vec<i64>,
    mut find: impl FnMut(i64) -> rusqlite::Result<Option<T>>,
) -> rusqlite::Result<Option<T>> {
    for position in positions.into_iter().rev() {
        if let Some(found) = find(position)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn order_digest(tenant: TenantNumber, order_id: &str) -> Digest {
    let mut hash = Sha256::new();
    hash.update(tenant.to_bytes());
    hash.update(order_id);
    let mut digest = Digest::default();
    digest.copy_from_slice(&hash.finalize()[..16]);
    digest
}
