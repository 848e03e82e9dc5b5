//! One owning process per database file (P8, one-commit mode): by a lock on the file `PATH.lock` beside it, and one on the
//! database itself.
//!
//! The locks are the kernel's, so they end with their process however that ends. `PATH.lock` stays, with the pid of the
//! latest holder in it. The second lock is on the file, not on its name: it holds where somebody deletes `PATH.lock`, or
//! reaches the database by another path. A file with two names is refused outright, because SQLite keeps the log of recent
//! commits beside the name: two names would be two databases over one file.
//!
//! Reading the database takes no lock. File systems that do not keep locks over the network are caught by the writer
//! epoch, at the first commit of the process that lost.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::OpenError;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How often the wait is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Holds the locks until dropped. Dropped after the last connection to the database: closing any descriptor of a file
/// ends the record locks that this process, and so SQLite, has on it.
#[derive(Debug)]
pub(super) struct Lock {
    _beside: File,
    _database: Option<File>,
}

impl Lock {
    /// Waits up to `wait` for the locks of `database`, which is created if it is not there; `report` hears the holder's
    /// pid at once and every second.
    pub(super) fn acquire(
        database: &Path,
        wait: Duration,
        report: &(dyn Fn(Option<u32>) + Send),
    ) -> Result<Self, OpenError> {
        let mut patience = Patience { database, started: Instant::now(), wait, reported: None, report };
        let beside = lock_beside(&mut patience)?;
        create_privately(database).map_err(|error| OpenError::io(database, &error))?;
        let file = lock_file(&mut patience)?;
        Ok(Self { _beside: beside, _database: Some(file) })
    }

    /// The same for a database that may be absent and is not created: what holds then is the lock beside it.
    pub(super) fn of_name(
        database: &Path,
        wait: Duration,
        report: &(dyn Fn(Option<u32>) + Send),
    ) -> Result<Self, OpenError> {
        let mut patience = Patience { database, started: Instant::now(), wait, reported: None, report };
        let beside = lock_beside(&mut patience)?;
        let file = if database.exists() { Some(lock_file(&mut patience)?) } else { None };
        Ok(Self { _beside: beside, _database: file })
    }
}

/// The lock on `PATH.lock`, with this process's pid in it.
fn lock_beside(patience: &mut Patience<'_>) -> Result<File, OpenError> {
    let path = lock_path(patience.database);
    let io_error = |error: io::Error| OpenError::io(&path, &error);
    let mut beside = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io_error)?;
    while !is_locked(&beside).map_err(io_error)? {
        patience.spend(holder(&mut beside))?;
    }
    write_holder(&mut beside).map_err(io_error)?;
    Ok(beside)
}

/// The lock on the database itself.
fn lock_file(patience: &mut Patience<'_>) -> Result<File, OpenError> {
    let database = patience.database;
    let io_error = |error: io::Error| OpenError::io(database, &error);
    refuse_second_name(database)?;
    let file = File::open(database).map_err(io_error)?;
    while !is_locked(&file).map_err(io_error)? {
        patience.spend(None)?;
    }
    Ok(file)
}

fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// How long is still waited for a lock.
struct Patience<'a> {
    database: &'a Path,
    started: Instant,
    wait: Duration,
    reported: Option<Instant>,
    report: &'a (dyn Fn(Option<u32>) + Send),
}

impl Patience<'_> {
    /// Waits a little, or gives up.
    fn spend(&mut self, holder: Option<u32>) -> Result<(), OpenError> {
        let waited = self.started.elapsed();
        if waited >= self.wait {
            return Err(OpenError::Locked { path: self.database.to_owned(), pid: holder, waited: self.wait });
        }
        if self.reported.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
            (self.report)(holder);
            self.reported = Some(Instant::now());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "another process holds the lock: nothing tells when it lets go"
        )]
        thread::sleep(POLL_INTERVAL.min(self.wait - waited));
        Ok(())
    }
}

/// Creates a missing file for its owner alone: it holds keys and answers. SQLite gives its companions the same rights.
/// Whoever wants others to read it can say so; an existing file keeps what it has.
fn create_privately(database: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(database) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn refuse_second_name(database: &Path) -> Result<(), OpenError> {
    let metadata = fs::metadata(database).map_err(|error| OpenError::io(database, &error))?;
    match std::os::unix::fs::MetadataExt::nlink(&metadata) {
        names @ 2.. if metadata.is_file() => Err(OpenError::Linked { path: database.to_owned(), names }),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn refuse_second_name(_: &Path) -> Result<(), OpenError> {
    Ok(())
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = OsString::from(database);
    path.push(".lock");
    path.into()
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The pid in the file; none where its holder has not written it yet.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_second_holder_waits_and_learns_the_pid() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("a.db");
        let first = Lock::acquire(&database, Duration::ZERO, &|_| {}).unwrap();

        let heard = Mutex::new(Vec::new());
        let wait = Duration::from_millis(1);
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                Lock::acquire(&database, wait, &|pid| heard.lock().unwrap().push(pid))
                    .unwrap_err()
                    .to_string()
            });
            let pid = std::process::id();
            let refusal = second.join().unwrap();
            assert!(refusal.ends_with(&format!("is owned by process {pid}, waited 1ms")), "{refusal}");
        });
        assert_eq!(*heard.lock().unwrap(), [Some(std::process::id())]);

        drop(first);
        Lock::acquire(&database, Duration::ZERO, &|_| {}).unwrap();
    }
}
