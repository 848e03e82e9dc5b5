//! `unavez serve`: the payments service.

mod announce;
mod args;
mod listen;
pub(crate) mod log;
mod one_address;
mod run;
mod signals;

pub(crate) use args::{DatabaseFile, LogFormat, ServeArgs, StoreLocation, store_failure};
pub(crate) use listen::Listen;
pub(crate) use run::{check, drain_on, run, signals_failed, until};
pub(crate) use signals::Stop;
