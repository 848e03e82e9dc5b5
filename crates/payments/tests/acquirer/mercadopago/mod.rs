//! The adapter of Mercado Pago, against a server written after Mercado Pago's documentation.

mod server;

use hmac::{Hmac, KeyInit, Mac as _};
use http::HeaderMap;
use sha2::Sha256;
use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_payments::acquirer::conformance::{Rig, Wanted};
use unavez_payments::acquirer::mercadopago::{MercadoPago, MercadoPagoOptions};
use unavez_payments::acquirer::vendor::{ApiKey, SharedSecrets};
use unavez_payments::acquirer::{
    Account, Acquirer, Answer, BoxFuture, EventRefusal, Instruction, Kind, News, Payment, Standing,
};
use unavez_payments::money::Currency;

use self::server::{Fault, KEY, MercadoPagoServer};
use crate::support::{amount, cannot_say, declined, done, payment, step};

const SECRET: &str = "mercadopago_0123456789abcdef";

fn options(key: &str, currency: &str) -> MercadoPagoOptions {
    let account = Account::parse("mercadopago:724484980").unwrap();
    let secrets = SharedSecrets::parse(SECRET).unwrap();
    MercadoPagoOptions::new(account, ApiKey::parse(key).unwrap(), secrets, Currency::parse(currency).unwrap())
}

fn adapter(base: &str, key: &str) -> MercadoPago {
    MercadoPago::new(MercadoPagoOptions { base: base.parse().unwrap(), ..options(key, "EUR") }).unwrap()
}

struct MercadoPagoRig {
    server: MercadoPagoServer,
    adapter: MercadoPago,
}

impl MercadoPagoRig {
    async fn new() -> Self {
        let server = MercadoPagoServer::default();
        let adapter = adapter(&server.start().await, KEY);
        Self { server, adapter }
    }

    async fn send(&self, instruction: &Instruction) -> Answer {
        let outgoing = self.adapter.compose(instruction).unwrap();
        self.adapter.send(&instruction.subject, &outgoing).await
    }

    async fn look_up(&self, instruction: &Instruction) -> Answer {
        self.adapter.look_up(&instruction.subject).await
    }

    async fn authorized(&self, key: &str) -> Instruction {
        let payment = Instruction { captures_at_once: false, ..visa(key) };
        done(self.send(&payment).await);
        payment
    }
}

fn signed(data_id: &str, signed_at: Time) -> HeaderMap {
    let ts = signed_at.as_micros() / 1000;
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("id:{data_id};request-id:req-1;ts:{ts};").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut headers = HeaderMap::new();
    headers.insert("x-signature", format!("ts={ts},v1={hex}").parse().unwrap());
    headers.insert("x-request-id", "req-1".parse().unwrap());
    headers
}

fn notice(kind: &str, data_id: &str) -> Vec<u8> {
    format!(
        "{{\"action\":\"payment.updated\",\"api_version\":\"v1\",\"data\":{{\"id\":\"{data_id}\"}},\"id\":1,\
         \"live_mode\":false,\"type\":\"{kind}\",\"user_id\":\"724484980\"}}"
    )
    .into_bytes()
}

impl Rig for MercadoPagoRig {
    fn acquirer(&self) -> &dyn Acquirer {
        &self.adapter
    }

    fn method(&self, wanted: Wanted) -> Option<Box<str>> {
        Some(match wanted {
            Wanted::Approved => "visa:APRO".into(),
            Wanted::Declined => "visa:FUND".into(),
            Wanted::Pending => "pix".into(),
        })
    }

    fn executed(&self, operation: OperationId) -> BoxFuture<'_, u64> {
        Box::pin(std::future::ready(self.server.executed(&operation.to_string())))
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        self.server.settle();
        Box::pin(std::future::ready(()))
    }

    fn now(&self) -> Time {
        self.server.now()
    }

    fn pass_a_second(&self) -> BoxFuture<'_, ()> {
        self.server.pass(1);
        Box::pin(std::future::ready(()))
    }

    fn signs_bodies(&self) -> bool {
        false
    }

    fn event(&self, operation: OperationId) -> BoxFuture<'_, Option<(HeaderMap, Vec<u8>)>> {
        let id = self.server.id_of(&operation.to_string());
        let event = (signed(&id, self.server.now()), notice("payment", &id));
        Box::pin(std::future::ready(Some(event)))
    }
}

