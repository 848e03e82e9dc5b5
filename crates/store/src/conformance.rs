//! The suite that every store passes. A new adapter is done when it does.
//!
//! Each case is a function that takes a [`Subject`]: an empty store and a way to let its clock advance. It panics where
//! the store breaks a rule. A backend runs all of them in a few lines:
//!
//! ```
//! use std::sync::Arc;
//! use unavez_store::clock::ManualClock;
//! use unavez_store::conformance::Subject;
//! use unavez_store::memory::MemoryStore;
//!
//! async fn memory() -> Subject {
//!     let clock = ManualClock::new();
//!     let store = MemoryStore::with_clock(Arc::new(clock.clone()));
//!     Subject::new(Arc::new(store), move |by| clock.advance(by))
//! }
//!
//! mod memory_store {
//!     unavez_store::conformance!(super::memory());
//! }
//! ```

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use unavez_core::answer::{Answer, Conclusion, Content, Headers, NotKept};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Exposure, Fence, Finish, Record, State};

use crate::fault::{Fault, Faulty, Truth};
use crate::{BoxFuture, Cursor, Filter, Page, Store, StoreError, Swap};

/// How long an attempt of the suite may take.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the suite's answers are promised.
pub const RESPONSE_TTL: Duration = Duration::from_secs(24 * 3600);

const MICROSECOND: Duration = Duration::from_micros(1);

/// Defines a test for every case of the suite; the argument makes a future of a [`Subject`]. Needs tokio's macros.
#[macro_export]
macro_rules! conformance {
    ($subject:expr) => {
        $crate::conformance!(@each $subject;
            one_of_many_claimers_wins,
            equal_keys_of_two_tenants_are_two_records,
            the_loser_gets_the_record,
            a_hash_does_not_open_anothers_record,
            a_dead_claimer_is_overtaken_after_its_timeout,
            a_slow_claimer_comes_back_too_late,
            a_late_owner_cannot_touch_a_recreated_record,
            a_claim_in_doubt_is_resolved_by_its_attempt_id,
            a_finish_in_doubt_is_resolved_by_its_fence,
            an_answer_is_promised_to_the_microsecond,
            one_of_many_claimers_of_an_expired_key_wins,
            an_attempt_id_is_not_used_twice,
            illegal_steps_are_refused_and_change_nothing,
            every_field_survives_every_step,
            answers_are_kept_byte_for_byte,
            purge_deletes_what_expired_and_nothing_else,
            purge_is_bounded_and_tells_its_lag,
            a_lowered_ttl_keeps_promises,
            due_are_lost_and_unknown_attempts_oldest_first,
            due_is_fair_between_tenants,
            lists_are_cut_into_pages_newest_first,
            lists_are_filtered,
        );
    };
    (@each $subject:expr; $($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            $crate::conformance::$case(&$subject.await).await;
        }
    )*};
}

/// An empty store, and its clock.
pub struct Subject {
    store: Arc<dyn Store>,
    advance: Box<dyn Fn(Duration) + Send + Sync>,
}

impl Subject {
    /// `advance` moves the clock on which `store` measures ages.
    pub fn new(store: Arc<dyn Store>, advance: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        Self { store, advance: Box::new(advance) }
    }

    fn advance(&self, by: Duration) {
        (self.advance)(by);
    }

    async fn swap(&self, name: &Name, expected: Option<Fence>, change: Change) -> Result<Swap, StoreError> {
        self.store.swap(name.id(), expected, change).await
    }

    /// A swap that must happen.
    async fn swapped(&self, name: &Name, expected: Option<Fence>, change: Change) -> Arc<Record> {
        match self.swap(name, expected, change).await {
            Ok(Swap::Swapped { record, .. }) => record,
            other => panic!("the change must happen, got {other:?}"),
        }
    }

    /// A swap whose fence must not match.
    async fn conflicting(&self, name: &Name, expected: Option<Fence>, change: Change) -> Option<Arc<Record>> {
        match self.swap(name, expected, change).await {
            Ok(Swap::Conflict { record, .. }) => record,
            other => panic!("the change must meet a conflict, got {other:?}"),
        }
    }

    async fn claimed(&self, name: &Name, attempt: u8) -> Arc<Record> {
        self.swapped(name, None, name.claim(attempt)).await
    }

