//! One call: every attempt for one operation until its result (P30, P31, P32).
//!
//! 1. Once an earlier attempt may have been received, only an answer from the key's record is done or refused. Every
//!    other one may come from a layer that never saw that attempt: a gateway, an expired login, a stricter version.
//! 2. What the server says about repeating beats what its status says.
//! 3. Without a key, an operation with an effect is sent again only if nothing of it had left.
//! 4. 401, 403 and 407 end the call, not the operation: mended, it is sent again with the same key.
//! 5. A redirect is not followed: it says that the operation is to happen elsewhere, under a key nobody there knows.
//! 6. Whatever ends a call early - attempts, time, budget - ends it as unknown, never as refused.

use core::time::Duration;

use super::attempt::{Answer, Ended, Nature, Received, Says, Told};
use super::{Backoff, Budget};
use crate::time::Time;

/// How often and how long one call tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Sends at most, the first included; and as many questions about the key. 0 is read as 1.
    pub attempts: u32,
    /// How long one attempt may take.
    pub attempt_timeout: Duration,
    /// How long the call may take, waits included.
    pub deadline: Duration,
    /// The waits.
    pub backoff: Backoff,
    /// How much of a server's `Retry-After` is honoured.
    pub wait_max: Duration,
    /// Whether the server can be asked about a key, instead of being sent the request again.
    pub asks: bool,
    /// For how long the server says that it keeps keys; `None`: it does not say.
    pub retention: Option<Duration>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: 4,
            attempt_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(120),
            backoff: Backoff::default(),
            wait_max: Duration::from_secs(60),
            asks: false,
            retention: None,
        }
    }
}

/// The operation that a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// What kind it is.
    pub nature: Nature,
    /// What is known of earlier calls for it. One that was read back from storage may have been received.
    pub received: Received,
    /// How long ago it was made.
    pub age: Duration,
}

impl Start {
    /// An operation that was made just now and never sent.
    pub const fn fresh(nature: Nature) -> Self {
        Self { nature, received: Received::No, age: Duration::ZERO }
    }
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Call {
    policy: Policy,
    nature: Nature,
    received: Received,
    deadline_at: Time,
    kept_until: Time,
    sends: u32,
    questions: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the same request, under the same key.
    Send {
        /// After this wait.
        after: Duration,
    },
    /// Ask what became of the key.
    Ask {
        /// After this wait.
        after: Duration,
    },
    /// The call is over.
    End(Verdict),
}

/// What a call ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It took effect.
    Done,
    /// It did not, and never will under this key.
    Refused,
    /// Nobody knows, or it has not ended: only the same key finds out.
    Unknown(Reason),
}

/// Why a call ended without knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// All attempts are used up.
    Attempts,
    /// The next attempt would begin after the deadline.
    Deadline,
    /// The retry budget of this host is empty.
    Budget,
    /// It has an effect and no key, so it is not sent again.
    NoKey,
    /// 401, 403 or 407: with the credentials mended it can be sent again.
    Credentials,
    /// The server points elsewhere.
    Redirected,
    /// A refusal that may not know the attempt whose answer was lost.
    OtherAnswer,
    /// The server says that repeating does not help, and not what became of the operation.
    NotRetryable,
    /// The server has given the key up: a person must look.
    Abandoned,
    /// Older than the time for which the server keeps keys: sent now, it could happen again (P29).
    TooOld,
}

impl Reason {
    /// A phrase for logs and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attempts => "all attempts are used up",
            Self::Deadline => "the time for the call is over",
            Self::Budget => "the retry budget for this host is empty",
            Self::NoKey => "without a key it is not sent again",
            Self::Credentials => "the server does not accept the credentials",
            Self::Redirected => {
                "the server points elsewhere, and an operation with an effect does not follow"
            }
            Self::OtherAnswer => {
                "the answer does not come from the key's record, and an earlier one was lost"
            }
            Self::NotRetryable => {
                "the server does not say what became of it, and that repeating does not help"
            }
            Self::Abandoned => "the server has given the key up until a person looks",
            Self::TooOld => "it is older than the time for which the server keeps keys",
        }
    }
}

/// What the end of one attempt means by itself.
enum Judged {
    End(Verdict),
    Again,
}

impl Call {
    /// A call that begins now; what it may do first is send.
    ///
    /// # Errors
    /// The operation must not be sent: it is too old, or may have been received and has no key.
    pub fn new(policy: Policy, start: Start, now: Time) -> Result<Self, Reason> {
        if start.received == Received::Perhaps && !start.nature.is_safe_to_repeat() {
            return Err(Reason::NoKey);
        }
        let kept_until = kept_until(&policy, &start, now);
        if now > kept_until {
            return Err(Reason::TooOld);
        }
        let deadline_at = now.plus(policy.deadline);
        let (nature, received) = (start.nature, start.received);
        Ok(Self { policy, nature, received, deadline_at, kept_until, sends: 0, questions: 0 })
    }

    /// How long an attempt that begins now may take. Zero: the call's time is over.
    pub fn attempt_timeout(&self, now: Time) -> Duration {
        self.policy.attempt_timeout.min(self.deadline_at.since(now))
    }

    /// Whether any attempt so far may have been received.
    pub fn received(&self) -> Received {
        self.received
    }

    /// An attempt ended. `random` is uniform over all of `u64`.
    pub fn after(&mut self, ended: &Ended, budget: &mut Budget, random: u64, now: Time) -> Next {
        let before = self.received;
        self.received = before.or(ended.received());
        self.sends += 1;
        match self.judge(ended, before) {
            Judged::End(verdict) => Next::End(verdict),
            Judged::Again if self.sends >= self.policy.attempts => unknown(Reason::Attempts),
            Judged::Again => {
                let wait = self.wait(ended.wait(), random);
                let next = if self.is_worth_asking(ended) {
                    Next::Ask { after: wait }
                } else {
                    Next::Send { after: wait }
                };
                self.spend(next, wait, budget, now)
            }
        }
    }

