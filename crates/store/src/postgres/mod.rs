//! Records in PostgreSQL, shared by any number of processes, with group commit in each.
//!
//! 1. Claims and finishes that wait together are one statement each, and share one commit (`lanes.rs`). A lone call is sent
//!    at once. Two connections carry all requests, a third one the chores.
//! 2. Ages are measured on the database's clock, which every statement reads itself (P9).
//! 3. A call that was answered is durable as the server keeps its word: one with `fsync` or `synchronous_commit` off is
//!    refused, at every connection anew.
//! 4. A call whose answer was lost is in doubt (P12). A broken connection is made anew by the next call.
//! 5. Statements have no names and leave nothing in a session, so poolers in transaction mode are welcome. Nothing needs
//!    advisory locks, triggers, sequences or notifications; docs/design/007-postgres.md says what that is for.
//! 6. Business rows commit with the record by [`finish_in`], inside a transaction of the caller's.
//!
//! What breaks it in deployment: asynchronous standbys alone (a failover forgets what was acknowledged; see
//! [`PostgresStore::warnings`]), a restored database, and two databases whose clocks differ by more than an operation
//! timeout behind one name.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use unavez_store::postgres::{Location, Migrate, Options, PostgresStore};
//!
//! let location = Location::parse("postgres://shop@db.example/shop")?;
//! let store = PostgresStore::open(location, Options { migrate: Migrate::Auto, ..Options::default() }).await?;
//! for warning in store.warnings() {
//!     eprintln!("{warning}");
//! }
//! # Ok(()) }
//! ```

mod chores;
mod claims;
mod connection;
mod error;
mod finish_in;
mod finishes;
mod halving;
mod lanes;
mod location;
mod migrations;
mod reads;
mod rows;
mod steps;
mod time;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::types::Type;
use unavez_core::identity::{Realm, RecordId};
use unavez_core::record::{Change, Fence};
use unavez_core::time::Time;

use self::chores::Chores;
use self::connection::{Link, Param, Session};
use self::lanes::{ClaimCommand, Command, Shared, SwapCommand};
use self::migrations::{STORE, bring_up_to_date, failed};
use self::time::{Positions, Times};
use crate::clock::Clock;
use crate::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

pub use self::error::{FinishInError, OpenError};
pub use self::finish_in::finish_in;
pub use self::location::Location;
pub use self::migrations::Component;
pub use crate::migrations::{AppliedMigration, Migrate, Migration};

/// Settings of a store.
pub struct Options {
    /// What to do about missing migrations. Default: refuse to open, since several processes share the tables and whoever
    /// is started first is not the one to decide.
    pub migrate: Migrate,
    /// Further packages with tables in the database.
    pub components: Vec<Component>,
    /// Names the deployment. `None`: as it is stored; random when the tables are made.
    pub realm: Option<Realm>,
    /// Calls that may wait in each lane; above, calls are refused. Default: 16,384.
    pub queue_max: usize,
    /// After how long a batch without an answer is in doubt and its connection is left. Default: 10 s.
    pub answer_timeout: Duration,
    /// `None`: the database's own clock, as everywhere but in tests: processes with clocks of their own would end each
    /// other's attempts.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            migrate: Migrate::Check,
            components: Vec::new(),
            realm: None,
            queue_max: 16_384,
            answer_timeout: Duration::from_secs(10),
            clock: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("migrate", &self.migrate)
            .field("realm", &self.realm)
            .field("queue_max", &self.queue_max)
            .field("answer_timeout", &self.answer_timeout)
            .finish_non_exhaustive()
    }
}

/// Something about a database that is allowed and should be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It has standbys and waits for none of them: a failover can forget what was acknowledged.
    AsynchronousStandbys {
        /// How many are connected.
        standbys: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsynchronousStandbys { standbys } => write!(
                f,
                "the database has {standbys} standbys and waits for none: a failover can forget acknowledged records; \
                 set synchronous_standby_names, for example to 'ANY 1 (*)'"
            ),
        }
    }
}

/// A handle to the store; clones share it. When the last one is dropped, what is queued is still done.
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    claims: mpsc::Sender<ClaimCommand>,
    changes: mpsc::Sender<Command>,
    chores: Chores,
    realm: Realm,
    migrations: Vec<AppliedMigration>,
    warnings: Vec<Warning>,
}

