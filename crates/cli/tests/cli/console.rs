//! The console as a browser sees it.

use serde_json::json;

use crate::support::{Answer, Serve, folder, run, send};

const HTML: &str = "Accept: text/html";

fn charge_with(serve: &Serve, key: &str, order: &str, metadata: serde_json::Value) -> serde_json::Value {
    let body =
        json!({"order_id": order, "amount": 123_456, "currency": "EUR", "metadata": metadata}).to_string();
    let key = format!("Idempotency-Key: {key}");
    send(serve.address, "POST", "/v1/charges", &[&key], Some(&body)).unwrap().json()
}

#[track_caller]
fn shows(page: &Answer, parts: &[&str]) {
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8")),
        "{page:?}"
    );
    for part in parts {
        assert!(page.body.contains(part), "{part:?} is not on the page: {}", page.body);
    }
}

#[test]
fn an_empty_console_says_how_to_begin() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    shows(&serve.get("/", &[HTML]), &["No charge yet", "/v1/charges", "Tenant <b>default</b>"]);
    shows(&serve.get("/console/charges", &[HTML]), &["No charges here"]);
    shows(&serve.get("/console/keys", &[HTML]), &["No keys here"]);
}

#[test]
fn charges_and_keys_are_shown_with_their_states_and_in_detail() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let charge = charge_with(&serve, "key-1", "order-1", json!({"cart": "c-7"}));
    let id = charge["id"].as_str().unwrap();
    let operation = charge["operation_id"].as_str().unwrap();

    shows(&serve.get("/", &[HTML]), &["1,234.56", "order-1", "key-1", "captured", "finished", "balanced"]);
    shows(&serve.get("/console/charges", &[HTML]), &[id, "order-1", "1,234.56"]);
    shows(&serve.get("/console/charges?status=declined", &[HTML]), &["No charges here"]);
    shows(&serve.get("/console/keys", &[HTML]), &["key-1", "approved, HTTP 201"]);
    let page = serve.get(&format!("/console/charges/{id}"), &[HTML]);
    shows(&page, &[id, "order-1", "c-7", operation, "customer → merchant", "/console/key?key=key-1"]);
    let page = serve.get("/console/key?key=key-1", &[HTML]);
    shows(
        &page,
        &["A repeat gets the stored answer", "HTTP 201", operation, &format!("/console/charges/{id}")],
    );
}

#[test]
fn search_finds_by_key_order_charge_and_operation() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let one = charge_with(&serve, "key-1", "order-1", json!({}));
    charge_with(&serve, "key-2", "order-2", json!({}));
    charge_with(&serve, "order-2", "order-3", json!({}));
    let id = one["id"].as_str().unwrap();
    let goes_to = |query: &str| {
        let answer = serve.get(&format!("/console/search?q={query}"), &[HTML]);
        assert_eq!(answer.status, 303, "{answer:?}");
        answer.header("location").unwrap().to_owned()
    };
    assert_eq!(goes_to("key-1"), "/console/key?key=key-1");
    assert_eq!(goes_to("order-1"), format!("/console/charges/{id}"));
    assert_eq!(goes_to(&format!("%20{id}")), format!("/console/charges/{id}"));
    assert_eq!(goes_to(one["operation_id"].as_str().unwrap()), format!("/console/charges/{id}"));
    shows(
        &serve.get("/console/search?q=order-2", &[HTML]),
        &["Found for", "Charges of the order", "key=order-2"],
    );
    shows(&serve.get("/console/search?q=nothing", &[HTML]), &["Nothing is called “nothing”"]);
    shows(&serve.get("/console/search?q=", &[HTML]), &["What are you looking for?"]);
    for path in [
        "/console/charges/ch_00000000000000000000000000000000",
        "/console/charges/x",
        "/console/key?key=none",
    ] {
        assert_eq!(serve.get(path, &[HTML]).status, 404, "{path}");
    }
}

