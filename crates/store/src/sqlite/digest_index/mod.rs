//! Finding rows by a digest without writing a random page for every row.
//!
//! A B-tree over random digests costs one page written for each row, and that page is most of what a commit costs. Here
//! the newest entries of such an index stand only in memory: they can be read again from the rows themselves. Once there
//! are enough of them they are *filed* into the tree on disk in the order of their digests, a few with every commit, so
//! that many of them share each page.
//!
//! 1. Every entry is in memory or in the tree, at every moment; a look-up asks both, so it is exact.
//! 2. All rows up to `filed_to` have their entries in the tree. A start reads the rows after it, and nothing else.
//! 3. Memory learns of an entry when its row is committed, never before; a batch keeps its own (`tx.rs`).
//! 4. An entry stays in memory for one filing longer than it must, so that a reader whose snapshot is older than the
//!    latest filing finds it. A snapshot older than that is refused, not answered wrongly.
//! 5. What an entry leads to is compared by the caller: a row that was deleted, or whose place another took, is not it.
//!    Entries that a crash leaves over are harmless for the same reason.
//!
//! What breaks it: rows whose positions do not grow. Whoever keeps such an index gives every row a position above all
//! earlier ones, as [`WriteTx::next_position`](super::WriteTx::next_position) does.

mod filing;
mod filter;
mod memory;
mod scan;

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) use self::filing::Clerk;
pub(super) use self::memory::DigestHasher;
use self::memory::Memory;

/// What rows are found by: 16 bytes of a hash.
pub type Digest = [u8; 16];

/// Declares an index of one table, whose tree is a table of its own: `digest blob, position integer, primary key (digest,
/// position)`, without rowid.
#[derive(Clone, Copy, Debug)]
pub struct IndexSpec {
    /// The tree's table.
    pub table: &'static str,
    /// Selects the rows whose position is above `?1`, in any order.
    pub rows_after: &'static str,
    /// Reads digest and position from a row of that statement.
    pub entry: fn(&Row<'_>) -> rusqlite::Result<(Digest, i64)>,
    /// Rows of other tables that are found through it.
    pub guests: Option<Guests>,
}

/// Rows of other tables that share an index: under the same digests, and at the positions of the rows that they came with.
/// They outlive those.
#[derive(Clone, Copy, Debug)]
pub struct Guests {
    /// Selects digest and position of those whose position is above `?1`, in any order.
    pub rows_after: &'static str,
    /// Selects whether one stands at the position `?1`.
    pub stand_at: &'static str,
}

/// An index of an open database. Cheap to clone; clones are the same index.
#[derive(Clone)]
pub struct DigestIndex {
    inner: Arc<Inner>,
}

struct Inner {
    /// Its place among the store's indexes.
    number: usize,
    spec: IndexSpec,
    statements: Statements,
    newest: Newest,
    /// The newest position that was given to a row, committed or not.
    last_position: AtomicI64,
}

/// The newest entries, which the tree need not have.
enum Newest {
    /// In the process that owns the file.
    Owned(RwLock<Memory>),
    /// In one beside it, which has none of the owner's memory.
    Beside(Mutex<Beside>),
}

/// SQL with the tree's name in its place.
struct Statements {
    table: &'static str,
    find: String,
    file: String,
    delete: String,
    step: String,
}

impl Statements {
    fn of(table: &'static str) -> Self {
        let named = |sql: &str| sql.replace("{index}", table);
        Self {
            table,
            find: named(include_str!("../sql/index_find.sql")),
            file: named(include_str!("../sql/index_file.sql")),
            delete: named(include_str!("../sql/index_delete.sql")),
            step: named(include_str!("../sql/index_step.sql")),
        }
    }
}

impl DigestIndex {
    /// Reads from the rows what is not filed. Writes nothing but the index's own line, once.
    fn load(connection: &Connection, spec: &IndexSpec, number: usize) -> rusqlite::Result<Self> {
        connection.prepare_cached(include_str!("../sql/index_declare.sql"))?.execute([spec.table])?;
        let memory = read_memory(connection, spec)?;
        Ok(Self {
            inner: Arc::new(Inner {
                number,
                spec: *spec,
                statements: Statements::of(spec.table),
                last_position: AtomicI64::new(memory.newest_position()),
                newest: Newest::Owned(RwLock::new(memory)),
            }),
        })
    }

