//! The suite that every adapter passes. A new one is done when it does.
//!
//! Each case is a function that panics where the adapter breaks a rule of [`super`]. Those of this module take a
//! [`Rig`]: the adapter in front of an acquirer that can be looked into. Those of [`over_http`] take the adapter in
//! front of nothing, of a proxy, of a broken line.
//!
//! ```
//! # use std::sync::Arc;
//! # use unavez_payments::acquirer::conformance::{Rig, Wanted};
//! # use unavez_payments::acquirer::sandbox::{Behaviour, Sandbox, SandboxAcquirer, Terms};
//! # use unavez_payments::acquirer::signature::Secrets;
//! # use unavez_payments::acquirer::{Acquirer, BoxFuture};
//! # use unavez_core::identity::OperationId;
//! # struct Rigged(SandboxAcquirer, Sandbox);
//! # impl Rig for Rigged {
//! #     fn acquirer(&self) -> &dyn Acquirer { &self.0 }
//! #     fn method(&self, _: Wanted) -> Option<Box<str>> { None }
//! #     fn executed(&self, _: OperationId) -> BoxFuture<'_, u64> { Box::pin(async { 0 }) }
//! #     fn settle(&self) -> BoxFuture<'_, ()> { Box::pin(async {}) }
//! # }
//! async fn rig() -> impl Rig {
//!     // The adapter, an acquirer for tests behind it, and how to count what that executed.
//! #   let sandbox = Sandbox::open(unavez_store::sqlite::Location::Memory, Default::default(), Behaviour::default()).unwrap();
//! #   Rigged(SandboxAcquirer::in_process(&sandbox, Secrets::random()), sandbox)
//! }
//!
//! fn at(base: &str) -> Arc<dyn Acquirer> {
//!     // The same adapter, but its requests go to `base`.
//! #   Arc::new(SandboxAcquirer::over_http(base.parse().unwrap(), Terms::default(), Secrets::random()).unwrap())
//! }
//!
//! mod my_adapter {
//!     unavez_payments::acquirer_conformance!(super::rig());
//! }
//! mod my_adapter_over_http {
//!     unavez_payments::acquirer_http_conformance!(super::at, "tok_approve");
//! }
//! ```

use std::collections::HashSet;
use std::time::Duration;

use http::HeaderMap;
use unavez_core::identity::{OperationId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::time::Time;

use super::{
    Acquirer, Answer, BoxFuture, EventRefusal, Instruction, Kind, News, Payment, Report, Standing, Subject,
};
use crate::charge::OrderId;
use crate::money::{Amount, Currency};

pub mod over_http;

/// Defines a test for every case of the suite; the argument makes a future of a [`Rig`]. Needs tokio's macros.
#[macro_export]
macro_rules! acquirer_conformance {
    ($rig:expr) => {
        $crate::acquirer_conformance!(@each $rig;
            the_account_is_told_and_stays,
            a_request_is_made_of_its_instruction_alone,
            a_request_holds_no_secret,
            a_payment_is_done_and_found,
            a_decline_is_bound_to_its_id,
            pending_stays_pending_until_it_is_decided,
            what_was_never_sent_is_not_found,
            one_id_twice_is_executed_once,
            one_id_many_times_at_once_is_executed_once,
            other_content_under_one_id_is_not_executed,
            a_capture_is_done_and_found_by_its_own_id,
            a_void_is_done_and_found_by_its_own_id,
            refunds_are_done_and_found_by_their_own_ids,
            a_step_too_far_is_declined_and_moves_nothing,
            the_list_tells_everything_once_oldest_first,
            the_list_begins_at_its_time,
            an_event_tells_what_a_question_is_told,
            a_tampered_event_is_not_signed,
        );
    };
    (@each $rig:expr; $($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            $crate::acquirer::conformance::$case(&$rig.await).await;
        }
    )*};
}

/// An adapter, and the acquirer behind it as tests see it.
pub trait Rig: Send + Sync {
    /// The adapter.
    fn acquirer(&self) -> &dyn Acquirer;

    /// A payment method that makes the acquirer do so; `None`: it has none.
    fn method(&self, wanted: Wanted) -> Option<Box<str>>;

    /// How often the acquirer executed an operation. Asked of its books, not through the adapter.
    fn executed(&self, operation: OperationId) -> BoxFuture<'_, u64>;

    /// Lets time pass until what is pending is decided, and what was executed can be seen.
    fn settle(&self) -> BoxFuture<'_, ()>;

