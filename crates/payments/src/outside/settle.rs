//! Writing down what became of an operation: record, charge, ledger and operation in one commit.
//!
//! Every function here runs inside the writer's transaction and reads the rows anew: what the caller knew when it asked
//! may be old.

use std::time::Duration;

use unavez_core::answer::Answer;
use unavez_core::record::{self, Fence, Finish, Record};
use unavez_core::recovery::{self, ask_interval, note};
use unavez_core::settling::{Confirmation, News, by_event};
use unavez_store::sqlite::{WriteTx, swap_in};
use unavez_store::{StoreError, Swap};

use super::check::{Mismatch, check};
use super::confirm::undoing;
use super::note::{Happened, Hearing};
use super::{Halt, Outside};
use crate::acquirer::{Report, Standing};
use crate::books::events::settled_detail;
use crate::books::operations::{self, Change, Operation};
use crate::books::webhooks::standing_word;
use crate::books::{EventKind, OperationStanding, Reason, charge_rows, ledger, rulings};
use crate::charge::Charge;
use crate::charge::life::{Ended, Life};
use crate::http::told::{self, Told};

/// What became of something that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heeded {
    /// The operation is settled now.
    Settled,
    /// It settles nothing, or nothing new.
    Noted,
    /// It does not fit what is stored.
    Anomaly,
}

/// A definite result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Definite {
    Done,
    Declined,
}

impl Definite {
    pub(super) const fn is_positive(self) -> bool {
        matches!(self, Self::Done)
    }

    pub(super) const fn standing(self) -> OperationStanding {
        match self {
            Self::Done => OperationStanding::Done,
            Self::Declined => OperationStanding::Declined,
        }
    }

    const fn ended(self) -> Ended {
        match self {
            Self::Done => Ended::Done,
            Self::Declined => Ended::Declined,
        }
    }
}

/// The operation as it is once a result is written.
pub(super) fn ended(operation: &Operation, definite: Definite, report: &Report) -> Operation {
    let mut after = operation.clone();
    after.standing = definite.standing();
    after.reference = after.reference.or_else(|| report.reference.clone());
    after.decline_code = report.decline_code.clone().filter(|_| definite == Definite::Declined);
    after
}

/// What a positive result is told as, made of rows that were read before it: for a store that does not take it (P17).
pub(super) fn told_unstored(operation: &Operation, charge: &Charge, report: &Report) -> Answer {
    let mut life = Life { charge: charge.clone(), refunding: operation.amount.minor_units(), slot: None };
    life.end(operation.kind, operation.amount, operation.capture, Ended::Done);
    Told::of(&ended(operation, Definite::Done, report), &life.charge).answer
}

/// What a pending result is told as: to its own caller, once.
pub(super) fn told_pending(operation: &Operation, charge: &Charge, report: &Report) -> Answer {
    let mut life = Life { charge: charge.clone(), refunding: 0, slot: None };
    life.pend(operation.kind, report.next_action.clone().filter(|text| is_json(text)));
    let open = Operation { standing: OperationStanding::Pending, ..operation.clone() };
    told::pending(&open, &life.charge)
}

