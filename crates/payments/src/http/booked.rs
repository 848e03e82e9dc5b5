//! A charge in the ledger: claim, charge, ledger entry and stored answer in one commit.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use unavez_core::answer::{Answer, Conclusion};
use unavez_core::identity::Tenant;
use unavez_core::key::Key;
use unavez_core::problem::Code;
use unavez_core::record::{Finish, Record, State as RecordState};
use unavez_core::time::Time;
use unavez_store::sqlite::{Abort, Claimed, OneCommit, WriteTx};
use unavez_tower::answers::Ran;
use unavez_tower::body::Body;
use unavez_tower::door::Admitted;
use unavez_tower::engine::Met;
use unavez_tower::problem::Problem;

use super::edge::Call;
use super::post::{self, Stage};
use super::told::{self, Past};
use super::wire::UntimedCharge;
use crate::books::booking::{self, Booking, Verdict};
use crate::books::{TenantNumber, charge_rows, operations};
use crate::charge::same_order::Permission;
use crate::charge::{ChargeId, ChargeRequest, Status, TestToken};
use crate::metrics::Route;
use crate::request_id::RequestId;
use crate::service::App;
use crate::settings::SameOrder;

/// Lost races against expiring records; each was won by somebody else, so few are plenty.
const ROUNDS_MAX: usize = 4;

/// One request on its way into the books.
pub(super) struct Charging<'a> {
    app: &'a Arc<App>,
    admitted: &'a Admitted,
    request: &'a ChargeRequest,
    token: TestToken,
    tenant: TenantNumber,
    request_id: RequestId,
    shared: Arc<Shared>,
}

/// What a request and the writer tell each other.
#[derive(Default)]
struct Shared {
    stage: Stage,
    /// Set by the writer: a charge of the same order under another key.
    suspected_duplicate_of: OnceLock<ChargeId>,
}

/// Why nothing was written.
enum Refusal {
    /// The caller gave up before the writer began.
    Withdrawn,
    /// The operation is known from before its record expired.
    Before(Box<Past>),
    /// The order has this charge, which went outside and is not decided.
    OrderUndecided(ChargeId),
}

impl<'a> Charging<'a> {
    pub(super) fn new(
        app: &'a Arc<App>,
        call: &Call,
        tenant: TenantNumber,
        (admitted, request, token): (&'a Admitted, &'a ChargeRequest, TestToken),
    ) -> Self {
        Self { app, admitted, request, token, tenant, request_id: call.request_id, shared: Arc::default() }
    }

    pub(super) async fn run(&self) -> Result<http::Response<Body>, Problem> {
        for _ in 0..ROUNDS_MAX {
            let job = Box::new(Job::new(self));
            let effect = move |tx: &WriteTx<'_>, claimed: &Claimed| job.run(tx, claimed);
            let claim = post::claim(self.app, self.admitted);
            let commit = Box::pin(self.app.store.claim_and_finish(self.admitted.id(), claim, effect));
            match post::committed(self.app, self.admitted.key(), &self.shared.stage, commit).await? {
                OneCommit::Finished { record, .. } => return Ok(self.finished(&record)),
                OneCommit::Conflict { record, now } => {
                    if let Some(response) = self.meet(record, now).await {
                        return Ok(response);
                    }
                }
                OneCommit::Refused(Refusal::Before(past)) => {
                    let now = self.app.store.clock().now();
                    let answer =
                        post::answer_past(&self.app.engine, *past, self.admitted, &self.app.kind, now);
                    return Box::pin(answer).await;
                }
                OneCommit::Refused(Refusal::OrderUndecided(first)) => {
                    return Err(told::order_undecided(first));
                }
                OneCommit::Refused(Refusal::Withdrawn) => break,
            }
        }
        Err(Problem::new(Code::StoreUnavailable).with_detail("the key's record changed too often"))
    }

    fn finished(&self, record: &Record) -> http::Response<Body> {
        let mut response = post::first_answer(self.app, record);
        if let RecordState::Finished { conclusion, .. } = &record.state {
            match conclusion {
                Conclusion::Declined => drop(response.extensions_mut().insert(Code::ChargeDeclined)),
                Conclusion::Refused => drop(response.extensions_mut().insert(Code::OrderAlreadyCharged)),
                Conclusion::Approved | Conclusion::Cancelled => {}
            }
        }
        self.app.metrics.executed(Route::Charges);
        if let Some(first) = self.shared.suspected_duplicate_of.get() {
            self.app.metrics.suspect_duplicate();
            let (key, charge) = (record.key.log_hash(), ChargeId::of(record.id.operation_id()));
            tracing::warn!(%key, %charge, %first, "order was charged before under another key");
        }
        response
    }

    /// Answers a request whose key has a live record; `None`: the record has just expired, and the key may be claimed.
    async fn meet(&self, record: Arc<Record>, now: Time) -> Option<http::Response<Body>> {
        if post::is_cancelled(&record)
            || post::is_replayed(&self.app.engine, &record, self.admitted.fingerprint(), now)
        {
            return Some(self.app.engine.replay(&record, Ran::Another));
        }
        match Box::pin(self.app.engine.meet(record, now, self.admitted, &self.app.kind)).await {
            Met::Answer(response) => Some(response),
            Met::Claim(_) => None,
            // The ledger leaves no attempt behind; this one belongs to an acquirer that is not configured here.
            Met::TakeOver(_) => Some(Problem::new(Code::OutcomeUnknown).into_response()),
        }
    }
}

