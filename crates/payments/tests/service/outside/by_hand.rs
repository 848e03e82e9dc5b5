//! Settled by hand: only what nothing else will settle, and never against the acquirer ("Steps with money").

use std::sync::Arc;

use unavez_core::identity::Tenant;
use unavez_core::key::Key;
use unavez_payments::acquirer::Standing;
use unavez_payments::books::{EventKind, OperationHistory, OperationStanding, Through};
use unavez_payments::{
    ByHand, Confirmation, NotRuled, Operator, Refusal, Ruled, Ruling, RulingReason, Witness,
};

use super::scripted::{Look, Plan, Scripted};
use super::{HOUR, SECOND, anomalies, later, operation, start, tell};
use crate::support::{B1, Service, refused};

async fn rule(service: &Service, ruling: Ruling, witness: Witness) -> Result<Ruled, NotRuled> {
    let order = ByHand {
        tenant: Tenant::single(),
        key: Key::parse_path("K1").unwrap(),
        ruling,
        witness,
        operator: Operator::parse("ana").unwrap(),
        reason: RulingReason::parse("seen in their dashboard").unwrap(),
    };
    service.payments.settle_by_hand(order).await
}

async fn says(service: &Service, ruling: Ruling) -> Refusal {
    match rule(service, ruling, Witness::Acquirer).await {
        Err(NotRuled::Refused(refusal, _)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// A charge under `K1` whose answer was lost, on an acquirer that deduplicates nothing.
async fn lost(plan: Plan) -> (Service, Arc<Scripted>) {
    let acquirer = Scripted::with("scripted:one", None, 30 * SECOND);
    let service = start(&acquirer).await;
    acquirer.plan([plan]);
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
    (service, acquirer)
}

/// The acquirer is silent for an hour, and the worker has just asked it in vain: what is heard next, a person hears.
async fn silent_hour(service: &Service, acquirer: &Scripted) {
    acquirer.look(Look::Down);
    let before = acquirer.questions();
    later(service, HOUR).await;
    while acquirer.questions() == before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn failed_needs_a_fresh_not_found_after_timeout_and_delay() {
    let (service, acquirer) = lost(Plan::Fail).await;
    assert!(matches!(says(&service, Ruling::Failed).await, Refusal::TooEarly(_)));
    later(&service, 39 * SECOND).await;
    assert!(matches!(says(&service, Ruling::Failed).await, Refusal::TooEarly(_)), "10 s + 30 s");
    later(&service, 2 * SECOND).await;
    acquirer.look(Look::Down);
    let refused_ruling = rule(&service, Ruling::Failed, Witness::Acquirer).await;
    assert!(matches!(refused_ruling, Err(NotRuled::NotConfirmed(_))), "{refused_ruling:?}");
    acquirer.look(Look::Truth);
    let ruled = rule(&service, Ruling::Failed, Witness::Acquirer).await.unwrap();
    assert_eq!((ruled.standing, &*ruled.acquirer_said), (OperationStanding::Declined, "not found"));
    let told = service.charge("K1", B1).await;
    assert_eq!((told.refusal(), told.is_replayed()), (refused(402, "charge-declined"), true));
    assert_eq!((service.ledger().await, acquirer.sends().len()), ((0, 0), 1));
    assert!(matches!(says(&service, Ruling::Done).await, Refusal::Final));
}

#[tokio::test]
async fn a_ruling_never_contradicts_the_acquirer() {
    let (service, acquirer) = lost(Plan::Lose).await;
    silent_hour(&service, &acquirer).await;
    acquirer.look(Look::Truth);
    assert_eq!(says(&service, Ruling::Failed).await, Refusal::Contradicts, "it says done");
    acquirer.look(Look::Says(Standing::Declined));
    assert_eq!(says(&service, Ruling::Done).await, Refusal::Contradicts);
    acquirer.look(Look::Says(Standing::Pending));
    assert_eq!(says(&service, Ruling::Done).await, Refusal::Undecided);
    for witness in [Witness::Acquirer, Witness::Operator] {
        acquirer.look(Look::NotFound);
        let refused_ruling = rule(&service, Ruling::Done, witness).await;
        assert!(
            matches!(refused_ruling, Err(NotRuled::Refused(Refusal::Contradicts, _))),
            "\"not found\" counts: {refused_ruling:?}"
        );
    }
    assert_eq!(service.ledger().await, (0, 0));
}

#[tokio::test]
async fn an_operator_stands_in_only_where_the_acquirer_is_silent_and_says_so() {
    let (service, acquirer) = lost(Plan::Lose).await;
    silent_hour(&service, &acquirer).await;
    let unconfirmed = rule(&service, Ruling::Done, Witness::Acquirer).await;
    assert!(matches!(unconfirmed, Err(NotRuled::NotConfirmed(_))), "{unconfirmed:?}");
    let id = operation(&service, "K1").await;
    let ruled = rule(&service, Ruling::Done, Witness::Operator).await.unwrap();
    assert_eq!((ruled.operation_id, ruled.standing), (id, OperationStanding::Done));
    let told = service.charge("K1", B1).await;
    assert_eq!((told.status.as_u16(), told.is_replayed()), (201, true));
    assert_eq!(service.ledger().await, (1, 2500));

    let history = service.payments.books().operation(id).await.unwrap().unwrap();
    let ruling = history.events.iter().find(|event| event.kind == EventKind::Operator).unwrap();
    assert_eq!(ruling.caller.as_deref(), Some("ana"));
    let detail = ruling.detail.as_deref().unwrap();
    assert!(
        detail.starts_with("ruled done (the operator stands in for the acquirer): seen in their dashboard;"),
        "{detail}"
    );
    assert_eq!(history.events.iter().find_map(Through::of), Some(Through::Hand));
}

#[tokio::test]
async fn p27_a_truth_against_a_ruling_reopens_the_case() {
    let (service, acquirer) = lost(Plan::Lose).await;
    let id = operation(&service, "K1").await;
    silent_hour(&service, &acquirer).await;
    rule(&service, Ruling::Failed, Witness::Operator).await.unwrap();
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(402, "charge-declined"));
    let before = anomalies(&service).await;
    assert!(!before.contains(&"contradiction"), "{before:?}");
    assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Done, acquirer.report(id)).await.status, 200);
    assert!(anomalies(&service).await.contains(&"contradiction"));
    assert_eq!(service.ledger().await, (0, 0), "a person decides");
}

/// What the acquirer says once it answers again, against what was ruled while it was silent.
async fn answers_again(ruling: Ruling, look: Look) -> (Service, Arc<Scripted>, OperationHistory) {
    let (service, acquirer) = lost(Plan::Lose).await;
    let id = operation(&service, "K1").await;
    silent_hour(&service, &acquirer).await;
    rule(&service, ruling, Witness::Operator).await.unwrap();
    for _ in 0..3 {
        later(&service, HOUR).await;
        service.payments.recover_due().await.unwrap();
    }
    let history = service.payments.books().operation(id).await.unwrap().unwrap();
    assert_eq!(history.ruling.as_ref().unwrap().confirmation, None, "silence is no answer");
    acquirer.look(look);
    later(&service, HOUR).await;
    service.payments.recover_due().await.unwrap();
    let history = service.payments.books().operation(id).await.unwrap().unwrap();
    (service, acquirer, history)
}

#[tokio::test]
async fn p27_a_ruling_over_silence_is_compared_with_the_first_answer_after_it() {
    use Confirmation::{Agrees, Contradicts};
    for (ruling, look, expected) in [
        (Ruling::Failed, Look::Truth, Contradicts),
        (Ruling::Failed, Look::NotFound, Agrees),
        (Ruling::Failed, Look::Says(Standing::Declined), Agrees),
        (Ruling::Done, Look::Truth, Agrees),
        (Ruling::Done, Look::NotFound, Contradicts),
        (Ruling::Done, Look::Says(Standing::Declined), Contradicts),
    ] {
        let what = format!("{ruling:?}, {look:?}");
        let (service, acquirer, history) = answers_again(ruling, look).await;
        let found = history.ruling.unwrap().confirmation.map(|(confirmation, _)| confirmation);
        assert_eq!(found, Some(expected), "{what}");
        let contradicted = anomalies(&service).await.contains(&"contradiction");
        assert_eq!(contradicted, expected == Contradicts, "{what}");
        let (status, booked) = match ruling {
            Ruling::Failed => (402, (0, 0)),
            Ruling::Done => (201, (1, 2500)),
        };
        assert_eq!(service.charge("K1", B1).await.status, status, "{what}: the answer that was given stays");
        assert_eq!(service.ledger().await, booked, "{what}");
        let questions = acquirer.questions();
        later(&service, HOUR).await;
        service.payments.recover_due().await.unwrap();
        assert_eq!(acquirer.questions(), questions, "{what}: asked until it answers, and no longer");
    }
}

#[tokio::test]
async fn a_ruling_over_silence_is_never_told_as_the_acquirers_refusal() {
    let (service, acquirer) = lost(Plan::Lose).await;
    silent_hour(&service, &acquirer).await;
    rule(&service, Ruling::Failed, Witness::Operator).await.unwrap();
    let told = service.charge("K1", B1).await.json();
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("an operator ruled"), "{told}");
    assert!(detail.contains("did not decline"), "{told}");
    assert_eq!(told["decline_code"], "settled_by_hand");
    assert!(told["next"].as_str().unwrap().contains("before a new key"), "{told}");
}

