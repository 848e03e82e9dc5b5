//! A store that forgets with its process: for tests, trials, and services whose effects end with the process too.
//!
//! Records lie in shards by their id, each behind a lock that is held for one call and never across an await. Ordered
//! sets beside them find what expired and what is due without looking at the rest. Nothing is ever evicted: an
//! unfinished record guards an effect, and a finished one is a promise (P9).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use unavez_core::identity::{Realm, RecordId, Tenant};
use unavez_core::record::{Change, Fence, Record};
use unavez_core::time::Time;

use crate::clock::{Clock, SystemClock};
use crate::rules::{Verdict, due_at, judge, pick_fairly};
use crate::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

const SHARDS: usize = 16;

/// Records in memory. Clones share them.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    records_max: usize,
}

struct Shared {
    clock: Arc<dyn Clock>,
    shards: [Mutex<Shard>; SHARDS],
    records: AtomicUsize,
    /// Orders records by their creation, over all shards.
    next_position: AtomicU64,
}

#[derive(Default)]
struct Shard {
    records: HashMap<RecordId, Slot>,
    by_position: BTreeMap<u64, RecordId>,
    by_expiry: BTreeSet<(Time, RecordId)>,
    by_due: BTreeSet<(Time, RecordId)>,
}

struct Slot {
    record: Arc<Record>,
    position: u64,
}

impl MemoryStore {
    /// On the system's clock, without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// On `clock`, without a limit.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            clock,
            shards: std::array::from_fn(|_| Mutex::default()),
            records: AtomicUsize::new(0),
            next_position: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared), records_max: usize::MAX }
    }

    /// With at most so many records. Claims above that are refused; nothing is evicted.
    #[must_use]
    pub fn with_records_max(self, records_max: usize) -> Self {
        Self { records_max, ..self }
    }

    /// The clock on which this store measures ages.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    fn swap_now(&self, id: RecordId, expected: Option<Fence>, change: Change) -> Result<Swap, StoreError> {
        let now = self.shared.clock.now();
        let mut shard = self.shard(id);
        let before = shard.records.get(&id).map(|slot| Arc::clone(&slot.record));
        let creates = before.is_none();
        let starts_anew = matches!(change, Change::Claim(_));
        let record = match judge(id, before.as_deref(), expected, change, now)? {
            Verdict::Conflict => return Ok(Swap::Conflict { record: before, now }),
            Verdict::Keep(record) => {
                if creates {
                    self.count_one_more()?;
                }
                let record = Arc::new(record);
                let position = starts_anew.then(|| self.shared.next_position.fetch_add(1, Ordering::Relaxed));
                shard.keep(Arc::clone(&record), position);
                record
            }
            Verdict::Delete => {
                self.shared.records.fetch_sub(1, Ordering::Relaxed);
                shard.remove(id).ok_or_else(|| StoreError::Unavailable("record vanished".into()))?
            }
        };
        Ok(Swap::Swapped { record, now })
    }

    fn count_one_more(&self) -> Result<(), StoreError> {
        let max = self.records_max;
        let counted = self.shared.records.try_update(Ordering::Relaxed, Ordering::Relaxed, |records| {
            (records < max).then_some(records + 1)
        });
        counted.map(drop).map_err(|records| {
            StoreError::Unavailable(format!("memory store holds {records} records, limit {max}").into())
        })
    }

    fn due_now(&self, limit: usize) -> Due {
        let now = self.shared.clock.now();
        let mut due: Vec<(Time, Tenant, RecordId)> = Vec::new();
        for shard in self.shards() {
            let of_shard = shard.by_due.iter().take_while(|(at, _)| *at <= now);
            due.extend(
                of_shard
                    .filter_map(|(at, id)| Some((*at, shard.records.get(id)?.record.tenant.clone(), *id))),
            );
        }
        let picked = pick_fairly(due, limit);
        Due { records: picked.into_iter().filter_map(|id| self.record(id)).collect(), now }
    }

    fn purge_now(&self, limit: usize) -> Result<Purged, StoreError> {
        if let Some(step) = self.shared.clock.step() {
            return Err(StoreError::ClockStepped { step });
        }
        let now = self.shared.clock.now();
        let mut purged = Purged { deleted: 0, lag: Duration::ZERO };
        let mut left = limit;
        for mut shard in self.shards() {
            while let Some((expires_at, id)) = shard.first_expired(now) {
                if left == 0 {
                    purged.lag = purged.lag.max(now.since(expires_at));
                    break;
                }
                shard.remove(id);
                self.shared.records.fetch_sub(1, Ordering::Relaxed);
                left -= 1;
                purged.deleted += 1;
            }
        }
        Ok(purged)
    }

    fn list_now(&self, filter: &Filter, after: Option<Cursor>, limit: usize) -> Page {
        let now = self.shared.clock.now();
        let end = after.map_or(u64::MAX, |Cursor(position)| position);
        let mut found: Vec<(u64, Arc<Record>)> = Vec::new();
        for shard in self.shards() {
            let newest_first = shard.by_position.range(..end).rev();
            let records = newest_first
                .filter_map(|(position, id)| Some((*position, Arc::clone(&shard.records.get(id)?.record))));
            found.extend(records.filter(|(_, record)| filter.admits(record)).take(limit.saturating_add(1)));
        }
        found.sort_unstable_by_key(|(position, _)| std::cmp::Reverse(*position));
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(position, _)| Cursor(*position));
        Page { records: found.into_iter().map(|(_, record)| record).collect(), next, now }
    }

    fn record(&self, id: RecordId) -> Option<Arc<Record>> {
        self.shard(id).records.get(&id).map(|slot| Arc::clone(&slot.record))
    }

    fn shard(&self, id: RecordId) -> MutexGuard<'_, Shard> {
        // The id is a hash, so any of its bytes spreads evenly.
        lock(&self.shared.shards[usize::from(id.as_bytes()[0]) % SHARDS])
    }

    fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shared.shards.iter().map(lock)
    }
}

