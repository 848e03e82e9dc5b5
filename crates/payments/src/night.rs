//! The night shift: what has to be done and nobody waits for.
//!
//! It deletes expired records in small batches with pauses between them, so that requests get in between, keeps the
//! ledger's sums fresh, and looks after what an acquirer outside leaves to do. Asking the acquirer about open operations is
//! the recovery worker's. Losing it at any point loses nothing: the next one starts where it finds things.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use unavez_store::{Store, StoreError};

use crate::service::App;

/// How often the shift looks around.
const ROUND: Duration = Duration::from_secs(1);

/// Records deleted in one commit: a few milliseconds of the writer.
const BATCH: usize = 500;

/// Between two full batches. A backlog then goes at up to 25,000 records a second, and the writer is free most of the
/// time.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Night {
    /// The shift ends with the service, and does not keep it alive.
    app: Weak<App>,
    /// Whether the purge is known to wait for an operator: said once, not every second.
    waiting: bool,
}

impl Night {
    pub(crate) const fn new(app: Weak<App>) -> Self {
        Self { app, waiting: false }
    }

    /// Works until the service is gone.
    pub(crate) async fn work(mut self) {
        while let Some(app) = self.app.upgrade() {
            audit(&app).await;
            if let Some(outside) = &app.outside {
                outside.work_at_night(app.alarms.take().into_iter().collect()).await;
            }
            let pause = self.purge(&app).await;
            drop(app);
            tokio::time::sleep(pause).await;
        }
    }

    /// Deletes one batch, and says when to look again.
    async fn purge(&mut self, app: &App) -> Duration {
        match app.store.purge(BATCH).await {
            Ok(purged) => {
                self.waiting = false;
                app.metrics.purged(purged.deleted, purged.lag);
                if purged.deleted < BATCH as u64 { ROUND } else { PAUSE }
            }
            Err(StoreError::ClockStepped { step }) => {
                if !std::mem::replace(&mut self.waiting, true) {
                    tracing::error!(?step, "the clock stepped; nothing is purged until that is confirmed");
                }
                ROUND
            }
            Err(error) => {
                tracing::warn!(%error, "purge failed");
                ROUND
            }
        }
    }
}

async fn audit(app: &App) {
    match app.books.catch_up().await {
        Ok(()) => app.scanned.store(true, Ordering::Release),
        Err(error) => tracing::warn!(%error, "ledger sums are behind"),
    }
}
