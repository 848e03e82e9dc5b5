//! Whose the tenant `default` is, once there are API keys.
//!
//! Without keys every caller is `default`. With keys nobody is, unless one tenant is named its owner. A charge lasts for
//! ever (P21), so this is decided once:
//!
//! 1. The name is stored. Another name later is refused: it would hand one tenant's history to another.
//! 2. Without a name, keys are refused while `default` has any history: its repeats would charge again.
//! 3. A tenant with history of its own cannot become the owner: that history would be out of reach.

use std::fmt;

use rusqlite::{Connection, OptionalExtension as _};
use unavez_core::identity::Tenant;
use unavez_store::sqlite::{SqliteStore, TransactionError};
use unavez_store::{Filter, Store as _, StoreError};

/// Why API keys and what is stored do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerConflict {
    /// `default` has history, and nobody owns it.
    Ownerless,
    /// `default` has an owner, and another one is named.
    AnotherOwner {
        /// Who owns it.
        owner: Tenant,
        /// Who is named now.
        named: Tenant,
    },
    /// The named tenant has history of its own.
    HasHistory {
        /// Who is named.
        named: Tenant,
    },
}

/// Why the owner could not be settled.
pub(crate) enum Unsettled {
    Conflict(OwnerConflict),
    Store(StoreError),
}

impl From<StoreError> for Unsettled {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Settles who owns `default`, now that there are API keys: the owner on record, or else the named one, who is put on
/// record. One commit at most.
pub(crate) async fn settle(store: &SqliteStore, named: Option<Tenant>) -> Result<Option<Tenant>, Unsettled> {
    let conflict = |conflict| Err(Unsettled::Conflict(conflict));
    match (store.read(on_record).await?, named) {
        (Some(owner), Some(named)) if owner != named => {
            conflict(OwnerConflict::AnotherOwner { owner, named })
        }
        (Some(owner), _) => Ok(Some(owner)),
        (None, None) if has_history(store, Tenant::single()).await? => conflict(OwnerConflict::Ownerless),
        (None, None) => Ok(None),
        (None, Some(named)) if named != Tenant::single() && has_history(store, named.clone()).await? => {
            conflict(OwnerConflict::HasHistory { named })
        }
        (None, Some(named)) => {
            put_on_record(store, named.clone()).await?;
            Ok(Some(named))
        }
    }
}

fn on_record(connection: &Connection) -> rusqlite::Result<Option<Tenant>> {
    let name: Option<String> = connection
        .query_row(include_str!("books/sql/default_tenant.sql"), [], |row| row.get(0))
        .optional()?;
    let parsed = name.map(|name| Tenant::parse(&name)).transpose();
    parsed.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.to_string().into()))
}

async fn put_on_record(store: &SqliteStore, owner: Tenant) -> Result<(), StoreError> {
    let written = store
        .transaction(move |tx| {
            tx.execute(include_str!("books/sql/insert_default_tenant.sql"), [owner.as_str()]).map(drop)
        })
        .await;
    written.map_err(|error| match error {
        TransactionError::Store(error) => error,
        TransactionError::Refused(error) => StoreError::Unavailable(error.to_string().into()),
    })
}

/// Whether there is anything a repeat of this tenant must find: a charge, or a record that is open or promised.
async fn has_history(store: &SqliteStore, tenant: Tenant) -> Result<bool, StoreError> {
    let name = tenant.clone();
    let has_charged = store.read(move |connection| {
        connection
            .query_row(include_str!("books/sql/tenant_has_charged.sql"), [name.as_str()], |row| row.get(0))
    });
    if has_charged.await? {
        return Ok(true);
    }
    let filter = Filter { tenant: Some(tenant), state: None };
    let mut after = None;
    loop {
        let page = store.list(filter.clone(), after, 100).await?;
        if page.records.iter().any(|record| !record.is_expired(page.now)) {
            return Ok(true);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(false),
        }
    }
}

impl fmt::Display for OwnerConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ownerless => f.write_str(
                "there are API keys, and charges or keys of the tenant `default` that nobody could repeat: \
                 name their owner with --default-tenant",
            ),
            Self::AnotherOwner { owner, named } => write!(
                f,
                "the tenant `default` belongs to {} for good, not to {}: a repeat of its charges would charge again",
                owner.as_str(),
                named.as_str()
            ),
            Self::HasHistory { named } => write!(
                f,
                "tenant {} has charges or keys of its own, so it cannot become the owner of `default`",
                named.as_str()
            ),
        }
    }
}
