//! Events that came before their operation take effect with its claim (P28).

use unavez_core::identity::RecordId;
use unavez_store::sqlite::WriteTx;

use super::check::{Mismatch, check};
use super::note::Hearing;
use super::settle::Heeded;
use super::{Halt, Outside};
use crate::books::operations::{self, Operation};
use crate::books::webhooks::{self, EventState, Parked};

impl Outside {
    /// Applies the events that came before their operation. `None`: there were none.
    pub(super) fn unpark_in(&self, tx: &WriteTx<'_>, id: RecordId) -> Result<Option<Heeded>, Halt> {
        let mut heeded = None;
        for parked in webhooks::parked(tx, id)? {
            let Some(operation) = operations::find(tx, &self.places, id)? else { break };
            let hearing = Hearing::Webhook(&parked.event);
            let heard = match fits(&operation, &parked) {
                Ok(()) => self.heed_in(tx, &operation, (parked.standing, &parked.report), hearing)?,
                Err(mismatch) => {
                    self.disagree_in(tx, &operation, hearing, &mismatch)?;
                    Heeded::Anomaly
                }
            };
            let state = match heard {
                Heeded::Anomaly => EventState::Anomaly,
                Heeded::Settled | Heeded::Noted => EventState::Applied,
            };
            heeded = heeded.filter(|it| *it == Heeded::Settled).or(Some(heard));
            webhooks::unpark(tx, parked.row, state)?;
        }
        Ok(heeded)
    }
}

/// Whether an event that came first is about its operation.
fn fits(operation: &Operation, parked: &Parked) -> Result<(), Mismatch> {
    match &parked.signer {
        Some(signer) if *signer != operation.tenant => Err(Mismatch::signer(operation, signer)),
        _ => check(operation, &parked.account, &parked.report),
    }
}
