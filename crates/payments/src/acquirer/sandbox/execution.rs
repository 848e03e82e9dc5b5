//! What was executed: rows, and the rules by which a request becomes one.
//!
//! 1. A request whose id is remembered gets the first answer, or a refusal if it asks for something else. How long an
//!    id is remembered is the sandbox's setting.
//! 2. A step the payment's state does not allow is declined, and that is bound to its id like a success.
//! 3. All of it runs inside the one writer's transaction: refunds that arrive together meet the sum of those before.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::time::Time;

use super::request::{Payment, Request, Step, StepKind};
use super::{Dedupe, Token};
use crate::acquirer::{Kind, Standing};
use crate::books::rows::{amount, currency, time, word};
use crate::charge::OrderId;
use crate::money::{Amount, Currency};

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    /// Order of execution.
    pub(super) number: i64,
    pub(super) operation: OperationId,
    pub(super) tenant: Tenant,
    pub(super) what: What,
    pub(super) amount: Amount,
    pub(super) currency: Currency,
    /// `None`: approved.
    pub(super) declined: Option<Box<str>>,
    pub(super) created_at: Time,
    pub(super) decided_at: Time,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Payment { order_id: OrderId, token: Token, captures_at_once: bool, sums: Sums },
    Step { kind: Kind, payment: OperationId, payment_number: i64 },
}

/// What steps have made of a payment, in minor units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) captured: i64,
    pub(super) refunded: i64,
    pub(super) voided: bool,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Executed {
    /// It was executed just now.
    New(Execution),
    /// It was executed before: this is the first answer.
    Before(Execution),
    /// Its id was used for something else.
    OtherContent,
    /// There is no such payment, so there is nothing to bind an answer to.
    NoSuchPayment,
}

/// Why a step is declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    PaymentPending,
    PaymentDeclined,
    PaymentVoided,
    AlreadyCaptured,
    NotCaptured,
    CaptureExceedsAuthorized,
    RefundExceedsCaptured,
    VoidOfPart,
}

impl Refusal {
    const fn as_str(self) -> &'static str {
        match self {
            Self::PaymentPending => "payment_pending",
            Self::PaymentDeclined => "payment_declined",
            Self::PaymentVoided => "payment_voided",
            Self::AlreadyCaptured => "already_captured",
            Self::NotCaptured => "not_captured",
            Self::CaptureExceedsAuthorized => "capture_exceeds_authorized",
            Self::RefundExceedsCaptured => "refund_exceeds_captured",
            Self::VoidOfPart => "void_of_part",
        }
    }
}

impl Execution {
    pub(super) const fn kind(&self) -> Kind {
        match self.what {
            What::Payment { .. } => Kind::Payment,
            What::Step { kind, .. } => kind,
        }
    }

    /// How it stands at that time.
    pub(super) fn standing(&self, now: Time) -> Standing {
        match &self.declined {
            _ if now < self.decided_at => Standing::Pending,
            None => Standing::Done,
            Some(_) => Standing::Declined,
        }
    }

    /// Whether a request asks for exactly this.
    fn is_of(&self, request: &Request) -> bool {
        match (request, &self.what) {
            (Request::Payment(asked), What::Payment { order_id, token, captures_at_once, .. }) => {
                (&asked.tenant, asked.amount, asked.currency) == (&self.tenant, self.amount, self.currency)
                    && (&asked.order_id, &asked.token, &asked.captures_at_once)
                        == (order_id, token, captures_at_once)
            }
            (Request::Step(asked), What::Step { kind, payment, .. }) => {
                (asked.kind.kind(), asked.payment, asked.amount) == (*kind, *payment, self.amount)
            }
            _ => false,
        }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind = word(row, 2, "kind", Kind::parse)?;
        let what = match kind {
            Kind::Payment => What::Payment {
                order_id: word(row, 6, "order id", |text| OrderId::parse(text).ok())?,
                token: word(row, 7, "payment method", Token::parse)?,
                captures_at_once: row.get(8)?,
                sums: Sums { captured: row.get(15)?, refunded: row.get(16)?, voided: row.get(17)? },
            },
            _ => What::Step { kind, payment: operation(row, 5)?, payment_number: row.get(4)? },
        };
        Ok(Self {
            number: row.get(0)?,
            operation: operation(row, 1)?,
            tenant: word(row, 3, "tenant", |text| Tenant::parse(text).ok())?,
            what,
            amount: amount(row, 9)?,
            currency: currency(row, 10)?,
            declined: row.get(12)?,
            created_at: time(row, 13)?,
            decided_at: time(row, 14)?,
        })
    }

    fn insert(mut self, db: &Connection) -> rusqlite::Result<Self> {
        let (payment, order_id, token, captures_at_once, captured) = match &self.what {
            What::Payment { order_id, token, captures_at_once, sums } => (
                None,
                Some(order_id.as_str()),
                Some(token.to_string()),
                Some(*captures_at_once),
                sums.captured,
            ),
            What::Step { payment_number, .. } => (Some(*payment_number), None, None, None, 0),
        };
        db.prepare_cached(include_str!("sql/insert_execution.sql"))?.execute(params![
            self.operation.record_id().as_bytes(),
            self.kind().as_str(),
            self.tenant.as_str(),
            payment,
            order_id,
            token,
            captures_at_once,
            self.amount.minor_units(),
            self.currency.code(),
            if self.declined.is_none() { "approved" } else { "declined" },
            self.declined,
            self.created_at.as_micros(),
            self.decided_at.as_micros(),
            captured,
        ])?;
        self.number = db.last_insert_rowid();
        Ok(self)
    }
}

