//! What of the night shift belongs to an acquirer outside: parked events, alarms, old event ids.

use std::sync::Arc;

use rusqlite::Connection;
use unavez_core::identity::{OperationId, RecordId};
use unavez_core::recovery::Held;
use unavez_store::StoreError;

use super::settle::Heeded;
use super::webhook::KEPT_FOR;
use super::{Halt, Outside};
use crate::books::anomalies::NewAnomaly;
use crate::books::webhooks::{self, EventState};
use crate::books::{Heard, OperationStanding, Reason, operations};

/// Rows that one transaction of the shift deals with.
const BATCH: u32 = 100;

impl Outside {
    /// One round. What fails is done by the next one.
    pub(crate) async fn work_at_night(self: &Arc<Self>, alarms: Vec<(OperationId, Held)>) {
        for (operation, held) in alarms {
            self.write_alarm(operation, held).await;
        }
        for (what, done) in [
            ("parked events", self.sweep_parked().await),
            ("overdue events", self.give_up_overdue().await),
            ("old events", self.forget_old().await),
        ] {
            if let Err(error) = done {
                tracing::warn!(%error, "{what} not looked after");
            }
        }
    }

    /// Whatever is parked for an operation that is there takes effect: T1 does the same, and this makes sure of it.
    async fn sweep_parked(self: &Arc<Self>) -> Result<(), StoreError> {
        for id in self.appeared().await? {
            let outside = Arc::clone(self);
            if self.transaction(move |tx| outside.unpark_in(tx, id)).await? == Some(Heeded::Settled) {
                self.engine.notify(id.operation_id());
            }
        }
        Ok(())
    }

    /// Some operations that have appeared since something was parked for them.
    async fn appeared(&self) -> Result<Vec<RecordId>, StoreError> {
        let places = self.places.clone();
        let find = move |connection: &Connection| {
            let mut appeared = Vec::new();
            for id in webhooks::parked_operations(connection)? {
                let operation = operations::find(connection, &places, id)?;
                if operation.is_some_and(|it| it.standing != OperationStanding::Released) {
                    appeared.push(id);
                }
                if appeared.len() == BATCH as usize {
                    break;
                }
            }
            Ok(appeared)
        };
        self.store.read(find).await
    }

    /// Parked events whose operations never came are for a person.
    async fn give_up_overdue(self: &Arc<Self>) -> Result<(), StoreError> {
        let before = self.store.clock().now().minus(KEPT_FOR);
        if self.store.read(move |connection| webhooks::overdue(connection, before, 1)).await?.is_empty() {
            return Ok(());
        }
        let outside = Arc::clone(self);
        self.transaction(move |tx| {
            for overdue in webhooks::overdue(tx, before, BATCH)? {
                let detail = format!("its operation never appeared here: {}", overdue.news);
                let anomaly = NewAnomaly {
                    reason: Reason::NeverAppeared,
                    operation: Some(overdue.operation),
                    heard: Heard::Webhook,
                    account: Some(overdue.account.as_str()),
                    event: Some(&overdue.event),
                    detail: &detail,
                    proposal: Some(
                        "find out who sent the operation: another deployment, or a database that was lost",
                    ),
                };
                outside.anomaly_in(tx, &anomaly, tx.now())?;
                webhooks::unpark(tx, overdue.row, EventState::Anomaly)?;
            }
            Ok::<_, Halt>(())
        })
        .await
    }

    async fn forget_old(&self) -> Result<(), StoreError> {
        let before = self.store.clock().now().minus(KEPT_FOR);
        if !self.store.read(move |connection| webhooks::has_older(connection, before)).await? {
            return Ok(());
        }
        self.transaction(move |tx| Ok(webhooks::forget(tx, before, BATCH).map(drop)?)).await
    }

    async fn write_alarm(self: &Arc<Self>, id: OperationId, held: Held) {
        let places = self.places.clone();
        let find = move |connection: &Connection| operations::find(connection, &places, id.record_id());
        let found = self.store.read(find).await;
        match found {
            Ok(Some(operation)) => self.hold(operation, held).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(%id, %error, "alarm not written down"),
        }
    }
}