mod suite {
    unavez_payments::acquirer_conformance!(super::MercadoPagoRig::new());
}

mod suite_on_a_bad_line {
    use std::sync::Arc;

    use unavez_payments::acquirer::Acquirer;

    fn at(base: &str) -> Arc<dyn Acquirer> {
        Arc::new(super::adapter(base, super::KEY))
    }

    unavez_payments::acquirer_http_conformance!(at, "visa:APRO");
}

fn visa(key: &str) -> Instruction {
    paying(key, "visa:APRO")
}

fn paying(key: &str, method: &str) -> Instruction {
    Instruction { metadata: Some("{\"payer_email\":\"ana@example.com\"}".into()), ..payment(key, method) }
}

/// A step on the first payment of the server.
fn named(key: &str, kind: Kind, of: &Instruction, minor_units: i64) -> Instruction {
    let mut step = step(key, kind, of, minor_units);
    step.subject.payment =
        Some(Payment { reference: Some("1000000".into()), operation_id: of.subject.operation_id });
    step
}

#[test]
fn c99_the_literal_bytes_of_an_amount() {
    for (minor_units, code, expected) in [
        (80, "JPY", "{\"transaction_amount\":80,"),
        (1234, "EUR", "{\"transaction_amount\":12.34,"),
        (1234, "KWD", "{\"transaction_amount\":1.234,"),
    ] {
        let adapter = MercadoPago::new(MercadoPagoOptions {
            base: "http://127.0.0.1:1".parse().unwrap(),
            ..options(KEY, code)
        })
        .unwrap();
        let mut instruction = visa("k");
        instruction.subject.amount = amount(minor_units);
        instruction.subject.currency = Currency::parse(code).unwrap();
        let body = adapter.compose(&instruction).unwrap().body;
        assert!(body.starts_with(expected.as_bytes()), "{code}: {}", String::from_utf8_lossy(&body));
    }
}

#[test]
fn c32_the_whole_request_of_a_payment() {
    let adapter = adapter("http://127.0.0.1:1", KEY);
    let instruction = visa("k");
    let outgoing = adapter.compose(&instruction).unwrap();
    let id = instruction.subject.operation_id.to_string();
    assert_eq!((&*outgoing.method, &*outgoing.path), ("POST", "/v1/payments"));
    assert!(outgoing.headers.contains(&("x-idempotency-key".into(), id.as_str().into())));
    assert_eq!(
        String::from_utf8(outgoing.body.to_vec()).unwrap(),
        format!(
            "{{\"transaction_amount\":100.00,\"token\":\"APRO\",\"payment_method_id\":\"visa\",\"installments\":1,\
             \"capture\":true,\"external_reference\":\"{id}\",\"description\":\"o-1\",\
             \"payer\":{{\"email\":\"ana@example.com\"}},\
             \"metadata\":{{\"order_id\":\"o-1\",\"unavez_tenant\":\"default\"}}}}"
        )
    );
}

#[test]
fn what_cannot_be_sent_names_its_member() {
    let adapter = adapter("http://127.0.0.1:1", KEY);
    let refused = |instruction: &Instruction| adapter.compose(instruction).unwrap_err().member;
    assert_eq!(refused(&Instruction { payment_method: None, ..visa("k") }), "payment_method");
    for method in ["", ":", "visa:", ":APRO", "visa:a:b", "visa:a b"] {
        assert_eq!(refused(&paying("k", method)), "payment_method", "{method:?}");
    }
    for metadata in ["{}", "{\"payer_email\":\"x\"}", "{\"payer_email\":\"a@b\",\"installments\":\"0\"}"] {
        let instruction = Instruction { metadata: Some(metadata.into()), ..visa("k") };
        assert_eq!(refused(&instruction), "metadata", "{metadata}");
    }
    let mut foreign = visa("k");
    foreign.subject.currency = Currency::parse("BRL").unwrap();
    assert_eq!(refused(&foreign), "currency");
    let mut hostile = named("r", Kind::Capture, &visa("k"), 1);
    hostile.subject.payment.as_mut().unwrap().reference = Some("1/refunds?".into());
    assert_eq!(refused(&hostile), "payment", "a name that would change the path");
}

