//! Copies of a database: taken beside the process that owns it, and checked before they have a name.
//!
//! 1. A copy is one snapshot. The owner is not kept waiting; what it commits meanwhile is not in the copy, and its log
//!    grows by it until the copy is taken.
//! 2. A copy gets its name once it is whole, checked and synced. Until then it is `NAME.partial`, which is removed
//!    however the copying ends; one that a killed process left is overwritten by the next.
//! 3. A name that is taken is never overwritten.
//! 4. Checked means: sound in itself (pages, indexes, CHECKs), every table has the rows it has in the snapshot, and what
//!    the caller observes of the one it observes of the other.
//! 5. A copy is one file: it keeps no log beside it until it is opened as a database.
//!
//! What breaks it in deployment: a file system without hard links, on which no copy gets its name, and a disk that is too
//! small for the second file.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use unavez_core::identity::Realm;
use unavez_core::time::Time;

use super::open::open_reader;
use super::{Location, OpenError, Options, Place, SqliteStore};

/// Pages copied between two looks at [`Watch::stop`]: four megabytes, some milliseconds.
const STEP_PAGES: i32 = 1024;

/// Steps of the library's machine between two looks while a copy is checked.
const STEP_OPS: i32 = 100_000;

/// How a copying is followed, and ended early.
pub struct Watch {
    /// Set to true, it ends the copying with [`CopyError::Interrupted`].
    pub stop: Arc<AtomicBool>,
    /// Hears how far it is.
    pub report: Box<dyn Fn(Progress) + Send>,
}

/// How far a copying is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// What the source holds is counted.
    Reading,
    /// So many bytes are written.
    Copying {
        /// Written.
        done_bytes: u64,
        /// In all.
        total_bytes: u64,
    },
    /// The copy is checked against the source.
    Checking,
}

/// What a snapshot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The deployment's name.
    pub realm: Realm,
    /// The largest time that was ever used in it: whatever is newer is not there.
    pub as_of: Time,
    /// Size of the file.
    pub bytes: u64,
    /// Every table and its rows, in the order of names.
    pub rows: Vec<(String, u64)>,
}

impl Contents {
    /// Rows of one table; 0 where there is none of that name.
    #[must_use]
    pub fn rows_of(&self, table: &str) -> u64 {
        self.rows.iter().find(|(name, _)| name == table).map_or(0, |(_, rows)| *rows)
    }
}

/// A checked copy that has no name yet. Dropped without one, it is gone.
#[derive(Debug)]
pub struct Copied<T> {
    partial: Partial,
    /// What it holds.
    pub contents: Contents,
    /// What the caller observed, of snapshot and copy alike.
    pub observed: T,
}

/// Why there is no copy.
#[derive(Debug)]
pub enum CopyError {
    /// The name is taken.
    Exists {
        /// By this file.
        path: PathBuf,
    },
    /// Another process makes a copy of this name.
    Busy {
        /// The unfinished one.
        path: PathBuf,
    },
    /// [`Watch::stop`] was set.
    Interrupted,
    /// The copy is not what the snapshot is.
    Differs {
        /// In what.
        what: String,
    },
    /// A file cannot be read, or cannot be written.
    File(OpenError),
}

