//! The bulkhead of a host, as calls meet it (P33).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use unavez_client::{BulkheadLimits, Client, Event, Exchanged, Listen, Outcome, Received, Transport};

use crate::net::{charge, plain};

const CALLS: usize = 10_000;

/// Answers when it is let to, and counts how many are under way.
#[derive(Clone)]
struct Gate {
    open: Arc<Semaphore>,
    inside: Arc<AtomicUsize>,
    highest: Arc<AtomicUsize>,
}

impl Gate {
    fn new() -> Self {
        Self { open: Arc::new(Semaphore::new(0)), inside: Arc::default(), highest: Arc::default() }
    }

    fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    /// Fails if it takes longer than anything here can.
    async fn until_inside(&self, count: usize) {
        for _ in 0..10 * CALLS {
            if self.inside() == count {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{} are inside instead of {count}", self.inside());
    }
}

struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Transport for Gate {
    async fn exchange(&self, _: Request<Full<Bytes>>, _: usize) -> Exchanged {
        let count = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        let _inside = Inside(Arc::clone(&self.inside));
        self.highest.fetch_max(count, Ordering::SeqCst);
        self.open.acquire().await.unwrap().forget();
        Exchanged::Answered(Response::builder().status(201).body(Bytes::new()).unwrap())
    }
}

fn client(gate: &Gate, permits: usize, waiting_max: usize) -> Client<Gate> {
    plain()
        .with_attempts(1)
        .with_bulkhead(BulkheadLimits { permits, waiting_max })
        .with_attempt_timeout(Duration::from_secs(3600))
        .with_deadline(Duration::from_secs(7200))
        .build_over(gate.clone())
}

fn spawn(client: &Client<Gate>) -> JoinHandle<Outcome> {
    let client = client.clone();
    tokio::spawn(async move { client.call(&charge()).await.unwrap() })
}

async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c76_waiters_that_give_up_take_no_permit_with_them() {
    let gate = Gate::new();
    let client = client(&gate, 8, 8);
    let holders: Vec<_> = (0..8).map(|_| spawn(&client)).collect();
    gate.until_inside(8).await;
    let waiters: Vec<_> = (0..8).map(|_| spawn(&client)).collect();
    settle().await;
    let refused = spawn(&client).await.unwrap();
    assert!(matches!(refused, Outcome::Unknown(unknown) if unknown.received == Received::No));
    waiters.iter().for_each(JoinHandle::abort);
    settle().await;
    gate.open.add_permits(8);
    for holder in holders {
        assert!(matches!(holder.await.unwrap(), Outcome::Done(_)));
    }
    let later: Vec<_> = (0..8).map(|_| spawn(&client)).collect();
    gate.until_inside(8).await;
    gate.open.add_permits(8);
    for call in later {
        assert!(matches!(call.await.unwrap(), Outcome::Done(_)));
    }
    assert_eq!(gate.highest.load(Ordering::SeqCst), 8);
}

/// Notes the attempts that are sent.
#[derive(Clone, Default)]
struct Sent(Arc<AtomicUsize>);

impl Listen for Sent {
    fn on(&self, event: &Event<'_>) {
        if let Event::Sending { .. } = event {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// What a handler has to know that is cancelled together with its call: whether its own operation is released, or unknown.
#[tokio::test(start_paused = true)]
async fn c13_a_call_that_is_dropped_has_sent_nothing_while_it_queued_and_perhaps_everything_after() {
    let gate = Gate::new();
    let client = client(&gate, 1, 8);
    let holder = spawn(&client);
    gate.until_inside(1).await;

    let (operation, heard) = (charge(), Sent::default());
    let queued = timeout(Duration::from_secs(1), client.call_heard(&operation, &heard)).await;
    assert!(queued.is_err() && heard.0.load(Ordering::SeqCst) == 0, "released");
    gate.open.add_permits(1);
    assert!(matches!(holder.await.unwrap(), Outcome::Done(_)));

    let sent = timeout(Duration::from_secs(1), client.call_heard(&operation, &heard)).await;
    assert!(sent.is_err() && heard.0.load(Ordering::SeqCst) == 1, "unknown");
    gate.open.add_permits(1);
    let repeated = client.call_heard(&operation, &heard).await.unwrap();
    assert!(matches!(repeated, Outcome::Done(_)), "the repeat, with the same key, has the permit");
}

/// Cancels while they wait, while they were just woken, and while they are inside.
#[tokio::test(start_paused = true)]
async fn c76_ten_thousand_random_cancels_leave_eight_permits() {
    let gate = Gate::new();
    let client = client(&gate, 8, CALLS);
    let mut calls: Vec<Option<JoinHandle<Outcome>>> = (0..CALLS).map(|_| Some(spawn(&client))).collect();
    gate.until_inside(8).await;
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    for step in 0..CALLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let index = usize::try_from(random % CALLS as u64).unwrap();
        if let Some(call) = calls[index].take() {
            call.abort();
        }
        match step % 3 {
            0 => gate.open.add_permits(1),
            1 => tokio::task::yield_now().await,
            _ => {}
        }
    }
    for call in calls.iter().flatten() {
        call.abort();
    }
    settle().await;
    gate.until_inside(0).await;
    gate.open.forget_permits(usize::MAX >> 4);
    let full: Vec<_> = (0..9).map(|_| spawn(&client)).collect();
    gate.until_inside(8).await;
    settle().await;
    assert_eq!((gate.inside(), gate.highest.load(Ordering::SeqCst)), (8, 8));
    gate.open.add_permits(9);
    for call in full {
        assert!(matches!(call.await.unwrap(), Outcome::Done(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_pass_through_one_bulkhead() {
    let gate = Gate::new();
    let client = client(&gate, 8, CALLS);
    let calls: Vec<_> = (0..CALLS).map(|_| spawn(&client)).collect();
    gate.until_inside(8).await;
    gate.open.add_permits(CALLS);
    for call in calls {
        assert!(matches!(call.await.unwrap(), Outcome::Done(_)));
    }
    assert_eq!((gate.inside(), gate.highest.load(Ordering::SeqCst)), (0, 8));
}

/// What `docs/client.md` says of the memory of a call: its future, and a place in the queue.
#[tokio::test]
async fn a_call_under_way_takes_less_than_three_kilobytes() {
    let client = client(&Gate::new(), 8, 8);
    let operation = charge();
    let bytes = std::mem::size_of_val(&client.call(&operation));
    assert!(bytes <= 3072, "{bytes} bytes");
}
