//! A person settles an operation that nothing else will (P16, "Steps with money").
//!
//! 1. The acquirer is asked first, now, and what it says is never overruled. Core decides what its answer is worth
//!    ([`by_hand`]).
//! 2. Where it does not confirm a ruling, a person who looked there may stand in for it, and has to say so
//!    ([`Witness::Operator`]).
//! 3. Ruling, record, charge and ledger are one commit, with an event that names the operator and the reason.
//! 4. A ruling is not the last word: a truth that is heard later against it is kept as a contradiction (P27). Where the
//!    acquirer was silent it is asked again, until it has spoken (`confirm`).
//! 5. What is final stays, and what the acquirer says against it when a ruling is refused for that is kept, too.

use std::fmt;
use std::sync::Arc;

use unavez_core::identity::{OperationId, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Fence, Record};
use unavez_core::recovery::Told;
pub use unavez_core::settling::{Confirmation, Refusal, Ruling};
use unavez_core::settling::{Evidence, by_hand, confirm};
use unavez_core::time::Time;
use unavez_store::sqlite::WriteTx;
use unavez_store::{Store as _, StoreError, Swap};

use super::Outside;
use super::note::{Happened, Hearing};
use super::settle::Definite;
use crate::acquirer::{Account, Answer, Reason, Report};
use crate::books::operations::{self, Operation};
use crate::books::rulings::{self, NewRuling};
use crate::books::{EventKind, OperationStanding};

/// What a declined operation says of itself where the acquirer did not decline it.
pub(crate) const SETTLED_BY_HAND: &str = "settled_by_hand";

/// Lost races against other writers of the record.
const ROUNDS_MAX: usize = 8;

/// What an operator says became of a key's operation.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// Whose key.
    pub tenant: Tenant,
    /// The key.
    pub key: Key,
    /// What became of it.
    pub ruling: Ruling,
    /// Who looked at the acquirer's books.
    pub witness: Witness,
    /// Who says so.
    pub operator: Operator,
    /// Why: kept with the operation.
    pub reason: RulingReason,
}

/// Whose word stands for the acquirer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// Its own, asked now.
    Acquirer,
    /// The operator's, who looked there by other means, where the acquirer does not answer for itself.
    Operator,
}

/// The name of an operator, for the record: 1 to 255 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator(Box<str>);

/// Why something was ruled, for the record: 1 to 1000 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulingReason(Box<str>);

/// A ruling that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// The operation.
    pub operation_id: OperationId,
    /// Where it stands now.
    pub standing: OperationStanding,
    /// What it made or changed, by the id its caller knows.
    pub resource: Box<str>,
    /// What the acquirer said when it was asked for the ruling.
    pub acquirer_said: Box<str>,
}

/// Why a ruling was not written.
#[derive(Clone, Debug)]
pub enum NotRuled {
    /// The tenant has no record of the key.
    NoRecord,
    /// The key's operation went to no acquirer: the ledger leaves nothing open.
    NothingOutside,
    /// Core's rule, and what the acquirer said.
    Refused(Refusal, Box<str>),
    /// The acquirer does not confirm the ruling, and the operator does not stand in for it.
    NotConfirmed(Box<str>),
    /// It was sent under an account that is not configured here, so nobody can be asked, and the operator does not stand
    /// in.
    OtherAccount {
        /// The stored one.
        sent_under: Account,
        /// The one that is configured.
        here: Account,
    },
    /// Something else was written to the key meanwhile.
    Overtaken,
    /// The store did not answer. May be repeated.
    Store(StoreError),
}

impl Operator {
    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        is_text(name, 255).then(|| Self(name.into()))
    }
}

impl RulingReason {
    /// Reads a reason.
    #[must_use]
    pub fn parse(reason: &str) -> Option<Self> {
        is_text(reason, 1_000).then(|| Self(reason.into()))
    }
}

fn is_text(text: &str, characters_max: usize) -> bool {
    let is_short = (1..=characters_max).contains(&text.chars().count());
    is_short && !text.trim().is_empty() && !text.chars().any(char::is_control)
}

/// What the acquirer said, and what it is worth as evidence.
struct Heard {
    answer: Answer,
    told: Told,
    asked_at: Time,
    said: Box<str>,
}