impl PostgresStore {
    /// Connects, checks the server, and starts the store's tasks on the current runtime.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Panics
    /// Outside a tokio runtime with time and I/O.
    pub async fn open(location: Location, options: Options) -> Result<Self, OpenError> {
        let (session, warning) = Session::open(&location).await?;
        let now = database_time(&session, options.clock.as_deref()).await?;
        let components: Vec<_> = [STORE].into_iter().chain(options.components.iter().copied()).collect();
        let migrations = bring_up_to_date(&session, &components, options.migrate, now).await?;
        let realm = realm(&session, options.realm.as_ref()).await?;
        let last_position = last_position(&session).await?;

        let location = Arc::new(location);
        let shared = Arc::new(Shared {
            times: Times::new(options.clock, now),
            positions: Positions::after(last_position),
            answer_timeout: options.answer_timeout,
        });
        let (claims, claims_queue) = mpsc::channel(options.queue_max.max(1));
        let (changes, changes_queue) = mpsc::channel(options.queue_max.max(1));
        let link = || Link::new(Arc::clone(&location));
        tokio::spawn(lanes::run_claims(
            Link::with(Arc::clone(&location), session),
            Arc::clone(&shared),
            claims_queue,
        ));
        tokio::spawn(lanes::run_changes(link(), Arc::clone(&shared), changes_queue));
        let chores = Chores { link: Mutex::new(link()), shared };
        let warnings = warning.into_iter().collect();
        Ok(Self { inner: Arc::new(Inner { claims, changes, chores, realm, migrations, warnings }) })
    }

    /// What should be known about the database as it was when the store was opened.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.inner.warnings
    }

    /// Every migration of the database, and which of them this opening applied.
    #[must_use]
    pub fn migrations(&self) -> &[AppliedMigration] {
        &self.inner.migrations
    }

    /// An operator says that the database's clock is right now, after [`StoreError::ClockStepped`].
    ///
    /// # Errors
    /// As [`Store::load`].
    pub async fn confirm_clock(&self) -> Result<(), StoreError> {
        let chores = &self.inner.chores;
        let (now, _) = chores.oldest_expiry().await?;
        chores.shared.times.confirm(now);
        Ok(())
    }
}

async fn database_time(session: &Session, clock: Option<&dyn Clock>) -> Result<Time, OpenError> {
    let told = clock.map(|clock| clock.now().as_micros());
    let rows = session.read(include_str!("sql/now.sql"), &[(&told, Type::INT8)]).await.map_err(failed)?;
    let now = rows.first().ok_or_else(|| OpenError::Corrupt("the database told no time".to_owned()))?;
    Ok(Time::from_micros(now.try_get(0)?))
}

async fn last_position(session: &Session) -> Result<Option<i64>, OpenError> {
    let rows = session.read(include_str!("sql/last_position.sql"), &[]).await.map_err(failed)?;
    rows.first().map_or(Ok(None), |row| Ok(row.try_get(0)?))
}

/// The stored realm, named first where the tables are new.
async fn realm(session: &Session, named: Option<&Realm>) -> Result<Realm, OpenError> {
    let name = named.map(Realm::as_str);
    let parameters: &[Param<'_>] = &[(&name, Type::TEXT)];
    session.write(include_str!("sql/name_realm.sql"), parameters).await.map_err(failed)?;
    let rows = session.read(include_str!("sql/realm.sql"), &[]).await.map_err(failed)?;
    let row = rows.first().ok_or_else(|| OpenError::Corrupt("the database has no realm".to_owned()))?;
    let stored = Realm::parse(row.try_get(0)?).map_err(|error| OpenError::Corrupt(error.to_string()))?;
    match named {
        Some(named) if *named != stored => Err(OpenError::RealmMismatch { stored, named: named.clone() }),
        _ => Ok(stored),
    }
}

impl Store for PostgresStore {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            match (expected, change) {
                (None, Change::Claim(claim)) => {
                    queued(&self.inner.claims, ClaimCommand { id, claim, reply })?
                }
                (expected, change) => {
                    let command = SwapCommand { id, expected, change, reply };
                    queued(&self.inner.changes, Command::Swap(command))?;
                }
            }
            answer
                .await
                .unwrap_or_else(|_| Err(StoreError::InDoubt("the database did not answer in time".into())))
        })
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            queued(&self.inner.changes, Command::Load(id, reply))?;
            let silent = |_| Err(StoreError::Unavailable("the database did not answer in time".into()));
            answer.await.unwrap_or_else(silent)
        })
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        Box::pin(self.inner.chores.due(limit))
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.inner.chores.purge(limit))
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move { self.inner.chores.list(&filter, after, limit).await })
    }

    fn realm(&self) -> Option<Realm> {
        Some(self.inner.realm.clone())
    }
}

/// Puts a command into its lane's queue.
fn queued<T>(queue: &mpsc::Sender<T>, command: T) -> Result<(), StoreError> {
    queue.try_send(command).map_err(|refused| match refused {
        mpsc::error::TrySendError::Full(_) => StoreError::Overloaded { waiting: queue.max_capacity() },
        mpsc::error::TrySendError::Closed(_) => {
            StoreError::Unavailable("the store's runtime has ended".into())
        }
    })
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("realm", &self.inner.realm).finish_non_exhaustive()
    }
}
