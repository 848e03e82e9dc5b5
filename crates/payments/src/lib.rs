//! The payments service: charges and a double-entry ledger whose every POST takes effect once.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unavez_payments::{Payments, Settings, server};
//! use unavez_store::sqlite::{Location, Options};
//!
//! let payments = Payments::open(Location::File("unavez.db".into()), Options::default(), Settings::default()).await?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! server::serve(listener, payments.router(), server::Limits::default(), shutdown).await;
//! payments.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Rules
//!
//! 1. With the ledger a charge is one commit: claim, charge row, ledger entry and stored answer happen together or not at
//!    all (P8, P14). With an acquirer outside there are two, and whatever dies between them is asked about before anything
//!    is sent again (P16).
//! 2. An operation id has one outcome for ever: the charge row outlives the idempotency record and answers for it (P21).
//! 3. A body that breaks a rule never claims a key, and never overrules a record that is there (P7).
//! 4. A charge's captures, voids and refunds are operations of their own, each under its own key; illegal steps are refused
//!    by name, and refunds never come to more than was captured.
//! 5. What looks like a card number is refused and neither stored, logged nor echoed.
//! 6. Money is an integer of minor units; no float ever touches it.
//!
//! # What breaks it in deployment
//!
//! A second process on the same database file (refused by the store), a proxy that rewrites paths or bodies between
//! repeats (answered 422, nothing runs twice), API keys added to a database whose charges belong to the tenant
//! `default` (refused at start until their owner is named), a restored database that has forgotten keys
//! ([`Settings::ask_first_until`]), and an acquirer that promises more than it keeps.

pub mod acquirer;
pub mod auth;
pub mod books;
pub mod charge;
pub mod copies;
pub mod money;
pub mod reconcile;
pub mod server;
pub mod settings;

mod crash;
mod hex;
mod http;
mod metrics;
mod night;
mod open_error;
mod outage;
mod outside;
mod owner;
mod random;
mod readiness;
mod request_id;
mod seals;
mod service;

pub use books::{Books, COMPONENT};
pub use open_error::OpenError;
pub use outside::by_hand::{
    ByHand, Confirmation, NotRuled, Operator, Refusal, Ruled, Ruling, RulingReason, Witness,
};
pub use owner::OwnerConflict;
pub use service::Payments;
pub use settings::{AcquirerKind, Limits, SameOrder, Settings, Vendor};
