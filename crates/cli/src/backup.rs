//! `unavez backup`: a checked copy of the database, taken beside the running service.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use unavez_payments::copies;

use crate::copying::{Held, copy_failure, follow, shown};
use crate::exit::{Exit, Failure};
use crate::output::{Output, print_json, print_line};
use crate::serve::DatabaseFile;

/// Flags of `unavez backup`.
#[derive(Args, Debug)]
#[command(after_help = "\
The service may be running and is not kept waiting. The copy is one snapshot in one file that only
its owner may read; it gets its name once it was compared with the database and is on the disk.
It holds keys, stored answers and the ledger, but no secrets: keep the file of --seal-key-file apart
from it, for without that key sealed answers cannot be opened again.
Examples:
  unavez backup --to /backup/unavez-$(date +%F).db
  unavez backup --store sqlite:/var/lib/unavez/unavez.db --to /backup/unavez.db --format json
Exit 1 if the copy is not what the database is (there is no file then), or if the database's own
books do not fit together (there is one, and it says so).")]
pub(crate) struct BackupArgs {
    /// The file to make. One that exists is never overwritten
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    /// The database: sqlite:PATH. Only read; the service may be running on it
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Document {
    file: String,
    database: String,
    #[serde(flatten)]
    held: Held,
}

/// Runs `unavez backup`.
pub(crate) fn run(args: &BackupArgs) -> Result<Exit, Failure> {
    let (database, file) = (args.store.0.clone(), args.to.clone());
    let held = follow(move |watch| {
        let copied = copies::back_up(&database, &file, watch).map_err(|error| copy_failure(&error))?;
        let held = Held::of(&copied.contents, &copied.observed);
        copied.keep().map_err(|error| copy_failure(&error))?;
        Ok(held)
    })?;
    let is_sound = held.sound;
    print(args, held)?;
    Ok(if is_sound { Exit::Done } else { Exit::CheckFailed })
}

fn print(args: &BackupArgs, held: Held) -> Result<(), Failure> {
    let (file, database) = (shown(&args.to), shown(&args.store.0));
    if args.output.is_json() {
        return print_json(&Document { file, database, held });
    }
    print_line(&format!(
        "{file}: {database} as of {}, {} bytes, compared with it\n{}",
        held.as_of,
        held.bytes,
        held.lines()
    ))
}
