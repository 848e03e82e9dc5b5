//! Lists of charges, cut into pages.

use rusqlite::{Connection, OptionalExtension};

use super::places::Places;
use super::{BooksError, TenantNumber, rows};
use crate::charge::{Charge, Status};

/// Most items of one page.
pub const PAGE_MAX: usize = 100;

/// One page of a list, newest first. `next` is the last item's id where there is more: what `after` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, Id> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// Where the next page starts.
    pub next: Option<Id>,
}

/// Which charges. Every part narrows the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChargeFilter {
    /// Only this order's.
    pub order_id: Option<Box<str>>,
    /// Only those that stand so.
    pub status: Option<Status>,
}

/// Charges that somebody looks for, whatever their status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// An attempt ended, and nobody knows how.
    Unknown,
    /// Something of it was paid back.
    Refunded,
    /// Its order was charged before under another key.
    SuspectedDuplicate,
}

/// Whether there is a next page shows in one row more than the page holds.
pub(super) fn one_more_than(limit: usize) -> u32 {
    u32::try_from(limit + 1).expect("pages are small")
}

/// The row number a list starts below; `None`: the item it should start after is not there.
pub(super) fn position_of<Id>(
    after: Option<Id>,
    find: impl FnOnce(Id) -> rusqlite::Result<Option<i64>>,
) -> rusqlite::Result<Option<i64>> {
    match after {
        None => Ok(Some(i64::MAX)),
        Some(id) => find(id),
    }
}

pub(super) fn list_charges(
    connection: &Connection,
    places: &Places,
    tenant: TenantNumber,
    filter: &ChargeFilter,
    before: i64,
    rows: u32,
) -> rusqlite::Result<Vec<Charge>> {
    let status = filter.status.map(Status::as_str);
    match (&filter.order_id, filter.status) {
        (Some(order_id), _) => {
            let mut find = connection.prepare_cached(include_str!("sql/find_charge_of_order.sql"))?;
            let positions = places.of_order(connection, tenant, order_id)?.into_iter().rev();
            let charges = positions.filter(|position| *position < before).filter_map(|position| {
                find.query_row((tenant, order_id, status, position), rows::charge).optional().transpose()
            });
            charges.take(rows as usize).collect()
        }
        (None, None) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges.sql"))?;
            list.query_map((tenant, before, rows), rows::charge)?.collect()
        }
        (None, Some(Status::Captured)) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges_captured.sql"))?;
            list.query_map((tenant, before, rows), rows::charge)?.collect()
        }
        (None, Some(Status::Created)) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges_created.sql"))?;
            list.query_map((tenant, before, rows), rows::charge)?.collect()
        }
        (None, Some(_)) => {
            let mut list = connection.prepare_cached(include_str!("sql/list_charges_with_status.sql"))?;
            list.query_map((tenant, before, rows, status), rows::charge)?.collect()
        }
    }
}

/// Makes a page of up to one item more than it may hold. `found` is `None` twice over: for a tenant without books, and
/// for a position that is not there.
#[expect(clippy::option_option, reason = "the outer layer is the tenant, the inner one the position")]
pub(super) fn page<T, Id>(
    found: Option<Option<Vec<T>>>,
    limit: usize,
    id: impl Fn(&T) -> Id,
) -> Result<Page<T, Id>, BooksError> {
    let mut items = found.unwrap_or(Some(Vec::new())).ok_or(BooksError::UnknownPosition)?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(id);
    Ok(Page { items, next })
}
