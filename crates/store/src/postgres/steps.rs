//! Every other change, in two trips: what stands there is read and judged by core's table, and what follows is written
//! under the fence that was read. Whoever was faster makes it begin again.

use std::collections::HashSet;

use tokio_postgres::types::Type;
use unavez_core::identity::RecordId;
use unavez_core::record::{Exposure, Fence, Record};
use unavez_core::time::Time;

use super::connection::Session;
use super::error::Failure;
use super::halving::Batch;
use super::rows::{self, attempt_uuid, uuid, version};
use crate::columns::StateColumns;

/// A record in its new form, on its way into the place of the one with the fence `before`.
pub(super) struct Keeping {
    pub(super) record: Record,
    pub(super) before: Fence,
    /// Given where the record's life starts anew.
    pub(super) position: Option<i64>,
}

/// At most one for each record, in the order of their ids. Done: whether the fence still fitted.
pub(super) struct Keeps<'s>(pub(super) &'s Session);

impl Batch for Keeps<'_> {
    type Item = Keeping;
    type Done = bool;

    async fn run(&self, items: &[Keeping]) -> Result<Vec<bool>, Failure> {
        let c = Columns::of(items);
        let written = self
            .0
            .write(
                include_str!("sql/update.sql"),
                &[
                    (&c.ids, Type::UUID_ARRAY),
                    (&c.tenants, Type::TEXT_ARRAY),
                    (&c.keys, Type::TEXT_ARRAY),
                    (&c.fingerprints, Type::BYTEA_ARRAY),
                    (&c.versions, Type::INT8_ARRAY),
                    (&c.attempt_ids, Type::UUID_ARRAY),
                    (&c.attempts, Type::INT8_ARRAY),
                    (&c.may_be_sent, Type::BOOL_ARRAY),
                    (&c.sighted, Type::BOOL_ARRAY),
                    (&c.created_at, Type::INT8_ARRAY),
                    (&c.attempt_started_at, Type::INT8_ARRAY),
                    (&c.latest_send_at, Type::INT8_ARRAY),
                    (&c.states, Type::TEXT_ARRAY),
                    (&c.deadlines, Type::INT8_ARRAY),
                    (&c.asked, Type::INT8_ARRAY),
                    (&c.next_ask_at, Type::INT8_ARRAY),
                    (&c.finished_at, Type::INT8_ARRAY),
                    (&c.expires_at, Type::INT8_ARRAY),
                    (&c.abandoned_at, Type::INT8_ARRAY),
                    (&c.conclusions, Type::TEXT_ARRAY),
                    (&c.statuses, Type::INT4_ARRAY),
                    (&c.resources, Type::TEXT_ARRAY),
                    (&c.not_kept, Type::TEXT_ARRAY),
                    (&c.sealed_by, Type::TEXT_ARRAY),
                    (&c.headers, Type::TEXT_ARRAY),
                    (&c.bodies, Type::BYTEA_ARRAY),
                    (&c.positions, Type::INT8_ARRAY),
                    (&c.old_versions, Type::INT8_ARRAY),
                    (&c.old_attempt_ids, Type::UUID_ARRAY),
                ],
            )
            .await?;
        fitted(&written, items.iter().map(|item| item.record.id))
    }
}

/// A record on its way out.
pub(super) struct Deleting {
    pub(super) id: RecordId,
    pub(super) before: Fence,
}

/// As [`Keeps`].
pub(super) struct Deletes<'s>(pub(super) &'s Session);

impl Batch for Deletes<'_> {
    type Item = Deleting;
    type Done = bool;

    async fn run(&self, items: &[Deleting]) -> Result<Vec<bool>, Failure> {
        let ids: Vec<_> = items.iter().map(|item| uuid(item.id)).collect();
        let versions: Vec<_> = items.iter().map(|item| version(item.before)).collect();
        let attempts: Vec<_> = items.iter().map(|item| attempt_uuid(item.before.attempt)).collect();
        let written = self
            .0
            .write(
                include_str!("sql/delete.sql"),
                &[(&ids, Type::UUID_ARRAY), (&versions, Type::INT8_ARRAY), (&attempts, Type::UUID_ARRAY)],
            )
            .await?;
        fitted(&written, items.iter().map(|item| item.id))
    }
}

