//! `unavez serve`: the payments service.

mod acquirer_flags;
mod announce;
mod args;
mod listen;
mod log;
mod one_address;
mod run;
mod signals;

pub(crate) use acquirer_flags::AcquirerFlags;
pub(crate) use args::{DatabaseFile, ServeArgs, StoreLocation, store_failure};
pub(crate) use listen::Listen;
pub(crate) use log::LogFlags;
pub(crate) use run::{check, drain_on, open_failure, run, signals_failed, until};
pub(crate) use signals::Stop;
