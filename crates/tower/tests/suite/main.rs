//! The cases of the middleware, by theme. One program, since each further one would be linked anew.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with the value it met")]

mod answers;
mod door;
mod faults;
mod hangup;
mod histories;
#[cfg(feature = "tokio-postgres")]
mod postgres;
mod privacy;
mod race;
mod recovery;
mod recovery_by_hook;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stack;
mod support;
mod wire;
mod worker;
