//! The cases of payments: what is sent, what is told at once, and what is found afterwards.

use std::time::Duration;

use super::{Case, Rig, Wanted, amount, check, declined};
use crate::acquirer::{Answer, Instruction, Kind};

/// Its name is what stored operations are compared with, after a restart too.
pub async fn the_account_is_told_and_stays<R: Rig + ?Sized>(rig: &R) {
    let account = rig.acquirer().account().clone();
    let case = Case::new(rig);
    case.done(&case.payment("k")).await;
    assert_eq!(*rig.acquirer().account(), account);
    assert!(account.as_str().contains(':'), "which acquirer, and which account of it");
}

/// The same instruction makes the same bytes, whenever it is read; another id makes others.
pub async fn a_request_is_made_of_its_instruction_alone<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let compose = |instruction: &Instruction| rig.acquirer().compose(instruction).expect("it can be sent");
    let instruction = case.payment("k");
    let first = compose(&instruction);
    case.done(&case.payment("between")).await;
    assert_eq!(compose(&instruction), first);
    let mut later = instruction.clone();
    later.subject.claimed_at = later.subject.claimed_at.plus(Duration::from_secs(86_400));
    assert_eq!(compose(&later), first, "the time of the claim is not part of it");
    assert_ne!(compose(&case.payment("other")), first);
}

/// Requests are stored before they are sent, and secrets are not.
pub async fn a_request_holds_no_secret<R: Rig + ?Sized>(rig: &R) {
    let outgoing = rig.acquirer().compose(&Case::new(rig).payment("k")).expect("it can be sent");
    for (name, _) in &outgoing.headers {
        assert!(!["authorization", "proxy-authorization", "cookie"].contains(&&**name), "{name}");
        assert_eq!(**name, *name.to_lowercase(), "names are in lower case");
    }
    assert!(outgoing.path.starts_with('/'), "from the acquirer's base address on");
}

/// What was executed is told at once, and again when it is asked about.
pub async fn a_payment_is_done_and_found<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    for instruction in [case.payment("at once"), case.authorization("later")] {
        case.done(&instruction).await;
        assert!(case.found(&instruction).await.is_some(), "payments can be asked about");
        assert_eq!(case.executed(&instruction).await, 1);
    }
}

/// A decline is an answer like any other, for its repeat and for questions.
pub async fn a_decline_is_bound_to_its_id<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some(instruction) = case.try_payment("k", Wanted::Declined) else { return };
    let report = declined(case.send(&instruction).await);
    check(&report, &instruction);
    assert!(report.decline_code.is_some(), "with the acquirer's word for it");
    declined(case.send(&instruction).await);
    rig.settle().await;
    check(&declined(case.look_up(&instruction).await), &instruction);
}

/// Pending is told as such until the acquirer has decided.
pub async fn pending_stays_pending_until_it_is_decided<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some(instruction) = case.try_payment("k", Wanted::Pending) else { return };
    match case.send(&instruction).await {
        Answer::Pending(report) => check(&report, &instruction),
        other => panic!("it must be pending, got {other:?}"),
    }
    rig.settle().await;
    assert!(case.found(&instruction).await.is_some());
    assert_eq!(case.executed(&instruction).await, 1);
}

/// "Not found" is an answer, and only about what is not there. An adapter that cannot look up a kind says so.
pub async fn what_was_never_sent_is_not_found<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    assert_eq!(case.look_up(&case.payment("not there")).await, Answer::NotFound);
    let (authorized, captured) = (case.authorization("authorized"), case.payment("captured"));
    let reports = [case.done(&authorized).await, case.done(&captured).await];
    rig.settle().await;
    let parents = [(&authorized, &reports[0]), (&authorized, &reports[0]), (&captured, &reports[1])];
    for (kind, (payment, report)) in [Kind::Capture, Kind::Void, Kind::Refund].into_iter().zip(parents) {
        let step = case.step(kind.as_str(), kind, payment, report, 1);
        match case.look_up(&step).await {
            Answer::NotFound => {}
            Answer::CannotSay(_) if !case.is_sent_again(kind) => {}
            other => panic!("{kind:?} was never sent, got {other:?}"),
        }
    }
}

/// A repeat gets the first answer.
pub async fn one_id_twice_is_executed_once<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let instruction = case.payment("k");
    if case.is_sent_again(Kind::Payment) {
        let first = case.done(&instruction).await;
        assert_eq!(case.done(&instruction).await.reference, first.reference);
        assert_eq!(case.executed(&instruction).await, 1);
    }
}

/// Repeats that overlap are executed once too; those that meet the first may get no answer.
pub async fn one_id_many_times_at_once_is_executed_once<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let instruction = case.payment("k");
    if !case.is_sent_again(Kind::Payment) {
        return;
    }
    let (a, b, c, d) = tokio::join!(
        case.send(&instruction),
        case.send(&instruction),
        case.send(&instruction),
        case.send(&instruction)
    );
    let answers = [a, b, c, d];
    assert!(answers.iter().any(|answer| matches!(answer, Answer::Done(_))), "{answers:?}");
    for answer in answers {
        assert!(matches!(answer, Answer::Done(_) | Answer::CannotSay(_)), "{answer:?}");
    }
    assert_eq!(case.executed(&instruction).await, 1);
}

/// An id that was used for something else is a fault, not an outcome: neither done nor declined.
pub async fn other_content_under_one_id_is_not_executed<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let instruction = case.payment("k");
    if !case.is_sent_again(Kind::Payment) {
        return;
    }
    case.done(&instruction).await;
    let mut dearer = instruction.clone();
    dearer.subject.amount = amount(10_001);
    let answer = case.send(&dearer).await;
    assert!(matches!(answer, Answer::Sighted(_) | Answer::CannotSay(_)), "{answer:?}");
    assert_eq!(case.executed(&instruction).await, 1);
    case.found(&instruction).await;
}
