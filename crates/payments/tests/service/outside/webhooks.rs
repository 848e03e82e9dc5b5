//! What the acquirer tells by itself (P24 to P28).

use std::sync::Arc;

use tokio::sync::Barrier;
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::key::Key;
use unavez_payments::acquirer::{Kind, Report, Standing};
use unavez_payments::money::{Amount, Currency};

use super::life::{break_finishes, mend_finishes};
use super::scripted::{Look, Plan, Scripted};
use super::{HOUR, SECOND, anomalies, authorized, deliver, later, operation, start, tell};
use crate::support::{B1, Service, refused};

/// What would be told of a key that may not have been used yet.
pub(crate) fn report_of(service: &Service, key: &str, amount: i64) -> Report {
    let key = Key::parse_path(key).unwrap();
    Report {
        operation_id: RecordId::of(service.payments.realm(), &Tenant::single(), &key).operation_id(),
        kind: Kind::Payment,
        tenant: Some(Tenant::single()),
        amount: Amount::of_minor_units(amount).unwrap(),
        currency: Currency::parse("EUR").unwrap(),
        payment: None,
        reference: None,
        decline_code: None,
        next_action: None,
    }
}

async fn seen(service: &Service) -> Vec<(String, String)> {
    let read = |db: &rusqlite::Connection| {
        let mut list = db.prepare("select event, state from webhook_events order by id")?;
        list.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    service.payments.store().read(read).await.unwrap()
}

#[tokio::test]
async fn p26_an_event_settles_a_pending_charge_and_its_key() {
    for (standing, status) in [(Standing::Done, 201), (Standing::Declined, 402)] {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        acquirer.plan([Plan::Pend]);
        let first = service.charge("K1", B1).await;
        assert_eq!((first.status.as_u16(), &first.json()["status"]), (202, &"pending".into()));
        assert_eq!(first.header("idempotency-expires"), None);
        let waiting = service.charge("K1", B1).await;
        assert_eq!(waiting.refusal(), refused(409, "outcome-pending"));
        assert_eq!(waiting.header("retry-after"), Some("5"));
        let report = acquirer.report(operation(&service, "K1").await);
        assert_eq!(tell(&service, &acquirer, "evt_1", standing, report.clone()).await.status, 200);
        let settled = service.charge("K1", B1).await;
        assert_eq!((settled.status.as_u16(), settled.is_replayed()), (status, true));
        let moved = service.ledger().await;
        assert_eq!(moved, if status == 201 { (1, 2500) } else { (0, 0) });
        // Once more, and under another id: nothing moves twice.
        for id in ["evt_1", "evt_2"] {
            assert_eq!(tell(&service, &acquirer, id, standing, report.clone()).await.status, 200);
        }
        assert_eq!(service.ledger().await, moved);
        assert!(anomalies(&service).await.is_empty());
        assert_eq!(acquirer.sends().len(), 1);
    }
}

#[tokio::test]
async fn p24_what_is_not_signed_changes_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let unsigned =
        service.call(http::Method::POST, "/v1/webhooks/acquirer").body("evt_1".into()).send().await;
    assert_eq!(unsigned.refusal(), refused(401, "unauthorized"));
    assert_eq!(deliver(&service, "unknown".into()).await.status, 200, "kept, and acknowledged");
    assert_eq!(anomalies(&service).await, ["malformed"]);
    let ledger = Service::start().await;
    assert_eq!(deliver(&ledger, "evt_1".into()).await.refusal(), refused(401, "unauthorized"));
    let large = vec![b'x'; (2 << 20) + 1];
    let large = service.call(http::Method::POST, "/v1/webhooks/acquirer").body(large.into()).send().await;
    assert_eq!(large.refusal(), refused(413, "too-large"));
}

#[tokio::test]
async fn c98_an_event_about_something_else_closes_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Pend]);
    service.charge("K1", B1).await;
    let right = acquirer.report(operation(&service, "K1").await);
    type Change = fn(&mut Report);
    let changes: [(&str, Change); 5] = [
        ("amount", |it| it.amount = Amount::of_minor_units(1).unwrap()),
        ("currency", |it| it.currency = Currency::parse("USD").unwrap()),
        ("tenant", |it| it.tenant = Some(Tenant::parse("other").unwrap())),
        ("kind", |it| it.kind = Kind::Refund),
        ("parent", |it| it.payment = Some(RecordId::from_bytes([9; 16]).operation_id())),
    ];
    let mut expected = Vec::new();
    for (reason, change) in changes {
        let mut report = right.clone();
        change(&mut report);
        assert_eq!(tell(&service, &acquirer, reason, Standing::Done, report).await.status, 200);
        expected.push(reason);
        assert_eq!(anomalies(&service).await, expected);
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
    }
    let metrics = String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("unavez_webhook_anomalies_total{reason=\"amount\"} 1\n"), "{metrics}");
    tell(&service, &acquirer, "right", Standing::Done, right).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
}

