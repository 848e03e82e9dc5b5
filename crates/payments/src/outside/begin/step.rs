//! T1 of a capture, void or refund: judged against the charge as it stands in this very transaction.

use std::sync::Arc;

use unavez_core::problem::Code;
use unavez_core::record::Record;
use unavez_core::time::Time;
use unavez_store::sqlite::WriteTx;
use unavez_tower::problem::Problem;

use super::{Begun, Claiming, Opened, Stop, not_now};
use crate::acquirer::{Instruction, Kind, Outgoing, Payment, Subject, Unsendable};
use crate::books::charge_rows::{self, Standing};
use crate::books::operations;
use crate::charge::OrderId;
use crate::charge::life::Step;
use crate::charge::request::Capture;
use crate::http::told;
use crate::money::Amount;

impl Claiming {
    pub(super) fn claim_step(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        step: Step,
    ) -> Result<Begun, Stop> {
        let Some(standing) = charge_rows::to_step(tx, &self.outside.places, &record.tenant, step.charge)?
        else {
            let refusal = told::unknown_charge();
            // What cannot be an id never was one.
            return match step.charge {
                Some(_) => self.refuse_step(tx, record, &refusal),
                None => self.refuse(tx, record, &refusal),
            };
        };
        if standing.account.as_ref() != Some(self.outside.acquirer.account()) {
            return Err(not_now(told::other_acquirer(step.kind)));
        }
        let (amount, outgoing) = match self.set_aside(tx, &standing, step.kind, step.amount)? {
            Ok(set_aside) => set_aside,
            Err(problem) => return self.refuse_step(tx, record, &problem),
        };
        let number = operations::next_number(tx, standing.row, step.kind)?;
        let Standing { row, tenant_number, life, reference, .. } = standing;
        let work = (step.kind, number, amount, Capture::Later);
        let whose = (&*record, tenant_number);
        let operation = self.insert(tx, whose, (row, &life.charge, reference), work, &outgoing)?;
        self.opened(tx, record, Opened { operation, charge: life.charge, outgoing })
    }

    /// Judges a step, composes its request, and sets aside what it needs; nothing is written for a refusal.
    pub(super) fn set_aside(
        &self,
        tx: &WriteTx<'_>,
        standing: &Standing,
        kind: Kind,
        asked: Option<Amount>,
    ) -> rusqlite::Result<Result<(Amount, Outgoing), Problem>> {
        let amount = match standing.life.admit(kind, asked) {
            Ok(amount) => amount,
            Err(illegal) => return Ok(Err(told::illegal_step(illegal, standing.life.charge.id))),
        };
        let outgoing = match self.compose(standing, kind, amount, tx.now()) {
            Ok(outgoing) => outgoing,
            Err(unsendable) => return Ok(Err(unsendable_problem(&unsendable))),
        };
        let mut life = standing.life.clone();
        life.reserve(kind, amount);
        charge_rows::update(tx, standing.row, &life)?;
        Ok(Ok((amount, outgoing)))
    }

    pub(super) fn compose(
        &self,
        standing: &Standing,
        kind: Kind,
        amount: Amount,
        now: Time,
    ) -> Result<Outgoing, Unsendable> {
        let charge = &standing.life.charge;
        let order_id = OrderId::parse(&charge.order_id)
            .map_err(|why| Unsendable { member: "order_id", detail: why.into() })?;
        let subject = Subject {
            operation_id: self.id.operation_id(),
            kind,
            tenant: standing.tenant.clone(),
            amount,
            currency: charge.currency,
            payment: Some(Payment {
                operation_id: charge.id.operation_id(),
                reference: standing.reference.clone(),
            }),
            claimed_at: now,
        };
        self.outside.acquirer.compose(&Instruction {
            subject,
            order_id,
            payment_method: None,
            captures_at_once: false,
            metadata: charge.metadata.clone(),
        })
    }

    /// Refuses a step by what the books say of its charge; for good only where they cannot have forgotten anything.
    pub(super) fn refuse_step(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        problem: &Problem,
    ) -> Result<Begun, Stop> {
        match self.outside.asks_first_until(tx.now()) {
            Some(until) => Err(not_now(told::asks_first(problem.code(), until))),
            None => self.refuse(tx, record, problem),
        }
    }
}

/// 400: the acquirer cannot do that at all.
fn unsendable_problem(unsendable: &Unsendable) -> Problem {
    Problem::new(Code::Validation).with_detail(&*unsendable.detail).with_member(unsendable.member)
}
