//! What became of a key, and taking one out of use.

use http::Method;

use crate::support::{B1, B2, Reply, Service, hold, refused};

async fn cancel(service: &Service, target: &str, own: &str) -> Reply {
    service.call(Method::POST, &format!("/v1/idempotency-keys/{target}/cancel")).key(own).send().await
}

#[tokio::test]
async fn p22_a_key_tells_its_owner_what_became_of_it() {
    let service = Service::start().await;
    let charged = service.charge("\"a/b c\"", B1).await;
    let status = service.get("/v1/idempotency-keys/a%2Fb%20c").await.json();
    let charge = charged.json();
    for (member, expected) in [
        ("key", serde_json::json!("a/b c")),
        ("state", serde_json::json!("finished")),
        ("outcome", serde_json::json!("approved")),
        ("attempts", serde_json::json!(1)),
        ("status", serde_json::json!(201)),
        ("resource_id", charge["id"].clone()),
        ("operation_id", charge["operation_id"].clone()),
        ("created_at", charge["created_at"].clone()),
    ] {
        assert_eq!(status[member], expected, "{member}");
    }
    assert!(status["finished_at"].is_string() && status["expires_at"].is_string());
    assert_eq!(service.get("/v1/idempotency-keys?key=a/b%20c").await.json(), status);
    assert_eq!(service.get("/v1/idempotency-keys?key=a/b+c").await.json(), status);
}

#[tokio::test]
async fn p22_a_running_key_has_no_outcome_yet() {
    let service = Service::start().await;
    hold(&service, "K1", B1).await;
    let status = service.get("/v1/idempotency-keys/K1").await.json();
    assert_eq!(status["state"], "in_progress");
    for member in ["outcome", "finished_at", "expires_at", "status", "resource_id"] {
        assert!(status[member].is_null(), "{member}");
    }
}

#[tokio::test]
async fn an_unused_and_a_malformed_key_differ() {
    let service = Service::start().await;
    let unused = service.get("/v1/idempotency-keys/K1").await;
    assert_eq!(unused.refusal(), refused(404, "not-found"));
    assert!(unused.json()["next"].is_string(), "nothing proves nothing: {unused:?}");
    let too_long = format!("/v1/idempotency-keys/{}", "k".repeat(256));
    for path in
        ["/v1/idempotency-keys/%FF", "/v1/idempotency-keys/%20", "/v1/idempotency-keys?key=%00", &too_long]
    {
        assert_eq!(service.get(path).await.refusal(), refused(400, "idempotency-key-invalid"), "{path}");
    }
    let missing = service.get("/v1/idempotency-keys").await;
    assert_eq!((missing.refusal(), &missing.json()["member"]), (refused(400, "validation"), &"key".into()));
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn c118_a_late_request_with_a_cancelled_key_never_runs() {
    let service = Service::start().await;
    for (target, own) in [("K1", "C1"), ("K2", "K2")] {
        let cancelled = cancel(&service, target, own).await;
        assert_eq!(cancelled.status, 200, "{target}");
        let expected = serde_json::json!({"key": target, "state": "finished", "outcome": "cancelled"});
        assert_eq!(cancelled.json(), expected);
        for body in [B1, B2] {
            let late = service.charge(target, body).await;
            assert_eq!(late.refusal(), refused(409, "invalid-state"));
            assert!(late.is_replayed(), "the client learns a stored outcome: {late:?}");
            assert!(late.header("idempotency-expires").is_some());
        }
        assert_eq!(cancel(&service, target, own).await.json(), expected, "cancelling is repeatable");
        assert_eq!(
            cancel(&service, target, &format!("another-{target}")).await.json()["outcome"],
            "cancelled"
        );
        let status = service.get(&format!("/v1/idempotency-keys/{target}")).await.json();
        assert_eq!((&status["state"], &status["outcome"]), (&"finished".into(), &"cancelled".into()));
        cancel(&service, "spare", &format!("spare-{target}")).await;
    }
    let service = service.restart().await;
    assert_eq!(service.charge("K1", B1).await.refusal(), refused(409, "invalid-state"));
    assert_eq!(service.ledger().await, (0, 0));
}

#[tokio::test]
async fn c118_a_key_in_use_is_not_cancelled() {
    let service = Service::start().await;
    hold(&service, "K1", B1).await;
    for own in ["C1", "K1"] {
        let running = cancel(&service, "K1", own).await;
        assert_eq!(running.status, 409, "{own}: {running:?}");
    }
    assert_eq!(
        service.get("/v1/idempotency-keys/C1").await.status,
        404,
        "a refusal that may be repeated is not kept"
    );

    service.charge("K2", B1).await;
    let declined = r#"{"order_id":"d","amount":1,"currency":"EUR","payment_method":"tok_decline"}"#;
    service.charge("K3", declined).await;
    for (target, own, outcome) in [("K2", "C2", "approved"), ("K3", "C3", "declined")] {
        let told = cancel(&service, target, own).await;
        assert_eq!((told.status.as_u16(), &told.json()["outcome"]), (200, &outcome.into()));
        assert!(service.charge(target, if target == "K2" { B1 } else { declined }).await.is_replayed());
    }
    assert_eq!(service.ledger().await, (1, 2500));
}

#[tokio::test]
async fn cancelling_needs_a_key_of_its_own_and_no_body() {
    let service = Service::start().await;
    let path = "/v1/idempotency-keys/K1/cancel";
    let keyless = service.call(Method::POST, path).send().await;
    assert_eq!(keyless.refusal(), refused(400, "idempotency-key-missing"));
    assert!(keyless.detail().contains("header of its own"), "{}", keyless.detail());
    let with_body = service.call(Method::POST, path).key("C1").json("{\"a\":1}").send().await;
    assert_eq!(with_body.refusal(), refused(400, "validation"));
    assert_eq!(service.rows().await, [0, 0, 0]);
    assert_eq!(service.call(Method::POST, path).key("C1").json("{}").send().await.status, 200);
    assert_eq!(cancel(&service, "%FF", "C2").await.refusal(), refused(400, "idempotency-key-invalid"));
    assert_eq!(service.rows().await, [2, 0, 0]);
}