#[tokio::test]
async fn c93_an_event_whose_work_fails_is_taken_the_next_time() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Pend]);
    service.charge("K1", B1).await;
    let event = acquirer.event("evt_1", Standing::Done, acquirer.report(operation(&service, "K1").await));
    break_finishes(&service).await;
    for _ in 0..3 {
        assert_eq!(deliver(&service, event.clone()).await.status, 503);
    }
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
    mend_finishes(&service).await;
    assert_eq!(deliver(&service, event.clone()).await.status, 200);
    assert_eq!(service.ledger().await, (1, 2500));
    // The acknowledgement was lost, and the process started anew.
    let service = service.restart().await;
    assert_eq!(deliver(&service, event).await.status, 200);
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn p25_after_ten_failures_an_event_is_kept_for_a_person() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Pend]);
    service.charge("K1", B1).await;
    let event = acquirer.event("evt_1", Standing::Done, acquirer.report(operation(&service, "K1").await));
    break_finishes(&service).await;
    for failure in 1..=10 {
        let expected = if failure < 10 { 503 } else { 200 };
        assert_eq!(deliver(&service, event.clone()).await.status, expected, "failure {failure}");
    }
    assert_eq!(anomalies(&service).await, ["failing"]);
    assert_eq!(deliver(&service, event).await.status, 200);
    mend_finishes(&service).await;
    acquirer.decide(operation(&service, "K1").await, Standing::Done);
    later(&service, HOUR).await;
    assert_eq!(service.charge("K1", B1).await.status, 201, "a question still tells");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c94_one_event_ten_times_at_once_takes_effect_once() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    for round in 0..20_u64 {
        acquirer.plan([Plan::Pend]);
        let key = format!("K{round}");
        service.charge(&key, B1).await;
        let report = acquirer.report(operation(&service, &key).await);
        let event = acquirer.event(&format!("evt_{round}"), Standing::Done, report);
        let barrier = Arc::new(Barrier::new(10));
        let deliveries: Vec<_> = (0..10)
            .map(|_| {
                let (service, barrier, event) = (Arc::clone(&service), Arc::clone(&barrier), event.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    deliver(&service, event).await.status.as_u16()
                })
            })
            .collect();
        for delivery in deliveries {
            assert_eq!(delivery.await.unwrap(), 200);
        }
        assert_eq!(service.ledger().await, (round + 1, (round + 1) * 2500));
    }
}

#[tokio::test]
async fn p27_a_final_state_never_goes_back_and_a_contradiction_is_kept() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Decline]);
    let declined = service.charge("K1", B1).await;
    let approved = acquirer.report(operation(&service, "K1").await);
    assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Done, approved).await.status, 200);
    assert_eq!(service.charge("K1", B1).await.body, declined.body);
    assert_eq!(service.ledger().await, (0, 0));
    let found = service.payments.books().anomalies(0, 10).await.unwrap();
    assert_eq!((found.len(), found[0].reason.as_str()), (1, "contradiction"));
    assert!(found[0].proposal.as_deref().unwrap().contains("void"), "{found:?}");
    let status = service.get("/v1/idempotency-keys/K1").await.json();
    assert_eq!(status["findings"], serde_json::json!(["contradiction"]));

    let charge = service.charge("K2", B1).await;
    let report = acquirer.report(operation(&service, "K2").await);
    for (id, standing) in [("evt_2", Standing::Pending), ("evt_3", Standing::Declined)] {
        assert_eq!(tell(&service, &acquirer, id, standing, report.clone()).await.status, 200);
    }
    let second = Report { reference: Some("another".into()), ..report };
    assert_eq!(tell(&service, &acquirer, "evt_4", Standing::Done, second).await.status, 200);
    assert_eq!(service.charge("K2", B1).await.body, charge.body);
    assert_eq!(anomalies(&service).await, ["contradiction", "contradiction", "second_payment"]);
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn c111_a_negative_event_settles_nothing_after_several_attempts() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail, Plan::Lose]);
    service.charge("K1", B1).await;
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
    let report = acquirer.report(operation(&service, "K1").await);
    assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Declined, report.clone()).await.status, 200);
    let asked = service.charge("K1", B1).await;
    assert_eq!((asked.status.as_u16(), asked.is_replayed()), (201, true), "it was asked, and approved");
    tell(&service, &acquirer, "evt_2", Standing::Declined, report).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    assert!(
        anomalies(&service).await.is_empty(),
        "the first was declined, the second approved: both are true"
    );
}

