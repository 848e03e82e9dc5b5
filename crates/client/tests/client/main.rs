//! The client against servers of its tests, over connections in memory and in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with the value it met, helpers included")]

mod breaker;
mod bulkhead;
mod hostile;
mod layer;
mod net;
mod presets;
mod results;
mod waits;
