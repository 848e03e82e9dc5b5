//! One test per promise, against the real engine or a running service.
//!
//! | test | the promise | charges |
//! |---|---|---|
//! | `retries-same-key` | three attempts of one operation charge once (P18, P29) | 1 |
//! | `distinct-operations` | two orders of the same amount are two operations (P29) | 2 |
//! | `concurrent-race` | equal requests at the same moment have one winner (P8) | 1 |
//! | `same-key-other-body` | a key that comes back with another body is refused (P6) | 1 |
//! | `repeat-in-progress` | a repeat during the work is told so, and afterwards gets the answer (P10) | 1 |
//! | `after-restart` | a restarted service repeats the answer (P9, P18) | 1 |
//! | `after-kill` | a killed process loses no acknowledged charge and repeats it (P8) | 1 |
//! | `two-tenants` | a key belongs to its tenant (P4) | 2 |
//! | `lost-owner` | when an owner broke down, two repeats at once run the work once (P11) | 1 |
//! | `late-owner` | an owner that comes back after it was overtaken changes nothing (P11) | 1 |
//! | `outcome-lost` | what the acquirer executed and never answered is found by asking (P16) | 1 |
//! | `pending-then-webhook` | a decision told by webhooks, each twice, takes effect once (P25, P26) | 1 |
//! | `declined-is-replayed` | a late copy of a declined request is told so again, though another key has paid (P18) | 1 |
//! | `zombie-reclaimed-once` | of forty repeats of a lost attempt one sends again, under the same name (P11, P16) | 1 |
//! | `late-arrival` | a request that arrives after a question said "not found" is not sent again meanwhile (P16) | 1 |
//!
//! In the last five the charge is made by an acquirer outside, which executes whatever it is sent; they count what stands in
//! its books or in the service's ledger, whichever is more.
//!
//! Only the first two take their keys from the client's key policy; the others say which key they mean.

mod abroad;
mod order;
mod play;
mod process;
mod promise;
mod render;
mod run;
mod stage;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Mutation, Remote, Said};

pub(crate) use promise::Promise;
pub use run::run;
pub(crate) use run::{run_with, test_on_the_lesson_server};

/// What to test, and where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// One piece taken out; the tests then run on the lesson server.
    pub mutation: Option<Mutation>,
    /// Test this running service instead of private ones.
    pub target: Option<Remote>,
    /// The `unavez` executable, to be started and killed by `after-kill`; without it that test is skipped.
    pub executable: Option<PathBuf>,
}

/// The outcome of all tests: exactly what `--format json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Tests that held.
    pub passed: usize,
    /// Tests that did not.
    pub failed: usize,
    /// Tests that could not be made here.
    pub skipped: usize,
    /// The piece that was taken out.
    #[serde(rename = "break", skip_serializing_if = "Option::is_none")]
    pub mutation: Option<Mutation>,
    /// In the order of the table above.
    pub tests: Vec<Test>,
}

/// One test and what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Test {
    /// As in the table above.
    pub name: &'static str,
    /// How it came out.
    pub result: Outcome,
    /// Whether it held; false for skipped tests.
    pub passed: bool,
    /// Charges at the service's ledger.
    pub charges: u64,
    /// Their sum, in whole dollars.
    pub total: u64,
    /// Charges there should be.
    pub expected_charges: u64,
    /// What was seen, or why it was skipped, in one sentence.
    pub detail: Said,
}

/// How a test came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The promise held.
    Passed,
    /// It did not.
    Failed,
    /// It could not be tested here; the detail says why.
    Skipped,
}

/// What every charge of the tests costs, in whole dollars.
pub(crate) const PRICE: u64 = 500;

/// What the tests are made on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ground<'a> {
    /// The product, in this process; `after-kill` needs its executable.
    Product(Option<&'a Path>),
    /// The lesson server, perhaps with a piece missing.
    Lesson(Option<Mutation>),
    /// A running service.
    Target(&'a Remote),
}

impl Options {
    fn ground(&self) -> Ground<'_> {
        match (&self.target, self.mutation) {
            (Some(remote), _) => Ground::Target(remote),
            (None, Some(mutation)) => Ground::Lesson(Some(mutation)),
            (None, None) => Ground::Product(self.executable.as_deref()),
        }
    }

    /// The command that runs the same tests again.
    pub fn command(&self) -> String {
        let mut command = "unavez lab accept".to_owned();
        if let Some(mutation) = self.mutation {
            command.push_str(&format!(" --break {mutation}"));
        }
        if let Some(remote) = &self.target {
            command.push_str(&format!(" --target {}", remote.named()));
        }
        command
    }
}

impl Report {
    /// Whether no test failed.
    pub fn passed(&self) -> bool {
        self.failed == 0
    }
}
