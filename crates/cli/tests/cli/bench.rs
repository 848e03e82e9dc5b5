//! `unavez bench` against the service and against servers that misbehave.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::Value;

use crate::support::{Ran, Serve, folder, run, signal_when_caught};

/// A second of load on a server that need not say whose money it moves.
fn bench(address: SocketAddr, flags: &[&str]) -> Ran {
    bench_with_care(address, &[&["--i-know"], flags].concat())
}

/// A second of load: enough to be measured, short enough for a test.
fn bench_with_care(address: SocketAddr, flags: &[&str]) -> Ran {
    let url = format!("http://{address}");
    let folder = folder();
    let common = [
        "bench",
        "--url",
        &url,
        "--connections",
        "4",
        "--seconds",
        "1",
        "--warm-up",
        "100ms",
        "--format",
        "json",
    ];
    run(folder.path(), common.iter().chain(flags))
}

#[track_caller]
fn number(report: &Value, name: &str) -> f64 {
    report[name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn measures_new_keys_replays_and_both() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    for mode in ["new", "replay", "mixed"] {
        let report = bench_with_care(serve.address, &["--mode", mode, "--keys", "20"]).json(0);
        assert_eq!(report["mode"], mode);
        assert_eq!(report["errors"], 0, "{report}");
        assert!(number(&report, "requests") > 0.0 && number(&report, "rps") > 0.0);
        assert!((number(&report, "seconds") - 1.0).abs() < 0.5);
        let (p50, p99, p999) =
            (number(&report, "p50_ms"), number(&report, "p99_ms"), number(&report, "p999_ms"));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= p999, "{report}");
    }
}

#[test]
fn lost_outcomes_are_counted_and_left_for_recovery() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let report = bench_with_care(serve.address, &["--mode", "lost", "--keys", "30"]).json(0);
    assert_eq!(
        (&report["mode"], &report["requests"], &report["errors"]),
        (&"lost".into(), &30.into(), &0.into())
    );
    let list = serve.get("/v1/charges?status=created&limit=100", &[]).json();
    assert_eq!(list["data"].as_array().unwrap().len(), 30, "{list}");
}

#[test]
fn one_seed_sends_the_same_keys_and_bodies_again() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let count = |serve: &Serve| {
        serve.get("/v1/ledger/summary", &[]).json()["currencies"][0]["charges"].as_u64().unwrap()
    };
    let flags = ["--mode", "replay", "--keys", "50", "--seed", "7"];
    assert_eq!(bench(serve.address, &flags).json(0)["errors"], 0);
    assert_eq!(count(&serve), 50);
    assert_eq!(bench(serve.address, &flags).json(0)["errors"], 0);
    assert_eq!(count(&serve), 50);
}

/// A server that answers each request with these bytes, n-th request first, and closes where told.
fn answering(answers: impl Fn(usize) -> Option<&'static [u8]> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shared = std::sync::Arc::new((answers, std::sync::atomic::AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = std::sync::Arc::clone(&shared);
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut stream = stream;
                while read_request(&mut reader).is_some() {
                    let n = shared.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(answer) = (shared.0)(n) else { return };
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()
}

const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
const REPLAYED: &[u8] = b"HTTP/1.1 201 Created\r\nidempotent-replayed: true\r\ncontent-length: 2\r\n\r\n{}";

#[test]
fn a_server_without_keys_is_measured_with_any_answer_alone() {
    let address = answering(|_| Some(CREATED));
    let report = bench(address, &["--mode", "replay", "--keys", "5", "--any-answer"]).json(0);
    assert_eq!(report["errors"], 0);
    let report = bench(address, &["--mode", "replay", "--keys", "5"]).json(1);
    assert_eq!(report["errors_by_kind"]["not-replayed"], report["errors"]);
    assert_eq!(report["errors"], report["requests"]);
}

#[test]
fn a_replay_of_a_new_key_breaks_the_promise() {
    let report = bench(answering(|_| Some(REPLAYED)), &[]).json(1);
    assert_eq!(report["errors_by_kind"]["replay-of-new-key"], report["errors"]);
}

#[test]
fn errors_are_counted_by_kind_and_the_rest_is_measured() {
    let address = answering(|n| match n % 5 {
        0 => Some(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"),
        1 => Some(b"HTTP/1.1 201 Created\r\ncontent-len"),
        2 => None,
        3 => Some(b"not http at all\r\n\r\n"),
        _ => Some(CREATED),
    });
    // The answer that stops in the middle is waited for as long as the timeout says.
    let report = bench(address, &["--timeout", "50ms"]).json(0);
    for kind in ["status-503", "timeout", "cut-off", "malformed"] {
        assert!(number(&report["errors_by_kind"], kind) > 0.0, "{kind}: {report}");
    }
    assert!(number(&report, "requests") > number(&report, "errors"));
}

#[test]
fn a_closed_connection_is_opened_again_without_an_error() {
    let report = bench(
        answering(|_| Some(b"HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")),
        &[],
    )
    .json(0);
    assert_eq!(report["errors"], 0, "{report}");
}

#[test]
fn what_cannot_be_measured_exits_3_and_wrong_use_2() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    bench(free, &[]).fails_with(3, &["nothing listens on"]);
    let nothing_good =
        bench(answering(|_| Some(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")), &[]);
    assert_eq!(
        nothing_good.json(3)["errors_by_kind"]["status-404"].as_u64(),
        nothing_good.json(3)["errors"].as_u64()
    );
    let unprepared = bench(
        answering(|_| Some(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")),
        &["--mode", "replay"],
    );
    unprepared.fails_with(3, &["10000 of 10000 keys could not be charged beforehand: status-401"]);
    let folder = folder();
    for (flag, value, said) in [
        ("--url", "https://127.0.0.1", "plain http"),
        ("--connections", "0", "from 1 to 20000"),
        ("--replay-share", "1.5", "a number from 0 to 1"),
        ("--mode", "old", "possible values"),
        ("--api-key-file", "missing", "missing: cannot be read"),
    ] {
        run(folder.path(), ["bench", flag, value]).fails_with(2, &[said]);
    }
}

#[test]
fn a_server_whose_money_may_be_real_is_not_charged() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&asked);
    let address = answering(move |_| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Some(b"HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{\"acquirer\":\"stripe\"}")
    });
    bench_with_care(address, &[]).fails_with(2, &["real money", "stripe", "--i-know"]);
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1, "nothing but /healthz was asked");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    bench_with_care(free, &[]).fails_with(3, &["nothing listens on"]);
}

#[test]
fn ctrl_c_prints_what_was_measured_so_far() {
    let address = answering(|_| Some(CREATED));
    let folder = folder();
    let child = crate::support::unavez(folder.path())
        .args([
            "bench",
            "--i-know",
            "--url",
            &format!("http://{address}"),
            "--warm-up",
            "0s",
            "--seconds",
            "600",
            "--format",
            "json",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    signal_when_caught(child.id(), "INT");
    let report = Ran::new(child.wait_with_output().unwrap()).json(0);
    assert_eq!(report["interrupted"], true);
    assert!(number(&report, "seconds") < 600.0);
}
