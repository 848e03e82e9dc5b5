//! Instructions to give, and sandboxes to give them to.

use std::sync::Arc;

use unavez_core::identity::{OperationId, Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::time::Time;
use unavez_payments::acquirer::sandbox::{Behaviour, Sandbox, SandboxAcquirer};
use unavez_payments::acquirer::signature::Secrets;
use unavez_payments::acquirer::{Acquirer, Answer, Instruction, Kind, Payment, Report, Subject};
use unavez_payments::charge::OrderId;
use unavez_payments::money::{Amount, Currency};
use unavez_store::clock::ManualClock;
use unavez_store::sqlite::{Location, Options};

/// A sandbox in memory whose clock moves only when told, and its adapter.
pub(crate) struct Bench {
    pub(crate) clock: ManualClock,
    pub(crate) sandbox: Sandbox,
    pub(crate) acquirer: SandboxAcquirer,
}

impl Bench {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        let clock = ManualClock::new();
        let options = Options { clock: Some(Arc::new(clock.clone())), ..Options::default() };
        let sandbox = Sandbox::open(Location::Memory, options, behaviour).unwrap();
        let acquirer = SandboxAcquirer::in_process(&sandbox, Secrets::random());
        Self { clock, sandbox, acquirer }
    }

    pub(crate) async fn send(&self, instruction: &Instruction) -> Answer {
        let outgoing = self.acquirer.compose(instruction).unwrap();
        self.acquirer.send(&instruction.subject, &outgoing).await
    }

    pub(crate) async fn look_up(&self, instruction: &Instruction) -> Answer {
        self.acquirer.look_up(&instruction.subject).await
    }

    /// How often an operation was executed.
    pub(crate) async fn executed(&self, instruction: &Instruction) -> u64 {
        let counts = self.sandbox.executed().await.unwrap();
        let id = instruction.subject.operation_id;
        counts.into_iter().find(|(other, _)| *other == id).map_or(0, |(_, count)| count)
    }
}

pub(crate) fn operation(key: &str) -> OperationId {
    let realm = Realm::parse("tests").unwrap();
    RecordId::of(&realm, &Tenant::single(), &Key::parse_path(key).unwrap()).operation_id()
}

pub(crate) fn amount(minor_units: i64) -> Amount {
    Amount::of_minor_units(minor_units).unwrap()
}

/// A payment of 100.00 EUR that captures at once.
pub(crate) fn payment(key: &str, method: &str) -> Instruction {
    Instruction {
        subject: Subject {
            operation_id: operation(key),
            kind: Kind::Payment,
            tenant: Tenant::single(),
            amount: amount(10_000),
            currency: Currency::parse("EUR").unwrap(),
            payment: None,
            claimed_at: Time::from_micros(1_767_268_800_000_000),
        },
        order_id: OrderId::parse("o-1").unwrap(),
        payment_method: Some(method.into()),
        captures_at_once: true,
        metadata: None,
    }
}

/// A step on a payment.
pub(crate) fn step(key: &str, kind: Kind, payment: &Instruction, minor_units: i64) -> Instruction {
    let subject = Subject {
        operation_id: operation(key),
        kind,
        amount: amount(minor_units),
        payment: Some(Payment { operation_id: payment.subject.operation_id, reference: None }),
        ..payment.subject.clone()
    };
    Instruction { subject, payment_method: None, ..payment.clone() }
}

#[track_caller]
pub(crate) fn done(answer: Answer) -> Report {
    match answer {
        Answer::Done(report) => report,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn declined(answer: Answer) -> String {
    match answer {
        Answer::Declined(report) => report.decline_code.unwrap().into(),
        other => panic!("not declined: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn cannot_say(answer: Answer) -> String {
    match answer {
        Answer::CannotSay(reason) => reason.0.into(),
        other => panic!("something was said: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn sighted(answer: Answer) -> String {
    match answer {
        Answer::Sighted(reason) => reason.0.into(),
        other => panic!("not seen: {other:?}"),
    }
}
