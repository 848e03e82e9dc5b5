//! `unavez lab keys`.

use clap::Args;
use unavez_lab::progress::Bar;
use unavez_lab::{naming, report};

use super::{ReportArgs, tell, verdict};
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Flags of `unavez lab keys`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez lab keys
  unavez lab keys --report keys.html --lang es

Seven kinds of key, two of them right, in seven situations: an answer is lost, a client forgets, a
queue delivers twice, an order is charged twice on purpose ... Exit 1 unless the acceptance tests
pass with random and with derived keys, and every key charged what was predicted of it; 130 if
Ctrl-C or SIGTERM ended it.")]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    pub(super) report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

pub(super) async fn measure(args: &KeysArgs) -> Result<Exit, Failure> {
    let options = naming::Options { executable: std::env::current_exe().ok() };
    let measured = naming::run(&options, &Bar::new(args.report.lang())).await;
    let keys = measured.map_err(|error| args.report.failure(&error))?;
    tell(args.output, &keys, || keys.render(args.report.lang()))?;
    args.report.write(|lang| report::keys(&options, &keys, lang))?;
    Ok(verdict(keys.passed()))
}
