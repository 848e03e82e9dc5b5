//! The client: settings, hosts and a transport, and the calls made with them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use unavez_core::retry::{Backoff, BreakerLimits, BudgetLimits, BulkheadLimits, Policy};

use crate::clock::{Clock, Random};
use crate::compose::Composed;
use crate::host::{HostLimits, Hosts};
use crate::listen::Listen;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::preset::Preset;
use crate::run::Run;
use crate::transport::Transport;
use crate::unfit::Unfit;
use crate::wire::Wire;

/// The largest answer that is read, unless another limit is set.
const ANSWER_BYTES_MAX: usize = 2 << 20;

/// Calls operations until each is done, refused or unknown. Clones share hosts and connections.
pub struct Client<T = Wire> {
    shared: Arc<Shared<T>>,
}

/// What all clones of a client share.
pub(crate) struct Shared<T> {
    pub(crate) settings: Settings,
    pub(crate) hosts: Hosts,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) transport: T,
}

/// What a client was told.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) preset: Preset,
    pub(crate) policy: Policy,
    pub(crate) headers: HeaderMap,
    pub(crate) answer_bytes_max: usize,
    random: Option<fn() -> u64>,
    hosts: HostLimits,
}

impl Client {
    /// A client with the defaults, over HTTP/1.1 and TLS.
    ///
    /// # Errors
    /// The system's trust store cannot be read, or is empty.
    pub fn new(preset: Preset) -> io::Result<Self> {
        Self::builder(preset).build()
    }

    /// Settings to change first.
    pub fn builder(preset: Preset) -> ClientBuilder {
        ClientBuilder::new(preset)
    }
}

impl<T: Transport> Client<T> {
    /// Calls an operation, and repeats it as far as that is safe and of use.
    ///
    /// Dropping the future gives back permits and probes at once and leaves the operation unknown: an attempt may be on
    /// its way. Call the same operation again to find out.
    ///
    /// # Errors
    /// The operation cannot be sent to this kind of server. Nothing was.
    pub async fn call(&self, operation: &Operation) -> Result<Outcome, Unfit> {
        self.call_heard(operation, &()).await
    }

    /// The same, with somebody who is told what happens.
    ///
    /// # Errors
    /// The operation cannot be sent to this kind of server. Nothing was.
    pub async fn call_heard(
        &self,
        operation: &Operation,
        listener: &(dyn Listen + '_),
    ) -> Result<Outcome, Unfit> {
        let settings = &self.shared.settings;
        let request = Composed::of(operation, &settings.preset, &settings.headers)?;
        Ok(Run::new(&self.shared, operation, request, listener).perform().await)
    }

    /// What the server requires.
    #[must_use]
    pub fn preset(&self) -> &Preset {
        &self.shared.settings.preset
    }
}

#[cfg(feature = "outbox")]
impl<T> Client<T> {
    /// Uniform over all of `u64`.
    pub(crate) fn random(&self) -> u64 {
        self.shared.random.bits()
    }
}

impl<T> Clone for Client<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// Shows no header: credentials stand there.
impl<T> fmt::Debug for Client<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.shared.settings;
        f.debug_struct("Client")
            .field("preset", &settings.preset.name)
            .field("policy", &settings.policy)
            .finish_non_exhaustive()
    }
}

/// The settings of a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    settings: Settings,
}

impl ClientBuilder {
    pub(crate) fn new(preset: Preset) -> Self {
        let policy =
            Policy { asks: preset.key_status.is_some(), retention: preset.retention, ..Policy::default() };
        let mut settings = Settings {
            preset,
            policy,
            headers: HeaderMap::new(),
            answer_bytes_max: ANSWER_BYTES_MAX,
            random: None,
            hosts: HostLimits::default(),
        };
        settings.hosts.breaker.probe_lease = policy.attempt_timeout;
        Self { settings }
    }

    /// Sends at most, the first included [default: 4].
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.settings.policy.attempts = attempts;
        self
    }

    /// How long one attempt may take [default: 30 s]. A probe of the breaker holds its place as long.
    pub fn with_attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.policy.attempt_timeout = timeout;
        self.settings.hosts.breaker.probe_lease = timeout;
        self
    }

    /// How long a call may take, waits included [default: 120 s].
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.settings.policy.deadline = deadline;
        self
    }

    /// The waits [default: up to 200 ms, 400 ms ... 20 s].
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.settings.policy.backoff = backoff;
        self
    }

    /// How much of a server's `Retry-After` is honoured [default: 60 s].
    pub fn with_wait_max(mut self, wait_max: Duration) -> Self {
        self.settings.policy.wait_max = wait_max;
        self
    }

    /// The retry budget of each host [default: 20 %, with 10 in reserve].
    pub fn with_budget(mut self, limits: BudgetLimits) -> Self {
        self.settings.hosts.budget = limits;
        self
    }

    /// The breaker of each host [default: opens after 5 failures in a row, for 5 s].
    pub fn with_breaker(mut self, limits: BreakerLimits) -> Self {
        self.settings.hosts.breaker = limits;
        self
    }

    /// The bulkhead of each host [default: 256 attempts at a time, 1024 waiting].
    pub fn with_bulkhead(mut self, limits: BulkheadLimits) -> Self {
        self.settings.hosts.bulkhead = limits;
        self
    }

    /// The largest answer that is read [default: 2 MiB]. What is larger counts as cut off.
    pub fn with_answer_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.answer_bytes_max = bytes;
        self
    }

    /// Adds a header to every request that does not have it itself: credentials, above all, which are then not stored with
    /// operations and can be mended between two calls.
    pub fn add_header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.settings.headers.append(name, value);
        self
    }

    /// Where the spread of the waits comes from, uniform over all of `u64`: for tests that repeat exactly.
    pub fn with_random(mut self, random: fn() -> u64) -> Self {
        self.settings.random = Some(random);
        self
    }

    /// A client over HTTP/1.1 and TLS.
    ///
    /// # Errors
    /// The system's trust store cannot be read, or is empty.
    pub fn build(self) -> io::Result<Client> {
        Ok(self.build_over(Wire::new()?))
    }

    /// A client over another transport.
    pub fn build_over<T: Transport>(self, transport: T) -> Client<T> {
        let (hosts, random) = (Hosts::new(self.settings.hosts), Random::new(self.settings.random));
        let shared = Shared { settings: self.settings, hosts, clock: Clock::new(), random, transport };
        Client { shared: Arc::new(shared) }
    }
}

/// Shows no header: credentials stand there.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("preset", &self.settings.preset.name).finish_non_exhaustive()
    }
}
