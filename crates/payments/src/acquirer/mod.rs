//! What the service asks of an acquirer, and what an acquirer can answer.
//!
//! An adapter turns an [`Instruction`] into the bytes of one request, sends such bytes, and asks later what became of an
//! operation. It decides nothing: whether something is sent again, and what an answer is worth, are core's rules (P16).
//!
//! 1. [`Acquirer::compose`] is a pure function of the instruction and of settings that never change for an account. Its
//!    result is stored with the claim, and those bytes alone are sent, on every attempt (P16).
//! 2. Every operation has an id of its own, a capture or refund included, and goes by it outside.
//! 3. [`Answer::NotSent`] only where not one byte of the request can have left. [`Answer::NotFound`] only for the
//!    acquirer's own defined "not found": never for another account, a proxy's 404, or an answer that cannot be read.
//! 4. An adapter never repeats a send by itself, and follows no redirect.
//! 5. What the acquirer promises is declared in [`Acquirer::promise`], and is safe where it is vague: without a
//!    declared window nothing is ever sent twice.
//!
//! Every adapter passes the same public suite, [`mod@conformance`]:
//!
//! | adapter | looks up by our id | sends again |
//! |---|---|---|
//! | [`sandbox`], in the process or over HTTP | every kind | as long as the sandbox remembers ids |
//! | [`stripe`] | every kind, by lists | for 24 hours |
//! | [`mercadopago`] | payments by search, captures and voids by their payment, refunds not at all | never |

mod base64;
pub mod conformance;
pub mod http;
pub mod mercadopago;
mod pool;
pub mod sandbox;
pub mod signature;
pub mod stripe;
pub mod vendor;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use unavez_core::identity::{OperationId, Tenant};
use unavez_core::recovery::Promise;
use unavez_core::time::Time;

use crate::charge::OrderId;
use crate::money::{Amount, Currency};

/// A future of an acquirer. Dropping one of [`Acquirer::send`] leaves it unknown whether the request was received.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An acquirer under one account.
pub trait Acquirer: Send + Sync + 'static {
    /// Which acquirer and which account of it. Stored with every claim; an operation of another account is held, and
    /// neither asked about nor sent here (P16). Never a secret, and the same after a restart.
    fn account(&self) -> &Account;

    /// What it promises for operations of this kind.
    fn promise(&self, kind: Kind) -> Promise;

    /// The request that carries out an instruction.
    ///
    /// # Errors
    /// [`Unsendable`]: this acquirer cannot do that at all. Nothing was sent; final.
    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable>;

    /// Sends a composed request once and reads the answer. Bounded by the caller's timeout.
    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer>;

    /// Asks what became of an operation. Never changes anything.
    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer>;

    /// One page of everything the account executed since a time, oldest first, for reconciliation.
    fn list<'a>(
        &'a self,
        since: Time,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<ListPage, CannotSay>>;

    /// Whether [`Acquirer::list`] has every executed operation of this kind, by our id. What it has not cannot be missed.
    fn lists(&self, _kind: Kind) -> bool {
        true
    }

    /// Reads a webhook: checks its signature over the raw bytes before anything else (P24).
    ///
    /// # Errors
    /// [`EventRefusal`].
    fn read_event<'a>(
        &'a self,
        headers: &'a ::http::HeaderMap,
        body: &'a [u8],
        now: Time,
    ) -> BoxFuture<'a, Result<Event, EventRefusal>>;
}

/// Names an acquirer and one account of it: `sandbox:…`, `stripe:acct_…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Account(Arc<str>);

impl Account {
    /// `text` is 1 to 128 printable ASCII characters without space.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operation does outside. The words are those of the wire and of stored rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Authorises, and captures at once where the instruction says so.
    Payment,
    /// Takes an authorised amount, or a part of it.
    Capture,
    /// Gives an authorisation up.
    Void,
    /// Pays back what was captured, or a part of it.
    Refund,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Payment, Self::Capture, Self::Void, Self::Refund];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Capture => "capture",
            Self::Void => "void",
            Self::Refund => "refund",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Everything an operation is, with all amounts resolved: what the stored rows say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Who and what.
    pub subject: Subject,
    /// The caller's order.
    pub order_id: OrderId,
    /// How to pay; for [`Kind::Payment`] only.
    pub payment_method: Option<Box<str>>,
    /// Whether a payment is captured at once.
    pub captures_at_once: bool,
    /// The caller's own members of a charge, as a JSON object of strings.
    pub metadata: Option<Box<str>>,
}

/// One operation, as far as answers about it are told apart and checked (P28).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its id, unique over all kinds.
    pub operation_id: OperationId,
    /// What it does.
    pub kind: Kind,
    /// Whose it is.
    pub tenant: Tenant,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// The payment that is captured, voided or refunded; `None` for a payment itself.
    pub payment: Option<Payment>,
    /// When the operation was claimed: it was not sent before.
    pub claimed_at: Time,
}

/// A payment that other operations belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// The operation that made it.
    pub operation_id: OperationId,
    /// The acquirer's own name for it, where it gave one.
    pub reference: Option<Box<str>>,
}

/// The bytes of a request, stored before the first send. Secrets are added while sending and are not part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// `POST`, `PUT`, …
    pub method: Box<str>,
    /// Path and query, from the acquirer's base address.
    pub path: Box<str>,
    /// In their order; names in lower case.
    pub headers: Vec<(Box<str>, Box<str>)>,
    /// The body.
    pub body: Bytes,
}

