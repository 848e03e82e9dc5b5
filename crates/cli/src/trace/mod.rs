//! `unavez trace NAME`: one page about an order, for somebody who has never seen the system.
//!
//! It answers one question first (was this charged twice, and why), then says what may be done, then shows everything
//! the answer stands on. The database file is only read, also while `unavez serve` runs on it.

mod document;
mod page;
mod words;

use std::path::Path;

use clap::Args;
use unavez_core::identity::Tenant;
use unavez_payments::books::has_api_keys_on;
use unavez_payments::books::trace::{Trace, trace};
use unavez_store::sqlite::Viewer;

use crate::client::Service;
use crate::exit::{Exit, Failure};
use crate::keys;
use crate::output::{Output, Width, print_json, print_line};
use crate::remedy::Desk;
use crate::serve::DatabaseFile;

/// Flags of `unavez trace`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez trace order-1001
  unavez trace ch_71dbf60ddff57a65e876c0875e809934 --store sqlite:/var/lib/unavez/unavez.db
  unavez trace 7f83b1657ff1 --format json      the hash that stands in the log for a key

Exit 1 if nothing goes by that name.")]
pub(crate) struct TraceArgs {
    /// An order id, a key or its hash in the log, the id of a charge, refund, operation or request, or the acquirer's
    /// own name for a payment
    #[arg(value_name = "NAME")]
    name: String,

    /// The database: sqlite:PATH. Only read; the service may be running on it
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// Only this tenant's
    #[arg(long, value_name = "TENANT", value_parser = keys::tenant)]
    tenant: Option<Tenant>,

    /// The service, for the commands that are proposed
    #[arg(long, value_name = "URL", value_parser = Service::parse)]
    target: Option<Service>,

    #[command(flatten)]
    width: Width,

    #[command(flatten)]
    output: Output,
}

/// Runs `unavez trace`.
pub(crate) fn run(args: &TraceArgs) -> Result<Exit, Failure> {
    let viewer = keys::open(&args.store)?;
    let trace = read(&viewer, args)?;
    if trace.orders.is_empty() && trace.keys.is_empty() {
        return Err(nothing(args, &args.store.0));
    }
    let has_api_keys = viewer.read(|connection| Ok(has_api_keys_on(connection)?));
    let desk = Desk {
        target: args.target.clone(),
        has_api_keys: has_api_keys.map_err(|error| Failure::unavailable(error.to_string()))?,
    };
    if args.output.is_json() {
        print_json(&document::Document::new(&args.name, &trace, &desk))?;
    } else {
        print_line(&page::page(&args.name, &trace, &desk, args.width.room()))?;
    }
    Ok(Exit::Done)
}

fn read(viewer: &Viewer, args: &TraceArgs) -> Result<Trace, Failure> {
    trace(viewer, args.name.trim(), args.tenant.as_ref(), keys::wall_clock())
        .map_err(|error| Failure::unavailable(error.to_string()))
}

fn nothing(args: &TraceArgs, path: &Path) -> Failure {
    let whose =
        args.tenant.as_ref().map_or(String::new(), |tenant| format!(" of tenant {}", tenant.as_str()));
    Failure::check_failed(format!("nothing{whose} in {} goes by the name `{}`", path.display(), args.name))
        .with_help(
            "looked for as order id, key, hash of a key, charge, refund, entry, operation, request and acquirer's name. Of \
             requests only those that ran are stored: replays and refusals leave no trace, so look for original-request-id in \
             that answer. The hash of a key is known as long as its record is kept",
        )
}

#[cfg(test)]
mod tests;
