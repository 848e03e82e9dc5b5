//! The verdict on an order, where the acquirer and the books are at odds or silent.

use unavez_core::identity::Tenant;
use unavez_core::key::Key;
use unavez_payments::acquirer::Standing;
use unavez_payments::books::trace::{Nothing, OrderTrace, Verdict, trace};
use unavez_payments::{ByHand, Operator, Ruling, RulingReason, Witness};
use unavez_store::clock::Clock as _;
use unavez_store::sqlite::Viewer;

use super::scripted::{Look, Plan, Scripted};
use super::{HOUR, SECOND, captured, later, operation, start, tell};
use crate::support::{B1, Service};

fn traced(service: &Service, name: &str) -> OrderTrace {
    let viewer = Viewer::open(&service.folder().join("unavez.db")).unwrap();
    let mut found = trace(&viewer, name, None, service.setup_clock().now()).unwrap();
    assert_eq!(found.orders.len(), 1, "{found:?}");
    found.orders.remove(0)
}

fn verdict(service: &Service, name: &str) -> Verdict {
    Verdict::of(&traced(service, name))
}

fn body(order: &str) -> String {
    format!(r#"{{"amount":2500,"currency":"EUR","order_id":"{order}"}}"#)
}

#[tokio::test]
async fn p27_a_second_payment_under_one_id_is_charged_twice() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    captured(&service, "K1").await;
    assert_eq!(verdict(&service, "K1").as_str(), "once");
    let mut second = acquirer.report(operation(&service, "K1").await);
    second.reference = Some("another".into());
    tell(&service, &acquirer, "evt_1", Standing::Done, second).await;
    let verdict = verdict(&service, "K1");
    assert_eq!((verdict.as_str(), verdict.is_charged_twice()), ("executed_twice", Some(true)));
}

#[tokio::test]
async fn p27_a_truth_against_a_decline_is_not_certain() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Decline]);
    assert_eq!(service.charge("K1", B1).await.status, 402);
    assert_eq!(verdict(&service, "K1"), Verdict::Nothing(Nothing::Declined));
    let id = operation(&service, "K1").await;
    tell(&service, &acquirer, "evt_1", Standing::Done, acquirer.report(id)).await;
    let verdict = verdict(&service, "K1");
    assert_eq!((verdict.as_str(), verdict.is_charged_twice()), ("contradicted", None));
}

#[tokio::test]
async fn an_operators_word_alone_is_no_refusal_of_the_acquirers() {
    let acquirer = Scripted::with("scripted:one", None, 30 * SECOND);
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose]);
    service.charge("K1", B1).await;
    acquirer.look(Look::Down);
    later(&service, HOUR).await;
    let order = ByHand {
        tenant: Tenant::single(),
        key: Key::parse_path("K1").unwrap(),
        ruling: Ruling::Failed,
        witness: Witness::Operator,
        operator: Operator::parse("bob").unwrap(),
        reason: RulingReason::parse("not in their dashboard").unwrap(),
    };
    service.payments.settle_by_hand(order).await.unwrap();
    let found = verdict(&service, "K1");
    assert!(matches!(found, Verdict::OnlyRuled { taken: None, .. }), "{found:?}");
    captured(&service, "K2").await;
    let found = verdict(&service, "o-1001");
    assert!(matches!(found, Verdict::OnlyRuled { taken: Some(_), .. }), "{found:?}");
    assert_eq!(found.is_charged_twice(), None, "the ruling may be wrong");
    acquirer.look(Look::NotFound);
    later(&service, HOUR).await;
    service.payments.recover_due().await.unwrap();
    assert_eq!(verdict(&service, "o-1001").as_str(), "once");
}

#[tokio::test]
async fn one_charge_and_an_open_one_of_the_same_order_may_be_two() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose]);
    service.charge("K1", B1).await;
    assert_eq!(verdict(&service, "K1").is_charged_twice(), Some(false), "one key is one charge");
    captured(&service, "K2").await;
    let verdict = verdict(&service, "o-1001");
    assert!(
        matches!(&verdict, Verdict::NotKnown { open, taken: Some(_), .. } if open.len() == 1),
        "{verdict:?}"
    );
    assert_eq!(verdict.is_charged_twice(), None);
}

#[tokio::test]
async fn others_without_an_answer_at_the_time_are_counted() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    for order in ["long-before", "mine", "other-1", "other-2"] {
        acquirer.plan([Plan::Lose]);
        acquirer.look(Look::Down);
        service.charge(order, &body(order)).await;
        later(&service, if order == "long-before" { HOUR } else { SECOND }).await;
    }
    captured(&service, "fine").await;
    let around = traced(&service, "mine").around.expect("it had no answer");
    assert_eq!((around.operations, around.undecided), (2, 2));
    assert!(around.first_at.is_some_and(|first| first > around.since));
    assert_eq!(traced(&service, "fine").around, None);
}
