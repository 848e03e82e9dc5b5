//! What a request must bring, and who sees whose records (P1 to P7, P19).

use crate::support::*;
use axum::extract::Request as AxumRequest;
use axum::response::IntoResponse;
use http::{HeaderMap, Method, StatusCode};
use unavez_tower::door::{Differs, Presence};
use unavez_tower::problem::{Code, Problem};
use unavez_tower::tenant::{self, Tenant};
use unavez_tower::{IdempotencyLayer, OnLost};

/// An order is created; the body says which execution it was.
fn orders(
    effects: &Counter,
) -> impl Fn() -> std::future::Ready<(StatusCode, String)> + Clone + Send + Sync + 'static {
    let effects = effects.clone();
    move || std::future::ready((StatusCode::CREATED, format!("order {}", effects.hit())))
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_answered_from_the_record() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    let first = send(&app, post("K1", B1)).await;
    let calls = world.store.calls();
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!((repeat.status, repeat.is_replay()), (201, true));
    assert_eq!(first.body, repeat.body);
    assert_eq!(first.header("idempotency-expires"), repeat.header("idempotency-expires"));
    assert!(first.header("idempotency-expires").is_some_and(|expires| expires.ends_with('Z')));
    assert_eq!(effects.count(), 1);
    // The budget of store trips: fresh 2, replay 1.
    assert_eq!((calls, world.store.calls()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn c25_another_body_under_the_same_key_is_refused() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    send(&app, post("K1", B1)).await;
    let reused = send(&app, post("K1", B2)).await;
    assert_eq!(reused.problem(), (422, "idempotency-key-reused".to_owned(), None));
    assert_eq!(reused.json()["differs"], serde_json::json!(["amount"]));
    assert_eq!(reused.json()["retryable"], false);
    assert!(!reused.is_replay());
    assert_eq!(effects.count(), 1);
    assert_eq!(send(&app, post("K2", B1)).await.status, 201, "an honest repeat under another key runs (P6)");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn p23_differs_can_be_switched_off() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold).with_differs(Differs::Off), orders(&effects));
    send(&app, post("K1", B1)).await;
    let reused = send(&app, post("K1", B2)).await;
    assert_eq!(reused.status, 422);
    assert!(reused.json().get("differs").is_none());
}

#[tokio::test(start_paused = true)]
async fn c35_another_path_method_or_query_is_another_request() {
    let (world, effects) = (World::new(), Counter::default());
    let layer = world.layer().opaque(OnLost::Hold);
    let app = axum::Router::new()
        .route("/orders", axum::routing::any(orders(&effects)))
        .route("/refunds", axum::routing::any(orders(&effects)))
        .route_layer(layer);
    send(&app, request(Method::POST, "/orders?a=1", Some("K1"), B1)).await;
    let check = async |method, path, differs: &str| {
        let seen = send(&app, request(method, path, Some("K1"), B1)).await;
        assert_eq!(seen.status, 422, "{path}");
        assert_eq!(seen.json()["differs"], serde_json::json!([differs]), "{path}");
    };
    check(Method::POST, "/refunds?a=1", ":path").await;
    check(Method::PATCH, "/orders?a=1", ":method").await;
    check(Method::POST, "/orders?a=2", ":query").await;
    check(Method::POST, "/orders", ":query").await;
    assert_eq!(effects.count(), 1);
}

#[cfg(feature = "axum")]
#[tokio::test(start_paused = true)]
async fn c35_two_mounts_of_one_router_are_two_paths() {
    let (world, effects) = (World::new(), Counter::default());
    let mounted = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    let app = axum::Router::new().nest("/v1", mounted.clone()).nest("/v2", mounted);
    send(&app, request(Method::POST, "/v1/orders", Some("K1"), B1)).await;
    let seen = send(&app, request(Method::POST, "/v2/orders", Some("K1"), B1)).await;
    assert_eq!(seen.status, 422);
    assert_eq!(seen.json()["differs"], serde_json::json!([":path"]));
}

