//! A small world that obeys core's verdicts: callers, owners that die, a network that loses and delays, an outside
//! system that executes everything it receives. Whatever happens, money moves at most once and no caller is told two
//! different outcomes; and once the faults stop, the operation ends.
//!
//! The outside system does not deduplicate. Only the protocol stands between a repeat and a second execution.

use std::time::Duration;

use proptest::prelude::*;

use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::decision::{Decision, Incoming, decide};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::outcome::Effect;
use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Fence, Finish, Next, Record, State};
use unavez_core::recovery::{self, Promise, Told, Verdict};
use unavez_core::time::Time;

const TIMING: AttemptTiming =
    AttemptTiming { operation_timeout: Duration::from_secs(60), attempt_deadline: Duration::from_secs(50) };
const TTL: Duration = Duration::from_secs(24 * 3600);
const V_SECONDS: u32 = 30;
const PROMISE: Promise = Promise {
    visibility_delay: Duration::from_secs(V_SECONDS as u64),
    resend_window: Some(Duration::from_secs(12 * 3600)),
};

/// What happens next. Owners are picked by index among all that ever started.
#[derive(Clone, Copy, Debug)]
enum Event {
    Repeat,
    Send { owner: usize, flight_s: u32 },
    HearBack { owner: usize },
    GiveUp { owner: usize },
    Die { owner: usize },
    Wait { seconds: u32 },
}

fn any_event() -> impl Strategy<Value = Event> {
    let owner = 0..4_usize;
    prop_oneof![
        3 => Just(Event::Repeat),
        3 => (owner.clone(), 0..=V_SECONDS).prop_map(|(owner, flight_s)| Event::Send { owner, flight_s }),
        2 => owner.clone().prop_map(|owner| Event::HearBack { owner }),
        1 => owner.clone().prop_map(|owner| Event::GiveUp { owner }),
        1 => owner.prop_map(|owner| Event::Die { owner }),
        2 => (1..90_u32).prop_map(|seconds| Event::Wait { seconds }),
    ]
}

/// One process that holds, or held, the record.
struct Owner {
    fence: Fence,
    stops_at: Time,
    life: Life,
}

#[derive(Clone, Copy, PartialEq)]
enum Life {
    Claimed,
    Sent { arrives_at: Time },
    Gone,
}

/// Everything there is.
struct World {
    effect: Effect,
    now: Time,
    record: Option<Record>,
    owners: Vec<Owner>,
    /// Arrival times of creates at the outside system: each one executes.
    creates: Vec<Time>,
    /// Commits of a transactional effect.
    commits: u32,
    told: Vec<u16>,
}

impl World {
    fn new(effect: Effect) -> Self {
        Self {
            effect,
            now: Time::from_micros(0),
            record: None,
            owners: Vec::new(),
            creates: Vec::new(),
            commits: 0,
            told: Vec::new(),
        }
    }

    fn executed(&self) -> u32 {
        match self.effect {
            Effect::Transactional => self.commits,
            _ => u32::try_from(self.creates.iter().filter(|at| **at <= self.now).count()).expect("few"),
        }
    }

    /// The store: compare, then change.
    fn swap(&mut self, expected: Option<Fence>, change: Change) -> bool {
        if self.record.as_ref().map(|record| record.fence) != expected {
            return false;
        }
        self.record = match (self.record.take(), change) {
            (None, Change::Claim(claim)) => {
                let id = RecordId::of(&Realm::parse("test").expect("plain"), &claim.tenant, &claim.key);
                Some(Record::claimed(id, claim, self.now))
            }
            (None, change) => panic!("{} of no record", change.name()),
            (Some(record), change) => match record.apply(change, self.now).expect("the verdict is legal") {
                Next::Keep(record) => Some(record),
                Next::Delete => None,
            },
        };
        true
    }

    fn start_owner(&mut self) {
        let fence = self.record.as_ref().expect("just written").fence;
        let stops_at = self.now.plus(TIMING.attempt_deadline);
        self.owners.push(Owner { fence, stops_at, life: Life::Claimed });
    }

    fn fresh_attempt(&self) -> AttemptId {
        AttemptId::from_bytes([u8::try_from(self.owners.len() + 1).expect("few owners"); 16])
    }

