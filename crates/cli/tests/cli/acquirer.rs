//! `unavez acquirer` as whoever runs it meets it: requests, restarts, signals, webhooks over a socket.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};
use unavez_core::time::Time;
use unavez_payments::acquirer::signature::Secrets;

use crate::support::{Answer, Serve, folder, run, send, write};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn id(digit: char) -> String {
    format!("op_{}", String::from(digit).repeat(32))
}

fn pay(acquirer: &Serve, operation: &str, method: &str) -> Option<Answer> {
    let body = json!({
        "operation_id": operation, "tenant": "default", "order_id": "o-1", "amount": 2500, "currency": "EUR",
        "payment_method": method, "capture": true,
    });
    send(acquirer.address, "POST", "/payments", &[], Some(&body.to_string()))
}

fn paid(acquirer: &Serve, operation: &str, method: &str) -> Answer {
    pay(acquirer, operation, method).expect("it answers")
}

fn refund(acquirer: &Serve, payment: &str, operation: &str, amount: u64) -> Answer {
    let body = json!({"operation_id": operation, "amount": amount}).to_string();
    send(acquirer.address, "POST", &format!("/payments/{payment}/refunds"), &[], Some(&body))
        .expect("it answers")
}

fn memory(folder: &Path, flags: &[&str]) -> Serve {
    Serve::acquirer(folder, &[&["--store", "memory:"], flags].concat())
}

