//! `unavez lab breaker`.

use std::time::Duration;

use clap::Args;
use unavez_lab::progress::Bar;
use unavez_lab::{breaker, fleet, report};

use super::{ReportArgs, tell, verdict};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{duration, number};

/// Flags of `unavez lab breaker`.
#[derive(Args, Debug)]
#[command(after_help = "\
Faults, for as long as --outage says, after as long without one:
  silence   requests are executed, answers do not come back
  outage    connections are refused, and answers under way are lost
  overload  the server is twenty times slower

Examples:
  unavez lab breaker
  unavez lab breaker --outage 2m --open-for 10s --report breaker.html
  unavez lab breaker --fault overload --lang es

Three worlds with the same orders: charges are the breaker's probes and the engine remembers them;
they are, and nobody does; and nobody does, but callers know it, so that only a question about the
server's health may be a probe and nothing is repeated whose answer was lost. A simulation in
virtual time, in which core's own rules decide and the product's store remembers: the same seed
gives the same figures on every machine. docs/breaker.md says what follows from it. Exit 1 if the
engine did not charge every order once, 130 if Ctrl-C or SIGTERM ended it.")]
pub(crate) struct BreakerArgs {
    /// Draws when orders are placed, the jitter, and which answers are lost
    #[arg(long, value_name = "N", default_value = "42", value_parser = number::within(0..=u64::MAX))]
    seed: u64,

    /// Orders, spread over the time before, during and after the outage
    #[arg(long, value_name = "N", default_value = "900", value_parser = number::within(1..=100_000_u32))]
    orders: u32,

    /// What goes wrong: silence, outage or overload
    #[arg(long, value_name = "FAULT", default_value = "silence")]
    fault: breaker::Fault,

    /// For how long, up to 10m
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_positive)]
    outage: Duration,

    /// Share of answers that is lost on any day, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0")]
    loss: fleet::Loss,

    /// How long a caller waits for an answer
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse_positive)]
    timeout: Duration,

    /// How long the breaker stays open before it sends a probe
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse_positive)]
    open_for: Duration,

    /// Failures in a row that open it
    #[arg(long, value_name = "N", default_value = "5", value_parser = number::within(1..=1_000_u32))]
    failures: u32,

    #[command(flatten)]
    pub(super) report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

pub(super) async fn measure(args: &BreakerArgs) -> Result<Exit, Failure> {
    let options = breaker::Options {
        seed: args.seed,
        orders: args.orders,
        fault: args.fault,
        outage: args.outage,
        loss: args.loss,
        timeout: args.timeout,
        open_for: args.open_for,
        failures: args.failures,
    };
    let measured = breaker::run(&options, &Bar::new(args.report.lang())).await;
    let figures = measured.map_err(|error| args.report.failure(&error))?;
    tell(args.output, &figures, || figures.render(args.report.lang()))?;
    args.report.write(|lang| report::breaker(&options, &figures, lang))?;
    Ok(verdict(figures.passed()))
}
