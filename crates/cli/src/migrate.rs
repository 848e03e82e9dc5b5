//! `unavez migrate`: brings a database file to this version's schema, or says whether it is there.

use clap::Args;
use serde::Serialize;
use unavez_payments::{COMPONENT, OpenError, Payments, Settings};
use unavez_store::sqlite::{self, AppliedMigration, Location, Migrate, Options, Viewer};

use crate::exit::{Exit, Failure};
use crate::output::{Output, columns, print_json, print_line};
use crate::serve::{DatabaseFile, store_failure};
use crate::{duration, time};

/// Flags of `unavez migrate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez migrate
  unavez migrate --check --store sqlite:/var/lib/unavez/unavez.db

`unavez serve` migrates by itself when it opens a database; this does it beforehand (making the file if it is
not there), or only checks, which needs no lock and may be done while the service runs.
Exit 1 with --check if migrations are missing; 3 if the file is corrupt, newer, or in use.")]
pub(crate) struct MigrateArgs {
    /// The database: sqlite:PATH
    #[arg(long, value_name = "STORE", default_value = "sqlite:unavez.db")]
    store: DatabaseFile,

    /// Change nothing; exit 1 if migrations are missing
    #[arg(long)]
    check: bool,

    /// How long to wait for another process to let go of the database file
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    lock_wait: std::time::Duration,

    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Document {
    /// There was no such file before this call.
    created: bool,
    up_to_date: bool,
    migrations: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    component: String,
    number: u32,
    name: String,
    applied_at: String,
    /// Applied by this call.
    is_new: bool,
}

/// Runs `unavez migrate`.
pub(crate) fn run(args: &MigrateArgs) -> Result<Exit, Failure> {
    let DatabaseFile(path) = &args.store;
    let created = !path.exists();
    if args.check && created {
        return Err(Failure::unavailable(format!("{}: there is no database", path.display())));
    }
    if let (true, Ok(viewer)) = (args.check, Viewer::open(path)) {
        return match viewer.migrations(&[COMPONENT]) {
            Ok(migrations) => print(args, created, migrations).map(|()| Exit::Done),
            Err(outdated @ sqlite::OpenError::Outdated { .. }) => {
                store_failure(&outdated).report();
                Ok(Exit::CheckFailed)
            }
            Err(error) => Err(store_failure(&error)),
        };
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::unavailable(format!("the runtime cannot start: {error}")))?;
    runtime.block_on(migrate(args, created))
}

async fn migrate(args: &MigrateArgs, created: bool) -> Result<Exit, Failure> {
    let options = Options {
        lock_wait: args.lock_wait,
        migrate: if args.check { Migrate::Check } else { Migrate::Auto },
        ..Options::default()
    };
    match Payments::open(Location::File(args.store.0.clone()), options, Settings::default()).await {
        Ok(payments) => {
            let migrations = payments.store().migrations().to_vec();
            payments.close().await;
            print(args, created, migrations)?;
            Ok(Exit::Done)
        }
        Err(OpenError::Store(outdated @ sqlite::OpenError::Outdated { .. })) if args.check => {
            store_failure(&outdated).report();
            Ok(Exit::CheckFailed)
        }
        Err(OpenError::Store(error)) => Err(store_failure(&error)),
        Err(error) => Err(Failure::unavailable(error.to_string())),
    }
}

fn print(args: &MigrateArgs, created: bool, migrations: Vec<AppliedMigration>) -> Result<(), Failure> {
    let rows: Vec<Row> = migrations
        .into_iter()
        .map(|it| Row {
            component: it.component,
            number: it.number,
            name: it.name,
            applied_at: time::rfc3339(it.applied_at),
            is_new: it.is_new,
        })
        .collect();
    if args.output.is_json() {
        return print_json(&Document { created, up_to_date: true, migrations: rows });
    }
    let head = ["PART", "NUMBER", "NAME", "APPLIED"].map(str::to_owned);
    let lines = rows.into_iter().map(|row| {
        let when = if row.is_new { format!("{} (now)", row.applied_at) } else { row.applied_at };
        [row.component, row.number.to_string(), row.name, when]
    });
    let table = columns(&[head].into_iter().chain(lines).collect::<Vec<_>>());
    let made = if created {
        format!("created the new database {}; ", args.store.0.display())
    } else {
        String::new()
    };
    print_line(&format!("{table}{made}the database is up to date"))
}
