//! Every refusal of the contract's table: code, status, the member and the limit it names, and that it leaves nothing.

use bytes::Bytes;
use http::Method;

use crate::support::{B1, Service, hold, refused};

/// A charge's body with one member replaced.
fn with(member: &str, token: &str) -> String {
    let members = [("order_id", "\"o-1\""), ("amount", "500"), ("currency", "\"EUR\"")];
    let rest =
        members.iter().filter(|(name, _)| *name != member).map(|(name, token)| format!("\"{name}\":{token}"));
    format!("{{\"{member}\":{token},{}}}", rest.collect::<Vec<_>>().join(","))
}

#[tokio::test]
async fn c100_a_body_that_breaks_a_rule_is_400_and_names_the_member() {
    let service = Service::start().await;
    let long = |length: usize| format!("\"{}\"", "x".repeat(length));
    let many: Vec<_> = (0..21).map(|at| format!("\"m{at}\":\"\"")).collect();
    let amounts = [
        "0",
        "-0",
        "-5",
        "5.0",
        "19.99",
        "1e3",
        "\"5\"",
        "\"19.99\"",
        "1000000000000",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551617",
        "null",
        "true",
        "[]",
        "{}",
    ];
    let mut cases: Vec<(String, String, &str)> = Vec::new();
    cases.extend(amounts.map(|token| ("amount".to_owned(), token.to_owned(), "1 to 999999999999")));
    cases.extend(
        ["\"eur\"", "\"ZZZ\"", "\"XXX\"", "\"EURO\"", "\"\"", "null", "978"]
            .map(|token| ("currency".to_owned(), token.to_owned(), "ISO 4217")),
    );
    cases.extend(
        [long(0), long(129), "\"a\\u0000\"".into(), "\"a\\n\"".into(), "null".into(), "7".into()]
            .map(|token| ("order_id".to_owned(), token, "1 to 128 printable characters")),
    );
    cases.extend(
        ["\"tok_pending\"", "\"tok_lost\""]
            .map(|token| ("payment_method".to_owned(), token.to_owned(), "tok_approve or tok_decline")),
    );
    cases.extend(
        ["\"\"", "\"tok approve\"", "\"tök\"", "null", "1"]
            .map(|token| ("payment_method".to_owned(), token.to_owned(), "1 to 255 characters")),
    );
    cases.extend(
        ["\"true\"", "1", "null"].map(|token| ("capture".to_owned(), token.to_owned(), "true or false")),
    );
    cases.extend(
        ["[]", "\"\"", "null", "1"].map(|token| ("metadata".to_owned(), token.to_owned(), "20 strings")),
    );
    cases.push(("metadata".into(), format!("{{{}}}", many.join(",")), "limit 20"));
    cases.push(("metadata".into(), format!("{{{}:\"\"}}", long(501)), "limit 500"));
    cases.push(("note".into(), "1".into(), "allowed are order_id, amount"));
    for (member, token, limit) in &cases {
        let reply = service.charge("K1", &with(member, token)).await;
        assert_eq!(reply.refusal(), refused(400, "validation"), "{member}: {token}");
        assert_eq!(reply.json()["member"], member.as_str(), "{member}: {token}");
        assert!(reply.detail().contains(limit), "{member}: {token}: {}", reply.detail());
        assert_eq!(reply.header("retry-after"), None);
    }
    for (member, token) in [("metadata.a", "{\"a\":null}"), ("metadata.b", "{\"a\":\"\",\"b\":7}")] {
        let reply = service.charge("K1", &with("metadata", token)).await;
        assert_eq!(reply.json()["member"], member, "{token}");
    }
    for member in ["order_id", "amount", "currency"] {
        let body = with("capture", "true").replace(&format!("\"{member}\""), "\"metadata\"");
        let body = body
            .replace("\"metadata\":500", "\"metadata\":{}")
            .replace("\"metadata\":\"o-1\"", "\"metadata\":{}");
        let reply = service.charge("K1", &body.replace("\"metadata\":\"EUR\"", "\"metadata\":{}")).await;
        assert_eq!(
            (reply.refusal(), &reply.json()["member"]),
            (refused(400, "validation"), &member.into()),
            "{body}"
        );
    }
    assert_eq!(service.rows().await, [0, 0, 0]);
    assert_eq!(service.charge("K1", B1).await.status, 201, "no refusal claimed the key");
}