/// What an acquirer says about an operation, as an answer to a send or to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Executed.
    Done(Report),
    /// Refused, for good: bound to the operation's id.
    Declined(Report),
    /// Known there, and not decided.
    Pending(Report),
    /// Known there, and nothing about it can be believed: other content under the operation's id, an answer that
    /// contradicts itself, or one that cannot be read beyond the id. A sighting (P16): nothing is sent any more.
    Sighted(Reason),
    /// Its own defined "not found". An answer to questions only.
    NotFound,
    /// An error, a timeout, another status, something unreadable: nothing is known.
    CannotSay(Reason),
    /// Certainly nothing left: the connection was not made. An answer to sends only.
    NotSent(Reason),
}

impl Answer {
    /// What it tells of the operation, where it knows it.
    pub(crate) const fn report(&self) -> Option<&Report> {
        match self {
            Self::Done(report) | Self::Declined(report) | Self::Pending(report) => Some(report),
            Self::Sighted(_) | Self::NotFound | Self::CannotSay(_) | Self::NotSent(_) => None,
        }
    }
}

/// Why an answer says nothing: a lower-case fragment for the log, without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub Box<str>);

/// A question about many operations that was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotSay(pub Reason);

/// What an acquirer tells about one operation. Checked against the stored rows before it settles anything (P28).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which operation.
    pub operation_id: OperationId,
    /// What it is there.
    pub kind: Kind,
    /// Whose, where the acquirer keeps that.
    pub tenant: Option<Tenant>,
    /// How much: the amount that moved, or was authorised.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// The payment it belongs to, where the acquirer tells it; `None` for a payment.
    pub payment: Option<OperationId>,
    /// The acquirer's own name for it.
    pub reference: Option<Box<str>>,
    /// Why it was declined: a word of the acquirer's.
    pub decline_code: Option<Box<str>>,
    /// What the customer has to do, as JSON, passed through to the caller.
    pub next_action: Option<Box<str>>,
}

/// The longest name an acquirer may give, and the longest reason of a decline, in bytes.
pub const WORD_LENGTH_MAX: usize = 255;

/// The longest account of what a customer has to do, in bytes.
pub const NEXT_ACTION_LENGTH_MAX: usize = 16 * 1024;

impl Report {
    /// Whether its texts are such as can be kept, shown and sent back.
    ///
    /// # Errors
    /// Which is not, and the limit.
    pub fn require_limits(&self) -> Result<(), Reason> {
        for (name, text) in [("reference", &self.reference), ("decline code", &self.decline_code)] {
            let Some(text) = text else { continue };
            if text.len() > WORD_LENGTH_MAX {
                return Err(Reason(
                    format!("{name} has {} bytes, limit {WORD_LENGTH_MAX}", text.len()).into(),
                ));
            }
            if text.chars().any(crate::books::text::acts) {
                return Err(Reason(format!("{name} has a control character").into()));
            }
        }
        match self.next_action.as_ref().map(|text| text.len()) {
            Some(length) if length > NEXT_ACTION_LENGTH_MAX => {
                Err(Reason(format!("next_action has {length} bytes, limit {NEXT_ACTION_LENGTH_MAX}").into()))
            }
            _ => Ok(()),
        }
    }
}

impl Answer {
    /// The answer, if its report keeps to the limits. It is a sighting in any case.
    #[must_use]
    pub fn within_limits(self) -> Self {
        match &self {
            Self::Done(report) | Self::Declined(report) | Self::Pending(report) => {
                report.require_limits().map_or_else(Self::Sighted, |()| self)
            }
            _ => self,
        }
    }
}

/// An operation that an acquirer cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsendable {
    /// The member of the caller's request that is at fault.
    pub member: &'static str,
    /// What it must be, and what it is.
    pub detail: Box<str>,
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Unsendable {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CannotSay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CannotSay {}

/// One page of [`Acquirer::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// Oldest first.
    pub items: Vec<Listed>,
    /// What `after` takes for the next page, if there is one.
    pub next: Option<Box<str>>,
}

/// One executed, pending or declined operation of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its operation id; `None`: it was not made by this service, or does not carry one.
    pub operation_id: Option<OperationId>,
    /// What it is.
    pub kind: Kind,
    /// How it stands.
    pub standing: Standing,
    /// Whose, where the acquirer keeps that.
    pub tenant: Option<Tenant>,
    /// How much.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// The payment it belongs to, where told.
    pub payment: Option<OperationId>,
    /// The acquirer's own name for it.
    pub reference: Option<Box<str>>,
    /// When it was made there.
    pub created_at: Time,
}

/// How an operation stands at the acquirer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Executed.
    Done,
    /// Refused.
    Declined,
    /// Not decided.
    Pending,
}

/// A webhook whose signature was right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Unique at its source.
    pub id: Box<str>,
    /// The tenant that the secret belongs to; `None`: the secret is the whole account's (P24).
    pub tenant: Option<Tenant>,
    /// What it tells.
    pub news: News,
}

/// What a webhook tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// How an operation stands now.
    Operation(Standing, Report),
    /// Something of no concern here: acknowledged and ignored.
    Other,
}

/// Why a webhook is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRefusal {
    /// 401: no secret is configured, or the signature or its time is not right.
    NotSigned(Reason),
    /// Signed, and not to be understood: kept as an anomaly, and acknowledged.
    Malformed(Reason),
    /// What it speaks of could not be read just now: 503, to be sent again.
    Unavailable(Reason),
}
