//! Making commits durable beside the writer: while one batch is synced the next one runs.
//!
//! 1. The writer commits without waiting for the disk and hands each batch over, in order. A thread syncs the WAL, and
//!    only then are the batch's callers answered and its records remembered.
//! 2. At most one batch waits while another is synced: a writer that ran further ahead would commit ever smaller batches.
//! 3. Nobody is told of a row before it is durable: a reader that may have seen a later commit answers after that one's
//!    sync. (A tool that reads the file beside this process sees a commit a moment before its callers hear of it.)
//! 4. A sync that fails puts every batch since the last good one in doubt. The writer opens the file anew, which makes
//!    certain what is in it, and tells their callers which it was.
//!
//! The library itself still syncs what its own order rests on: the WAL before it is copied, the file before the WAL starts
//! again, and the WAL's first page.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::commands::Command;
use super::shared::enter_store_thread;
use super::tx::Records;
use crate::StoreError;

/// Numbers the batches of a process; 0: none yet.
pub(super) type Turn = u64;

/// A batch that ran.
pub(super) struct HandedOver {
    pub(super) turn: Turn,
    pub(super) commands: Vec<Box<dyn Command>>,
    /// What it wrote, if it was committed; a batch that only read waits for those before it, on whose rows it rests.
    pub(super) committed: Option<Committed>,
}

/// What a commit has written.
pub(super) struct Committed {
    /// Its number in the file.
    pub(super) number: i64,
    pub(super) records: Arc<Records>,
    pub(super) started: Instant,
}

/// Hears of batches that are durable, before their callers do.
pub(super) type OnDurable = Box<dyn Fn(&Committed, usize, Duration) + Send>;

/// A reader's answer.
type Reply = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What writer, readers and the thread share.
pub(super) struct Durability {
    state: Mutex<State>,
    changed: Condvar,
    /// The latest turn whose commit may be visible.
    announced: AtomicU64,
    /// The latest turn that is durable, and every one before it.
    durable: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Handed over, not begun.
    waiting: Option<HandedOver>,
    /// Being synced.
    is_busy: bool,
    /// In doubt since a sync failed, oldest first.
    doubtful: Vec<HandedOver>,
    failure: Option<Arc<str>>,
    readers: Vec<(Turn, Reply)>,
    is_closed: bool,
}

/// What was not durable when the writer had to stop.
pub(super) struct Doubtful {
    /// Oldest first.
    pub(super) batches: Vec<HandedOver>,
    /// Why, if a sync has failed.
    pub(super) failure: Option<Arc<str>>,
}

