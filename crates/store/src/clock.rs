//! The store's clock: the only one on which ages are measured (P9).
//!
//! 1. Inside a process time is monotonic: it starts at an anchor and grows with the monotonic clock, whatever the wall
//!    clock does. It does not run while the machine is suspended, which only ever lengthens a promise.
//! 2. A new process starts at the larger of the wall clock and the largest time in the database, so no promise made by
//!    an earlier process ends early and no time is used twice.
//! 3. A wall clock that moved more than five minutes against the machine's uptime has *stepped*. Until an operator
//!    confirms it, purging pauses, and a process started meanwhile goes on by the uptime instead of the wall clock.
//!
//! What breaks it in deployment: a step while the machine is off cannot be told from time that passed. A step forth
//! then ends promises early, which is why deployments with such machines confirm the time before they start.
//!
//! ```
//! use std::time::Duration;
//! use unavez_store::clock::{Clock, ManualClock};
//!
//! let clock = ManualClock::new();
//! let before = clock.now();
//! clock.step_wall(-3600);
//! clock.advance(Duration::from_secs(1));
//! assert_eq!(clock.now().since(before), Duration::from_secs(1));
//! assert_eq!(clock.step(), Some(Duration::from_secs(3600)));
//! ```

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use unavez_core::time::Time;

/// A wall clock that moves more than this against the uptime has stepped (P9). Slewing and leap seconds stay far below.
const STEP_MIN: Duration = Duration::from_secs(300);

/// The store's clock (P9).
pub trait Clock: Send + Sync + 'static {
    /// The store's time. Never goes back in one process.
    fn now(&self) -> Time;

    /// By how much the wall clock stepped, if that is more than five minutes and not confirmed. Reads the machine's
    /// clocks anew: for purges and status pages, not for every call.
    fn step(&self) -> Option<Duration>;

    /// An operator says that the wall clock is right now. Time jumps to it if it lies ahead.
    fn confirm(&self);

    /// All clocks at this moment, to be stored for [`Clock::resume`].
    fn reading(&self) -> Reading;

    /// Goes on from what an earlier process stored: `anchor` is its latest confirmed reading, `seen` the largest time
    /// in the database.
    fn resume(&self, anchor: Option<&Reading>, seen: Time);
}

/// All clocks of a machine at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The store's time.
    pub time: Time,
    /// The wall clock.
    pub wall: Time,
    /// Which boot, and for how long; `None` where the system does not tell.
    pub boot: Option<Boot>,
}

/// One boot of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Differs between any two boots.
    pub id: String,
    /// Time since the boot, suspension included.
    pub uptime: Duration,
}

impl Reading {
    /// How long ago `earlier` was by the uptime, if both are of one boot.
    #[must_use]
    pub fn uptime_since(&self, earlier: &Self) -> Option<Duration> {
        let (then, now) = (earlier.boot.as_ref()?, self.boot.as_ref()?);
        if then.id == now.id { now.uptime.checked_sub(then.uptime) } else { None }
    }
}

/// The clocks a machine has.
trait Machine: Send + Sync + 'static {
    /// Since any fixed moment of this process; stands still while the machine is suspended.
    fn monotonic(&self) -> Duration;
    fn wall(&self) -> Time;
    fn boot(&self) -> Option<Boot>;
}

/// The rules of this module over any machine.
struct Steady<M> {
    machine: M,
    /// The store's time less the monotonic clock, in microseconds.
    offset_us: AtomicI64,
    /// When the wall clock was last known to be right.
    confirmed: Mutex<Confirmed>,
}

struct Confirmed {
    reading: Reading,
    /// The monotonic clock of the same moment; stands in for the uptime where there is none.
    monotonic: Duration,
}

impl<M: Machine> Steady<M> {
    fn new(machine: M) -> Self {
        let monotonic = machine.monotonic();
        let wall = machine.wall();
        let reading = Reading { time: wall, wall, boot: machine.boot() };
        Self {
            offset_us: AtomicI64::new(offset_us(wall, monotonic)),
            confirmed: Mutex::new(Confirmed { reading, monotonic }),
            machine,
        }
    }

    fn now(&self) -> Time {
        Time::from_micros(self.offset_us.load(Ordering::Relaxed)).plus(self.machine.monotonic())
    }

    /// Moves time to `time`, never back.
    fn advance_to(&self, time: Time) {
        self.offset_us.fetch_max(offset_us(time, self.machine.monotonic()), Ordering::Relaxed);
    }

    fn reading(&self) -> Reading {
        Reading { time: self.now(), wall: self.machine.wall(), boot: self.machine.boot() }
    }

