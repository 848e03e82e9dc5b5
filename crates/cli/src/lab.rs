//! `unavez lab`: the measurements of [`unavez_lab`], from the command line.

mod all;
mod breaker;
mod day;
mod herd;
mod keys;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use unavez_lab::progress::Bar;
use unavez_lab::{Lang, Mutation, Remote, Workshop, accept, break_, fleet, report};

use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, print_line};
use crate::serve::Stop;
use crate::{client, number};

/// `unavez lab …`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Charge the same orders over a lossy network, with and without memory, and count the money
    Fleet(FleetArgs),
    /// Test each promise of the service, one test per promise
    Accept(AcceptArgs),
    /// Take out each piece on purpose and see which tests notice
    Break(BreakArgs),
    /// Let a day of traffic pass, with and without forgetting, and count rows and bytes
    Day(day::DayArgs),
    /// Put every kind of key into every situation, and count the money
    Keys(keys::KeysArgs),
    /// Let many callers repeat after an outage, each way of waiting, and watch load and double charges
    Herd(herd::HerdArgs),
    /// Let a breaker probe with charges, with and without the engine, and count what is charged twice
    Breaker(breaker::BreakerArgs),
    /// Make every measurement, and put them on one page
    All(all::AllArgs),
}

/// Flags of `unavez lab fleet`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez lab fleet
  unavez lab fleet --loss 0.3 --report fleet.html
  unavez lab fleet --break key-per-attempt
  unavez lab fleet --target http://127.0.0.1:8080

The same seed gives the same figures on every machine. Exit 1 if the idempotent server charged
anything but what was ordered, 130 if Ctrl-C or SIGTERM ended it; its files are removed either way.")]
pub(crate) struct FleetArgs {
    /// Draws the amounts; the losses are drawn from the next seed
    #[arg(long, value_name = "N", default_value = "42", value_parser = number::within(0..=u64::MAX))]
    seed: u64,

    /// How many orders
    #[arg(long, value_name = "N", default_value = "1000", value_parser = number::within(0..=10_000_000_u32))]
    orders: u32,

    /// Share of responses that is lost, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.15")]
    loss: fleet::Loss,

    /// How often an order is attempted at most
    #[arg(long, value_name = "N", default_value = "4", value_parser = number::within(1..=1_000_u32))]
    attempts: u32,

    /// How many orders are under way at once; changes the duration, never a figure
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::within(NonZeroUsize::MIN..=NonZeroUsize::MIN.saturating_add(1023)))]
    concurrency: NonZeroUsize,

    /// Take one piece out of the idempotent side (see `unavez lab break`)
    #[arg(long = "break", value_name = "PIECE")]
    mutation: Option<Mutation>,

    #[command(flatten)]
    target: TargetArgs,

    #[command(flatten)]
    report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

/// Flags of `unavez lab accept`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez lab accept
  unavez lab accept --break check-then-write
  unavez lab accept --target http://127.0.0.1:8080

Exit 1 if a test failed; a skipped test says why. Exit 130 if Ctrl-C or SIGTERM ended it.")]
pub(crate) struct AcceptArgs {
    /// Take one piece out; the tests then run on the lesson server
    #[arg(long = "break", value_name = "PIECE")]
    mutation: Option<Mutation>,

    #[command(flatten)]
    target: TargetArgs,

    /// A second tenant's API key for --target, on the file's first line; without it two-tenants is skipped
    #[arg(long, value_name = "FILE")]
    other_tenants_api_key_file: Option<PathBuf>,

    #[command(flatten)]
    report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

/// Flags of `unavez lab break`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez lab break
  unavez lab break --only no-fence --only check-then-write

Pieces: key-per-attempt, key-from-amount, check-then-write, no-fingerprint, no-fence,
answer-not-stored, key-after-work, in-progress-ignored, no-lookup, unconditional-takeover,
one-clock, zombie-never-reclaimed, no-visibility-delay, webhook-twice,
new-operation-id-on-reclaim.

Exit 1 unless every missing piece is caught by exactly the tests predicted for it, 130 if Ctrl-C
or SIGTERM ended it.")]
pub(crate) struct BreakArgs {
    /// Take out this piece alone; may be repeated [default: all, one after the other]
    #[arg(long, value_name = "PIECE")]
    only: Vec<Mutation>,

