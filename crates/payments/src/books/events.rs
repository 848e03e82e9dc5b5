//! What happened to an operation.
//!
//! 1. The row of an operation tells that it was claimed, when, and by whom. Where it was sent once and the answer settled
//!    it, the row tells that as well, and it is the whole history: the happy path writes no events.
//! 2. Everything else is a row of `key_events`. Those are only ever added, by the transactions that they tell of.
//!
//! The ledger's path writes none.

use rusqlite::{Connection, OptionalExtension as _};
use unavez_core::record::Record;
use unavez_core::time::Time;

use super::operations::{Operation, OperationRow, OperationStanding};
use super::rows;
use super::text::plain;
use crate::request_id::RequestId;

/// How the detail of a question begins that was put before anything was sent.
pub(crate) const ASKED_FIRST: &str = "asked first";

/// What happened. The words are those of stored rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The key was claimed by a first attempt.
    Started,
    /// Another attempt took the place of a lost or unknown one.
    TakenOver,
    /// The request went out.
    Sent,
    /// The acquirer answered, or did not.
    Answered,
    /// The acquirer was asked what became of it.
    Asked,
    /// The acquirer told by itself.
    Webhook,
    /// The outcome became known and final.
    Settled,
    /// Certainly nothing was sent: the key is free.
    Released,
    /// It waits for a person.
    Held,
    /// A truth was heard against a final state.
    Contradicted,
    /// A person did something.
    Operator,
}

/// One event of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub kind: EventKind,
    /// Attempts started so far.
    pub attempt: Option<u32>,
    /// The record's version after it.
    pub version: Option<u64>,
    /// Which process wrote it down.
    pub instance: Box<str>,
    /// The request that caused it: `req_…`.
    pub request_id: Option<Box<str>>,
    /// Who caused it: a tenant, an acquirer's account, or an operator.
    pub caller: Option<Box<str>>,
    /// In words.
    pub detail: Option<Box<str>>,
}

/// How an outcome became known: the end of a settled event's detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Through {
    /// The acquirer answered the send.
    Answer,
    /// It was asked afterwards.
    Question,
    /// It was asked before anything was sent.
    FirstQuestion,
    /// It told by itself.
    Webhook,
    /// A person ruled.
    Hand,
}

impl Through {
    const ALL: [Self; 5] = [Self::Answer, Self::Question, Self::FirstQuestion, Self::Webhook, Self::Hand];

    /// The phrase in stored details.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "heard in the answer",
            Self::Question => "heard in the question",
            Self::FirstQuestion => "heard in the first question",
            Self::Webhook => "heard in the webhook",
            Self::Hand => "settled by hand",
        }
    }

    /// Of an event that settled its operation.
    #[must_use]
    pub fn of(event: &KeyEvent) -> Option<Self> {
        let detail = event.detail.as_deref().filter(|_| event.kind == EventKind::Settled)?;
        Self::ALL.into_iter().find(|through| detail.ends_with(through.as_str()))
    }
}

impl KeyEvent {
    /// Whether it tells of a question that was put before anything was sent.
    #[must_use]
    pub fn is_asked_first(&self) -> bool {
        let detail = self.detail.as_deref().unwrap_or_default();
        self.kind == EventKind::Asked && detail.starts_with(ASKED_FIRST)
    }
}

/// An event to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewEvent<'a> {
    pub(crate) at: Time,
    pub(crate) kind: EventKind,
    pub(crate) record: Option<&'a Record>,
    pub(crate) instance: &'a str,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) caller: Option<&'a str>,
    pub(crate) detail: Option<&'a str>,
}

/// Adds an event.
pub(crate) fn write(
    connection: &Connection,
    operation: OperationRow,
    event: &NewEvent<'_>,
) -> rusqlite::Result<()> {
    let version = event.record.map(|record| i64::try_from(record.fence.version).unwrap_or(i64::MAX));
    connection.prepare_cached(include_str!("sql/insert_key_event.sql"))?.execute((
        operation,
        event.at.as_micros(),
        event.kind.as_str(),
        event.record.map(|record| record.attempts),
        version,
        event.instance,
        event.request_id.map(RequestId::to_bytes),
        event.caller,
        event.detail.map(plain),
    ))?;
    Ok(())
}

