//! The numbers that stand for tenants in rows.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension};
use unavez_core::identity::Tenant;
use unavez_store::StoreError;
use unavez_store::sqlite::{SqliteStore, TransactionError};

/// A row of `tenants`. Given once and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TenantNumber(i64);

impl TenantNumber {
    pub(super) fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// Numbers that are known to be committed.
#[derive(Default)]
pub(crate) struct Tenants {
    known: RwLock<HashMap<Tenant, TenantNumber>>,
}

impl Tenants {
    /// The number of a tenant that this process has met.
    pub(crate) fn known(&self, tenant: &Tenant) -> Option<TenantNumber> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(tenant).copied()
    }

    /// The number of any tenant: one commit.
    pub(crate) async fn register(
        &self,
        store: &SqliteStore,
        tenant: &Tenant,
    ) -> Result<TenantNumber, StoreError> {
        let name = tenant.clone();
        let registered = store.transaction(move |tx| register(tx, &name)).await;
        let number = registered.map_err(|error| match error {
            TransactionError::Store(error) => error,
            TransactionError::Refused(error) => StoreError::Unavailable(error.to_string().into()),
        })?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone(), number);
        Ok(number)
    }
}

fn register(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<TenantNumber> {
    connection.prepare_cached(include_str!("sql/insert_tenant.sql"))?.execute([tenant.as_str()])?;
    find(connection, tenant)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// The number of a tenant that has one.
pub(super) fn find(connection: &Connection, tenant: &Tenant) -> rusqlite::Result<Option<TenantNumber>> {
    let mut find = connection.prepare_cached(include_str!("sql/tenant.sql"))?;
    find.query_row([tenant.as_str()], |row| row.get(0)).optional()
}

impl ToSql for TenantNumber {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for TenantNumber {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(Self)
    }
}
