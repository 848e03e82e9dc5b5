//! What can happen next, and what the world is then. Edges only: each decision is core's.

use std::sync::Arc;
use std::time::Duration;

use unavez_core::answer::Conclusion;
use unavez_core::decision::{Decision, Incoming, decide};
use unavez_core::outcome::{self, Effect, Ended, Outcome, Said};
use unavez_core::record::{Cause, Change, Fence, Record, State};
use unavez_core::recovery::{self, Told, Verdict, ask_interval};
use unavez_core::settling::{self, Evidence, News, Ruling};
use unavez_core::time::Time;

use crate::acquirer::{Acquirer, Event, Name, OPERATION, Standing, View};
use crate::rule::Rule;
use crate::setting::{Operator, STEP, Setting, timings};
use crate::world::{End, OTHER, OWN, Owner, Process, Question, Reading, Row, Stage, World, finish};

/// The protocol in one setting, with at most one rule taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) setting: Setting,
    pub(crate) without: Option<Rule>,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The clock moves one step.
    Tick,
    /// A copy of the caller's request reaches a process, which may have to ask.
    Request { process: usize, view: View },
    /// A request with the same key and another body does.
    OtherRequest,
    /// The owner's create leaves.
    Send { process: usize },
    /// The owner's connection is refused.
    Refuse { process: usize },
    /// The owner stops waiting.
    GiveUp { process: usize },
    /// The acquirer's answer reaches the owner.
    Hear { process: usize },
    /// The owner writes how its attempt ended.
    Write { process: usize, store: Ack },
    /// A create arrives.
    Deliver { create: usize, standing: Standing },
    /// The acquirer decides a pending payment.
    Decide { payment: usize, standing: Standing },
    /// The worker asks.
    Look { view: View },
    /// The answer to a question comes back, and what follows from it is written.
    Answer { asker: Asker, store: Ack },
    /// The worker hears nothing it can use.
    CannotSay,
    /// A webhook arrives.
    Webhook { standing: Standing },
    /// The operator asks the acquirer and rules.
    Settle { ruling: Ruling, view: View },
    /// A process dies and comes back without memory.
    Die { process: usize },
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ack {
    Stored,
    /// Done, and its writer does not hear of it.
    Unheard,
    /// Never done.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Process(usize),
    Worker,
}

impl Protocol {
    pub(crate) fn lacks(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }

