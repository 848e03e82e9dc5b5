//! `unavez bench`: a load generator for charges over HTTP/1.1.
//!
//! Rules:
//!
//! 1. Closed loop: each connection sends its next request when the last one is answered. Latencies are therefore
//!    those of a server at this many connections, not of one under a fixed arrival rate.
//! 2. A warm-up is driven like the rest and not counted. An exchange counts if it begins and ends within the window.
//! 3. Answers are checked against what was sent: a new key must be answered 201 without the replay mark, a known one
//!    with it. `--any-answer` drops that for servers without keys, to measure what the bare stack can do.
//! 4. Keys look random and are never kept: the n-th key of a run is computed from its seed and n, so replays
//!    re-create the very bytes that were sent before.
//! 5. Latency counts good answers only: a server that refuses fast does not look fast.
//!
//! The generator has its own threads with one current-thread runtime each (one by default: on two cores the other is
//! the server's), and watches how busy they are: at their limit the figures are theirs, and the report says so.

mod connection;
mod cpu;
mod pass;
mod report;
mod request;
mod response;
mod tally;
mod threads;

use std::io::IsTerminal as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::time::Instant;

use self::pass::{Base, Checks, Expected, Pass, Window, Work};
use self::report::{Report, Shape};
use self::request::{Keys, Request, Target};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, print_line};
use crate::{client, duration, number};

/// The longest that sending every key once may take.
const ONCE_MAX: Duration = Duration::from_secs(600);

/// Flags of `unavez bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez bench
      new charges against a local `unavez serve`
  unavez bench --mode replay --keys 100000
      repeats of 100,000 charges that are made beforehand
  unavez bench --mode mixed --replay-share 0.1 --seconds 60 --format json
  unavez bench --mode lost --keys 100000
      100,000 charges whose outcome the service has to find out later
  unavez bench --url http://127.0.0.1:3000 --any-answer
      any server that answers POST /v1/charges with 2xx

A run creates charges in the service it measures. It asks /healthz first and charges only where that
names the sandbox or the ledger, unless --i-know or --any-answer is given.
Exit 1 if an answer broke the promise being measured (a new key answered as a replay, or a known one
not); 3 if nothing could be measured.")]
pub(crate) struct BenchArgs {
    /// Where the service listens
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = Target::parse)]
    url: Target,

    /// new: a new key each time; replay: keys that are charged already; mixed: both; lost: new keys that a sandbox
    /// executes without telling, each sent once
    #[arg(long, value_enum, default_value = "new", value_name = "MODE", hide_possible_values = true)]
    mode: Mode,

    /// Kept-alive connections, each with one request at a time
    #[arg(long, value_name = "N", default_value = "64", value_parser = number::within(1..=20_000_u16))]
    connections: u16,

    /// How long to measure
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::within(1..=86_400_u32))]
    seconds: u32,

    /// Load before the measurement that is not counted
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    warm_up: Duration,

    /// How many keys are charged beforehand for replay and mixed, or lost
    #[arg(long, value_name = "N", default_value = "10000", value_parser = number::within(1..=1_000_000_000_u64))]
    keys: u64,

    /// Share of replays in mixed, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    replay_share: f64,

    /// Generator threads; more only help on a machine with cores to spare
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::within(1..=256_u16))]
    threads: u16,

    /// How long an answer may take before it counts as an error
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_positive)]
    timeout: Duration,

    /// Check only that answers are 2xx, for servers without keys
    #[arg(long)]
    any_answer: bool,

    /// Charge a server that does not say it is a sandbox or ledger
    #[arg(long)]
    i_know: bool,

    /// File with the API key on its first line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Makes the same keys again; random if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    #[command(flatten)]
    output: Output,
}

/// Which keys are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// A new key each time
    New,
    /// Keys that are charged already
    Replay,
    /// Both
    Mixed,
    /// Charges that a sandbox executes and answers with an error: their outcome is unknown until it is asked
    Lost,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::New => "new keys",
            Self::Replay => "replays",
            Self::Mixed => "new keys and replays",
            Self::Lost => "lost outcomes",
        }
    }

    const fn payment_method(self) -> &'static str {
        match self {
            Self::New | Self::Replay | Self::Mixed => "tok_approve",
            Self::Lost => "tok_error_after",
        }
    }
}

