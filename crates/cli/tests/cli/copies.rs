//! `unavez backup` and `unavez restore`: nothing is lost silently, and what was forgotten is asked for.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Serve, folder, run, write};

fn backup(folder: &Path, file: &str) -> Value {
    run(folder, ["backup", "--to", file, "--format", "json"]).json(0)
}

fn restore(folder: &Path, file: &str, flags: &[&str]) -> Value {
    run(folder, ["restore", "--from", file, "--format", "json"].iter().chain(flags)).json(0)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.contains("-sandbox"))
        .collect();
    names.sort();
    names
}

/// How often the acquirer executed a charge whose key a restored database has forgotten. It executes every request, so
/// nothing but the question saves the customer.
fn executed_after_restore(spoil: impl FnOnce(&Path)) -> u64 {
    let (folder, beside) = (folder(), folder());
    let acquirer = Serve::acquirer(beside.path(), &["--store", "memory:", "--dedupe", "off"]);
    let url = format!("http://{}", acquirer.address);
    let flags = ["--acquirer", &url, "--visibility-delay", "0s"];

    let serve = Serve::start_with(folder.path(), &flags);
    assert_eq!(serve.charge("before", "o-1").status, 201);
    let held = backup(folder.path(), "copy.db");
    assert_eq!(held["rows"]["charges"], 1);
    let first = serve.charge("after", "o-2");
    assert_eq!(first.status, 201);
    assert_eq!(serve.stop(), Some(0));

    restore(folder.path(), "copy.db", &["--replace"]);
    spoil(&folder.path().join("unavez.db"));
    let serve = Serve::start_with(folder.path(), &flags);
    let again = serve.charge("after", "o-2");
    assert_eq!((again.status, &again.json()["id"]), (201, &first.json()["id"]));
    assert_eq!(serve.charge("after", "o-2").header("idempotent-replayed"), Some("true"));
    assert_eq!(serve.charge("before", "o-1").header("idempotent-replayed"), Some("true"));
    assert_eq!(serve.charge("new", "o-3").status, 201, "what is new is sent");
    let sums = serve.get("/v1/ledger/summary", &[]).json();
    assert_eq!(
        sums["currencies"][0],
        json!({"currency": "EUR", "charges": 3, "captured": 7500, "refunded": 0, "balanced": true})
    );
    let executed = acquirer.get("/stats", &[]).json();
    let operation = first.json()["operation_id"].as_str().unwrap().to_owned();
    executed["by_operation"][operation].as_u64().unwrap()
}

#[test]
fn c102_a_restored_database_asks_first_and_the_charge_is_executed_once() {
    assert_eq!(executed_after_restore(|_| {}), 1);
}

/// That the question is what saved the customer above.
#[test]
fn c102_without_the_question_the_charge_is_executed_again() {
    let forget = |database: &Path| {
        let database = rusqlite::Connection::open(database).unwrap();
        assert_eq!(database.execute("delete from restores", []).unwrap(), 1);
    };
    assert_eq!(executed_after_restore(forget), 2);
}