    /// Claims and finishes.
    async fn finished(&self, name: &Name, attempt: u8, response_ttl: Duration) -> Arc<Record> {
        let claimed = self.claimed(name, attempt).await;
        let finish = Finish { response_ttl, ..finish() };
        self.swapped(name, Some(claimed.fence), Change::Finish(finish)).await
    }

    async fn load(&self, name: &Name) -> Option<Arc<Record>> {
        self.store.load(name.id()).await.expect("the store is healthy").record
    }

    async fn purge(&self, limit: usize) -> (u64, Duration) {
        let purged =
            self.store.purge(limit).await.expect("the store is healthy and its clock has not stepped");
        (purged.deleted, purged.lag)
    }

    async fn due_keys(&self, limit: usize) -> Vec<String> {
        let due = self.store.due(limit).await.expect("the store is healthy");
        due.records.iter().map(|record| record.key.as_str().to_owned()).collect()
    }

    async fn page(&self, filter: &Filter, after: Option<Cursor>, limit: usize) -> Page {
        self.store.list(filter.clone(), after, limit).await.expect("the store is healthy")
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").finish_non_exhaustive()
    }
}

/// A tenant's key.
struct Name {
    tenant: Tenant,
    key: Key,
}

impl Name {
    fn new(tenant: &str, key: &str) -> Self {
        let tenant = Tenant::parse(tenant).expect("the suite's tenants are well-formed");
        let key = Key::parse_path(key).expect("the suite's keys are well-formed");
        Self { tenant, key }
    }

    fn id(&self) -> RecordId {
        let realm = Realm::parse("conformance").expect("the suite's realm is well-formed");
        RecordId::of(&realm, &self.tenant, &self.key)
    }

    fn claim(&self, attempt: u8) -> Change {
        Change::Claim(self.claim_of(attempt, Exposure::MayBeSent))
    }

    fn claim_of(&self, attempt: u8, exposure: Exposure) -> Claim {
        Claim {
            tenant: self.tenant.clone(),
            key: self.key.clone(),
            fingerprint: fingerprint(self.key.as_str()),
            attempt: attempt_id(attempt),
            timing: timing(),
            exposure,
        }
    }
}

fn name(key: &str) -> Name {
    Name::new("tenant-a", key)
}

fn attempt_id(number: u8) -> AttemptId {
    AttemptId::from_bytes([number; 16])
}

fn timing() -> AttemptTiming {
    AttemptTiming { operation_timeout: OPERATION_TIMEOUT, attempt_deadline: OPERATION_TIMEOUT / 6 * 5 }
}

fn fingerprint(body: &str) -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: Some("a=b"),
        content_type: Some("text/plain"),
        content_encoding: None,
        body: body.as_bytes(),
    };
    Fingerprint::of(&request, &Rules::default()).expect("plain text is not ambiguous")
}

fn take_over(attempt: u8) -> Change {
    Change::TakeOver { attempt: attempt_id(attempt), timing: timing() }
}

fn finish() -> Finish {
    let headers: Headers = vec![
        ("content-type".into(), Bytes::from_static(b"application/json")),
        ("link".into(), Bytes::from_static(b"</a>")),
        ("link".into(), Bytes::from_static(b"</b>")),
    ];
    let content = Content::Kept { headers, body: Bytes::from_static(b"{\"id\":\"ch_1\"}") };
    Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content },
        response_ttl: RESPONSE_TTL,
        resource: Some("ch_1".into()),
    }
}

