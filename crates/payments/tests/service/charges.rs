//! Charging once: equal, different and repeated requests.

use std::sync::Arc;

use http::Method;
use tokio::sync::Barrier;
use unavez_core::answer::Conclusion;
use unavez_payments::{SameOrder, Settings};

use crate::support::{B1, B2, Service, Setup, hold, refused};

#[tokio::test]
async fn a_charge_is_told_booked_and_found() {
    let service = Service::start().await;
    let first = service.charge("K1", B1).await;
    assert_eq!(first.status, 201);
    let charge = first.json();
    let id = charge["id"].as_str().unwrap();
    assert_eq!(first.header("location"), Some(format!("/v1/charges/{id}").as_str()));
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(charge["operation_id"], id.replace("ch_", "op_"));
    for (member, expected) in [
        ("object", serde_json::json!("charge")),
        ("order_id", serde_json::json!("o-1001")),
        ("amount", serde_json::json!(2500)),
        ("currency", serde_json::json!("EUR")),
        ("status", serde_json::json!("captured")),
        ("amount_captured", serde_json::json!(2500)),
        ("amount_refunded", serde_json::json!(0)),
        ("metadata", serde_json::json!({})),
    ] {
        assert_eq!(charge[member], expected, "{member}");
    }
    assert_eq!(service.get(&format!("/v1/charges/{id}")).await.body, first.body);
    assert_eq!(service.ledger().await, (1, 2500));
    assert_eq!(service.rows().await, [1, 1, 1]);
}

