//! One charge from its claim to its stored outcome, with an acquirer outside.

use std::sync::Arc;

use http::Method;
use tokio::sync::Barrier;
use unavez_core::timing::Timings;
use unavez_payments::Settings;
use unavez_payments::acquirer::Standing;
use unavez_payments::books::EventKind;

use super::scripted::{Plan, Scripted};
use super::{HOUR, SECOND, anomalies, captured, later, operation, setup, start, tell};
use crate::support::{B1, B2, Service, Setup, refused};

#[tokio::test]
async fn a_charge_is_claimed_sent_and_settled() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let first = service.charge("K1", B1).await;
    assert_eq!((first.status.as_u16(), first.is_replayed()), (201, false));
    let charge = first.json();
    assert_eq!((&charge["status"], &charge["amount_captured"]), (&"captured".into(), &2500.into()));
    assert_eq!(first.header("location").unwrap(), format!("/v1/charges/{}", charge["id"].as_str().unwrap()));
    assert!(first.header("idempotency-expires").is_some());
    let again = service.charge("K1", B1).await;
    assert_eq!((again.status.as_u16(), again.is_replayed()), (201, true));
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("original-request-id"), first.header("request-id"));
    assert_eq!(acquirer.sends().len(), 1);
    assert_eq!(service.ledger().await, (1, 2500));
    assert_eq!(service.get("/healthz").await.json()["acquirer"], "scripted");
    let service = service.restart().await;
    assert_eq!(service.ledger().await, (1, 2500), "summed up anew");
    assert_eq!(service.charge("K1", B1).await.body, first.body);
}

#[tokio::test]
async fn c90_a_decline_is_final_for_its_key_alone() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Decline]);
    let declined = service.charge("K1", B1).await;
    assert_eq!(declined.refusal(), refused(402, "charge-declined"));
    assert_eq!(service.charge("K2", B1).await.status, 201);
    let delayed = service.charge("K1", B1).await;
    assert_eq!((delayed.status.as_u16(), delayed.is_replayed()), (402, true));
    assert_eq!(delayed.body, declined.body);
    assert_eq!((acquirer.sends().len(), service.ledger().await), (2, (1, 2500)));
    let id = declined.json()["resource"].as_str().unwrap().to_owned();
    assert_eq!(service.get(&format!("/v1/charges/{id}")).await.json()["status"], "declined");
}

#[tokio::test]
async fn what_the_acquirer_cannot_do_claims_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let body = r#"{"amount":2500,"currency":"EUR","order_id":"o-1","payment_method":"tok_unsendable"}"#;
    let refusal = service.charge("K1", body).await;
    assert_eq!(refusal.refusal(), refused(400, "validation"));
    assert_eq!(refusal.json()["member"], "payment_method");
    assert_eq!((acquirer.sends().len(), service.rows().await), (0, [0, 0, 0]));
}

#[tokio::test]
async fn p10_a_repeat_meets_the_running_attempt_and_can_wait_for_it() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    acquirer.plan([Plan::Hold]);
    let first = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.charge("K1", B1).await }
    });
    acquirer.waiting.acquire().await.unwrap().forget();
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "operation-in-progress"));
    assert_eq!(service.charge("K1", B2).await.refusal(), refused(422, "idempotency-key-reused"));
    let waiting = tokio::spawn({
        let service = Arc::clone(&service);
        async move {
            let call = service.call(Method::POST, "/v1/charges").key("K1").header("prefer", "wait=30");
            call.json(B1).send().await
        }
    });
    acquirer.go.add_permits(1);
    let (first, waited) = (first.await.unwrap(), waiting.await.unwrap());
    assert_eq!((first.status.as_u16(), first.is_replayed()), (201, false));
    assert_eq!((waited.status.as_u16(), waited.is_replayed()), (201, true));
    assert_eq!(waited.body, first.body);
    assert_eq!(acquirer.sends().len(), 1);
}

#[tokio::test]
async fn c12_a_caller_that_leaves_stops_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Hold]);
    tokio::select! {
        _ = service.charge("K1", B1) => unreachable!("the acquirer does not answer"),
        permit = acquirer.waiting.acquire() => permit.unwrap().forget(),
    }
    acquirer.go.add_permits(1);
    // Shutdown waits for what runs, and the next process has its result.
    let service = service.restart().await;
    let again = service.charge("K1", B1).await;
    assert_eq!((again.status.as_u16(), again.is_replayed()), (201, true));
    assert_eq!((acquirer.sends().len(), service.ledger().await), (1, (1, 2500)));
}