    fn step(&self) -> Option<Duration> {
        let now = self.reading();
        let confirmed = self.confirmed();
        let elapsed = now
            .uptime_since(&confirmed.reading)
            .unwrap_or_else(|| self.machine.monotonic().saturating_sub(confirmed.monotonic));
        let expected = confirmed.reading.wall.plus(elapsed);
        let step = now.wall.since(expected).max(expected.since(now.wall));
        (step > STEP_MIN).then_some(step)
    }

    fn confirm(&self) {
        self.advance_to(self.machine.wall());
        let reading = self.reading();
        *self.confirmed() = Confirmed { reading, monotonic: self.machine.monotonic() };
    }

    fn resume(&self, anchor: Option<&Reading>, seen: Time) {
        self.advance_to(seen);
        let now = self.reading();
        let Some((anchor, elapsed)) = anchor.and_then(|it| Some((it, now.uptime_since(it)?))) else {
            return;
        };
        self.confirmed().reading = anchor.clone();
        if self.step().is_some() {
            // The wall clock is not to be believed, but the uptime is.
            let time = seen.max(anchor.time.plus(elapsed));
            self.offset_us.store(offset_us(time, self.machine.monotonic()), Ordering::Relaxed);
        }
    }

    fn confirmed(&self) -> MutexGuard<'_, Confirmed> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn offset_us(time: Time, monotonic: Duration) -> i64 {
    time.as_micros().saturating_sub(i64::try_from(monotonic.as_micros()).unwrap_or(i64::MAX))
}

/// The clocks of the machine this process runs on.
struct System {
    started: Instant,
}

impl Machine for System {
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the store's clock looks at the wall's"
    )]
    fn wall(&self) -> Time {
        // Before 1970 the clock is unset: the earliest time is as good as any other then, the database knows better.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_micros(0).plus(since_epoch)
    }

    fn boot(&self) -> Option<Boot> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        Some(Boot { id: id.trim().to_owned(), uptime: parse_uptime(&uptime)? })
    }
}

/// Reads the first number of `/proc/uptime`: seconds with two decimals.
fn parse_uptime(text: &str) -> Option<Duration> {
    let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    Some(Duration::from_secs(seconds.parse().ok()?) + Duration::from_millis(10) * hundredths.parse().ok()?)
}

/// The machine's clock. Clones share it.
#[derive(Clone)]
pub struct SystemClock(Arc<Steady<System>>);

impl SystemClock {
    /// Starts at the wall clock.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Steady::new(System { started: Instant::now() })))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SystemClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SystemClock").field(&self.0.now()).finish()
    }
}

/// A machine whose clocks move only when told.
#[derive(Clone)]
struct Told(Arc<Mutex<Dials>>);

#[derive(Clone, Copy)]
struct Dials {
    monotonic: Duration,
    wall_us: i64,
    boots: u64,
    uptime: Duration,
}

impl Told {
    fn read(&self) -> Dials {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, by: impl FnOnce(&mut Dials)) {
        by(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Machine for Told {
    fn monotonic(&self) -> Duration {
        self.read().monotonic
    }

    fn wall(&self) -> Time {
        Time::from_micros(self.read().wall_us)
    }

    fn boot(&self) -> Option<Boot> {
        let dials = self.read();
        Some(Boot { id: format!("boot-{}", dials.boots), uptime: dials.uptime })
    }
}

/// A clock for tests that moves only when told, by the same rules as [`SystemClock`]. Clones share the time.
#[derive(Clone)]
pub struct ManualClock(Arc<Steady<Told>>);

/// Noon of 2026-01-01 UTC.
const MANUAL_START_US: i64 = 1_767_268_800_000_000;

impl ManualClock {
    /// Starts at noon of 2026-01-01 UTC.
    #[must_use]
    pub fn new() -> Self {
        let dials = Dials {
            monotonic: Duration::ZERO,
            wall_us: MANUAL_START_US,
            boots: 1,
            uptime: Duration::from_secs(1000),
        };
        Self(Arc::new(Steady::new(Told(Arc::new(Mutex::new(dials))))))
    }

    /// Lets time pass on all clocks.
    pub fn advance(&self, by: Duration) {
        self.0.machine.turn(|dials| {
            dials.monotonic += by;
            dials.uptime += by;
            dials.wall_us = Time::from_micros(dials.wall_us).plus(by).as_micros();
        });
    }

    /// Suspends the machine: the monotonic clock stands still.
    pub fn suspend(&self, by: Duration) {
        self.0.machine.turn(|dials| {
            dials.uptime += by;
            dials.wall_us = Time::from_micros(dials.wall_us).plus(by).as_micros();
        });
    }

    /// Steps the wall clock, forth or back; nothing else moves.
    pub fn step_wall(&self, seconds: i64) {
        self.0.machine.turn(|dials| dials.wall_us += seconds * 1_000_000);
    }

    /// The clock of a new process on the same machine.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self(Arc::new(Steady::new(self.0.machine.clone())))
    }

    /// The clock of a new process after the machine was booted again.
    #[must_use]
    pub fn rebooted(&self) -> Self {
        self.0.machine.turn(|dials| {
            dials.boots += 1;
            dials.uptime = Duration::from_secs(10);
        });
        self.restarted()
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.0.now()).finish()
    }
}

macro_rules! clock_by_steady {
    ($($clock:ty),*) => {$(
        impl Clock for $clock {
            fn now(&self) -> Time {
                self.0.now()
            }

            fn step(&self) -> Option<Duration> {
                self.0.step()
            }

            fn confirm(&self) {
                self.0.confirm();
            }

            fn reading(&self) -> Reading {
                self.0.reading()
            }

            fn resume(&self, anchor: Option<&Reading>, seen: Time) {
                self.0.resume(anchor, seen);
            }
        }
    )*};
}

clock_by_steady!(SystemClock, ManualClock);

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn p9_time_in_a_process_ignores_the_wall_clock() {
        let clock = ManualClock::new();
        let start = clock.now();
        for seconds in [-3600, 7200, 1] {
            clock.step_wall(seconds);
            clock.advance(MINUTE);
        }
        assert_eq!(clock.now().since(start), 3 * MINUTE);
    }