    /// The server answered the question about the key, or did not. `wait` is what it asked for.
    pub fn after_question(
        &mut self,
        told: Told,
        wait: Option<Duration>,
        budget: &mut Budget,
        random: u64,
        now: Time,
    ) -> Next {
        self.questions += 1;
        let wait = if told == Told::Finished { Duration::ZERO } else { self.wait(wait, random) };
        let next = match told {
            Told::Abandoned => return unknown(Reason::Abandoned),
            Told::Open if self.questions < self.policy.attempts => Next::Ask { after: wait },
            // The stored answer is fetched with the same request, which runs nothing. The same request also makes the
            // server find out what its own attempt came to.
            Told::Finished | Told::Open | Told::Unknown | Told::Nothing | Told::CannotSay => {
                Next::Send { after: wait }
            }
        };
        self.spend(next, wait, budget, now)
    }

    fn judge(&self, ended: &Ended, before: Received) -> Judged {
        match ended {
            Ended::NotSent { .. } => Judged::Again,
            Ended::Cut if self.nature.is_safe_to_repeat() => Judged::Again,
            Ended::Cut => stop(Reason::NoKey),
            Ended::Answered(answer) => match self.nature {
                Nature::Keyed => judge_keyed(answer, before),
                Nature::Safe => judge_safe(answer),
                Nature::Bare => judge_bare(answer),
            },
        }
    }

    /// A question costs the server less than the request, and does not wait for a running one. After 503 nothing ran,
    /// so there is nothing to ask about.
    fn is_worth_asking(&self, ended: &Ended) -> bool {
        let is_503 = matches!(ended, Ended::Answered(Answer { status: 503, .. }));
        self.policy.asks
            && self.nature == Nature::Keyed
            && self.questions < self.policy.attempts
            && ended.received() == Received::Perhaps
            && !is_503
    }

    /// The server's wish up to the cap, and the jitter on top: those that were told the same time do not come together.
    fn wait(&self, asked_for: Option<Duration>, random: u64) -> Duration {
        let retry = (self.sends + self.questions).saturating_sub(1);
        let jitter = self.policy.backoff.wait(retry, random);
        asked_for.unwrap_or_default().min(self.policy.wait_max).saturating_add(jitter)
    }

    fn spend(&self, next: Next, wait: Duration, budget: &mut Budget, now: Time) -> Next {
        if now.plus(wait) >= self.deadline_at {
            return unknown(Reason::Deadline);
        }
        if now.plus(wait) > self.kept_until {
            return unknown(Reason::TooOld);
        }
        if !budget.withdraw() {
            return unknown(Reason::Budget);
        }
        next
    }
}

/// The last moment at which the server is sure to know the key, if it was ever sent (P29).
fn kept_until(policy: &Policy, start: &Start, now: Time) -> Time {
    match policy.retention {
        Some(retention) if start.nature == Nature::Keyed => now.minus(start.age).plus(retention),
        _ => Time::MAX,
    }
}

const fn unknown(reason: Reason) -> Next {
    Next::End(Verdict::Unknown(reason))
}

const fn stop(reason: Reason) -> Judged {
    Judged::End(Verdict::Unknown(reason))
}

fn judge_keyed(answer: &Answer, before: Received) -> Judged {
    let speaks_for_all = before == Received::No;
    match (answer.says, answer.status) {
        (Says::Pending, _) => Judged::Again,
        // Kept or not, it says that the same request may get another answer.
        (Says::Recorded, 400..) if answer.is_repeated() => Judged::Again,
        (Says::Recorded, 200..=399) => Judged::End(Verdict::Done),
        (Says::Recorded, 400..) => Judged::End(Verdict::Refused),
        // A layer in front of the server made it, which knows nothing of the operation.
        (Says::Unmarked, 200..=299) => Judged::Again,
        (_, 200..=299) if speaks_for_all => Judged::End(Verdict::Done),
        // The same request again gets the answer that is kept.
        (_, 200..=299) => Judged::Again,
        (_, 300..=399) => stop(Reason::Redirected),
        (_, 401 | 403 | 407) => stop(Reason::Credentials),
        _ if answer.is_repeated() => Judged::Again,
        (_, 408 | 425 | 429 | 500..) => stop(Reason::NotRetryable),
        (_, 400..=499) if speaks_for_all => Judged::End(Verdict::Refused),
        _ => stop(Reason::OtherAnswer),
    }
}

/// Nothing takes effect, so every answer speaks for itself.
fn judge_safe(answer: &Answer) -> Judged {
    match answer.status {
        200..=399 => Judged::End(Verdict::Done),
        401 | 403 | 407 => stop(Reason::Credentials),
        _ if answer.is_repeated() => Judged::Again,
        408 | 425 | 429 | 500.. => stop(Reason::NotRetryable),
        _ => Judged::End(Verdict::Refused),
    }
}

/// Sent once, so the only answer speaks for the only attempt.
fn judge_bare(answer: &Answer) -> Judged {
    match answer.status {
        200..=299 => Judged::End(Verdict::Done),
        300..=399 => stop(Reason::Redirected),
        401 | 403 | 407 => stop(Reason::Credentials),
        400..=499 if !answer.is_repeated() => Judged::End(Verdict::Refused),
        _ => stop(Reason::NoKey),
    }
}

#[cfg(test)]
mod tests;
