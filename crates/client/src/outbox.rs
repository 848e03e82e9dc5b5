//! Operations that survive their process: written to SQLite before the first byte is sent, and sent again under the same
//! key by whoever comes after a crash (P29).
//!
//! 1. What is put is synced: the whole operation - address, headers, body, key, tenant, when it was made - is on the disk
//!    before anybody sends it. [`Outbox::put_in`] puts it into a transaction of the caller's, so that an order and its
//!    charge exist together or not at all.
//! 2. Workers take turns: an operation is taken with a lease, in a commit that also says that it may have been received.
//!    A lease that is lost - its process died, or slept - is harmless: whoever takes the operation next sends the same
//!    bytes under the same key, and a late owner's result is refused by its fence.
//! 3. An operation ends as done or refused, with its answer, or as unknown. All else is tried again, in this process or
//!    the next, after waits that grow as between attempts (P31) and are written down as well.
//! 4. One older than the server says it keeps keys is not sent: unknown. Time never goes back, whatever the wall clock
//!    does, and a clock that was set forth errs on the harmless side.
//! 5. A row that is not what was put is not sent either.
//! 6. It is bounded: how many may wait, how large each may be, how many calls run, in all and to one host; hosts take
//!    turns, and one that is down holds up no other.
//!
//! # What breaks it in deployment
//!
//! - A connection of the caller's that does not sync. [`Outbox::put_in`] refuses one; a disk that acknowledges before it
//!   keeps cannot be found out.
//! - A database that is restored from a copy has forgotten what was settled since, and sends it again: under the same key,
//!   which is harmless for as long as the server remembers it, and no longer.
//! - Headers are stored as they are. Credentials belong to the client ([`ClientBuilder::add_header`]), not here.
//! - A network file system: workers of two machines cannot share a WAL.
//!
//! # Example
//!
//! An order and its charge in one commit. The worker may run in the same process, or in the next one after a crash.
//!
//! ```
//! use unavez_client::outbox::{End, Outbox, OutboxLimits, Standing, rusqlite};
//! use unavez_client::{Client, Operation, Preset, Wire, derive};
//! # use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("shop.db");
//! # let server = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let url = format!("http://{}/v1/charges", server.local_addr()?);
//! # tokio::spawn(async move {
//! #     let (mut connection, _) = server.accept().await.unwrap();
//! #     connection.read(&mut [0; 4096]).await.unwrap();
//! #     connection.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
//! # });
//! let outbox = Outbox::open(&path, OutboxLimits::default())?;
//! let mut shop = rusqlite::Connection::open(&path)?;
//! shop.execute_batch("create table orders (id text primary key) strict")?;
//!
//! let key = derive("charge", &["o-1001"])?;
//! let charge = Operation::post(&url)?.with_key(key.clone()).with_json(r#"{"amount":500}"#);
//! let tx = shop.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
//! tx.execute("insert into orders values ('o-1001')", [])?;
//! outbox.put_in(&tx, &charge)?;
//! tx.commit()?;
//!
//! let worker = outbox.worker(Client::builder(Preset::stripe()).build_over(Wire::plain()));
//! let delivered = worker.deliver_one().await?.expect("one is due");
//! assert!(matches!(delivered.end, End::Done));
//! let Some(Standing::Done(answer)) = outbox.find(&key).await? else { panic!() };
//! assert_eq!(answer.status(), 201);
//! # Ok(())
//! # }
//! ```
//!
//! [`ClientBuilder::add_header`]: crate::ClientBuilder::add_header

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::watch;
use unavez_core::key::Key;
use unavez_core::time::Time;

use self::desk::Trouble;
use self::time::{OutboxClock, Wall};
use crate::client::Client;
use crate::operation::Operation;

mod desk;
mod error;
mod lease;
mod row;
mod standing;
mod time;
mod worker;

pub use self::error::OutboxError;
pub use self::standing::{Backlog, Standing, Waiting};
pub use self::worker::{Delivered, End, Happening, Worker};
/// The SQLite bindings whose transactions [`Outbox::put_in`] takes.
pub use rusqlite;

/// How long a statement waits for another connection's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLite before 3.51.3 can lose committed writes of a WAL that two processes write.
const LIBRARY_LEAST: i32 = 3_051_003;

