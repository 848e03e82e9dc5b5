//! Bounds, by tenant and in all: one tenant's million requests leave room for the others (P10).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unavez_core::identity::Tenant;

/// How many requests may be in the engine at once. A request counts as running from the reading of its body to the end of
/// its operation, replays and waiters included, so that memory is bounded whatever callers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Running operations in all; above: 503 `overloaded`.
    pub running_max: usize,
    /// Running operations of one tenant; above: 503 `overloaded`.
    pub running_per_tenant_max: usize,
    /// Callers that wait for another's operation, in all; above: 409 at once.
    pub waiting_max: usize,
    /// Waiting callers of one tenant; above: 409 at once.
    pub waiting_per_tenant_max: usize,
}

/// Each running operation holds a task and a body of at most 1 MiB; one tenant gets at most a quarter of all.
impl Default for Limits {
    fn default() -> Self {
        Self {
            running_max: 16_384,
            running_per_tenant_max: 4_096,
            waiting_max: 4_096,
            waiting_per_tenant_max: 1_024,
        }
    }
}

/// Counts who is inside. Cheap to clone; clones are the same gate.
#[derive(Clone)]
pub(super) struct Gate {
    max: usize,
    per_tenant_max: usize,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    total: usize,
    by_tenant: HashMap<Tenant, usize>,
}

impl Gate {
    pub(super) fn new(max: usize, per_tenant_max: usize) -> Self {
        Self { max, per_tenant_max, inside: Arc::default() }
    }

    pub(super) fn enter(&self, tenant: &Tenant) -> Option<Permit> {
        let mut inside = self.lock();
        let of_tenant = inside.by_tenant.get(tenant).copied().unwrap_or(0);
        if inside.total >= self.max || of_tenant >= self.per_tenant_max {
            return None;
        }
        inside.total += 1;
        // A tenant that is inside already is not cloned again.
        match inside.by_tenant.get_mut(tenant) {
            Some(count) => *count += 1,
            None => {
                inside.by_tenant.insert(tenant.clone(), 1);
            }
        }
        drop(inside);
        Some(Permit { gate: self.clone(), tenant: tenant.clone() })
    }

    fn leave(&self, tenant: &Tenant) {
        let mut inside = self.lock();
        inside.total -= 1;
        if let Some(count) = inside.by_tenant.get_mut(tenant) {
            *count -= 1;
            if *count == 0 {
                inside.by_tenant.remove(tenant);
            }
        }
    }

    /// Counters stay right even if a panic passed while they were locked: no code between their changes can panic.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One place inside. Freed when dropped.
pub struct Permit {
    gate: Gate,
    tenant: Tenant,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.leave(&self.tenant);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).unwrap()
    }

    #[test]
    fn c103_one_tenant_leaves_room_for_others() {
        let gate = Gate::new(3, 2);
        let permits: Vec<_> = std::iter::from_fn(|| gate.enter(&tenant("a"))).collect();
        assert_eq!(permits.len(), 2);
        let other = gate.enter(&tenant("b")).expect("room for another tenant");
        assert!(gate.enter(&tenant("c")).is_none(), "full in all");
        drop(other);
        drop(permits);
        assert!(gate.lock().by_tenant.is_empty(), "nothing is remembered about those who left");
        assert_eq!(gate.lock().total, 0);
    }
}
