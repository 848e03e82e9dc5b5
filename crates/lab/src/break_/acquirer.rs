//! Acquirers with one piece missing between them and the service: decorations around the bank, each as small as the mistake
//! it makes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use bytes::Bytes;
use unavez_core::{
    identity::{OperationId, RecordId},
    recovery::Promise,
    time::Time,
};
use unavez_payments::acquirer::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, Event, EventRefusal, Instruction, Kind, ListPage,
    Outgoing, Subject, Unsendable,
};

use crate::Mutation;

/// The acquirer without the piece, if the piece is one of its; else the acquirer itself.
pub(crate) fn without_at_the_acquirer(
    mutation: Option<Mutation>,
    inner: Arc<dyn Acquirer>,
) -> Arc<dyn Acquirer> {
    match mutation {
        Some(Mutation::NoLookup) => decorated(inner, NoLookup),
        Some(Mutation::NoVisibilityDelay) => decorated(inner, NoVisibilityDelay),
        Some(Mutation::WebhookTwice) => decorated(inner, WebhookTwice::default()),
        Some(Mutation::NewOperationIdOnReclaim) => decorated(inner, NewOperationId::default()),
        _ => inner,
    }
}

/// An acquirer around another one.
struct Decorated<M> {
    inner: Arc<dyn Acquirer>,
    mistake: M,
}

/// What is done instead of what should be; by default everything is right.
trait Mistake: Send + Sync + 'static {
    fn promise(&self, promise: Promise) -> Promise {
        promise
    }

    fn send<'a>(
        &'a self,
        inner: &'a dyn Acquirer,
        subject: &'a Subject,
        outgoing: &'a Outgoing,
    ) -> BoxFuture<'a, Answer> {
        inner.send(subject, outgoing)
    }

    fn look_up<'a>(&'a self, inner: &'a dyn Acquirer, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        inner.look_up(subject)
    }

    fn event(&self, event: Event) -> Event {
        event
    }
}

fn decorated(inner: Arc<dyn Acquirer>, mistake: impl Mistake) -> Arc<dyn Acquirer> {
    Arc::new(Decorated { inner, mistake })
}

/// Sends again without asking: as if every question had been answered at once with "not found".
struct NoLookup;

impl Mistake for NoLookup {
    fn promise(&self, promise: Promise) -> Promise {
        NoVisibilityDelay.promise(promise)
    }

    fn look_up<'a>(&'a self, _: &'a dyn Acquirer, _: &'a Subject) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::NotFound))
    }
}

/// Believes "not found" at once.
struct NoVisibilityDelay;

impl Mistake for NoVisibilityDelay {
    fn promise(&self, promise: Promise) -> Promise {
        Promise { visibility_delay: Duration::ZERO, ..promise }
    }
}

/// Takes every delivery for an event of its own.
#[derive(Default)]
struct WebhookTwice {
    deliveries: AtomicU64,
}

impl Mistake for WebhookTwice {
    fn event(&self, event: Event) -> Event {
        let delivery = self.deliveries.fetch_add(1, Ordering::AcqRel);
        Event { id: format!("{}-{delivery}", event.id).into(), ..event }
    }
}

/// Gives every attempt after the first a new name at the acquirer.
#[derive(Default)]
struct NewOperationId {
    sends: AtomicU64,
}

impl NewOperationId {
    /// The first attempt keeps the operation's own name.
    fn name(&self, own: OperationId) -> OperationId {
        let sends = self.sends.fetch_add(1, Ordering::AcqRel);
        let mut bytes = *own.record_id().as_bytes();
        for (byte, of_send) in bytes.iter_mut().zip(sends.to_be_bytes()) {
            *byte ^= of_send;
        }
        RecordId::from_bytes(bytes).operation_id()
    }
}

impl Mistake for NewOperationId {
    fn send<'a>(
        &'a self,
        inner: &'a dyn Acquirer,
        subject: &'a Subject,
        outgoing: &'a Outgoing,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let own = subject.operation_id;
            let name = self.name(own);
            let body = String::from_utf8_lossy(&outgoing.body).replace(&own.to_string(), &name.to_string());
            let renamed = Outgoing { body: Bytes::from(body), ..outgoing.clone() };
            let subject = Subject { operation_id: name, ..subject.clone() };
            with_name(inner.send(&subject, &renamed).await, own)
        })
    }
}