#[tokio::test]
async fn c7_a_slow_owner_that_was_overtaken_changes_nothing() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    acquirer.plan([Plan::HoldExecuted]);
    let slow = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.charge("K1", B1).await }
    });
    acquirer.waiting.acquire().await.unwrap().forget();
    // The store's clock runs on; the owner's own does not notice, as that of a frozen process.
    service.setup_clock().advance(11 * SECOND);
    let found = service.charge("K1", B1).await;
    assert_eq!((found.status.as_u16(), found.is_replayed()), (201, true), "{found:?}");
    acquirer.go.add_permits(1);
    let late = slow.await.unwrap();
    assert_eq!((late.status.as_u16(), late.body), (201, found.body));
    assert_eq!((acquirer.executed(), service.ledger().await), (1, (1, 2500)));
    assert!(anomalies(&service).await.is_empty(), "the same truth twice");
}

#[tokio::test]
async fn c110_a_negative_answer_is_told_only_once_it_is_stored_and_a_positive_one_at_once() {
    for (plan, expected) in [(Plan::HoldExecuted, 201), (Plan::Decline, 504)] {
        let acquirer = Scripted::new();
        let service = start(&acquirer).await;
        acquirer.plan([plan]);
        acquirer.go.add_permits(1);
        // From the claim on the store refuses every end of an attempt.
        break_finishes(&service).await;
        let told = service.charge("K1", B1).await;
        assert_eq!(told.status, expected, "{told:?}");
        mend_finishes(&service).await;
        later(&service, 11 * SECOND).await;
        let expected = if expected == 201 { 201 } else { 402 };
        let settled = service.charge("K1", B1).await;
        assert_eq!((settled.status.as_u16(), settled.is_replayed()), (expected, true), "{settled:?}");
        assert_eq!(acquirer.sends().len(), 1);
    }
}

/// Makes the database refuse to settle anything.
pub(super) async fn break_finishes(service: &Service) {
    execute(
        service,
        "create trigger broken before update on operations begin select raise(abort, 'broken by the test'); end",
    )
    .await;
}

pub(super) async fn mend_finishes(service: &Service) {
    execute(service, "drop trigger broken").await;
}

async fn execute(service: &Service, sql: &'static str) {
    let done = service.payments.store().transaction(move |tx| tx.execute_batch(sql)).await;
    done.expect("the database takes it");
}

#[tokio::test]
async fn p21_an_operation_answers_after_its_record_is_gone() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let first = service.charge("K1", B1).await;
    acquirer.plan([Plan::Decline]);
    let declined = service.charge("K2", B2).await;
    later(&service, 25 * HOUR).await;
    let late = service.charge("K1", B1).await;
    assert_eq!((late.status.as_u16(), late.is_replayed()), (201, true));
    assert_eq!(late.body, first.body);
    let late = service.charge("K2", B2).await;
    assert_eq!((late.status.as_u16(), late.is_replayed(), late.body), (402, true, declined.body));
    assert_eq!(service.charge("K1", B2).await.refusal(), refused(422, "idempotency-key-reused"));
    assert_eq!(acquirer.sends().len(), 2);
}

#[tokio::test]
async fn a_suspected_duplicate_is_marked_and_a_released_one_is_none() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::RefuseConnection]);
    service.charge("K0", B1).await;
    let first = service.charge("K1", B1).await.json();
    assert_eq!(first.get("suspected_duplicate_of"), None, "nothing was sent for the other one");
    let second = service.charge("K2", B1).await.json();
    assert_eq!(second["suspected_duplicate_of"], first["id"]);
    let id = second["id"].as_str().unwrap();
    assert_eq!(service.get(&format!("/v1/charges/{id}")).await.json(), second);
    later(&service, 25 * HOUR).await;
    assert_eq!(
        service.charge("K3", B1).await.json().get("suspected_duplicate_of"),
        None,
        "outside the window"
    );
}

