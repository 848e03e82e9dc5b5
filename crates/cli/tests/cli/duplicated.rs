//! A proxy in front of the service that sends requests twice, as proxies do: one charge, whichever way it does it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use crate::support::{Answer, Serve, folder, order_body, send};

/// How a proxy comes to send a request twice.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// It gave up waiting, answered 503 itself, and the request goes on all the same; then its client repeats it.
    OwnError,
    /// It sends to the service twice at the same time.
    AtOnce,
    /// It loses the service's answer and repeats the request.
    AnswerLost,
}

/// Carries one request in this manner, and what its client sends after it as it is. It ends when everything has arrived.
fn proxy(service: SocketAddr, manner: Manner) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let carrying = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let request = read_request(&client);
        match manner {
            Manner::OwnError => {
                forward(service, &request);
                client.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n").unwrap();
                drop(client);
                let (mut client, _) = listener.accept().unwrap();
                let again = read_request(&client);
                client.write_all(&forward(service, &again)).unwrap();
            }
            Manner::AtOnce => {
                let copy = request.clone();
                let other = thread::spawn(move || forward(service, &copy));
                client.write_all(&forward(service, &request)).unwrap();
                other.join().unwrap();
            }
            Manner::AnswerLost => {
                forward(service, &request);
                client.write_all(&forward(service, &request)).unwrap();
            }
        }
    });
    (address, carrying)
}

/// The bytes of one request whose length is stated.
fn read_request(client: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(client);
    let (mut request, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        request.extend_from_slice(line.as_bytes());
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let head = request.len();
    request.resize(head + length, 0);
    reader.read_exact(&mut request[head..]).unwrap();
    request
}

fn forward(service: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(service).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn charge(address: SocketAddr, key: &str) -> Answer {
    let header = format!("Idempotency-Key: {key}");
    send(address, "POST", "/v1/charges", &[&header], Some(&order_body(key))).expect("somebody answers")
}

#[test]
fn c77_behind_a_proxy_that_duplicates_requests_an_order_is_charged_once() {
    let folder = folder();
    // Whatever is sent to it twice it executes twice.
    let acquirer =
        Serve::acquirer(folder.path(), &["--store", "memory:", "--dedupe", "off", "--latency", "0s"]);
    let url = format!("http://{}", acquirer.address);
    let serve = Serve::start_with(folder.path(), &["--acquirer", &url]);
    for (manner, key, answered) in [
        (Manner::OwnError, "own-error", &[503][..]),
        // Whichever of the two was first.
        (Manner::AtOnce, "at-once", &[201, 409]),
        (Manner::AnswerLost, "answer-lost", &[201]),
    ] {
        let (address, carrying) = proxy(serve.address, manner);
        let first = charge(address, key);
        assert!(answered.contains(&first.status), "{manner:?}: {first:?}");
        if let Manner::OwnError = manner {
            assert_eq!(charge(address, key).status, 201, "the client's own repeat");
        }
        carrying.join().unwrap();
        let repeat = charge(serve.address, key);
        assert_eq!((repeat.status, repeat.header("idempotent-replayed")), (201, Some("true")), "{manner:?}");
    }
    let stats = acquirer.get("/stats", &[]).json();
    assert_eq!(stats["executed"], 3, "{stats}");
    let summary = serve.get("/v1/ledger/summary", &[]).json();
    assert_eq!(summary["currencies"][0]["charges"], 3, "{summary}");
    assert_eq!(summary["currencies"][0]["captured"], 7500, "{summary}");
}