/// Runs `unavez bench`.
pub(crate) fn run(args: &BenchArgs) -> Result<Exit, Failure> {
    let base = base(args)?;
    let shape = Shape {
        mode: args.mode,
        connections: usize::from(args.connections),
        threads: usize::from(args.threads.min(args.connections)),
    };
    if std::net::TcpStream::connect_timeout(&base.address, args.timeout).is_err() {
        return Err(Failure::unavailable(format!("nothing listens on {}", base.address))
            .with_help("start one with: unavez serve"));
    }
    if !args.i_know && !args.any_answer {
        refuse_real_money(&args.url)?;
    }
    match args.mode {
        Mode::Lost => return lose(args, &base, shape),
        Mode::New => {}
        Mode::Replay | Mode::Mixed => prepare(&base, shape, args.keys)?,
    }
    measure(args, &base, shape)
}

/// Asks the server whether its money is play money, before the first charge.
fn refuse_real_money(url: &Target) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    runtime
        .block_on(unavez_lab::refuse_real_money(&url.address, &url.health_path()))
        .map_err(|error| crate::lab::failure(&error, unavez_lab::Lang::En))
}

/// Charges the keys that will be replayed.
fn prepare(base: &Base, shape: Shape, keys: u64) -> Result<(), Failure> {
    let outcome = send_once(base, shape, keys, Expected::Either, "preparing keys")?;
    if outcome.interrupted {
        return Err(Failure::unavailable("stopped by Ctrl-C while the keys were made; nothing was measured"));
    }
    if let Some((fault, count)) = outcome.tally.faults().next() {
        return Err(Failure::unavailable(format!(
            "{count} of {keys} keys could not be charged beforehand: {fault}"
        ))
        .with_help("--any-answer measures servers that do not answer 201; --api-key-file names a key"));
    }
    if outcome.tally.good() < keys {
        let (made, limit) = (outcome.tally.good(), ONCE_MAX.as_secs());
        return Err(Failure::unavailable(format!(
            "only {made} of {keys} keys were charged within {limit} s"
        )));
    }
    Ok(())
}

/// Sends keys whose outcome nobody hears, until all are sent.
fn lose(args: &BenchArgs, base: &Base, shape: Shape) -> Result<Exit, Failure> {
    let outcome = send_once(base, shape, args.keys, Expected::Unknown, "losing outcomes")?;
    report(args, shape, &outcome)
}

fn send_once(
    base: &Base,
    shape: Shape,
    keys: u64,
    expected: Expected,
    what: &'static str,
) -> Result<threads::Outcome, Failure> {
    let from = Instant::now();
    let pass = Pass::new(base, Work::Once { keys, expected }, Window { from, until: from + ONCE_MAX });
    threads::drive(pass, shape, what)
}

fn measure(args: &BenchArgs, base: &Base, shape: Shape) -> Result<Exit, Failure> {
    let (known, replay_share) = match args.mode {
        Mode::New | Mode::Lost => (0, 0.0),
        Mode::Replay => (args.keys, 1.0),
        Mode::Mixed => (args.keys, args.replay_share),
    };
    let from = Instant::now() + args.warm_up;
    let window = Window { from, until: from + Duration::from_secs(args.seconds.into()) };
    let pass = Pass::new(base, Work::Measure { known, replay_share }, window);
    let outcome = threads::drive(pass, shape, "measuring")?;
    report(args, shape, &outcome)
}

fn report(args: &BenchArgs, shape: Shape, outcome: &threads::Outcome) -> Result<Exit, Failure> {
    let report = Report::new(shape, &outcome.tally, outcome.measured, outcome.interrupted, outcome.load);
    if args.output.is_json() {
        print_json(&report)?;
    } else {
        print_line(report.text().trim_end())?;
    }
    Ok(exit(outcome))
}

fn exit(outcome: &threads::Outcome) -> Exit {
    if outcome.tally.faults().any(|(fault, _)| fault.breaks_promise()) {
        Exit::CheckFailed
    } else if outcome.tally.good() == 0 && !outcome.interrupted {
        Exit::Unavailable
    } else {
        Exit::Done
    }
}

fn base(args: &BenchArgs) -> Result<Base, Failure> {
    let bearer = args.api_key_file.as_deref().map(client::read_api_key).transpose()?;
    Ok(Base {
        address: resolve(&args.url)?,
        request: Request::new(&args.url, bearer.as_deref(), args.mode.payment_method()),
        timeout: args.timeout,
        checks: if args.any_answer { Checks::AnyAnswer } else { Checks::Promises },
        keys: Keys::new(args.seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0)),
    })
}

fn resolve(target: &Target) -> Result<SocketAddr, Failure> {
    let unresolved = |reason: String| Failure::unavailable(format!("{}: {reason}", target.address));
    let mut addresses = target.address.to_socket_addrs().map_err(|error| unresolved(error.to_string()))?;
    addresses.next().ok_or_else(|| unresolved("the name has no address".to_owned()))
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

/// Whether progress is worth drawing.
fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}
