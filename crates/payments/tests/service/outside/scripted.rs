//! An acquirer that does as it is told, remembers what it executed, and counts everything.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use unavez_core::identity::{OperationId, Tenant};
use unavez_core::recovery::Promise;
use unavez_core::time::Time;
use unavez_payments::acquirer::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, Event, EventRefusal, Instruction, Kind, ListPage,
    Listed, News, Outgoing, Reason, Report, Standing, Subject, Unsendable,
};

/// What happens to a send.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Approve,
    Decline,
    /// Known, and not decided.
    Pend,
    /// Executed; the answer is lost.
    Lose,
    /// Nothing is executed, and the answer is an error.
    Fail,
    /// The connection is not made.
    RefuseConnection,
    /// Executed; the report is changed on its way.
    Garble(fn(&mut Report)),
    /// Executed before, with other content: an error of its own.
    Reused,
    /// Executed; then the caller's own code falls over.
    Panic,
    /// Waits until told to go on, then approves.
    Hold,
    /// Waits until told to go on; then the connection is not made.
    HoldRefused,
    /// Waits, then approves an operation that it executed before it waited.
    HoldExecuted,
    /// Declines without having executed, whatever was executed before.
    ClaimDeclined,
}

/// What happens to a question.
#[derive(Clone, Debug, Default)]
pub(crate) enum Look {
    #[default]
    Truth,
    Down,
    NotFound,
    Says(Standing),
    Garbled(fn(&mut Report)),
    /// What it says of an operation is changed, also of one it has never heard of.
    SaysGarbled(fn(&mut Report)),
    /// Known, and not to be read.
    Sighted,
}

pub(crate) struct Scripted {
    account: Account,
    promise: Promise,
    state: Mutex<State>,
    /// Opened by the test: one permit for each held send.
    pub(crate) go: Semaphore,
    /// One permit for each send that has begun to wait.
    pub(crate) waiting: Semaphore,
}

#[derive(Default)]
struct State {
    plans: VecDeque<Plan>,
    look: Look,
    sends: Vec<(OperationId, Outgoing)>,
    questions: Vec<OperationId>,
    executed: HashMap<OperationId, (Report, Standing, u32)>,
    events: HashMap<String, Event>,
    listed: Vec<Vec<Listed>>,
    /// Where they are promised something else than payments.
    refunds: Option<Promise>,
}

impl Scripted {
    pub(crate) fn new() -> Arc<Self> {
        Self::with("scripted:one", Some(Duration::from_secs(24 * 3600)), Duration::ZERO)
    }

