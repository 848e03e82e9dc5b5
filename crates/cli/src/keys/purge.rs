//! `unavez keys purge`: deletes expired records now.

use std::path::PathBuf;

use clap::Args;
use unavez_store::StoreError;
use unavez_store::sqlite::{Location, OpenError, Options, SqliteStore};

use super::existing_file;
use crate::client::Service;
use crate::console::{PurgeReport, PurgeRequest, purge_all};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, print_line};
use crate::serve::{DatabaseFile, store_failure};

/// Flags of `unavez keys purge`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez keys purge
  unavez keys purge --store sqlite:/var/lib/unavez/unavez.db --confirm-clock

The running service is asked first (it needs an API key with the operator role where it has keys).
Where none answers at --target, the file is opened, if no other process owns it.
Only expired answers are deleted: never an open record, never a charge or a line of the ledger.
After the wall clock has stepped by more than five minutes nothing is purged, for a clock that is
wrong would make live answers look expired. Compare it with another clock first, then:
  unavez keys purge --confirm-clock")]
pub(crate) struct PurgeArgs {
    /// The wall clock stepped and is right now: purge by it
    #[arg(long)]
    confirm_clock: bool,

    /// The running service, or its --admin-listen address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = Service::parse)]
    target: Service,

    /// File with an API key on its first line
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// The database to open where no service answers: sqlite:PATH
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    #[command(flatten)]
    output: Output,
}

pub(super) fn purge(args: &PurgeArgs) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    let report = runtime.block_on(async {
        let key = args.api_key_file.as_deref().map(crate::client::read_api_key).transpose()?;
        let request = PurgeRequest { confirm_clock: args.confirm_clock };
        if !args.target.is_answering().await? {
            return purge_file(&args.store, &args.target, request).await;
        }
        match args.target.post_json::<PurgeReport>("/admin/keys/purge", &request, key.as_deref()).await? {
            Some(report) => Ok(report),
            None => purge_file(&args.store, &args.target, request).await,
        }
    })?;
    let text = || format!("purged {} expired records", report.purged);
    if args.output.is_json() { print_json(&report) } else { print_line(&text()) }?;
    Ok(Exit::Done)
}

/// What an operator does about a clock that stepped.
pub(crate) const CONFIRM_CLOCK: &str =
    "compare the wall clock with another one; if it is right, add --confirm-clock";

/// Nobody answers: the file is ours if nobody owns it.
async fn purge_file(
    store: &DatabaseFile,
    target: &Service,
    request: PurgeRequest,
) -> Result<PurgeReport, Failure> {
    let path = existing_file(store)?;
    let opened = SqliteStore::open(Location::File(path.to_owned()), Options::default());
    let store = opened.map_err(|error| match error {
        OpenError::Locked { .. } => Failure::unavailable(format!("{error}, and nothing answers at {target}"))
            .with_help("--target names the address of the service that owns it"),
        error => store_failure(&error),
    })?;
    let purged = purge_all(&store, request).await;
    store.close().await;
    purged.map_err(|error| {
        let failure = Failure::unavailable(error.to_string());
        match error {
            StoreError::ClockStepped { .. } => failure.with_help(CONFIRM_CLOCK),
            _ => failure,
        }
    })
}
