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

use http::HeaderMap;
use unavez_core::identity::{OperationId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::time::Time;

use super::{Acquirer, Answer, BoxFuture, Instruction, Kind, Payment, Report, Subject};
use crate::charge::OrderId;
use crate::money::{Amount, Currency};

pub mod over_http;
mod payments;
mod steps;
mod telling;

pub use payments::{
    a_decline_is_bound_to_its_id, a_payment_is_done_and_found, a_request_holds_no_secret,
    a_request_is_made_of_its_instruction_alone, one_id_many_times_at_once_is_executed_once,
    one_id_twice_is_executed_once, other_content_under_one_id_is_not_executed,
    pending_stays_pending_until_it_is_decided, the_account_is_told_and_stays,
    what_was_never_sent_is_not_found,
};
pub use steps::{
    a_capture_is_done_and_found_by_its_own_id, a_step_too_far_is_declined_and_moves_nothing,
    a_void_is_done_and_found_by_its_own_id, refunds_are_done_and_found_by_their_own_ids,
};
pub use telling::{
    a_tampered_event_is_not_signed, an_event_tells_what_a_question_is_told, the_list_begins_at_its_time,
    the_list_tells_everything_once_oldest_first,
};

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
