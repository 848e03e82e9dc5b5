//! What the books may have forgotten: a restored database asks before it sends, and before it refuses.
//!
//! 1. Until the time that the restore has stored, a new claim is looked up before anything is sent for it (P16).
//! 2. Until then nothing is refused for good by what the books say of a charge: a step may be the repeat of one that took
//!    effect and is forgotten, and so may what it needs. It is told to come again, and nothing is stored. Once the charge's
//!    own request and the steps before it have been repeated, their look-ups have restored what it needs.
//! 3. Where the caller left the amount to the books, and the acquirer knows the operation, the amount is the acquirer's: the
//!    books resolved it without what they had forgotten.
//!
//! What breaks it in deployment: a key that nobody repeats. What was done under it stays unknown here; `unavez reconcile`
//! lists it.

use std::sync::Arc;

use unavez_core::time::Time;
use unavez_store::sqlite::WriteTx;

use super::begin::Attempt;
use super::check::check;
use super::ending::Course;
use super::{Halt, Outside};
use crate::acquirer::{Answer, Reason};
use crate::books::charge_rows;
use crate::books::operations::{self, Operation};
use crate::money::Amount;

/// What a question before the first send came to.
pub(super) enum First {
    /// This is no time in which it is put.
    NotAsked,
    /// The acquirer does not have it: to be sent.
    NotThere,
    /// It knows the operation, or cannot say: nothing is sent.
    Answered(Answer),
}

impl First {
    /// How an attempt comes to its ending that is not answered by the question.
    pub(super) const fn course_of_a_send(&self, asked_at: Time) -> Course {
        match self {
            Self::NotThere => Course::AskedThenSent(asked_at),
            Self::NotAsked | Self::Answered(_) => Course::Sent,
        }
    }
}

impl Outside {
    /// Until when the acquirer is asked first, while that time lasts.
    pub(super) fn asks_first_until(&self, now: Time) -> Option<Time> {
        self.ask_first_until.filter(|until| now < *until)
    }

    /// What the acquirer knows already of a new claim.
    ///
    /// A request that was on its way when the database's former owner ended may still arrive: "not found" counts only
    /// later.
    pub(super) async fn ask_first(self: &Arc<Self>, attempt: &mut Attempt) -> First {
        let asked_at = self.now();
        if attempt.record.attempts > 1 || self.asks_first_until(asked_at).is_none() {
            return First::NotAsked;
        }
        let operation = &attempt.operation;
        let settled = self.owner_since.plus(self.promise(operation.kind).visibility_delay);
        match self.look_up(operation).await {
            Answer::NotFound if asked_at > settled => First::NotThere,
            Answer::NotFound => {
                First::Answered(Answer::CannotSay(Reason("not found, which is too early to count".into())))
            }
            // A question that did not leave releases nothing: an earlier attempt may have been sent.
            Answer::NotSent(reason) => First::Answered(Answer::CannotSay(reason)),
            known => {
                self.adopt(attempt, &known).await;
                First::Answered(known)
            }
        }
    }

    /// Takes over the amount of an operation that is known there, where the caller named none.
    async fn adopt(self: &Arc<Self>, attempt: &mut Attempt, known: &Answer) {
        let (Answer::Done(report) | Answer::Declined(report) | Answer::Pending(report)) = known else {
            return;
        };
        let adopted = Operation { amount: report.amount, ..attempt.operation.clone() };
        let fits = check(&adopted, self.acquirer.account(), report).is_ok();
        if !attempt.is_amount_resolved || !fits || adopted.amount == attempt.operation.amount {
            return;
        }
        let (outside, stored, fence) = (Arc::clone(self), attempt.operation.clone(), attempt.record.fence);
        let amount = adopted.amount;
        let written = self.transaction(move |tx| {
            let is_ours = tx.record(stored.id)?.is_some_and(|record| record.fence == fence);
            if is_ours { outside.adopt_in(tx, &stored, amount) } else { Ok(false) }
        });
        match written.await {
            Ok(true) => attempt.operation = adopted,
            // It is a mismatch then, and a person looks.
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(id = %adopted.id, %error, "amount of a forgotten operation not taken over")
            }
        }
    }

    fn adopt_in(&self, tx: &WriteTx<'_>, operation: &Operation, amount: Amount) -> Result<bool, Halt> {
        let mut standing = charge_rows::read(tx, operation.charge)?;
        if !standing.life.reserve_instead(operation.kind, operation.amount, amount) {
            return Ok(false);
        }
        operations::adopt(tx, operation.row, amount)?;
        charge_rows::update(tx, operation.charge, &standing.life)?;
        Ok(true)
    }
}
