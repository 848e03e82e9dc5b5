//! Opening a database: settings of the connections, the checks before the first write, and who owns the file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use unavez_core::identity::Realm;
use unavez_core::time::Time;

use super::digest_index::{Clerk, IndexSpec};
use super::migrations::{Component, STORE, bring_up_to_date};
use super::{AppliedMigration, Migrate, Observer, OpenError, records};
use crate::clock::{Boot, Clock, Reading};

/// The first version without the fault that lets a WAL reset lose committed writes.
const LIBRARY_LEAST: (&str, i32) = ("3.51.3", 3_051_003);

/// Bytes a page of a new database has: the block of file systems and devices, so that rewriting a page never touches a
/// neighbour's bytes. Smaller pages would write a quarter less; docs/design/001-group-commit.md has the numbers.
const PAGE_BYTES: u32 = 4096;

/// How long to wait for a lock that a tool beside this process holds, such as the `sqlite3` shell in a transaction.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// Cached pages of the writer, in KiB: the inner pages of every index and what a large batch dirties. More does not
/// help, the system's cache is as near; and in files below a gigabyte the library walks the whole cache at every commit
/// that has split a page of an index.
const WRITER_CACHE_KIB: i64 = 2 * 1024;

/// Cached pages of one reader, in KiB. Its reads come from the mapped file, so it caches little.
const READER_CACHE_KIB: i64 = 4 * 1024;

/// Size to which the WAL's file shrinks when it starts again after a long read had let it grow.
const WAL_BYTES_KEPT: i64 = 64 << 20;

/// How much of the file readers map. The writer maps nothing: an I/O error on a mapped page is a signal that ends the
/// process, where a failed read is an error that it can deal with. Address space, not memory.
const MAPPED_BYTES: i64 = 16 << 30;

/// Where the database lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a file, created if it is not there.
    File(PathBuf),
    /// In memory; forgotten with the store.
    Memory,
}

/// Settings of a store.
pub struct Options {
    /// How long to wait for another process that owns the file. Default: not at all.
    pub lock_wait: Duration,
    /// Hears the owner's pid at once and every second while waiting.
    pub on_lock_wait: Box<dyn Fn(Option<u32>) + Send>,
    /// Further packages with tables in the database.
    pub components: Vec<Component>,
    /// What to do about missing migrations. Default: apply them.
    pub migrate: Migrate,
    /// Names the deployment. `None`: as it is stored; random when the database is created.
    pub realm: Option<Realm>,
    /// Calls that may wait for the writer, and reads that may wait for a reader; above, calls are refused.
    /// Default: 16,384.
    pub queue_max: usize,
    /// Memory for recent records. Default: 64 MiB.
    pub recent_bytes_max: usize,
    /// Entries of a [`DigestIndex`](super::DigestIndex) that gather in memory before they are filed; large trees gather
    /// more. More of them share each page that is written, and take memory (about 100 bytes each) and time at a start.
    /// Default: 65,536.
    pub unfiled_least: usize,
    /// Connections that read beside the writer. Default: 2.
    pub readers: usize,
    /// Largest size of the file; above, writes fail as on a full disk. Default: no limit but the disk's.
    pub file_bytes_max: Option<u64>,
    /// `None`: a [`SystemClock`](crate::clock::SystemClock).
    pub clock: Option<Arc<dyn Clock>>,
    /// Hears about every commit.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lock_wait: Duration::ZERO,
            on_lock_wait: Box::new(|_| {}),
            components: Vec::new(),
            migrate: Migrate::Auto,
            realm: None,
            queue_max: 16_384,
            recent_bytes_max: 64 << 20,
            unfiled_least: 65_536,
            readers: 2,
            file_bytes_max: None,
            clock: None,
            observer: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("lock_wait", &self.lock_wait)
            .field("migrate", &self.migrate)
            .field("realm", &self.realm)
            .field("queue_max", &self.queue_max)
            .field("recent_bytes_max", &self.recent_bytes_max)
            .field("file_bytes_max", &self.file_bytes_max)
            .finish_non_exhaustive()
    }
}

/// A database that this process owns now.
pub(super) struct Owned {
    pub(super) connection: Connection,
    pub(super) realm: Realm,
    pub(super) epoch: i64,
    pub(super) batch: i64,
    pub(super) migrations: Vec<AppliedMigration>,
    pub(super) clerk: Clerk,
}

