//! A worker: takes what is due, sends it through the client, and writes down what came of it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use unavez_core::retry::Backoff;

use super::error::OutboxError;
use super::lease::{Lease, Leased, Settlement, Taken};
use super::{Outbox, desk};
use crate::client::Client;
use crate::operation::Operation;
use crate::transport::Transport;

/// How long an idle worker goes without a look: another process may have put something.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often old answers are looked for.
const PURGE_EVERY: Duration = Duration::from_secs(600);

/// The waits between calls of one operation, [`Backoff`]'s rule: up to 1 s, 2 s, 4 s ... 5 min.
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(300) };

/// The waits after errors of the database.
const ERROR_BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(30) };

/// Told of what happens.
type Listener = Arc<dyn Fn(&Happening<'_>) + Send + Sync>;

/// Sends the operations of one tenant with one client. Any number of workers, in any number of processes, can share an
/// outbox; more than one in a process only helps where they have different clients.
pub struct Worker<T> {
    outbox: Outbox,
    client: Client<T>,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    lease: Duration,
    backoff: Backoff,
    calls_max: usize,
    calls_per_host_max: usize,
    listener: Listener,
}

/// What became of an operation that a worker took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its key.
    pub key: Box<str>,
    /// How it ended, this time.
    pub end: End,
}

/// How it ended, this time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It took effect, and its answer is stored.
    Done,
    /// It did not and never will, and its answer is stored.
    Refused,
    /// Nobody knows, and it is not sent any more.
    Unknown {
        /// Why.
        reason: String,
    },
    /// It is tried again.
    Later {
        /// After this wait.
        wait: Duration,
        /// Why.
        reason: String,
    },
    /// Another worker has taken it over meanwhile, and what this one learnt is not stored. Nothing is wrong: the key is
    /// the same.
    LeaseLost,
}

