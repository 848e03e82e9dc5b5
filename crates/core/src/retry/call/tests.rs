//! What each end of an attempt leads to.

use super::super::BudgetLimits;
use super::*;

const START: Time = Time::from_micros(0);

fn budget() -> Budget {
    Budget::new(BudgetLimits { reserve: 1000, ..BudgetLimits::default() })
}

fn call(nature: Nature) -> Call {
    Call::new(Policy::default(), Start::fresh(nature), START).unwrap()
}

/// What the last of these ends leads to. Everything before it must lead to another attempt.
fn last(call: &mut Call, ends: &[Ended]) -> Next {
    let mut budget = budget();
    let (last, before) = ends.split_last().unwrap();
    for ended in before {
        let next = call.after(ended, &mut budget, 0, START);
        assert!(matches!(next, Next::Send { .. }), "{ended:?}: {next:?}");
    }
    call.after(last, &mut budget, 0, START)
}

const NOT_SENT: Ended = Ended::NotSent { wait: None };

fn status(status: u16) -> Ended {
    Ended::Answered(Answer::of_status(status))
}

fn retryable(status: u16, said: bool) -> Ended {
    Ended::Answered(Answer { retryable: Some(said), ..Answer::of_status(status) })
}

fn recorded(status: u16) -> Ended {
    Ended::Answered(Answer::recorded(status))
}

const AGAIN: Next = Next::Send { after: Duration::ZERO };
const DONE: Next = Next::End(Verdict::Done);
const REFUSED: Next = Next::End(Verdict::Refused);

fn unknown(reason: Reason) -> Next {
    Next::End(Verdict::Unknown(reason))
}

#[test]
fn p30_with_a_key_what_may_pass_is_sent_again() {
    for ended in [408, 425, 429, 500, 502, 503, 504].map(status) {
        assert_eq!(last(&mut call(Nature::Keyed), &[ended]), AGAIN, "{ended:?}");
    }
    for ended in [NOT_SENT, Ended::Cut, retryable(409, true)] {
        assert_eq!(last(&mut call(Nature::Keyed), &[ended]), AGAIN, "{ended:?}");
    }
    for ended in [400, 402, 404, 409, 410, 413, 415, 422].map(status) {
        assert_eq!(last(&mut call(Nature::Keyed), &[ended]), REFUSED, "{ended:?}");
    }
    assert_eq!(last(&mut call(Nature::Keyed), &[status(201)]), DONE);
}

#[test]
fn c62_without_a_key_only_what_was_not_sent_is_sent_again() {
    assert_eq!(last(&mut call(Nature::Bare), &[NOT_SENT]), AGAIN);
    assert_eq!(last(&mut call(Nature::Bare), &[NOT_SENT, status(201)]), DONE);
    for ended in [Ended::Cut, status(500), status(502), status(503), status(429), retryable(409, true)] {
        assert_eq!(last(&mut call(Nature::Bare), &[ended]), unknown(Reason::NoKey), "{ended:?}");
    }
    assert_eq!(last(&mut call(Nature::Bare), &[status(422)]), REFUSED);
}

#[test]
fn c105_a_refusal_after_a_lost_answer_is_never_refused() {
    for lost in [Ended::Cut, status(500), status(502), status(503), status(504), retryable(409, true)] {
        for refusal in [400, 404, 405, 409, 410, 413, 422, 451] {
            let next = last(&mut call(Nature::Keyed), &[lost, status(refusal)]);
            assert_eq!(next, unknown(Reason::OtherAnswer), "{lost:?}, then {refusal}");
        }
        for refusal in [401, 403] {
            let next = last(&mut call(Nature::Keyed), &[lost, status(refusal)]);
            assert_eq!(next, unknown(Reason::Credentials), "{lost:?}, then {refusal}");
        }
        assert_eq!(last(&mut call(Nature::Keyed), &[lost, recorded(402)]), REFUSED);
        assert_eq!(last(&mut call(Nature::Keyed), &[lost, recorded(201)]), DONE);
    }
}

#[test]
fn p32_after_a_lost_answer_a_success_counts_from_the_record_alone() {
    assert_eq!(last(&mut call(Nature::Keyed), &[Ended::Cut, status(201)]), AGAIN);
    assert_eq!(last(&mut call(Nature::Keyed), &[Ended::Cut, status(201), recorded(201)]), DONE);
}

