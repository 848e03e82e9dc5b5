//! A day of traffic, with answers that are forgotten after a while and with answers that never are.
//!
//! 1. Every operation is a claim and a finish at the product's SQLite store, in one commit with whatever else waits. No
//!    figure is computed: rows are counted in the table, sizes are the file's.
//! 2. Time is the store's own clock, turned a minute further when a minute's operations are done (ten minutes on a day
//!    of few). After each step everything is purged that has expired, as the service's night shift does.
//! 3. When each operation happens is drawn beforehand from the seed, by CPython's generator.
//! 4. What becomes of a repeat is asked at the payments service over HTTP, within the TTL and after it: the record goes,
//!    the charge stays, and so does its outcome (P21).

mod charge;
mod render;
mod repeat;
mod rhythm;
mod run;
mod world;

use std::time::Duration;

use serde::{Serialize, Serializer};

pub(crate) use render::length;
pub use repeat::Repeat;
pub(crate) use rhythm::WEIGHTS;
pub use run::run;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Draws the hour of each operation.
    pub seed: u64,
    /// Operations on each day.
    pub operations: u32,
    /// How long an answer is repeated.
    pub ttl: Duration,
    /// How many days; at least 1. One day shows nothing of a TTL of a day.
    pub days: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 42, operations: 1_000_000, ttl: Duration::from_secs(4 * 3600), days: 1 }
    }
}

impl Options {
    /// The command that gives the same figures again.
    pub fn command(&self) -> String {
        let Self { seed, operations, ttl, days } = self;
        let ttl = length(ttl.as_secs());
        format!("unavez lab day --seed {seed} --operations {operations} --ttl {ttl} --days {days}")
    }
}

/// The measurement: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Draws the hour of each operation.
    pub seed: u64,
    /// Operations on each day.
    pub operations: u32,
    /// How many days.
    pub days: u32,
    /// How long an answer is repeated.
    #[serde(rename = "ttl_seconds", serialize_with = "seconds")]
    pub response_ttl: Duration,
    /// Operations in each hour.
    pub operations_by_hour: Vec<u32>,
    /// The store that forgets after the TTL.
    pub ttl: World,
    /// The store that never forgets.
    pub no_ttl: World,
    /// What a repeat within the TTL was answered with.
    pub repeat_within_ttl: Repeat,
    /// What a repeat after the TTL was answered with, its record purged.
    pub repeat_after_ttl: Repeat,
    /// What the same key with another body was answered with then.
    pub other_body_after_ttl: Repeat,
}

/// One store over the day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct World {
    /// Records at the end of each hour, counted in the table.
    pub rows_by_hour: Vec<u64>,
    /// Bytes of the database at the end of each hour, pages that are free for reuse included.
    pub bytes_by_hour: Vec<u64>,
    /// Records purged.
    pub purged: u64,
    /// Length of the file when the store was closed.
    pub file_bytes: u64,
}

impl World {
    /// The most records there ever were at the end of an hour.
    pub fn rows_max(&self) -> u64 {
        self.rows_by_hour.iter().copied().max().unwrap_or(0)
    }
}

impl Figures {
    /// Operations of all days.
    pub fn operations_total(&self) -> u64 {
        self.operations_by_hour.iter().copied().map(u64::from).sum()
    }

    /// Whether repeats got the one outcome of their operation, on either side of the TTL.
    pub fn passed(&self) -> bool {
        self.repeat_within_ttl == Repeat::Replayed
            && self.repeat_after_ttl == Repeat::ExistingResource
            && self.other_body_after_ttl == Repeat::Refused
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}

/// A day in which a repeat was charged again.
#[cfg(test)]
pub(crate) fn sample() -> Figures {
    let world = |rows: &[u64]| World {
        rows_by_hour: rows.to_vec(),
        bytes_by_hour: rows.iter().map(|rows| rows * 1_048_576).collect(),
        purged: 0,
        file_bytes: 3_565_158,
    };
    Figures {
        seed: 42,
        operations: 3_501,
        days: 1,
        response_ttl: Duration::from_secs(5_400),
        operations_by_hour: vec![1, 2_500, 1_000],
        ttl: world(&[1, 2_501, 2_250]),
        no_ttl: world(&[1, 2_501, 3_501]),
        repeat_within_ttl: Repeat::Replayed,
        repeat_after_ttl: Repeat::ChargedAgain,
        other_body_after_ttl: Repeat::Refused,
    }
}
