//! `Idempotency-Key` as tower middleware: each covered operation takes effect once.
//!
//! A caller whose answer was lost repeats its request with the same key. The middleware claims the key before the
//! operation begins, runs the operation in a task of its own, stores its answer, and gives that answer to every repeat.
//!
//! 1. A key names one operation of one tenant. Its claim is atomic and comes first; the loser of a race runs nothing
//!    (P4, P8).
//! 2. The same key with another request is refused with 422, in every state (P6).
//! 3. While the operation runs, repeats get 409, or wait if they prefer to (P10).
//! 4. A caller that hangs up stops nothing. An owner that died is found out by the operation timeout, and its late
//!    writes are refused by the fence (P9, P11, P12).
//! 5. What became of an operation is final, released or unknown, and unknown is never taken for failed. What a lost
//!    attempt leads to is chosen for each route: [`transactional`], [`recoverable`] or [`opaque`] (P14 to P16).
//! 6. A replay is byte-equal and marked; what cannot be kept is not run again for that (P18 to P20).
//!
//! The P-numbers are those of `docs/protocol.md`.
//!
//! # What breaks it in deployment
//!
//! - A store that forgets what it acknowledged: asynchronous replicas, a memory store behind two processes.
//! - A gateway that rewrites bodies or paths between two attempts, or cuts long headers: honest repeats become 422.
//! - `Router::layer` where `route_layer` is meant: unknown paths then claim keys, and their 404 is final.
//! - Compression *inside* the layer. Stand it outside, so that answers are stored as the handler made them.
//! - A handler that does its work in a response stream: the outcome is recorded when the stream begins.
//! - A detached task of the handler that sends after the attempt's deadline; ask [`Once::check_deadline`] first.
//!
//! # Example
//!
//! ```
//! use axum::{Router, routing::post};
//! use http::{Request, StatusCode};
//! use tower::ServiceExt;
//! use unavez_tower::{IdempotencyLayer, MemoryStore, OnLost, tenant};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let idempotent = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
//! let app: Router = Router::new()
//!     .route("/mails", post(async || (StatusCode::CREATED, "sent")))
//!     .route_layer(idempotent.opaque(OnLost::Hold));
//!
//! let request = || Request::post("/mails").header("idempotency-key", "m-1").body("hello".to_owned()).unwrap();
//! let first = app.clone().oneshot(request()).await.unwrap();
//! let repeat = app.oneshot(request()).await.unwrap();
//! assert_eq!((first.status(), repeat.status()), (StatusCode::CREATED, StatusCode::CREATED));
//! assert!(!first.headers().contains_key("idempotent-replayed"));
//! assert_eq!(repeat.headers()["idempotent-replayed"], "true");
//! # }
//! ```
//!
//! On shutdown, stop accepting and then wait for what runs: [`Engine::drain`]. A service with recoverable routes spawns a
//! [`RecoveryWorker`](recover::RecoveryWorker), and every service a [`PurgeWorker`](purge::PurgeWorker).
//!
//! # Features
//!
//! `axum`: extractors, and paths as they were before nesting. `sqlite`: the SQLite store, and finishes inside its
//! transactions. `postgres`: the PostgreSQL store; `tokio-postgres`: finishes inside transactions of that driver. None is default, and none changes what the others do.
//!
//! [`transactional`]: IdempotencyLayer::transactional
//! [`recoverable`]: IdempotencyLayer::recoverable
//! [`opaque`]: IdempotencyLayer::opaque

pub mod answers;
pub mod body;
pub mod door;
pub mod engine;
pub mod headers;
pub mod observe;
pub mod once;
pub mod problem;
pub mod purge;
pub mod recover;
pub mod tenant;
pub mod validate;

mod caught;
mod gather;
mod layer;
mod operate;
mod service;

pub use body::Body;
pub use engine::Engine;
pub use layer::{IdempotencyLayer, Undecided};
pub use once::Once;
pub use service::{Idempotency, ResponseFuture};
pub use unavez_core::identity::{OperationId, Realm};
pub use unavez_core::outcome::{OnLost, Said};
pub use unavez_core::seal::SealKeys;
pub use unavez_core::timing::{Contradiction, Timings};
pub use unavez_store::Store;
pub use unavez_store::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use unavez_store::postgres::{self, PostgresStore};
#[cfg(feature = "sqlite")]
pub use unavez_store::sqlite::{self, SqliteStore};
