//! Records as rows: every column of `idempotency_records` to and from core's types.
//!
//! A row that does not read back is an error, never a guess: a record guards an effect.

use std::fmt;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use unavez_core::answer::{Answer, Conclusion, Content, NotKept};
use unavez_core::fingerprint::Fingerprint;
use unavez_core::identity::{AttemptId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Cause, Exposure, Fence, Record, State};
use unavez_core::time::Time;
use uuid::Uuid;

use super::error::Failure;
use crate::headers;

/// How many columns a record has in `load.sql` and its like; what else they select stands behind.
pub(super) const COLUMNS: usize = 26;

/// Columns of a record that every state has, and which every statement that returns one selects first.
pub(super) fn common(row: &Row, state: State) -> Result<Record, Unreadable> {
    Ok(Record {
        id: record_id(row, 0)?,
        tenant: parsed(row, 1, Tenant::parse)?,
        key: parsed(row, 2, Key::parse_path)?,
        fingerprint: Fingerprint::decode(value(row, 3)?).map_err(|error| Unreadable::new(3, &error))?,
        fence: Fence { version: number(row, 4)?, attempt: attempt_id(row, 5)? },
        attempts: number(row, 6)?,
        exposure: if value(row, 7)? { Exposure::MayBeSent } else { Exposure::Contained },
        sighted: value(row, 8)?,
        created_at: time(row, 9)?,
        attempt_started_at: time(row, 10)?,
        latest_send_at: time(row, 11)?,
        state,
    })
}

/// Reads a whole record.
pub(super) fn read(row: &Row) -> Result<Arc<Record>, Unreadable> {
    common(row, state(row)?).map(Arc::new)
}

/// Reads a record where an outer join may have found none.
pub(super) fn read_if_any(row: &Row) -> Result<Option<Arc<Record>>, Unreadable> {
    if value::<Option<Uuid>>(row, 0)?.is_none() { Ok(None) } else { read(row).map(Some) }
}

pub(super) fn record_id(row: &Row, column: usize) -> Result<RecordId, Unreadable> {
    value(row, column).map(|id: Uuid| RecordId::from_bytes(id.into_bytes()))
}

pub(super) fn attempt_id(row: &Row, column: usize) -> Result<AttemptId, Unreadable> {
    value(row, column).map(|id: Uuid| AttemptId::from_bytes(id.into_bytes()))
}

pub(super) fn time(row: &Row, column: usize) -> Result<Time, Unreadable> {
    value(row, column).map(Time::from_micros)
}

pub(super) fn value<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, Unreadable> {
    row.try_get(column).map_err(|error| Unreadable::new(column, &error))
}

fn state(row: &Row) -> Result<State, Unreadable> {
    match value(row, 12)? {
        "in_progress" => {
            Ok(State::InProgress { deadline: value::<Option<i64>>(row, 13)?.map(Time::from_micros) })
        }
        "pending" => unknown(row, Cause::Pending),
        "unknown" => unknown(row, Cause::CutOff),
        "abandoned" => Ok(State::Abandoned { at: time(row, 18)? }),
        "finished" => Ok(State::Finished {
            at: time(row, 16)?,
            expires_at: time(row, 17)?,
            conclusion: word(row, 19, Conclusion::parse)?,
            answer: Answer { status: status(row)?, content: content(row)? },
            resource: value::<Option<&str>>(row, 21)?.map(Into::into),
        }),
        other => Err(Unreadable::new(12, &NoSuchWord(other))),
    }
}

fn unknown(row: &Row, cause: Cause) -> Result<State, Unreadable> {
    Ok(State::Unknown { cause, asked: number(row, 14)?, next_ask_at: time(row, 15)? })
}

fn status(row: &Row) -> Result<u16, Unreadable> {
    u16::try_from(value::<i32>(row, 20)?).map_err(|error| Unreadable::new(20, &error))
}

fn content(row: &Row) -> Result<Content, Unreadable> {
    let body = || value::<&[u8]>(row, 25).map(|body| body.to_vec().into());
    if let Some(key_id) = value::<Option<&str>>(row, 23)? {
        return Ok(Content::Sealed { key_id: key_id.into(), bytes: body()? });
    }
    let headers = headers::read(value(row, 24)?).map_err(|error| Unreadable::new(24, &error))?;
    match value::<Option<&str>>(row, 22)? {
        None => Ok(Content::Kept { headers, body: body()? }),
        Some(_) => Ok(Content::NotKept { headers, why: word(row, 22, NotKept::parse)? }),
    }
}

fn parsed<T, E: fmt::Display>(
    row: &Row,
    column: usize,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Unreadable> {
    parse(value(row, column)?).map_err(|error| Unreadable::new(column, &error))
}

fn word<T>(row: &Row, column: usize, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, Unreadable> {
    let word = value(row, column)?;
    parse(word).ok_or_else(|| Unreadable::new(column, &NoSuchWord(word)))
}

fn number<T: TryFrom<i64>>(row: &Row, column: usize) -> Result<T, Unreadable> {
    let number: i64 = value(row, column)?;
    T::try_from(number).map_err(|_| Unreadable::new(column, &format_args!("{number} is out of range")))
}

/// A column that is not what this program writes.
#[derive(Debug)]
pub(super) struct Unreadable {
    column: usize,
    why: String,
}

impl Unreadable {
    pub(super) fn new(column: usize, why: &dyn fmt::Display) -> Self {
        Self { column, why: why.to_string() }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} of a row does not read back: {}", self.column, self.why)
    }
}

/// Of a statement that was answered: what it wrote stands, and what it says of it cannot be told.
impl From<Unreadable> for Failure {
    fn from(error: Unreadable) -> Self {
        Self::CutOff(error.to_string().into())
    }
}

/// A word that no version of this code up to this one has written.
struct NoSuchWord<'w>(&'w str);

impl fmt::Display for NoSuchWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown word `{}`", self.0)
    }
}

/// The stored form of an id.
pub(super) fn uuid(id: RecordId) -> Uuid {
    Uuid::from_bytes(*id.as_bytes())
}

/// The stored form of an attempt's id.
pub(super) fn attempt_uuid(attempt: AttemptId) -> Uuid {
    Uuid::from_bytes(*attempt.as_bytes())
}

/// The stored form of a version.
pub(super) fn version(fence: Fence) -> i64 {
    i64::try_from(fence.version).expect("a version counts writes of one record")
}