#[test]
fn p15_what_the_server_did_not_run_leaves_the_next_answer_its_meaning() {
    for nothing in [NOT_SENT, status(408), status(425), status(429)] {
        assert_eq!(last(&mut call(Nature::Keyed), &[nothing, status(422)]), REFUSED, "{nothing:?}");
        assert_eq!(last(&mut call(Nature::Keyed), &[nothing, status(201)]), DONE, "{nothing:?}");
    }
}

#[test]
fn p30_credentials_end_the_call_and_not_the_operation() {
    for nature in [Nature::Keyed, Nature::Safe, Nature::Bare] {
        for refused in [401, 403, 407] {
            let mut call = call(nature);
            assert_eq!(last(&mut call, &[status(refused)]), unknown(Reason::Credentials));
        }
    }
    let mut call = call(Nature::Keyed);
    last(&mut call, &[status(401)]);
    assert_eq!(call.received(), Received::No);
}

#[test]
fn p30_the_servers_word_on_repeating_beats_its_status() {
    assert_eq!(last(&mut call(Nature::Keyed), &[retryable(400, true)]), AGAIN);
    assert_eq!(last(&mut call(Nature::Keyed), &[retryable(500, false)]), unknown(Reason::NotRetryable));
    assert_eq!(last(&mut call(Nature::Keyed), &[retryable(409, false)]), REFUSED);
}

#[test]
fn a_redirect_of_an_operation_is_not_believed_unless_it_is_the_stored_answer() {
    for redirect in [300, 301, 302, 303, 307, 308] {
        assert_eq!(last(&mut call(Nature::Keyed), &[status(redirect)]), unknown(Reason::Redirected));
        assert_eq!(last(&mut call(Nature::Bare), &[status(redirect)]), unknown(Reason::Redirected));
        assert_eq!(last(&mut call(Nature::Keyed), &[recorded(redirect)]), DONE);
    }
}

#[test]
fn what_has_no_effect_is_judged_by_its_last_answer() {
    assert_eq!(last(&mut call(Nature::Safe), &[Ended::Cut, status(503), status(404)]), REFUSED);
    assert_eq!(last(&mut call(Nature::Safe), &[Ended::Cut, status(200)]), DONE);
}

#[test]
fn c65_attempts_have_an_end() {
    let ends = [Ended::Cut; 4];
    assert_eq!(last(&mut call(Nature::Keyed), &ends), unknown(Reason::Attempts));
    let policy = Policy { attempts: 0, ..Policy::default() };
    let mut once = Call::new(policy, Start::fresh(Nature::Keyed), START).unwrap();
    assert_eq!(last(&mut once, &[Ended::Cut]), unknown(Reason::Attempts));
}

#[test]
fn c72_no_attempt_outlives_the_deadline_and_none_begins_after_it() {
    let seconds = Duration::from_secs;
    let policy = Policy { attempt_timeout: seconds(2), deadline: seconds(3), ..Policy::default() };
    let mut call = Call::new(policy, Start::fresh(Nature::Keyed), START).unwrap();
    assert_eq!(call.attempt_timeout(START), seconds(2));
    let after_first = START.plus(seconds(2));
    assert_eq!(call.after(&Ended::Cut, &mut budget(), 0, after_first), AGAIN);
    assert_eq!(call.attempt_timeout(after_first), seconds(1));
    let at_the_end = START.plus(seconds(3));
    assert_eq!(call.after(&Ended::Cut, &mut budget(), 0, at_the_end), unknown(Reason::Deadline));
    assert_eq!(call.attempt_timeout(at_the_end), Duration::ZERO);
}

#[test]
fn p31_the_servers_wish_is_honoured_up_to_the_cap_and_spread() {
    let told = |wait| Ended::Answered(Answer { wait: Some(wait), ..Answer::of_status(503) });
    let second = Duration::from_secs(1);
    assert_eq!(last(&mut call(Nature::Keyed), &[told(second)]), Next::Send { after: second });
    let capped = last(&mut call(Nature::Keyed), &[told(Duration::MAX)]);
    assert_eq!(capped, Next::Send { after: Policy::default().wait_max });
    let spread = call(Nature::Keyed).after(&told(second), &mut budget(), u64::MAX / 2, START);
    assert!(matches!(spread, Next::Send { after } if after > second), "{spread:?}");
}

#[test]
fn p31_an_empty_budget_ends_the_call() {
    let mut empty = Budget::new(BudgetLimits { reserve: 0, ..BudgetLimits::default() });
    let next = call(Nature::Keyed).after(&Ended::Cut, &mut empty, 0, START);
    assert_eq!(next, unknown(Reason::Budget));
}

