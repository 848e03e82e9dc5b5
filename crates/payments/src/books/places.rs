//! Where rows of the books stand: by operation, and by order.
//!
//! Every question that begins with an operation or an order asks here first. Both are found through the store's digest
//! indexes, so a charge costs no page of a tree while it is made.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest as _, Sha256};
use unavez_core::identity::RecordId;
use unavez_store::sqlite::{Digest, DigestIndex, FindRows, IndexSpec, SqliteStore, WriteTx};

use super::TenantNumber;

const BY_OPERATION: &str = "charges_by_operation";
const BY_ORDER: &str = "charges_by_order";

/// The indexes of [`COMPONENT`](super::COMPONENT).
pub(super) const INDEXES: &[IndexSpec] = &[
    IndexSpec {
        table: BY_OPERATION,
        rows_after: include_str!("sql/operations_after.sql"),
        entry: |row| Ok((row.get(0)?, row.get(1)?)),
    },
    IndexSpec {
        table: BY_ORDER,
        rows_after: include_str!("sql/orders_after.sql"),
        entry: |row| Ok((order_digest(row.get(0)?, row.get_ref(1)?.as_str()?), row.get(2)?)),
    },
];

/// The two indexes of a database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Places {
    by_operation: DigestIndex,
    by_order: DigestIndex,
}

impl Places {
    pub(crate) fn of(store: &SqliteStore) -> Self {
        let index = |table| store.index(table).expect("the component declares it").clone();
        Self { by_operation: index(BY_OPERATION), by_order: index(BY_ORDER) }
    }

    /// As a process beside the service sees them, in one database. Reads what is not filed yet once, so it is worth keeping.
    #[must_use]
    pub fn beside() -> Self {
        let [by_operation, by_order] = INDEXES else { unreachable!("there are two") };
        Self { by_operation: DigestIndex::beside(by_operation), by_order: DigestIndex::beside(by_order) }
    }

    /// Rows that may be of this operation; the newest last.
    pub(super) fn of_operation(
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

    /// Enters a charge that was just added.
    pub(super) fn enter(
        &self,
        tx: &WriteTx<'_>,
        operation: RecordId,
        tenant: TenantNumber,
        order_id: &str,
        position: i64,
    ) {
        tx.index_row(&self.by_operation, *operation.as_bytes(), position);
        tx.index_row(&self.by_order, order_digest(tenant, order_id), position);
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
