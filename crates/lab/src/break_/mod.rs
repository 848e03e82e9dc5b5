//! Is every test needed, and every piece? Each piece is taken out alone, on the lesson server, and must fail exactly the
//! tests predicted for it.

mod acquirer;
mod render;
mod run;
mod store;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Mutation;

pub(crate) use acquirer::without_at_the_acquirer;
pub use run::run;
pub(crate) use store::{with_meeting, without};

/// Which pieces to take out.
#[derive(Debug, Clone)]
pub struct Options {
    /// One after the other, each alone.
    pub mutations: Vec<Mutation>,
}

impl Default for Options {
    fn default() -> Self {
        Self { mutations: Mutation::ALL.to_vec() }
    }
}

/// What each missing piece broke: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order they were asked for.
    pub mutations: Vec<Broken>,
}

/// What one missing piece broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The piece.
    pub name: Mutation,
    /// The tests that should fail without it.
    pub predicted: Vec<&'static str>,
    /// The tests that failed.
    pub breaks: Vec<&'static str>,
    /// Whether these are the same.
    pub as_predicted: bool,
    /// What the failed tests saw at the ledger.
    pub observed: BTreeMap<&'static str, Observed>,
}

/// What a test saw at the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// Charges.
    pub charges: u64,
    /// Their sum, in whole dollars.
    pub total: u64,
}

impl Report {
    /// Whether every missing piece was noticed by exactly the predicted tests.
    pub fn passed(&self) -> bool {
        self.mutations.iter().all(|mutation| mutation.as_predicted)
    }
}
