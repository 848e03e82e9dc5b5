//! What each kind of server gets, and which of its answers count (P1, P32).

use unavez_client::{Client, Key, Operation, Outcome, Preset, Reason, Unfit, derive, preset};

use crate::net::{Net, Step, answer, charge, recorded, status};

/// The request as the server with this preset gets it, for a key.
async fn sent(preset: Preset, key: &str) -> Result<String, Unfit> {
    let net = Net::new([status(201)]);
    let operation = charge().with_key(Key::parse_path(key).unwrap());
    let _ = net.client(Client::builder(preset)).call(&operation).await?;
    Ok(net.requests().remove(0))
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_server_gets_the_key_where_it_reads_it() {
    for (preset, line) in [
        (Preset::any(), "idempotency-key: o-1\r\n"),
        (Preset::unavez(), "idempotency-key: o-1\r\n"),
        (Preset::ietf(), "idempotency-key: \"o-1\"\r\n"),
        (Preset::stripe(), "idempotency-key: o-1\r\n"),
        (Preset::mercado_pago(), "x-idempotency-key: o-1\r\n"),
        (Preset::adyen(), "idempotency-key: o-1\r\n"),
        (Preset::paypal(), "paypal-request-id: o-1\r\n"),
        (Preset::square(), "\r\n\r\n{\"idempotency_key\":\"o-1\",\"amount\":500}"),
    ] {
        let name = preset.name;
        let request = sent(preset, "o-1").await.unwrap();
        assert!(request.contains(line), "{name}: {request}");
    }
}

#[tokio::test(start_paused = true)]
async fn p1_a_key_that_cannot_stand_bare_is_quoted_or_refused() {
    let quoted = sent(Preset::unavez(), r#"a "b" \c"#).await.unwrap();
    assert!(quoted.contains("idempotency-key: \"a \\\"b\\\" \\\\c\"\r\n"), "{quoted}");
    assert_eq!(sent(Preset::stripe(), "a b").await, Err(Unfit::KeyCharacter { character: ' ' }));
    for (preset, limit) in [(Preset::adyen(), 64), (Preset::paypal(), 108), (Preset::square(), 45)] {
        assert!(sent(preset.clone(), &"k".repeat(limit)).await.is_ok());
        let refused = sent(preset, &"k".repeat(limit + 1)).await;
        assert_eq!(refused, Err(Unfit::KeyTooLong { length: limit + 1, limit }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_in_the_body_stands_in_an_object_once_and_changes_nothing_else() {
    let body = async |body: &'static str| {
        let net = Net::new([status(200)]);
        let operation = charge().with_key(derive("charge", &["o-1"]).unwrap()).with_body(body);
        let _ = net.client(Client::builder(Preset::square())).call(&operation).await?;
        Ok(net.requests()[0].split_once("\r\n\r\n").unwrap().1.to_owned())
    };
    assert_eq!(body("{}").await.unwrap(), r#"{"idempotency_key":"charge:o-1"}"#);
    let kept = body(" { \"a\" : 1e2, \"\\u0061b\":[ ] }").await.unwrap();
    assert_eq!(kept, " {\"idempotency_key\":\"charge:o-1\", \"a\" : 1e2, \"\\u0061b\":[ ] }");
    for no_object in ["", "[]", "1", "{", "{} {}"] {
        let member = "idempotency_key";
        assert_eq!(body(no_object).await, Err(Unfit::NoJsonObject { member }), "{no_object}");
    }
    for twice in [r#"{"idempotency_key":"x"}"#, r#"{"idempotency\u005fkey":"x"}"#] {
        assert!(matches!(body(twice).await, Err(Unfit::KeyTwice { .. })), "{twice}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_among_the_headers_and_another_on_the_operation_is_one_too_many() {
    let name = http::HeaderName::from_static("idempotency-key");
    let twice = charge().add_header(name, http::HeaderValue::from_static("other"));
    let refused = Net::new([]).client(Client::builder(Preset::stripe())).call(&twice).await.unwrap_err();
    assert!(matches!(refused, Unfit::KeyTwice { .. }), "{refused}");
}

#[test]
fn a_port_that_is_none_is_refused_before_anything_is_sent() {
    for port in [":18502abc", ":65536", ":99999", ":+80", ":", ":0", ":-1", ":8 0", ":80:80", ":0x50"] {
        for host in ["127.0.0.1", "[::1]", "shop.test"] {
            for url in [format!("http://{host}{port}/x"), format!("https://{host}{port}")] {
                assert!(Operation::post(&url).is_err(), "{url}");
            }
        }
    }
    let refused = Operation::post("http://127.0.0.1:18502abc/x").unwrap_err();
    assert_eq!(refused, Unfit::Port { seen: ":18502abc".to_owned() });
    for port in ["", ":1", ":080", ":65535"] {
        for host in ["127.0.0.1", "[::1]", "shop.test"] {
            assert!(Operation::post(&format!("http://{host}{port}/x")).is_ok(), "{host}{port}");
        }
    }
    assert!(Operation::post("http://:80/x").is_err());
}

/// What a lost answer and then this one lead to.
async fn after_a_loss(preset: Preset, then: Step) -> Outcome {
    let preset = Preset { key_status: None, ..preset };
    Net::new([Step::Lose, then])
        .client(Client::builder(preset).with_attempts(2))
        .call(&charge())
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn p32_what_counts_after_a_lost_answer_is_what_the_preset_says() {
    let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
    for preset in Preset::all() {
        let name = preset.name;
        let done = after_a_loss(preset.clone(), status(201)).await;
        assert_eq!(is_done(&done), name != "unavez", "{name}: only unavez marks what it keeps");
        for refusal in [400, 404, 422] {
            let outcome = after_a_loss(preset.clone(), status(refusal)).await;
            assert!(matches!(outcome, Outcome::Unknown(_)), "{name} {refusal}: {outcome:?}");
        }
    }
    let marked = |status| answer(status, "idempotent-replayed: true\r\n", "");
    for preset in [Preset::unavez(), Preset::stripe()] {
        assert!(is_done(&after_a_loss(preset.clone(), marked(201)).await));
        assert!(matches!(after_a_loss(preset, marked(404)).await, Outcome::Refused(_)));
    }
    let false_mark = answer(404, "idempotent-replayed: false\r\n", "");
    assert!(matches!(after_a_loss(Preset::stripe(), false_mark).await, Outcome::Unknown(_)));
    assert!(matches!(after_a_loss(Preset::stripe(), status(402)).await, Outcome::Refused(_)));
    assert!(matches!(after_a_loss(Preset::stripe(), marked(500)).await, Outcome::Unknown(_)));
    assert!(matches!(after_a_loss(Preset::square(), status(402)).await, Outcome::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn p32_a_mark_that_says_nothing_is_none() {
    let is_done = async |lines: &str| {
        matches!(after_a_loss(Preset::unavez(), answer(201, lines, "")).await, Outcome::Done(_))
    };
    for time in ["2030-01-01T00:00:00Z", "2030-01-01T00:00:00.25z", "2030-01-01t01:00:00+01:00"] {
        assert!(is_done(&format!("idempotency-expires: {time}\r\n")).await, "{time}");
    }
    for none in [
        "",
        "0",
        "true",
        "never",
        "1893456000",
        "2030-01-01",
        "2030-13-01T00:00:00Z",
        "2030-01-01T00:00:00",
        "2030-01-01 00:00:00Z",
        "20300101T000000Z",
        "2030-01-01T00:00:00Z[UTC]",
        "Tue, 01 Jan 2030 00:00:00 GMT",
    ] {
        assert!(!is_done(&format!("idempotency-expires: {none}\r\n")).await, "{none:?}");
    }
    for mark in ["idempotency-expires: 2030-01-01T00:00:00Z\r\n", "idempotent-replayed: true\r\n"] {
        assert!(is_done(mark).await);
        assert!(!is_done(&mark.repeat(2)).await, "twice {mark:?}");
    }
    assert!(!is_done("idempotent-replayed: TRUE\r\n").await);
}

#[tokio::test(start_paused = true)]
async fn p32_a_success_without_a_mark_is_not_of_a_server_that_marks() {
    let first = async |preset: Preset, step: Step| {
        let preset = Preset { key_status: None, ..preset };
        let net = Net::new([step, recorded(201)]);
        let outcome = net.client(Client::builder(preset).with_attempts(1)).call(&charge()).await.unwrap();
        matches!(outcome, Outcome::Done(_))
    };
    for preset in Preset::all() {
        let name = preset.name;
        assert_eq!(first(preset.clone(), status(200)).await, name != "unavez", "{name}");
        assert_eq!(first(preset.clone(), status(201)).await, name != "unavez", "{name}");
        assert!(first(preset, recorded(201)).await, "{name}");
    }
    assert_eq!(requests(Preset::unavez(), status(200)).await, 2, "the same request gets what is kept");
}

#[tokio::test(start_paused = true)]
async fn p32_a_marked_answer_that_may_change_is_no_refusal() {
    let marked = |status, more: &str, body| {
        answer(status, &format!("idempotency-expires: 2030-01-01T00:00:00Z\r\n{more}"), body)
    };
    for passing in [408, 425, 429, 500, 502, 503, 504] {
        assert_eq!(requests(Preset::unavez(), marked(passing, "", "")).await, 2, "{passing}");
    }
    let problem = "content-type: application/problem+json\r\n";
    assert_eq!(requests(Preset::unavez(), marked(409, problem, r#"{"retryable":true}"#)).await, 2);
    for last in [marked(500, "", ""), marked(409, problem, r#"{"retryable":true}"#)] {
        let outcome = after_a_loss(Preset::unavez(), last).await;
        assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    }
    assert_eq!(requests(Preset::unavez(), marked(402, "", "")).await, 1);
}

async fn requests(preset: Preset, first: Step) -> usize {
    let net = Net::new([first, recorded(201)]);
    let preset = Preset { key_status: None, ..preset };
    let _ = net.client(Client::builder(preset)).call(&charge()).await.unwrap();
    net.requests().len()
}

#[tokio::test(start_paused = true)]
async fn p30_what_the_server_says_about_repeating_is_obeyed() {
    let should = |status, said| answer(status, &format!("stripe-should-retry: {said}\r\n"), "");
    assert_eq!(requests(Preset::stripe(), should(400, "true")).await, 2);
    assert_eq!(requests(Preset::stripe(), should(500, "false")).await, 1);
    assert_eq!(requests(Preset::stripe(), should(409, "false")).await, 1);
    assert_eq!(requests(Preset::stripe(), should(409, "maybe")).await, 2, "409: it is running");
    let transient = answer(422, "transient-error: true\r\n", "");
    assert_eq!(requests(Preset::adyen(), transient).await, 2);
    let problem = |body| answer(409, "content-type: application/problem+json\r\n", body);
    assert_eq!(requests(Preset::unavez(), problem(r#"{"retryable":true}"#)).await, 2);
    assert_eq!(requests(Preset::unavez(), problem(r#"{"retryable":false}"#)).await, 1);
    assert_eq!(requests(Preset::unavez(), status(409)).await, 1, "it would say so");
    assert_eq!(requests(Preset::unavez(), problem("{")).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_preset_is_a_value_to_change() {
    let own = Preset {
        name: "ours",
        key: preset::KeyPlace::Bare(http::HeaderName::from_static("x-request-id")),
        ..Preset::ietf()
    };
    assert!(sent(own, "o-1").await.unwrap().contains("x-request-id: o-1\r\n"));
    let names = Preset::all().map(|preset| preset.name);
    assert_eq!(names, ["any", "unavez", "ietf", "stripe", "mercadopago", "adyen", "paypal", "square"]);
}

#[tokio::test(start_paused = true)]
async fn p32_a_conflict_met_by_our_own_retry_is_no_failure_of_the_operation() {
    for preset in [Preset::unavez(), Preset::ietf(), Preset::stripe()] {
        match after_a_loss(preset, status(409)).await {
            Outcome::Unknown(unknown) => {
                assert!(matches!(unknown.reason, Reason::Attempts | Reason::OtherAnswer), "{unknown}");
            }
            settled => panic!("{settled:?}"),
        }
    }
}
