//! The adapter of Stripe, against a server written after Stripe's documentation.

mod server;

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac as _};
use http::HeaderMap;
use sha2::Sha256;
use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_payments::acquirer::conformance::{Rig, Wanted};
use unavez_payments::acquirer::stripe::{Stripe, StripeOptions};
use unavez_payments::acquirer::vendor::{ApiKey, SharedSecrets};
use unavez_payments::acquirer::{
    Account, Acquirer, Answer, BoxFuture, EventRefusal, Instruction, Kind, News, Payment, Standing,
};
use unavez_payments::money::Currency;

use self::server::{Fault, KEY, StripeServer};
use crate::support::{amount, cannot_say, declined, done, payment, sighted, step};

const SECRET: &str = "whsec_stripe_0123456789abcdef";

fn adapter(base: &str, key: &str) -> Stripe {
    let account = Account::parse("stripe:acct_test").unwrap();
    let secrets = SharedSecrets::parse(&format!("whsec_another_0123456789\n{SECRET}")).unwrap();
    let options = StripeOptions::new(account, ApiKey::parse(key).unwrap(), secrets);
    Stripe::new(StripeOptions { base: base.parse().unwrap(), ..options }).unwrap()
}

struct StripeRig {
    server: StripeServer,
    stripe: Stripe,
}

impl StripeRig {
    async fn new() -> Self {
        let server = StripeServer::default();
        let stripe = adapter(&server.start().await, KEY);
        Self { server, stripe }
    }

    async fn send(&self, instruction: &Instruction) -> Answer {
        let outgoing = self.stripe.compose(instruction).unwrap();
        self.stripe.send(&instruction.subject, &outgoing).await
    }

    async fn look_up(&self, instruction: &Instruction) -> Answer {
        self.stripe.look_up(&instruction.subject).await
    }

    /// A payment that was made and authorised only, with the name Stripe gave it.
    async fn authorized(&self, key: &str) -> Instruction {
        let payment = Instruction { captures_at_once: false, ..visa(key) };
        done(self.send(&payment).await);
        payment
    }
}

fn signed(body: &[u8], signed_at: Time) -> HeaderMap {
    let t = (signed_at.as_micros() / 1_000_000).to_string();
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{t}.").as_bytes());
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut headers = HeaderMap::new();
    headers.insert("stripe-signature", format!("t={t},v1=00ff,v1={hex},v0=aa").parse().unwrap());
    headers
}

impl Rig for StripeRig {
    fn acquirer(&self) -> &dyn Acquirer {
        &self.stripe
    }

