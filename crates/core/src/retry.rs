//! The rules of a client that repeats requests: when, how often, and what may be believed (P30 to P33).
//!
//! A retry is the commonest cause of a second charge, and the commonest cause of an outage that does not end. The
//! parts here keep both apart, each a value without clock or randomness of its own:
//!
//! 1. [`Call`] judges the end of every attempt: done, refused, unknown, send again, or ask what became of the key.
//! 2. [`Backoff`] spreads the waits, [`advice`] reads what the server asked for.
//! 3. [`Budget`] bounds how much all calls together add to the load, [`Breaker`] stops sending to what is down, and
//!    [`Bulkhead`] bounds how many attempts one host can hold.
//!
//! An edge performs what comes out: it has the sockets, the timers and the randomness, and none of the decisions.
//!
//! What breaks it in deployment: a second layer that repeats requests (a proxy, a mesh, a vendor's SDK) multiplies
//! with this one and knows neither the key nor the budget.
//!
//! ```
//! use unavez_core::retry::{Answer, Budget, BudgetLimits, Call, Ended, Nature, Next, Policy, Start, Verdict};
//! use unavez_core::time::Time;
//!
//! let now = Time::from_micros(0);
//! let mut budget = Budget::new(BudgetLimits::default());
//! let mut call = Call::new(Policy::default(), Start::fresh(Nature::Keyed), now)?;
//!
//! // The answer to the first attempt is lost. What follows is sent with the same key.
//! let Next::Send { after } = call.after(&Ended::Cut, &mut budget, u64::MAX / 2, now) else { panic!() };
//! // A refusal that does not come from the key's record says nothing about the attempt that was lost.
//! let next = call.after(&Ended::Answered(Answer::of_status(422)), &mut budget, 0, now.plus(after));
//! assert!(matches!(next, Next::End(Verdict::Unknown(_))));
//! # Ok::<(), unavez_core::retry::Reason>(())
//! ```

pub mod advice;
mod attempt;
mod backoff;
mod breaker;
mod budget;
mod bulkhead;
mod call;

pub use attempt::{Answer, Class, Ended, Nature, Received, Says, Told};
pub use backoff::Backoff;
pub use breaker::{Breaker, BreakerLimits, Shut, Ticket};
pub use budget::{Budget, BudgetLimits};
pub use bulkhead::{Bulkhead, BulkheadLimits, Entry, Place};
pub use call::{Call, Next, Policy, Reason, Start, Verdict};