fn operation(row: &Row<'_>, column: usize) -> rusqlite::Result<OperationId> {
    Ok(RecordId::from_bytes(row.get(column)?).operation_id())
}

/// Executes a request, or finds what it was answered before.
pub(super) fn execute(
    db: &Connection,
    request: &Request,
    dedupe: Dedupe,
    now: Time,
) -> rusqlite::Result<Executed> {
    if let Some(forgotten_until) = dedupe.forgotten_until(now)
        && let Some(before) = first_answer(db, request.operation(), forgotten_until)?
    {
        let is_same = before.is_of(request);
        return Ok(if is_same { Executed::Before(before) } else { Executed::OtherContent });
    }
    match request {
        Request::Payment(payment) => pay(db, payment, now).map(Executed::New),
        Request::Step(step) => match find(db, step.payment, now)? {
            Some(payment @ Execution { what: What::Payment { sums, .. }, .. }) => {
                take(db, step, &payment, sums, now).map(Executed::New)
            }
            _ => Ok(Executed::NoSuchPayment),
        },
    }
}

fn first_answer(
    db: &Connection,
    operation: OperationId,
    forgotten_until: Time,
) -> rusqlite::Result<Option<Execution>> {
    let mut find = db.prepare_cached(include_str!("sql/first_answer.sql"))?;
    let id = operation.record_id();
    find.query_row((id.as_bytes(), forgotten_until.as_micros()), Execution::read).optional()
}

/// The operation as it was executed by some time.
pub(super) fn find(
    db: &Connection,
    operation: OperationId,
    executed_by: Time,
) -> rusqlite::Result<Option<Execution>> {
    let mut find = db.prepare_cached(include_str!("sql/find_operation.sql"))?;
    let id = operation.record_id();
    find.query_row((id.as_bytes(), executed_by.as_micros()), Execution::read).optional()
}

fn pay(db: &Connection, payment: &Payment, now: Time) -> rusqlite::Result<Execution> {
    let approved = payment.token.approves();
    let captured = if approved && payment.captures_at_once { payment.amount.minor_units() } else { 0 };
    let execution = Execution {
        number: 0,
        operation: payment.operation,
        tenant: payment.tenant.clone(),
        what: What::Payment {
            order_id: payment.order_id.clone(),
            token: payment.token,
            captures_at_once: payment.captures_at_once,
            sums: Sums { captured, ..Sums::default() },
        },
        amount: payment.amount,
        currency: payment.currency,
        declined: (!approved).then(|| "card_declined".into()),
        created_at: now,
        decided_at: now.plus(payment.token.decides_after()),
    };
    execution.insert(db)
}

fn take(
    db: &Connection,
    step: &Step,
    payment: &Execution,
    sums: Sums,
    now: Time,
) -> rusqlite::Result<Execution> {
    let verdict = judge(step, payment, sums, now);
    if let Ok(sums) = verdict {
        let mut update = db.prepare_cached(include_str!("sql/update_payment.sql"))?;
        update.execute((payment.number, sums.captured, sums.refunded, sums.voided))?;
    }
    let execution = Execution {
        number: 0,
        operation: step.operation,
        tenant: payment.tenant.clone(),
        what: What::Step { kind: step.kind.kind(), payment: step.payment, payment_number: payment.number },
        amount: step.amount,
        currency: payment.currency,
        declined: verdict.err().map(|refusal| refusal.as_str().into()),
        created_at: now,
        decided_at: now,
    };
    execution.insert(db)
}

/// What a step makes of its payment, or why it must not.
fn judge(step: &Step, payment: &Execution, sums: Sums, now: Time) -> Result<Sums, Refusal> {
    match payment.standing(now) {
        Standing::Pending => return Err(Refusal::PaymentPending),
        Standing::Declined => return Err(Refusal::PaymentDeclined),
        Standing::Done if sums.voided => return Err(Refusal::PaymentVoided),
        Standing::Done => {}
    }
    let asked = step.amount.minor_units();
    let authorized = payment.amount.minor_units();
    match step.kind {
        StepKind::Capture | StepKind::Void if sums.captured > 0 => Err(Refusal::AlreadyCaptured),
        StepKind::Capture if asked > authorized => Err(Refusal::CaptureExceedsAuthorized),
        StepKind::Capture => Ok(Sums { captured: asked, ..sums }),
        StepKind::Void if asked != authorized => Err(Refusal::VoidOfPart),
        StepKind::Void => Ok(Sums { voided: true, ..sums }),
        StepKind::Refund if sums.captured == 0 => Err(Refusal::NotCaptured),
        StepKind::Refund if asked > sums.captured - sums.refunded => Err(Refusal::RefundExceedsCaptured),
        StepKind::Refund => Ok(Sums { refunded: sums.refunded + asked, ..sums }),
    }
}

/// Executions from one time to another, after a row, oldest first.
pub(super) fn list(
    db: &Connection,
    since: Time,
    executed_by: Time,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<Execution>> {
    let mut list = db.prepare_cached(include_str!("sql/list_executions.sql"))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let key = (since.as_micros(), executed_by.as_micros(), after, limit);
    list.query_map(key, Execution::read)?.collect()
}

/// How often each operation was executed.
pub(super) fn counts(db: &Connection) -> rusqlite::Result<Vec<(OperationId, u64)>> {
    let mut count = db.prepare_cached(include_str!("sql/count_executions.sql"))?;
    let counted = count.query_map([], |row| {
        let executions: i64 = row.get(1)?;
        Ok((operation(row, 0)?, executions.unsigned_abs()))
    })?;
    counted.collect()
}
