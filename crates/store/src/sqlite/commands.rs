//! What callers ask of the writer: each command runs inside a batch's transaction and is answered after its commit.

use tokio::sync::oneshot;
use unavez_core::identity::{AttemptId, RecordId};
use unavez_core::record::{Change, Claim, Fence, Finish, IllegalTransition, Next, Record};
use unavez_core::time::Time;

use super::error::{needs_reopening, unavailable};
use super::tx::{Place, Undone, WriteTx, swap_in};
use super::{Abort, OneCommit, SwapInError, TransactionError};
use crate::{StoreError, Swap};

/// One command of a batch.
pub(super) trait Command: Send {
    /// Whether its caller has left: it is not begun then (P12).
    fn is_withdrawn(&self) -> bool;

    /// Runs inside the batch's transaction and keeps its result until [`Command::answer`].
    fn run(&mut self, tx: &WriteTx<'_>, isolation: Isolation) -> Ran;

    /// Whether its work can be repeated. Such commands run first in a batch, so that it can fall without harm.
    fn is_repeatable(&self) -> bool;

    /// Whether it can run again after the batch was rolled back beneath it.
    fn can_run_again(&self) -> bool;

    /// Gives the caller the result, or why it does not count: even a refusal counts only with its batch, since it may
    /// rest on rows that the batch was to write.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

/// How a command's work is kept apart from the rest of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Not at all: work that refuses after it has written lets the batch fall, which then runs again with savepoints.
    /// Most work never does that, and a savepoint copies every page that is written in it.
    Bare,
    /// Each by a savepoint of its own.
    Savepoints,
}

/// What a command did to its transaction.
pub(super) enum Ran {
    /// There is something to commit.
    Wrote,
    /// It only read, or undid all it wrote.
    Nothing,
    /// The library refused a statement, which alone is undone.
    Failed(rusqlite::Error),
    /// It refused after it had written, and nothing of that was undone.
    Tainted,
}

/// A change of one record. It needs no savepoint: a failure after its first statement lets the batch fall.
pub(super) struct SwapCommand {
    pub(super) id: RecordId,
    pub(super) expected: Option<Fence>,
    pub(super) change: Change,
    pub(super) outcome: Option<Result<Swap, StoreError>>,
    pub(super) reply: oneshot::Sender<Result<Swap, StoreError>>,
}

impl Command for SwapCommand {
    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, tx: &WriteTx<'_>, _: Isolation) -> Ran {
        let (outcome, ran) = match swap_in(tx, self.id, self.expected, self.change.clone()) {
            Ok(swap @ Swap::Swapped { .. }) => (Ok(swap), Ran::Wrote),
            Ok(swap) => (Ok(swap), Ran::Nothing),
            Err(SwapInError::Illegal(illegal)) => (Err(StoreError::Illegal(illegal)), Ran::Nothing),
            Err(SwapInError::Collision(id)) => (Err(StoreError::Collision(id)), Ran::Nothing),
            Err(SwapInError::Sql(error)) => (Err(unavailable(&error)), Ran::Failed(error)),
        };
        self.outcome = Some(outcome);
        ran
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let Self { outcome, reply, .. } = *self;
        // A caller that left meanwhile is not waiting any more; its change stands (P12).
        drop(reply.send(fate.and_then(|()| outcome.unwrap_or_else(never_ran))));
    }
}

/// Work of a caller in a transaction of its own.
pub(super) struct TransactionCommand<T, E, F> {
    pub(super) work: Option<F>,
    pub(super) outcome: Option<Result<T, TransactionError<E>>>,
    pub(super) reply: oneshot::Sender<Result<T, TransactionError<E>>>,
}

