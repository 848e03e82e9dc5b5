//! `unavez lab day`.

use std::time::Duration;

use clap::Args;
use unavez_lab::progress::Bar;
use unavez_lab::{day, report};

use super::{ReportArgs, tell, verdict};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{duration, number};

/// Flags of `unavez lab day`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez lab day --operations 100000
  unavez lab day --ttl 24h --days 3
  unavez lab day --report day.html --lang es

Two stores side by side, one that forgets answers after the TTL and one that never does, each with
a file of its own in the temporary folder; the default takes a minute or two. The same seed gives
the same rows on every machine. Exit 1 if a repeat did not get its operation's one outcome, 130 if
Ctrl-C or SIGTERM ended it; its files are removed either way.")]
pub(crate) struct DayArgs {
    /// Draws the hour of each operation
    #[arg(long, value_name = "N", default_value = "42", value_parser = number::within(0..=u64::MAX))]
    seed: u64,

    /// Operations on each day
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = number::within(0..=100_000_000_u32))]
    operations: u32,

    /// How long an answer is repeated
    #[arg(long, value_name = "DURATION", default_value = "4h", value_parser = duration::parse_positive)]
    ttl: Duration,

    /// How many days; one day shows nothing of a TTL of 24h
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::within(1..=31_u32))]
    days: u32,

    #[command(flatten)]
    pub(super) report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

pub(super) async fn measure(args: &DayArgs) -> Result<Exit, Failure> {
    let options =
        day::Options { seed: args.seed, operations: args.operations, ttl: args.ttl, days: args.days };
    let measured = day::run(&options, &Bar::new(args.report.lang())).await;
    let figures = measured.map_err(|error| args.report.failure(&error))?;
    tell(args.output, &figures, || figures.render(args.report.lang()))?;
    args.report.write(|lang| report::day(&options, &figures, lang))?;
    Ok(verdict(figures.passed()))
}