/// What a copy is for.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A file of this name, which must be free: [`Copied::keep`].
    File(&'a Path),
    /// The place of a database, taken or not: [`Place::put`].
    Place(&'a Place),
}

/// Copies `source`, for `target`. Blocks for as long as both files take to be read and written.
///
/// # Errors
/// [`CopyError`]; nothing is left of the copy.
pub fn copy<T: PartialEq>(
    source: &Path,
    target: Target<'_>,
    observe: impl Fn(&Connection) -> rusqlite::Result<T>,
    watch: &Watch,
) -> Result<Copied<T>, CopyError> {
    let partial = Partial::create(target)?;
    let source_error = |error| failure(source, &error);
    let from = open_reader(source).and_then(|from| watched(from, watch)).map_err(source_error)?;
    (watch.report)(Progress::Reading);
    // The first read fixes the snapshot for all that follow.
    from.execute_batch("begin").map_err(source_error)?;
    let (contents, observed) = look_at(&from, &observe).map_err(source_error)?;
    transfer(&from, &partial, watch)?;
    drop(from);

    (watch.report)(Progress::Checking);
    let copy_error = |error| failure(&partial.path, &error);
    let copy = open_own(&partial.path).and_then(|copy| watched(copy, watch)).map_err(copy_error)?;
    check_soundness(&copy, &partial.path)?;
    let (copied, observed_again) = look_at(&copy, &observe).map_err(copy_error)?;
    compare(&contents, &copied)?;
    if observed != observed_again {
        return Err(CopyError::Differs { what: "the books".to_owned() });
    }
    drop(copy);
    Ok(Copied { partial, contents, observed })
}

impl<T> Copied<T> {
    /// Gives the copy its name.
    ///
    /// # Errors
    /// [`CopyError::Exists`] where something took the name meanwhile; [`CopyError::File`].
    pub fn keep(self) -> Result<(), CopyError> {
        let Partial { path, target, .. } = &self.partial;
        // Unlike a rename, a link never takes the place of another file.
        fs::hard_link(path, target).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CopyError::Exists { path: target.clone() },
            _ => CopyError::File(OpenError::io(target, &error)),
        })?;
        let target = target.clone();
        drop(self);
        sync_folder(&target).map_err(CopyError::File)
    }

    /// Opens the copy as a database that has no place yet, to be completed before it gets one. From here on nothing but
    /// the name's lock keeps another process away: for whoever holds a [`Place`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, options: Options) -> Result<SqliteStore, OpenError> {
        self.partial.lock = None;
        SqliteStore::open(Location::File(self.partial.path.clone()), options)
    }

    /// Where the copy is while it has no name.
    pub(super) fn path(&self) -> &Path {
        &self.partial.path
    }
}

/// The file a copy is until it has its name. Removed when dropped.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    target: PathBuf,
    /// Keeps other copyings to this name away.
    lock: Option<File>,
}

impl Partial {
    fn create(target: Target<'_>) -> Result<Self, CopyError> {
        let target = match target {
            // Found out at the end as well, but that can be hours later.
            Target::File(path) if path.symlink_metadata().is_ok() => {
                return Err(CopyError::Exists { path: path.to_owned() });
            }
            Target::File(path) => path,
            Target::Place(place) => place.path(),
        };
        let path = with_suffix(target, ".partial");
        let io_error = |error: io::Error| CopyError::File(OpenError::io(&path, &error));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // It holds keys and answers.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(io_error)?;
        match file.try_lock() {
            Ok(()) => file.set_len(0).map_err(io_error)?,
            Err(TryLockError::WouldBlock) => return Err(CopyError::Busy { path }),
            Err(TryLockError::Error(error)) => return Err(io_error(error)),
        }
        Ok(Self { path, target: target.to_owned(), lock: Some(file) })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for suffix in ["", "-journal", "-wal", "-shm", ".lock"] {
            // Most of them are not there.
            let _ = fs::remove_file(with_suffix(&self.path, suffix));
        }
    }
}

/// The copying itself, of the snapshot that `from` reads.
fn transfer(from: &Connection, partial: &Partial, watch: &Watch) -> Result<(), CopyError> {
    let sql_error = |error| failure(&partial.path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut to = Connection::open_with_flags(&partial.path, flags).map_err(sql_error)?;
    // Whatever goes wrong, the file is thrown away: there is nothing to roll back to.
    to.execute_batch("pragma locking_mode = exclusive; pragma journal_mode = off; pragma synchronous = off;")
        .map_err(sql_error)?;
    let page_bytes: u32 = from.query_row("pragma page_size", [], |row| row.get(0)).map_err(sql_error)?;
    let bytes = |pages: i32| u64::from(pages.unsigned_abs()) * u64::from(page_bytes);
    let backup = Backup::new(from, &mut to).map_err(sql_error)?;
    loop {
        if watch.stop.load(Ordering::Relaxed) {
            return Err(CopyError::Interrupted);
        }
        let step = backup.step(STEP_PAGES).map_err(sql_error)?;
        let at = backup.progress();
        (watch.report)(Progress::Copying {
            done_bytes: bytes(at.pagecount - at.remaining),
            total_bytes: bytes(at.pagecount),
        });
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            // Nobody else has this file, and a snapshot's reader waits for no lock.
            _ => return Err(CopyError::Busy { path: partial.path.clone() }),
        }
    }
    drop(backup);
    // The source's mode came with its first page.
    to.execute_batch("pragma journal_mode = delete").map_err(sql_error)?;
    to.close().map_err(|(_, error)| sql_error(error))?;
    sync(&partial.path).map_err(CopyError::File)
}

