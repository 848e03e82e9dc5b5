//! Reads on threads and read-only connections of their own, so that no read waits for the writer and none makes it wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::error::{needs_reopening, unavailable};
use super::open::open_reader;
use super::queue::{NotQueued, Queue};
use super::shared::enter_store_thread;
use crate::StoreError;

/// A read that waits for a connection. It answers its caller itself.
pub(super) trait Read: Send {
    /// Whether the connection's view of the file is still to be trusted.
    fn run(self: Box<Self>, connection: Result<&Connection, &StoreError>) -> Trust;
}

/// What a read found out about its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Keep,
    Reopen,
}

/// The threads.
pub(super) struct Readers {
    queue: Arc<Queue<Box<dyn Read>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Opens `count` connections; the database exists already.
    pub(super) fn start(
        path: &Path,
        count: usize,
        queue: Arc<Queue<Box<dyn Read>>>,
    ) -> rusqlite::Result<Self> {
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let connection = open_reader(path)?;
            let mut reader = Reader { path: path.to_owned(), connection: Some(connection) };
            let queue = Arc::clone(&queue);
            let spawned = thread::Builder::new().name(format!("store-read-{number}")).spawn(move || {
                enter_store_thread();
                let mut taken = Vec::new();
                while queue.take(&mut taken, 1) {
                    taken.drain(..).for_each(|read| reader.run(read));
                }
            });
            threads.push(spawned.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?);
        }
        Ok(Self { queue, threads })
    }

    /// Runs what waits, then closes the connections.
    pub(super) fn stop(self) {
        self.queue.close();
        for thread in self.threads {
            // Its panics are caught where they happen; there is nothing left to tell.
            drop(thread.join());
        }
    }
}

struct Reader {
    path: PathBuf,
    /// `None` after a failure, until the next read opens it anew.
    connection: Option<Connection>,
}

impl Reader {
    fn run(&mut self, read: Box<dyn Read>) {
        let opened = match self.connection.take() {
            Some(connection) => Ok(connection),
            None => open_reader(&self.path).map_err(unavailable),
        };
        let trust = read.run(opened.as_ref());
        self.connection = opened.ok().filter(|_| trust == Trust::Keep);
    }
}

/// A caller's read: all its statements see one state of the database.
pub(super) struct ReadCommand<T, F> {
    read: F,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Read for ReadCommand<T, F>
where
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn run(self: Box<Self>, connection: Result<&Connection, &StoreError>) -> Trust {
        if self.reply.is_closed() {
            return Trust::Keep;
        }
        let connection = match connection {
            Ok(connection) => connection,
            Err(error) => {
                drop(self.reply.send(Err(error.clone())));
                return Trust::Reopen;
            }
        };
        let (outcome, trust) = match in_snapshot(connection, self.read) {
            Ok(done) => (Ok(done), Trust::Keep),
            Err(ReadFailure::Panicked) => (Err(unavailable("the read panicked")), Trust::Reopen),
            Err(ReadFailure::Sql(error)) => {
                let trust = if needs_reopening(&error) { Trust::Reopen } else { Trust::Keep };
                (Err(unavailable(error)), trust)
            }
        };
        drop(self.reply.send(outcome));
        trust
    }
}

enum ReadFailure {
    Panicked,
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for ReadFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

fn in_snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, ReadFailure> {
    connection.prepare_cached("begin")?.execute([])?;
    let outcome = catch_unwind(AssertUnwindSafe(|| read(connection)));
    let ended = connection.prepare_cached("rollback")?.execute([]);
    let done = outcome.map_err(|_| ReadFailure::Panicked)??;
    ended?;
    Ok(done)
}

/// Queues a read and waits for its result. Dropping the future withdraws a read that has not begun.
pub(super) async fn read_on<T, F>(queue: &Queue<Box<dyn Read>>, read: F) -> Result<T, StoreError>
where
    F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    T: Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    queue.push(Box::new(ReadCommand { read, reply })).map_err(not_queued)?;
    answer.await.unwrap_or_else(|_| Err(unavailable("the store was closed")))
}

/// Nothing was queued, so nothing happened.
pub(super) fn not_queued(why: NotQueued) -> StoreError {
    match why {
        NotQueued::Closed => unavailable("the store is closed"),
        NotQueued::Full { waiting } => StoreError::Overloaded { waiting },
    }
}
