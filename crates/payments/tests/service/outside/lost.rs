//! Answers that are lost: asked first, never guessed (P15, P16).

use std::sync::Arc;
use std::time::Duration;

use unavez_core::recovery::Promise;
use unavez_payments::Settings;
use unavez_payments::acquirer::Standing;
use unavez_payments::books::trace::{How, Verdict, trace};
use unavez_store::clock::Clock as _;
use unavez_store::sqlite::Viewer;

use super::scripted::{Look, Plan, Scripted};
use super::{HOUR, SECOND, anomalies, later, operation, setup, start};
use crate::support::{B1, B2, Service, Setup, refused};

#[tokio::test]
async fn c5_an_approval_whose_answer_was_lost_is_found_and_never_created_again() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose]);
    let first = service.charge("K1", B1).await;
    assert_eq!(first.refusal(), refused(504, "outcome-unknown"));
    acquirer.look(Look::Down);
    let open = service.charge("K1", B1).await;
    assert_eq!(open.refusal(), refused(409, "outcome-unknown"));
    for told in [&first, &open] {
        assert_eq!(told.json()["next"], "same key, never a new one", "{told:?}");
        assert_eq!(told.json()["key_status"], "/v1/idempotency-keys/K1", "{told:?}");
    }
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-unknown"));
    assert_eq!((acquirer.sends().len(), acquirer.executed()), (1, 1));

    acquirer.look(Look::Truth);
    later(&service, 2 * SECOND).await;
    let found = service.charge("K1", B1).await;
    assert_eq!((found.status.as_u16(), found.is_replayed()), (201, true), "{found:?}");
    assert_eq!(found.json()["status"], "captured");
    assert_eq!((acquirer.sends().len(), acquirer.executed()), (1, 1));
    assert_eq!(service.ledger().await, (1, 2500));
    let again = service.charge("K1", B1).await;
    assert_eq!(again.body, found.body);
    assert_eq!(service.charge("K1", B2).await.refusal(), refused(422, "idempotency-key-reused"), "C25 d");
}

#[tokio::test]
async fn c2_a_panic_after_the_call_is_asked_about() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Panic]);
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "operation-in-progress"));
    later(&service, 11 * SECOND).await;
    let found = service.charge("K1", B1).await;
    assert_eq!((found.status.as_u16(), found.is_replayed()), (201, true));
    assert_eq!((acquirer.sends().len(), service.ledger().await), (1, (1, 2500)));
}

#[tokio::test]
async fn c1_c80_a_process_that_died_is_found_out_by_what_it_wrote_before_sending() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::HoldExecuted]);
    let charging = service.charge("K1", B1);
    let dead = tokio::select! {
        _ = charging => unreachable!("the acquirer does not answer"),
        permit = acquirer.waiting.acquire() => { permit.unwrap().forget(); operation(&service, "K1").await }
    };
    // The process is gone with its task; the next one has the database alone.
    let service = service.kill_and_restart().await;
    assert_eq!(operation(&service, "K1").await, dead, "the same id after a restart");
    later(&service, 5 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "operation-in-progress"));
    later(&service, 6 * SECOND).await;
    let found = service.charge("K1", B1).await;
    assert_eq!((found.status.as_u16(), found.is_replayed()), (201, true), "{found:?}");
    assert_eq!((acquirer.sends().len(), acquirer.executed()), (1, 1));
    later(&service, 23 * HOUR).await;
    assert_eq!(service.charge("K1", B1).await.body, found.body);
}

