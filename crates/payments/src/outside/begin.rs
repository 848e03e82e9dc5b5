//! T1: everything an operation is, in one commit, before the first byte is sent.
//!
//! 1. The claim, the charge or the reservation on it, and the outgoing request commit together or not at all.
//! 2. A step is judged here, against the charge as it stands in this very transaction; a refusal is final and commits with
//!    the claim.
//! 3. An operation that is known already answers for itself (P21); a released one is claimed again as it was (P15).
//! 4. Whether the order may be charged is judged in every transaction that permits a send, the first and all later ones.
//! 5. Events that came before the operation take effect with its claim (P28).

use std::sync::Arc;

use unavez_core::fingerprint::Fingerprint;
use unavez_core::identity::RecordId;
use unavez_core::problem::Code;
use unavez_core::record::{Cause, Change, Claim, Fence, Record, State};
use unavez_core::time::Time;
use unavez_store::sqlite::{TransactionError, WriteTx, swap_in};
use unavez_store::{StoreError, Swap};
use unavez_tower::problem::Problem;

use super::note::Happened;
use super::settle::Heeded;
use super::{Halt, Outside};
use crate::acquirer::{Kind, Outgoing};
use crate::books::charge_rows::{self, ChargeRow, NewCharge, Standing};
use crate::books::operations::{self, NewOperation, Operation, Via};
use crate::books::{EventKind, OperationStanding, TenantNumber, booking};
use crate::charge::life::Step;
use crate::charge::request::Capture;
use crate::charge::same_order::Permission;
use crate::charge::{Charge, ChargeId, ChargeRequest, OrderId};
use crate::crash::{self, Point};
use crate::http::post::Stage;
use crate::http::told::{self, Past, Told};
use crate::money::Amount;
use crate::request_id::RequestId;
use crate::settings::SameOrder;

mod step;

/// What a request wants done.
#[derive(Debug)]
pub(crate) enum Task {
    /// A new charge; its request is composed already, which showed that it can be.
    Payment { request: ChargeRequest, tenant: TenantNumber, outgoing: Outgoing },
    /// A step in the life of a charge.
    Step(Step),
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
    /// Known outside by an event that came first and does not fit it.
    Sighted(Arc<Record>),
    /// A record stands there, or none does any more; nothing was written.
    Met(Option<Arc<Record>>, Time),
    /// The operation is known from before its record expired.
    Past(Box<Past>),
    /// Not to be sent as things stand; nothing was written.
    NotNow(Box<Problem>),
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
    /// The amount is what the books had left: the caller named none.
    pub(crate) is_amount_resolved: bool,
    /// The order has this charge under another key. It is not sent beside it; asked about it was, after a restore.
    pub(crate) rival: Option<ChargeId>,
}

/// An operation that is open, as it is stored.
struct Opened {
    operation: Operation,
    charge: Charge,
    outgoing: Outgoing,
}

/// Why T1 wrote nothing.
enum Stop {
    Begun(Begun),
    Halt(Halt),
}