impl Outside {
    /// Finishes the record that has this fence, and writes all that goes with it. Nothing is written on a conflict.
    pub(super) fn settle_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        fence: Fence,
        (definite, report): (Definite, &Report),
        hearing: Hearing<'_>,
    ) -> Result<Swap, Halt> {
        let now = tx.now();
        let Some(record) = tx.record(operation.id)? else { return Ok(Swap::Conflict { record: None, now }) };
        let after = ended(operation, definite, report);
        let mut life = match hearing.charge(operation) {
            Some(charge) => Life::claimed(charge.clone()),
            None => charge_rows::read(tx, operation.charge)?.life,
        };
        let entry = life.end(operation.kind, operation.amount, operation.capture, definite.ended());
        let finish = self.finish(&record, Told::of(&after, &life.charge));
        let swap = swap_in(tx, operation.id, Some(fence), record::Change::Finish(finish))?;
        let Swap::Swapped { record, .. } = &swap else { return Ok(swap) };
        let change = Change {
            standing: after.standing,
            reference: after.reference.as_deref(),
            decline_code: after.decline_code.as_deref(),
            sent_at: hearing.sent_at(),
        };
        operations::update(tx, operation.row, change, now)?;
        charge_rows::update(tx, operation.charge, &life)?;
        if let Some(kind) = entry {
            ledger::book(tx, &self.places, &operation.movement(kind), now)?;
        }
        if change.sent_at.is_some() {
            return Ok(swap);
        }
        let detail = settled_detail(after.standing, hearing.through());
        let happened = Happened {
            kind: EventKind::Settled,
            record: Some(record),
            request_id: hearing.request_id(),
            caller: Some(hearing.caller(self.acquirer.account())),
            detail: Some(&detail),
        };
        self.happened_in(tx, operation.row, now, happened)?;
        Ok(swap)
    }

    /// How a record is finished with an answer.
    pub(super) fn finish(&self, record: &Record, told: Told) -> Finish {
        Finish {
            conclusion: told.conclusion,
            answer: self.engine.seal(&record.tenant, &record.key, told.answer),
            response_ttl: self.engine.timings().response_ttl,
            resource: told.resource,
        }
    }

    /// Notes that the acquirer knows the operation and has not decided. The record is left to whoever owns it.
    pub(super) fn pend_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        report: &Report,
    ) -> rusqlite::Result<()> {
        // What asked may have been overtaken by what settled.
        if operations::at(tx, operation.row)?.standing.is_final() {
            return Ok(());
        }
        let mut standing = charge_rows::read(tx, operation.charge)?;
        standing.life.pend(operation.kind, report.next_action.clone().filter(|text| is_json(text)));
        let pending =
            Change { reference: report.reference.as_deref(), ..Change::to(OperationStanding::Pending) };
        operations::update(tx, operation.row, pending, tx.now())?;
        charge_rows::update(tx, operation.charge, &standing.life)
    }

    /// Gives back what the operation had set aside; its row and fingerprint stay (P15).
    pub(super) fn release_in(&self, tx: &WriteTx<'_>, operation: &Operation) -> rusqlite::Result<()> {
        let mut standing = charge_rows::read(tx, operation.charge)?;
        standing.life.end(operation.kind, operation.amount, operation.capture, Ended::Released);
        operations::update(tx, operation.row, Change::to(OperationStanding::Released), tx.now())?;
        charge_rows::update(tx, operation.charge, &standing.life)
    }

    /// Heeds what was heard without an owner having asked: an event, one that was parked, or an answer that came too late
    /// (P26 to P28).
    pub(super) fn heed_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        (standing, report): (Standing, &Report),
        hearing: Hearing<'_>,
    ) -> Result<Heeded, Halt> {
        let now = tx.now();
        if let Err(mismatch) = check(operation, self.acquirer.account(), report) {
            self.disagree_in(tx, operation, hearing, &mismatch)?;
            return Ok(Heeded::Anomaly);
        }
        if let Some(detail) = second_payment(operation, standing, report) {
            let proposal = "refund or void the second one at the acquirer";
            let finding = (Reason::SecondPayment, &*detail);
            self.contradiction_in(tx, operation, now, hearing, finding, proposal)?;
            return Ok(Heeded::Anomaly);
        }
        let record = tx.record(operation.id)?;
        let (news, record) = match &record {
            Some(record) => (by_event(record, in_words_of_core(standing), now), record),
            None if operation.standing.is_final() => {
                return self.heed_late_in(tx, operation, (standing, report), hearing);
            }
            None => return Err(rolled_back("an open operation has no record")),
        };
        match news {
            News::Settle(fence) => {
                let definite = if standing == Standing::Done { Definite::Done } else { Definite::Declined };
                match self.settle_in(tx, operation, fence, (definite, report), hearing)? {
                    Swap::Swapped { .. } => Ok(Heeded::Settled),
                    Swap::Conflict { .. } => Err(rolled_back("the record changed within its own batch")),
                }
            }
            News::Note(_) => {
                self.sight_in(tx, operation, report, hearing)?;
                swap_in(
                    tx,
                    operation.id,
                    Some(record.fence),
                    note(record, true, self.ask_after(record, standing)),
                )?;
                Ok(Heeded::Noted)
            }
            // A live owner's record is left alone, or its own answer would be refused; the operation's row remembers.
            News::Later => self.sight_in(tx, operation, report, hearing).map(|()| Heeded::Noted),
            News::Known => Ok(Heeded::Noted),
            News::Contradiction => self.contradict_in(tx, operation, (standing, report), hearing),
        }
    }

    /// Keeps what does not fit. A sighting is stored with the record, too, unless its owner is alive and will see it in the
    /// operation's row.
    pub(super) fn disagree_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        hearing: Hearing<'_>,
        mismatch: &Mismatch,
    ) -> Result<(), Halt> {
        let now = tx.now();
        self.mismatch_in(tx, operation, now, hearing, mismatch)?;
        let Some(record) = tx.record(operation.id)?.filter(|_| mismatch.is_sighting) else { return Ok(()) };
        if let News::Note(fence) = by_event(&record, recovery::Told::Pending, now) {
            let after = self.ask_after(&record, Standing::Pending);
            swap_in(tx, operation.id, Some(fence), note(&record, true, after))?;
        }
        Ok(())
    }

    /// Something about an operation whose record is gone: the same again, something older, or a contradiction (P27).
    fn heed_late_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        (standing, report): (Standing, &Report),
        hearing: Hearing<'_>,
    ) -> Result<Heeded, Halt> {
        match (operation.standing, standing) {
            (OperationStanding::Done, Standing::Declined) | (OperationStanding::Declined, Standing::Done) => {
                self.contradict_in(tx, operation, (standing, report), hearing)
            }
            _ => Ok(Heeded::Noted),
        }
    }

    fn contradict_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        (standing, report): (Standing, &Report),
        hearing: Hearing<'_>,
    ) -> Result<Heeded, Halt> {
        let (stored, heard) = (operation.standing.as_str(), standing_word(standing));
        let detail = format!("stored is {stored}, heard was {heard}");
        let proposal = undoing(standing, report.reference.as_deref());
        let finding = (Reason::Contradiction, &*detail);
        self.contradiction_in(tx, operation, tx.now(), hearing, finding, &proposal)?;
        rulings::confirm(tx, operation.row, Confirmation::Contradicts, tx.now())?;
        Ok(Heeded::Anomaly)
    }

    /// A sighting that settles nothing: stored, and never forgotten.
    fn sight_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        report: &Report,
        hearing: Hearing<'_>,
    ) -> Result<(), Halt> {
        self.pend_in(tx, operation, report)?;
        Ok(self.heard_in(tx, operation, tx.now(), hearing, "known and not settled by this")?)
    }

    /// A refusal that settles nothing is asked about at once: of several attempts a later one may have been approved.
    fn ask_after(&self, record: &Record, standing: Standing) -> Duration {
        match standing {
            Standing::Declined => Duration::ZERO,
            _ => ask_interval(record.asked(), self.engine.timings().operation_timeout),
        }
    }
}

/// Another execution under the same id than the one that is stored.
fn second_payment(operation: &Operation, standing: Standing, report: &Report) -> Option<String> {
    let (stored, heard) = (operation.reference.as_deref()?, report.reference.as_deref()?);
    let both_done = operation.standing == OperationStanding::Done && standing == Standing::Done;
    (both_done && stored != heard)
        .then(|| format!("executed as {stored}, heard was a second execution as {heard}"))
}

const fn in_words_of_core(standing: Standing) -> recovery::Told {
    match standing {
        Standing::Done => recovery::Told::Done { positive: true },
        Standing::Declined => recovery::Told::Done { positive: false },
        Standing::Pending => recovery::Told::Pending,
    }
}

fn rolled_back(why: &str) -> Halt {
    Halt(StoreError::RolledBack(why.into()))
}

/// An acquirer's own text goes into documents of ours only if it is a document itself.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
}
