//! The layout of the records: every statement that names `idempotency_records` is here, and nothing outside knows how
//! they lie on disk. Another layout replaces this module, `rows.rs` and the two folders of SQL.
//!
//! Each function is atomic by itself, except [`due`], which only reads.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::record::{Fence, Record};
use unavez_core::time::Time;

use super::digest_index::IndexSpec;
use super::rows;
use crate::rules::pick_fairly;
use crate::{Cursor, Filter};

/// Reads from the root of every tree to its first and last entry: a cheap sign of a damaged file, however large. (That
/// the file is as long as its header says is checked by the library.)
pub(super) fn read_edges(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row(include_str!("sql/edges.sql"), [], |_| Ok(()))
}

/// Finds the rows of an id.
pub(super) const BY_ID: IndexSpec = IndexSpec {
    table: "idempotency_records_by_id",
    rows_after: include_str!("sql/records_after.sql"),
    entry: |row| Ok((row.get(0)?, row.get(1)?)),
    guests: None,
};

/// The record with this id, which stands in one of these rows if there is one.
pub(super) fn find(
    connection: &Connection,
    id: RecordId,
    positions: &[i64],
) -> rusqlite::Result<Option<Record>> {
    for position in positions.iter().rev() {
        if let Some(record) = find_at(connection, id, *position)? {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

fn find_at(connection: &Connection, id: RecordId, position: i64) -> rusqlite::Result<Option<Record>> {
    let mut find = connection.prepare_cached(include_str!("sql/find.sql"))?;
    find.query_row(params![position, id.as_bytes()], rows::read).optional()
}

/// Adds a record. The caller knows that its id has none.
pub(super) fn insert(connection: &Connection, record: &Record, position: i64) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(include_str!("sql/insert.sql"))?;
    rows::with_all_columns(record, position, |columns| insert.execute(columns)).map(drop)
}

/// Changes the record that stands in one of these rows and has the fence `before`; `false` if none does.
pub(super) fn update(
    connection: &Connection,
    record: &Record,
    before: Fence,
    positions: &[i64],
) -> rusqlite::Result<bool> {
    let mut update = connection.prepare_cached(include_str!("sql/update.sql"))?;
    for position in positions.iter().rev() {
        let changed =
            rows::with_changed_columns(record, before, *position, |columns| update.execute(columns))?;
        if changed == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes exactly this record, which stands in one of these rows, and says in which; `None` if its fence is another.
pub(super) fn delete(
    connection: &Connection,
    record: &Record,
    positions: &[i64],
) -> rusqlite::Result<Option<i64>> {
    let mut delete = connection.prepare_cached(include_str!("sql/delete.sql"))?;
    for position in positions.iter().rev() {
        if delete.execute(rows::identity_of(record, *position))? == 1 {
            return Ok(Some(*position));
        }
    }
    Ok(None)
}

/// Deletes at most `limit` records that expired by `now`, and says which they were and where they stood.
pub(super) fn purge(
    connection: &Connection,
    now: Time,
    limit: usize,
) -> rusqlite::Result<Vec<(RecordId, i64)>> {
    connection
        .prepare_cached(include_str!("sql/purge.sql"))?
        .query_map(params![now.as_micros(), limit_of(limit)], |row| {
            Ok((rows::record_id(row, 0)?, row.get(1)?))
        })?
        .collect()
}

/// When the first promise ends, or ended.
pub(super) fn oldest_expiry(connection: &Connection) -> rusqlite::Result<Option<Time>> {
    let oldest: Option<i64> =
        connection.prepare_cached(include_str!("sql/oldest_expiry.sql"))?.query_row([], |row| row.get(0))?;
    Ok(oldest.map(Time::from_micros))
}

/// Records to ask about at `now`, picked fairly. Costs a step in the index for every tenant with open records.
pub(super) fn due(connection: &Connection, now: Time, limit: usize) -> rusqlite::Result<Vec<Record>> {
    let mut next_tenant = connection.prepare_cached(include_str!("sql/next_due_tenant.sql"))?;
    let mut due_of_tenant = connection.prepare_cached(include_str!("sql/due_of_tenant.sql"))?;
    let mut due: Vec<(Time, Tenant, RecordId)> = Vec::new();
    let mut positions: HashMap<RecordId, i64> = HashMap::new();
    let mut after = String::new();
    while let Some(tenant) = next_tenant.query_row([&after], |row| row.get::<_, Option<String>>(0))? {
        // A name that is none is skipped here; reading its records reports it.
        if let Ok(name) = Tenant::parse(&tenant) {
            let of_tenant = due_of_tenant
                .query_map(params![tenant, now.as_micros(), limit_of(limit)], |row| {
                    Ok((rows::time(row, 0)?, rows::record_id(row, 1)?, row.get(2)?))
                })?;
            for row in of_tenant {
                let (at, id, position) = row?;
                due.push((at, name.clone(), id));
                positions.insert(id, position);
            }
        }
        after = tenant;
    }
    let picked = pick_fairly(due, limit).into_iter();
    picked.filter_map(|id| find_at(connection, id, *positions.get(&id)?).transpose()).collect()
}

/// A page of records, newest first, and where the next one starts.
pub(super) fn list(
    connection: &Connection,
    filter: &Filter,
    after: Option<Cursor>,
    limit: usize,
) -> rusqlite::Result<(Vec<Record>, Option<Cursor>)> {
    let before = after.map_or(i64::MAX, |Cursor(position)| i64::try_from(position).unwrap_or(i64::MAX));
    let tenant = filter.tenant.as_ref().map(Tenant::as_str);
    let mut page: Vec<(Record, i64)> = connection
        .prepare_cached(include_str!("sql/list.sql"))?
        .query_map(params![before, tenant, filter.state, limit_of(limit.saturating_add(1))], |row| {
            Ok((rows::read(row)?, row.get(rows::COLUMNS)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let more = page.len() > limit;
    page.truncate(limit);
    let last = page.last().and_then(|(_, position)| u64::try_from(*position).ok());
    Ok((page.into_iter().map(|(record, _)| record).collect(), last.filter(|_| more).map(Cursor)))
}

fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