    /// Everything that might happen. What changes nothing is found out by trying.
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if world.now < Time::from_micros(0).plus(STEP * self.setting.steps) {
            actions.push(Action::Tick);
        }
        for process in 0..world.processes.len() {
            self.of_process(world, process, actions);
        }
        self.of_acquirer(world, actions);
        actions.extend(self.views(world).map(|view| Action::Look { view }));
        if world.worker.is_some() {
            actions.push(Action::CannotSay);
            actions.push(Action::Answer { asker: Asker::Worker, store: Ack::Stored });
        }
        actions.push(Action::OtherRequest);
        if self.setting.operator == Operator::Present {
            for view in self.views(world) {
                actions.push(Action::Settle { ruling: Ruling::Failed, view });
                actions.push(Action::Settle { ruling: Ruling::Done, view });
            }
        }
    }

    fn of_process(&self, world: &World, process: usize, actions: &mut Vec<Action>) {
        let Process { owner, question } = &world.processes[process];
        actions.extend(self.views(world).map(|view| Action::Request { process, view }));
        match owner.as_ref().map(|owner| owner.stage) {
            None => {}
            Some(Stage::Claimed) => {
                actions.extend([Action::Send { process }, Action::Refuse { process }]);
                actions.extend([Action::GiveUp { process }, Action::Die { process }]);
            }
            Some(Stage::Sent(_)) => {
                actions.extend([Action::Hear { process }, Action::GiveUp { process }]);
                actions.push(Action::Die { process });
            }
            Some(Stage::Ended(_)) => {
                let acks = [Ack::Stored, Ack::Unheard, Ack::Lost];
                actions.extend(acks.map(|store| Action::Write { process, store }));
            }
        }
        if question.is_some() {
            let asker = Asker::Process(process);
            actions.extend([Ack::Stored, Ack::Lost].map(|store| Action::Answer { asker, store }));
        }
    }

    fn of_acquirer(&self, world: &World, actions: &mut Vec<Action>) {
        let acquirer = &world.acquirer;
        for (create, on_its_way) in acquirer.creates.iter().enumerate() {
            match acquirer.deduplicated(&self.setting, on_its_way.name) {
                Some(standing) => actions.push(Action::Deliver { create, standing }),
                None => actions.extend(
                    self.setting.standings.iter().map(|&standing| Action::Deliver { create, standing }),
                ),
            }
        }
        for (payment, made) in acquirer.payments.iter().enumerate() {
            if made.standing == Standing::Pending {
                let standings = [Standing::Approved, Standing::Declined];
                actions.extend(standings.map(|standing| Action::Decide { payment, standing }));
            }
        }
        for (event, standing) in
            [(acquirer.approved, Standing::Approved), (acquirer.declined, Standing::Declined)]
        {
            if event == Event::Sent {
                actions.push(Action::Webhook { standing });
            }
        }
    }

    /// The views under which a lookup says different things.
    fn views(&self, world: &World) -> impl Iterator<Item = View> + use<> {
        let differs = self.look_up(world, View::Fresh) != self.look_up(world, View::Lagging);
        [Some(View::Fresh), differs.then_some(View::Lagging)].into_iter().flatten()
    }

    fn look_up(&self, world: &World, view: View) -> Told {
        if self.lacks(Rule::SameAccount) {
            return Told::NotFound;
        }
        let sighted = world.record.as_ref().is_some_and(|row| row.0.sighted);
        world.acquirer.look_up(view, Acquirer::may_vanish(&self.setting, sighted))
    }

    /// The world after an action; `None`: nothing changed.
    pub(crate) fn after(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.happen(&mut next, action);
        if !self.without.is_some_and(Rule::is_of_fences) {
            next.drop_overtaken();
        }
        next.sort();
        (next != *world).then_some(next)
    }

    pub(crate) fn happen(&self, world: &mut World, action: Action) {
        match action {
            Action::Tick => {
                world.now = world.now.plus(STEP);
                world.acquirer.tick(world.now);
            }
            Action::Request { process, view } => self.request(world, process, view),
            Action::OtherRequest => self.other_request(world),
            Action::Send { process } => self.send(world, process),
            Action::Refuse { process } => end(world, process, End::NotSent),
            Action::GiveUp { process } => end(world, process, End::CutOff),
            Action::Hear { process } => self.hear(world, process),
            Action::Write { process, store } => self.write(world, process, store),
            Action::Deliver { create, standing } => self.deliver(world, create, standing),
            Action::Decide { payment, standing } => world.acquirer.decide(payment, standing),
            Action::Look { view } => self.look(world, view),
            Action::Answer { asker, store } => {
                self.answer(world, asker, store);
            }
            Action::CannotSay => self.cannot_say(world),
            Action::Webhook { standing } => self.webhook(world, standing),
            Action::Settle { ruling, view } => self.settle(world, ruling, view),
            Action::Die { process } => world.processes[process] = Process::default(),
        }
    }

    /// The request claims, or meets a record.
    fn request(&self, world: &mut World, process: usize, view: View) {
        let Some(row) = world.record.clone() else {
            if world.processes[process].owner.is_none() && world.claim() {
                start(world, process);
            }
            return;
        };
        let incoming =
            Incoming { fingerprint: &OWN, effect: Effect::Recoverable, response_ttl: timings().response_ttl };
        match decide(&row.0, &incoming, self.clock(world, &row.0)) {
            Decision::Replay => world.tell_stored(),
            Decision::Ask(fence) if self.lacks(Rule::AskFirst) => self.take_over(world, process, fence),
            Decision::Ask(_) if world.processes[process].question.is_none() => {
                world.processes[process].question = Some(self.ask(world, row, view));
            }
            // One question per record and interval: the caller waits for the other's, or is told what it came to.
            Decision::Ask(_) | Decision::RefuseInProgress | Decision::RefusePending => {}
            other => panic!("{other:?} cannot come up in this world"),
        }
    }

    /// The time by which an owner counts as lost.
    fn clock(&self, world: &World, record: &Record) -> Time {
        if self.lacks(Rule::LostOwners) { record.attempt_started_at } else { world.now }
    }

    fn other_request(&self, world: &mut World) {
        let Some(row) = &world.record else { return };
        let fingerprint = if self.lacks(Rule::Fingerprint) { &*OWN } else { &*OTHER };
        let incoming =
            Incoming { fingerprint, effect: Effect::Recoverable, response_ttl: timings().response_ttl };
        if decide(&row.0, &incoming, world.now) == Decision::Replay {
            world.callers.other = true;
        }
    }

    fn ask(&self, world: &World, record: Row, view: View) -> Question {
        Question { record, asked_at: world.now, told: Reading(self.look_up(world, view)) }
    }

    /// P13: an owner looks at its own clock just before sending.
    fn send(&self, world: &mut World, process: usize) {
        let Some(owner) = &mut world.processes[process].owner else { return };
        let record = &owner.record.0;
        let send_by = record.attempt_started_at.plus(timings().attempt_deadline());
        if world.now > send_by && !self.lacks(Rule::SendDeadline) {
            return;
        }
        owner.stage = Stage::Sent(None);
        let name = if self.lacks(Rule::OneOperationId) { Name(record.attempts) } else { OPERATION };
        let attempt = record.fence.attempt.as_bytes()[0];
        world.acquirer.send(&self.setting, world.now, attempt, name);
    }

    fn deliver(&self, world: &mut World, create: usize, standing: Standing) {
        let attempt = world.acquirer.creates[create].attempt;
        let answered = match world.acquirer.receive(&self.setting, create, standing) {
            Standing::Approved => End::Approved,
            Standing::Declined => End::Declined,
            Standing::Pending => End::Pending,
        };
        for owner in world.processes.iter_mut().filter_map(|process| process.owner.as_mut()) {
            let is_its = owner.record.0.fence.attempt.as_bytes()[0] == attempt;
            if is_its && owner.stage == Stage::Sent(None) {
                owner.stage = Stage::Sent(Some(answered));
            }
        }
    }

    fn hear(&self, world: &mut World, process: usize) {
        let Some(Owner { stage: Stage::Sent(Some(heard)), .. }) = world.processes[process].owner else {
            return;
        };
        end(world, process, heard);
        if heard == End::Declined && self.lacks(Rule::StoredRefusal) {
            world.tell(Conclusion::Declined);
        }
    }

    /// The owner's last step, at any time: a suspended process comes late.
    fn write(&self, world: &mut World, process: usize, store: Ack) {
        let Some(Owner { record, stage: Stage::Ended(ended) }) = world.processes[process].owner.take() else {
            return;
        };
        let attempts = if self.lacks(Rule::NoLateRelease) { 1 } else { record.0.attempts };
        let outcome = outcome::read(self.in_cores_words(ended), Effect::Recoverable, attempts);
        let change = match outcome {
            Outcome::Final(conclusion) => Change::Finish(finish(conclusion)),
            Outcome::Released => Change::Release,
            Outcome::Unknown(cause) => Change::MarkUnknown { cause, ask_after: timings().operation_timeout },
        };
        let expected = if self.lacks(Rule::FencedFinish) { current(world) } else { Some(record.0.fence) };
        let is_stored = store != Ack::Lost && self.swap(world, expected, change);
        match outcome {
            // P17: a success is told though its finish was not acknowledged, a refusal only once it is stored.
            Outcome::Final(it) if is_stored && store == Ack::Stored => world.tell(it),
            Outcome::Final(it) if it.is_positive() && store != Ack::Stored => world.tell(it),
            // The fence refused it: the caller gets the stored truth (P11).
            _ if !is_stored && store == Ack::Stored => world.tell_stored(),
            _ => {}
        }
    }

    fn in_cores_words(&self, ended: End) -> Ended {
        match ended {
            End::Approved => Ended::Status(201),
            End::Declined => Ended::Status(402),
            End::Pending => Ended::Said(Said::Pending, 202),
            End::NotSent => Ended::Said(Said::Released, 503),
            // What a careless adapter makes of a 429.
            End::CutOff if self.lacks(Rule::NoReleaseOfSent) => Ended::Status(429),
            End::CutOff => Ended::CutOff,
        }
    }

    /// The store, which for a release without its rule must be blind as well: core's table would refuse it.
    fn swap(&self, world: &mut World, expected: Option<Fence>, change: Change) -> bool {
        if change == Change::Release && self.lacks(Rule::NoLateRelease) && current(world) == expected {
            world.record = None;
            return true;
        }
        world.swap(expected, change)
    }

    fn take_over(&self, world: &mut World, process: usize, fence: Fence) {
        if world.processes[process].owner.is_some() {
            return;
        }
        let attempt = world.fresh_attempt();
        let expected = if self.lacks(Rule::NamedTakeover) { current(world) } else { Some(fence) };
        if expected.is_some()
            && world.swap(expected, Change::TakeOver { attempt, timing: timings().attempt() })
        {
            start(world, process);
        }
    }

    /// The worker asks about what is due.
    fn look(&self, world: &mut World, view: View) {
        let Some(row) = world.record.clone() else { return };
        if world.worker.is_none() && is_due(&row.0, self.clock(world, &row.0)) {
            world.worker = Some(self.ask(world, row, view));
        }
    }

    /// Reads an answer and does what follows.
    pub(crate) fn answer(&self, world: &mut World, asker: Asker, store: Ack) -> Option<Verdict> {
        let Question { record, asked_at, told } = match asker {
            Asker::Process(process) => world.processes[process].question.take()?,
            Asker::Worker => world.worker.take()?,
        };
        let verdict = self.read(&record.0, told.0, asked_at, world.now);
        match (verdict, asker) {
            (Verdict::Settle(fence), _) => settle_found(world, fence, told.0, asker, store),
            _ if store != Ack::Stored => {}
            (Verdict::SendAgain(fence), Asker::Process(process)) => self.take_over(world, process, fence),
            (Verdict::StillPending { sighted }, _) => note(world, &record.0, sighted, asker),
            (Verdict::SendAgain(_) | Verdict::Hold(_) | Verdict::CannotSay, Asker::Worker) => {
                note(world, &record.0, false, asker);
            }
            (Verdict::Hold(_) | Verdict::CannotSay, Asker::Process(_)) => {}
        }
        Some(verdict)
    }

    /// Core's reading, of what the rule that is taken away leaves it.
    fn read(&self, record: &Record, told: Told, asked_at: Time, now: Time) -> Verdict {
        let mut record = record.clone();
        let mut promise = self.setting.promise();
        let mut next = timings().attempt();
        match self.without {
            Some(Rule::VisibilityDelay) => promise.visibility_delay = Duration::ZERO,
            Some(Rule::Window) => promise.resend_window = Some(Duration::MAX),
            Some(Rule::WholeAttempt) => {
                next.attempt_deadline = record.latest_send_at.since(record.attempt_started_at);
            }
            Some(Rule::Sightings) => record.sighted = false,
            Some(Rule::RefusalOfOneAttempt) => record.attempts = 1,
            _ => {}
        }
        let asked_at = if self.lacks(Rule::QuestionTime) { now } else { asked_at };
        recovery::read(&record, told, asked_at, &promise, next, now)
    }

    fn cannot_say(&self, world: &mut World) {
        if let Some(question) = world.worker.take() {
            note(world, &question.record.0, false, Asker::Worker);
        }
    }

    /// Event and effect commit together (P25), so what is read is what is written to.
    fn webhook(&self, world: &mut World, standing: Standing) {
        let told = Told::Done { positive: standing == Standing::Approved };
        if let Some(row) = world.record.clone() {
            match self.by_event(&row.0, told, world.now) {
                News::Settle(fence) => {
                    world.swap(Some(fence), Change::Finish(finish(conclusion_of(told))));
                }
                News::Note(fence) => {
                    world.swap(Some(fence), recovery::note(&row.0, true, Duration::ZERO));
                }
                News::Known => {}
                News::Contradiction => world.alarms.contradiction = true,
                News::Later => return,
            }
            if self.lacks(Rule::FinalStays) {
                overwrite(world, told);
            }
        }
        match standing {
            Standing::Approved => world.acquirer.approved = Event::Applied,
            Standing::Declined => world.acquirer.declined = Event::Applied,
            Standing::Pending => {}
        }
    }

    fn by_event(&self, record: &Record, told: Told, now: Time) -> News {
        let mut record = record.clone();
        if self.lacks(Rule::RefusalOfOneAttempt) {
            record.attempts = 1;
        }
        settling::by_event(&record, told, now)
    }

    /// An honest operator: says "done" only of money that moved. Whether it may say so is core's.
    fn settle(&self, world: &mut World, ruling: Ruling, view: View) {
        let Some(row) = world.record.clone() else { return };
        if ruling == Ruling::Done && world.acquirer.executed() == 0 {
            return;
        }
        let told = self.look_up(world, view);
        let conclusion = match ruling {
            Ruling::Done => Conclusion::Approved,
            Ruling::Failed => Conclusion::Declined,
        };
        if let Some(fence) = self.by_hand(&row.0, ruling, told, world.now) {
            world.swap(Some(fence), Change::Finish(finish(conclusion)));
        }
    }

    fn by_hand(&self, record: &Record, ruling: Ruling, told: Told, now: Time) -> Option<Fence> {
        let asked_at = if self.lacks(Rule::AgeByHand) { Time::MAX } else { now };
        let mut promise = self.setting.promise();
        if self.lacks(Rule::ProofByHand) {
            promise.resend_window = Some(Duration::MAX);
        }
        let evidence = Evidence { told, asked_at };
        settling::by_hand(record, ruling, evidence, &promise, timings().attempt(), now).ok()
    }
}

