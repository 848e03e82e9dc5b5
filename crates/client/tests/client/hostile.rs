//! Servers that mean harm, or are broken as if they did.

use std::time::Duration;

use tokio::time::Instant;
use unavez_client::{Outcome, Reason, Received};

use crate::net::{Net, Step, answer, charge, plain, status};

fn assert_unknown(outcome: &Outcome, reason: Reason) {
    match outcome {
        Outcome::Unknown(unknown) => {
            assert_eq!((unknown.reason, unknown.received), (reason, Received::Perhaps), "{unknown}");
        }
        settled => panic!("{settled:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_takes_no_more_than_the_attempts_time() {
    let net = Net::new([]);
    let client = net.client(plain().with_attempts(2).with_attempt_timeout(Duration::from_secs(3)));
    let begun = Instant::now();
    assert_unknown(&client.call(&charge()).await.unwrap(), Reason::Attempts);
    let taken = begun.elapsed();
    assert!((6.0..6.3).contains(&taken.as_secs_f64()), "{taken:?}");
    assert_eq!(net.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn c65_a_server_that_closes_at_once_is_met_three_times_and_not_in_a_loop() {
    let net = Net::new(vec![Step::CloseAtOnce; 100]);
    let begun = Instant::now();
    let client = net.client(plain().with_attempts(3).with_random(|| u64::MAX / 2));
    assert!(matches!(client.call(&charge()).await.unwrap(), Outcome::Unknown(_)));
    assert_eq!(net.connections(), 3);
    assert!(begun.elapsed() >= Duration::from_millis(100 + 200), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drips_a_byte_a_second_is_cut_off() {
    let whole = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}".to_owned();
    let net = Net::new([Step::Drip(whole.clone()), status(201)]);
    let client = net.client(plain().with_attempt_timeout(Duration::from_secs(10)));
    let begun = Instant::now();
    assert!(matches!(client.call(&charge()).await.unwrap(), Outcome::Done(_)));
    assert!((10..11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());

    let patient = Net::new([Step::Drip(whole)]).client(plain().with_attempt_timeout(Duration::from_secs(60)));
    assert!(matches!(patient.call(&charge()).await.unwrap(), Outcome::Done(_)));
}

#[tokio::test(start_paused = true)]
async fn a_length_that_is_not_kept_is_no_answer() {
    let short = Step::SayAndClose("HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"id\":1}".to_owned());
    let net = Net::new([short.clone(), short]);
    let client = net.client(plain().with_attempts(2));
    assert_unknown(&client.call(&charge()).await.unwrap(), Reason::Attempts);

    let chunks = "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n";
    let net = Net::new([Step::SayAndClose(chunks.to_owned())]);
    let client = net.client(plain().with_attempts(1));
    assert_unknown(&client.call(&charge()).await.unwrap(), Reason::Attempts);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_gigabyte_is_read_up_to_the_limit() {
    let announced = "HTTP/1.1 201 Created\r\ncontent-length: 1073741824\r\n\r\n".to_owned();
    let endless = "HTTP/1.1 201 Created\r\n\r\n".to_owned();
    for head in [announced, endless] {
        let net = Net::new([Step::Flood(head)]);
        let client = net.client(plain().with_attempts(1).with_answer_bytes_max(1 << 20));
        assert_unknown(&client.call(&charge()).await.unwrap(), Reason::Attempts);
        assert!(net.flooded() < 4 << 20, "{} bytes were taken", net.flooded());
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_cut_off() {
    let net = Net::new([Step::Flood("HTTP/1.1 201 Created\r\nx: ".to_owned())]);
    let client = net.client(plain().with_attempts(1));
    assert_unknown(&client.call(&charge()).await.unwrap(), Reason::Attempts);
    assert!(net.flooded() < 4 << 20, "{} bytes were taken", net.flooded());
}

#[tokio::test(start_paused = true)]
async fn a_redirect_of_a_post_is_not_followed() {
    for redirect in [301, 302, 303, 307, 308] {
        let net = Net::new([answer(redirect, "location: http://evil.test/\r\n", ""), status(201)]);
        assert_unknown(&net.client(plain()).call(&charge()).await.unwrap(), Reason::Redirected);
        assert_eq!(net.requests().len(), 1, "{redirect}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_answers_is_nobodys() {
    let twice =
        "HTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\n1HTTP/1.1 402 -\r\ncontent-length: 1\r\n\r\n2";
    let net = Net::new([Step::Say(twice.to_owned()), answer(201, "", "3")]);
    let client = net.client(plain());
    for expected in ["1", "3"] {
        match client.call(&charge()).await.unwrap() {
            Outcome::Done(answer) => assert_eq!(answer.body(), expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(net.connections(), 2, "the connection is not used again");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_http_is_no_answer() {
    let net = Net::new([Step::SayAndClose("+OK ready\r\n".to_owned())]);
    let client = net.client(plain().with_attempts(1));
    assert_unknown(&client.call(&charge()).await.unwrap(), Reason::Attempts);
}