/// Polls all futures in turn until each is done, so that all have begun before any ends.
async fn together<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    poll_fn(|context| {
        for (future, done) in futures.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if futures.iter().all(|(_, done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, done)| done).collect()
}

/// The winners among swaps that ran together; every loser must have got the winner's record.
fn winners(swaps: Vec<Result<Swap, StoreError>>) -> Vec<Arc<Record>> {
    let swaps: Vec<Swap> = swaps.into_iter().map(|swap| swap.expect("a lost race is no error")).collect();
    let won = |swap: &Swap| match swap {
        Swap::Swapped { record, .. } => Some(Arc::clone(record)),
        Swap::Conflict { .. } => None,
    };
    let winners: Vec<_> = swaps.iter().filter_map(won).collect();
    for swap in &swaps {
        if let Swap::Conflict { record, .. } = swap {
            let record = record.as_ref().expect("the loser gets the record from the same call");
            assert!(winners.contains(record), "the loser's record is the winner's");
        }
    }
    winners
}

/// Of many claims of one key begun together, one wins and the others get its record (P8, C9).
pub async fn one_of_many_claimers_wins(subject: &Subject) {
    let name = name("k1");
    let claims = (1..=40).map(|attempt| subject.store.swap(name.id(), None, name.claim(attempt))).collect();
    let winners = winners(together(claims).await);
    assert_eq!(winners.len(), 1);
    assert_eq!(subject.load(&name).await.as_ref(), winners.first());
}

/// Two tenants' equal keys, claimed together, both win (P4, C37).
pub async fn equal_keys_of_two_tenants_are_two_records(subject: &Subject) {
    let (a, b) = (Name::new("tenant-a", "k1"), Name::new("tenant-b", "k1"));
    let claims =
        vec![subject.store.swap(a.id(), None, a.claim(1)), subject.store.swap(b.id(), None, b.claim(2))];
    assert_eq!(winners(together(claims).await).len(), 2);
    let record = subject.load(&a).await.expect("it was claimed");
    assert_eq!((record.tenant.as_str(), record.fence.attempt), ("tenant-a", attempt_id(1)));
}

/// A claim never overwrites; whatever state the record is in, the loser gets it (P8, C16).
pub async fn the_loser_gets_the_record(subject: &Subject) {
    let name = name("k1");
    let claimed = subject.claimed(&name, 1).await;
    assert_eq!(subject.conflicting(&name, None, name.claim(2)).await, Some(Arc::clone(&claimed)));
    let finished = subject.swapped(&name, Some(claimed.fence), Change::Finish(finish())).await;
    assert_eq!(subject.conflicting(&name, None, name.claim(3)).await, Some(Arc::clone(&finished)));
    assert_eq!(subject.load(&name).await, Some(finished));
}

/// A claim under another name's id is refused as such, and learns nothing of the record (P4).
pub async fn a_hash_does_not_open_anothers_record(subject: &Subject) {
    let (owner, other) = (Name::new("tenant-a", "k1"), Name::new("tenant-b", "k1"));
    let record = subject.claimed(&owner, 1).await;
    for expected in [None, Some(record.fence)] {
        let refusal = subject.store.swap(owner.id(), expected, other.claim(2)).await;
        assert!(matches!(refusal, Err(StoreError::Collision(id)) if id == owner.id()), "{refusal:?}");
    }
    assert_eq!(subject.load(&owner).await, Some(record));
}

/// A live owner is not overtaken; one whose timeout is over is, by one of many (P9, P11, C1).
pub async fn a_dead_claimer_is_overtaken_after_its_timeout(subject: &Subject) {
    let name = name("k1");
    let claimed = subject.claimed(&name, 1).await;
    subject.advance(OPERATION_TIMEOUT - MICROSECOND);
    let early = subject.swap(&name, Some(claimed.fence), take_over(2)).await;
    assert!(matches!(early, Err(StoreError::Illegal(_))), "{early:?}");

    subject.advance(MICROSECOND);
    let successors = (2..=9)
        .map(|attempt| subject.store.swap(name.id(), Some(claimed.fence), take_over(attempt)))
        .collect();
    let winners = winners(together(successors).await);
    assert_eq!(winners.len(), 1);
    assert_eq!((winners[0].fence.version, winners[0].attempts), (2, 2));
    subject.swapped(&name, Some(winners[0].fence), Change::Finish(finish())).await;
}

/// An overtaken owner's finish, release and mark are refused, and it gets the truth (P11, C7).
pub async fn a_slow_claimer_comes_back_too_late(subject: &Subject) {
    let name = name("k1");
    let slow = subject.claimed(&name, 1).await;
    subject.advance(OPERATION_TIMEOUT);
    let taken = subject.swapped(&name, Some(slow.fence), take_over(2)).await;
    let mark = Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::ZERO };
    for late in [Change::Finish(finish()), Change::Release, mark] {
        assert_eq!(subject.conflicting(&name, Some(slow.fence), late).await, Some(Arc::clone(&taken)));
    }
    let finished = subject.swapped(&name, Some(taken.fence), Change::Finish(finish())).await;
    assert_eq!(subject.conflicting(&name, Some(slow.fence), Change::Release).await, Some(finished));
}

