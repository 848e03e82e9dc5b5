//! Purging: records whose promise is over are deleted in bounded batches (P9, P21).

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;
use unavez_store::StoreError;

use crate::engine::Engine;

/// Deletes expired records, a batch at a time, so that no request waits behind a long delete.
///
/// ```
/// # use unavez_tower::{IdempotencyLayer, MemoryStore, purge::PurgeWorker, tenant};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
/// let worker = PurgeWorker::new(layer.engine().clone());
/// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// let running = tokio::spawn(worker.run(async { drop(stopped.await) }));
/// # drop(stop);
/// # running.await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PurgeWorker {
    engine: Engine,
    interval: Duration,
    batch: usize,
}

/// Between two full batches the store serves whoever waits.
const BREATH: Duration = Duration::from_millis(20);

impl PurgeWorker {
    /// A worker that looks every ten seconds, and deletes 500 records at a time.
    #[must_use]
    pub const fn new(engine: Engine) -> Self {
        Self { engine, interval: Duration::from_secs(10), batch: 500 }
    }

    /// How long it rests when nothing is left to purge.
    #[must_use]
    pub const fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Works until `stop` is ready.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let rest = match self.engine.store().purge(self.batch).await {
                Ok(purged) if purged.deleted >= self.batch as u64 => BREATH,
                Ok(_) => self.interval,
                Err(StoreError::ClockStepped { step }) => {
                    tracing::error!(?step, "the clock stepped: nothing is purged until that is confirmed");
                    self.interval
                }
                Err(error) => {
                    tracing::warn!(%error, "purge failed");
                    self.interval
                }
            };
            tokio::select! {
                () = &mut stop => return,
                () = sleep(rest) => {}
            }
        }
    }
}