#[tokio::test]
async fn c81_not_found_counts_only_after_the_visibility_delay() {
    let acquirer = Scripted::with("scripted:one", Some(24 * HOUR), 60 * SECOND);
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose, Plan::Fail]);
    acquirer.look(Look::NotFound);
    service.charge("K1", B1).await;
    for _ in 0..2 {
        later(&service, 10 * SECOND).await;
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
    }
    acquirer.look(Look::Truth);
    later(&service, 2 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    assert_eq!((acquirer.sends().len(), acquirer.executed()), (1, 1), "no create in between");

    acquirer.look(Look::NotFound);
    let lost = service.charge("K2", B2).await;
    assert_eq!(lost.refusal(), refused(504, "outcome-unknown"));
    later(&service, 59 * SECOND).await;
    assert_eq!(service.charge("K2", B2).await.refusal(), refused(409, "outcome-pending"));
    later(&service, 12 * SECOND).await;
    let sent_again = service.charge("K2", B2).await;
    assert_eq!((sent_again.status.as_u16(), sent_again.is_replayed()), (201, false), "{sent_again:?}");
    let sends = acquirer.sends();
    assert_eq!(sends.len(), 3);
    assert_eq!(sends[1], sends[2], "C32: the same bytes under the same id");
    assert_eq!(service.ledger().await, (2, 12_400));
}

#[tokio::test]
async fn p16_each_kind_of_operation_is_held_to_its_own_promise() {
    let acquirer = Scripted::new();
    acquirer.promise_of_refunds(Promise { visibility_delay: Duration::ZERO, resend_window: None });
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail]);
    service.charge("K1", B1).await;
    later(&service, 11 * SECOND).await;
    let sent_again = service.charge("K1", B1).await;
    assert_eq!((sent_again.status.as_u16(), acquirer.sends().len()), (201, 2));

    let refunds = format!("/v1/charges/{}/refunds", sent_again.json()["id"].as_str().unwrap());
    acquirer.plan([Plan::Fail]);
    service.post(&refunds, "R1", "{}").await;
    later(&service, 11 * SECOND).await;
    assert_eq!(service.post(&refunds, "R1", "{}").await.refusal(), refused(409, "outcome-unknown"));
    assert_eq!(acquirer.sends().len(), 3, "held, and not sent again");
}

#[tokio::test]
async fn c32_what_is_sent_again_are_the_stored_bytes_however_the_repeat_is_spelled() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail, Plan::Fail]);
    service.charge("K1", B1).await;
    let service = service.restart().await;
    let spelled = r#"{ "order_id" : "o-1001", "currency":"EUR","amount":2500 }"#;
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", spelled).await.refusal(), refused(504, "outcome-unknown"));
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    let sends = acquirer.sends();
    assert_eq!(sends.len(), 3);
    assert!(sends.iter().all(|sent| *sent == sends[0]), "{sends:?}");
}

#[tokio::test]
async fn c109_after_three_attempts_or_outside_the_window_it_is_held() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan(vec![Plan::Fail; 3]);
    for _ in 0..3 {
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
        later(&service, 11 * SECOND).await;
    }
    for _ in 0..2 {
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-unknown"));
        later(&service, HOUR).await;
    }
    assert_eq!(acquirer.sends().len(), 3);

    acquirer.plan([Plan::Fail]);
    service.charge("K2", B2).await;
    later(&service, 25 * HOUR).await;
    assert_eq!(service.charge("K2", B2).await.refusal(), refused(409, "outcome-unknown"), "C89");
    assert_eq!(acquirer.sends().len(), 4, "nothing is sent after the window");
    // The night shift writes down what the engine alarmed.
    while anomalies(&service).await != ["held", "held"] {
        later(&service, SECOND).await;
    }
}

#[tokio::test]
async fn c109_what_was_sighted_once_and_is_not_found_now_is_held() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Pend]);
    assert_eq!(service.charge("K1", B1).await.status, 202);
    acquirer.forget();
    for _ in 0..5 {
        later(&service, 2 * HOUR).await;
        // Pending, where the worker has asked just before.
        assert_eq!(service.charge("K1", B1).await.status, 409);
    }
    assert_eq!(acquirer.sends().len(), 1);
    assert_eq!(anomalies(&service).await, ["held"]);
}

#[tokio::test]
async fn c89_recovery_after_a_day_asks_and_sends_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose]);
    service.charge("K1", B1).await;
    later(&service, 25 * HOUR).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    assert_eq!((acquirer.sends().len(), acquirer.executed()), (1, 1));
}

