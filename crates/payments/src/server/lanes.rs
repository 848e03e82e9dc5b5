//! Threads that connections live on.
//!
//! 1. A connection stays on one thread from its first byte to its last. A request that waits for a commit is woken where
//!    its data lies, and no thread looks for work of another one.
//! 2. The lane with the fewest connections gets the next one.
//! 3. What a request spawns runs on its lane too, and may outlive the connection: lanes end when the last clone is
//!    dropped, so their owner keeps one until such work is done.
//!
//! What breaks it in deployment: work that holds a thread for long. It holds up the connections of its lane, and no other
//! thread takes them over. A request takes microseconds; the longest is the start of a TLS connection, about a millisecond
//! with an RSA key, so thousands of new ones a second belong to a proxy in front.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{self, Handle};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Where connections are driven. Cheap to clone. The default is the runtime that serves.
#[derive(Clone, Debug, Default)]
pub struct Lanes(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    lanes: Vec<Lane>,
    /// Lanes end when it is dropped.
    _open: watch::Sender<()>,
}

#[derive(Clone, Debug)]
struct Lane {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Lanes {
    /// One lane for each processor.
    ///
    /// # Errors
    /// The system gives no more threads or files.
    pub fn start() -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        let (open, closed) = watch::channel(());
        let lanes = (0..count).map(|number| Lane::start(number, closed.clone()));
        Ok(Self(Some(Arc::new(Inner { lanes: lanes.collect::<io::Result<_>>()?, _open: open }))))
    }

    /// Drives a connection on one of the lanes.
    pub(super) fn spawn(
        &self,
        tasks: &mut JoinSet<()>,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let Some(inner) = &self.0 else {
            tasks.spawn(connection);
            return;
        };
        let least = inner.lanes.iter().min_by_key(|lane| lane.connections.load(Ordering::Relaxed));
        let lane = least.expect("there is a lane for each processor");
        let place = Place::take(&lane.connections);
        tasks.spawn_on(
            async move {
                let _place = place;
                connection.await;
            },
            &lane.runtime,
        );
    }
}

impl Lane {
    fn start(number: usize, mut closed: watch::Receiver<()>) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let lane = Self { runtime: runtime.handle().clone(), connections: Arc::default() };
        let run = move || {
            // Nothing is ever sent, so this resolves when the sender is gone.
            runtime.block_on(async { closed.changed().await.ok() });
            // A look-up of a name that hangs must not hold up the end.
            runtime.shutdown_background();
        };
        thread::Builder::new().name(format!("http-{number}")).spawn(run)?;
        Ok(lane)
    }
}

/// One connection on a lane; leaves when dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::sync::Barrier;

    use super::*;

    /// Counts of the open connections, lane by lane.
    fn loads(lanes: &Lanes) -> Vec<usize> {
        let inner = lanes.0.as_ref().unwrap();
        inner.lanes.iter().map(|lane| lane.connections.load(Ordering::Relaxed)).collect()
    }

    #[tokio::test]
    async fn connections_are_spread_evenly_and_leave() {
        let lanes = Lanes::start().unwrap();
        let count = loads(&lanes).len();
        let (here, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let all_are_there = Arc::new(Barrier::new(3 * count + 1));
        let mut tasks = JoinSet::new();
        for _ in 0..3 * count {
            let (here, all_are_there) = (here.clone(), Arc::clone(&all_are_there));
            lanes.spawn(&mut tasks, async move {
                here.send(thread::current().id()).unwrap();
                all_are_there.wait().await;
            });
        }
        assert_eq!(loads(&lanes), vec![3; count]);
        all_are_there.wait().await;
        while tasks.join_next().await.is_some() {}
        assert_eq!(loads(&lanes), vec![0; count]);

        drop(here);
        let mut by_thread = HashMap::new();
        while let Some(thread) = seen.recv().await {
            *by_thread.entry(thread).or_insert(0) += 1;
        }
        assert_eq!(by_thread.into_values().collect::<Vec<_>>(), vec![3; count]);
    }

    #[tokio::test]
    async fn what_a_connection_leaves_behind_runs_until_the_last_clone_is_gone() {
        let lanes = Lanes::start().unwrap();
        let (go, mut gone) = watch::channel(false);
        let (done, is_done) = tokio::sync::oneshot::channel();
        let mut tasks = JoinSet::new();
        lanes.spawn(&mut tasks, async move {
            tokio::spawn(async move {
                gone.wait_for(|go| *go).await.unwrap();
                done.send(()).unwrap();
                std::future::pending::<()>().await;
            });
        });
        while tasks.join_next().await.is_some() {}
        go.send(true).unwrap();
        is_done.await.unwrap();
        assert_eq!(go.receiver_count(), 1, "it is still there");
        drop(lanes);
        go.closed().await;
    }
}
