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
//! 1. A charge is one commit: claim, charge row, ledger entry and stored answer happen together or not at all (P8, P14).
//! 2. An operation id has one outcome for ever: the charge row outlives the idempotency record and answers for it (P21).
//! 3. A body that breaks a rule never claims a key, and never overrules a record that is there (P7).
//! 4. What looks like a card number is refused and neither stored, logged nor echoed.
//! 5. Money is an integer of minor units; no float ever touches it.
//!
//! # What breaks it in deployment
//!
//! A second process on the same database file (refused by the store), a proxy that rewrites paths or bodies between
//! repeats (answered 422, nothing runs twice), API keys added to a database whose charges belong to the tenant
//! `default` (refused at start until their owner is named).

pub mod acquirer;
pub mod auth;
pub mod books;
pub mod charge;
pub mod money;
pub mod reconcile;
pub mod server;
pub mod settings;

mod hex;
mod http;
mod metrics;
mod night;
mod outside;
mod owner;
mod random;
mod readiness;
mod request_id;
mod seals;
mod service;

pub use books::{Books, COMPONENT};
pub use outside::by_hand::{ByHand, NotRuled, Operator, Refusal, Ruled, Ruling, RulingReason, Witness};
pub use owner::OwnerConflict;
pub use service::{OpenError, Payments};
pub use settings::{AcquirerKind, Limits, SameOrder, Settings, Vendor};