    #[command(flatten)]
    report: ReportArgs,

    #[command(flatten)]
    output: Output,
}

/// A service that runs already.
#[derive(Args, Debug)]
struct TargetArgs {
    /// Measure this running service instead of private ones; several addresses of one service by commas
    #[arg(long, value_name = "URL[,URL]", value_parser = Remote::parse)]
    target: Option<Remote>,

    /// The target's API key, on the file's first line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Charge a target that does not say it is a sandbox or ledger
    #[arg(long)]
    i_know: bool,
}

impl TargetArgs {
    fn remote(&self, lang: Lang) -> Result<Option<Remote>, Failure> {
        let Some(remote) = self.target.clone() else {
            return match (&self.api_key_file, self.i_know) {
                (None, false) => Ok(None),
                _ => Err(Failure::usage(lang.say(
                    "--api-key-file and --i-know belong to --target, which is not given",
                    "--api-key-file e --i-know acompañan a --target, que falta",
                ))),
            };
        };
        let api_key = self.api_key_file.as_deref().map(client::read_api_key).transpose()?;
        Ok(Some(Remote { api_key, i_know: self.i_know, ..remote }))
    }
}

/// How a measurement is told.
#[derive(Args, Debug)]
struct ReportArgs {
    /// Also write a page with tables and charts: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Language of tables, pages and messages: en or es
    #[arg(long, value_enum, value_name = "LANG", default_value = "en", hide_possible_values = true)]
    lang: Language,
}

/// [`Lang`] as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Language {
    /// English
    En,
    /// Spanish
    Es,
}

impl ReportArgs {
    fn lang(&self) -> Lang {
        match self.lang {
            Language::En => Lang::En,
            Language::Es => Lang::Es,
        }
    }

    /// What kept a measurement from being made, in the person's language.
    fn failure(&self, error: &unavez_lab::Error) -> Failure {
        failure(error, self.lang())
    }

    /// Refuses a page that could not be written, before anything is measured for it.
    fn check(&self) -> Result<(), Failure> {
        match &self.report {
            Some(path) => report::check_writable(path).map_err(|error| self.failure(&error)),
            None => Ok(()),
        }
    }

    fn write(&self, chapter: impl FnOnce(Lang) -> report::Chapter) -> Result<(), Failure> {
        self.write_page(|lang| chapter(lang).page())
    }

    fn write_page(&self, page: impl FnOnce(Lang) -> String) -> Result<(), Failure> {
        match &self.report {
            Some(path) => report::write(path, &page(self.lang())).map_err(|error| self.failure(&error)),
            None => Ok(()),
        }
    }
}

impl LabCommand {
    fn name(&self) -> &'static str {
        match self {
            Self::Fleet(_) => "fleet",
            Self::Accept(_) => "accept",
            Self::Break(_) => "break",
            Self::Day(_) => "day",
            Self::Keys(_) => "keys",
            Self::Herd(_) => "herd",
            Self::Breaker(_) => "breaker",
            Self::All(_) => "all",
        }
    }

    fn report(&self) -> &ReportArgs {
        match self {
            Self::Fleet(args) => &args.report,
            Self::Accept(args) => &args.report,
            Self::Break(args) => &args.report,
            Self::Day(args) => &args.report,
            Self::Keys(args) => &args.report,
            Self::Herd(args) => &args.report,
            Self::Breaker(args) => &args.report,
            Self::All(args) => &args.report,
        }
    }
}

/// How long private servers may take to let go of their files.
const LET_GO_MAX: Duration = Duration::from_secs(5);

/// Runs `unavez lab …`.
pub(crate) fn run(command: &LabCommand) -> Result<Exit, Failure> {
    command.report().check()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    let mut stop = {
        let _entered = runtime.enter();
        Stop::listen()
            .map_err(|error| Failure::unavailable(format!("signals cannot be listened for: {error}")))?
    };
    let workshop = Workshop::open().map_err(|error| command.report().failure(&error))?;
    let done = runtime.block_on(async {
        tokio::select! {
            done = measure(command) => done,
            () = stop.asked() => Err(interrupted(command)),
        }
    });
    runtime.shutdown_timeout(LET_GO_MAX);
    let cleared = workshop.clear().map_err(|error| command.report().failure(&error));
    done.and_then(|exit| cleared.map(|()| exit))
}

