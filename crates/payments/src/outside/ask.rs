//! Asking the acquirer what became of an operation: the recovery hook of the engine (P16).
//!
//! The engine decides what an answer is worth; here the question is put, the answer is checked against the stored rows,
//! and a result is written down together with them.

use std::sync::Arc;
use std::time::Duration;

use unavez_core::recovery::{Held, Promise};
use unavez_store::StoreError;
use unavez_store::sqlite::WriteTx;
use unavez_tower::recover::{Question, Recover, Recovered, Settlement};

use super::Outside;
use super::check::{Mismatch, check};
use super::note::{Happened, Hearing};
use super::settle::{Definite, told_unstored};
use crate::acquirer::{self, Account, Answer, Report};
use crate::books::anomalies::{NewAnomaly, Noted};
use crate::books::operations::{self, Operation};
use crate::books::{EventKind, Heard, OperationStanding, Reason, charge_rows};
use crate::charge::Charge;
use crate::crash::{self, Point};
use crate::http::post;

/// The hook of an acquirer.
pub(crate) struct Asking(pub(crate) Arc<Outside>);

impl Recover for Asking {
    async fn recover(&self, question: Question) -> Recovered {
        match self.0.find(question).await {
            Ok(Some((operation, charge))) => self.0.ask(operation, charge).await,
            // A record of another kind of route, or a store that does not answer.
            Ok(None) | Err(_) => Recovered::CannotSay,
        }
    }

    fn promise(&self) -> Promise {
        self.0.least_promise()
    }

    async fn promise_for(&self, question: Question) -> Promise {
        if let Some(promise) = self.0.only_promise() {
            return promise;
        }
        match self.0.find(question).await {
            Ok(Some((operation, _))) => self.0.promise(operation.kind),
            Ok(None) | Err(_) => self.0.least_promise(),
        }
    }
}

impl Outside {
    async fn find(&self, question: Question) -> Result<Option<(Operation, Charge)>, StoreError> {
        let (id, places) = (question.operation_id.record_id(), self.places.clone());
        let read = self.store.read(move |connection| {
            let Some(operation) = operations::find(connection, &places, id)? else { return Ok(None) };
            let charge = charge_rows::read(connection, operation.charge)?.life.charge;
            Ok(Some((operation, charge)))
        });
        tokio::time::timeout(self.engine.timings().store_timeout, read)
            .await
            .unwrap_or_else(|_| Err(StoreError::Unavailable("no answer within the store timeout".into())))
    }

    async fn ask(self: &Arc<Self>, operation: Operation, charge: Charge) -> Recovered {
        if operation.account.as_ref() != Some(self.acquirer.account()) {
            self.hold(operation, Held::OtherAccount).await;
            return Recovered::Held(Held::OtherAccount);
        }
        let answer = self.look_up(&operation).await;
        if let Some(mismatch) = self.mismatch(&operation, &answer) {
            let recovered = if mismatch.is_sighting { Recovered::Pending } else { Recovered::CannotSay };
            self.disagreed(operation, mismatch).await;
            return recovered;
        }
        match answer {
            Answer::Done(report) => self.settlement(operation, &charge, (Definite::Done, report)),
            Answer::Declined(report) => self.settlement(operation, &charge, (Definite::Declined, report)),
            Answer::Pending(report) => {
                self.written(move |outside, tx| {
                    outside.heard_in(tx, &operation, tx.now(), Hearing::Question, "pending")?;
                    outside.pend_in(tx, &operation, &report)
                })
                .await;
                Recovered::Pending
            }
            Answer::NotFound if operation.standing == OperationStanding::Pending => {
                self.hold(operation, Held::SightedBefore).await;
                Recovered::Held(Held::SightedBefore)
            }
            Answer::NotFound => {
                self.asked(operation, "not found".into()).await;
                Recovered::NotFound
            }
            Answer::Sighted(reason) | Answer::CannotSay(reason) | Answer::NotSent(reason) => {
                self.asked(operation, reason.0).await;
                Recovered::CannotSay
            }
        }
    }

