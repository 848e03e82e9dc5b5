//! The place of a database: its name, held while something else is put there.
//!
//! 1. Whoever holds the place is the only one: a process that wants to open the database waits as for an owner.
//! 2. What stood there is kept under another name, with its log. It may be all that is left of what a copy lacks.
//! 3. At every moment the name leads to the old database with its log, to none that can be opened (it has two names
//!    then), or to the new one. It is never absent, for an absent database is created anew by the next start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::copy::{Copied, CopyError, sync, sync_folder, with_suffix};
use super::lock::Lock;
use super::{OpenError, open};

/// A held place; let go when dropped.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    _lock: Lock,
}

impl Place {
    /// Waits up to `wait` until no process owns the database of this name; `report` hears the owner's pid at once and every
    /// second. There need not be a database.
    ///
    /// # Errors
    /// [`OpenError::Locked`], [`OpenError::Linked`], and what is wrong with the folder.
    pub fn hold(
        path: &Path,
        wait: Duration,
        report: &(dyn Fn(Option<u32>) + Send),
    ) -> Result<Self, OpenError> {
        let path = open::resolved(path);
        let lock = Lock::of_name(&path, wait, report)?;
        Ok(Self { path, _lock: lock })
    }

    /// The name, as it was resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a database is there. An empty file is none.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|found| found.len() > 0)
    }

    /// Puts a copy here, and says under what name the database that was here is kept.
    ///
    /// # Errors
    /// [`CopyError::File`]: the old database is in its place, or is refused by whoever opens it because it has two names;
    /// removing the new name makes it what it was.
    pub fn put<T>(self, copied: Copied<T>) -> Result<Option<PathBuf>, CopyError> {
        sync(copied.path()).map_err(CopyError::File)?;
        let kept = if self.is_taken() { Some(self.set_aside()?) } else { None };
        self.rename(copied.path(), &self.path)?;
        sync_folder(&self.path).map_err(CopyError::File)?;
        Ok(kept)
    }

    /// Gives the database a second name, and takes its log there.
    fn set_aside(&self) -> Result<PathBuf, CopyError> {
        let kept = self.link()?;
        sync_folder(&self.path).map_err(CopyError::File)?;
        self.rename(&with_suffix(&self.path, "-wal"), &with_suffix(&kept, "-wal"))?;
        // The log's index is made anew from the log.
        match fs::remove_file(with_suffix(&self.path, "-shm")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failure(&error)),
            _ => Ok(kept),
        }
    }

    /// The first free of `NAME.replaced-1`, `NAME.replaced-2` and so on.
    fn link(&self) -> Result<PathBuf, CopyError> {
        let mut number = 1_u32;
        loop {
            let kept = with_suffix(&self.path, &format!(".replaced-{number}"));
            match fs::hard_link(&self.path, &kept) {
                Ok(()) => return Ok(kept),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(self.failure(&error)),
            }
        }
    }

    /// Renames a file if it is there.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), CopyError> {
        match fs::rename(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failure(&error)),
            _ => Ok(()),
        }
    }

    fn failure(&self, error: &io::Error) -> CopyError {
        CopyError::File(OpenError::io(&self.path, error))
    }
}
