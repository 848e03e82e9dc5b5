//! When operations happen: a shop's day, quiet at night, busiest in the evening.
//!
//! In Python: `Counter(random.Random(seed).choices(range(24), WEIGHTS, k=operations))`, and again for each further day.

use std::time::Duration;

use crate::random::PythonRandom;

/// How busy each hour is, from midnight on.
pub(crate) const WEIGHTS: [u32; 24] =
    [2, 1, 1, 1, 1, 2, 4, 6, 8, 9, 10, 11, 12, 11, 9, 8, 9, 11, 13, 14, 13, 10, 7, 4];

/// A day of so many operations is told minute by minute.
const BUSY: u32 = 100_000;

/// How finely a day is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    in_an_hour: u32,
}

impl Steps {
    /// A minute, or ten of a quiet day: a step costs a commit and a purge, however few its operations are.
    pub(super) fn of(operations: u32) -> Self {
        Self { in_an_hour: if operations >= BUSY { 60 } else { 6 } }
    }

    pub(super) fn length(self) -> Duration {
        Duration::from_secs(3600) / self.in_an_hour
    }

    /// An hour's operations, spread evenly over its steps.
    pub(super) fn spread(self, operations: u32) -> impl Iterator<Item = u32> {
        let until = move |step: u32| u64::from(operations) * u64::from(step) / u64::from(self.in_an_hour);
        (0..self.in_an_hour).map(move |step| {
            u32::try_from(until(step + 1) - until(step)).expect("a step has no more than its hour")
        })
    }
}

/// Draws the number of operations in each hour of so many days.
pub(super) fn hours(seed: u64, operations: u32, days: u32) -> Vec<u32> {
    let mut random = PythonRandom::new(u128::from(seed));
    let ends = ends();
    let total = f64::from(ends[ends.len() - 1]);
    let mut all = Vec::new();
    for _ in 0..days {
        let mut hours = [0; WEIGHTS.len()];
        for _ in 0..operations {
            let drawn = random.random() * total;
            let hour = ends.partition_point(|&end| f64::from(end) <= drawn);
            hours[hour.min(WEIGHTS.len() - 1)] += 1;
        }
        all.extend(hours);
    }
    all
}

/// The weights added up.
fn ends() -> [u32; 24] {
    let mut sum = 0;
    WEIGHTS.map(|weight| {
        sum += weight;
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by CPython 3.11: `r = random.Random(7)`, twice
    /// `Counter(r.choices(range(24), WEIGHTS, k=500))`.
    const GOLDEN: [u32; 48] = [
        6, 2, 6, 4, 2, 5, 16, 17, 27, 28, 30, 32, 30, 30, 25, 29, 27, 21, 34, 37, 39, 20, 22, 11, 7, 3, 3, 3,
        4, 8, 13, 11, 27, 21, 41, 39, 33, 33, 29, 18, 20, 25, 26, 32, 28, 39, 28, 9,
    ];

    #[test]
    fn the_hours_are_cpythons() {
        assert_eq!(hours(7, 500, 2), GOLDEN);
    }

    #[test]
    fn no_operation_is_lost_in_an_hour() {
        for operations in [0, 1, 59, 60, 61, 41_667, u32::MAX] {
            for in_an_hour in [6, 60] {
                let steps: Vec<u64> = Steps { in_an_hour }.spread(operations).map(u64::from).collect();
                assert_eq!((steps.len(), steps.iter().sum()), (in_an_hour as usize, u64::from(operations)));
                let (least, most) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
                assert!(most - least <= 1, "{operations}: {steps:?}");
            }
        }
    }
}
