//! `unavez reconcile`: the acquirer's list against charges and ledger.
//!
//! It reads both sides and changes neither: what it finds it describes, with what could be done. The database file is
//! only read, also while `unavez serve` runs on it.

mod render;

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use unavez_core::time::Time;
use unavez_payments::acquirer::Account;
use unavez_payments::books::{has_api_keys_on, last_account_on};
use unavez_payments::reconcile::{Report, Source, Stopped, Stretch, reconcile};
use unavez_payments::{AcquirerKind, Settings};

use crate::client::Service;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::keys;
use crate::output::{Output, print_json, print_line};
use crate::remedy::{Desk, acquirer_flags};
use crate::serve::{AcquirerFlags, DatabaseFile, open_failure};

/// Flags of `unavez reconcile`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez reconcile --since 24h
  unavez reconcile --since 2026-12-01T00:00:00Z --acquirer http://127.0.0.1:9090 --format json

Found is what one side alone knows, what was executed twice, differing amounts and states, charges that
do not agree with the ledger, and one order and amount under two keys. Nothing is changed: what could
be done stands beside each finding.
Without --acquirer the list is that of the acquirer which the last operation here went to.
What was claimed within the visibility delay and two minutes is under way and is not missed.
With the ledger as acquirer only charges, ledger and orders are compared.

Exit 1 if something was found, 3 if the acquirer's list cannot be read.")]
pub(crate) struct ReconcileArgs {
    /// From when on: a time (RFC 3339), or how long ago, such as 24h
    #[arg(long, value_name = "SINCE", value_parser = since)]
    since: Since,

    /// The service's database: sqlite:PATH. Only read; the service may be running on it
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    #[command(flatten)]
    acquirer: AcquirerFlags,

    /// The service, for the commands that are proposed
    #[arg(long, value_name = "URL", value_parser = Service::parse)]
    target: Option<Service>,

    #[command(flatten)]
    output: Output,
}

/// A point in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    At(Time),
    Ago(Duration),
}

impl Since {
    fn before(self, now: Time) -> Time {
        match self {
            Self::At(time) => time,
            Self::Ago(duration) => now.minus(duration),
        }
    }
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(stamp) = text.parse::<jiff::Timestamp>() {
        return Ok(Since::At(Time::from_micros(stamp.as_microsecond())));
    }
    duration::parse_positive(text)
        .map(Since::Ago)
        .map_err(|_| "expected a time such as 2026-12-01T08:00:00Z, or how long ago, such as 24h".to_owned())
}

/// Runs `unavez reconcile`.
pub(crate) fn run(args: &ReconcileArgs) -> Result<Exit, Failure> {
    let viewer = keys::open(&args.store)?;
    let now = keys::wall_clock();
    let stretch = Stretch { since: args.since.before(now), now };
    let (account, has_api_keys) = viewer
        .read(|connection| Ok((last_account_on(connection)?, has_api_keys_on(connection)?)))
        .map_err(|error| Failure::unavailable(error.to_string()))?;
    let settings = settings(&args.acquirer, account.as_ref())?;
    let source = Source::of(&settings, &args.store.0).map_err(|error| open_failure(&error))?;
    let desk = Desk { target: args.target.clone(), has_api_keys };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    let bar = spinner();
    let told = reconcile(&viewer, source.as_ref(), stretch, |compared| bar.set_position(compared));
    let report = runtime.block_on(told);
    bar.finish_and_clear();
    let report = report.map_err(stopped)?;
    print(args, stretch, &report, &desk)?;
    Ok(if report.findings.is_empty() { Exit::Done } else { Exit::CheckFailed })
}

/// Where the list is: at the acquirer of the flags. Those left at their default mean the one that the operations here went
/// to, so that the account need not be told twice.
fn settings(flags: &AcquirerFlags, account: Option<&Account>) -> Result<Settings, Failure> {
    let settings = flags.settings();
    if settings.acquirer != AcquirerKind::Sandbox {
        return Ok(settings);
    }
    let Some(account) = account else { return Ok(Settings { acquirer: AcquirerKind::Ledger, ..settings }) };
    match account.as_str().split_once(':') {
        Some(("sandbox", "in-process")) => Ok(settings),
        Some(("sandbox", address)) => {
            let acquirer = format!("http://{address}").parse().map_err(|_| unnamed(account))?;
            Ok(Settings { acquirer, ..settings })
        }
        _ => Err(unnamed(account)),
    }
}

fn unnamed(account: &Account) -> Failure {
    Failure::usage(format!("the operations here went to {account}, and its list needs its key")).with_help(format!(
        "give the acquirer's flags as `serve` has them: {} --acquirer-key-file FILE --webhook-secret-file FILE",
        acquirer_flags(account.as_str())
    ))
}

/// Draws only where standard error is a terminal, and leaves nothing behind.
fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{spinner} {pos} entries of the acquirer's list compared {elapsed:.dim}",
    )
    .expect("the template is a constant that parses");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn stopped(stopped: Stopped) -> Failure {
    let failure = Failure::unavailable(stopped.to_string());
    match stopped {
        Stopped::Acquirer(_) => failure.with_help(
            "nothing is reported of half a list; --acquirer and the flags beside it are those of `unavez serve`",
        ),
        Stopped::Books(_) => failure,
    }
}

fn print(args: &ReconcileArgs, stretch: Stretch, report: &Report, desk: &Desk) -> Result<(), Failure> {
    if args.output.is_json() {
        print_json(&render::Document::new(stretch, report, desk))
    } else {
        print_line(&render::page(stretch, report, desk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_how_long_ago() {
        let now = Time::from_micros(7_200_000_000);
        let at = |text: &str| since(text).map(|since| since.before(now).as_micros());
        assert_eq!(at("1970-01-01T00:00:01Z"), Ok(1_000_000));
        assert_eq!(at("1h30m"), Ok(1_800_000_000));
        for text in ["yesterday", "0s", "", "2026-12-01"] {
            assert!(since(text).expect_err(text).contains("how long ago"), "{text}");
        }
    }
}
