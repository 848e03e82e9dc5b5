//! The books of a sandbox that another process has open, for reconciliation beside it.

use std::path::{Path, PathBuf};

use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::{OpenError, Viewer};

use super::execution::{self, Execution, What};
use crate::acquirer::{ListPage, Listed};

/// `unavez.db` has its sandbox in `unavez-sandbox.db`.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push("-sandbox");
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// A sandbox's books, only read. Calls block.
#[derive(Debug)]
pub struct SandboxBooks(Viewer);

impl SandboxBooks {
    /// Of the sandbox in the process of the service whose database is at `path`.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn of_service(path: &Path) -> Result<Self, OpenError> {
        Viewer::open(&beside(path)).map(Self)
    }

    /// As [`Acquirer::list`](crate::acquirer::Acquirer::list) does.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn list(
        &self,
        since: Time,
        now: Time,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ListPage, StoreError> {
        let after: i64 = after.and_then(|after| after.parse().ok()).unwrap_or(0);
        self.0.read(|connection| {
            let mut found = execution::list(connection, since, Time::MAX, after, limit + 1)?;
            let more = found.len() > limit;
            found.truncate(limit);
            let next = found.last().filter(|_| more).map(|last| last.number.to_string().into());
            Ok(ListPage { items: found.iter().map(|execution| listed(execution, now)).collect(), next })
        })
    }
}

fn listed(execution: &Execution, now: Time) -> Listed {
    Listed {
        operation_id: Some(execution.operation),
        kind: execution.kind(),
        standing: execution.standing(now),
        tenant: Some(execution.tenant.clone()),
        amount: execution.amount,
        currency: execution.currency,
        payment: match &execution.what {
            What::Payment { .. } => None,
            What::Step { payment, .. } => Some(*payment),
        },
        reference: Some(format!("sbx_{}", execution.number).into()),
        created_at: execution.created_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_lies_beside_the_service() {
        for (path, expected) in [
            ("unavez.db", "unavez-sandbox.db"),
            ("/var/lib/un.a.db", "/var/lib/un.a-sandbox.db"),
            ("data/books", "data/books-sandbox"),
        ] {
            assert_eq!(beside(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