#[test]
fn what_went_outside_is_shown_with_its_charge_and_found_by_request_and_refund() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let charge = serve.charge("K", "o-1");
    let id = charge.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/charges/{id}/refunds");
    let refund =
        send(serve.address, "POST", &path, &["Idempotency-Key: R"], Some(r#"{"amount":500}"#)).unwrap();
    let page = format!("/console/charges/{id}");
    let operation = refund.json()["operation_id"].as_str().unwrap().to_owned();
    shows(
        &serve.get(&page, &[HTML]),
        &["refund of 5.00 EUR", &operation, "done, heard in the answer", "sandbox:in-process, sbx_2"],
    );
    let request = charge.header("request-id").unwrap();
    for name in [request, refund.header("request-id").unwrap(), refund.json()["id"].as_str().unwrap()] {
        let found = serve.get(&format!("/console/search?q={name}"), &[HTML]);
        assert_eq!((found.status, found.header("location")), (303, Some(page.as_str())), "{name}");
    }
    assert!(!serve.get("/", &[HTML]).body.contains("Not decided"));
    let pending = r#"{"order_id":"o-2","amount":700,"currency":"EUR","payment_method":"tok_error"}"#;
    assert_eq!(
        send(serve.address, "POST", "/v1/charges", &["Idempotency-Key: P"], Some(pending)).unwrap().status,
        504
    );
    shows(&serve.get("/", &[HTML]), &["Not decided", "7.00 EUR", "unknown"]);
}

#[test]
fn a_list_says_what_a_person_looks_for_and_can_be_narrowed_to_it() {
    let folder = folder();
    let quick = ["--operation-timeout", "3s", "--store-timeout", "500ms", "--acquirer-timeout", "1s"];
    let serve = Serve::start_with(folder.path(), &quick);
    let charge = |key: &str, order: &str, method: &str| {
        let body = json!({"order_id": order, "amount": 2500, "currency": "EUR", "payment_method": method});
        let key = format!("Idempotency-Key: {key}");
        send(serve.address, "POST", "/v1/charges", &[&key], Some(&body.to_string())).unwrap()
    };
    let refund = |of: &Answer, amount: u32| {
        let path = format!("/v1/charges/{}/refunds", of.json()["id"].as_str().unwrap());
        let key = format!("Idempotency-Key: back-{}", of.json()["order_id"]).replace('"', "");
        let body = json!({ "amount": amount }).to_string();
        assert_eq!(send(serve.address, "POST", &path, &[&key], Some(&body)).unwrap().status, 201);
    };
    refund(&charge("k1", "whole", "tok_approve"), 2500);
    let partly = charge("k2", "part", "tok_approve");
    refund(&partly, 1000);
    charge("k3", "twice", "tok_approve");
    charge("k4", "twice", "tok_approve");
    assert_eq!(charge("k5", "lost", "tok_error").status, 504);
    assert_eq!(charge("k6", "no", "tok_decline").status, 402);
    let all = serve.get("/console/charges", &[HTML]);
    shows(&all, &[">refunded<", ">partly refunded<", ">suspected duplicate<", ">unknown<", ">declined<"]);
    for (filter, order, others) in [
        ("refunded", ">whole<", ">lost<"),
        ("refunded", ">part<", ">twice<"),
        ("duplicate", ">twice<", ">whole<"),
        ("unknown", ">lost<", ">twice<"),
    ] {
        let page = serve.get(&format!("/console/charges?status={filter}"), &[HTML]);
        shows(&page, &[order]);
        assert!(!page.body.contains(others), "{filter}");
    }
    shows(&serve.get("/", &[HTML]), &["Not decided", "lost <span class=\"soft\">payment</span>"]);
    let key = serve.get("/console/key?key=k5", &[HTML]);
    shows(&key, &["order_id=lost", "25.00 EUR", "/console/charges/ch_"]);
    let declined = serve.get("/console/key?key=k6", &[HTML]);
    assert!(!declined.body.contains("pill good"), "what was declined is not green: {}", declined.body);
    let reference =
        serve.get(&format!("/console/charges/{}", partly.json()["id"].as_str().unwrap()), &[HTML]);
    let named = reference.body.split("sandbox:in-process, ").nth(1).unwrap().split('<').next().unwrap();
    let found = serve.get(&format!("/console/search?q={named}"), &[HTML]);
    assert_eq!(
        (found.status, found.header("location").is_some_and(|to| to.contains("/charges/"))),
        (303, true)
    );
}

#[test]
fn what_is_held_and_what_does_not_fit_is_on_the_first_page_and_on_the_key() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--acquirer-timeout", "1s"]);
    let body = r#"{"order_id":"o-1","amount":2500,"currency":"EUR","payment_method":"tok_error"}"#;
    let lost = send(serve.address, "POST", "/v1/charges", &["Idempotency-Key: k"], Some(body)).unwrap();
    assert_eq!(lost.status, 504);
    let database = rusqlite::Connection::open(folder.path().join("unavez.db")).unwrap();
    let held = "insert into anomalies (found_at, reason, operation, heard, detail) \
                select 1, 'held', operation, 'question', 'sent three times' from operations";
    assert_eq!(database.execute(held, []).unwrap(), 1);
    shows(&serve.get("/", &[HTML]), &["Does not fit", "sent three times", ">held<"]);
    let key = serve.get("/console/key?key=k", &[HTML]);
    shows(&key, &["Held for a person", ">held<", "unavez keys settle k --tenant default --as failed"]);
    assert!(!key.body.contains("is safe,"), "{}", key.body);
    shows(&serve.get("/console/keys", &[HTML]), &[">held<"]);
    let nowhere = serve.get("/console/nope", &[HTML]);
    assert_eq!((nowhere.status, nowhere.header("content-type")), (404, Some("text/html; charset=utf-8")));
    assert!(nowhere.body.contains("no such page") && nowhere.body.contains("<header>"), "{nowhere:?}");
}

