//! The service as one value: opened, routed, closed.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use bytes::Bytes;
use tokio::task::JoinHandle;
use unavez_core::fingerprint::Rules;
use unavez_core::identity::Realm;
use unavez_core::seal::SealKeys;
use unavez_core::timing::{Contradiction, Timings};
use unavez_store::StoreError;
use unavez_store::sqlite::{Location, Options, SqliteStore};
use unavez_tower::door::{Differs, Door};
use unavez_tower::engine::{self, Engine, Kind};
use unavez_tower::recover::{Hook, Pass, RecoveryWorker};

use crate::acquirer::Acquirer;
use crate::acquirer::sandbox::Sandbox;
use crate::auth::{Gate, KeyFileError};
use crate::books::{self, Books, Tenants};
use crate::copies;
use crate::http::post;
use crate::http::{self as api, edge::Inside};
use crate::metrics::{CommitWatch, EngineWatch, Metrics};
use crate::night::Night;
use crate::open_error::OpenError;
use crate::outside::alarms::Alarms;
use crate::outside::by_hand::{ByHand, NotRuled, Ruled};
use crate::outside::in_process::InProcess;
use crate::outside::way::{RealmName, Way};
use crate::outside::{self, Asking, Outside};
use crate::owner::{self, Unsettled};
use crate::random::Stream;
use crate::readiness::Readiness;
use crate::seals;
use crate::settings::Settings;

/// A running service. Cheap to clone; clones are the same service.
#[derive(Clone)]
pub struct Payments {
    app: Arc<App>,
}

/// What requests share.
pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) store: SqliteStore,
    pub(crate) engine: Engine,
    /// The door of every route under a key.
    pub(crate) door: Door,
    /// The same, for requests of which not even names may be repeated.
    pub(crate) discreet_door: Door,
    pub(crate) gate: Gate,
    pub(crate) books: Books,
    pub(crate) tenants: Tenants,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) inside: Inside,
    pub(crate) readiness: Readiness,
    /// Whether the start-up scan is done.
    pub(crate) scanned: AtomicBool,
    pub(crate) openapi: Bytes,
    /// The acquirer, unless the ledger is the whole effect.
    pub(crate) outside: Option<Arc<Outside>>,
    /// How operations take effect: what the engine has to know of them.
    pub(crate) kind: Kind,
    pub(crate) alarms: Arc<Alarms>,
    sandbox: Option<InProcess>,
    shifts: Mutex<Vec<JoinHandle<()>>>,
}

impl Payments {
    /// Opens the database, checks the settings against each other and against what is stored, and starts the night
    /// shift (purge, audit, recovery) on the present runtime. This service's tables and its observer are added to
    /// `options`.
    ///
    /// # Errors
    /// [`OpenError`]: nothing is left open.
    pub async fn open(location: Location, options: Options, settings: Settings) -> Result<Self, OpenError> {
        Self::open_through(location, options, settings, None).await
    }

    /// As [`Payments::open`], through this acquirer, whatever the settings name.
    ///
    /// # Errors
    /// [`OpenError`]: nothing is left open.
    pub async fn open_with(
        location: Location,
        options: Options,
        settings: Settings,
        acquirer: Arc<dyn Acquirer>,
    ) -> Result<Self, OpenError> {
        Self::open_through(location, options, settings, Some(acquirer)).await
    }

    async fn open_through(
        location: Location,
        mut options: Options,
        mut settings: Settings,
        given: Option<Arc<dyn Acquirer>>,
    ) -> Result<Self, OpenError> {
        let realm = if options.realm.is_some() { RealmName::Given } else { RealmName::Left };
        let way = match given {
            Some(acquirer) => Way::Outside(acquirer),
            None => Way::of(&settings, realm)?,
        };
        settings.timings = timings(&settings, &way)?;
        let seal_keys = settings.seal_key_file.as_deref().map(seals::read).transpose()?;
        let gate = match &settings.api_keys_file {
            Some(path) => Gate::with_keys(path, settings.default_tenant.clone())?,
            None => Gate::open(),
        };
        let metrics = Arc::new(Metrics::new());
        options.components.push(books::COMPONENT);
        options.observer = Some(Arc::new(CommitWatch(Arc::clone(&metrics))));
        let (beside, clock) = (location.clone(), options.clock.clone());
        let store = tokio::task::spawn_blocking(move || SqliteStore::open(location, options))
            .await
            .map_err(|_| OpenError::Interrupted)??;
        settings.ask_first_until = copies::ask_first_until(&store, settings.ask_first_until).await?;
        let furnished = async {
            seals::check(&store, seal_keys.as_ref()).await?;
            let gate = owned_gate(&store, gate, &settings).await?;
            // Only the owner of the service's database opens the sandbox's.
            let sandbox = match way {
                Way::Sandbox => Some(InProcess::open(&beside, clock).await?),
                Way::Ledger | Way::Outside(_) => None,
            };
            Ok::<_, OpenError>((gate, sandbox))
        };
        let (gate, sandbox) = match furnished.await {
            Ok(furnished) => furnished,
            Err(refused) => {
                store.close().await;
                return Err(refused);
            }
        };
        let acquirer = match (way, &sandbox) {
            (Way::Outside(acquirer), _) => Some(acquirer),
            (_, Some(sandbox)) => Some(sandbox.acquirer()),
            (_, None) => None,
        };
        let payments = Self::of(Parts { store, settings, gate, seal_keys, metrics, acquirer, sandbox })?;
        payments.start_shifts();
        Ok(payments)
    }

