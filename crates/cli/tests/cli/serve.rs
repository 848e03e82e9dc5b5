//! `unavez serve` as an operator meets it: start, stop, signals, and databases it must not touch.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{Serve, folder, order_body, run, send, signal, signal_when_caught, write};

#[test]
fn says_where_it_is_and_how_to_charge_once() {
    let folder = folder();
    let mut serve = Serve::start(folder.path());
    assert_eq!(serve.line(), format!("console at http://{}/", serve.address));
    let curls: Vec<String> =
        std::iter::repeat_with(|| serve.line()).filter(|line| line.starts_with("curl ")).take(2).collect();
    assert_eq!(curls[0], curls[1]);
    assert!(curls[0].contains(&format!("http://{}/v1/charges", serve.address)), "{}", curls[0]);

    let first = serve.charge("k", "1");
    let again = serve.charge("k", "1");
    assert_eq!((first.status, first.header("idempotent-replayed")), (201, None));
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(first.body, again.body);
    assert_eq!(serve.stop(), Some(0));
}

#[test]
fn charges_survive_a_restart_with_all_they_promised() {
    let folder = folder();
    let serve = Serve::start(folder.path());
    let first = serve.charge("k", "1");
    assert_eq!(serve.stop(), Some(0));
    let serve = Serve::start(folder.path());
    let again = serve.charge("k", "1");
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(again.body, first.body);
    assert_eq!(serve.charge("k", "2").status, 422, "C25: another body under the key, after a restart");
}