    /// The acquirer's time. Default: a moment in 2026.
    fn now(&self) -> Time {
        Time::from_micros(1_767_268_800_000_000)
    }

    /// Lets a second pass at the acquirer. Default: nothing, for acquirers whose lists are not ordered by time.
    fn pass_a_second(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether the signature of a webhook covers its body. Default: it does. Where it does not, the adapter must believe
    /// nothing of the body that the signature does not prove.
    fn signs_bodies(&self) -> bool {
        true
    }

    /// A webhook about an operation as the acquirer signs it, after [`Rig::settle`]; `None`: it sends none.
    fn event(&self, _operation: OperationId) -> BoxFuture<'_, Option<(HeaderMap, Vec<u8>)>> {
        Box::pin(std::future::ready(None))
    }
}

/// How a payment is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Approved at once.
    Approved,
    /// Declined at once.
    Declined,
    /// Pending, and approved later.
    Pending,
}

/// The instructions of one case: ids of their own, all else alike.
struct Case<'a, R: ?Sized> {
    rig: &'a R,
    realm: Realm,
}

impl<'a, R: Rig + ?Sized> Case<'a, R> {
    fn new(rig: &'a R) -> Self {
        Self { rig, realm: Realm::parse("conformance").expect("well-formed") }
    }

    fn operation(&self, key: &str) -> OperationId {
        let key = Key::parse_path(key).expect("well-formed");
        RecordId::of(&self.realm, &tenant(), &key).operation_id()
    }

    /// A payment of 100.00 EUR, if the acquirer can be made to do so.
    fn try_payment(&self, key: &str, wanted: Wanted) -> Option<Instruction> {
        let method = self.rig.method(wanted)?;
        Some(payment(self.operation(key), method, self.rig.now()))
    }

    fn payment(&self, key: &str) -> Instruction {
        self.try_payment(key, Wanted::Approved).expect("an acquirer that approves nothing cannot be judged")
    }

    fn authorization(&self, key: &str) -> Instruction {
        Instruction { captures_at_once: false, ..self.payment(key) }
    }

    /// A step on a payment that was executed and reported so.
    fn step(
        &self,
        key: &str,
        kind: Kind,
        of: &Instruction,
        report: &Report,
        minor_units: i64,
    ) -> Instruction {
        let parent = Payment { operation_id: of.subject.operation_id, reference: report.reference.clone() };
        let subject = Subject {
            operation_id: self.operation(key),
            kind,
            amount: amount(minor_units),
            payment: Some(parent),
            ..of.subject.clone()
        };
        Instruction { subject, payment_method: None, ..of.clone() }
    }

    async fn send(&self, instruction: &Instruction) -> Answer {
        let outgoing = self.rig.acquirer().compose(instruction).expect("the acquirer can do this");
        self.rig.acquirer().send(&instruction.subject, &outgoing).await
    }

    async fn look_up(&self, instruction: &Instruction) -> Answer {
        self.rig.acquirer().look_up(&instruction.subject).await
    }

    async fn executed(&self, instruction: &Instruction) -> u64 {
        self.rig.executed(instruction.subject.operation_id).await
    }

    /// Sends what must be done, and checks what is told about it.
    async fn done(&self, instruction: &Instruction) -> Report {
        let report = done(self.send(instruction).await);
        check(&report, instruction);
        report
    }

    /// Asks about what was done. Where an adapter cannot be asked about a kind, it must not claim a window in which
    /// something is sent again.
    async fn found(&self, instruction: &Instruction) -> Option<Report> {
        self.rig.settle().await;
        match self.look_up(instruction).await {
            Answer::CannotSay(_) if !self.is_sent_again(instruction.subject.kind) => None,
            answer => {
                let report = done(answer);
                check(&report, instruction);
                Some(report)
            }
        }
    }

    fn is_sent_again(&self, kind: Kind) -> bool {
        self.rig.acquirer().promise(kind).resend_window.is_some()
    }
}

fn tenant() -> Tenant {
    Tenant::parse("shop-a").expect("well-formed")
}

fn amount(minor_units: i64) -> Amount {
    Amount::of_minor_units(minor_units).expect("within the limits")
}

