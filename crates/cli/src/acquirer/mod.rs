//! `unavez acquirer`: the sandbox acquirer as a process of its own.

mod args;
mod run;

pub(crate) use args::AcquirerArgs;
pub(crate) use run::{check, run};
