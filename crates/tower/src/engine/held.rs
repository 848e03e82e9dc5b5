//! Which held operations the log has named: a question an hour about each of them would drown everything else in it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use unavez_core::identity::OperationId;
use unavez_core::recovery::Held;

/// Beyond so many all are forgotten, and said once more.
const REMEMBERED_MAX: usize = 100_000;

/// Said by this process already.
#[derive(Default)]
pub(super) struct Said(Mutex<HashSet<(OperationId, Held)>>);

impl Said {
    /// Whether this is to be said: the first time for an operation and reason.
    pub(super) fn is_news(&self, operation: OperationId, held: Held) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED_MAX {
            said.clear();
        }
        said.insert((operation, held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_and_reason_is_said_once() {
        let said = Said::default();
        let id = |digits: &str| OperationId::parse(&format!("op_{digits:0>32}")).unwrap();
        assert!(said.is_news(id("1"), Held::WindowOver));
        assert!(!said.is_news(id("1"), Held::WindowOver));
        assert!(said.is_news(id("1"), Held::OtherAccount) && said.is_news(id("2"), Held::WindowOver));
    }
}