/// A payment of 100.00 EUR that is captured at once.
fn payment(operation_id: OperationId, method: Box<str>, claimed_at: Time) -> Instruction {
    let subject = Subject {
        operation_id,
        kind: Kind::Payment,
        tenant: tenant(),
        amount: amount(10_000),
        currency: Currency::parse("EUR").expect("in the table"),
        payment: None,
        claimed_at,
    };
    Instruction {
        subject,
        order_id: OrderId::parse("o-1001 ñ").expect("printable"),
        payment_method: Some(method),
        captures_at_once: true,
        metadata: Some("{\"note\":\"a \\\"b\\\"\",\"payer_email\":\"payer@example.com\"}".into()),
    }
}

#[track_caller]
fn done(answer: Answer) -> Report {
    match answer {
        Answer::Done(report) => report,
        other => panic!("it must be done, got {other:?}"),
    }
}

#[track_caller]
fn declined(answer: Answer) -> Report {
    match answer {
        Answer::Declined(report) => report,
        other => panic!("it must be declined, got {other:?}"),
    }
}

/// What is told must be about the operation that was sent (P28).
#[track_caller]
fn check(report: &Report, instruction: &Instruction) {
    let subject = &instruction.subject;
    assert_eq!(report.operation_id, subject.operation_id, "another operation");
    assert_eq!(report.kind, subject.kind, "another kind");
    assert_eq!((report.amount, report.currency), (subject.amount, subject.currency), "another amount");
    assert!(report.tenant.as_ref().is_none_or(|tenant| *tenant == subject.tenant), "another tenant");
    let parent = subject.payment.as_ref().map(|payment| payment.operation_id);
    assert!(report.payment.is_none() || report.payment == parent, "another payment");
}

/// Its name is what stored operations are compared with, after a restart too.
pub async fn the_account_is_told_and_stays<R: Rig + ?Sized>(rig: &R) {
    let account = rig.acquirer().account().clone();
    let case = Case::new(rig);
    case.done(&case.payment("k")).await;
    assert_eq!(*rig.acquirer().account(), account);
    assert!(account.as_str().contains(':'), "which acquirer, and which account of it");
}

/// The same instruction makes the same bytes, whenever it is read; another id makes others.
pub async fn a_request_is_made_of_its_instruction_alone<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let compose = |instruction: &Instruction| rig.acquirer().compose(instruction).expect("it can be sent");
    let instruction = case.payment("k");
    let first = compose(&instruction);
    case.done(&case.payment("between")).await;
    assert_eq!(compose(&instruction), first);
    let mut later = instruction.clone();
    later.subject.claimed_at = later.subject.claimed_at.plus(Duration::from_secs(86_400));
    assert_eq!(compose(&later), first, "the time of the claim is not part of it");
    assert_ne!(compose(&case.payment("other")), first);
}

/// Requests are stored before they are sent, and secrets are not.
pub async fn a_request_holds_no_secret<R: Rig + ?Sized>(rig: &R) {
    let outgoing = rig.acquirer().compose(&Case::new(rig).payment("k")).expect("it can be sent");
    for (name, _) in &outgoing.headers {
        assert!(!["authorization", "proxy-authorization", "cookie"].contains(&&**name), "{name}");
        assert_eq!(**name, *name.to_lowercase(), "names are in lower case");
    }
    assert!(outgoing.path.starts_with('/'), "from the acquirer's base address on");
}

/// What was executed is told at once, and again when it is asked about.
pub async fn a_payment_is_done_and_found<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    for instruction in [case.payment("at once"), case.authorization("later")] {
        case.done(&instruction).await;
        assert!(case.found(&instruction).await.is_some(), "payments can be asked about");
        assert_eq!(case.executed(&instruction).await, 1);
    }
}

/// A decline is an answer like any other, for its repeat and for questions.
pub async fn a_decline_is_bound_to_its_id<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some(instruction) = case.try_payment("k", Wanted::Declined) else { return };
    let report = declined(case.send(&instruction).await);
    check(&report, &instruction);
    assert!(report.decline_code.is_some(), "with the acquirer's word for it");
    declined(case.send(&instruction).await);
    rig.settle().await;
    check(&declined(case.look_up(&instruction).await), &instruction);
}

/// Pending is told as such until the acquirer has decided.
pub async fn pending_stays_pending_until_it_is_decided<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some(instruction) = case.try_payment("k", Wanted::Pending) else { return };
    match case.send(&instruction).await {
        Answer::Pending(report) => check(&report, &instruction),
        other => panic!("it must be pending, got {other:?}"),
    }
    rig.settle().await;
    assert!(case.found(&instruction).await.is_some());
    assert_eq!(case.executed(&instruction).await, 1);
}