/// How much an outbox takes, and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Operations of one tenant that may wait [default: 10,000].
    pub waiting_max: usize,
    /// The largest body [default: 1 MiB].
    pub body_bytes_max: usize,
    /// How long a done or refused operation stays, with its answer [default: 7 days]. Its key is free afterwards. What is
    /// unknown stays until it is resumed.
    pub answers_kept: Duration,
}

/// In this file, the short name.
use self::OutboxLimits as Limits;

impl Default for OutboxLimits {
    fn default() -> Self {
        Self {
            waiting_max: 10_000,
            body_bytes_max: 1 << 20,
            answers_kept: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// The operations of one tenant in one SQLite file. Clones share it. Any number of processes of one machine may open it.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
    tenant: Arc<str>,
}

struct Shared {
    connection: Mutex<Connection>,
    path: PathBuf,
    clock: OutboxClock,
    limits: Limits,
    /// Every worker hears of every wake, of its tenant or another's, also if it was busy.
    woken: watch::Sender<()>,
}

impl Outbox {
    /// Opens an outbox, which is made if it is missing: in a file of its own, or beside the caller's tables in the
    /// caller's file. Blocks for as long as SQLite takes.
    ///
    /// A file that is made is readable by its owner alone, and has a WAL. One that exists keeps its journal mode.
    ///
    /// # Errors
    /// The file cannot be opened or written, or was made by a newer program.
    pub fn open(path: impl AsRef<Path>, limits: OutboxLimits) -> Result<Self, OutboxError> {
        Self::open_on(path, limits, OutboxClock::system())
    }

    /// The same, with another wall clock: microseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        path: impl AsRef<Path>,
        limits: OutboxLimits,
        wall: Arc<dyn Fn() -> Time + Send + Sync>,
    ) -> Result<Self, OutboxError> {
        if rusqlite::version_number() < LIBRARY_LEAST {
            return Err(OutboxError::LibraryTooOld { version: rusqlite::version() });
        }
        let path = path.as_ref();
        let shared = Shared::open(path, limits, wall).map_err(|trouble| trouble.at("opening", path))?;
        Ok(Self { shared: Arc::new(shared), tenant: "".into() })
    }

    /// The operations of another tenant in the same file: those that are sent with another's credentials, by a worker
    /// with that client. Keys of two tenants are two keys.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), tenant: tenant.into() }
    }

    /// Puts an operation: when this returns, it is on the disk, and will be sent. Putting the same one again changes
    /// nothing, so after an error or a crash it can simply be repeated.
    ///
    /// Dropping the future leaves it open whether it was put.
    ///
    /// # Errors
    /// It has no key, its key stands there for another request, the outbox is full, or the disk does not take it.
    pub async fn put(&self, operation: &Operation) -> Result<(), OutboxError> {
        let (tenant, operation) = (Arc::clone(&self.tenant), operation.clone());
        self.in_transaction("putting an operation into", move |db, shared| {
            desk::put(db, &shared.clock, &shared.limits, &tenant, &operation)
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Puts an operation inside a transaction of the caller's on the same file: it will be sent if that commits. Call
    /// [`wake`](Self::wake) afterwards, or it is found at the workers' next look.
    ///
    /// # Errors
    /// As [`put`](Self::put); the transaction is of another file, or its connection does not sync what it commits. The
    /// transaction stands, and without the operation.
    pub fn put_in(&self, tx: &Transaction<'_>, operation: &Operation) -> Result<(), OutboxError> {
        let shared = &self.shared;
        let put = || {
            shared.check(tx)?;
            desk::put(tx, &shared.clock, &shared.limits, &self.tenant, operation)
        };
        put().map_err(|trouble| trouble.at("putting an operation into", &shared.path))
    }

    /// Has the workers of this process look at once.
    pub fn wake(&self) {
        self.shared.woken.send_replace(());
    }

    /// How the operation with this key stands; `None`: it was never put, or was purged.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn find(&self, key: &Key) -> Result<Option<Standing>, OutboxError> {
        let (tenant, key) = (Arc::clone(&self.tenant), key.clone());
        self.blocking("reading", move |db, _| Ok(desk::standing(db, &tenant, &key)?)).await
    }

    /// The same on a connection of the caller's to the same file, and inside its transaction if it has one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn find_in(&self, connection: &Connection, key: &Key) -> Result<Option<Standing>, OutboxError> {
        desk::standing(connection, &self.tenant, key)
            .map_err(|error| Trouble::Sql(error).at("reading", &self.shared.path))
    }

    /// Has an unknown operation sent again, with the same key: a person has looked, and found that this is right. Whether
    /// there was one.
    ///
    /// # Errors
    /// The disk does not take it.
    pub async fn resume(&self, key: &Key) -> Result<bool, OutboxError> {
        let (tenant, key) = (Arc::clone(&self.tenant), key.clone());
        let resumed = self.in_transaction("resuming an operation in", move |db, shared| {
            Ok(desk::resume(db, &shared.clock, &tenant, &key)?)
        });
        let resumed = resumed.await?;
        self.wake();
        Ok(resumed)
    }

    /// Deletes what was done or refused long enough ago, up to a thousand; how many. Workers do so now and then.
    ///
    /// # Errors
    /// The disk does not take it.
    pub async fn purge(&self) -> Result<usize, OutboxError> {
        self.in_transaction("purging", |db, shared| Ok(desk::purge(db, &shared.clock, &shared.limits)?)).await
    }

    /// How much there is to do.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn backlog(&self) -> Result<Backlog, OutboxError> {
        let tenant = Arc::clone(&self.tenant);
        self.blocking("reading", move |db, shared| Ok(desk::backlog(db, &shared.clock, &tenant)?)).await
    }