impl Durability {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            announced: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }

    /// The writer is about to commit: from here on readers may see this turn.
    pub(super) fn announce(&self) -> Turn {
        self.announced.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The turn that was announced last. For the writer, which announces.
    pub(super) fn announced(&self) -> Turn {
        self.announced.load(Ordering::Acquire)
    }

    /// Hands a batch over, once the one before it is being synced.
    pub(super) fn hand_over(&self, batch: HandedOver) {
        let mut state = self.lock();
        while state.waiting.is_some() {
            state = self.wait(state);
        }
        state.waiting = Some(batch);
        drop(state);
        self.changed.notify_all();
    }

    /// Of what was announced last there is nothing to see after all.
    pub(super) fn nothing_came(&self) {
        self.hand_over(HandedOver { turn: self.announced(), commands: Vec::new(), committed: None });
    }

    /// The latest durable turn.
    pub(super) fn durable(&self) -> Turn {
        self.durable.load(Ordering::Acquire)
    }

    /// Whether a sync has failed, so that the writer has to find out what is in the file.
    pub(super) fn has_failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Answers a read once everything it can have seen is durable. Called after the read.
    pub(super) fn answer_read(&self, reply: impl FnOnce(Result<(), StoreError>) + Send + 'static) {
        let seen = self.announced.load(Ordering::Acquire);
        if self.durable() >= seen {
            return reply(Ok(()));
        }
        let mut state = self.lock();
        // It may have become so meanwhile, and then nobody looks at the list any more.
        if self.durable() >= seen {
            drop(state);
            return reply(Ok(()));
        }
        state.readers.push((seen, Box::new(reply)));
    }

    /// Waits until nothing is being synced, and takes what is not durable: the writer is going to open the file anew.
    pub(super) fn stop(&self) -> Doubtful {
        let mut state = self.lock();
        while state.is_busy || (state.waiting.is_some() && state.failure.is_none()) {
            state = self.wait(state);
        }
        let mut batches = std::mem::take(&mut state.doubtful);
        batches.extend(state.waiting.take());
        Doubtful { batches, failure: state.failure.take() }
    }

    /// The file was opened anew: whatever was announced is decided. `fate` is what readers hear who may have seen some of
    /// it.
    pub(super) fn go_on(&self, fate: &Result<(), StoreError>) {
        let mut state = self.lock();
        self.durable.store(self.announced.load(Ordering::Acquire), Ordering::Release);
        let readers = std::mem::take(&mut state.readers);
        drop(state);
        readers.into_iter().for_each(|(_, reply)| reply(fate.clone()));
    }

    /// The next batch to make durable; `None`: closed, and nothing waits.
    fn next(&self) -> Option<HandedOver> {
        let mut state = self.lock();
        loop {
            if let Some(batch) = state.waiting.take() {
                if state.failure.is_some() {
                    state.doubtful.push(batch);
                } else {
                    state.is_busy = true;
                    drop(state);
                    self.changed.notify_all();
                    return Some(batch);
                }
                self.changed.notify_all();
            } else if state.is_closed {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// A batch is durable. Its callers were told.
    fn is_durable(&self, turn: Turn) {
        let mut state = self.lock();
        state.is_busy = false;
        self.durable.store(turn, Ordering::Release);
        let (told, still): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.readers).into_iter().partition(|(seen, _)| *seen <= turn);
        state.readers = still;
        drop(state);
        self.changed.notify_all();
        told.into_iter().for_each(|(_, reply)| reply(Ok(())));
    }

    fn failed(&self, batch: HandedOver, error: &io::Error) {
        let mut state = self.lock();
        state.is_busy = false;
        state.failure = Some(error.to_string().into());
        state.doubtful.push(batch);
        drop(state);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// No code of a caller runs under the lock, so a poisoned one still guards a whole state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
pub(super) struct Syncer {
    durability: Arc<Durability>,
    thread: JoinHandle<()>,
}

impl Syncer {
    /// `sync` makes everything durable that was committed before it was called; `nudge` makes the writer look after a
    /// failure.
    pub(super) fn start(
        durability: Arc<Durability>,
        sync: impl FnMut() -> io::Result<()> + Send + 'static,
        on_durable: OnDurable,
        nudge: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let work = Work { durability: Arc::clone(&durability), sync, on_durable, nudge };
        let thread = thread::Builder::new().name("store-sync".to_owned()).spawn(move || {
            enter_store_thread();
            work.run();
        })?;
        Ok(Self { durability, thread })
    }

    /// Makes durable what was handed over, and ends.
    pub(super) fn stop(self) {
        self.durability.close();
        // It runs no code of a caller's but answers, which only send.
        drop(self.thread.join());
        // A sync that failed now has nobody any more who could find out.
        let Doubtful { batches, failure } = self.durability.stop();
        let Some(why) = failure else { return };
        for HandedOver { commands, .. } in batches {
            for command in commands {
                command.answer(Err(StoreError::InDoubt(Arc::clone(&why))));
            }
        }
        self.durability.go_on(&Err(StoreError::Unavailable(why)));
    }
}

struct Work<S, N> {
    durability: Arc<Durability>,
    sync: S,
    on_durable: OnDurable,
    nudge: N,
}

impl<S: FnMut() -> io::Result<()>, N: Fn()> Work<S, N> {
    fn run(mut self) {
        while let Some(batch) = self.durability.next() {
            let synced = match &batch.committed {
                Some(_) => (self.sync)(),
                None => Ok(()),
            };
            match synced {
                Ok(()) => self.tell(batch),
                Err(error) => {
                    tracing::error!(%error, "sync failed");
                    self.durability.failed(batch, &error);
                    (self.nudge)();
                }
            }
        }
    }

    fn tell(&self, batch: HandedOver) {
        let HandedOver { turn, commands, committed } = batch;
        if let Some(committed) = &committed {
            (self.on_durable)(committed, commands.len(), committed.started.elapsed());
        }
        for command in commands {
            command.answer(Ok(()));
        }
        self.durability.is_durable(turn);
    }
}

/// Syncs the WAL of a database file.
pub(super) fn sync_wal_of(path: &Path) -> impl FnMut() -> io::Result<()> + Send + use<> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let path = PathBuf::from(wal);
    let mut open: Option<std::fs::File> = None;
    // One file as long as any connection is open, so it is opened once.
    move || {
        let file = match open.take() {
            Some(file) => file,
            None => std::fs::File::open(&path)?,
        };
        file.sync_data()?;
        open = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn batch(turn: Turn) -> HandedOver {
        let committed = Committed { number: 0, records: Arc::default(), started: Instant::now() };
        HandedOver { turn, commands: Vec::new(), committed: Some(committed) }
    }

    /// A thread whose syncs the test answers one by one.
    fn syncer(durability: &Arc<Durability>) -> (mpsc::Sender<io::Result<()>>, mpsc::Receiver<()>, Syncer) {
        let (answer, answers) = mpsc::channel();
        let (nudge, nudged) = mpsc::channel();
        let sync = move || answers.recv().unwrap_or_else(|_| Err(io::Error::other("the test is over")));
        let nudge = move || nudge.send(()).unwrap_or_default();
        let syncer = Syncer::start(Arc::clone(durability), sync, Box::new(|_, _, _| {}), nudge).unwrap();
        (answer, nudged, syncer)
    }

    #[test]
    fn p12_a_read_is_answered_once_all_it_may_have_seen_is_durable() {
        let durability = Arc::new(Durability::new());
        let (sync, _nudged, syncer) = syncer(&durability);
        let (reply, replies) = mpsc::channel();
        let ask = |name| {
            let reply = reply.clone();
            durability.answer_read(move |fate| reply.send((name, fate.is_ok())).unwrap());
        };
        ask("nothing announced");
        assert_eq!(replies.try_recv(), Ok(("nothing announced", true)));

        let turn = durability.announce();
        durability.hand_over(batch(turn));
        ask("before its sync");
        assert!(replies.try_recv().is_err());
        sync.send(Ok(())).unwrap();
        assert_eq!(replies.recv(), Ok(("before its sync", true)));
        ask("after it");
        assert_eq!(replies.try_recv(), Ok(("after it", true)));
        syncer.stop();
    }

    #[test]
    fn p12_what_follows_a_failed_sync_is_in_doubt_with_it() {
        let durability = Arc::new(Durability::new());
        let (sync, nudged, syncer) = syncer(&durability);
        let (first, second) = (durability.announce(), durability.announce());
        durability.hand_over(batch(first));
        durability.hand_over(batch(second));
        let (reply, replies) = mpsc::channel();
        durability.answer_read(move |fate| reply.send(fate.is_ok()).unwrap());
        sync.send(Err(io::Error::other("no space"))).unwrap();
        nudged.recv().unwrap();

        assert!(durability.has_failed());
        let doubtful = durability.stop();
        assert_eq!(doubtful.batches.iter().map(|ran| ran.turn).collect::<Vec<_>>(), [first, second]);
        assert_eq!(doubtful.failure.as_deref(), Some("no space"));
        assert!(replies.try_recv().is_err(), "it may have seen them");
        durability.go_on(&Err(StoreError::Unavailable("opened anew".into())));
        assert_eq!(replies.recv(), Ok(false));

        let third = durability.announce();
        durability.hand_over(batch(third));
        sync.send(Ok(())).unwrap();
        syncer.stop();
        assert_eq!(durability.durable(), third);
    }
}
