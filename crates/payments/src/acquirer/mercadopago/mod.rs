//! Mercado Pago, by its Payments API.
//!
//! **It has not met Mercado Pago's own servers.** It is written after their published documentation, and tested against
//! a server written here after the same pages. Try it with a test account before trusting it with a live one.
//!
//! | operation | request | is found again by |
//! |---|---|---|
//! | payment | `POST /v1/payments` | `GET /v1/payments/search` and our id as `external_reference` |
//! | capture | `PUT /v1/payments/{id}`, `capture` | the payment's status and amount |
//! | void | `PUT /v1/payments/{id}`, `cancelled` | the payment's status |
//! | refund | `POST /v1/payments/{id}/refunds` | nothing: refunds carry no reference of ours |
//!
//! 1. The operation id is the `X-Idempotency-Key`. For how long keys are remembered is not published, and their search
//!    is an index that lags by an unknown time: **nothing is ever sent twice**. An operation that cannot be found is
//!    held, and a person looks.
//! 2. A refund whose answer was lost cannot be asked about. It is held, and reconciliation shows the payment's refunds.
//! 3. Requests name no currency: an account has one. The adapter is told which, and refuses any other, or 100 EUR would
//!    be charged as 100 of something else.
//! 4. Amounts are decimal numbers. They are written and read digit by digit; no float touches them.
//! 5. A 400 is a refusal only where its code is about the content of the request (`reading.rs`). Their 400 also stands
//!    for "posted a minute ago" and for gateways that failed, which say nothing.
//! 6. A webhook's signature covers the payment's id and the time, not the body. Nothing of the body is believed but that
//!    id; the payment is read anew.
//!
//! `payment_method` is their `payment_method_id`, and for cards a colon and the card token: `visa:ff8080814c11e237`,
//! `pix`. The caller's `metadata.payer_email` is required and sent; `metadata.installments` may be given.
//!
//! What breaks it in deployment: a token of another account under the same account name; somebody else who captures or
//! cancels payments of this account by hand, since captures and voids have no mark of ours; and, after a capture of a
//! part, a webhook about the payment, whose amount is that part from then on: it is kept as an anomaly.

mod compose;
mod event;
mod money;
mod object;
mod reading;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::de::DeserializeOwned;
use unavez_core::recovery::Promise;
use unavez_core::time::Time;

use self::object::{Payment, Search};
use super::http::{BaseUrl, Client, Exchanged};
use super::vendor::{ApiKey, SharedSecrets};
use super::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, Event, EventRefusal, Instruction, Kind, ListPage,
    Outgoing, Reason, Subject, Unsendable,
};
use crate::money::Currency;

/// Where Mercado Pago's API is.
pub const BASE: &str = "https://api.mercadopago.com";

/// V unless told otherwise: an estimate of how far the search lags behind. It decides when "not found" is shown as such;
/// nothing is sent again on its word.
pub const VISIBILITY_DELAY: Duration = Duration::from_secs(600);

/// Most payments of one page.
const PAGE_MAX: usize = 100;

/// What the adapter is told.
#[derive(Clone, Debug)]
pub struct MercadoPagoOptions {
    /// Where the API is; HTTPS, or this machine.
    pub base: BaseUrl,
    /// Names the account; stored with every claim.
    pub account: Account,
    /// Its access token.
    pub key: ApiKey,
    /// Sign its webhooks.
    pub secrets: SharedSecrets,
    /// The one currency of the account's country.
    pub currency: Currency,
    /// V (P16).
    pub visibility_delay: Duration,
}

impl MercadoPagoOptions {
    /// The defaults for an account with that access token.
    #[must_use]
    pub fn new(account: Account, key: ApiKey, secrets: SharedSecrets, currency: Currency) -> Self {
        let base = BASE.parse().expect("it is a URL");
        Self { base, account, key, secrets, currency, visibility_delay: VISIBILITY_DELAY }
    }
}

/// An account at Mercado Pago.
#[derive(Debug)]
pub struct MercadoPago {
    account: Account,
    client: Client,
    key: ApiKey,
    secrets: SharedSecrets,
    currency: Currency,
    visibility_delay: Duration,
}