#[test]
fn p29_what_is_older_than_the_server_remembers_is_not_sent() {
    let hour = Duration::from_secs(3600);
    let policy = Policy { retention: Some(24 * hour), ..Policy::default() };
    let start = |age| Start { nature: Nature::Keyed, received: Received::Perhaps, age };
    assert!(Call::new(policy, start(24 * hour), START).is_ok());
    let refused = Call::new(policy, start(24 * hour + Duration::from_micros(1)), START);
    assert_eq!(refused.err(), Some(Reason::TooOld));
    let mut aged = Call::new(policy, start(24 * hour), START).unwrap();
    let next = aged.after(&Ended::Cut, &mut budget(), 0, START.plus(Duration::from_secs(1)));
    assert_eq!(next, unknown(Reason::TooOld));
}

#[test]
fn p30_an_operation_read_back_without_a_key_is_not_sent() {
    let start = Start { received: Received::Perhaps, ..Start::fresh(Nature::Bare) };
    assert_eq!(Call::new(Policy::default(), start, START).err(), Some(Reason::NoKey));
}

#[test]
fn p32_the_key_is_asked_about_where_the_server_can_be_asked() {
    let policy = Policy { asks: true, ..Policy::default() };
    let call = || Call::new(policy, Start::fresh(Nature::Keyed), START).unwrap();
    const ASK: Next = Next::Ask { after: Duration::ZERO };
    for ended in [Ended::Cut, status(500), status(504), retryable(409, true)] {
        assert_eq!(last(&mut call(), &[ended]), ASK, "{ended:?}");
    }
    for ended in [NOT_SENT, status(503), status(429)] {
        assert_eq!(last(&mut call(), &[ended]), AGAIN, "{ended:?}");
    }
    let told = |told| {
        let mut call = call();
        last(&mut call, &[Ended::Cut]);
        call.after_question(told, None, &mut budget(), 0, START)
    };
    assert_eq!(told(Told::Open), ASK);
    assert_eq!(told(Told::Abandoned), unknown(Reason::Abandoned));
    for telling in [Told::Finished, Told::Unknown, Told::Nothing, Told::CannotSay] {
        assert_eq!(told(telling), AGAIN, "{telling:?}");
    }
}

#[test]
fn p32_questions_have_an_end_too() {
    let policy = Policy { asks: true, ..Policy::default() };
    let mut call = Call::new(policy, Start::fresh(Nature::Keyed), START).unwrap();
    last(&mut call, &[Ended::Cut]);
    for _ in 1..policy.attempts {
        let next = call.after_question(Told::Open, None, &mut budget(), 0, START);
        assert!(matches!(next, Next::Ask { .. }), "{next:?}");
    }
    assert_eq!(call.after_question(Told::Open, None, &mut budget(), 0, START), AGAIN);
    assert_eq!(last(&mut call, &[retryable(409, true)]), AGAIN);
}

#[test]
fn p15_an_answer_that_has_not_decided_is_followed_up() {
    let pending = Ended::Answered(Answer { says: Says::Pending, ..Answer::of_status(202) });
    assert_eq!(last(&mut call(Nature::Keyed), &[pending]), AGAIN);
    assert_eq!(last(&mut call(Nature::Keyed), &[pending, recorded(402)]), REFUSED);
}

#[test]
fn p32_a_kept_answer_that_may_change_is_asked_again() {
    for status in [408, 425, 429, 500, 502, 503, 504] {
        assert_eq!(last(&mut call(Nature::Keyed), &[recorded(status)]), AGAIN, "{status}");
    }
    let kept = |said| Ended::Answered(Answer { retryable: Some(said), ..Answer::recorded(409) });
    assert_eq!(last(&mut call(Nature::Keyed), &[kept(true)]), AGAIN);
    assert_eq!(last(&mut call(Nature::Keyed), &[kept(false)]), REFUSED);
}

#[test]
fn p32_a_success_that_is_not_the_servers_own_is_asked_again() {
    let unmarked = |status| Ended::Answered(Answer { says: Says::Unmarked, ..Answer::of_status(status) });
    assert_eq!(last(&mut call(Nature::Keyed), &[unmarked(201)]), AGAIN);
    assert_eq!(last(&mut call(Nature::Keyed), &[unmarked(201), recorded(201)]), DONE);
    assert_eq!(last(&mut call(Nature::Keyed), &[unmarked(200), unmarked(422)]), unknown(Reason::OtherAnswer));
    assert_eq!(last(&mut call(Nature::Keyed), &[unmarked(422)]), REFUSED);
}
