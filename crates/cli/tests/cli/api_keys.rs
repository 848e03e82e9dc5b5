//! `unavez api-keys`, and the service that reads its file.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Serve, folder, order_body, run, send};

fn add(folder: &std::path::Path, arguments: &[&str]) -> serde_json::Value {
    run(folder, ["api-keys", "add", "--file", "keys", "--format", "json"].iter().chain(arguments)).json(0)
}

#[test]
fn a_key_is_shown_once_and_its_file_holds_hashes() {
    let folder = folder();
    let added = add(folder.path(), &["shop", "--role", "charge,read", "--name", "checkout"]);
    let key = added["key"].as_str().unwrap();
    let path = folder.path().join("keys");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(key));
    assert_eq!(text, format!("{}\n", added["line"].as_str().unwrap()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let listed = run(folder.path(), ["api-keys", "list", "--file", "keys", "--format", "json"]).json(0);
    assert_eq!(listed["keys"][0]["tenant"], "shop");
    assert_eq!(listed["keys"][0]["roles"], serde_json::json!(["charge", "read"]));
    assert_eq!(listed["keys"][0]["name"], "checkout");
}

#[test]
fn without_a_file_the_line_is_only_printed() {
    let folder = folder();
    let added = run(folder.path(), ["api-keys", "add", "shop", "--format", "json"]).json(0);
    assert_eq!(added["file"], serde_json::Value::Null);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn mistakes_change_nothing() {
    let folder = folder();
    let path = folder.path().join("keys");
    let refused = |arguments: &[&str], said: &str| {
        run(folder.path(), ["api-keys"].iter().chain(arguments)).fails_with(2, &[said]);
    };
    refused(&["add", "", "--file", "keys"], "tenant: ");
    refused(&["add", "shop", "--role", "king", "--file", "keys"], "--role: ");
    refused(&["add", "shop", "--name", "two words", "--file", "keys"], "--name: ");
    assert!(!path.exists());
    refused(&["list", "--file", "keys"], "keys");
    refused(&["revoke", "x", "--file", "keys"], "keys: No such file");
    std::fs::write(&path, "shop charge abc\n").unwrap();
    refused(&["add", "shop", "--file", "keys"], "line 1: sha256 has 3 characters");
    refused(&["list", "--file", "keys"], "sha256 has 3 characters");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "shop charge abc\n");
}

#[test]
fn keys_let_in_and_a_revoked_one_no_longer_after_sighup() {
    let folder = folder();
    let key_of =
        |added: serde_json::Value| format!("Authorization: Bearer {}", added["key"].as_str().unwrap());
    let shop = key_of(add(folder.path(), &["shop", "--name", "checkout"]));
    let reader = key_of(add(folder.path(), &["shop", "--role", "read"]));
    let serve = Serve::start_with(folder.path(), &["--api-keys-file", "keys"]);
    let charge = |bearer: &str, key: &str| {
        let key = format!("Idempotency-Key: {key}");
        send(serve.address, "POST", "/v1/charges", &[bearer, &key], Some(&order_body("1"))).unwrap()
    };
    assert_eq!(charge("X-Nothing: 1", "k").status, 401);
    assert_eq!(charge("Authorization: Bearer wrong", "k").header("www-authenticate"), Some("Bearer"));
    assert_eq!(charge(&reader, "k").status, 403);
    assert_eq!(charge(&shop, "k").status, 201);

    run(folder.path(), ["api-keys", "revoke", "checkout", "--file", "keys", "--format", "json"]).json(0);
    assert_eq!(charge(&shop, "k").status, 201, "the file is read on SIGHUP only");
    let (address, pid) = (serve.address, serve.pid());
    crate::support::signal(pid, "HUP");
    serve.logs("API keys read anew");
    let refused =
        send(address, "POST", "/v1/charges", &[&shop, "Idempotency-Key: k"], Some(&order_body("1"))).unwrap();
    assert_eq!(refused.status, 401);

    std::fs::write(folder.path().join("keys"), "nonsense\n").unwrap();
    crate::support::signal(pid, "HUP");
    serve.logs("those in force stay");
    let list = send(address, "GET", "/v1/charges", &[&reader], None).unwrap();
    assert_eq!((list.status, list.json()["data"].as_array().unwrap().len()), (200, 1));
}

#[test]
fn keys_added_later_are_refused_while_somebody_could_repeat_without() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    assert_eq!(serve.charge("k", "1").status, 201);
    assert_eq!(serve.stop(), Some(0));
    let key = add(folder.path(), &["shop"])["key"].as_str().unwrap().to_owned();
    let refused = run(folder.path(), ["serve", "--listen", "127.0.0.1:0", "--api-keys-file", "keys"]);
    refused.fails_with(2, &["--default-tenant"]);

    let serve = Serve::start_with(folder.path(), &["--api-keys-file", "keys", "--default-tenant", "shop"]);
    let bearer = format!("Authorization: Bearer {key}");
    let headers = [bearer.as_str(), "Idempotency-Key: k"];
    let replay = send(serve.address, "POST", "/v1/charges", &headers, Some(&order_body("1"))).unwrap();
    assert_eq!((replay.status, replay.header("idempotent-replayed")), (201, Some("true")));
}

#[test]
fn a_tenant_whose_line_would_be_a_comment_is_refused() {
    let folder = folder();
    run(folder.path(), ["api-keys", "add", "#x", "--file", "keys"])
        .fails_with(2, &["tenant #x", "comment of the key file"]);
    assert!(!folder.path().join("keys").exists());
}
