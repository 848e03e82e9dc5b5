//! The engine: one store, and everything that requests of one process share about it.
//!
//! The layer and hand-written services compose the same pieces: [`Engine::meet`] judges a
//! request whose key has a record, [`Engine::replay`] answers from one. The rules are core's; the engine obeys them with tokio.
//!
//! 1. A claim commits before its operation begins, and its loser is answered from the same call (P8).
//! 2. Every claim has an owner: what was claimed is run, or released, or left to recovery when the process dies (P12).
//! 3. A store call that was cut off is in doubt until a conflicting write is acknowledged; its owner sends nothing
//!    before that (P12).
//! 4. Waiters never claim (P10). Waiters and running operations are bounded, by tenant and in all (P10).
//! 5. An outcome its owner knows is written until it is stored, or the attempt is over (P17).
//!
//! What breaks it in deployment: a process that is frozen longer than the operation timeout is overtaken, as intended;
//! its own outcome is then refused by the fence, and its caller gets the stored truth.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use unavez_core::answer::Answer;
use unavez_core::identity::{AttemptId, OperationId, Realm, Tenant};
use unavez_core::key::Key;
use unavez_core::outcome::{Effect, OnLost};
use unavez_core::problem::Code;
use unavez_core::record::Record;
use unavez_core::seal::{Owner, SealKeys};
use unavez_core::timing::{Contradiction, Timings};
use unavez_store::Store;

use crate::answers::{self, Ran};
use crate::body::Body;
use crate::observe::{Event, Observer, Silent};
use crate::problem::Problem;
use crate::recover::Hook;

mod asks;
mod claim;
mod held;
mod limits;
mod meet;
mod recovery;
mod settle;
mod stopwatch;
mod tracker;
mod waiters;

pub(crate) use claim::{Attempt, Reply};
pub use limits::{Limits, Permit};
pub use meet::Met;
pub(crate) use meet::Sight;
pub(crate) use recovery::{Asked, Asker};
pub use settle::{Ending, Settled};
pub use stopwatch::Stopwatch;
pub use tracker::Tracked;

/// How one covered route takes effect (P14), with the hook where there is one.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Business rows and finish commit in one transaction.
    Transactional,
    /// The hook can ask the outside system what became of an operation.
    Recoverable(Hook),
    /// Neither: what a lost attempt leads to is chosen.
    Opaque(OnLost),
}

impl Kind {
    /// The kind in core's words.
    #[must_use]
    pub const fn effect(&self) -> Effect {
        match self {
            Self::Transactional => Effect::Transactional,
            Self::Recoverable(_) => Effect::Recoverable,
            Self::Opaque(on_lost) => Effect::Opaque(*on_lost),
        }
    }

    pub(crate) const fn hook(&self) -> Option<&Hook> {
        match self {
            Self::Recoverable(hook) => Some(hook),
            Self::Transactional | Self::Opaque(_) => None,
        }
    }
}

/// Where random ids come from. Tests pass their own.
pub trait Random: Send + Sync + 'static {
    /// 128 random bits.
    fn bits(&self) -> [u8; 16];
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn bits(&self) -> [u8; 16] {
        uuid::Uuid::new_v4().into_bytes()
    }
}

/// What an engine can be told. Set before the engine is shared.
#[derive(Clone)]
pub struct Settings {
    /// The deployment. `None`: the store's own ([`Store::realm`]), or else a random one.
    pub realm: Option<Realm>,
    /// The two clocks and the store timeout.
    pub timings: Timings,
    /// Bounds on waiters and running operations.
    pub limits: Limits,
    /// Keys that seal stored answers (P23).
    pub seal_keys: Option<Arc<SealKeys>>,
    /// Hears about every event.
    pub observer: Arc<dyn Observer>,
    /// Source of attempt ids and nonces.
    pub random: Arc<dyn Random>,
    /// How often a waiter looks at the store. Finishes of the same process wake it at once.
    pub poll_interval: Duration,
    /// The least time between two questions about one record that callers cause (P16).
    pub ask_interval: Duration,
    /// Where the state of a key can be read, as a path: told to whoever is refused because its outcome is open.
    pub key_status: Option<fn(&Key) -> String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            realm: None,
            timings: Timings::default(),
            limits: Limits::default(),
            seal_keys: None,
            observer: Arc::new(Silent),
            random: Arc::new(SystemRandom),
            poll_interval: Duration::from_millis(250),
            ask_interval: Duration::from_secs(1),
            key_status: None,
        }
    }
}

/// One store, and what the requests of this process share about it. Cheap to clone; clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    realm: Realm,
    settings: Settings,
    running: limits::Gate,
    waiting: limits::Gate,
    waiters: waiters::Waiters,
    asks: asks::Asks,
    held: held::Said,
    tracker: tracker::Tracker,
}