    fn finish(&mut self, fence: Fence) -> bool {
        let done = self.swap(
            Some(fence),
            Change::Finish(Finish {
                conclusion: Conclusion::Approved,
                answer: Answer {
                    status: 201,
                    content: Content::Kept { headers: Vec::new(), body: "ok".into() },
                },
                response_ttl: TTL,
                resource: None,
            }),
        );
        if done {
            self.told.push(201);
        }
        done
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Repeat => self.repeat(),
            Event::Wait { seconds } => self.now = self.now.plus(Duration::from_secs(u64::from(seconds))),
            Event::Send { owner, flight_s } => self.send(owner, flight_s),
            Event::HearBack { owner } => self.hear_back(owner),
            Event::GiveUp { owner } => self.give_up(owner),
            Event::Die { owner } => {
                if let Some(owner) = self.owners.get_mut(owner) {
                    owner.life = Life::Gone;
                }
            }
        }
    }

    fn repeat(&mut self) {
        let Some(record) = self.record.clone() else {
            let claim = Claim {
                tenant: Tenant::single(),
                key: Key::parse_path("K1").expect("plain"),
                fingerprint: fingerprint(),
                attempt: self.fresh_attempt(),
                timing: TIMING,
                exposure: self.effect.exposure(),
            };
            assert!(self.swap(None, Change::Claim(claim)));
            return self.start_owner();
        };
        let fingerprint = fingerprint();
        let incoming = Incoming { fingerprint: &fingerprint, effect: self.effect, response_ttl: TTL };
        match decide(&record, &incoming, self.now) {
            Decision::Replay => self.told.push(match &record.state {
                State::Finished { answer, .. } => answer.status,
                other => panic!("replay of {other:?}"),
            }),
            Decision::TakeOver(fence) => self.take_over(fence),
            Decision::Ask(fence) => self.ask(&record, fence),
            Decision::RefuseInProgress | Decision::RefusePending => {}
            other => panic!("{other:?} cannot come up in this world"),
        }
    }

    fn take_over(&mut self, fence: Fence) {
        let attempt = self.fresh_attempt();
        if self.swap(Some(fence), Change::TakeOver { attempt, timing: TIMING }) {
            self.start_owner();
        }
    }

    fn ask(&mut self, record: &Record, fence: Fence) {
        let told = if self.executed() > 0 { Told::Done { positive: true } } else { Told::NotFound };
        match recovery::read(record, told, self.now, &PROMISE, TIMING, self.now) {
            Verdict::Settle(fence) => assert!(self.finish(fence)),
            Verdict::SendAgain(fence) => self.take_over(fence),
            Verdict::StillPending { sighted } if matches!(record.state, State::Unknown { .. }) => {
                let cause = recovery::cause_after(record, sighted);
                self.swap(Some(fence), Change::AskAgain { cause, after: Duration::from_secs(5), sighted });
            }
            Verdict::StillPending { .. } | Verdict::CannotSay | Verdict::Hold(_) => {}
        }
    }

    /// P13: an owner sends only inside its deadline; the message may fly up to V.
    fn send(&mut self, owner: usize, flight_s: u32) {
        let now = self.now;
        let Some(owner) = self.owners.get_mut(owner) else { return };
        if owner.life != Life::Claimed || now >= owner.stops_at {
            return;
        }
        let arrives_at = now.plus(Duration::from_secs(u64::from(flight_s)));
        owner.life = Life::Sent { arrives_at };
        if self.effect == Effect::Recoverable {
            self.creates.push(arrives_at);
        }
    }

    /// The effect is known to its owner, who finishes by its fence. A transactional effect commits in the same step.
    fn hear_back(&mut self, index: usize) {
        let Some(owner) = self.owners.get(index) else { return };
        let Life::Sent { arrives_at } = owner.life else { return };
        if arrives_at > self.now {
            return;
        }
        let fence = owner.fence;
        self.owners[index].life = Life::Gone;
        if self.finish(fence) && self.effect == Effect::Transactional {
            self.commits += 1;
        }
    }

    fn give_up(&mut self, index: usize) {
        let Some(owner) = self.owners.get_mut(index) else { return };
        if owner.life == Life::Gone {
            return;
        }
        let (fence, life) = (owner.fence, owner.life);
        owner.life = Life::Gone;
        let first = self.record.as_ref().is_some_and(|record| record.attempts == 1);
        let nothing_left = life == Life::Claimed && first;
        let change = if self.effect == Effect::Transactional || nothing_left {
            Change::Release
        } else {
            Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::ZERO }
        };
        self.swap(Some(fence), change);
    }

    fn check(&self) {
        assert!(self.executed() <= 1, "money moved {} times", self.executed());
        assert!(self.told.iter().all(|status| *status == 201), "contradicting answers: {:?}", self.told);
        if !self.told.is_empty() {
            assert_eq!(self.executed(), 1, "a caller was told of an effect that is not there");
        }
    }

    /// Liveness: the faults stop, a caller keeps repeating and owners do their work. Ends, or is held by name.
    fn heal(&mut self) {
        for _ in 0..20 {
            self.happen(Event::Wait { seconds: 61 });
            self.repeat();
            let last = self.owners.len().saturating_sub(1);
            self.send(last, 0);
            self.hear_back(last);
            self.check();
        }
        let record = self.record.as_ref().expect("claimed by now");
        let held = record.attempts >= recovery::ATTEMPTS_MAX;
        assert!(matches!(record.state, State::Finished { .. }) || held, "still {:?}", record.state);
    }
}

fn fingerprint() -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/",
        query: None,
        content_type: None,
        content_encoding: None,
        body: b"B1",
    };
    Fingerprint::of(&request, &Rules::default()).expect("raw bytes")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn p16_recoverable_operations_execute_at_most_once_and_end(events in prop::collection::vec(any_event(), 0..60)) {
        run(Effect::Recoverable, &events);
    }

    #[test]
    fn p14_transactional_operations_execute_at_most_once_and_end(events in prop::collection::vec(any_event(), 0..60)) {
        run(Effect::Transactional, &events);
    }
}

fn run(effect: Effect, events: &[Event]) {
    let mut world = World::new(effect);
    for event in events {
        world.happen(*event);
        world.check();
    }
    world.heal();
}
