//! `unavez lab`, as scripts call it.

use std::net::TcpListener;
use std::path::Path;

use crate::support::{Ran, Serve, folder, run, signal_when_caught, unavez};

#[test]
fn a_small_fleet_is_charged_as_ordered_and_told_in_json() {
    let folder = folder();
    let flags =
        ["lab", "fleet", "--orders", "30", "--loss", "0.3", "--report", "fleet.html", "--format", "json"];
    let figures = run(folder.path(), flags).json(0);
    assert_eq!((&figures["seed"], &figures["orders"]), (&42.into(), &30.into()));
    assert_eq!(figures["after"]["total_charged"], figures["intent"]["total"]);
    assert_eq!(figures["before"]["requests"], figures["after"]["requests"]);
    assert!(
        std::fs::read_to_string(folder.path().join("fleet.html")).unwrap().starts_with("<!doctype html>")
    );
}

#[test]
fn a_broken_fleet_exits_1() {
    let folder = folder();
    let flags =
        ["lab", "fleet", "--orders", "30", "--loss", "0.5", "--break", "key-per-attempt", "--format", "json"];
    let figures = run(folder.path(), flags).json(1);
    assert!(figures["after"]["overcharge"].as_u64().unwrap() > 0);
}

#[test]
fn the_tests_pass_and_begin_with_the_three_of_the_mission() {
    let folder = folder();
    let report = run(folder.path(), ["lab", "accept", "--format", "json"]).json(0);
    let tests = report["tests"].as_array().unwrap();
    assert_eq!((report["failed"].as_u64(), report["skipped"].as_u64()), (Some(0), Some(0)), "{report}");
    assert_eq!(report["passed"].as_u64(), Some(tests.len() as u64));
    let first: Vec<(&str, u64, u64)> = tests
        .iter()
        .take(3)
        .map(|it| {
            (it["name"].as_str().unwrap(), it["charges"].as_u64().unwrap(), it["total"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        first,
        [("retries-same-key", 1, 500), ("distinct-operations", 2, 1000), ("concurrent-race", 1, 500)]
    );
}

#[test]
fn with_check_then_write_the_table_looks_perfect_and_the_race_fails() {
    let folder = folder();
    let piece = ["--break", "check-then-write", "--format", "json"];
    let figures = run(folder.path(), ["lab", "fleet", "--orders", "30"].iter().chain(&piece)).json(0);
    assert_eq!(figures["after"]["overcharge"], 0);
    let report = run(folder.path(), ["lab", "accept"].iter().chain(&piece)).json(1);
    let failed: Vec<&str> = report["tests"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["result"] == "failed")
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["concurrent-race"]);
}

#[test]
fn every_missing_piece_is_caught_as_predicted() {
    let folder = folder();
    let report = run(folder.path(), ["lab", "break", "--format", "json"]).json(0);
    let mutations = report["mutations"].as_array().unwrap();
    assert_eq!(mutations.len(), 15);
    assert!(mutations.iter().all(|it| it["as_predicted"] == true), "{report}");
    for (name, test, charges, total) in [
        ("key-per-attempt", "retries-same-key", 3, 1500),
        ("key-from-amount", "distinct-operations", 1, 500),
        ("check-then-write", "concurrent-race", 2, 1000),
        ("one-clock", "declined-is-replayed", 2, 1000),
        ("no-visibility-delay", "late-arrival", 2, 1000),
        ("webhook-twice", "pending-then-webhook", 2, 1000),
        ("new-operation-id-on-reclaim", "zombie-reclaimed-once", 2, 1000),
    ] {
        let mutation = mutations.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(mutation["breaks"], serde_json::json!([test]));
        assert_eq!(mutation["observed"][test], serde_json::json!({"charges": charges, "total": total}));
    }
}

#[test]
fn a_small_day_is_told_in_json_and_on_a_page() {
    let folder = folder();
    let flags =
        ["lab", "day", "--operations", "600", "--ttl", "1h", "--report", "day.html", "--format", "json"];
    let day = run(folder.path(), flags).json(0);
    for world in ["ttl", "no_ttl"] {
        for series in ["rows_by_hour", "bytes_by_hour"] {
            assert_eq!(day[world][series].as_array().unwrap().len(), 24, "{world} {series}");
        }
    }
    assert_eq!(day["no_ttl"]["rows_by_hour"][23], 600);
    assert!(day["ttl"]["rows_by_hour"][23].as_u64().unwrap() < 100, "{day}");
    assert_eq!(
        (&day["repeat_within_ttl"], &day["repeat_after_ttl"]),
        (&"replayed".into(), &"existing-resource".into())
    );
    let page = std::fs::read_to_string(folder.path().join("day.html")).unwrap();
    assert!(page.contains("unavez lab day --seed 42 --operations 600 --ttl 1h --days 1"));
}

#[test]
fn a_small_herd_is_told_in_json_and_on_a_page() {
    let folder = folder();
    let flags = [
        "lab",
        "herd",
        "--clients",
        "60",
        "--outage",
        "4s",
        "--loss",
        "0.1",
        "--report",
        "herd.html",
        "--format",
        "json",
    ];
    let herd = run(folder.path(), flags).json(0);
    let strategies = herd["strategies"].as_array().unwrap();
    let names: Vec<&str> = strategies.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["no-backoff", "fixed", "exponential", "full-jitter", "full-jitter-budget", "full-jitter-breaker"]
    );
    for strategy in strategies {
        assert_eq!(
            (&strategy["charges"], &strategy["double_charges"]),
            (&60.into(), &0.into()),
            "{strategy}"
        );
        let attempts = strategy["attempts"].as_u64().unwrap();
        assert!(attempts >= 60 && strategy["amplification"].as_f64().unwrap() >= 1.0, "{strategy}");
        assert!(strategy["peak_per_100ms"].is_u64() && strategy["served_after_s"].is_f64(), "{strategy}");
        assert!(strategy["without_engine"]["double_charges"].as_u64().unwrap() > 0, "{strategy}");
    }
    let page = std::fs::read_to_string(folder.path().join("herd.html")).unwrap();
    assert!(page.contains("unavez lab herd --seed 42 --clients 60"));
}

#[test]
fn a_breaker_is_told_in_json_and_on_a_page() {
    let folder = folder();
    let flags = ["lab", "breaker", "--report", "breaker.html", "--lang", "es", "--format", "json"];
    let breaker = run(folder.path(), flags).json(0);
    let worlds = breaker["worlds"].as_array().unwrap();
    let names: Vec<&str> = worlds.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["with-engine", "without-engine", "health-probes"]);
    let sum = |world: &serde_json::Value| -> u64 {
        ["before", "during", "after"].iter().map(|phase| world["charges"][phase].as_u64().unwrap()).sum()
    };
    assert_eq!((sum(&worlds[0]), &worlds[0]["double_charges"]), (900, &0.into()));
    assert_eq!(sum(&worlds[1]), 900 + worlds[1]["double_charges"].as_u64().unwrap());
    assert!(worlds[1]["double_charges_of_probes"].as_u64().unwrap() > 0);
    let page = std::fs::read_to_string(folder.path().join("breaker.html")).unwrap();
    assert!(page.contains("<html lang=\"es\">") && page.contains("unavez lab breaker --seed 42"));
}

