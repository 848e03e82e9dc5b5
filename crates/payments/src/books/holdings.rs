//! What a database holds as a whole: what a copy is compared in, and what is told of it.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::CurrencySummary;
use super::audit;
use crate::money::Currency;

/// The books of all tenants together, in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Sums of every currency, in the order of their codes; balanced where every tenant's are.
    pub currencies: Vec<CurrencySummary>,
    /// Rows that belong to rows which are not there: entries without their charge, events without their operation.
    pub astray: u64,
    /// Charges through an acquirer outside.
    pub charges_outside: u64,
    /// Charges that the ledger alone decided.
    pub charges_of_ledger: u64,
    /// The longest time for which an answer was promised.
    pub longest_promise: Duration,
}

impl Holdings {
    /// Whether everything fits together.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        self.astray == 0 && self.currencies.iter().all(|it| it.balanced)
    }
}

/// Reads through the books on any connection, inside the caller's snapshot; also those of an earlier version.
///
/// # Errors
/// The library's, or a row that cannot be read.
pub fn holdings_on(connection: &Connection) -> rusqlite::Result<Holdings> {
    let has_outside = connection
        .query_row("select 1 from sqlite_schema where name = 'operations'", [], |_| Ok(()))
        .optional()?
        .is_some();
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let outside = |sql: &str| if has_outside { count(sql) } else { Ok(0) };
    let charges_outside = outside(include_str!("sql/charges_outside.sql"))?;
    Ok(Holdings {
        currencies: of_all_tenants(audit::summaries_on(connection)?),
        astray: count(include_str!("sql/astray.sql"))? + outside(include_str!("sql/astray_outside.sql"))?,
        charges_outside,
        charges_of_ledger: count("select count(*) from charges")?.saturating_sub(charges_outside),
        longest_promise: Duration::from_micros(count(include_str!("sql/longest_promise.sql"))?),
    })
}

fn of_all_tenants(summaries: Vec<CurrencySummary>) -> Vec<CurrencySummary> {
    let mut sums = BTreeMap::<Currency, CurrencySummary>::new();
    for one in summaries {
        let sum = sums.entry(one.currency).or_insert(CurrencySummary {
            charges: 0,
            captured: 0,
            refunded: 0,
            balanced: true,
            ..one
        });
        sum.charges += one.charges;
        sum.captured += one.captured;
        sum.refunded += one.refunded;
        sum.balanced &= one.balanced;
    }
    sums.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::COMPONENT;
    use super::*;

    /// A database as the first `migrations` left it: one charge of 25.00 with its entry, both listed.
    fn books(migrations: usize) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("create table idempotency_records (state, conclusion, finished_at, expires_at)")
            .unwrap();
        for migration in &COMPONENT.migrations[..migrations] {
            connection.execute_batch(migration.sql).unwrap();
        }
        connection
            .execute_batch(
                "insert into tenants values (1, 'default');
                 insert into charges (id, operation, tenant, order_id, amount, currency, status, amount_captured, amount_refunded,
                     created_at, fingerprint, request_id)
                 values (1, zeroblob(16), 1, 'o-1', 2500, 'EUR', 'captured', 2500, 0, 7, x'01', zeroblob(16));
                 insert into ledger_entries values (1, 1, 1, 1, 'capture', 'customer', 'merchant', 2500, 'EUR', 7);
                 insert into charge_blocks values (1, 0);
                 insert into ledger_entry_blocks values (1, 0);
                 insert into idempotency_records values
                     ('finished', 'approved', 5, 65), ('finished', 'declined', 5, 15), ('finished', 'cancelled', 5, 9005)",
            )
            .unwrap();
        connection
    }

    #[test]
    fn books_of_every_version_are_read() {
        for migrations in 1..=COMPONENT.migrations.len() {
            let holdings = holdings_on(&books(migrations)).unwrap();
            assert!(holdings.are_sound(), "{holdings:?}");
            assert_eq!((holdings.charges_of_ledger, holdings.charges_outside), (1, 0));
            assert_eq!(holdings.currencies[0].captured, 2500);
            assert_eq!(holdings.longest_promise, Duration::from_micros(60));
        }
    }

    #[test]
    fn what_does_not_fit_together_shows() {
        let books = books(COMPONENT.migrations.len());
        let entry =
            "insert into ledger_entries values (2, 1, 9, 1, 'refund', 'merchant', 'customer', 10, 'USD', 8)";
        books.execute_batch(entry).unwrap();
        let holdings = holdings_on(&books).unwrap();
        assert_eq!((holdings.astray, holdings.are_sound()), (1, false), "no charge 9");
        let balanced: Vec<_> =
            holdings.currencies.iter().map(|it| (it.currency.code(), it.balanced)).collect();
        assert_eq!(balanced, [("EUR", true), ("USD", false)]);
    }

    #[test]
    fn rows_that_no_list_of_their_tenant_has_show() {
        for blocks in ["charge_blocks", "ledger_entry_blocks"] {
            let books = books(COMPONENT.migrations.len());
            books.execute_batch(&format!("update {blocks} set block = 1")).unwrap();
            let holdings = holdings_on(&books).unwrap();
            assert_eq!((holdings.astray, holdings.are_sound()), (1, false), "{blocks}");
        }
    }
}
