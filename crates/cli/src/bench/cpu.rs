//! How busy a thread is, so that a generator at its own limit says so.

use std::time::{Duration, Instant};

/// What the kernel has counted for the calling thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    at: Instant,
    /// Time on a core.
    ran: Duration,
    /// Time ready to run while other threads had the cores.
    waited: Duration,
}

/// Shares of wall time between two samples, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) ran: f64,
    pub(super) waited: f64,
}

impl Sample {
    /// Reads the calling thread's counters; none where the kernel does not keep them.
    pub(super) fn take() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let (ran, waited) = parse(&text)?;
        Some(Self { at: Instant::now(), ran, waited })
    }

    /// The load since an earlier sample of the same thread.
    pub(super) fn since(self, earlier: Self) -> Load {
        let wall = (self.at - earlier.at).as_secs_f64();
        if wall <= 0.0 {
            return Load::default();
        }
        let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / wall;
        Load { ran: share(self.ran, earlier.ran), waited: share(self.waited, earlier.waited) }
    }
}

/// The first two fields: nanoseconds on a core, nanoseconds waiting for one.
fn parse(schedstat: &str) -> Option<(Duration, Duration)> {
    let mut fields = schedstat.split_ascii_whitespace().map(|field| field.parse().map(Duration::from_nanos));
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// What the busiest generator thread means for the figures.
pub(super) fn hint(load: Load) -> Option<String> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if load.ran >= 0.9 {
        return Some(format!(
            "the generator itself was busy {} of the time: the figures show its limit rather than the server's; \
             raise --threads if there are cores to spare",
            percent(load.ran)
        ));
    }
    (load.ran + load.waited >= 0.9).then(|| {
        format!(
            "the generator ran {} of the time and waited for a core another {}: it and the server compete for the \
             same cores, so compare ratios of runs like this one rather than absolute figures",
            percent(load.ran),
            percent(load.waited)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_kernels_line() {
        let expected = (Duration::from_nanos(1_500), Duration::from_nanos(20));
        assert_eq!(parse("1500 20 3\n"), Some(expected));
        assert_eq!(parse("1500"), None);
        assert_eq!(parse("a b c"), None);
    }

    #[test]
    fn load_is_the_share_of_wall_time() {
        let at = Instant::now();
        let ms = Duration::from_millis;
        let before = Sample { at, ran: ms(100), waited: ms(0) };
        let after = Sample { at: at + ms(1000), ran: ms(350), waited: ms(500) };
        let load = after.since(before);
        assert!((load.ran - 0.25).abs() < 1e-9 && (load.waited - 0.5).abs() < 1e-9);
        assert_eq!(before.since(before), Load::default());
    }

    #[test]
    fn hints_come_only_when_the_generator_is_in_the_way() {
        assert_eq!(hint(Load { ran: 0.5, waited: 0.1 }), None);
        assert!(hint(Load { ran: 0.95, waited: 0.0 }).is_some_and(|hint| hint.contains("95 %")));
        assert!(hint(Load { ran: 0.5, waited: 0.45 }).is_some_and(|hint| hint.contains("compete")));
    }
}