/// What the writer does for one request: everything that can be made beforehand is, since all requests wait for its
/// one thread. It owns what it needs, and outlives a caller that leaves.
struct Job {
    app: Arc<App>,
    shared: Arc<Shared>,
    booking: Booking,
    tenant: Tenant,
    key: Key,
    request_id: RequestId,
    outcome: UntimedOutcome,
}

/// What the caller will be told, but for the time.
enum UntimedOutcome {
    Charged(UntimedCharge),
    Declined(Answer),
}

impl Job {
    fn new(charging: &Charging<'_>) -> Self {
        let (admitted, request_id) = (charging.admitted, charging.request_id);
        let booking = Booking {
            operation: admitted.id(),
            tenant: charging.tenant,
            request: charging.request.clone(),
            token: charging.token,
            fingerprint: admitted.fingerprint().encode(),
            request_id,
        };
        let charge = booking.charge(Time::MIN);
        let outcome = match charge.status {
            Status::Declined => UntimedOutcome::Declined(told::declined_by_ledger(charge.id, request_id)),
            _ => UntimedOutcome::Charged(UntimedCharge::of(&charge)),
        };
        Self {
            app: Arc::clone(charging.app),
            shared: Arc::clone(&charging.shared),
            booking,
            tenant: admitted.tenant().clone(),
            key: admitted.key().clone(),
            request_id,
            outcome,
        }
    }

    fn run(&self, tx: &WriteTx<'_>, claimed: &Claimed) -> Result<Finish, Abort<Refusal>> {
        let now = claimed.now;
        if !self.shared.stage.begin() {
            return Err(Abort::Refuse(Refusal::Withdrawn));
        }
        if let Some(past) = self.past(tx)? {
            return Err(Abort::Refuse(Refusal::Before(Box::new(past))));
        }
        let charged_before = match self.permission(tx, now)? {
            Permission::Send { suspected_duplicate_of } => suspected_duplicate_of,
            Permission::Refuse(first) => return Ok(self.refuse_order(first)),
            Permission::Wait(first) => return Err(Abort::Refuse(Refusal::OrderUndecided(first))),
        };
        let verdict = self.booking.write(tx, self.app.books.places(), charged_before, claimed)?;
        if let (Some(first), true) = (charged_before, verdict != Verdict::Declined) {
            // A second run of the same effect finds the same.
            let _ = self.shared.suspected_duplicate_of.set(first);
        }
        Ok(self.finish(charged_before, now))
    }

    /// Whether the order may be charged now.
    fn permission(&self, tx: &WriteTx<'_>, now: Time) -> rusqlite::Result<Permission> {
        let settings = &self.app.settings;
        let Booking { operation, tenant, request, .. } = &self.booking;
        let rival = match settings.same_order {
            SameOrder::Allow => None,
            SameOrder::Warn | SameOrder::Refuse => {
                let since = now.minus(settings.same_order_window);
                let order = (*tenant, &request.order_id);
                booking::rival(tx, self.app.books.places(), order, *operation, since)?
            }
        };
        Ok(Permission::of(settings.same_order, rival))
    }

    /// The operation, from before its record expired: it answers for itself, whatever came after it. It may have gone
    /// outside, when that was the acquirer.
    fn past(&self, tx: &WriteTx<'_>) -> rusqlite::Result<Option<Past>> {
        let (places, operation) = (self.app.books.places(), self.booking.operation);
        if places.of_operation(tx, operation)?.is_empty() {
            return Ok(None);
        }
        match operations::find(tx, places, operation)? {
            Some(known) => {
                let charge = charge_rows::read(tx, known.charge)?.life.charge;
                Ok(Some(Past::of(&known, &charge)))
            }
            None => Ok(booking::find(tx, places, operation)?.map(Past::from)),
        }
    }

    fn finish(&self, suspected_duplicate_of: Option<ChargeId>, now: Time) -> Finish {
        let id = ChargeId::of(self.booking.operation.operation_id());
        let (conclusion, answer) = match &self.outcome {
            UntimedOutcome::Declined(answer) => (Conclusion::Declined, answer.clone()),
            UntimedOutcome::Charged(charge) => {
                let json = charge.at(now, suspected_duplicate_of);
                (Conclusion::Approved, told::charge_answer(StatusCode::CREATED, id, json, self.request_id))
            }
        };
        Finish {
            conclusion,
            answer: self.app.engine.seal(&self.tenant, &self.key, answer),
            response_ttl: self.app.settings.timings.response_ttl,
            resource: Some(id.to_string().into()),
        }
    }

    fn refuse_order(&self, charge: ChargeId) -> Finish {
        let answer = post::problem_answer(&told::already_charged(charge), self.request_id);
        Finish {
            conclusion: Conclusion::Refused,
            answer: self.app.engine.seal(&self.tenant, &self.key, answer),
            response_ttl: self.app.settings.timings.response_ttl,
            resource: None,
        }
    }
}
