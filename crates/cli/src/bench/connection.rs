//! One kept-alive connection: sends a request, reads its answer, and again.
//!
//! After the connect nothing is allocated, and an exchange that is answered in one piece costs one write and one read.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::pass::{Pass, Step};
use super::response::{Parser, Response};
use super::tally::{Fault, Tally};

/// Answers of charges fit in one read of this size.
const BUFFER_BYTES: usize = 16 * 1024;

/// The longest pause between two attempts to connect.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Works on a pass until it has no more steps.
pub(super) async fn run(pass: &Pass, mut dice: Dice, tally: &RefCell<Tally>) {
    let mut request = pass.request.clone();
    let mut backoff = Duration::from_millis(10);
    let mut step = pass.next(Instant::now(), &mut dice);
    while step.is_some() {
        let started = Instant::now();
        let Ok(mut connection) = Connection::open(pass).await else {
            pass.count(tally, started, Instant::now(), Err(Fault::Connect));
            sleep(backoff).await;
            backoff = BACKOFF_MAX.min(backoff * 2);
            step = pass.next(Instant::now(), &mut dice);
            continue;
        };
        backoff = Duration::from_millis(10);
        while let Some(Step { key, expected }) = step {
            let sent = Instant::now();
            let answer = connection.exchange(request.stamp(key), sent).await;
            let received = Instant::now();
            pass.count(tally, sent, received, answer.and_then(|response| pass.judge(expected, response)));
            step = pass.next(received, &mut dice);
            if !answer.is_ok_and(|response| !response.closes) {
                break;
            }
        }
    }
}

/// A source of choices that need no quality but speed.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(super::request::mix(seed))
    }

    /// The next 64 random bits.
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        super::request::mix(self.0)
    }
}

struct Connection {
    stream: TcpStream,
    parser: Parser,
    buffer: Box<[u8]>,
    patience: Patience,
}

impl Connection {
    async fn open(pass: &Pass) -> io::Result<Self> {
        let mut patience = Patience::new(pass.timeout);
        let connect = patience.with(Instant::now(), TcpStream::connect(pass.address)).await;
        let stream = connect.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            parser: Parser::default(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            patience,
        })
    }

    async fn exchange(&mut self, request: &[u8], sent: Instant) -> Result<Response, Fault> {
        let Self { stream, parser, buffer, patience } = self;
        let exchange = async {
            stream.write_all(request).await.map_err(|_| Fault::CutOff)?;
            loop {
                let read = stream.read(buffer).await.map_err(|_| Fault::CutOff)?;
                if read == 0 {
                    return parser.end_of_stream().ok_or(Fault::CutOff);
                }
                if let Some(response) = parser.feed(&buffer[..read]).map_err(|_| Fault::Malformed)? {
                    return Ok(response);
                }
            }
        };
        patience.with(sent, exchange).await.unwrap_or(Err(Fault::Timeout))
    }
}

/// A time limit that costs no timer per exchange: one timer per connection looks, whenever it goes off, whether the
/// exchange that runs now is overdue.
struct Patience {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
}

/// The exchange took longer than the limit.
struct Overdue;

impl Patience {
    fn new(limit: Duration) -> Self {
        Self { limit, timer: Box::pin(sleep_until(Instant::now() + limit)) }
    }

    async fn with<T>(&mut self, started: Instant, work: impl Future<Output = T>) -> Result<T, Overdue> {
        let mut work = pin!(work);
        let due = started + self.limit;
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            while self.timer.as_mut().poll(context).is_ready() {
                if Instant::now() >= due {
                    return Poll::Ready(Err(Overdue));
                }
                self.timer.as_mut().reset(due);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn patience_ends_an_overdue_exchange_and_no_other() {
        let mut patience = Patience::new(Duration::from_secs(10));
        for _ in 0..5 {
            let started = Instant::now();
            assert!(patience.with(started, sleep(Duration::from_secs(9))).await.is_ok());
        }
        let started = Instant::now();
        assert!(patience.with(started, std::future::pending::<()>()).await.is_err());
        assert_eq!(started.elapsed(), Duration::from_secs(10));
    }
}
