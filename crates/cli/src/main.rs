//! `unavez`: the payments service, its tools and the lab, in one binary.

mod acquirer;
mod api_keys;
mod backup;
mod bench;
mod call;
mod client;
mod command;
mod console;
mod copying;
mod duration;
mod exit;
mod explain;
mod keys;
mod lab;
mod migrate;
mod number;
mod output;
mod reconcile;
mod remedy;
mod restore;
mod serve;
mod settings;
mod time;
mod trace;

use std::process::ExitCode;

/// A request is allocated on one thread and its record on another, which is what the system's allocator is slow at:
/// `docs/design/004-allocator.md` has the measurement.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match command::run(std::env::args_os().collect(), std::env::vars_os()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.report();
            failure.exit.into()
        }
    }
}
