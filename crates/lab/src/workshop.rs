//! The one folder below which everything lies that a run throws away.
//!
//! A run that is interrupted drops its servers in the middle of what they do; threads of theirs may still be opening
//! files in folders that are already gone. So the person's temporary folder gets one entry per run, which is removed
//! when nothing of the run is left.

use std::fs;

use tempfile::{TempDir, env};

use crate::{Error, servers::throw_away_folder};

/// How often the folder is swept: a file can be made behind the back of the first sweep.
const SWEEPS: usize = 3;

/// Where private servers keep their files from now on. There is one per process; it outlives the runtime.
#[derive(Debug)]
pub struct Workshop {
    folder: TempDir,
}

impl Workshop {
    /// Makes the folder, and makes it this process's temporary folder as far as the lab is concerned.
    ///
    /// # Errors
    ///
    /// Unreachable: there is no place for it. Broken: this process has one already.
    pub fn open() -> Result<Self, Error> {
        let folder = throw_away_folder()?;
        match env::override_temp_dir(folder.path()) {
            Ok(()) => Ok(Self { folder }),
            Err(other) => Err(Error::broken(format!("the lab works in {} already", other.display()))),
        }
    }

    /// Removes the folder and all in it. Call it when nothing runs there any more.
    ///
    /// # Errors
    ///
    /// Unreachable: names the folder that stays.
    pub fn clear(self) -> Result<(), Error> {
        let path = self.folder.keep();
        let mut swept = fs::remove_dir_all(&path);
        for _ in 1..SWEEPS {
            if swept.is_err() {
                swept = fs::remove_dir_all(&path);
            }
        }
        swept.map_err(|error| {
            let path = path.display();
            Error::unreachable((
                format!("{path} cannot be removed: {error}"),
                format!("no se puede borrar {path}: {error}"),
            ))
        })
    }
}
