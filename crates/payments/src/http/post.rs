//! What every POST under a key does before and around its commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::Request;
use bytes::Bytes;
use http::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use unavez_core::answer::{Answer, Conclusion, Content, header_name};
use unavez_core::decision::{Decision, Incoming, decide};
use unavez_core::fingerprint::Fingerprint;
use unavez_core::identity::Tenant;
use unavez_core::key::Key;
use unavez_core::outcome::Effect;
use unavez_core::problem::Code;
use unavez_core::record::{Claim, Exposure, Fence, Record, State};
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::OneCommit;
use unavez_tower::answers::Ran;
use unavez_tower::body::Body;
use unavez_tower::door::{Admitted, Door, Entry, Keyed};
use unavez_tower::engine::{Engine, Kind, Met};
use unavez_tower::headers::ORIGINAL_REQUEST_ID;
use unavez_tower::problem::{MEDIA_TYPE, Problem};

use super::body;
use super::told::Past;
use crate::outage;
use crate::request_id::RequestId;
use crate::service::App;

/// A request whose body was read, before anything of it was judged.
pub(super) struct Received {
    head: http::request::Parts,
    pub(super) body: Bytes,
}

impl Received {
    /// Reads a request in the order of P7: 415, 400 for the key, 413.
    pub(super) async fn read(app: &App, request: Request) -> Result<Self, Problem> {
        let (head, incoming) = request.into_parts();
        body::require_json(&head.headers, &incoming)?;
        match body::read(&head.headers, incoming, &app.settings.limits).await {
            Ok(body) => Ok(Self { head, body }),
            Err(problem) => {
                // Looked at again only here, to be refused first.
                app.door.key(&head.headers)?;
                Err(problem)
            }
        }
    }

    /// Makes key and fingerprint of it.
    pub(super) fn admit(self, app: &App, door: &Door, tenant: &Tenant) -> Result<Entry<Bytes>, Problem> {
        door.admit_whole(app.engine.realm(), tenant.clone(), self.head, self.body)
    }

    /// As [`Received::admit`], where the key was read before.
    pub(super) fn admit_keyed(self, door: &Door, keyed: Option<Keyed>) -> Entry<Bytes> {
        match keyed {
            Some(keyed) => door.admit_keyed(keyed, self.head, self.body),
            None => Entry::Keyless(http::Request::from_parts(self.head, self.body)),
        }
    }

    /// The key, and the record it names.
    pub(super) fn keyed(&self, app: &App, tenant: &Tenant) -> Result<Option<Keyed>, Problem> {
        app.door.keyed(app.engine.realm(), tenant, &self.head)
    }

    /// The answer to a repeat that comes soon, and byte for byte, as most do: it needs neither the writer nor a look into
    /// its body.
    pub(super) fn replay_verbatim(&self, app: &App, keyed: &Keyed) -> Option<Response<Body>> {
        let (record, now) = app.store.recall(keyed.id())?;
        let is_told = keyed.owns(&record)
            && !record.is_expired(now)
            && (is_cancelled(&record) || self.is_verbatim(app, &record, now));
        is_told.then(|| app.engine.replay(&record, Ran::Another))
    }

    fn is_verbatim(&self, app: &App, record: &Record, now: Time) -> bool {
        app.door.is_verbatim(&record.fingerprint, &self.head, &self.body)
            && is_replayed(&app.engine, record, &record.fingerprint, now)
    }
}

/// The claim of a request whose effect shares its commit.
pub(super) fn claim(app: &App, admitted: &Admitted) -> Claim {
    Claim {
        tenant: admitted.tenant().clone(),
        key: admitted.key().clone(),
        fingerprint: admitted.fingerprint().clone(),
        attempt: app.engine.new_attempt(),
        timing: app.engine.timings().attempt(),
        exposure: Exposure::Contained,
    }
}

