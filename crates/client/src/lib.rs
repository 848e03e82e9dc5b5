//! A client that retries without charging twice.
//!
//! An answer that is lost says nothing about the operation: it may have happened. A client that sends the operation again
//! under a new key makes it happen again; one that reports a failure makes its caller do so. This one gives each operation
//! one key for its whole life, and has three results instead of two.
//!
//! 1. One operation, one key: made before the first attempt, sent unchanged on every one, and after a restart (P29).
//! 2. Only what is safe is sent again: with a key, or when nothing had left (P30).
//! 3. Waits are spread, `Retry-After` is honoured, and a budget bounds what retries add to the load (P31).
//! 4. [`Outcome::Done`], [`Outcome::Refused`], [`Outcome::Unknown`]: once an attempt may have been received, only an
//!    answer from the key's record is believed (P32).
//! 5. A host that is down is left alone, and probed only with what is safe to repeat; one that is slow holds no more than
//!    its share of attempts (P33).
//!
//! The P-numbers are those of `docs/protocol.md`. Every decision is a function in `unavez_core::retry`; here are the
//! sockets and the timers.
//!
//! # What breaks it in deployment
//!
//! - Another layer that repeats requests: a proxy, a mesh, an SDK inside the inner service. It knows no key and no budget.
//! - A preset that does not fit the server: [`Preset::recorded`] decides which answers end an operation.
//! - Operations that are made anew after a restart instead of being stored: their random key is gone. Derive the key, or
//!   store the operation before the first attempt: in the outbox (feature `outbox`), or yourself
//!   ([`Operation::into_parts`]).
//! - A host that is only sent operations without a key: once open, its breaker finds nothing it may probe with.
//!
//! # Example
//!
//! A server that takes the charge and loses the answer, once:
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use unavez_client::{Client, Operation, Outcome, Preset, Wire, derive};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("http://{}/v1/charges", server.local_addr()?);
//! tokio::spawn(async move {
//!     for answer in ["", "HTTP/1.1 201 Created\r\nidempotent-replayed: true\r\ncontent-length: 2\r\n\r\n{}"] {
//!         let (mut connection, _) = server.accept().await.unwrap();
//!         connection.read(&mut [0; 4096]).await.unwrap();
//!         connection.write_all(answer.as_bytes()).await.unwrap();
//!     }
//! });
//!
//! let client = Client::builder(Preset::stripe()).build_over(Wire::plain());
//! let charge = Operation::post(&url)?.with_key(derive("charge", &["o-1001"])?).with_json(r#"{"amount":500}"#);
//! match client.call(&charge).await? {
//!     Outcome::Done(answer) => assert_eq!(answer.status(), 201),
//!     Outcome::Refused(answer) => panic!("never under this key: {}", answer.status()),
//!     Outcome::Unknown(unknown) => panic!("call the same operation again: {unknown}"),
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "outbox")]
pub mod outbox;
pub mod preset;

mod client;
mod clock;
mod compose;
mod host;
mod layer;
mod listen;
mod operation;
mod outcome;
mod reading;
mod run;
mod transport;
mod unfit;
mod wire;

pub use client::{Client, ClientBuilder};
pub use layer::{Carried, NoAnswer, ResponseFuture, Retry, RetryLayer};
pub use listen::{Event, Listen};
pub use operation::{Operation, OperationParts, random_key};
pub use outcome::{Last, Outcome, Resolve, Unknown};
pub use preset::Preset;
pub use transport::{BoxError, Cause, Exchanged, Transport};
pub use unavez_core::derive::{DeriveError, derive};
pub use unavez_core::key::{Key, KeyError};
pub use unavez_core::retry::{
    Backoff, BreakerLimits, BudgetLimits, BulkheadLimits, Nature, Reason, Received, Told,
};
pub use unavez_core::time::Time;
pub use unfit::Unfit;
pub use wire::Wire;
