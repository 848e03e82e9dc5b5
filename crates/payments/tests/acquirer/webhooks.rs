//! Webhooks of the sandbox: when they are sent, to what end, and how they read.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use unavez_payments::acquirer::sandbox::{
    Behaviour, Courier, Deliveries, Letter, PENDING, SandboxAcquirer, Webhooks,
};
use unavez_payments::acquirer::signature::Secrets;
use unavez_payments::acquirer::{Acquirer, Answer, BoxFuture, News, Reason, Standing};
use unavez_store::clock::Clock as _;

use crate::support::{Bench, payment};

const SECOND: Duration = Duration::from_secs(1);

/// Takes letters as it is told to, and keeps them all.
#[derive(Default)]
struct Receiver {
    letters: Mutex<Vec<Letter>>,
    refusals: Mutex<u32>,
}

impl Receiver {
    fn taken(&self) -> Vec<Letter> {
        self.letters.lock().unwrap().clone()
    }
}

impl Courier for Receiver {
    fn deliver<'a>(&'a self, letter: &'a Letter) -> BoxFuture<'a, Result<(), Reason>> {
        self.letters.lock().unwrap().push(letter.clone());
        let mut refusals = self.refusals.lock().unwrap();
        let taken = if *refusals > 0 { Err(Reason("answered 500".into())) } else { Ok(()) };
        *refusals = refusals.saturating_sub(1);
        Box::pin(std::future::ready(taken))
    }
}

/// A sandbox with a receiver of its webhooks.
struct Post {
    bench: Bench,
    receiver: Arc<Receiver>,
    deliveries: Deliveries,
}

impl Post {
    fn new(webhooks: Webhooks) -> Self {
        let mut bench = Bench::new(Behaviour { webhooks, ..Behaviour::default() });
        let secrets = Secrets::random();
        bench.acquirer = SandboxAcquirer::in_process(&bench.sandbox, secrets.clone());
        let receiver = Arc::new(Receiver::default());
        let courier: Arc<dyn Courier> = Arc::clone(&receiver) as _;
        let deliveries = Deliveries::new(bench.sandbox.clone(), secrets, courier);
        Self { bench, receiver, deliveries }
    }

    async fn after(&self, wait: Duration) -> usize {
        self.bench.clock.advance(wait);
        self.deliveries.deliver_due().await.unwrap();
        self.receiver.taken().len()
    }

    async fn read(&self, letter: &Letter) -> (Box<str>, News) {
        let now = self.bench.clock.now();
        let event = self.bench.acquirer.read_event(&letter.headers, &letter.body, now).await.unwrap();
        (event.id, event.news)
    }
}

#[tokio::test]
async fn a_decision_is_told_by_one_signed_webhook() {
    let post = Post::new(Webhooks::Once);
    post.bench.send(&payment("k", "tok_pending")).await;
    post.bench.send(&payment("at once", "tok_approve")).await;
    assert_eq!(post.after(PENDING - Duration::from_micros(1)).await, 0);
    assert_eq!(post.after(Duration::from_micros(1)).await, 1);
    assert_eq!(post.after(3600 * SECOND).await, 1);
    let letter = &post.receiver.taken()[0];
    let secrets_of_another = SandboxAcquirer::in_process(&post.bench.sandbox, Secrets::random());
    let now = post.bench.clock.now();
    assert!(secrets_of_another.read_event(&letter.headers, &letter.body, now).await.is_err());
}

#[tokio::test]
async fn the_event_says_what_a_question_is_told() {
    let post = Post::new(Webhooks::Once);
    for (key, method, expected) in
        [("good", "tok_pending", Standing::Done), ("bad", "tok_pending_decline", Standing::Declined)]
    {
        let payment = payment(key, method);
        post.bench.send(&payment).await;
        post.after(PENDING).await;
        let letter = post.receiver.taken().pop().unwrap();
        let (_, News::Operation(standing, report)) = post.read(&letter).await else { panic!("no news") };
        assert_eq!(standing, expected);
        let asked = match post.bench.look_up(&payment).await {
            Answer::Done(asked) | Answer::Declined(asked) => asked,
            other => panic!("not decided: {other:?}"),
        };
        assert_eq!(report, asked);
    }
}

#[tokio::test]
async fn webhooks_come_twice_or_reversed_when_told_to() {
    let post = Post::new(Webhooks::Twice);
    post.bench.send(&payment("k", "tok_pending")).await;
    post.after(PENDING).await;
    assert_eq!(post.after(SECOND).await, 2);
    assert_eq!(post.after(3600 * SECOND).await, 2);
    let [first, second] = &post.receiver.taken()[..] else { panic!("two") };
    assert_eq!((&first.body, &first.headers["webhook-id"]), (&second.body, &second.headers["webhook-id"]));

    let post = Post::new(Webhooks::Reversed);
    post.bench.send(&payment("k", "tok_pending")).await;
    post.after(PENDING).await;
    assert_eq!(post.after(SECOND).await, 2);
    let mut told = Vec::new();
    for letter in post.receiver.taken() {
        let (id, News::Operation(standing, _)) = post.read(&letter).await else { panic!("no news") };
        told.push((id, standing));
    }
    assert_eq!((told[0].1, told[1].1), (Standing::Done, Standing::Pending));
    assert_ne!(told[0].0, told[1].0, "two events, not one repeated");
}

#[tokio::test]
async fn a_webhook_that_is_not_taken_comes_again_later_and_later_and_unchanged() {
    let post = Post::new(Webhooks::Once);
    *post.receiver.refusals.lock().unwrap() = 3;
    post.bench.send(&payment("k", "tok_pending")).await;
    assert_eq!(post.after(PENDING).await, 1);
    // Each wait is between half of 1 s, 2 s, 4 s and all of it.
    for (round, wait) in [SECOND, 2 * SECOND, 4 * SECOND].into_iter().enumerate() {
        assert_eq!(post.after(wait / 2 - Duration::from_micros(1)).await, round + 1, "too early");
        assert_eq!(post.after(wait / 2 + Duration::from_micros(1)).await, round + 2);
    }
    assert_eq!(post.after(3600 * SECOND).await, 4, "taken");
    let letters = post.receiver.taken();
    assert!(letters.iter().all(|letter| letter.body == letters[0].body));
    assert!(letters.iter().all(|letter| letter.headers["webhook-id"] == letters[0].headers["webhook-id"]));
    assert_ne!(letters[0].headers["webhook-timestamp"], letters[3].headers["webhook-timestamp"]);
}

#[tokio::test]
async fn a_webhook_nobody_takes_is_given_up_after_half_a_day() {
    let post = Post::new(Webhooks::Once);
    *post.receiver.refusals.lock().unwrap() = u32::MAX;
    post.bench.send(&payment("k", "tok_pending")).await;
    post.after(PENDING).await;
    for _ in 0..40 {
        post.after(3600 * SECOND).await;
    }
    assert_eq!(post.receiver.taken().len(), 24);
    assert_eq!(post.deliveries.deliver_due().await.unwrap(), None);
}
