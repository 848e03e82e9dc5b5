//! `unavez keys` and `unavez migrate`: a database file from beside and from outside.

use std::path::Path;

use crate::support::{Serve, folder, run, write};

fn list(folder: &Path, flags: &[&str]) -> serde_json::Value {
    run(folder, ["keys", "list", "--format", "json"].iter().chain(flags)).json(0)
}

#[test]
fn keys_are_seen_while_the_service_runs_and_after() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    for n in 1..=5 {
        assert_eq!(serve.charge(&format!("key-{n}"), &format!("order-{n}")).status, 201);
    }
    let wire = serve.get("/v1/idempotency-keys/key-3", &[]).json();
    let check = || {
        let page = list(folder.path(), &["--limit", "2"]);
        let keys: Vec<&str> =
            page["keys"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
        assert_eq!(keys, ["key-5", "key-4"]);
        let next = page["next"].as_u64().unwrap().to_string();
        let rest = list(folder.path(), &["--after", &next]);
        assert_eq!((rest["keys"].as_array().unwrap().len(), &rest["next"]), (3, &serde_json::Value::Null));

        let shown = run(folder.path(), ["keys", "show", "key-3", "--format", "json"]).json(0);
        for member in ["key", "state", "outcome", "attempts", "status", "resource_id", "operation_id"] {
            assert_eq!(shown[member], wire[member], "{member}");
        }
        let text = run(folder.path(), ["keys", "show", "key-3"]).stdout;
        assert!(text.contains(wire["resource_id"].as_str().unwrap()), "{text}");
    };
    check();
    assert_eq!(serve.stop(), Some(0));
    check();
}

#[test]
fn lists_are_narrowed_by_tenant_and_state() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    serve.charge("k", "1");
    assert_eq!(list(folder.path(), &["--state", "finished"])["keys"].as_array().unwrap().len(), 1);
    assert_eq!(list(folder.path(), &["--state", "unknown"])["keys"].as_array().unwrap().len(), 0);
    assert_eq!(list(folder.path(), &["--tenant", "other"])["keys"].as_array().unwrap().len(), 0);
    run(folder.path(), ["keys", "list", "--state", "lost"]).fails_with(2, &["in_progress, pending"]);
    run(folder.path(), ["keys", "show", "k", "--tenant", "other"])
        .fails_with(1, &["tenant other has no record"]);
    run(folder.path(), ["keys", "show", "é"]).fails_with(2, &["KEY"]);
}

#[test]
fn what_is_no_database_exits_3_and_is_left_alone() {
    let folder = folder();
    for command in [["keys", "list"], ["migrate", "--check"]] {
        run(folder.path(), command).fails_with(3, &["unavez.db: there is no database"]);
    }
    assert!(!folder.path().join("unavez.db").exists());
    write(folder.path(), "unavez.db", &"not a database ".repeat(100));
    for command in
        [["keys", "list"].as_slice(), &["migrate"], &["keys", "purge", "--target", "http://127.0.0.1:9"]]
    {
        run(folder.path(), command).fails_with(3, &["not a sqlite database"]);
    }
    for command in [["keys", "list"], ["keys", "purge"], ["migrate", "--check"]] {
        let refused = run(folder.path(), command.into_iter().chain(["--store", "memory:"]));
        refused.fails_with(2, &["expected sqlite:PATH"]);
        assert!(!refused.stderr.contains("or memory:"), "{refused:?}");
    }
}

#[test]
fn purge_goes_through_the_service_or_opens_the_file() {
    let folder = folder();
    let serve = Serve::start_with(
        folder.path(),
        &["--operation-timeout", "1s", "--store-timeout", "100ms", "--response-ttl", "1s"],
    );
    serve.charge("k", "1");
    let target = format!("http://{}", serve.address);
    let purge = |target: &str| run(folder.path(), ["keys", "purge", "--target", target, "--format", "json"]);
    assert!(purge(&target).json(0)["purged"].is_u64());
    let nobody = "http://127.0.0.1:9";
    purge(nobody).fails_with(3, &["is owned by process", "nothing answers at http://127.0.0.1:9"]);
    assert_eq!(serve.charge("k", "1").status, 201, "the charge is there, whatever became of its record");
    assert_eq!(serve.stop(), Some(0));
    assert!(purge(nobody).json(0)["purged"].is_u64());
}