#[test]
fn long_lists_have_pages() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    for n in 0..60 {
        charge_with(&serve, &format!("key-{n}"), &format!("order-{n:02}"), json!({}));
    }
    for (path, rows) in
        [("/console/charges", "class=\"name\">order-"), ("/console/keys", "class=\"name\">key-")]
    {
        let first = serve.get(path, &[HTML]);
        let next = first
            .body
            .split("href=\"")
            .find_map(|rest| rest.split('"').next().filter(|href| href.contains("after=")));
        let second = serve
            .get(&next.expect("there is an older page").replace("&#38;", "&").replace("&amp;", "&"), &[HTML]);
        let count = |page: &Answer| page.body.matches(rows).count();
        assert_eq!((count(&first), count(&second)), (50, 10), "{path}");
        assert!(!second.body.contains(">Older<"));
    }
}

#[test]
fn pages_run_nothing_and_load_nothing_from_elsewhere() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let charge = charge_with(&serve, "k", "<script>alert(1)</script>", json!({"<b>": "\"><img src=x>"}));
    let detail = format!("/console/charges/{}", charge["id"].as_str().unwrap());
    for path in [
        "/",
        "/console/charges",
        "/console/keys",
        "/console/key?key=k",
        &detail,
        "/console/search?q=%3Cscript%3E",
    ] {
        let page = serve.get(path, &[HTML]);
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        let body = page.body.to_lowercase();
        for part in ["<script", "<img src=x", " style=", "onclick", "src=\"http", "href=\"http", "//"] {
            let allowed = if part == "//" {
                body.contains("<!doctype html>") && !body.contains("src=\"//")
            } else {
                !body.contains(part)
            };
            assert!(allowed, "{path} holds {part}");
        }
    }
    assert_eq!(serve.get("/console/style.css", &[]).header("content-type"), Some("text/css; charset=utf-8"));
    assert_eq!(serve.get("/console/icon.svg", &[]).header("content-type"), Some("image/svg+xml"));
}

#[test]
fn without_keys_only_names_of_this_machine_are_answered() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let with_host = |host: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(serve.address).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(with_host("localhost:8080"), "200");
    assert_eq!(with_host("evil.example"), "421", "DNS rebinding");
}

