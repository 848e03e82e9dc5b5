//! Operations that the engine found to be held: on their way from its observer to the night shift, which writes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use unavez_core::identity::OperationId;
use unavez_core::recovery::Held;

/// What was alarmed and is not written down yet.
#[derive(Default)]
pub(crate) struct Alarms(Mutex<HashMap<OperationId, Held>>);

impl Alarms {
    /// Called on a request's own path: notes, and returns.
    pub(crate) fn raise(&self, operation: OperationId, held: Held) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(operation, held);
    }

    /// Takes all there are.
    pub(crate) fn take(&self) -> HashMap<OperationId, Held> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