/// The file that `path` names, so that two names of one file meet at one lock.
pub(super) fn resolved(path: &Path) -> PathBuf {
    if let Ok(resolved) = fs::canonicalize(path) {
        return resolved;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Opens the database for writing, brings its schema up to date and raises the epoch: all earlier writers stop.
pub(super) fn own(location: &Location, options: &Options, clock: &dyn Clock) -> Result<Owned, OpenError> {
    check_library()?;
    let path = match location {
        Location::File(path) => path.as_path(),
        Location::Memory => Path::new(":memory:"),
    };
    let sql_error = |error: rusqlite::Error| OpenError::sql(path, &error);
    let connection = open_writer(location, options.file_bytes_max).map_err(sql_error)?;
    if connection.is_readonly("main").map_err(sql_error)? {
        return Err(OpenError::ReadOnly { path: path.to_owned() });
    }
    connection.execute_batch("begin immediate").map_err(sql_error)?;
    let Prepared { realm, epoch, batch, migrations } = prepare(&connection, path, options, clock)?;
    let file = match location {
        Location::File(path) => Some(path.as_path()),
        Location::Memory => None,
    };
    let clerk =
        Clerk::open(&connection, &indexes(options), file, options.unfiled_least).map_err(sql_error)?;
    connection.execute_batch("commit").map_err(sql_error)?;
    Ok(Owned { connection, realm, epoch, batch, migrations, clerk })
}

/// Every index of the database, the records' first.
///
/// # Panics
/// If two components have guests in the records' index.
fn indexes(options: &Options) -> Vec<IndexSpec> {
    let components = std::iter::once(&STORE).chain(&options.components);
    let mut indexes: Vec<_> = components.flat_map(|component| component.indexes).copied().collect();
    for guests in options.components.iter().filter_map(|component| component.guests) {
        assert!(indexes[0].guests.is_none(), "one component has guests in the records' index");
        indexes[0].guests = Some(guests);
    }
    indexes
}

struct Prepared {
    realm: Realm,
    epoch: i64,
    batch: i64,
    migrations: Vec<AppliedMigration>,
}

/// Everything an opening writes, inside its transaction.
fn prepare(
    connection: &Connection,
    path: &Path,
    options: &Options,
    clock: &dyn Clock,
) -> Result<Prepared, OpenError> {
    let sql_error = |error: rusqlite::Error| OpenError::sql(path, &error);
    let mut components = vec![STORE];
    components.extend_from_slice(&options.components);
    let migrations = bring_up_to_date(connection, path, &components, options.migrate, clock.now())?;
    if stored_state(connection).map_err(sql_error)?.is_none() {
        create_state(connection, options.realm.as_ref(), clock).map_err(sql_error)?;
    }
    let state = stored_state(connection).map_err(sql_error)?.ok_or_else(|| OpenError::Corrupt {
        path: path.to_owned(),
        detail: "unavez_store has no row".to_owned(),
    })?;
    let realm = checked_realm(path, &state.realm, options.realm.as_ref())?;
    resume_clock(connection, &state, clock).map_err(sql_error)?;
    records::read_edges(connection).map_err(sql_error)?;
    let epoch = raise_epoch(connection).map_err(sql_error)?;
    Ok(Prepared { realm, epoch, batch: state.batch, migrations })
}

/// The row of `unavez_store`.
struct StoredState {
    realm: String,
    batch: i64,
    largest_time: Time,
    confirmed: Reading,
}

fn stored_state(connection: &Connection) -> rusqlite::Result<Option<StoredState>> {
    let sql = "select realm, batch, largest_time, confirmed_time, confirmed_wall, boot_id, uptime_us from unavez_store";
    connection
        .query_row(sql, [], |row| {
            let boot = match (row.get::<_, Option<String>>(5)?, row.get::<_, Option<i64>>(6)?) {
                (Some(id), Some(uptime)) => {
                    Some(Boot { id, uptime: Duration::from_micros(uptime.try_into().unwrap_or_default()) })
                }
                _ => None,
            };
            Ok(StoredState {
                realm: row.get(0)?,
                batch: row.get(1)?,
                largest_time: Time::from_micros(row.get(2)?),
                confirmed: Reading {
                    time: Time::from_micros(row.get(3)?),
                    wall: Time::from_micros(row.get(4)?),
                    boot,
                },
            })
        })
        .optional()
}

fn create_state(connection: &Connection, realm: Option<&Realm>, clock: &dyn Clock) -> rusqlite::Result<()> {
    let named = realm.map(Realm::as_str);
    connection.execute(
        "insert into unavez_store (one, realm, epoch, batch, largest_time, confirmed_time, confirmed_wall)
         values (1, coalesce(?1, 'r-' || lower(hex(randomblob(16)))), 0, 0, ?2, ?2, ?2)",
        params![named, clock.now().as_micros()],
    )?;
    confirm_reading(connection, &clock.reading())
}

/// Stores the reading as one at which the wall clock was right.
pub(super) fn confirm_reading(connection: &Connection, reading: &Reading) -> rusqlite::Result<()> {
    let boot = reading.boot.as_ref();
    connection.execute(
        "update unavez_store set confirmed_time = ?1, confirmed_wall = ?2, boot_id = ?3, uptime_us = ?4",
        params![
            reading.time.as_micros(),
            reading.wall.as_micros(),
            boot.map(|boot| &boot.id),
            boot.map(|boot| i64::try_from(boot.uptime.as_micros()).unwrap_or(i64::MAX)),
        ],
    )?;
    Ok(())
}

fn checked_realm(path: &Path, stored: &str, named: Option<&Realm>) -> Result<Realm, OpenError> {
    let path = path.to_owned();
    let stored = Realm::parse(stored)
        .map_err(|error| OpenError::Corrupt { path: path.clone(), detail: format!("stored {error}") })?;
    match named {
        Some(named) if *named != stored => {
            Err(OpenError::RealmMismatch { path, stored, named: named.clone() })
        }
        _ => Ok(stored),
    }
}

/// Goes on by the stored clocks. After a boot the uptime starts anew, so the wall clock is taken as right then.
fn resume_clock(connection: &Connection, state: &StoredState, clock: &dyn Clock) -> rusqlite::Result<()> {
    clock.resume(Some(&state.confirmed), state.largest_time);
    let now = clock.reading();
    if now.uptime_since(&state.confirmed).is_some() {
        return Ok(());
    }
    confirm_reading(connection, &now)
}

fn raise_epoch(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("update unavez_store set epoch = epoch + 1 returning epoch", [], |row| row.get(0))
}

/// What a writer finds when it opens its database again after a failure.
pub(super) enum Reopened {
    /// It is still the owner; `batch` is the last that was committed.
    Owner { connection: Connection, epoch: i64, batch: i64 },
    /// Another process has raised the epoch meanwhile.
    Overtaken,
}

/// Opens the file anew and makes certain what of the last batch is there.
///
/// A COMMIT whose sync failed may lie in the WAL and come to light at the next recovery. The checkpoint moves whatever
/// was recovered into the file and syncs it; the new epoch, committed behind it, overwrites whatever was not.
pub(super) fn reopen(path: &Path, file_bytes_max: Option<u64>, epoch: i64) -> rusqlite::Result<Reopened> {
    let connection = open_writer(&Location::File(path.to_owned()), file_bytes_max)?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    connection.execute_batch("begin immediate")?;
    let raised = connection
        .query_row(
            "update unavez_store set epoch = epoch + 1 where epoch = ?1 returning epoch, batch",
            [epoch],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((epoch, batch)) = raised else { return Ok(Reopened::Overtaken) };
    connection.execute_batch("commit")?;
    Ok(Reopened::Owner { connection, epoch, batch })
}

fn check_library() -> Result<(), OpenError> {
    let (least, least_number) = LIBRARY_LEAST;
    if rusqlite::version_number() >= least_number {
        return Ok(());
    }
    Err(OpenError::LibraryTooOld { found: rusqlite::version(), least })
}

fn open_writer(location: &Location, file_bytes_max: Option<u64>) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match location {
        Location::File(path) => Connection::open_with_flags(path, flags)?,
        Location::Memory => Connection::open_in_memory_with_flags(flags)?,
    };
    connection.busy_timeout(BUSY_WAIT)?;
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(256);
    connection.execute_batch(&format!(
        "pragma page_size = {PAGE_BYTES};
         pragma synchronous = full;
         pragma foreign_keys = on;
         pragma trusted_schema = off;
         pragma temp_store = memory;
         pragma cache_size = -{WRITER_CACHE_KIB};
         pragma journal_size_limit = {WAL_BYTES_KEPT};"
    ))?;
    let journal: String = connection.query_row("pragma journal_mode = wal", [], |row| row.get(0))?;
    if *location != Location::Memory && journal != "wal" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let why = format!("the file system keeps no write-ahead log, only journal mode {journal}");
        return Err(rusqlite::Error::SqliteFailure(code, Some(why)));
    }
    if let Some(bytes) = file_bytes_max {
        let page_bytes: u32 = connection.query_row("pragma page_size", [], |row| row.get(0))?;
        connection
            .execute_batch(&format!("pragma max_page_count = {}", (bytes / u64::from(page_bytes)).max(1)))?;
    }
    Ok(connection)
}

/// A statement keeps its plan whatever is bound to it. Without this the library prepares some anew for every call, to see
/// whether a partial index serves the new value: twenty microseconds, and it never did.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// A connection that only copies the WAL into the file.
pub(super) fn open_checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.execute_batch("pragma synchronous = full; pragma wal_autocheckpoint = 0;")?;
    Ok(connection)
}

/// A connection that can only read.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(&format!(
        "pragma query_only = on;
         pragma trusted_schema = off;
         pragma temp_store = memory;
         pragma cache_size = -{READER_CACHE_KIB};
         pragma mmap_size = {MAPPED_BYTES};"
    ))?;
    Ok(connection)
}
