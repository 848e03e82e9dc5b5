//! What holds of waits, budget, breaker and bulkhead for every input (P31, P33).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use unavez_core::retry::{
    Answer, Backoff, Breaker, BreakerLimits, Budget, BudgetLimits, Bulkhead, BulkheadLimits, Call, Class,
    Ended, Entry, Nature, Next, Place, Policy, Start, Ticket, Told, advice,
};
use unavez_core::time::Time;

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0_u64..=60_000).prop_map(Duration::from_millis),
        (any::<u64>(), 0_u32..1_000_000_000).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
    ]
}

proptest! {
    #[test]
    fn p31_no_input_overflows_and_no_wait_is_above_the_cap(
        base in durations(), cap in durations(), retry in any::<u32>(), random in any::<u64>(),
    ) {
        let backoff = Backoff { base, cap };
        let wait = backoff.wait(retry, random);
        prop_assert!(wait <= backoff.ceiling(retry));
        prop_assert!(backoff.ceiling(retry) <= cap);
    }

    #[test]
    fn p31_ceilings_never_fall(base in durations(), cap in durations(), retry in 0_u32..100) {
        let backoff = Backoff { base, cap };
        prop_assert!(backoff.ceiling(retry) <= backoff.ceiling(retry + 1));
    }

    /// Full jitter: randomness that is spread evenly gives waits that are, from nothing to the ceiling.
    #[test]
    fn p31_full_jitter_really_spreads(retry in 0_u32..20, offset in any::<u64>()) {
        const BINS: usize = 10;
        let backoff = Backoff::default();
        let ceiling = backoff.ceiling(retry).as_nanos();
        let mut bins = [0_u32; BINS];
        for step in 0..1000_u64 {
            let random = offset.wrapping_add(step.wrapping_mul(u64::MAX / 1000));
            let wait = backoff.wait(retry, random).as_nanos();
            bins[usize::try_from(wait * BINS as u128 / ceiling).unwrap()] += 1;
        }
        prop_assert!(bins.iter().all(|count| (98..=102).contains(count)), "{bins:?}");
    }

    #[test]
    fn p31_no_bytes_of_an_advice_panic(value in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = advice::retry_after(&value, Some(&value), Time::from_micros(0));
    }

    #[test]
    fn p31_every_second_of_a_century_reads_back(second in 0_i64..4_102_444_800) {
        let (time, text) = (Time::from_micros(second * 1_000_000), written(second));
        prop_assert_eq!(advice::http_date(&text), Some(time), "{}", text);
    }

    /// Whatever the order of first attempts and retries, no more retries than the share, plus the reserve once.
    #[test]
    fn p31_the_budget_bounds_amplification(
        percent in 0_u32..=100, reserve in 0_u32..50, steps in prop::collection::vec(any::<bool>(), 0..2000),
    ) {
        let mut budget = Budget::new(BudgetLimits { percent, reserve, saved_max: 100 });
        let (mut firsts, mut retries) = (0_u32, 0_u32);
        for is_first in steps {
            if is_first {
                budget.deposit();
                firsts += 1;
            } else if budget.withdraw() {
                retries += 1;
            }
        }
        prop_assert!(retries * 100 <= firsts * percent + reserve * 100, "{} of {}", retries, firsts);
    }

    #[test]
    fn p31_a_call_ends_whatever_it_meets(
        ends in prop::collection::vec(ends(), 1..40), told in prop::collection::vec(told(), 40),
        asks in any::<bool>(), random in any::<u64>(),
    ) {
        let policy = Policy { asks, deadline: Duration::from_secs(1 << 40), ..Policy::default() };
        let mut budget = Budget::new(BudgetLimits { reserve: 1000, ..BudgetLimits::default() });
        let mut now = Time::from_micros(0);
        let mut call = Call::new(policy, Start::fresh(Nature::Keyed), now).unwrap();
        let (mut ends, mut told) = (ends.into_iter().cycle(), told.into_iter());
        let (mut sends, mut questions) = (0, 0);
        let mut next = Next::Send { after: Duration::ZERO };
        loop {
            next = match next {
                Next::End(_) => break,
                Next::Send { after } => {
                    now = now.plus(after);
                    sends += 1;
                    call.after(&ends.next().unwrap(), &mut budget, random, now)
                }
                Next::Ask { after } => {
                    now = now.plus(after);
                    questions += 1;
                    call.after_question(told.next().unwrap(), None, &mut budget, random, now)
                }
            };
        }
        prop_assert!(sends <= policy.attempts && questions <= policy.attempts, "{} sent, {} asked", sends, questions);
    }

    /// Whoever drops, hangs or panics: a lease later a probe is admitted, and no two probes hold one lease.
    #[test]
    fn p33_no_probe_is_ever_lost(steps in prop::collection::vec((0_u8..6, 0_u64..20), 1..400)) {
        let limits = BreakerLimits::default();
        let mut breaker = Breaker::new(limits);
        let mut now = Time::from_micros(0);
        let mut held: Vec<Ticket> = Vec::new();
        for (step, seconds) in steps {
            match step {
                0 | 1 => held.extend(breaker.admit(Nature::Keyed, now)),
                2 => now = now.plus(Duration::from_secs(seconds)),
                3 => drop(held.pop()), // hung for ever, or leaked
                4 => if let Some(ticket) = held.pop() { breaker.settle(ticket, Class::Failure, now) },
                _ => if let Some(ticket) = held.pop() { breaker.abandon(ticket, now) },
            }
        }
        let later = now.plus(limits.probe_lease.max(limits.open_for));
        prop_assert!(breaker.admit(Nature::Keyed, later).is_ok());
        if !breaker.is_closed() {
            prop_assert!(breaker.admit(Nature::Keyed, later).is_err(), "two probes");
        }
    }

    /// c76: holders that end, waiters that give up before and after they were handed a permit, in any order.
    #[test]
    fn c76_no_permit_is_ever_lost(steps in prop::collection::vec((0_u8..4, any::<usize>()), 0..600)) {
        let limits = BulkheadLimits { permits: 8, waiting_max: 16 };
        let mut house = House::new(limits);
        for (step, index) in steps {
            match step {
                0 | 1 => house.enter(),
                2 => house.leave(index),
                _ => house.give_up(index),
            }
            prop_assert_eq!(house.bulkhead.held(), house.holders() );
            prop_assert!(house.bulkhead.held() <= limits.permits);
            prop_assert!(house.bulkhead.waiting() == 0 || house.bulkhead.held() == limits.permits);
        }
        house.empty();
        prop_assert_eq!((house.bulkhead.held(), house.bulkhead.waiting()), (0, 0));
        for _ in 0..limits.permits {
            prop_assert_eq!(house.bulkhead.enter(|| 0), Entry::Admitted);
        }
    }
}

