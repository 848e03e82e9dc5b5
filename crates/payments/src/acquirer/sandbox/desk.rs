//! The one front of the sandbox: a request in, a reply or silence out.

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use unavez_core::identity::OperationId;
use unavez_core::time::Time;

use super::document::{Failure, Fault, NOT_FOUND, OPERATION_ID_REUSED, Operation, Page};
use super::execution::{self, Executed, Execution, What};
use super::request::{Path, Request};
use super::token::Fate;
use super::{Lookup, Sandbox, delivery, micros};
use crate::acquirer::{Kind, Standing};
use crate::crash::{self, Point};

/// Most lines of one page of `GET /operations`, and how many there are unless the question says otherwise.
const PAGE_MAX: usize = 100;

/// What the sandbox does about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It answers.
    Answer {
        /// The HTTP status.
        status: u16,
        /// A JSON document.
        body: Bytes,
    },
    /// It never answers.
    Silence,
}

impl Reply {
    fn json(status: u16, document: &impl Serialize) -> Self {
        let body = serde_json::to_vec(document).expect("documents have text keys and no failing members");
        Self::Answer { status, body: body.into() }
    }

    fn fault(status: u16, code: &str, detail: impl Into<String>) -> Self {
        let error = Fault { code: code.to_owned(), detail: detail.into() };
        Self::json(status, &Failure { error, operation_id: None })
    }

    fn not_found(operation: OperationId) -> Self {
        let detail = "no operation with this id was executed, or it cannot be seen yet".to_owned();
        let error = Fault { code: NOT_FOUND.to_owned(), detail };
        Self::json(404, &Failure { error, operation_id: Some(operation.to_string()) })
    }

    fn no_route() -> Self {
        Self::fault(404, "no_route", "nothing has this path and method")
    }

    fn books_failed() -> Self {
        Self::fault(503, "books_unavailable", "the sandbox cannot reach its books just now")
    }

    /// What is said about an execution.
    fn execution(execution: &Execution, now: Time) -> Self {
        let status = match (execution.standing(now), execution.kind()) {
            (Standing::Done, _) => 201,
            (Standing::Pending, _) => 202,
            (Standing::Declined, Kind::Payment) => 402,
            (Standing::Declined, _) => 422,
        };
        Self::json(status, &Operation::of(execution, now))
    }
}

impl Sandbox {
    /// Answers one request. `target` is path and query. Dropping the future leaves it open whether the request was
    /// executed.
    pub async fn exchange(&self, method: &str, target: &str, body: &[u8]) -> Reply {
        let latency = self.behaviour().latency;
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match (method, path) {
            ("POST", _) => match Path::parse(path).map(|path| Request::parse(&path, body)) {
                None => Reply::no_route(),
                Some(Err(why)) => Reply::fault(400, "invalid_request", why),
                Some(Ok(request)) => self.post(request).await,
            },
            ("GET", "/operations") => self.list(query).await,
            ("GET", "/stats") => self.stats().await,
            ("GET", "/healthz") => {
                Reply::json(200, &serde_json::json!({"status": "ok", "acquirer": "sandbox"}))
            }
            ("GET", _) => match path.strip_prefix("/operations/").map(OperationId::parse) {
                Some(Ok(operation)) => self.look_up(operation).await,
                Some(Err(error)) => Reply::fault(400, "invalid_request", error.to_string()),
                None => Reply::no_route(),
            },
            _ => Reply::no_route(),
        }
    }

    async fn post(&self, request: Request) -> Reply {
        if let Request::Payment(payment) = &request
            && !payment.token.executes()
        {
            return Reply::fault(
                500,
                "internal",
                "the payment method asks for an error before the execution",
            );
        }
        crash::reached(Point::BeforeExecution);
        let behaviour = self.behaviour();
        let executed = self.0.store.repeatable_transaction(move |tx| -> rusqlite::Result<_> {
            let executed = execution::execute(tx, &request, behaviour.dedupe, tx.now())?;
            if let Executed::New(execution) = &executed {
                delivery::announce(tx, execution, behaviour.webhooks)?;
            }
            crash::reached(Point::DuringExecution);
            Ok((executed, tx.now()))
        });
        let executed = executed.await;
        crash::reached(Point::AfterExecution);
        match executed {
            Ok((Executed::New(execution), now)) => self.first_answer(&execution, now).await,
            Ok((Executed::Before(execution), now)) => Reply::execution(&execution, now),
            Ok((Executed::OtherContent, _)) => Reply::fault(
                409,
                OPERATION_ID_REUSED,
                "operation_id was used for a request with other content",
            ),
            Ok((Executed::NoSuchPayment, _)) => {
                Reply::fault(404, "payment_not_found", "the payment of this path does not exist")
            }
            Err(error) => {
                tracing::warn!(%error, "a request was not executed");
                Reply::books_failed()
            }
        }
    }

