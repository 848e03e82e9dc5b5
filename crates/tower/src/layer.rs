//! The layer: what is shared by all routes, and the choice that each route must make.

use std::fmt;
use std::sync::Arc;

use http::{HeaderName, Method};
use tower::Layer;
use unavez_core::identity::Realm;
use unavez_core::outcome::OnLost;
use unavez_core::seal::SealKeys;
use unavez_core::timing::{Contradiction, Timings};
use unavez_store::Store;

use crate::door::{Bodies, Differs, Door, Presence};
use crate::engine::{Engine, Kind, Limits};
use crate::observe::Observer;
use crate::recover::{Hook, Recover};
use crate::service::Idempotency;
use crate::tenant::TenantSource;
use crate::validate::Validate;

/// How a route takes effect was not said yet: such a layer cannot be applied.
#[derive(Clone, Copy, Debug)]
pub struct Undecided;

/// Applies [`Idempotency`] to a service.
///
/// A layer is made once for a store, and each route chooses how it takes effect: [`transactional`](Self::transactional),
/// [`recoverable`](Self::recoverable) or [`opaque`](Self::opaque). Routes made from one layer share its limits, waiters
/// and shutdown. `with_…` settings come before that choice; those of a route's door may follow it.
///
/// A layer that has not chosen is not a [`Layer`]:
///
/// ```compile_fail
/// use std::sync::Arc;
/// use unavez_tower::{IdempotencyLayer, MemoryStore, tenant};
/// use tower::Layer;
///
/// let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
/// layer.layer(tower::service_fn(|_: ()| async { Ok::<_, std::convert::Infallible>(()) }));
/// ```
#[derive(Clone)]
pub struct IdempotencyLayer<K = Undecided> {
    pub(crate) route: Route,
    kind: K,
}

/// Everything about a route but its kind of effect.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) engine: Engine,
    pub(crate) door: Door,
    pub(crate) tenant: Arc<dyn TenantSource>,
    pub(crate) validation: Option<Arc<dyn Validate>>,
}

impl IdempotencyLayer {
    /// A layer over `store`, whose callers are told apart by `tenant` (P4).
    pub fn new(store: impl Store, tenant: impl TenantSource) -> Self {
        Self::with_engine(Engine::with_defaults(Arc::new(store)), tenant)
    }

    /// A layer over an engine that others use too.
    pub fn with_engine(engine: Engine, tenant: impl TenantSource) -> Self {
        let route = Route { engine, door: Door::new(), tenant: Arc::new(tenant), validation: None };
        Self { route, kind: Undecided }
    }

    /// For routes whose handler commits its business rows and its outcome in one transaction, with
    /// [`Once::commit`](crate::Once::commit). A failure before that commit has had no effect, and the key is free again.
    #[must_use]
    pub fn transactional(&self) -> IdempotencyLayer<Kind> {
        self.of(Kind::Transactional)
    }

    /// For routes whose operation happens at an outside system that can be asked about it.
    #[must_use]
    pub fn recoverable(&self, hook: impl Recover) -> IdempotencyLayer<Kind> {
        self.of(Kind::Recoverable(Hook::new(hook)))
    }

    /// For routes whose operation can be neither rolled back nor asked about. What a lost attempt leads to is chosen
    /// here: held until a person settles it, or run again, which is safe only where running twice is harmless.
    #[must_use]
    pub fn opaque(&self, on_lost: OnLost) -> IdempotencyLayer<Kind> {
        self.of(Kind::Opaque(on_lost))
    }

    fn of(&self, kind: Kind) -> IdempotencyLayer<Kind> {
        IdempotencyLayer { route: self.route.clone(), kind }
    }

    /// The two clocks and the store timeout.
    ///
    /// # Errors
    /// Timings that contradict each other (P13).
    pub fn with_timings(self, timings: Timings) -> Result<Self, Contradiction> {
        let engine = self.route.engine.with_settings(|settings| settings.timings = timings)?;
        Ok(self.with_new_engine(engine))
    }