impl Engine {
    /// An engine over `store`.
    ///
    /// # Errors
    /// Timings that contradict each other (P13).
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Result<Self, Contradiction> {
        settings.timings.check()?;
        Ok(Self::checked(store, settings))
    }

    /// As [`Engine::new`], with timings that are known to fit.
    fn checked(store: Arc<dyn Store>, settings: Settings) -> Self {
        let realm =
            settings.realm.clone().or_else(|| store.realm()).unwrap_or_else(|| random_realm(&settings));
        let limits = settings.limits;
        Self {
            inner: Arc::new(Inner {
                store,
                realm,
                running: limits::Gate::new(limits.running_max, limits.running_per_tenant_max),
                waiting: limits::Gate::new(limits.waiting_max, limits.waiting_per_tenant_max),
                waiters: waiters::Waiters::default(),
                asks: asks::Asks::default(),
                held: held::Said::default(),
                tracker: tracker::Tracker::default(),
                settings,
            }),
        }
    }

    /// An engine with the protocol's own timings and no bounds but the default ones.
    #[must_use]
    pub fn with_defaults(store: Arc<dyn Store>) -> Self {
        Self::checked(store, Settings::default())
    }

    /// A new engine over the same store with other settings. What runs under this one stays with it.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn with_settings(&self, change: impl FnOnce(&mut Settings)) -> Result<Self, Contradiction> {
        let mut settings = self.inner.settings.clone();
        change(&mut settings);
        Self::new(Arc::clone(&self.inner.store), settings)
    }

    /// The deployment's name (P4).
    #[must_use]
    pub fn realm(&self) -> &Realm {
        &self.inner.realm
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The timings in force.
    #[must_use]
    pub fn timings(&self) -> &Timings {
        &self.inner.settings.timings
    }

    /// A fresh attempt id.
    #[must_use]
    pub fn new_attempt(&self) -> AttemptId {
        AttemptId::from_bytes(self.inner.settings.random.bits())
    }

    /// Admits one more operation of this tenant, or refuses it as overloaded (P10). Held while the operation runs.
    ///
    /// # Errors
    /// 503 `overloaded`; nothing was run.
    pub fn enter(&self, tenant: &Tenant) -> Result<Permit, Problem> {
        self.inner.running.enter(tenant).ok_or_else(|| Problem::new(Code::Overloaded))
    }

    /// Seals an answer for its owner, if there are sealing keys (P23). No store trips; fit for a writer's thread.
    #[must_use]
    pub fn seal(&self, tenant: &Tenant, key: &Key, answer: Answer) -> Answer {
        let Some(keys) = &self.inner.settings.seal_keys else { return answer };
        let (first, second) = (self.inner.settings.random.bits(), self.inner.settings.random.bits());
        let mut nonce = [0; 24];
        nonce[..16].copy_from_slice(&first);
        nonce[16..].copy_from_slice(&second[..8]);
        answers::seal(&answer, keys, nonce, Owner { realm: &self.inner.realm, tenant, key })
    }

    /// The answer of a finished record (P18, P19); 500 for a record that is not finished or does not open.
    #[must_use]
    pub fn replay(&self, record: &Record, ran: Ran) -> Response<Body> {
        let owner = Owner { realm: &self.inner.realm, tenant: &record.tenant, key: &record.key };
        match answers::replay(record, self.inner.settings.seal_keys.as_deref(), owner, ran) {
            Ok(Some(response)) => response,
            Ok(None) => Problem::new(Code::Internal).into_response(),
            Err(error) => {
                tracing::error!(id = %record.id, ?error, "stored answer does not open");
                Problem::new(Code::Internal).with_detail("the stored answer cannot be opened").into_response()
            }
        }
    }

    /// Tells those who wait for a record that it may have changed. For services that write records themselves.
    pub fn notify(&self, operation_id: OperationId) {
        self.inner.waiters.wake(operation_id.record_id());
    }

    /// Counts a task among those that [`Engine::drain`] waits for, while the guard lives.
    #[must_use]
    pub fn track(&self) -> Tracked {
        self.inner.tracker.enter()
    }

    /// Waits until every running operation has ended, or `limit` is over; answers how many are left to recovery (P12).
    ///
    /// Stop accepting requests first.
    pub async fn drain(&self, limit: Duration) -> usize {
        self.inner.tracker.drain(limit).await
    }

    pub(crate) fn observe(&self, event: Event<'_>) {
        self.inner.settings.observer.on_event(&event);
    }
}

/// A store that forgets with its process needs operation ids that no earlier process used outside.
fn random_realm(settings: &Settings) -> Realm {
    let name = uuid::Uuid::from_bytes(settings.random.bits()).simple().to_string();
    Realm::parse(&name).expect("hex digits are printable and 32 are few")
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("realm", &self.inner.realm).finish_non_exhaustive()
    }
}
