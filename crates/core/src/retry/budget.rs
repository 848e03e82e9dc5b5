//! How much all calls of one client together may add to the load of a host (P31).
//!
//! Attempts per call bound nothing by themselves: in an outage every call uses all of them, and four attempts are four
//! times the load on what is already down. The budget is filled by first attempts and emptied by everything that
//! follows one, so retries stay a fixed share of the traffic, however many calls fail.

/// What a budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Retries per hundred first attempts.
    pub percent: u32,
    /// Retries that are there from the start, so that a client with little traffic can retry at all. In the whole life
    /// of a budget, at most so many retries are above the percentage.
    pub reserve: u32,
    /// Retries that can be saved up. What a quiet day leaves over must not meet a host that has just come back.
    pub saved_max: u32,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { percent: 20, reserve: 10, saved_max: 100 }
    }
}

/// Retries left, in hundredths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    limits: BudgetLimits,
    hundredths: u64,
}

/// What one retry costs.
const RETRY: u64 = 100;

impl Budget {
    /// A budget with its reserve.
    pub fn new(limits: BudgetLimits) -> Self {
        Self { limits, hundredths: u64::from(limits.reserve) * RETRY }
    }

    /// A first attempt is made.
    pub fn deposit(&mut self) {
        let full = u64::from(self.limits.saved_max.max(self.limits.reserve)) * RETRY;
        self.hundredths = self.hundredths.saturating_add(u64::from(self.limits.percent)).min(full);
    }

    /// Takes one retry out; false if there is none, and the call must end.
    #[must_use]
    pub fn withdraw(&mut self) -> bool {
        let Some(left) = self.hundredths.checked_sub(RETRY) else { return false };
        self.hundredths = left;
        true
    }

    /// Whole retries left.
    pub fn left(&self) -> u64 {
        self.hundredths / RETRY
    }
}
