//! Numbered changes of the schema, applied in order, each once.
//!
//! 1. Every component (the store, a service on top of it) numbers its own migrations from 1 without gaps.
//! 2. An applied migration is never edited: its checksum is stored, and another text under its number is refused.
//! 3. A database with a migration that this program does not know is refused, not guessed at.
//! 4. All missing migrations are applied in one transaction, together with the table that lists them.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use unavez_core::time::Time;

use super::digest_index::{Guests, IndexSpec};
use super::{AppliedMigration, Migrate, Migration, OpenError, records};
use crate::migrations::checksum;

/// A package that keeps tables in the database.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Its name in the table of migrations.
    pub name: &'static str,
    /// In the order of their numbers.
    pub migrations: &'static [Migration],
    /// Indexes over digests of its tables; see [`DigestIndex`](super::DigestIndex).
    pub indexes: &'static [IndexSpec],
    /// Rows of its tables that are found through the records' index; see [`SqliteStore::index_of_records`].
    ///
    /// [`SqliteStore::index_of_records`]: super::SqliteStore::index_of_records
    pub guests: Option<Guests>,
}

/// The store's own tables.
pub(super) const STORE: Component = Component {
    name: "store",
    migrations: &[Migration {
        number: 1,
        name: "records",
        sql: include_str!("schema/migrations/0001_store.sql"),
    }],
    indexes: &[records::BY_ID],
    guests: None,
};

const TABLE: &str = include_str!("schema/migrations_table.sql");

/// Brings the database up to date inside the caller's transaction and lists what it holds then.
pub(super) fn bring_up_to_date(
    connection: &Connection,
    path: &Path,
    components: &[Component],
    migrate: Migrate,
    now: Time,
) -> Result<Vec<AppliedMigration>, OpenError> {
    let sql_error = |error: rusqlite::Error| OpenError::sql(path, &error);
    if migrate == Migrate::Auto {
        connection.execute_batch(TABLE).map_err(sql_error)?;
    }
    let mut report = Vec::new();
    for component in components {
        let applied = applied_of(connection, component.name).map_err(sql_error)?;
        check_known(path, component, &applied)?;
        let missing = &component.migrations[applied.len()..];
        if migrate == Migrate::Check && !missing.is_empty() {
            return Err(OpenError::Outdated {
                path: path.to_owned(),
                component: component.name.to_owned(),
                found: last_number(&applied),
                known: component.migrations.last().map_or(0, |migration| migration.number),
            });
        }
        report.extend(applied.into_iter().map(|row| row.migration));
        for migration in missing {
            report.push(apply(connection, component.name, migration, now).map_err(sql_error)?);
        }
    }
    Ok(report)
}

struct AppliedRow {
    migration: AppliedMigration,
    checksum: String,
}

fn applied_of(connection: &Connection, component: &str) -> rusqlite::Result<Vec<AppliedRow>> {
    let exists = "select 1 from sqlite_schema where type = 'table' and name = 'unavez_migrations'";
    if connection.query_row(exists, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Vec::new());
    }
    let mut rows = connection.prepare(
        "select number, name, applied_at, checksum from unavez_migrations where component = ?1 order by number",
    )?;
    rows.query_map([component], |row| {
        Ok(AppliedRow {
            migration: AppliedMigration {
                component: component.to_owned(),
                number: row.get(0)?,
                name: row.get(1)?,
                applied_at: Time::from_micros(row.get(2)?),
                is_new: false,
            },
            checksum: row.get(3)?,
        })
    })?
    .collect()
}

fn check_known(path: &Path, component: &Component, applied: &[AppliedRow]) -> Result<(), OpenError> {
    let path = path.to_owned();
    if applied.len() > component.migrations.len() {
        return Err(OpenError::Newer {
            path,
            component: component.name.to_owned(),
            found: last_number(applied),
            known: component.migrations.last().map_or(0, |migration| migration.number),
        });
    }
    for (row, known) in applied.iter().zip(component.migrations) {
        if row.migration.number != known.number || row.checksum != checksum(known.sql) {
            let (name, number) = (component.name, row.migration.number);
            let detail =
                format!("migration {number} of {name} was applied with another text than this program's");
            return Err(OpenError::Corrupt { path, detail });
        }
    }
    Ok(())
}

fn last_number(applied: &[AppliedRow]) -> u32 {
    applied.last().map_or(0, |row| row.migration.number)
}

fn apply(
    connection: &Connection,
    component: &str,
    migration: &Migration,
    now: Time,
) -> rusqlite::Result<AppliedMigration> {
    connection.execute_batch(migration.sql)?;
    connection.execute(
        "insert into unavez_migrations (component, number, name, checksum, applied_at) values (?1, ?2, ?3, ?4, ?5)",
        params![component, migration.number, migration.name, checksum(migration.sql), now.as_micros()],
    )?;
    Ok(AppliedMigration {
        component: component.to_owned(),
        number: migration.number,
        name: migration.name.to_owned(),
        applied_at: now,
        is_new: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every object of a schema with its text.
    fn objects(connection: &Connection) -> Vec<(String, String)> {
        connection
            .prepare("select name, coalesce(sql, '') from sqlite_schema order by name")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    #[test]
    fn the_sum_of_the_migrations_is_the_schema() {
        let migrated = Connection::open_in_memory().unwrap();
        let now = Time::from_micros(1);
        bring_up_to_date(&migrated, Path::new("m"), &[STORE], Migrate::Auto, now).unwrap();
        let whole = Connection::open_in_memory().unwrap();
        whole.execute_batch(include_str!("schema/schema.sql")).unwrap();
        assert_eq!(objects(&migrated), objects(&whole));
    }

    const ONE: Migration = Migration { number: 1, name: "one", sql: "create table a (x integer) strict" };
    const TWO: Migration = Migration { number: 2, name: "two", sql: "alter table a add column y integer" };
    const EDITED: Migration = Migration { sql: "create table a (z integer) strict", ..ONE };

    fn migrate(connection: &Connection, migrations: &'static [Migration], how: Migrate) -> String {
        let component = Component { name: "shop", migrations, indexes: &[], guests: None };
        match bring_up_to_date(connection, Path::new("m.db"), &[component], how, Time::from_micros(7)) {
            Ok(report) => report
                .iter()
                .map(|it| format!("{}{}", it.number, if it.is_new { "+ " } else { " " }))
                .collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn migrations_are_applied_once_and_never_guessed() {
        let database = Connection::open_in_memory().unwrap();
        let outdated = "database m.db is older than this program: migration 0 of shop, needed 1";
        assert_eq!(migrate(&database, &[ONE], Migrate::Check), outdated);
        assert_eq!(migrate(&database, &[ONE], Migrate::Auto), "1+ ");
        assert_eq!(migrate(&database, &[ONE], Migrate::Check), "1 ");
        assert_eq!(migrate(&database, &[ONE, TWO], Migrate::Auto), "1 2+ ");
        let newer = "database m.db is newer than this program: migration 2 of shop, known up to 1";
        assert_eq!(migrate(&database, &[ONE], Migrate::Auto), newer);
        let edited =
            "database m.db is corrupt: migration 1 of shop was applied with another text than this program's";
        assert_eq!(migrate(&database, &[EDITED, TWO], Migrate::Auto), edited);
    }
}
