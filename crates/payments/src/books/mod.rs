//! The books of one tenant: its charges, its ledger and its keys, as typed questions.
//!
//! The HTTP API, the console and the lab ask here; nobody else reads these tables. Every question names the tenant,
//! and an id of another tenant's is not there (P4). Questions are answered by the store's readers and never wait for
//! the writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Exposure, Record};
use unavez_store::sqlite::{Component, FindRows, Migration, SqliteStore};
use unavez_store::{Filter, Store, StoreError};

use crate::charge::{Charge, ChargeId, RefundId};
use crate::http::told::Past;
use crate::money::Currency;
use operations::Operation;

pub(crate) mod anomalies;
mod audit;
pub(crate) mod booking;
pub(crate) mod charge_rows;
pub(crate) mod events;
mod history;
mod holdings;
mod key_status;
pub(crate) mod ledger;
mod lists;
pub(crate) mod operations;
mod places;
pub(crate) mod reckoning;
pub(crate) mod rows;
pub(crate) mod rulings;
mod tenants;
pub mod text;
pub mod trace;
pub(crate) mod webhooks;

pub use anomalies::{Anomaly, Heard, Reason};
use audit::Audit;
pub use events::{EventKind, KeyEvent, Through};
pub use history::{
    OperationHistory, Undecided, UndecidedSum, anomalies_on, has_api_keys_on, last_account_on, operation_on,
    operations_of_charge_on, undecided_on,
};
pub use holdings::{Holdings, holdings_on};
pub use key_status::KeyStatus;
pub use ledger::{Account, Entry, EntryId, EntryKind};
use ledger::{entry_position, list_entries, list_entries_of};
pub use lists::{ChargeFilter, Marked, PAGE_MAX, Page};
use lists::{list_charges, one_more_than, page, position_of};
pub use operations::OperationStanding;
pub use places::Places;
use places::first_of;
pub use reckoning::{SameOrder, Unbooked};
pub use rulings::ByOperator;
pub(crate) use tenants::{TenantNumber, Tenants};

/// The tables of this service, to be added to the store's own.
pub const COMPONENT: Component = Component {
    name: "payments",
    migrations: &[
        Migration {
            number: 1,
            name: "charges_and_ledger",
            sql: include_str!("schema/0001_charges_and_ledger.sql"),
        },
        Migration { number: 2, name: "default_tenant", sql: include_str!("schema/0002_default_tenant.sql") },
        Migration { number: 3, name: "seal_keys", sql: include_str!("schema/0003_seal_keys.sql") },
        Migration { number: 4, name: "outside", sql: include_str!("schema/0004_outside.sql") },
        Migration { number: 5, name: "restores", sql: include_str!("schema/0005_restores.sql") },
        Migration { number: 6, name: "rulings", sql: include_str!("schema/0006_rulings.sql") },
    ],
    indexes: places::INDEXES,
    guests: Some(places::GUESTS),
};

/// Questions about the books. Cheap to clone.
#[derive(Clone)]
pub struct Books {
    store: SqliteStore,
    places: Places,
    timeout: Duration,
    audit: Arc<Audit>,
}

/// One currency of a tenant's ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrencySummary {
    /// Which currency.
    pub currency: Currency,
    /// Charges whose money moved.
    pub charges: u64,
    /// Minor units captured.
    pub captured: i128,
    /// Minor units refunded.
    pub refunded: i128,
    /// Whether the ledger's entries and the charges, each summed up by itself, say the same.
    pub balanced: bool,
}

/// Why a question has no answer.
#[derive(Clone, Debug)]
pub enum BooksError {
    /// `after` names nothing of this tenant's.
    UnknownPosition,
    /// The store did not answer. May be asked again.
    Store(StoreError),
}

impl Books {
    pub(crate) fn new(store: SqliteStore, timeout: Duration) -> Self {
        let places = Places::of(&store);
        Self { store, places, timeout, audit: Arc::new(Audit::default()) }
    }

    /// Where rows stand.
    pub(crate) const fn places(&self) -> &Places {
        &self.places
    }

