//! Events of acquirers as rows: seen ones, parked ones, failing ones (P25, P28).

use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};
use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::time::Time;

use super::rows;
use crate::acquirer::{Account, Kind, Report, Standing};
use crate::money::{Amount, Currency};

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventState {
    /// It took effect, or needed none.
    Applied,
    /// Its operation is not there yet.
    Parked,
    /// Its work failed, and it will be sent again.
    Failing,
    /// A person has to look.
    Anomaly,
}

/// An event whose operation is not there yet.
#[derive(Clone, Debug)]
pub(crate) struct Parked {
    pub(crate) row: i64,
    pub(crate) account: Account,
    pub(crate) event: Box<str>,
    pub(crate) standing: Standing,
    pub(crate) report: Report,
    /// Whose secret verified it, where secrets belong to tenants (P24).
    pub(crate) signer: Option<Tenant>,
}

/// What is known of an event from an earlier delivery.
pub(crate) fn find(
    connection: &Connection,
    account: &Account,
    event: &str,
) -> rusqlite::Result<Option<EventState>> {
    let mut find = connection.prepare_cached(include_str!("sql/find_webhook_event.sql"))?;
    find.query_row((account.as_str(), event), |row| rows::word(row, 0, "state", EventState::parse)).optional()
}

/// Notes that an event was dealt with.
pub(crate) fn put(
    connection: &Connection,
    account: &Account,
    event: &str,
    state: EventState,
    operation: Option<RecordId>,
    now: Time,
) -> rusqlite::Result<()> {
    write(connection, account, event, (state, operation, None), now)
}

/// Keeps an event until its operation appears.
pub(crate) fn park(
    connection: &Connection,
    account: &Account,
    event: &str,
    (standing, report, signer): (Standing, &Report, Option<&Tenant>),
    now: Time,
) -> rusqlite::Result<()> {
    let operation = report.operation_id.record_id();
    let stored = Stored::of(standing, report, signer);
    let text = serde_json::to_string(&stored).expect("texts and numbers have a JSON form");
    write(connection, account, event, (EventState::Parked, Some(operation), Some(text)), now)
}

fn write(
    connection: &Connection,
    account: &Account,
    event: &str,
    (state, operation, news): (EventState, Option<RecordId>, Option<String>),
    now: Time,
) -> rusqlite::Result<()> {
    let operation = operation.map(|id| *id.as_bytes());
    connection.prepare_cached(include_str!("sql/put_webhook_event.sql"))?.execute((
        account.as_str(),
        event,
        state.as_str(),
        now.as_micros(),
        operation,
        news,
    ))?;
    Ok(())
}

/// Counts a failure of an event's work, and says how often it has failed now.
pub(crate) fn fail(
    connection: &Connection,
    account: &Account,
    event: &str,
    operation: Option<RecordId>,
    now: Time,
) -> rusqlite::Result<u32> {
    let operation = operation.map(|id| *id.as_bytes());
    let mut fail = connection.prepare_cached(include_str!("sql/fail_webhook_event.sql"))?;
    fail.query_row((account.as_str(), event, now.as_micros(), operation), |row| row.get(0))
}

/// The events that wait for an operation, oldest first.
pub(crate) fn parked(connection: &Connection, operation: RecordId) -> rusqlite::Result<Vec<Parked>> {
    let mut list = connection.prepare_cached(include_str!("sql/parked_events.sql"))?;
    let parked = list.query_map([operation.as_bytes()], |row| {
        let (standing, report, signer) = rows::word(row, 3, "news", |text| Stored::read(text, operation))?;
        let (row, account, event) = (row.get(0)?, account(row, 1)?, row.get(2)?);
        Ok(Parked { row, account, event, standing, report, signer })
    })?;
    parked.collect()
}

/// Operations that something is parked for, and which may have appeared since.
pub(crate) fn parked_operations(connection: &Connection) -> rusqlite::Result<Vec<RecordId>> {
    let mut list = connection.prepare_cached(include_str!("sql/parked_operations.sql"))?;
    list.query_map([], |row| row.get(0).map(RecordId::from_bytes))?.collect()
}

