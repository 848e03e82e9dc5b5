//! The list, entry by entry, against the operations here; then the operations that no entry named.

use std::collections::HashMap;

use rusqlite::Connection;
use unavez_core::identity::OperationId;
use unavez_core::time::Time;
use unavez_store::StoreError;
use unavez_store::sqlite::Viewer;

use super::{Difference, Finding, PATIENCE, Report, Source, Stretch};
use crate::acquirer::{Account, Kind, Listed, Standing};
use crate::books::reckoning::{self, Position};
use crate::books::webhooks::standing_word;
use crate::books::{OperationHistory, OperationStanding, Places, operation_on, operations_of_charge_on};
use crate::charge::ChargeId;

/// A comparison under way.
pub(super) struct Comparison<'a> {
    viewer: &'a Viewer,
    places: Places,
    source: &'a Source,
    stretch: Stretch,
    /// What was claimed later is still under way.
    settled_before: Time,
    /// The acquirer's names for what executed an operation.
    executions: HashMap<OperationId, Vec<Box<str>>>,
    /// What was paid back of a payment by refunds that carry no id.
    paid_back: HashMap<OperationId, i64>,
    compared: u64,
    without_id: u64,
    findings: Vec<Finding>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(viewer: &'a Viewer, source: &'a Source, stretch: Stretch) -> Self {
        Self {
            viewer,
            places: Places::beside(),
            source,
            settled_before: stretch.now.minus(source.visibility_delay()).minus(PATIENCE),
            stretch,
            executions: HashMap::new(),
            paid_back: HashMap::new(),
            compared: 0,
            without_id: 0,
            findings: Vec::new(),
        }
    }

    pub(super) const fn compared(&self) -> u64 {
        self.compared
    }

    /// One page. Read from the books after it came: what it names was claimed before.
    pub(super) fn take(&mut self, page: Vec<Listed>) -> Result<(), StoreError> {
        let viewer = self.viewer;
        viewer.read(|connection| {
            for entry in page {
                match entry.operation_id {
                    Some(id) => self.take_named(connection, id, entry)?,
                    None => self.take_nameless(&entry),
                }
            }
            Ok(())
        })
    }

    fn take_named(
        &mut self,
        connection: &Connection,
        id: OperationId,
        entry: Listed,
    ) -> rusqlite::Result<()> {
        self.compared += 1;
        let is_again = entry.standing == Standing::Done && self.is_known(id, &entry);
        let Some(operation) = operation_on(connection, &self.places, id)? else {
            if entry.created_at >= self.stretch.since && !is_again {
                self.findings.push(Finding::OnlyThere(entry));
            }
            return Ok(());
        };
        if is_again {
            return Ok(());
        }
        let operation = Box::new(operation);
        let differences = differences(&operation, self.source.account(), &entry);
        if !differences.is_empty() {
            self.findings.push(Finding::Differs { operation, differences, entry: Box::new(entry) });
        } else if !operation.standing.is_decided()
            && entry.standing != Standing::Pending
            && operation.created_at < self.settled_before
        {
            self.findings.push(Finding::Unsettled { operation, there: entry.standing });
        }
        Ok(())
    }

    /// Notes an execution; whether this very one was in the list before.
    fn is_known(&mut self, id: OperationId, entry: &Listed) -> bool {
        let name = entry.reference.clone().unwrap_or_default();
        let executions = self.executions.entry(id).or_default();
        if executions.contains(&name) {
            return true;
        }
        executions.push(name);
        false
    }

    fn take_nameless(&mut self, entry: &Listed) {
        match (entry.kind, entry.payment, entry.standing) {
            (Kind::Refund, Some(payment), Standing::Done) => {
                *self.paid_back.entry(payment).or_default() += entry.amount.minor_units();
            }
            _ => self.without_id += 1,
        }
    }

    /// The list is at its end: what it did not have is missing.
    pub(super) fn end(mut self, report: &mut Report) -> Result<(), StoreError> {
        self.find_doubled()?;
        self.find_missing()?;
        self.compare_refunds()?;
        report.account = Some(self.source.account().clone());
        report.compared = self.compared;
        report.without_id = self.without_id;
        report.findings.append(&mut self.findings);
        Ok(())
    }

    fn find_doubled(&mut self) -> Result<(), StoreError> {
        let doubled: Vec<(OperationId, Vec<Box<str>>)> = self
            .executions
            .iter()
            .filter(|(_, names)| names.len() > 1)
            .map(|(id, names)| (*id, names.clone()))
            .collect();
        let findings = &mut self.findings;
        self.viewer.read(|connection| {
            for (id, references) in doubled {
                if let Some(operation) = operation_on(connection, &self.places, id)? {
                    findings.push(Finding::Doubled { operation: Box::new(operation), references });
                }
            }
            Ok(())
        })
    }

    fn find_missing(&mut self) -> Result<(), StoreError> {
        let mut after = Position::default();
        let stretch = (self.stretch.since, self.settled_before);
        loop {
            let (page, last) = self.viewer.read(|connection| {
                Ok(reckoning::done_outside(connection, self.source.account(), stretch, after)?)
            })?;
            if page.is_empty() {
                return Ok(());
            }
            for id in page.into_iter().filter(|id| !self.executions.contains_key(id)) {
                let found = self.viewer.read(|connection| Ok(operation_on(connection, &self.places, id)?))?;
                let missing = found.filter(|operation| self.source.lists(operation.kind));
                self.findings.extend(missing.map(|operation| Finding::OnlyHere(Box::new(operation))));
            }
            after = last;
        }
    }

    /// Where refunds carry no ids, their sums are compared.
    fn compare_refunds(&mut self) -> Result<(), StoreError> {
        let mut sums: Vec<(OperationId, i64)> = self.paid_back.drain().collect();
        sums.sort_by_key(|(payment, _)| *payment.record_id().as_bytes());
        for (payment, there) in sums {
            let operations = self.viewer.read(|connection| {
                Ok(operations_of_charge_on(connection, &self.places, ChargeId::of(payment))?)
            })?;
            let Some(currency) = operations.first().map(|operation| operation.currency) else { continue };
            let done = operations
                .iter()
                .filter(|it| it.kind == Kind::Refund && it.standing == OperationStanding::Done);
            let here = done.map(|it| it.amount.minor_units()).sum();
            let under_way = operations.iter().any(|it| it.kind == Kind::Refund && !it.standing.is_decided());
            if here != there && !under_way {
                self.findings.push(Finding::PaidBack { payment, currency, here, there });
            }
        }
        Ok(())
    }
}

