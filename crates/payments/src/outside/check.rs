//! Whether what was heard is about the operation that was stored (P28), and what it shows if it is not. Pure.

use unavez_core::identity::Tenant;

use crate::acquirer::{Account, Reason as Reported, Report};
use crate::books::Reason;
use crate::books::operations::Operation;

/// The first thing in which a report is not the stored operation's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) reason: Reason,
    /// What is stored, and what was heard.
    pub(super) detail: String,
    /// Whether it shows all the same that the acquirer knows the operation: a sighting, after which nothing is sent (P16).
    pub(super) is_sighting: bool,
}

impl Mismatch {
    /// The acquirer knows the operation, and what it says of it cannot be believed.
    pub(super) fn sighted(why: &Reported) -> Self {
        Self { reason: Reason::Operation, detail: why.to_string(), is_sighting: true }
    }

    /// An event that another tenant's secret has signed. Whoever holds that secret could have made it, and must not
    /// disturb this tenant's operation (P4): it shows nothing.
    pub(super) fn signer(operation: &Operation, signer: &Tenant) -> Self {
        let detail = format!(
            "signed with the secret of {}, the operation is of {}",
            signer.as_str(),
            operation.tenant.as_str()
        );
        Self { reason: Reason::Tenant, detail, is_sighting: false }
    }
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
    Err(Mismatch {
        reason,
        detail: format!("{} is {stored}, heard was {heard}", reason.as_str()),
        is_sighting: !matches!(reason, Reason::Account | Reason::Operation),
    })
}