#[test]
fn nothing_is_promised_that_would_let_something_be_sent_twice() {
    let adapter = adapter("http://127.0.0.1:1", KEY);
    assert!(Kind::ALL.into_iter().all(|kind| adapter.promise(kind).resend_window.is_none()));
}

#[test]
fn a_token_is_not_sent_over_an_open_line() {
    let open = MercadoPagoOptions { base: "http://10.0.0.1".parse().unwrap(), ..options(KEY, "EUR") };
    assert!(!format!("{open:?}").contains(KEY));
    assert!(MercadoPago::new(open).unwrap_err().to_string().contains("by https"));
}

#[tokio::test]
async fn their_400_is_a_refusal_only_where_its_code_says_so() {
    let rig = MercadoPagoRig::new().await;
    for (fault, said, executed) in [
        (Fault::RateLimit, "answered 429", 0),
        (Fault::PostedBefore, "answered 400 2001", 0),
        (Fault::Gateway, "answered 400 2004", 0),
        (Fault::ErrorBefore, "answered 500", 0),
        (Fault::ErrorAfter, "answered 500", 1),
    ] {
        let payment = visa(&format!("{fault:?}"));
        rig.server.fail_next(fault);
        assert_eq!(cannot_say(rig.send(&payment).await), said);
        assert_eq!(rig.look_up(&payment).await, Answer::NotFound, "the search lags");
        rig.server.settle();
        assert_eq!(rig.server.executed(&payment.subject.operation_id.to_string()), executed, "{fault:?}");
        assert_eq!(matches!(rig.look_up(&payment).await, Answer::Done(_)), executed == 1, "{fault:?}");
    }
    assert_eq!(declined(rig.send(&paying("gone", "visa:GONE")).await), "mercadopago_2006");
    assert_eq!(declined(rig.send(&paying("poor", "visa:FUND")).await), "cc_rejected_insufficient_amount");
}

#[tokio::test]
async fn a_wrong_token_says_nothing() {
    let rig = MercadoPagoRig::new().await;
    let wrong = adapter(&rig.server.start().await, "TEST-wrong");
    let instruction = visa("k");
    let outgoing = wrong.compose(&instruction).unwrap();
    assert_eq!(cannot_say(wrong.send(&instruction.subject, &outgoing).await), "answered 401");
    assert_eq!(cannot_say(wrong.look_up(&instruction.subject).await), "answered 401");
}

#[tokio::test]
async fn of_two_payments_under_one_reference_the_paid_one_is_told() {
    let rig = MercadoPagoRig::new().await;
    let payment = visa("k");
    rig.send(&paying("other", "visa:FUND")).await;
    done(rig.send(&payment).await);
    rig.server.edit(0, "external_reference", payment.subject.operation_id.to_string());
    rig.server.settle();
    done(rig.look_up(&payment).await);
    rig.server.edit(1, "currency_id", "XXX");
    assert!(
        cannot_say(rig.look_up(&payment).await).contains("amount"),
        "what cannot be read is not passed over"
    );
}

#[tokio::test]
async fn steps_are_read_from_how_their_payment_stands() {
    let rig = MercadoPagoRig::new().await;
    let payment = rig.authorized("p").await;
    let capture = named("c", Kind::Capture, &payment, 4_000);
    let void = named("v", Kind::Void, &payment, 10_000);
    assert_eq!(rig.look_up(&capture).await, Answer::NotFound);
    assert_eq!(rig.look_up(&void).await, Answer::NotFound);
    rig.server.fail_next(Fault::ErrorAfter);
    cannot_say(rig.send(&capture).await);
    assert_eq!(done(rig.look_up(&capture).await).amount, amount(4_000));
    assert_eq!(declined(rig.look_up(&void).await), "already_captured");
    assert_eq!(declined(rig.send(&void).await), "mercadopago_2063");
    let other = named("c2", Kind::Capture, &payment, 5_000);
    assert!(cannot_say(rig.look_up(&other).await).contains("does not tell"));
    let of_another = named("c3", Kind::Capture, &visa("another payment"), 4_000);
    assert!(cannot_say(rig.look_up(&of_another).await).contains("another operation"));
}

