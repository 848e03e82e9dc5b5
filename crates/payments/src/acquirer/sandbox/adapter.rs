//! The sandbox as an acquirer of the service: in the same process, or over HTTP.
//!
//! Both ways send the same bytes and read the same answers. What they promise differs:
//!
//! | | in this process | over HTTP |
//! |---|---|---|
//! | deduplication | what the sandbox does | what [`Terms`] say |
//! | V | the sandbox's visibility delay | what [`Terms`] say: 30 seconds |
//! | declines | bound to the id | bound to the id |
//! | lookup by id | every kind, for ever | every kind, for ever |

use std::future::pending;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use unavez_core::identity::OperationId;
use unavez_core::recovery::Promise;
use unavez_core::time::Time;

use super::desk::Reply;
use super::document::{Event, Failure, NOT_FOUND, OPERATION_ID_REUSED, Operation, PENDING, Page, SETTLED};
use super::request::Request;
use super::{Dedupe, Sandbox};
use crate::acquirer::http::{BaseUrl, Client, Exchanged};
use crate::acquirer::signature::Secrets;
use crate::acquirer::{
    Account, Acquirer, Answer, BoxFuture, CannotSay, EventRefusal, Instruction, Kind, ListPage, News,
    Outgoing, Reason, Standing, Subject, Unsendable,
};
use crate::http::wire::rfc3339;

/// What a sandbox elsewhere is known to do: it cannot be asked for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// V: longest flight, processing and visibility (P16).
    pub visibility_delay: Duration,
    /// How long it remembers ids.
    pub dedupe: Dedupe,
}

impl Default for Terms {
    fn default() -> Self {
        Self { visibility_delay: Duration::from_secs(30), dedupe: Dedupe::Forever }
    }
}

/// A sandbox that the service charges through.
#[derive(Debug)]
pub struct SandboxAcquirer {
    account: Account,
    line: Line,
    secrets: Secrets,
}

/// How the sandbox is reached.
#[derive(Debug)]
enum Line {
    Direct(Sandbox),
    Http(Box<Elsewhere>),
}

#[derive(Debug)]
struct Elsewhere {
    client: Client,
    terms: Terms,
}

/// The header that every request has beyond those of HTTP itself.
const CONTENT_TYPE: (&str, &str) = ("content-type", "application/json");

impl SandboxAcquirer {
    /// The account of a sandbox in this process.
    pub const IN_PROCESS: &str = "sandbox:in-process";

    /// A sandbox in this process, without a socket between. `secrets` are those its webhooks are signed with.
    #[must_use]
    pub fn in_process(sandbox: &Sandbox, secrets: Secrets) -> Self {
        let account = Account::parse(Self::IN_PROCESS).expect("18 printable characters");
        Self { account, line: Line::Direct(sandbox.clone()), secrets }
    }

    /// A sandbox at that address. The account is `sandbox:` and its host and port.
    ///
    /// # Errors
    /// As [`Client::new`]; or host and port are longer than an account's name may be.
    pub fn over_http(base: BaseUrl, terms: Terms, secrets: Secrets) -> io::Result<Self> {
        let account = Account::parse(&format!("sandbox:{}", base.authority())).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "host and port are over 120 characters")
        })?;
        Ok(Self {
            account,
            line: Line::Http(Box::new(Elsewhere { client: Client::new(base)?, terms })),
            secrets,
        })
    }

    /// The same under another account's name.
    #[must_use]
    pub fn with_account(self, account: Account) -> Self {
        Self { account, ..self }
    }

    async fn ask(&self, target: &str) -> Exchanged {
        self.exchange("GET", target, [], &Bytes::new()).await
    }

    async fn exchange<'h>(
        &self,
        method: &str,
        target: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        body: &Bytes,
    ) -> Exchanged {
        match &self.line {
            Line::Http(there) => there.client.exchange(method, target, headers, body.clone()).await,
            Line::Direct(sandbox) => match sandbox.exchange(method, target, body).await {
                Reply::Answer { status, body } => Exchanged::Answered { status, body },
                Reply::Silence => pending().await,
            },
        }
    }
}

impl Acquirer for SandboxAcquirer {
    fn account(&self) -> &Account {
        &self.account
    }

