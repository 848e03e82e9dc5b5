//! The decision table and the reading of recovery's answers, as properties over all records.

use std::time::Duration;

use proptest::prelude::*;

use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::decision::{Decision, Incoming, decide};
use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
use unavez_core::identity::{AttemptId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::outcome::{Effect, OnLost};
use unavez_core::record::{AttemptTiming, Cause, Change, Claim, Exposure, Record, State};
use unavez_core::recovery::{self, Held, Promise, Told, Verdict};
use unavez_core::time::Time;

const TIMING: AttemptTiming =
    AttemptTiming { operation_timeout: Duration::from_secs(60), attempt_deadline: Duration::from_secs(50) };
const TTL: Duration = Duration::from_secs(24 * 3600);
const V: Duration = Duration::from_secs(30);
const PROMISE: Promise = Promise { visibility_delay: V, resend_window: Some(Duration::from_secs(24 * 3600)) };

fn at(seconds: i64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

fn fingerprint_of(body: &[u8]) -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body,
    };
    Fingerprint::of(&request, &Rules::default()).expect("a plain body")
}

fn record(exposure: Exposure) -> Record {
    let claim = Claim {
        tenant: Tenant::single(),
        key: Key::parse_path("K1").expect("a plain key"),
        fingerprint: fingerprint_of(b"{\"amount\":2500}"),
        attempt: AttemptId::from_bytes([1; 16]),
        timing: TIMING,
        exposure,
    };
    let id = RecordId::of(&Realm::parse("test").expect("a plain name"), &claim.tenant, &claim.key);
    Record::claimed(id, claim, at(0))
}

fn any_state() -> impl Strategy<Value = State> {
    let seconds = 0..200_000_i64;
    prop_oneof![
        prop::option::of(seconds.clone())
            .prop_map(|deadline| State::InProgress { deadline: deadline.map(at) }),
        (seconds.clone(), 0..9_u32, prop_oneof![Just(Cause::CutOff), Just(Cause::Pending)])
            .prop_map(|(next, asked, cause)| State::Unknown { cause, asked, next_ask_at: at(next) }),
        seconds.clone().prop_map(|expires| State::Finished {
            at: at(0),
            expires_at: at(expires),
            conclusion: Conclusion::Approved,
            answer: Answer { status: 201, content: Content::Kept { headers: Vec::new(), body: "".into() } },
            resource: None,
        }),
        seconds.prop_map(|since| State::Abandoned { at: at(since) }),
    ]
}

fn any_record() -> impl Strategy<Value = Record> {
    (any_state(), prop_oneof![Just(Exposure::Contained), Just(Exposure::MayBeSent)], 1..5_u32, any::<bool>())
        .prop_map(|(state, exposure, attempts, sighted)| {
            let mut record = record(exposure);
            record.state = state;
            record.attempts = attempts;
            record.sighted = sighted;
            record
        })
}

fn any_effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        Just(Effect::Transactional),
        Just(Effect::Recoverable),
        Just(Effect::Opaque(OnLost::Hold)),
        Just(Effect::Opaque(OnLost::Rerun)),
    ]
}

fn verdict(record: &Record, body: &[u8], effect: Effect, now: Time) -> Decision {
    let fingerprint = fingerprint_of(body);
    decide(record, &Incoming { fingerprint: &fingerprint, effect, response_ttl: TTL }, now)
}