    fn of(parts: Parts) -> Result<Self, OpenError> {
        let Parts { store, settings, gate, seal_keys, metrics, acquirer, sandbox } = parts;
        let keys = seal_keys.as_ref().map(SealKeys::fingerprint_keys).unwrap_or_default();
        let door = Door::new()
            .with_route("charges")
            .with_body_bytes_max(settings.limits.body_bytes_max)
            .with_fingerprint_rules(Rules { keys, ..Rules::default() });
        let alarms = Arc::<Alarms>::default();
        let observer = EngineWatch { metrics: Arc::clone(&metrics), alarms: Arc::clone(&alarms) };
        let engine = Engine::new(
            Arc::new(store.clone()),
            engine::Settings {
                realm: Some(store.realm().clone()),
                timings: settings.timings,
                seal_keys: seal_keys.map(Arc::new),
                observer: Arc::new(observer),
                random: Arc::new(Stream::new()),
                key_status: Some(post::key_status_path),
                ..engine::Settings::default()
            },
        )?;
        let outside = acquirer.map(|acquirer| {
            let told = outside::Settings {
                visibility_delay: settings.visibility_delay,
                ask_first_until: settings.ask_first_until,
                same_order: settings.same_order,
                same_order_window: settings.same_order_window,
            };
            Arc::new(Outside::new(acquirer, store.clone(), engine.clone(), Arc::clone(&metrics), told))
        });
        let warn = if outside.is_some() { copies::warn_of_asking } else { copies::warn_of_ledger };
        warn(settings.ask_first_until, store.clock().now());
        let kind = match &outside {
            None => Kind::Transactional,
            Some(outside) => Kind::Recoverable(Hook::new(Asking(Arc::clone(outside)))),
        };
        let app = App {
            engine,
            discreet_door: door.clone().with_differs(Differs::Off),
            door,
            gate,
            books: Books::new(store.clone(), settings.timings.store_timeout),
            tenants: Tenants::default(),
            metrics,
            inside: Inside::new(settings.limits.in_flight_max),
            readiness: Readiness::default(),
            scanned: AtomicBool::new(false),
            openapi: api::openapi::document_json().into(),
            outside,
            kind,
            alarms,
            sandbox,
            shifts: Mutex::default(),
            store,
            settings,
        };
        Ok(Self { app: Arc::new(app) })
    }

    fn start_shifts(&self) {
        let app = &self.app;
        let mut shifts = vec![tokio::spawn(Night::new(Arc::downgrade(app)).work())];
        if let Some(outside) = &app.outside {
            let worker = RecoveryWorker::new(app.engine.clone(), Asking(Arc::clone(outside)));
            shifts.push(tokio::spawn(worker.run(std::future::pending())));
            shifts.push(tokio::spawn(outside::confirm::watch(Arc::downgrade(outside))));
            if let Some(sandbox) = &app.sandbox {
                shifts.push(tokio::spawn(sandbox.deliveries(Arc::clone(outside)).run()));
            }
        }
        *self.lock_shifts() = shifts;
    }