#[tokio::test]
async fn c106_another_account_is_neither_asked_nor_sent_to() {
    let (one, other) = (Scripted::new(), Scripted::with("scripted:two", Some(24 * HOUR), Duration::ZERO));
    let service = start(&one).await;
    one.plan([Plan::Fail]);
    service.charge("K1", B1).await;
    let moved = Setup { acquirer: Some(Arc::clone(&other) as _), ..setup(&one) };
    let clock = service.setup_clock().restarted();
    let service = service.restart_with(Setup { clock: Some(clock), ..moved }).await;
    for _ in 0..3 {
        later(&service, HOUR).await;
        assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-unknown"));
    }
    assert_eq!((other.sends().len(), other.questions()), (0, 0));
    assert_eq!(anomalies(&service).await, ["held"]);
    // What the first account had received still turns up there.
    let clock = service.setup_clock().restarted();
    one.look(Look::Says(Standing::Done));
    let service = service.restart_with(Setup { clock: Some(clock), ..setup(&one) }).await;
    later(&service, HOUR).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
}

#[tokio::test]
async fn c107_only_the_first_attempt_can_say_that_nothing_was_sent() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::RefuseConnection]);
    let refusal = service.charge("K1", B1).await;
    assert_eq!(refusal.refusal(), refused(503, "acquirer-unavailable"));
    assert!(refusal.header("retry-after").is_some());
    assert_eq!(service.get("/v1/idempotency-keys/K1").await.status, 404, "released");
    assert_eq!(
        service.charge("K1", B2).await.refusal(),
        refused(422, "idempotency-key-reused"),
        "the fingerprint stays (P15)"
    );
    // The next attempt is a first one again; its request is delayed, and a third one is not let through.
    acquirer.plan([Plan::Fail, Plan::RefuseConnection]);
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"), "not released");
    acquirer.look(Look::Says(Standing::Done));
    later(&service, 2 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201, "the delayed one arrived");
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn c108_a_question_counts_from_when_it_was_asked() {
    let acquirer = Scripted::with("scripted:one", Some(24 * HOUR), 30 * SECOND);
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail]);
    acquirer.look(Look::NotFound);
    service.charge("K1", B1).await;
    later(&service, 2 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
    later(&service, 27 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
    assert_eq!(acquirer.sends().len(), 1);
    later(&service, 2 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    assert_eq!(acquirer.sends().len(), 2);
}

#[tokio::test]
async fn c111_a_decline_of_one_attempt_does_not_settle_another() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Fail, Plan::ClaimDeclined]);
    service.charge("K1", B1).await;
    later(&service, 11 * SECOND).await;
    let second = service.charge("K1", B1).await;
    assert_eq!(second.refusal(), refused(504, "outcome-unknown"), "the first may have been approved");
    acquirer.look(Look::Says(Standing::Done));
    later(&service, 21 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn c98_an_answer_about_something_else_closes_nothing() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Garble(|report| {
        report.amount = unavez_payments::money::Amount::of_minor_units(1).unwrap()
    })]);
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(504, "outcome-unknown"));
    assert_eq!(anomalies(&service).await, ["amount"]);
    acquirer.look(Look::Garbled(|report| {
        report.currency = unavez_payments::money::Currency::parse("USD").unwrap()
    }));
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "outcome-pending"));
    assert_eq!(anomalies(&service).await, ["amount", "currency"]);
    assert_eq!(service.ledger().await, (0, 0));
    acquirer.look(Look::Truth);
    later(&service, 11 * SECOND).await;
    assert_eq!(service.charge("K1", B1).await.status, 201);
}

#[tokio::test]
async fn the_worker_settles_what_nobody_repeats() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    acquirer.plan([Plan::Lose, Plan::Lose]);
    service.charge("K1", B1).await;
    service.charge("K2", B2).await;
    later(&service, 11 * SECOND).await;
    while service.ledger().await != (2, 12_400) {
        service.payments.recover_due().await.unwrap();
    }
    assert_eq!(acquirer.sends().len(), 2);
    let status = service.get("/v1/idempotency-keys/K1").await.json();
    assert_eq!((&status["state"], &status["outcome"]), (&"finished".into(), &"approved".into()));
}

