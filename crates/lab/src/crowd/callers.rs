//! The callers: an order each, and per program a budget and a breaker.

use std::time::Duration;

use unavez_core::{
    retry::{
        Breaker, Budget, BudgetLimits, Call, Class, Ended, Nature, Next, Reason, Received, Shut, Start,
        Ticket, Verdict,
    },
    time::Time,
};

use super::{Habits, OUTBOX, Spread};
use crate::random::PythonRandom;

/// As good as no bound: nobody sends so many.
const UNBOUNDED: BudgetLimits = BudgetLimits { percent: 0, reserve: u32::MAX, saved_max: u32::MAX };

/// A program that callers run in.
#[derive(Debug)]
struct Process {
    budget: Budget,
    breaker: Option<Breaker>,
}

/// One caller and its order.
#[derive(Debug)]
struct Caller {
    process: usize,
    call: Option<Call>,
    /// The attempt it waits for.
    awaits: Option<Awaited>,
    has_sent: bool,
    /// Whether any of its calls may have reached the server.
    received: Received,
    rests: u32,
    state: State,
}

#[derive(Debug)]
struct Awaited {
    attempt: u64,
    ticket: Option<Ticket>,
}

/// What became of an order, as its caller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No answer yet.
    Waiting,
    /// It was answered.
    Served(Time),
    /// It must not be sent again, and nobody knows what became of it.
    Unknown,
}

/// A breaker that opened or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) at: Time,
    pub(crate) opened: bool,
}

/// What a caller does after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Sends again.
    Send(Duration),
    /// Begins a new call, from its outbox.
    Resume(Duration),
    /// Nothing any more: it was answered.
    Served,
    /// Nothing.
    Nothing,
}

/// Leave to send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leave {
    pub(super) is_first: bool,
    pub(super) is_probe: bool,
    pub(super) timeout: Duration,
}

pub(super) struct Callers {
    habits: Habits,
    random: PythonRandom,
    processes: Vec<Process>,
    callers: Vec<Caller>,
    turns: Vec<Turn>,
}

impl State {
    /// When its caller had the answer.
    pub(crate) fn served_at(self) -> Option<Time> {
        match self {
            Self::Served(at) => Some(at),
            Self::Waiting | Self::Unknown => None,
        }
    }
}

impl Callers {
    pub(super) fn new(habits: Habits, seed: u64, orders: usize, processes: u32) -> Self {
        let process = || Process {
            budget: Budget::new(habits.budget.unwrap_or(UNBOUNDED)),
            breaker: habits.breaker.map(Breaker::new),
        };
        let count = processes.max(1) as usize;
        Self {
            habits,
            random: PythonRandom::new(u128::from(seed)),
            processes: (0..count).map(|_| process()).collect(),
            callers: (0..orders).map(|order| Caller::of(order % count)).collect(),
            turns: Vec::new(),
        }
    }

    /// Begins a call for an order, the first one or one from the outbox. Nothing: it must not be sent any more.
    pub(super) fn begin(&mut self, order: usize, now: Time) -> Then {
        let caller = &mut self.callers[order];
        let start = Start { nature: self.habits.nature, received: caller.received, age: Duration::ZERO };
        match Call::new(self.habits.policy, start, now) {
            Ok(call) => {
                caller.call = Some(call);
                self.processes[caller.process].budget.deposit();
                Then::Send(Duration::ZERO)
            }
            Err(_) => {
                caller.state = State::Unknown;
                Then::Nothing
            }
        }
    }

    /// Asks the breaker for leave to send this attempt, and waits for its answer from now on.
    pub(super) fn send(&mut self, order: usize, attempt: u64, now: Time) -> Result<Leave, Shut> {
        let caller = &mut self.callers[order];
        let process = &mut self.processes[caller.process];
        let (ticket, is_probe) = match &mut process.breaker {
            None => (None, false),
            Some(breaker) => {
                let is_probe = !breaker.is_closed();
                (Some(breaker.admit(self.habits.nature, now)?), is_probe)
            }
        };
        let is_first = !caller.has_sent;
        caller.has_sent = true;
        caller.awaits = Some(Awaited { attempt, ticket });
        let timeout = caller.call.as_ref().map_or(Duration::ZERO, |call| call.attempt_timeout(now));
        Ok(Leave { is_first, is_probe, timeout })
    }

    /// An attempt ended for its caller. One that is not waited for any more is answered to nobody.
    pub(super) fn ended(&mut self, order: usize, attempt: u64, ended: &Ended, now: Time) -> Then {
        let caller = &mut self.callers[order];
        let Some(awaited) = caller.awaits.take_if(|awaited| awaited.attempt == attempt) else {
            return Then::Nothing;
        };
        if let Some(ticket) = awaited.ticket {
            let process = caller.process;
            self.settle(process, ticket, ended.class(), now);
        }
        self.after(order, ended, now)
    }

    /// What the call makes of an attempt that ended, or that the breaker did not let out.
    pub(super) fn after(&mut self, order: usize, ended: &Ended, now: Time) -> Then {
        let random = self.draw();
        let caller = &mut self.callers[order];
        let Some(call) = &mut caller.call else { return Then::Nothing };
        let next = call.after(ended, &mut self.processes[caller.process].budget, random, now);
        caller.received = call.received();
        match next {
            Next::Send { after } | Next::Ask { after } => Then::Send(after),
            Next::End(Verdict::Done | Verdict::Refused) => {
                caller.call = None;
                caller.state = State::Served(now);
                Then::Served
            }
            Next::End(Verdict::Unknown(reason)) => self.rest(order, reason),
        }
    }

    fn rest(&mut self, order: usize, reason: Reason) -> Then {
        let random = self.random.bits64();
        let caller = &mut self.callers[order];
        caller.call = None;
        if reason == Reason::NoKey {
            caller.state = State::Unknown;
            return Then::Nothing;
        }
        let pause = OUTBOX.wait(caller.rests, random);
        caller.rests += 1;
        Then::Resume(pause)
    }

    /// A program whose breaker is not closed may ask how the server is: that is safe to repeat.
    pub(super) fn probe(&mut self, process: usize, now: Time) -> Option<Ticket> {
        let breaker = self.processes[process].breaker.as_mut()?;
        if breaker.is_closed() {
            return None;
        }
        breaker.admit(Nature::Safe, now).ok()
    }

    /// The breaker hears how an attempt went.
    pub(super) fn settle(&mut self, process: usize, ticket: Ticket, class: Class, now: Time) {
        let Some(breaker) = &mut self.processes[process].breaker else { return };
        let was_closed = breaker.is_closed();
        breaker.settle(ticket, class, now);
        if breaker.is_closed() != was_closed {
            self.turns.push(Turn { at: now, opened: was_closed });
        }
    }

    /// One draw per decision, whether it is used or not, so that strategies differ in nothing but what they do with it.
    fn draw(&mut self) -> u64 {
        let drawn = self.random.bits64();
        match self.habits.spread {
            Spread::Full => drawn,
            Spread::None => u64::MAX,
        }
    }

    pub(super) fn into_states(self) -> (Vec<State>, Vec<Turn>) {
        (self.callers.into_iter().map(|caller| caller.state).collect(), self.turns)
    }
}

impl Caller {
    fn of(process: usize) -> Self {
        Self {
            process,
            call: None,
            awaits: None,
            has_sent: false,
            received: Received::No,
            rests: 0,
            state: State::Waiting,
        }
    }
}