fn ends() -> impl Strategy<Value = Ended> {
    prop_oneof![
        Just(Ended::Cut),
        Just(Ended::NotSent { wait: None }),
        (100_u16..600).prop_map(|status| Ended::Answered(Answer::of_status(status))),
        (100_u16..600).prop_map(|status| Ended::Answered(Answer {
            retryable: Some(true),
            wait: Some(Duration::MAX),
            ..Answer::of_status(status)
        })),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    prop::sample::select(vec![Told::Finished, Told::Open, Told::Unknown, Told::Nothing, Told::CannotSay])
}

/// A bulkhead and those who know where they stand. Waiters are numbers.
struct House {
    bulkhead: Bulkhead<u32>,
    inside: BTreeSet<u32>,
    waiting: BTreeMap<u32, Place>,
    /// Were handed a permit and have not noticed.
    handed: BTreeMap<u32, Place>,
    next: u32,
}

impl House {
    fn new(limits: BulkheadLimits) -> Self {
        let (inside, waiting, handed) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Self { bulkhead: Bulkhead::new(limits), inside, waiting, handed, next: 0 }
    }

    fn holders(&self) -> usize {
        self.inside.len() + self.handed.len()
    }

    fn enter(&mut self) {
        self.next += 1;
        match self.bulkhead.enter(|| self.next) {
            Entry::Admitted => {
                self.inside.insert(self.next);
            }
            Entry::Queued(place) => {
                self.waiting.insert(self.next, place);
            }
            Entry::Full => {}
        }
    }

    fn leave(&mut self, index: usize) {
        let Some(&leaver) = pick(self.inside.iter(), index) else { return };
        self.inside.remove(&leaver);
        let told = self.bulkhead.leave();
        self.hand(told);
    }

    fn give_up(&mut self, index: usize) {
        let all: Vec<(u32, Place)> =
            self.waiting.iter().chain(&self.handed).map(|(&who, &at)| (who, at)).collect();
        let Some(&(who, place)) = pick(all.iter(), index) else { return };
        self.waiting.remove(&who);
        self.handed.remove(&who);
        let told = self.bulkhead.give_up(place);
        self.hand(told);
    }

    fn hand(&mut self, told: Option<u32>) {
        let Some(who) = told else { return };
        let place = self.waiting.remove(&who).expect("only a waiter is handed a permit");
        assert!(self.waiting.values().all(|other| *other > place), "nobody overtakes");
        self.handed.insert(who, place);
    }

    fn empty(&mut self) {
        while !self.waiting.is_empty() || !self.handed.is_empty() {
            self.give_up(0);
        }
        while !self.inside.is_empty() {
            self.leave(0);
        }
    }
}

fn pick<T>(items: impl ExactSizeIterator<Item = T>, index: usize) -> Option<T> {
    let mut items = items;
    let count = items.len();
    (count > 0).then(|| items.nth(index % count))?
}

/// The date of a second, written by walking the calendar year by year.
fn written(second: i64) -> String {
    const MONTHS: [(&str, i64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut days, clock) = (second / 86_400, second % 86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
        [usize::try_from(days % 7).expect("days are counted from 0")];
    let mut year = 1970;
    while days >= 365 + i64::from(is_leap(year)) {
        days -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = MONTHS.map(|(name, days)| (name, days + i64::from(name == "Feb" && is_leap(year))));
    let mut months = lengths.into_iter();
    let month = loop {
        let (name, length) = months.next().expect("the days of a year end in December");
        if days < length {
            break name;
        }
        days -= length;
    };
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{weekday}, {:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT", days + 1)
}