/// Who has a queued command: the caller, who may still give up, or the writer, who has begun.
///
/// Dropping the future of a command does not tell which of the two it was. This does, so that a caller whom the store
/// keeps waiting learns whether its operation can have run.
#[derive(Default)]
pub(crate) struct Stage(AtomicU8);

const QUEUED: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Stage {
    /// The writer begins, perhaps anew; `false`: the caller has given up, and nothing is to be done.
    pub(crate) fn begin(&self) -> bool {
        self.leave_queue(BEGUN) || self.0.load(Ordering::Acquire) == BEGUN
    }

    /// The caller gives up; `false`: the writer has begun.
    pub(crate) fn withdraw(&self) -> bool {
        self.leave_queue(WITHDRAWN)
    }

    fn leave_queue(&self, to: u8) -> bool {
        self.0.compare_exchange(QUEUED, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Whether the engine would replay this record without looking at anything else. Most repeats are such, and are
/// answered without a future.
pub(crate) fn is_replayed(engine: &Engine, record: &Record, fingerprint: &Fingerprint, now: Time) -> bool {
    // A finished record is replayed on whichever route; see core's table.
    let incoming =
        Incoming { fingerprint, effect: Effect::Transactional, response_ttl: engine.timings().response_ttl };
    record.fingerprint.comparable(fingerprint) && decide(record, &incoming, now) == Decision::Replay
}

/// A cancellation is no operation, so no request can equal it: it answers whatever comes under its key.
pub(crate) fn is_cancelled(record: &Record) -> bool {
    matches!(record.state, State::Finished { conclusion: Conclusion::Cancelled, .. })
}

/// Answers from the books, where the record's time is over (P21): as a record would that never expires.
pub(crate) async fn answer_past(
    engine: &Engine,
    past: Past,
    admitted: &Admitted,
    kind: &Kind,
    now: Time,
) -> Result<Response<Body>, Problem> {
    let fingerprint = Fingerprint::decode(&past.fingerprint).map_err(|error| {
        tracing::error!(id = %admitted.id(), ?error, "stored fingerprint cannot be read");
        Problem::new(Code::Internal)
    })?;
    let created_at = past.created_at;
    let record = Record {
        id: admitted.id(),
        tenant: admitted.tenant().clone(),
        key: admitted.key().clone(),
        fingerprint,
        fence: Fence { version: 1, attempt: engine.new_attempt() },
        attempts: 1,
        exposure: Exposure::Contained,
        sighted: false,
        created_at,
        attempt_started_at: created_at,
        latest_send_at: created_at,
        state: match past.told {
            // Nothing may be told of it but that it is not known, and nothing may run.
            None => State::Abandoned { at: created_at },
            Some(told) => State::Finished {
                at: created_at,
                expires_at: now.plus(engine.timings().response_ttl),
                conclusion: told.conclusion,
                answer: told.answer,
                resource: told.resource,
            },
        },
    };
    match engine.meet(Arc::new(record), now, admitted, kind).await {
        Met::Answer(response) => Ok(response),
        Met::Claim(_) | Met::TakeOver(_) => Err(Problem::new(Code::Internal)),
    }
}

/// Waits for a commit, at most the store timeout (P17).
pub(super) async fn committed<T>(
    app: &App,
    key: &Key,
    stage: &Stage,
    commit: impl Future<Output = Result<OneCommit<T>, StoreError>>,
) -> Result<OneCommit<T>, Problem> {
    let timeout = app.settings.timings.store_timeout;
    match tokio::time::timeout(timeout, commit).await {
        Ok(Ok(outcome)) => {
            outage::answered();
            Ok(outcome)
        }
        Ok(Err(error)) => Err(not_committed(key, &error)),
        Err(_) if stage.withdraw() => {
            tracing::warn!(?timeout, "store did not begin in time");
            Err(Problem::new(Code::StoreUnavailable)
                .with_detail(format!("the store did not begin within {timeout:?}")))
        }
        Err(_) => {
            tracing::warn!(?timeout, "store did not finish in time");
            Err(in_doubt(key))
        }
    }
}

pub(crate) fn not_committed(key: &Key, error: &StoreError) -> Problem {
    match error {
        StoreError::InDoubt(_) => {
            tracing::error!(key = %key.log_hash(), %error, "commit in doubt");
            in_doubt(key)
        }
        error => store_problem(error),
    }
}

/// What a caller is told of a store that certainly did nothing.
pub(super) fn store_problem(error: &StoreError) -> Problem {
    match error {
        StoreError::Overloaded { .. } => Problem::new(Code::Overloaded),
        StoreError::Unavailable(_) | StoreError::ClockStepped { .. } | StoreError::InDoubt(_) => {
            outage::refused(error);
            Problem::new(Code::StoreUnavailable).with_detail(error.to_string())
        }
        StoreError::Illegal(_) | StoreError::Collision(_) | StoreError::RolledBack(_) => {
            tracing::error!(%error, "store refused");
            Problem::new(Code::Internal)
        }
    }
}

/// 504: the commit may have happened. The repeat finds out (P12).
pub(crate) fn in_doubt(key: &Key) -> Problem {
    Problem::own_outcome_unknown().with_key_status(key_status_path(key))
}

/// 400: keys are stored as they are, and a card number never is. A key that was stored before this was refused still answers
/// for itself (P7).
pub(super) fn card_in_key() -> Problem {
    Problem::new(Code::KeyInvalid).with_detail(
        "the key has what looks like a card number in it, and keys are stored; make keys that say nothing",
    )
}

/// Where the state of a key can be read.
pub(crate) fn key_status_path(key: &Key) -> String {
    format!("/v1/idempotency-keys/{}", utf8_percent_encode(key.as_str(), NON_ALPHANUMERIC))
}

/// An answer of JSON, to be stored with the id of the request that caused it.
pub(crate) fn json_answer(
    status: http::StatusCode,
    location: Option<String>,
    body: impl Into<Bytes>,
    request_id: RequestId,
) -> Answer {
    let mut headers = vec![("content-type".into(), Bytes::from_static(b"application/json"))];
    headers.extend(location.map(|path| ("location".into(), path.into())));
    headers.push((header_name(ORIGINAL_REQUEST_ID.as_str()), request_id.to_string().into()));
    Answer { status: status.as_u16(), content: Content::Kept { headers, body: body.into() } }
}

/// A refusal that is final: stored and replayed like any other answer.
pub(crate) fn problem_answer(problem: &Problem, request_id: RequestId) -> Answer {
    let headers = vec![
        ("content-type".into(), Bytes::from_static(MEDIA_TYPE.as_bytes())),
        (header_name(ORIGINAL_REQUEST_ID.as_str()), request_id.to_string().into()),
    ];
    let content = Content::Kept { headers, body: problem.to_json() };
    Answer { status: problem.status().as_u16(), content }
}

/// The stored answer, given to the request that made it: it is not a replay.
pub(super) fn first_answer(app: &App, record: &unavez_core::record::Record) -> Response<Body> {
    let mut response = app.engine.replay(record, unavez_tower::answers::Ran::Itself);
    response.headers_mut().remove(ORIGINAL_REQUEST_ID);
    response
}

/// An answer for the caller whose request ran, whether or not it is stored.
pub(crate) fn first_of(answer: &Answer) -> Response<Body> {
    let mut response = unavez_tower::answers::restore(answer.status, &answer.content);
    response.headers_mut().remove(ORIGINAL_REQUEST_ID);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p12_a_command_is_withdrawn_or_owned_and_never_both() {
        let begun = Stage::default();
        assert!(begun.begin() && begun.begin() && !begun.withdraw());
        let withdrawn = Stage::default();
        assert!(withdrawn.withdraw() && !withdrawn.begin());
    }

    #[test]
    fn a_key_is_one_segment_of_a_path() {
        let key = Key::parse_path("a/b c%\"").unwrap();
        assert_eq!(key_status_path(&key), "/v1/idempotency-keys/a%2Fb%20c%25%22");
    }
}
