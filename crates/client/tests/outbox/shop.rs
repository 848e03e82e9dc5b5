//! An outbox in a folder of its own, a server that does what a script says, and a wall clock that is set by hand.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tempfile::TempDir;
use unavez_client::outbox::{Outbox, OutboxLimits, Standing, Worker, rusqlite};
use unavez_client::{
    Cause, Client, ClientBuilder, Exchanged, Key, Operation, OperationParts, Preset, Time, Transport, derive,
};

/// What the server does with one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Cannot be reached.
    Refuse,
    /// Takes effect, and says nothing for ever.
    Hang,
    /// Answers this after a while.
    Slow(Duration, u16),
    /// Answers this.
    Say(u16),
}

/// A server and all it has read: key and body of each request.
#[derive(Clone, Default)]
pub(crate) struct Server(Arc<Mutex<(VecDeque<Step>, Vec<String>)>>);

impl Server {
    pub(crate) fn new(script: impl IntoIterator<Item = Step>) -> Self {
        Self(Arc::new(Mutex::new((script.into_iter().collect(), Vec::new()))))
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().1.clone()
    }

    /// How often each URL's host was sent to.
    pub(crate) fn count(&self, host: &str) -> usize {
        self.requests().iter().filter(|request| request.contains(host)).count()
    }
}

impl Transport for Server {
    async fn exchange(&self, request: Request<Full<Bytes>>, _: usize) -> Exchanged {
        let step = self.0.lock().unwrap().0.pop_front().unwrap_or(Step::Say(201));
        if matches!(step, Step::Refuse) {
            return Exchanged::NotSent(Cause::new("refused"));
        }
        let (head, body) = request.into_parts();
        let key = head.headers["idempotency-key"].to_str().unwrap().to_owned();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        self.0.lock().unwrap().1.push(format!("{key} {} {body}", head.uri.host().unwrap()));
        let status = match step {
            Step::Hang | Step::Refuse => std::future::pending().await,
            Step::Slow(wait, status) => {
                tokio::time::sleep(wait).await;
                status
            }
            Step::Say(status) => status,
        };
        let answer = Response::builder().status(status).header("x-answer", "kept").body("paid".into());
        Exchanged::Answered(answer.unwrap())
    }
}

/// A day in 2027, in microseconds.
const NOW: i64 = 1_800_000_000_000_000;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Shop {
    folder: TempDir,
    wall: Arc<AtomicI64>,
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), wall: Arc::new(AtomicI64::new(NOW)) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("outbox.db")
    }

    /// A process comes.
    pub(crate) fn open(&self) -> Outbox {
        self.open_with(OutboxLimits::default())
    }

    pub(crate) fn open_with(&self, limits: OutboxLimits) -> Outbox {
        let wall = Arc::clone(&self.wall);
        let read = move || Time::from_micros(wall.load(Ordering::SeqCst));
        Outbox::open_on(self.path(), limits, Arc::new(read)).unwrap()
    }

    /// Sets the wall clock forth, while nobody's process lives.
    pub(crate) fn set_forth(&self, by: Duration) {
        self.wall.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn set_back(&self, by: Duration) {
        self.wall.fetch_sub(i64::try_from(by.as_micros()).unwrap(), Ordering::SeqCst);
    }

    /// With SQLite alone, as an operator would look or meddle.
    pub(crate) fn sql(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    /// A charge made now, on this shop's wall clock.
    pub(crate) fn charge(&self, order: &str) -> Operation {
        self.charge_at("pay.test", order)
    }

    pub(crate) fn charge_at(&self, host: &str, order: &str) -> Operation {
        let charge = Operation::post(&format!("https://{host}/v1/charges")).unwrap();
        let charge = charge.with_key(key(order)).with_json(format!("{{\"order\":\"{order}\"}}"));
        let created_at = Time::from_micros(self.wall.load(Ordering::SeqCst));
        Operation::from_parts(OperationParts { created_at, ..charge.into_parts() }).unwrap()
    }
}

pub(crate) fn key(order: &str) -> Key {
    derive("charge", &[order]).unwrap()
}

/// What the server reads of a charge.
pub(crate) fn sent(order: &str) -> String {
    format!("charge:{order} pay.test {{\"order\":\"{order}\"}}")
}

/// One attempt a call, so that a script is read off at sight.
pub(crate) fn once() -> ClientBuilder {
    Client::builder(Preset { retention: Some(24 * HOUR), ..Preset::stripe() }).with_attempts(1)
}

pub(crate) fn worker(outbox: &Outbox, server: &Server) -> Worker<Server> {
    outbox.worker(once().build_over(server.clone()))
}

pub(crate) async fn state(outbox: &Outbox, order: &str) -> String {
    match outbox.find(&key(order)).await.unwrap() {
        None => "none".to_owned(),
        Some(Standing::Waiting(waiting)) => format!("waiting, {} calls", waiting.calls),
        Some(Standing::Done(answer)) => format!("done {}", answer.status().as_u16()),
        Some(Standing::Refused(answer)) => format!("refused {}", answer.status().as_u16()),
        Some(Standing::Unknown { reason, received }) => format!("unknown, received {received:?}: {reason}"),
        Some(other) => format!("{other:?}"),
    }
}
