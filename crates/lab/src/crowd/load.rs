//! What arrives at the server's door, over time.

use std::{collections::VecDeque, time::Duration};

use unavez_core::time::Time;

use super::START;

/// The length of time over which load is counted.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);

/// Attempts by tenths of a second, and the most in any tenth of a second since the fault was over.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    tenths: Vec<u32>,
    watched_from: Time,
    /// Arrivals of the last tenth of a second.
    recent: VecDeque<Time>,
    peak: u32,
}

impl Load {
    /// Whose peak is looked for from then on.
    pub(super) fn watched_from(watched_from: Time) -> Self {
        Self { tenths: Vec::new(), watched_from, recent: VecDeque::new(), peak: 0 }
    }

    /// One more, not earlier than the last one.
    pub(super) fn count(&mut self, at: Time) {
        let tenth = at.since(START).as_micros() / WINDOW.as_micros();
        let tenth = usize::try_from(tenth).expect("a run has fewer tenths of a second than an address");
        if self.tenths.len() <= tenth {
            self.tenths.resize(tenth + 1, 0);
        }
        self.tenths[tenth] += 1;
        if at >= self.watched_from {
            self.watch(at);
        }
    }

    /// Any tenth of a second, not only those that begin with one.
    fn watch(&mut self, at: Time) {
        self.recent.push_back(at);
        while self.recent.front().is_some_and(|&first| at.since(first) >= WINDOW) {
            self.recent.pop_front();
        }
        self.peak = self.peak.max(u32::try_from(self.recent.len()).unwrap_or(u32::MAX));
    }

    /// The most in any tenth of a second since the fault was over.
    pub(crate) fn peak(&self) -> u32 {
        self.peak
    }

    /// Attempts in each tenth of a second since the start.
    pub(crate) fn tenths(&self) -> &[u32] {
        &self.tenths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: i64) -> Time {
        Time::from_micros(ms * 1000)
    }

    #[test]
    fn the_peak_lies_anywhere_and_only_after_the_fault() {
        let mut load = Load::watched_from(ms(1_000));
        for at in [10, 20, 30, 40, 990, 1_060, 1_090, 1_110, 1_159, 1_160, 2_000] {
            load.count(ms(at));
        }
        // 1060, 1090, 1110, 1159: two tenths of the clock, one tenth of a second. 1160 is a whole one after 1060.
        assert_eq!(load.peak(), 4);
        assert_eq!((load.tenths()[0], load.tenths()[9], load.tenths()[10], load.tenths()[11]), (4, 1, 2, 3));
        assert_eq!(load.tenths().len(), 21);
    }
}
