//! `unavez reconcile`: both sides read, neither changed.

use std::path::Path;

use serde_json::json;

use crate::support::{Ran, Serve, folder, run, send};

fn reconcile(folder: &Path, flags: &[&str]) -> Ran {
    run(folder, ["reconcile", "--since", "1h", "--format", "json"].iter().chain(flags))
}

fn found(ran: &Ran, code: i32) -> Vec<String> {
    let document = ran.json(code);
    let findings = document["findings"].as_array().unwrap();
    findings.iter().map(|it| it["finding"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn one_order_under_two_keys_is_found_beside_the_service_with_what_undoes_it() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    assert_eq!(serve.charge("k-1", "o-1").status, 201);
    let clean = reconcile(folder.path(), &[]);
    assert_eq!(found(&clean, 0), Vec::<String>::new());
    assert_eq!(
        (&clean.json(0)["acquirer"], &clean.json(0)["compared"]),
        (&"sandbox:in-process".into(), &1.into())
    );

    let second = serve.charge("k-2", "o-1").json()["id"].as_str().unwrap().to_owned();
    let twice = reconcile(folder.path(), &[]);
    assert_eq!(found(&twice, 1), ["same_order"]);
    let commands = twice.json(1)["findings"][0]["commands"].clone();
    assert_eq!(commands.as_array().unwrap().len(), 1);
    assert!(commands[0].as_str().unwrap().contains(&format!("refund:dup:{second}")), "{commands}");
    let text = run(folder.path(), ["reconcile", "--since", "1h"]);
    assert_eq!(text.code, Some(1));
    assert!(
        text.stdout.contains("order o-1 of tenant default: 2 charges of 25.00 EUR under 2 keys"),
        "{text:?}"
    );

    let key = format!("Idempotency-Key: refund:dup:{second}");
    let path = format!("/v1/charges/{second}/refunds");
    assert_eq!(send(serve.address, "POST", &path, &[&key], Some("{}")).unwrap().status, 201);
    assert_eq!(found(&reconcile(folder.path(), &[]), 0), Vec::<String>::new());
    assert_eq!(serve.stop(), Some(0));
    assert_eq!(found(&reconcile(folder.path(), &[]), 0), Vec::<String>::new());
}

#[test]
fn what_the_acquirer_alone_knows_and_what_it_did_twice_is_found() {
    let folder = folder();
    let acquirer = Serve::acquirer(folder.path(), &["--store", "memory:", "--dedupe", "off"]);
    let at = format!("http://{}", acquirer.address);
    let serve = Serve::start_with(folder.path(), &["--acquirer", &at]);
    assert_eq!(serve.charge("k-1", "o-1").status, 201);
    let operation = serve.get("/v1/idempotency-keys/k-1", &[]).json()["operation_id"].clone();
    for id in [operation.as_str().unwrap(), "op_00000000000000000000000000000001"] {
        let body = json!({
            "operation_id": id, "tenant": "default", "order_id": "o-1", "amount": 2500, "currency": "EUR",
            "payment_method": "tok_approve", "capture": true,
        });
        let paid = send(acquirer.address, "POST", "/payments", &[], Some(&body.to_string())).unwrap();
        assert_eq!(paid.status, 201, "{paid:?}");
    }
    let flags = ["--acquirer", at.as_str()];
    let ran = reconcile(folder.path(), &flags);
    assert_eq!(found(&ran, 1), ["only_there", "doubled"]);
    assert_eq!(ran.json(1)["findings"][1]["references"], json!(["sbx_1", "sbx_2"]));
    let later = run(folder.path(), ["reconcile", "--since", "2999-01-01T00:00:00Z", "--acquirer", &at]);
    assert_eq!(later.code, Some(0), "{later:?}");
    let unnamed = reconcile(folder.path(), &[]);
    assert_eq!(found(&unnamed, 1), ["only_there", "doubled"], "the operations know where they went");
    drop(acquirer);
    reconcile(folder.path(), &flags).fails_with(3, &["the acquirer's list cannot be read", "--acquirer"]);
}

#[test]
fn books_of_a_ledger_or_of_a_vendor_need_no_sandbox() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--acquirer", "ledger"]);
    assert_eq!(serve.charge("k-1", "o-1").status, 201);
    assert_eq!(found(&reconcile(folder.path(), &[]), 0), Vec::<String>::new());
    assert_eq!(serve.stop(), Some(0));
    let serve = Serve::start(folder.path());
    assert_eq!(serve.charge("k-2", "o-2").status, 201);
    assert_eq!(serve.stop(), Some(0));
    let database = rusqlite::Connection::open(folder.path().join("unavez.db")).unwrap();
    assert_eq!(database.execute("update operations set account = 'stripe:acct_1'", []).unwrap(), 1);
    reconcile(folder.path(), &[])
        .fails_with(2, &["stripe:acct_1", "--acquirer stripe --acquirer-account acct_1"]);
}

#[test]
fn wrong_use_and_missing_books_say_so() {
    let folder = folder();
    run(folder.path(), ["reconcile"]).fails_with(2, &["--since"]);
    run(folder.path(), ["reconcile", "--since", "yesterday"]).fails_with(2, &["how long ago"]);
    reconcile(folder.path(), &[]).fails_with(3, &["there is no database"]);
    run(folder.path(), ["migrate"]);
    // Nothing went to an acquirer, so there is no other list.
    assert_eq!(reconcile(folder.path(), &[]).json(0)["acquirer"], serde_json::Value::Null);
    assert_eq!(found(&reconcile(folder.path(), &["--acquirer", "ledger"]), 0), Vec::<String>::new());
}
