//! The writer's side of the indexes: look-ups inside its transactions, and filing what has grown in memory.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::filter::Filter;
use super::{Digest, DigestIndex, IndexSpec, set_filed_to};
use crate::sqlite::digest_index::scan::Scan;
use crate::sqlite::pending::Pending;

/// Most entries of one generation.
const GENERATION_MOST: usize = 262_144;

/// A generation is this part of the tree: about three entries share each page then, however large the tree is.
const GENERATION_PART: usize = 32;

/// Entries filed for each that is added: a generation is filed before the next one has grown.
const FILED_FOR_EACH: usize = 2;

/// All indexes of a store, as the writer sees them.
pub(in crate::sqlite) struct Clerk {
    desks: Vec<Desk>,
}

/// What one batch filed; counts once it is committed.
#[derive(Debug, Default)]
pub(in crate::sqlite) struct Filed {
    /// By index: how many of the leaving entries are in the tree then.
    reached: Vec<usize>,
}

struct Desk {
    spec: IndexSpec,
    index: DigestIndex,
    leaving: Leaving,
    filter: Option<Filter>,
    /// Makes the next filter, where the database is a file.
    scan: Option<Scan>,
    path: Option<PathBuf>,
    generation_least: usize,
}

/// The generation on its way into the tree.
enum Leaving {
    Nothing,
    /// Sorted on a thread of its own: a hundred thousand entries would keep callers waiting.
    Sorting {
        sorted: JoinHandle<Vec<(Digest, i64)>>,
        upto: i64,
    },
    Filing {
        sorted: Vec<(Digest, i64)>,
        next: usize,
        upto: i64,
    },
}

impl Clerk {
    /// Loads what is not filed. `path`: the file, for scans beside the writer.
    pub(in crate::sqlite) fn open(
        connection: &Connection,
        specs: &[IndexSpec],
        path: Option<&Path>,
        generation_least: usize,
    ) -> rusqlite::Result<Self> {
        let desks = specs.iter().enumerate().map(|(number, spec)| {
            let index = DigestIndex::load(connection, spec, number)?;
            Ok(Desk {
                spec: *spec,
                index,
                leaving: Leaving::Nothing,
                filter: None,
                scan: None,
                path: path.map(Path::to_owned),
                generation_least: generation_least.max(1),
            })
        });
        Ok(Self { desks: desks.collect::<rusqlite::Result<_>>()? })
    }

    /// The indexes, in the order in which they were declared.
    pub(in crate::sqlite) fn indexes(&self) -> Vec<DigestIndex> {
        self.desks.iter().map(|desk| desk.index.clone()).collect()
    }

    /// Begins what needs the file as it was committed.
    pub(in crate::sqlite) fn start(&mut self) {
        for desk in &mut self.desks {
            desk.index.write().expect(desk.generation());
            desk.begin_scan();
        }
    }

    /// What is in memory is read anew: it may be wrong.
    pub(in crate::sqlite) fn recall(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for desk in &mut self.desks {
            desk.leaving = Leaving::Nothing;
            desk.index.recall(connection, &desk.spec)?;
            desk.filter = None;
            desk.index.write().expect(desk.generation());
            desk.begin_scan();
        }
        Ok(())
    }

    /// Positions of committed rows that may have this digest.
    pub(in crate::sqlite) fn rows(
        &self,
        connection: &Connection,
        index: &DigestIndex,
        digest: &Digest,
    ) -> rusqlite::Result<Vec<i64>> {
        let mut positions = index.read().find(digest);
        let filter = self.desks[index.number()].filter.as_ref();
        if filter.is_none_or(|filter| filter.may_hold(digest)) {
            index.add_filed(connection, digest, &mut positions)?;
        }
        Ok(positions)
    }

    /// Files a few of what leaves, in the transaction that adds `pending`.
    pub(in crate::sqlite) fn file(
        &mut self,
        connection: &Connection,
        pending: &Pending,
    ) -> rusqlite::Result<Filed> {
        let mut filed = Filed::default();
        for (number, desk) in self.desks.iter_mut().enumerate() {
            filed.reached.push(desk.file(connection, pending, number)?);
        }
        Ok(filed)
    }

    /// The transaction is committed: memory learns what it did.
    pub(in crate::sqlite) fn committed(&mut self, pending: Pending, filed: &Filed) {
        for (desk, reached) in self.desks.iter_mut().zip(&filed.reached) {
            desk.have_filed(*reached);
        }
        for change in pending.into_changes() {
            let mut memory = self.desks[change.index].index.write();
            match change.is_added {
                true => memory.add(change.digest, change.position),
                false => memory.remove(&change.digest, change.position),
            }
        }
        self.desks.iter_mut().for_each(Desk::tend);
    }
}

impl Desk {
    fn file(&mut self, connection: &Connection, pending: &Pending, number: usize) -> rusqlite::Result<usize> {
        let Leaving::Filing { sorted, next, upto } = &self.leaving else { return Ok(0) };
        let end = (next + FILED_FOR_EACH * pending.added_to(number)).min(sorted.len());
        if end > *next {
            let mut file = connection.prepare_cached(&self.index.inner.statements.file)?;
            // Readers share it, and only this thread writes.
            let memory = self.index.read();
            for (digest, position) in &sorted[*next..end] {
                if memory.is_leaving(digest, *position) && !pending.removes(number, digest, *position) {
                    file.execute((digest, position))?;
                }
                // Before the commit: a bit too many is harmless.
                self.filter.iter_mut().for_each(|filter| filter.add(digest));
                self.scan.iter_mut().for_each(|scan| scan.missed(*digest));
            }
        }
        if end == sorted.len() {
            set_filed_to(connection, self.index.table(), *upto)?;
        }
        Ok(end)
    }

    fn have_filed(&mut self, reached: usize) {
        let Leaving::Filing { sorted, next, upto } = &mut self.leaving else { return };
        *next = reached;
        if reached == sorted.len() {
            self.index.write().have_left(*upto);
            self.leaving = Leaving::Nothing;
        }
    }

    /// Begins and ends what runs beside the writer. Between two transactions.
    fn tend(&mut self) {
        self.leaving = match std::mem::replace(&mut self.leaving, Leaving::Nothing) {
            Leaving::Nothing if self.index.read().growing() >= self.generation() => self.let_leave(),
            Leaving::Sorting { sorted, upto } if sorted.is_finished() => {
                let sorted = sorted.join().expect("sorting does not panic");
                Leaving::Filing { sorted, next: 0, upto }
            }
            other => other,
        };
        if let Some(filter) = self.scan.as_mut().and_then(Scan::finished) {
            self.scan = None;
            self.filter = filter;
        }
        if self.filter.as_ref().is_some_and(Filter::is_full) && self.scan.is_none() {
            self.begin_scan();
        }
    }

    fn let_leave(&self) -> Leaving {
        let (mut entries, upto) = {
            let mut memory = self.index.write();
            memory.expect(self.generation());
            memory.let_leave()
        };
        let sorted = thread::spawn(move || {
            entries.sort_unstable();
            entries
        });
        Leaving::Sorting { sorted, upto }
    }

    fn generation(&self) -> usize {
        let filed = self.filter.as_ref().map_or(0, Filter::added);
        (filed / GENERATION_PART).min(GENERATION_MOST).max(self.generation_least)
    }

    fn begin_scan(&mut self) {
        self.scan = self.path.as_deref().map(|path| Scan::begin(path, &self.index));
    }
}
