//! Each rule taken away yields a counterexample. The shortest one is printed: `--no-capture` shows it.

use std::collections::BTreeSet;
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model};

use crate::property::{ENDS, Explored, MONEY_ONCE, ONE_ANSWER, OWN_ANSWER, TRUE_ANSWER};
use crate::rule::Rule;
use crate::setting::{DEDUPLICATES, EXECUTES_ALL, FORGETFUL, LATE, SHORT_MEMORY, Setting};
use crate::step::Protocol;

/// An acquirer that forgets before anything may be sent again.
const FORGETS_AT_ONCE: Duration = Duration::from_secs(60);

#[test]
fn p16_without_asking_first_a_lost_answer_is_paid_twice() {
    check(Rule::AskFirst, EXECUTES_ALL, MONEY_ONCE);
}

#[test]
fn p16_without_the_visibility_delay_a_create_on_its_way_is_paid_twice() {
    check(Rule::VisibilityDelay, EXECUTES_ALL, MONEY_ONCE);
}

#[test]
fn p16_counting_from_the_answer_instead_of_the_question_pays_twice() {
    check(Rule::QuestionTime, EXECUTES_ALL, MONEY_ONCE);
}

#[test]
fn p16_a_takeover_that_names_no_version_pays_twice() {
    check(Rule::NamedTakeover, EXECUTES_ALL.with_steps(2), MONEY_ONCE);
}

#[test]
fn p16_a_new_operation_id_for_every_send_pays_twice() {
    check(Rule::OneOperationId, DEDUPLICATES.with_steps(4), MONEY_ONCE);
}

#[test]
fn p16_without_the_horizon_of_lookups_what_was_forgotten_is_paid_twice() {
    check(Rule::Window, SHORT_MEMORY.with_memory(FORGETS_AT_ONCE), MONEY_ONCE);
}

#[test]
fn p16_without_the_window_of_deduplication_what_was_forgotten_is_paid_twice() {
    check(Rule::Window, LATE.with_memory(FORGETS_AT_ONCE), MONEY_ONCE);
}

#[test]
fn p16_a_window_measured_by_the_attempt_before_pays_twice() {
    check(Rule::WholeAttempt, LATE.with_steps(5), MONEY_ONCE);
}

#[test]
fn p16_without_sightings_a_payment_that_vanished_is_paid_twice() {
    check(Rule::Sightings, FORGETFUL, MONEY_ONCE);
}

#[test]
fn p16_not_found_at_another_account_pays_twice() {
    check(Rule::SameAccount, EXECUTES_ALL, MONEY_ONCE);
}

#[test]
fn p27_a_refusal_accepted_with_two_attempts_outstanding_is_untrue() {
    check(Rule::RefusalOfOneAttempt, EXECUTES_ALL, TRUE_ANSWER);
}

#[test]
fn p15_a_release_by_a_later_attempt_pays_twice() {
    check(Rule::NoLateRelease, LATE.with_steps(5), MONEY_ONCE);
}

#[test]
fn p15_a_release_of_what_was_sent_pays_twice() {
    check(Rule::NoReleaseOfSent, EXECUTES_ALL, MONEY_ONCE);
}

#[test]
fn p13_a_send_after_the_deadline_pays_twice() {
    check(Rule::SendDeadline, EXECUTES_ALL, MONEY_ONCE);
}

#[test]
fn p11_a_finish_without_a_fence_is_untrue() {
    check(Rule::FencedFinish, EXECUTES_ALL.with_steps(3), TRUE_ANSWER);
}

#[test]
fn p17_a_refusal_told_before_it_is_stored_is_untrue() {
    check(Rule::StoredRefusal, EXECUTES_ALL, TRUE_ANSWER);
}

#[test]
fn p27_an_event_written_over_a_final_state_gives_two_answers() {
    check(Rule::FinalStays, EXECUTES_ALL, ONE_ANSWER);
}

#[test]
fn p6_without_the_fingerprint_another_request_is_answered() {
    check(Rule::Fingerprint, EXECUTES_ALL, OWN_ANSWER);
}

#[test]
fn p9_an_owner_that_never_counts_as_lost_stays_open() {
    check(Rule::LostOwners, EXECUTES_ALL, ENDS);
}

#[test]
fn steps_with_money_failed_by_hand_too_early_is_untrue() {
    check(Rule::AgeByHand, EXECUTES_ALL.with_operator(), TRUE_ANSWER);
}

#[test]
fn steps_with_money_failed_by_hand_after_the_horizon_is_untrue() {
    check(Rule::ProofByHand, SHORT_MEMORY.with_memory(FORGETS_AT_ONCE).with_operator(), TRUE_ANSWER);
}

/// Without `rule`, `property` must fail.
fn check(rule: Rule, setting: Setting, property: &'static str) {
    let model = Explored::new(Protocol { setting, without: Some(rule) }, &[]);
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checked = model.checker().finish_when(until).spawn_bfs().join();
    println!("without {rule:?}, {property:?} fails; {} states", checked.unique_state_count());
    println!("{}", checked.assert_any_discovery(property));
}
