//! `unavez keys`: looking at idempotency keys, and purging expired ones.
//!
//! `list` and `show` read the database file itself, also while `unavez serve` runs on it. `purge` changes it, so it asks
//! the running service, and opens the file only where no process owns it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use serde::Serialize;
use unavez_core::answer::{Answer, Content};
use unavez_core::identity::{RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::record::{Record, State};
use unavez_core::time::Time;
use unavez_store::sqlite::{Location, OpenError, Options, SqliteStore, Viewer};
use unavez_store::{Cursor, Filter, StoreError};

use crate::client::Service;
use crate::console::{PurgeReport, PurgeRequest, purge_all};
use crate::exit::{Exit, Failure};
use crate::output::{Output, columns, print_json, print_line};
use crate::serve::{DatabaseFile, store_failure};
use crate::{number, time};

/// `unavez keys …`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// List keys, newest first
    List(ListArgs),
    /// Show what became of one key
    Show(ShowArgs),
    /// Delete expired records now rather than at the night shift's pace
    Purge(PurgeArgs),
}

/// Flags of `unavez keys list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez keys list --state unknown
  unavez keys list --store sqlite:/var/lib/unavez/unavez.db --tenant shop --limit 100 --format json")]
pub(crate) struct ListArgs {
    /// The database: sqlite:PATH. Only read; the service may be running on it
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// Only this tenant's keys
    #[arg(long, value_name = "TENANT", value_parser = tenant)]
    tenant: Option<Tenant>,

    /// Only keys in this state: in_progress, pending, unknown, finished, abandoned
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Option<&'static str>,

    /// At most so many
    #[arg(long, value_name = "N", default_value = "20", value_parser = number::within(1..=10_000_usize))]
    limit: usize,

    /// Go on behind the page that ended with this `next`
    #[arg(long, value_name = "NEXT", value_parser = number::within(0..=u64::MAX))]
    after: Option<u64>,

    #[command(flatten)]
    output: Output,
}

/// Flags of `unavez keys show`.
#[derive(Args, Debug)]
#[command(after_help = "Exit 1 if the key is not in use.")]
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
    output: Output,
}

/// Flags of `unavez keys purge`.
#[derive(Args, Debug)]
#[command(after_help = "\
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

/// Runs `unavez keys …`.
pub(crate) fn run(command: &KeysCommand) -> Result<Exit, Failure> {
    match command {
        KeysCommand::List(args) => list(args),
        KeysCommand::Show(args) => show(args),
        KeysCommand::Purge(args) => purge(args),
    }
}

/// A key as `list` and `show` print it; the names are those of `GET /v1/idempotency-keys/{key}`.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    tenant: String,
    key: String,
    state: &'static str,
    expired: bool,
    pub(crate) outcome: Option<&'static str>,
    pub(crate) status: Option<u16>,
    attempts: u32,
    created_at: String,
    finished_at: Option<String>,
    expires_at: Option<String>,
    resource_id: Option<String>,
    operation_id: String,
    /// Bytes of the stored body; null where it is not kept, sealed, or not there yet.
    body_bytes: Option<usize>,
}

impl Row {
    pub(crate) fn new(record: &Record, now: Time) -> Self {
        let mut row = Self {
            tenant: record.tenant.as_str().to_owned(),
            key: record.key.as_str().to_owned(),
            state: record.state.name(),
            expired: false,
            outcome: None,
            status: None,
            attempts: record.attempts,
            created_at: time::rfc3339(record.created_at),
            finished_at: None,
            expires_at: None,
            resource_id: None,
            operation_id: record.id.operation_id().to_string(),
            body_bytes: None,
        };
        if let State::Finished { at, expires_at, conclusion, answer, resource } = &record.state {
            row.expired = *expires_at <= now;
            row.outcome = Some(conclusion.as_str());
            row.status = Some(answer.status);
            row.finished_at = Some(time::rfc3339(*at));
            row.expires_at = Some(time::rfc3339(*expires_at));
            row.resource_id = resource.as_deref().map(str::to_owned);
            row.body_bytes = body_bytes(answer);
        }
        row
    }

    pub(crate) fn state_word(&self) -> String {
        if self.expired { "expired".to_owned() } else { self.state.to_owned() }
    }
}

fn body_bytes(answer: &Answer) -> Option<usize> {
    match &answer.content {
        Content::Kept { body, .. } => Some(body.len()),
        Content::NotKept { .. } | Content::Sealed { .. } => None,
    }
}

#[derive(Serialize)]
struct Page {
    realm: String,
    keys: Vec<Row>,
    next: Option<u64>,
}

fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let viewer = open(&args.store)?;
    let filter = Filter { tenant: args.tenant.clone(), state: args.state };
    let (records, next) = viewer
        .list(&filter, args.after.map(Cursor), args.limit)
        .map_err(|error| Failure::unavailable(error.to_string()))?;
    let now = wall_clock();
    let page = Page {
        realm: viewer.realm().as_str().to_owned(),
        keys: records.iter().map(|record| Row::new(record, now)).collect(),
        next: next.map(|Cursor(position)| position),
    };
    if args.output.is_json() { print_json(&page) } else { print_line(&table(&page)) }?;
    Ok(Exit::Done)
}

fn table(page: &Page) -> String {
    if page.keys.is_empty() {
        return "no keys".to_owned();
    }
    let head = ["TENANT", "KEY", "STATE", "OUTCOME", "HTTP", "CREATED", "RESOURCE"].map(str::to_owned);
    let dash = || "-".to_owned();
    let rows = page.keys.iter().map(|row| {
        [
            row.tenant.clone(),
            row.key.clone(),
            row.state_word(),
            row.outcome.map_or_else(dash, str::to_owned),
            row.status.map_or_else(dash, |status| status.to_string()),
            row.created_at.clone(),
            row.resource_id.clone().unwrap_or_else(dash),
        ]
    });
    let mut text = columns(&[head].into_iter().chain(rows).collect::<Vec<_>>());
    if let Some(next) = page.next {
        text.push_str(&format!("more with --after {next}"));
    }
    text.trim_end().to_owned()
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
    let row = Row::new(&record, wall_clock());
    if args.output.is_json() { print_json(&row) } else { print_line(&page(&row)) }?;
    Ok(Exit::Done)
}

pub(crate) fn page(row: &Row) -> String {
    let unknown = || "-".to_owned();
    let lines = [
        ["key", &row.key],
        ["tenant", &row.tenant],
        ["state", &row.state_word()],
        ["outcome", row.outcome.unwrap_or("-")],
        ["stored answer", &row.status.map_or_else(unknown, |status| format!("HTTP {status}"))],
        ["stored body", &row.body_bytes.map_or_else(unknown, |bytes| format!("{bytes} bytes"))],
        ["resource", row.resource_id.as_deref().unwrap_or("-")],
        ["attempts", &row.attempts.to_string()],
        ["claimed", &row.created_at],
        ["finished", row.finished_at.as_deref().unwrap_or("-")],
        ["repeated until", row.expires_at.as_deref().unwrap_or("-")],
        ["operation", &row.operation_id],
    ];
    columns(&lines.map(|line| line.map(str::to_owned))).trim_end().to_owned()
}

fn purge(args: &PurgeArgs) -> Result<Exit, Failure> {
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