impl<T, E, F> Command for TransactionCommand<T, E, F>
where
    F: FnOnce(&WriteTx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: Send,
{
    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, tx: &WriteTx<'_>, _: Isolation) -> Ran {
        let Some(work) = self.work.take() else { return Ran::Nothing };
        let (outcome, ran) = ended(tx.isolated(|| work(tx)));
        self.outcome = Some(outcome);
        ran
    }

    fn is_repeatable(&self) -> bool {
        false
    }

    fn can_run_again(&self) -> bool {
        self.work.is_some()
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        send(self.reply, fate, self.outcome);
    }
}

/// Work of a caller in a transaction of its own that can run again.
pub(super) struct RepeatableCommand<T, E, F> {
    pub(super) work: F,
    pub(super) outcome: Option<Result<T, TransactionError<E>>>,
    pub(super) reply: oneshot::Sender<Result<T, TransactionError<E>>>,
}

impl<T, E, F> Command for RepeatableCommand<T, E, F>
where
    F: FnMut(&WriteTx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: Send,
{
    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, tx: &WriteTx<'_>, isolation: Isolation) -> Ran {
        let work = || (self.work)(tx);
        let done = match isolation {
            Isolation::Bare => tx.bare(work),
            Isolation::Savepoints => tx.isolated(work),
        };
        let (outcome, ran) = match done {
            Err(Undone::Not(_)) => return Ran::Tainted,
            done => ended(done),
        };
        self.outcome = Some(outcome);
        ran
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        send(self.reply, fate, self.outcome);
    }
}

/// What a caller is told of its work, once the batch is committed.
fn ended<T, E>(done: Result<T, Undone<E>>) -> (Result<T, TransactionError<E>>, Ran) {
    match done {
        Ok(done) => (Ok(done), Ran::Wrote),
        Err(Undone::Refused(refusal)) => (Err(TransactionError::Refused(refusal)), Ran::Nothing),
        Err(Undone::Panicked(message)) => (Err(TransactionError::Store(panicked(&message))), Ran::Nothing),
        Err(Undone::Sql(error)) => (Err(TransactionError::Store(unavailable(&error))), Ran::Failed(error)),
        Err(Undone::Not(_)) => unreachable!("work behind a savepoint is undone"),
    }
}

fn send<T, E>(
    reply: oneshot::Sender<Result<T, TransactionError<E>>>,
    fate: Result<(), StoreError>,
    outcome: Option<Result<T, TransactionError<E>>>,
) {
    let fate = fate.map_err(TransactionError::Store);
    let outcome = || outcome.unwrap_or_else(|| never_ran().map_err(TransactionError::Store));
    // A caller that left meanwhile is not waiting any more; its work stands (P12).
    drop(reply.send(fate.and_then(|()| outcome())));
}

/// What an effect knows about its claim.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// The record, and so the operation.
    pub id: RecordId,
    /// The claim's attempt.
    pub attempt: AttemptId,
    /// The store's time of the claim and of the finish.
    pub now: Time,
    /// Where the record will stand, and rows that are found through its index.
    pub position: i64,
}

/// Claim, effect and finish in one commit.
pub(super) struct OneCommitCommand<T, F> {
    pub(super) id: RecordId,
    pub(super) claim: Claim,
    pub(super) effect: F,
    pub(super) outcome: Option<Result<OneCommit<T>, StoreError>>,
    pub(super) reply: oneshot::Sender<Result<OneCommit<T>, StoreError>>,
}

/// Why one commit did not come about.
enum Halt<T> {
    /// The effect refused, in the caller's words.
    Refused(T),
    /// The library refused a statement, of the effect's or of ours.
    Sql(rusqlite::Error),
    Store(StoreError),
    /// It wrote before it refused, and stands in the transaction.
    Tainted,
}

impl<T> From<Abort<T>> for Halt<T> {
    fn from(abort: Abort<T>) -> Self {
        match abort {
            Abort::Refuse(refusal) => Self::Refused(refusal),
            Abort::Sql(error) => Self::Sql(error),
        }
    }
}

