//! Committing on the SQLite store, whose own writer runs the transaction.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body::Body as HttpBody;
use unavez_core::record::Record;
use unavez_store::sqlite::{FinishInError, SqliteStore, TransactionError, WriteTx, finish_in};

use super::{FinishIn, Finishing, NotWhole, Once};
use crate::body::{Body, BoxError};
use crate::problem::{Code, Problem};

/// Why the outcome was not written into a transaction. Return it, so that the transaction rolls back.
#[derive(Debug)]
pub enum CommitError {
    /// The body of the response was not in memory.
    NotWhole(NotWhole),
    /// The record refused: another attempt owns it, or SQLite failed.
    Finish(FinishInError),
    /// A statement of the work failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
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
impl<E: fmt::Display> From<TransactionError<E>> for Problem {
    fn from(error: TransactionError<E>) -> Self {
        tracing::warn!(%error, "transaction not committed");
        Self::new(Code::Internal)
    }
}

impl FinishIn for &WriteTx<'_> {
    type Output = Result<Response<Body>, CommitError>;

    fn finish_in(self, finishing: Result<Finishing, NotWhole>) -> Self::Output {
        let finishing = finishing.map_err(CommitError::NotWhole)?;
        write(self, &finishing)?;
        Ok(finishing.in_transaction())
    }
}

fn write(tx: &WriteTx<'_>, finishing: &Finishing) -> Result<Arc<Record>, CommitError> {
    finish_in(tx, finishing.id(), finishing.fence(), finishing.finish().clone()).map_err(CommitError::Finish)
}

/// How the work of a transaction ended without rows.
enum Ended<E> {
    /// Its answer is a refusal.
    Refused(Box<Response<Body>>),
    Failed(E),
}

impl<E: From<CommitError>> From<CommitError> for Ended<E> {
    fn from(error: CommitError) -> Self {
        Self::Failed(error.into())
    }
}

impl Once {
    /// Runs `work` in one transaction on the store's writer, and commits its rows together with its response: the
    /// shortest way to a transactional route on SQLite.
    ///
    /// A response with a status from 400 on is a refusal: the rows are rolled back, and the engine records the refusal
    /// (P15). An error of `work` rolls the rows back too, and frees the key.
    ///
    /// One store trip. `work` runs on the writer's thread, between other requests: compute before, write inside.
    ///
    /// # Errors
    /// What `work` failed with, or that the transaction was not committed.
    pub async fn transaction<B, E, F>(
        &self,
        store: &SqliteStore,
        work: F,
    ) -> Result<Response<Body>, TransactionError<E>>
    where
        F: FnOnce(&WriteTx<'_>) -> Result<Response<B>, E> + Send + 'static,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
        E: From<CommitError> + Send + 'static,
    {
        let once = self.clone();
        let work = move |tx: &WriteTx<'_>| {
            let response = work(tx).map_err(Ended::Failed)?;
            if response.status().as_u16() >= 400 {
                return Err(Ended::Refused(Box::new(response.map(Body::stream))));
            }
            let finishing = once.finishing(response).map_err(CommitError::NotWhole)?;
            let record = write(tx, &finishing)?;
            Ok((finishing, record))
        };
        match store.transaction(work).await {
            Ok((finishing, record)) => Ok(finishing.committed(record)),
            Err(TransactionError::Refused(Ended::Refused(response))) => Ok(*response),
            Err(TransactionError::Refused(Ended::Failed(error))) => Err(TransactionError::Refused(error)),
            Err(TransactionError::Store(error)) => Err(TransactionError::Store(error)),
        }
    }
}
