//! Making a filter of a tree, beside the writer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::filter::Filter;
use super::{Digest, DigestIndex};
use crate::sqlite::open::open_reader;

/// Digests of one read: each read is a snapshot of its own, so that the WAL can start again between them.
const STEP: u32 = 20_000;

/// Least digests that a filter is made for.
const CAPACITY_LEAST: usize = 500_000;

/// A scan on its way. Dropping it ends it.
pub(super) struct Scan {
    thread: Option<JoinHandle<Option<Filter>>>,
    stop: Arc<AtomicBool>,
    /// Filed since the scan began, perhaps behind its back.
    missed: Vec<Digest>,
}

impl Scan {
    pub(super) fn begin(path: &Path, index: &DigestIndex) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (path, index, stopped) = (path.to_owned(), index.clone(), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("store-filter".to_owned())
            .spawn(move || {
                scan(&path, &index, &stopped)
                    .inspect_err(|error| tracing::warn!(%error, index = index.table(), "no filter was made"))
                    .unwrap_or_default()
            })
            .ok();
        Self { thread, stop, missed: Vec::new() }
    }

    /// This entry is being filed.
    pub(super) fn missed(&mut self, digest: Digest) {
        self.missed.push(digest);
    }

    /// Once the scan has ended: its filter, if it could be made.
    pub(super) fn finished(&mut self) -> Option<Option<Filter>> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return None;
        }
        let mut filter = self.thread.take().and_then(|thread| thread.join().ok()).flatten();
        if let Some(filter) = &mut filter {
            self.missed.drain(..).for_each(|digest| filter.add(&digest));
        }
        Some(filter)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Without a filter every look-up asks the tree, which is slower and as right.
            drop(thread.join());
        }
    }
}

/// `None`: stopped.
fn scan(path: &Path, index: &DigestIndex, stop: &AtomicBool) -> rusqlite::Result<Option<Filter>> {
    let connection = open_reader(path)?;
    let mut step = connection.prepare(&index.inner.statements.step)?;
    let mut digests: Vec<Digest> = Vec::new();
    let mut after: (Digest, i64) = ([0; 16], 0);
    loop {
        let before = digests.len();
        for entry in step.query_map((after.0, after.1, STEP), |row| Ok((row.get(0)?, row.get(1)?)))? {
            after = entry?;
            digests.push(after.0);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if digests.len() < before + STEP as usize {
            break;
        }
    }
    let mut filter = Filter::with_capacity((2 * digests.len()).max(CAPACITY_LEAST));
    digests.iter().for_each(|digest| filter.add(digest));
    Ok(Some(filter))
}
