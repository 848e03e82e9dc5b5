//! Rulings that were made while the acquirer was silent: asked about until it has spoken.
//!
//! 1. A person who stood in for the acquirer may have been wrong. It is asked at growing intervals, at most a minute
//!    apart, and its first definite answer is kept with the ruling.
//! 2. The answer that was given stays (P27). What the acquirer says against it is kept as a contradiction, with what
//!    undoes the money.
//! 3. One answer is awaited at a time, and a silent one ends the round: the others would be as silent.

use std::sync::{Arc, Weak};
use std::time::Duration;

use unavez_core::identity::RecordId;
use unavez_core::recovery::{self, Told};
use unavez_core::settling::{Confirmation, Ruling, confirm};
use unavez_store::StoreError;
use unavez_store::sqlite::WriteTx;

use super::Outside;
use super::note::Hearing;
use crate::acquirer::{Answer, Report, Standing};
use crate::books::operations::{self, Operation};
use crate::books::rulings::{self, ByOperator};
use crate::books::{OperationStanding, Reason};

/// Between two looks for rulings that are due.
const ROUND: Duration = Duration::from_secs(1);

/// A contradiction means money in the wrong place: it is found soon after the acquirer is back.
const ASK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Rulings asked about in one round.
const BATCH: u32 = 100;

/// Asks until the service is gone.
pub(crate) async fn watch(outside: Weak<Outside>) {
    while let Some(outside) = outside.upgrade() {
        if let Err(error) = outside.confirm_rulings().await {
            tracing::warn!(%error, "rulings not confirmed");
        }
        drop(outside);
        tokio::time::sleep(ROUND).await;
    }
}

impl Outside {
    /// One round: every ruling that is due, up to the first one that is met with silence.
    pub(crate) async fn confirm_rulings(self: &Arc<Self>) -> Result<(), StoreError> {
        let (now, account) = (self.now(), self.acquirer.account().clone());
        let due = self.store.read(move |connection| rulings::to_confirm(connection, &account, now, BATCH));
        for id in due.await? {
            if !self.confirm_one(id).await? {
                break;
            }
        }
        Ok(())
    }

    /// Whether the acquirer answered.
    async fn confirm_one(self: &Arc<Self>, id: RecordId) -> Result<bool, StoreError> {
        let places = self.places.clone();
        let read = self.store.read(move |connection| {
            let Some(operation) = operations::find(connection, &places, id)? else { return Ok(None) };
            Ok(rulings::of_operation(connection, operation.row)?.map(|ruling| (operation, ruling)))
        });
        let Some((operation, ruling)) = read.await? else { return Ok(true) };
        let answer = self.look_up(&operation).await;
        let is_answered = !matches!(answer, Answer::CannotSay(_) | Answer::NotSent(_));
        let outside = Arc::clone(self);
        self.transaction(move |tx| Ok(outside.confirm_in(tx, &operation, &ruling, &answer)?)).await?;
        Ok(is_answered)
    }

    fn confirm_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        ruling: &ByOperator,
        answer: &Answer,
    ) -> rusqlite::Result<()> {
        let now = tx.now();
        if let Some(mismatch) = self.mismatch(operation, answer) {
            self.mismatch_in(tx, operation, now, Hearing::Question, &mismatch)?;
            return rulings::confirm(tx, operation.row, Confirmation::ProvesNothing, now);
        }
        let (told, said) = told(answer);
        let promise = self.promise(operation.kind);
        let Some(confirmation) = confirm(ruling.ruling, told, &promise, operation.created_at, now) else {
            return rulings::ask_again(tx, operation.row, now.plus(self.ask_interval(ruling.asked)));
        };
        self.heard_in(tx, operation, now, Hearing::Question, said)?;
        if confirmation == Confirmation::Contradicts {
            self.contradict_ruling_in(tx, operation, ruling.ruling, answer.report(), said)?;
        }
        rulings::confirm(tx, operation.row, confirmation, now)
    }

    fn contradict_ruling_in(
        &self,
        tx: &WriteTx<'_>,
        operation: &Operation,
        ruling: Ruling,
        report: Option<&Report>,
        said: &str,
    ) -> rusqlite::Result<()> {
        let standing = match ruling {
            Ruling::Failed => Standing::Done,
            Ruling::Done => Standing::Declined,
        };
        let detail = format!("stored is {}, heard was {said}", operation.standing.as_str());
        let proposal = undoing(standing, report.and_then(|it| it.reference.as_deref()));
        self.contradiction_in(
            tx,
            operation,
            tx.now(),
            Hearing::Question,
            (Reason::Contradiction, &detail),
            &proposal,
        )
    }

    /// Keeps what is heard against a final state, where a person asked about it.
    pub(super) async fn heed_answer(self: &Arc<Self>, operation: &Operation, answer: &Answer) {
        let (standing, report) = match answer {
            Answer::Done(report) if operation.standing == OperationStanding::Declined => {
                (Standing::Done, report.clone())
            }
            Answer::Declined(report) if operation.standing == OperationStanding::Done => {
                (Standing::Declined, report.clone())
            }
            _ => return,
        };
        let (outside, operation) = (Arc::clone(self), operation.clone());
        let heeded = self.transaction(move |tx| {
            outside.heed_in(tx, &operation, (standing, &report), Hearing::Question).map(drop)
        });
        if let Err(error) = heeded.await {
            tracing::warn!(%error, "answer of the acquirer not written down");
        }
    }

    /// How long after so many questions in vain the next one is put.
    pub(super) fn ask_interval(&self, asked: u32) -> Duration {
        recovery::ask_interval(asked, self.engine.timings().operation_timeout).min(ASK_INTERVAL_MAX)
    }
}

/// What undoes the money of an operation whose caller was told the opposite of what the acquirer says.
pub(super) fn undoing(there: Standing, reference: Option<&str>) -> String {
    let named = reference.map_or(String::new(), |reference| format!(" as {reference}"));
    match there {
        Standing::Done => format!(
            "void or refund it at the acquirer, where it stands{named}: its caller was told that it was declined, so a \
             refund here is refused"
        ),
        Standing::Declined | Standing::Pending => {
            "look it up at the acquirer: its caller was told that it took effect".to_owned()
        }
    }
}

const fn told(answer: &Answer) -> (Told, &'static str) {
    match answer {
        Answer::Done(_) => (Told::Done { positive: true }, "done"),
        Answer::Declined(_) => (Told::Done { positive: false }, "declined"),
        Answer::Pending(_) => (Told::Pending, "pending"),
        Answer::NotFound => (Told::NotFound, "not found"),
        Answer::Sighted(_) | Answer::CannotSay(_) | Answer::NotSent(_) => (Told::CannotSay, "no answer"),
    }
}
