//! Captures, voids and refunds: with an acquirer outside, and with the ledger.

use std::sync::Arc;

use http::Method;
use tokio::sync::Barrier;
use unavez_payments::acquirer::Standing;

use super::scripted::{Look, Plan, Scripted};
use super::{HOUR, SECOND, authorized, captured, later, start};
use crate::support::{B1, Service, refused};

/// The same rules wherever money moves.
async fn both() -> [Service; 2] {
    [Service::start().await, start(&Scripted::new()).await]
}

#[tokio::test]
async fn an_authorized_charge_is_captured_once_also_in_part() {
    for service in both().await {
        let id = authorized(&service, "K1").await;
        assert_eq!(service.ledger().await, (0, 0));
        let capture = format!("/v1/charges/{id}/capture");
        let too_much = service.post(&capture, "C0", r#"{"amount":2501}"#).await;
        assert_eq!(too_much.refusal(), refused(409, "amount-exceeds"));
        let first = service.post(&capture, "C1", r#"{"amount":1000}"#).await;
        assert_eq!((first.status.as_u16(), first.is_replayed()), (201, false), "{first:?}");
        let charge = first.json();
        assert_eq!(
            (&charge["status"], &charge["amount_captured"], &charge["amount"]),
            (&"captured".into(), &1000.into(), &2500.into())
        );
        let again = service.post(&capture, "C1", r#"{"amount":1000}"#).await;
        assert_eq!((again.body, again.status.as_u16()), (first.body, 201));
        let second = service.post(&capture, "C2", "{}").await;
        assert_eq!(second.refusal(), refused(409, "invalid-state"));
        let repeated = service.post(&capture, "C2", "{}").await;
        assert!(repeated.is_replayed(), "a refusal is final, stored and replayed");
        assert_eq!(repeated.body, second.body);
        let void = service.post(&format!("/v1/charges/{id}/void"), "V1", "{}").await;
        assert_eq!(void.refusal(), refused(409, "invalid-state"));
        assert_eq!(service.ledger().await, (1, 1000));
        let other = service.post(&capture, "C1", r#"{"amount":1001}"#).await;
        assert_eq!(other.refusal(), refused(422, "idempotency-key-reused"));
    }
}

#[tokio::test]
async fn an_authorized_charge_is_voided_and_then_nothing_else() {
    for service in both().await {
        let id = authorized(&service, "K1").await;
        let void = service.post(&format!("/v1/charges/{id}/void"), "V1", "").await;
        assert_eq!((void.status.as_u16(), &void.json()["status"]), (201, &"voided".into()), "{void:?}");
        for (path, key) in [("capture", "C1"), ("void", "V2"), ("refunds", "R1")] {
            let refusal = service.post(&format!("/v1/charges/{id}/{path}"), key, "{}").await;
            assert_eq!(refusal.refusal(), refused(409, "invalid-state"), "{path}");
        }
        let with_amount = service.post(&format!("/v1/charges/{id}/void"), "V3", r#"{"amount":1}"#).await;
        assert_eq!(with_amount.refusal(), refused(400, "validation"));
        assert_eq!(service.ledger().await, (0, 0));
    }
}

#[tokio::test]
async fn refunds_give_back_what_was_captured_and_no_more() {
    for service in both().await {
        let id = captured(&service, "K1").await;
        let refunds = format!("/v1/charges/{id}/refunds");
        let first = service.post(&refunds, "R1", r#"{"amount":500}"#).await;
        assert_eq!(first.status, 201, "{first:?}");
        let refund = first.json();
        assert_eq!(
            (&refund["status"], &refund["amount"], &refund["charge_id"]),
            (&"succeeded".into(), &500.into(), &id.clone().into())
        );
        let path = first.header("location").unwrap().to_owned();
        assert_eq!(service.get(&path).await.json(), refund);
        assert_eq!(path, format!("/v1/refunds/{}_1", id.replace("ch_", "re_")));
        let too_much = service.post(&refunds, "R2", r#"{"amount":2001}"#).await;
        assert_eq!(too_much.refusal(), refused(409, "amount-exceeds"));
        let rest = service.post(&refunds, "R3", "{}").await;
        assert_eq!((rest.status.as_u16(), &rest.json()["amount"]), (201, &2000.into()));
        let nothing = service.post(&refunds, "R4", "{}").await;
        assert_eq!(nothing.refusal(), refused(409, "amount-exceeds"));
        let charge = service.get(&format!("/v1/charges/{id}")).await.json();
        assert_eq!((&charge["status"], &charge["amount_refunded"]), (&"captured".into(), &2500.into()));
        let entries = service.get(&format!("/v1/ledger/entries?charge_id={id}")).await.json();
        let kinds: Vec<_> = entries["data"].as_array().unwrap().iter().map(|it| it["kind"].clone()).collect();
        assert_eq!(kinds, ["refund", "refund", "capture"]);
        service.ledger().await;
        let service = service.restart().await;
        service.ledger().await;
        assert_eq!(service.get("/v1/refunds/re_1").await.refusal(), refused(404, "not-found"));
    }
}

#[tokio::test]
async fn c86_amounts_that_are_none_are_refused_and_claim_nothing() {
    for service in both().await {
        let id = captured(&service, "K1").await;
        let refunds = format!("/v1/charges/{id}/refunds");
        for amount in ["0", "-1", "9223372036854775807", "1.0", "\"1\"", "null"] {
            let refusal = service.post(&refunds, "R1", &format!("{{\"amount\":{amount}}}")).await;
            assert_eq!(refusal.refusal(), refused(400, "validation"), "{amount}");
        }
        assert_eq!(service.post(&refunds, "R1", r#"{"amount":2500}"#).await.status, 201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c86_two_refunds_at_once_are_never_more_than_was_captured() {
    for service in both().await.map(Arc::new) {
        for round in 0..50 {
            let body = format!(r#"{{"amount":10000,"currency":"EUR","order_id":"o-{round}"}}"#);
            let charge = service.charge(&format!("K{round}"), &body).await.json();
            let refunds = format!("/v1/charges/{}/refunds", charge["id"].as_str().unwrap());
            let barrier = Arc::new(Barrier::new(2));
            let racers = ["a", "b"].map(|name| {
                let (service, barrier, refunds) =
                    (Arc::clone(&service), Arc::clone(&barrier), refunds.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    let key = format!("R{round}{name}");
                    service.post(&refunds, &key, r#"{"amount":6000}"#).await.status.as_u16()
                })
            });
            let mut statuses = Vec::new();
            for racer in racers {
                statuses.push(racer.await.unwrap());
            }
            statuses.sort_unstable();
            assert_eq!(statuses, [201, 409], "round {round}");
        }
        service.ledger().await;
    }
}

#[tokio::test]
async fn c87_two_equal_refunds_under_two_keys_both_run() {
    for service in both().await {
        let id = captured(&service, "K1").await;
        let refunds = format!("/v1/charges/{id}/refunds");
        for key in ["R1", "R2"] {
            assert_eq!(service.post(&refunds, key, r#"{"amount":500}"#).await.status, 201);
        }
        assert_eq!(service.get(&format!("/v1/charges/{id}")).await.json()["amount_refunded"], 1000);
    }
}

#[tokio::test]
async fn an_unknown_charge_is_judged_after_the_claim_and_that_is_final() {
    for service in both().await {
        let unknown = "/v1/charges/ch_71dbf60ddff57a65e876c0875e809934/capture";
        for (path, key) in [(unknown, "C1"), ("/v1/charges/nonsense/capture", "C2")] {
            let first = service.post(path, key, "{}").await;
            assert_eq!(first.refusal(), refused(404, "not-found"));
            let again = service.post(path, key, "{}").await;
            assert_eq!((again.is_replayed(), again.body), (true, first.body));
        }
    }
}

#[tokio::test]
async fn p21_a_step_answers_after_its_record_is_gone() {
    for service in [
        Service::start_with(crate::support::Setup {
            clock: Some(unavez_store::clock::ManualClock::new()),
            ..Default::default()
        })
        .await,
        start(&Scripted::new()).await,
    ] {
        let id = captured(&service, "K1").await;
        let refunds = format!("/v1/charges/{id}/refunds");
        let first = service.post(&refunds, "R1", r#"{"amount":500}"#).await;
        later(&service, 25 * HOUR).await;
        while unavez_store::Store::purge(service.payments.store(), 100).await.unwrap().deleted > 0 {}
        let late = service.post(&refunds, "R1", r#"{"amount":500}"#).await;
        assert_eq!((late.status.as_u16(), late.is_replayed(), &late.body), (201, true, &first.body));
        assert_eq!(
            service.post(&refunds, "R1", r#"{"amount":501}"#).await.refusal(),
            refused(422, "idempotency-key-reused")
        );
        assert_eq!(
            service.charge("R1", B1).await.refusal(),
            refused(422, "idempotency-key-reused"),
            "kind included"
        );
        let cancel = service.call(Method::POST, "/v1/idempotency-keys/R1/cancel").key("X1").send().await;
        assert_eq!(cancel.json()["outcome"], "approved");
        assert_eq!(service.get(&format!("/v1/charges/{id}")).await.json()["amount_refunded"], 500);
    }
}

#[tokio::test]
async fn c112_a_step_under_way_keeps_its_place() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let id = authorized(&service, "K1").await;
    let capture = format!("/v1/charges/{id}/capture");
    acquirer.plan([Plan::Lose]);
    assert_eq!(service.post(&capture, "C1", "{}").await.refusal(), refused(504, "outcome-unknown"));
    for (path, key) in [("void", "V1"), ("capture", "C2")] {
        let refusal = service.post(&format!("/v1/charges/{id}/{path}"), key, "{}").await;
        assert_eq!(refusal.refusal(), refused(409, "invalid-state"), "{path}: unknown keeps its slot");
    }
    later(&service, 11 * SECOND).await;
    let found = service.post(&capture, "C1", "{}").await;
    assert_eq!((found.status.as_u16(), &found.json()["status"]), (201, &"captured".into()));
    assert_eq!(service.ledger().await, (1, 2500));
    assert_eq!(acquirer.sends().len(), 2);
}

#[tokio::test]
async fn c112_a_refund_without_amount_sends_the_amount_of_its_claim() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let id = captured(&service, "K1").await;
    let refunds = format!("/v1/charges/{id}/refunds");
    assert_eq!(service.post(&refunds, "R0", r#"{"amount":500}"#).await.status, 201);
    acquirer.plan([Plan::Fail]);
    assert_eq!(service.post(&refunds, "R1", "{}").await.refusal(), refused(504, "outcome-unknown"));
    let nothing_left = service.post(&refunds, "R2", r#"{"amount":1}"#).await;
    assert_eq!(nothing_left.refusal(), refused(409, "amount-exceeds"), "unknown keeps its reservation");
    later(&service, 11 * SECOND).await;
    let sent_again = service.post(&refunds, "R1", "{}").await;
    assert_eq!((sent_again.status.as_u16(), &sent_again.json()["amount"]), (201, &2000.into()));
    let sends = acquirer.sends();
    assert_eq!(sends[2], sends[3]);
}

#[tokio::test]
async fn a_step_that_comes_to_nothing_gives_back_what_it_held() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let id = authorized(&service, "K1").await;
    let capture = format!("/v1/charges/{id}/capture");
    acquirer.plan([Plan::RefuseConnection]);
    assert_eq!(service.post(&capture, "C1", "{}").await.refusal(), refused(503, "acquirer-unavailable"));
    acquirer.plan([Plan::Decline]);
    let declined = service.post(&capture, "C2", "{}").await;
    assert_eq!(declined.refusal(), refused(402, "charge-declined"));
    assert_eq!(declined.json()["resource"], id);
    assert_eq!(
        service.post(&capture, "C1", "{}").await.status,
        201,
        "the released key is free, and so is the slot"
    );

    let refunds = format!("/v1/charges/{id}/refunds");
    acquirer.plan([Plan::RefuseConnection]);
    assert_eq!(service.post(&refunds, "R1", r#"{"amount":2000}"#).await.status, 503);
    assert_eq!(service.post(&refunds, "R2", r#"{"amount":1000}"#).await.status, 201);
    let judged_anew = service.post(&refunds, "R1", r#"{"amount":2000}"#).await;
    assert_eq!(judged_anew.refusal(), refused(409, "amount-exceeds"), "its place was given away");
    acquirer.plan([Plan::Decline]);
    let failed = service.post(&refunds, "R3", "{}").await;
    assert_eq!(failed.refusal(), refused(402, "charge-declined"));
    let refund = failed.json()["resource"].as_str().unwrap().to_owned();
    assert_eq!(service.get(&format!("/v1/refunds/{refund}")).await.json()["status"], "failed");
    assert_eq!(service.post(&refunds, "R4", "{}").await.status, 201);
}

#[tokio::test]
async fn c82_a_capture_whose_answer_was_garbage_is_asked_about() {
    for (look, expected) in [
        (Look::Truth, refused(201, "")),
        (Look::Says(Standing::Declined), refused(402, "charge-declined")),
        (Look::Down, refused(409, "outcome-unknown")),
    ] {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        let id = authorized(&service, "K1").await;
        let capture = format!("/v1/charges/{id}/capture");
        acquirer.plan([Plan::Lose]);
        service.post(&capture, "C1", "{}").await;
        acquirer.look(look);
        later(&service, 11 * SECOND).await;
        let repeat = service.post(&capture, "C1", "{}").await;
        assert_eq!(repeat.refusal(), expected);
        assert_eq!(acquirer.sends().len(), 2, "captured once");
    }
}

#[tokio::test]
async fn c84_two_ways_that_want_one_capture_get_one() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    for round in 0..50 {
        let id = authorized(&service, &format!("K{round}")).await;
        let capture = format!("/v1/charges/{id}/capture");
        let barrier = Arc::new(Barrier::new(2));
        let racers = ["checkout", "webhook"].map(|name| {
            let (service, barrier, capture) = (Arc::clone(&service), Arc::clone(&barrier), capture.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                service.post(&capture, &format!("{name}{round}"), "{}").await.status.as_u16()
            })
        });
        let mut statuses = Vec::new();
        for racer in racers {
            statuses.push(racer.await.unwrap());
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "round {round}");
        assert_eq!(service.ledger().await, (round + 1, (round + 1) * 2500));
    }
}

#[tokio::test]
async fn a_step_goes_where_its_charge_went() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let outside = captured(&service, "K1").await;
    let clock = service.setup_clock().restarted();
    let ledger = crate::support::Setup { clock: Some(clock), ..Default::default() };
    let service = service.restart_with(ledger).await;
    let refusal = service.post(&format!("/v1/charges/{outside}/refunds"), "R1", "{}").await;
    assert_eq!(refusal.refusal(), refused(503, "acquirer-unavailable"));
    assert_eq!(service.charge("K1", B1).await.json()["id"], outside, "it answers for itself all the same");
    let here = captured(&service, "K2").await;
    let clock = service.setup_clock().restarted();
    let service =
        service.restart_with(crate::support::Setup { clock: Some(clock), ..super::setup(&acquirer) }).await;
    let refusal = service.post(&format!("/v1/charges/{here}/refunds"), "R2", "{}").await;
    assert_eq!(refusal.refusal(), refused(503, "acquirer-unavailable"));
    assert_eq!(acquirer.sends().len(), 1);
}
