//! Stripe, by PaymentIntents.
//!
//! **It has not met Stripe's own servers.** It is written after their published documentation, and tested against a
//! server written here after the same pages. Try it with a test key before trusting it with a live one.
//!
//! | operation | request | is found again by |
//! |---|---|---|
//! | payment | `POST /v1/payment_intents`, confirmed at once | the *list* of PaymentIntents and our id in their metadata |
//! | capture | `POST /v1/payment_intents/{id}/capture` | the PaymentIntent and our id in its metadata |
//! | void | `POST /v1/payment_intents/{id}/cancel` | the PaymentIntent's status |
//! | refund | `POST /v1/refunds` | the list of the payment's refunds and our id in their metadata |
//!
//! 1. The operation id is the `Idempotency-Key`. Stripe remembers keys for at least 24 hours: nothing is sent again
//!    later than that.
//! 2. Their search is an index that lags, and says "not there" about what is. It is never used; lists are.
//! 3. 401, 403, 404, 409 (key in use), 429 and 5xx say nothing. So does an `idempotency_error`: the key was used with
//!    other content, which is a fault of ours and no outcome.
//! 4. A 402 `card_error` and a 400 `invalid_request_error` are refusals: nothing was executed, and the same request is
//!    refused again.
//! 5. Amounts are Stripe's, which are not ISO 4217's for every currency; see `money.rs`.
//! 6. What a caller attaches to a charge stays here; Stripe is told operation, tenant and order.
//!
//! What it cannot promise: V. Stripe states no bound after which a request that was sent can no longer take effect;
//! [`VISIBILITY_DELAY`] is an estimate, settable. A void has no mark of ours: a PaymentIntent cancelled by hand while a
//! void is open reads as that void, which it is in effect. Nor is the state of a cancelled one told by webhook; it is
//! asked about.
//!
//! What breaks it in deployment: a key of another account or mode (test against live) under the same account name, and
//! a clock more than ten minutes behind Stripe's.

mod compose;
mod event;
mod listing;
mod money;
mod object;
mod reading;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use unavez_core::recovery::Promise;
use unavez_core::time::Time;

use self::object::{Object, Page, PaymentIntent, Refund};
use super::http::{BaseUrl, Client, Exchanged};
use super::vendor::{ApiKey, SharedSecrets};
use super::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, Event, EventRefusal, Instruction, Kind, ListPage,
    Outgoing, Reason, Subject, Unsendable,
};

/// Where Stripe's API is.
pub const BASE: &str = "https://api.stripe.com";

/// The version of the API that requests name, so that an account's upgrade changes nothing here.
pub const API_VERSION: &str = "2024-06-20";

/// V unless told otherwise: their own clients wait 80 seconds for an answer; the rest is for the way.
pub const VISIBILITY_DELAY: Duration = Duration::from_secs(120);

/// Keys may be forgotten once they are this old.
const RESEND_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// How far Stripe's clock may be from ours, and ours from itself.
const CLOCK_SKEW: Duration = Duration::from_secs(600);

/// Most objects of one page.
const PAGE_MAX: usize = 100;

/// Pages that are read for one question. A payment is looked for in a day's window: ten thousand payments.
const PAGES_MAX: usize = 100;

/// What the adapter is told.
#[derive(Clone, Debug)]
pub struct StripeOptions {
    /// Where the API is; HTTPS, or this machine.
    pub base: BaseUrl,
    /// Names the account; stored with every claim.
    pub account: Account,
    /// Its secret key.
    pub key: ApiKey,
    /// Sign its webhooks.
    pub secrets: SharedSecrets,
    /// V (P16).
    pub visibility_delay: Duration,
}

impl StripeOptions {
    /// The defaults for an account with that key.
    #[must_use]
    pub fn new(account: Account, key: ApiKey, secrets: SharedSecrets) -> Self {
        let base = BASE.parse().expect("it is a URL");
        Self { base, account, key, secrets, visibility_delay: VISIBILITY_DELAY }
    }
}

/// An account at Stripe.
#[derive(Debug)]
pub struct Stripe {
    account: Account,
    client: Client,
    key: ApiKey,
    secrets: SharedSecrets,
    visibility_delay: Duration,
}

