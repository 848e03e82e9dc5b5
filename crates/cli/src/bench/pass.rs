//! One pass of the load: which key each connection sends next, what the answer has to be, what is counted.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Dice;
use super::request::{Keys, Request};
use super::response::Response;
use super::tally::{Fault, Tally};

/// What all connections of a pass share.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) address: SocketAddr,
    pub(super) request: Request,
    pub(super) timeout: Duration,
    pub(super) work: Work,
    pub(super) checks: Checks,
    pub(super) window: Window,
    keys: Keys,
    /// The number of the first key nobody has sent.
    next_new: AtomicU64,
    /// Good answers and faults so far, for the progress line.
    pub(super) progress: [AtomicU64; 2],
}

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Sends the first `keys` keys once each.
    Once { keys: u64, expected: Expected },
    /// Sends keys until the window closes: known ones in this share, new ones otherwise.
    Measure { known: u64, replay_share: f64 },
}

/// How much of an answer is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checks {
    /// Status 201, and the replay mark exactly where it belongs.
    Promises,
    /// Any 2xx: for a server that knows nothing of keys.
    AnyAnswer,
}

/// When exchanges are counted: those that begin and end within.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// One request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) key: u128,
    pub(super) expected: Expected,
}

/// What the server may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The key was never sent: a first answer.
    First,
    /// The key is known: the stored answer, marked.
    Replay,
    /// The key may have been sent by an earlier run with the same seed.
    Either,
    /// Sent with a payment method whose outcome the service cannot know yet.
    Unknown,
}

