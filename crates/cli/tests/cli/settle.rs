//! `unavez keys settle` and `keys list --state unknown`: what is at risk, and what a person may do about it.

use std::path::Path;

use crate::support::{Answer, Ran, Serve, folder, run, send, write};

const NOBODY: &str = "http://127.0.0.1:9";

/// A service on which an attempt is lost after three seconds, and the acquirer has never heard of it.
fn serve(folder: &Path, flags: &[&str]) -> Serve {
    let quick = ["--operation-timeout", "3s", "--store-timeout", "500ms", "--acquirer-timeout", "1s"];
    Serve::start_with(folder, &[&quick, flags].concat())
}

fn lose(serve: &Serve, key: &str, headers: &[&str]) -> Answer {
    let body = r#"{"order_id":"o-1","amount":2500,"currency":"EUR","payment_method":"tok_error"}"#;
    let key = format!("Idempotency-Key: {key}");
    send(serve.address, "POST", "/v1/charges", &[&[key.as_str()], headers].concat(), Some(body)).unwrap()
}

fn settle(folder: &Path, key: &str, ruling: &str, target: &str, flags: &[&str]) -> Ran {
    let arguments = [
        "keys",
        "settle",
        key,
        "--as",
        ruling,
        "--reason",
        "ticket 4711",
        "--target",
        target,
        "--format",
        "json",
    ];
    run(folder, arguments.iter().chain(flags))
}

/// Repeats until the time is over in which the lost request may still arrive.
fn settled(folder: &Path, key: &str, target: &str, flags: &[&str]) -> serde_json::Value {
    loop {
        let ran = settle(folder, key, "failed", target, flags);
        if ran.code == Some(0) {
            return ran.json(0);
        }
        ran.fails_with(1, &["an attempt may still take effect, until "]);
    }
}

/// Writes into a database behind everybody's back.
fn meddle(folder: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(folder.join("unavez.db")).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
}

#[test]
fn what_is_unknown_is_listed_with_age_and_amount_and_settled_through_the_service() {
    let folder = folder();
    let serve = serve(folder.path(), &[]);
    let target = format!("http://{}", serve.address);
    for key in ["k-1", "k-2"] {
        assert_eq!(lose(&serve, key, &[]).status, 504);
    }
    assert_eq!(serve.charge("fine", "o-2").status, 201);
    let listed = run(folder.path(), ["keys", "list", "--state", "unknown", "--format", "json"]).json(0);
    assert_eq!(listed["at_risk"], serde_json::json!([{"amount": 5000, "currency": "EUR"}]));
    assert!(listed["keys"][0]["age_seconds"].is_u64() && listed["keys"][0]["at_risk"]["amount"] == 2500);
    let first = ["keys", "list", "--state", "unknown", "--limit", "1", "--format", "json"];
    let page = run(folder.path(), first).json(0);
    assert_eq!((page["keys"].as_array().unwrap().len(), &page["open_keys"]), (1, &2.into()));
    assert_eq!(page["at_risk"], listed["at_risk"], "of all there are, not of one page");
    let text = run(folder.path(), ["keys", "list", "--limit", "2"]).stdout;
    assert!(text.contains("at risk in 2 open keys: 50.00 EUR"), "{text}");
    let text = run(folder.path(), ["keys", "list"]).stdout;
    assert!(text.contains("at risk in 2 open keys: 50.00 EUR, the oldest "), "{text}");

    settle(folder.path(), "k-1", "done", &target, &[]).fails_with(1, &["not settled: "]);
    let report = settled(folder.path(), "k-1", &target, &["--by", "ana"]);
    assert_eq!((&report["standing"], &report["acquirer_said"]), (&"declined".into(), &"not found".into()));
    let repeat = lose(&serve, "k-1", &[]);
    assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (402, Some("true")));
    settle(folder.path(), "k-1", "done", &target, &[])
        .fails_with(1, &["settled already", "acquirer says now: not found", "kept as a contradiction"]);
    settle(folder.path(), "none", "done", &target, &[]).fails_with(1, &["no record of this key"]);
    let traced = run(folder.path(), ["trace", "k-1"]).stdout;
    assert!(traced.contains("ana, of tenant default"), "{traced}");
    assert!(traced.contains("ruled failed: ticket 4711; the acquirer said: not found"), "{traced}");

    settle(folder.path(), "k-2", "failed", NOBODY, &[]).fails_with(3, &["is owned by process"]);
    assert_eq!(serve.stop(), Some(0));
    // Who opens the file knows no shorter operation timeout than the default.
    meddle(
        folder.path(),
        "update idempotency_records set created_at = created_at - 60000000, attempt_started_at = attempt_started_at - 60000000
         where key = 'k-2'",
    );
    assert_eq!(settle(folder.path(), "k-2", "failed", NOBODY, &[]).json(0)["standing"], "declined");
}