#[test]
fn keys_are_told_in_json_with_what_each_charged() {
    let folder = folder();
    let keys = run(folder.path(), ["lab", "keys", "--format", "json"]).json(0);
    assert_eq!(
        (&keys["accept"]["random"]["failed"], &keys["accept"]["derived"]["failed"]),
        (&0.into(), &0.into())
    );
    let situations = keys["situations"].as_array().unwrap();
    let forgets = situations.iter().find(|it| it["name"] == "client-forgets").unwrap();
    let random = forgets["keys"].as_array().unwrap().iter().find(|it| it["made_of"] == "random").unwrap();
    assert_eq!(
        (&random["charges"], &random["total"], &random["right"]),
        (&2.into(), &1000.into(), &false.into())
    );
    assert_eq!(random["sent"][0]["status"], serde_json::Value::Null);
}

#[test]
fn a_herd_that_cannot_be_is_refused_with_its_limits() {
    let folder = folder();
    for (flags, said) in [
        (["--fault", "flood"], "there are outage, silence, overload"),
        (["--clients", "0"], "from 1 to 20000"),
        (["--outage", "0s"], "longer than 0"),
        (["--outage", "11m"], "outage is 660 s; at most 600 s"),
        (["--loss", "2"], "loss 2 is not from 0 to 1"),
    ] {
        run(folder.path(), ["lab", "herd"].iter().chain(&flags)).fails_with(2, &[said]);
    }
    let spanish = ["lab", "breaker", "--outage", "11m", "--lang", "es"];
    run(folder.path(), spanish).fails_with(2, &["outage es 660 s; a lo sumo 600 s"]);
}