/// "Not found" is an answer, and only about what is not there. An adapter that cannot look up a kind says so.
pub async fn what_was_never_sent_is_not_found<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    assert_eq!(case.look_up(&case.payment("not there")).await, Answer::NotFound);
    let (authorized, captured) = (case.authorization("authorized"), case.payment("captured"));
    let reports = [case.done(&authorized).await, case.done(&captured).await];
    rig.settle().await;
    let parents = [(&authorized, &reports[0]), (&authorized, &reports[0]), (&captured, &reports[1])];
    for (kind, (payment, report)) in [Kind::Capture, Kind::Void, Kind::Refund].into_iter().zip(parents) {
        let step = case.step(kind.as_str(), kind, payment, report, 1);
        match case.look_up(&step).await {
            Answer::NotFound => {}
            Answer::CannotSay(_) if !case.is_sent_again(kind) => {}
            other => panic!("{kind:?} was never sent, got {other:?}"),
        }
    }
}

/// A repeat gets the first answer.
pub async fn one_id_twice_is_executed_once<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let instruction = case.payment("k");
    if case.is_sent_again(Kind::Payment) {
        let first = case.done(&instruction).await;
        assert_eq!(case.done(&instruction).await.reference, first.reference);
        assert_eq!(case.executed(&instruction).await, 1);
    }
}

/// Repeats that overlap are executed once too; those that meet the first may get no answer.
pub async fn one_id_many_times_at_once_is_executed_once<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let instruction = case.payment("k");
    if !case.is_sent_again(Kind::Payment) {
        return;
    }
    let (a, b, c, d) = tokio::join!(
        case.send(&instruction),
        case.send(&instruction),
        case.send(&instruction),
        case.send(&instruction)
    );
    let answers = [a, b, c, d];
    assert!(answers.iter().any(|answer| matches!(answer, Answer::Done(_))), "{answers:?}");
    for answer in answers {
        assert!(matches!(answer, Answer::Done(_) | Answer::CannotSay(_)), "{answer:?}");
    }
    assert_eq!(case.executed(&instruction).await, 1);
}

/// An id that was used for something else is a fault, not an outcome: neither done nor declined.
pub async fn other_content_under_one_id_is_not_executed<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let instruction = case.payment("k");
    if !case.is_sent_again(Kind::Payment) {
        return;
    }
    case.done(&instruction).await;
    let mut dearer = instruction.clone();
    dearer.subject.amount = amount(10_001);
    let answer = case.send(&dearer).await;
    assert!(matches!(answer, Answer::CannotSay(_)), "{answer:?}");
    assert_eq!(case.executed(&instruction).await, 1);
    case.found(&instruction).await;
}

/// A part of an authorisation is taken.
pub async fn a_capture_is_done_and_found_by_its_own_id<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.authorization("p");
    let report = case.done(&payment).await;
    let capture = case.step("c", Kind::Capture, &payment, &report, 4_000);
    case.done(&capture).await;
    case.found(&capture).await;
    if case.is_sent_again(Kind::Capture) {
        case.done(&capture).await;
    }
    assert_eq!(case.executed(&capture).await, 1);
}

/// An authorisation is given up.
pub async fn a_void_is_done_and_found_by_its_own_id<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.authorization("p");
    let report = case.done(&payment).await;
    let void = case.step("v", Kind::Void, &payment, &report, 10_000);
    case.done(&void).await;
    case.found(&void).await;
    if case.is_sent_again(Kind::Void) {
        case.done(&void).await;
    }
    assert_eq!(case.executed(&void).await, 1);
}

/// Two refunds of one amount are two refunds; a repeat is none.
pub async fn refunds_are_done_and_found_by_their_own_ids<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.payment("p");
    let report = case.done(&payment).await;
    for key in ["r1", "r2"] {
        let refund = case.step(key, Kind::Refund, &payment, &report, 500);
        case.done(&refund).await;
        case.found(&refund).await;
        if case.is_sent_again(Kind::Refund) {
            case.done(&refund).await;
        }
        assert_eq!(case.executed(&refund).await, 1, "{key}");
    }
}

/// More than there is to take or to give back is refused for good.
pub async fn a_step_too_far_is_declined_and_moves_nothing<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let payment = case.payment("p");
    let report = case.done(&payment).await;
    case.done(&case.step("r1", Kind::Refund, &payment, &report, 6_000)).await;
    let too_far = case.step("r2", Kind::Refund, &payment, &report, 6_000);
    check(&declined(case.send(&too_far).await), &too_far);
    case.done(&case.step("rest", Kind::Refund, &payment, &report, 4_000)).await;
}

