//! Loads, as one statement.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tokio_postgres::types::Type;
use unavez_core::identity::RecordId;

use super::connection::{Param, Session};
use super::error::Failure;
use super::rows::{self, COLUMNS};
use super::time::Times;
use crate::Loaded;

/// What stands under some ids.
pub(super) type Found = HashMap<RecordId, Result<Loaded, Failure>>;

/// Reads the records of these ids.
pub(super) async fn load(
    session: &Session,
    times: &Times,
    ids: &BTreeSet<RecordId>,
) -> Result<Found, Failure> {
    let told = times.told();
    let wanted: Vec<_> = ids.iter().map(|id| rows::uuid(*id)).collect();
    let parameters: &[Param<'_>] = &[(&told, Type::INT8), (&wanted, Type::UUID_ARRAY)];
    let read = session.read(include_str!("sql/load.sql"), parameters).await?;
    let mut found = Found::with_capacity(read.len());
    for row in &read {
        let now = rows::time(row, COLUMNS)?;
        times.observe(now);
        let record = rows::read_if_any(row).map(|record| Loaded { record, now });
        found.insert(rows::record_id(row, COLUMNS + 1)?, record.map_err(Failure::from));
    }
    Ok(found)
}

/// Takes what was found under an id.
pub(super) fn taken(found: &Result<Found, Failure>, id: RecordId) -> Result<Loaded, Failure> {
    let none = || Failure::Unreached(Arc::from("the database left out an id that it was asked for"));
    match found {
        Ok(found) => found.get(&id).cloned().unwrap_or_else(|| Err(none())),
        Err(failure) => Err(failure.clone()),
    }
}