#[tokio::test]
async fn a_suspected_duplicate_is_counted_once_whatever_is_done_about_it() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    captured(&service, "K1").await;
    let suspected = async || {
        let metrics = service.get("/metrics").await;
        let text = std::str::from_utf8(&metrics.body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("unavez_suspected_duplicates_total "));
        line.expect("the metric is there").to_owned()
    };
    let second = captured(&service, "K2").await;
    assert_eq!(suspected().await, "1");
    let refunds = format!("/v1/charges/{second}/refunds");
    assert_eq!(service.post(&refunds, "back-1", r#"{"amount":100}"#).await.status, 201);
    assert_eq!(service.post(&refunds, "back-2", "{}").await.status, 201);
    let held = service
        .charge("K3", r#"{"amount":2500,"currency":"EUR","order_id":"o-1001","capture":false}"#)
        .await
        .json();
    assert_eq!(suspected().await, "2");
    let capture = format!("/v1/charges/{}/capture", held["id"].as_str().unwrap());
    assert_eq!(service.post(&capture, "take", "{}").await.status, 201);
    assert_eq!(suspected().await, "2", "what follows a suspected charge is no further one");
}

#[tokio::test]
async fn the_history_of_an_operation_tells_all_that_happened() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail, Plan::Pend]);
    service.charge("K1", B1).await;
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 202);
    let id = operation(&service, "K1").await;
    let undecided = service.payments.books().undecided(10 * SECOND, 10).await.unwrap();
    assert_eq!(undecided.operations.len(), 1);
    let metrics = String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("unavez_unknown 1\n"), "{metrics}");
    assert!(metrics.contains("unavez_unknown_amount{currency=\"EUR\"} 2500"), "{metrics}");
    let report = acquirer.report(id);
    assert_eq!(tell(&service, &acquirer, "evt_1", Standing::Done, report).await.status, 200);
    let history = service.payments.books().operation(id).await.unwrap().expect("it has a row");
    let kinds: Vec<_> = history.events.iter().map(|event| event.kind).collect();
    for kind in [
        EventKind::Started,
        EventKind::Sent,
        EventKind::Answered,
        EventKind::Asked,
        EventKind::TakenOver,
        EventKind::Settled,
    ] {
        assert!(kinds.contains(&kind), "{kind:?} is not in {kinds:?}");
    }
    assert_eq!(kinds[0], EventKind::Started);
    assert_eq!(history.events.last().map(|event| event.attempt), Some(Some(2)));
    assert_eq!(history.standing.as_str(), "done");
    assert!(service.payments.books().undecided(10 * SECOND, 10).await.unwrap().operations.is_empty());
}

#[tokio::test]
async fn a_charge_that_simply_succeeds_tells_its_history_without_events() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let request_id = service.charge("K1", B1).await.header("request-id").unwrap().to_owned();
    let history = service.payments.books().operation(operation(&service, "K1").await).await.unwrap().unwrap();
    let told: Vec<_> = history
        .events
        .iter()
        .map(|event| (event.kind, event.attempt, event.version, event.detail.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            (EventKind::Started, Some(1), Some(1), None),
            (EventKind::Sent, Some(1), Some(1), None),
            (EventKind::Settled, Some(1), Some(2), Some("done, heard in the answer")),
        ]
    );
    assert!(history.events.iter().all(|event| event.request_id.as_deref() == Some(&*request_id)));
    assert_eq!(history.events[0].caller.as_deref(), Some("default"));
    assert_eq!(history.events[2].caller.as_deref(), history.account.as_ref().map(|it| it.as_str()));
    let written = service
        .payments
        .store()
        .read(|db| db.query_row("select count(*) from key_events", [], |row| row.get::<_, i64>(0)));
    assert_eq!(written.await.unwrap(), 0);
}

#[tokio::test]
async fn charges_that_are_created_are_listed_whether_they_are_under_way_or_came_to_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail, Plan::RefuseConnection, Plan::Approve, Plan::Decline]);
    for key in ["K1", "K2", "K3", "K4"] {
        let body = format!(r#"{{"amount":2500,"currency":"EUR","order_id":"{key}"}}"#);
        service.charge(key, &body).await;
    }
    for (status, orders) in [("created", &["K2", "K1"][..]), ("captured", &["K3"]), ("declined", &["K4"])] {
        let list = service.get(&format!("/v1/charges?status={status}")).await.json();
        let found: Vec<_> =
            list["data"].as_array().unwrap().iter().map(|it| it["order_id"].as_str().unwrap()).collect();
        assert_eq!(found, orders, "{status}");
    }
}