/// What the list of an account tells from that time on, page by page.
async fn listed<R: Rig + ?Sized>(rig: &R, since: Time, limit: usize) -> Vec<super::Listed> {
    const PAGES_MAX: usize = 100;
    let mut items = Vec::new();
    let mut after: Option<Box<str>> = None;
    for _ in 0..PAGES_MAX {
        let page =
            rig.acquirer().list(since, after.as_deref(), limit).await.expect("the list can be asked for");
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return items;
        }
    }
    panic!("the list has no end")
}

/// Whatever the size of its pages.
pub async fn the_list_tells_everything_once_oldest_first<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let since = rig.now();
    let mut sent = Vec::new();
    for number in 0..5 {
        let payment = case.payment(&format!("p{number}"));
        case.done(&payment).await;
        sent.push(Some(payment.subject.operation_id));
        rig.pass_a_second().await;
    }
    rig.settle().await;
    for limit in [1, 2, 5, 100] {
        let items = listed(rig, since, limit).await;
        let payments = items.iter().filter(|item| item.kind == Kind::Payment);
        assert_eq!(payments.clone().map(|item| item.operation_id).collect::<Vec<_>>(), sent, "limit {limit}");
        assert!(items.is_sorted_by_key(|item| item.created_at), "limit {limit}");
        for item in payments {
            assert_eq!((item.amount, item.standing), (amount(10_000), Standing::Done));
        }
        let names: HashSet<_> = items.iter().map(|item| &item.reference).collect();
        assert_eq!(names.len(), items.len(), "each has a name of its own");
    }
}

/// What is older is left out.
pub async fn the_list_begins_at_its_time<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    case.done(&case.payment("before")).await;
    for _ in 0..2 {
        rig.pass_a_second().await;
    }
    let since = rig.now();
    let payment = case.payment("after");
    case.done(&payment).await;
    rig.settle().await;
    let all = listed(rig, Time::from_micros(0), 100).await;
    if all.iter().all(|item| item.created_at == all[0].created_at) {
        return;
    }
    let ids: Vec<_> = listed(rig, since, 100).await.into_iter().map(|item| item.operation_id).collect();
    assert_eq!(ids, [Some(payment.subject.operation_id)]);
}

/// A webhook about one operation, from an acquirer that sends them.
async fn event<R: Rig + ?Sized>(case: &Case<'_, R>) -> Option<(Instruction, HeaderMap, Vec<u8>)> {
    let instruction = case.try_payment("k", Wanted::Pending).unwrap_or_else(|| case.payment("k"));
    let answer = case.send(&instruction).await;
    assert!(matches!(answer, Answer::Done(_) | Answer::Pending(_)), "{answer:?}");
    case.rig.settle().await;
    let (headers, body) = case.rig.event(instruction.subject.operation_id).await?;
    Some((instruction, headers, body))
}

/// An event settles what a question would settle, with the same content.
pub async fn an_event_tells_what_a_question_is_told<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some((instruction, headers, body)) = event(&case).await else { return };
    let event = rig.acquirer().read_event(&headers, &body, rig.now()).await.expect("its signature is right");
    assert!(!event.id.is_empty());
    match event.news {
        News::Operation(Standing::Done, report) => check(&report, &instruction),
        other => panic!("it must tell that the operation is done, got {other:?}"),
    }
}

/// One byte more or less, another secret, another time: nothing of it is believed.
pub async fn a_tampered_event_is_not_signed<R: Rig + ?Sized>(rig: &R) {
    let case = Case::new(rig);
    let Some((_, headers, body)) = event(&case).await else { return };
    let mut changed = body.clone();
    if let Some(last) = changed.last_mut() {
        *last ^= 1;
    }
    let longer = [&body[..], b" "].concat();
    let now = rig.now();
    let later = now.plus(Duration::from_secs(3600));
    let unsigned = HeaderMap::new();
    let mut cases: Vec<(&HeaderMap, &[u8], Time)> = vec![
        (&headers, &changed, now),
        (&headers, b"", now),
        (&headers, &body, later),
        (&unsigned, &body, now),
    ];
    if rig.signs_bodies() {
        cases.push((&headers, &longer, now));
    }
    for (headers, body, now) in cases {
        let read = rig.acquirer().read_event(headers, body, now).await;
        assert!(matches!(read, Err(EventRefusal::NotSigned(_))), "{read:?}");
    }
}
