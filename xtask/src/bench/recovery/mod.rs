//! `cargo xtask bench --recovery N`: how fast lost outcomes are found out, and what that costs callers meanwhile.
//!
//! 1. The outcomes are lost as real ones are: `unavez acquirer` executes the payments and answers each with an error,
//!    which says nothing, so that every record stands at "may have been sent". It forgets ids (`--dedupe off`): whatever
//!    is sent twice is executed twice, and shows.
//! 2. The service is stopped until the last of them is due, and started again, as after a night. One process then goes
//!    through four stretches: recovery alone until half is settled, recovery beside a load of new charges, recovery
//!    until all is settled, the same load alone.
//! 3. At the end the books must agree: each operation executed once at the acquirer, and each charge in the ledger.
//!    Figures without that are not printed.
//! 4. What is settled is read off the service's own counter, which costs it a sum over what is still open: seldom enough
//!    that it takes under a tenth of the time.

mod books;
mod report;
mod trial;

use std::path::Path;

use crate::bench::contestant::Contestant;
use crate::bench::generator::Generator;
use crate::bench::recovery::report::Report;
use crate::bench::recovery::trial::Trial;
use crate::bench::report::Machine;
use crate::failure::Failure;

/// What is measured.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// How many outcomes are lost.
    pub(super) attempts: u64,
    /// How long each load lasts.
    pub(super) seconds: u64,
    pub(super) connections: u32,
    pub(super) runs: u64,
}

/// Runs it as often as planned.
pub(super) fn run(plan: Plan, binary: &Path, folder: &Path) -> Result<Report, Failure> {
    let machine = Machine::probe(folder)?;
    eprintln!("{machine}");
    let generator = Generator { binary: binary.to_owned(), folder };
    let mut found = Vec::new();
    for run in 1..=plan.runs {
        eprintln!("run {run} of {}", plan.runs);
        let database = folder.join("recovery");
        found.push(Trial { plan, generator: &generator, database: &database }.run()?);
        std::fs::remove_dir_all(&database).map_err(|error| Failure::file("delete", &database, &error))?;
    }
    Ok(Report::of(machine, plan, &found))
}
