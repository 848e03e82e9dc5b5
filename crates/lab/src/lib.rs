//! The measurements: what a lost answer costs a server without memory, what it costs one that remembers, and which
//! test notices when a piece of the remembering is taken out.
//!
//! | command | module | asks |
//! |---|---|---|
//! | `unavez lab fleet` | [`fleet`] | how much money do the same orders, losses and retries move, before and after? |
//! | `unavez lab accept` | [`accept`] | does a service keep each promise, one test per promise? |
//! | `unavez lab keys` | [`naming`] | which keys are right, in which situations, and what do the others cost? |
//! | `unavez lab day` | [`day`] | what does a day of traffic leave in the store, with and without a TTL? |
//! | `unavez lab break` | [`break_`] | is every test needed: does each removed piece fail exactly the tests it should? |
//! | `unavez lab herd` | [`herd`] | who brings a server down after an outage, and who is charged twice by it? |
//! | `unavez lab breaker` | [`breaker`] | what do a breaker's probes cost, if they are charges? |
//! | `unavez lab all` | [`mod@all`] | everything above, on one page |
//!
//! # Rules
//!
//! 1. Everything but herd and breaker is measured at a real server over real HTTP with real files; a lost response is
//!    really lost, by [`link::Link`], which closes the connection before a byte of the response reaches the client.
//! 2. Money is counted at the service's ledger, never from what the client believes.
//! 3. The only randomness that shows in a figure is CPython's generator ([`random::PythonRandom`]), so that anybody can
//!    draw the same orders with three lines of Python. Everything else that must race is forced by a barrier.
//! 4. Herd and breaker are simulations in virtual time. What the product has is not simulated in them: core's rules
//!    decide, and the product's store remembers.
//! 5. What is broken on purpose is broken in a decorated client, store or acquirer of this crate, never by a switch in the product.
//!
//! # Use
//!
//! Each command is an options struct, an async `run`, and a report. A report is serde-serialisable (exactly the JSON
//! the command line prints), renders itself as text with `render(Lang)`, and knows its exit verdict: `passed()`.
//! Mistakes and unreachable services are an [`Error`], whose [`Error::exit_code`] is the one the command line documents.
//!
//! ```no_run
//! # async fn example() -> Result<(), unavez_lab::Error> {
//! use unavez_lab::{Lang, fleet, progress::Silent};
//!
//! let figures = fleet::run(&fleet::Options::default(), &Silent).await?;
//! println!("{}", figures.render(Lang::En));
//! assert!(figures.passed());
//! # Ok(())
//! # }
//! ```

pub mod accept;
pub mod all;
pub mod break_;
pub mod breaker;
mod crowd;
pub mod day;
mod error;
pub mod fleet;
pub mod herd;
mod keys;
mod lang;
pub mod link;
mod money;
mod mutation;
pub mod naming;
pub mod progress;
pub mod random;
pub mod report;
mod servers;
mod target;
mod text;
mod wire;
mod workshop;

pub use error::{Error, ErrorKind};
pub use lang::{Lang, Said};
pub use mutation::{Mutation, UnknownMutation};
pub use target::{InvalidTarget, Remote, Target, refuse_real_money};
pub use workshop::Workshop;

/// The version that reports name.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