/// Versions start anew after a release; the attempt id still tells the lives apart (P8, P11).
pub async fn a_late_owner_cannot_touch_a_recreated_record(subject: &Subject) {
    let name = name("k1");
    let first = subject.claimed(&name, 1).await;
    assert_eq!(subject.swapped(&name, Some(first.fence), Change::Release).await, first);
    assert_eq!(subject.load(&name).await, None);
    assert_eq!(subject.conflicting(&name, Some(first.fence), Change::Finish(finish())).await, None);

    let second = subject.claimed(&name, 2).await;
    assert_eq!(first.fence.version, second.fence.version);
    for late in [Change::Finish(finish()), Change::Release] {
        assert_eq!(subject.conflicting(&name, Some(first.fence), late).await, Some(Arc::clone(&second)));
    }
}

/// A repeat of a claim in doubt with its own attempt id wins, or meets itself; either way its owner knows (P12).
pub async fn a_claim_in_doubt_is_resolved_by_its_attempt_id(subject: &Subject) {
    for (truth, name) in [(Truth::Happened, name("k1")), (Truth::DidNotHappen, name("k2"))] {
        let faulty = Faulty::new(Arc::clone(&subject.store));
        faulty.fail_call(1, Fault::InDoubt(truth));
        let doubt = faulty.swap(name.id(), None, name.claim(1)).await;
        assert!(doubt.is_err_and(|error| error.may_have_happened()));
        let owned = match faulty.swap(name.id(), None, name.claim(1)).await {
            Ok(Swap::Swapped { record, .. }) if truth == Truth::DidNotHappen => record,
            Ok(Swap::Conflict { record: Some(record), .. }) if truth == Truth::Happened => record,
            other => panic!("{truth:?}: {other:?}"),
        };
        assert_eq!(owned.fence, Fence { version: 1, attempt: attempt_id(1) });
        subject.swapped(&name, Some(owned.fence), Change::Finish(finish())).await;
    }
}

/// A repeat of a finish in doubt happens, or meets the finished record of the same attempt (P12).
pub async fn a_finish_in_doubt_is_resolved_by_its_fence(subject: &Subject) {
    for (truth, name) in [(Truth::Happened, name("k1")), (Truth::DidNotHappen, name("k2"))] {
        let fence = subject.claimed(&name, 1).await.fence;
        let faulty = Faulty::new(Arc::clone(&subject.store));
        faulty.fail_call(1, Fault::InDoubt(truth));
        let doubt = faulty.swap(name.id(), Some(fence), Change::Finish(finish())).await;
        assert!(doubt.is_err_and(|error| error.may_have_happened()));
        let record = match faulty.swap(name.id(), Some(fence), Change::Finish(finish())).await {
            Ok(Swap::Swapped { record, .. }) if truth == Truth::DidNotHappen => record,
            Ok(Swap::Conflict { record: Some(record), .. }) if truth == Truth::Happened => record,
            other => panic!("{truth:?}: {other:?}"),
        };
        assert_eq!((record.state.name(), record.fence.attempt), ("finished", fence.attempt));
    }
}

/// A finished record cannot be claimed until the very end of its promise, and can from then on (P9, C21).
pub async fn an_answer_is_promised_to_the_microsecond(subject: &Subject) {
    let name = name("k1");
    let finished = subject.finished(&name, 1, RESPONSE_TTL).await;
    subject.finished(&self::name("k2"), 1, RESPONSE_TTL).await;
    subject.advance(RESPONSE_TTL - MICROSECOND);
    let early = subject.swap(&name, Some(finished.fence), name.claim(2)).await;
    assert!(matches!(early, Err(StoreError::Illegal(_))), "{early:?}");
    assert_eq!(subject.purge(9).await, (0, Duration::ZERO));

    subject.advance(MICROSECOND);
    assert_eq!(subject.conflicting(&name, None, name.claim(2)).await, Some(Arc::clone(&finished)));
    let next = subject.swapped(&name, Some(finished.fence), name.claim(2)).await;
    assert_eq!((next.fence.version, next.attempts, next.state.name()), (1, 1, "in_progress"));
    assert_eq!(subject.load(&name).await, Some(next));
    assert_eq!(subject.purge(9).await, (1, Duration::ZERO), "only the key that nobody claimed again");
}