    fn promise(&self, _: Kind) -> Promise {
        let Terms { visibility_delay, dedupe } = match &self.line {
            Line::Http(there) => there.terms,
            Line::Direct(sandbox) => {
                let behaviour = sandbox.behaviour();
                Terms { visibility_delay: behaviour.visibility_delay, dedupe: behaviour.dedupe }
            }
        };
        Promise { visibility_delay, resend_window: dedupe.window() }
    }

    fn compose(&self, instruction: &Instruction) -> Result<Outgoing, Unsendable> {
        let request = Request::of(instruction)?;
        let (name, value) = CONTENT_TYPE;
        Ok(Outgoing {
            method: "POST".into(),
            path: request.path().into(),
            headers: vec![(name.into(), value.into())],
            body: request.body().into(),
        })
    }

    fn send<'a>(&'a self, subject: &'a Subject, outgoing: &'a Outgoing) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let headers = outgoing.headers.iter().map(|(name, value)| (&**name, &**value));
            let exchanged = self.exchange(&outgoing.method, &outgoing.path, headers, &outgoing.body).await;
            match exchanged {
                Exchanged::Answered { status: status @ (200..=202 | 402 | 422), body } => {
                    agreed(status, told(subject, &body))
                }
                Exchanged::Answered { status: 409, body } if is_reused(subject.operation_id, &body) => {
                    Answer::Sighted(Reason("has other content under the operation's id".into()))
                }
                other => nothing_told(other),
            }
        })
    }

    fn look_up<'a>(&'a self, subject: &'a Subject) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.ask(&format!("/operations/{}", subject.operation_id)).await {
                Exchanged::Answered { status: 200, body } => told(subject, &body),
                Exchanged::Answered { status: 404, body } if is_not_found(subject.operation_id, &body) => {
                    Answer::NotFound
                }
                // A question that did not leave says no more than one that was not answered.
                Exchanged::NotSent(reason) => Answer::CannotSay(reason),
                other => nothing_told(other),
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
            // Nothing was executed before the epoch, and the calendar ends not far before it.
            let since = rfc3339(since.max(Time::from_micros(0)));
            let mut target = format!("/operations?since={since}&limit={}", limit.clamp(1, 100));
            if let Some(after) = after {
                target.push_str("&after=");
                target
                    .extend(percent_encoding::utf8_percent_encode(after, percent_encoding::NON_ALPHANUMERIC));
            }
            match self.ask(&target).await {
                Exchanged::Answered { status: 200, body } => read_page(&body),
                other => Err(CannotSay(why(other))),
            }
        })
    }

    fn read_event<'a>(
        &'a self,
        headers: &'a ::http::HeaderMap,
        body: &'a [u8],
        now: Time,
    ) -> BoxFuture<'a, Result<crate::acquirer::Event, EventRefusal>> {
        Box::pin(std::future::ready(self.event(headers, body, now)))
    }
}

impl SandboxAcquirer {
    fn event(
        &self,
        headers: &::http::HeaderMap,
        body: &[u8],
        now: Time,
    ) -> Result<crate::acquirer::Event, EventRefusal> {
        let verified = self
            .secrets
            .verify(headers, body, now)
            .map_err(|refused| EventRefusal::NotSigned(Reason(refused.to_string().into())))?;
        let malformed = |why: &str| EventRefusal::Malformed(Reason(why.into()));
        let event: Event = serde_json::from_slice(body).map_err(|_| malformed("the body is no event"))?;
        if *event.id != *verified.id {
            return Err(malformed("the body names another event than the signed header"));
        }
        let news = match event.kind.as_str() {
            SETTLED | PENDING => {
                let (standing, report) =
                    event.data.read().ok_or_else(|| malformed("the event's operation cannot be read"))?;
                News::Operation(standing, report)
            }
            _ => News::Other,
        };
        Ok(crate::acquirer::Event { id: verified.id, tenant: verified.tenant, news })
    }
}

