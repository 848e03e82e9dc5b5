//! Events of the acquirer: each takes effect once, together with its effect (P24 to P28).
//!
//! 1. A repeat is acknowledged without effect. Ids are unique per account, and kept 30 days.
//! 2. An event whose work failed is answered 5xx, so that it is sent again; after ten failures it is kept as an anomaly
//!    and acknowledged, or the sender would switch the endpoint off.
//! 3. An event of an operation that is not there yet is parked, and takes effect with the operation's own claim.
//! 4. What does not match the stored rows closes nothing.

use std::sync::Arc;
use std::time::Duration;

use unavez_core::identity::RecordId;
use unavez_store::StoreError;
use unavez_store::sqlite::WriteTx;

use super::check::Mismatch;
use super::note::Hearing;
use super::settle::Heeded;
use super::{Halt, Outside};
use crate::acquirer::{Event, News, Report, Standing};
use crate::books::anomalies::NewAnomaly;
use crate::books::operations::{self, Operation};
use crate::books::webhooks::{self, EventState};
use crate::books::{Heard, OperationStanding, Reason};
use crate::crash::{self, Point};

/// After so many failures an event is kept for a person, and acknowledged (P25).
const FAILURES_MAX: u32 = 10;

/// More events than this never wait: the next one is kept as an anomaly. A deployment that shares its account with another
/// one would else park every event of it.
const PARKED_MAX: u64 = 100_000;

/// The longest id of an event that is kept.
const EVENT_ID_LENGTH_MAX: usize = 255;

/// How long an event is remembered, and how long one waits for its operation.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// What the sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// 200: it need not be sent again.
    Acknowledged,
    /// 503: to be sent again.
    Again,
}

impl Outside {
    /// Receives an event whose signature was right. One store trip.
    pub(crate) async fn receive(self: &Arc<Self>, event: Event) -> Received {
        let News::Operation(standing, report) = event.news.clone() else { return Received::Acknowledged };
        let id = report.operation_id.record_id();
        if let Err(reason) = report.require_limits() {
            return self.keep_malformed(Some(id), reason.0.into()).await;
        }
        if !(1..=EVENT_ID_LENGTH_MAX).contains(&event.id.len()) {
            let detail =
                format!("id of an event has {} characters, limit {EVENT_ID_LENGTH_MAX}", event.id.len());
            return self.keep_malformed(Some(id), detail).await;
        }
        let (outside, told) = (Arc::clone(self), event.clone());
        let heeded = self.transaction(move |tx| outside.receive_in(tx, &told, (standing, &report))).await;
        crash::reached(Point::AfterWebhook);
        match heeded {
            Ok(Heeded::Settled) => {
                self.engine.notify(id.operation_id());
                Received::Acknowledged
            }
            Ok(Heeded::Noted | Heeded::Anomaly) => Received::Acknowledged,
            Err(error) => self.failed(event, id, &error).await,
        }
    }

    fn receive_in(
        &self,
        tx: &WriteTx<'_>,
        event: &Event,
        (standing, report): (Standing, &Report),
    ) -> Result<Heeded, Halt> {
        let (account, now) = (self.acquirer.account(), tx.now());
        match webhooks::find(tx, account, &event.id)? {
            None | Some(EventState::Failing) => {}
            Some(EventState::Applied | EventState::Parked | EventState::Anomaly) => return Ok(Heeded::Noted),
        }
        let id = report.operation_id.record_id();
        // A released operation was certainly never sent: what tells of it speaks of a claim that is still to come.
        let there =
            operations::find(tx, &self.places, id)?.filter(|it| it.standing != OperationStanding::Released);
        let Some(operation) = there else {
            return self.park_in(tx, event, (standing, report));
        };
        let heeded = self.heed_event_in(tx, &operation, event, (standing, report))?;
        let state = if heeded == Heeded::Anomaly { EventState::Anomaly } else { EventState::Applied };
        webhooks::put(tx, account, &event.id, state, Some(id), now)?;
        crash::reached(Point::DuringWebhook);
        Ok(heeded)
    }

