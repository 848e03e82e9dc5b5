//! Nothing is sent after a sighting, also where what was seen does not fit and closes nothing (P16, P28).

use std::sync::Arc;

use unavez_core::identity::{RecordId, Tenant};
use unavez_payments::acquirer::{Kind, Report, Standing};
use unavez_payments::money::{Amount, Currency};
use unavez_store::Store as _;

use super::scripted::{Look, Plan, Scripted};
use super::webhooks::report_of;
use super::{HOUR, SECOND, anomalies, captured, deliver, later, start, tell};
use crate::support::{B1, Service, refused};

type Change = fn(&mut Report);

/// Everything in which a report under our own id can differ, and what is found.
const CHANGES: [(&str, Change); 5] = [
    ("amount", |it| it.amount = Amount::of_minor_units(7).unwrap()),
    ("currency", |it| it.currency = Currency::parse("USD").unwrap()),
    ("tenant", |it| it.tenant = Some(Tenant::parse("other").unwrap())),
    ("kind", |it| it.kind = Kind::Void),
    ("parent", |it| it.payment = Some(RecordId::from_bytes([9; 16]).operation_id())),
];

/// The acquirer says "not found" from now on, and late enough to count: nothing is sent all the same.
async fn never_sent_again(service: &Service, acquirer: &Arc<Scripted>, path: &str, key: &str, body: &str) {
    let sends = acquirer.sends().len();
    acquirer.look(Look::NotFound);
    for _ in 0..3 {
        later(service, 11 * SECOND).await;
        let answer = service.post(path, key, body).await;
        assert!(matches!(answer.refusal().0, 409), "{answer:?}");
        assert_eq!(answer.json()["retryable"], true, "{answer:?}");
        assert_eq!(acquirer.sends().len(), sends, "sent again: {answer:?}");
    }
    assert!(anomalies(service).await.contains(&"held"), "a person is told");
}

/// Whether a key's record is marked as sighted.
async fn is_sighted(service: &Service, key: &str) -> bool {
    let id = report_of(service, key, 2500).operation_id.record_id();
    let loaded = service.payments.store().load(id).await.unwrap();
    loaded.record.unwrap().sighted
}

#[tokio::test]
async fn p16_an_answer_that_does_not_fit_is_a_sighting_for_charges_and_steps() {
    for (reason, change) in CHANGES {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        acquirer.plan([Plan::Garble(change)]);
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"), "{reason}");
        assert_eq!(anomalies(&service).await, [reason]);
        assert!(is_sighted(&service, "K1").await, "{reason}: the record knows, too");
        never_sent_again(&service, &acquirer, "/v1/charges", "K1", B1).await;

        acquirer.look(Look::Truth);
        let refunds = format!("/v1/charges/{}/refunds", captured(&service, "K2").await);
        acquirer.plan([Plan::Garble(change)]);
        let refund = service.post(&refunds, "R1", "{}").await;
        assert_eq!(refund.refusal(), refused(504, "outcome-unknown"), "{reason}");
        never_sent_again(&service, &acquirer, &refunds, "R1", "{}").await;
        // The truth settles it, whatever was said before.
        acquirer.look(Look::Truth);
        later(&service, HOUR).await;
        assert_eq!(service.post(&refunds, "R1", "{}").await.status, 201, "{reason}");
    }
}

#[tokio::test]
async fn p16_an_id_that_has_other_content_there_is_a_sighting() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Reused]);
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
    assert_eq!(anomalies(&service).await, ["operation"]);
    never_sent_again(&service, &acquirer, "/v1/charges", "K1", B1).await;
}

#[tokio::test]
async fn p16_a_found_operation_that_does_not_fit_is_a_sighting() {
    let looks = CHANGES.map(|(_, change)| Look::SaysGarbled(change));
    for look in looks.into_iter().chain([Look::Sighted]) {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        acquirer.plan([Plan::Fail]);
        service.charge("K1", B1).await;
        acquirer.look(look);
        later(&service, 11 * SECOND).await;
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
        // Kept across a restart.
        let service = service.restart().await;
        never_sent_again(&service, &acquirer, "/v1/charges", "K1", B1).await;
    }
}