#[tokio::test]
async fn p13_the_acquirer_gets_no_more_time_than_an_attempt_has() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    let timings = service.payments.settings().timings;
    assert_eq!(timings.outside_timeout, timings.attempt_deadline() - 2 * timings.store_timeout);
    let timings = Timings { operation_timeout: 4 * SECOND, ..Timings::default() };
    let refused = Setup { settings: Settings { timings, ..Settings::default() }, ..setup(&acquirer) };
    let folder = tempfile::tempdir().unwrap();
    let error = crate::support::open(&folder, &refused).await.expect_err("no room for the acquirer");
    assert!(error.to_string().contains("do not fit") || error.to_string().contains("stops after"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c83_repeats_questions_events_and_the_late_answer_settle_once() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    for round in 0..1000_u32 {
        let key = format!("K{round}");
        let body = format!(r#"{{"amount":100,"currency":"EUR","order_id":"o-{round}"}}"#);
        acquirer.plan([Plan::HoldExecuted]);
        let original = tokio::spawn({
            let (service, key, body) = (Arc::clone(&service), key.clone(), body.clone());
            async move { service.charge(&key, &body).await }
        });
        acquirer.waiting.acquire().await.unwrap().forget();
        let id = operation(&service, &key).await;
        service.setup_clock().advance(11 * SECOND);
        let event = acquirer.event(&format!("evt_{round}"), Standing::Done, acquirer.report(id));
        let barrier = Arc::new(Barrier::new(4));
        let mut racers = Vec::new();
        for racer in 0..4_u8 {
            let (service, barrier, acquirer) =
                (Arc::clone(&service), Arc::clone(&barrier), Arc::clone(&acquirer));
            let (key, body, event) = (key.clone(), body.clone(), event.clone());
            racers.push(tokio::spawn(async move {
                barrier.wait().await;
                match racer {
                    0 => drop(service.payments.recover_due().await.unwrap()),
                    1 => {
                        let repeat = service.charge(&key, &body).await;
                        assert!(matches!(repeat.status.as_u16(), 201 | 409), "{repeat:?}");
                    }
                    2 => assert_eq!(super::deliver(&service, event).await.status, 200),
                    _ => acquirer.go.add_permits(1),
                }
            }));
        }
        for racer in racers {
            racer.await.unwrap();
        }
        let original = original.await.unwrap();
        let repeat = service.charge(&key, &body).await;
        assert_eq!((original.status.as_u16(), &original.body), (201, &repeat.body), "round {round}");
        let history = service.payments.books().operation(id).await.unwrap().unwrap();
        let settled = history.events.iter().filter(|event| event.kind == EventKind::Settled).count();
        assert_eq!(settled, 1, "round {round}: {:?}", history.events);
        assert_eq!(service.ledger().await, (u64::from(round) + 1, (u64::from(round) + 1) * 100));
    }
    assert_eq!(acquirer.executed(), 1000);
    assert!(anomalies(&service).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c118_a_charge_that_races_with_the_cancellation_of_its_key_has_one_answer() {
    let acquirer = Scripted::new();
    let service = Arc::new(start(&acquirer).await);
    for round in 0..100 {
        let barrier = Arc::new(Barrier::new(2));
        let charging = tokio::spawn({
            let (service, barrier) = (Arc::clone(&service), Arc::clone(&barrier));
            async move {
                barrier.wait().await;
                service.charge(&format!("K{round}"), B1).await
            }
        });
        barrier.wait().await;
        let path = format!("/v1/idempotency-keys/K{round}/cancel");
        service.call(Method::POST, &path).key(&format!("C{round}")).send().await;
        let (first, again) = (charging.await.unwrap(), service.charge(&format!("K{round}"), B1).await);
        assert_eq!((first.status, &first.body), (again.status, &again.body), "round {round}");
        if first.status != 201 {
            assert_eq!(first.refusal(), refused(409, "invalid-state"), "round {round}");
        }
    }
    // What is not in memory is judged the same way.
    let service = Arc::into_inner(service).unwrap().restart().await;
    let charged = acquirer.executed();
    for round in 0..100 {
        let body = service.charge(&format!("K{round}"), B1).await;
        assert!(body.status == 201 || body.refusal() == refused(409, "invalid-state"), "round {round}");
    }
    assert_eq!(acquirer.executed(), charged);
}
