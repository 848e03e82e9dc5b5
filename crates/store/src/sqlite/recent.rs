//! Records in memory as the database holds them, so that repeats of recent keys touch neither the writer nor the disk.
//!
//! 1. Only the writer fills it, and only with what is committed: an entry equals its row at every moment between two
//!    commits. Readers never fill it; their snapshot may be older than the last commit.
//! 2. What a commit deleted is removed before the commit is acknowledged.
//! 3. It is bounded in bytes and forgets the oldest entries first; forgetting is always safe.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unavez_core::answer::{Content, Headers};
use unavez_core::identity::RecordId;
use unavez_core::record::{Record, State};

use super::digest_index::DigestHasher;

const SHARDS: usize = 16;

/// The map.
#[derive(Debug)]
pub(super) struct Recent {
    shards: [Mutex<Shard>; SHARDS],
    shard_bytes_max: usize,
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    records: HashMap<RecordId, Entry, BuildHasherDefault<DigestHasher>>,
    /// Ids in the order of their writes. An id that was written again stands here twice; only the later stamp counts.
    order: VecDeque<(RecordId, u64)>,
    next_stamp: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    stamp: u64,
    bytes: usize,
}

impl Recent {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            shard_bytes_max: bytes_max / SHARDS,
            bytes: AtomicUsize::new(0),
        }
    }

    /// The record as the last commit left it, if it is remembered.
    pub(super) fn find(&self, id: RecordId) -> Option<Arc<Record>> {
        self.shard(id).records.get(&id).map(|entry| Arc::clone(&entry.record))
    }

    /// What a commit left under this id; `None`: nothing.
    pub(super) fn committed(&self, id: RecordId, record: Option<Arc<Record>>) {
        let mut shard = self.shard(id);
        let before = shard.bytes;
        shard.forget(id);
        if let Some(record) = record {
            shard.remember(id, record);
            shard.shrink(self.shard_bytes_max);
        }
        let after = shard.bytes;
        drop(shard);
        self.bytes.fetch_add(after, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// Forgets everything: what the process believed about the database may be wrong.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            self.bytes.fetch_sub(shard.bytes, Ordering::Relaxed);
            *shard = Shard::default();
        }
    }

    /// Roughly how much memory the entries take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn shard(&self, id: RecordId) -> MutexGuard<'_, Shard> {
        // The id is a hash, so any of its bytes spreads evenly; the maps inside take the first ones.
        lock(&self.shards[usize::from(id.as_bytes()[15]) % SHARDS])
    }
}

/// A shard is only a memory of the database: after a panic it still holds whole entries.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn remember(&mut self, id: RecordId, record: Arc<Record>) {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let bytes = weight(&record);
        self.bytes += bytes;
        self.order.push_back((id, stamp));
        self.records.insert(id, Entry { record, stamp, bytes });
    }

    fn forget(&mut self, id: RecordId) {
        if let Some(entry) = self.records.remove(&id) {
            self.bytes -= entry.bytes;
        }
    }

    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max || self.order.len() > 2 * self.records.len() + 16 {
            let Some((id, stamp)) = self.order.pop_front() else { return };
            let latest = self.records.get(&id).map(|entry| entry.stamp);
            match latest {
                Some(latest) if latest == stamp && self.bytes > bytes_max => self.forget(id),
                // Still wanted, and its place in the order was only dropped to shorten the order.
                Some(latest) if latest == stamp => self.order.push_back((id, stamp)),
                _ => {}
            }
        }
    }
}

/// About how many bytes an entry takes: its parts, and a constant for the record, the map and the order.
fn weight(record: &Record) -> usize {
    const ENTRY: usize = 500;
    let answer = match &record.state {
        State::Finished { answer, .. } => match &answer.content {
            Content::Kept { headers, body } => fields(headers) + body.len(),
            Content::NotKept { headers, .. } => fields(headers),
            Content::Sealed { bytes, .. } => bytes.len(),
        },
        State::InProgress { .. } | State::Unknown { .. } | State::Abandoned { .. } => 0,
    };
    ENTRY + record.key.as_str().len() + answer
}

fn fields(headers: &Headers) -> usize {
    headers.iter().map(|(name, value)| 64 + name.len() + value.len()).sum()
}