#[test]
fn executes_tells_and_counts() {
    let folder = folder();
    let acquirer = memory(folder.path(), &[]);
    let (payment, back, unknown) = (id('a'), id('b'), id('c'));
    let first = paid(&acquirer, &payment, "tok_approve");
    assert_eq!(first.status, 201);
    assert_eq!(paid(&acquirer, &payment, "tok_approve").body, first.body);
    assert_eq!(paid(&acquirer, &payment, "tok_decline").status, 409);
    assert_eq!(refund(&acquirer, &payment, &back, 500).status, 201);
    assert_eq!(refund(&acquirer, &payment, &id('d'), 2001).status, 422);

    let mut told = acquirer.get(&format!("/operations/{back}"), &[]).json();
    let created_at = told.as_object_mut().unwrap().remove("created_at").unwrap();
    assert!(created_at.as_str().unwrap().ends_with('Z'), "{created_at}");
    assert_eq!(
        told,
        json!({
            "operation_id": back, "kind": "refund", "status": "approved", "amount": 500, "currency": "EUR",
            "tenant": "default", "payment_operation_id": payment, "reference": "sbx_2",
        })
    );
    let missing = acquirer.get(&format!("/operations/{unknown}"), &[]);
    assert_eq!((missing.status, missing.json()["operation_id"].clone()), (404, Value::from(unknown)));
    let page = acquirer.get("/operations?since=2020-01-01T00:00:00Z&limit=2", &[]).json();
    assert_eq!((page["data"].as_array().unwrap().len(), page["next"].clone()), (2, Value::from("2")));
    assert_eq!(
        acquirer.get("/stats", &[]).json(),
        json!({"executed": 3, "by_operation": {payment: 1, back: 1, id('d'): 1}})
    );
    assert_eq!(acquirer.get("/healthz", &[]).json()["acquirer"], "sandbox");
    assert_eq!(acquirer.stop(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn refuses_what_it_cannot_read_and_says_why() {
    let folder = folder();
    let acquirer = memory(folder.path(), &[]);
    let post = |path: &str, body: &str| {
        let answer = send(acquirer.address, "POST", path, &[], Some(body)).expect("it answers");
        (answer.status, answer.json()["error"]["detail"].as_str().unwrap().to_owned())
    };
    assert_eq!(paid(&acquirer, &id('a'), "tok_x").status, 400);
    let (status, detail) = post("/payments", "{\"operation_id\":\"x\"}");
    assert_eq!((status, detail.contains("missing field `tenant`")), (400, true), "{detail}");
    let refunds = format!("/payments/{}/refunds", id('a'));
    let (status, detail) = post(&refunds, &json!({"operation_id": id('b'), "amount": 0}).to_string());
    assert_eq!((status, detail.as_str()), (400, "amount is 0, allowed are 1 to 999999999999 minor units"));
    let (status, _) = post(&refunds, &json!({"operation_id": id('b'), "amount": 1, "x": 1}).to_string());
    assert_eq!(status, 400);
    assert_eq!(post("/payments/x/refunds", "{}").0, 404);
    assert_eq!(acquirer.get("/operations/op_X", &[]).status, 400);
    assert_eq!(acquirer.get("/operations?since=yesterday", &[]).status, 400);
    assert_eq!(acquirer.get("/stats", &[]).json()["executed"], 0);
}

#[test]
fn forgets_nothing_when_it_is_killed() {
    let folder = folder();
    let mut acquirer = Serve::acquirer(folder.path(), &[]);
    assert_eq!(paid(&acquirer, &id('a'), "tok_approve").status, 201);
    assert_eq!(paid(&acquirer, &id('b'), "tok_error_after").status, 500);
    assert_eq!(paid(&acquirer, &id('c'), "tok_error").status, 500);
    acquirer.kill();
    let acquirer = Serve::acquirer(folder.path(), &[]);
    assert_eq!(
        acquirer.get("/stats", &[]).json(),
        json!({"executed": 2, "by_operation": {id('a'): 1, id('b'): 1}})
    );
    assert_eq!(acquirer.get(&format!("/operations/{}", id('b')), &[]).status, 200);
    assert_eq!(acquirer.stop(), Some(0));
}

#[test]
fn behaves_as_it_is_told() {
    let folder = folder();
    let acquirer = memory(folder.path(), &["--dedupe", "off", "--visibility-delay", "1h"]);
    for _ in 0..2 {
        assert_eq!(paid(&acquirer, &id('a'), "tok_approve").status, 201);
    }
    assert_eq!(acquirer.get("/stats", &[]).json()["by_operation"][id('a')], 2);
    assert_eq!(acquirer.get(&format!("/operations/{}", id('a')), &[]).status, 404);
    let down = memory(folder.path(), &["--lookup", "down"]);
    assert_eq!(down.get(&format!("/operations/{}", id('a')), &[]).status, 503);
}

#[test]
fn an_answer_that_never_comes_does_not_hold_up_the_end() {
    let folder = folder();
    let acquirer = memory(folder.path(), &[]);
    let body = json!({
        "operation_id": id('a'), "tenant": "default", "order_id": "o-1", "amount": 2500, "currency": "EUR",
        "payment_method": "tok_lost", "capture": true,
    })
    .to_string();
    let mut held = TcpStream::connect(acquirer.address).unwrap();
    let head = format!("POST /payments HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    held.write_all(head.as_bytes()).unwrap();
    held.write_all(body.as_bytes()).unwrap();
    // Executed, and yet no answer: what was executed is told to somebody else.
    while acquirer.get("/stats", &[]).json()["executed"] == 0 {}
    assert_eq!(acquirer.stop(), Some(0));
    let mut said = String::new();
    held.read_to_string(&mut said).unwrap();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 500 "), "{said}");
}

/// Takes one webhook.
fn take(receiver: &TcpListener, answer: &str) -> (http::HeaderMap, String) {
    let (mut stream, _) = receiver.accept().unwrap();
    let mut seen = String::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        seen.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
        let headers: http::HeaderMap = head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect();
        if body.len() == headers["content-length"].to_str().unwrap().parse::<usize>().unwrap() {
            stream.write_all(answer.as_bytes()).unwrap();
            return (headers, body.to_owned());
        }
    }
}

#[test]
fn p24_decisions_are_posted_signed_and_again_until_they_are_taken() {
    let folder = folder();
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/webhooks/acquirer", receiver.local_addr().unwrap());
    write(folder.path(), "secrets", &format!("# ours\n{SECRET}\n"));
    let acquirer = memory(folder.path(), &["--webhook-url", &url, "--webhook-secret-file", "secrets"]);
    assert_eq!(paid(&acquirer, &id('a'), "tok_pending").status, 202);
    let (_, refused) = take(&receiver, "HTTP/1.1 500 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let (headers, body) =
        take(&receiver, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    assert_eq!(body, refused);
    let signed_at: i64 = headers["webhook-timestamp"].to_str().unwrap().parse().unwrap();
    let secrets = Secrets::parse(SECRET).unwrap();
    let verified =
        secrets.verify(&headers, body.as_bytes(), Time::from_micros(signed_at * 1_000_000)).unwrap();
    let event: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&event["id"], &event["type"]),
        (&Value::from(&*verified.id), &Value::from("operation.settled"))
    );
    assert_eq!(event["data"]["status"], "approved");
    let mut told = acquirer.get(&format!("/operations/{}", id('a')), &[]).json();
    assert_eq!(event["data"], told.take());
    assert_eq!(acquirer.stop(), Some(0));
}

#[test]
fn what_was_not_delivered_is_posted_after_a_crash() {
    let folder = folder();
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/webhooks/acquirer", receiver.local_addr().unwrap());
    write(folder.path(), "secrets", SECRET);
    let flags = ["--webhook-url", url.as_str(), "--webhook-secret-file", "secrets"];
    let mut acquirer = Serve::acquirer(folder.path(), &flags);
    assert_eq!(paid(&acquirer, &id('a'), "tok_pending_decline").status, 202);
    acquirer.kill();
    let acquirer = Serve::acquirer(folder.path(), &flags);
    let (_, body) = take(&receiver, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let event: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&event["data"]["operation_id"], &event["data"]["status"]),
        (&id('a').into(), &"declined".into())
    );
    assert_eq!(acquirer.stop(), Some(0));
}

#[test]
fn flags_that_do_not_fit_together_are_refused() {
    let folder = folder();
    write(folder.path(), "secrets", SECRET);
    write(folder.path(), "none", "# nothing\n");
    let refused = |flags: &[&str], code, said: &[&str]| {
        run(folder.path(), ["acquirer", "--listen", "127.0.0.1:0"].iter().chain(flags))
            .fails_with(code, said);
    };
    let loopback = "http://127.0.0.1:1/x";
    refused(&["--webhook-url", loopback], 2, &["without --webhook-secret-file", "whsec_"]);
    refused(&["--webhook-secret-file", "secrets"], 2, &["without --webhook-url"]);
    refused(
        &["--webhook-url", "http://10.0.0.1/x", "--webhook-secret-file", "secrets"],
        2,
        &["http://10.0.0.1/x", "https"],
    );
    refused(&["--webhook-url", loopback, "--webhook-secret-file", "none"], 2, &["none: has no secret"]);
    refused(&["--webhook-url", loopback, "--webhook-secret-file", "gone"], 2, &["gone: cannot be read"]);
    refused(&["--dedupe", "sometimes"], 2, &["forever, or off"]);
    refused(&["--webhook-url", "127.0.0.1:1"], 2, &["http://HOST:PORT"]);
    let check = ["config", "acquirer", "--check", "--", "--webhook-url", loopback];
    run(folder.path(), check).fails_with(2, &["without --webhook-secret-file"]);
}

#[test]
fn settings_come_from_flag_environment_and_file() {
    let folder = folder();
    write(folder.path(), "unavez.toml", "[acquirer]\nstore = \"memory:\"\ndedupe = \"off\"\n");
    let acquirer = Serve::acquirer(folder.path(), &["--lookup", "down"]);
    for _ in 0..2 {
        paid(&acquirer, &id('a'), "tok_approve");
    }
    assert_eq!(acquirer.get("/stats", &[]).json()["executed"], 2, "the file's");
    assert_eq!(acquirer.get("/operations", &[]).status, 503, "the flag's");
}
