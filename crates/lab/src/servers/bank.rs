//! The bank on the other side: the sandbox acquirer, and a network to it that a test holds in its hands.
//!
//! 1. Whatever is sent twice is executed twice: the sandbox does not deduplicate. It promises all the same what an
//!    acquirer must, so that a service which relies on that promise alone is seen to charge twice.
//! 2. What happens to the next requests is said beforehand, one [`Fate`] for each; after them all arrive and are answered.
//! 3. Its webhooks are sent when the test says so, each twice.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::watch;
use unavez_core::{recovery::Promise, time::Time};
use unavez_payments::acquirer::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, Event, EventRefusal, Instruction, Kind, ListPage,
    Outgoing, Reason, Standing, Subject, Unsendable,
    http::Client,
    sandbox::{Behaviour, Dedupe, Deliveries, HttpCourier, Sandbox, SandboxAcquirer, Webhooks},
    signature::Secrets,
};
use unavez_store::{
    clock::{Clock, ManualClock},
    sqlite::{Location, Options},
};

use crate::Error;

/// How long a request may be on its way, by the bank's promise (V of P16).
pub(crate) const VISIBILITY_DELAY: Duration = Duration::from_secs(30);

/// For how long the bank says that it remembers ids.
const RESEND_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// What becomes of a request to the bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Lost on its way there: nothing is executed.
    RequestLost,
    /// Executed; the answer is lost on its way back.
    AnswerLost,
    /// On its way for so long that its sender stops waiting; it arrives when the test says so.
    HeldUp,
}

/// The bank.
pub(crate) struct Bank {
    sandbox: Sandbox,
    desk: Arc<SandboxAcquirer>,
    secrets: Secrets,
    state: Mutex<State>,
    /// Whether what is held up may arrive now.
    open: watch::Sender<bool>,
    arrived: Arc<watch::Sender<usize>>,
    held_up: AtomicUsize,
}

#[derive(Default)]
struct State {
    fates: VecDeque<Fate>,
    topped_up: bool,
}

/// What the bank's books say: approved payments and their sum in cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) charges: u64,
    pub(crate) captured: u64,
}

impl Bank {
    /// Opens one whose books are forgotten with it, on a clock that is also the service's.
    pub(crate) async fn open(clock: &ManualClock) -> Result<Arc<Self>, Error> {
        let clock = Arc::new(clock.clone()) as Arc<dyn Clock>;
        let options = Options { clock: Some(clock), ..Options::default() };
        let behaviour = Behaviour { dedupe: Dedupe::Off, webhooks: Webhooks::Twice, ..Behaviour::default() };
        let sandbox =
            tokio::task::spawn_blocking(move || Sandbox::open(Location::Memory, options, behaviour))
                .await
                .map_err(|error| Error::broken(format!("opening the bank: {error}")))?
                .map_err(|error| Error::broken(format!("the bank's books: {error}")))?;
        let secrets = Secrets::random();
        Ok(Arc::new(Self {
            desk: Arc::new(SandboxAcquirer::in_process(&sandbox, secrets.clone())),
            sandbox,
            secrets,
            state: Mutex::default(),
            open: watch::Sender::new(false),
            arrived: Arc::new(watch::Sender::new(0)),
            held_up: AtomicUsize::new(0),
        }))
    }

    /// What becomes of the next requests; those after them arrive and are answered.
    pub(crate) fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.lock().fates.extend(fates);
    }

    /// From now on there is money on the card that was declined.
    pub(crate) fn top_up(&self) {
        self.lock().topped_up = true;
    }

    /// Lets arrive what was held up, and waits until it has.
    pub(crate) async fn let_arrive(&self) {
        let expected = self.held_up.load(Ordering::Acquire);
        self.open.send_replace(true);
        // The sender is this bank, which outlives the wait.
        let _ = self.arrived.subscribe().wait_for(|&arrived| arrived >= expected).await;
    }

    /// Sends the webhooks that are due to the service at `authority`, once each.
    pub(crate) async fn deliver(&self, authority: &str) -> Result<(), Error> {
        let url = format!("http://{authority}/v1/webhooks/acquirer");
        let url = url.parse().map_err(|_| Error::broken(format!("{url} is no address")))?;
        let client =
            Client::new(url).map_err(|error| Error::broken(format!("the bank's client: {error}")))?;
        let courier =
            HttpCourier::new(client).ok_or_else(|| Error::broken("webhooks go over loopback only"))?;
        let deliveries = Deliveries::new(self.sandbox.clone(), self.secrets.clone(), Arc::new(courier));
        let delivered = deliveries.deliver_due().await;
        delivered.map(drop).map_err(|error| Error::broken(format!("the bank's books: {error}")))
    }

    /// What was approved, as often as it was executed.
    pub(crate) async fn executed(&self) -> Result<Executed, Error> {
        let page = self.desk.list(Time::from_micros(0), None, 100).await;
        let page = page.map_err(|error| Error::broken(format!("the bank's list: {error}")))?;
        let done = page.items.iter().filter(|it| (it.kind, it.standing) == (Kind::Payment, Standing::Done));
        let amounts: Vec<u64> = done.map(|it| it.amount.minor_units().unsigned_abs()).collect();
        Ok(Executed { charges: amounts.len() as u64, captured: amounts.iter().sum() })
    }

    pub(crate) async fn close(&self) {
        self.sandbox.close().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// A card that was declined is approved once there is money on it.
    fn as_the_card_is_now(&self, outgoing: &Outgoing) -> Outgoing {
        let mut outgoing = outgoing.clone();
        if self.lock().topped_up {
            let body = String::from_utf8_lossy(&outgoing.body).replace("tok_decline", "tok_approve");
            outgoing.body = Bytes::from(body);
        }
        outgoing
    }

    /// Sends it later, in a task of its own: its sender is gone by then.
    fn hold_up(&self, subject: Subject, outgoing: Outgoing) {
        self.held_up.fetch_add(1, Ordering::AcqRel);
        let (desk, mut open, arrived) =
            (Arc::clone(&self.desk), self.open.subscribe(), Arc::clone(&self.arrived));
        tokio::spawn(async move {
            // A bank that is gone takes what is on its way with it.
            if open.wait_for(|&open| open).await.is_ok() {
                desk.send(&subject, &outgoing).await;
            }
            arrived.send_modify(|count| *count += 1);
        });
    }
}