impl Outside {
    /// Asks the acquirer, and writes the ruling down if nothing speaks against it.
    pub(crate) async fn settle_by_hand(self: &Arc<Self>, order: ByHand) -> Result<Ruled, NotRuled> {
        let id = RecordId::of(self.store.realm(), &order.tenant, &order.key);
        self.record_of(id, &order).await?;
        let operation = self.operation_of(id).await?;
        let heard = Arc::new(self.hear(&operation).await);
        let order = Arc::new(order);
        // The night shift writes to open records, too. What was heard is judged anew against what it left.
        for _ in 0..ROUNDS_MAX {
            let (record, operation) = (self.record_of(id, &order).await?, self.operation_of(id).await?);
            let fence = match self.judge(&record, &operation, &order, &heard) {
                Ok(fence) => fence,
                Err(refused) => {
                    if matches!(refused, NotRuled::Refused(Refusal::Final, _)) {
                        self.heed_answer(&operation, &heard.answer).await;
                    }
                    return Err(refused);
                }
            };
            if let Some(ruled) = self.rule(fence, operation, Arc::clone(&order), Arc::clone(&heard)).await? {
                self.engine.notify(ruled.operation_id);
                said(&order, &ruled);
                return Ok(ruled);
            }
        }
        Err(NotRuled::Overtaken)
    }

    async fn record_of(&self, id: RecordId, order: &ByHand) -> Result<Arc<Record>, NotRuled> {
        let record = self.store.load(id).await?.record;
        record.filter(|it| it.tenant == order.tenant && it.key == order.key).ok_or(NotRuled::NoRecord)
    }

    async fn operation_of(&self, id: RecordId) -> Result<Operation, NotRuled> {
        let places = self.places.clone();
        let found = self.store.read(move |connection| operations::find(connection, &places, id)).await?;
        found.filter(|it| it.account.is_some()).ok_or(NotRuled::NothingOutside)
    }

    /// Asks now, and leaves an event of it as every question does.
    async fn hear(self: &Arc<Self>, operation: &Operation) -> Heard {
        let asked_at = self.now();
        let silence = |why: String| Heard {
            answer: Answer::CannotSay(Reason(why.as_str().into())),
            told: Told::CannotSay,
            asked_at,
            said: why.into(),
        };
        if operation.account.as_ref() != Some(self.acquirer.account()) {
            let sent_under = operation.account.as_ref().map_or("ledger", Account::as_str);
            return silence(format!(
                "not asked: sent under {sent_under}, here is {}",
                self.acquirer.account()
            ));
        }
        let answer = self.look_up(operation).await;
        if let Some(mismatch) = self.mismatch(operation, &answer) {
            let said = format!("does not fit this operation: {}", mismatch.detail);
            self.disagreed(operation.clone(), mismatch).await;
            return silence(said);
        }
        let (told, said) = match &answer {
            Answer::Done(_) => (Told::Done { positive: true }, "done".to_owned()),
            Answer::Declined(_) => (Told::Done { positive: false }, "declined".to_owned()),
            Answer::Pending(_) => (Told::Pending, "pending".to_owned()),
            Answer::NotFound => (Told::NotFound, "not found".to_owned()),
            Answer::Sighted(reason) | Answer::CannotSay(reason) | Answer::NotSent(reason) => {
                (Told::CannotSay, format!("no answer: {reason}"))
            }
        };
        self.asked(operation.clone(), said.as_str().into()).await;
        Heard { answer, told, asked_at, said: said.into() }
    }

    /// Whether the ruling may be written, and over which state of the record.
    fn judge(
        &self,
        record: &Record,
        operation: &Operation,
        order: &ByHand,
        heard: &Heard,
    ) -> Result<Fence, NotRuled> {
        // The operation's row may remember a sighting that came while its record was in use.
        let sighted = record.sighted || operation.standing == OperationStanding::Pending;
        let record = Record { sighted, ..record.clone() };
        let told = match (heard.told, order.ruling, order.witness) {
            (Told::CannotSay, Ruling::Failed, Witness::Operator) => Told::NotFound,
            (told, ..) => told,
        };
        let evidence = Evidence { told, asked_at: heard.asked_at };
        let (promise, timing) = (self.promise(operation.kind), self.engine.timings().attempt());
        let fence = by_hand(&record, order.ruling, evidence, &promise, timing, self.now()).map_err(
            |refusal| match (refusal, told) {
                (Refusal::ProvesNothing, Told::CannotSay) => self.not_confirmed(operation, heard),
                _ => NotRuled::Refused(refusal, heard.said.clone()),
            },
        )?;
        let is_confirmed = order.ruling == Ruling::Failed || told == (Told::Done { positive: true });
        if is_confirmed || order.witness == Witness::Operator {
            Ok(fence)
        } else {
            Err(self.not_confirmed(operation, heard))
        }
    }

    fn not_confirmed(&self, operation: &Operation, heard: &Heard) -> NotRuled {
        match &operation.account {
            Some(sent_under) if sent_under != self.acquirer.account() => NotRuled::OtherAccount {
                sent_under: sent_under.clone(),
                here: self.acquirer.account().clone(),
            },
            _ => NotRuled::NotConfirmed(heard.said.clone()),
        }
    }

