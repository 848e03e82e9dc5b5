//! Reading the fleet's charges back from the service: what its ledger took, order by order.
//!
//! Only the fleet's own orders are counted, so a service that others use at the same time can be measured too.

use std::sync::Arc;

use serde::Deserialize;
use tokio::task::JoinSet;

use super::{Intent, World, client::Named};
use crate::{
    Error,
    money::{CENTS, percent},
    wire::{Call, Route, Wire},
};

/// How many connections read at once.
const READERS: usize = 8;

/// The sums over all orders, in cents where it is money.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ledger {
    executions: u64,
    entries: u64,
    charged_twice: u64,
    not_charged: u64,
    taken: u64,
    too_much: u64,
    too_little: u64,
}

#[derive(Debug, Deserialize)]
struct Charge {
    id: String,
}

#[derive(Debug, Deserialize)]
struct Entry {
    kind: String,
    amount: u64,
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    data: Vec<T>,
    next: Option<String>,
}

/// Reads what the service holds about these orders.
pub(super) async fn read(
    orders: &Arc<[Named]>,
    route: &Route,
    bearer: Option<&str>,
) -> Result<Ledger, Error> {
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let (orders, route, bearer) = (Arc::clone(orders), route.clone(), bearer.map(str::to_owned));
        readers.spawn(async move {
            let mut books = Books { wire: Wire::new(route), bearer };
            let mut ledger = Ledger::default();
            for order in orders.iter().skip(reader).step_by(READERS) {
                ledger.add(order, &books.entries_of(order).await?);
            }
            Ok::<_, Error>(ledger)
        });
    }
    let mut all = Ledger::default();
    while let Some(read) = readers.join_next().await {
        all.merge(&read.map_err(|error| Error::broken(format!("a reader of the ledger died: {error}")))??);
    }
    Ok(all)
}

impl Ledger {
    /// Counts one order, given the amounts its charges took, charge by charge.
    fn add(&mut self, order: &Named, charges: &[Vec<u64>]) {
        let price = u64::from(order.amount) * CENTS;
        let taken: u64 = charges.iter().flatten().sum();
        self.executions += charges.len() as u64;
        self.entries += charges.iter().map(|entries| entries.len() as u64).sum::<u64>();
        self.charged_twice += u64::from(charges.len() > 1);
        self.not_charged += u64::from(charges.is_empty());
        self.taken += taken;
        self.too_much += taken.saturating_sub(price);
        self.too_little += price.saturating_sub(taken);
    }

    fn merge(&mut self, other: &Self) {
        self.executions += other.executions;
        self.entries += other.entries;
        self.charged_twice += other.charged_twice;
        self.not_charged += other.not_charged;
        self.taken += other.taken;
        self.too_much += other.too_much;
        self.too_little += other.too_little;
    }

    /// The figures, with what only the client knows: its requests, the unconfirmed, and what it could find out.
    pub(super) fn figures(
        &self,
        intent: Intent,
        requests: u64,
        unconfirmed: u64,
        found_by_key_status: u64,
    ) -> World {
        World {
            requests,
            executions: self.executions,
            ledger_charges: self.entries,
            orders_charged_twice: self.charged_twice,
            orders_not_charged: self.not_charged,
            total_charged: self.taken / CENTS,
            overcharge: self.too_much / CENTS,
            undercharge: self.too_little / CENTS,
            overcharge_percent: percent(self.too_much / CENTS, intent.total),
            unconfirmed,
            found_by_key_status,
        }
    }
}

fn reading(path: &str) -> (String, String) {
    (format!("reading {path}"), format!("al leer {path}"))
}

/// One reader's connection to the service's books.
struct Books {
    wire: Wire,
    bearer: Option<String>,
}

impl Books {
    /// The amounts the ledger took for an order, charge by charge.
    async fn entries_of(&mut self, order: &Named) -> Result<Vec<Vec<u64>>, Error> {
        let charges: Vec<Charge> = self.list(&format!("/v1/charges?order_id={}", order.order_id)).await?;
        let mut amounts = Vec::with_capacity(charges.len());
        for charge in charges {
            let entries: Vec<Entry> =
                self.list(&format!("/v1/ledger/entries?charge_id={}", charge.id)).await?;
            amounts.push(
                entries.iter().filter(|entry| entry.kind == "capture").map(|entry| entry.amount).collect(),
            );
        }
        Ok(amounts)
    }

    /// All pages of a list.
    async fn list<T: serde::de::DeserializeOwned>(&mut self, path: &str) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let mut after = String::new();
        loop {
            let page_path = format!("{path}&limit=100{after}");
            let answer = self
                .wire
                .send(&Call::get(&page_path).authorized(self.bearer.as_deref()))
                .await
                .map_err(|cut| Error::cut(reading(path), &cut))?;
            if !answer.status.is_success() {
                return Err(Error::answered(reading(path), &answer));
            }
            let page: Page<T> = answer.json()?;
            all.extend(page.data);
            match page.next {
                Some(next) => after = format!("&after={}", crate::keys::as_segment(&next)),
                None => return Ok(all),
            }
        }
    }
}