#[tokio::test]
async fn p28_an_event_that_comes_first_is_parked_and_settles_the_claim() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let report = report_of(&service, "K1", 2500);
    assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Done, report).await.status, 200);
    assert_eq!(seen(&service).await, [("evt_1".to_owned(), "parked".to_owned())]);
    let claimed = service.charge("K1", B1).await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
    assert_eq!((acquirer.sends().len(), service.ledger().await), (0, (1, 2500)), "nothing is sent for it");
    assert_eq!(seen(&service).await, [("evt_1".to_owned(), "applied".to_owned())]);
    // One that does not fit shows all the same that the operation is known there.
    let other = report_of(&service, "K2", 1);
    tell(&service, &acquirer, "evt_2", Standing::Done, other).await;
    assert_eq!(service.charge("K2", B1).await.refusal(), refused(504, "outcome-unknown"));
    assert_eq!((acquirer.sends().len(), anomalies(&service).await), (0, vec!["amount"]));
    // One that is not decided is not sent either.
    tell(&service, &acquirer, "evt_3", Standing::Pending, report_of(&service, "K3", 2500)).await;
    assert_eq!(service.charge("K3", B1).await.status, 202);
    assert_eq!(acquirer.sends().len(), 0);
}

#[tokio::test]
async fn p28_an_event_whose_operation_never_comes_is_listed_after_thirty_days() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    tell(&service, &acquirer, "evt_1", Standing::Done, report_of(&service, "K1", 2500)).await;
    service.charge("K2", B1).await;
    let settled = acquirer.report(operation(&service, "K2").await);
    tell(&service, &acquirer, "evt_2", Standing::Done, settled).await;
    later(&service, 29 * 24 * HOUR).await;
    assert_eq!(seen(&service).await.len(), 2);
    later(&service, 24 * HOUR + SECOND).await;
    while anomalies(&service).await != ["never_appeared"] || !seen(&service).await.is_empty() {
        later(&service, SECOND).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c119_an_event_and_the_claim_at_one_instant_never_miss_each_other() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    acquirer.plan(vec![Plan::Pend; 1000]);
    for round in 0..1000_u64 {
        let key = format!("K{round}");
        let mut report = report_of(&service, &key, 2500);
        report.reference = Some(format!("ref_{}", report.operation_id).into());
        let event = acquirer.event(&format!("evt_{round}"), Standing::Done, report);
        let barrier = Arc::new(Barrier::new(2));
        let charging = tokio::spawn({
            let (service, barrier, key) = (Arc::clone(&service), Arc::clone(&barrier), key.clone());
            async move {
                barrier.wait().await;
                service.charge(&key, B1).await.status.as_u16()
            }
        });
        barrier.wait().await;
        assert_eq!(deliver(&service, event).await.status, 200);
        let first = charging.await.unwrap();
        assert!(matches!(first, 201 | 202), "round {round}: {first}");
        assert_eq!(service.charge(&key, B1).await.status, 201, "round {round}");
    }
    assert!(seen(&service).await.iter().all(|(_, state)| state == "applied"));
    assert_eq!(service.ledger().await, (1000, 2_500_000));
}

#[tokio::test]
async fn an_event_settles_a_capture_whose_answer_was_lost() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let id = authorized(&service, "K1").await;
    acquirer.plan([Plan::Lose]);
    acquirer.look(Look::Down);
    let capture = format!("/v1/charges/{id}/capture");
    service.post(&capture, "C1", "{}").await;
    let report = acquirer.report(operation(&service, "C1").await);
    assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Done, report).await.status, 200);
    let settled = service.post(&capture, "C1", "{}").await;
    assert_eq!((settled.status.as_u16(), &settled.json()["status"]), (201, &"captured".into()));
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c97_a_customer_that_returns_and_an_event_at_once_book_one_entry() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    acquirer.plan(vec![Plan::Pend; 300]);
    for round in 0..300_u64 {
        let key = format!("K{round}");
        service.charge(&key, B1).await;
        let id = operation(&service, &key).await;
        acquirer.decide(id, Standing::Done);
        let event = acquirer.event(&format!("evt_{round}"), Standing::Done, acquirer.report(id));
        service.setup_clock().advance(11 * SECOND);
        let barrier = Arc::new(Barrier::new(2));
        let returning = tokio::spawn({
            let (service, barrier, key) = (Arc::clone(&service), Arc::clone(&barrier), key.clone());
            async move {
                barrier.wait().await;
                service.charge(&key, B1).await.status.as_u16()
            }
        });
        barrier.wait().await;
        assert_eq!(deliver(&service, event).await.status, 200);
        assert_eq!(returning.await.unwrap(), 201, "round {round}");
        let charge = id.to_string().replace("op_", "ch_");
        let entries = service.get(&format!("/v1/ledger/entries?charge_id={charge}")).await.json();
        let ids: Vec<_> = entries["data"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
        assert_eq!(
            ids,
            [charge.replace("ch_", "le_") + "_1"],
            "round {round}: one, by an id that follows from it"
        );
    }
}