#[tokio::test]
async fn p16_an_event_that_does_not_fit_is_a_sighting_before_the_claim_and_after() {
    for (reason, change) in CHANGES {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        let garbled = |key: &str| {
            let mut report = report_of(&service, key, 2500);
            change(&mut report);
            report
        };
        tell(&service, &acquirer, "evt_1", Standing::Done, garbled("K1")).await;
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"), "{reason}");
        assert_eq!((acquirer.sends().len(), anomalies(&service).await), (0, vec![reason]));
        never_sent_again(&service, &acquirer, "/v1/charges", "K1", B1).await;

        acquirer.plan([Plan::Fail]);
        service.charge("K2", B1).await;
        tell(&service, &acquirer, "evt_2", Standing::Pending, garbled("K2")).await;
        never_sent_again(&service, &acquirer, "/v1/charges", "K2", B1).await;
        assert_eq!(service.ledger().await, (0, 0), "{reason}: nothing closes");
    }
}

#[tokio::test]
async fn p15_what_was_sighted_while_its_attempt_failed_to_connect_is_not_released() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    acquirer.plan([Plan::HoldRefused]);
    let charging = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.charge("K1", B1).await }
    });
    acquirer.waiting.acquire().await.unwrap().forget();
    // Of an earlier life of the database: it knows of none.
    tell(&service, &acquirer, "evt_1", Standing::Pending, report_of(&service, "K1", 2500)).await;
    acquirer.go.add_permits(1);
    assert_eq!(charging.await.unwrap().refusal(), refused(503, "acquirer-unavailable"));
    never_sent_again(&service, &acquirer, "/v1/charges", "K1", B1).await;
}

#[tokio::test]
async fn p4_an_event_of_another_tenants_secret_is_kept_counted_and_shows_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let other = Tenant::parse("other").unwrap();
    acquirer.plan([Plan::Fail]);
    service.charge("K1", B1).await;
    // The body may say what it likes, the same as a finding from before included.
    for (id, tenant) in [("evt_1", None), ("evt_2", Some(Tenant::single())), ("evt_3", Some(other.clone()))] {
        let report = Report { tenant, ..report_of(&service, "K1", 2500) };
        let event = acquirer.event_signed_by(Some(other.clone()), id, Standing::Done, report);
        assert_eq!(deliver(&service, event).await.status, 200);
        assert_eq!(anomalies(&service).await, ["tenant"]);
    }
    let metrics = String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("unavez_webhook_anomalies_total{reason=\"tenant\"} 1\n"), "{metrics}");
    let parked = Report { tenant: None, ..report_of(&service, "K2", 2500) };
    deliver(&service, acquirer.event_signed_by(Some(other), "evt_4", Standing::Done, parked)).await;
    assert_eq!(service.charge("K2", B1).await.status, 201, "sent: the other tenant disturbs nothing");
    assert_eq!(anomalies(&service).await, ["tenant", "tenant"]);
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201, "sent again");
}

#[tokio::test]
async fn what_is_too_long_or_acts_on_a_terminal_closes_nothing_and_is_told_with_its_limit() {
    let changes: [(&str, Change); 4] = [
        ("reference has 256 bytes, limit 255", |it| it.reference = Some("r".repeat(256).into())),
        ("decline code has 70000 bytes, limit 255", |it| it.decline_code = Some("d".repeat(70_000).into())),
        ("next_action has 16385 bytes, limit 16384", |it| it.next_action = Some("1".repeat(16_385).into())),
        ("reference has a control character", |it| it.reference = Some("ref\u{1b}]0;title\u{7}".into())),
    ];
    for (said, change) in changes {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        acquirer.plan([Plan::Garble(change)]);
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
        let found = service.payments.books().anomalies(0, 10).await.unwrap();
        assert!(found[0].detail.contains(said), "{found:?}");
        never_sent_again(&service, &acquirer, "/v1/charges", "K1", B1).await;
        let mut report = report_of(&service, "K2", 2500);
        change(&mut report);
        assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Done, report).await.status, 200);
        assert!(anomalies(&service).await.contains(&"malformed"), "{said}");
    }
}
