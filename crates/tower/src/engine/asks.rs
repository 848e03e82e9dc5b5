//! One question per record and interval, however many ask (P16).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use unavez_core::identity::RecordId;
use unavez_core::problem::Code;
use unavez_core::record::{Fence, Record};

/// Which records are being asked about, and which were just now.
pub(super) struct Asks {
    state: Mutex<Questions>,
}

struct Questions {
    by_record: HashMap<RecordId, Known>,
    prune_at: usize,
}

enum Known {
    /// The receiver wakes when the sender is dropped.
    Open(watch::Receiver<()>),
    /// What was learned about the record as it stood then.
    Answered { at: Instant, fence: Fence, code: Code },
}

/// Below this many remembered questions nothing is swept out.
const PRUNE_AT_LEAST: usize = 1024;

impl Default for Asks {
    fn default() -> Self {
        Self { state: Mutex::new(Questions { by_record: HashMap::new(), prune_at: PRUNE_AT_LEAST }) }
    }
}

pub(super) enum Turn<'a> {
    /// Ask, then say what came of it.
    Yours(Open<'a>),
    /// Another asks right now.
    Another(watch::Receiver<()>),
    /// Asked less than an interval ago.
    Recent(Code),
}

/// A question on its way. Closed when dropped, so that nobody waits for an asker that is gone.
pub(super) struct Open<'a> {
    asks: &'a Asks,
    id: RecordId,
    fence: Fence,
    /// What the asker learned, if nothing was settled.
    pub(super) code: Option<Code>,
    _wakes: watch::Sender<()>,
}

impl Asks {
    pub(super) fn turn(&self, record: &Record, interval: Duration) -> Turn<'_> {
        let (id, fence) = (record.id, record.fence);
        let mut questions = self.lock();
        match questions.by_record.get(&id) {
            Some(Known::Open(waits)) => return Turn::Another(waits.clone()),
            Some(Known::Answered { at, fence: seen, code }) if *seen == fence && at.elapsed() < interval => {
                return Turn::Recent(*code);
            }
            _ => {}
        }
        questions.prune(interval);
        let (sender, receiver) = watch::channel(());
        questions.by_record.insert(id, Known::Open(receiver));
        Turn::Yours(Open { asks: self, id, fence, code: None, _wakes: sender })
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Questions {
    fn prune(&mut self, interval: Duration) {
        if self.by_record.len() < self.prune_at {
            return;
        }
        self.by_record.retain(|_, question| match question {
            Known::Open(_) => true,
            Known::Answered { at, .. } => at.elapsed() < interval,
        });
        self.prune_at = PRUNE_AT_LEAST.max(self.by_record.len() * 2);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut questions = self.asks.lock();
        match self.code {
            Some(code) => {
                questions
                    .by_record
                    .insert(self.id, Known::Answered { at: Instant::now(), fence: self.fence, code });
            }
            None => {
                questions.by_record.remove(&self.id);
            }
        }
    }
}
