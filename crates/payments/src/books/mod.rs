//! The books of one tenant: its charges, its ledger and its keys, as typed questions.
//!
//! The HTTP API, the console and the lab ask here; nobody else reads these tables. Every question names the tenant,
//! and an id of another tenant's is not there (P4). Questions are answered by the store's readers and never wait for
//! the writer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};
use unavez_core::answer::Conclusion;
use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Exposure, Record, State};
use unavez_core::time::Time;
use unavez_store::sqlite::{Component, FindRows, Migration, SqliteStore};
use unavez_store::{Filter, Store, StoreError};

use crate::charge::{Charge, ChargeId, RefundId, Status};
use crate::http::told::Past;
use crate::money::{Amount, Currency};
use operations::Operation;

pub(crate) mod anomalies;
mod audit;
pub(crate) mod booking;
pub(crate) mod charge_rows;
pub(crate) mod events;
mod history;
mod holdings;
pub(crate) mod ledger;
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

/// Most items of one page.
pub const PAGE_MAX: usize = 100;

/// Questions about the books. Cheap to clone.
#[derive(Clone)]
pub struct Books {
    store: SqliteStore,
    places: Places,
    timeout: Duration,
    audit: Arc<Audit>,
}

/// One page of a list, newest first. `next` is the last item's id where there is more: what `after` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, Id> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// Where the next page starts.
    pub next: Option<Id>,
}

/// Which charges. Every part narrows the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChargeFilter {
    /// Only this order's.
    pub order_id: Option<Box<str>>,
    /// Only those that stand so.
    pub status: Option<Status>,
}

/// Charges that somebody looks for, whatever their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// An attempt ended, and nobody knows how.
    Unknown,
    /// Something of it was paid back.
    Refunded,
    /// Its order was charged before under another key.
    SuspectedDuplicate,
}

/// A line of the ledger: one account debited and another credited with the same amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id, which names its charge.
    pub id: EntryId,
    /// Why money moved.
    pub kind: EntryKind,
    /// Whose account pays.
    pub debit: Account,
    /// Whose account gets it.
    pub credit: Account,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// When.
    pub created_at: Time,
}

/// `le_`, the digits of the charge's id, and which of the charge's entries it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    /// The charge whose money moved.
    pub charge: ChargeId,
    /// Counted from 1.
    pub number: u32,
}

/// Why money moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// From the customer to the merchant.
    Capture,
    /// Back again.
    Refund,
}

/// One side of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Account {
    /// Who pays.
    Customer,
    /// Who is paid.
    Merchant,
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

/// What the owner of a key may know of its record (P22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// The key.
    pub key: Key,
    /// The state's name on the wire.
    pub state: &'static str,
    /// What became of the operation, once that is known.
    pub outcome: Option<Conclusion>,
    /// Attempts started so far.
    pub attempts: u32,
    /// When the key was claimed.
    pub created_at: Time,
    /// When the outcome became known.
    pub finished_at: Option<Time>,
    /// When the answer stops being repeated.
    pub expires_at: Option<Time>,
    /// HTTP status of the first answer.
    pub status: Option<u16>,
    /// What the operation made.
    pub resource_id: Option<Box<str>>,
    /// The operation's name at outside systems.
    pub operation_id: OperationId,
    /// What was found about the operation that does not fit and needs a person: the reasons, oldest first (P27).
    pub findings: Vec<Reason>,
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

/// Whether there is a next page shows in one row more than the page holds.
fn one_more_than(limit: usize) -> u32 {
    u32::try_from(limit + 1).expect("pages are small")
}

fn operation(id: ChargeId) -> RecordId {
    id.operation_id().record_id()
}

/// The row number a list starts below; `None`: the item it should start after is not there.
fn position_of<Id>(
    after: Option<Id>,
    find: impl FnOnce(Id) -> rusqlite::Result<Option<i64>>,
) -> rusqlite::Result<Option<i64>> {
    match after {
        None => Ok(Some(i64::MAX)),
        Some(id) => find(id),
    }
}