#[tokio::test(start_paused = true)]
async fn c36_an_optional_route_without_a_key_passes_through() {
    let (world, effects) = (World::new(), Counter::default());
    let layer = world.layer().opaque(OnLost::Hold).with_presence(Presence::Optional);
    let app = app(layer, orders(&effects));
    for body in [B1, B2, B1] {
        assert_eq!(send(&app, request(Method::POST, "/orders", None, body)).await.status, 201);
    }
    assert_eq!((effects.count(), world.store.calls()), (3, 0));
    // Texts that a careless client sends as keys are ordinary keys, and one is not the other.
    for key in ["null", "undefined"] {
        assert_eq!(send(&app, post(key, B1)).await.status, 201);
        assert!(send(&app, post(key, B1)).await.is_replay());
    }
    assert_eq!(effects.count(), 5);
    let malformed = send(&app, post("a b", B1)).await;
    assert_eq!(malformed.code(), "idempotency-key-invalid", "present but malformed is refused here too (P1)");
}

#[tokio::test(start_paused = true)]
async fn p2_a_required_key_that_is_missing_is_refused() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    let seen = send(&app, request(Method::POST, "/orders", None, B1)).await;
    assert_eq!(seen.problem(), (400, "idempotency-key-missing".to_owned(), None));
    assert_eq!(seen.header("content-type"), Some("application/problem+json"));
    assert_eq!((effects.count(), world.store.calls()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn p1_further_header_names_are_read_and_two_keys_refused() {
    let (world, effects) = (World::new(), Counter::default());
    let name = http::HeaderName::from_static("x-idempotency-key");
    let app = app(world.layer().opaque(OnLost::Hold).add_key_header(name), orders(&effects));
    let by_other_name = || with_header(request(Method::POST, "/orders", None, B1), "x-idempotency-key", "K1");
    assert_eq!(send(&app, by_other_name()).await.status, 201);
    assert!(send(&app, post("K1", B1)).await.is_replay(), "one key by either name");
    assert!(send(&app, post("\"K1\"", B1)).await.is_replay(), "one key in either spelling");
    for twice in [
        with_header(by_other_name(), "idempotency-key", "K1"),
        with_header(post("K1", B1), "idempotency-key", "K1"),
    ] {
        assert_eq!(send(&app, twice).await.code(), "idempotency-key-invalid");
    }
    assert_eq!(effects.count(), 1);
}

#[derive(Clone)]
struct User(&'static str);

#[tokio::test(start_paused = true)]
async fn c37_a_tenant_never_meets_anothers_record() {
    let (world, effects) = (World::new(), Counter::default());
    let source = tenant::from_extension(|user: &User| Tenant::parse(user.0).ok());
    let layer = IdempotencyLayer::with_engine(world.layer().engine().clone(), source);
    let app = app(layer.opaque(OnLost::Hold), orders(&effects));
    let by = |user, body| {
        let mut request = post("K1", body);
        request.extensions_mut().insert(User(user));
        request
    };
    let first = send(&app, by("a", B1)).await;
    let calls = world.store.calls();
    let other = send(&app, by("b", B2)).await;
    assert_eq!((other.status, other.is_replay()), (201, false));
    assert_ne!(first.body, other.body);
    assert_eq!(world.store.calls() - calls, calls, "not even the number of store trips differs (P4)");
    assert_eq!(send(&app, by("a", B1)).await.body, first.body);
    assert_eq!(send(&app, by("b", B2)).await.body, other.body);
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (401, "unauthorized".to_owned(), None));
    assert_eq!(send(&app, by("", B1)).await.status, 401, "a tenant that cannot be named is none");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn c38_keys_have_a_length_limit() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    for length in [1, 255] {
        assert_eq!(send(&app, post(&"k".repeat(length), B1)).await.status, 201, "{length}");
    }
    for length in [256, 8_000, 70_000] {
        let seen = send(&app, post(&"k".repeat(length), B1)).await;
        assert_eq!(seen.problem(), (400, "idempotency-key-invalid".to_owned(), None), "{length}");
        assert!(seen.json()["detail"].as_str().unwrap().contains("255"), "the limit is named");
    }
    for end in ["x", "y"] {
        assert_eq!(send(&app, post(&format!("{}{end}", "k".repeat(299)), B1)).await.status, 400);
    }
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn c41_forged_marks_are_neither_believed_nor_forwarded() {
    let world = World::new();
    let app = app(world.layer().opaque(OnLost::Hold), async |headers: HeaderMap| {
        let forged = headers.keys().filter(|name| name.as_str() != "content-type").count();
        assert_eq!(forged, 1, "only the key is left: {headers:?}");
        // A handler that speaks for the engine is not believed either.
        ([("idempotent-replayed", "true"), ("idempotency-expires", "2099-01-01T00:00:00Z")], "done")
    });
    let mut forged = post("K1", B1);
    for name in [
        "idempotent-replayed",
        "idempotency-expires",
        "idempotency-outcome",
        "preference-applied",
        "original-request-id",
    ] {
        forged = with_header(forged, name, "true");
    }
    let seen = send(&app, forged).await;
    assert_eq!(seen.status, 200);
    assert!(!seen.is_replay());
    assert_ne!(seen.header("idempotency-expires"), Some("2099-01-01T00:00:00Z"));
    assert_eq!(seen.header("preference-applied"), None);
}

#[tokio::test(start_paused = true)]
async fn c42_safe_methods_never_touch_a_record() {
    let (world, effects) = (World::new(), Counter::default());
    let layer = world.layer().opaque(OnLost::Hold).add_method(Method::GET).add_method(Method::DELETE);
    let app = app(layer, orders(&effects));
    for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT] {
        for _ in 0..2 {
            let seen = send(&app, request(method.clone(), "/orders", Some("K1"), "")).await;
            assert_eq!((seen.status, seen.is_replay()), (201, false), "{method}");
        }
    }
    assert_eq!((effects.count(), world.store.calls()), (8, 0));
    for replay in [false, true] {
        let seen = send(&app, request(Method::DELETE, "/orders", Some("K1"), "")).await;
        assert_eq!(seen.is_replay(), replay, "DELETE was opted in");
    }
}

#[tokio::test(start_paused = true)]
async fn c104_bodies_that_are_not_json_are_fingerprinted_as_bytes() {
    let world = World::new();
    let app = app(world.layer().opaque(OnLost::Hold), async |request: AxumRequest| {
        let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
        match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(_) => (StatusCode::CREATED, "made").into_response(),
            Err(_) => (StatusCode::BAD_REQUEST, "no JSON").into_response(),
        }
    });
    let refused = send(&app, post("K1", "{not json")).await;
    assert_eq!((refused.status, &refused.body[..]), (400, &b"no JSON"[..]), "the operation itself refuses");
    assert!(send(&app, post("K1", "{not json")).await.is_replay());
    assert_eq!(send(&app, post("K1", "{not  json")).await.status, 422);

    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(send(&app, post("K2", &deep)).await.problem(), (400, "body-ambiguous".to_owned(), None));
    let huge = r#"{"n":1e999999999}"#;
    assert!(send(&app, post("K3", huge)).await.status < 500, "no hang, no memory");

    assert_eq!(send(&app, post("K4", B1)).await.status, 201);
    let encoded = with_header(post("K4", B1), "content-encoding", "gzip");
    assert_eq!(send(&app, encoded).await.status, 422, "another content encoding is another request");
}

#[tokio::test(start_paused = true)]
async fn c104_an_ambiguous_body_claims_nothing_and_never_beats_a_record() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    let ambiguous = r#"{"amount":2500,"amount":9900}"#;
    assert_eq!(send(&app, post("K1", ambiguous)).await.problem(), (400, "body-ambiguous".to_owned(), None));
    assert_eq!(send(&app, post("K1", B1)).await.status, 201, "the key was not claimed");
    let seen = send(&app, post("K1", ambiguous)).await;
    assert_eq!(seen.problem(), (422, "idempotency-key-reused".to_owned(), None));
    assert_eq!(effects.count(), 1);
}