fn fitted(
    written: &[tokio_postgres::Row],
    ids: impl Iterator<Item = RecordId>,
) -> Result<Vec<bool>, Failure> {
    let written: HashSet<RecordId> =
        written.iter().map(|row| rows::record_id(row, 0)).collect::<Result<_, _>>()?;
    Ok(ids.map(|id| written.contains(&id)).collect())
}

/// The parameters of `update.sql`.
#[derive(Default)]
struct Columns<'i> {
    ids: Vec<uuid::Uuid>,
    tenants: Vec<&'i str>,
    keys: Vec<&'i str>,
    fingerprints: Vec<Vec<u8>>,
    versions: Vec<i64>,
    attempt_ids: Vec<uuid::Uuid>,
    attempts: Vec<i64>,
    may_be_sent: Vec<bool>,
    sighted: Vec<bool>,
    created_at: Vec<i64>,
    attempt_started_at: Vec<i64>,
    latest_send_at: Vec<i64>,
    states: Vec<&'static str>,
    deadlines: Vec<Option<i64>>,
    asked: Vec<Option<i64>>,
    next_ask_at: Vec<Option<i64>>,
    finished_at: Vec<Option<i64>>,
    expires_at: Vec<Option<i64>>,
    abandoned_at: Vec<Option<i64>>,
    conclusions: Vec<Option<&'static str>>,
    statuses: Vec<Option<i32>>,
    resources: Vec<Option<&'i str>>,
    not_kept: Vec<Option<&'static str>>,
    sealed_by: Vec<Option<&'i str>>,
    headers: Vec<Option<String>>,
    bodies: Vec<Option<&'i [u8]>>,
    positions: Vec<Option<i64>>,
    old_versions: Vec<i64>,
    old_attempt_ids: Vec<uuid::Uuid>,
}

impl<'i> Columns<'i> {
    fn of(items: &'i [Keeping]) -> Self {
        let mut columns = Self::default();
        for Keeping { record, before, position } in items {
            columns.push_record(record);
            columns.push_state(StateColumns::of(&record.state));
            columns.positions.push(*position);
            columns.old_versions.push(version(*before));
            columns.old_attempt_ids.push(attempt_uuid(before.attempt));
        }
        columns
    }

    fn push_record(&mut self, record: &'i Record) {
        self.ids.push(uuid(record.id));
        self.tenants.push(record.tenant.as_str());
        self.keys.push(record.key.as_str());
        self.fingerprints.push(record.fingerprint.encode());
        self.versions.push(version(record.fence));
        self.attempt_ids.push(attempt_uuid(record.fence.attempt));
        self.attempts.push(record.attempts.into());
        self.may_be_sent.push(record.exposure == Exposure::MayBeSent);
        self.sighted.push(record.sighted);
        self.created_at.push(record.created_at.as_micros());
        self.attempt_started_at.push(Time::as_micros(record.attempt_started_at));
        self.latest_send_at.push(record.latest_send_at.as_micros());
        self.states.push(record.state.name());
    }

    fn push_state(&mut self, state: StateColumns<'i>) {
        self.deadlines.push(state.deadline);
        self.asked.push(state.asked.map(Into::into));
        self.next_ask_at.push(state.next_ask_at);
        self.finished_at.push(state.finished_at);
        self.expires_at.push(state.expires_at);
        self.abandoned_at.push(state.abandoned_at);
        self.conclusions.push(state.conclusion);
        self.statuses.push(state.status.map(Into::into));
        self.resources.push(state.resource);
        self.not_kept.push(state.not_kept);
        self.sealed_by.push(state.sealed_by);
        self.headers.push(state.headers);
        self.bodies.push(state.body);
    }
}