proptest! {
    /// P6: in every state that still promises anything, another request is refused before anything else is looked at.
    #[test]
    fn p6_a_mismatch_is_refused_in_every_state(record in any_record(), effect in any_effect(), now in 0..200_000_i64) {
        let decision = verdict(&record, b"{\"amount\":9900}", effect, at(now));
        if record.is_expired(at(now)) {
            prop_assert_eq!(decision, Decision::ClaimExpired(record.fence));
        } else {
            prop_assert_eq!(decision, Decision::RefuseReused(vec!["amount".to_owned()]));
        }
    }

    /// P14, P16: what may have been sent is never run again without asking, unless that was chosen by name.
    #[test]
    fn p14_nothing_that_may_have_been_sent_is_rerun_unasked(
        record in any_record(), effect in any_effect(), now in 0..200_000_i64,
    ) {
        let decision = verdict(&record, b"{\"amount\":2500}", effect, at(now));
        if let Decision::TakeOver(fence) = decision {
            prop_assert_eq!(fence, record.fence);
            prop_assert!(record.exposure == Exposure::Contained || effect == Effect::Opaque(OnLost::Rerun));
            let ended = record.is_lost(at(now)) || matches!(record.state, State::Unknown { .. });
            prop_assert!(ended, "taken over while running");
        }
    }

    /// P9, P18: a promised answer is replayed, and nothing but a promised answer is.
    #[test]
    fn p18_exactly_the_promised_answers_are_replayed(
        record in any_record(), effect in any_effect(), now in 0..200_000_i64,
    ) {
        let decision = verdict(&record, b"{\"amount\":2500}", effect, at(now));
        let promised = matches!(record.state, State::Finished { .. }) && !record.is_expired(at(now));
        prop_assert_eq!(decision == Decision::Replay, promised);
    }

    /// P22: a cancellation is no operation, so it answers whatever comes under its key.
    #[test]
    fn p22_a_cancelled_key_answers_every_request(
        record in any_record(), effect in any_effect(), body in "[a-z]{0,9}", now in 0..200_000_i64,
    ) {
        let mut record = record;
        let State::Finished { conclusion, .. } = &mut record.state else { return Ok(()) };
        *conclusion = Conclusion::Cancelled;
        prop_assume!(!record.is_expired(at(now)));
        prop_assert_eq!(verdict(&record, body.as_bytes(), effect, at(now)), Decision::Replay);
    }

    /// P10: a live attempt is never disturbed, and a deadline that cannot be read counts as alive (C4).
    #[test]
    fn c4_a_live_attempt_is_never_disturbed(record in any_record(), effect in any_effect(), now in 0..200_000_i64) {
        let decision = verdict(&record, b"{\"amount\":2500}", effect, at(now));
        match record.state {
            State::InProgress { deadline: None } => prop_assert_eq!(decision, Decision::StampDeadline(record.fence)),
            State::InProgress { deadline: Some(deadline) } if at(now) < deadline => {
                prop_assert_eq!(decision, Decision::RefuseInProgress);
            }
            _ => {}
        }
    }

    /// P16: a send is repeated only for a question asked after the last one could have arrived, never after a
    /// sighting, never beyond three attempts, never outside the window.
    #[test]
    fn p16_sending_again_needs_every_condition(
        record in any_record(), asked_at in 0..200_000_i64, answered_after in 0..60_i64,
    ) {
        let now = at(asked_at + answered_after);
        let verdict = recovery::read(&record, Told::NotFound, at(asked_at), &PROMISE, TIMING, now);
        if let Verdict::SendAgain(fence) = verdict {
            prop_assert_eq!(fence, record.fence);
            prop_assert!(!record.sighted);
            prop_assert!(record.attempts < recovery::ATTEMPTS_MAX);
            prop_assert!(at(asked_at) > record.latest_send_at.plus(V));
            prop_assert!(now < at(24 * 3600));
        }
    }

    /// P16: time alone never turns unknown into failed, and silence changes nothing.
    #[test]
    fn p16_an_outside_system_that_cannot_say_changes_nothing(record in any_record(), asked_at in 0..200_000_i64) {
        let verdict = recovery::read(&record, Told::CannotSay, at(asked_at), &PROMISE, TIMING, at(asked_at));
        prop_assert_eq!(verdict, Verdict::CannotSay);
    }

    /// P16: the wait between questions grows, never overflows and stops at an hour, or at a longer timeout.
    #[test]
    fn p16_the_wait_between_questions_is_bounded(asked in any::<u32>(), timeout_ms in 1..10_000_000_u64) {
        let timeout = Duration::from_millis(timeout_ms);
        let wait = recovery::ask_interval(asked, timeout);
        prop_assert!(wait >= timeout);
        prop_assert!(wait <= Duration::from_secs(3600).max(timeout));
        prop_assert!(wait <= recovery::ask_interval(asked.saturating_add(1), timeout));
    }
}

#[test]
fn p14_an_opaque_outcome_is_held_and_then_abandoned_and_never_rerun() {
    let lost = record(Exposure::MayBeSent);
    let hold = Effect::Opaque(OnLost::Hold);
    assert_eq!(verdict(&lost, b"{\"amount\":2500}", hold, at(60)), Decision::MarkUnknown(lost.fence));
    let mut held = lost.clone();
    held.state = State::Unknown { cause: Cause::CutOff, asked: 0, next_ask_at: at(60) };
    assert_eq!(verdict(&held, b"{\"amount\":2500}", hold, at(61)), Decision::RefuseUnknown);
    // The TTL counts from the end of the attempt, 50 s after the claim.
    let over = 50 + 24 * 3600;
    assert_eq!(verdict(&held, b"{\"amount\":2500}", hold, at(over - 1)), Decision::RefuseUnknown);
    assert_eq!(verdict(&held, b"{\"amount\":2500}", hold, at(over)), Decision::Abandon(held.fence));
}