    /// What of an answer does not fit the operation it was given about.
    pub(super) fn mismatch(&self, operation: &Operation, answer: &Answer) -> Option<Mismatch> {
        match answer {
            Answer::Done(report) | Answer::Declined(report) | Answer::Pending(report) => {
                check(operation, self.acquirer.account(), report).err()
            }
            Answer::Sighted(reason) => Some(Mismatch::sighted(reason)),
            Answer::NotFound | Answer::CannotSay(_) | Answer::NotSent(_) => None,
        }
    }

    pub(super) async fn disagreed(self: &Arc<Self>, operation: Operation, mismatch: Mismatch) {
        self.written(move |outside, tx| {
            outside.mismatch_in(tx, &operation, tx.now(), Hearing::Question, &mismatch)
        })
        .await;
    }

    /// Bounded here as well as by the engine, so that a question without an answer leaves its event.
    pub(super) async fn look_up(&self, operation: &Operation) -> Answer {
        let limit = self.engine.timings().outside_timeout.saturating_sub(Duration::from_millis(1));
        let subject = operation.subject();
        let late = || Answer::CannotSay(acquirer::Reason(format!("no answer within {limit:?}").into()));
        let asked = tokio::time::timeout(limit, self.acquirer.look_up(&subject)).await;
        let answer = asked.map_or_else(|_| late(), Answer::within_limits);
        self.presence.heard(self.acquirer.account(), &answer);
        answer
    }

    fn settlement(
        self: &Arc<Self>,
        operation: Operation,
        charge: &Charge,
        (definite, report): (Definite, Report),
    ) -> Recovered {
        let outside = Arc::clone(self);
        let unstored = post::first_of(&told_unstored(&operation, charge, &report));
        Recovered::Settles(Settlement::new(definite.is_positive(), unstored, move |fence| {
            Box::pin(async move {
                let desk = Arc::clone(&outside);
                let work = move |tx: &WriteTx<'_>| {
                    let swap =
                        desk.settle_in(tx, &operation, fence, (definite, &report), Hearing::Question)?;
                    crash::reached(Point::DuringRecovery);
                    Ok(swap)
                };
                outside.transaction(work).await
            })
        }))
    }

    pub(super) async fn asked(self: &Arc<Self>, operation: Operation, detail: Box<str>) {
        self.written(move |outside, tx| {
            outside.heard_in(tx, &operation, tx.now(), Hearing::Question, &detail)
        })
        .await;
    }

    /// Keeps, once, that an operation waits for a person.
    pub(crate) async fn hold(self: &Arc<Self>, operation: Operation, held: Held) {
        self.written(move |outside, tx| {
            let detail = held.as_str();
            let anomaly = NewAnomaly {
                reason: Reason::Held,
                operation: Some(operation.id),
                heard: Heard::Question,
                account: operation.account.as_ref().map(Account::as_str),
                event: None,
                detail,
                proposal: Some("look it up at the acquirer, then settle the key by hand"),
            };
            if outside.anomaly_in(tx, &anomaly, tx.now())? == Noted::Before {
                return Ok(());
            }
            let happened = Happened {
                kind: EventKind::Held,
                record: None,
                request_id: None,
                caller: None,
                detail: Some(detail),
            };
            outside.happened_in(tx, operation.row, tx.now(), happened)
        })
        .await;
    }

    /// Writes what nothing depends on: a store that fails now costs a line of the history.
    pub(super) async fn written<F>(self: &Arc<Self>, work: F)
    where
        F: Fn(&Self, &WriteTx<'_>) -> rusqlite::Result<()> + Send + 'static,
    {
        let outside = Arc::clone(self);
        if let Err(error) = self.transaction(move |tx| Ok(work(&outside, tx)?)).await {
            tracing::warn!(%error, "answer of the acquirer not written down");
        }
    }
}
