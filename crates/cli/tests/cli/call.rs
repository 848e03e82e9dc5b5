//! `unavez call`: what a script sees, against servers that lose answers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};

use crate::support::{Ran, Serve, folder, order_body, run, write};

/// A server that gives these answers, one a connection, and tells what it has read. An empty one is a lost answer.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Receiver<String>,
}

impl Server {
    pub(crate) fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (read, requests) = mpsc::channel();
        let answers: Vec<String> = answers.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                read.send(read_request(&mut stream)).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/charges", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }

    /// The keys of all requests.
    pub(crate) fn keys(&self) -> Vec<String> {
        let key = |request: &String| {
            let line = request.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
            line.unwrap_or_default().to_owned()
        };
        self.requests().iter().map(key).collect()
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let (mut text, mut part) = (String::new(), [0; 4096]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        let count = stream.read(&mut part).unwrap();
        text.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
}

pub(crate) fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} -\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) fn call(arguments: &[&str]) -> Ran {
    run(folder().path(), ["call"].iter().chain(arguments))
}

#[test]
fn p32_a_lost_answer_is_found_again_under_the_same_key() {
    let server = Server::start(&["", &answer(503, "", ""), &answer(201, "", "{\"id\":\"ch_1\"}")]);
    let ran = call(&["--key", "charge:o-1", "POST", &server.url(), "-d", "{}"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "{\"id\":\"ch_1\"}"));
    assert_eq!(server.keys(), ["charge:o-1"; 3]);
    for said in ["key charge:o-1\n", "attempt 1: may have been received", "attempt 2: 503", "done: 201"] {
        assert!(ran.stderr.contains(said), "{said:?}: {}", ran.stderr);
    }
}

#[test]
fn a_refusal_is_exit_1_with_its_body() {
    let server = Server::start(&[&answer(402, "", "{\"code\":\"charge-declined\"}")]);
    let ran = call(&["--key", "k", "POST", &server.url(), "-d", "{}"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "{\"code\":\"charge-declined\"}"));
    assert_eq!(server.keys().len(), 1);
}

/// The command that is printed is the one that finds out: it is run as it stands.
#[test]
fn p32_what_is_unknown_comes_with_the_command_that_asks_again() {
    let server = Server::start(&["", "", &answer(422, "", "{}"), &answer(201, "", "it's done")]);
    let folder = folder();
    let body = write(folder.path(), "it's a body.json", "{\"amount\":500}");
    let data = format!("@{}", body.display());
    let arguments = ["call", "--retries", "1", "POST", &server.url(), "-d", &data, "-H", "prefer: a b"];
    let unknown = run(folder.path(), arguments);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(4), ""), "{unknown:?}");
    assert!(unknown.stderr.contains("(made for this call)"), "{}", unknown.stderr);
    let command = unknown.stderr.lines().find_map(|line| line.strip_prefix("  unavez ")).unwrap().to_owned();
    assert!(command.contains(" --again "), "{command}");

    let again = || {
        let line = format!("{} {command}", env!("CARGO_BIN_EXE_unavez"));
        let mut shell = std::process::Command::new("sh");
        Ran::new(shell.current_dir(folder.path()).args(["-c", &line]).output().unwrap())
    };
    let refused_by_another = again();
    assert_eq!(refused_by_another.code, Some(4), "nobody knows whose 422 it is: {refused_by_another:?}");
    let found = again();
    assert_eq!((found.code, found.stdout.as_str()), (Some(0), "it's done"), "{found:?}");
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| *request == requests[0]), "{requests:?}");
    assert!(requests[0].contains("prefer: a b\r\n") && requests[0].ends_with("{\"amount\":500}"));
}

#[test]
fn c62_without_a_key_nothing_is_sent_twice() {
    let server = Server::start(&["", &answer(201, "", "")]);
    let ran = call(&["--no-key", "POST", &server.url(), "-d", "{}"]);
    ran.fails_with(4, &["unknown:", "look at the server"]);
    assert_eq!(server.keys(), [""]);
    assert!(
        !ran.stderr.contains("unavez call"),
        "no command that could make it happen twice: {}",
        ran.stderr
    );
}

#[test]
fn what_was_never_sent_says_so() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ran = call(&["--key", "k", "--retries", "1", "POST", &format!("http://{closed}/"), "-d", "{}"]);
    ran.fails_with(4, &["nothing happened yet", "not sent, no connection", "unavez call --key k POST"]);
}