#[test]
fn p15_declaring_a_route_transactional_does_not_free_what_was_sent_before() {
    let lost = record(Exposure::MayBeSent);
    let decision = verdict(&lost, b"{\"amount\":2500}", Effect::Transactional, at(61));
    assert_eq!(decision, Decision::MarkUnknown(lost.fence));
}

#[test]
fn c108_not_found_counts_from_the_question_not_from_the_answer() {
    let mut record = record(Exposure::MayBeSent);
    record.latest_send_at = at(1);
    let asked_early = recovery::read(&record, Told::NotFound, at(2), &PROMISE, TIMING, at(40));
    assert_eq!(asked_early, Verdict::StillPending { sighted: false });
    let asked_late = recovery::read(&record, Told::NotFound, at(32), &PROMISE, TIMING, at(40));
    assert_eq!(asked_late, Verdict::SendAgain(record.fence));
}

#[test]
fn c109_nothing_is_sent_again_outside_the_window_after_a_sighting_or_a_fourth_time() {
    let fresh = record(Exposure::MayBeSent);
    let ask = |record: &Record, seconds| {
        recovery::read(record, Told::NotFound, at(seconds), &PROMISE, TIMING, at(seconds))
    };
    assert_eq!(ask(&fresh, 25 * 3600), Verdict::Hold(Held::WindowOver));
    let mut sighted = fresh.clone();
    sighted.sighted = true;
    assert_eq!(ask(&sighted, 3600), Verdict::Hold(Held::SightedBefore));
    let mut third = fresh.clone();
    third.attempts = 3;
    assert_eq!(ask(&third, 3600), Verdict::Hold(Held::TooManyAttempts));
    let never = Promise { resend_window: None, ..PROMISE };
    assert_eq!(
        recovery::read(&fresh, Told::NotFound, at(3600), &never, TIMING, at(3600)),
        Verdict::Hold(Held::NeverResend)
    );
}

#[test]
fn p16_the_whole_next_attempt_fits_into_the_window_however_early_the_last_one_ended() {
    let mut ended_at_once = record(Exposure::MayBeSent);
    ended_at_once.latest_send_at = at(0);
    let promise = Promise { visibility_delay: V, resend_window: Some(Duration::from_secs(180)) };
    let ask =
        |seconds| recovery::read(&ended_at_once, Told::NotFound, at(seconds), &promise, TIMING, at(seconds));
    assert_eq!(ask(99), Verdict::SendAgain(ended_at_once.fence));
    assert_eq!(ask(100), Verdict::Hold(Held::WindowOver), "sent at 150, it arrives at 180");
}

#[test]
fn p16_a_window_that_is_over_is_the_first_reason_to_hold() {
    let mut third = record(Exposure::MayBeSent);
    third.attempts = 3;
    let after = 25 * 3600;
    let verdict = recovery::read(&third, Told::NotFound, at(after), &PROMISE, TIMING, at(after));
    assert_eq!(verdict, Verdict::Hold(Held::WindowOver), "not found by an acquirer that has forgotten");
}

#[test]
fn p16_an_answer_is_noted_by_ending_what_was_lost_or_by_asking_again() {
    let lost = record(Exposure::MayBeSent);
    let after = Duration::from_secs(60);
    let ended = Change::MarkUnknown { cause: Cause::Pending, ask_after: after };
    assert_eq!(recovery::note(&lost, true, after), ended);
    let mut unknown = lost.clone();
    unknown.state = State::Unknown { cause: Cause::CutOff, asked: 1, next_ask_at: at(60) };
    let again = Change::AskAgain { cause: Cause::CutOff, after, sighted: false };
    assert_eq!(recovery::note(&unknown, false, after), again);
}

#[test]
fn p16_a_late_refusal_of_a_first_attempt_does_not_settle_a_second() {
    let mut second = record(Exposure::MayBeSent);
    second.attempts = 2;
    second.latest_send_at = at(120);
    let told = Told::Done { positive: false };
    assert_eq!(
        recovery::read(&second, told, at(130), &PROMISE, TIMING, at(130)),
        Verdict::StillPending { sighted: true }
    );
    assert_eq!(
        recovery::read(&second, told, at(151), &PROMISE, TIMING, at(151)),
        Verdict::Settle(second.fence)
    );
    let approved = Told::Done { positive: true };
    assert_eq!(
        recovery::read(&second, approved, at(121), &PROMISE, TIMING, at(121)),
        Verdict::Settle(second.fence)
    );
}
