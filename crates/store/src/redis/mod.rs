//! Records in Redis or Valkey, one server or a cluster, shared by any number of processes.
//!
//! 1. A swap is one script, and a script runs alone: the fence is compared, the record written, its indexes and the end of
//!    its promise with it. All keys of a step have one hash tag, so they lie in one slot.
//! 2. Ages are measured on the clock of the server that runs the script (P9).
//! 3. One connection carries all calls, each sent at once without waiting for the answer to the one before it.
//! 4. A call whose answer was lost is in doubt (P12). Nothing is ever sent a second time by the driver; the next call makes
//!    the connection anew, and checks the server anew.
//! 5. A server that keeps no append-only file, or may evict records, is refused.
//!
//! **It is no place for the only record of money.** Replication is asynchronous: a failover to a replica can take back what
//! was acknowledged, and a repeat of a lost key runs again. With `appendfsync everysec` a failing machine takes back about a
//! second. And the server deletes finished records by its own wall clock: where that jumps forth, promises end early, and
//! nobody can stop it as [`Store::purge`] of the other stores does.
//!
//! What else breaks it in deployment: `FLUSHALL`, a restored snapshot, other programs that write under the same names, and
//! masters of a cluster whose clocks differ by more than an operation timeout.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use unavez_store::redis::{Location, Options, RedisStore};
//!
//! let store = RedisStore::open(Location::parse("redis://127.0.0.1:6379/1")?, Options::default()).await?;
//! for warning in store.warnings() {
//!     eprintln!("{warning}");
//! }
//! # Ok(()) }
//! ```

mod changes;
mod chores;
mod connection;
mod error;
mod fields;
mod layout;
mod location;
mod scripts;
mod settings;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use unavez_core::identity::{Realm, RecordId};
use unavez_core::record::{Change, Fence, Record};

use self::connection::Link;
use self::layout::Shard;
use self::scripts::{CHANGE, CLAIM, LOAD};
use crate::clock::Clock;
use crate::rules::{Verdict, judge};
use crate::server_time::{Positions, Times};
use crate::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

pub use self::error::OpenError;
pub use self::location::Location;
pub use self::settings::Warning;

/// Settings of a store.
pub struct Options {
    /// Names the deployment. `None`: as it is stored; random when the store is new. Better named: a server that lost its data
    /// has lost a random name with it, and operation ids are made of it.
    pub realm: Option<Realm>,
    /// After how long a call without an answer is in doubt and its connection is left. Default: 5 s.
    pub answer_timeout: Duration,
    /// Calls that may be under way; above, calls are refused. Default: 16,384.
    pub calls_max: usize,
    /// `None`: the server's own clock, as everywhere but in tests: processes with clocks of their own would end each other's
    /// attempts. With a clock told, the server deletes nothing by itself.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { realm: None, answer_timeout: Duration::from_secs(5), calls_max: 16_384, clock: None }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("realm", &self.realm)
            .field("answer_timeout", &self.answer_timeout)
            .field("calls_max", &self.calls_max)
            .finish_non_exhaustive()
    }
}

/// A handle to the store; clones share it and its connection.
#[derive(Clone)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    times: Times,
    positions: Positions,
    realm: Realm,
    warnings: Vec<Warning>,
}

impl RedisStore {
    /// Connects and checks the server, of a cluster every master.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Panics
    /// Outside a tokio runtime with time and I/O.
    pub async fn open(location: Location, options: Options) -> Result<Self, OpenError> {
        let (link, warnings) = Link::open(location, options.answer_timeout, options.calls_max).await?;
        let now = link.time().await?;
        let realm = link.realm(options.realm.as_ref()).await?;
        let times = Times::new(options.clock, now);
        let inner = Arc::new(Inner { link, times, positions: Positions::after(None), realm, warnings });
        if let Some(newest) = inner.newest_position().await? {
            inner.positions.rise_to(newest);
        }
        Ok(Self { inner })
    }

    /// What should be known about the server as it was when the store was opened.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// An operator says that the server's clock is right now, after [`StoreError::ClockStepped`].
    ///
    /// # Errors
    /// As [`Store::load`].
    pub async fn confirm_clock(&self) -> Result<(), StoreError> {
        let now = self
            .inner
            .link
            .time()
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string().into()))?;
        self.inner.times.confirm(now);
        Ok(())
    }
}

impl Inner {
    /// What core's table makes of a change is computed here too, from what the script found: the record that is returned,
    /// and the words of a refusal.
    async fn swap(&self, id: RecordId, expected: Option<Fence>, change: Change) -> Result<Swap, StoreError> {
        let change = changes::bounded(change);
        let shard = Shard::of(id);
        let told = self.times.told();
        let call = match &change {
            Change::Claim(claim) => {
                let position = self.positions.next(&self.times);
                CLAIM.call(&shard.step_keys(id)).told(told).of(id, expected).claim(claim, position)
            }
            other => CHANGE.call(&shard.step_keys(id)).told(told).of(id, expected).change(other),
        };
        let answer = self.link.call(&call).await.map_err(|failure| failure.of_write())?;
        let lost = |error: fields::Unreadable| StoreError::InDoubt(error.to_string().into());
        let step = fields::step(id, answer).map_err(lost)?;
        self.times.observe(step.now);
        let now = step.now;
        let before = step.record.map(Arc::new);
        // What a claim has replaced is not told: it may be long, and is of no use.
        if step.happened
            && let Change::Claim(claim) = change
        {
            return Ok(Swap::Swapped { record: Arc::new(Record::claimed(id, claim, now)), now });
        }
        let verdict = judge(id, before.as_deref(), expected, change, now);
        match (step.happened, verdict, before) {
            (false, Ok(Verdict::Conflict), record) => Ok(Swap::Conflict { record, now }),
            (true, Ok(Verdict::Keep(record)), _) => Ok(Swap::Swapped { record: Arc::new(record), now }),
            (true, Ok(Verdict::Delete), Some(record)) => Ok(Swap::Swapped { record, now }),
            (false, Err(refusal), _) => Err(refusal.into()),
            (false, Ok(_), _) => {
                Err(StoreError::Unavailable("the script refused what the table allows".into()))
            }
            (true, _, _) => Err(StoreError::InDoubt("the script did what the table forbids".into())),
        }
    }

    async fn load(&self, id: RecordId) -> Result<Loaded, StoreError> {
        let call = LOAD.call(&[Shard::of(id).record(id)]).told(self.times.told());
        let answer = self.link.read(&call).await.map_err(|failure| failure.of_read())?;
        let loaded = fields::loaded(id, answer);
        let Loaded { record, now } =
            loaded.map_err(|error| StoreError::Unavailable(error.to_string().into()))?;
        self.times.observe(now);
        Ok(Loaded { record, now })
    }
}

impl Store for RedisStore {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        Box::pin(self.inner.swap(id, expected, change))
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(self.inner.load(id))
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        Box::pin(self.inner.due(limit))
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.inner.purge(limit))
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move { self.inner.list(&filter, after, limit).await })
    }

    fn realm(&self) -> Option<Realm> {
        Some(self.inner.realm.clone())
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("realm", &self.inner.realm).finish_non_exhaustive()
    }
}
