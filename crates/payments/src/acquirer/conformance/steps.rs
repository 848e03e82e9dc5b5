//! The cases of captures, voids and refunds.

use super::{Case, Rig, check, declined};
use crate::acquirer::Kind;

/// A part of an authorisation is taken.
pub async fn a_capture_is_done_and_found_by_its_own_id<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.authorization("p");
    let report = case.done(&payment).await;
    let capture = case.step("c", Kind::Capture, &payment, &report, 4_000);
    case.done(&capture).await;
    case.found(&capture).await;
    if case.is_sent_again(Kind::Capture) {
        case.done(&capture).await;
    }
    assert_eq!(case.executed(&capture).await, 1);
}

/// An authorisation is given up.
pub async fn a_void_is_done_and_found_by_its_own_id<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.authorization("p");
    let report = case.done(&payment).await;
    let void = case.step("v", Kind::Void, &payment, &report, 10_000);
    case.done(&void).await;
    case.found(&void).await;
    if case.is_sent_again(Kind::Void) {
        case.done(&void).await;
    }
    assert_eq!(case.executed(&void).await, 1);
}

/// Two refunds of one amount are two refunds; a repeat is none.
pub async fn refunds_are_done_and_found_by_their_own_ids<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.payment("p");
    let report = case.done(&payment).await;
    for key in ["r1", "r2"] {
        let refund = case.step(key, Kind::Refund, &payment, &report, 500);
        case.done(&refund).await;
        case.found(&refund).await;
        if case.is_sent_again(Kind::Refund) {
            case.done(&refund).await;
        }
        assert_eq!(case.executed(&refund).await, 1, "{key}");
    }
}

/// More than there is to take or to give back is refused for good.
pub async fn a_step_too_far_is_declined_and_moves_nothing<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.payment("p");
    let report = case.done(&payment).await;
    case.done(&case.step("r1", Kind::Refund, &payment, &report, 6_000)).await;
    let too_far = case.step("r2", Kind::Refund, &payment, &report, 6_000);
    check(&declined(case.send(&too_far).await), &too_far);
    case.done(&case.step("rest", Kind::Refund, &payment, &report, 4_000)).await;
}
