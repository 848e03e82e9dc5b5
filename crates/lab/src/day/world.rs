//! One store that lives through the day.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use tempfile::TempDir;
use tokio::task::JoinSet;
use unavez_core::record::Finish;
use unavez_store::{
    Store, StoreError,
    clock::{Clock, ManualClock},
    sqlite::{Abort, Claimed, Location, OneCommit, Options, SqliteStore, WriteTx},
};

use super::{World, charge::Charge, rhythm::Steps};
use crate::{Error, progress::Progress, servers::throw_away_folder};

/// Operations under way at once. More of them make larger commits, up to where memory is what costs.
const IN_FLIGHT: u32 = 1024;

/// Records deleted by one call, as by the service's night shift.
const PURGE_BATCH: usize = 500;

/// Longer than any deployment lives.
const FOR_EVER: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// How long a store remembers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Memory {
    Until(Duration),
    ForEver,
}

impl Memory {
    pub(super) fn response_ttl(self) -> Duration {
        match self {
            Self::Until(ttl) => ttl,
            Self::ForEver => FOR_EVER,
        }
    }
}

/// A store on a file of its own, and its clock.
pub(super) struct Day {
    store: SqliteStore,
    clock: ManualClock,
    memory: Memory,
    path: PathBuf,
    /// Thrown away when the day is over.
    _folder: TempDir,
}

impl Day {
    pub(super) async fn begin(memory: Memory) -> Result<Self, Error> {
        let folder = throw_away_folder()?;
        let path = folder.path().join("day.db");
        let clock = ManualClock::new();
        let options =
            Options { clock: Some(Arc::new(clock.clone()) as Arc<dyn Clock>), ..Options::default() };
        let location = Location::File(path.clone());
        let store = tokio::task::spawn_blocking(move || SqliteStore::open(location, options))
            .await
            .map_err(|error| Error::broken(format!("opening the day's store: {error}")))?
            .map_err(|error| Error::broken(format!("the day's store: {error}")))?;
        Ok(Self { store, clock, memory, path, _folder: folder })
    }

    /// Lives through the hours, and says what stood in the store at the end of each.
    pub(super) async fn live(
        self,
        hours: &[u32],
        steps: Steps,
        progress: &dyn Progress,
    ) -> Result<World, Error> {
        let mut world =
            World { rows_by_hour: Vec::new(), bytes_by_hour: Vec::new(), purged: 0, file_bytes: 0 };
        let mut done = 0;
        for &operations in hours {
            for count in steps.spread(operations) {
                self.charge(done, count).await?;
                done += u64::from(count);
                progress.steps(u64::from(count));
                self.clock.advance(steps.length());
                world.purged += self.purge().await.map_err(|error| broken(&error))?;
            }
            let (rows, bytes) = self.measure().await.map_err(|error| broken(&error))?;
            world.rows_by_hour.push(rows);
            world.bytes_by_hour.push(bytes);
        }
        self.close(world).await
    }

    /// A step's charges, from this number on. All of them are done when it returns.
    async fn charge(&self, first: u64, count: u32) -> Result<(), Error> {
        let mut callers = JoinSet::<Result<(), Error>>::new();
        for caller in 0..count.min(IN_FLIGHT) {
            let (store, memory) = (self.store.clone(), self.memory);
            callers.spawn(async move {
                for number in (caller..count).step_by(IN_FLIGHT as usize) {
                    charge(&store, first + u64::from(number), memory).await?;
                }
                Ok(())
            });
        }
        while let Some(done) = callers.join_next().await {
            done.map_err(|error| Error::broken(format!("a charge of the day died: {error}")))??;
        }
        Ok(())
    }

    /// Deletes all that has expired.
    async fn purge(&self) -> Result<u64, StoreError> {
        let mut purged = 0;
        loop {
            let deleted = self.store.purge(PURGE_BATCH).await?.deleted;
            purged += deleted;
            if deleted < PURGE_BATCH as u64 {
                return Ok(purged);
            }
        }
    }

    /// Rows of the table, and bytes of the database: what its file holds as soon as the log is emptied into it.
    async fn measure(&self) -> Result<(u64, u64), StoreError> {
        self.store
            .read(|db| {
                let number = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
                let rows = number("select count(*) from idempotency_records")?;
                Ok((rows, number("pragma page_count")? * number("pragma page_size")?))
            })
            .await
    }

    /// Empties the log into the file and looks at the file itself, which must be what was measured last.
    async fn close(self, world: World) -> Result<World, Error> {
        self.store.close().await;
        let file_bytes = fs::metadata(&self.path)?.len();
        let last = world.bytes_by_hour.last().copied();
        if last.is_some_and(|last| last > file_bytes) {
            return Err(Error::broken(format!("the day's file has {file_bytes} bytes, not {last:?}")));
        }
        Ok(World { file_bytes, ..world })
    }
}

/// Claims and finishes one charge in one commit.
async fn charge(store: &SqliteStore, number: u64, memory: Memory) -> Result<(), Error> {
    let Charge { id, claim, finish } = Charge::new(store.realm(), number, memory);
    let effect = move |_: &WriteTx<'_>, _: &Claimed| Ok::<Finish, Abort<()>>(finish.clone());
    match store.claim_and_finish(id, claim, effect).await.map_err(|error| broken(&error))? {
        OneCommit::Finished { .. } => Ok(()),
        odd => Err(Error::broken(format!("charge {number} of the day was not new: {odd:?}"))),
    }
}

fn broken(error: &StoreError) -> Error {
    Error::broken(format!("the day's store: {error}"))
}