#[tokio::test]
async fn a_body_that_is_no_object_is_400() {
    let service = Service::start().await;
    for (body, detail) in [
        ("", "order_id is missing"),
        ("{}", "order_id is missing"),
        ("null", "body is null"),
        ("[]", "body is an array"),
        ("1", "body is a number"),
        ("\"\"", "body is a string"),
        ("true", "body is a boolean"),
        ("{", "body is not JSON"),
        ("{\"order_id\":\"o\",}", "body is not JSON"),
        ("amount=5", "body is not JSON"),
    ] {
        let reply = service.charge("K1", body).await;
        assert_eq!(reply.refusal(), refused(400, "validation"), "{body}");
        assert!(reply.detail().starts_with(detail), "{body}: {}", reply.detail());
    }
    let not_utf8 = Bytes::from_static(b"{\"order_id\":\"\xff\"}");
    let call = service.call(Method::POST, "/v1/charges").key("K1").header("content-type", "application/json");
    assert_eq!(call.body(not_utf8).send().await.refusal(), refused(400, "validation"));
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_card_number_is_refused_and_not_repeated() {
    let service = Service::start().await;
    for body in [
        with("order_id", "\"4111111111111111\""),
        with("metadata", "{\"note\":\"4111 1111 1111 1111\"}"),
        with("metadata", "{\"4111-1111-1111-1111\":\"\"}"),
        with("card", "4111111111111111"),
        with("card", "{\"number\":[\"\\u0034111111111111111\"]}"),
        "{\"4111111111111111\":1,\"4111111111111111\":2}".to_owned(),
    ] {
        let reply = service.charge("K1", &body).await;
        assert_eq!(reply.refusal(), refused(400, "validation"), "{body}");
        assert!(reply.detail().contains("card number"), "{body}");
        assert!(!String::from_utf8_lossy(&reply.body).contains("1111"), "{reply:?}");
    }
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn c104_ambiguous_json_is_400() {
    let service = Service::start().await;
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(65), "]".repeat(65));
    for body in ["{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":1}", "{\"a\":\"\\ud800\"}", &deep] {
        assert_eq!(service.charge("K1", body).await.refusal(), refused(400, "body-ambiguous"), "{body}");
    }
    let huge_exponent = with("amount", "1e999999999");
    assert_eq!(service.charge("K1", &huge_exponent).await.refusal(), refused(400, "validation"));
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn c2_a_missing_key_is_400_and_a_malformed_one_is_400() {
    let service = Service::start().await;
    let post = || service.call(Method::POST, "/v1/charges").json(B1);
    let missing = post().send().await;
    assert_eq!(missing.refusal(), refused(400, "idempotency-key-missing"));
    for malformed in
        [&b""[..], b"  ", b"a,b", b"a b", b"\"a", b"\"a\"b", b"\xff", "\u{e9}".as_bytes(), b"\"\"", b"a\tb"]
    {
        let reply = post().header("idempotency-key", malformed).send().await;
        assert_eq!(reply.refusal(), refused(400, "idempotency-key-invalid"), "{malformed:?}");
    }
    let twice = post().key("K1").key("K1").send().await;
    assert_eq!(twice.refusal(), refused(400, "idempotency-key-invalid"));
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn other_types_than_json_are_415() {
    let service = Service::start().await;
    let post = || service.call(Method::POST, "/v1/charges").key("K1").body(Bytes::from_static(B1.as_bytes()));
    assert_eq!(post().send().await.refusal(), refused(415, "unsupported-media-type"));
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "multipart/form-data", ""]
    {
        let reply = post().header("content-type", kind).send().await;
        assert_eq!(reply.refusal(), refused(415, "unsupported-media-type"), "{kind}");
    }
    let packed =
        post().header("content-type", "application/json").header("content-encoding", "gzip").send().await;
    assert_eq!(packed.refusal(), refused(415, "unsupported-media-type"));
    // P7: the type is judged before the key.
    let keyless = service.call(Method::POST, "/v1/charges").body(Bytes::from_static(b"x")).send().await;
    assert_eq!(keyless.refusal(), refused(415, "unsupported-media-type"));
    assert_eq!(service.rows().await, [0, 0, 0]);
    let structured = post().header("content-type", "application/vnd.shop+json; charset=utf-8").send().await;
    assert_eq!(structured.status, 201);
}

#[tokio::test]
async fn a_body_above_the_limit_is_413() {
    let service = Service::start().await;
    let note =
        |length| format!("{{\"order_id\":\"o\",\"amount\":1,\"currency\":\"EUR\"{}}}", " ".repeat(length));
    let large = service.charge("K1", &note(300 * 1024)).await;
    assert_eq!(large.refusal(), refused(413, "too-large"));
    assert!(large.detail().contains("262144"), "{large:?}");
    let body = note(0);
    let just_above = service.charge("K1", &note(256 * 1024 + 1 - body.len())).await;
    assert_eq!(just_above.refusal(), refused(413, "too-large"));
    // P7: the key is judged before the size.
    let keyless = service.call(Method::POST, "/v1/charges").json(&note(300 * 1024)).send().await;
    assert_eq!(keyless.refusal(), refused(400, "idempotency-key-missing"));
    assert_eq!(service.rows().await, [0, 0, 0]);
    assert_eq!(
        service.charge("K1", &note(256 * 1024 - body.len())).await.status,
        201,
        "the limit itself is allowed"
    );
}

#[tokio::test]
async fn unknown_paths_are_404_and_other_methods_405() {
    let service = Service::start().await;
    for path in
        ["/", "/v1", "/v1/charges/", "/v1/refund/re_1", "/v2/charges", "/%FF", "/v1/idempotency-keys/"]
    {
        let reply = service.call(Method::POST, path).key("K1").json(B1).send().await;
        assert_eq!(reply.refusal(), refused(404, "not-found"), "{path}");
    }
    for (method, path, allowed) in [
        (Method::DELETE, "/v1/charges", &["GET", "HEAD", "POST"][..]),
        (Method::POST, "/v1/ledger/summary", &["GET", "HEAD"]),
        (Method::GET, "/v1/idempotency-keys/K/cancel", &["POST"]),
        (Method::PATCH, "/healthz", &["GET", "HEAD"]),
    ] {
        let reply = service.call(method.clone(), path).send().await;
        assert_eq!(reply.refusal(), refused(405, "method-not-allowed"), "{method} {path}");
        let mut allow: Vec<_> = reply.header("allow").unwrap().split(',').map(str::trim).collect();
        allow.sort_unstable();
        assert_eq!(allow, allowed, "{method} {path}");
    }
    assert_eq!(service.rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_key_with_a_card_number_is_refused_and_stored_nowhere() {
    let service = Service::start().await;
    // From before keys were looked at: it answers for itself.
    hold(&service, "4111111111111111", B1).await;
    assert_eq!(service.charge("4111111111111111", B1).await.refusal(), refused(409, "operation-in-progress"));
    let path = format!("/v1/charges/ch_{:032x}/refunds", 7);
    for key in ["4242424242424242", "charge:5555-5555-5555-4444"] {
        let cancel = format!("/v1/idempotency-keys/{key}/cancel");
        for reply in [
            service.charge(key, B1).await,
            service.charge(key, "[]").await,
            service.post(&path, key, "{}").await,
            service.post(&cancel, "C1", "{}").await,
            service.post("/v1/idempotency-keys/K1/cancel", key, "{}").await,
        ] {
            assert_eq!(reply.refusal(), refused(400, "idempotency-key-invalid"), "{key}");
            assert!(reply.detail().contains("card number") && !reply.detail().contains("4242"), "{reply:?}");
        }
    }
    assert_eq!(service.charge("4242424242424241", B1).await.status, 201, "it is no card's");
    assert_eq!(service.rows().await[0], 2);
}
