//! `unavez serve`: the payments service.

mod announce;
mod args;
mod listen;
mod one_address;
mod run;
mod signals;

pub(crate) use args::{DatabaseFile, ServeArgs, store_failure};
pub(crate) use run::{check, run};
pub(crate) use signals::Stop;
