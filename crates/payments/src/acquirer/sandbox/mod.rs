//! The sandbox: a real small acquirer with books of its own, for tests, demonstrations and measurements.
//!
//! It moves no money. It executes what it is asked to, remembers it durably, can be asked about it, and fails in every
//! way that matters when it is told to: by the payment method of a request ([`Token`]), and by its [`Behaviour`].
//!
//! 1. What was answered is committed before. A restart forgets nothing.
//! 2. Every execution is counted, also where deduplication is off: the books tell whether somebody was charged twice.
//! 3. An operation has an id of its own, whatever its kind, and is found by it.
//! 4. A step that its payment does not allow is declined, and the refusal is bound to the step's id.
//! 5. It has one front, [`Sandbox::exchange`]: requests over HTTP and those of the adapter in the same process take the
//!    same way through it.
//!
//! What breaks it in deployment: nothing should depend on it there. It approves whoever asks.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use unavez_payments::acquirer::Acquirer;
//! use unavez_payments::acquirer::sandbox::{Behaviour, Sandbox, SandboxAcquirer};
//! use unavez_payments::acquirer::signature::Secrets;
//! use unavez_store::sqlite::{Location, Options};
//!
//! let sandbox = Sandbox::open(Location::Memory, Options::default(), Behaviour::default())?;
//! let acquirer: Arc<dyn Acquirer> = Arc::new(SandboxAcquirer::in_process(&sandbox, Secrets::random()));
//! assert_eq!(acquirer.account().as_str(), "sandbox:in-process");
//! assert_eq!(sandbox.executed().await?.len(), 0);
//! # Ok(()) }
//! ```

mod adapter;
mod beside;
mod delivery;
mod desk;
mod document;
mod execution;
mod request;
mod server;
mod token;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::clock::Clock;
use unavez_store::sqlite::{Component, Location, Migration, OpenError, Options, SqliteStore};

pub use self::adapter::{SandboxAcquirer, Terms};
pub use self::beside::SandboxBooks;
pub(crate) use self::beside::beside;
pub use self::delivery::{Courier, Deliveries, HttpCourier, Letter};
pub use self::desk::Reply;
pub use self::server::SandboxService;
pub use self::token::{PENDING, Token};

const COMPONENT: Component = Component {
    name: "sandbox",
    migrations: &[Migration {
        number: 1,
        name: "executions_and_events",
        sql: include_str!("schema/0001_executions_and_events.sql"),
    }],
    indexes: &[],
    guests: None,
};

/// A sandbox acquirer. Clones share it.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    store: SqliteStore,
    behaviour: Mutex<Behaviour>,
    /// Rung when there is a new event.
    news: Notify,
    /// Whether answers that never come are given up.
    closing: watch::Sender<bool>,
}

/// How the sandbox behaves towards everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// How long it remembers the ids of requests.
    pub dedupe: Dedupe,
    /// For how long after its execution an operation is not found by questions.
    pub visibility_delay: Duration,
    /// Whether questions are answered.
    pub lookup: Lookup,
    /// How long every request is on its way.
    pub latency: Duration,
    /// How webhooks are delivered.
    pub webhooks: Webhooks,
}

/// For how long a repeated request gets the first answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dedupe {
    /// For ever.
    #[default]
    Forever,
    /// For so long after its execution; then it is executed anew.
    For(Duration),
    /// Never: every request is executed. It can still be asked.
    Off,
}

/// Whether questions are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// They are.
    #[default]
    Ok,
    /// They are refused with 503.
    Down,
}

/// How webhooks are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Webhooks {
    /// Each until it succeeds once.
    #[default]
    Once,
    /// Each until it succeeds twice.
    Twice,
    /// After the one that tells the decision comes another that still says pending.
    Reversed,
}

impl Dedupe {
    /// The time up to which executions are forgotten; `None`: all of them are.
    fn forgotten_until(self, now: Time) -> Option<Time> {
        match self {
            Self::Forever => Some(Time::MIN),
            Self::For(window) => Some(Time::from_micros(now.as_micros() - micros(window))),
            Self::Off => None,
        }
    }

    /// The window that an adapter may rely on.
    const fn window(self) -> Option<Duration> {
        match self {
            Self::Forever => Some(Duration::MAX),
            Self::For(window) => Some(window),
            Self::Off => None,
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl Sandbox {
    /// Opens or creates the sandbox's books. Blocks as [`SqliteStore::open`] does.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(location: Location, mut options: Options, behaviour: Behaviour) -> Result<Self, OpenError> {
        options.components.push(COMPONENT);
        let store = SqliteStore::open(location, options)?;
        let (closing, _) = watch::channel(false);
        let inner = Inner { store, behaviour: Mutex::new(behaviour), news: Notify::new(), closing };
        Ok(Self(Arc::new(inner)))
    }

    /// How it behaves now.
    #[must_use]
    pub fn behaviour(&self) -> Behaviour {
        *self.0.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Behaves otherwise from the next request on.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.0.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = behaviour;
    }

    /// The clock it lives by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.0.store.clock()
    }

    /// How often each operation was executed, declined ones included.
    ///
    /// # Errors
    /// The store's.
    pub async fn executed(&self) -> Result<Vec<(OperationId, u64)>, StoreError> {
        self.0.store.read(execution::counts).await
    }

    /// Gives up the answers that would never come, so that a server can drain.
    pub fn stop_waiting(&self) {
        self.0.closing.send_replace(true);
    }

    /// Writes what is queued and closes the books.
    pub async fn close(&self) {
        self.stop_waiting();
        self.0.store.close().await;
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("behaviour", &self.behaviour()).finish_non_exhaustive()
    }
}
