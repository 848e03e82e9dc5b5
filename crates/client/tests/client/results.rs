//! Done, refused, unknown (P30, P32), and one key for each operation (P29).

use unavez_client::{
    Client, Nature, Operation, Outcome, Preset, Reason, Received, Resolve, Time, Unknown, derive,
};

use crate::net::{Net, Step, answer, charge, plain, recorded, status, unavez};

fn unknown(outcome: Outcome) -> Unknown {
    match outcome {
        Outcome::Unknown(unknown) => *unknown,
        settled => panic!("{settled:?}"),
    }
}

fn status_of(outcome: &Outcome) -> (&'static str, u16) {
    match outcome {
        Outcome::Done(answer) => ("done", answer.status().as_u16()),
        Outcome::Refused(answer) => ("refused", answer.status().as_u16()),
        Outcome::Unknown(_) => ("unknown", 0),
    }
}

#[tokio::test(start_paused = true)]
async fn c62_three_times_502_carry_one_key_or_are_one_request() {
    let net = Net::new([status(502), status(502), status(502), status(201)]);
    let keyed = charge();
    let outcome = net.client(plain()).call(&keyed).await.unwrap();
    assert_eq!(status_of(&outcome), ("done", 201));
    assert_eq!(net.header("idempotency-key"), vec![keyed.key().unwrap().as_str(); 4]);

    let net = Net::new([status(502), status(201)]);
    let bare = unknown(net.client(plain()).call(&charge().without_key()).await.unwrap());
    assert_eq!((bare.reason, bare.resolve), (Reason::NoKey, Resolve::Look));
    assert_eq!(net.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn c62_a_refused_connection_is_tried_again_without_a_key_too() {
    let net = Net::new([Step::Refuse, Step::Refuse, status(201)]);
    let outcome = net.client(plain()).call(&charge().without_key()).await.unwrap();
    assert_eq!((status_of(&outcome), net.requests().len()), (("done", 201), 1));
    assert_eq!(net.header("idempotency-key"), [""]);
}

#[tokio::test(start_paused = true)]
async fn c62_a_reset_after_the_body_is_sent_again_only_with_a_key() {
    let net = Net::new([Step::Lose, status(201)]);
    let outcome = net.client(plain()).call(&charge()).await.unwrap();
    assert_eq!((status_of(&outcome), net.requests().len()), (("done", 201), 2));

    let net = Net::new([Step::Lose, status(201)]);
    let bare = unknown(net.client(plain()).call(&charge().without_key()).await.unwrap());
    assert_eq!((bare.received, net.requests().len()), (Received::Perhaps, 1));
}

#[tokio::test(start_paused = true)]
async fn c63_a_kept_connection_that_closes_repeats_nothing_by_itself() {
    let net = Net::new([status(201), Step::Lose, status(201)]);
    let client = net.client(plain().with_attempts(1));
    assert_eq!(status_of(&client.call(&charge()).await.unwrap()), ("done", 201));
    let lost = unknown(client.call(&charge()).await.unwrap());
    assert_eq!((lost.reason, lost.received), (Reason::Attempts, Received::Perhaps));
    assert_eq!((net.requests().len(), net.connections()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn c64_a_server_that_closes_before_a_byte_leaves_it_unknown() {
    let net = Net::new([Step::Lose, Step::Lose, recorded(201)]);
    let client = net.client(unavez().with_attempts(2));
    let charge = charge();
    let lost = unknown(client.call(&charge).await.unwrap());
    assert_eq!((lost.resolve, lost.key.as_ref()), (Resolve::Repeat, charge.key()));
    assert_eq!(status_of(&client.call(&charge).await.unwrap()), ("done", 201));
    assert_eq!(net.header("idempotency-key"), vec![charge.key().unwrap().as_str(); 3]);
}

#[tokio::test(start_paused = true)]
async fn c68_a_stored_operation_goes_on_with_its_key_and_its_bytes() {
    let net = Net::new([Step::Hang]);
    let made = charge();
    let stored = made.clone().into_parts();
    let lost = net.client(unavez().with_attempts(1)).call(&made).await.unwrap();
    assert_eq!(unknown(lost).received, Received::Perhaps);

    let restarted =
        Operation::from_parts(unavez_client::OperationParts { received: Received::Perhaps, ..stored });
    let net_after = Net::new([status(422), recorded(201)]);
    let client = net_after.client(unavez());
    let restarted = restarted.unwrap();
    let other = unknown(client.call(&restarted).await.unwrap());
    assert_eq!(other.reason, Reason::OtherAnswer, "nobody knows whose 422 it is");
    assert_eq!(status_of(&client.call(&restarted).await.unwrap()), ("done", 201));
    let sent = [net.requests(), net_after.requests()].concat();
    assert!(sent.iter().all(|request| *request == sent[0]), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn c68_the_key_stays_over_every_answer_that_is_repeated() {
    let conflict = "content-type: application/problem+json\r\n";
    let retryable = answer(409, conflict, r#"{"code":"operation-in-progress","retryable":true}"#);
    let net = Net::new([retryable, status(500), status(502), status(504), recorded(402)]);
    let charge = charge();
    let outcome = net.client(unavez().with_attempts(5)).call(&charge).await.unwrap();
    assert_eq!(status_of(&outcome), ("refused", 402));
    assert_eq!(net.header("idempotency-key"), vec![charge.key().unwrap().as_str(); 5]);
}

#[tokio::test(start_paused = true)]
async fn c68_a_final_402_ends_the_operation_and_the_next_one_has_another_key() {
    let net = Net::new([recorded(402), recorded(201)]);
    let client = net.client(unavez());
    assert_eq!(status_of(&client.call(&charge()).await.unwrap()), ("refused", 402));
    assert_eq!(status_of(&client.call(&charge()).await.unwrap()), ("done", 201));
    let keys = net.header("idempotency-key");
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test(start_paused = true)]
async fn c68_a_reused_key_is_refused_and_not_replaced() {
    let net = Net::new([status(422), recorded(201)]);
    let outcome = net.client(unavez()).call(&charge()).await.unwrap();
    assert_eq!((status_of(&outcome), net.requests().len()), (("refused", 422), 1));
}

#[tokio::test(start_paused = true)]
async fn c105_a_charge_whose_answer_was_lost_is_never_refused_by_another_layer() {
    for other in [400, 401, 403, 404, 413, 422] {
        let net = Net::new([Step::Lose, status(other), recorded(201)]);
        let client = net.client(unavez());
        let charge = charge();
        let unknown = unknown(client.call(&charge).await.unwrap());
        assert_eq!((unknown.received, unknown.key.as_ref()), (Received::Perhaps, charge.key()), "{other}");
        assert_ne!(unknown.resolve, Resolve::Look);
        assert_eq!(
            status_of(&client.call(&charge).await.unwrap()),
            ("done", 201),
            "later, with the same key"
        );
        assert_eq!(net.header("idempotency-key"), vec![charge.key().unwrap().as_str(); 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn p30_expired_credentials_end_the_call_and_not_the_operation() {
    let net = Net::new([status(401), recorded(201)]);
    let charge = charge();
    let refused = unknown(net.client(unavez()).call(&charge).await.unwrap());
    assert_eq!((refused.resolve, refused.received), (Resolve::MendAndRepeat, Received::No));
    assert_eq!(net.requests().len(), 1);
    let mended = unavez().add_header(http::header::AUTHORIZATION, http::HeaderValue::from_static("Bearer k"));
    assert_eq!(status_of(&net.client(mended).call(&charge).await.unwrap()), ("done", 201));
    assert_eq!(net.header("authorization"), ["", "Bearer k"]);
    assert_eq!(net.header("idempotency-key"), vec![charge.key().unwrap().as_str(); 2]);
}

#[tokio::test(start_paused = true)]
async fn c88_an_occurrence_makes_three_operations_of_cancel_resume_cancel() {
    let names = [
        derive("cancel", &["sub-7", "1"]),
        derive("resume", &["sub-7", "1"]),
        derive("cancel", &["sub-7", "2"]),
    ];
    let keys = names.map(Result::unwrap);
    let net = Net::new([recorded(200), recorded(200), recorded(200)]);
    let client = net.client(unavez());
    for key in keys.clone() {
        assert_eq!(status_of(&client.call(&charge().with_key(key)).await.unwrap()), ("done", 200));
    }
    assert_eq!(net.header("idempotency-key"), ["cancel:sub-7:1", "resume:sub-7:1", "cancel:sub-7:2"]);
    assert_eq!(derive("cancel", &["sub-7", "1"]).as_ref(), Ok(&keys[0]), "made again, it is the same key");
}

#[tokio::test]
async fn c33_a_derived_key_names_the_operation_and_not_the_body() {
    let made =
        |kind, body: &'static str| charge().with_key(derive(kind, &["o-1001"]).unwrap()).with_body(body);
    let (one, other) = (made("charge", "{\"at\":1}"), made("charge", "{\"at\":2}"));
    assert_eq!(one.key(), other.key());
    assert_ne!(made("refund", "{\"at\":1}").key(), one.key());
}

/// A server that can be asked is asked, and the request is sent again only for the stored answer.
#[tokio::test(start_paused = true)]
async fn p32_the_key_is_asked_about_instead_of_posting_again() {
    let state = |state| answer(200, "", &format!("{{\"state\":\"{state}\"}}"));
    let net = Net::new([Step::Lose, state("in_progress"), state("finished"), recorded(201)]);
    let client = net.client(Client::builder(Preset::unavez()));
    let charge = charge().with_key(derive("charge", &["o/1"]).unwrap());
    assert_eq!(status_of(&client.call(&charge).await.unwrap()), ("done", 201));
    let lines: Vec<String> =
        net.requests().iter().map(|request| request.lines().next().unwrap().to_owned()).collect();
    let question = "GET /v1/idempotency-keys/charge%3Ao%2F1 HTTP/1.1";
    let post = "POST /v1/charges HTTP/1.1";
    assert_eq!(lines, [post, question, question, post]);
}

#[tokio::test(start_paused = true)]
async fn p32_no_record_yet_proves_nothing_so_the_request_is_repeated() {
    let net = Net::new([Step::Lose, status(404), recorded(201)]);
    let client = net.client(Client::builder(Preset::unavez()));
    assert_eq!(status_of(&client.call(&charge()).await.unwrap()), ("done", 201));
}

#[tokio::test(start_paused = true)]
async fn p22_an_abandoned_key_is_for_a_person() {
    let net = Net::new([Step::Lose, answer(200, "", "{\"state\":\"abandoned\"}")]);
    let client = net.client(Client::builder(Preset::unavez()));
    let unknown = unknown(client.call(&charge()).await.unwrap());
    assert_eq!((unknown.reason, unknown.resolve), (Reason::Abandoned, Resolve::Look));
    let at = unknown.key_status.unwrap();
    assert!(at.starts_with("http://shop.test/v1/idempotency-keys/"), "{at}");
}

#[tokio::test(start_paused = true)]
async fn p15_a_pending_answer_is_followed_to_its_end() {
    let pending = "content-type: application/problem+json\r\nretry-after: 5\r\n";
    let conflict = answer(409, pending, "{\"code\":\"outcome-pending\",\"retryable\":true}");
    let net = Net::new([status(202), conflict, recorded(402)]);
    let outcome = net.client(unavez()).call(&charge()).await.unwrap();
    assert_eq!((status_of(&outcome), net.requests().len()), (("refused", 402), 3));
}

#[tokio::test(start_paused = true)]
async fn p29_what_the_server_has_forgotten_is_not_sent() {
    let net = Net::new([status(201)]);
    let parts = charge().into_parts();
    let created_at = Time::from_micros(parts.created_at.as_micros() - 25 * 3_600_000_000);
    let old = unavez_client::OperationParts { created_at, received: Received::Perhaps, ..parts };
    let operation = Operation::from_parts(old).unwrap();
    let unknown = unknown(net.client(plain()).call(&operation).await.unwrap());
    assert_eq!((unknown.reason, unknown.resolve), (Reason::TooOld, Resolve::Look));
    assert_eq!(net.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn c67_what_has_no_effect_carries_no_key() {
    let net = Net::new([status(503), status(200)]);
    let get = Operation::new(http::Method::GET, "http://shop.test/v1/charges/ch_1").unwrap();
    let get = get.with_key(derive("get", &["ch_1"]).unwrap());
    assert_eq!((get.nature(), get.key()), (Nature::Safe, None));
    assert_eq!(status_of(&net.client(plain()).call(&get).await.unwrap()), ("done", 200));
    assert_eq!(net.header("idempotency-key"), ["", ""]);
}

#[test]
fn p23_nothing_shown_holds_key_header_or_body() {
    let secret = http::HeaderValue::from_static("s3cret-header");
    let operation = Operation::post("http://shop.test/s3cret-path")
        .unwrap()
        .with_key(derive("charge", &["s3cret-key"]).unwrap())
        .with_body("s3cret-body")
        .add_header(http::header::AUTHORIZATION, secret.clone());
    let builder = plain().add_header(http::header::AUTHORIZATION, secret);
    let shown = format!("{operation:?} {:?} {builder:?}", operation.clone().into_parts());
    assert!(!shown.contains("s3cret"), "{shown}");
}
