//! Committing inside a transaction of tokio-postgres, on the database that holds the store's tables.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use http::Response;
use tokio_postgres::Transaction;
use unavez_store::postgres::{FinishInError, finish_in};

use super::{FinishIn, Finishing, NotWhole};
use crate::body::Body;
use crate::problem::{Code, Problem};

/// Why the outcome was not written into a transaction, which must roll back: dropping it does that.
#[derive(Debug)]
pub enum CommitError {
    /// The body of the response was not in memory.
    NotWhole(NotWhole),
    /// The record refused: another attempt owns it, or the database failed.
    Finish(FinishInError),
    /// A statement of the work failed.
    Sql(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for CommitError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWhole(error) => error.fmt(f),
            Self::Finish(error) => error.fmt(f),
            Self::Sql(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommitError {}

/// 500: the detail goes to the log. Where the transaction was overtaken, or committed after all, the engine answers with
/// the stored truth instead.
impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        tracing::warn!(%error, "transaction not committed");
        Self::new(Code::Internal)
    }
}

/// One round trip. The caller commits afterwards; a COMMIT that fails is in doubt, and the engine finds out.
impl<'t> FinishIn for &'t Transaction<'_> {
    type Output = Pin<Box<dyn Future<Output = Result<Response<Body>, CommitError>> + Send + 't>>;

    fn finish_in(self, finishing: Result<Finishing, NotWhole>) -> Self::Output {
        Box::pin(async move {
            let finishing = finishing.map_err(CommitError::NotWhole)?;
            let finish = finishing.finish().clone();
            finish_in(self, finishing.id(), finishing.fence(), finish).await.map_err(CommitError::Finish)?;
            Ok(finishing.in_transaction())
        })
    }
}