#[tokio::test]
async fn a_refund_in_process_is_pending_and_cannot_be_asked_about() {
    let rig = MercadoPagoRig::new().await;
    let payment = visa("p");
    done(rig.send(&payment).await);
    let refund = named("r", Kind::Refund, &payment, 500);
    rig.server.fail_next(Fault::SlowRefund);
    assert!(matches!(rig.send(&refund).await, Answer::Pending(_)));
    assert!(cannot_say(rig.look_up(&refund).await).contains("no reference of ours"));
    rig.server.settle();
    let page = rig.adapter.list(Time::from_micros(0), None, 10).await.unwrap();
    let told: Vec<_> = page.items.iter().map(|item| (item.kind, item.standing, item.payment)).collect();
    let parent = Some(payment.subject.operation_id);
    assert_eq!(told, [(Kind::Payment, Standing::Done, None), (Kind::Refund, Standing::Pending, parent)]);
}

#[tokio::test]
async fn a_webhook_is_believed_as_far_as_it_is_signed() {
    let rig = MercadoPagoRig::new().await;
    let payment = visa("k");
    done(rig.send(&payment).await);
    let now = rig.server.now();
    let read = async |headers: HeaderMap, body: &[u8]| rig.adapter.read_event(&headers, body, now).await;
    let event = read(signed("1000000", now), &notice("payment", "1000000")).await.unwrap();
    assert_eq!(&*event.id, "req-1", "the body's own id is not signed");
    assert!(
        matches!(event.news, News::Operation(Standing::Done, report) if report.operation_id == payment.subject.operation_id)
    );

    let forged = read(signed("1000000", now), &notice("payment", "1000001")).await;
    assert!(matches!(forged, Err(EventRefusal::NotSigned(_))), "{forged:?}");
    let gone = read(signed("1000001", now), &notice("payment", "1000001")).await;
    assert!(matches!(gone, Err(EventRefusal::Unavailable(_))), "{gone:?}");
    let asked = rig.server.seen().len();
    let plan = read(signed("1000000", now), &notice("subscription", "1000000")).await.unwrap();
    assert_eq!(
        (plan.news, rig.server.seen().len()),
        (News::Other, asked),
        "nothing is asked about what is no payment"
    );
    rig.server.edit(0, "external_reference", "an order of somebody else's");
    assert_eq!(read(signed("1000000", now), &notice("payment", "1000000")).await.unwrap().news, News::Other);
}

#[tokio::test]
async fn c92_signatures_of_mercado_pago_s_scheme() {
    let adapter = adapter("http://127.0.0.1:1", KEY);
    let now = Time::from_micros(1_795_000_000_000_000);
    let body = notice("plan", "abc");
    for (offset, accepted) in [(0, true), (-299, true), (299, true), (-301, false), (301, false)] {
        let signed_at = Time::from_micros(now.as_micros() + offset * 1_000_000);
        let read = adapter.read_event(&signed("abc", signed_at), &body, now).await;
        assert_eq!(read.is_ok(), accepted, "{offset}: {read:?}");
    }
    for header in [
        "",
        "ts=1795000000",
        "v1=00",
        "ts=abc,v1=00",
        "ts=1,ts=1,v1=00",
        "ts=-1,v1=00",
        "ts=1000000000000000000,v1=00",
    ] {
        let mut headers = signed("abc", now);
        headers.insert("x-signature", header.parse().unwrap());
        let read = adapter.read_event(&headers, &body, now).await;
        assert!(matches!(read, Err(EventRefusal::NotSigned(_))), "{header}: {read:?}");
    }
    let mut headers = signed("abc", now);
    headers.remove("x-request-id");
    assert!(adapter.read_event(&headers, &body, now).await.is_err());
}
