//! `unavez keys`: looking at idempotency keys, settling what nothing else will, and purging expired ones.
//!
//! `list` and `show` read the database file itself, also while `unavez serve` runs on it. `settle` and `purge` change it,
//! so they ask the running service, and open the file only where no process owns it.

mod list;
mod purge;
mod row;
mod settle;

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::time::Time;
use unavez_payments::books::{Places, has_api_keys_on, operation_on};
use unavez_store::sqlite::{OpenError, Viewer};

use self::list::ListArgs;
pub(crate) use self::purge::CONFIRM_CLOCK;
use self::purge::PurgeArgs;
pub(crate) use self::row::{Row, page};
use self::settle::SettleArgs;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Room, Width, print_json, print_line};
use crate::remedy::Desk;
use crate::serve::{DatabaseFile, store_failure};

/// `unavez keys …`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List keys, newest first
    List(ListArgs),
    /// Show what became of one key
    Show(ShowArgs),
    /// Settle by hand what nothing else will
    Settle(Box<SettleArgs>),
    /// Delete expired records now rather than at the night shift's pace
    Purge(PurgeArgs),
}

/// Flags of `unavez keys show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez keys show checkout-7
  unavez keys show checkout-7 --tenant shop --format json

Exit 1 if the key is not in use.")]
pub(crate) struct ShowArgs {
    /// The idempotency key, without quotes
    #[arg(value_name = "KEY", value_parser = key)]
    key: Key,

    /// The database: sqlite:PATH. Only read; the service may be running on it
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// Whose key
    #[arg(long, value_name = "TENANT", default_value = "default", value_parser = tenant)]
    tenant: Tenant,

    #[command(flatten)]
    width: Width,

    #[command(flatten)]
    output: Output,
}

/// Runs `unavez keys …`.
pub(crate) fn run(command: &KeysCommand) -> Result<Exit, Failure> {
    match command {
        KeysCommand::List(args) => list::list(args),
        KeysCommand::Show(args) => show(args),
        KeysCommand::Settle(args) => settle::settle(args),
        KeysCommand::Purge(args) => purge::purge(args),
    }
}

fn show(args: &ShowArgs) -> Result<Exit, Failure> {
    let viewer = open(&args.store)?;
    let found =
        viewer.find(&args.tenant, &args.key).map_err(|error| Failure::unavailable(error.to_string()))?;
    let Some(record) = found else {
        // The charge outlives the record (P21): no record does not mean that a new key would be safe.
        let operation = RecordId::of(viewer.realm(), &args.tenant, &args.key).operation_id().to_string();
        let charge = operation.replacen("op_", "ch_", 1);
        return Err(Failure::check_failed(format!(
            "tenant {} has no record of this key: it was never claimed, was released without effect, or its time is over",
            args.tenant.as_str()
        ))
        .with_help(format!(
            "if it ever charged, the charge is {charge}, and a repeat with the same key is answered with it; never use a \
             new key before looking. --tenant names another tenant"
        )));
    };
    let (history, has_api_keys) = viewer
        .read(|connection| {
            Ok((
                operation_on(connection, &Places::beside(), record.id.operation_id())?,
                has_api_keys_on(connection)?,
            ))
        })
        .map_err(|error| Failure::unavailable(error.to_string()))?;
    let row = Row::new(&record, wall_clock()).with_history(history.as_ref());
    let desk = Desk { target: None, has_api_keys };
    if args.output.is_json() {
        print_json(&row)
    } else {
        print_line(&shown(&row, &desk, args.width.room()))
    }?;
    Ok(Exit::Done)
}

/// The page of one key, with what a person has to do about a held one.
fn shown(row: &Row, desk: &Desk, room: Room) -> String {
    let text = page(row, room);
    if !row.is_held() {
        return text;
    }
    let commands = desk.settle(&row.key, &row.tenant).join("\n  ");
    format!(
        "{text}\n\nIt is held: nothing will settle it by itself. Look it up at the acquirer under {}, then\nsettle it, as what \
         you saw there:\n  {commands}",
        row.operation_id
    )
}

pub(crate) fn open(store: &DatabaseFile) -> Result<Viewer, Failure> {
    let path = existing_file(store)?;
    Viewer::open(path).map_err(|error| match error {
        // Readable, and not to be opened: the folder is on a read-only mount, or not ours to write in.
        OpenError::Io { .. } | OpenError::ReadOnly { .. } if std::fs::File::open(path).is_ok() => {
            store_failure(&error).with_help(format!(
                "SQLite has to write {0}-shm to read {0}; where its folder cannot be written, copy the file \
                 (with -wal and -shm, if they are there) to one that can",
                path.display()
            ))
        }
        error => store_failure(&error),
    })
}

fn existing_file(store: &DatabaseFile) -> Result<&Path, Failure> {
    let DatabaseFile(path) = store;
    if path.exists() {
        return Ok(path);
    }
    Err(Failure::unavailable(format!("{}: there is no database", path.display()))
        .with_help("--store sqlite:PATH names it"))
}

/// The store's own clock follows this one; the little they may differ only matters for the word "expired".
#[expect(clippy::disallowed_methods, reason = "decides nothing: it only labels what is printed")]
pub(crate) fn wall_clock() -> Time {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Time::from_micros(0).plus(since_epoch)
}

pub(crate) fn tenant(name: &str) -> Result<Tenant, String> {
    Tenant::parse(name).map_err(|error| error.to_string())
}

fn key(text: &str) -> Result<Key, String> {
    Key::parse_path(text).map_err(|error| error.to_string())
}

fn state(word: &str) -> Result<&'static str, String> {
    const STATES: [&str; 5] = ["in_progress", "pending", "unknown", "finished", "abandoned"];
    STATES
        .into_iter()
        .find(|state| *state == word)
        .ok_or_else(|| format!("expected one of {}", STATES.join(", ")))
}
