//! `unavez trace`: one command that says whether an order was charged twice.

use crate::support::{Serve, folder, run, send};

#[test]
fn answers_beside_the_service_and_after_it() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    for key in ["first", "first", "second"] {
        assert_eq!(serve.charge(key, "order-7").status, 201);
    }
    assert_eq!(serve.charge("other", "order-8").status, 201);
    let check = || {
        let twice = run(folder.path(), ["trace", "order-7", "--format", "json"]).json(0);
        let order = &twice["orders"][0];
        assert_eq!(
            (order["charged_twice"].as_bool(), order["verdict"].as_str()),
            (Some(true), Some("several_keys"))
        );
        let charges = order["charges"].as_array().unwrap();
        assert_eq!(charges.len(), 2);
        assert_eq!(charges[1]["suspected_duplicate_of"], charges[0]["id"]);
        let text = run(folder.path(), ["trace", charges[1]["id"].as_str().unwrap()]).stdout;
        assert!(text.contains("YES: 2 charges under 2 keys, 50.00 EUR in all"), "{text}");
        let once = run(folder.path(), ["trace", "other", "--format", "json"]).json(0);
        assert_eq!(once["orders"][0]["charged_twice"], false);
    };
    check();
    assert_eq!(serve.stop(), Some(0));
    check();
}

#[test]
fn what_nobody_knows_exits_1_and_says_where_it_looked() {
    let folder = folder();
    run(folder.path(), ["trace", "x"]).fails_with(3, &["unavez.db: there is no database"]);
    run(folder.path(), ["migrate"]);
    run(folder.path(), ["trace", "order-7"])
        .fails_with(1, &["nothing in unavez.db goes by the name `order-7`"]);
    run(folder.path(), ["trace", "order-7", "--tenant", "shop"]).fails_with(1, &["nothing of tenant shop"]);
}

#[test]
fn a_key_that_made_no_charge_is_shown_alone() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let path = "/v1/idempotency-keys/never/cancel";
    let cancel = send(serve.address, "POST", path, &["Idempotency-Key: c"], Some("{}")).unwrap();
    assert_eq!(cancel.status, 200, "{cancel:?}");
    let found = run(folder.path(), ["trace", "never", "--format", "json"]).json(0);
    assert_eq!(
        (found["orders"].as_array().unwrap().len(), &found["keys"][0]["outcome"]),
        (0, &"cancelled".into())
    );
    let text = run(folder.path(), ["trace", "never"]).stdout;
    assert!(text.contains("Key never of tenant default made no charge."), "{text}");
}

#[test]
fn what_is_proposed_carries_an_api_key_where_callers_have_them() {
    let folder = folder();
    let added = ["api-keys", "add", "shop", "--role", "charge", "--file", "keys", "--format", "json"];
    let key = run(folder.path(), added).json(0)["key"].as_str().unwrap().to_owned();
    let serve = Serve::start_with(folder.path(), &["--api-keys-file", "keys"]);
    let bearer = format!("Authorization: Bearer {key}");
    for key in ["Idempotency-Key: a", "Idempotency-Key: b"] {
        let body = crate::support::order_body("o-1");
        let charged = send(serve.address, "POST", "/v1/charges", &[key, &bearer], Some(&body)).unwrap();
        assert_eq!(charged.status, 201, "{charged:?}");
    }
    let at = format!("http://{}", serve.address);
    let page = run(folder.path(), ["trace", "o-1", "--target", &at]).stdout;
    assert!(page.contains(&format!("curl -X POST {at}/v1/charges/")), "{page}");
    assert!(page.contains("-H \"Authorization: Bearer $KEY\""), "{page}");
    let unnamed = run(folder.path(), ["reconcile", "--since", "1h"]).stdout;
    assert!(unnamed.contains("curl -X POST \"$UNAVEZ_URL\"/v1/charges/"), "{unnamed}");
    assert!(unnamed.contains("Bearer $KEY"), "{unnamed}");
}

#[test]
fn a_replay_leaves_no_trace_and_the_refusal_says_what_does() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let first = serve.charge("k", "o-1");
    let again = serve.charge("k", "o-1");
    let of_replay = again.header("request-id").unwrap();
    run(folder.path(), ["trace", of_replay])
        .fails_with(1, &["replays and refusals leave no trace", "original-request-id"]);
    assert_eq!(again.header("original-request-id"), first.header("request-id"));
    let found = run(folder.path(), ["trace", again.header("original-request-id").unwrap()]);
    assert_eq!(found.code, Some(0), "{found:?}");
}

#[test]
fn a_page_fits_the_terminal_and_a_pipe_gets_it_whole() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    assert_eq!(serve.charge("k", "o-1").status, 201);
    let page = |columns: &str, wide: &[&str]| {
        let mut command = crate::support::unavez(folder.path());
        if !columns.is_empty() {
            command.env("COLUMNS", columns);
        }
        let ran = command.args(["trace", "o-1"]).args(wide).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let is_address = |line: &str| line.split_whitespace().count() < 2;
    let narrow = page("80", &[]);
    let too_long: Vec<&str> =
        narrow.lines().filter(|line| line.chars().count() > 82 && !is_address(line)).collect();
    assert!(too_long.is_empty() && narrow.contains("--wide shows"), "{too_long:?}\n{narrow}");
    for whole in [page("", &[]), page("80", &["--wide"])] {
        assert!(whole.contains("INSTANCE") && !whole.contains('…'), "{whole}");
    }
}
