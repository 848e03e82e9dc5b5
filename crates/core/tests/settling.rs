//! What events and people may settle.

use std::time::Duration;

use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{AttemptTiming, Cause, Claim, Exposure, Record, State};
use unavez_core::recovery::{Promise, Told};
use unavez_core::settling::{Evidence, News, Refusal, Ruling, by_event, by_hand};
use unavez_core::time::Time;

const TIMING: AttemptTiming =
    AttemptTiming { operation_timeout: Duration::from_secs(60), attempt_deadline: Duration::from_secs(50) };
const PROMISE: Promise = Promise {
    visibility_delay: Duration::from_secs(30),
    resend_window: Some(Duration::from_secs(24 * 3600)),
};
const DONE: Told = Told::Done { positive: true };
const DECLINED: Told = Told::Done { positive: false };

fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

/// Claimed at 0.
fn record(attempts: u32, state: State) -> Record {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: None,
        content_encoding: None,
        body: b"B1",
    };
    let claim = Claim {
        tenant: Tenant::single(),
        key: Key::parse_path("K1").expect("a plain key"),
        fingerprint: Fingerprint::of(&request, &Rules::default()).expect("raw bytes"),
        attempt: AttemptId::from_bytes([1; 16]),
        timing: TIMING,
        exposure: Exposure::MayBeSent,
    };
    let id = RecordId::of(&Realm::parse("test").expect("a plain name"), &claim.tenant, &claim.key);
    Record { attempts, state, ..Record::claimed(id, claim, at(0)) }
}

fn running() -> State {
    State::InProgress { deadline: Some(at(60)) }
}

fn unknown() -> State {
    State::Unknown { cause: Cause::CutOff, asked: 0, next_ask_at: at(60) }
}

fn finished(conclusion: Conclusion) -> State {
    State::Finished {
        at: at(10),
        expires_at: at(24 * 3600),
        conclusion,
        answer: Answer { status: 201, content: Content::Kept { headers: Vec::new(), body: "".into() } },
        resource: None,
    }
}

#[test]
fn p27_a_positive_event_settles_an_open_operation_and_a_negative_one_a_single_attempt() {
    for state in [running(), unknown(), State::Abandoned { at: at(5) }] {
        for (attempts, told) in [(1, DONE), (3, DONE), (1, DECLINED)] {
            let record = record(attempts, state.clone());
            assert_eq!(by_event(&record, told, at(20)), News::Settle(record.fence), "{attempts} {told:?}");
        }
    }
}

#[test]
fn p27_c111_a_refusal_among_several_attempts_makes_recovery_ask_and_ends_no_live_attempt() {
    let waiting = record(2, unknown());
    assert_eq!(by_event(&waiting, DECLINED, at(20)), News::Note(waiting.fence));
    let alive = record(2, running());
    assert_eq!(by_event(&alive, DECLINED, at(59)), News::Later);
    assert_eq!(by_event(&alive, DECLINED, at(60)), News::Note(alive.fence), "its owner is lost");
    let abandoned = record(2, State::Abandoned { at: at(5) });
    assert_eq!(by_event(&abandoned, DECLINED, at(20)), News::Later);
}

#[test]
fn p27_c111_a_final_state_never_goes_back_and_what_speaks_against_it_is_a_contradiction() {
    let check = |conclusion, attempts, told, expected| {
        let news = by_event(&record(attempts, finished(conclusion)), told, at(20));
        assert_eq!(news, expected, "{conclusion:?} {attempts} {told:?}");
    };
    check(Conclusion::Approved, 1, DONE, News::Known);
    check(Conclusion::Declined, 1, DECLINED, News::Known);
    check(Conclusion::Approved, 2, DECLINED, News::Known);
    check(Conclusion::Approved, 1, DECLINED, News::Contradiction);
    check(Conclusion::Declined, 1, DONE, News::Contradiction);
    check(Conclusion::Declined, 2, DONE, News::Contradiction);
    check(Conclusion::Approved, 1, Told::Pending, News::Known);
}

fn ruled(record: &Record, ruling: Ruling, told: Told, seconds: i64) -> Result<(), Refusal> {
    let evidence = Evidence { told, asked_at: at(seconds) };
    by_hand(record, ruling, evidence, &PROMISE, TIMING, at(seconds))
        .map(|fence| assert_eq!(fence, record.fence))
}

#[test]
fn by_hand_needs_an_attempt_older_than_timeout_and_visibility_delay() {
    for state in [running(), unknown()] {
        let open = record(1, state);
        for told in [Told::NotFound, DONE, DECLINED, Told::CannotSay] {
            let refused = ruled(&open, Ruling::Failed, told, 90);
            assert_eq!(refused, Err(Refusal::TooEarly(at(90))), "{told:?}");
        }
        assert_eq!(ruled(&open, Ruling::Failed, Told::NotFound, 91), Ok(()));
    }
    let undated = record(1, State::InProgress { deadline: None });
    assert_eq!(ruled(&undated, Ruling::Done, DONE, 24 * 3600), Err(Refusal::TooEarly(Time::MAX)));
}

#[test]
fn by_hand_never_contradicts_the_outside_system() {
    let open = record(1, unknown());
    let check = |ruling, told, expected| assert_eq!(ruled(&open, ruling, told, 91), expected, "{told:?}");
    check(Ruling::Done, DONE, Ok(()));
    check(Ruling::Failed, DECLINED, Ok(()));
    check(Ruling::Failed, DONE, Err(Refusal::Contradicts));
    check(Ruling::Done, DECLINED, Err(Refusal::Contradicts));
    check(Ruling::Done, Told::NotFound, Err(Refusal::Contradicts));
    check(Ruling::Done, Told::Pending, Err(Refusal::Undecided));
    check(Ruling::Failed, Told::Pending, Err(Refusal::Undecided));
    let over = record(1, finished(Conclusion::Declined));
    assert_eq!(ruled(&over, Ruling::Done, DONE, 91), Err(Refusal::Final));
}

#[test]
fn by_hand_takes_failed_only_from_an_answer_that_proves_it() {
    let open = record(1, unknown());
    assert_eq!(ruled(&open, Ruling::Failed, Told::CannotSay, 91), Err(Refusal::ProvesNothing));
    let forgotten = 25 * 3600;
    for attempts in 1..=4 {
        let old = record(attempts, unknown());
        assert_eq!(ruled(&old, Ruling::Failed, Told::NotFound, forgotten), Err(Refusal::ProvesNothing));
        assert_eq!(ruled(&old, Ruling::Done, Told::NotFound, forgotten), Ok(()), "seen in the books there");
    }
    let sighted = Record { sighted: true, ..record(1, unknown()) };
    assert_eq!(ruled(&sighted, Ruling::Failed, Told::NotFound, 91), Err(Refusal::ProvesNothing));
    let thrice = record(3, unknown());
    assert_eq!(ruled(&thrice, Ruling::Failed, Told::NotFound, 91), Ok(()));
}