    fn lock_shifts(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.app.shifts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The public API: `/v1`, `/healthz`, `/readyz`, `/openapi.json`.
    pub fn router(&self) -> Router {
        api::public(&self.app)
    }

    /// `/metrics` and `console` on an address of their own, behind the operator role.
    ///
    /// The console's handlers find an [`Extension`](axum::Extension) of [`Caller`](crate::auth::Caller), whose tenant
    /// they ask [`Payments::books`] about.
    pub fn admin_router(&self, console: Router) -> Router {
        api::with_unknown(&self.app, api::admin(&self.app, console))
    }

    /// Both on one address.
    pub fn router_with_admin(&self, console: Router) -> Router {
        self.router().merge(api::admin(&self.app, console))
    }

    /// Typed questions about charges, ledger and keys.
    #[must_use]
    pub fn books(&self) -> Books {
        self.app.books.clone()
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &SqliteStore {
        &self.app.store
    }

    /// The deployment's name.
    #[must_use]
    pub fn realm(&self) -> &Realm {
        self.app.store.realm()
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.app.settings
    }

    /// Whether there are no API keys, so that every caller is the tenant `default` with every role.
    #[must_use]
    pub fn is_open_to_all(&self) -> bool {
        self.app.gate.is_open()
    }

    /// Reads the API key file anew and says how many keys it has.
    ///
    /// # Errors
    /// The file cannot be read; the keys in force stay.
    pub fn reload_api_keys(&self) -> Result<usize, KeyFileError> {
        self.app.gate.reload()
    }

    /// Asks once about everything that is due, as the recovery worker does every second: for tests and tools with a clock
    /// of their own. Nothing, with the ledger.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn recover_due(&self) -> Result<Pass, StoreError> {
        match &self.app.outside {
            Some(outside) => {
                outside.confirm_rulings().await?;
                RecoveryWorker::new(self.app.engine.clone(), Asking(Arc::clone(outside))).pass().await
            }
            None => Ok(Pass::default()),
        }
    }

    /// Settles by hand what nothing else will: asks the acquirer now, and writes the ruling down with record, charge and
    /// ledger if the acquirer does not speak against it.
    ///
    /// # Errors
    /// [`NotRuled`]: nothing is settled.
    pub async fn settle_by_hand(&self, order: ByHand) -> Result<Ruled, NotRuled> {
        match &self.app.outside {
            Some(outside) => outside.settle_by_hand(order).await,
            None => Err(NotRuled::NothingOutside),
        }
    }

    /// The sandbox in this process, where that is the acquirer.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.app.sandbox.as_ref().map(InProcess::sandbox)
    }

    /// Waits for running operations up to the attempt's deadline, ends the night shift, runs what is queued, and closes
    /// the database. Stop accepting requests first. Idempotent.
    pub async fn close(&self) {
        if let Some(sandbox) = &self.app.sandbox {
            sandbox.sandbox().stop_waiting();
        }
        let left = self.app.engine.drain(self.app.settings.timings.attempt_deadline()).await;
        if left > 0 {
            tracing::warn!(operations = left, "operations still running are left to recovery");
        }
        let shifts = std::mem::take(&mut *self.lock_shifts());
        for shift in shifts {
            shift.abort();
            // Ends with "cancelled", which is what was asked of it.
            let _ = shift.await;
        }
        if let Some(sandbox) = &self.app.sandbox {
            sandbox.close().await;
        }
        self.app.store.close().await;
    }
}

impl App {
    /// What `/healthz` says of the acquirer: its kind, without the account.
    pub(crate) fn acquirer_word(&self) -> &str {
        self.outside.as_ref().map_or("ledger", |outside| {
            let account = outside.acquirer.account().as_str();
            account.split_once(':').map_or(account, |(kind, _)| kind)
        })
    }

    /// Brings the numbers of what is not decided up to date; those of the last time stay where the store does not answer.
    pub(crate) async fn measure_undecided(&self) {
        match self.books.undecided_sums(self.settings.timings.operation_timeout).await {
            Ok(sums) => self.metrics.undecided(&sums, self.store.clock().now()),
            Err(error) => tracing::warn!(%error, "undecided operations not summed up"),
        }
    }
}

/// What a service is made of.
struct Parts {
    store: SqliteStore,
    settings: Settings,
    gate: Gate,
    seal_keys: Option<SealKeys>,
    metrics: Arc<Metrics>,
    acquirer: Option<Arc<dyn Acquirer>>,
    sandbox: Option<InProcess>,
}

/// The timings in force: with an acquirer outside, its timeout is among them (P13).
fn timings(settings: &Settings, way: &Way) -> Result<Timings, Contradiction> {
    if let Way::Ledger = way {
        settings.timings.check()?;
        return Ok(settings.timings);
    }
    let timings = settings.timings_outside()?;
    if timings.outside_timeout < settings.acquirer_timeout {
        tracing::warn!(
            asked = ?settings.acquirer_timeout,
            used = ?timings.outside_timeout,
            "the acquirer's timeout is cut down to what an attempt has room for; a longer operation timeout makes more"
        );
    }
    Ok(timings)
}

/// The gate that knows who owns `default`.
async fn owned_gate(store: &SqliteStore, gate: Gate, settings: &Settings) -> Result<Gate, OpenError> {
    let Some(path) = settings.api_keys_file.as_deref() else { return Ok(gate) };
    match owner::settle(store, settings.default_tenant.clone()).await {
        Ok(owner) if owner == settings.default_tenant => Ok(gate),
        Ok(owner) => Ok(Gate::with_keys(path, owner)?),
        Err(Unsettled::Conflict(conflict)) => Err(OpenError::DefaultTenant(conflict)),
        Err(Unsettled::Store(error)) => Err(OpenError::Read(error)),
    }
}

impl fmt::Debug for Payments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payments").field("settings", &self.app.settings).finish_non_exhaustive()
    }
}