    /// One charge. One trip to a reader, as every question here.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn charge(&self, tenant: &Tenant, id: ChargeId) -> Result<Option<Charge>, BooksError> {
        let places = self.places.clone();
        self.ask(tenant, move |connection, tenant| {
            let mut find = connection.prepare_cached(include_str!("sql/find_charge_of_tenant.sql"))?;
            first_of(places.of_operation(connection, operation(id))?, |position| {
                find.query_row((operation(id).as_bytes(), tenant, position), rows::charge).optional()
            })
        })
        .await
        .map(Option::flatten)
    }

    /// Charges, newest first, at most `limit` (up to [`PAGE_MAX`]) after `after`.
    ///
    /// # Errors
    /// [`BooksError`].
    pub async fn charges(
        &self,
        tenant: &Tenant,
        filter: ChargeFilter,
        after: Option<ChargeId>,
        limit: usize,
    ) -> Result<Page<Charge, ChargeId>, BooksError> {
        let limit = limit.min(PAGE_MAX);
        let places = self.places.clone();
        let found = self
            .ask(tenant, move |connection, tenant| {
                let position = |id: ChargeId| places.of_charge(connection, tenant, operation(id));
                let Some(before) = position_of(after, position)? else { return Ok(None) };
                list_charges(connection, &places, tenant, &filter, before, one_more_than(limit)).map(Some)
            })
            .await?;
        page(found, limit, |charge| charge.id)
    }

    /// Charges of a tenant that are marked so, newest first. For people: it walks back through the tenant's charges.
    ///
    /// # Errors
    /// [`BooksError`].
    pub async fn charges_marked(
        &self,
        tenant: &Tenant,
        marked: Marked,
        after: Option<ChargeId>,
        limit: usize,
    ) -> Result<Page<Charge, ChargeId>, BooksError> {
        let limit = limit.min(PAGE_MAX);
        let places = self.places.clone();
        let found = self
            .ask(tenant, move |connection, tenant| {
                let position = |id: ChargeId| places.of_charge(connection, tenant, operation(id));
                let Some(before) = position_of(after, position)? else { return Ok(None) };
                let mut list = connection.prepare_cached(match marked {
                    Marked::Unknown => include_str!("sql/list_charges_unknown.sql"),
                    Marked::Refunded => include_str!("sql/list_charges_refunded.sql"),
                    Marked::SuspectedDuplicate => include_str!("sql/list_charges_suspected.sql"),
                })?;
                list.query_map((tenant, before, one_more_than(limit)), rows::charge)?
                    .collect::<Result<_, _>>()
                    .map(Some)
            })
            .await?;
        page(found, limit, |charge: &Charge| charge.id)
    }

    /// Entries of the ledger, newest first: all of them, or one charge's.
    ///
    /// # Errors
    /// [`BooksError`].
    pub async fn entries(
        &self,
        tenant: &Tenant,
        charge: Option<ChargeId>,
        after: Option<EntryId>,
        limit: usize,
    ) -> Result<Page<Entry, EntryId>, BooksError> {
        let limit = limit.min(PAGE_MAX);
        let places = self.places.clone();
        let found = self
            .ask(tenant, move |connection, tenant| {
                let place = |id: ChargeId| places.of_charge(connection, tenant, operation(id));
                let position = |id: EntryId| match place(id.charge)? {
                    Some(charge) => entry_position(connection, charge, id.number),
                    None => Ok(None),
                };
                let Some(before) = position_of(after, position)? else { return Ok(None) };
                let rows = one_more_than(limit);
                match charge {
                    None => list_entries(connection, tenant, before, rows),
                    Some(id) => match place(id)? {
                        Some(charge) => list_entries_of(connection, tenant, charge, before, rows),
                        None => Ok(Vec::new()),
                    },
                }
                .map(Some)
            })
            .await?;
        page(found, limit, |entry| entry.id)
    }

    /// The sums of every currency, in the order of their codes. Only rows that came since the last summary are read.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn summary(&self, tenant: &Tenant) -> Result<Vec<CurrencySummary>, BooksError> {
        self.catch_up().await?;
        let number = self.ask(tenant, |_, tenant| Ok(tenant)).await?;
        Ok(number.map(|number| self.audit.summary(number)).unwrap_or_default())
    }

    /// Sums up what came since the last time, so that the next summary has little to read.
    pub(crate) async fn catch_up(&self) -> Result<(), BooksError> {
        self.audit.catch_up(&self.store).await.map_err(BooksError::Store)
    }

    /// One refund.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub(crate) async fn refund(
        &self,
        tenant: &Tenant,
        id: RefundId,
    ) -> Result<Option<Operation>, BooksError> {
        let places = self.places.clone();
        self.ask(tenant, move |connection, tenant| operations::find_refund(connection, &places, tenant, id))
            .await
            .map(Option::flatten)
    }

    /// An operation, whether or not its record is still there.
    pub(crate) async fn past(&self, operation: RecordId) -> Result<Option<Past>, BooksError> {
        let places = self.places.clone();
        within(self.timeout, self.store.read(move |connection| past(connection, &places, operation))).await
    }

    /// Whether an operation has a record that is not expired.
    pub(crate) async fn has_live_record(&self, operation: RecordId) -> Result<bool, BooksError> {
        let loaded = within(self.timeout, self.store.load(operation)).await?;
        Ok(loaded.record.is_some_and(|record| !record.is_expired(loaded.now)))
    }

    /// What is known about a key; `None` for no record and for one whose promise is over.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn key(&self, tenant: &Tenant, key: &Key) -> Result<Option<KeyStatus>, BooksError> {
        let id = RecordId::of(self.store.realm(), tenant, key);
        let loaded = within(self.timeout, self.store.load(id)).await?;
        let owned = |record: &Arc<Record>| record.tenant == *tenant && record.key == *key;
        let Some(record) = loaded.record.filter(|record| owned(record) && !record.is_expired(loaded.now))
        else {
            return Ok(None);
        };
        let mut status = KeyStatus::of(&record);
        if record.exposure == Exposure::MayBeSent {
            let read = self.store.read(move |connection| anomalies::list(connection, Some(id), 0, PAGE_MAX));
            status.findings = within(self.timeout, read).await?.iter().map(|found| found.reason).collect();
        }
        Ok(Some(status))
    }

    /// Keys, newest first; `state` is a state's name on the wire. Expired ones are left out, so a page may be shorter
    /// than `limit` and still have a next one.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn keys(
        &self,
        tenant: &Tenant,
        state: Option<&'static str>,
        after: Option<unavez_store::Cursor>,
        limit: usize,
    ) -> Result<Page<KeyStatus, unavez_store::Cursor>, BooksError> {
        let filter = Filter { tenant: Some(tenant.clone()), state };
        let page = within(self.timeout, self.store.list(filter, after, limit.min(PAGE_MAX))).await?;
        let live = page.records.iter().filter(|record| !record.is_expired(page.now));
        Ok(Page { items: live.map(|record| KeyStatus::of(record)).collect(), next: page.next })
    }

    /// Asks a reader about one tenant; `None` for one that never charged anything.
    async fn ask<T, F>(&self, tenant: &Tenant, question: F) -> Result<Option<T>, BooksError>
    where
        F: FnOnce(&Connection, TenantNumber) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let tenant = tenant.clone();
        let read = self.store.read(move |connection| {
            tenants::find(connection, &tenant)?.map(|number| question(connection, number)).transpose()
        });
        within(self.timeout, read).await
    }
}

async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, BooksError> {
    let late = || Err(StoreError::Unavailable(format!("no answer within {timeout:?}").into()));
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| late()).map_err(BooksError::Store)
}

/// An operation that outlived its record, unless its key is free.
pub(crate) fn past(
    rows: &impl FindRows,
    places: &Places,
    operation: RecordId,
) -> rusqlite::Result<Option<Past>> {
    let connection = rows.connection();
    let Some(known) = operations::find(rows, places, operation)? else {
        return Ok(booking::find(rows, places, operation)?.map(Past::from));
    };
    if known.standing == OperationStanding::Released {
        return Ok(None);
    }
    let charge = charge_rows::read(connection, known.charge)?.life.charge;
    Ok(Some(Past::of(&known, &charge)))
}

fn operation(id: ChargeId) -> RecordId {
    id.operation_id().record_id()
}

impl fmt::Display for BooksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPosition => f.write_str("after names nothing in this list"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BooksError {}

impl fmt::Debug for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Books").finish_non_exhaustive()
    }
}