fn list_charges(
    connection: &Connection,
    places: &Places,
    tenant: TenantNumber,
    filter: &ChargeFilter,
    before: i64,
    rows: u32,
) -> rusqlite::Result<Vec<Charge>> {
    let status = filter.status.map(Status::as_str);
    match (&filter.order_id, filter.status) {
        (Some(order_id), _) => {
            let mut find = connection.prepare_cached(include_str!("sql/find_charge_of_order.sql"))?;
            let positions = places.of_order(connection, tenant, order_id)?.into_iter().rev();
            let charges = positions.filter(|position| *position < before).filter_map(|position| {
                find.query_row((tenant, order_id, status, position), rows::charge).optional().transpose()
            });
            charges.take(rows as usize).collect()
        }
        (None, None) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges.sql"))?;
            list.query_map((tenant, before, rows), rows::charge)?.collect()
        }
        (None, Some(Status::Captured)) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges_captured.sql"))?;
            list.query_map((tenant, before, rows), rows::charge)?.collect()
        }
        (None, Some(Status::Created)) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges_created.sql"))?;
            list.query_map((tenant, before, rows), rows::charge)?.collect()
        }
        (None, Some(_)) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges_with_status.sql"))?;
            list.query_map((tenant, before, rows, status), rows::charge)?.collect()
        }
    }
}

fn list_entries(
    connection: &Connection,
    tenant: TenantNumber,
    before: i64,
    rows: u32,
) -> rusqlite::Result<Vec<Entry>> {
    let mut list = connection.prepare_cached(include_str!("sql/list_entries.sql"))?;
    list.query_map((tenant, before, rows), rows::entry)?.collect()
}

/// The entries of the charge that stands in this row.
fn list_entries_of(
    connection: &Connection,
    tenant: TenantNumber,
    charge: i64,
    before: i64,
    rows: u32,
) -> rusqlite::Result<Vec<Entry>> {
    let mut list = connection.prepare_cached(include_str!("sql/list_entries_of_charge.sql"))?;
    list.query_map((tenant, before, rows, charge), rows::entry)?.collect()
}

fn entry_position(connection: &Connection, charge: i64, number: u32) -> rusqlite::Result<Option<i64>> {
    let mut find = connection.prepare_cached(include_str!("sql/entry_position.sql"))?;
    find.query_row((charge, number), |row| row.get(0)).optional()
}

/// Makes a page of up to one item more than it may hold. `found` is `None` twice over: for a tenant without books, and
/// for a position that is not there.
#[expect(clippy::option_option, reason = "the outer layer is the tenant, the inner one the position")]
fn page<T, Id>(
    found: Option<Option<Vec<T>>>,
    limit: usize,
    id: impl Fn(&T) -> Id,
) -> Result<Page<T, Id>, BooksError> {
    let mut items = found.unwrap_or(Some(Vec::new())).ok_or(BooksError::UnknownPosition)?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(id);
    Ok(Page { items, next })
}

impl KeyStatus {
    fn of(record: &Record) -> Self {
        let mut status = Self {
            key: record.key.clone(),
            state: record.state.name(),
            outcome: None,
            attempts: record.attempts,
            created_at: record.created_at,
            finished_at: None,
            expires_at: None,
            status: None,
            resource_id: None,
            operation_id: record.id.operation_id(),
            findings: Vec::new(),
        };
        if let State::Finished { at, expires_at, conclusion, answer, resource } = &record.state {
            status.outcome = Some(*conclusion);
            status.finished_at = Some(*at);
            status.expires_at = Some(*expires_at);
            status.status = Some(answer.status);
            status.resource_id = resource.clone();
        }
        status
    }
}

impl EntryId {
    /// Reads `le_`, 32 hex digits, `_` and a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, number) = text.strip_prefix("le_")?.split_once('_')?;
        let charge = ChargeId::parse(&["ch_", digits].concat())?;
        let id = Self { charge, number: number.parse().ok()? };
        // Only the one spelling: `+1` and `01` also parse as numbers.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "le_{}_{}", operation(self.charge), self.number)
    }
}

impl EntryKind {
    /// The word on the wire and in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Refund => "refund",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Capture, Self::Refund].into_iter().find(|kind| kind.as_str() == word)
    }
}

impl Account {
    /// The word on the wire and in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Customer => "customer",
            Self::Merchant => "merchant",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Customer, Self::Merchant].into_iter().find(|account| account.as_str() == word)
    }
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