    /// The index as a process beside the owner sees it, in one file: whatever is not filed it reads from the rows, each of
    /// them once.
    #[must_use]
    pub fn beside(spec: &IndexSpec) -> Self {
        Self {
            inner: Arc::new(Inner {
                number: 0,
                spec: *spec,
                statements: Statements::of(spec.table),
                last_position: AtomicI64::new(0),
                newest: Newest::Beside(Mutex::default()),
            }),
        }
    }

    /// Forgets what is in memory and reads it again from the rows: after a failure, what was believed may be wrong.
    fn recall(&self, connection: &Connection, spec: &IndexSpec) -> rusqlite::Result<()> {
        *self.write() = read_memory(connection, spec)?;
        Ok(())
    }

    pub(super) fn number(&self) -> usize {
        self.inner.number
    }

    /// A position above all earlier ones.
    pub(super) fn next_position(&self) -> i64 {
        self.inner.last_position.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn delete_statement(&self) -> &str {
        &self.inner.statements.delete
    }

    /// Whether a row of another table is found through the entry of this position.
    pub(super) fn has_guest(&self, connection: &Connection, position: i64) -> rusqlite::Result<bool> {
        let Some(guests) = self.inner.spec.guests else { return Ok(false) };
        connection.prepare_cached(guests.stand_at)?.query_row([position], |row| row.get(0))
    }

    /// Whether the tree may hold an entry of this digest.
    pub(super) fn may_be_filed(&self, digest: &Digest) -> bool {
        self.read().may_be_filed(digest)
    }

    /// The tree's table.
    #[must_use]
    pub fn table(&self) -> &'static str {
        self.inner.statements.table
    }

    /// Positions of rows that may have this digest, newest last. For reads: inside [`SqliteStore::read`](super::SqliteStore::read).
    ///
    /// # Errors
    /// The library's, and `SQLITE_BUSY_SNAPSHOT` for a read that has lasted through two filings.
    pub(super) fn rows(&self, connection: &Connection, digest: &Digest) -> rusqlite::Result<Vec<i64>> {
        if let Newest::Beside(beside) = &self.inner.newest {
            return self.rows_beside(beside, connection, digest);
        }
        let (mut positions, kept_from) = {
            let memory = self.read();
            (memory.find(digest), memory.kept_from())
        };
        if filed_to(connection, self.table())? < kept_from {
            return Err(too_old());
        }
        self.add_filed(connection, digest, &mut positions)?;
        Ok(positions)
    }

    fn rows_beside(
        &self,
        beside: &Mutex<Beside>,
        connection: &Connection,
        digest: &Digest,
    ) -> rusqlite::Result<Vec<i64>> {
        let mut positions = {
            let mut beside = beside.lock().unwrap_or_else(PoisonError::into_inner);
            beside.read_on(connection, &self.inner.spec)?;
            beside.rows.get(digest).cloned().unwrap_or_default()
        };
        self.add_filed(connection, digest, &mut positions)?;
        Ok(positions)
    }