    pub(crate) fn with(account: &str, window: Option<Duration>, delay: Duration) -> Arc<Self> {
        Arc::new(Self {
            account: Account::parse(account).unwrap(),
            promise: Promise { visibility_delay: delay, resend_window: window },
            state: Mutex::default(),
            go: Semaphore::new(0),
            waiting: Semaphore::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What the next sends meet; after them all are approved.
    pub(crate) fn plan(&self, plans: impl IntoIterator<Item = Plan>) {
        self.lock().plans.extend(plans);
    }

    pub(crate) fn look(&self, look: Look) {
        self.lock().look = look;
    }

    /// Promises this of refunds, and of everything else what it promised.
    pub(crate) fn promise_of_refunds(&self, promise: Promise) {
        self.lock().refunds = Some(promise);
    }

    /// The pages of its list; without any it cannot be read.
    pub(crate) fn list_as(&self, pages: Vec<Vec<Listed>>) {
        self.lock().listed = pages;
    }

    /// The line of an operation that it executed.
    pub(crate) fn listed(&self, operation: OperationId) -> Listed {
        let (report, standing) = self.lock().executed.get(&operation).map(|it| (it.0.clone(), it.1)).unwrap();
        Listed {
            operation_id: Some(report.operation_id),
            kind: report.kind,
            standing,
            tenant: report.tenant,
            amount: report.amount,
            currency: report.currency,
            payment: report.payment,
            reference: report.reference,
            created_at: Time::MAX,
        }
    }

    pub(crate) fn sends(&self) -> Vec<(OperationId, Outgoing)> {
        self.lock().sends.clone()
    }

    pub(crate) fn questions(&self) -> usize {
        self.lock().questions.len()
    }

    /// How often anything was executed.
    pub(crate) fn executed(&self) -> u32 {
        self.lock()
            .executed
            .values()
            .filter(|(_, standing, _)| *standing == Standing::Done)
            .map(|it| it.2)
            .sum()
    }

    /// Decides an operation that was pending.
    pub(crate) fn decide(&self, operation: OperationId, standing: Standing) {
        self.lock().executed.get_mut(&operation).expect("it is known here").1 = standing;
    }

    /// Forgets everything it executed.
    pub(crate) fn forget(&self) {
        self.lock().executed.clear();
    }

    /// The event that tells of an operation, to be delivered under this id.
    pub(crate) fn event(&self, id: &str, standing: Standing, report: Report) -> String {
        self.event_signed_by(None, id, standing, report)
    }

    /// As [`Scripted::event`], verified by the secret of a tenant.
    pub(crate) fn event_signed_by(
        &self,
        tenant: Option<Tenant>,
        id: &str,
        standing: Standing,
        report: Report,
    ) -> String {
        let news = News::Operation(standing, report);
        self.lock().events.insert(id.to_owned(), Event { id: id.into(), tenant, news });
        id.to_owned()
    }

    /// What it would report of an operation that it was sent.
    pub(crate) fn report(&self, operation: OperationId) -> Report {
        self.lock().executed.get(&operation).expect("it is known here").0.clone()
    }

    fn execute(&self, subject: &Subject, standing: Standing) -> Report {
        let report = report(subject);
        let mut state = self.lock();
        let entry = state.executed.entry(subject.operation_id).or_insert((report, standing, 0));
        // It deduplicates: a second create finds the first.
        entry.2 = entry.2.max(1);
        entry.0.clone()
    }

    async fn carry_out(&self, plan: Plan, subject: &Subject) -> Answer {
        let lost = || Answer::CannotSay(Reason("the answer was lost".into()));
        match plan {
            Plan::Approve => self.first_answer(subject, Standing::Done),
            Plan::Decline => self.first_answer(subject, Standing::Declined),
            Plan::Pend => self.first_answer(subject, Standing::Pending),
            Plan::Lose => {
                self.execute(subject, Standing::Done);
                lost()
            }
            Plan::Fail => lost(),
            Plan::RefuseConnection => Answer::NotSent(Reason("connection refused".into())),
            Plan::Garble(change) => {
                let mut report = self.execute(subject, Standing::Done);
                change(&mut report);
                Answer::Done(report)
            }
            Plan::Reused => Answer::Sighted(Reason("other content under this id".into())),
            Plan::Panic => {
                self.execute(subject, Standing::Done);
                panic!("as the script says");
            }
            Plan::Hold => {
                self.wait().await;
                self.first_answer(subject, Standing::Done)
            }
            Plan::HoldRefused => {
                self.wait().await;
                Answer::NotSent(Reason("connection refused".into()))
            }
            Plan::HoldExecuted => {
                let report = self.execute(subject, Standing::Done);
                self.wait().await;
                Answer::Done(report)
            }
            Plan::ClaimDeclined => Answer::Declined(report(subject)),
        }
    }

    fn first_answer(&self, subject: &Subject, standing: Standing) -> Answer {
        self.execute(subject, standing);
        let (report, standing, _) = self.lock().executed[&subject.operation_id].clone();
        answer(standing, report)
    }

    async fn wait(&self) {
        self.waiting.add_permits(1);
        self.go.acquire().await.unwrap().forget();
    }
}

fn answer(standing: Standing, report: Report) -> Answer {
    match standing {
        Standing::Done => Answer::Done(report),
        Standing::Declined => Answer::Declined(report),
        Standing::Pending => Answer::Pending(report),
    }
}

/// What an honest acquirer reports.
pub(crate) fn report(subject: &Subject) -> Report {
    Report {
        operation_id: subject.operation_id,
        kind: subject.kind,
        tenant: Some(subject.tenant.clone()),
        amount: subject.amount,
        currency: subject.currency,
        payment: subject.payment.as_ref().map(|payment| payment.operation_id),
        reference: Some(format!("ref_{}", subject.operation_id).into()),
        decline_code: None,
        next_action: None,
    }
}

impl Acquirer for Scripted {
    fn account(&self) -> &Account {
        &self.account
    }

    fn promise(&self, kind: Kind) -> Promise {
        self.lock().refunds.filter(|_| kind == Kind::Refund).unwrap_or(self.promise)
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        let method = instruction.payment_method.as_deref().unwrap_or("none");
        if method == "tok_unsendable" {
            return Err(Unsendable {
                member: "payment_method",
                detail: "payment_method is not for this acquirer".into(),
            });
        }
        let subject = &instruction.subject;
        let body = format!(
            "{} {} {} {} {} {method} {}",
            subject.kind.as_str(),
            subject.operation_id,
            instruction.order_id.as_str(),
            subject.amount.minor_units(),
            subject.currency.code(),
            instruction.captures_at_once,
        );
        Ok(Outgoing {
            method: "POST".into(),
            path: format!("/{}", subject.operation_id).into(),
            headers: vec![("content-type".into(), "text/plain".into())],
            body: Bytes::from(body),
        })
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let plan = {
                let mut state = self.lock();
                state.sends.push((subject.operation_id, outgoing.clone()));
                state.plans.pop_front().unwrap_or(Plan::Approve)
            };
            self.carry_out(plan, subject).await
        })
    }

    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut state = self.lock();
            state.questions.push(subject.operation_id);
            let known = state.executed.get(&subject.operation_id).cloned();
            match (state.look.clone(), known) {
                (Look::Down, _) => Answer::CannotSay(Reason("503".into())),
                (Look::Says(standing), _) => answer(standing, report(subject)),
                (Look::Sighted, _) => Answer::Sighted(Reason("cannot be read".into())),
                (Look::SaysGarbled(change), _) => {
                    let mut report = report(subject);
                    change(&mut report);
                    Answer::Done(report)
                }
                (Look::NotFound, _) | (Look::Truth | Look::Garbled(_), None) => Answer::NotFound,
                (Look::Truth, Some((report, standing, _))) => answer(standing, report),
                (Look::Garbled(change), Some((mut report, standing, _))) => {
                    change(&mut report);
                    answer(standing, report)
                }
            }
        })
    }

    fn list<'a>(
        &'a self,
        _: Time,
        after: Option<&'a str>,
        _: usize,
    ) -> BoxFuture<'a, Result<ListPage, CannotSay>> {
        let number: usize = after.map_or(0, |after| after.parse().unwrap());
        let pages = &self.lock().listed;
        let page = pages.get(number).cloned().map(|items| {
            let next = (number + 1 < pages.len()).then(|| (number + 1).to_string().into());
            ListPage { items, next }
        });
        Box::pin(async { page.ok_or(CannotSay(Reason("not in this script".into()))) })
    }

    fn read_event<'a>(
        &'a self,
        headers: &'a http::HeaderMap,
        body: &'a [u8],
        _: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>> {
        Box::pin(async move {
            if !headers.contains_key("x-signed") {
                return Err(EventRefusal::NotSigned(Reason("no signature".into())));
            }
            let id = String::from_utf8_lossy(body);
            self.lock()
                .events
                .get(&*id)
                .cloned()
                .ok_or_else(|| EventRefusal::Malformed(Reason(format!("no event {id}").into())))
        })
    }
}