#[test]
fn where_the_acquirer_is_gone_a_person_has_to_answer_for_it() {
    let folder = folder();
    let acquirer = Serve::acquirer(folder.path(), &["--store", "memory:"]);
    let at = format!("http://{}", acquirer.address);
    let serve = serve(folder.path(), &["--acquirer", &at, "--visibility-delay", "0s"]);
    let target = format!("http://{}", serve.address);
    assert_eq!(lose(&serve, "k", &[]).status, 504);
    drop(acquirer);
    let refused = loop {
        let ran = settle(folder.path(), "k", "failed", &target, &[]);
        if !ran.stderr.contains("may still take effect") {
            break ran;
        }
    };
    refused.fails_with(1, &["the acquirer does not confirm it: no answer", "--acquirer-cannot-be-asked"]);
    let report = settle(folder.path(), "k", "done", &target, &["--acquirer-cannot-be-asked"]).json(0);
    assert_eq!(report["standing"], "done");
    let other = settle(folder.path(), "k", "failed", &target, &["--reason", "x"]);
    other.fails_with(2, &["--reason"]);
    assert_eq!(lose(&serve, "k", &[]).status, 201, "the stored answer");
}

#[test]
fn a_wrong_ruling_is_told_as_one_and_found_when_the_acquirer_is_back() {
    let folder = folder();
    let acquirer = Serve::acquirer(folder.path(), &["--store", "sqlite:acquirer.db"]);
    let address = acquirer.address.to_string();
    let at = format!("http://{address}");
    let serve = serve(folder.path(), &["--acquirer", &at, "--visibility-delay", "0s"]);
    let target = format!("http://{}", serve.address);
    let body = r#"{"order_id":"o-1","amount":2500,"currency":"EUR","payment_method":"tok_lost"}"#;
    let charge = || send(serve.address, "POST", "/v1/charges", &["Idempotency-Key: k"], Some(body)).unwrap();
    assert_eq!(charge().status, 504);
    let unknown = serve.logs("outcome not known");
    assert!(
        unknown.contains("WARN") && unknown.contains("request_id=req_") && unknown.contains("key="),
        "{unknown}"
    );
    drop(acquirer);
    let stand_in = ["--acquirer-cannot-be-asked", "--by", "bob"];
    loop {
        let ran = settle(folder.path(), "k", "failed", &target, &stand_in);
        if !ran.stderr.contains("may still take effect") {
            assert_eq!(ran.json(0)["standing"], "declined");
            break;
        }
    }
    serve.logs("the acquirer does not answer");
    assert!(serve.logs("settled by hand").contains("bob"));
    let told = charge();
    assert_eq!(told.status, 402);
    assert!(told.json()["detail"].as_str().unwrap().contains("an operator ruled"), "{told:?}");
    let page = run(folder.path(), ["trace", "o-1"]).stdout;
    assert!(page.contains("NOT CHARGED according to the ruling of bob"), "{page}");
    assert!(page.contains("'ticket 4711'") && page.contains("money may have moved"), "{page}");
    assert!(page.contains("unavez reconcile") && !page.contains("under a new key"), "{page}");

    let acquirer = Serve::acquirer(folder.path(), &["--store", "sqlite:acquirer.db", "--listen", &address]);
    let found = loop {
        let traced = run(folder.path(), ["trace", "o-1", "--format", "json"]).json(0);
        if traced["orders"][0]["verdict"] != "only_ruled" {
            break traced;
        }
    };
    assert_eq!(found["orders"][0]["verdict"], "contradicted");
    serve.logs("the acquirer answers again");
    let metrics = serve.get("/metrics", &[]).body;
    assert!(metrics.contains("unavez_webhook_anomalies_total{reason=\"contradiction\"} 1"));
    assert_eq!(charge().status, 402, "the answer that was given stays");
    let reconciled =
        run(folder.path(), ["reconcile", "--since", "1h", "--acquirer", &at, "--format", "json"]).json(1);
    let differs = &reconciled["findings"][0];
    assert_eq!(differs["finding"], "differs");
    let proposal = differs["proposal"].as_str().unwrap();
    let named = differs["references"][0].as_str().expect("the acquirer's own name");
    assert!(proposal.contains("at the acquirer") && proposal.contains(named), "{reconciled}");
    assert!(proposal.contains("A refund here is refused"), "{reconciled}");
    drop(acquirer);
}

