//! What is not of the hot set: questions that are due, lists, and the purge. Each asks all shards at once and puts their
//! answers together here, so a cluster needs nothing that spans its slots.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use unavez_core::identity::RecordId;
use unavez_core::record::Record;
use unavez_core::time::Time;

use super::Inner;
use super::fields::{self, Unreadable};
use super::layout::Shard;
use super::scripts::{Call, DUE, EXPIRED, LIST, LOAD, PURGE};
use crate::rules::{due_at, pick_fairly};
use crate::{Cursor, Due, Filter, Page, Purged, StoreError};

/// Most entries that one call takes from an index.
const BITE: usize = 500;

/// Most calls of a chore that are under way together; requests share the connection with them.
const TOGETHER_MAX: usize = 64;

/// Promises that are over.
struct Expired {
    now: Time,
    /// The oldest first.
    entries: Vec<(i64, RecordId)>,
}

/// A part of the list without gaps.
struct Stretch {
    now: Time,
    by_position: BTreeMap<i64, Vec<RecordId>>,
    is_last: bool,
}

impl Inner {
    pub(super) async fn due(self: &Arc<Self>, limit: usize) -> Result<Due, StoreError> {
        let most = limit.min(BITE);
        let (now, entries) =
            self.of_all_shards(|shard, told| DUE.call(&[shard.due()]).told(told).count(most)).await?;
        let mut due = Vec::new();
        for of_shard in entries {
            for entry in fields::strings(of_shard).map_err(unreadable)? {
                due.push(fields::due_entry(&entry).map_err(unreadable)?);
            }
        }
        let records = self.records(pick_fairly(due, most)).await?;
        // One of them may have been settled since.
        let is_due = |record: &Arc<Record>| due_at(record).is_some_and(|at| at <= now);
        Ok(Due { records: records.into_iter().flatten().filter(is_due).collect(), now })
    }

    pub(super) async fn list(
        self: &Arc<Self>,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let mut end = after.map(|Cursor(position)| i64::try_from(position).unwrap_or(i64::MAX));
        let mut listed: Vec<Arc<Record>> = Vec::new();
        loop {
            let Stretch { now, by_position, is_last } =
                self.stretch(end, limit.saturating_add(1).min(BITE)).await?;
            let found = self.records(by_position.values().flatten().copied().collect()).await?;
            let mut found: HashMap<RecordId, Arc<Record>> =
                found.into_iter().flatten().map(|record| (record.id, record)).collect();
            for (position, ids) in by_position.into_iter().rev() {
                let records = ids.iter().filter_map(|id| found.remove(id));
                let admitted: Vec<_> = records.filter(|record| filter.admits(record)).collect();
                if listed.len() >= limit && !admitted.is_empty() {
                    let next = end.map(|end| Cursor(end.unsigned_abs()));
                    return Ok(Page { records: listed, next: next.filter(|_| limit > 0), now });
                }
                listed.extend(admitted);
                end = Some(position);
            }
            if is_last {
                return Ok(Page { records: listed, next: None, now });
            }
        }
    }

    pub(super) async fn purge(self: &Arc<Self>, limit: usize) -> Result<Purged, StoreError> {
        let mut left = limit;
        let mut deleted = 0;
        loop {
            // One more than is deleted tells how far behind the purge is.
            let bite = left.min(BITE);
            let Expired { now, mut entries } = self.expired(bite + 1).await?;
            let rest = entries.split_off(entries.len().min(bite));
            deleted += self.delete(&entries).await?;
            left -= entries.len();
            let oldest = rest.first().map(|(expires_at, _)| Time::from_micros(*expires_at));
            match oldest {
                Some(_) if left > 0 => {}
                oldest => {
                    let lag = oldest.map_or(Duration::ZERO, |expires_at| now.since(expires_at));
                    return Ok(Purged { deleted, lag });
                }
            }
        }
    }

    async fn expired(self: &Arc<Self>, most: usize) -> Result<Expired, StoreError> {
        let call = |shard: Shard, told| EXPIRED.call(&[shard.expiry()]).told(told).count(most);
        let (now, answers) = self.of_all_shards(call).await?;
        if let Some(step) = self.times.step(now) {
            return Err(StoreError::ClockStepped { step });
        }
        let mut entries = Vec::new();
        for answer in answers {
            entries.extend(fields::scored_ids(answer).map_err(unreadable)?);
        }
        entries.sort_unstable();
        Ok(Expired { now, entries })
    }

