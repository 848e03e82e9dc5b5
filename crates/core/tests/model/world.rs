//! One state of the model: everything that exists at a moment, here and outside.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::LazyLock;

use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::outcome::Effect;
use unavez_core::record::{Change, Claim, Fence, Finish, Next, Record, State};
use unavez_core::recovery::Told;
use unavez_core::time::Time;

use crate::acquirer::{Acquirer, Create};
use crate::setting::timings;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) record: Option<Row>,
    /// Sorted: the two are interchangeable, so states that differ in their names are one.
    pub(crate) processes: [Process; 2],
    pub(crate) worker: Option<Question>,
    pub(crate) acquirer: Acquirer,
    pub(crate) callers: Callers,
    pub(crate) alarms: Alarms,
}

/// What a process remembers, and forgets when it dies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) owner: Option<Owner>,
    pub(crate) question: Option<Question>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// As it was when the attempt began.
    pub(crate) record: Row,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    Claimed,
    /// With the acquirer's answer, while that is on its way back.
    Sent(Option<End>),
    /// Not written yet.
    Ended(End),
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum End {
    Approved,
    Declined,
    Pending,
    /// The connection was refused: nothing left.
    NotSent,
    /// The time was over, or the connection broke, or the answer could not be read.
    CutOff,
}

/// A question whose answer is on its way back. The acquirer read it in the moment it was asked: were that later, the
/// answer would only be fresher than core takes it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) record: Row,
    pub(crate) asked_at: Time,
    pub(crate) told: Reading,
}

/// [`Told`] with the traits that a state needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading(pub(crate) Told);

/// What callers were told, ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Callers {
    pub(crate) done: bool,
    pub(crate) failed: bool,
    /// A request with another body was answered with this operation's outcome.
    pub(crate) other: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Alarms {
    /// A truth spoke against a final state (P27).
    pub(crate) contradiction: bool,
    /// Core's table refused a write whose fence was right.
    pub(crate) illegal: bool,
}

/// A stored record. Shared, since most steps leave it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Arc<Record>);

impl World {
    pub(crate) fn new() -> Self {
        Self {
            now: Time::from_micros(0),
            record: None,
            processes: [Process::default(), Process::default()],
            worker: None,
            acquirer: Acquirer::new(),
            callers: Callers::default(),
            alarms: Alarms::default(),
        }
    }

    /// The store: compares, then lets core change (P8, P11).
    pub(crate) fn swap(&mut self, expected: Option<Fence>, change: Change) -> bool {
        if self.record.as_ref().map(|row| row.0.fence) != expected {
            return false;
        }
        let next = match (&self.record, change) {
            (None, Change::Claim(claim)) => Ok(Next::Keep(Record::claimed(record_id(), claim, self.now))),
            (None, change) => panic!("{} of no record", change.name()),
            (Some(row), change) => row.0.apply(change, self.now),
        };
        match next {
            Ok(Next::Keep(record)) => self.record = Some(Row(Arc::new(record))),
            Ok(Next::Delete) => self.record = None,
            Err(_) => {
                self.alarms.illegal = true;
                return false;
            }
        }
        true
    }

    pub(crate) fn claim(&mut self) -> bool {
        let claim = Claim {
            tenant: Tenant::single(),
            key: KEY.clone(),
            fingerprint: OWN.clone(),
            attempt: self.fresh_attempt(),
            timing: timings().attempt(),
            exposure: Effect::Recoverable.exposure(),
        };
        self.swap(None, Change::Claim(claim))
    }

    /// Stands for 128 random bits: the lowest id that nothing in the world remembers, so that equal worlds are equal.
    pub(crate) fn fresh_attempt(&self) -> AttemptId {
        let is_known = |id: u8| {
            let attempt = AttemptId::from_bytes([id; 16]);
            self.rows().any(|row| row.0.fence.attempt == attempt)
                || self.acquirer.creates.iter().any(|create| create.attempt == id)
        };
        let id = (1..=u8::MAX).find(|id| !is_known(*id)).expect("few are remembered at once");
        AttemptId::from_bytes([id; 16])
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        let of_processes = self.processes.iter().flat_map(|process| {
            let owner = process.owner.as_ref().map(|owner| &owner.record);
            owner.into_iter().chain(process.question.as_ref().map(|question| &question.record))
        });
        let of_worker = self.worker.as_ref().map(|question| &question.record);
        self.record.iter().chain(of_processes).chain(of_worker)
    }

    /// The outcome that the record repeats, if it has one.
    pub(crate) fn conclusion(&self) -> Option<Conclusion> {
        match &self.record.as_ref()?.0.state {
            State::Finished { conclusion, .. } => Some(*conclusion),
            _ => None,
        }
    }

    pub(crate) fn tell(&mut self, conclusion: Conclusion) {
        if conclusion.is_positive() {
            self.callers.done = true;
        } else {
            self.callers.failed = true;
        }
    }

    /// A caller is told what the record says, if it says something final.
    pub(crate) fn tell_stored(&mut self) {
        if let Some(conclusion) = self.conclusion() {
            self.tell(conclusion);
        }
    }

    /// Drops what can do nothing any more: the store refuses whoever names a version that is gone (P11). What is left of
    /// such an owner or question is that a success may be told.
    pub(crate) fn drop_overtaken(&mut self) {
        let fence = self.record.as_ref().map(|row| row.0.fence);
        let is_overtaken = |row: &Row| Some(row.0.fence) != fence;
        let is_mute = |question: &mut Question| {
            is_overtaken(&question.record) && question.told.0 != Told::Done { positive: true }
        };
        for process in &mut self.processes {
            process.question.take_if(is_mute);
            process.owner.take_if(|owner| {
                let is_over = matches!(owner.stage, Stage::Ended(end) if end != End::Approved);
                is_over && is_overtaken(&owner.record)
            });
        }
        self.worker.take_if(is_mute);
    }

