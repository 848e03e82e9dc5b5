//! The project's own chores, run as `cargo xtask <chore>`.
//!
//! One rule: a chore either does what it says, or ends with an exit code that says why not
//! (see [`failure::Failure`]). Nothing is skipped silently, and nothing that was already running is touched.

mod bench;
mod crash;
mod deps;
mod docs;
mod failure;
mod shell;
mod test;
mod tools;
mod wire;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The project's own chores.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    max_term_width = 110,
    after_help = "Exit codes: 0 done; 1 a check failed; 2 wrong use; 3 something needed is not available.\n\n\
                  Before a commit:    cargo xtask test --quick\n\
                  The gate, whole:    cargo xtask test"
)]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    Test(test::Args),
    Deps(deps::Args),
    Docs(docs::Args),
    Bench(bench::Args),
    Crash(crash::Args),
    Orders(crash::orders::Args),
}

fn main() -> ExitCode {
    match run(Xtask::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(what) = failure.untold() {
                eprintln!("error: {what}");
            }
            failure.exit_code()
        }
    }
}

fn run(chore: Chore) -> Result<(), Failure> {
    let workspace = Workspace::locate()?;
    match chore {
        Chore::Test(args) => test::run(&workspace, &args),
        Chore::Deps(args) => deps::run(&workspace, &args),
        Chore::Docs(args) => docs::run(&workspace, &args),
        Chore::Bench(args) => bench::run(&workspace, &args),
        Chore::Crash(args) => crash::run(&workspace, &args),
        Chore::Orders(args) => crash::orders::run(&workspace, &args),
    }
}