impl MercadoPago {
    /// The adapter.
    ///
    /// # Errors
    /// As [`Client::new`]; or the access token would be sent over plain HTTP to another machine.
    pub fn new(options: MercadoPagoOptions) -> io::Result<Self> {
        let MercadoPagoOptions { base, account, key, secrets, currency, visibility_delay } = options;
        if !base.is_private() {
            let why = format!("{base}: an access token is sent by https, or to this machine alone");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self { account, client: Client::new(base)?, key, secrets, currency, visibility_delay })
    }

    async fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, Reason> {
        let bearer = self.key.bearer();
        reading::document(
            self.client.exchange("GET", target, [("authorization", &*bearer)], Bytes::new()).await,
        )
    }

    async fn payment(&self, id: &str) -> Result<Payment, Reason> {
        self.get(&format!("/v1/payments/{id}")).await
    }

    async fn look_up_one(&self, subject: &Subject) -> Result<Answer, Reason> {
        match subject.kind {
            Kind::Payment => self.find_payment(subject).await,
            Kind::Capture | Kind::Void => {
                let payment = self.payment(compose::reference(subject)?).await?;
                Ok(reading::step(&payment, subject))
            }
            Kind::Refund => Err(Reason("refunds of Mercado Pago carry no reference of ours".into())),
        }
    }

    async fn find_payment(&self, subject: &Subject) -> Result<Answer, Reason> {
        let id = subject.operation_id;
        let target = format!(
            "/v1/payments/search?external_reference={id}&sort=date_created&criteria=asc&limit={PAGE_MAX}"
        );
        let found: Search = self.get(&target).await?;
        let answers = found.results.iter().map(|payment| reading::payment(payment, subject));
        Ok(reading::strongest(answers).unwrap_or(Answer::NotFound))
    }

    async fn page(&self, since: Time, after: Option<&str>, limit: usize) -> Result<ListPage, Reason> {
        let limit = limit.clamp(1, PAGE_MAX);
        let offset: usize =
            after.unwrap_or("0").parse().map_err(|_| Reason("after is none of this list's".into()))?;
        let begin = date(since);
        let found: Search = self
            .get(&format!(
                "/v1/payments/search?range=date_created&begin_date={begin}&end_date=NOW&sort=date_created\
                 &criteria=asc&limit={limit}&offset={offset}"
            ))
            .await?;
        let seen = offset + found.results.len();
        let next = (seen < found.paging.total && !found.results.is_empty()).then(|| seen.to_string().into());
        let items = found.results.iter().map(reading::listed).collect::<Result<Vec<_>, _>>()?.concat();
        Ok(ListPage { items, next })
    }
}

/// The one form of a date that the search takes: three digits behind the point.
fn date(time: Time) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
    let since = Timestamp::from_microsecond(time.as_micros().max(0)).unwrap_or(Timestamp::MAX);
    PRINTER.timestamp_to_string(&since)
}

impl Acquirer for MercadoPago {
    fn account(&self) -> &Account {
        &self.account
    }

    fn promise(&self, _: Kind) -> Promise {
        Promise { visibility_delay: self.visibility_delay, resend_window: None }
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        compose::compose(instruction, self.currency)
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let bearer = self.key.bearer();
            let headers = outgoing.headers.iter().map(|(name, value)| (&**name, &**value));
            let headers = headers.chain([("authorization", &*bearer)]);
            let body = outgoing.body.clone();
            let exchanged = self.client.exchange(&outgoing.method, &outgoing.path, headers, body).await;
            match exchanged {
                Exchanged::NotSent(reason) => Answer::NotSent(reason),
                exchanged => reading::answer(exchanged, subject),
            }
        })
    }

    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.look_up_one(subject).await.unwrap_or_else(Answer::CannotSay) })
    }

    fn list<'a>(
        &'a self,
        since: Time,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<ListPage, CannotSay>> {
        Box::pin(async move { self.page(since, after, limit).await.map_err(CannotSay) })
    }

    /// Captures and voids are states of their payments, and refunds carry no id of ours.
    fn lists(&self, kind: Kind) -> bool {
        kind == Kind::Payment
    }

    fn read_event<'a>(
        &'a self,
        headers: &'a ::http::HeaderMap,
        body: &'a [u8],
        now: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>> {
        Box::pin(async move {
            let notice = event::read(&self.secrets, headers, body, now)?;
            let news = match &notice.payment {
                Some(id) => reading::news(&self.payment(id).await.map_err(EventRefusal::Unavailable)?)?,
                None => super::News::Other,
            };
            Ok(Event { id: notice.id, tenant: notice.tenant, news })
        })
    }
}