    /// A call for each shard that has some of them; the script re-checks each.
    async fn delete(self: &Arc<Self>, expired: &[(i64, RecordId)]) -> Result<u64, StoreError> {
        let mut by_shard: BTreeMap<Shard, Vec<RecordId>> = BTreeMap::new();
        for (_, id) in expired {
            by_shard.entry(Shard::of(*id)).or_default().push(*id);
        }
        let call = |(shard, ids): (Shard, Vec<RecordId>)| {
            let mut keys = vec![shard.list(), shard.expiry()];
            keys.extend(ids.iter().map(|id| shard.record(*id)));
            let call = PURGE.call(&keys).told(self.times.told());
            ids.iter().fold(call, |call, id| call.arg(id.to_string()))
        };
        let mut deleted = 0;
        // What was deleted in doubt was to be deleted.
        for answer in self.all(by_shard.into_iter().map(call).collect()).await? {
            let Value::Int(some) = answer else { return Err(unreadable(Unreadable::answer())) };
            deleted += some.unsigned_abs();
        }
        Ok(deleted)
    }

    /// The highest position of all records.
    pub(super) async fn newest_position(self: &Arc<Self>) -> Result<Option<i64>, StoreError> {
        let newest = self.stretch(None, 1).await?;
        Ok(newest.by_position.last_key_value().map(|(position, _)| *position))
    }

    /// The newest entries below `end`, at least `most` of them where there are so many.
    async fn stretch(self: &Arc<Self>, end: Option<i64>, most: usize) -> Result<Stretch, StoreError> {
        let from = end.map_or("+inf".to_owned(), |end| format!("({end}"));
        let call = |shard: Shard, told| LIST.call(&[shard.list()]).told(told).arg(from.as_str()).count(most);
        let (now, answers) = self.of_all_shards(call).await?;
        let mut by_position: BTreeMap<i64, Vec<RecordId>> = BTreeMap::new();
        // Below this, a shard has entries that it has not told.
        let mut floor = None;
        for answer in answers {
            let entries = fields::scored_ids(answer).map_err(unreadable)?;
            if entries.len() >= most {
                floor = floor.max(entries.last().map(|(position, _)| *position));
            }
            for (position, id) in entries {
                by_position.entry(position).or_default().push(id);
            }
        }
        if let Some(floor) = floor {
            by_position = by_position.split_off(&floor);
        }
        Ok(Stretch { now, by_position, is_last: floor.is_none() })
    }

    /// The records of these ids in their order; none where the server has deleted one meanwhile.
    async fn records(self: &Arc<Self>, ids: Vec<RecordId>) -> Result<Vec<Option<Arc<Record>>>, StoreError> {
        let told = self.times.told();
        let calls = ids.iter().map(|id| LOAD.call(&[Shard::of(*id).record(*id)]).told(told)).collect();
        let answers = ids.iter().zip(self.all(calls).await?);
        answers
            .map(|(id, answer)| fields::loaded(*id, answer).map(|loaded| loaded.record).map_err(unreadable))
            .collect()
    }

    /// What every shard answers to a call, and the earliest of their times: clocks of masters differ, and nothing is to look
    /// older than it is.
    async fn of_all_shards(
        self: &Arc<Self>,
        call: impl Fn(Shard, Option<i64>) -> Call,
    ) -> Result<(Time, Vec<Value>), StoreError> {
        let told = self.times.told();
        let answers = self.all(Shard::all().map(|shard| call(shard, told)).collect()).await?;
        let mut now = Time::MAX;
        let mut rest = Vec::with_capacity(answers.len());
        for answer in answers {
            let (at, answer) = fields::timed(answer).map_err(unreadable)?;
            now = now.min(at);
            rest.push(answer);
        }
        self.times.observe(now);
        Ok((now, rest))
    }

    /// Makes all calls, many of them together, and returns the answers in their order.
    async fn all(self: &Arc<Self>, calls: Vec<Call>) -> Result<Vec<Value>, StoreError> {
        let mut answers = BTreeMap::new();
        let mut waiting = calls.into_iter().enumerate();
        let mut running = JoinSet::new();
        loop {
            for (at, call) in waiting.by_ref().take(TOGETHER_MAX - running.len()) {
                let store = Arc::clone(self);
                running.spawn(async move { (at, store.link.read(&call).await) });
            }
            match running.join_next().await {
                None => return Ok(answers.into_values().collect()),
                Some(Ok((at, answer))) => {
                    answers.insert(at, answer.map_err(|failure| failure.of_read())?);
                }
                Some(Err(ended)) => return Err(StoreError::Unavailable(ended.to_string().into())),
            }
        }
    }
}

fn unreadable(error: Unreadable) -> StoreError {
    StoreError::Unavailable(error.to_string().into())
}