#[test]
fn memory_is_forgotten() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--store", "memory:"]);
    assert_eq!(serve.charge("k", "1").status, 201);
    assert_eq!(serve.stop(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_request_that_runs_is_finished_before_the_end() {
    let folder = folder();
    let mut serve = Serve::start(folder.path());
    let address = serve.address;
    let body = order_body("1");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: k\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The interim response shows that the handler reads the body: the request is inside.
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    serve.signal("TERM");
    serve.logs("stopping");
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(serve.ended(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = folder();
    let mut serve = Serve::start(folder.path());
    let mut held = TcpStream::connect(serve.address).unwrap();
    held.write_all(b"POST /v1/charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n").unwrap();
    held.read_exact(&mut [0; 25]).unwrap();
    serve.signal("INT");
    serve.logs("stopping");
    serve.signal("INT");
    assert_eq!(serve.ended(), Some(1));
}

#[test]
fn one_process_owns_a_database() {
    let folder = folder();
    let first = Serve::start(folder.path());
    let pid = first.pid().to_string();
    let refused = run(folder.path(), ["serve", "--listen", "127.0.0.1:0", "--lock-wait", "0s"]);
    refused.fails_with(3, &["is owned by process", &pid, "--lock-wait"]);

    // A successor waits, says for whom, and takes over.
    let mut waiting = Serve::spawn(folder.path(), &["--lock-wait", "60s"]);
    let mut log = std::io::BufReader::new(waiting.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(&format!("owned by process {pid}")) {
        line.clear();
        assert_ne!(
            std::io::BufRead::read_line(&mut log, &mut line).unwrap(),
            0,
            "it ended instead of waiting"
        );
    }
    assert_eq!(first.stop(), Some(0));
    let mut first_line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(waiting.stdout.as_mut().unwrap()),
        &mut first_line,
    )
    .unwrap();
    assert!(first_line.starts_with("listening on http://"), "{first_line}");
    signal(waiting.id(), "TERM");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn waiting_for_a_database_can_be_ended() {
    let folder = folder();
    let _first = Serve::start(folder.path());
    let mut waiting = Serve::spawn(folder.path(), &["--lock-wait", "600s"]);
    let mut log = std::io::BufReader::new(waiting.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut log, &mut String::new()).unwrap();
    signal(waiting.id(), "TERM");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}

#[test]
fn strangers_need_keys() {
    let folder = folder();
    for flags in [["--listen", "0.0.0.0:0"], ["--listen", "[::]:0"], ["--admin-listen", "0.0.0.0:0"]] {
        let refused = run(folder.path(), ["serve"].iter().chain(&flags));
        refused.fails_with(2, &["can be reached from other machines", "--api-keys-file"]);
    }
    assert!(!folder.path().join("unavez.db").exists(), "nothing was opened");
}

#[test]
fn wrong_flags_exit_2() {
    let folder = folder();
    write(folder.path(), "bad-keys", "one two\n");
    write(folder.path(), "bad-seal", "name zz\n");
    for (flags, said) in [
        (["--listen", "8080"], "expected ADDR:PORT"),
        (["--store", "postgres://h"], "not a store of this version"),
        (["--acquirer", "stripe"], "acquirer stripe needs a realm that is named: --realm"),
        (["--acquirer", "paypal"], "expected ledger, sandbox, http://HOST:PORT, stripe or mercadopago"),
        (["--operation-timeout", "0s"], "longer than 0"),
        (["--max-in-flight", "0"], "from 1 to"),
        (["--tls-cert", "cert.pem"], "without --tls-key"),
        (["--tls-key", "key.pem"], "without --tls-cert"),
        (["--log", "unavez=loud"], "--log"),
        (["--log", "wran"], "`wran` is none of off, error, warn"),
        (["--log", "info,tokyo"], "`tokyo` is none of"),
        (["--realm", ""], "realm"),
        (["--api-keys-file", "missing"], "missing"),
        (["--api-keys-file", "bad-keys"], "bad-keys"),
        (["--seal-key-file", "bad-seal"], "bad-seal"),
        (["--no-such", "flag"], "unexpected argument"),
    ] {
        let refused = run(folder.path(), ["serve"].iter().chain(&flags));
        assert_eq!(refused.code, Some(2), "{flags:?}: {refused:?}");
        assert!(refused.stderr.contains(said), "{flags:?}: {refused:?}");
        assert_eq!(refused.stdout, "");
    }
}

#[test]
fn a_port_that_is_taken_exits_3() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    run(folder.path(), ["serve", "--listen", &address])
        .fails_with(3, &[&address, "another program has this port"]);
}

#[test]
fn a_database_that_is_no_database_or_damaged_exits_3_and_stays_as_it_is() {
    let folder = folder();
    let serve = || run(folder.path(), ["serve", "--listen", "127.0.0.1:0"]);
    let other = "this is not a database, and it is longer than the head of one, so that it is read as such."
        .repeat(20);
    let path = write(folder.path(), "unavez.db", &other);
    serve().fails_with(3, &["is not a sqlite database"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), other);

    std::fs::remove_file(&path).unwrap();
    assert_eq!(Serve::start(folder.path()).stop(), Some(0));
    let mut bytes = std::fs::read(&path).unwrap();
    let page = 4096;
    for byte in &mut bytes[page..] {
        *byte = 0xA5;
    }
    std::fs::write(&path, &bytes).unwrap();
    serve().fails_with(3, &["is corrupt"]);
    bytes.truncate(page / 2);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(serve().code, Some(3));
}

#[test]
fn a_realm_is_fixed_when_the_database_is_created() {
    let folder = folder();
    assert_eq!(Serve::start_with(folder.path(), &["--realm", "shop-eu"]).stop(), Some(0));
    let other = run(folder.path(), ["serve", "--listen", "127.0.0.1:0", "--realm", "shop-us"]);
    other.fails_with(2, &["belongs to realm shop-eu, not to shop-us"]);
    assert_eq!(Serve::start(folder.path()).stop(), Some(0));
}

#[test]
fn a_folder_that_cannot_be_written_exits_3() {
    let folder = folder();
    // Root writes everywhere, so a place where nobody can make a file stands for a read-only one.
    let refused =
        run(folder.path(), ["serve", "--listen", "127.0.0.1:0", "--store", "sqlite:/proc/unavez.db"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let path = write(folder.path(), "unavez.db", "");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    let opened = run(folder.path(), ["migrate"]);
    let is_root =
        std::fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0).unwrap();
    assert_eq!(opened.code, Some(if is_root { 0 } else { 3 }), "{opened:?}");
}

#[test]
fn console_and_metrics_move_to_an_address_of_their_own() {
    let folder = folder();
    let mut serve = Serve::start_with(folder.path(), &["--admin-listen", "127.0.0.1:0"]);
    let line = serve.line();
    let admin = line.strip_prefix("console at http://").unwrap().trim_end_matches('/').parse().unwrap();
    assert_ne!(admin, serve.address);
    for path in ["/", "/metrics", "/console/charges"] {
        assert_eq!(send(admin, "GET", path, &[], None).unwrap().status, 200, "{path}");
        assert_eq!(serve.get(path, &[]).status, 404, "{path}");
    }
    assert_eq!(send(admin, "GET", "/v1/charges", &[], None).unwrap().status, 404);
    assert_eq!(serve.get("/v1/charges", &[]).status, 200);
    assert_eq!(serve.stop(), Some(0));
}

#[test]
fn log_lines_are_json_where_asked_and_never_on_standard_output() {
    let folder = folder();
    let mut serve = Serve::start_with(folder.path(), &["--log-format", "json"]);
    serve.signal("TERM");
    let stopping = serve.logs("stopping");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&stopping).unwrap()["level"], "INFO");
    assert_eq!(serve.ended(), Some(0));
}

#[test]
fn settings_of_the_file_reach_the_service() {
    let folder = folder();
    write(folder.path(), "unavez.toml", "[serve]\nsame-order = \"refuse\"\nstore = \"memory:\"\n");
    let serve = Serve::start(folder.path());
    assert_eq!(serve.charge("a", "1").status, 201);
    assert_eq!(serve.charge("b", "1").json()["code"], "order-already-charged");
}

#[test]
fn a_stored_answer_is_sealed_with_the_key_of_the_file() {
    let folder = folder();
    write(folder.path(), "seal", &format!("first {}\n", "5a".repeat(32)));
    let flags = ["--seal-key-file", "seal"];
    let serve = Serve::start_with(folder.path(), &flags);
    let first = serve.charge("k", "order-in-clear");
    assert_eq!(serve.stop(), Some(0));
    let shown = run(folder.path(), ["keys", "show", "k", "--format", "json"]).json(0);
    assert!(shown["body_bytes"].is_null(), "the body is sealed");
    let serve = Serve::start_with(folder.path(), &flags);
    assert_eq!(serve.charge("k", "order-in-clear").body, first.body);
    assert_eq!(serve.stop(), Some(0));
    let serve = |flags: &[&str]| run(folder.path(), ["serve", "--listen", "127.0.0.1:0"].iter().chain(flags));
    serve(&[]).fails_with(2, &["sealing keys: `first` is not there, and 1 open or unexpired"]);
    write(folder.path(), "seal", &format!("first {}\n", "a5".repeat(32)));
    serve(&flags).fails_with(2, &["sealing keys: `first` is not the key of this id"]);
}

#[test]
fn c38_keys_at_and_over_the_limit() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--store", "memory:"]);
    assert_eq!(serve.charge(&"k".repeat(255), "1").status, 201);
    for length in [256, 8_000] {
        assert_eq!(serve.charge(&"k".repeat(length), "1").status, 400, "{length}");
    }
    let body = order_body("1");
    let huge = format!("Idempotency-Key: {}", "k".repeat(70_000));
    let answer = send(serve.address, "POST", "/v1/charges", &[&huge], Some(&body));
    assert!(answer.is_none_or(|answer| [400, 431].contains(&answer.status)));
}

#[test]
fn nobody_has_to_read_what_it_says() {
    let folder = folder();
    let mut child = Serve::spawn(folder.path(), &["--store", "memory:"]);
    drop(child.stdout.take());
    let mut log = std::io::BufReader::new(child.stderr.take().unwrap());
    signal_when_caught(child.id(), "TERM");
    let mut said = String::new();
    log.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
}
