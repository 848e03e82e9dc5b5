//! Settings from flags, environment and file.

use std::path::Path;

use serde_json::Value;

use crate::support::{Ran, folder, run, unavez, write};

/// One setting as `unavez config` shows it.
fn setting<'a>(document: &'a Value, section: &str, key: &str) -> &'a Value {
    let settings = document["settings"].as_array().unwrap();
    settings.iter().find(|it| it["section"] == section && it["key"] == key).expect("it is listed")
}

fn with_variable(folder: &Path, name: &str, value: &str, arguments: &[&str]) -> Ran {
    Ran::new(unavez(folder).args(arguments).env(name, value).output().unwrap())
}

#[test]
fn each_value_is_shown_with_its_source() {
    let folder = folder();
    write(
        folder.path(),
        "unavez.toml",
        "[serve]\nresponse-ttl = \"2h\"\nlock-wait = \"5s\"\n[lab.fleet]\nseed = 7\n",
    );
    let shown = unavez(folder.path())
        .args(["config", "--format", "json"])
        .env("UNAVEZ_SERVE_LOCK_WAIT", "6s")
        .output()
        .map(Ran::new)
        .unwrap()
        .json(0);
    assert_eq!(shown["file"], "unavez.toml");
    let check = |section: &str, key: &str, value: Value, source: &str| {
        let seen = setting(&shown, section, key);
        assert_eq!((&seen["value"], seen["source"].as_str()), (&value, Some(source)), "{section} {key}");
    };
    check("serve", "listen", "127.0.0.1:8080".into(), "default");
    check("serve", "response-ttl", "2h".into(), "file");
    check("serve", "lock-wait", "6s".into(), "environment");
    check("serve", "realm", Value::Null, "default");
    check("lab.fleet", "seed", "7".into(), "file");
    assert_eq!(setting(&shown, "lab.fleet", "seed")["variable"], "UNAVEZ_LAB_FLEET_SEED");

    let flags = ["config", "serve", "--format", "json", "--", "--lock-wait", "7s"];
    let shown = with_variable(folder.path(), "UNAVEZ_SERVE_LOCK_WAIT", "6s", &flags).json(0);
    assert_eq!(setting(&shown, "serve", "lock-wait")["source"], "flag");
    assert_eq!(setting(&shown, "serve", "lock-wait")["value"], "7s");
}

#[test]
fn values_of_file_and_environment_reach_the_command() {
    let folder = folder();
    write(folder.path(), "other.toml", "[explain]\nformat = \"json\"\n");
    let named = run(folder.path(), ["--config", "other.toml", "explain", "not-found"]);
    assert_eq!(named.json(0)["code"], "not-found");
    let by_variable = with_variable(folder.path(), "UNAVEZ_CONFIG", "other.toml", &["explain", "not-found"]);
    assert_eq!(by_variable.json(0)["code"], "not-found");
    let flag_wins =
        run(folder.path(), ["--config", "other.toml", "explain", "not-found", "--format", "text"]);
    assert!(flag_wins.stdout.starts_with("not-found"));
    let variable = with_variable(folder.path(), "UNAVEZ_EXPLAIN_FORMAT", "json", &["explain", "not-found"]);
    assert_eq!(variable.json(0)["code"], "not-found");
}

#[test]
fn mistakes_are_refused_whatever_the_command() {
    let folder = folder();
    let refused = |text: &str, said: &str| {
        write(folder.path(), "unavez.toml", text);
        run(folder.path(), ["explain"]).fails_with(2, &["unavez.toml: ", said]);
    };
    refused("[serv]\n", "the nearest known one is [serve]");
    refused("[serve]\nresponse_ttl = \"1h\"\n", "the nearest known one is `response-ttl`");
    refused("[serve]\nresponse-ttl = \"1x\"\n", "`1x` is not accepted: `x` is not a unit");
    refused("[serve]\nstore = \"postgres://h\"\n", "`postgres:` is not a store of this version");
    refused(
        "[serve]\nacquirer = \"paypal\"\n",
        "expected ledger, sandbox, http://HOST:PORT, stripe or mercadopago",
    );
    run(folder.path(), ["--config", "missing.toml", "explain"])
        .fails_with(2, &["missing.toml: cannot be read"]);
}

