//! One call being performed: it obeys what core's [`Call`] says after every attempt, and decides nothing itself.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::{Instant, timeout_at};
use unavez_core::retry::{Answer, Call, Ended, Nature, Next, Reason, Received, Start, Told, Verdict};

use crate::client::Shared;
use crate::compose::{self, Composed};
use crate::host::Host;
use crate::listen::{Event, Listen};
use crate::operation::{self, Operation};
use crate::outcome::{Last, Outcome, Resolve, Unknown};
use crate::reading;
use crate::transport::{Cause, Exchanged, Transport};

pub(crate) struct Run<'a, T> {
    shared: &'a Shared<T>,
    operation: &'a Operation,
    request: Composed,
    listener: &'a (dyn Listen + 'a),
    host: Arc<Host>,
    attempt: u32,
    last: Last,
}

/// What an attempt came to, and when its host may be tried again if the breaker said so.
struct Attempted {
    exchanged: Exchanged,
    wait: Option<Duration>,
}

impl<'a, T: Transport> Run<'a, T> {
    pub(crate) fn new(
        shared: &'a Shared<T>,
        operation: &'a Operation,
        request: Composed,
        listener: &'a (dyn Listen + 'a),
    ) -> Self {
        let host = shared.hosts.of(operation.url());
        Self { shared, operation, request, listener, host, attempt: 0, last: Last::Nothing }
    }

    pub(crate) async fn perform(mut self) -> Outcome {
        let mut call = match self.start() {
            Ok(call) => call,
            Err(reason) => {
                let received = self.operation.parts().received;
                return self.unknown(reason, received);
            }
        };
        self.host.with_budget(|budget| budget.deposit());
        let mut next = Next::Send { after: Duration::ZERO };
        loop {
            next = match next {
                Next::End(verdict) => return self.end(verdict, &call),
                Next::Send { after } => match self.wait(after, &call).await {
                    Ok(()) => self.send(&mut call).await,
                    Err(over) => Next::End(Verdict::Unknown(over)),
                },
                Next::Ask { after } => match self.wait(after, &call).await {
                    Ok(()) => self.ask(&mut call).await,
                    Err(over) => Next::End(Verdict::Unknown(over)),
                },
            };
        }
    }

    fn start(&self) -> Result<Call, Reason> {
        let parts = self.operation.parts();
        let nature = self.operation.nature();
        let policy = self.shared.settings.policy;
        // The wall clock is looked at only where an age can matter.
        let age = match policy.retention {
            Some(_) if nature == Nature::Keyed => operation::now().since(parts.created_at),
            _ => Duration::ZERO,
        };
        Call::new(policy, Start { nature, received: parts.received, age }, self.shared.clock.now())
    }

    /// Waits. A timer may be late, and what would begin after the deadline does not begin.
    async fn wait(&self, wait: Duration, call: &Call) -> Result<(), Reason> {
        if !wait.is_zero() {
            self.listener.on(&Event::Waiting { wait });
            tokio::time::sleep(wait).await;
        }
        match call.attempt_timeout(self.shared.clock.now()) {
            Duration::ZERO => Err(Reason::Deadline),
            _ => Ok(()),
        }
    }

    async fn send(&mut self, call: &mut Call) -> Next {
        self.attempt += 1;
        let sending = || self.listener.on(&Event::Sending { attempt: self.attempt });
        let attempted = self.exchange(self.request.request(), self.operation.nature(), call, sending).await;
        self.listener.on(&Event::Ended { attempt: self.attempt, exchanged: &attempted.exchanged });
        let ended = match &attempted.exchanged {
            Exchanged::NotSent(_) => Ended::NotSent { wait: attempted.wait },
            Exchanged::Cut(_) => Ended::Cut,
            Exchanged::Answered(answer) => Ended::Answered(self.read(answer)),
        };
        self.last = Last::of(attempted.exchanged);
        let (random, now) = (self.shared.random.bits(), self.shared.clock.now());
        self.host.with_budget(|budget| call.after(&ended, budget, random, now))
    }

    async fn ask(&mut self, call: &mut Call) -> Next {
        let settings = &self.shared.settings;
        let question = Composed::question(self.operation, &settings.preset, &settings.headers);
        let (told, wait) = match question {
            Some(question) => {
                match self.exchange(question.request(), Nature::Safe, call, || ()).await.exchanged {
                    Exchanged::Answered(answer) => {
                        (reading::read_key_status(&answer), reading::wait(answer.headers()))
                    }
                    Exchanged::Cut(_) | Exchanged::NotSent(_) => (Told::CannotSay, None),
                }
            }
            None => (Told::CannotSay, None),
        };
        self.listener.on(&Event::Asked { told });
        let (random, now) = (self.shared.random.bits(), self.shared.clock.now());
        self.host.with_budget(|budget| call.after_question(told, wait, budget, random, now))
    }

    /// Sends one request once, behind bulkhead and breaker and within the attempt's time. All of it is given back when
    /// the future is dropped. `sending` is called when the first byte may leave.
    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        nature: Nature,
        call: &Call,
        sending: impl FnOnce(),
    ) -> Attempted {
        let Shared { settings, clock, transport, .. } = self.shared;
        let ends_at = Instant::now() + call.attempt_timeout(clock.now());
        let Ok(Some(_permit)) = timeout_at(ends_at, self.host.enter()).await else {
            return Attempted::not_sent("no place among the attempts to this host", None);
        };
        let leave = match self.host.admit(nature, clock) {
            Ok(leave) => leave,
            Err(shut) => {
                return Attempted::not_sent("the breaker for this host is open", Some(shut.retry_after));
            }
        };
        sending();
        let sent = transport.exchange(request, settings.answer_bytes_max);
        let exchanged = match timeout_at(ends_at, sent).await {
            Ok(exchanged) => exchanged,
            Err(_) => Exchanged::Cut(Cause::new("no answer in time")),
        };
        leave.settle(class(&exchanged));
        Attempted { exchanged, wait: None }
    }

    fn read(&self, answer: &Response<Bytes>) -> Answer {
        self.shared.settings.preset.read(answer)
    }

    fn end(self, verdict: Verdict, call: &Call) -> Outcome {
        match (verdict, self.last) {
            (Verdict::Done, Last::Answer(answer)) => Outcome::Done(*answer),
            (Verdict::Refused, Last::Answer(answer)) => Outcome::Refused(*answer),
            (Verdict::Unknown(reason), last) => Self { last, ..self }.unknown(reason, call.received()),
            (Verdict::Done | Verdict::Refused, _) => unreachable!("only an answer settles a call"),
        }
    }

    fn unknown(self, reason: Reason, received: Received) -> Outcome {
        let key = self.operation.key().cloned();
        let url = compose::key_status_url(self.operation, &self.shared.settings.preset);
        Outcome::Unknown(Box::new(Unknown {
            resolve: Resolve::after(reason, received, key.is_some() || self.is_safe()),
            key,
            reason,
            received,
            key_status: url.map(|url| url.to_string().into()),
            last: self.last,
        }))
    }

    fn is_safe(&self) -> bool {
        self.operation.nature() == Nature::Safe
    }
}

impl Attempted {
    fn not_sent(what: &str, wait: Option<Duration>) -> Self {
        Self { exchanged: Exchanged::NotSent(Cause::new(what)), wait }
    }
}

impl Last {
    fn of(exchanged: Exchanged) -> Self {
        match exchanged {
            Exchanged::Answered(answer) => Self::Answer(Box::new(answer)),
            Exchanged::Cut(cause) | Exchanged::NotSent(cause) => Self::Failed(cause),
        }
    }
}

/// How the breaker counts it.
fn class(exchanged: &Exchanged) -> unavez_core::retry::Class {
    match exchanged {
        Exchanged::NotSent(_) => Ended::NotSent { wait: None }.class(),
        Exchanged::Cut(_) => Ended::Cut.class(),
        Exchanged::Answered(answer) => Ended::Answered(Answer::of_status(answer.status().as_u16())).class(),
    }
}
