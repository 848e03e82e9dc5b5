//! Copies of the service's database, and what a database put back from one has to do about what it has forgotten.
//!
//! 1. A copy is taken beside the running service, in one snapshot, and compared with it: rows of every table, and the
//!    books of both summed up ([`Holdings`]).
//! 2. A restored database has forgotten the keys that were claimed after its copy was taken. Their callers may repeat them
//!    for as long as answers are promised, so until then the acquirer is asked before the first send of every new claim.
//!    That time is stored in the database itself, before it is put in its place: no start can miss it.
//! 3. The ledger cannot be asked: what it booked after the copy was taken is known to nobody. A start says so.
//!
//! What breaks it in deployment: a copy of the file taken with other means, put back by hand. Nothing is stored then, and
//! `--ask-first-until` has to be given.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::clock::Clock;
use unavez_store::sqlite::{
    self, Contents, Copied, CopyError, Options, Place, SqliteStore, Target, TransactionError, Watch,
};

use crate::books::{self, Holdings, holdings_on};

/// A database that was put back.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What the copy holds; whatever is newer than its `as_of` is forgotten.
    pub contents: Contents,
    /// Its books.
    pub holdings: Holdings,
    /// Until then the acquirer is asked first.
    pub ask_first_until: Time,
    /// Where the database is kept that was there before.
    pub replaced: Option<PathBuf>,
}

/// Why a database was not put back. What was in its place is still there.
#[derive(Debug)]
pub enum RestoreError {
    /// The copy cannot be read, or the place not be written.
    Copy(CopyError),
    /// The copy is not one of this service's databases, or of a newer version.
    Open(sqlite::OpenError),
    /// Its books do not fit together.
    Unsound(Holdings),
    /// The time to ask first until could not be stored.
    Store(StoreError),
}

/// Copies a database for a file of this name, which is given to it by [`Copied::keep`]. Blocks.
///
/// # Errors
/// [`CopyError`]; nothing is left of the copy.
pub fn back_up(database: &Path, name: &Path, watch: &Watch) -> Result<Copied<Holdings>, CopyError> {
    sqlite::copy(database, Target::File(name), holdings_on, watch)
}

/// Puts a copy in the place of a database, which asks first for as long as answers were promised in the copy, and at least
/// for `response_ttl`. Blocks.
///
/// # Errors
/// [`RestoreError`].
pub async fn restore(
    copy: &Path,
    place: Place,
    response_ttl: Duration,
    clock: Option<Arc<dyn Clock>>,
    watch: &Watch,
) -> Result<Restored, RestoreError> {
    let mut copied =
        sqlite::copy(copy, Target::Place(&place), holdings_on, watch).map_err(RestoreError::Copy)?;
    if !copied.observed.are_sound() {
        return Err(RestoreError::Unsound(copied.observed.clone()));
    }
    let options = Options { components: vec![books::COMPONENT], clock, ..Options::default() };
    let store = copied.open(options).map_err(RestoreError::Open)?;
    let promised = response_ttl.max(copied.observed.longest_promise);
    let put = put_on_record(&store, copied.contents.as_of, promised).await;
    store.close().await;
    drop(store);
    let ask_first_until = put.map_err(RestoreError::Store)?;
    let (contents, holdings) = (copied.contents.clone(), copied.observed.clone());
    let replaced = place.put(copied).map_err(RestoreError::Copy)?;
    Ok(Restored { contents, holdings, ask_first_until, replaced })
}

async fn put_on_record(store: &SqliteStore, copy_of: Time, promised: Duration) -> Result<Time, StoreError> {
    let now = store.clock().now();
    let until = now.plus(promised);
    let row = [now, copy_of, until].map(Time::as_micros);
    let written = store
        .transaction(move |tx| tx.execute(include_str!("books/sql/insert_restore.sql"), row).map(drop))
        .await;
    written.map(|()| until).map_err(|error| match error {
        TransactionError::Store(error) => error,
        TransactionError::Refused(error) => StoreError::Unavailable(error.to_string().into()),
    })
}

/// Until when the acquirer is to be asked first: the later of what is stored and what was told.
pub(crate) async fn ask_first_until(
    store: &SqliteStore,
    told: Option<Time>,
) -> Result<Option<Time>, StoreError> {
    let read = store.read(|connection| {
        let sql = include_str!("books/sql/ask_first_until.sql");
        connection.query_row(sql, [], |row| row.get::<_, Option<i64>>(0))
    });
    Ok(read.await?.map(Time::from_micros).max(told))
}

/// Says that charges are slower, and lost ones open for longer, as long as the acquirer is asked first.
pub(crate) fn warn_of_asking(until: Option<Time>, now: Time) {
    if let Some(until) = until.filter(|until| now < *until) {
        tracing::warn!(
            until = %crate::http::wire::rfc3339(until),
            "the database was put back from a copy: until then the acquirer is asked before the first send of every new \
             charge, and where it cannot say, nothing is sent and the caller is told outcome-unknown"
        );
    }
}

/// Says what cannot be cured where there is nobody to ask.
pub(crate) fn warn_of_ledger(until: Option<Time>, now: Time) {
    if until.is_some_and(|until| now < until) {
        tracing::warn!(
            "the database was restored, and the ledger cannot be asked about what it booked after the copy was taken: a \
             repeat of a forgotten key charges once more"
        );
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::Unsound(holdings) => {
                let unbalanced = holdings.currencies.iter().filter(|it| !it.balanced).count();
                write!(
                    f,
                    "the copy's books do not fit together: {unbalanced} currencies are not balanced, {} rows belong to \
                     rows that are not there",
                    holdings.astray
                )
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RestoreError {}