/// What a running worker tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Happening<'a> {
    /// A call ended.
    Delivered(&'a Delivered),
    /// The outbox could not be read or written. The worker goes on after a wait, and nothing is lost: what was being
    /// sent is sent again, under the same key, when its lease is over.
    Failed(&'a OutboxError),
}

impl<T> Worker<T> {
    pub(super) fn new(outbox: Outbox, client: Client<T>) -> Self {
        let settings = Settings {
            lease: Duration::from_secs(15),
            backoff: BACKOFF,
            calls_max: 16,
            calls_per_host_max: 8,
            listener: Arc::new(|_| {}),
        };
        Self { outbox, client, settings }
    }

    /// How long an operation is left to a worker that says nothing [default: 15 s]. Living ones renew it three times as
    /// often; so this is how long an operation rests whose process was killed.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// The waits between calls of one operation [default: up to 1 s, 2 s ... 5 min].
    #[must_use]
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Calls at a time [default: 16], and of these to one host [default: 8]. 0 is read as 1.
    #[must_use]
    pub fn with_calls(mut self, all: usize, per_host: usize) -> Self {
        (self.settings.calls_max, self.settings.calls_per_host_max) = (all.max(1), per_host.max(1));
        self
    }

    /// Who is told what happens, for logs and metrics. It runs between calls, so it should be quick.
    #[must_use]
    pub fn with_listener(mut self, listener: impl Fn(&Happening<'_>) + Send + Sync + 'static) -> Self {
        self.settings.listener = Arc::new(listener);
        self
    }
}

impl<T: Transport + 'static> Worker<T> {
    /// Sends what is due, and goes on until it is dropped.
    ///
    /// Dropping the future cuts off the calls under way: each may have been received, and is sent again under its key when
    /// its lease is over, by this process or the next.
    pub async fn run(&self) -> Infallible {
        let mut calls = Calls::default();
        let mut woken = self.outbox.shared.woken.subscribe();
        let (mut failures, mut purge_at) = (0, tokio::time::Instant::now());
        loop {
            let busy = calls.busy_hosts(self.settings.calls_per_host_max);
            let taken = if calls.tasks.len() < self.settings.calls_max {
                self.take(&busy).await
            } else {
                Ok(Taken::Nothing { due_in: None })
            };
            let wait = match taken {
                Ok(Taken::Nothing { due_in }) => due_in.map_or(LOOK_EVERY, |due_in| due_in.min(LOOK_EVERY)),
                Ok(taken) => {
                    failures = 0;
                    calls.add(self.clone(), taken);
                    continue;
                }
                Err(error) => {
                    failures += 1;
                    self.tell(&Happening::Failed(&error));
                    ERROR_BACKOFF.wait(failures, self.client.random()) + ERROR_BACKOFF.base
                }
            };
            if purge_at <= tokio::time::Instant::now() {
                purge_at += self.purge().await;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = woken.changed() => {}
                () = calls.end_of_one() => {}
            }
        }
    }

    /// Takes one operation that is due, and calls it; `None`: none is due.
    ///
    /// Dropping the future leaves the operation to whoever comes when its lease is over.
    ///
    /// # Errors
    /// The outbox cannot be read or written. If that was after the call, the operation is sent again.
    pub async fn deliver_one(&self) -> Result<Option<Delivered>, OutboxError> {
        match self.take(&[]).await? {
            Taken::Nothing { .. } => Ok(None),
            taken => self.deliver(taken).await.map(Some),
        }
    }

    async fn take(&self, busy_hosts: &[Box<str>]) -> Result<Taken, OutboxError> {
        let (duration, busy_hosts) = (self.settings.lease, busy_hosts.to_vec());
        let tenant = Arc::clone(&self.outbox.tenant);
        let taken = self.outbox.in_transaction("taking an operation from", move |db, shared| {
            let lease = Lease { tenant: &tenant, duration, busy_hosts: &busy_hosts };
            Ok(desk::take(db, &shared.clock, &lease)?)
        });
        taken.await
    }

    async fn deliver(&self, taken: Taken) -> Result<Delivered, OutboxError> {
        let (leased, settlement) = match taken {
            Taken::Operation(leased, operation) => {
                let settlement = self.call(&leased, &operation).await;
                (leased, settlement)
            }
            Taken::Tampered(leased, _) => (leased, Settlement::tampered()),
            Taken::Nothing { .. } => unreachable!("its callers keep it"),
        };
        let key = leased.key.clone();
        let stored = self.outbox.in_transaction("storing a result in", move |db, shared| {
            let is_held = desk::settle(db, &shared.clock, &leased, &settlement)?;
            Ok(if is_held { End::of(settlement) } else { End::LeaseLost })
        });
        Ok(Delivered { key, end: stored.await? })
    }

    /// Calls, and renews the lease meanwhile. A lease that is lost ends no call: what is on its way is on its way.
    async fn call(&self, leased: &Leased, operation: &Operation) -> Settlement {
        let mut call = pin!(self.client.call(operation));
        loop {
            if let Ok(outcome) = timeout(self.settings.lease / 3, &mut call).await {
                let (before, random) = (operation.parts().received, self.client.random());
                return Settlement::of(outcome, before, self.settings.backoff, leased.lease, random);
            }
            if let Err(error) = self.renew(leased).await {
                self.tell(&Happening::Failed(&error));
            }
        }
    }

    async fn renew(&self, leased: &Leased) -> Result<bool, OutboxError> {
        let (leased, lease) = (leased.clone(), self.settings.lease);
        let renewed = self.outbox.in_transaction("renewing a lease in", move |db, shared| {
            Ok(desk::renew(db, &shared.clock, &leased, lease)?)
        });
        renewed.await
    }

    /// When to purge again: soon, where more was left than one transaction deletes.
    async fn purge(&self) -> Duration {
        match self.outbox.purge().await {
            Ok(purged) if purged >= desk::PURGE_MAX => LOOK_EVERY,
            Ok(_) => PURGE_EVERY,
            Err(error) => {
                self.tell(&Happening::Failed(&error));
                PURGE_EVERY
            }
        }
    }

    fn tell(&self, happening: &Happening<'_>) {
        (self.settings.listener)(happening);
    }
}

/// The calls under way. They end with it.
#[derive(Default)]
struct Calls {
    tasks: JoinSet<()>,
    hosts: HashMap<Id, Box<str>>,
}

impl Calls {
    fn add<T: Transport + 'static>(&mut self, worker: Worker<T>, taken: Taken) {
        let host = match &taken {
            Taken::Operation(leased, _) | Taken::Tampered(leased, _) => leased.host.clone(),
            Taken::Nothing { .. } => return,
        };
        let task = self.tasks.spawn(async move {
            match worker.deliver(taken).await {
                Ok(delivered) => worker.tell(&Happening::Delivered(&delivered)),
                Err(error) => worker.tell(&Happening::Failed(&error)),
            }
        });
        self.hosts.insert(task.id(), host);
    }

    /// Those that have their share of the calls.
    fn busy_hosts(&self, calls_max: usize) -> Vec<Box<str>> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for host in self.hosts.values() {
            *counts.entry(host).or_default() += 1;
        }
        let busy = counts.into_iter().filter(|(_, calls)| *calls >= calls_max);
        busy.map(|(host, _)| host.into()).collect()
    }

    /// A call that panicked has ended as well; its lease runs out.
    async fn end_of_one(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        self.hosts.remove(&id);
    }
}

impl End {
    fn of(settlement: Settlement) -> Self {
        match settlement {
            Settlement::Done(_) => Self::Done,
            Settlement::Refused(_) => Self::Refused,
            Settlement::Unknown { reason, .. } => Self::Unknown { reason },
            Settlement::Later { wait, reason, .. } => Self::Later { wait, reason },
        }
    }
}

impl<T> Clone for Worker<T> {
    fn clone(&self) -> Self {
        Self { outbox: self.outbox.clone(), client: self.client.clone(), settings: self.settings.clone() }
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        f.debug_struct("Worker")
            .field("outbox", &self.outbox)
            .field("lease", &settings.lease)
            .field("backoff", &settings.backoff)
            .field("calls_max", &settings.calls_max)
            .field("calls_per_host_max", &settings.calls_per_host_max)
            .finish_non_exhaustive()
    }
}