/// What a connection sees: the store's own view, and the caller's.
fn look_at<T>(
    connection: &Connection,
    observe: impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<(Contents, T)> {
    let (realm, as_of): (String, i64) =
        connection.query_row(include_str!("sql/identity.sql"), [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let realm = Realm::parse(&realm)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(format!("stored {error}").into()))?;
    let contents = Contents {
        realm,
        as_of: Time::from_micros(as_of),
        bytes: connection
            .query_row(include_str!("sql/size.sql"), [], |row| row.get(0))
            .map(i64::unsigned_abs)?,
        rows: count_rows(connection)?,
    };
    Ok((contents, observe(connection)?))
}

fn count_rows(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut list = connection.prepare(include_str!("sql/tables.sql"))?;
    let names = list.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    names
        .into_iter()
        .map(|name| {
            let count = format!("select count(*) from \"{}\"", name.replace('"', "\"\""));
            let rows: i64 = connection.query_row(&count, [], |row| row.get(0))?;
            Ok((name, rows.unsigned_abs()))
        })
        .collect()
}

fn check_soundness(connection: &Connection, path: &Path) -> Result<(), CopyError> {
    let damage: String = connection
        .query_row("pragma integrity_check(1)", [], |row| row.get(0))
        .map_err(|error| failure(path, &error))?;
    if damage == "ok" {
        return Ok(());
    }
    Err(CopyError::File(OpenError::Corrupt { path: path.to_owned(), detail: damage }))
}

fn compare(snapshot: &Contents, copy: &Contents) -> Result<(), CopyError> {
    if snapshot == copy {
        return Ok(());
    }
    let differs = snapshot.rows.iter().find(|(table, rows)| copy.rows_of(table) != *rows);
    let what = match differs {
        Some((table, rows)) => {
            format!("{table}, which has {rows} rows and {} in the copy", copy.rows_of(table))
        }
        None => "realm, time, size or tables".to_owned(),
    };
    Err(CopyError::Differs { what })
}

/// A connection to a file that nobody else has. It changes nothing and could: on one that cannot, the library does not
/// load the tables' CHECKs, and finds all of them fulfilled.
fn open_own(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection
        .execute_batch("pragma query_only = on; pragma trusted_schema = off; pragma temp_store = memory;")?;
    Ok(connection)
}

/// A connection whose statements end when they are told to.
fn watched(mut connection: Connection, watch: &Watch) -> rusqlite::Result<Connection> {
    let stop = Arc::clone(&watch.stop);
    connection.progress_handler(STEP_OPS, Some(move || stop.load(Ordering::Relaxed)))?;
    Ok(connection)
}

fn failure(path: &Path, error: &rusqlite::Error) -> CopyError {
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => CopyError::Interrupted,
        _ => CopyError::File(OpenError::sql(path, error)),
    }
}

/// The file's name with something behind it.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Waits until the file's bytes are on the disk.
pub(super) fn sync(path: &Path) -> Result<(), OpenError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| OpenError::io(path, &error))
}

/// Waits until the names in the file's folder are on the disk.
pub(super) fn sync_folder(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(folder)
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("stop", &self.stop).finish_non_exhaustive()
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { path } => write!(f, "{} exists and is not overwritten", path.display()),
            Self::Busy { path } => write!(f, "another process writes {}", path.display()),
            Self::Interrupted => f.write_str("interrupted; nothing is left of the copy"),
            Self::Differs { what } => write!(f, "the copy differs from its source in {what}"),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CopyError {}
