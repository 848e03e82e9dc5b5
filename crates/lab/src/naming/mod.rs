//! What a client makes its keys of: random or derived, and the mistakes, each played through at the payments service.
//!
//! A key is right if every repeat of an operation has it and no other operation does. Which situations a client meets
//! decides which keys are right for it, so each kind of key is put into each situation: over real HTTP, with answers that
//! are really lost, and with the money counted in the service's books afterwards.
//!
//! | key | made of | wrong where |
//! |---|---|---|
//! | `random` | nothing, held in memory | the client forgets it, or two workers do the same work |
//! | `random-stored` | nothing, written down with the order before the first attempt | nowhere |
//! | `derived` | the order | the order is charged a second time on purpose |
//! | `derived-occurrence` | the order, and the how-manieth charge of it this is | nowhere |
//! | `names-attempt` | that, and the attempt: too much | an answer is lost |
//! | `names-time` | that, and the time: too much | anything is repeated |
//! | `names-amount` | the amount: too little | two operations have one amount |

mod render;
mod run;
mod shop;
mod situation;

use std::path::PathBuf;

use serde::Serialize;

use crate::accept;

pub use run::run;
pub use shop::Naming;
pub use situation::Situation;

/// What to measure with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The `unavez` executable, to be started and killed by the acceptance tests; without it that test is skipped.
    pub executable: Option<PathBuf>,
}

impl Options {
    /// The command that runs the same again.
    pub fn command(&self) -> &'static str {
        "unavez lab keys"
    }
}

/// Every kind of key in every situation: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The acceptance tests, by a client with each of the two right kinds of key.
    pub accept: Accepted,
    /// Each situation, with each kind of key.
    pub situations: Vec<Played>,
}

/// The acceptance tests with random and with derived keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// Random, made once for each operation.
    pub random: accept::Report,
    /// Derived from the order.
    pub derived: accept::Report,
}

/// One situation, played with each kind of key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Played {
    /// What happens.
    pub name: Situation,
    /// Charges that were meant.
    pub expected_charges: u64,
    /// What they were to cost, in whole dollars.
    pub expected_total: u64,
    /// In the order of the table above.
    pub keys: Vec<Tried>,
}

/// One kind of key in one situation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The kind of key.
    pub made_of: Naming,
    /// What was sent and answered, in order.
    pub sent: Vec<Sent>,
    /// Charges in the service's books.
    pub charges: u64,
    /// Their sum, in whole dollars.
    pub total: u64,
    /// Whether that is what was meant.
    pub right: bool,
    /// Whether it was to be expected of this kind of key.
    pub as_predicted: bool,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// The key it carried.
    pub key: String,
    /// The answer's status; `None` if the answer was lost.
    pub status: Option<u16>,
}

impl Report {
    /// Whether the tests passed with both kinds of key, and every kind did in every situation what was predicted.
    pub fn passed(&self) -> bool {
        let tried = |played: &Played| played.keys.iter().all(|tried| tried.as_predicted);
        self.accept.random.passed() && self.accept.derived.passed() && self.situations.iter().all(tried)
    }
}

/// What is predicted, as if it had been measured.
#[cfg(test)]
pub(crate) fn sample() -> Report {
    let accepted = || accept::Report { passed: 15, failed: 0, skipped: 0, mutation: None, tests: vec![] };
    let played = |name: Situation| {
        let (expected_charges, expected_total) = name.expected();
        let keys = Naming::ALL.map(|made_of| {
            let charges = name.predicted(made_of);
            let total = expected_total / expected_charges * charges;
            let sent = vec![Sent { key: "k".into(), status: Some(201) }];
            let right = charges == expected_charges;
            Tried { made_of, sent, charges, total, right, as_predicted: true }
        });
        Played { name, expected_charges, expected_total, keys: keys.into() }
    };
    Report {
        accept: Accepted { random: accepted(), derived: accepted() },
        situations: Situation::ALL.map(played).into(),
    }
}