#[tokio::test]
async fn what_is_heard_against_a_final_state_when_a_person_asks_is_kept() {
    let (service, acquirer) = lost(Plan::Lose).await;
    silent_hour(&service, &acquirer).await;
    rule(&service, Ruling::Failed, Witness::Operator).await.unwrap();
    acquirer.look(Look::Truth);
    assert!(matches!(says(&service, Ruling::Done).await, Refusal::Final));
    let found = service.payments.books().anomalies(0, 100).await.unwrap();
    let contradiction = found.iter().find(|it| it.reason.as_str() == "contradiction").expect("kept");
    assert!(contradiction.proposal.as_deref().unwrap().contains("at the acquirer"), "{contradiction:?}");
}

#[tokio::test]
async fn what_has_no_record_or_went_nowhere_cannot_be_ruled() {
    let service = start(&Scripted::new()).await;
    let none = rule(&service, Ruling::Done, Witness::Acquirer).await;
    assert!(matches!(none, Err(NotRuled::NoRecord)), "{none:?}");
    let ledger = Service::start().await;
    assert_eq!(ledger.charge("K1", B1).await.status, 201);
    let nowhere = rule(&ledger, Ruling::Done, Witness::Acquirer).await;
    assert!(matches!(nowhere, Err(NotRuled::NothingOutside)), "{nowhere:?}");
}

#[test]
fn names_and_reasons_are_bounded_text() {
    for bad in ["", " ", "a\nb", &"x".repeat(256)] {
        assert!(Operator::parse(bad).is_none(), "{bad:?}");
    }
    assert!(RulingReason::parse(&"x".repeat(1001)).is_none() && RulingReason::parse("é").is_some());
}
