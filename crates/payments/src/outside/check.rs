//! Whether what was heard is about the operation that was stored (P28). Pure.

use crate::acquirer::{Account, Report};
use crate::books::Reason;
use crate::books::operations::Operation;

/// The first thing in which a report is not the stored operation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) reason: Reason,
    /// What is stored, and what was heard.
    pub(super) detail: String,
}

/// Compares a report of `account` with what was stored before anything was sent.
pub(super) fn check(operation: &Operation, account: &Account, report: &Report) -> Result<(), Mismatch> {
    let stored_account = operation.account.as_ref().map_or("ledger", Account::as_str);
    differ(Reason::Account, stored_account, account.as_str())?;
    differ(Reason::Operation, operation.id.operation_id(), report.operation_id)?;
    differ(Reason::Kind, operation.kind.as_str(), report.kind.as_str())?;
    differ(Reason::Amount, operation.amount.minor_units(), report.amount.minor_units())?;
    differ(Reason::Currency, operation.currency.code(), report.currency.code())?;
    if let Some(tenant) = &report.tenant {
        differ(Reason::Tenant, operation.tenant.as_str(), tenant.as_str())?;
    }
    if let Some(payment) = report.payment {
        differ(Reason::Parent, operation.charge_id.operation_id(), payment)?;
    }
    match (&operation.reference, &report.reference) {
        // About a final operation this is more than a mismatch, and is judged by whoever knows that.
        (Some(stored), Some(heard)) if !operation.standing.is_final() => {
            differ(Reason::SecondPayment, stored, heard)
        }
        _ => Ok(()),
    }
}

fn differ<T: PartialEq + std::fmt::Display>(reason: Reason, stored: T, heard: T) -> Result<(), Mismatch> {
    if stored == heard {
        return Ok(());
    }
    Err(Mismatch { reason, detail: format!("{} is {stored}, heard was {heard}", reason.as_str()) })
}
