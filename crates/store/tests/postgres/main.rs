//! What PostgreSQL adds to the public suite: batches of several processes, answers that are lost, a server that dies, and
//! what a database must be like.

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod batches;
mod crashes;
mod doubts;
mod finish_in;
mod opening;
mod portability;
mod support;