/// The events of an operation, in the order in which they happened.
pub(crate) fn of_operation(
    connection: &Connection,
    operation: &Operation,
) -> rusqlite::Result<Vec<KeyEvent>> {
    let mut events = told_by_row(connection, operation)?;
    events.extend(written(connection, operation.row)?);
    // Those of one instant in the order in which they were written.
    events.sort_by_key(|event| event.at);
    Ok(events)
}

/// What the operation's own row tells: the version of a claimed record is 1, and its owner's first write makes it 2.
fn told_by_row(connection: &Connection, operation: &Operation) -> rusqlite::Result<Vec<KeyEvent>> {
    let mut find = connection.prepare_cached(include_str!("sql/happy_path.sql"))?;
    let told = find.query_row([operation.row], |row| {
        Ok((row.get::<_, Box<str>>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?))
    });
    let Some((instance, sent_at, settled_at)) = told.optional()? else { return Ok(Vec::new()) };
    let (sent_at, settled_at) = (sent_at.map(Time::from_micros), settled_at.map(Time::from_micros));
    let started = KeyEvent {
        at: operation.created_at,
        kind: EventKind::Started,
        attempt: Some(1),
        version: Some(1),
        instance,
        request_id: Some(operation.request_id.to_string().into()),
        caller: Some(operation.tenant.as_str().into()),
        detail: None,
    };
    let (Some(sent_at), Some(settled_at)) = (sent_at, settled_at) else { return Ok(vec![started]) };
    let sent = KeyEvent { at: sent_at, kind: EventKind::Sent, ..started.clone() };
    let settled = KeyEvent {
        at: settled_at,
        kind: EventKind::Settled,
        version: Some(2),
        caller: operation.account.as_ref().map(|account| account.as_str().into()),
        detail: Some(settled_detail(operation.standing, Through::Answer).into()),
        ..started.clone()
    };
    Ok(vec![started, sent, settled])
}

/// The words of an event that settled its operation.
pub(crate) fn settled_detail(standing: OperationStanding, through: Through) -> String {
    format!("{}, {}", standing.as_str(), through.as_str())
}

fn written(connection: &Connection, operation: OperationRow) -> rusqlite::Result<Vec<KeyEvent>> {
    let mut list = connection.prepare_cached(include_str!("sql/key_events_of_operation.sql"))?;
    let events = list.query_map([operation], |row| {
        let request_id: Option<[u8; 16]> = row.get(5)?;
        let version: Option<i64> = row.get(3)?;
        Ok(KeyEvent {
            at: rows::time(row, 0)?,
            kind: rows::word(row, 1, "kind", EventKind::parse)?,
            attempt: row.get(2)?,
            version: version.map(i64::unsigned_abs),
            instance: row.get(4)?,
            request_id: request_id.map(|id| RequestId::from_bytes(id).to_string().into()),
            caller: row.get(6)?,
            detail: row.get(7)?,
        })
    })?;
    events.collect()
}

impl EventKind {
    const ALL: [Self; 11] = [
        Self::Started,
        Self::TakenOver,
        Self::Sent,
        Self::Answered,
        Self::Asked,
        Self::Webhook,
        Self::Settled,
        Self::Released,
        Self::Held,
        Self::Contradicted,
        Self::Operator,
    ];

    /// The word in stored rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::TakenOver => "taken_over",
            Self::Sent => "sent",
            Self::Answered => "answered",
            Self::Asked => "asked",
            Self::Webhook => "webhook",
            Self::Settled => "settled",
            Self::Released => "released",
            Self::Held => "held",
            Self::Contradicted => "contradicted",
            Self::Operator => "operator",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}