fn silence(why: &str) -> Answer {
    Answer::CannotSay(Reason(why.into()))
}

impl Acquirer for Bank {
    fn account(&self) -> &Account {
        self.desk.account()
    }

    fn promise(&self, _: Kind) -> Promise {
        Promise { visibility_delay: VISIBILITY_DELAY, resend_window: Some(RESEND_WINDOW) }
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        self.desk.compose(instruction)
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let outgoing = self.as_the_card_is_now(outgoing);
            let fate = self.lock().fates.pop_front();
            match fate {
                None => self.desk.send(subject, &outgoing).await,
                Some(Fate::RequestLost) => silence("the request was lost"),
                Some(Fate::AnswerLost) => {
                    self.desk.send(subject, &outgoing).await;
                    silence("the answer was lost")
                }
                Some(Fate::HeldUp) => {
                    self.hold_up(subject.clone(), outgoing);
                    silence("no answer in time")
                }
            }
        })
    }

    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        self.desk.look_up(subject)
    }

    fn list<'a>(
        &'a self,
        since: Time,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<ListPage, CannotSay>> {
        self.desk.list(since, after, limit)
    }

    fn read_event<'a>(
        &'a self,
        headers: &'a http::HeaderMap,
        body: &'a [u8],
        now: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>> {
        self.desk.read_event(headers, body, now)
    }
}

#[cfg(test)]
mod tests {
    use unavez_core::identity::{RecordId, Tenant};
    use unavez_payments::{
        charge::OrderId,
        money::{Amount, Currency},
    };

    use super::*;

    async fn bank() -> Arc<Bank> {
        Bank::open(&ManualClock::new()).await.expect("a database in memory")
    }

    fn payment(payment_method: &str) -> Instruction {
        let subject = Subject {
            operation_id: RecordId::from_bytes([7; 16]).operation_id(),
            kind: Kind::Payment,
            tenant: Tenant::single(),
            amount: Amount::of_minor_units(50_000).expect("an amount"),
            currency: Currency::parse("USD").expect("a currency"),
            payment: None,
            claimed_at: Time::from_micros(0),
        };
        Instruction {
            subject,
            order_id: OrderId::parse("o-1").expect("an order"),
            payment_method: Some(payment_method.into()),
            captures_at_once: true,
            metadata: None,
        }
    }

    async fn send(bank: &Bank, instruction: &Instruction) -> Answer {
        let outgoing = bank.compose(instruction).expect("a payment can be sent");
        bank.send(&instruction.subject, &outgoing).await
    }

    async fn charges(bank: &Bank) -> (u64, u64) {
        let Executed { charges, captured } = bank.executed().await.expect("its books answer");
        (charges, captured)
    }

    #[tokio::test]
    async fn what_is_sent_twice_is_executed_twice() {
        let (bank, payment) = (bank().await, payment("tok_approve"));
        bank.next([Fate::RequestLost, Fate::AnswerLost]);
        assert!(matches!(send(&bank, &payment).await, Answer::CannotSay(_)));
        assert_eq!(charges(&bank).await, (0, 0));
        assert!(matches!(send(&bank, &payment).await, Answer::CannotSay(_)));
        assert!(matches!(send(&bank, &payment).await, Answer::Done(_)));
        assert_eq!(charges(&bank).await, (2, 100_000));
    }

    #[tokio::test]
    async fn what_is_held_up_arrives_when_it_is_let() {
        let (bank, payment) = (bank().await, payment("tok_approve"));
        bank.next([Fate::HeldUp]);
        assert!(matches!(send(&bank, &payment).await, Answer::CannotSay(_)));
        assert_eq!(bank.look_up(&payment.subject).await, Answer::NotFound);
        bank.let_arrive().await;
        assert!(matches!(bank.look_up(&payment.subject).await, Answer::Done(_)));
    }

    #[tokio::test]
    async fn a_card_is_approved_once_there_is_money_on_it() {
        let (bank, payment) = (bank().await, payment("tok_decline"));
        assert!(matches!(send(&bank, &payment).await, Answer::Declined(_)));
        bank.top_up();
        assert!(matches!(send(&bank, &payment).await, Answer::Done(_)));
    }
}