    /// Faults strike when a payment is executed; its repeats are answered.
    async fn first_answer(&self, execution: &Execution, now: Time) -> Reply {
        if execution.decided_at > now {
            self.0.news.notify_one();
        }
        let fate = match &execution.what {
            What::Payment { token, .. } => token.fate(),
            What::Step { .. } => return Reply::execution(execution, now),
        };
        match fate {
            Fate::Lost => Reply::Silence,
            Fate::Error => {
                Reply::fault(500, "internal", "the payment method asks for an error after the execution")
            }
            Fate::After(delay) => {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                Reply::execution(execution, now)
            }
        }
    }

    async fn look_up(&self, operation: OperationId) -> Reply {
        let Some(visible) = self.visible() else { return questions_down() };
        let found = self.0.store.read(move |db| execution::find(db, operation, visible.executed_by)).await;
        match found {
            Ok(Some(execution)) => Reply::json(200, &Operation::of(&execution, visible.now)),
            Ok(None) => Reply::not_found(operation),
            Err(_) => Reply::books_failed(),
        }
    }

    async fn list(&self, query: &str) -> Reply {
        let Some(visible) = self.visible() else { return questions_down() };
        let ListQuery { since, after, limit } = match ListQuery::parse(query) {
            Ok(query) => query,
            Err(why) => return Reply::fault(400, "invalid_request", why),
        };
        let read = move |db: &rusqlite::Connection| {
            execution::list(db, since, visible.executed_by, after, limit + 1)
        };
        let Ok(mut found) = self.0.store.read(read).await else { return Reply::books_failed() };
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| last.number.to_string());
        let data = found.iter().map(|execution| Operation::of(execution, visible.now)).collect();
        Reply::json(200, &Page { data, next })
    }

    async fn stats(&self) -> Reply {
        match self.executed().await {
            Ok(counts) => {
                let executed: u64 = counts.iter().map(|(_, count)| count).sum();
                let by_operation: serde_json::Map<_, _> =
                    counts.iter().map(|(id, count)| (id.to_string(), (*count).into())).collect();
                Reply::json(200, &serde_json::json!({"executed": executed, "by_operation": by_operation}))
            }
            Err(_) => Reply::books_failed(),
        }
    }

    /// What questions see just now; `None`: they are not answered.
    fn visible(&self) -> Option<Visible> {
        let behaviour = self.behaviour();
        let now = self.clock().now();
        let executed_by = Time::from_micros(now.as_micros() - micros(behaviour.visibility_delay));
        (behaviour.lookup == Lookup::Ok).then_some(Visible { now, executed_by })
    }
}

#[derive(Clone, Copy)]
struct Visible {
    now: Time,
    executed_by: Time,
}

fn questions_down() -> Reply {
    Reply::fault(503, "lookup_down", "questions are not answered just now")
}

/// The parameters of `GET /operations`.
struct ListQuery {
    since: Time,
    after: i64,
    limit: usize,
}

impl ListQuery {
    fn parse(query: &str) -> Result<Self, String> {
        let mut parsed = Self { since: Time::MIN, after: 0, limit: PAGE_MAX };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            let refuse = |allowed: &str| format!("{name} is not {allowed}");
            match name {
                "since" => {
                    let time: jiff::Timestamp = value.parse().map_err(|_| refuse("a time as of RFC 3339"))?;
                    parsed.since = Time::from_micros(time.as_microsecond());
                }
                "after" => parsed.after = value.parse().map_err(|_| refuse("what `next` of a page said"))?,
                "limit" => match value.parse() {
                    Ok(limit @ 1..=PAGE_MAX) => parsed.limit = limit,
                    _ => return Err(refuse("a whole number from 1 to 100")),
                },
                _ => {
                    return Err("the query has a parameter that is not known: since, limit, after".to_owned());
                }
            }
        }
        Ok(parsed)
    }
}
