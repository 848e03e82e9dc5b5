//! The loop: what happens next, until nothing does.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use unavez_core::{
    retry::{Answer, Ended, Nature, Ticket},
    time::Time,
};

use super::{
    Load, Outcome, Plan,
    callers::{Callers, Then},
    server::{Asks, Job, Reply, Request, Server},
};
use crate::{Error, progress::Progress, random::PythonRandom};

/// After so many events the runtime is asked whether somebody wants this to stop.
const EVENTS_AT_A_TIME: u64 = 4_096;

/// What happens at a moment.
#[derive(Debug)]
enum Event {
    /// An order is placed, or taken from the outbox.
    Begin(usize),
    /// An attempt of an order leaves.
    Send(usize),
    /// A program asks how the server is, if its breaker wants to know.
    Probe(usize),
    /// A request reaches the door.
    Arrive(Request),
    /// A worker is done.
    Worked(Job),
    /// An answer, or the refused connection, reaches its caller.
    Ended(Request, Ended),
}

/// An event and its place: by time, then in the order of planning.
#[derive(Debug)]
struct Planned {
    at: Time,
    place: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.place).cmp(&(other.at, other.place))
    }
}

struct Crowd<'a> {
    plan: &'a Plan,
    progress: &'a dyn Progress,
    agenda: BinaryHeap<Reverse<Planned>>,
    planned: u64,
    callers: Callers,
    server: Server,
    /// Which answers get lost.
    losses: PythonRandom,
    /// What probes of programs, which are no orders, hold of their breakers.
    health: HashMap<u64, Ticket>,
    attempts: u64,
    outcome: Outcome,
}

/// Lets a plan happen. A step of progress is an order that was answered.
///
/// # Errors
///
/// Broken: the store or the decision table did what they should not.
pub(crate) async fn run(plan: &Plan, progress: &dyn Progress) -> Result<Outcome, Error> {
    let mut crowd = Crowd::new(plan, progress);
    let mut events = 0_u64;
    while let Some(Reverse(next)) = crowd.agenda.pop().filter(|Reverse(next)| next.at <= plan.until) {
        crowd.happen(next.event, next.at).await?;
        events += 1;
        if events.is_multiple_of(EVENTS_AT_A_TIME) {
            tokio::task::yield_now().await;
        }
    }
    Ok(crowd.end())
}

impl<'a> Crowd<'a> {
    fn new(plan: &'a Plan, progress: &'a dyn Progress) -> Self {
        let orders = plan.orders.len();
        let outcome = Outcome {
            attempts: 0,
            arrived: 0,
            first_attempts: 0,
            repeats: 0,
            held_back: 0,
            resumed: 0,
            load: Load::watched_from(plan.line.until),
            ledger: Vec::new(),
            states: Vec::new(),
            turns: Vec::new(),
            probes: 0,
        };
        let mut crowd = Self {
            plan,
            progress,
            agenda: BinaryHeap::new(),
            planned: 0,
            callers: Callers::new(plan.habits, plan.seed, orders, plan.processes),
            server: Server::open(plan.server, plan.memory, orders),
            losses: PythonRandom::new(u128::from(plan.seed) + 1),
            health: HashMap::new(),
            attempts: 0,
            outcome,
        };
        for (order, &at) in plan.orders.iter().enumerate() {
            crowd.plan_at(at, Event::Begin(order));
        }
        crowd.plan_probes();
        crowd
    }

    /// Where orders are not safe to repeat, programs have to ask how the server is.
    fn plan_probes(&mut self) {
        let Some(limits) = self.plan.habits.breaker.filter(|_| self.plan.habits.nature == Nature::Bare)
        else {
            return;
        };
        for process in 0..self.plan.processes as usize {
            self.plan_at(super::START.plus(limits.open_for), Event::Probe(process));
        }
    }

    fn plan_at(&mut self, at: Time, event: Event) {
        self.agenda.push(Reverse(Planned { at, place: self.planned, event }));
        self.planned += 1;
    }

    async fn happen(&mut self, event: Event, now: Time) -> Result<(), Error> {
        match event {
            Event::Begin(order) => self.begin(order, now),
            Event::Send(order) => self.send(order, now),
            Event::Probe(process) => self.probe(process, now),
            Event::Arrive(request) => self.arrive(request, now).await?,
            Event::Worked(job) => {
                let reply = self.server.finish(job, now).await?;
                self.answer(job.request, reply, now);
                self.work(now).await?;
            }
            Event::Ended(request, ended) => self.ended(request, &ended, now),
        }
        Ok(())
    }