    /// The deployment's name. Without it the store's own is used, and a store that has none gets a random one for each
    /// process.
    #[must_use]
    pub fn with_realm(self, realm: Realm) -> Self {
        self.with_engine_settings(|settings| settings.realm = Some(realm))
    }

    /// Bounds on waiters and running operations (P10).
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        self.with_engine_settings(|settings| settings.limits = limits)
    }

    /// Seals stored answers and keys the fingerprints (P23).
    #[must_use]
    pub fn with_seal_keys(mut self, keys: SealKeys) -> Self {
        let fingerprint_keys = keys.fingerprint_keys();
        self.route.door = self.route.door.with_rules(|rules| rules.keys = fingerprint_keys);
        self.with_engine_settings(|settings| settings.seal_keys = Some(Arc::new(keys)))
    }

    /// Who hears about every event.
    #[must_use]
    pub fn with_observer(self, observer: impl Observer) -> Self {
        self.with_engine_settings(|settings| settings.observer = Arc::new(observer))
    }

    fn with_engine_settings(self, change: impl FnOnce(&mut crate::engine::Settings)) -> Self {
        let engine =
            self.route.engine.with_settings(change).expect("the timings were checked and did not change");
        self.with_new_engine(engine)
    }

    fn with_new_engine(mut self, engine: Engine) -> Self {
        self.route.engine = engine;
        self
    }
}

impl<K> IdempotencyLayer<K> {
    fn change_door(mut self, change: impl FnOnce(Door) -> Door) -> Self {
        self.route.door = change(self.route.door);
        self
    }

    /// Replaces all settings of the door.
    #[must_use]
    pub fn with_door(self, door: Door) -> Self {
        self.change_door(|_| door)
    }

    /// The route's name in metrics and logs.
    #[must_use]
    pub fn with_route(self, name: &str) -> Self {
        self.change_door(|door| door.with_route(name))
    }

    /// Whether a key is required, as it is by default (P2).
    #[must_use]
    pub fn with_presence(self, presence: Presence) -> Self {
        self.change_door(|door| door.with_presence(presence))
    }

    /// Reads the key from this header alone.
    #[must_use]
    pub fn with_key_header(self, name: HeaderName) -> Self {
        self.change_door(|door| door.with_key_header(name))
    }

    /// Reads the key from this header too (P1).
    #[must_use]
    pub fn add_key_header(self, name: HeaderName) -> Self {
        self.change_door(|door| door.add_key_header(name))
    }

    /// Covers a further method, such as PUT or DELETE (P3).
    #[must_use]
    pub fn add_method(self, method: Method) -> Self {
        self.change_door(|door| door.add_method(method))
    }

    /// The largest body of a request; above: 413.
    #[must_use]
    pub fn with_body_bytes_max(self, bytes: usize) -> Self {
        self.change_door(|door| door.with_body_bytes_max(bytes))
    }

    /// The largest body of an answer that is kept (P20).
    #[must_use]
    pub fn with_kept_bytes_max(self, bytes: usize) -> Self {
        self.change_door(|door| door.with_kept_bytes_max(bytes))
    }

    /// Whether a 422 names what differs (P23).
    #[must_use]
    pub fn with_differs(self, differs: Differs) -> Self {
        self.change_door(|door| door.with_differs(differs))
    }

    /// Whether answers are kept whole (P20).
    #[must_use]
    pub fn with_bodies(self, bodies: Bodies) -> Self {
        self.change_door(|door| door.with_bodies(bodies))
    }

    /// Judges bodies before the claim (P7).
    #[must_use]
    pub fn with_validation(mut self, validation: impl Validate) -> Self {
        self.route.validation = Some(Arc::new(validation));
        self
    }

    /// The engine that all routes of this layer share: for shutdown, the worker and metrics.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.route.engine
    }
}

impl<S> Layer<S> for IdempotencyLayer<Kind> {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency::new(inner, Arc::new(self.route.clone()), self.kind.clone())
    }
}

impl<K: fmt::Debug> fmt::Debug for IdempotencyLayer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("engine", &self.route.engine)
            .field("door", &self.route.door)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
