//! T1: everything an operation is, in one commit, before the first byte is sent.
//!
//! 1. The claim, the charge or the reservation on it, and the outgoing request commit together or not at all.
//! 2. A step is judged here, against the charge as it stands in this very transaction; a refusal is final and commits with
//!    the claim.
//! 3. An operation that is known already answers for itself (P21); a released one is claimed again as it was (P15).
//! 4. Events that came before the operation take effect with its claim (P28).

use std::sync::Arc;

use unavez_core::identity::{RecordId, Tenant};
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Claim, Fence, Record, State};
use unavez_core::time::Time;
use unavez_store::sqlite::{TransactionError, WriteTx, swap_in};
use unavez_store::{StoreError, Swap};
use unavez_tower::problem::Problem;

use super::check::check;
use super::note::{Happened, Hearing};
use super::settle::Heeded;
use super::{Halt, Outside};
use crate::acquirer::{Instruction, Kind, Outgoing, Payment, Subject, Unsendable};
use crate::books::charge_rows::{self, ChargeRow, NewCharge, Standing};
use crate::books::operations::{self, NewOperation, Operation, Via};
use crate::books::webhooks::{self, EventState};
use crate::books::{EventKind, OperationStanding, Places, TenantNumber, booking};
use crate::charge::request::Capture;
use crate::charge::{Charge, ChargeId, ChargeRequest, OrderId};
use crate::http::post::Stage;
use crate::http::told::{self, Past, Told};
use crate::money::Amount;
use crate::request_id::RequestId;
use crate::settings::SameOrder;

/// What a request wants done.
#[derive(Debug)]
pub(crate) enum Task {
    /// A new charge; its request is composed already, which showed that it can be.
    Payment { request: ChargeRequest, tenant: TenantNumber, outgoing: Outgoing },
    /// A step in the life of a charge.
    Step(Step),
}

/// A step in the life of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// `None`: an id that cannot be a charge's.
    pub(crate) charge: Option<ChargeId>,
    /// `None`: all there is.
    pub(crate) amount: Option<Amount>,
}

/// T1 of one request, owned: it outlives a caller that leaves.
pub(crate) struct Begin {
    pub(crate) entry: Entry,
    pub(crate) claiming: Claiming,
    pub(crate) stage: Arc<Stage>,
}

/// Which operation is claimed, and what for.
#[derive(Clone)]
pub(crate) struct Claiming {
    pub(crate) outside: Arc<Outside>,
    pub(crate) id: RecordId,
    pub(crate) task: Arc<Task>,
    /// Encoded.
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) request_id: RequestId,
}

/// How the record is to be entered.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A first attempt, over nothing or over what stands there expired.
    Claim(Option<Fence>, Claim),
    /// Another attempt, naming the fence that was read before asking.
    TakeOver(Fence, Change),
}

/// What T1 came to.
#[derive(Debug)]
pub(crate) enum Begun {
    /// To be sent: owned by this attempt.
    Sends(Box<Attempt>),
    /// Refused in the claim's own commit.
    Refused(Arc<Record>, Code),
    /// Settled in the claim's own commit by an event that came first.
    Settled(Arc<Record>),
    /// Known outside by an event that came first, and not decided.
    Pending(Box<Attempt>),
    /// A record stands there, or none does any more; nothing was written.
    Met(Option<Arc<Record>>, Time),
    /// The operation is known from before its record expired.
    Past(Box<Past>),
    /// Its caller had given up; nothing was written.
    Withdrawn,
}

/// A claimed attempt, with all that is needed to carry it out.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) record: Arc<Record>,
    pub(crate) operation: Operation,
    pub(crate) charge: Charge,
    pub(crate) outgoing: Outgoing,
    /// A charge of the same order under another key.
    pub(crate) suspected_duplicate_of: Option<ChargeId>,
}

/// Why T1 wrote nothing.
enum Stop {
    Begun(Begun),
    Halt(Halt),
}