/// Of many claims of one expired key begun together, one wins (P8, C21).
pub async fn one_of_many_claimers_of_an_expired_key_wins(subject: &Subject) {
    let name = name("k1");
    let finished = subject.finished(&name, 1, RESPONSE_TTL).await;
    subject.advance(RESPONSE_TTL);
    let claims =
        (2..=9).map(|attempt| subject.store.swap(name.id(), Some(finished.fence), name.claim(attempt)));
    let winners = winners(together(claims.collect()).await);
    assert_eq!(winners.len(), 1);
    assert_eq!(subject.load(&name).await.as_ref(), winners.first());
}

/// No (version, attempt id) pair is used twice for one key (P8).
pub async fn an_attempt_id_is_not_used_twice(subject: &Subject) {
    let name = name("k1");
    let finished = subject.finished(&name, 1, RESPONSE_TTL).await;
    subject.advance(RESPONSE_TTL);
    let repeat = subject.swap(&name, Some(finished.fence), name.claim(1)).await;
    assert!(matches!(repeat, Err(StoreError::Illegal(_))), "{repeat:?}");
}

/// Steps that the table does not have are refused by name and leave the record alone.
pub async fn illegal_steps_are_refused_and_change_nothing(subject: &Subject) {
    let (absent, finished) = (name("absent"), name("finished"));
    let record = subject.finished(&finished, 1, RESPONSE_TTL).await;
    let stamp = Change::StampDeadline { operation_timeout: OPERATION_TIMEOUT };
    for change in [Change::Release, Change::Abandon, Change::Finish(finish()), take_over(2), stamp] {
        let refusal = subject.swap(&absent, None, change.clone()).await;
        assert!(matches!(refusal, Err(StoreError::Illegal(_))), "{refusal:?}");
        let refusal = subject.swap(&finished, Some(record.fence), change).await;
        assert!(matches!(refusal, Err(StoreError::Illegal(_))), "{refusal:?}");
    }
    assert_eq!(subject.load(&absent).await, None);
    assert_eq!(subject.load(&finished).await, Some(record));
}

/// What a change does not name stays, and what a call returns is what a later read returns (P5, C26).
pub async fn every_field_survives_every_step(subject: &Subject) {
    let name = name("k1");
    let mut record = subject.claimed(&name, 1).await;
    let steps = [
        Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::from_secs(1) },
        Change::AskAgain { cause: Cause::CutOff, after: Duration::from_secs(2), sighted: false },
        take_over(2),
        Change::MarkUnknown { cause: Cause::Pending, ask_after: Duration::from_secs(3) },
        Change::AskAgain { cause: Cause::Pending, after: Duration::from_secs(4), sighted: true },
        Change::Abandon,
        Change::Finish(finish()),
    ];
    for change in steps {
        subject.advance(Duration::from_millis(1500));
        let step = change.name();
        let next = subject.swapped(&name, Some(record.fence), change).await;
        assert_eq!(subject.load(&name).await, Some(Arc::clone(&next)), "{step}");
        assert_eq!(next.fence.version, record.fence.version + 1, "{step}");
        assert_eq!((&next.tenant, &next.key), (&record.tenant, &record.key), "{step}");
        assert_eq!((&next.fingerprint, next.id), (&record.fingerprint, record.id), "{step}");
        assert_eq!((next.created_at, next.exposure), (record.created_at, record.exposure), "{step}");
        record = next;
    }
    assert_eq!((record.attempts, record.sighted), (2, true));
    let State::Finished { answer, conclusion, resource, at, expires_at } = &record.state else {
        panic!("finished, got {record:?}");
    };
    assert_eq!((answer, *conclusion), (&finish().answer, Conclusion::Approved));
    assert_eq!(resource.as_deref(), Some("ch_1"));
    assert_eq!(expires_at.since(*at), RESPONSE_TTL);
}

