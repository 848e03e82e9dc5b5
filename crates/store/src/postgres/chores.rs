//! What is not of the hot set: questions that are due, lists, and the purge, on a connection of their own that is made when
//! one of them is first asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use unavez_core::record::Record;
use unavez_core::time::Time;

use super::connection::{Link, Param};
use super::error::Failure;
use super::lanes::{Shared, cut_off};
use super::rows::{self, COLUMNS};
use crate::{Cursor, Due, Filter, Page, Purged, StoreError};

/// Most records that one transaction of a purge deletes: its locks and its work in the log are held together.
const PURGE_BITE: usize = 1000;

/// How often a purge that lost against another is begun again.
const TRIES_MAX: u32 = 10;

/// Work beside the requests.
pub(super) struct Chores {
    pub(super) link: Mutex<Link>,
    pub(super) shared: Arc<Shared>,
}

impl Chores {
    pub(super) async fn due(&self, limit: usize) -> Result<Due, StoreError> {
        let (told, limit) = (self.shared.times.told(), count(limit));
        let parameters: &[Param<'_>] = &[(&told, Type::INT8), (&limit, Type::INT8)];
        let rows = self.read(include_str!("sql/due.sql"), parameters).await?;
        let now = self.time_of(&rows, COLUMNS)?;
        Ok(Due { records: records(&rows)?, now })
    }

    pub(super) async fn list(
        &self,
        filter: &Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        let end = after.map_or(i64::MAX, |Cursor(end)| i64::try_from(end).unwrap_or(i64::MAX));
        let tenant = filter.tenant.as_ref().map(|tenant| tenant.as_str());
        let told = self.shared.times.told();
        // One more than asked for tells whether there is another page.
        let one_more = count(limit.saturating_add(1));
        let parameters: &[Param<'_>] = &[
            (&told, Type::INT8),
            (&end, Type::INT8),
            (&tenant, Type::TEXT),
            (&filter.state, Type::TEXT),
            (&one_more, Type::INT8),
        ];
        let rows = self.read(include_str!("sql/list.sql"), parameters).await?;
        let now = self.time_of(&rows, COLUMNS)?;
        let (rows, next) = cut(rows, limit)?;
        Ok(Page { records: records(&rows)?, next, now })
    }

    pub(super) async fn purge(&self, limit: usize) -> Result<Purged, StoreError> {
        let (now, _) = self.oldest_expiry().await?;
        if let Some(step) = self.shared.times.step(now) {
            return Err(StoreError::ClockStepped { step });
        }
        let mut left = limit;
        while left > 0 {
            let bite = left.min(PURGE_BITE);
            let deleted = self.delete_expired(bite).await?;
            left -= deleted.min(left);
            if deleted < bite {
                break;
            }
        }
        let (now, oldest) = self.oldest_expiry().await?;
        let lag = oldest.map_or(Duration::ZERO, |expires_at| now.since(expires_at));
        Ok(Purged { deleted: (limit - left) as u64, lag })
    }

    /// The database's time, and when the oldest promise ends or ended.
    pub(super) async fn oldest_expiry(&self) -> Result<(Time, Option<Time>), StoreError> {
        let told = self.shared.times.told();
        let rows = self.read(include_str!("sql/oldest_expiry.sql"), &[(&told, Type::INT8)]).await?;
        let now = self.time_of(&rows, 0)?;
        let oldest: Option<i64> = rows::value(&rows[0], 1).map_err(unreadable)?;
        Ok((now, oldest.map(Time::from_micros)))
    }

    async fn delete_expired(&self, limit: usize) -> Result<usize, StoreError> {
        let (told, limit) = (self.shared.times.told(), count(limit));
        let parameters: &[Param<'_>] = &[(&told, Type::INT8), (&limit, Type::INT8)];
        let sql = include_str!("sql/purge.sql");
        let mut tries = 1;
        loop {
            let mut link = self.link.lock().await;
            let deleted = link.session().await.map_err(Failure::of_read)?.write(sql, parameters).await;
            match deleted {
                Err(Failure::Refused(refusal)) if refusal.is_transient() && tries < TRIES_MAX => tries += 1,
                // What was deleted in doubt was to be deleted.
                ended => return ended.map(|rows| rows.len()).map_err(Failure::of_read),
            }
        }
    }

    /// A read that was cut off is made again, once: nothing can have happened.
    async fn read(&self, sql: &str, parameters: &[Param<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut link = self.link.lock().await;
        let mut rows = link.session().await.map_err(Failure::of_read)?.read(sql, parameters).await;
        if cut_off(&rows) {
            rows = link.session().await.map_err(Failure::of_read)?.read(sql, parameters).await;
        }
        rows.map_err(Failure::of_read)
    }

    /// The time in the first of rows that are never none.
    fn time_of(&self, rows: &[Row], column: usize) -> Result<Time, StoreError> {
        let first =
            rows.first().ok_or_else(|| StoreError::Unavailable("the database told no time".into()))?;
        let now = rows::time(first, column).map_err(unreadable)?;
        self.shared.times.observe(now);
        Ok(now)
    }
}

/// A page of at most `limit` rows, and more only where the last ones share their position.
fn cut(mut rows: Vec<Row>, limit: usize) -> Result<(Vec<Row>, Option<Cursor>), StoreError> {
    let position = |row: &Row| rows::value::<i64>(row, COLUMNS + 1).map_err(unreadable);
    if rows.len() <= limit || limit == 0 {
        rows.truncate(limit);
        return Ok((rows, None));
    }
    let last = position(&rows[limit - 1])?;
    let mut length = limit;
    while rows.get(length).map(position).transpose()? == Some(last) {
        length += 1;
    }
    let is_more = length < rows.len();
    rows.truncate(length);
    Ok((rows, is_more.then(|| Cursor(last.unsigned_abs()))))
}

/// The rows that hold a record: where there is none, one row tells the time alone.
fn records(rows: &[Row]) -> Result<Vec<Arc<Record>>, StoreError> {
    rows.iter().filter_map(|row| rows::read_if_any(row).map_err(unreadable).transpose()).collect()
}

fn unreadable(error: rows::Unreadable) -> StoreError {
    StoreError::Unavailable(error.to_string().into())
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
