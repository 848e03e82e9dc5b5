//! The bank as an acquirer of the service.

use std::future::ready;
use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use unavez_core::identity::OperationId;
use unavez_core::recovery::Promise;
use unavez_core::time::Time;
use unavez_payments::acquirer::http::{BaseUrl, Client, Exchanged};
use unavez_payments::acquirer::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, Event, EventRefusal, Instruction, Kind, ListPage,
    Listed, Outgoing, Reason, Report, Standing, Subject, Unsendable,
};
use unavez_payments::money::{Amount, Currency};

use crate::bank::{Entry, List, Order, Told};

/// An adapter: a client, and a name for the account.
pub(crate) struct Bank {
    account: Account,
    client: Client,
}

impl Bank {
    /// The bank at that address.
    pub(crate) fn at(base: BaseUrl) -> io::Result<Self> {
        let account =
            Account::parse(&format!("bank:{}", base.authority())).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { account, client: Client::new(base)? })
    }

    async fn ask<T: DeserializeOwned>(&self, target: &str) -> Result<T, Reason> {
        read(self.client.exchange("GET", target, [], Default::default()).await)
    }
}

impl Acquirer for Bank {
    fn account(&self) -> &Account {
        &self.account
    }

    /// It remembers ids until it is restarted, which an honest adapter cannot call a promise for ever.
    fn promise(&self, _: Kind) -> Promise {
        let hour = Duration::from_secs(3600);
        Promise { visibility_delay: Duration::from_secs(30), resend_window: Some(hour) }
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        let subject = &instruction.subject;
        let order = Order {
            kind: subject.kind.as_str().to_owned(),
            amount: subject.amount.minor_units(),
            currency: subject.currency.code().to_owned(),
            payment: subject.payment.as_ref().map(|payment| payment.operation_id.to_string()),
        };
        Ok(Outgoing {
            method: "PUT".into(),
            path: format!("/operations/{}", subject.operation_id).into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: serde_json::to_vec(&order).expect("texts and numbers have no failing members").into(),
        })
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let headers = outgoing.headers.iter().map(|(name, value)| (&**name, &**value));
            let body = outgoing.body.clone();
            match self.client.exchange(&outgoing.method, &outgoing.path, headers, body).await {
                Exchanged::NotSent(reason) => Answer::NotSent(reason),
                exchanged => match read::<Entry>(exchanged) {
                    Ok(entry) => told(subject, &entry),
                    Err(reason) => Answer::CannotSay(reason),
                },
            }
        })
    }

    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.ask(&format!("/operations/{}", subject.operation_id)).await {
                Ok(Told { entry: Some(entry), .. }) => told(subject, &entry),
                Ok(Told { id, entry: None }) if id == subject.operation_id.to_string() => Answer::NotFound,
                Ok(_) => Answer::CannotSay(Reason("the answer is about another operation".into())),
                Err(reason) => Answer::CannotSay(reason),
            }
        })
    }

    fn list<'a>(
        &'a self,
        since: Time,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<ListPage, CannotSay>> {
        Box::pin(async move {
            let List { entries } = self.ask("/operations").await.map_err(CannotSay)?;
            let from = after.and_then(|after| after.parse().ok()).unwrap_or(0);
            let listed = entries.iter().map(listed).collect::<Option<Vec<_>>>();
            let listed = listed.ok_or_else(|| CannotSay(Reason("the list cannot be read".into())))?;
            let mut items: Vec<_> =
                listed.into_iter().filter(|item| item.created_at >= since).skip(from).collect();
            let next = (items.len() > limit).then(|| (from + limit).to_string().into());
            items.truncate(limit);
            Ok(ListPage { items, next })
        })
    }

    fn read_event<'a>(
        &'a self,
        _: &'a http::HeaderMap,
        _: &'a [u8],
        _: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>> {
        Box::pin(ready(Err(EventRefusal::NotSigned(Reason("this bank sends no webhooks".into())))))
    }
}

/// The document of a 200. Any other status is an error of the bank's, or not the bank.
fn read<T: DeserializeOwned>(exchanged: Exchanged) -> Result<T, Reason> {
    match exchanged {
        Exchanged::Answered { status: 200, body } => {
            serde_json::from_slice(&body).map_err(|_| Reason("the answer cannot be read".into()))
        }
        Exchanged::Answered { status, .. } => Err(Reason(format!("answered {status}").into())),
        Exchanged::Cut(reason) | Exchanged::NotSent(reason) => Err(reason),
    }
}

fn told(subject: &Subject, entry: &Entry) -> Answer {
    match report(entry) {
        Some(report) if report.operation_id != subject.operation_id => {
            Answer::CannotSay(Reason("the answer is about another operation".into()))
        }
        Some(report) if entry.approved => Answer::Done(report),
        Some(report) => Answer::Declined(report),
        None => Answer::CannotSay(Reason("the answer cannot be read".into())),
    }
}

fn report(entry: &Entry) -> Option<Report> {
    let payment = match &entry.order.payment {
        Some(id) => Some(OperationId::parse(id).ok()?),
        None => None,
    };
    Some(Report {
        operation_id: OperationId::parse(&entry.id).ok()?,
        kind: Kind::parse(&entry.order.kind)?,
        tenant: None,
        amount: Amount::of_minor_units(entry.order.amount)?,
        currency: Currency::parse(&entry.order.currency)?,
        payment,
        reference: Some(entry.id.as_str().into()),
        decline_code: (!entry.approved).then(|| "refund_exceeds_payment".into()),
        next_action: None,
    })
}

fn listed(entry: &Entry) -> Option<Listed> {
    let report = report(entry)?;
    Some(Listed {
        operation_id: Some(report.operation_id),
        kind: report.kind,
        standing: if entry.approved { Standing::Done } else { Standing::Declined },
        tenant: None,
        amount: report.amount,
        currency: report.currency,
        payment: report.payment,
        reference: report.reference,
        created_at: Time::from_micros(entry.at_us),
    })
}