    /// The tenant follows from the secret that verified, where secrets belong to tenants (P24).
    fn heed_event_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        event: &Event,
        news: (Standing, &Report),
    ) -> Result<Heeded, Halt> {
        let hearing = Hearing::Webhook(&event.id);
        match &event.tenant {
            Some(signer) if *signer != operation.tenant => {
                self.disagree_in(tx, operation, hearing, &Mismatch::signer(operation, signer))?;
                Ok(Heeded::Anomaly)
            }
            _ => self.heed_in(tx, operation, news, hearing),
        }
    }

    fn park_in(
        &self,
        tx: &WriteTx<'_>,
        event: &Event,
        (standing, report): (Standing, &Report),
    ) -> Result<Heeded, Halt> {
        let (account, id, now) = (self.acquirer.account(), report.operation_id.record_id(), tx.now());
        if webhooks::count_parked(tx)? < PARKED_MAX {
            let news = (standing, report, event.tenant.as_ref());
            webhooks::park(tx, account, &event.id, news, now)?;
            return Ok(Heeded::Noted);
        }
        let detail = format!("{PARKED_MAX} events wait for operations already");
        self.event_anomaly_in(tx, (Reason::NeverAppeared, &detail), Some(id), Some(&event.id))?;
        webhooks::put(tx, account, &event.id, EventState::Anomaly, Some(id), now)?;
        Ok(Heeded::Anomaly)
    }

    /// The work failed. A store that is away can count nothing, and is no fault of the event's.
    async fn failed(self: &Arc<Self>, event: Event, id: RecordId, error: &StoreError) -> Received {
        tracing::warn!(event = &*event.id, %error, "event not processed");
        if matches!(
            error,
            StoreError::Unavailable(_) | StoreError::Overloaded { .. } | StoreError::InDoubt(_)
        ) {
            return Received::Again;
        }
        let (outside, why) = (Arc::clone(self), error.to_string());
        let counted = self.transaction(move |tx| outside.count_failure_in(tx, &event, id, &why)).await;
        counted.unwrap_or(Received::Again)
    }

    fn count_failure_in(
        &self,
        tx: &WriteTx<'_>,
        event: &Event,
        id: RecordId,
        why: &str,
    ) -> Result<Received, Halt> {
        let (account, now) = (self.acquirer.account(), tx.now());
        if webhooks::fail(tx, account, &event.id, Some(id), now)? < FAILURES_MAX {
            return Ok(Received::Again);
        }
        let detail = format!("work of the event failed {FAILURES_MAX} times: {why}");
        self.event_anomaly_in(tx, (Reason::Failing, &detail), Some(id), Some(&event.id))?;
        webhooks::put(tx, account, &event.id, EventState::Anomaly, Some(id), now)?;
        Ok(Received::Acknowledged)
    }

    /// Keeps what was rightly signed and cannot be understood.
    pub(crate) async fn keep_malformed(self: &Arc<Self>, id: Option<RecordId>, detail: String) -> Received {
        let outside = Arc::clone(self);
        let kept = self.transaction(move |tx| {
            outside.event_anomaly_in(tx, (Reason::Malformed, &detail), id, None).map_err(Halt::from)
        });
        match kept.await {
            Ok(()) => Received::Acknowledged,
            Err(error) => {
                tracing::warn!(%error, "malformed event not kept");
                Received::Again
            }
        }
    }

    fn event_anomaly_in(
        &self,
        tx: &WriteTx<'_>,
        (reason, detail): (Reason, &str),
        operation: Option<RecordId>,
        event: Option<&str>,
    ) -> rusqlite::Result<()> {
        let anomaly = NewAnomaly {
            reason,
            operation,
            heard: Heard::Webhook,
            account: Some(self.acquirer.account().as_str()),
            event,
            detail,
            proposal: None,
        };
        self.anomaly_in(tx, &anomaly, tx.now()).map(drop)
    }
}