impl<E: Into<Halt>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Halt(error.into())
    }
}

impl Begin {
    /// Runs T1. One store trip.
    pub(crate) async fn run(self) -> Result<Begun, StoreError> {
        let store = self.claiming.outside.store.clone();
        match store.transaction(move |tx| self.write(tx)).await {
            Ok(begun) | Err(TransactionError::Refused(Stop::Begun(begun))) => Ok(begun),
            Err(TransactionError::Refused(Stop::Halt(Halt(error))) | TransactionError::Store(error)) => {
                Err(error)
            }
        }
    }

    fn write(self, tx: &WriteTx<'_>) -> Result<Begun, Stop> {
        if !self.stage.begin() {
            return Err(Stop::Begun(Begun::Withdrawn));
        }
        let claiming = self.claiming;
        match self.entry {
            Entry::Claim(expected, claim) => {
                let record = claiming.enter(tx, expected, Change::Claim(claim))?;
                claiming.claim(tx, record)
            }
            Entry::TakeOver(fence, change) => {
                let record = claiming.enter(tx, Some(fence), change)?;
                claiming.take_over(tx, record)
            }
        }
    }
}

impl Claiming {
    fn enter(&self, tx: &WriteTx<'_>, expected: Option<Fence>, change: Change) -> Result<Arc<Record>, Stop> {
        match swap_in(tx, self.id, expected, change)? {
            Swap::Swapped { record, .. } => Ok(record),
            Swap::Conflict { record, now } => Err(Stop::Begun(Begun::Met(record, now))),
        }
    }