/// How many events wait.
pub(crate) fn count_parked(connection: &Connection) -> rusqlite::Result<u64> {
    let mut count = connection.prepare_cached(include_str!("sql/count_parked.sql"))?;
    count.query_row([], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// A parked event that waited in vain.
pub(crate) struct Overdue {
    pub(crate) row: i64,
    pub(crate) account: Account,
    pub(crate) event: Box<str>,
    pub(crate) operation: RecordId,
    pub(crate) news: Box<str>,
}

/// Events that have been parked since before `before`.
pub(crate) fn overdue(connection: &Connection, before: Time, limit: u32) -> rusqlite::Result<Vec<Overdue>> {
    let mut list = connection.prepare_cached(include_str!("sql/overdue_parked_events.sql"))?;
    let overdue = list.query_map((before.as_micros(), limit), |row| {
        Ok(Overdue {
            row: row.get(0)?,
            account: account(row, 1)?,
            event: row.get(2)?,
            operation: RecordId::from_bytes(row.get(3)?),
            news: row.get(4)?,
        })
    })?;
    overdue.collect()
}

/// Ends the waiting of a parked event.
pub(crate) fn unpark(connection: &Connection, row: i64, state: EventState) -> rusqlite::Result<()> {
    let updated = connection
        .prepare_cached(include_str!("sql/set_webhook_event.sql"))?
        .execute((row, state.as_str()))?;
    rows::exactly_one(updated)
}

/// Whether there is anything to forget.
pub(crate) fn has_older(connection: &Connection, before: Time) -> rusqlite::Result<bool> {
    let mut find = connection.prepare_cached(include_str!("sql/has_older_events.sql"))?;
    find.query_row([before.as_micros()], |row| row.get(0))
}

/// Forgets events that are older than they can be sent again.
pub(crate) fn forget(connection: &Connection, before: Time, limit: u32) -> rusqlite::Result<usize> {
    let mut forget = connection.prepare_cached(include_str!("sql/forget_webhook_events.sql"))?;
    forget.execute((before.as_micros(), limit))
}

fn account(row: &Row<'_>, column: usize) -> rusqlite::Result<Account> {
    rows::word(row, column, "account", Account::parse)
}

impl EventState {
    const ALL: [Self; 4] = [Self::Applied, Self::Parked, Self::Failing, Self::Anomaly];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Parked => "parked",
            Self::Failing => "failing",
            Self::Anomaly => "anomaly",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// The stored form of what an event tells. A member that is added must be optional: parked events outlive an update.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    standing: Box<str>,
    kind: &'a str,
    tenant: Option<Box<str>>,
    amount: i64,
    currency: &'a str,
    payment: Option<Box<str>>,
    reference: Option<Box<str>>,
    decline_code: Option<Box<str>>,
    next_action: Option<Box<str>>,
    #[serde(default)]
    signer: Option<Box<str>>,
}

impl<'a> Stored<'a> {
    fn of(standing: Standing, report: &'a Report, signer: Option<&Tenant>) -> Self {
        Self {
            standing: standing_word(standing).into(),
            kind: report.kind.as_str(),
            tenant: report.tenant.as_ref().map(|tenant| tenant.as_str().into()),
            amount: report.amount.minor_units(),
            currency: report.currency.code(),
            payment: report.payment.map(|id| id.to_string().into()),
            reference: report.reference.clone(),
            decline_code: report.decline_code.clone(),
            next_action: report.next_action.clone(),
            signer: signer.map(|tenant| tenant.as_str().into()),
        }
    }

    fn read(text: &'a str, operation: RecordId) -> Option<(Standing, Report, Option<Tenant>)> {
        let stored: Self = serde_json::from_str(text).ok()?;
        let standing =
            STANDINGS.into_iter().find(|standing| standing_word(*standing) == &*stored.standing)?;
        let signer = optional(stored.signer, |name| Tenant::parse(name).ok())?;
        let report = Report {
            operation_id: operation.operation_id(),
            kind: Kind::parse(stored.kind)?,
            tenant: optional(stored.tenant, |name| Tenant::parse(name).ok())?,
            amount: Amount::of_minor_units(stored.amount)?,
            currency: Currency::parse(stored.currency)?,
            payment: optional(stored.payment, |id| OperationId::parse(id).ok())?,
            reference: stored.reference,
            decline_code: stored.decline_code,
            next_action: stored.next_action,
        };
        Some((standing, report, signer))
    }
}

/// Parses what is there; `None` only for a text that does not parse.
#[expect(
    clippy::option_option,
    reason = "the outer layer is whether it can be read, the inner one whether it is there"
)]
fn optional<T>(text: Option<Box<str>>, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    match text {
        None => Some(None),
        Some(text) => parse(&text).map(Some),
    }
}

const STANDINGS: [Standing; 3] = [Standing::Done, Standing::Declined, Standing::Pending];

pub(crate) const fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::Done => "done",
        Standing::Declined => "declined",
        Standing::Pending => "pending",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_parked_reads_back_whole() {
        let operation = RecordId::from_bytes([7; 16]);
        for standing in STANDINGS {
            let report = Report {
                operation_id: operation.operation_id(),
                kind: Kind::Refund,
                tenant: Some(Tenant::single()),
                amount: Amount::of_minor_units(2500).unwrap(),
                currency: Currency::parse("EUR").unwrap(),
                payment: Some(RecordId::from_bytes([8; 16]).operation_id()),
                reference: Some("pi_\"1".into()),
                decline_code: None,
                next_action: Some("{\"type\":\"redirect\"}".into()),
            };
            let signer = Tenant::parse("shop").unwrap();
            let text = serde_json::to_string(&Stored::of(standing, &report, Some(&signer))).unwrap();
            assert_eq!(
                Stored::read(&text, operation),
                Some((standing, report.clone(), Some(signer.clone())))
            );
            let older = text.replace(",\"signer\":\"shop\"", "");
            assert_ne!(older, text);
            assert_eq!(Stored::read(&older, operation), Some((standing, report, None)));
        }
    }
}
