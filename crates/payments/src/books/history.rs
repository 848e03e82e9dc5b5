//! Questions of operators: what happened to an operation, what is not decided, what does not fit together.
//!
//! These are about the whole deployment, not about one tenant: whoever may ask them is an operator.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};
use unavez_core::identity::{OperationId, Tenant};
use unavez_core::time::Time;

use super::operations::{self, Operation, OperationStanding};
use super::places::Places;
use super::{
    Anomaly, Books, BooksError, ByOperator, EventKind, KeyEvent, Reason, anomalies, charge_rows, events,
    rows, rulings, within,
};
use crate::acquirer::{Account, Kind};
use crate::charge::ChargeId;
use crate::money::{Amount, Currency};

/// An operation and all that happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationHistory {
    /// Its id, and the record's.
    pub operation_id: OperationId,
    /// Whose it is.
    pub tenant: Tenant,
    /// What it does.
    pub kind: Kind,
    /// The charge that it makes or belongs to.
    pub charge: ChargeId,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// Where it stands.
    pub standing: OperationStanding,
    /// The acquirer it goes to. `None`: the ledger.
    pub account: Option<Account>,
    /// The acquirer's own name for it.
    pub reference: Option<Box<str>>,
    /// Why it was declined.
    pub decline_code: Option<Box<str>>,
    /// What it makes or changes, by the id its caller knows.
    pub resource: Box<str>,
    /// The request that claimed it: `req_…`.
    pub request_id: Box<str>,
    /// When it was claimed.
    pub created_at: Time,
    /// In the order in which they happened.
    pub events: Vec<KeyEvent>,
    /// What was found about it that does not fit.
    pub anomalies: Vec<Anomaly>,
    /// What an operator ruled about it.
    pub ruling: Option<ByOperator>,
}

/// Operations that are not decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// When this was read, on the store's clock.
    pub now: Time,
    /// Oldest first.
    pub operations: Vec<OperationHistory>,
}

/// What is at risk in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndecidedSum {
    /// Which.
    pub currency: Currency,
    /// How many operations.
    pub operations: u64,
    /// When the oldest was claimed.
    pub oldest: Time,
    /// Minor units in all.
    pub amount: i128,
}

/// Units in the upper half of a sum; see `sum_undecided.sql`.
const MILLION: i128 = 1_000_000;

impl Books {
    /// An operation with its events and anomalies; `None`: it has no row of its own, as a charge of the ledger's.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn operation(&self, id: OperationId) -> Result<Option<OperationHistory>, BooksError> {
        let places = self.places.clone();
        within(self.timeout, self.store.read(move |connection| operation_on(connection, &places, id))).await
    }

    /// The operations of a charge, in the order of their claims.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn operations_of_charge(&self, charge: ChargeId) -> Result<Vec<OperationHistory>, BooksError> {
        let places = self.places.clone();
        let read = self.store.read(move |connection| operations_of_charge_on(connection, &places, charge));
        within(self.timeout, read).await
    }

    /// Operations that are not decided, oldest first; running ones once they are older than `running_for`.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn undecided(&self, running_for: Duration, limit: usize) -> Result<Undecided, BooksError> {
        let now = self.store.clock().now();
        let read = self.store.read(move |connection| undecided_on(connection, now.minus(running_for), limit));
        Ok(Undecided { now, operations: within(self.timeout, read).await? })
    }

    /// What is not decided, summed up by currency.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn undecided_sums(&self, running_for: Duration) -> Result<Vec<UndecidedSum>, BooksError> {
        let since = self.store.clock().now().minus(running_for);
        let read = self.store.read(move |connection| {
            let mut sum = connection.prepare_cached(include_str!("sql/sum_undecided.sql"))?;
            let sums = sum.query_map([since.as_micros()], |row| {
                Ok(UndecidedSum {
                    currency: rows::currency(row, 0)?,
                    operations: row.get::<_, i64>(1)?.unsigned_abs(),
                    oldest: rows::time(row, 2)?,
                    amount: i128::from(row.get::<_, i64>(3)?) * MILLION + i128::from(row.get::<_, i64>(4)?),
                })
            })?;
            sums.collect::<rusqlite::Result<Vec<_>>>()
        });
        within(self.timeout, read).await
    }

    /// Several operations with their events and anomalies; those without a row of their own are left out.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn operations(&self, ids: Vec<OperationId>) -> Result<Vec<OperationHistory>, BooksError> {
        let places = self.places.clone();
        let read = self.store.read(move |connection| {
            ids.into_iter().filter_map(|id| operation_on(connection, &places, id).transpose()).collect()
        });
        within(self.timeout, read).await
    }

    /// The newest findings, newest first, each with the operation it is about, if that is one of ours.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn latest_findings(
        &self,
        limit: usize,
    ) -> Result<Vec<(Anomaly, Option<OperationHistory>)>, BooksError> {
        let places = self.places.clone();
        let read = self.store.read(move |connection| {
            let about = |found: Anomaly| match found.operation {
                Some(id) => Ok((found, operation_on(connection, &places, id)?)),
                None => Ok((found, None)),
            };
            anomalies::latest(connection, limit)?.into_iter().map(about).collect()
        });
        within(self.timeout, read).await
    }

    /// What does not fit together, in the order in which it was found, after number `after`.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn anomalies(&self, after: i64, limit: usize) -> Result<Vec<Anomaly>, BooksError> {
        within(self.timeout, self.store.read(move |connection| anomalies_on(connection, after, limit))).await
    }
}

