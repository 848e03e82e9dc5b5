//! The database's clock: the only one on which ages are measured (P9).
//!
//! Every statement reads it itself. What this process knows of it besides serves two things, neither of which is an age:
//! the order of records in lists, and noticing that it stepped.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use unavez_core::time::Time;

use crate::clock::{Clock, Reading, SystemClock};

/// A clock that moved more than this against this machine's uptime has stepped (P9).
const STEP_MIN: Duration = Duration::from_secs(300);

/// Where a store's times come from.
pub(super) enum Times {
    /// The database.
    Database(Watch),
    /// The caller, for tests that move time.
    Caller(Arc<dyn Clock>),
}

/// What this process has seen of the database's clock.
pub(super) struct Watch {
    machine: SystemClock,
    seen: Mutex<Seen>,
}

struct Seen {
    /// When the clock was last known to be right.
    confirmed: Moment,
    latest: Moment,
}

#[derive(Clone)]
struct Moment {
    database: Time,
    machine: Reading,
    instant: Instant,
}

impl Watch {
    fn moment(&self, database: Time) -> Moment {
        Moment { database, machine: self.machine.reading(), instant: Instant::now() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, now: Time) -> Option<Duration> {
        let now = self.moment(now);
        let confirmed = self.seen().confirmed.clone();
        let elapsed = now
            .machine
            .uptime_since(&confirmed.machine)
            .unwrap_or_else(|| now.instant.saturating_duration_since(confirmed.instant));
        let expected = confirmed.database.plus(elapsed);
        let step = now.database.since(expected).max(expected.since(now.database));
        (step > STEP_MIN).then_some(step)
    }
}

impl Times {
    /// `now` is the database's time at the opening.
    pub(super) fn new(caller: Option<Arc<dyn Clock>>, now: Time) -> Self {
        if let Some(clock) = caller {
            return Self::Caller(clock);
        }
        let machine = SystemClock::new();
        let moment = Moment { database: now, machine: machine.reading(), instant: Instant::now() };
        Self::Database(Watch {
            machine,
            seen: Mutex::new(Seen { confirmed: moment.clone(), latest: moment }),
        })
    }

    /// The first parameter of every statement that needs the time; none outside tests.
    pub(super) fn told(&self) -> Option<i64> {
        match self {
            Self::Database(_) => None,
            Self::Caller(clock) => Some(clock.now().as_micros()),
        }
    }

    /// A statement's time was this.
    pub(super) fn observe(&self, now: Time) {
        if let Self::Database(watch) = self {
            let latest = watch.moment(now);
            watch.seen().latest = latest;
        }
    }

    /// About the database's time.
    fn estimate(&self) -> Time {
        match self {
            Self::Database(watch) => {
                let seen = watch.seen();
                seen.latest.database.plus(seen.latest.instant.elapsed())
            }
            Self::Caller(clock) => clock.now(),
        }
    }

    /// By how much the clock stepped until `now`, if that is not confirmed.
    pub(super) fn step(&self, now: Time) -> Option<Duration> {
        match self {
            Self::Database(watch) => watch.step(now),
            Self::Caller(clock) => clock.step(),
        }
    }

    /// An operator says that `now` is right.
    pub(super) fn confirm(&self, now: Time) {
        match self {
            Self::Database(watch) => {
                let confirmed = watch.moment(now);
                watch.seen().confirmed = confirmed;
            }
            Self::Caller(clock) => clock.confirm(),
        }
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Database(_) => "Times::Database",
            Self::Caller(_) => "Times::Caller",
        })
    }
}

/// Hands out positions of new records: about the time, and higher than every earlier one of this process and than those
/// it found. No sequence of the database, which would be one place that all of a distributed one asks.
#[derive(Debug)]
pub(super) struct Positions {
    last: AtomicI64,
}

impl Positions {
    /// `last` is the highest in the database, if there is one.
    pub(super) fn after(last: Option<i64>) -> Self {
        Self { last: AtomicI64::new(last.unwrap_or_default()) }
    }

    pub(super) fn next(&self, times: &Times) -> i64 {
        let now = times.estimate().as_micros();
        let later = |last: i64| now.max(last.saturating_add(1));
        later(self.last.update(Ordering::Relaxed, Ordering::Relaxed, later))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn watched(start: Time) -> Times {
        Times::new(None, start)
    }

    #[test]
    fn p9_a_database_whose_clock_jumps_has_stepped_until_confirmed() {
        let start = Time::from_micros(1_000_000_000_000);
        let times = watched(start);
        assert_eq!(times.step(start.plus(Duration::from_secs(290))), None);
        for other in [start.plus(Duration::from_secs(3600)), start.minus(Duration::from_secs(3600))] {
            assert!(times.step(other).is_some_and(|step| step > Duration::from_secs(3500)), "{other:?}");
        }
        let ahead = start.plus(Duration::from_secs(3600));
        times.confirm(ahead);
        assert_eq!(times.step(ahead), None);
    }

    #[test]
    fn positions_rise_while_time_stands_still_and_follow_it_when_it_goes() {
        let clock = ManualClock::new();
        let times = Times::new(Some(Arc::new(clock.clone())), clock.now());
        let positions = Positions::after(None);
        let (first, second) = (positions.next(&times), positions.next(&times));
        assert_eq!((first, second), (clock.now().as_micros(), first + 1));
        clock.advance(Duration::from_secs(1));
        assert_eq!(positions.next(&times), clock.now().as_micros());
        let ahead = clock.now().as_micros() + 1000;
        assert_eq!(Positions::after(Some(ahead)).next(&times), ahead + 1);
    }
}
