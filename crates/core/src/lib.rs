//! The rules of operations that take effect exactly once.
//!
//! Everything here is a function from values to values: no I/O, no clock, no randomness, no async, no std. Time comes
//! in as [`time::Time`], random ids as [`identity::AttemptId`], and what to do goes out as a value
//! ([`decision::Decision`], [`outcome::Outcome`], [`recovery::Verdict`], [`retry::Next`]) that an edge obeys.
//!
//! The rules have numbers, P1 to P33, in `docs/protocol.md`; each item names the rule it keeps.

#![no_std]

extern crate alloc;

pub mod answer;
pub mod decision;
pub mod derive;
pub mod fingerprint;
pub mod identity;
pub mod json;
pub mod key;
pub mod outcome;
pub mod problem;
pub mod record;
pub mod recovery;
pub mod retry;
pub mod seal;
pub mod settling;
pub mod time;
pub mod timing;
