//! Which keys there are, and which of them lie together.
//!
//! Records are divided into shards by their ids. All keys of a shard carry its hash tag, so a cluster keeps them in one slot,
//! and one script may touch them together. What looks at all records asks every shard.

use std::fmt;

use unavez_core::identity::RecordId;

/// How many shards there are: more than masters of any sensible cluster, few enough to ask each of them. Part of the stored
/// form.
const SHARDS: u8 = 64;

/// The name of the deployment.
pub(super) const REALM: &str = "unavez:realm";

/// Records that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shard(u8);

impl Shard {
    /// The id is a hash, so any of its bytes spreads evenly.
    pub(super) fn of(id: RecordId) -> Self {
        Self(id.as_bytes()[0] % SHARDS)
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..SHARDS).map(Self)
    }

    /// A hash: the record's fields.
    pub(super) fn record(self, id: RecordId) -> String {
        format!("{self}:record:{id}")
    }

    /// A sorted set: ids by position.
    pub(super) fn list(self) -> String {
        format!("{self}:list")
    }

    /// A sorted set in the order of its members, which are tenant, time and id.
    pub(super) fn due(self) -> String {
        format!("{self}:due")
    }

    /// A sorted set: ids of finished records by the end of their promise.
    pub(super) fn expiry(self) -> String {
        format!("{self}:expiry")
    }

    /// The keys of a step, in the scripts' order.
    pub(super) fn step_keys(self, id: RecordId) -> [String; 4] {
        [self.record(id), self.list(), self.due(), self.expiry()]
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{unavez:{:02x}}}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_step_share_their_hash_tag() {
        let id = RecordId::from_bytes([0xff; 16]);
        assert_eq!(
            Shard::of(id).step_keys(id),
            [
                "{unavez:3f}:record:ffffffffffffffffffffffffffffffff",
                "{unavez:3f}:list",
                "{unavez:3f}:due",
                "{unavez:3f}:expiry"
            ]
        );
        assert!(Shard::all().any(|shard| shard == Shard::of(id)));
    }
}
