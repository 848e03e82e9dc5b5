//! What Redis adds to the public suite: steps and what they cost, promises that the server itself ends, answers that are
//! lost, a server that dies, and what a server must be like.

#![cfg(feature = "redis")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod crashes;
mod opening;
mod steps;
mod support;
