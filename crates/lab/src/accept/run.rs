//! Running the tests, one after the other, each on a stage of its own.

use super::{
    Ground, Options, Outcome, PRICE, Promise, Report, Test,
    play::{Complaint, play},
    stage::{Counts, Stage},
};
use crate::{Error, Lang, Mutation, Said, keys::KeyPolicy, progress::Progress, target};

/// Makes every test that can be made here.
///
/// # Errors
///
/// Usage: a target that may move real money, or a piece taken out of a running service. Unreachable: the target, or a
/// place for private servers' files. Broken: a test that could not be made although it should.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    run_with(options, KeyPolicy::without(options.mutation), progress).await
}

/// As [`run`], by a client that makes its keys so.
pub(crate) async fn run_with(
    options: &Options,
    keys: KeyPolicy,
    progress: &dyn Progress,
) -> Result<Report, Error> {
    if let Some(remote) = &options.target {
        if let Some(mutation) = options.mutation.filter(|mutation| !mutation.is_in_the_client()) {
            return Err(target::cannot_be_broken(mutation));
        }
        target::check(remote).await?;
    }
    let mut tests = Vec::with_capacity(Promise::ALL.len());
    progress.begin(&("the tests", "las pruebas").into(), Promise::ALL.len() as u64);
    for promise in Promise::ALL {
        tests.push(test(promise, options.ground(), keys).await?);
        progress.step();
    }
    progress.end();
    Ok(Report::of(tests, options.mutation))
}

/// Makes one test on the lesson server, with or without a piece missing.
pub(crate) async fn test_on_the_lesson_server(
    promise: Promise,
    mutation: Option<Mutation>,
) -> Result<Test, Error> {
    test(promise, Ground::Lesson(mutation), KeyPolicy::without(mutation)).await
}

async fn test(promise: Promise, ground: Ground<'_>, keys: KeyPolicy) -> Result<Test, Error> {
    let what = Said::new(format!("test {}", promise.name()), format!("prueba {}", promise.name()));
    let mut stage = match Stage::set(promise, ground).await.map_err(|error| error.while_doing(&what))? {
        Ok(stage) => stage,
        Err(skip) => return Ok(Test::of(promise, Outcome::Skipped, Counts::default(), skip.into())),
    };
    let seen = play(promise, &mut stage, keys).await;
    let counts = stage.ledger().await.map_err(|error| error.while_doing(&what));
    stage.strike().await;
    let counts = counts?;
    let right = counts.charges == promise.expected_charges()
        && counts.dollars() == promise.expected_charges() * PRICE;
    match seen {
        Ok(detail) if right => Ok(Test::of(promise, Outcome::Passed, counts, detail)),
        Ok(detail) => Ok(Test::of(promise, Outcome::Failed, counts, not_at_the_ledger(&detail))),
        Err(Complaint::Broken(complaint)) => Ok(Test::of(promise, Outcome::Failed, counts, complaint)),
        Err(Complaint::Unmade(error)) => Err(error.while_doing(&what)),
    }
}

/// The answers were as promised, and the money was not.
fn not_at_the_ledger(answers: &Said) -> Said {
    Said::new(
        format!("the answers say {}, and the ledger does not", answers.say(Lang::En)),
        format!("las respuestas dicen: {}; el libro mayor, no", answers.say(Lang::Es)),
    )
}

impl Test {
    fn of(promise: Promise, result: Outcome, counts: Counts, detail: Said) -> Self {
        Self {
            name: promise.name(),
            result,
            passed: result == Outcome::Passed,
            charges: counts.charges,
            total: counts.dollars(),
            expected_charges: promise.expected_charges(),
            detail,
        }
    }
}

impl Report {
    fn of(tests: Vec<Test>, mutation: Option<Mutation>) -> Self {
        let count = |result| tests.iter().filter(|test| test.result == result).count();
        Self {
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            skipped: count(Outcome::Skipped),
            mutation,
            tests,
        }
    }
}