/// Refuses every amount from 5000 on.
fn strict(_: &http::request::Parts, body: &bytes::Bytes) -> Result<(), Problem> {
    let amount =
        serde_json::from_slice::<serde_json::Value>(body).ok().and_then(|body| body["amount"].as_u64());
    match amount {
        Some(amount) if amount < 5000 => Ok(()),
        _ => Err(Problem::new(Code::Validation)
            .with_member("amount")
            .with_detail("amount is over the limit of 4999")),
    }
}

#[tokio::test(start_paused = true)]
async fn c105_an_invalid_body_under_a_key_with_a_record_gets_the_records_answer() {
    let (world, effects) = (World::new(), Counter::default());
    let lax = app(world.layer().opaque(OnLost::Hold), orders(&effects));
    let strict = app(world.layer().opaque(OnLost::Hold).with_validation(strict), orders(&effects));
    let done = send(&lax, post("K1", B2)).await;
    assert_eq!(done.status, 201);
    // The repeat reaches a version that would refuse the body: it must not hear that the charge was refused.
    let repeat = send(&strict, post("K1", B2)).await;
    assert_eq!((repeat.status, repeat.is_replay(), &repeat.body), (201, true, &done.body));
    // Another invalid body under that key is still another request.
    assert_eq!(send(&strict, post("K1", r#"{"amount":7000}"#)).await.status, 422);
    // Without a record: 400, and nothing is claimed.
    let refused = send(&strict, post("K2", B2)).await;
    assert_eq!(refused.problem(), (400, "validation".to_owned(), None));
    assert_eq!(refused.json()["member"], "amount");
    assert_eq!(send(&strict, post("K2", B1)).await.status, 201, "the key is still free");
    // Where the record's promise is over there is no record.
    world.advance_secs(24 * 3600 + 1).await;
    assert_eq!(send(&strict, post("K1", B2)).await.status, 400);
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn p7_the_key_is_judged_before_the_body() {
    let (world, effects) = (World::new(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold).with_body_bytes_max(16), orders(&effects));
    assert_eq!(
        send(&app, request(Method::POST, "/orders", None, B1)).await.code(),
        "idempotency-key-missing"
    );
    assert_eq!(send(&app, post("a,b", B1)).await.code(), "idempotency-key-invalid");
    let large = send(&app, post("K1", B1)).await;
    assert_eq!(large.problem(), (413, "too-large".to_owned(), None));
    assert!(large.json()["detail"].as_str().unwrap().contains("16 bytes"));
    assert_eq!((effects.count(), world.store.calls()), (0, 0));
    assert_eq!(send(&app, post("K1", "{}")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn c28_a_running_operation_is_409_and_another_body_422_at_once() {
    let (world, gate, effects) = (World::new(), Gate::default(), Counter::default());
    let app = app(world.layer().opaque(OnLost::Hold), {
        let (gate, effects) = (gate.clone(), effects.clone());
        async move || {
            effects.hit();
            gate.pass().await;
            StatusCode::CREATED
        }
    });
    let first = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    world.advance_secs(1).await;
    assert_eq!(send(&app, post("K1", B2)).await.problem(), (422, "idempotency-key-reused".to_owned(), None));
    assert_eq!(
        send(&app, post("K1", B1)).await.problem(),
        (409, "operation-in-progress".to_owned(), Some("1"))
    );
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert!(send(&app, post("K1", B1)).await.is_replay());
    assert_eq!(effects.count(), 1);
}
