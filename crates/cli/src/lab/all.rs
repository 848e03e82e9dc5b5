//! `unavez lab all`.

use clap::Args;
use unavez_lab::progress::Bar;
use unavez_lab::{accept, all, breaker, day, fleet, herd, naming, report};

use super::{ReportArgs, tell, verdict};
use crate::exit::{Exit, Failure};
use crate::number;
use crate::output::Output;

/// Flags of `unavez lab all`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez lab all --report lab.html
  unavez lab all --report clase.html --lang es
  unavez lab all --orders 200 --operations 20000 --clients 200

Every measurement, one after the other, and on one page: with its chart, with the table from each
rule to its tests, and with the seeds and commands that repeat it. Takes a minute or so. Exit 1 if
any of them came out wrong, 130 if Ctrl-C or SIGTERM ended it.")]
pub(crate) struct AllArgs {
    /// Draws the fleet's orders, the day's hours, and what herd and breaker meet
    #[arg(long, value_name = "N", default_value = "42", value_parser = number::within(0..=u64::MAX))]
    seed: u64,

    /// How many orders the fleet has
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number::within(0..=10_000_000_u32))]
    orders: u32,

    /// Operations of the day
    #[arg(long, value_name = "N", default_value = "100000", value_parser = number::within(0..=100_000_000_u32))]
    operations: u32,

    /// Callers of the herd
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number::within(1..=20_000_u32))]
    clients: u32,

    #[command(flatten)]
    pub(super) report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

pub(super) async fn measure(args: &AllArgs) -> Result<Exit, Failure> {
    let lang = args.report.lang();
    let executable = std::env::current_exe().ok();
    let options = all::Options {
        fleet: fleet::Options { seed: args.seed, orders: args.orders, ..fleet::Options::default() },
        accept: accept::Options { executable: executable.clone(), ..accept::Options::default() },
        keys: naming::Options { executable },
        day: day::Options { seed: args.seed, operations: args.operations, ..day::Options::default() },
        herd: herd::Options { seed: args.seed, clients: args.clients, ..herd::Options::default() },
        breaker: breaker::Options { seed: args.seed, ..breaker::Options::default() },
        ..all::Options::default()
    };
    let measured = all::run(&options, &Bar::new(lang)).await;
    let everything = measured.map_err(|error| args.report.failure(&error))?;
    tell(args.output, &everything, || everything.render(&options, lang))?;
    args.report.write_page(|lang| report::all(&options, &everything, lang))?;
    Ok(verdict(everything.passed()))
}
