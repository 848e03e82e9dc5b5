//! The ways of waiting that are compared.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};
use unavez_core::retry::{Backoff, BreakerLimits, BudgetLimits, Nature, Policy};

use crate::{
    Lang,
    crowd::{Habits, Spread},
};

/// A way of waiting. Each differs from the one before it in one thing; the last two add theirs to full jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// At once, until it works.
    NoBackoff,
    /// A second, every time.
    Fixed,
    /// From 200 ms on, doubled each time, up to 20 s.
    Exponential,
    /// Anywhere between nothing and that.
    FullJitter,
    /// And retries are at most a fifth of first attempts; what is left over rests in an outbox.
    FullJitterBudget,
    /// And a breaker stops sending where nothing comes back.
    FullJitterBreaker,
}

impl Strategy {
    /// All of them, from the worst to the best two.
    pub const ALL: [Self; 6] = [
        Self::NoBackoff,
        Self::Fixed,
        Self::Exponential,
        Self::FullJitter,
        Self::FullJitterBudget,
        Self::FullJitterBreaker,
    ];

    /// As JSON calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoBackoff => "no-backoff",
            Self::Fixed => "fixed",
            Self::Exponential => "exponential",
            Self::FullJitter => "full-jitter",
            Self::FullJitterBudget => "full-jitter-budget",
            Self::FullJitterBreaker => "full-jitter-breaker",
        }
    }

    /// As a table calls it.
    pub(crate) fn say(self, lang: Lang) -> &'static str {
        match self {
            Self::NoBackoff => lang.say("no backoff", "sin espera"),
            Self::Fixed => lang.say("fixed, 1 s", "fija, 1 s"),
            Self::Exponential => lang.say("exponential", "exponencial"),
            Self::FullJitter => lang.say("full jitter", "azar total"),
            Self::FullJitterBudget => lang.say("full jitter + budget", "azar total + presupuesto"),
            Self::FullJitterBreaker => lang.say("full jitter + breaker", "azar total + cortacircuitos"),
        }
    }

    /// What it is, for somebody who has never heard of it.
    pub(crate) fn explain(self, lang: Lang) -> &'static str {
        match self {
            Self::NoBackoff => lang.say("again at once, until it works", "de nuevo enseguida, hasta que funcione"),
            Self::Fixed => lang.say("again after a second, every time", "de nuevo tras un segundo, siempre"),
            Self::Exponential => lang.say(
                "0.2 s, 0.4 s, 0.8 s … 20 s: those that failed together come back together",
                "0,2 s, 0,4 s, 0,8 s … 20 s: quienes fallaron juntos vuelven juntos",
            ),
            Self::FullJitter => lang.say(
                "anywhere between nothing and that: those that failed together come back one by one",
                "en cualquier punto entre cero y eso: quienes fallaron juntos vuelven de a uno",
            ),
            Self::FullJitterBudget => lang.say(
                "retries are at most a fifth of first attempts; an order beyond that rests in the outbox for up to half a \
                 minute, then up to a minute",
                "los reintentos son a lo sumo un quinto de los primeros intentos; lo que exceda reposa en la bandeja de \
                 salida hasta medio minuto, luego hasta un minuto",
            ),
            Self::FullJitterBreaker => lang.say(
                "five failures in a row and a program sends nothing for five seconds, then one probe",
                "cinco fallos seguidos y un programa no envía nada por cinco segundos, luego una sonda",
            ),
        }
    }

    /// How callers that wait like this behave. They never give up by themselves, so all of them can be compared by when
    /// the last one is served.
    pub(crate) fn habits(self, timeout: Duration) -> Habits {
        const SECOND: Duration = Duration::from_secs(1);
        let backoff = match self {
            Self::NoBackoff => Backoff { base: Duration::ZERO, cap: Duration::ZERO },
            Self::Fixed => Backoff { base: SECOND, cap: SECOND },
            _ => Backoff::default(),
        };
        let spread = match self {
            Self::NoBackoff | Self::Fixed | Self::Exponential => Spread::None,
            Self::FullJitter | Self::FullJitterBudget | Self::FullJitterBreaker => Spread::Full,
        };
        let policy = Policy {
            attempts: u32::MAX,
            attempt_timeout: timeout,
            deadline: Duration::MAX,
            backoff,
            ..Policy::default()
        };
        let breaker = BreakerLimits { probe_lease: timeout, ..BreakerLimits::default() };
        Habits {
            policy,
            spread,
            budget: (self == Self::FullJitterBudget).then(BudgetLimits::default),
            breaker: (self == Self::FullJitterBreaker).then_some(breaker),
            nature: Nature::Keyed,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
