//! A store that does not answer, said once: a log that repeats it for every request fills the disk that is full already.

use std::sync::atomic::{AtomicU64, Ordering};

use unavez_store::StoreError;

/// The requests that were refused since the store last did what was asked. Of the whole process: so is the log.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The store refused a request.
pub(crate) fn refused(error: &StoreError) {
    if REFUSED.fetch_add(1, Ordering::Relaxed) == 0 {
        tracing::warn!(%error, "store does not answer; said once, until it does again");
    } else {
        tracing::debug!(%error, "store did not answer");
    }
}

/// The store did what was asked. One load, as long as nothing is wrong.
pub(crate) fn answered() {
    if REFUSED.load(Ordering::Relaxed) > 0 {
        let refused = REFUSED.swap(0, Ordering::Relaxed);
        tracing::info!(refused, "store answers again");
    }
}