impl Stripe {
    /// The adapter.
    ///
    /// # Errors
    /// As [`Client::new`]; or the key would be sent over plain HTTP to another machine.
    pub fn new(options: StripeOptions) -> io::Result<Self> {
        let StripeOptions { base, account, key, secrets, visibility_delay } = options;
        if !base.is_private() {
            let why = format!("{base}: a secret key is sent by https, or to this machine alone");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self { account, client: Client::new(base)?, key, secrets, visibility_delay })
    }

    async fn ask(&self, target: &str) -> Exchanged {
        let bearer = self.key.bearer();
        let headers = [("authorization", &*bearer), ("stripe-version", API_VERSION)];
        self.client.exchange("GET", target, headers, Bytes::new()).await
    }

    /// An object or a page, as the answer to a question.
    async fn get<T: serde::de::DeserializeOwned>(&self, target: &str) -> Result<T, Reason> {
        reading::document(self.ask(target).await)
    }

    async fn look_up_one(&self, subject: &Subject) -> Result<Answer, Reason> {
        match (subject.kind, &subject.payment) {
            (Kind::Payment, _) => self.find_payment(subject).await,
            (Kind::Refund, Some(_)) => self.find_refund(subject).await,
            (Kind::Capture | Kind::Void, Some(_)) => {
                let intent: PaymentIntent =
                    self.get(&format!("/v1/payment_intents/{}", compose::reference(subject)?)).await?;
                Ok(reading::step(&intent, subject))
            }
            (_, None) => Err(Reason("the operation names no payment".into())),
        }
    }

    /// Looks through what was made since the claim, and not later than a send can have been.
    async fn find_payment(&self, subject: &Subject) -> Result<Answer, Reason> {
        let from = seconds(subject.claimed_at) - seconds_of(CLOCK_SKEW);
        let to = seconds(subject.claimed_at.plus(RESEND_WINDOW + CLOCK_SKEW));
        let filter = format!("/v1/payment_intents?created[gte]={from}&created[lte]={to}");
        let found: Option<PaymentIntent> = self.find(&filter, subject).await?;
        Ok(found.map_or(Answer::NotFound, |intent| reading::payment(&intent, subject)))
    }

    async fn find_refund(&self, subject: &Subject) -> Result<Answer, Reason> {
        let filter = format!("/v1/refunds?payment_intent={}", compose::reference(subject)?);
        let found: Option<Refund> = self.find(&filter, subject).await?;
        Ok(found.map_or(Answer::NotFound, |refund| reading::refund(&refund, subject)))
    }

    /// The object of a list that carries the operation's id. That there is none counts only if all were seen.
    async fn find<T: Object>(&self, filter: &str, subject: &Subject) -> Result<Option<T>, Reason> {
        let id = subject.operation_id.to_string();
        let mut after = String::new();
        for _ in 0..PAGES_MAX {
            let page: Page<T> = self.get(&format!("{filter}&limit={PAGE_MAX}{after}")).await?;
            let last = page.data.last().map(|object| object.id().to_owned());
            if let Some(found) = page.data.into_iter().find(|object| object.operation_id() == Some(&id)) {
                return Ok(Some(found));
            }
            match last {
                Some(last) if page.has_more => after = format!("&starting_after={last}"),
                _ => return Ok(None),
            }
        }
        Err(Reason(format!("not among the first {} objects of its time", PAGES_MAX * PAGE_MAX).into()))
    }
}

fn seconds(time: Time) -> i64 {
    time.as_micros().div_euclid(1_000_000)
}

fn seconds_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

impl Acquirer for Stripe {
    fn account(&self) -> &Account {
        &self.account
    }

    fn promise(&self, _: Kind) -> Promise {
        Promise { visibility_delay: self.visibility_delay, resend_window: Some(RESEND_WINDOW) }
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        compose::compose(instruction)
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let bearer = self.key.bearer();
            let headers = outgoing.headers.iter().map(|(name, value)| (&**name, &**value));
            let headers = headers.chain([("authorization", &*bearer)]);
            let body = outgoing.body.clone();
            let exchanged = self.client.exchange(&outgoing.method, &outgoing.path, headers, body).await;
            reading::answer(exchanged, subject)
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
        Box::pin(async move { listing::list(self, since, after, limit).await.map_err(CannotSay) })
    }

    /// A void is the state of its payment.
    fn lists(&self, kind: Kind) -> bool {
        kind != Kind::Void
    }

    fn read_event<'a>(
        &'a self,
        headers: &'a ::http::HeaderMap,
        body: &'a [u8],
        now: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>> {
        Box::pin(std::future::ready(event::read(&self.secrets, headers, body, now)))
    }
}
