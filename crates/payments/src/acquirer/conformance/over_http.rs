//! The cases of a line that fails: no server, half an answer, somebody else's answer.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use unavez_core::identity::{OperationId, Realm, RecordId};
use unavez_core::key::Key;
use unavez_core::time::Time;

use super::{payment, tenant};
use crate::acquirer::{Acquirer, Answer, Instruction};

/// Defines a test for every case of this module. The first argument makes an `Arc<dyn Acquirer>` of a base address, the
/// second is a payment method that approves. Needs tokio's macros.
#[macro_export]
macro_rules! acquirer_http_conformance {
    ($at:expr, $method:expr) => {
        $crate::acquirer_http_conformance!(@each $at, $method;
            a_refused_connection_is_not_sent,
            an_answer_that_breaks_off_says_nothing,
            redirects_are_not_followed,
            a_proxys_not_found_is_none,
            errors_and_nonsense_say_nothing,
        );
    };
    (@each $at:expr, $method:expr; $($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            $crate::acquirer::conformance::over_http::$case($at, $method).await;
        }
    )*};
}

/// Answers every connection with the same bytes and closes it; nobody's acquirer. It ends with the process.
struct Canned {
    base: String,
    requests: Arc<AtomicUsize>,
}

impl Canned {
    fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let base = format!("http://{}", listener.local_addr().expect("it is bound"));
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                seen.fetch_add(1, Ordering::SeqCst);
                // A client that leaves early is none of its business.
                let _ = answer_once(stream, &answer);
            }
        });
        Self { base, requests }
    }

    /// An answer with a body, whole.
    fn with_status(status: u16, content_type: &str, body: &str) -> Self {
        Self::answering(format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    }
}

fn answer_once(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    read_request(&mut stream)?;
    stream.write_all(answer)
}

/// Reads a request to its end, so that closing does not reset what is still unread.
fn read_request(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut seen = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            if seen.len() >= head.len() + 4 + length.unwrap_or(0_usize) {
                return Ok(());
            }
        }
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            read => seen.extend_from_slice(&piece[..read]),
        }
    }
}

fn instruction(method: &str) -> Instruction {
    payment(operation(), method.into(), Time::from_micros(1_767_268_800_000_000))
}

fn operation() -> OperationId {
    let realm = Realm::parse("conformance").expect("well-formed");
    RecordId::of(&realm, &tenant(), &Key::parse_path("k").expect("well-formed")).operation_id()
}

async fn send(acquirer: &dyn Acquirer, method: &str) -> Answer {
    let instruction = instruction(method);
    let outgoing = acquirer.compose(&instruction).expect("the acquirer can do this");
    acquirer.send(&instruction.subject, &outgoing).await
}

async fn look_up(acquirer: &dyn Acquirer, method: &str) -> Answer {
    acquirer.look_up(&instruction(method).subject).await
}

#[track_caller]
fn says_nothing(answer: &Answer, what: &str) {
    assert!(matches!(answer, Answer::CannotSay(_)), "{what}: {answer:?}");
}

/// Nobody listens there: certainly nothing left. A question that did not leave says nothing.
pub async fn a_refused_connection_is_not_sent(at: impl Fn(&str) -> Arc<dyn Acquirer>, method: &str) {
    let port = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let base = format!("http://{}", port.local_addr().expect("it is bound"));
    drop(port);
    let acquirer = at(&base);
    let answer = send(&*acquirer, method).await;
    assert!(matches!(answer, Answer::NotSent(_)), "{answer:?}");
    says_nothing(&look_up(&*acquirer, method).await, "a question");
    assert!(acquirer.list(Time::from_micros(0), None, 10).await.is_err());
}

/// The request was received, and then the line went: before the head, in it, in the body.
pub async fn an_answer_that_breaks_off_says_nothing(at: impl Fn(&str) -> Arc<dyn Acquirer>, method: &str) {
    for answer in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"id\":\"x\",",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 500\r\n\r\n{\"error\":",
    ] {
        let line = Canned::answering(answer);
        let acquirer = at(&line.base);
        says_nothing(&send(&*acquirer, method).await, answer);
        assert_eq!(line.requests.load(Ordering::SeqCst), 1, "sent once and no more: {answer:?}");
        says_nothing(&look_up(&*acquirer, method).await, answer);
        assert!(acquirer.list(Time::from_micros(0), None, 10).await.is_err());
    }
}

/// A redirect is somebody's wish that the request be sent again, elsewhere.
pub async fn redirects_are_not_followed(at: impl Fn(&str) -> Arc<dyn Acquirer>, method: &str) {
    let elsewhere = Canned::with_status(200, "application/json", "{}");
    for status in [301, 302, 303, 307, 308] {
        let line = Canned::answering(format!(
            "HTTP/1.1 {status} Moved\r\nlocation: {}/x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            elsewhere.base
        ));
        let acquirer = at(&line.base);
        says_nothing(&send(&*acquirer, method).await, "a redirect");
        says_nothing(&look_up(&*acquirer, method).await, "a redirect");
    }
    assert_eq!(elsewhere.requests.load(Ordering::SeqCst), 0);
}

/// A 404 that does not have the acquirer's own form comes from somebody else, who knows nothing.
pub async fn a_proxys_not_found_is_none(at: impl Fn(&str) -> Arc<dyn Acquirer>, method: &str) {
    for (content_type, body) in [
        ("text/html", "<h1>404 Not Found</h1>"),
        ("application/json", "{}"),
        ("application/json", "{\"error\":\"not found\"}"),
        ("application/json", "{\"message\":\"no Route matched with those values\"}"),
        ("text/plain", ""),
    ] {
        let line = Canned::with_status(404, content_type, body);
        let acquirer = at(&line.base);
        says_nothing(&look_up(&*acquirer, method).await, body);
        says_nothing(&send(&*acquirer, method).await, body);
    }
}

/// Statuses and bodies that an acquirer gives when it is not well, or that are not its own.
pub async fn errors_and_nonsense_say_nothing(at: impl Fn(&str) -> Arc<dyn Acquirer>, method: &str) {
    let statuses = [400, 401, 403, 408, 409, 422, 429, 500, 502, 503, 504];
    let errors = statuses.map(|status| (status, "{\"error\":{}}"));
    let nonsense = ["", "{}", "[]", "null", "<html>", "{\"status\":\"approved\"}", "{\"id\":1}"];
    for (status, body) in errors.into_iter().chain(nonsense.map(|body| (200, body))) {
        let line = Canned::with_status(status, "application/json", body);
        let acquirer = at(&line.base);
        let what = format!("{status} {body}");
        says_nothing(&send(&*acquirer, method).await, &what);
        says_nothing(&look_up(&*acquirer, method).await, &what);
        assert!(acquirer.list(Time::from_micros(0), None, 10).await.is_err(), "{what}");
    }
}