/// What a status and a body say together: neither is believed against the other.
fn agreed(status: u16, answer: Answer) -> Answer {
    match (status, &answer) {
        (200 | 201, Answer::Declined(_)) | (402 | 422, Answer::Done(_) | Answer::Pending(_)) => {
            Answer::Sighted(Reason(format!("answered {status} with a body that says otherwise").into()))
        }
        _ => answer,
    }
}

/// The one member without which nothing is said about anything.
#[derive(serde::Deserialize)]
struct Named {
    operation_id: String,
}

/// Reads what is said about an operation. An answer about another one is none.
fn told(subject: &Subject, body: &[u8]) -> Answer {
    let operation: Option<Operation> = serde_json::from_slice(body).ok();
    match operation.and_then(|operation| operation.read()) {
        Some((_, report)) if report.operation_id != subject.operation_id => {
            Answer::CannotSay(Reason("the answer is about another operation".into()))
        }
        Some((Standing::Done, report)) => Answer::Done(report),
        Some((Standing::Declined, report)) => Answer::Declined(report),
        Some((Standing::Pending, report)) => Answer::Pending(report),
        None if names(subject.operation_id, body) => {
            Answer::Sighted(Reason("names the operation, and cannot be read".into()))
        }
        None => Answer::CannotSay(Reason("the answer cannot be read".into())),
    }
}

fn names(operation: OperationId, body: &[u8]) -> bool {
    let named: Option<Named> = serde_json::from_slice(body).ok();
    named.is_some_and(|named| named.operation_id == operation.to_string())
}

/// Whether a 409 is the sandbox's own. One that names no operation is about the one that was sent.
fn is_reused(operation: OperationId, body: &[u8]) -> bool {
    let failure: Option<Failure> = serde_json::from_slice(body).ok();
    failure.is_some_and(|failure| {
        failure.error.code == OPERATION_ID_REUSED
            && failure.operation_id.is_none_or(|named| named == operation.to_string())
    })
}

/// Whether a 404 is the sandbox's own, about this very operation, and not one of whoever stands between.
fn is_not_found(operation: OperationId, body: &[u8]) -> bool {
    let failure: Option<Failure> = serde_json::from_slice(body).ok();
    failure.is_some_and(|failure| {
        failure.error.code == NOT_FOUND && failure.operation_id == Some(operation.to_string())
    })
}

fn nothing_told(exchanged: Exchanged) -> Answer {
    match exchanged {
        Exchanged::NotSent(reason) => Answer::NotSent(reason),
        other => Answer::CannotSay(why(other)),
    }
}

fn why(exchanged: Exchanged) -> Reason {
    match exchanged {
        Exchanged::NotSent(reason) | Exchanged::Cut(reason) => reason,
        Exchanged::Answered { status, body } => {
            let failure: Option<Failure> = serde_json::from_slice(&body).ok();
            let code = failure.map_or_else(String::new, |failure| format!(" {}", failure.error.code));
            Reason(format!("answered {status}{code}").into())
        }
    }
}

fn read_page(body: &[u8]) -> Result<ListPage, CannotSay> {
    let unreadable = || CannotSay(Reason("the list cannot be read".into()));
    let page: Page = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let items: Option<Vec<_>> = page.data.iter().map(Operation::read_listed).collect();
    Ok(ListPage { items: items.ok_or_else(unreadable)?, next: page.next.map(Into::into) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(digit: char) -> OperationId {
        OperationId::parse(&format!("op_{}", String::from(digit).repeat(32))).unwrap()
    }

    #[test]
    fn not_found_is_believed_only_about_the_operation_that_was_asked_about() {
        let failure = |code: &str, digit| {
            let id = operation(digit);
            format!("{{\"error\":{{\"code\":\"{code}\",\"detail\":\"\"}},\"operation_id\":\"{id}\"}}")
        };
        assert!(is_not_found(operation('a'), failure(NOT_FOUND, 'a').as_bytes()));
        assert!(!is_not_found(operation('a'), failure(NOT_FOUND, 'b').as_bytes()));
        assert!(!is_not_found(operation('a'), failure("payment_not_found", 'a').as_bytes()));
        let unnamed = format!("{{\"error\":{{\"code\":\"{NOT_FOUND}\",\"detail\":\"\"}}}}");
        assert!(!is_not_found(operation('a'), unnamed.as_bytes()));
    }
}
