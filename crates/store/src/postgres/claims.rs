//! Claims of keys that nobody holds, as one statement, and the records that stood in the way, as a second one: right behind
//! it where the batch before had losers, and only if there are any where it had none.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::types::Type;
use unavez_core::identity::{AttemptId, RecordId};
use unavez_core::record::{Claim, Exposure, Record};
use unavez_core::time::Time;

use super::connection::{Param, Session};
use super::error::Failure;
use super::halving::Batch;
use super::rows::{self, COLUMNS, attempt_uuid, uuid};
use super::time::Times;

/// A claim on its way.
pub(super) struct Claiming {
    pub(super) id: RecordId,
    pub(super) claim: Claim,
    pub(super) position: i64,
}

/// What became of a claim.
pub(super) enum Claimed {
    Won {
        record: Arc<Record>,
        now: Time,
    },
    Lost {
        record: Arc<Record>,
        now: Time,
    },
    /// It did not win, and when it was looked for, nothing stood there any more, or only a record of its own attempt.
    Neither,
    Unreadable(rows::Unreadable),
}

/// At most one claim for each record, in the order of their ids, so that two processes cannot wait for each other.
pub(super) struct Claims<'s> {
    pub(super) session: &'s Session,
    pub(super) times: &'s Times,
    pub(super) outlook: Outlook,
}

/// Whether claims are expected to lose. It is only a guess at what is cheaper: right or wrong, losers get their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Hardly any: whoever loses costs a trip, and nobody else an index lookup.
    Fresh,
    /// Some: their records are asked for in the same trip.
    Contended,
}

/// A row of the first statement names a claim by its attempt, never by key or position (P8).
type Won = HashMap<(RecordId, AttemptId), Time>;
type Lost = HashMap<RecordId, Result<(Arc<Record>, Time), rows::Unreadable>>;

impl Batch for Claims<'_> {
    type Item = Claiming;
    type Done = Claimed;

    async fn run(&self, items: &[Claiming]) -> Result<Vec<Claimed>, Failure> {
        let told = self.times.told();
        let (won, mut lost) = match self.outlook {
            // Both are sent before either is answered.
            Outlook::Contended => {
                let (won, lost) = tokio::join!(self.create(items, told), self.losers(items, told));
                (won?, lost)
            }
            Outlook::Fresh => (self.create(items, told).await?, Ok(Lost::new())),
        };
        Ok(items.iter().map(|item| became(item, &won, &mut lost)).collect())
    }
}

fn became(item: &Claiming, won: &Won, lost: &mut Result<Lost, Failure>) -> Claimed {
    if let Some(now) = won.get(&(item.id, item.claim.attempt)) {
        let record = Record::claimed(item.id, item.claim.clone(), *now);
        return Claimed::Won { record: Arc::new(record), now: *now };
    }
    // Where the second statement failed, or none was sent, the loser is read apart.
    match lost.as_mut().ok().and_then(|lost| lost.remove(&item.id)) {
        Some(Ok((record, now))) => Claimed::Lost { record, now },
        Some(Err(unreadable)) => Claimed::Unreadable(unreadable),
        None => Claimed::Neither,
    }
}

impl Claims<'_> {
    async fn create(&self, items: &[Claiming], told: Option<i64>) -> Result<Won, Failure> {
        let columns = Columns::of(items);
        let written = self
            .session
            .write(
                include_str!("sql/claim.sql"),
                &[
                    (&told, Type::INT8),
                    (&columns.ids, Type::UUID_ARRAY),
                    (&columns.tenants, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.fingerprints, Type::BYTEA_ARRAY),
                    (&columns.attempts, Type::UUID_ARRAY),
                    (&columns.may_be_sent, Type::BOOL_ARRAY),
                    (&columns.positions, Type::INT8_ARRAY),
                    (&columns.deadlines, Type::INT8_ARRAY),
                    (&columns.timeouts, Type::INT8_ARRAY),
                ],
            )
            .await?;
        let mut won = Won::with_capacity(written.len());
        for row in &written {
            let now = rows::time(row, 2)?;
            self.times.observe(now);
            won.insert((rows::record_id(row, 0)?, rows::attempt_id(row, 1)?), now);
        }
        Ok(won)
    }

    async fn losers(&self, items: &[Claiming], told: Option<i64>) -> Result<Lost, Failure> {
        let ids: Vec<_> = items.iter().map(|item| uuid(item.id)).collect();
        let attempts: Vec<_> = items.iter().map(|item| attempt_uuid(item.claim.attempt)).collect();
        let parameters: &[Param<'_>] =
            &[(&told, Type::INT8), (&ids, Type::UUID_ARRAY), (&attempts, Type::UUID_ARRAY)];
        let found = self.session.read(include_str!("sql/losers.sql"), parameters).await?;
        let mut lost = Lost::with_capacity(found.len());
        for row in &found {
            let now = rows::time(row, COLUMNS)?;
            lost.insert(rows::record_id(row, 0)?, rows::read(row).map(|record| (record, now)));
        }
        Ok(lost)
    }
}

/// The parameters of `claim.sql`.
#[derive(Default)]
struct Columns<'i> {
    ids: Vec<uuid::Uuid>,
    tenants: Vec<&'i str>,
    keys: Vec<&'i str>,
    fingerprints: Vec<Vec<u8>>,
    attempts: Vec<uuid::Uuid>,
    may_be_sent: Vec<bool>,
    positions: Vec<i64>,
    deadlines: Vec<i64>,
    timeouts: Vec<i64>,
}

impl<'i> Columns<'i> {
    fn of(items: &'i [Claiming]) -> Self {
        let mut columns = Self::default();
        for Claiming { id, claim, position } in items {
            columns.ids.push(uuid(*id));
            columns.tenants.push(claim.tenant.as_str());
            columns.keys.push(claim.key.as_str());
            columns.fingerprints.push(claim.fingerprint.encode());
            columns.attempts.push(attempt_uuid(claim.attempt));
            columns.may_be_sent.push(claim.exposure == Exposure::MayBeSent);
            columns.positions.push(*position);
            columns.deadlines.push(micros(claim.timing.attempt_deadline));
            columns.timeouts.push(micros(claim.timing.operation_timeout));
        }
        columns
    }
}

/// A length of time as a parameter. Longer ones than can be expressed never end either way.
pub(super) fn micros(length: std::time::Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}