    /// `None`: something else was written to the record, and nothing by this.
    async fn rule(
        self: &Arc<Self>,
        fence: Fence,
        operation: Operation,
        order: Arc<ByHand>,
        heard: Arc<Heard>,
    ) -> Result<Option<Ruled>, NotRuled> {
        let definite = match order.ruling {
            Ruling::Done => Definite::Done,
            Ruling::Failed => Definite::Declined,
        };
        let ruled = Ruled {
            operation_id: operation.id.operation_id(),
            standing: definite.standing(),
            resource: operation.resource().into(),
            acquirer_said: heard.said.clone(),
        };
        let outside = Arc::clone(self);
        let swap = self.transaction(move |tx| {
            let report = report(&operation, &heard.answer);
            let hearing = Hearing::Hand(&order.operator.0);
            let swap = outside.settle_in(tx, &operation, fence, (definite, &report), hearing)?;
            if matches!(swap, Swap::Swapped { .. }) {
                outside.witness_in(tx, &operation, &order, &heard)?;
            }
            Ok(swap)
        });
        Ok(matches!(swap.await?, Swap::Swapped { .. }).then_some(ruled))
    }

    fn witness_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        order: &ByHand,
        heard: &Heard,
    ) -> rusqlite::Result<()> {
        let now = tx.now();
        let new = NewRuling {
            operation: operation.row,
            ruling: order.ruling,
            operator: &order.operator.0,
            reason: &order.reason.0,
            confirmation: self.confirmation(operation, order.ruling, heard, now),
            ask_at: now.plus(self.ask_interval(0)),
        };
        rulings::write(tx, &new, now)?;
        let ruling = order.ruling.as_str();
        let witness = match order.witness {
            Witness::Acquirer => "",
            Witness::Operator => " (the operator stands in for the acquirer)",
        };
        let detail =
            format!("ruled {ruling}{witness}: {}; the acquirer said: {}", order.reason.0, heard.said);
        let happened = Happened {
            kind: EventKind::Operator,
            record: None,
            request_id: None,
            caller: Some(&order.operator.0),
            detail: Some(&detail),
        };
        self.happened_in(tx, operation.row, now, happened)
    }

    /// What was heard before a ruling, as a confirmation of it; `None`: silence. An answer that let the ruling pass and
    /// does not agree with it proved nothing.
    fn confirmation(
        &self,
        operation: &Operation,
        ruling: Ruling,
        heard: &Heard,
        now: Time,
    ) -> Option<Confirmation> {
        let promise = self.promise(operation.kind);
        confirm(ruling, heard.told, &promise, operation.created_at, now).map(|it| match it {
            Confirmation::Contradicts => Confirmation::ProvesNothing,
            agrees => agrees,
        })
    }
}

fn said(order: &ByHand, ruled: &Ruled) {
    tracing::info!(
        key = %order.key.log_hash(),
        operation_id = %ruled.operation_id,
        by = &*order.operator.0,
        ruling = order.ruling.as_str(),
        acquirer_said = &*ruled.acquirer_said,
        "settled by hand"
    );
}

/// The acquirer's report, or one made of what is stored where it gave none.
fn report(operation: &Operation, answer: &Answer) -> Report {
    match answer {
        Answer::Done(report) | Answer::Declined(report) => report.clone(),
        _ => Report {
            operation_id: operation.id.operation_id(),
            kind: operation.kind,
            tenant: None,
            amount: operation.amount,
            currency: operation.currency,
            payment: None,
            reference: None,
            decline_code: Some(SETTLED_BY_HAND.into()),
            next_action: None,
        },
    }
}

impl From<StoreError> for NotRuled {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for NotRuled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("the tenant has no record of this key"),
            Self::NothingOutside => {
                f.write_str("the key's operation went to no acquirer, so nothing of it is open")
            }
            Self::Refused(Refusal::Final, said) => {
                write!(
                    f,
                    "the key is settled already, and a final state stays; the acquirer says now: {said}"
                )
            }
            Self::Refused(Refusal::TooEarly(until), said) => write!(
                f,
                "an attempt may still take effect, until {}; the acquirer says now: {said}",
                crate::http::wire::rfc3339(*until)
            ),
            Self::Refused(Refusal::Contradicts, said) => write!(f, "the acquirer says otherwise: {said}"),
            Self::Refused(Refusal::Undecided, said) => write!(f, "the acquirer has not decided: {said}"),
            Self::Refused(Refusal::ProvesNothing, said) => {
                write!(f, "`failed` needs an answer that proves it, and the acquirer's does not: {said}")
            }
            Self::NotConfirmed(said) => write!(f, "the acquirer does not confirm it: {said}"),
            Self::OtherAccount { sent_under, here } => {
                write!(f, "the acquirer was not asked: it was sent under {sent_under}, and here is {here}")
            }
            Self::Overtaken => f.write_str("something else was written to the key meanwhile"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotRuled {}
