//! The lesson server's ledger: an append-only table beside the records, in commits of its own.

use rusqlite::{Connection, Row, named_params};
use serde::{Deserialize, Serialize};
use unavez_core::identity::Tenant;
use unavez_store::{
    StoreError,
    sqlite::{Component, Migration, SqliteStore, TransactionError, WriteTx},
};

/// The ledger's tables, for the store to keep in its file.
pub(super) const COMPONENT: Component = Component {
    name: "lesson",
    migrations: &[
        Migration { number: 1, name: "lesson_ledger", sql: include_str!("sql/001_lesson_ledger.sql") },
        Migration { number: 2, name: "lesson_events", sql: include_str!("sql/002_lesson_events.sql") },
    ],
    indexes: &[],
    guests: None,
};

/// What somebody orders.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    pub(super) order_id: String,
    pub(super) amount: u32,
    pub(super) currency: String,
}

/// One line of the ledger, in the shape of a charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Charge {
    id: String,
    object: &'static str,
    order_id: String,
    amount: u32,
    amount_captured: u32,
    currency: String,
    status: &'static str,
}

/// The same line in the shape of a ledger entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    id: String,
    charge_id: String,
    kind: &'static str,
    debit: &'static str,
    credit: &'static str,
    amount: u32,
    currency: String,
}

/// The sums of one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Sums {
    currency: String,
    charges: i64,
    captured: i64,
    refunded: i64,
    balanced: bool,
}

/// Appends a line, in a commit of its own.
pub(super) async fn append(store: &SqliteStore, tenant: Tenant, order: Order) -> Result<Charge, StoreError> {
    let appended = store.transaction(move |tx| append_in(tx, &tenant, &order)).await;
    appended.map_err(|error| match error {
        TransactionError::Store(error) => error,
        TransactionError::Refused(error) => StoreError::RolledBack(error.to_string().into()),
    })
}

/// Appends a line, in the caller's transaction.
pub(super) fn append_in(tx: &WriteTx<'_>, tenant: &Tenant, order: &Order) -> rusqlite::Result<Charge> {
    let line = "insert into lesson_ledger (tenant, order_id, amount, currency)
                values (:tenant, :order_id, :amount, :currency)
                returning line, order_id, amount, currency";
    let of = named_params! {
        ":tenant": tenant.as_str(), ":order_id": order.order_id, ":amount": order.amount, ":currency": order.currency,
    };
    tx.prepare_cached(line)?.query_row(of, charge)
}

/// The lines of an order.
pub(super) async fn charges(
    store: &SqliteStore,
    tenant: Tenant,
    order_id: String,
) -> Result<Vec<Charge>, StoreError> {
    let lines = "select line, order_id, amount, currency from lesson_ledger
                 where tenant = :tenant and order_id = :order_id order by line desc";
    store
        .read(move |connection| {
            let of = named_params! { ":tenant": tenant.as_str(), ":order_id": order_id };
            connection.prepare_cached(lines)?.query_map(of, charge)?.collect()
        })
        .await
}

/// The entries of a charge: its one line, if there is one.
pub(super) async fn entries(
    store: &SqliteStore,
    tenant: Tenant,
    charge_id: String,
) -> Result<Vec<Entry>, StoreError> {
    let Some(line) = charge_id.strip_prefix("ch_").and_then(|line| line.parse::<i64>().ok()) else {
        return Ok(Vec::new());
    };
    let lines = "select line, amount, currency from lesson_ledger where tenant = :tenant and line = :line";
    store
        .read(move |connection| {
            let of = named_params! { ":tenant": tenant.as_str(), ":line": line };
            connection.prepare_cached(lines)?.query_map(of, entry)?.collect()
        })
        .await
}

/// The sums of a tenant.
pub(super) async fn sums(store: &SqliteStore, tenant: Tenant) -> Result<Vec<Sums>, StoreError> {
    store.read(move |connection| read_sums(connection, &tenant)).await
}

fn read_sums(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<Vec<Sums>> {
    let sums = "select currency, count(*), sum(amount) from lesson_ledger
                where tenant = :tenant group by currency order by currency";
    connection
        .prepare_cached(sums)?
        .query_map(named_params! { ":tenant": tenant.as_str() }, |row| {
            Ok(Sums {
                currency: row.get(0)?,
                charges: row.get(1)?,
                captured: row.get(2)?,
                refunded: 0,
                balanced: true,
            })
        })?
        .collect()
}

fn charge(row: &Row<'_>) -> rusqlite::Result<Charge> {
    let (line, amount): (i64, u32) = (row.get(0)?, row.get(2)?);
    Ok(Charge {
        id: format!("ch_{line}"),
        object: "charge",
        order_id: row.get(1)?,
        amount,
        amount_captured: amount,
        currency: row.get(3)?,
        status: "captured",
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let line: i64 = row.get(0)?;
    Ok(Entry {
        id: format!("le_{line}"),
        charge_id: format!("ch_{line}"),
        kind: "capture",
        debit: "customer",
        credit: "merchant",
        amount: row.get(1)?,
        currency: row.get(2)?,
    })
}
