//! How the recovery worker goes through a backlog: bounded, past whoever does not answer, and without haste where nothing
//! gets better by it (P16).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::*;
use http::{Response, StatusCode};
use tokio::time::sleep;
use unavez_core::record::State;
use unavez_store::fault::{Call, Fault};
use unavez_tower::Body;
use unavez_tower::recover::{Promise, Question, Recover, Recovered, RecoveryWorker};

/// More than are read at once, several times over.
const BACKLOG: usize = 350;

/// An outside system that did everything it was asked for.
#[derive(Clone, Default)]
struct Bank(Arc<Inside>);

#[derive(Default)]
struct Inside {
    questions: AtomicUsize,
    at_once: AtomicUsize,
    at_once_most: AtomicUsize,
    /// The first question is never answered.
    first_hangs: AtomicBool,
    is_down: AtomicBool,
}

impl Bank {
    fn questions(&self) -> usize {
        self.0.questions.load(Ordering::SeqCst)
    }
}

impl Recover for Bank {
    async fn recover(&self, _: Question) -> Recovered {
        let inside = &self.0;
        let before = inside.questions.fetch_add(1, Ordering::SeqCst);
        let at_once = inside.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        inside.at_once_most.fetch_max(at_once, Ordering::SeqCst);
        if before == 0 && inside.first_hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
        inside.at_once.fetch_sub(1, Ordering::SeqCst);
        if inside.is_down.load(Ordering::SeqCst) {
            return Recovered::CannotSay;
        }
        let mut paid = Response::new(Body::from("paid"));
        *paid.status_mut() = StatusCode::CREATED;
        Recovered::Done(paid)
    }

    fn promise(&self) -> Promise {
        Promise { visibility_delay: Duration::ZERO, resend_window: None }
    }
}

/// So many operations whose outcome nobody knows, all due.
async fn backlog(bank: &Bank) -> (World, RecoveryWorker) {
    let world = World::new();
    let layer = world.layer();
    let worker = RecoveryWorker::new(layer.engine().clone(), bank.clone());
    let app = app(layer.recoverable(bank.clone()), async || StatusCode::BAD_GATEWAY);
    for n in 0..BACKLOG {
        assert_eq!(send(&app, post(&format!("K{n}"), B1)).await.status, 502);
    }
    // The store's clock alone: tokio's goes from timer to timer by itself.
    world.clock.advance(Duration::from_secs(11));
    (world, worker)
}

async fn finished(world: &World) -> usize {
    let mut finished = 0;
    for n in 0..BACKLOG {
        let record = world.record(&format!("K{n}")).await.unwrap();
        finished += usize::from(matches!(record.state, State::Finished { .. }));
    }
    finished
}

#[tokio::test(start_paused = true)]
async fn p16_a_backlog_is_worked_off_without_a_rest_and_with_few_questions_at_once() {
    let bank = Bank::default();
    let (world, worker) = backlog(&bank).await;
    let running = tokio::spawn(worker.with_questions_max(16).run(std::future::pending()));
    sleep(Duration::from_millis(900)).await;
    assert_eq!(finished(&world).await, BACKLOG, "before its first rest is over");
    assert_eq!((bank.questions(), bank.0.at_once_most.load(Ordering::SeqCst)), (BACKLOG, 16));
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn p16_a_question_without_an_answer_holds_up_no_other() {
    let bank = Bank::default();
    bank.0.first_hangs.store(true, Ordering::SeqCst);
    let (world, worker) = backlog(&bank).await;
    let running = tokio::spawn(worker.run(std::future::pending()));
    sleep(Duration::from_millis(900)).await;
    assert_eq!(finished(&world).await, BACKLOG - 1);
    assert_eq!(bank.questions(), BACKLOG, "and it is not asked a second time meanwhile");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn p16_an_outside_system_that_is_down_is_asked_about_a_batch_for_each_rest() {
    let bank = Bank::default();
    bank.0.is_down.store(true, Ordering::SeqCst);
    let (_world, worker) = backlog(&bank).await;
    let running = tokio::spawn(worker.run(std::future::pending()));
    sleep(Duration::from_millis(900)).await;
    assert_eq!(bank.questions(), 100);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(bank.questions(), 200);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn p16_a_store_that_does_not_write_is_no_reason_to_ask_faster() {
    let bank = Bank::default();
    let (world, worker) = backlog(&bank).await;
    (1..=BACKLOG as u64).for_each(|n| world.store.fail_call_of(Call::Finish, n, Fault::Fail));
    let running = tokio::spawn(worker.run(std::future::pending()));
    sleep(Duration::from_millis(900)).await;
    assert_eq!((finished(&world).await, bank.questions()), (0, 100));
    running.abort();
}
