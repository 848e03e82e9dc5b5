//! The outbox: what it puts, who may send it, and what a crash at each place leaves (P29).

#![expect(clippy::unwrap_used, reason = "a test that unwraps fails with the value it met, helpers included")]

mod crashes;
mod disk;
mod putting;
mod shop;
mod turns;