fn end(world: &mut World, process: usize, how: End) {
    if let Some(owner) = &mut world.processes[process].owner {
        owner.stage = Stage::Ended(how);
    }
}

/// The process becomes the owner of what it has just written.
fn start(world: &mut World, process: usize) {
    let record = world.record.clone().expect("just written");
    world.processes[process].owner = Some(Owner { record, stage: Stage::Claimed });
}

fn current(world: &World) -> Option<Fence> {
    world.record.as_ref().map(|row| row.0.fence)
}

fn conclusion_of(told: Told) -> Conclusion {
    match told {
        Told::Done { positive: true } => Conclusion::Approved,
        _ => Conclusion::Declined,
    }
}

/// A result found outside is written; a success is told all the same if the store does not answer (P17).
fn settle_found(world: &mut World, fence: Fence, told: Told, asker: Asker, store: Ack) {
    let conclusion = conclusion_of(told);
    let is_caller = matches!(asker, Asker::Process(_));
    if store == Ack::Lost {
        if is_caller && conclusion.is_positive() {
            world.tell(conclusion);
        }
        return;
    }
    world.swap(Some(fence), Change::Finish(finish(conclusion)));
    if is_caller {
        world.tell_stored();
    }
}

/// The worker notes every answer, a caller's only where it is news.
fn note(world: &mut World, record: &Record, sighted: bool, asker: Asker) {
    let is_pending = matches!(record.state, State::Unknown { cause: Cause::Pending, .. });
    if asker == Asker::Worker || is_pending || (sighted && !record.sighted) {
        let after = ask_interval(record.asked(), timings().operation_timeout);
        world.swap(Some(record.fence), recovery::note(record, sighted, after));
    }
}

/// When the worker asks: where an outcome is unknown and the pause is over, and where an owner is lost.
pub(crate) fn is_due(record: &Record, now: Time) -> bool {
    match record.state {
        State::Unknown { next_ask_at, .. } => next_ask_at <= now,
        _ => record.is_lost(now),
    }
}

/// An event written over whatever is there.
fn overwrite(world: &mut World, told: Told) {
    let Some(row) = &mut world.record else { return };
    let mut record = (*row.0).clone();
    if let State::Finished { conclusion, .. } = &mut record.state {
        *conclusion = conclusion_of(told);
        record.fence.version += 1;
        row.0 = Arc::new(record);
    }
}