/// Statuses, bodies and header values come back as they were given, whatever bytes they are (P18, C53).
pub async fn answers_are_kept_byte_for_byte(subject: &Subject) {
    let bodies: [&[u8]; 7] =
        [b"", b"null", b"\x00\xff\xfe\x0a", b"\xc3\x28", b"{\"b\":1, \"a\":1.0}", b"\r\n", &[b'x'; 200_000]];
    let headers: Headers = vec![
        ("content-type".into(), Bytes::from_static(b"application/json; charset=utf-8")),
        ("location".into(), Bytes::from_static(b"/a b\\x20\t\"")),
        ("x-bytes".into(), Bytes::from((0..=255).collect::<Vec<u8>>())),
        ("x-empty".into(), Bytes::new()),
        ("x-empty".into(), Bytes::from_static(b" ")),
    ];
    let kept = |headers: &Headers, body: &[u8]| Content::Kept {
        headers: headers.clone(),
        body: Bytes::copy_from_slice(body),
    };
    let mut answers: Vec<Answer> =
        bodies.iter().map(|body| Answer { status: 200, content: kept(&headers, body) }).collect();
    answers.extend(
        [201, 202, 204, 303, 402, 404, 599].map(|status| Answer { status, content: kept(&Vec::new(), b"") }),
    );
    answers.extend(
        [NotKept::TooLarge, NotKept::Streamed, NotKept::Redacted]
            .map(|why| Answer { status: 200, content: Content::NotKept { headers: headers.clone(), why } }),
    );
    let sealed = Content::Sealed { key_id: "2026-01".into(), bytes: Bytes::from_static(b"\x00sealed\xff") };
    answers.push(Answer { status: 201, content: sealed });

    for (number, answer) in answers.into_iter().enumerate() {
        let name = name(&format!("k{number}"));
        let conclusion = Conclusion::of_status(answer.status);
        let fence = subject.claimed(&name, 1).await.fence;
        let finish =
            Finish { conclusion, answer: answer.clone(), response_ttl: RESPONSE_TTL, resource: None };
        subject.swapped(&name, Some(fence), Change::Finish(finish)).await;
        let record = subject.load(&name).await.expect("it was finished");
        let State::Finished { answer: stored, conclusion: concluded, resource, .. } = &record.state else {
            panic!("finished, got {record:?}");
        };
        assert_eq!((stored, *concluded, resource), (&answer, conclusion, &None));
    }
}

/// Expired records go; unfinished, unknown and abandoned ones stay however old they are (P9, P21).
pub async fn purge_deletes_what_expired_and_nothing_else(subject: &Subject) {
    let (running, unknown, tombstone) = (name("running"), name("unknown"), name("tombstone"));
    subject.claimed(&running, 1).await;
    let mark = || Change::MarkUnknown { cause: Cause::CutOff, ask_after: Duration::ZERO };
    for name in [&unknown, &tombstone] {
        let fence = subject.claimed(name, 1).await.fence;
        subject.swapped(name, Some(fence), mark()).await;
    }
    let fence = subject.load(&tombstone).await.expect("it was marked").fence;
    subject.swapped(&tombstone, Some(fence), Change::Abandon).await;
    let expired = name("expired");
    subject.finished(&expired, 1, RESPONSE_TTL).await;
    subject.advance(RESPONSE_TTL);
    let live = name("live");
    subject.finished(&live, 1, RESPONSE_TTL).await;

    subject.advance(RESPONSE_TTL - MICROSECOND);
    assert_eq!(subject.purge(100).await.0, 1);
    assert_eq!(subject.load(&expired).await, None);
    for name in [&running, &unknown, &tombstone, &live] {
        assert!(subject.load(name).await.is_some(), "{}", name.key.as_str());
    }
    // The key is free again, and its next life starts as any other.
    subject.claimed(&expired, 2).await;
}

/// A purge deletes at most what it was allowed, the oldest first, and says how far behind it is (P21, C59).
pub async fn purge_is_bounded_and_tells_its_lag(subject: &Subject) {
    for number in 0..10 {
        subject.finished(&name(&format!("k{number}")), 1, RESPONSE_TTL).await;
        subject.advance(Duration::from_secs(1));
    }
    subject.advance(RESPONSE_TTL);
    assert_eq!(subject.purge(0).await, (0, Duration::from_secs(10)));
    let (deleted, lag) = subject.purge(4).await;
    assert_eq!(deleted, 4);
    assert!(lag >= Duration::from_secs(1), "records are left, {lag:?}");
    assert_eq!(subject.purge(100).await, (6, Duration::ZERO));
}

/// A record keeps the promise it was stored with, whatever later ones promise (P9, C116).
pub async fn a_lowered_ttl_keeps_promises(subject: &Subject) {
    let (before, after) = (name("before"), name("after"));
    subject.finished(&before, 1, RESPONSE_TTL).await;
    subject.finished(&after, 1, Duration::from_secs(3600)).await;
    subject.advance(Duration::from_secs(7200));
    assert_eq!(subject.purge(9).await, (1, Duration::ZERO));
    assert!(subject.load(&before).await.is_some());
    assert_eq!(subject.load(&after).await, None);
}