#[test]
fn unknown_variables_warn_and_fail_the_check() {
    let folder = folder();
    let warned = with_variable(folder.path(), "UNAVEZ_SERVE_LISTN", "x", &["explain", "not-found"]);
    assert_eq!(warned.code, Some(0));
    assert!(
        warned
            .stderr
            .contains("UNAVEZ_SERVE_LISTN names no setting; the nearest known one is UNAVEZ_SERVE_LISTEN")
    );
    let checked = with_variable(folder.path(), "UNAVEZ_SERVE_LISTN", "x", &["config", "--check"]);
    checked.fails_with(2, &["UNAVEZ_SERVE_LISTN names no setting"]);
}

#[test]
fn p13_timings_that_contradict_each_other_are_refused() {
    let folder = folder();
    let check = |flags: &[&str]| run(folder.path(), ["config", "serve", "--check", "--"].iter().chain(flags));
    assert_eq!(check(&[]).code, Some(0));
    let ledger = ["--acquirer", "ledger", "--operation-timeout", "6s", "--store-timeout"];
    assert_eq!(check(&[&ledger[..], &["2500ms"]].concat()).code, Some(0));
    check(&["--operation-timeout", "6s", "--store-timeout", "2500ms"])
        .fails_with(2, &["contradict", "35s", "5s", "--operation-timeout", "--store-timeout"]);
    assert_eq!(check(&["--operation-timeout", "6s", "--acquirer-timeout", "30s"]).code, Some(0), "cut down");
    check(&[&ledger[..], &["2501ms"]].concat())
        .fails_with(2, &["contradict", "5.002s", "5s", "--operation-timeout", "--store-timeout"]);
    check(&["--response-ttl", "59s"]).fails_with(2, &["contradict", "59s", "60s", "--response-ttl"]);
    run(folder.path(), ["serve", "--response-ttl", "59s"]).fails_with(2, &["contradict", "59s", "60s"]);
}

#[test]
fn the_example_shows_every_key_and_is_the_file_in_the_documentation() {
    let folder = folder();
    let example = run(folder.path(), ["config", "--example"]).stdout;
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/unavez.toml.example");
    let documented = std::fs::read_to_string(documented).unwrap();
    assert_eq!(documented, example, "renew it with: unavez config --example > docs/unavez.toml.example");
    assert_eq!(run(folder.path(), ["config"]).code, Some(0));

    // As it stands it sets nothing; with every default switched on it sets what is in force anyway.
    write(folder.path(), "unavez.toml", &example);
    assert_eq!(run(folder.path(), ["config", "--check"]).code, Some(0));
    let switched_on: String = example
        .lines()
        .filter(|line| !line.ends_with("# no default"))
        .map(|line| {
            format!("{}\n", line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line))
        })
        .collect();
    write(folder.path(), "unavez.toml", &switched_on);
    let shown = run(folder.path(), ["config", "--format", "json"]);
    let by_file = shown.json(0);
    std::fs::remove_file(folder.path().join("unavez.toml")).unwrap();
    let by_default = run(folder.path(), ["config", "--format", "json"]).json(0);
    let pairs =
        by_file["settings"].as_array().unwrap().iter().zip(by_default["settings"].as_array().unwrap());
    for (file, default) in pairs {
        let (section, key) = (&default["section"], default["key"].as_str().unwrap());
        assert_eq!((&file["value"], &file["key"]), (&default["value"], &default["key"]), "{section} {key}");
        let has_default = !default["value"].is_null();
        assert_eq!(file["source"] == "file", has_default, "{section} {key}");
        assert!(example.contains(&format!("\n#{key} = ")), "{section} {key} is not shown");
    }
}