/// The answer, as if it were about the operation's own name.
fn with_name(answer: Answer, own: OperationId) -> Answer {
    let named = |mut report: unavez_payments::acquirer::Report| {
        report.operation_id = own;
        report
    };
    match answer {
        Answer::Done(report) => Answer::Done(named(report)),
        Answer::Declined(report) => Answer::Declined(named(report)),
        Answer::Pending(report) => Answer::Pending(named(report)),
        other => other,
    }
}

impl<M: Mistake> Acquirer for Decorated<M> {
    fn account(&self) -> &Account {
        self.inner.account()
    }

    fn promise(&self, kind: Kind) -> Promise {
        self.mistake.promise(self.inner.promise(kind))
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        self.inner.compose(instruction)
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        self.mistake.send(&*self.inner, subject, outgoing)
    }

    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        self.mistake.look_up(&*self.inner, subject)
    }

    fn list<'a>(
        &'a self,
        since: Time,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<ListPage, CannotSay>> {
        self.inner.list(since, after, limit)
    }

    fn read_event<'a>(
        &'a self,
        headers: &'a http::HeaderMap,
        body: &'a [u8],
        now: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>> {
        Box::pin(async move {
            let event = self.inner.read_event(headers, body, now).await?;
            Ok(self.mistake.event(event))
        })
    }
}

#[cfg(test)]
mod tests {
    use unavez_core::identity::Tenant;
    use unavez_payments::{
        charge::OrderId,
        money::{Amount, Currency},
    };
    use unavez_store::clock::ManualClock;

    use super::*;
    use crate::servers::{Bank, Fate};

    async fn without(mutation: Mutation) -> (Arc<dyn Acquirer>, Arc<Bank>) {
        let bank = Bank::open(&ManualClock::new()).await.expect("a database in memory");
        (without_at_the_acquirer(Some(mutation), Arc::clone(&bank) as _), bank)
    }

    fn subject() -> Subject {
        Subject {
            operation_id: RecordId::from_bytes([7; 16]).operation_id(),
            kind: Kind::Payment,
            tenant: Tenant::single(),
            amount: Amount::of_minor_units(50_000).expect("an amount"),
            currency: Currency::parse("USD").expect("a currency"),
            payment: None,
            claimed_at: Time::from_micros(0),
        }
    }

    async fn send(acquirer: &dyn Acquirer) -> Answer {
        let instruction = Instruction {
            subject: subject(),
            order_id: OrderId::parse("o-1").expect("an order"),
            payment_method: None,
            captures_at_once: true,
            metadata: None,
        };
        let outgoing = acquirer.compose(&instruction).expect("a payment can be sent");
        acquirer.send(&instruction.subject, &outgoing).await
    }

    #[tokio::test]
    async fn p16_what_was_executed_is_not_looked_up() {
        let (acquirer, _) = without(Mutation::NoLookup).await;
        assert!(matches!(send(&*acquirer).await, Answer::Done(_)));
        assert_eq!(acquirer.look_up(&subject()).await, Answer::NotFound);
    }

    #[tokio::test]
    async fn p16_the_visibility_delay_is_nothing_and_the_rest_of_the_promise_stands() {
        let (acquirer, bank) = without(Mutation::NoVisibilityDelay).await;
        let (mutated, whole) = (acquirer.promise(Kind::Payment), bank.promise(Kind::Payment));
        assert_eq!(mutated.visibility_delay, Duration::ZERO);
        assert_eq!(mutated.resend_window, whole.resend_window);
    }

    #[tokio::test]
    async fn p16_a_second_attempt_has_another_name_and_an_answer_like_the_first() {
        let (acquirer, bank) = without(Mutation::NewOperationIdOnReclaim).await;
        bank.next([Fate::RequestLost]);
        send(&*acquirer).await;
        let Answer::Done(report) = send(&*acquirer).await else { panic!("it arrived") };
        assert_eq!(report.operation_id, subject().operation_id);
        assert_eq!(acquirer.look_up(&subject()).await, Answer::NotFound, "under its own name");
    }
}