async fn measure(command: &LabCommand) -> Result<Exit, Failure> {
    match command {
        LabCommand::Fleet(args) => measure_fleet(args).await,
        LabCommand::Accept(args) => run_tests(args).await,
        LabCommand::Break(args) => take_out(args).await,
        LabCommand::Day(args) => day::measure(args).await,
        LabCommand::Keys(args) => keys::measure(args).await,
        LabCommand::Herd(args) => herd::measure(args).await,
        LabCommand::Breaker(args) => breaker::measure(args).await,
        LabCommand::All(args) => all::measure(args).await,
    }
}

/// What was measured so far is not told: half a fleet's money compares with nothing.
fn interrupted(command: &LabCommand) -> Failure {
    let name = command.name();
    Failure::interrupted(command.report().lang().say(
        format!("`unavez lab {name}` was interrupted before it was done; its servers are stopped"),
        format!("`unavez lab {name}` fue interrumpido antes de terminar; sus servidores están detenidos"),
    ))
}

async fn measure_fleet(args: &FleetArgs) -> Result<Exit, Failure> {
    let options = fleet::Options {
        seed: args.seed,
        orders: args.orders,
        loss: args.loss,
        attempts: args.attempts,
        concurrency: args.concurrency,
        mutation: args.mutation,
        target: args.target.remote(args.report.lang())?,
    };
    let progress = Bar::new(args.report.lang());
    let figures = fleet::run(&options, &progress).await.map_err(|error| args.report.failure(&error))?;
    tell(args.output, &figures, || figures.render(args.report.lang()))?;
    if args.report.report.is_some() {
        let sweep = match options.target {
            // A curve would charge a service of somebody else's ten more fleets.
            Some(_) => None,
            None => {
                Some(fleet::sweep(&options, &progress).await.map_err(|error| args.report.failure(&error))?)
            }
        };
        args.report.write(|lang| report::fleet(&options, &figures, sweep.as_ref(), lang))?;
    }
    Ok(verdict(figures.passed()))
}

async fn run_tests(args: &AcceptArgs) -> Result<Exit, Failure> {
    let other = args.other_tenants_api_key_file.as_deref().map(client::read_api_key).transpose()?;
    let target = match (args.target.remote(args.report.lang())?, other) {
        (Some(remote), other) => Some(Remote { other_tenants_api_key: other, ..remote }),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(Failure::usage(args.report.lang().say(
                "--other-tenants-api-key-file belongs to --target, which is not given",
                "--other-tenants-api-key-file acompaña a --target, que falta",
            )));
        }
    };
    let options =
        accept::Options { mutation: args.mutation, target, executable: std::env::current_exe().ok() };
    let tests = accept::run(&options, &Bar::new(args.report.lang()))
        .await
        .map_err(|error| args.report.failure(&error))?;
    tell(args.output, &tests, || tests.render(args.report.lang()))?;
    args.report.write(|lang| report::accept(&options, &tests, lang))?;
    Ok(verdict(tests.passed()))
}

async fn take_out(args: &BreakArgs) -> Result<Exit, Failure> {
    let options = match args.only.as_slice() {
        [] => break_::Options::default(),
        only => break_::Options { mutations: only.to_vec() },
    };
    let broken = break_::run(&options, &Bar::new(args.report.lang()))
        .await
        .map_err(|error| args.report.failure(&error))?;
    tell(args.output, &broken, || broken.render(args.report.lang()))?;
    args.report.write(|lang| report::break_(&broken, lang))?;
    Ok(verdict(broken.passed()))
}

fn tell(output: Output, document: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
    if output.is_json() { print_json(document) } else { print_line(text().trim_end()) }
}

fn verdict(passed: bool) -> Exit {
    if passed { Exit::Done } else { Exit::CheckFailed }
}

/// What kept a measurement from being made, as the command line says it.
pub(crate) fn failure(error: &unavez_lab::Error, lang: Lang) -> Failure {
    use unavez_lab::ErrorKind;
    let said = error.say(lang);
    match error.kind() {
        ErrorKind::Usage => Failure::usage(said),
        ErrorKind::Unreachable => Failure::unavailable(said),
        ErrorKind::Broken => Failure::check_failed(said),
    }
}