#[test]
fn everything_is_told_on_one_page_and_in_one_document() {
    let folder = folder();
    let sizes = ["lab", "all", "--orders", "5", "--operations", "300", "--clients", "20", "--lang", "es"];
    let everything =
        run(folder.path(), sizes.iter().chain(&["--report", "all.html", "--format", "json"])).json(0);
    for measurement in ["fleet", "sweep", "accept", "break", "keys", "day", "herd", "breaker"] {
        assert!(everything[measurement].is_object(), "{measurement} is not there");
    }
    let claim = everything["rules"].as_array().unwrap().iter().find(|it| it["rule"] == "P8").unwrap();
    assert_eq!(claim["tests"], serde_json::json!(["concurrent-race", "after-kill"]));
    let page = std::fs::read_to_string(folder.path().join("all.html")).unwrap();
    assert!(page.contains("<html lang=\"es\">") && page.contains("Cobrado exactamente una vez"), "{page}");
    assert!(page.contains("unavez lab fleet --seed 42 --orders 5 "));
}

#[test]
fn what_goes_wrong_is_said_in_the_language_asked_for() {
    let folder = folder();
    let spanish = ["--target", "http://127.0.0.1:9", "--lang", "es"];
    run(folder.path(), ["lab", "accept"].iter().chain(&spanish))
        .fails_with(3, &["destino http://127.0.0.1:9"]);
    run(folder.path(), ["lab", "day", "--lang", "es", "--report", "no/such.html"])
        .fails_with(3, &["no se puede escribir el informe no/such.html"]);
}

#[test]
fn a_ttl_shorter_than_an_attempt_is_refused() {
    let folder = folder();
    run(folder.path(), ["lab", "day", "--ttl", "30s"]).fails_with(2, &["ttl: "]);
}

#[test]
fn a_running_service_is_measured_alone() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let target = format!("http://{}", serve.address);
    let figures =
        run(folder.path(), ["lab", "fleet", "--orders", "10", "--target", &target, "--format", "json"])
            .json(0);
    assert!(figures["before"].is_null());
    let tests = run(folder.path(), ["lab", "accept", "--target", &target, "--format", "json"]).json(0);
    assert_eq!(tests["failed"], 0);
}

#[test]
fn wrong_use_exits_2_and_an_unreachable_target_3() {
    let folder = folder();
    for (flags, said) in [
        (["--loss", "1.5"], "loss 1.5 is not from 0 to 1"),
        (["--break", "nothing"], "key-per-attempt"),
        (["--attempts", "0"], "from 1 to 1000"),
        (["--target", "ftp://x"], "http://"),
        (["--api-key-file", "x"], "belong to --target"),
    ] {
        run(folder.path(), ["lab", "fleet"].iter().chain(&flags)).fails_with(2, &[said]);
    }
    run(folder.path(), ["lab", "fleet", "--target", "http://127.0.0.1:9"]).fails_with(3, &["127.0.0.1:9"]);
}

#[test]
fn a_signal_ends_a_run_and_leaves_nothing_behind() {
    for (command, signal) in [
        ("fleet", "INT"),
        ("accept", "TERM"),
        ("break", "INT"),
        ("day", "INT"),
        ("keys", "TERM"),
        ("herd", "INT"),
        ("all", "INT"),
    ] {
        let folder = folder();
        let child = unavez(folder.path())
            .args(["lab", command])
            .env("TMPDIR", folder.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        signal_when_caught(child.id(), signal);
        let said = format!("`unavez lab {command}` was interrupted");
        Ran::new(child.wait_with_output().unwrap()).fails_with(130, &[&said]);
        assert_eq!(entries(folder.path()), Vec::<String>::new(), "{command}");
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_runs() {
    let folder = folder();
    for command in ["fleet", "accept", "break", "day", "keys", "herd", "breaker", "all"] {
        // A target that is not there: had anything run, that would be the complaint.
        let flags: &[&str] = match command {
            "fleet" | "accept" => &["--report", "no/such/page.html", "--target", "http://127.0.0.1:9"],
            _ => &["--report", "no/such/page.html"],
        };
        run(folder.path(), ["lab", command].iter().chain(flags)).fails_with(3, &["report no/such/page.html"]);
    }
}

#[test]
fn a_target_that_never_answers_is_not_waited_for() {
    let folder = folder();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("http://{}", silent.local_addr().unwrap());
    for command in [["lab", "fleet"], ["lab", "accept"], ["keys", "purge"]] {
        run(folder.path(), command.into_iter().chain(["--target", &target]))
            .fails_with(3, &[&target, "no answer within 10 s"]);
    }
}
