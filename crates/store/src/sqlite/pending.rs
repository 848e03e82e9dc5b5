//! What a batch has changed in the indexes so far: seen by its later commands, and by everybody once it is committed.

use std::collections::HashMap;

use super::digest_index::Digest;

/// The changes of one batch, in their order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Vec<EntryChange>,
    /// Positions added and not removed again, by index and digest.
    added: HashMap<(usize, Digest), Vec<i64>>,
    counts: Vec<usize>,
    removed: usize,
}

/// An entry that comes or goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryChange {
    pub(super) index: usize,
    pub(super) digest: Digest,
    pub(super) position: i64,
    pub(super) is_added: bool,
}

impl Pending {
    pub(super) fn add(&mut self, index: usize, digest: Digest, position: i64) {
        self.added.entry((index, digest)).or_default().push(position);
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.changes.push(EntryChange { index, digest, position, is_added: true });
    }

    pub(super) fn remove(&mut self, index: usize, digest: Digest, position: i64) {
        if let Some(added) = self.added.get_mut(&(index, digest)) {
            added.retain(|it| *it != position);
        }
        self.removed += 1;
        self.changes.push(EntryChange { index, digest, position, is_added: false });
    }

    /// Corrects what was found among committed rows.
    pub(super) fn correct(&self, index: usize, digest: &Digest, positions: &mut Vec<i64>) {
        if self.removed > 0 {
            positions.retain(|position| !self.removes(index, digest, *position));
        }
        if let Some(added) = self.added.get(&(index, *digest)) {
            positions.extend_from_slice(added);
        }
    }

    pub(super) fn removes(&self, index: usize, digest: &Digest, position: i64) -> bool {
        self.removed > 0
            && self.changes.iter().any(|change| {
                !change.is_added
                    && change.index == index
                    && change.position == position
                    && change.digest == *digest
            })
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
            let added = self.added.entry((change.index, change.digest)).or_default();
            if change.is_added {
                added.retain(|it| *it != change.position);
                self.counts[change.index] -= 1;
            } else {
                self.removed -= 1;
                let was_added = self.changes.iter().any(|earlier| {
                    earlier.is_added && earlier.index == change.index && earlier.position == change.position
                });
                if was_added {
                    added.push(change.position);
                }
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

        pending.undo_to(mark);
        assert_eq!((seen(&pending, &[3]), pending.added_to(0)), (vec![3, 7], 1));
    }
}
