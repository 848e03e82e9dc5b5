//! What all calls to one host share: budget, breaker, bulkhead (P31, P33).
//!
//! The rules are core's; here they stand under one lock, and their permits and tickets are guards. A guard that is
//! dropped - because the call was cancelled, because something panicked - gives back what it holds.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use http::Uri;
use unavez_core::retry::{
    Breaker, BreakerLimits, Budget, BudgetLimits, Bulkhead, BulkheadLimits, Class, Entry, Nature, Place,
    Shut, Ticket,
};
use unavez_core::time::Time;

use crate::clock::Clock;

/// What each host of a client gets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostLimits {
    pub(crate) budget: BudgetLimits,
    pub(crate) breaker: BreakerLimits,
    pub(crate) bulkhead: BulkheadLimits,
}

/// The hosts that a client has sent to. None is forgotten: a few hundred bytes each, and a client talks to few.
#[derive(Debug)]
pub(crate) struct Hosts {
    limits: HostLimits,
    by_authority: RwLock<HashMap<Box<str>, Arc<Host>>>,
}

impl Hosts {
    pub(crate) fn new(limits: HostLimits) -> Self {
        Self { limits, by_authority: RwLock::default() }
    }

    pub(crate) fn of(&self, url: &Uri) -> Arc<Host> {
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let known = self.by_authority.read().unwrap_or_else(PoisonError::into_inner).get(authority).cloned();
        known.unwrap_or_else(|| self.add(authority))
    }

    fn add(&self, authority: &str) -> Arc<Host> {
        let mut hosts = self.by_authority.write().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.entry(authority.into()).or_insert_with(|| Arc::new(Host::new(self.limits)));
        Arc::clone(host)
    }
}

/// One host.
#[derive(Debug)]
pub(crate) struct Host(Mutex<State>);

#[derive(Debug)]
struct State {
    budget: Budget,
    breaker: Breaker,
    bulkhead: Bulkhead<Waker>,
}

impl Host {
    pub(crate) fn new(limits: HostLimits) -> Self {
        Self(Mutex::new(State {
            budget: Budget::new(limits.budget),
            breaker: Breaker::new(limits.breaker),
            bulkhead: Bulkhead::new(limits.bulkhead),
        }))
    }

    /// Decides something that may cost a retry.
    pub(crate) fn with_budget<T>(&self, decide: impl FnOnce(&mut Budget) -> T) -> T {
        decide(&mut self.state().budget)
    }

    /// Waits for a permit; `None`: too many wait already. Dropping the future gives up the place, and passes on a permit
    /// that was handed over meanwhile.
    pub(crate) fn enter(&self) -> Entering<'_> {
        Entering { host: self, place: None }
    }

    /// Asks the breaker.
    pub(crate) fn admit<'h>(&'h self, nature: Nature, clock: &'h Clock) -> Result<Leave<'h>, Shut> {
        let ticket = self.state().breaker.admit(nature, clock.now())?;
        Ok(Leave { host: self, clock, ticket: Some(ticket) })
    }

    fn settle(&self, ticket: Ticket, class: Class, now: Time) {
        self.state().breaker.settle(ticket, class, now);
    }

    /// Wakes outside the lock: a waker runs code of others.
    fn leave(&self) {
        let told = self.state().bulkhead.leave();
        told.into_iter().for_each(Waker::wake);
    }

    fn give_up(&self, place: Place) {
        let told = self.state().bulkhead.give_up(place);
        told.into_iter().for_each(Waker::wake);
    }

    /// No code of others runs under the lock but the cloning of wakers, so a poisoned one still guards whole values.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a permit.
pub(crate) struct Entering<'h> {
    host: &'h Host,
    /// Where it stands in the queue, once it does.
    place: Option<Place>,
}

impl<'h> Future for Entering<'h> {
    type Output = Option<Permit<'h>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let host = self.host;
        let mut state = host.state();
        if let Some(place) = self.place {
            if let Some(waker) = state.bulkhead.waiter(place) {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
            self.place = None;
            return Poll::Ready(Some(Permit { host }));
        }
        match state.bulkhead.enter(|| cx.waker().clone()) {
            Entry::Admitted => Poll::Ready(Some(Permit { host })),
            Entry::Full => Poll::Ready(None),
            Entry::Queued(place) => {
                self.place = Some(place);
                Poll::Pending
            }
        }
    }
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.host.give_up(place);
        }
    }
}

/// One of the bulkhead's permits.
pub(crate) struct Permit<'h> {
    host: &'h Host,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.host.leave();
    }
}

/// The breaker's leave for one attempt.
pub(crate) struct Leave<'h> {
    host: &'h Host,
    clock: &'h Clock,
    ticket: Option<Ticket>,
}

impl Leave<'_> {
    /// The attempt ended.
    pub(crate) fn settle(mut self, class: Class) {
        self.give_back(class);
    }

    fn give_back(&mut self, class: Class) {
        if let Some(ticket) = self.ticket.take() {
            self.host.settle(ticket, class, self.clock.now());
        }
    }
}

/// An attempt that was dropped says nothing about the host.
impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.give_back(Class::Neutral);
    }
}
