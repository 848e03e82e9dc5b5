//! The statements, inside a transaction that somebody else begins and commits.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use unavez_core::key::Key;
use unavez_core::retry::Received;
use unavez_core::time::Time;

use super::lease::{Lease, Leased, Settlement, Taken};
use super::row::{self, Content, read_answer};
use super::standing::{Backlog, Standing, Waiting};
use super::time::OutboxClock;
use super::{Limits, OutboxError};
use crate::operation::Operation;

/// The format of the tables.
const FORMAT: i64 = 1;

/// Most rows that one purge deletes: each transaction keeps every other writer of the file waiting.
pub(super) const PURGE_MAX: usize = 1_000;

/// What a statement ends with. A database's error gets its file's name where the file is known.
pub(super) enum Trouble {
    Sql(rusqlite::Error),
    Other(OutboxError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<OutboxError> for Trouble {
    fn from(error: OutboxError) -> Self {
        Self::Other(error)
    }
}

/// Makes the tables where they are missing; the largest time ever stored.
pub(super) fn prepare(db: &Connection) -> Result<Time, Trouble> {
    db.execute_batch(include_str!("sql/schema.sql"))?;
    let (format, latest) = db
        .query_row("select format, latest_us from unavez_outbox", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if format != FORMAT {
        return Err(OutboxError::UnknownFormat { format, known: FORMAT }.into());
    }
    Ok(Time::from_micros(latest))
}

/// The time, not before any that was ever stored.
fn tick(db: &Connection, clock: &OutboxClock) -> rusqlite::Result<Time> {
    let now = clock.now().as_micros();
    db.prepare_cached(include_str!("sql/tick.sql"))?.query_row([now], |row| row.get(0)).map(Time::from_micros)
}

pub(super) fn put(
    db: &Connection,
    clock: &OutboxClock,
    limits: &Limits,
    tenant: &str,
    operation: &Operation,
) -> Result<(), Trouble> {
    let key = operation.key().ok_or(OutboxError::NoKey)?;
    let (bytes, limit) = (operation.parts().body.len(), limits.body_bytes_max);
    if bytes > limit {
        return Err(OutboxError::BodyTooLarge { bytes, limit }.into());
    }
    let now = tick(db, clock)?;
    let content = Content::of(operation, key, clock.on_this(operation.parts().created_at, now));
    if let Some(known) = find_digest(db, tenant, key)? {
        return known.is_of(content, tenant);
    }
    let waiting: i64 =
        db.prepare_cached(include_str!("sql/waiting.sql"))?.query_row([tenant], |row| row.get(0))?;
    let limit = limits.waiting_max;
    if usize::try_from(waiting).is_ok_and(|waiting| waiting >= limit) {
        return Err(OutboxError::Full { limit }.into());
    }
    insert(db, tenant, &content, operation.parts().received, now)?;
    Ok(())
}

fn insert(
    db: &Connection,
    tenant: &str,
    content: &Content,
    received: Received,
    now: Time,
) -> rusqlite::Result<usize> {
    db.prepare_cached(include_str!("sql/put.sql"))?.execute(params![
        tenant,
        content.key,
        content.method,
        content.url,
        content.host,
        content.headers,
        content.body,
        content.created_at.as_micros(),
        content.digest(tenant),
        row::received_column(received),
        now.as_micros(),
    ])
}

/// What stands under a key already.
struct Known {
    created_at: Time,
    digest: Vec<u8>,
}

impl Known {
    /// A put that is repeated, after a crash or because its commit was in doubt, is the same one but for its time.
    fn is_of(&self, mut content: Content, tenant: &str) -> Result<(), Trouble> {
        content.created_at = self.created_at;
        if content.digest(tenant)[..] == self.digest[..] {
            return Ok(());
        }
        Err(OutboxError::KeyTaken { key: content.key.into() }.into())
    }
}

fn find_digest(db: &Connection, tenant: &str, key: &Key) -> rusqlite::Result<Option<Known>> {
    let read = |row: &Row<'_>| {
        Ok(Known { created_at: Time::from_micros(row.get("created_at_us")?), digest: row.get("digest")? })
    };
    db.prepare_cached(include_str!("sql/standing.sql"))?.query_row([tenant, key.as_str()], read).optional()
}

pub(super) fn standing(db: &Connection, tenant: &str, key: &Key) -> rusqlite::Result<Option<Standing>> {
    db.prepare_cached(include_str!("sql/standing.sql"))?
        .query_row([tenant, key.as_str()], read_standing)
        .optional()
}

fn read_standing(row: &Row<'_>) -> rusqlite::Result<Standing> {
    let state: String = row.get("state")?;
    let answer = || -> rusqlite::Result<_> {
        let headers: Vec<u8> = row.get("answer_headers")?;
        let answer = read_answer(row.get("status")?, &headers, row.get("answer_body")?);
        answer.ok_or_else(|| {
            let why = "the stored answer is none";
            rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Blob, why.into())
        })
    };
    Ok(match state.as_str() {
        "done" => Standing::Done(answer()?),
        "refused" => Standing::Refused(answer()?),
        "waiting" => Standing::Waiting(Waiting { calls: row.get("lease")?, last: row.get("reason")? }),
        _ => Standing::Unknown { reason: row.get("reason")?, received: row::received(row.get("received")?) },
    })
}

/// Takes the first operation that is due, and leaves it to nobody else until the lease is over.
pub(super) fn take(db: &Connection, clock: &OutboxClock, lease: &Lease<'_>) -> rusqlite::Result<Taken> {
    let busy = serde_json::to_string(lease.busy_hosts).expect("names are JSON");
    let found = db
        .prepare_cached(include_str!("sql/take_find.sql"))?
        .query_row([lease.tenant, busy.as_str()], Found::read)
        .optional()?;
    let Some(found) = found else { return Ok(Taken::Nothing { due_in: None }) };
    // No stamp where nothing is due: looking at an idle outbox costs no write.
    if found.due_at > clock.now() {
        return Ok(Taken::Nothing { due_in: Some(found.due_at.since(clock.now())) });
    }
    let now = tick(db, clock)?;
    let until = now.plus(lease.duration).as_micros();
    db.prepare_cached(include_str!("sql/take.sql"))?.execute(params![found.id, found.lease, until])?;
    Ok(found.into_taken(lease.tenant, now))
}

/// A row that may be due.
struct Found {
    id: i64,
    lease: u32,
    content: Content,
    digest: Vec<u8>,
    received: Received,
    due_at: Time,
}

impl Found {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            lease: row.get("lease")?,
            content: Content::read(row)?,
            digest: row.get("digest")?,
            received: row::received(row.get("received")?),
            due_at: Time::from_micros(row.get("due_at_us")?),
        })
    }

    fn into_taken(self, tenant: &str, now: Time) -> Taken {
        let leased = Leased {
            id: self.id,
            lease: self.lease.saturating_add(1),
            key: self.content.key.as_str().into(),
            host: self.content.host.as_str().into(),
        };
        // The client takes an operation's age on the wall clock; so it is given a time of that clock.
        let made_at = crate::operation::now().minus(now.since(self.content.created_at));
        match self.content.restore(tenant, &self.digest, self.received, made_at) {
            Ok(operation) => Taken::Operation(leased, Box::new(operation)),
            Err(tampered) => Taken::Tampered(leased, tampered),
        }
    }
}