#[test]
fn p29_a_derived_key_is_made_of_the_body() {
    let server = Server::start(&[&answer(201, "", "")]);
    let body = r#"{"order_id":"o 1","amount":500}"#;
    let ran = call(&["--key-of", "charge:order_id", "-q", "POST", &server.url(), "-d", body]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(server.keys(), ["charge:o%201"]);
}

#[test]
fn p23_no_secret_is_printed_but_the_answer() {
    let folder = folder();
    write(folder.path(), "api-key", "s3cret-file\n");
    let server = Server::start(&["", &answer(401, "", "")]);
    let arguments =
        ["call", "--retries", "0", "--api-key-file", "api-key", "-H", "X-Api-Token: s3cret-header"];
    let ran = run(folder.path(), arguments.into_iter().chain(["POST", &server.url(), "-d", "{}"]));
    assert_eq!(ran.code, Some(4));
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--api-key-file api-key") && ran.stderr.contains("x-api-token: …"));
    assert!(server.requests()[0].contains("authorization: Bearer s3cret-file\r\n"));
}

#[test]
fn wrong_use_sends_nothing() {
    for (arguments, said) in [
        (&["FETCH", "http://h/"] as &[_], "expected POST"),
        (&["POST", "shop/charges"], "it is no URL"),
        (&["POST", "ftp://h/"], "neither http nor https"),
        (&["POST", "http://user:pw@h/"], "password"),
        (&["POST", "http://127.0.0.1:18502abc/x"], "`:18502abc`"),
        (&["POST", "http://127.0.0.1:65536/x"], "`:65536`"),
        (&["POST", "http://127.0.0.1:99999"], "`:99999`"),
        (&["POST", "https://127.0.0.1:+80/x"], "`:+80`"),
        (&["POST", "http://127.0.0.1:/x"], "`:`"),
        (&["--again", "POST", "http://h/"], "--key or --key-of"),
        (&["--again", "PUT", "http://h/"], "--key or --key-of"),
        (&["--key", "", "POST", "http://h/"], "key is blank"),
        (&["--key", "k", "--no-key", "POST", "http://h/"], "one at most"),
        (&["--key-of", "charge:order_id", "POST", "http://h/"], "the body is none"),
        (&["--preset", "acme", "POST", "http://h/"], "expected one of any, unavez"),
        (&["--preset", "stripe", "--key", "a b", "POST", "http://h/"], "cannot carry"),
        (&["-H", "nothing", "POST", "http://h/"], "Name: value"),
        (&["-H", "X-Pin: …", "POST", "http://h/"], "x-pin has to be filled in"),
        (&["POST", "http://h/?key=…"], "filled in"),
        (&["-d", "@no-such-file", "POST", "http://h/"], "cannot be read"),
    ] {
        call(arguments).fails_with(2, &[said]);
    }
}

/// With the service itself: the acquirer executes and never answers, and the client asks until it is known.
#[test]
fn p32_a_charge_whose_answer_was_lost_is_made_once() {
    let folder = folder();
    let serve = Serve::start_with(folder.path(), &["--acquirer", "sandbox"]);
    let url = format!("http://{}/v1/charges", serve.address);
    for preset in ["any", "unavez"] {
        let lost = r#","payment_method":"tok_error_after"}"#;
        let body = order_body(preset).replace('}', lost);
        let flags = ["call", "--key-of", "charge:order_id", "--preset", preset, "POST", &url, "-d", &body];
        for again in ["first", "second"] {
            let ran = run(folder.path(), flags);
            assert_eq!(ran.code, Some(0), "{preset}, {again}: {ran:?}");
            assert!(ran.stdout.contains(&format!("\"order_id\":\"{preset}\"")), "{ran:?}");
            let asks = preset == "unavez" && again == "first";
            assert_eq!(ran.stderr.contains("the server says of the key"), asks, "{ran:?}");
        }
        let charges = serve.get(&format!("/v1/charges?order_id={preset}"), &[]).json();
        assert_eq!(charges["data"].as_array().unwrap().len(), 1, "{charges}");
    }

    let other = run(folder.path(), ["call", "--key", "charge:any", "POST", &url, "-d", &order_body("o-2")]);
    assert_eq!(other.code, Some(1), "the key is another order's: {other:?}");
    assert!(other.stdout.contains("idempotency-key-reused"), "{other:?}");
    let declined = order_body("o-3").replace('}', ",\"payment_method\":\"tok_decline\"}");
    let declined = run(folder.path(), ["call", "--again", "--key", "o-3", "POST", &url, "-d", &declined]);
    assert_eq!(declined.code, Some(1), "a decline is kept, so it counts whatever came before: {declined:?}");
}
