//! Running a day: two stores side by side, and the service for the repeats.

use unavez_core::timing::Timings;

use super::{
    Figures, Options, repeat,
    rhythm::{self, Steps},
    world::{Day, Memory},
};
use crate::{Error, progress::Progress};

/// Measures what the options ask for.
///
/// # Errors
///
/// Usage: a TTL that no service takes, no days. Unreachable: no place for the files. Broken: a store that does what it
/// should not.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Figures, Error> {
    let Options { seed, operations, ttl, days } = *options;
    check(options)?;
    let hours = rhythm::hours(seed, operations, days);
    let steps = Steps::of(operations);
    let total: u64 = hours.iter().copied().map(u64::from).sum();
    progress.begin(&("a day, twice", "un día, dos veces").into(), total * 2);
    // Side by side: each has a writer thread, and most machines a processor for each.
    let (forgets, remembers) = (Day::begin(Memory::Until(ttl)).await?, Day::begin(Memory::ForEver).await?);
    let (with, without) =
        tokio::try_join!(forgets.live(&hours, steps, progress), remembers.live(&hours, steps, progress))?;
    progress.end();
    let repeats = repeat::ask(ttl).await?;
    Ok(Figures {
        seed,
        operations,
        days,
        response_ttl: ttl,
        operations_by_hour: hours,
        ttl: with,
        no_ttl: without,
        repeat_within_ttl: repeats.within_ttl,
        repeat_after_ttl: repeats.after_ttl,
        other_body_after_ttl: repeats.other_body_after_ttl,
    })
}

fn check(options: &Options) -> Result<(), Error> {
    if options.days == 0 {
        return Err(Error::usage(("days is 0; there must be one", "days es 0; tiene que haber uno")));
    }
    let timings = Timings { response_ttl: options.ttl, ..Timings::default() };
    timings.check().map_err(|contradiction| {
        Error::usage((format!("ttl: {contradiction}"), format!("ttl: {contradiction}")))
    })
}
