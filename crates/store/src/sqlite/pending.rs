//! What a batch has changed in the indexes so far: seen by its later commands, and by everybody once it is committed.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::digest_index::{Digest, DigestHasher};

/// The changes of one batch, in their order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Vec<EntryChange>,
    /// Place among `changes` of the latest one, by index and digest.
    latest: HashMap<(usize, Digest), usize, BuildHasherDefault<DigestHasher>>,
    /// Entries added, by index.
    counts: Vec<usize>,
}

/// An entry that comes or goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryChange {
    pub(super) index: usize,
    pub(super) digest: Digest,
    pub(super) position: i64,
    pub(super) is_added: bool,
    /// Place among the changes of the one before it that has the same index and digest.
    earlier: Option<usize>,
}

impl Pending {
    pub(super) fn add(&mut self, index: usize, digest: Digest, position: i64) {
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.change(index, digest, position, true);
    }

    pub(super) fn remove(&mut self, index: usize, digest: Digest, position: i64) {
        self.change(index, digest, position, false);
    }

    fn change(&mut self, index: usize, digest: Digest, position: i64, is_added: bool) {
        let earlier = self.latest.insert((index, digest), self.changes.len());
        self.changes.push(EntryChange { index, digest, position, is_added, earlier });
    }

    /// Corrects what was found among committed rows. Positions grow, so the newest stays last.
    pub(super) fn correct(&self, index: usize, digest: &Digest, positions: &mut Vec<i64>) {
        for change in self.of(index, digest) {
            // From the latest backwards: what an earlier one added may be gone by then.
            if !change.is_added {
                positions.retain(|position| *position != change.position);
            } else if !self.removes(index, digest, change.position) {
                positions.push(change.position);
            }
        }
        positions.sort_unstable();
    }

    pub(super) fn removes(&self, index: usize, digest: &Digest, position: i64) -> bool {
        self.of(index, digest).any(|change| !change.is_added && change.position == position)
    }

    /// The position added last.
    pub(super) fn newest(&self, index: usize, digest: &Digest) -> Option<i64> {
        self.of(index, digest).find(|change| change.is_added).map(|change| change.position)
    }

    /// The changes of one digest, latest first.
    fn of(&self, index: usize, digest: &Digest) -> impl Iterator<Item = &EntryChange> {
        let latest = self.latest.get(&(index, *digest)).copied();
        std::iter::successors(latest, |place| self.changes[*place].earlier).map(|place| &self.changes[place])
    }

    /// How many entries this batch adds to an index.
    pub(super) fn added_to(&self, index: usize) -> usize {
        self.counts.get(index).copied().unwrap_or_default()
    }

    /// How many changes there are: what [`Pending::undo_to`] goes back to.
    pub(super) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Takes back what came after a mark.
    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.changes.len() > mark {
            let Some(change) = self.changes.pop() else { return };
            match change.earlier {
                Some(earlier) => self.latest.insert((change.index, change.digest), earlier),
                None => self.latest.remove(&(change.index, change.digest)),
            };
            if change.is_added {
                self.counts[change.index] -= 1;
            }
        }
    }

    pub(super) fn into_changes(self) -> Vec<EntryChange> {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pending: &Pending, committed: &[i64]) -> Vec<i64> {
        let mut positions = committed.to_vec();
        pending.correct(0, &[1; 16], &mut positions);
        positions
    }

    #[test]
    fn what_is_undone_is_seen_as_before() {
        let mut pending = Pending::default();
        pending.add(0, [1; 16], 7);
        let mark = pending.mark();
        assert_eq!(seen(&pending, &[3]), [3, 7]);

        pending.remove(0, [1; 16], 3);
        pending.remove(0, [1; 16], 7);
        pending.add(0, [1; 16], 8);
        assert_eq!((seen(&pending, &[3]), pending.added_to(0)), (vec![8], 2));

        assert_eq!(pending.newest(0, &[1; 16]), Some(8));
        pending.undo_to(mark);
        assert_eq!(pending.newest(0, &[1; 16]), Some(7));
        assert_eq!((seen(&pending, &[3]), pending.added_to(0)), (vec![3, 7], 1));
    }
}
