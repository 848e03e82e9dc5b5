//! Finishes, as one statement.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use unavez_core::identity::RecordId;
use unavez_core::record::{Fence, Finish, Record, State};
use unavez_core::time::Time;

use super::claims::micros;
use super::connection::{Param, Session};
use super::error::Failure;
use super::halving::Batch;
use super::rows::{self, attempt_uuid, uuid, version};
use super::time::Times;
use crate::columns::StateColumns;

/// A finish on its way.
pub(super) struct Finishing {
    pub(super) id: RecordId,
    pub(super) expected: Fence,
    pub(super) finish: Finish,
}

/// The finished record; `None` where fence or state did not fit.
pub(super) type Finished = Option<(Arc<Record>, Time)>;

/// At most one finish for each record, in the order of their ids.
pub(super) struct Finishes<'s> {
    pub(super) session: &'s Session,
    pub(super) times: &'s Times,
}

impl Batch for Finishes<'_> {
    type Item = Finishing;
    type Done = Finished;

    async fn run(&self, items: &[Finishing]) -> Result<Vec<Finished>, Failure> {
        let told = self.times.told();
        let columns = Columns::of(items);
        let written = self.session.write(SQL, &columns.params(&told, &Some(LOCK_TIMEOUT))).await?;
        let mut done: HashMap<RecordId, &Row> = HashMap::with_capacity(written.len());
        for row in &written {
            done.insert(rows::record_id(row, 0)?, row);
        }
        let finished = items.iter().map(|item| done.get(&item.id).map(|row| finished(row, &item.finish)));
        Ok(finished.map(Option::transpose).collect::<Result<_, _>>()?)
    }
}

/// How long a batch waits for a row that somebody's open transaction holds, before it is halved.
const LOCK_TIMEOUT: &str = "300ms";

pub(super) const SQL: &str = include_str!("sql/finish.sql");

/// The record that a row of `finish.sql` and the finish itself make together.
pub(super) fn finished(row: &Row, finish: &Finish) -> Result<(Arc<Record>, Time), rows::Unreadable> {
    let now = rows::time(row, 12)?;
    let Finish { conclusion, answer, response_ttl, resource } = finish.clone();
    let state = State::Finished { at: now, expires_at: now.plus(response_ttl), conclusion, answer, resource };
    rows::common(row, state).map(|record| (Arc::new(record), now))
}

/// The parameters of `finish.sql`.
#[derive(Default)]
pub(super) struct Columns<'i> {
    ids: Vec<uuid::Uuid>,
    versions: Vec<i64>,
    attempts: Vec<uuid::Uuid>,
    response_ttls: Vec<i64>,
    conclusions: Vec<&'static str>,
    statuses: Vec<i32>,
    resources: Vec<Option<&'i str>>,
    not_kept: Vec<Option<&'static str>>,
    sealed_by: Vec<Option<&'i str>>,
    headers: Vec<Option<String>>,
    bodies: Vec<Option<&'i [u8]>>,
}

impl<'i> Columns<'i> {
    fn of(items: &'i [Finishing]) -> Self {
        let mut columns = Self::default();
        for Finishing { id, expected, finish } in items {
            columns.push(*id, *expected, finish);
        }
        columns
    }

    pub(super) fn push(&mut self, id: RecordId, expected: Fence, finish: &'i Finish) {
        let Finish { conclusion, answer, response_ttl, resource } = finish;
        let content = StateColumns::of_content(&answer.content);
        self.ids.push(uuid(id));
        self.versions.push(version(expected));
        self.attempts.push(attempt_uuid(expected.attempt));
        self.response_ttls.push(micros(*response_ttl));
        self.conclusions.push(conclusion.as_str());
        self.statuses.push(i32::from(answer.status));
        self.resources.push(resource.as_deref());
        self.not_kept.push(content.not_kept);
        self.sealed_by.push(content.sealed_by);
        self.headers.push(content.headers);
        self.bodies.push(content.body);
    }

    /// `told` is the time where the caller has a clock, `lock_timeout` is `None` in a transaction of the caller's.
    pub(super) fn params<'p>(
        &'p self,
        told: &'p Option<i64>,
        lock_timeout: &'p Option<&'static str>,
    ) -> [Param<'p>; 13] {
        [
            (told, Type::INT8),
            (&self.ids, Type::UUID_ARRAY),
            (&self.versions, Type::INT8_ARRAY),
            (&self.attempts, Type::UUID_ARRAY),
            (&self.response_ttls, Type::INT8_ARRAY),
            (&self.conclusions, Type::TEXT_ARRAY),
            (&self.statuses, Type::INT4_ARRAY),
            (&self.resources, Type::TEXT_ARRAY),
            (&self.not_kept, Type::TEXT_ARRAY),
            (&self.sealed_by, Type::TEXT_ARRAY),
            (&self.headers, Type::TEXT_ARRAY),
            (&self.bodies, Type::BYTEA_ARRAY),
            (lock_timeout, Type::TEXT),
        ]
    }
}
