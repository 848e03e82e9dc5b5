//! When to stop sending to a host that is down, and how to find out that it is back (P33).
//!
//! 1. Closed: everything passes. So many failures in a row open it; a success resets the row; what is neutral, like a
//!    declined card or a conflict, neither counts nor resets, for it says nothing about the host's health.
//! 2. Open: nothing passes until its time is over.
//! 3. Half-open: one probe at a time, and only an operation that is safe to repeat. A probe is sent to a host that may
//!    execute it and then fail again: the one kind of request whose answer is likeliest to be lost.
//! 4. A probe that never comes back has a lease. Whoever asks after its end gets the place.
//! 5. What was admitted before the state changed is not counted after it: an answer from before the outage closes
//!    nothing, a timeout from before the recovery opens nothing.
//!
//! What breaks it in deployment: a host that is only ever sent operations without a key gets no probe and stays shut.
//! Give them keys, or use no breaker there.

use core::time::Duration;

use super::attempt::{Class, Nature};
use crate::time::Time;

/// What a breaker tolerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerLimits {
    /// Failures in a row that open it; 0 is read as 1.
    pub failures: u32,
    /// How long nothing passes.
    pub open_for: Duration,
    /// How long a probe may hold its place. The time of an attempt is a good choice.
    pub probe_lease: Duration,
}

impl Default for BreakerLimits {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(5), probe_lease: Duration::from_secs(30) }
    }
}

/// A host's breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    limits: BreakerLimits,
    state: State,
    /// Raised whenever tickets given out before must not count any more.
    epoch: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Time },
    HalfOpen { probe_until: Option<Time> },
}

/// Leave for one attempt. It is given back with [`Breaker::settle`], or with [`Breaker::abandon`] if the attempt was
/// dropped; a lost ticket of a probe frees its place when the lease is over.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a probe holds its place until its ticket is given back"]
pub struct Ticket {
    epoch: u64,
}

/// Nothing passes for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shut {
    /// When it is worth asking again.
    pub retry_after: Duration,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(limits: BreakerLimits) -> Self {
        Self { limits, state: State::Closed { failures: 0 }, epoch: 0 }
    }

    /// Asks for leave to make an attempt.
    ///
    /// # Errors
    /// The breaker is open, or half-open and this attempt cannot be its probe. Nothing may be sent.
    pub fn admit(&mut self, nature: Nature, now: Time) -> Result<Ticket, Shut> {
        match self.state {
            State::Closed { .. } => Ok(Ticket { epoch: self.epoch }),
            State::Open { until } | State::HalfOpen { probe_until: Some(until) } if now < until => {
                Err(Shut { retry_after: until.since(now).min(self.limits.open_for) })
            }
            _ if !nature.is_safe_to_repeat() => Err(Shut { retry_after: self.limits.open_for }),
            _ => Ok(self.probe(now)),
        }
    }

    /// The attempt ended.
    pub fn settle(&mut self, ticket: Ticket, class: Class, now: Time) {
        if ticket.epoch != self.epoch {
            return;
        }
        match (self.state, class) {
            (State::Closed { .. }, Class::Success) => self.state = State::Closed { failures: 0 },
            (State::Closed { failures }, Class::Failure)
                if failures.saturating_add(1) < self.limits.failures =>
            {
                self.state = State::Closed { failures: failures + 1 };
            }
            (State::Closed { .. }, Class::Neutral) | (State::Open { .. }, _) => {}
            (State::Closed { .. } | State::HalfOpen { .. }, Class::Failure) => {
                self.enter(State::Open { until: now.plus(self.limits.open_for) });
            }
            (State::HalfOpen { .. }, Class::Success) => self.enter(State::Closed { failures: 0 }),
            (State::HalfOpen { .. }, Class::Neutral) => self.enter(State::HalfOpen { probe_until: None }),
        }
    }

    /// The attempt was dropped, cancelled, or panicked: it says nothing, and a probe frees its place.
    pub fn abandon(&mut self, ticket: Ticket, now: Time) {
        self.settle(ticket, Class::Neutral, now);
    }

    /// Whether attempts pass without being probes.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    fn probe(&mut self, now: Time) -> Ticket {
        self.enter(State::HalfOpen { probe_until: Some(now.plus(self.limits.probe_lease)) });
        Ticket { epoch: self.epoch }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_micros(0);

    fn settle(breaker: &mut Breaker, status: u16, now: Time) {
        let ticket = breaker.admit(Nature::Keyed, now).unwrap();
        breaker.settle(ticket, Class::of_status(status), now);
    }

    fn opened() -> (Breaker, Time) {
        let limits = BreakerLimits::default();
        let mut breaker = Breaker::new(limits);
        for _ in 0..limits.failures {
            settle(&mut breaker, 503, START);
        }
        assert!(breaker.admit(Nature::Keyed, START).is_err());
        (breaker, START.plus(limits.open_for))
    }

    #[test]
    fn c75_declines_never_open_it() {
        let mut breaker = Breaker::new(BreakerLimits::default());
        for _ in 0..50 {
            settle(&mut breaker, 402, START);
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn c75_what_is_neutral_does_not_break_the_row_of_failures() {
        let mut breaker = Breaker::new(BreakerLimits::default());
        for status in [503, 503, 503, 503, 422] {
            settle(&mut breaker, status, START);
        }
        assert!(breaker.is_closed());
        settle(&mut breaker, 503, START);
        assert!(!breaker.is_closed());
    }

    #[test]
    fn p33_a_success_breaks_the_row_of_failures() {
        let mut breaker = Breaker::new(BreakerLimits::default());
        for status in [503, 504, 500, 502, 204, 503, 503, 503, 503] {
            settle(&mut breaker, status, START);
        }
        assert!(breaker.is_closed());
    }

    #[test]
    fn c75_half_open_stays_on_400_closes_on_201_opens_on_503() {
        let (mut breaker, later) = opened();
        settle(&mut breaker, 400, later);
        assert!(!breaker.is_closed());
        settle(&mut breaker, 503, later);
        assert!(breaker.admit(Nature::Keyed, later).is_err());
        let later = later.plus(BreakerLimits::default().open_for);
        settle(&mut breaker, 201, later);
        assert!(breaker.is_closed());
    }

    #[test]
    fn p33_half_open_lets_one_probe_through_and_only_what_is_safe_to_repeat() {
        let (mut breaker, later) = opened();
        assert!(breaker.admit(Nature::Bare, later).is_err());
        let probe = breaker.admit(Nature::Safe, later).unwrap();
        assert!(breaker.admit(Nature::Keyed, later).is_err());
        breaker.abandon(probe, later);
        assert!(breaker.admit(Nature::Keyed, later).is_ok());
    }

    #[test]
    fn p33_a_probe_that_hangs_loses_its_place_and_its_say() {
        let (mut breaker, later) = opened();
        let hung = breaker.admit(Nature::Keyed, later).unwrap();
        let later = later.plus(BreakerLimits::default().probe_lease);
        let second = breaker.admit(Nature::Keyed, later).unwrap();
        breaker.settle(hung, Class::Success, later);
        assert!(!breaker.is_closed());
        breaker.settle(second, Class::Success, later);
        assert!(breaker.is_closed());
    }

    #[test]
    fn p33_answers_from_before_the_outage_close_nothing() {
        let mut breaker = Breaker::new(BreakerLimits::default());
        let early = breaker.admit(Nature::Keyed, START).unwrap();
        for _ in 0..5 {
            settle(&mut breaker, 503, START);
        }
        breaker.settle(early, Class::Success, START);
        assert!(breaker.admit(Nature::Keyed, START).is_err());
    }
}
