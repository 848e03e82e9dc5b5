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