    /// Adds what stands in the tree.
    fn add_filed(
        &self,
        connection: &Connection,
        digest: &Digest,
        positions: &mut Vec<i64>,
    ) -> rusqlite::Result<()> {
        let mut find = connection.prepare_cached(&self.inner.statements.find)?;
        for position in find.query_map([digest], |row| row.get(0))? {
            positions.push(position?);
        }
        positions.sort_unstable();
        positions.dedup();
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, Memory> {
        self.memory().read().unwrap_or_else(PoisonError::into_inner)
    }

    /// No code of a caller runs under the lock, so a poisoned one still guards a whole memory.
    fn write(&self) -> RwLockWriteGuard<'_, Memory> {
        self.memory().write().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> &RwLock<Memory> {
        match &self.inner.newest {
            Newest::Owned(memory) => memory,
            Newest::Beside(_) => unreachable!("only the owner's writer and readers come here"),
        }
    }
}

/// Rows that a process beside the owner has seen. Those before them are filed, and stay so.
#[derive(Default)]
struct Beside {
    rows: HashMap<Digest, Vec<i64>, BuildHasherDefault<DigestHasher>>,
    /// The newest of them; `None` before the first look.
    up_to: Option<i64>,
}

impl Beside {
    /// Reads the rows that came since the last look.
    fn read_on(&mut self, connection: &Connection, spec: &IndexSpec) -> rusqlite::Result<()> {
        let mut up_to = match self.up_to {
            Some(position) => position,
            None => filed_to(connection, spec.table)?,
        };
        for (digest, position) in rows_after(connection, spec, up_to)? {
            let rows = self.rows.entry(digest).or_default();
            if !rows.contains(&position) {
                rows.push(position);
            }
            up_to = up_to.max(position);
        }
        self.up_to = Some(up_to);
        Ok(())
    }
}

/// Something that rows can be read from: a reader's connection, or the writer's transaction with what its batch has
/// added so far.
pub trait FindRows {
    /// Positions of rows that may have this digest, newest last. What they hold is to be compared.
    ///
    /// # Errors
    /// The library's.
    fn find_rows(&self, index: &DigestIndex, digest: &Digest) -> rusqlite::Result<Vec<i64>>;

    /// For the statements that read them.
    fn connection(&self) -> &Connection;
}

impl FindRows for Connection {
    fn find_rows(&self, index: &DigestIndex, digest: &Digest) -> rusqlite::Result<Vec<i64>> {
        index.rows(self, digest)
    }

    fn connection(&self) -> &Connection {
        self
    }
}

fn read_memory(connection: &Connection, spec: &IndexSpec) -> rusqlite::Result<Memory> {
    let filed_to = filed_to(connection, spec.table)?;
    let mut memory = Memory::new(filed_to);
    for (digest, position) in rows_after(connection, spec, filed_to)? {
        memory.add(digest, position);
    }
    Ok(memory)
}

/// Entries of the rows after a position, guests' included: those may name a row's entry a second time.
fn rows_after(
    connection: &Connection,
    spec: &IndexSpec,
    position: i64,
) -> rusqlite::Result<Vec<(Digest, i64)>> {
    let mut entries = Vec::new();
    for sql in std::iter::once(spec.rows_after).chain(spec.guests.map(|guests| guests.rows_after)) {
        for entry in connection.prepare_cached(sql)?.query_map([position], spec.entry)? {
            entries.push(entry?);
        }
    }
    Ok(entries)
}

fn filed_to(connection: &Connection, table: &str) -> rusqlite::Result<i64> {
    let mut find = connection.prepare_cached(include_str!("../sql/index_filed_to.sql"))?;
    find.query_row([table], |row| row.get(0)).optional().map(Option::unwrap_or_default)
}

/// A snapshot from before the latest filing but one: some of its entries are neither in memory nor in its tree.
fn too_old() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY_SNAPSHOT);
    rusqlite::Error::SqliteFailure(code, Some("the read has lasted too long; begin it anew".to_owned()))
}

impl fmt::Debug for DigestIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestIndex").field("table", &self.table()).finish_non_exhaustive()
    }
}

/// The line that says how far an index is filed.
fn set_filed_to(connection: &Connection, table: &str, position: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(include_str!("../sql/index_set_filed_to.sql"))?
        .execute(params![table, position])
        .map(drop)
}
