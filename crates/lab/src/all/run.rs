//! Making every measurement.

use super::{Options, Report, trace};
use crate::{Error, accept, break_, breaker, day, fleet, herd, naming, progress::Progress};

/// Makes every measurement, one after the other: side by side they would measure each other.
///
/// # Errors
///
/// As the measurement that could not be made.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    let fleet = fleet::run(&options.fleet, progress).await?;
    let sweep = fleet::sweep(&options.fleet, progress).await?;
    let accept = accept::run(&options.accept, progress).await?;
    let break_ = break_::run(&options.break_, progress).await?;
    let keys = naming::run(&options.keys, progress).await?;
    let day = day::run(&options.day, progress).await?;
    let herd = herd::run(&options.herd, progress).await?;
    let breaker = breaker::run(&options.breaker, progress).await?;
    let rules = trace(&accept, &break_);
    Ok(Report { fleet, sweep, accept, break_, keys, day, herd, breaker, rules })
}