/// Whether the lease still holds.
pub(super) fn renew(
    db: &Connection,
    clock: &OutboxClock,
    leased: &Leased,
    duration: std::time::Duration,
) -> rusqlite::Result<bool> {
    let until = tick(db, clock)?.plus(duration).as_micros();
    let rows =
        db.prepare_cached(include_str!("sql/renew.sql"))?.execute(params![leased.id, leased.lease, until])?;
    Ok(rows == 1)
}

/// Writes down what a call came to; whether the lease still held.
pub(super) fn settle(
    db: &Connection,
    clock: &OutboxClock,
    leased: &Leased,
    settlement: &Settlement,
) -> rusqlite::Result<bool> {
    let now = tick(db, clock)?;
    if let Settlement::Later { wait, received, reason } = settlement {
        let due_at = now.plus(*wait).as_micros();
        let rows = db.prepare_cached(include_str!("sql/postpone.sql"))?.execute(params![
            leased.id,
            leased.lease,
            due_at,
            row::received_column(*received),
            reason,
        ])?;
        return Ok(rows == 1);
    }
    let (answer, reason) = (settlement.answer(), settlement.reason());
    let rows = db.prepare_cached(include_str!("sql/settle.sql"))?.execute(params![
        leased.id,
        leased.lease,
        settlement.state(),
        row::received_column(settlement.received()),
        reason,
        answer.map(|answer| answer.status().as_u16()),
        answer.map(|answer| row::write_headers(answer.headers())),
        answer.map(|answer| answer.body().to_vec()),
        now.as_micros(),
    ])?;
    Ok(rows == 1)
}

pub(super) fn resume(
    db: &Connection,
    clock: &OutboxClock,
    tenant: &str,
    key: &Key,
) -> rusqlite::Result<bool> {
    let now = tick(db, clock)?.as_micros();
    let rows =
        db.prepare_cached(include_str!("sql/resume.sql"))?.execute(params![tenant, key.as_str(), now])?;
    Ok(rows == 1)
}

pub(super) fn purge(db: &Connection, clock: &OutboxClock, limits: &Limits) -> rusqlite::Result<usize> {
    let before = tick(db, clock)?.minus(limits.answers_kept).as_micros();
    db.prepare_cached(include_str!("sql/purge.sql"))?
        .execute((before, i64::try_from(PURGE_MAX).expect("a small number")))
}

pub(super) fn backlog(db: &Connection, clock: &OutboxClock, tenant: &str) -> rusqlite::Result<Backlog> {
    let now = clock.now();
    db.prepare_cached(include_str!("sql/backlog.sql"))?.query_row([tenant], |row| {
        let oldest: Option<i64> = row.get(2)?;
        Ok(Backlog {
            waiting: row.get(0)?,
            unknown: row.get(1)?,
            oldest_waiting: oldest.map(|made_at| now.since(Time::from_micros(made_at))),
        })
    })
}
