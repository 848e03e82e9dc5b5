//! What does not fit together, and needs a person. Rows are never deleted.

use rusqlite::{Connection, Row};
use unavez_core::identity::{OperationId, RecordId};
use unavez_core::time::Time;

use super::rows;
use super::text::plain;

/// Which rule was broken. The words are those of stored rows and of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A truth against a final state (P27).
    Contradiction,
    /// The acquirer has two payments under one operation id (P27).
    SecondPayment,
    /// Another operation than the one spoken of.
    Operation,
    /// Another amount than was stored.
    Amount,
    /// Another currency.
    Currency,
    /// Another tenant.
    Tenant,
    /// Another kind of operation.
    Kind,
    /// Another payment than the one it belongs to.
    Parent,
    /// Another account than the one it was sent to.
    Account,
    /// Rightly signed, and not to be understood.
    Malformed,
    /// The work of an event failed too often (P25).
    Failing,
    /// The operation that an event names never appeared (P28).
    NeverAppeared,
    /// Nothing will settle the operation by itself (P16).
    Held,
}

/// Where it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// In the answer to a send.
    Answer,
    /// In the answer to a question.
    Question,
    /// In an event of the acquirer's.
    Webhook,
    /// By the night shift.
    Night,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its place in the list.
    pub number: i64,
    /// When it was found.
    pub found_at: Time,
    /// Which rule was broken.
    pub reason: Reason,
    /// The operation it is about; it need not be one of ours.
    pub operation: Option<OperationId>,
    /// Where it was heard.
    pub heard: Heard,
    /// The account it came from.
    pub account: Option<Box<str>>,
    /// The event's id there.
    pub event: Option<Box<str>>,
    /// In words: what was stored, what was heard.
    pub detail: Box<str>,
    /// What a person may do about it.
    pub proposal: Option<Box<str>>,
}

/// A finding to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewAnomaly<'a> {
    pub(crate) reason: Reason,
    pub(crate) operation: Option<RecordId>,
    pub(crate) heard: Heard,
    pub(crate) account: Option<&'a str>,
    pub(crate) event: Option<&'a str>,
    pub(crate) detail: &'a str,
    pub(crate) proposal: Option<&'a str>,
}

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    New,
    /// The same was found before: a question that is asked every hour adds no row every hour.
    Before,
}

/// Adds a finding, unless it is there.
pub(crate) fn write(connection: &Connection, new: &NewAnomaly<'_>, now: Time) -> rusqlite::Result<Noted> {
    let operation = new.operation.map(|id| *id.as_bytes());
    let detail = plain(new.detail);
    if operation.is_some() {
        let mut is_known = connection.prepare_cached(include_str!("sql/is_known_anomaly.sql"))?;
        if is_known.query_row((operation, new.reason.as_str(), &detail), |row| row.get(0))? {
            return Ok(Noted::Before);
        }
    }
    connection.prepare_cached(include_str!("sql/insert_anomaly.sql"))?.execute((
        now.as_micros(),
        new.reason.as_str(),
        operation,
        new.heard.as_str(),
        new.account,
        new.event.map(plain),
        &detail,
        new.proposal,
    ))?;
    Ok(Noted::New)
}

/// Findings in their order after number `after`: all, or those about one operation.
pub(crate) fn list(
    connection: &Connection,
    operation: Option<RecordId>,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<Anomaly>> {
    let mut list = connection.prepare_cached(include_str!("sql/list_anomalies.sql"))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    list.query_map((after, operation.map(|id| *id.as_bytes()), limit), read)?.collect()
}

/// The newest findings, newest first.
pub(crate) fn latest(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Anomaly>> {
    let mut list = connection.prepare_cached(include_str!("sql/latest_anomalies.sql"))?;
    list.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], read)?.collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Anomaly> {
    let operation: Option<[u8; 16]> = row.get(3)?;
    Ok(Anomaly {
        number: row.get(0)?,
        found_at: rows::time(row, 1)?,
        reason: rows::word(row, 2, "reason", Reason::parse)?,
        operation: operation.map(|id| RecordId::from_bytes(id).operation_id()),
        heard: rows::word(row, 4, "heard", Heard::parse)?,
        account: row.get(5)?,
        event: row.get(6)?,
        detail: row.get(7)?,
        proposal: row.get(8)?,
    })
}

impl Reason {
    pub(crate) const ALL: [Self; 13] = [
        Self::Contradiction,
        Self::SecondPayment,
        Self::Operation,
        Self::Amount,
        Self::Currency,
        Self::Tenant,
        Self::Kind,
        Self::Parent,
        Self::Account,
        Self::Malformed,
        Self::Failing,
        Self::NeverAppeared,
        Self::Held,
    ];

    /// The word in stored rows and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contradiction => "contradiction",
            Self::SecondPayment => "second_payment",
            Self::Operation => "operation",
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::Tenant => "tenant",
            Self::Kind => "kind",
            Self::Parent => "parent",
            Self::Account => "account",
            Self::Malformed => "malformed",
            Self::Failing => "failing",
            Self::NeverAppeared => "never_appeared",
            Self::Held => "held",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }
}

impl Heard {
    const ALL: [Self; 4] = [Self::Answer, Self::Question, Self::Webhook, Self::Night];

    /// The word in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Question => "question",
            Self::Webhook => "webhook",
            Self::Night => "night",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|heard| heard.as_str() == word)
    }
}
