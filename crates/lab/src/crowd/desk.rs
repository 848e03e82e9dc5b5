//! The engine of the simulated server: the product's store, and core's decision about what it answers.

use std::{sync::Arc, time::Duration};

use unavez_core::{
    answer::{Answer, Conclusion, Content},
    decision::{Decision, Incoming, decide},
    derive::derive,
    fingerprint::{Fingerprint, RequestParts, Rules},
    identity::{AttemptId, Realm, RecordId, Tenant},
    key::Key,
    outcome::Effect,
    record::{Change, Claim, Fence, Finish},
    time::Time,
    timing::Timings,
};
use unavez_store::{Store, Swap, clock::ManualClock, memory::MemoryStore};

use super::START;
use crate::{Error, money::CURRENCY};

/// What a charge on this server is: ledger line and finish are one step.
const EFFECT: Effect = Effect::Transactional;

/// A store in memory, on a clock that the simulation turns.
pub(super) struct Desk {
    store: MemoryStore,
    clock: ManualClock,
    /// What that clock says, in the simulation's time.
    now: Time,
    orders: Vec<Operation>,
    attempts: u128,
}

/// One order as the store knows it.
struct Operation {
    id: RecordId,
    key: Key,
    fingerprint: Fingerprint,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Its claim won: charge, and finish with this fence.
    Charge(Fence),
    /// Answer from the record.
    Replay,
    /// 409: an attempt is running.
    InProgress,
}

impl Desk {
    pub(super) fn open(orders: usize) -> Self {
        let clock = ManualClock::new();
        let realm = Realm::parse("herd").expect("a short word is a realm's name");
        Self {
            store: MemoryStore::with_clock(Arc::new(clock.clone())),
            clock,
            now: START,
            orders: (0..orders).map(|order| Operation::of(&realm, order)).collect(),
            attempts: 0,
        }
    }

    /// Claims the order's key, or says what to do instead.
    pub(super) async fn meet(&mut self, order: usize, now: Time) -> Result<Ruling, Error> {
        self.turn_to(now);
        self.attempts += 1;
        let operation = &self.orders[order];
        let claim = operation.claim(AttemptId::from_bytes(self.attempts.to_be_bytes()));
        match self.store.swap(operation.id, None, Change::Claim(claim)).await {
            Ok(Swap::Swapped { record, .. }) => Ok(Ruling::Charge(record.fence)),
            Ok(Swap::Conflict { record: Some(record), now }) => {
                let response_ttl = Timings::default().response_ttl;
                let incoming = Incoming { fingerprint: &operation.fingerprint, effect: EFFECT, response_ttl };
                match decide(&record, &incoming, now) {
                    Decision::Replay => Ok(Ruling::Replay),
                    Decision::RefuseInProgress => Ok(Ruling::InProgress),
                    odd => Err(broken(order, &odd)),
                }
            }
            odd => Err(broken(order, &odd)),
        }
    }

    /// Stores the answer of a charge that was made.
    pub(super) async fn finish(&mut self, order: usize, fence: Fence, now: Time) -> Result<(), Error> {
        self.turn_to(now);
        let id = self.orders[order].id;
        match self.store.swap(id, Some(fence), Change::Finish(finish())).await {
            Ok(Swap::Swapped { .. }) => Ok(()),
            odd => Err(broken(order, &odd)),
        }
    }

    fn turn_to(&mut self, now: Time) {
        self.clock.advance(now.since(self.now));
        self.now = now;
    }
}

impl Operation {
    fn of(realm: &Realm, order: usize) -> Self {
        let order_id = format!("herd-{order}");
        let key = derive("charge", &[&order_id]).expect("order ids are short and printable");
        let id = RecordId::of(realm, &Tenant::single(), &key);
        let body = format!(r#"{{"order_id":"{order_id}","amount":500,"currency":"{CURRENCY}"}}"#);
        Self { id, key, fingerprint: fingerprint(body.as_bytes()) }
    }

    fn claim(&self, attempt: AttemptId) -> Claim {
        Claim {
            tenant: Tenant::single(),
            key: self.key.clone(),
            fingerprint: self.fingerprint.clone(),
            attempt,
            timing: Timings::default().attempt(),
            exposure: EFFECT.exposure(),
        }
    }
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body,
    };
    Fingerprint::of(&request, &Rules::default()).expect("the lab's own bodies are unambiguous JSON")
}

fn finish() -> Finish {
    let content = Content::Kept { headers: Vec::new(), body: bytes::Bytes::new() };
    Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content },
        response_ttl: Timings::default().response_ttl.max(Duration::from_secs(1)),
        resource: None,
    }
}

fn broken(order: usize, odd: &dyn std::fmt::Debug) -> Error {
    Error::broken(format!("order {order} of the simulation met {odd:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        START.plus(Duration::from_secs(seconds))
    }

    #[tokio::test]
    async fn a_repeat_waits_for_the_first_and_then_gets_its_answer() {
        let mut desk = Desk::open(2);
        let Ok(Ruling::Charge(fence)) = desk.meet(0, at(1)).await else { panic!("the first claim wins") };
        assert_eq!(desk.meet(0, at(2)).await.unwrap(), Ruling::InProgress);
        assert!(matches!(desk.meet(1, at(2)).await.unwrap(), Ruling::Charge(_)));
        desk.finish(0, fence, at(3)).await.unwrap();
        assert_eq!(desk.meet(0, at(4)).await.unwrap(), Ruling::Replay);
        assert!(desk.finish(0, fence, at(5)).await.is_err(), "a fence is used once");
    }
}
