//! `unavez lab herd`.

use std::time::Duration;

use clap::Args;
use unavez_lab::progress::Bar;
use unavez_lab::{fleet, herd, report};

use super::{ReportArgs, tell, verdict};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{duration, number};

/// Flags of `unavez lab herd`.
#[derive(Args, Debug)]
#[command(after_help = "\
Faults, from the first second on, for as long as --outage says:
  outage    connections are refused, and answers under way are lost
  silence   requests are executed, answers do not come back
  overload  the server is twenty times slower

Examples:
  unavez lab herd
  unavez lab herd --fault silence --report herd.html
  unavez lab herd --clients 5000 --outage 2m --workers 32
  unavez lab herd --format json | jq '.strategies[] | {name, peak_per_100ms}'

All callers place their order within one second and repeat until they have an answer: at once,
after a fixed wait, after exponential waits, with full jitter, and with a budget or a breaker on
top. Each is run against a server that remembers and one that does not. A simulation in virtual
time, in which core's own rules decide and the product's store remembers: the same seed gives the
same figures on every machine. Whoever has no answer three minutes after the outage counts as never
served. Exit 1 if the engine let an order be charged twice, 130 if Ctrl-C or SIGTERM ended it.")]
pub(crate) struct HerdArgs {
    /// Draws when orders are placed, the jitter, and which answers are lost
    #[arg(long, value_name = "N", default_value = "42", value_parser = number::within(0..=u64::MAX))]
    seed: u64,

    /// Callers, each with one order
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number::within(1..=20_000_u32))]
    clients: u32,

    /// Programs that they run in; those of one program share a retry budget and a breaker
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::within(1..=20_000_u32))]
    processes: u32,

    /// What goes wrong: outage, silence or overload
    #[arg(long, value_name = "FAULT", default_value = "outage")]
    fault: herd::Fault,

    /// For how long, up to 10m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_positive)]
    outage: Duration,

    /// Share of answers that is lost on any day, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.01")]
    loss: fleet::Loss,

    /// How long a caller waits for an answer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse_positive)]
    timeout: Duration,

    /// Charges that the server works on at once
    #[arg(long, value_name = "N", default_value = "8", value_parser = number::within(1..=10_000_u32))]
    workers: u32,

    /// How long one charge takes a worker
    #[arg(long, value_name = "DURATION", default_value = "40ms", value_parser = duration::parse_positive)]
    work: Duration,

    /// Requests that may wait for a worker; one more is answered 503
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number::within(0..=1_000_000_u32))]
    queue: u32,

    #[command(flatten)]
    pub(super) report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

pub(super) async fn measure(args: &HerdArgs) -> Result<Exit, Failure> {
    let options = herd::Options {
        seed: args.seed,
        clients: args.clients,
        processes: args.processes,
        fault: args.fault,
        outage: args.outage,
        loss: args.loss,
        timeout: args.timeout,
        workers: args.workers,
        work: args.work,
        queue: args.queue,
    };
    let measured = herd::run(&options, &Bar::new(args.report.lang())).await;
    let figures = measured.map_err(|error| args.report.failure(&error))?;
    tell(args.output, &figures, || figures.render(args.report.lang()))?;
    args.report.write(|lang| report::herd(&options, &figures, lang))?;
    Ok(verdict(figures.passed()))
}