    #[test]
    fn p9_only_more_than_five_minutes_are_a_step() {
        for seconds in [300, -300] {
            let clock = ManualClock::new();
            clock.step_wall(seconds);
            assert_eq!(clock.step(), None, "{seconds}");
            clock.step_wall(seconds.signum());
            assert_eq!(clock.step(), Some(Duration::from_secs(301)), "{seconds}");
        }
    }

    #[test]
    fn p9_a_suspended_machine_has_not_stepped() {
        let clock = ManualClock::new();
        clock.suspend(HOUR);
        assert_eq!(clock.step(), None);
    }

    #[test]
    fn p9_confirming_adopts_a_wall_clock_that_is_ahead_and_never_goes_back() {
        let clock = ManualClock::new();
        let start = clock.now();
        clock.step_wall(3600);
        clock.confirm();
        assert_eq!((clock.now().since(start), clock.step()), (HOUR, None));
        clock.step_wall(-7200);
        clock.confirm();
        assert_eq!((clock.now().since(start), clock.step()), (HOUR, None));
    }

    /// What a store does at a restart: hand the first reading and the largest time to the next process.
    fn resumed(next: &ManualClock, anchor: &Reading, seen: Time) -> Time {
        next.resume(Some(anchor), seen);
        next.now()
    }

    #[test]
    fn c101_a_step_across_a_restart_is_noticed_and_the_uptime_believed() {
        for seconds in [-3600, 3600] {
            let clock = ManualClock::new();
            let anchor = clock.reading();
            clock.advance(MINUTE);
            let seen = clock.now();
            clock.step_wall(seconds);
            clock.advance(MINUTE);
            let next = clock.restarted();
            assert_eq!(resumed(&next, &anchor, seen).since(anchor.time), 2 * MINUTE, "{seconds}");
            assert_eq!(next.step(), Some(HOUR), "{seconds}");
        }
    }

    #[test]
    fn c101_after_a_boot_the_larger_of_wall_and_seen_counts() {
        let clock = ManualClock::new();
        let anchor = clock.reading();
        clock.advance(HOUR);
        let seen = clock.now();
        clock.step_wall(-7200);
        let next = clock.rebooted();
        assert_eq!(resumed(&next, &anchor, seen), seen);
        assert_eq!(next.step(), None);

        clock.step_wall(7200);
        clock.advance(HOUR);
        let later = clock.rebooted();
        assert_eq!(resumed(&later, &anchor, seen).since(seen), HOUR);
    }

    #[test]
    fn c101_without_a_step_a_restart_adopts_the_wall_clock() {
        let clock = ManualClock::new();
        let anchor = clock.reading();
        clock.step_wall(30);
        let next = clock.restarted();
        assert_eq!(resumed(&next, &anchor, anchor.time).since(anchor.time), Duration::from_secs(30));
    }

    #[test]
    fn uptime_is_read_to_the_hundredth() {
        assert_eq!(parse_uptime("12345.67 99.00\n"), Some(Duration::from_millis(12_345_670)));
        for text in ["", "12345", "a.b", "-1.00 2.00"] {
            assert_eq!(parse_uptime(text), None, "{text:?}");
        }
    }

    #[test]
    fn p9_the_system_clock_starts_at_the_wall_clock_and_grows() {
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(first > Time::from_micros(MANUAL_START_US));
        assert!(clock.now() >= first);
        assert_eq!(clock.step(), None);
    }
}
