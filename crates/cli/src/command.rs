//! The subcommands, and how one of them is chosen and run.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::acquirer::{self, AcquirerArgs};
use crate::api_keys::{self, ApiKeysCommand};
use crate::backup::{self, BackupArgs};
use crate::bench::{self, BenchArgs};
use crate::call::{self, CallArgs};
use crate::exit::{Exit, Failure};
use crate::explain::{self, ExplainArgs};
use crate::keys::{self, KeysCommand};
use crate::lab::{self, LabCommand};
use crate::migrate::{self, MigrateArgs};
use crate::output::tell;
use crate::reconcile::{self, ReconcileArgs};
use crate::restore::{self, RestoreArgs};
use crate::serve::{self, ServeArgs};
use crate::settings::Layers;
use crate::settings::show::{self, ConfigArgs};
use crate::trace::{self, TraceArgs};

/// Operations that take effect exactly once: a payments service on embedded SQLite, its tools, and the lab that
/// measures what repeated charges cost without it.
#[derive(Debug, Parser)]
#[command(
    name = "unavez",
    version,
    after_help = "\
Every flag of a subcommand can also be set by an environment variable and in unavez.toml:
  --listen of `serve`      UNAVEZ_SERVE_LISTEN      listen = \"…\" below [serve]
  --seed of `lab fleet`    UNAVEZ_LAB_FLEET_SEED    seed = … below [lab.fleet]
Flag beats environment beats file beats default. `unavez config` shows what is in force and why.

Exit codes:
  0  done
  1  a check failed
  2  wrong use or configuration
  3  something needed is not reachable, or a database file is corrupt, newer or locked
  4  it is not known what became of the operation (`call`)
  5  the operation is settled, and its answer could not be written (`call`)
  130  a signal ended `unavez lab`, `backup` or `restore` before it was done"
)]
struct Cli {
    /// Configuration file [default: ./unavez.toml, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the payments service
    Serve(Box<ServeArgs>),
    /// Run a sandbox acquirer, for a service to charge through
    Acquirer(AcquirerArgs),
    /// Measure what lost answers cost, test the promises, break them on purpose
    #[command(subcommand, arg_required_else_help = true)]
    Lab(LabCommand),
    /// Make, list and revoke API keys
    #[command(subcommand, arg_required_else_help = true)]
    ApiKeys(ApiKeysCommand),
    /// Look at idempotency keys, and purge expired ones
    #[command(subcommand, arg_required_else_help = true)]
    Keys(KeysCommand),
    /// Say of an order whether it was charged twice, and why
    Trace(TraceArgs),
    /// Compare the acquirer's list with charges and ledger
    Reconcile(Box<ReconcileArgs>),
    /// Say what a problem code means, what is safe and what to do
    Explain(ExplainArgs),
    /// Copy the database beside the running service, and check the copy
    Backup(BackupArgs),
    /// Put a copy in the database's place, to ask first for what it has forgotten
    Restore(RestoreArgs),
    /// Bring a database file to this version's schema
    Migrate(MigrateArgs),
    /// Send one operation until it is done or refused, always under one key
    Call(Box<CallArgs>),
    /// Drive load against a service and measure rate and latency
    Bench(BenchArgs),
    /// Show each setting in force and where it comes from
    Config(ConfigArgs),
}

/// Parses the arguments over environment and configuration file, and runs the subcommand.
pub(crate) fn run(
    arguments: Vec<OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Exit, Failure> {
    let root = Cli::command();
    if let Some(exit) = print_help(&root, &arguments) {
        return Ok(exit);
    }
    let layers = Layers::read(&root, &arguments, environment)?;
    let matches = match layers.apply(root.clone()).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(refused) => return Ok(print_refusal(&refused)),
    };
    let cli = Cli::from_arg_matches(&matches).map_err(|refused| Failure::usage(refused.to_string()))?;
    if !matches!(cli.command, Command::Config(_)) {
        warn_of_unknown_variables(&layers, &root);
    }
    match &cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Acquirer(args) => acquirer::run(args),
        Command::Lab(command) => lab::run(command),
        Command::ApiKeys(command) => api_keys::run(command),
        Command::Keys(command) => keys::run(command),
        Command::Reconcile(args) => reconcile::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Call(args) => call::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Config(args) => show::run(args, &layers, &root, check),
    }
}

/// Help and version need no configuration, least of all a valid one.
fn print_help(root: &clap::Command, arguments: &[OsString]) -> Option<Exit> {
    let asked = root.clone().try_get_matches_from(arguments).err()?;
    match asked.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Some(print_refusal(&asked)),
        _ => None,
    }
}

/// Prints what clap has to say: help to standard output, errors to standard error.
fn print_refusal(refused: &clap::Error) -> Exit {
    // A reader that went away needs no message.
    let _ = refused.print();
    if refused.use_stderr() { Exit::Usage } else { Exit::Done }
}

fn warn_of_unknown_variables(layers: &Layers, root: &clap::Command) {
    let warning = anstyle::AnsiColor::Yellow.on_default().bold();
    for (name, nearest) in layers.unknown_variables(root) {
        tell(&format!(
            "{warning}warning:{warning:#} environment variable {name} names no setting; the nearest known one is {nearest}"
        ));
    }
}

/// Judges the settings of a section that parsed, for `unavez config --check`.
fn check(section: &str, matches: &ArgMatches) -> Result<(), Failure> {
    let refused = |refused: clap::Error| Failure::usage(refused.to_string());
    match section {
        "serve" => serve::check(&ServeArgs::from_arg_matches(matches).map_err(refused)?),
        "acquirer" => acquirer::check(&AcquirerArgs::from_arg_matches(matches).map_err(refused)?),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::settings::settings_of;

    #[test]
    fn the_commands_are_declared_without_contradictions() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_two_settings_share_a_variable_or_a_key() {
        let settings = settings_of(&Cli::command());
        let variables: HashSet<String> = settings.iter().map(|(setting, _)| setting.variable()).collect();
        let keys: HashSet<String> =
            settings.iter().map(|(setting, _)| format!("{}.{}", setting.section(), setting.key)).collect();
        assert_eq!((variables.len(), keys.len()), (settings.len(), settings.len()));
        assert!(!variables.contains("UNAVEZ_CONFIG"), "that one names the file");
    }

    /// Values of environment and file take the place of defaults, which such rules do not see (settings, rule 5).
    #[test]
    fn no_argument_depends_on_another() {
        for (setting, arg) in settings_of(&Cli::command()) {
            let shown = format!("{arg:?}");
            for rule in ["requires: []", "conflicts: []", "r_ifs: []", "overrides: []"] {
                assert!(shown.contains(rule), "{} of {}: {shown}", setting.key, setting.section());
            }
        }
    }
}
