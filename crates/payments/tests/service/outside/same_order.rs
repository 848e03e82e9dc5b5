//! A second charge of an order under another key: judged before every send, the first and all later ones.

use std::sync::Arc;

use tokio::sync::Barrier;
use unavez_payments::acquirer::Standing;
use unavez_payments::{SameOrder, Settings};

use super::scripted::{Look, Plan, Scripted};
use super::{SECOND, captured, later, setup};
use crate::support::{B1, Service, Setup, refused};

fn with(acquirer: &Arc<Scripted>, same_order: SameOrder) -> Setup {
    let setup = setup(acquirer);
    Setup { settings: Settings { same_order, ..setup.settings.clone() }, ..setup }
}

async fn start(acquirer: &Arc<Scripted>, same_order: SameOrder) -> Service {
    Service::start_with(with(acquirer, same_order)).await
}

#[tokio::test]
async fn a_charge_that_was_never_sent_is_judged_again_before_it_is() {
    for (same_order, status, executed) in
        [(SameOrder::Allow, 201, 2), (SameOrder::Warn, 201, 2), (SameOrder::Refuse, 409, 1)]
    {
        let acquirer = Scripted::new();
        let service = start(&acquirer, same_order).await;
        acquirer.plan([Plan::RefuseConnection]);
        assert_eq!(service.charge("A", B1).await.refusal(), refused(503, "acquirer-unavailable"));
        let first = service.charge("B", B1).await;
        assert_eq!(first.status, 201, "{same_order}: of the other one nothing was sent");
        assert!(first.json().get("suspected_duplicate_of").is_none_or(serde_json::Value::is_null));
        let second = service.charge("A", B1).await;
        assert_eq!((second.status.as_u16(), acquirer.executed()), (status, executed), "{same_order}");
        let metrics = String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
        let suspected = u32::from(same_order == SameOrder::Warn);
        assert!(
            metrics.contains(&format!("unavez_suspected_duplicates_total {suspected}\n")),
            "{same_order}"
        );
        match same_order {
            SameOrder::Allow => {}
            SameOrder::Warn => assert_eq!(second.json()["suspected_duplicate_of"], first.json()["id"]),
            SameOrder::Refuse => {
                assert_eq!(second.refusal(), refused(409, "order-already-charged"));
                assert_eq!(second.json()["resource"], first.json()["id"]);
                let again = service.charge("A", B1).await;
                assert_eq!((again.is_replayed(), again.body), (true, second.body));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_new_keys_against_repeats_of_a_released_one_are_one_charge() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer, SameOrder::Refuse).await);
    for round in 0..10_u32 {
        let body = format!(r#"{{"amount":2500,"currency":"EUR","order_id":"o-{round}"}}"#);
        acquirer.plan([Plan::RefuseConnection]);
        let released = format!("R{round}");
        assert_eq!(service.charge(&released, &body).await.status, 503);
        let keys: Vec<_> = (0..15).map(|n| format!("N{round}-{n}")).collect();
        let all: Vec<_> = keys.iter().cloned().chain((0..5).map(|_| released.clone())).collect();
        let barrier = Arc::new(Barrier::new(all.len()));
        let racing: Vec<_> = all
            .into_iter()
            .map(|key| {
                let (service, barrier, body) = (Arc::clone(&service), Arc::clone(&barrier), body.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    service.charge(&key, &body).await.status.as_u16()
                })
            })
            .collect();
        for answer in racing {
            assert!(matches!(answer.await.unwrap(), 201 | 409), "round {round}");
        }
        assert_eq!(acquirer.executed(), round + 1, "round {round}");
        let mut charged = 0;
        for key in keys.iter().chain([&released]) {
            let last = service.charge(key, &body).await;
            charged += u32::from(last.status == 201);
            assert!(
                last.status == 201 || last.refusal() == refused(409, "order-already-charged"),
                "{last:?}"
            );
        }
        assert_eq!((charged, acquirer.executed()), (1, round + 1), "round {round}");
    }
}

#[tokio::test]
async fn a_refusal_is_final_only_against_a_charge_that_is_decided() {
    for (settled, status) in [(Standing::Done, 409), (Standing::Declined, 201)] {
        let acquirer = Scripted::new();
        let service = start(&acquirer, SameOrder::Refuse).await;
        acquirer.plan([Plan::Fail]);
        assert_eq!(service.charge("A", B1).await.status, 504);
        let waits = service.charge("B", B1).await;
        assert_eq!(waits.refusal(), refused(409, "outcome-pending"));
        assert_eq!((waits.header("retry-after"), &waits.json()["retryable"]), (Some("5"), &true.into()));
        assert!(waits.json()["resource"].as_str().unwrap().starts_with("ch_"), "it names the open one");
        assert_eq!(service.get("/v1/idempotency-keys/B").await.status, 404, "nothing is stored");
        acquirer.look(Look::Says(settled));
        later(&service, 11 * SECOND).await;
        service.charge("A", B1).await;
        let decided = service.charge("B", B1).await;
        assert_eq!(decided.status, status, "{settled:?}: {decided:?}");
        assert_eq!(acquirer.sends().len(), if status == 201 { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_pending_charge_is_not_decided_either() {
    let acquirer = Scripted::new();
    let service = start(&acquirer, SameOrder::Refuse).await;
    acquirer.plan([Plan::Pend]);
    assert_eq!(service.charge("A", B1).await.status, 202);
    // However old it is: it may still take the money.
    later(&service, 48 * super::HOUR).await;
    assert_eq!(service.charge("B", B1).await.refusal(), refused(409, "outcome-pending"));
    assert_eq!(acquirer.sends().len(), 1);
}

#[tokio::test]
async fn what_may_have_been_sent_is_not_sent_again_once_the_order_is_charged() {
    let acquirer = Scripted::new();
    let service = start(&acquirer, SameOrder::Warn).await;
    acquirer.plan([Plan::Fail]);
    assert_eq!(service.charge("A", B1).await.status, 504);
    let charged = service.charge("B", B1).await;
    assert_eq!(charged.status, 201);
    // The rule is a stricter one now, and "not found" counts.
    let service = service.restart_with(with(&acquirer, SameOrder::Refuse)).await;
    for _ in 0..2 {
        later(&service, 11 * SECOND).await;
        let kept = service.charge("A", B1).await;
        assert_eq!(kept.refusal(), refused(409, "outcome-unknown"));
        assert_eq!(kept.json()["resource"], charged.json()["id"]);
    }
    assert_eq!(acquirer.sends().len(), 2, "it may have been executed, so it is not refused for good either");
    let service = service.restart_with(with(&acquirer, SameOrder::Warn)).await;
    later(&service, 11 * SECOND).await;
    let sent = service.charge("A", B1).await;
    assert_eq!((sent.status.as_u16(), acquirer.sends().len()), (201, 3));
    assert_eq!(sent.json()["suspected_duplicate_of"], charged.json()["id"]);
}

#[tokio::test]
async fn an_order_whose_charge_was_refunded_whole_is_still_to_be_paid() {
    let acquirer = Scripted::new();
    let service = start(&acquirer, SameOrder::Refuse).await;
    let id = captured(&service, "A").await;
    let refunds = format!("/v1/charges/{id}/refunds");
    assert_eq!(service.post(&refunds, "R1", r#"{"amount":2400}"#).await.status, 201);
    assert_eq!(service.charge("B", B1).await.refusal(), refused(409, "order-already-charged"));
    assert_eq!(service.post(&refunds, "R2", "{}").await.status, 201);
    assert_eq!(service.charge("C", B1).await.status, 201);
    assert_eq!(service.charge("B", B1).await.status, 409, "what was refused stays refused");
}
