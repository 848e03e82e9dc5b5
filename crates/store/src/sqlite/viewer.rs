//! Looking into a database file without owning it: beside the process that does, or when none runs.

use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use unavez_core::identity::{Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::Record;
use unavez_core::time::Time;

use super::digest_index::{DigestIndex, FindRows as _};
use super::error::unavailable;
use super::migrations::{Component, STORE, bring_up_to_date};
use super::open::open_reader;
use super::{AppliedMigration, Migrate, OpenError, records};
use crate::{Cursor, Filter, StoreError};

/// A read-only view of a database. Takes no lock that keeps the owner waiting and changes nothing. Calls block.
pub struct Viewer {
    path: PathBuf,
    connection: Connection,
    realm: Realm,
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Viewer {
    /// Opens a database that exists.
    ///
    /// # Errors
    /// [`OpenError::Io`] if there is none, and what is wrong with it otherwise.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let sql_error = |error: rusqlite::Error| OpenError::sql(path, &error);
        let connection = open_reader(path).map_err(sql_error)?;
        let realm: String = connection
            .query_row("select realm from unavez_store", [], |row| row.get(0))
            .map_err(sql_error)?;
        let realm = Realm::parse(&realm).map_err(|error| OpenError::Corrupt {
            path: path.to_owned(),
            detail: format!("stored {error}"),
        })?;
        Ok(Self { path: path.to_owned(), connection, realm })
    }

    /// The deployment's name.
    pub fn realm(&self) -> &Realm {
        &self.realm
    }

    /// The migrations that were applied, if none of this program's is missing. Reads only, and needs no lock.
    ///
    /// # Errors
    /// [`OpenError::Outdated`], [`OpenError::Newer`], or [`OpenError::Corrupt`] for a migration with another text.
    pub fn migrations(&self, components: &[Component]) -> Result<Vec<AppliedMigration>, OpenError> {
        let all: Vec<Component> = [STORE].into_iter().chain(components.iter().copied()).collect();
        // Nothing is applied, so no time is needed.
        bring_up_to_date(&self.connection, &self.path, &all, Migrate::Check, Time::MIN)
    }

    /// One page of records, newest first, and where the next one starts. Expired ones are among them.
    ///
    /// # Errors
    /// The file cannot be read, or was written by a version with other columns.
    pub fn list(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Record>, Option<Cursor>), StoreError> {
        records::list(&self.connection, filter, after, limit).map_err(unavailable)
    }

    /// A tenant's record of this key, expired or not.
    ///
    /// # Errors
    /// As [`Viewer::list`].
    pub fn find(&self, tenant: &Tenant, key: &Key) -> Result<Option<Record>, StoreError> {
        let record = self.record(RecordId::of(&self.realm, tenant, key))?;
        Ok(record.filter(|record| record.tenant == *tenant && record.key == *key))
    }

    /// The record with this id, expired or not. Whose it is has to be compared.
    ///
    /// # Errors
    /// As [`Viewer::list`].
    pub fn record(&self, id: RecordId) -> Result<Option<Record>, StoreError> {
        let find = || {
            let positions =
                self.connection.find_rows(&DigestIndex::beside(&records::BY_ID), id.as_bytes())?;
            records::find(&self.connection, id, &positions)
        };
        find().map_err(unavailable)
    }

    /// Asks about one state of the database: whatever `question` reads, on the connection or through this view, is as it
    /// was at its first read. The owner's checkpoints wait for it, so it should be short.
    ///
    /// # Errors
    /// As [`Viewer::list`], or the question's own.
    pub fn read<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, ReadError>,
    ) -> Result<T, StoreError> {
        let snapshot = self.connection.unchecked_transaction().map_err(unavailable)?;
        // Nothing was written, so its end by dropping is as good as any.
        question(&snapshot).map_err(|ReadError(error)| error)
    }
}

/// What kept a question of [`Viewer::read`] from its answer. `?` makes it of errors of the library and of the view.
#[derive(Debug)]
pub struct ReadError(StoreError);

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self(unavailable(error))
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self(error)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Location, Options, SqliteStore};
    use super::*;

    #[test]
    fn looks_beside_the_owner_and_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unavez.db");
        let store = SqliteStore::open(Location::File(path.clone()), Options::default()).unwrap();
        let beside = Viewer::open(&path).unwrap();
        assert_eq!(beside.realm(), store.realm());
        assert!(beside.list(&Filter::default(), None, 10).unwrap().0.is_empty());
        let key = Key::parse_path("k").unwrap();
        assert_eq!(beside.find(&Tenant::single(), &key).unwrap(), None);
        drop((beside, store));
        assert!(Viewer::open(&path).is_ok());
    }

    #[test]
    fn what_is_no_database_of_ours_is_refused_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing.db");
        assert!(matches!(Viewer::open(&path), Err(OpenError::Io { .. })));
        assert!(!path.exists());
        std::fs::write(
            &path,
            "not a database, but long enough to look like the head of one, which takes 100 bytes of text",
        )
        .unwrap();
        assert!(matches!(Viewer::open(&path), Err(OpenError::NotADatabase { .. })));
    }
}
