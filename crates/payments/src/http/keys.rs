//! `/v1/idempotency-keys`: what became of a key, and taking one out of use (P22).

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use unavez_core::answer::Conclusion;
use unavez_core::identity::RecordId;
use unavez_core::key::Key;
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Claim, Finish, Record, State as RecordState};
use unavez_store::Swap;
use unavez_store::sqlite::{Abort, Claimed, OneCommit, SwapInError, WriteTx, swap_in};
use unavez_tower::answers::Ran;
use unavez_tower::body::Body;
use unavez_tower::door::{Admitted, Entry};
use unavez_tower::engine::{Kind, Met};
use unavez_tower::problem::Problem;

use super::edge::Call;
use super::post::{self, Received, Stage};
use super::query::{Query, invalid};
use super::{answer, books_problem, json, wire};
use crate::auth::Role;
use crate::books;
use crate::charge::card;
use crate::request_id::RequestId;
use crate::service::App;

/// Who may ask about a key: whoever may have used it.
const KEY_READERS: &[Role] = &[Role::Read, Role::Operator, Role::Charge, Role::Refund];

/// How long a cancelled key stays cancelled. A late request with it must never run, so this is longer than any
/// request can be on its way.
const CANCELLED_FOR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What is known about a key.
#[utoipa::path(
    get,
    path = "/v1/idempotency-keys/{key}",
    tag = "keys",
    params(("key" = String, Path, description = "The key, percent-encoded as one segment")),
    responses(
        (status = 200, description = "The key's record", body = wire::KeyDocument<'_>),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 404, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    key: Result<Path<String>, PathRejection>,
) -> Response {
    let shown = async {
        call.caller.require(KEY_READERS)?;
        status_of(&app, &call, &parse_segment(key)?).await
    };
    answer(shown.await)
}

/// What is known about a key, given as a parameter.
#[utoipa::path(
    get,
    path = "/v1/idempotency-keys",
    tag = "keys",
    params(("key" = String, Query, description = "The key")),
    responses(
        (status = 200, description = "The key's record", body = wire::KeyDocument<'_>),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 404, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn find(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    uri: Uri,
) -> Response {
    let found = async {
        call.caller.require(KEY_READERS)?;
        let query = Query::parse(uri.query(), &["key"])?;
        let text = query.get("key").ok_or_else(|| invalid("key", "key is missing, required is one"))?;
        status_of(&app, &call, &parse_key(text)?).await
    };
    answer(found.await)
}

async fn status_of(app: &App, call: &Call, key: &Key) -> Result<http::Response<Body>, Problem> {
    let found = app.books.key(&call.caller.tenant, key).await.map_err(|error| books_problem(&error))?;
    // "None" proves nothing: the request may still be on its way.
    let nothing = || {
        Problem::new(Code::NotFound)
            .with_detail("the key has no record, or an expired one")
            .with_next("repeat the request with the same key, or cancel the key")
    };
    Ok(json(wire::to_json(&wire::KeyDocument::from(&found.ok_or_else(nothing)?))))
}

fn parse_segment(key: Result<Path<String>, PathRejection>) -> Result<Key, Problem> {
    match key {
        Ok(Path(text)) => parse_key(&text),
        Err(_) => Err(Problem::new(Code::KeyInvalid).with_detail("key is not UTF-8").with_member("key")),
    }
}

fn parse_key(text: &str) -> Result<Key, Problem> {
    Key::parse_path(text)
        .map_err(|error| Problem::new(Code::KeyInvalid).with_detail(error.to_string()).with_member("key"))
}

/// Takes a key out of use: a late request with it never runs.
///
/// A key that is finished already is left as it is, and told.
#[utoipa::path(
    post,
    path = "/v1/idempotency-keys/{key}/cancel",
    tag = "keys",
    params(
        ("key" = String, Path, description = "The key, percent-encoded as one segment"),
        super::openapi::IdempotencyKey,
    ),
    responses(
        (status = 200, description = "The key is finished: cancelled now, or what it was before", body = wire::Cancelled<'_>),
        (status = 400, response = super::openapi::ProblemResponse),
        (status = 401, response = super::openapi::ProblemResponse),
        (status = 403, response = super::openapi::ProblemResponse),
        (status = 409, response = super::openapi::ProblemResponse),
        (status = 413, response = super::openapi::ProblemResponse),
        (status = 415, response = super::openapi::ProblemResponse),
        (status = 422, response = super::openapi::ProblemResponse),
        (status = 500, response = super::openapi::ProblemResponse),
        (status = 503, response = super::openapi::ProblemResponse),
        (status = 504, response = super::openapi::ProblemResponse),
    )
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(call): Extension<Call>,
    key: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    answer(cancelled(&app, &call, key, request).await)
}

async fn cancelled(
    app: &Arc<App>,
    call: &Call,
    key: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<http::Response<Body>, Problem> {
    call.caller.require(&[Role::Charge])?;
    let received = Received::read(app, request).await?;
    let body = received.body.clone();
    let admitted = match received.admit(app, &app.door, &call.caller.tenant).map_err(in_the_header)? {
        Entry::Admitted(admitted) => admitted,
        Entry::Ambiguous(ambiguous) => return Ok(app.engine.refuse_ambiguous(ambiguous).await),
        Entry::Keyless(_) => return Err(in_the_header(Problem::new(Code::KeyMissing))),
    };
    let target =
        parse_segment(key).and_then(|target| require_empty(&body).map(|()| target)).and_then(|target| {
            let hides_card = [admitted.key(), &target].into_iter().any(|key| card::is_in_text(key.as_str()));
            if hides_card { Err(post::card_in_key()) } else { Ok(target) }
        });
    let target = match target {
        Ok(target) => target,
        Err(problem) => return Ok(app.engine.refuse_invalid(&admitted, &Kind::Transactional, problem).await),
    };
    Cancellation::new(app, call, &admitted, target).run(&admitted).await
}

/// Two keys are easily taken for one: that in the path is not the request's own.
fn in_the_header(problem: Problem) -> Problem {
    match problem.code() {
        Code::KeyMissing => problem.with_detail(
            "a cancellation is an operation, too: it needs an Idempotency-Key header of its own; the key in the path is the \
             one that is cancelled",
        ),
        _ => problem,
    }
}

fn require_empty(body: &[u8]) -> Result<(), Problem> {
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(body) {
        _ if body.is_empty() => Ok(()),
        Ok(members) if members.is_empty() => Ok(()),
        _ => Err(invalid("", "body is something else than nothing or an empty object")),
    }
}

/// A key to be cancelled, under a key of the cancelling request's own. Where both are one key, that key is claimed
/// once, as cancelled.
struct Cancellation {
    app: Arc<App>,
    /// The cancelling request's own key.
    own: Key,
    /// Claims the key that is to be cancelled.
    target: Claim,
    target_id: RecordId,
    request_id: RequestId,
    stage: Stage,
}

/// Why nothing was cancelled.
enum Refusal {
    /// The caller gave up before the writer began.
    Withdrawn,
    /// A request with the key is running, or its outcome is not known.
    Open(Arc<Record>),
    /// The key is finished: told without a record of the cancelling request's own.
    Finished(Conclusion),
    /// The cancelling request's own key charged something, long ago (P21).
    OwnKeyCharged,
    /// The store cannot hold such a change.
    Store(SwapInError),
}

impl Cancellation {
    fn new(app: &Arc<App>, call: &Call, admitted: &Admitted, target: Key) -> Arc<Self> {
        let tenant = &call.caller.tenant;
        let target_id = RecordId::of(app.engine.realm(), tenant, &target);
        let target = Claim { key: target, ..post::claim(app, admitted) };
        Arc::new(Self {
            app: Arc::clone(app),
            own: admitted.key().clone(),
            target,
            target_id,
            request_id: call.request_id,
            stage: Stage::default(),
        })
    }

    async fn run(self: &Arc<Self>, admitted: &Admitted) -> Result<http::Response<Body>, Problem> {
        let work = Arc::clone(self);
        let own = admitted.id();
        let effect = move |tx: &WriteTx<'_>, _: &Claimed| work.write(tx, own);
        let commit = self.app.store.claim_and_finish(own, post::claim(&self.app, admitted), effect);
        match post::committed(&self.app, admitted.key(), &self.stage, commit).await? {
            OneCommit::Finished { .. } if own == self.target_id => Ok(self.tell(Conclusion::Cancelled)),
            OneCommit::Finished { record, .. } => Ok(post::first_answer(&self.app, &record)),
            OneCommit::Conflict { record, now } if own == self.target_id => match record.state {
                RecordState::Finished { conclusion, .. } if !record.is_expired(now) => {
                    Ok(self.tell(conclusion))
                }
                _ => Err(open(&record)),
            },
            OneCommit::Conflict { record, .. } if post::is_cancelled(&record) => {
                Ok(self.app.engine.replay(&record, Ran::Another))
            }
            OneCommit::Conflict { record, now } => {
                match self.app.engine.meet(record, now, admitted, &Kind::Transactional).await {
                    Met::Answer(response) => Ok(response),
                    Met::Claim(_) | Met::TakeOver(_) => Err(Problem::new(Code::InProgress)),
                }
            }
            OneCommit::Refused(Refusal::Finished(conclusion)) => Ok(self.tell(conclusion)),
            OneCommit::Refused(Refusal::Open(record)) => Err(open(&record)),
            OneCommit::Refused(Refusal::Withdrawn) => {
                Err(Problem::new(Code::StoreUnavailable).with_detail("the store did not begin in time"))
            }
            OneCommit::Refused(Refusal::OwnKeyCharged) => {
                Err(Problem::new(Code::KeyReused).with_differs(vec![":path".to_owned()]))
            }
            OneCommit::Refused(Refusal::Store(error)) => {
                tracing::error!(?error, "key could not be cancelled");
                Err(Problem::new(Code::Internal))
            }
        }
    }

    /// Runs on the writer's thread. Finishes the record `own` of the cancelling request.
    fn write(&self, tx: &WriteTx<'_>, own: RecordId) -> Result<Finish, Abort<Refusal>> {
        if !self.stage.begin() {
            return Err(Abort::Refuse(Refusal::Withdrawn));
        }
        // An operation whose record has expired is as final as ever (P21).
        let past = books::past(tx, self.app.books.places(), self.target_id)?;
        let charged = past.and_then(|past| past.told).map(|told| told.conclusion);
        if own == self.target_id {
            return match charged {
                Some(conclusion) => Err(Abort::Refuse(Refusal::Finished(conclusion))),
                None => Ok(self.tombstone()),
            };
        }
        if books::past(tx, self.app.books.places(), own)?.is_some() {
            return Err(Abort::Refuse(Refusal::OwnKeyCharged));
        }
        let conclusion = match charged {
            Some(conclusion) => conclusion,
            None => self.take(tx)?,
        };
        Ok(self.finish(conclusion))
    }

    /// Claims the other key and finishes it as cancelled, unless it has a record.
    fn take(&self, tx: &WriteTx<'_>) -> Result<Conclusion, Abort<Refusal>> {
        let swap = |expected, change| {
            swap_in(tx, self.target_id, expected, change)
                .map_err(|error| Abort::Refuse(Refusal::Store(error)))
        };
        let record = match swap(None, Change::Claim(self.target.clone()))? {
            Swap::Swapped { record, .. } => record,
            Swap::Conflict { record: Some(record), now } if record.is_expired(now) => {
                match swap(Some(record.fence), Change::Claim(self.target.clone()))? {
                    Swap::Swapped { record, .. } => record,
                    Swap::Conflict { .. } => return Err(Abort::Refuse(Refusal::Open(record))),
                }
            }
            Swap::Conflict { record: Some(record), .. } => {
                return match record.state {
                    RecordState::Finished { conclusion, .. } => Ok(conclusion),
                    _ => Err(Abort::Refuse(Refusal::Open(record))),
                };
            }
            Swap::Conflict { record: None, .. } => return Err(Abort::Refuse(Refusal::Withdrawn)),
        };
        swap(Some(record.fence), Change::Finish(self.tombstone()))?;
        Ok(Conclusion::Cancelled)
    }

    /// How the cancelled key is finished: whatever comes under it is told so.
    fn tombstone(&self) -> Finish {
        let problem = Problem::new(Code::InvalidState).with_detail(
            "the key was cancelled before a request used it: nothing ran under it, and nothing will",
        );
        let answer = post::problem_answer(&problem, self.request_id);
        Finish {
            conclusion: Conclusion::Cancelled,
            answer: self.app.engine.seal(&self.target.tenant, &self.target.key, answer),
            response_ttl: CANCELLED_FOR,
            resource: None,
        }
    }

    /// How the cancelling request is finished.
    fn finish(&self, conclusion: Conclusion) -> Finish {
        let answer = post::json_answer(StatusCode::OK, None, self.document(conclusion), self.request_id);
        Finish {
            conclusion: Conclusion::Approved,
            answer: self.app.engine.seal(&self.target.tenant, &self.own, answer),
            response_ttl: self.app.settings.timings.response_ttl,
            resource: None,
        }
    }

    fn tell(&self, conclusion: Conclusion) -> http::Response<Body> {
        json(self.document(conclusion))
    }

    fn document(&self, conclusion: Conclusion) -> String {
        wire::to_json(&wire::Cancelled {
            key: self.target.key.as_str(),
            state: "finished",
            outcome: conclusion.as_str(),
        })
    }
}

/// 409 for a key whose request is still open.
fn open(record: &Record) -> Problem {
    match record.state {
        RecordState::InProgress { .. } => Problem::new(Code::InProgress),
        RecordState::Abandoned { .. } => Problem::abandoned(),
        RecordState::Unknown { cause: Cause::Pending, .. } => Problem::new(Code::OutcomePending),
        _ => Problem::new(Code::OutcomeUnknown),
    }
}