fn not_now(problem: Problem) -> Stop {
    Stop::Begun(Begun::NotNow(Box::new(problem)))
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
        match store.repeatable_transaction(move |tx| self.write(tx)).await {
            Ok(begun) | Err(TransactionError::Refused(Stop::Begun(begun))) => Ok(begun),
            Err(TransactionError::Refused(Stop::Halt(Halt(error))) | TransactionError::Store(error)) => {
                Err(error)
            }
        }
    }

    fn write(&self, tx: &WriteTx<'_>) -> Result<Begun, Stop> {
        if !self.stage.begin() {
            return Err(Stop::Begun(Begun::Withdrawn));
        }
        match &self.entry {
            Entry::Claim(expected, claim) => self.claiming.claim(tx, *expected, claim),
            Entry::TakeOver(fence, change) => self.claiming.take_over(tx, *fence, change),
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

    fn take_over(&self, tx: &WriteTx<'_>, fence: Fence, change: &Change) -> Result<Begun, Stop> {
        let record = self.enter(tx, Some(fence), change.clone())?;
        let mut opened = self.read_opened(tx)?;
        if let Task::Payment { request, tenant, .. } = &*self.task {
            match self.permission(tx, *tenant, &request.order_id)? {
                Permission::Send { suspected_duplicate_of: first } => {
                    charge_rows::suspect(tx, opened.operation.charge, first)?;
                    opened.charge.suspected_duplicate_of = first;
                }
                Permission::Refuse(first) => return Err(not_now(told::not_sent_again(first))),
                Permission::Wait(first) => return Err(not_now(told::order_undecided(first))),
            }
        }
        let open = operations::Change::to(OperationStanding::Open);
        operations::update(tx, opened.operation.row, open, tx.now())?;
        self.attempt(tx, record, opened, EventKind::TakenOver).map(Begun::Sends)
    }

    /// Looks for the operation before anything is written, so that what is known already has nothing to undo.
    fn claim(&self, tx: &WriteTx<'_>, expected: Option<Fence>, claim: &Claim) -> Result<Begun, Stop> {
        let enter = || self.enter(tx, expected, Change::Claim(claim.clone()));
        if let Some(known) = operations::find(tx, &self.outside.places, self.id)? {
            let standing = charge_rows::read(tx, known.charge)?;
            if !is_free_for(&known, claim) {
                return Err(self.past(tx, Past::of(&known, &standing.life.charge))?);
            }
            return self.claim_again(tx, enter()?, &known, &standing);
        }
        // A charge of the ledger's, from when that was the acquirer.
        if let Some(earlier) = booking::find(tx, &self.outside.places, self.id)? {
            return Err(self.past(tx, earlier.into())?);
        }
        match &*self.task {
            Task::Payment { request, tenant, outgoing } => {
                self.claim_payment(tx, enter()?, (request, *tenant, outgoing))
            }
            Task::Step(step) => self.claim_step(tx, enter()?, *step),
        }
    }

    /// Whether the order may be charged now, by this operation.
    fn permission(
        &self,
        tx: &WriteTx<'_>,
        tenant: TenantNumber,
        order_id: &OrderId,
    ) -> rusqlite::Result<Permission> {
        let Outside { same_order, same_order_window, places, .. } = &*self.outside;
        let rival = match same_order {
            SameOrder::Allow => None,
            SameOrder::Warn | SameOrder::Refuse => {
                let since = tx.now().minus(*same_order_window);
                booking::rival(tx, places, (tenant, order_id), self.id, since)?
            }
        };
        Ok(Permission::of(*same_order, rival))
    }

    /// The operation is known, and answers for itself unless its record still does.
    fn past(&self, tx: &WriteTx<'_>, past: Past) -> rusqlite::Result<Stop> {
        let live = tx.record(self.id)?.filter(|record| !record.is_expired(tx.now()));
        Ok(Stop::Begun(match live {
            Some(record) => Begun::Met(Some(record), tx.now()),
            None => Begun::Past(Box::new(past)),
        }))
    }

    /// Nothing was ever sent for the operation, and its key was freed.
    fn claim_again(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        known: &Operation,
        standing: &Standing,
    ) -> Result<Begun, Stop> {
        let outgoing = match (&*self.task, known.kind) {
            (Task::Payment { outgoing, request, tenant }, Kind::Payment) => {
                match self.permission(tx, *tenant, &request.order_id)? {
                    Permission::Send { suspected_duplicate_of: first } => {
                        charge_rows::suspect(tx, standing.row, first)?;
                    }
                    Permission::Refuse(first) if self.outside.asks_first_until(tx.now()).is_some() => {
                        charge_rows::suspect(tx, standing.row, Some(first))?;
                    }
                    Permission::Refuse(first) => {
                        return self.refuse(tx, record, &told::already_charged(first));
                    }
                    Permission::Wait(first) => return Err(not_now(told::order_undecided(first))),
                }
                outgoing.clone()
            }
            // The amount was fixed with the first claim; whether it is still there is judged anew.
            _ => match self.set_aside(tx, standing, known.kind, Some(known.amount))? {
                Ok((_, outgoing)) => outgoing,
                Err(problem) => return self.refuse_step(tx, record, &problem),
            },
        };
        operations::claim_again(tx, known.row, self.outside.acquirer.account(), &outgoing)?;
        let opened = self.read_opened(tx)?;
        self.opened(tx, record, opened)
    }

    fn claim_payment(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        (request, tenant, outgoing): (&ChargeRequest, TenantNumber, &Outgoing),
    ) -> Result<Begun, Stop> {
        let suspected_duplicate_of = match self.permission(tx, tenant, &request.order_id)? {
            Permission::Send { suspected_duplicate_of } => suspected_duplicate_of,
            // It may have been executed already, and be forgotten.
            Permission::Refuse(first) if self.outside.asks_first_until(tx.now()).is_some() => Some(first),
            Permission::Refuse(first) => return self.refuse(tx, record, &told::already_charged(first)),
            Permission::Wait(first) => return Err(not_now(told::order_undecided(first))),
        };
        let new = NewCharge {
            operation: self.id,
            tenant,
            request,
            fingerprint: &self.fingerprint,
            request_id: self.request_id,
            suspected_duplicate_of,
        };
        let (row, charge) = charge_rows::insert(tx, &self.outside.places, &new, tx.now())?;
        let work = (Kind::Payment, 1, request.amount, request.capture);
        let operation = self.insert(tx, (&record, tenant), (row, &charge, None), work, outgoing)?;
        self.opened(tx, record, Opened { operation, charge, outgoing: outgoing.clone() })
    }

    /// Writes the operation, and says what was written.
    fn insert(
        &self,
        tx: &WriteTx<'_>,
        (record, tenant_number): (&Record, TenantNumber),
        (row, charge, payment_reference): (ChargeRow, &Charge, Option<Box<str>>),
        (kind, number, amount, capture): (Kind, u32, Amount, Capture),
        outgoing: &Outgoing,
    ) -> rusqlite::Result<Operation> {
        let account = self.outside.acquirer.account();
        let new = NewOperation {
            id: self.id,
            charge: row,
            kind,
            number,
            amount,
            capture,
            via: Via::Outside(account, outgoing, &self.outside.instance),
            fingerprint: &self.fingerprint,
            request_id: self.request_id,
        };
        Ok(Operation {
            row: operations::insert(tx, &new, tx.position_of_record(self.id), tx.now())?,
            id: self.id,
            tenant: record.tenant.clone(),
            tenant_number,
            charge: row,
            charge_id: charge.id,
            kind,
            number,
            amount,
            currency: charge.currency,
            capture,
            standing: OperationStanding::Open,
            account: Some(account.clone()),
            reference: None,
            decline_code: None,
            payment_reference,
            fingerprint: self.fingerprint.clone(),
            request_id: self.request_id,
            created_at: tx.now(),
        })
    }

    /// The operation is open. What was heard of it before counts first.
    fn opened(&self, tx: &WriteTx<'_>, record: Arc<Record>, opened: Opened) -> Result<Begun, Stop> {
        let Some(heeded) = self.outside.unpark_in(tx, self.id)? else {
            return self.attempt(tx, record, opened, EventKind::Started).map(Begun::Sends);
        };
        let opened = self.read_opened(tx)?;
        let record = tx.record(self.id)?.unwrap_or(record);
        if let State::Finished { .. } = record.state {
            return Ok(Begun::Settled(record));
        }
        if opened.operation.standing != OperationStanding::Pending {
            return self.attempt(tx, record, opened, EventKind::Started).map(Begun::Sends);
        }
        let ask_after = self.outside.engine.timings().operation_timeout;
        let pending = Change::MarkUnknown { cause: Cause::Pending, ask_after };
        let record = self.enter(tx, Some(record.fence), pending)?;
        let attempt = self.attempt(tx, record, opened, EventKind::Started)?;
        Ok(if heeded == Heeded::Anomaly { Begun::Sighted(attempt.record) } else { Begun::Pending(attempt) })
    }

    /// The operation as it is stored.
    fn read_opened(&self, tx: &WriteTx<'_>) -> rusqlite::Result<Opened> {
        let operation = operations::find(tx, &self.outside.places, self.id)?
            .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let charge = charge_rows::read(tx, operation.charge)?.life.charge;
        let outgoing = operations::outgoing(tx, operation.row)?;
        Ok(Opened { operation, charge, outgoing })
    }

    fn attempt(
        &self,
        tx: &WriteTx<'_>,
        record: Arc<Record>,
        opened: Opened,
        kind: EventKind,
    ) -> Result<Box<Attempt>, Stop> {
        let Opened { operation, charge, outgoing } = opened;
        // The operation's row tells of the request that made it.
        if kind != EventKind::Started || operation.request_id != self.request_id {
            let happened = Happened {
                kind,
                record: Some(&record),
                request_id: Some(self.request_id),
                caller: Some(record.tenant.as_str()),
                detail: None,
            };
            self.outside.happened_in(tx, operation.row, tx.now(), happened)?;
        }
        crash::reached(Point::DuringClaim);
        let is_amount_resolved = matches!(&*self.task, Task::Step(Step { amount: None, .. }));
        let rival = charge
            .suspected_duplicate_of
            .filter(|_| self.outside.same_order == SameOrder::Refuse && operation.kind == Kind::Payment);
        Ok(Box::new(Attempt { record, operation, charge, outgoing, is_amount_resolved, rival }))
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

/// Whether a known operation can be claimed anew: nothing was ever sent for it, and it is the same request. Another one
/// under its key is another request all the same.
fn is_free_for(known: &Operation, claim: &Claim) -> bool {
    let is_same = Fingerprint::decode(&known.fingerprint)
        .is_ok_and(|stored| stored.comparable(&claim.fingerprint) && stored.matches(&claim.fingerprint));
    known.standing == OperationStanding::Released && is_same
}
