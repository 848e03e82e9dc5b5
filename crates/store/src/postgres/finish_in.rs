//! Finishing a record inside a transaction of the caller's, together with the rows of its business.

use std::sync::Arc;

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;
use unavez_core::identity::RecordId;
use unavez_core::record::{Change, Fence, Finish, Record};

use super::finishes::{self, Columns};
use super::rows::{self, COLUMNS, Unreadable};
use super::{FinishInError, Param};
use crate::rules::{Refusal, judge};

/// Finishes the record `id` inside `tx`, a transaction on the database that holds the store's tables: both commit, or
/// neither does. One round trip. On an error the transaction must be rolled back.
///
/// The caller commits. Where the COMMIT itself fails, its outcome is in doubt (P12).
///
/// # Errors
/// [`FinishInError`].
pub async fn finish_in(
    tx: &Transaction<'_>,
    id: RecordId,
    expected: Fence,
    finish: Finish,
) -> Result<Arc<Record>, FinishInError> {
    let mut columns = Columns::default();
    columns.push(id, expected, &finish);
    let written = tx.query_typed(finishes::SQL, &columns.params(&None, &None)).await?;
    match written.first() {
        Some(row) => Ok(finishes::finished(row, &finish)?.0),
        None => Err(refused(tx, id, expected, finish).await?),
    }
}

/// Why nothing was finished.
async fn refused(
    tx: &Transaction<'_>,
    id: RecordId,
    expected: Fence,
    finish: Finish,
) -> Result<FinishInError, FinishInError> {
    let ids = vec![rows::uuid(id)];
    let parameters: &[Param<'_>] = &[(&None::<i64>, Type::INT8), (&ids, Type::UUID_ARRAY)];
    let row = tx.query_typed_one(include_str!("sql/load.sql"), parameters).await?;
    let (record, now) = (rows::read_if_any(&row)?, rows::time(&row, COLUMNS)?);
    Ok(match judge(id, record.as_deref(), Some(expected), Change::Finish(finish), now) {
        Err(Refusal::Illegal(illegal)) => FinishInError::Illegal(illegal),
        Err(Refusal::Collision(id)) => FinishInError::Collision(id),
        Ok(_) => FinishInError::Overtaken(record),
    })
}

impl From<Unreadable> for FinishInError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error.to_string())
    }
}