#[test]
fn purge_needs_the_operator_role_and_json() {
    let folder = folder();
    let key = run(
        folder.path(),
        ["api-keys", "add", "shop", "--role", "charge", "--file", "keys", "--format", "json"],
    )
    .json(0);
    write(folder.path(), "key", key["key"].as_str().unwrap());
    let serve = Serve::start_with(folder.path(), &["--api-keys-file", "keys"]);
    let target = format!("http://{}", serve.address);
    run(folder.path(), ["keys", "purge", "--target", &target]).fails_with(3, &["401", "--api-key-file"]);
    run(folder.path(), ["keys", "purge", "--target", &target, "--api-key-file", "key"])
        .fails_with(3, &["403", "operator"]);

    let open = Serve::start_with(folder.path(), &["--store", "memory:"]);
    let form = ["Content-Type: application/x-www-form-urlencoded"];
    let refused = crate::support::send(open.address, "POST", "/admin/keys/purge", &form, Some("")).unwrap();
    assert_eq!(refused.status, 415, "a form of another site's page changes nothing");
}

#[test]
fn p9_a_purge_waits_until_a_stepped_clock_is_confirmed() {
    let folder = folder();
    run(folder.path(), ["migrate", "--format", "json"]).json(0);
    // As if the wall clock had gone an hour forth since, while the machine's uptime did not.
    meddle(folder.path(), "update unavez_store set confirmed_wall = confirmed_wall - 3600000000");
    let purge = ["keys", "purge", "--target", "http://127.0.0.1:1"];
    run(folder.path(), purge).fails_with(3, &["clock stepped", "--confirm-clock"]);
    let confirmed =
        ["keys", "purge", "--target", "http://127.0.0.1:1", "--confirm-clock", "--format", "json"];
    assert_eq!(run(folder.path(), confirmed).json(0)["purged"], 0);
    assert_eq!(run(folder.path(), [&purge[..], &["--format", "json"]].concat()).json(0)["purged"], 0);
}

#[test]
fn migrate_makes_and_checks_a_database() {
    let folder = folder();
    let made = run(folder.path(), ["migrate", "--format", "json"]).json(0);
    assert_eq!(made["up_to_date"], true);
    let migrations = made["migrations"].as_array().unwrap();
    assert!(
        migrations.iter().any(|it| it["component"] == "store")
            && migrations.iter().any(|it| it["component"] == "payments")
    );
    assert!(migrations.iter().all(|it| it["is_new"] == true));
    assert_eq!(made["created"], true);
    let again = run(folder.path(), ["migrate", "--check", "--format", "json"]).json(0);
    assert_eq!(again["created"], false);
    let other = run(folder.path(), ["migrate", "--store", "sqlite:typo.db"]);
    assert!(other.stdout.contains("created the new database typo.db"), "{other:?}");
    assert!(again["migrations"].as_array().unwrap().iter().all(|it| it["is_new"] == false));
    let serve = Serve::start(folder.path());
    run(folder.path(), ["migrate"]).fails_with(3, &["is owned by process", &serve.pid().to_string()]);
    let beside = run(folder.path(), ["migrate", "--check", "--format", "json"]).json(0);
    assert_eq!(beside["up_to_date"], true, "only reads, so the owner is not in the way");
}

/// Writes into a database behind everybody's back.
fn meddle(folder: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(folder.join("unavez.db")).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
}

#[test]
fn an_older_database_is_seen_by_the_check_and_not_touched_by_it() {
    let folder = folder();
    run(folder.path(), ["migrate"]);
    meddle(
        folder.path(),
        "delete from unavez_migrations where component = 'payments' and number =
         (select max(number) from unavez_migrations where component = 'payments')",
    );
    for _ in 0..2 {
        run(folder.path(), ["migrate", "--check"]).fails_with(1, &["is older than this program", "payments"]);
    }
}

#[test]
fn a_newer_database_exits_3_and_says_so() {
    let folder = folder();
    run(folder.path(), ["migrate"]);
    meddle(folder.path(), "insert into unavez_migrations values ('store', 999, 'from-the-future', 'x', 0)");
    for command in [["serve", "--listen", "127.0.0.1:0"].as_slice(), &["migrate"], &["migrate", "--check"]] {
        run(folder.path(), command)
            .fails_with(3, &["is newer than this program", "999", "help: a newer unavez wrote"]);
    }
}