impl<T> From<rusqlite::Error> for Halt<T> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl<T> From<StoreError> for Halt<T> {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<T, F> OneCommitCommand<T, F>
where
    F: FnMut(&WriteTx<'_>, &Claimed) -> Result<Finish, Abort<T>>,
{
    fn perform(&mut self, tx: &WriteTx<'_>, isolation: Isolation) -> Result<OneCommit<T>, Halt<T>> {
        let now = tx.now();
        let standing = tx.record(self.id)?;
        let position = tx.next_record_position();
        let (claimed, place) = match standing {
            None => (Record::claimed(self.id, self.claim.clone(), now), Place::Free { position }),
            Some(record) => {
                check_owner(&record, &self.claim)?;
                if !record.is_expired(now) {
                    return Ok(OneCommit::Conflict { record, now });
                }
                let claim = Change::Claim(self.claim.clone());
                (kept(record.apply(claim, now))?, Place::Expired { before: record, position })
            }
        };
        let effect = &mut self.effect;
        let context = Claimed { id: self.id, attempt: claimed.fence.attempt, now, position };
        let work = || {
            let finish = effect(tx, &context)?;
            let finished = kept(claimed.applied(Change::Finish(finish), now))?;
            Ok::<_, Halt<T>>(tx.write(finished, place)?)
        };
        let done = match isolation {
            Isolation::Bare => tx.bare(work),
            Isolation::Savepoints => tx.isolated(work),
        };
        match done {
            Ok(record) => Ok(OneCommit::Finished { record, now }),
            Err(Undone::Refused(halt)) => Err(halt),
            Err(Undone::Panicked(message)) => Err(panicked(&message).into()),
            Err(Undone::Sql(error)) => Err(error.into()),
            // An I/O error is no matter of savepoints: the file is to be opened anew.
            Err(Undone::Not(Some(Halt::Sql(error)))) if needs_reopening(&error) => Err(error.into()),
            Err(Undone::Not(_)) => Err(Halt::Tainted),
        }
    }
}

impl<T, F> Command for OneCommitCommand<T, F>
where
    F: FnMut(&WriteTx<'_>, &Claimed) -> Result<Finish, Abort<T>> + Send,
    T: Send,
{
    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    fn run(&mut self, tx: &WriteTx<'_>, isolation: Isolation) -> Ran {
        let (outcome, ran) = match self.perform(tx, isolation) {
            Ok(finished @ OneCommit::Finished { .. }) => (Ok(finished), Ran::Wrote),
            Ok(other) => (Ok(other), Ran::Nothing),
            Err(Halt::Refused(refusal)) => (Ok(OneCommit::Refused(refusal)), Ran::Nothing),
            Err(Halt::Store(error)) => (Err(error), Ran::Nothing),
            Err(Halt::Tainted) => return Ran::Tainted,
            Err(Halt::Sql(error)) => {
                (Err(StoreError::RolledBack(error.to_string().into())), Ran::Failed(error))
            }
        };
        self.outcome = Some(outcome);
        ran
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn can_run_again(&self) -> bool {
        true
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let Self { outcome, reply, .. } = *self;
        drop(reply.send(fate.and_then(|()| outcome.unwrap_or_else(never_ran))));
    }
}

pub(super) fn check_owner(record: &Record, claim: &Claim) -> Result<(), StoreError> {
    if record.tenant == claim.tenant && record.key == claim.key {
        return Ok(());
    }
    Err(StoreError::Collision(record.id))
}

/// The record after a change that keeps it.
fn kept(next: Result<Next, IllegalTransition>) -> Result<Record, StoreError> {
    match next.map_err(StoreError::Illegal)? {
        Next::Keep(next) => Ok(next),
        Next::Delete => Err(unavailable("a claim or finish must keep its record")),
    }
}

/// The batch was committed without this command: it was withdrawn while its caller still listened, which the order of
/// the two checks excludes.
fn never_ran<T>() -> Result<T, StoreError> {
    Err(unavailable("the command was not run"))
}

fn panicked(message: &str) -> StoreError {
    StoreError::RolledBack(format!("the work panicked: {message}").into())
}
