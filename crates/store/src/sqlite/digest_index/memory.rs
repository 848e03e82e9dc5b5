//! The entries that are not in the tree yet, and those that have been there for one filing.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Digest;

/// A generation has begun in earnest with this part of its entries: small stores stay small.
const BEGUN_PART: usize = 64;

/// Entries by digest. Most digests have one row.
type Entries = HashMap<Digest, Positions, BuildHasherDefault<DigestHasher>>;

#[derive(Debug, PartialEq, Eq)]
enum Positions {
    One(i64),
    /// Boxed, so that the frequent kind stays small.
    #[expect(clippy::box_collection, reason = "a Vec would make every entry a third larger")]
    Many(Box<Vec<i64>>),
}

/// Three generations: growing, on its way into the tree, and there.
///
/// A map of a hundred thousand entries that grows by doubling moves each of them, and its new pages are cleared by the
/// system, while callers wait. So a generation that has begun gets room for all of it, and the next one gets its map.
#[derive(Debug, Default)]
pub(super) struct Memory {
    growing: Entries,
    leaving: Entries,
    filed: Entries,
    /// Empty, and as large as the generation that had it.
    spare: Entries,
    /// About as many entries as a generation has.
    generation: usize,
    /// Entries of all rows after it are in memory.
    kept_from: i64,
    /// Entries of all rows up to it are in the tree.
    filed_to: i64,
    newest_position: i64,
}

impl Memory {
    pub(super) fn new(filed_to: i64) -> Self {
        Self { kept_from: filed_to, filed_to, newest_position: filed_to, ..Self::default() }
    }

    /// Expects generations of about this many entries.
    pub(super) fn expect(&mut self, generation: usize) {
        self.generation = generation;
    }

    /// Adds an entry, once.
    pub(super) fn add(&mut self, digest: Digest, position: i64) {
        debug_assert!(position > self.filed_to, "positions grow");
        self.newest_position = self.newest_position.max(position);
        let length = self.growing.len();
        if length == self.growing.capacity() && length >= self.generation / BEGUN_PART {
            self.growing.reserve(self.generation.saturating_sub(length));
        }
        add_to(&mut self.growing, digest, position);
    }

    pub(super) fn remove(&mut self, digest: &Digest, position: i64) {
        for entries in [&mut self.growing, &mut self.leaving, &mut self.filed] {
            remove_from(entries, digest, position);
        }
    }

    /// In the order in which they were added.
    pub(super) fn find(&self, digest: &Digest) -> Vec<i64> {
        let mut found = Vec::new();
        for entries in [&self.filed, &self.leaving, &self.growing] {
            match entries.get(digest) {
                None => {}
                Some(Positions::One(position)) => found.push(*position),
                Some(Positions::Many(positions)) => found.extend_from_slice(positions),
            }
        }
        found
    }

    pub(super) fn is_leaving(&self, digest: &Digest, position: i64) -> bool {
        match self.leaving.get(digest) {
            None => false,
            Some(Positions::One(one)) => *one == position,
            Some(Positions::Many(many)) => many.contains(&position),
        }
    }

    pub(super) fn growing(&self) -> usize {
        self.growing.len()
    }

    pub(super) fn kept_from(&self) -> i64 {
        self.kept_from
    }

    pub(super) fn newest_position(&self) -> i64 {
        self.newest_position
    }

    /// Whether an entry may be in the tree already.
    pub(super) fn may_be_filed(&self, digest: &Digest) -> bool {
        !self.growing.contains_key(digest)
    }

    /// What has grown is to leave: its entries, unsorted, and the newest position among them.
    pub(super) fn let_leave(&mut self) -> (Vec<(Digest, i64)>, i64) {
        debug_assert!(self.leaving.is_empty(), "one generation leaves at a time");
        self.leaving = std::mem::replace(&mut self.growing, std::mem::take(&mut self.spare));
        let mut entries = Vec::with_capacity(self.leaving.len());
        for (digest, positions) in &self.leaving {
            match positions {
                Positions::One(position) => entries.push((*digest, *position)),
                Positions::Many(positions) => entries.extend(positions.iter().map(|it| (*digest, *it))),
            }
        }
        (entries, self.newest_position)
    }

    /// Everything that was to leave is in the tree, as of a commit.
    pub(super) fn have_left(&mut self, filed_to: i64) {
        self.kept_from = self.filed_to;
        self.filed_to = filed_to;
        self.spare = std::mem::replace(&mut self.filed, std::mem::take(&mut self.leaving));
        self.spare.clear();
    }
}

fn add_to(entries: &mut Entries, digest: Digest, position: i64) {
    match entries.entry(digest) {
        std::collections::hash_map::Entry::Vacant(entry) => drop(entry.insert(Positions::One(position))),
        std::collections::hash_map::Entry::Occupied(mut entry) => match entry.get_mut() {
            Positions::Many(positions) if positions.contains(&position) => {}
            Positions::Many(positions) => positions.push(position),
            Positions::One(one) if *one == position => {}
            Positions::One(one) => {
                let both = Box::new(vec![*one, position]);
                entry.insert(Positions::Many(both));
            }
        },
    }
}

fn remove_from(entries: &mut Entries, digest: &Digest, position: i64) {
    let Some(positions) = entries.get_mut(digest) else { return };
    let is_empty = match positions {
        Positions::One(one) => *one == position,
        Positions::Many(positions) => {
            positions.retain(|it| *it != position);
            positions.is_empty()
        }
    };
    if is_empty {
        entries.remove(digest);
    }
}

/// Digests are hashes already.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut first = [0; 8];
        let taken = bytes.len().min(8);
        first[..taken].copy_from_slice(&bytes[..taken]);
        self.0 ^= u64::from_le_bytes(first);
    }

    fn write_usize(&mut self, length: usize) {
        // The length of the array, which says nothing.
        let _ = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_found_until_the_filing_after_its_own() {
        let mut memory = Memory::new(0);
        memory.add([1; 16], 1);
        memory.add([1; 16], 2);
        assert_eq!(memory.let_leave(), (vec![([1; 16], 1), ([1; 16], 2)], 2));
        memory.add([1; 16], 3);
        assert_eq!(memory.find(&[1; 16]), [1, 2, 3]);
        memory.have_left(2);
        assert_eq!((memory.find(&[1; 16]), memory.kept_from()), (vec![1, 2, 3], 0));
        assert_eq!(memory.let_leave(), (vec![([1; 16], 3)], 3));
        memory.have_left(3);
        assert_eq!((memory.find(&[1; 16]), memory.kept_from()), (vec![3], 2));
    }

    #[test]
    fn a_removed_entry_is_gone_from_every_generation() {
        let mut memory = Memory::new(0);
        memory.add([1; 16], 1);
        memory.let_leave();
        memory.have_left(1);
        memory.add([1; 16], 2);
        memory.let_leave();
        memory.add([1; 16], 3);
        for position in 1..=3 {
            memory.remove(&[1; 16], position);
            assert!(!memory.find(&[1; 16]).contains(&position));
        }
        assert!(!memory.is_leaving(&[1; 16], 2));
    }
}