#[test]
fn what_is_held_is_shown_as_held_with_what_settles_it() {
    let folder = folder();
    let serve = serve(folder.path(), &[]);
    assert_eq!(lose(&serve, "\"k 1\"", &[]).status, 504);
    assert_eq!(serve.stop(), Some(0));
    let charged = "insert into anomalies (found_at, reason, operation, heard, detail) \
                   select 1, 'held', operation, 'question', 'sent three times' from operations";
    meddle(folder.path(), charged);
    let shown = run(folder.path(), ["keys", "show", "k 1", "--format", "json"]).json(0);
    assert_eq!((&shown["state"], &shown["findings"]), (&"unknown".into(), &serde_json::json!(["held"])));
    let page = run(folder.path(), ["keys", "show", "k 1"]).stdout;
    assert!(
        page.contains("It is held") && page.contains("unavez keys settle 'k 1' --tenant default --as done"),
        "{page}"
    );
    assert!(page.contains("--as failed") && !page.contains('|'), "{page}");
    let listed = run(folder.path(), ["keys", "list", "--state", "unknown", "--format", "json"]).json(0);
    assert_eq!(listed["keys"][0]["findings"], serde_json::json!(["held"]));
    assert!(run(folder.path(), ["keys", "list"]).stdout.contains("unknown, held"));
    let traced = run(folder.path(), ["trace", "o-1", "--target", "http://127.0.0.1:81"]).stdout;
    let commands: Vec<&str> = traced.lines().filter(|line| line.contains("keys settle")).collect();
    assert_eq!(commands.len(), 2, "{traced}");
    assert!(commands.iter().all(|it| it.contains("--target http://127.0.0.1:81")), "{traced}");
}

#[test]
fn a_file_is_settled_with_the_acquirer_that_it_was_sent_to() {
    let folder = folder();
    let acquirer = Serve::acquirer(folder.path(), &["--store", "memory:"]);
    let at = format!("http://{}", acquirer.address);
    let serve = serve(folder.path(), &["--acquirer", &at, "--visibility-delay", "0s"]);
    assert_eq!(lose(&serve, "k", &[]).status, 504);
    assert_eq!(serve.stop(), Some(0));
    meddle(
        folder.path(),
        "update idempotency_records set created_at = created_at - 600000000, latest_send_at = latest_send_at - 600000000,
         attempt_started_at = attempt_started_at - 600000000",
    );
    let refused = settle(folder.path(), "k", "failed", NOBODY, &[]);
    refused.fails_with(
        1,
        &["it was sent under sandbox:127.0.0.1:", "here is sandbox:in-process", &format!("--acquirer {at}")],
    );
    let flags = ["--acquirer", at.as_str(), "--visibility-delay", "0s"];
    assert_eq!(settle(folder.path(), "k", "failed", NOBODY, &flags).json(0)["standing"], "declined");
}

#[test]
fn an_operator_settles_keys_of_its_own_tenant() {
    let folder = folder();
    for (tenant, role, name) in
        [("shop", "charge", "caller"), ("shop", "operator", "ops"), ("other", "operator", "ops-2")]
    {
        let added = ["api-keys", "add", tenant, "--role", role, "--file", "keys", "--format", "json"];
        write(folder.path(), name, run(folder.path(), added).json(0)["key"].as_str().unwrap());
    }
    let serve = serve(folder.path(), &["--api-keys-file", "keys"]);
    let target = format!("http://{}", serve.address);
    let bearer =
        format!("Authorization: Bearer {}", std::fs::read_to_string(folder.path().join("caller")).unwrap());
    assert_eq!(lose(&serve, "k", &[&bearer]).status, 504);
    settle(folder.path(), "k", "failed", &target, &[]).fails_with(3, &["401", "--api-key-file"]);
    settle(folder.path(), "k", "failed", &target, &["--api-key-file", "caller"])
        .fails_with(3, &["403", "operator"]);
    let of_other = ["--api-key-file", "ops-2", "--tenant", "shop"];
    settle(folder.path(), "k", "failed", &target, &of_other).fails_with(2, &["belongs to tenant other"]);
    settle(folder.path(), "k", "failed", &target, &["--api-key-file", "ops-2"]).fails_with(1, &["no record"]);
    assert_eq!(settled(folder.path(), "k", &target, &["--api-key-file", "ops"])["tenant"], "shop");
    let blank = settle(folder.path(), "k", "failed", &target, &["--api-key-file", "ops", "--by", " "]);
    assert_eq!(blank.code, Some(1), "{blank:?}");
}
