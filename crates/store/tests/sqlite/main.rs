//! What SQLite adds to the public suite: files, batches, clocks across restarts, growth.

#![cfg(feature = "sqlite")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod batches;
mod clocks;
mod copies;
mod files;
mod growth;
mod guests;
mod one_commit;
mod processes;
mod support;
