//! Numbered changes of the schema, applied in order, each once.
//!
//! 1. Every component numbers its own migrations from 1 without gaps; an applied one is never edited.
//! 2. A database with a migration that this program does not know is refused, not guessed at.
//! 3. All missing ones are applied in one transaction, behind the lock of a row: processes that start together migrate one
//!    after the other, also through a pooler.

use tokio_postgres::types::Type;
use unavez_core::time::Time;

use super::connection::Session;
use super::error::Failure;
use super::{AppliedMigration, Migrate, Migration, OpenError, Param};
use crate::migrations::checksum;

/// A package that keeps tables in the database.
#[derive(Clone, Copy, Debug)]
pub struct Component {
    /// Its name in the table of migrations.
    pub name: &'static str,
    /// In the order of their numbers.
    pub migrations: &'static [Migration],
}

/// The store's own tables.
pub(super) const STORE: Component = Component {
    name: "store",
    migrations: &[Migration {
        number: 1,
        name: "records",
        sql: include_str!("schema/migrations/0001_store.sql"),
    }],
};

const TABLE: &str = include_str!("schema/migrations_table.sql");

/// How often the table of migrations is made while other processes make it too.
const CREATIONS_MAX: u32 = 20;

/// Brings the database up to date and lists what it holds then.
pub(super) async fn bring_up_to_date(
    session: &Session,
    components: &[Component],
    migrate: Migrate,
    now: Time,
) -> Result<Vec<AppliedMigration>, OpenError> {
    if migrate == Migrate::Check {
        return checked(session, components).await;
    }
    create_table(session).await?;
    execute(session, "begin").await?;
    match apply_missing(session, components, now).await {
        Ok(report) => {
            execute(session, "commit").await?;
            Ok(report)
        }
        Err(error) => {
            // The connection ends with the error if this does not work either, and the transaction with it.
            execute(session, "rollback").await.ok();
            Err(error)
        }
    }
}

/// `create table if not exists` fails where two processes find that it does not.
async fn create_table(session: &Session) -> Result<(), OpenError> {
    let mut creations = 1;
    loop {
        match session.execute(TABLE).await {
            Err(Failure::Refused(refusal)) if refusal.is_race_of_creations() && creations < CREATIONS_MAX => {
                creations += 1;
            }
            ended => return ended.map_err(failed),
        }
    }
}

async fn checked(session: &Session, components: &[Component]) -> Result<Vec<AppliedMigration>, OpenError> {
    let mut report = Vec::new();
    for component in components {
        let applied = applied_of(session, component.name).await?;
        check_known(component, &applied)?;
        if applied.len() < component.migrations.len() {
            return Err(OpenError::Outdated {
                component: component.name.to_owned(),
                found: last_number(&applied),
                known: last_known(component),
            });
        }
        report.extend(applied.into_iter().map(|row| row.migration));
    }
    Ok(report)
}

async fn apply_missing(
    session: &Session,
    components: &[Component],
    now: Time,
) -> Result<Vec<AppliedMigration>, OpenError> {
    execute(session, "select one from unavez_migrations_lock where one = 1 for update").await?;
    let mut report = Vec::new();
    for component in components {
        let applied = applied_of(session, component.name).await?;
        check_known(component, &applied)?;
        let missing = &component.migrations[applied.len()..];
        report.extend(applied.into_iter().map(|row| row.migration));
        for migration in missing {
            report.push(apply(session, component.name, migration, now).await?);
        }
    }
    Ok(report)
}

struct AppliedRow {
    migration: AppliedMigration,
    checksum: String,
}

async fn applied_of(session: &Session, component: &str) -> Result<Vec<AppliedRow>, OpenError> {
    if session.read("select to_regclass('unavez_migrations') is null", &[]).await.map_err(failed)?[0].get(0) {
        return Ok(Vec::new());
    }
    let sql = "select number, name, applied_at, checksum from unavez_migrations where component = $1 order by number";
    let rows = session.read(sql, &[(&component, Type::TEXT)]).await.map_err(failed)?;
    let read = |row: &tokio_postgres::Row| {
        Ok(AppliedRow {
            migration: AppliedMigration {
                component: component.to_owned(),
                number: row.try_get::<_, i32>(0)?.unsigned_abs(),
                name: row.try_get(1)?,
                applied_at: Time::from_micros(row.try_get(2)?),
                is_new: false,
            },
            checksum: row.try_get(3)?,
        })
    };
    rows.iter().map(read).collect::<Result<_, tokio_postgres::Error>>().map_err(OpenError::from)
}

fn check_known(component: &Component, applied: &[AppliedRow]) -> Result<(), OpenError> {
    if applied.len() > component.migrations.len() {
        return Err(OpenError::Newer {
            component: component.name.to_owned(),
            found: last_number(applied),
            known: last_known(component),
        });
    }
    for (row, known) in applied.iter().zip(component.migrations) {
        if row.migration.number != known.number || row.checksum != checksum(known.sql) {
            let (name, number) = (component.name, row.migration.number);
            return Err(OpenError::Corrupt(format!(
                "migration {number} of {name} was applied with another text than this program's"
            )));
        }
    }
    Ok(())
}

fn last_number(applied: &[AppliedRow]) -> u32 {
    applied.last().map_or(0, |row| row.migration.number)
}

fn last_known(component: &Component) -> u32 {
    component.migrations.last().map_or(0, |migration| migration.number)
}

async fn apply(
    session: &Session,
    component: &str,
    migration: &Migration,
    now: Time,
) -> Result<AppliedMigration, OpenError> {
    execute(session, migration.sql).await?;
    let number = i32::try_from(migration.number).expect("migrations are numbered by hand");
    let (checksum, applied_at) = (checksum(migration.sql), now.as_micros());
    let sql = "insert into unavez_migrations (component, number, name, checksum, applied_at) values ($1, $2, $3, $4, $5)";
    let parameters: &[Param<'_>] = &[
        (&component, Type::TEXT),
        (&number, Type::INT4),
        (&migration.name, Type::TEXT),
        (&checksum, Type::TEXT),
        (&applied_at, Type::INT8),
    ];
    session.write(sql, parameters).await.map_err(failed)?;
    Ok(AppliedMigration {
        component: component.to_owned(),
        number: migration.number,
        name: migration.name.to_owned(),
        applied_at: now,
        is_new: true,
    })
}

async fn execute(session: &Session, sql: &str) -> Result<(), OpenError> {
    session.execute(sql).await.map_err(failed)
}

pub(super) fn failed(failure: Failure) -> OpenError {
    match failure {
        Failure::Refused(refusal) => OpenError::Refused(refusal.to_string()),
        Failure::Unreached(why) | Failure::CutOff(why) => OpenError::Connect(why.to_string()),
    }
}