/// As [`Books::operation`], on any connection to the database: also one of a process that only reads.
///
/// # Errors
/// The library's, or a row that cannot be read.
pub fn operation_on(
    connection: &Connection,
    places: &Places,
    id: OperationId,
) -> rusqlite::Result<Option<OperationHistory>> {
    let operation = operations::find(connection, places, id.record_id())?;
    operation.map(|operation| OperationHistory::read(connection, operation)).transpose()
}

/// As [`Books::undecided`], on any connection; running operations only if they were claimed before `running_since`.
///
/// # Errors
/// As [`operation_on`].
pub fn undecided_on(
    connection: &Connection,
    running_since: Time,
    limit: usize,
) -> rusqlite::Result<Vec<OperationHistory>> {
    let undecided = operations::undecided(connection, running_since, limit)?.into_iter();
    undecided.map(|operation| OperationHistory::read(connection, operation)).collect()
}

/// As [`Books::anomalies`], on any connection.
///
/// # Errors
/// As [`operation_on`].
pub fn anomalies_on(connection: &Connection, after: i64, limit: usize) -> rusqlite::Result<Vec<Anomaly>> {
    anomalies::list(connection, None, after, limit)
}

/// Whether callers need API keys, as far as the database shows it.
///
/// # Errors
/// The library's.
pub fn has_api_keys_on(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(include_str!("sql/has_api_keys.sql"), [], |row| row.get(0))
}

/// The account that the last operation went to, if any went outside.
///
/// # Errors
/// The library's, or a row that cannot be read.
pub fn last_account_on(connection: &Connection) -> rusqlite::Result<Option<Account>> {
    let mut find = connection.prepare_cached(include_str!("sql/last_account.sql"))?;
    find.query_row([], |row| rows::word(row, 0, "account", Account::parse)).optional()
}

/// The operations of a charge, in the order of their claims, on any connection.
///
/// # Errors
/// As [`operation_on`].
pub fn operations_of_charge_on(
    connection: &Connection,
    places: &Places,
    charge: ChargeId,
) -> rusqlite::Result<Vec<OperationHistory>> {
    let Some(row) = charge_rows::row_of(connection, places, charge.operation_id().record_id())? else {
        return Ok(Vec::new());
    };
    let operations = operations::of_charge(connection, row)?.into_iter();
    operations.map(|operation| OperationHistory::read(connection, operation)).collect()
}

/// The order of what happened in one instant: asked about an attempt before, then sent, then answered.
fn rank(event: &KeyEvent) -> u8 {
    match event.kind {
        EventKind::Asked if !event.is_asked_first() => 0,
        EventKind::Started | EventKind::TakenOver => 1,
        EventKind::Asked => 2,
        EventKind::Sent => 3,
        _ => 4,
    }
}

impl OperationHistory {
    /// Whether the acquirer was asked before anything was sent.
    #[must_use]
    pub fn is_asked_first(&self) -> bool {
        self.events.iter().any(KeyEvent::is_asked_first)
    }

    /// Its events in the order in which they happened, which is not always that of their commits: a send is written down
    /// with its answer.
    #[must_use]
    pub fn in_order(&self) -> Vec<&KeyEvent> {
        let mut events: Vec<&KeyEvent> = self.events.iter().collect();
        events.sort_by_key(|event| (event.at, rank(event)));
        events
    }

    /// How often its request went out, as far as that is written down.
    #[must_use]
    pub fn sends(&self) -> usize {
        self.events.iter().filter(|event| event.kind == EventKind::Sent).count()
    }

    /// Whether money may have moved by it though nothing is booked: it is not decided, or what is stored is contradicted
    /// or stands on an operator's word alone.
    #[must_use]
    pub fn may_have_moved(&self) -> bool {
        let is_contradicted = self.anomalies.iter().any(|it| it.reason == Reason::Contradiction);
        let is_only_ruled = self.ruling.as_ref().is_some_and(ByOperator::stands_alone);
        !self.standing.is_decided() || is_contradicted || is_only_ruled
    }

    fn read(connection: &Connection, operation: Operation) -> rusqlite::Result<Self> {
        let events = events::of_operation(connection, &operation)?;
        let anomalies = anomalies::list(connection, Some(operation.id), 0, usize::MAX)?;
        let ruling = rulings::of_operation(connection, operation.row)?;
        Ok(Self { ruling, ..Self::of(operation, events, anomalies) })
    }

    fn of(operation: Operation, events: Vec<KeyEvent>, anomalies: Vec<Anomaly>) -> Self {
        Self {
            operation_id: operation.id.operation_id(),
            kind: operation.kind,
            charge: operation.charge_id,
            amount: operation.amount,
            currency: operation.currency,
            standing: operation.standing,
            resource: operation.resource().into(),
            request_id: operation.request_id.to_string().into(),
            created_at: operation.created_at,
            tenant: operation.tenant,
            account: operation.account,
            reference: operation.reference,
            decline_code: operation.decline_code,
            events,
            anomalies,
            ruling: None,
        }
    }
}
