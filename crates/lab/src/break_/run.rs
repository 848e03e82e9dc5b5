//! Taking out one piece after the other.

use std::collections::BTreeMap;

use super::{Broken, Observed, Options, Report};
use crate::{
    Error, Mutation,
    accept::{self, Outcome, Promise, Test},
    progress::Progress,
};

/// Runs every test of the lesson server against every missing piece; first of all with nothing missing, since a test
/// that fails then would notice nothing.
///
/// # Errors
///
/// Broken: a test that fails with nothing missing. Otherwise as [`accept::run`].
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    let tests = |mutation| Promise::on_the_lesson_server(mutation).count() as u64;
    progress.begin(&("nothing missing", "sin que falte nada").into(), tests(None));
    let whole = failed(None, progress).await?;
    progress.end();
    if let Some(test) = whole.first() {
        let what = format!("with nothing missing, {} fails on the lesson server: {}", test.name, test.detail);
        return Err(Error::broken(what));
    }
    let mut mutations = Vec::with_capacity(options.mutations.len());
    for &mutation in &options.mutations {
        progress.begin(&(mutation.name(), mutation.name()).into(), tests(Some(mutation)));
        mutations.push(Broken::of(mutation, &failed(Some(mutation), progress).await?));
        progress.end();
    }
    Ok(Report { mutations })
}

/// The tests that fail without this piece.
async fn failed(mutation: Option<Mutation>, progress: &dyn Progress) -> Result<Vec<Test>, Error> {
    let mut failed = Vec::new();
    for promise in Promise::on_the_lesson_server(mutation) {
        let test = accept::test_on_the_lesson_server(promise, mutation).await?;
        if test.result == Outcome::Failed {
            failed.push(test);
        }
        progress.step();
    }
    Ok(failed)
}

impl Broken {
    fn of(name: Mutation, failed: &[Test]) -> Self {
        let predicted = predicted(name);
        let breaks: Vec<_> = failed.iter().map(|test| test.name).collect();
        let seen = |test: &Test| (test.name, Observed { charges: test.charges, total: test.total });
        let observed: BTreeMap<_, _> = failed.iter().map(seen).collect();
        let charged_as_predicted = predicted.iter().all(|foreseen| {
            observed.get(foreseen.test.name()).is_some_and(|seen| seen.charges == foreseen.charges)
        });
        let predicted: Vec<_> = predicted.iter().map(|foreseen| foreseen.test.name()).collect();
        Self { name, as_predicted: breaks == predicted && charged_as_predicted, predicted, breaks, observed }
    }
}

/// A test that will fail, and what it will find at the ledger.
struct Foreseen {
    test: Promise,
    charges: u64,
}

/// The prediction for each piece, in the order of the tests.
fn predicted(mutation: Mutation) -> Vec<Foreseen> {
    let fails = |test, charges| Foreseen { test, charges };
    match mutation {
        Mutation::KeyPerAttempt => vec![fails(Promise::RetriesSameKey, 3)],
        Mutation::KeyFromAmount => vec![fails(Promise::DistinctOperations, 1)],
        Mutation::CheckThenWrite => vec![fails(Promise::ConcurrentRace, 2)],
        Mutation::NoFingerprint => vec![fails(Promise::SameKeyOtherBody, 1)],
        // The late owner's charge is rolled back by its own transaction; its caller is told the wrong thing.
        Mutation::NoFence => vec![fails(Promise::LostOwner, 2), fails(Promise::LateOwner, 1)],
        // The money is right every time; the client is never told.
        Mutation::AnswerNotStored => vec![
            fails(Promise::RetriesSameKey, 1),
            fails(Promise::RepeatInProgress, 1),
            fails(Promise::AfterRestart, 1),
        ],
        // Where the line and the finish share a transaction there is no record to finish, so nothing is charged at all.
        Mutation::KeyAfterWork => vec![
            fails(Promise::ConcurrentRace, 2),
            fails(Promise::RepeatInProgress, 2),
            fails(Promise::LateOwner, 0),
        ],
        Mutation::InProgressIgnored => {
            vec![fails(Promise::ConcurrentRace, 2), fails(Promise::RepeatInProgress, 2)]
        }
        Mutation::NoLookup => vec![
            fails(Promise::OutcomeLost, 2),
            fails(Promise::ZombieReclaimedOnce, 2),
            fails(Promise::LateArrival, 2),
        ],
        Mutation::UnconditionalTakeover => {
            vec![fails(Promise::LostOwner, 2), fails(Promise::ZombieReclaimedOnce, 2)]
        }
        Mutation::OneClock => vec![fails(Promise::DeclinedIsReplayed, 2)],
        // Nobody may take the slow owner's place: the repeat is refused, and the owner's own charge commits.
        Mutation::ZombieNeverReclaimed => vec![
            fails(Promise::LostOwner, 0),
            fails(Promise::LateOwner, 1),
            fails(Promise::ZombieReclaimedOnce, 0),
        ],
        Mutation::NoVisibilityDelay => vec![fails(Promise::LateArrival, 2)],
        // The bank charged once; it is the ledger that says twice.
        Mutation::WebhookTwice => vec![fails(Promise::PendingThenWebhook, 2)],
        Mutation::NewOperationIdOnReclaim => vec![fails(Promise::ZombieReclaimedOnce, 2)],
    }
}