#[tokio::test]
async fn c47_c53_a_replay_is_the_first_answer_byte_for_byte() {
    let service = Service::start().await;
    for (key, body, status) in [
        ("plain", B1, 201),
        ("declined", r#"{"order_id":"d","amount":1,"currency":"JPY","payment_method":"tok_decline"}"#, 402),
        ("later", r#"{"order_id":"l","amount":1,"currency":"JPY","capture":false}"#, 201),
        (
            "texts",
            r#"{"order_id":"\u00e9 \" \\ /","amount":1,"currency":"KWD","metadata":{"b":"\u0000\n","a":"\ud83d\ude00"}}"#,
            201,
        ),
    ] {
        let first = service.charge(key, body).await;
        assert_eq!((first.status.as_u16(), first.is_replayed()), (status, false), "{key}");
        for _ in 0..2 {
            let again = service.charge(key, body).await;
            assert_eq!((again.status, &again.body), (first.status, &first.body), "{key}");
            assert!(again.is_replayed(), "{key}");
            for name in ["content-type", "location", "idempotency-expires"] {
                assert_eq!(again.header(name), first.header(name), "{key}: {name}");
            }
            assert_eq!(again.header("original-request-id"), first.header("request-id"), "{key}");
            assert_ne!(again.header("request-id"), first.header("request-id"), "{key}");
        }
    }
    let metrics = String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("unavez_replays_total{route=\"/v1/charges\"} 8\n"), "{metrics}");
    assert!(metrics.contains("unavez_executions_total{route=\"/v1/charges\"} 4\n"), "{metrics}");
    assert!(metrics.contains("unavez_replayed_value_total{currency=\"JPY\"} 2\n"), "{metrics}");
}

#[tokio::test]
async fn c48_nothing_of_one_exchange_comes_back_from_the_record() {
    let service = Service::start().await;
    service.charge("K1", B1).await;
    let again = service.charge("K1", B1).await;
    for name in
        ["set-cookie", "www-authenticate", "retry-after", "connection", "transfer-encoding", "trailer"]
    {
        assert_eq!(again.header(name), None, "{name}");
    }
    assert_eq!(again.headers.get_all("request-id").iter().count(), 1);
    assert_eq!(again.headers.get_all("content-length").iter().count(), 1);
}

#[tokio::test]
async fn a_declined_charge_is_final_and_books_nothing() {
    let service = Service::start().await;
    let body = r#"{"order_id":"o-1","amount":500,"currency":"EUR","payment_method":"tok_decline"}"#;
    let declined = service.charge("K1", body).await;
    assert_eq!(declined.refusal(), refused(402, "charge-declined"));
    assert_eq!(declined.header("retry-after"), None);
    let id = declined.json()["resource"].as_str().unwrap().to_owned();
    let charge = service.get(&format!("/v1/charges/{id}")).await.json();
    assert_eq!((&charge["status"], &charge["amount_captured"]), (&"declined".into(), &0.into()));
    assert_eq!(service.ledger().await, (0, 0));
    assert_eq!(service.rows().await, [1, 1, 0]);
}

#[tokio::test]
async fn a_charge_without_capture_is_authorized_and_books_nothing() {
    let service = Service::start().await;
    let charge =
        service.charge("K1", r#"{"order_id":"o-1","amount":500,"currency":"EUR","capture":false}"#).await;
    assert_eq!(
        (&charge.json()["status"], &charge.json()["amount_captured"]),
        (&"authorized".into(), &0.into())
    );
    assert_eq!(service.ledger().await, (0, 0));
    assert_eq!(service.rows().await, [1, 1, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_a_hundred_equal_requests_at_once_charge_once() {
    let service = Arc::new(Service::start().await);
    for round in 1..=20 {
        let barrier = Arc::new(Barrier::new(100));
        let requests: Vec<_> = (0..100)
            .map(|_| {
                let (service, barrier) = (Arc::clone(&service), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    service.charge(&format!("K{round}"), B1).await
                })
            })
            .collect();
        let mut first = 0;
        for request in requests {
            let reply = request.await.unwrap();
            match reply.status.as_u16() {
                201 => first += u32::from(!reply.is_replayed()),
                409 => assert_eq!(reply.refusal(), refused(409, "operation-in-progress")),
                other => panic!("round {round}: {other} {reply:?}"),
            }
        }
        assert_eq!(first, 1, "round {round}");
        assert_eq!(service.ledger().await, (round, 2500 * round));
    }
}

#[tokio::test]
async fn c25_another_request_under_a_used_key_is_refused() {
    let service = Service::start().await;
    service.charge("K1", B1).await;
    let plain = service.charge("K1", B2).await;
    assert_eq!(plain.refusal(), refused(422, "idempotency-key-reused"));
    assert_eq!(plain.json()["differs"], serde_json::json!(["amount"]));
    assert_eq!(plain.header("retry-after"), None);
    assert_eq!(plain.header("idempotency-expires"), None);
    assert_eq!(service.ledger().await, (1, 2500));

    let service = service.restart().await;
    assert_eq!(service.charge("K1", B2).await.refusal(), refused(422, "idempotency-key-reused"));
    assert_eq!(service.ledger().await, (1, 2500));
    assert_eq!(service.charge("K2", B2).await.status, 201, "an honest repeat under another key runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_the_loser_of_a_race_with_another_body_is_refused() {
    let service = Arc::new(Service::start().await);
    for round in 1..=50 {
        let barrier = Arc::new(Barrier::new(2));
        let racers = [B1, B2].map(|body| {
            let (service, barrier) = (Arc::clone(&service), Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                service.charge(&format!("K{round}"), body).await.status.as_u16()
            })
        });
        let mut statuses = Vec::new();
        for racer in racers {
            statuses.push(racer.await.unwrap());
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 422], "round {round}");
        assert_eq!(service.ledger().await.0, round);
    }
}

#[tokio::test]
async fn c26_a_restart_forgets_nothing() {
    let service = Service::start().await;
    let first = service.charge("K1", B1).await;
    let service = service.restart().await;
    let again = service.charge("K1", B1).await;
    assert!(again.is_replayed());
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("original-request-id"), first.header("request-id"));
    assert_eq!(service.charge("K1", B2).await.refusal(), refused(422, "idempotency-key-reused"));
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn c28_another_body_is_refused_before_a_running_one_is_reported() {
    let service = Service::start().await;
    hold(&service, "K1", B1).await;
    assert_eq!(service.charge("K1", B2).await.refusal(), refused(422, "idempotency-key-reused"));
    let running = service.charge("K1", B1).await;
    assert_eq!(running.refusal(), refused(409, "operation-in-progress"));
    assert_eq!(running.header("retry-after"), Some("1"));
    assert_eq!(service.rows().await, [1, 0, 0]);
}

#[tokio::test]
async fn c31_spelling_does_not_matter_and_values_do() {
    let service = Service::start().await;
    let first = service.charge("K1", B1).await;
    for same in [
        r#"{ "order_id" : "o-1001", "currency":"EUR","amount":2500 }"#,
        "\n{\"currency\":\"EUR\",\n\"amount\":2500,\"order_id\":\"o-\\u0031001\"}",
    ] {
        let again = service.charge("K1", same).await;
        assert!(again.is_replayed(), "{same}");
        assert_eq!(again.body, first.body);
    }
    let twice = r#"{"amount":2500,"amount":9900,"currency":"EUR","order_id":"o-1001"}"#;
    assert_eq!(service.charge("K2", twice).await.refusal(), refused(400, "body-ambiguous"));
    assert_eq!(service.rows().await, [1, 1, 1]);
}

#[tokio::test]
async fn c35_a_key_belongs_to_one_path_and_query() {
    let service = Service::start().await;
    service.charge("K1", B1).await;
    let post = |path| service.call(Method::POST, path).key("K1").json(B1).send();
    assert_eq!(post("/v1/charges?a=1").await.refusal(), refused(422, "idempotency-key-reused"));
    let other_path = post("/v1/idempotency-keys/K9/cancel").await;
    assert_eq!(other_path.refusal(), refused(422, "idempotency-key-reused"));
    assert!(other_path.json()["differs"].as_array().unwrap().contains(&":path".into()), "{other_path:?}");
    let other_method = service.call(Method::PUT, "/v1/charges").key("K1").json(B1).send().await;
    assert_eq!(other_method.refusal(), refused(405, "method-not-allowed"));
    assert_eq!(service.rows().await, [1, 1, 1]);
}

#[tokio::test]
async fn c36_every_printable_text_is_a_key() {
    let service = Service::start().await;
    for (at, key) in
        ["null", "undefined", "0", "K", "k", "a;b", "\"quoted, with comma\""].into_iter().enumerate()
    {
        assert_eq!(service.charge(key, B1).await.status, 201, "{key}");
        assert_eq!(service.ledger().await.0, at as u64 + 1);
    }
    assert!(service.charge("\"null\"", B1).await.is_replayed(), "both spellings are one key");
}

#[tokio::test]
async fn c38_keys_have_255_characters_at_most() {
    let service = Service::start().await;
    for length in [1, 255] {
        assert_eq!(service.charge(&"k".repeat(length), B1).await.status, 201, "{length}");
    }
    for length in [256, 300, 8_000] {
        let refusal = service.charge(&"k".repeat(length), B1).await;
        assert_eq!(refusal.refusal(), refused(400, "idempotency-key-invalid"), "{length}");
        assert!(refusal.detail().contains(&format!("{length} characters, limit 255")), "{refusal:?}");
    }
    assert_eq!(service.rows().await, [2, 2, 2]);
}

#[tokio::test]
async fn c41_forged_marks_are_not_believed() {
    let service = Service::start().await;
    let first = service
        .call(Method::POST, "/v1/charges")
        .key("K1")
        .header("idempotent-replayed", "true")
        .header("idempotency-expires", "2999-01-01T00:00:00Z")
        .header("idempotency-outcome", "released")
        .header("original-request-id", "req_forged")
        .header("request-id", "req_forged")
        .json(B1)
        .send()
        .await;
    assert_eq!(first.status, 201);
    assert!(!first.is_replayed());
    assert_ne!(first.header("idempotency-expires"), Some("2999-01-01T00:00:00Z"));
    let again = service.charge("K1", B1).await;
    assert_eq!(again.header("original-request-id"), first.header("request-id"));
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn c42_reading_never_touches_a_record() {
    let service = Service::start().await;
    for method in [Method::GET, Method::HEAD] {
        let read = service.call(method, "/v1/charges").key("K1").send().await;
        assert_eq!((read.status.as_u16(), read.is_replayed()), (200, false));
    }
    assert_eq!(service.call(Method::OPTIONS, "/v1/charges").key("K1").send().await.status, 405);
    assert_eq!(service.rows().await, [0, 0, 0]);
    assert!(!service.charge("K1", B1).await.is_replayed());
}

#[tokio::test]
async fn c90_a_late_repeat_of_a_declined_charge_stays_declined() {
    let service = Service::start().await;
    let declined = r#"{"order_id":"o-1","amount":500,"currency":"EUR","payment_method":"tok_decline"}"#;
    let approved = r#"{"order_id":"o-1","amount":500,"currency":"EUR"}"#;
    let first = service.charge("K1", declined).await;
    assert_eq!(service.charge("K2", approved).await.status, 201);
    let late = service.charge("K1", declined).await;
    assert_eq!((late.status, &late.body), (first.status, &first.body));
    assert!(late.is_replayed());
    assert_eq!(service.ledger().await, (1, 500));
}

#[tokio::test]
async fn c105_an_invalid_body_never_overrules_a_record() {
    let service = Service::start().await;
    service.charge("K1", B1).await;
    for invalid in [r#"{"amount":"2500"}"#, "[]", "{", "null", r#"{"note":"4111111111111111"}"#] {
        let repeat = service.charge("K1", invalid).await;
        assert_eq!(repeat.refusal(), refused(422, "idempotency-key-reused"), "{invalid}");
        assert!(!String::from_utf8_lossy(&repeat.body).contains("4111"), "{repeat:?}");
        assert_eq!(service.charge("K2", invalid).await.refusal(), refused(400, "validation"), "{invalid}");
    }
    hold(&service, "K3", B1).await;
    assert_eq!(service.charge("K3", "[]").await.refusal(), refused(422, "idempotency-key-reused"));
    assert_eq!(service.rows().await, [2, 1, 1]);
}

#[tokio::test]
async fn a_second_charge_of_an_order_runs_warns_or_is_refused() {
    for (same_order, second, suspected) in
        [(SameOrder::Allow, 201, 0), (SameOrder::Warn, 201, 1), (SameOrder::Refuse, 409, 0)]
    {
        let settings = Settings { same_order, ..Settings::default() };
        let service = Service::start_with(Setup { settings, ..Setup::default() }).await;
        let declined = r#"{"order_id":"o-1001","amount":1,"currency":"EUR","payment_method":"tok_decline"}"#;
        assert_eq!(service.charge("K0", declined).await.status, 402);
        assert_eq!(
            service.charge("K1", B1).await.status,
            201,
            "{same_order}: a declined charge does not count"
        );
        let other = service.charge("K2", B2).await;
        assert_eq!(other.status, second, "{same_order}");
        if same_order == SameOrder::Refuse {
            assert_eq!(other.refusal(), refused(409, "order-already-charged"));
            let first = service.charge("K1", B1).await;
            assert_eq!(other.json()["resource"], first.json()["id"], "it names the charge that exists");
            let again = service.charge("K2", B2).await;
            assert!(again.is_replayed());
            assert_eq!((again.status, again.body), (other.status, other.body));
            let status = service.get("/v1/idempotency-keys/K2").await.json();
            assert_eq!(status["outcome"], Conclusion::Refused.as_str());
        }
        assert!(service.charge("K1", B1).await.is_replayed());
        let metrics = String::from_utf8(service.get("/metrics").await.body.to_vec()).unwrap();
        assert!(
            metrics.contains(&format!("unavez_suspected_duplicates_total {suspected}\n")),
            "{same_order}"
        );
    }
}