    /// A worker that sends this tenant's operations with this client.
    pub fn worker<T>(&self, client: Client<T>) -> Worker<T> {
        Worker::new(self.clone(), client)
    }

    /// In one transaction, committed and synced when this returns.
    async fn in_transaction<R: Send + 'static>(
        &self,
        doing: &'static str,
        write: impl FnOnce(&Connection, &Shared) -> Result<R, Trouble> + Send + 'static,
    ) -> Result<R, OutboxError> {
        self.blocking(doing, move |db, shared| {
            let tx = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
            let written = write(&tx, shared)?;
            tx.commit()?;
            Ok(written)
        })
        .await
    }

    /// On a thread that may block.
    async fn blocking<R: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Connection, &Shared) -> Result<R, Trouble> + Send + 'static,
    ) -> Result<R, OutboxError> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            // Whoever panicked rolled back, so the connection is whole.
            let connection = shared.connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&connection, &shared).map_err(|trouble| trouble.at(doing, &shared.path))
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| OutboxError::ShuttingDown)?
    }
}

impl Shared {
    fn open(path: &Path, limits: Limits, wall: Wall) -> Result<Self, Trouble> {
        let is_new = create(path);
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        if is_new {
            connection.pragma_update(None, "journal_mode", "wal")?;
        }
        connection.pragma_update(None, "synchronous", "full")?;
        let tx = Transaction::new_unchecked(&connection, TransactionBehavior::Immediate)?;
        let latest = desk::prepare(&tx)?;
        tx.commit()?;
        let path = connection.path().map_or_else(|| path.to_owned(), PathBuf::from);
        let clock = OutboxClock::resume(wall, latest);
        Ok(Self { connection: Mutex::new(connection), path, clock, limits, woken: watch::Sender::new(()) })
    }

    /// Whether what this transaction commits is the outbox's, and kept.
    fn check(&self, tx: &Transaction<'_>) -> Result<(), Trouble> {
        let transaction = PathBuf::from(tx.path().unwrap_or_default());
        if transaction != self.path {
            return Err(OutboxError::OtherFile { outbox: self.path.clone(), transaction }.into());
        }
        let synchronous: i64 = tx.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        if synchronous < 2 {
            return Err(OutboxError::NotSynced { synchronous }.into());
        }
        Ok(())
    }
}

/// Makes the file where it is missing, for its owner alone; whether it did. Where that fails, SQLite says why.
fn create(path: &Path) -> bool {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path).is_ok()
}

impl Trouble {
    fn at(self, doing: &'static str, path: &Path) -> OutboxError {
        match self {
            Self::Sql(source) => OutboxError::Database { doing, path: path.to_owned(), source },
            Self::Other(error) => error,
        }
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.shared;
        f.debug_struct("Outbox")
            .field("path", &shared.path)
            .field("tenant", &self.tenant)
            .field("clock", &shared.clock)
            .field("limits", &shared.limits)
            .finish()
    }
}