    fn begin(&mut self, order: usize, now: Time) {
        let then = self.callers.begin(order, now);
        self.follow(order, then, now);
    }

    fn send(&mut self, order: usize, now: Time) {
        match self.callers.send(order, self.attempts, now) {
            Ok(leave) => {
                self.outcome.attempts += 1;
                self.outcome.first_attempts += u64::from(leave.is_first);
                self.outcome.repeats += u64::from(!leave.is_first);
                self.outcome.probes += u64::from(leave.is_probe);
                self.transmit(Asks::Charge { order, probe: leave.is_probe }, leave.timeout, now);
            }
            Err(shut) => {
                self.outcome.held_back += 1;
                let then = self.callers.after(order, &Ended::NotSent { wait: Some(shut.retry_after) }, now);
                self.follow(order, then, now);
            }
        }
    }

    fn probe(&mut self, process: usize, now: Time) {
        if let Some(ticket) = self.callers.probe(process, now) {
            self.health.insert(self.attempts, ticket);
            self.outcome.probes += 1;
            self.transmit(Asks::Health { process }, self.plan.habits.policy.attempt_timeout, now);
        }
        // Every second is often enough: the breaker says when it is time.
        self.plan_at(now.plus(Duration::from_secs(1)), Event::Probe(process));
    }

    /// On its way: to the door, or to where the line is cut.
    fn transmit(&mut self, asks: Asks, timeout: Duration, now: Time) {
        let request = Request { attempt: self.attempts, asks };
        self.attempts += 1;
        let at_the_door = now.plus(self.plan.line.latency);
        self.outcome.load.count(at_the_door);
        if self.plan.line.refuses(at_the_door) {
            let heard = at_the_door.plus(self.plan.line.latency);
            return self.plan_at(heard, Event::Ended(request, Ended::NotSent { wait: None }));
        }
        self.outcome.arrived += 1;
        self.plan_at(at_the_door, Event::Arrive(request));
        self.plan_at(now.plus(timeout), Event::Ended(request, Ended::Cut));
    }

    async fn arrive(&mut self, request: Request, now: Time) -> Result<(), Error> {
        if let Some(reply) = self.server.arrive(request) {
            self.answer(request, reply, now);
        }
        self.work(now).await
    }

    async fn work(&mut self, now: Time) -> Result<(), Error> {
        while let Some((job, length)) = self.server.begin(now).await? {
            let length = length.saturating_mul(self.plan.line.slowness(now));
            self.plan_at(now.plus(length), Event::Worked(job));
        }
        Ok(())
    }

    fn answer(&mut self, request: Request, reply: Reply, now: Time) {
        let drawn = self.losses.random();
        if !self.plan.line.loses(now, drawn) {
            let heard = now.plus(self.plan.line.latency);
            self.plan_at(heard, Event::Ended(request, Ended::Answered(reply.read())));
        }
    }

    fn ended(&mut self, request: Request, ended: &Ended, now: Time) {
        match request.asks {
            Asks::Charge { order, .. } => {
                let then = self.callers.ended(order, request.attempt, ended, now);
                self.follow(order, then, now);
            }
            Asks::Health { process } => {
                if let Some(ticket) = self.health.remove(&request.attempt) {
                    self.callers.settle(process, ticket, ended.class(), now);
                }
            }
        }
    }

    fn follow(&mut self, order: usize, then: Then, now: Time) {
        match then {
            Then::Send(after) => self.plan_at(now.plus(after), Event::Send(order)),
            Then::Resume(after) => {
                self.outcome.resumed += 1;
                self.plan_at(now.plus(after), Event::Begin(order));
            }
            Then::Served => self.progress.step(),
            Then::Nothing => {}
        }
    }

    fn end(self) -> Outcome {
        let (states, turns) = self.callers.into_states();
        Outcome { states, turns, ledger: self.server.into_ledger(), ..self.outcome }
    }
}

impl Reply {
    /// As a caller reads it. One whose server keeps nothing has to believe a bare 201 just as well, so both are read as
    /// the outcome. Nobody asks for a wait: the waits that are compared are the callers' own.
    fn read(self) -> Answer {
        match self {
            Self::Charged => Answer::recorded(201),
            Self::InProgress => Answer { retryable: Some(true), ..Answer::of_status(409) },
            Self::Healthy => Answer::of_status(200),
            Self::Full => Answer::of_status(503),
        }
    }
}
