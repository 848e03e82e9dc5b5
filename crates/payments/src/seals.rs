//! The sealing keys, checked at the start against what the database was written with.
//!
//! 1. An id means one key for ever. Other bytes under a known id would make honest repeats look like other requests,
//!    and be refused with 422 for good.
//! 2. A key that is gone from the file must not be needed: the start is refused while a record that is open, or whose
//!    answer is still promised, is sealed or fingerprinted by it.
//! 3. A key that is gone and not needed is marked, and costs later starts nothing.
//!
//! What breaks it in deployment: a key file restored from another machine, or none at all after a move. Both are
//! refused with the key's id before the first request.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, params};
use unavez_core::fingerprint::Fingerprint;
use unavez_core::seal::{SealKeyId, SealKeys};
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::{SqliteStore, TransactionError};

use crate::open_error::OpenError;

/// Reads the key file.
pub(crate) fn read(path: &Path) -> Result<SealKeys, OpenError> {
    let refuse = |why: String| OpenError::SealKeys { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    SealKeys::parse(&text).map_err(|error| refuse(error.to_string()))
}

/// Compares the keys with those the database has met, and enters the new ones. One commit.
pub(crate) async fn check(store: &SqliteStore, keys: Option<&SealKeys>) -> Result<(), OpenError> {
    let check_of = |(id, value): (&SealKeyId, &[u8; 32])| Check { id: id.clone(), value: *value };
    let configured: Vec<Check> = keys.into_iter().flat_map(SealKeys::check_values).map(check_of).collect();
    let checked = store.transaction(move |tx| enter(tx, &configured, tx.now())).await;
    checked.map_err(|error| match error {
        TransactionError::Refused(Refusal::Changed(id)) => OpenError::SealKeyChanged { id },
        TransactionError::Refused(Refusal::Missing { id, records }) => {
            OpenError::SealKeyMissing { id, records }
        }
        TransactionError::Refused(Refusal::Sql(error)) => {
            OpenError::Read(StoreError::Unavailable(error.to_string().into()))
        }
        TransactionError::Store(error) => OpenError::Read(error),
    })
}

/// A key's id with what only this key makes.
struct Check {
    id: SealKeyId,
    value: [u8; 32],
}

enum Refusal {
    Changed(SealKeyId),
    Missing { id: String, records: u64 },
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// A key that the database has met.
struct Met {
    value: [u8; 32],
    is_retired: bool,
}

fn enter(connection: &Connection, configured: &[Check], now: Time) -> Result<(), Refusal> {
    let mut met = met(connection)?;
    for Check { id, value } in configured {
        match met.remove(id.as_str()) {
            Some(stored) if stored.value != *value => return Err(Refusal::Changed(id.clone())),
            Some(Met { is_retired: false, .. }) => {}
            Some(Met { is_retired: true, .. }) | None => put(connection, id, value)?,
        }
    }
    met.retain(|_, key| !key.is_retired);
    retire_unneeded(connection, met.into_keys().collect(), now)
}

/// Marks the keys that are gone from the file, or refuses for the first one that is needed.
fn retire_unneeded(connection: &Connection, mut gone: Vec<String>, now: Time) -> Result<(), Refusal> {
    if gone.is_empty() {
        return Ok(());
    }
    gone.sort_unstable();
    let needed = needed(connection, now)?;
    for id in gone {
        if let Some(&records) = needed.get(&id) {
            return Err(Refusal::Missing { id, records });
        }
        let retire = include_str!("books/sql/retire_seal_key.sql");
        connection.execute(retire, params![id, now.as_micros()])?;
    }
    Ok(())
}

fn met(connection: &Connection) -> rusqlite::Result<HashMap<String, Met>> {
    let mut all = connection.prepare(include_str!("books/sql/seal_keys.sql"))?;
    let met =
        all.query_map([], |row| Ok((row.get(0)?, Met { value: row.get(1)?, is_retired: row.get(2)? })))?;
    met.collect()
}

fn put(connection: &Connection, id: &SealKeyId, value: &[u8; 32]) -> rusqlite::Result<()> {
    connection.execute(include_str!("books/sql/put_seal_key.sql"), params![id.as_str(), value]).map(drop)
}

/// How many records that are open or still promised need each key. Reads all of them: asked only when a key is gone.
fn needed(connection: &Connection, now: Time) -> rusqlite::Result<HashMap<String, u64>> {
    let mut live = connection.prepare(include_str!("books/sql/needed_seal_keys.sql"))?;
    let mut rows = live.query([now.as_micros()])?;
    let mut needed = HashMap::new();
    while let Some(row) = rows.next()? {
        let sealed_by: Option<String> = row.get(0)?;
        // One that cannot be decoded is compared by no key.
        let fingerprint = Fingerprint::decode(row.get_ref(1)?.as_blob()?).ok();
        let keyed_by = fingerprint.and_then(|it| it.key_id().map(|id| id.as_str().to_owned()));
        let keyed_by = keyed_by.filter(|id| sealed_by.as_ref() != Some(id));
        for id in sealed_by.into_iter().chain(keyed_by) {
            *needed.entry(id).or_default() += 1;
        }
    }
    Ok(needed)
}
