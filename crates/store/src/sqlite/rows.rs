//! Records as rows: every column of `idempotency_records` to and from core's types.
//!
//! A row that does not read back is an error, never a guess: a record guards an effect. The one exception is a missing
//! deadline, which older writers left, and which the protocol defines (P9).

use std::fmt;

use rusqlite::types::{FromSql, Type, ValueRef};
use rusqlite::{Params, Row, params};
use unavez_core::answer::{Answer, Conclusion, Content, NotKept};
use unavez_core::fingerprint::Fingerprint;
use unavez_core::identity::{AttemptId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Cause, Exposure, Fence, Record, State};
use unavez_core::time::Time;

use crate::columns::StateColumns;
use crate::headers;

/// How many columns `find.sql` reads.
pub(super) const COLUMNS: usize = 26;

/// Hands the parameters of `insert.sql` to `execute`.
pub(super) fn with_all_columns<T>(
    record: &Record,
    position: i64,
    execute: impl FnOnce(&[&dyn rusqlite::ToSql]) -> T,
) -> T {
    let state = StateColumns::of(&record.state);
    execute(params![
        record.id.as_bytes(),
        record.tenant.as_str(),
        record.key.as_str(),
        record.fingerprint.encode(),
        version(record.fence),
        record.fence.attempt.as_bytes(),
        record.attempts,
        record.exposure == Exposure::MayBeSent,
        record.sighted,
        record.created_at.as_micros(),
        record.attempt_started_at.as_micros(),
        record.latest_send_at.as_micros(),
        record.state.name(),
        state.deadline,
        state.asked,
        state.next_ask_at,
        state.finished_at,
        state.expires_at,
        state.abandoned_at,
        state.conclusion,
        state.status,
        state.resource,
        state.not_kept,
        state.sealed_by,
        state.headers,
        state.body,
        position,
    ])
}

/// Hands the parameters of `update.sql` to `execute`: `record` takes the place of the one with the fence `before`.
pub(super) fn with_changed_columns<T>(
    record: &Record,
    before: Fence,
    position: i64,
    execute: impl FnOnce(&[&dyn rusqlite::ToSql]) -> T,
) -> T {
    let state = StateColumns::of(&record.state);
    execute(params![
        record.id.as_bytes(),
        version(record.fence),
        record.fence.attempt.as_bytes(),
        record.attempts,
        record.exposure == Exposure::MayBeSent,
        record.sighted,
        record.attempt_started_at.as_micros(),
        record.latest_send_at.as_micros(),
        record.state.name(),
        state.deadline,
        state.asked,
        state.next_ask_at,
        state.finished_at,
        state.expires_at,
        state.abandoned_at,
        state.conclusion,
        state.status,
        state.resource,
        state.not_kept,
        state.sealed_by,
        state.headers,
        state.body,
        version(before),
        before.attempt.as_bytes(),
        position,
    ])
}

/// The parameters of `delete.sql`.
pub(super) fn identity_of(record: &Record, position: i64) -> impl Params + '_ {
    (*record.id.as_bytes(), version(record.fence), *record.fence.attempt.as_bytes(), position)
}

fn version(fence: Fence) -> i64 {
    i64::try_from(fence.version).expect("a version counts writes of one record")
}

/// Reads the columns of `find.sql`, in its order.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        id: record_id(row, 0)?,
        tenant: parsed(row, 1, Tenant::parse)?,
        key: parsed(row, 2, Key::parse_path)?,
        fingerprint: {
            let bytes = row.get_ref(3)?.as_blob().map_err(|error| unreadable(3, error))?;
            Fingerprint::decode(bytes).map_err(|error| unreadable(3, error))?
        },
        fence: Fence { version: number(row, 4)?, attempt: AttemptId::from_bytes(row.get(5)?) },
        attempts: number(row, 6)?,
        exposure: if row.get(7)? { Exposure::MayBeSent } else { Exposure::Contained },
        sighted: row.get(8)?,
        created_at: time(row, 9)?,
        attempt_started_at: time(row, 10)?,
        latest_send_at: time(row, 11)?,
        state: state(row)?,
    })
}

/// The id in a column of any statement.
pub(super) fn record_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RecordId> {
    row.get(column).map(RecordId::from_bytes)
}

/// The time in a column of any statement.
pub(super) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Time> {
    row.get(column).map(Time::from_micros)
}

fn state(row: &Row<'_>) -> rusqlite::Result<State> {
    match text(row, 12)? {
        "in_progress" => Ok(State::InProgress { deadline: readable_deadline(row.get_ref(13)?) }),
        "pending" => unknown(row, Cause::Pending),
        "unknown" => unknown(row, Cause::CutOff),
        "abandoned" => Ok(State::Abandoned { at: time(row, 18)? }),
        "finished" => Ok(State::Finished {
            at: time(row, 16)?,
            expires_at: time(row, 17)?,
            conclusion: word(row, 19, Conclusion::parse)?,
            answer: Answer { status: number(row, 20)?, content: content(row)? },
            resource: row.get::<_, Option<String>>(21)?.map(Into::into),
        }),
        other => Err(unreadable(12, NoSuchWord(other.to_owned()))),
    }
}

/// A record without a readable deadline counts as alive until one is stamped (P9).
fn readable_deadline(value: ValueRef<'_>) -> Option<Time> {
    i64::column_result(value).ok().map(Time::from_micros)
}

fn unknown(row: &Row<'_>, cause: Cause) -> rusqlite::Result<State> {
    Ok(State::Unknown { cause, asked: number(row, 14)?, next_ask_at: time(row, 15)? })
}

fn content(row: &Row<'_>) -> rusqlite::Result<Content> {
    let body = || row.get::<_, Vec<u8>>(25).map(Into::into);
    if let Some(key_id) = row.get::<_, Option<String>>(23)? {
        return Ok(Content::Sealed { key_id: key_id.into(), bytes: body()? });
    }
    let headers = headers::read(text(row, 24)?).map_err(|error| unreadable(24, error))?;
    match row.get_ref(22)? {
        ValueRef::Null => Ok(Content::Kept { headers, body: body()? }),
        _ => Ok(Content::NotKept { headers, why: word(row, 22, NotKept::parse)? }),
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    row.get_ref(column)?.as_str().map_err(|error| unreadable(column, error))
}

fn parsed<T, E>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Result<T, E>) -> rusqlite::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    parse(text(row, column)?).map_err(|error| unreadable(column, error))
}

fn word<T>(row: &Row<'_>, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> rusqlite::Result<T> {
    let word = text(row, column)?;
    parse(word).ok_or_else(|| unreadable(column, NoSuchWord(word.to_owned())))
}

fn number<T: TryFrom<i64>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let number: i64 = row.get(column)?;
    T::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn unreadable(column: usize, why: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(why))
}

/// A word that no version of this code up to this one has written.
#[derive(Debug)]
struct NoSuchWord(String);

impl fmt::Display for NoSuchWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word `{}`", self.0)
    }
}

impl std::error::Error for NoSuchWord {}