    fn take_over(&self, tx: &WriteTx<'_>, record: Arc<Record>) -> Result<Begun, Stop> {
        let operation = operations::find(tx, self.id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        operations::update(tx, operation.row, OperationStanding::Open, None, None, tx.now())?;
        self.attempt(tx, record, operation, EventKind::TakenOver, None)
    }

    fn claim(&self, tx: &WriteTx<'_>, record: Arc<Record>) -> Result<Begun, Stop> {
        if let Some(known) = operations::find(tx, self.id)? {
            return self.claim_known(tx, record, &known);
        }
        // A charge of the ledger's, from when that was the acquirer.
        if let Some(earlier) = booking::find(tx, &self.outside.places, self.id)? {
            return Err(Stop::Begun(Begun::Past(Box::new(earlier.into()))));
        }
        match &*self.task {
            Task::Payment { request, tenant, outgoing } => {
                self.claim_payment(tx, record, (request, *tenant, outgoing))
            }
            Task::Step(step) => self.claim_step(tx, record, *step),
        }
    }

    /// The operation outlived its record: it is past, or nothing was ever sent for it.
    fn claim_known(&self, tx: &WriteTx<'_>, record: Arc<Record>, known: &Operation) -> Result<Begun, Stop> {
        let standing = charge_rows::read(tx, known.charge)?;
        if known.standing != OperationStanding::Released || known.fingerprint != self.fingerprint {
            // A released one is no past; but another request under its key is another request all the same.
            return Err(Stop::Begun(Begun::Past(Box::new(Past::of(known, &standing.life.charge)))));
        }
        let outgoing = match (&*self.task, known.kind) {
            (Task::Payment { outgoing, .. }, Kind::Payment) => outgoing.clone(),
            // The amount was fixed with the first claim; whether it is still there is judged anew.
            _ => match self.set_aside(tx, &standing, known.kind, Some(known.amount))? {
                Ok((_, outgoing)) => outgoing,
                Err(problem) => return self.refuse(tx, record, &problem),
            },
        };
        operations::claim_again(tx, known.row, self.outside.acquirer.account(), &outgoing)?;
        self.opened(tx, record, None)
    }

    fn claim_payment(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        (request, tenant, outgoing): (&ChargeRequest, TenantNumber, &Outgoing),
    ) -> Result<Begun, Stop> {
        let suspected = self.outside.charge_of_order_in(tx, tenant, &request.order_id)?;
        if let (Some(first), SameOrder::Refuse) = (suspected, self.outside.same_order) {
            return self.refuse(tx, record, &already_charged(first));
        }
        let charge = NewCharge {
            operation: self.id,
            tenant,
            request,
            fingerprint: &self.fingerprint,
            request_id: self.request_id,
            suspected_duplicate_of: suspected,
        };
        let row = charge_rows::insert(tx, &self.outside.places, &charge, tx.now())?;
        self.insert(tx, row, (Kind::Payment, 1, request.amount, request.capture), outgoing)?;
        self.opened(tx, record, suspected)
    }

    fn claim_step(&self, tx: &WriteTx<'_>, record: Arc<Record>, step: Step) -> Result<Begun, Stop> {
        let Some(standing) = charge_to_step(tx, &self.outside.places, &record.tenant, step.charge)? else {
            return self.refuse(tx, record, &unknown_charge());
        };
        if standing.account.as_ref() != Some(self.outside.acquirer.account()) {
            return self.refuse(tx, record, &other_acquirer(step));
        }
        let (amount, outgoing) = match self.set_aside(tx, &standing, step.kind, step.amount)? {
            Ok(set_aside) => set_aside,
            Err(problem) => return self.refuse(tx, record, &problem),
        };
        let number = operations::next_number(tx, standing.row, step.kind)?;
        self.insert(tx, standing.row, (step.kind, number, amount, Capture::Later), &outgoing)?;
        self.opened(tx, record, None)
    }

    /// Judges a step, composes its request, and sets aside what it needs; nothing is written for a refusal.
    fn set_aside(
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

    fn compose(
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

    fn insert(
        &self,
        tx: &WriteTx<'_>,
        charge: ChargeRow,
        (kind, number, amount, capture): (Kind, u32, Amount, Capture),
        outgoing: &Outgoing,
    ) -> rusqlite::Result<()> {
        let operation = NewOperation {
            id: self.id,
            charge,
            kind,
            number,
            amount,
            capture,
            via: Via::Outside(self.outside.acquirer.account(), outgoing),
            fingerprint: &self.fingerprint,
            request_id: self.request_id,
        };
        operations::insert(tx, &operation, tx.now())
    }

    /// The operation is open. What was heard of it before counts first.
    fn opened(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        suspected: Option<ChargeId>,
    ) -> Result<Begun, Stop> {
        self.outside.unpark_in(tx, self.id)?;
        let operation = operations::find(tx, self.id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let record = tx.record(self.id)?.unwrap_or(record);
        if let State::Finished { .. } = record.state {
            return Ok(Begun::Settled(record));
        }
        if operation.standing != OperationStanding::Pending {
            return self.attempt(tx, record, operation, EventKind::Started, suspected);
        }
        let ask_after = self.outside.engine.timings().operation_timeout;
        let change = Change::MarkUnknown { cause: Cause::Pending, ask_after };
        match swap_in(tx, self.id, Some(record.fence), change)? {
            Swap::Swapped { record, .. } => {
                match self.attempt(tx, record, operation, EventKind::Started, suspected)? {
                    Begun::Sends(attempt) => Ok(Begun::Pending(attempt)),
                    other => Ok(other),
                }
            }
            Swap::Conflict { record, now } => Err(Stop::Begun(Begun::Met(record, now))),
        }
    }

    fn attempt(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        operation: Operation,
        kind: EventKind,
        suspected_duplicate_of: Option<ChargeId>,
    ) -> Result<Begun, Stop> {
        let happened = Happened {
            kind,
            record: Some(&record),
            request_id: Some(self.request_id),
            caller: Some(record.tenant.as_str()),
            detail: None,
        };
        self.outside.happened_in(tx, operation.row, tx.now(), happened)?;
        let outgoing = operations::outgoing(tx, operation.row)?;
        let charge = charge_rows::read(tx, operation.charge)?.life.charge;
        let attempt = Attempt { record, operation, charge, outgoing, suspected_duplicate_of };
        Ok(Begun::Sends(Box::new(attempt)))
    }

    /// Finishes the claim with a refusal, in its own commit.
    fn refuse(&self, tx: &WriteTx<'_>, record: Arc<Record>, problem: &Problem) -> Result<Begun, Stop> {
        let finish = self.outside.finish(&record, Told::refusal(problem, self.request_id));
        match swap_in(tx, self.id, Some(record.fence), Change::Finish(finish))? {
            Swap::Swapped { record, .. } => Ok(Begun::Refused(record, problem.code())),
            Swap::Conflict { record, now } => Err(Stop::Begun(Begun::Met(record, now))),
        }
    }
}

impl Outside {
    /// A charge of the order under another key, if that is looked for.
    fn charge_of_order_in(
        &self,
        tx: &WriteTx<'_>,
        tenant: TenantNumber,
        order_id: &OrderId,
    ) -> rusqlite::Result<Option<ChargeId>> {
        if self.same_order == SameOrder::Allow {
            return Ok(None);
        }
        let since = tx.now().minus(self.same_order_window);
        booking::charge_of_order(tx, &self.places, tenant, order_id, since)
    }

    /// Applies the events that came before their operation.
    pub(super) fn unpark_in(&self, tx: &WriteTx<'_>, id: RecordId) -> Result<Heeded, Halt> {
        let mut heeded = Heeded::Noted;
        for parked in webhooks::parked(tx, id)? {
            let Some(operation) = operations::find(tx, id)? else { break };
            let hearing = Hearing::Webhook(&parked.event);
            let heard = match check(&operation, &parked.account, &parked.report) {
                Ok(()) => self.heed_in(tx, &operation, (parked.standing, &parked.report), hearing)?,
                Err(mismatch) => {
                    self.mismatch_in(tx, &operation, tx.now(), hearing, &mismatch)?;
                    Heeded::Anomaly
                }
            };
            let state = match heard {
                Heeded::Anomaly => EventState::Anomaly,
                Heeded::Settled => {
                    heeded = Heeded::Settled;
                    EventState::Applied
                }
                Heeded::Noted => EventState::Applied,
            };
            webhooks::unpark(tx, parked.row, state)?;
        }
        Ok(heeded)
    }
}

/// The charge a step speaks of, if it is its tenant's (P4).
pub(crate) fn charge_to_step(
    tx: &WriteTx<'_>,
    places: &Places,
    tenant: &Tenant,
    charge: Option<ChargeId>,
) -> rusqlite::Result<Option<Standing>> {
    let Some(charge) = charge else { return Ok(None) };
    let Some(row) = charge_rows::row_of(tx, places, charge.operation_id().record_id())? else {
        return Ok(None);
    };
    let standing = charge_rows::read(tx, row)?;
    Ok(Some(standing).filter(|standing| standing.tenant == *tenant))
}

/// 404, final: judged after the claim.
pub(crate) fn unknown_charge() -> Problem {
    Problem::new(Code::NotFound).with_detail("no charge has this id")
}

/// 409: a step goes where its charge went.
pub(crate) fn other_acquirer(step: Step) -> Problem {
    Problem::new(Code::InvalidState).with_detail(format!(
        "the charge was made with another acquirer, a {} has to go to the same",
        step.kind.as_str()
    ))
}

/// 409: the order has a charge already.
pub(crate) fn already_charged(first: ChargeId) -> Problem {
    Problem::new(Code::OrderAlreadyCharged)
        .with_detail("the order has a charge under another key")
        .with_member("order_id")
        .with_resource(first.to_string())
}

/// 400: the acquirer cannot do that at all.
fn unsendable_problem(unsendable: &Unsendable) -> Problem {
    Problem::new(Code::Validation).with_detail(&*unsendable.detail).with_member(unsendable.member)
}