/// Lost attempts that may have sent something, and unknown ones whose time has come, are to be asked about; oldest
/// first, and nothing else (P16).
pub async fn due_are_lost_and_unknown_attempts_oldest_first(subject: &Subject) {
    let ask_after =
        |seconds| Change::MarkUnknown { cause: Cause::Pending, ask_after: Duration::from_secs(seconds) };
    subject.claimed(&name("lost"), 1).await;
    let contained = name("contained");
    subject.swapped(&contained, None, Change::Claim(contained.claim_of(1, Exposure::Contained))).await;
    for (key, seconds) in [("later", 3600), ("sooner", 5), ("at-once", 0)] {
        let fence = subject.claimed(&name(key), 1).await.fence;
        subject.swapped(&name(key), Some(fence), ask_after(seconds)).await;
    }
    subject.finished(&name("done"), 1, RESPONSE_TTL).await;

    assert_eq!(subject.due_keys(9).await, ["at-once"]);
    subject.advance(OPERATION_TIMEOUT);
    subject.claimed(&name("running"), 1).await;
    assert_eq!(subject.due_keys(9).await, ["at-once", "sooner", "lost"]);
    assert_eq!(subject.due_keys(2).await, ["at-once", "sooner"]);

    let fence = subject.load(&name("at-once")).await.expect("it is due").fence;
    let again = Change::AskAgain { cause: Cause::Pending, after: Duration::from_secs(60), sighted: false };
    subject.swapped(&name("at-once"), Some(fence), again).await;
    assert_eq!(subject.due_keys(9).await, ["sooner", "lost"]);
}

/// A tenant with many due records does not displace another's (P16).
pub async fn due_is_fair_between_tenants(subject: &Subject) {
    for number in 0..20 {
        subject.claimed(&Name::new("loud", &format!("loud-{number}")), 1).await;
    }
    subject.advance(Duration::from_secs(1));
    subject.claimed(&Name::new("quiet", "quiet-0"), 1).await;
    subject.advance(OPERATION_TIMEOUT);
    let due = subject.due_keys(4).await;
    assert!(due.contains(&"quiet-0".to_owned()) && due.len() == 4, "{due:?}");
}

/// Pages tell every record once, newest first, also while the list grows.
pub async fn lists_are_cut_into_pages_newest_first(subject: &Subject) {
    for number in 0..7 {
        subject.claimed(&name(&format!("k{number}")), 1).await;
    }
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let page = subject.page(&Filter::default(), after, 3).await;
        keys.extend(page.records.iter().map(|record| record.key.as_str().to_owned()));
        subject.claimed(&name(&format!("new-{}", keys.len())), 1).await;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(keys, ["k6", "k5", "k4", "k3", "k2", "k1", "k0"]);
}

/// Filters by tenant and by state narrow the list, together too.
pub async fn lists_are_filtered(subject: &Subject) {
    let listed = async |tenant: Option<&str>, state| {
        let tenant = tenant.map(|tenant| Tenant::parse(tenant).expect("the suite's tenants are well-formed"));
        let page = subject.page(&Filter { tenant, state }, None, 9).await;
        page.records.iter().map(|record| record.key.as_str().to_owned()).collect::<Vec<_>>()
    };
    subject.claimed(&Name::new("a", "a-running"), 1).await;
    subject.finished(&Name::new("a", "a-done"), 1, RESPONSE_TTL).await;
    let pending = Name::new("b", "b-pending");
    let fence = subject.claimed(&pending, 1).await.fence;
    let mark = Change::MarkUnknown { cause: Cause::Pending, ask_after: Duration::ZERO };
    subject.swapped(&pending, Some(fence), mark).await;

    assert_eq!(listed(None, None).await, ["b-pending", "a-done", "a-running"]);
    assert_eq!(listed(Some("a"), None).await, ["a-done", "a-running"]);
    assert_eq!(listed(None, Some("finished")).await, ["a-done"]);
    assert_eq!(listed(None, Some("pending")).await, ["b-pending"]);
    assert!(listed(Some("b"), Some("finished")).await.is_empty());
}