#[tokio::test]
async fn c102_what_was_asked_first_is_told_so_and_never_as_sent() {
    const O2: &str = r#"{"amount":9900,"currency":"EUR","order_id":"o-2"}"#;
    let acquirer = Scripted::with("scripted:one", Some(24 * HOUR), 30 * SECOND);
    let service = start(&acquirer).await;
    let restored = service.copy();
    assert_eq!(service.charge("K1", B1).await.status, 201);
    let clock = service.setup_clock().restarted();
    let until = clock.now().plus(HOUR);
    let settings = Settings { ask_first_until: Some(until), ..setup(&acquirer).settings };
    drop(service.stop().await);
    let asks = Setup { clock: Some(clock), settings, ..setup(&acquirer) };
    let service = Service::start_in(restored, asks).await;
    let told = async |key: &str| {
        let id = operation(&service, key).await;
        let history = service.payments.books().operation(id).await.unwrap().unwrap();
        let viewer = Viewer::open(&service.folder().join("unavez.db")).unwrap();
        let traced = trace(&viewer, key, None, service.payments.store().clock().now()).unwrap();
        (history, Verdict::of(&traced.orders[0]))
    };

    assert_eq!(service.charge("K1", B1).await.status, 201);
    let (known, verdict) = told("K1").await;
    assert_eq!((known.sends(), known.is_asked_first()), (0, true));
    assert!(matches!(verdict, Verdict::Once(_, How::AskedFirst)), "{verdict:?}");

    // Too early to believe "not found".
    assert_eq!(service.charge("K2", O2).await.status, 504);
    let (early, verdict) = told("K2").await;
    assert_eq!((early.sends(), early.is_asked_first(), early.may_have_moved()), (0, true, true));
    assert!(matches!(verdict, Verdict::NotKnown { .. }), "{verdict:?}");
    later(&service, 100 * SECOND).await;
    assert_eq!(service.charge("K2", O2).await.status, 201);
    let (sent, verdict) = told("K2").await;
    assert_eq!(sent.sends(), 1);
    assert!(matches!(verdict, Verdict::Once(_, How::SentAfterAsking)), "{verdict:?}");

    let other = r#"{"amount":100,"currency":"EUR","order_id":"o-3"}"#;
    assert_eq!(service.charge("K3", other).await.status, 201);
    let (new, verdict) = told("K3").await;
    assert_eq!((new.sends(), new.is_asked_first()), (1, true));
    assert!(matches!(verdict, Verdict::Once(_, How::SentAfterAsking)), "{verdict:?}");
}

#[tokio::test]
async fn c102_a_database_that_forgot_asks_before_it_sends() {
    let acquirer = Scripted::new();
    let service = start(&acquirer).await;
    // The restored copy is from before the charge.
    let restored = service.copy();
    assert_eq!(service.charge("K1", B1).await.status, 201);
    let clock = service.setup_clock().restarted();
    let until = clock.now().plus(HOUR);
    let settings = Settings { ask_first_until: Some(until), ..setup(&acquirer).settings };
    drop(service.stop().await);
    let asks = Setup { clock: Some(clock), settings, ..setup(&acquirer) };
    let service = Service::start_in(restored, asks).await;
    later(&service, SECOND).await;
    let found = service.charge("K1", B1).await;
    assert_eq!((found.status.as_u16(), &found.json()["status"]), (201, &"captured".into()), "{found:?}");
    assert_eq!((acquirer.sends().len(), acquirer.executed()), (1, 1), "asked, and not sent again");
    assert_eq!(service.charge("K2", B2).await.status, 201, "what is new is sent");
    acquirer.look(Look::Down);
    let unknown = service.charge("K3", B2).await;
    assert_eq!(unknown.refusal(), refused(504, "outcome-unknown"), "not asked, not sent");
    let detail = unknown.json()["detail"].as_str().expect("says why").to_owned();
    assert!(detail.contains("put back from a copy") && detail.contains("nothing was sent"), "{detail}");
    assert_eq!((acquirer.sends().len(), service.ledger().await), (2, (2, 12_400)));
    later(&service, HOUR).await;
    assert_eq!(service.charge("K4", B2).await.status, 201, "the time is over");
}
