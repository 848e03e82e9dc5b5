//! The service from outside: real HTTP on a port of its own, a real SQLite file in a folder of its own.
#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

mod auth;
mod charges;
mod hostile;
mod keys;
mod lists;
mod openapi;
mod opening;
mod outside;
mod overload;
mod privacy;
mod readiness;
mod refusals;
mod seals;
mod secured;
mod support;
mod time;