    fn method(&self, wanted: Wanted) -> Option<Box<str>> {
        Some(match wanted {
            Wanted::Approved => "pm_card_visa".into(),
            Wanted::Declined => "pm_card_chargeDeclined".into(),
            Wanted::Pending => "pm_card_threeDSecure2Required".into(),
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

    fn event(&self, operation: OperationId) -> BoxFuture<'_, Option<(HeaderMap, Vec<u8>)>> {
        let body = self.server.event(&operation.to_string(), "payment_intent.succeeded");
        Box::pin(std::future::ready(Some((signed(&body, self.server.now()), body))))
    }
}

mod suite {
    unavez_payments::acquirer_conformance!(super::StripeRig::new());
}

mod suite_on_a_bad_line {
    use std::sync::Arc;

    use unavez_payments::acquirer::Acquirer;

    fn at(base: &str) -> Arc<dyn Acquirer> {
        Arc::new(super::adapter(base, super::KEY))
    }

    unavez_payments::acquirer_http_conformance!(at, "pm_card_visa");
}

fn visa(key: &str) -> Instruction {
    payment(key, "pm_card_visa")
}

/// A step on a payment under Stripe's name for it.
fn named(key: &str, kind: Kind, of: &Instruction, minor_units: i64) -> Instruction {
    let mut step = step(key, kind, of, minor_units);
    step.subject.payment =
        Some(Payment { reference: Some("pi_1".into()), operation_id: of.subject.operation_id });
    step
}

fn body_of(instruction: &Instruction) -> String {
    let stripe = adapter("http://127.0.0.1:1", KEY);
    String::from_utf8(stripe.compose(instruction).unwrap().body.to_vec()).unwrap()
}

#[test]
fn c99_the_literal_bytes_of_an_amount() {
    for (minor_units, code, expected) in [
        (80, "JPY", "amount=80&currency=jpy&"),
        (1234, "EUR", "amount=1234&currency=eur&"),
        (1230, "KWD", "amount=1230&currency=kwd&"),
    ] {
        let mut instruction = visa("k");
        instruction.subject.amount = amount(minor_units);
        instruction.subject.currency = Currency::parse(code).unwrap();
        assert!(body_of(&instruction).starts_with(expected), "{code}");
    }
}

#[test]
fn c32_the_whole_request_of_a_payment() {
    let stripe = adapter("http://127.0.0.1:1", KEY);
    let instruction = Instruction { captures_at_once: false, ..visa("k") };
    let outgoing = stripe.compose(&instruction).unwrap();
    let id = instruction.subject.operation_id.to_string();
    assert_eq!((&*outgoing.method, &*outgoing.path), ("POST", "/v1/payment_intents"));
    assert!(outgoing.headers.contains(&("idempotency-key".into(), id.as_str().into())));
    assert_eq!(
        String::from_utf8(outgoing.body.to_vec()).unwrap(),
        format!(
            "amount=10000&currency=eur&payment_method=pm_card_visa&confirm=true&capture_method=manual\
             &automatic_payment_methods[enabled]=true&automatic_payment_methods[allow_redirects]=never\
             &metadata[order_id]=o-1&metadata[unavez_operation_id]={id}&metadata[unavez_tenant]=default"
        )
    );
}

#[test]
fn what_cannot_be_sent_names_its_member() {
    let stripe = adapter("http://127.0.0.1:1", KEY);
    let refused = |instruction: &Instruction| stripe.compose(instruction).unwrap_err().member;
    assert_eq!(refused(&Instruction { payment_method: None, ..visa("k") }), "payment_method");
    assert_eq!(refused(&step("r", Kind::Refund, &visa("k"), 1)), "payment");
    let mut odd = visa("k");
    odd.subject.currency = Currency::parse("KWD").unwrap();
    odd.subject.amount = amount(1234);
    assert_eq!(refused(&odd), "amount");
    let mut hostile = named("r", Kind::Capture, &visa("k"), 1);
    hostile.subject.payment.as_mut().unwrap().reference = Some("pi_1/cancel?".into());
    assert_eq!(refused(&hostile), "payment", "a name that would change the path");
}

#[test]
fn a_key_is_not_sent_over_an_open_line() {
    let account = Account::parse("stripe:acct_test").unwrap();
    let options = StripeOptions::new(account, ApiKey::parse(KEY).unwrap(), SharedSecrets::default());
    let open = StripeOptions { base: "http://10.0.0.1".parse().unwrap(), ..options };
    assert!(!format!("{open:?}").contains(KEY));
    assert!(Stripe::new(open).unwrap_err().to_string().contains("by https"));
}

#[tokio::test]
async fn faults_of_stripe_s_say_nothing_and_execute_nothing_twice() {
    let rig = StripeRig::new().await;
    for (fault, said) in [
        (Fault::RateLimit, "answered 429 rate_limit"),
        (Fault::LockTimeout, "answered 429 lock_timeout"),
        (Fault::KeyInUse, "answered 409 idempotency_key_in_use"),
        (Fault::ErrorBefore, "answered 500 api_error"),
        (Fault::ErrorAfter, "answered 500 api_error"),
    ] {
        let payment = visa(&format!("{fault:?}"));
        rig.server.fail_next(fault);
        assert_eq!(cannot_say(rig.send(&payment).await), said);
        if fault != Fault::ErrorAfter {
            rig.server.fail_next(fault);
            assert_eq!(cannot_say(rig.look_up(&payment).await), said, "a question");
        }
        rig.server.settle();
        let expected = if fault == Fault::ErrorAfter { 1 } else { 0 };
        assert_eq!(rig.server.executed(&payment.subject.operation_id.to_string()), expected, "{fault:?}");
        assert_eq!(matches!(rig.look_up(&payment).await, Answer::NotFound), expected == 0, "{fault:?}");
        done(rig.send(&payment).await);
        assert_eq!(rig.server.executed(&payment.subject.operation_id.to_string()), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn refusals_are_declines_and_show_their_code() {
    let rig = StripeRig::new().await;
    assert_eq!(declined(rig.send(&payment("a", "pm_card_chargeDeclined")).await), "generic_decline");
    assert_eq!(declined(rig.send(&payment("b", "pm_gone")).await), "resource_missing");
    let wrong = adapter(&rig.server.start().await, "sk_test_wrong");
    let instruction = visa("c");
    let outgoing = wrong.compose(&instruction).unwrap();
    assert_eq!(
        cannot_say(wrong.send(&instruction.subject, &outgoing).await),
        "answered 401 invalid_request_error"
    );
    cannot_say(wrong.look_up(&instruction.subject).await);
}

#[tokio::test]
async fn other_content_under_a_key_is_a_fault_and_no_outcome() {
    let rig = StripeRig::new().await;
    done(rig.send(&visa("k")).await);
    let mut dearer = visa("k");
    dearer.subject.amount = amount(10_001);
    assert_eq!(sighted(rig.send(&dearer).await), "answered 400 idempotency_error");
}

/// C81: the list lags, and "not found" is all it can say meanwhile.
#[tokio::test]
async fn c81_a_list_that_lags_finds_it_later_and_search_is_never_asked() {
    let rig = StripeRig::new().await;
    let payment = visa("k");
    rig.server.fail_next(Fault::ErrorAfter);
    cannot_say(rig.send(&payment).await);
    assert_eq!(rig.look_up(&payment).await, Answer::NotFound);
    assert!(rig.stripe.promise(Kind::Payment).visibility_delay > Duration::from_secs(60));
    rig.server.settle();
    done(rig.look_up(&payment).await);
    assert!(rig.server.seen().iter().all(|(target, _)| !target.contains("search")));
}

#[tokio::test]
async fn a_payment_is_looked_for_from_its_claim_on_through_every_page() {
    let rig = StripeRig::new().await;
    let payment = Instruction { captures_at_once: true, ..visa("first") };
    done(rig.send(&payment).await);
    for number in 0..250 {
        done(rig.send(&visa(&format!("later {number}"))).await);
    }
    rig.server.settle();
    done(rig.look_up(&payment).await);
    let asked = rig.server.seen();
    let pages: Vec<_> = asked.iter().filter(|(target, _)| target.starts_with("GET ")).collect();
    assert_eq!(pages.len(), 3);
    let from = 1_767_268_800 - 600;
    assert!(pages.iter().all(|(target, _)| target.contains(&format!("created[gte]={from}&"))), "{pages:?}");
}

#[tokio::test]
async fn an_answer_with_another_amount_or_operation_settles_nothing() {
    let rig = StripeRig::new().await;
    let payment = visa("k");
    done(rig.send(&payment).await);
    rig.server.settle();
    rig.server.edit("amount_received", 1);
    assert!(cannot_say(rig.look_up(&payment).await).contains("another amount"));
    rig.server.edit("amount_received", 10_000);
    rig.server.edit("status", "a_new_one");
    assert!(cannot_say(rig.look_up(&payment).await).contains("not known"));
    rig.server.edit("status", "succeeded");
    let refund = named("r", Kind::Capture, &visa("another payment"), 1);
    assert!(cannot_say(rig.look_up(&refund).await).contains("another operation"));
}

#[tokio::test]
async fn steps_are_read_from_how_their_payment_stands() {
    let rig = StripeRig::new().await;
    let payment = rig.authorized("p").await;
    let capture = named("c", Kind::Capture, &payment, 4_000);
    let void = named("v", Kind::Void, &payment, 10_000);
    assert_eq!(rig.look_up(&capture).await, Answer::NotFound);
    assert_eq!(rig.look_up(&void).await, Answer::NotFound);
    rig.server.fail_next(Fault::ErrorAfter);
    cannot_say(rig.send(&capture).await);
    assert_eq!(done(rig.look_up(&capture).await).amount, amount(4_000));
    assert_eq!(declined(rig.look_up(&void).await), "already_captured");
    assert_eq!(declined(rig.send(&void).await), "already_captured");
    let again = named("c2", Kind::Capture, &payment, 1);
    assert_eq!(declined(rig.send(&again).await), "already_captured");
    rig.server.settle();
    done(rig.look_up(&payment).await);
}

#[tokio::test]
async fn a_void_of_what_is_void_is_done() {
    let rig = StripeRig::new().await;
    let payment = rig.authorized("p").await;
    done(rig.send(&named("v1", Kind::Void, &payment, 10_000)).await);
    done(rig.send(&named("v2", Kind::Void, &payment, 10_000)).await);
    assert_eq!(declined(rig.send(&named("c", Kind::Capture, &payment, 1)).await), "payment_canceled");
}

#[tokio::test]
async fn the_list_tells_payments_captures_and_refunds() {
    let rig = StripeRig::new().await;
    let payment = rig.authorized("p").await;
    done(rig.send(&named("c", Kind::Capture, &payment, 4_000)).await);
    done(rig.send(&named("r", Kind::Refund, &payment, 1_000)).await);
    rig.server.edit("status", "succeeded");
    rig.server.settle();
    let mut told = Vec::new();
    let mut after: Option<Box<str>> = None;
    loop {
        let page = rig.stripe.list(Time::from_micros(0), after.as_deref(), 10).await.unwrap();
        told.extend(page.items.into_iter().map(|item| (item.kind, item.amount, item.standing)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(
        told,
        [
            (Kind::Payment, amount(10_000), Standing::Done),
            (Kind::Capture, amount(4_000), Standing::Done),
            (Kind::Refund, amount(1_000), Standing::Done)
        ]
    );
}

#[tokio::test]
async fn events_speak_of_their_operation_or_are_of_no_concern() {
    let rig = StripeRig::new().await;
    let payment = rig.authorized("p").await;
    let id = payment.subject.operation_id.to_string();
    let read = async |kind: &str| {
        let body = rig.server.event(&id, kind);
        rig.stripe.read_event(&signed(&body, rig.server.now()), &body, rig.server.now()).await
    };
    let news = async |kind: &str| read(kind).await.unwrap().news;
    let News::Operation(Standing::Done, report) = news("payment_intent.amount_capturable_updated").await
    else {
        panic!("an authorisation is done")
    };
    assert_eq!(report.operation_id, payment.subject.operation_id);
    let capture = named("c", Kind::Capture, &payment, 4_000);
    done(rig.send(&capture).await);
    let News::Operation(Standing::Done, report) = news("payment_intent.succeeded").await else {
        panic!("done")
    };
    assert_eq!((report.operation_id, report.amount), (capture.subject.operation_id, amount(4_000)));
    assert_eq!(news("payment_intent.canceled").await, News::Other);
    assert_eq!(news("customer.created").await, News::Other);
    rig.server.edit("currency", "xxx");
    assert!(matches!(read("payment_intent.succeeded").await, Err(EventRefusal::Malformed(_))));
}

#[tokio::test]
async fn c92_signatures_of_stripe_s_scheme() {
    let stripe = Arc::new(adapter("http://127.0.0.1:1", KEY));
    let body = br#"{"id":"evt_1","type":"ping","data":{"object":{}}}"#;
    let now = Time::from_micros(1_795_000_000_000_000);
    for (offset, accepted) in [(0, true), (-299, true), (299, true), (-301, false), (301, false)] {
        let signed_at = Time::from_micros(now.as_micros() + offset * 1_000_000);
        let read = stripe.read_event(&signed(body, signed_at), body, now).await;
        assert_eq!(read.is_ok(), accepted, "{offset}: {read:?}");
    }
    for header in ["", "t=1795000000", "v1=00", "t=abc,v1=00", "t=1795000000,t=1,v1=00", "t=-1,v1=00"] {
        let mut headers = HeaderMap::new();
        headers.insert("stripe-signature", header.parse().unwrap());
        let read = stripe.read_event(&headers, body, now).await;
        assert!(matches!(read, Err(EventRefusal::NotSigned(_))), "{header}: {read:?}");
    }
}