    /// Brings what has no order into one.
    pub(crate) fn sort(&mut self) {
        let [first, second] = &self.processes;
        if first.rank() > second.rank() {
            self.processes.swap(0, 1);
        }
    }
}

impl Process {
    fn rank(&self) -> impl Ord + use<> {
        let owner = self.owner.as_ref().map(|owner| (owner.record.name(), owner.stage));
        let question = self
            .question
            .as_ref()
            .map(|question| (question.record.name(), question.asked_at, question.told.rank()));
        (owner, question)
    }
}

impl Reading {
    const fn rank(self) -> u8 {
        match self.0 {
            Told::Done { positive: true } => 0,
            Told::Done { positive: false } => 1,
            Told::Pending => 2,
            Told::NotFound => 3,
            Told::CannotSay => 4,
        }
    }
}

impl Hash for Reading {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
    }
}

impl Row {
    /// Version and attempt, which no two contents share (P8).
    fn name(&self) -> (u64, [u8; 16]) {
        (self.0.fence.version, *self.0.fence.attempt.as_bytes())
    }
}

/// States are told apart by this hash alone, and by nothing that core cannot tell apart: versions and attempt ids are
/// compared for equality only, so their order of appearance stands for them.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let names = Names::of(self);
        (self.now, self.callers, self.alarms).hash(state);
        names.hash(self.record.as_ref(), state);
        for Process { owner, question } in &self.processes {
            owner.as_ref().map(|owner| owner.stage).hash(state);
            names.hash(owner.as_ref().map(|owner| &owner.record), state);
            names.hash_question(question.as_ref(), state);
        }
        names.hash_question(self.worker.as_ref(), state);
        self.acquirer.hash_kept(state);
        for Create { attempt, name, dies_at } in &self.acquirer.creates {
            (names.attempt(&[*attempt; 16]), name, dies_at).hash(state);
        }
    }
}

impl World {
    /// Stands for what is left when everything volatile is gone.
    pub(crate) fn hash_surviving(&self) -> u64 {
        let mut state = DefaultHasher::new();
        self.now.hash(&mut state);
        self.record.is_some().hash(&mut state);
        if let Some(row) = &self.record {
            hash_content(&row.0, &mut state);
        }
        self.acquirer.hash_kept(&mut state);
        for Create { attempt: _, name, dies_at } in &self.acquirer.creates {
            (name, dies_at).hash(&mut state);
        }
        state.finish()
    }
}

/// Fences in the order of their appearance.
struct Names(Vec<Fence>);

impl Names {
    fn of(world: &World) -> Self {
        let mut names = Vec::with_capacity(8);
        for row in world.rows() {
            if !names.contains(&row.0.fence) {
                names.push(row.0.fence);
            }
        }
        Self(names)
    }

    fn attempt(&self, attempt: &[u8; 16]) -> Option<usize> {
        self.0.iter().position(|fence| fence.attempt.as_bytes() == attempt)
    }

    fn hash_question<H: Hasher>(&self, question: Option<&Question>, state: &mut H) {
        question.map(|question| (question.asked_at, question.told)).hash(state);
        self.hash(question.map(|question| &question.record), state);
    }

    fn hash<H: Hasher>(&self, row: Option<&Row>, state: &mut H) {
        let Some(row) = row else { return state.write_u8(0) };
        let fence = row.0.fence;
        self.0.iter().position(|known| *known == fence).hash(state);
        self.attempt(fence.attempt.as_bytes()).hash(state);
        hash_content(&row.0, state);
    }
}

/// Everything of a record but its fence, and what is the same in all records of the model.
fn hash_content<H: Hasher>(record: &Record, state: &mut H) {
    (record.attempts, record.sighted).hash(state);
    (record.created_at, record.attempt_started_at, record.latest_send_at).hash(state);
    record.state.name().hash(state);
    match &record.state {
        State::InProgress { deadline } => deadline.hash(state),
        State::Unknown { cause, asked, next_ask_at } => (cause, asked, next_ask_at).hash(state),
        // Answers outlive the model, so when they were given is all the same.
        State::Finished { at: _, expires_at: _, conclusion, answer: _, resource: _ } => {
            conclusion.hash(state)
        }
        State::Abandoned { at } => at.hash(state),
    }
}

/// What a finish writes. The answer's body stands for every detail that a replay repeats.
pub(crate) fn finish(conclusion: Conclusion) -> Finish {
    let status = if conclusion.is_positive() { 201 } else { 402 };
    Finish {
        conclusion,
        answer: Answer { status, content: Content::Kept { headers: Vec::new(), body: "{}".into() } },
        response_ttl: timings().response_ttl,
        resource: None,
    }
}

static KEY: LazyLock<Key> = LazyLock::new(|| Key::parse_path("K1").expect("a plain key"));
static ID: LazyLock<RecordId> =
    LazyLock::new(|| RecordId::of(&Realm::parse("model").expect("a plain name"), &Tenant::single(), &KEY));

/// The request that claims, and the one that reuses its key.
pub(crate) static OWN: LazyLock<Fingerprint> = LazyLock::new(|| fingerprint(b"B1"));
pub(crate) static OTHER: LazyLock<Fingerprint> = LazyLock::new(|| fingerprint(b"B2"));

fn record_id() -> RecordId {
    *ID
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: None,
        content_encoding: None,
        body,
    };
    Fingerprint::of(&request, &Rules::default()).expect("raw bytes")
}
