//! `unavez restore`: a copy put in the place of the database, which asks first for what it has forgotten.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use unavez_payments::copies::{self, RestoreError, Restored};
use unavez_store::sqlite::Place;

use crate::copying::{Held, copy_failure, follow, shown};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, print_line};
use crate::serve::{DatabaseFile, store_failure};
use crate::{duration, time};

/// Flags of `unavez restore`.
#[derive(Args, Debug)]
#[command(after_help = "\
End the service first: a database that a process owns is not replaced.
What was committed after the copy was taken is forgotten, keys included, and a repeat of a forgotten
key looks like a new one. So for as long as answers were promised, and at least for --response-ttl,
`unavez serve` asks the acquirer before the first send of every new claim. That is stored in the
database and needs no flag. What --acquirer ledger booked cannot be asked for: it is forgotten for
good, and a repeat of such a key charges once more.
Examples:
  unavez restore --from /backup/unavez.db
  unavez restore --from /backup/unavez.db --store sqlite:/var/lib/unavez/unavez.db --replace")]
pub(crate) struct RestoreArgs {
    /// The copy, as `unavez backup` made it. It is not changed
    #[arg(long, value_name = "FILE")]
    from: PathBuf,

    /// The database to put in place: sqlite:PATH
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// Put it in the place of a database that exists, which is kept as PATH.replaced-N
    #[arg(long)]
    replace: bool,

    /// The --response-ttl of `serve`, if answers will be promised for longer than those in the copy were
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse_positive)]
    response_ttl: Duration,

    /// How long to wait for another process to let go of the database
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    lock_wait: Duration,

    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Document {
    database: String,
    from: String,
    /// Where the database is kept that was there before.
    replaced: Option<String>,
    /// Until then the acquirer is asked before the first send of every new claim.
    ask_first_until: String,
    /// What the ledger alone decided after `as_of` is forgotten for good.
    ledger_cannot_be_asked: bool,
    #[serde(flatten)]
    held: Held,
}

/// Runs `unavez restore`.
pub(crate) fn run(args: &RestoreArgs) -> Result<Exit, Failure> {
    if !args.from.exists() {
        return Err(Failure::unavailable(format!("{}: there is no such file", args.from.display())));
    }
    let place = Place::hold(&args.store.0, args.lock_wait, &|_| {}).map_err(|error| store_failure(&error))?;
    if place.is_taken() && !args.replace {
        return Err(Failure::usage(format!("{} exists", place.path().display()))
            .with_help("--replace puts the copy in its place and keeps it under another name"));
    }
    let (from, response_ttl) = (args.from.clone(), args.response_ttl);
    let restored = follow(move |watch| {
        let runtime = tokio::runtime::Handle::current();
        runtime
            .block_on(copies::restore(&from, place, response_ttl, None, watch))
            .map_err(|error| failure(&error))
    })?;
    print(args, &restored)?;
    Ok(Exit::Done)
}

fn failure(error: &RestoreError) -> Failure {
    match error {
        RestoreError::Copy(error) => copy_failure(error),
        RestoreError::Open(error) => store_failure(error),
        RestoreError::Unsound(_) => Failure::check_failed(error.to_string()),
        RestoreError::Store(_) => Failure::unavailable(error.to_string()),
    }
}

fn print(args: &RestoreArgs, restored: &Restored) -> Result<(), Failure> {
    let document = Document {
        database: shown(&args.store.0),
        from: shown(&args.from),
        replaced: restored.replaced.as_deref().map(shown),
        ask_first_until: time::rfc3339(restored.ask_first_until),
        // Where nothing was charged yet, nobody can tell how the next one will be.
        ledger_cannot_be_asked: restored.holdings.charges_of_ledger > 0
            || restored.holdings.charges_outside == 0,
        held: Held::of(&restored.contents, &restored.holdings),
    };
    if args.output.is_json() { print_json(&document) } else { print_line(&document.text()) }
}

impl Document {
    fn text(&self) -> String {
        let Self { database, from, held, ask_first_until, .. } = self;
        let as_of = &held.as_of;
        let mut text = format!(
            "{database}: put back from {from}\n{}\n\
             What was committed after {as_of} is forgotten, keys included.\n\
             Until {ask_first_until} `unavez serve` asks the acquirer before the first send of every new claim; it needs \
             no flag for that.",
            held.lines()
        );
        if self.ledger_cannot_be_asked {
            text.push_str(&format!(
                "\nWith --acquirer ledger there is nobody to ask: what it booked after {as_of} is forgotten for good, and a \
                 repeat of such a key charges once more."
            ));
        }
        if let Some(replaced) = &self.replaced {
            text.push_str(&format!("\nThe database that was there is kept: {replaced}"));
        }
        text
    }
}
