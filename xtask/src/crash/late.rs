//! A request that is held up for longer than the service waits, and arrives after a question said "not found".
//!
//! With a visibility delay that covers the delay it is waited for and found. Without one the service believes "not found"
//! and sends again, and an acquirer that does not deduplicate executes both. The first must pass, and the second must be
//! found out by the same check, or that check would prove nothing.

use std::path::Path;
use std::time::Duration;

use super::plan::Plan;
use super::setting::{Network, Terms};
use super::weather::Weather;
use super::world::World;
use crate::failure::Failure;

/// Much longer than the service waits for an answer, and than it takes to send again.
const LATE_MS: u64 = 2_500;

/// What the check says of a charge that was made twice.
const FOUND_OUT: &str = "executed 2 times";

/// Plays it with and without the visibility delay.
pub(super) fn prove(binary: &Path, seed: u64) -> Result<(), Failure> {
    play(binary, seed, Duration::from_millis(LATE_MS + 1_000))?;
    match play(binary, seed, Duration::ZERO) {
        Err(Failure::Check(faults)) if faults.contains(FOUND_OUT) => Ok(()),
        Err(other) => {
            Err(Failure::check(format!("visibility delay 0: expected a charge made twice, not\n{other}")))
        }
        Ok(()) => Err(Failure::check("visibility delay 0: nobody was charged twice, or nobody noticed")),
    }
}

fn play(binary: &Path, seed: u64, visibility_delay: Duration) -> Result<(), Failure> {
    let late = Weather::FirstPostLate { ms: LATE_MS };
    let network = Network::through(Weather::FirstPostLate { ms: 0 }, late)?;
    let terms = Terms { dedupe: "off", visibility_delay };
    let name = format!("{seed}-late-{}", visibility_delay.as_millis());
    let mut world = World::start(binary, &name, terms, network)?;
    world.play(&Plan::peaceful())?;
    world.close().map(drop)
}