fn differences(operation: &OperationHistory, account: &Account, entry: &Listed) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut compare = |what, here: &str, there: &str| {
        if here != there {
            found.push(Difference { what, here: here.to_owned(), there: there.to_owned() });
        }
    };
    let here = operation.account.as_ref().map_or("ledger", Account::as_str);
    compare("account", here, account.as_str());
    compare("kind", operation.kind.as_str(), entry.kind.as_str());
    compare("amount", &operation.amount.minor_units().to_string(), &entry.amount.minor_units().to_string());
    compare("currency", operation.currency.code(), entry.currency.code());
    if let Some(tenant) = &entry.tenant {
        compare("tenant", operation.tenant.as_str(), tenant.as_str());
    }
    if let Some(payment) = entry.payment {
        compare("payment", &operation.charge.operation_id().to_string(), &payment.to_string());
    }
    if !agrees(operation.standing, entry.standing) {
        compare("standing", operation.standing.as_str(), standing_word(entry.standing));
    }
    found
}

/// What is not decided here is no contradiction to anything there.
const fn agrees(here: OperationStanding, there: Standing) -> bool {
    match here {
        OperationStanding::Done => matches!(there, Standing::Done),
        OperationStanding::Declined => matches!(there, Standing::Declined),
        OperationStanding::Open | OperationStanding::Unknown | OperationStanding::Pending => true,
        // Certainly nothing was sent, so there is nothing to be known there.
        OperationStanding::Released => false,
    }
}