/// No call panics between two writes of a shard, so a poisoned lock still guards a whole shard.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Puts the record in place of what was there; `position` is given when its life starts anew.
    fn keep(&mut self, record: Arc<Record>, position: Option<u64>) {
        let id = record.id;
        let old_position = self.take(id).map(|slot| slot.position);
        let position = position.or(old_position).unwrap_or_default();
        self.by_position.insert(position, id);
        if let Some(at) = record.expires_at() {
            self.by_expiry.insert((at, id));
        }
        if let Some(at) = due_at(&record) {
            self.by_due.insert((at, id));
        }
        self.records.insert(id, Slot { record, position });
    }

    fn remove(&mut self, id: RecordId) -> Option<Arc<Record>> {
        self.take(id).map(|slot| slot.record)
    }

    fn take(&mut self, id: RecordId) -> Option<Slot> {
        let slot = self.records.remove(&id)?;
        self.by_position.remove(&slot.position);
        if let Some(at) = slot.record.expires_at() {
            self.by_expiry.remove(&(at, id));
        }
        if let Some(at) = due_at(&slot.record) {
            self.by_due.remove(&(at, id));
        }
        Some(slot)
    }

    fn first_expired(&self, now: Time) -> Option<(Time, RecordId)> {
        self.by_expiry.first().copied().filter(|(expires_at, _)| *expires_at <= now)
    }
}

impl Store for MemoryStore {
    fn swap(
        &self,
        id: RecordId,
        expected: Option<Fence>,
        change: Change,
    ) -> BoxFuture<'_, Result<Swap, StoreError>> {
        Box::pin(async move { self.swap_now(id, expected, change) })
    }

    fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        Box::pin(async move { Ok(Loaded { record: self.record(id), now: self.shared.clock.now() }) })
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
        Box::pin(async move { Ok(self.due_now(limit)) })
    }

    fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(async move { self.purge_now(limit) })
    }

    fn list(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page, StoreError>> {
        Box::pin(async move { Ok(self.list_now(&filter, after, limit)) })
    }

    /// It forgets with its process, so its ids may be those of no other.
    fn realm(&self) -> Option<Realm> {
        None
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.shared.records.load(Ordering::Relaxed);
        f.debug_struct("MemoryStore").field("records", &records).finish_non_exhaustive()
    }
}