impl Pass {
    pub(super) fn new(base: &Base, work: Work, window: Window) -> Self {
        let first_new = match work {
            Work::Once { .. } => 0,
            Work::Measure { known, .. } => known,
        };
        Self {
            address: base.address,
            request: base.request.clone(),
            timeout: base.timeout,
            checks: base.checks,
            keys: base.keys,
            work,
            window,
            next_new: AtomicU64::new(first_new),
            progress: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// The next request of a connection; none when the pass is over.
    pub(super) fn next(&self, now: Instant, dice: &mut Dice) -> Option<Step> {
        if now >= self.window.until {
            return None;
        }
        match self.work {
            Work::Once { keys, expected } => {
                let n = self.next_new.fetch_add(1, Ordering::Relaxed);
                (n < keys).then(|| Step { key: self.keys.nth(n), expected })
            }
            Work::Measure { known, replay_share } if happens(replay_share, dice.roll()) => {
                Some(Step { key: self.keys.nth(dice.roll() % known), expected: Expected::Replay })
            }
            Work::Measure { .. } => {
                let n = self.next_new.fetch_add(1, Ordering::Relaxed);
                Some(Step { key: self.keys.nth(n), expected: Expected::First })
            }
        }
    }

    /// Whether an answer is what it has to be.
    pub(super) fn judge(&self, expected: Expected, response: Response) -> Result<(), Fault> {
        match (self.checks, response.status, expected, response.replayed) {
            (_, 504, Expected::Unknown, _) => Ok(()),
            (_, status, Expected::Unknown, _) => Err(Fault::Status(status)),
            (Checks::AnyAnswer, 200..=299, ..) => Ok(()),
            (Checks::Promises, 201, Expected::First, true) => Err(Fault::ReplayOfNew),
            (Checks::Promises, 201, Expected::Replay, false) => Err(Fault::NotReplayed),
            (Checks::Promises, 201, ..) => Ok(()),
            (_, status, ..) => Err(Fault::Status(status)),
        }
    }

    /// Counts an exchange if it lies within the window.
    pub(super) fn count(
        &self,
        tally: &RefCell<Tally>,
        sent: Instant,
        received: Instant,
        verdict: Result<(), Fault>,
    ) {
        self.progress[usize::from(verdict.is_err())].fetch_add(1, Ordering::Relaxed);
        if sent < self.window.from || received > self.window.until {
            return;
        }
        match verdict {
            Ok(()) => tally.borrow_mut().add_good(received - sent),
            Err(fault) => tally.borrow_mut().add_fault(fault),
        }
    }
}

/// What every pass of a run has in common.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) address: SocketAddr,
    pub(super) request: Request,
    pub(super) timeout: Duration,
    pub(super) checks: Checks,
    pub(super) keys: Keys,
}

/// Whether something of this probability happens, by 64 random bits.
#[expect(clippy::cast_precision_loss, reason = "the top 53 bits fit a float exactly")]
fn happens(probability: f64, bits: u64) -> bool {
    ((bits >> 11) as f64) < probability * (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::request::Target;

    fn pass(work: Work, checks: Checks) -> Pass {
        let target = Target::parse("http://localhost").expect("a URL");
        let base = Base {
            address: ([127, 0, 0, 1], 1).into(),
            request: Request::new(&target, None, "tok_approve"),
            timeout: Duration::from_secs(1),
            checks,
            keys: Keys::new(42),
        };
        let from = Instant::now();
        Pass::new(&base, work, Window { from, until: from + Duration::from_secs(1) })
    }

    fn response(status: u16, replayed: bool) -> Response {
        Response { status, replayed, closes: false }
    }

    #[tokio::test(start_paused = true)]
    async fn prepared_keys_are_the_ones_replayed_and_never_sent_as_new() {
        let (keys, mut dice) = (50, Dice::new(1));
        let prepare = pass(Work::Once { keys, expected: Expected::Either }, Checks::Promises);
        let prepared: Vec<u128> =
            std::iter::from_fn(|| prepare.next(Instant::now(), &mut dice)).map(|step| step.key).collect();
        assert_eq!(prepared.len(), 50);

        let measure = pass(Work::Measure { known: keys, replay_share: 0.5 }, Checks::Promises);
        let steps: Vec<Step> = (0..1000).filter_map(|_| measure.next(Instant::now(), &mut dice)).collect();
        let replays = steps.iter().filter(|step| step.expected == Expected::Replay).count();
        assert!((400..600).contains(&replays), "{replays}");
        for step in steps {
            assert_eq!(prepared.contains(&step.key), step.expected == Expected::Replay);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shares_of_zero_and_one_are_exact() {
        let mut dice = Dice::new(1);
        for (replay_share, expected) in [(0.0, Expected::First), (1.0, Expected::Replay)] {
            let measure = pass(Work::Measure { known: 5, replay_share }, Checks::Promises);
            for _ in 0..1000 {
                let step = measure.next(Instant::now(), &mut dice).expect("the window is open");
                assert_eq!(step.expected, expected);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_closes_the_pass_and_bounds_what_counts() {
        let measure = pass(Work::Measure { known: 0, replay_share: 0.0 }, Checks::Promises);
        let (tally, ms) = (RefCell::new(Tally::new()), Duration::from_millis);
        let Window { from, until } = measure.window;
        assert_eq!(measure.next(until, &mut Dice::new(1)), None);
        measure.count(&tally, from - ms(1), from + ms(1), Ok(()));
        measure.count(&tally, until - ms(1), until + ms(1), Err(Fault::CutOff));
        assert_eq!((tally.borrow().good(), tally.borrow().errors()), (0, 0));
        measure.count(&tally, from, until, Ok(()));
        measure.count(&tally, from, until, Err(Fault::CutOff));
        assert_eq!((tally.borrow().good(), tally.borrow().errors()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_judged_by_what_the_key_promises() {
        let strict = pass(Work::Once { keys: 1, expected: Expected::Either }, Checks::Promises);
        let cases = [
            (Expected::First, response(201, false), Ok(())),
            (Expected::First, response(201, true), Err(Fault::ReplayOfNew)),
            (Expected::Replay, response(201, true), Ok(())),
            (Expected::Replay, response(201, false), Err(Fault::NotReplayed)),
            (Expected::Either, response(201, true), Ok(())),
            (Expected::First, response(200, false), Err(Fault::Status(200))),
            (Expected::Replay, response(503, false), Err(Fault::Status(503))),
            (Expected::Unknown, response(504, false), Ok(())),
            (Expected::Unknown, response(201, false), Err(Fault::Status(201))),
            (Expected::First, response(504, false), Err(Fault::Status(504))),
        ];
        for (expected, response, verdict) in cases {
            assert_eq!(strict.judge(expected, response), verdict, "{expected:?} {response:?}");
        }
        let lenient = pass(Work::Once { keys: 1, expected: Expected::Either }, Checks::AnyAnswer);
        assert_eq!(lenient.judge(Expected::Replay, response(200, false)), Ok(()));
        assert_eq!(lenient.judge(Expected::First, response(404, false)), Err(Fault::Status(404)));
    }
}