#[test]
fn with_keys_operators_sign_in_and_out() {
    let folder = folder();
    let key = |tenant: &str, role: &str| {
        let flags = ["api-keys", "add", tenant, "--role", role, "--file", "keys", "--format", "json"];
        run(folder.path(), flags).json(0)["key"].as_str().unwrap().to_owned()
    };
    let (operator, charger) = (key("shop", "operator,charge"), key("shop", "charge"));
    let serve = Serve::start_with(folder.path(), &["--api-keys-file", "keys"]);

    let bearer = format!("Authorization: Bearer {operator}");
    assert_eq!(serve.get("/", &[]).status, 401, "programs are told the status");
    assert_eq!(serve.get("/", &[&bearer]).status, 200);
    assert_eq!(serve.get("/", &[&format!("Authorization: Bearer {charger}")]).status, 403);

    let asked = serve.get("/console/keys?after=9", &[HTML]);
    assert_eq!(
        (asked.status, asked.header("location")),
        (303, Some("/console/login?next=%2Fconsole%2Fkeys%3Fafter%3D9&why="))
    );
    shows(&serve.get("/console/login", &[HTML]), &["API key with the operator role"]);

    let sign_in = |key: &str| {
        let form = ["Content-Type: application/x-www-form-urlencoded", HTML];
        send(
            serve.address,
            "POST",
            "/console/login",
            &form,
            Some(&format!("key={key}&next=%2Fconsole%2Fkeys")),
        )
        .unwrap()
    };
    for (wrong, why) in [("uv_wrong", "why=key"), (charger.as_str(), "why=role"), ("%0A%C3%BC", "why=key")] {
        let refused = sign_in(wrong);
        assert!(refused.header("location").unwrap().ends_with(why), "{refused:?}");
        assert_eq!(refused.header("set-cookie"), None);
    }
    let opened = sign_in(&operator);
    assert_eq!((opened.status, opened.header("location")), (303, Some("/console/keys")));
    let cookie = opened.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&operator), "the cookie does not hold the key");
    let session = format!("Cookie: {}", cookie.split(';').next().unwrap());

    shows(&serve.get("/", &[&session, HTML]), &["Sign out", "Tenant <b>shop</b>"]);
    let read_only = serve.get("/v1/charges", &[&session]);
    assert_eq!(read_only.status, 401, "a session opens pages, not the API");
    let purge = send(serve.address, "POST", "/admin/keys/purge", &[&session], Some("{}")).unwrap();
    assert_eq!(purge.status, 401, "a session changes nothing");

    let out = send(serve.address, "POST", "/console/logout", &[&session], Some("")).unwrap();
    assert_eq!(out.status, 303);
    assert_eq!(serve.get("/", &[&session, HTML]).status, 303);
}

#[test]
fn p4_a_tenant_sees_its_own() {
    let folder = folder();
    let key = |tenant: &str| {
        let flags =
            ["api-keys", "add", tenant, "--role", "operator,charge", "--file", "keys", "--format", "json"];
        let key = run(folder.path(), flags).json(0)["key"].as_str().unwrap().to_owned();
        format!("Authorization: Bearer {key}")
    };
    let (a, b) = (key("a"), key("b"));
    let serve = Serve::start_with(folder.path(), &["--api-keys-file", "keys"]);
    let body = crate::support::order_body("order-of-a");
    let charge = send(serve.address, "POST", "/v1/charges", &[&a, "Idempotency-Key: key-of-a"], Some(&body))
        .unwrap()
        .json();
    let detail = format!("/console/charges/{}", charge["id"].as_str().unwrap());
    shows(&serve.get(&detail, &[&a]), &["order-of-a", "key-of-a"]);
    for path in [&detail, "/console/key?key=key-of-a"] {
        assert_eq!(serve.get(path, &[&b]).status, 404, "{path}");
    }
    for path in [
        "/",
        "/console/charges",
        "/console/keys",
        "/console/search?q=order-of-a",
        "/console/search?q=key-of-a",
    ] {
        let page = serve.get(path, &[&b]);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.body.contains("ch_") || path.contains("search"), "{path} shows a charge");
    }
}