#[test]
fn a_copy_holds_what_the_database_held_and_tells_of_it() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    for n in 1..=3 {
        assert_eq!(serve.charge(&format!("key-{n}"), &format!("order-{n}")).status, 201);
    }
    let held = backup(folder.path(), "copy.db");
    assert_eq!(
        held["currencies"],
        json!([{"currency": "EUR", "charges": 3, "captured": 7500, "refunded": 0, "balanced": true}])
    );
    let rows = ["charges", "ledger_entries", "idempotency_records"].map(|table| held["rows"][table].clone());
    assert_eq!((rows, &held["sound"]), ([3, 3, 3].map(Value::from), &Value::from(true)));
    assert_eq!(serve.charge("key-4", "order-4").status, 201);

    let keys = run(folder.path(), ["keys", "list", "--store", "sqlite:copy.db", "--format", "json"]).json(0);
    assert_eq!(keys["keys"].as_array().unwrap().len(), 3);
    let told = run(folder.path(), ["backup", "--to", "second.db"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    for part in
        ["second.db: unavez.db as of 20", "4 charges, 4 ledger entries, 4 keys", "refunded 0.00, balanced"]
    {
        assert!(told.stdout.contains(part), "{part}: {told:?}");
    }
    run(folder.path(), ["backup", "--to", "copy.db"])
        .fails_with(2, &["copy.db exists and is not overwritten"]);
    run(folder.path(), ["backup", "--to", "unavez.db"]).fails_with(2, &["unavez.db exists"]);
    run(folder.path(), ["backup", "--store", "sqlite:none.db", "--to", "x.db"]).fails_with(3, &["none.db"]);
    run(folder.path(), ["backup", "--to", "none/x.db"]).fails_with(3, &["none/x.db.partial"]);
    assert_eq!(serve.stop(), Some(0));
    assert_eq!(names(folder.path()), ["copy.db", "second.db", "unavez.db", "unavez.db.lock"]);
}

#[test]
fn books_that_do_not_fit_together_are_copied_said_and_not_put_back() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--acquirer", "ledger"]);
    assert_eq!(serve.charge("key-1", "order-1").status, 201);
    assert_eq!(serve.stop(), Some(0));
    let database = rusqlite::Connection::open(folder.path().join("unavez.db")).unwrap();
    database.execute("update charges set amount_refunded = 100", []).unwrap();
    let told = run(folder.path(), ["backup", "--to", "copy.db"]);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.stdout.contains("NOT BALANCED"), "{told:?}");
    run(folder.path(), ["restore", "--from", "copy.db", "--store", "sqlite:new.db"])
        .fails_with(1, &["the copy's books do not fit together: 1 currencies are not balanced, 0 rows"]);
    assert_eq!(
        names(folder.path()),
        ["copy.db", "new.db.lock", "unavez.db", "unavez.db-shm", "unavez.db-wal", "unavez.db.lock"]
    );
}

#[test]
fn nothing_is_replaced_unless_that_is_said_and_what_was_there_is_kept() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--acquirer", "ledger"]);
    assert_eq!(serve.charge("key-1", "order-1").status, 201);
    backup(folder.path(), "copy.db");
    assert_eq!(serve.charge("key-2", "order-2").status, 201);
    let pid = format!("process {}", serve.pid());
    run(folder.path(), ["restore", "--from", "copy.db", "--replace"]).fails_with(3, &["is owned by", &pid]);
    assert_eq!(serve.stop(), Some(0));

    run(folder.path(), ["restore", "--from", "copy.db"]).fails_with(2, &["unavez.db exists", "--replace"]);
    run(folder.path(), ["restore", "--from", "none.db"]).fails_with(3, &["none.db: there is no such file"]);
    write(folder.path(), "text.db", &"no database ".repeat(100));
    run(folder.path(), ["restore", "--from", "text.db", "--replace"])
        .fails_with(3, &["text.db is not a sqlite database"]);

    let told = run(folder.path(), ["restore", "--from", "copy.db", "--replace"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    for part in [
        "1 charge, 1 ledger entry, 1 key",
        "With --acquirer ledger there is nobody to ask",
        "`unavez reconcile --since 20",
        "unavez.db.replaced-1",
    ] {
        assert!(told.stdout.contains(part), "{part}: {told:?}");
    }
    let kept =
        run(folder.path(), ["keys", "list", "--store", "sqlite:unavez.db.replaced-1", "--format", "json"]);
    assert_eq!(kept.json(0)["keys"].as_array().unwrap().len(), 2);

    let serve = Serve::start_with(folder.path(), &["--acquirer", "ledger"]);
    serve.logs("the ledger cannot be asked about what it booked after the copy was taken");
    assert_eq!(serve.charge("key-1", "order-1").header("idempotent-replayed"), Some("true"));
    assert_eq!(serve.get("/v1/idempotency-keys/key-2", &[]).status, 404);
    assert_eq!(serve.stop(), Some(0));
}

/// Nobody may repeat a key for longer than its answer was promised.
#[test]
fn it_asks_first_for_as_long_as_answers_were_promised() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--response-ttl", "72h"]);
    assert_eq!(serve.charge("key-1", "order-1").status, 201);
    assert_eq!(serve.stop(), Some(0));
    backup(folder.path(), "copy.db");
    let hours = |flags: &[&str]| {
        let flags = [&["--replace"], flags].concat();
        let told = restore(folder.path(), "copy.db", &flags);
        let time = |name: &str| told[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        (time("ask_first_until") - time("as_of")).as_hours()
    };
    assert_eq!(hours(&[]), 72);
    assert_eq!(hours(&["--response-ttl", "100h"]), 100);
}
