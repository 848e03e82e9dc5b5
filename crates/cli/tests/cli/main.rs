//! The real binary, from outside: what people and scripts rely on.

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with the value it met, helpers included")]

mod acquirer;
mod api_keys;
mod bench;
mod call;
mod call_shell;
mod classroom;
mod config;
mod console;
mod copies;
mod crash;
mod docs;
mod duplicated;
mod help;
mod keys;
mod lab;
mod reconcile;
mod serve;
mod settle;
mod support;
mod trace;
