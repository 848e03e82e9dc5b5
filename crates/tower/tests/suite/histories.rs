//! Any history of calls, crashes, faults, questions and expiries keeps three promises: one winner at a time, no effect
//! without a claim, and no answer that contradicts an earlier one.
//!
//! The auditor knows only what clients were told and what the outside system did.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::StatusCode;
use proptest::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use unavez_core::record::State;
use unavez_store::fault::{Fault, Truth};
use unavez_tower::recover::{Promise, Question, Recover, Recovered, RecoveryWorker};
use unavez_tower::{Body, Once};

use crate::support::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A client sends one of two bodies, and the operation, if it runs, goes this way.
    Send { other_body: bool, waits: bool, way: Way },
    /// The outside system answers what is on its way.
    Answer,
    /// The process dies, and another one starts.
    Crash,
    /// Time passes.
    Pass(u64),
    /// The promise of every answer ends.
    Expire,
    /// A store call goes wrong.
    Fault { call: u64, fault: Fault },
    /// The worker asks about what is due.
    Recover,
}

/// How an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Approve,
    Decline,
    /// Nothing is sent.
    Refuse,
    FailBefore,
    FailAfter,
    PanicAfter,
    /// Executed; the answer comes when the test says so, if ever.
    Hang,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let way = prop_oneof![
        3 => Just(Way::Approve),
        2 => Just(Way::Decline),
        1 => Just(Way::Refuse),
        1 => Just(Way::FailBefore),
        1 => Just(Way::FailAfter),
        1 => Just(Way::PanicAfter),
        2 => Just(Way::Hang),
    ];
    let fault = prop_oneof![
        Just(Fault::Fail),
        Just(Fault::BlackHole),
        Just(Fault::Delay(Duration::from_secs(1))),
        Just(Fault::Delay(Duration::from_secs(5))),
        Just(Fault::InDoubt(Truth::Happened)),
        Just(Fault::InDoubt(Truth::DidNotHappen)),
    ];
    let step = prop_oneof![
        8 => (prop::bool::weighted(0.2), any::<bool>(), way)
            .prop_map(|(other_body, waits, way)| Step::Send { other_body, waits, way }),
        2 => Just(Step::Answer),
        1 => Just(Step::Crash),
        3 => (1..40_u64).prop_map(Step::Pass),
        1 => Just(Step::Expire),
        3 => (1..4_u64, fault).prop_map(|(call, fault)| Step::Fault { call, fault }),
        1 => Just(Step::Recover),
    ];
    prop::collection::vec(step, 1..25)
}

/// The outside system: executes an id once, for ever.
#[derive(Clone, Default)]
struct Outside(Arc<Mutex<Ledger>>);

#[derive(Default)]
struct Ledger {
    truth: Option<StatusCode>,
    running: usize,
    ways: Vec<Way>,
}

impl Outside {
    fn lock(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.0.lock().unwrap()
    }

    fn execute(&self, status: StatusCode) -> StatusCode {
        *self.lock().truth.get_or_insert(status)
    }
}

fn told(status: StatusCode) -> (StatusCode, &'static str) {
    (status, if status == StatusCode::CREATED { "approved" } else { "declined" })
}

impl Recover for Outside {
    async fn recover(&self, _: Question) -> Recovered {
        match self.lock().truth.map(told) {
            Some((status, body)) => {
                let mut response = http::Response::new(Body::from(body));
                *response.status_mut() = status;
                Recovered::Done(response)
            }
            None => Recovered::NotFound,
        }
    }

    fn promise(&self) -> Promise {
        Promise {
            visibility_delay: Duration::from_secs(2),
            resend_window: Some(Duration::from_secs(1_000_000)),
        }
    }
}

/// One attempt at the outside system. There is never a second one beside it.
struct Running(Outside);

impl Running {
    fn begin(outside: &Outside) -> Self {
        let running = {
            let mut ledger = outside.lock();
            ledger.running += 1;
            ledger.running
        };
        assert_eq!(running, 1, "two attempts at once");
        Self(outside.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

/// A process: what a crash takes away.
struct Process {
    runtime: Runtime,
    app: Router,
    worker: RecoveryWorker,
    answer: Arc<Notify>,
    /// Answers in the order in which clients got them, with the body they are for.
    heard: Arc<Mutex<Vec<(bool, Seen)>>>,
    calls: Vec<JoinHandle<()>>,
}

impl Process {
    fn start(world: &World, outside: &Outside) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let layer = world.layer();
        let worker = RecoveryWorker::new(layer.engine().clone(), outside.clone());
        let answer = Arc::new(Notify::new());
        let (seen, outside, hangs) = (world.clone(), outside.clone(), answer.clone());
        let app = app(layer.recoverable(outside.clone()), async move |Extension(once): Extension<Once>| {
            operate(&seen, &outside, &hangs, once).await
        });
        Self { runtime, app, worker, answer, heard: Arc::default(), calls: Vec::new() }
    }
}

async fn operate(world: &World, outside: &Outside, hangs: &Notify, once: Once) -> Response {
    let record = world.peek("K1").await.expect("no effect without a claim");
    assert!(
        matches!(record.state, State::InProgress { .. }),
        "no effect without a claim: {:?}",
        record.state
    );
    assert_eq!(record.attempts, once.attempt(), "an attempt runs that does not own the record");
    let _running = Running::begin(outside);
    let way = outside.lock().ways.pop().unwrap_or(Way::Approve);
    match way {
        Way::Approve => told(outside.execute(StatusCode::CREATED)).into_response(),
        Way::Decline => told(outside.execute(StatusCode::PAYMENT_REQUIRED)).into_response(),
        Way::FailBefore => StatusCode::BAD_GATEWAY.into_response(),
        Way::Refuse => {
            once.released();
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        Way::FailAfter => {
            outside.execute(StatusCode::CREATED);
            StatusCode::BAD_GATEWAY.into_response()
        }
        Way::PanicAfter => {
            outside.execute(StatusCode::CREATED);
            std::panic::resume_unwind(Box::new("after the execution"))
        }
        Way::Hang => {
            let status = outside.execute(StatusCode::CREATED);
            hangs.notified().await;
            told(status).into_response()
        }
    }
}

/// What clients were told since the key was last free.
#[derive(Default)]
struct Auditor {
    /// The body that got an answer from the finished record, which carries its expiry, and the answer.
    settled: Option<(bool, u16, bytes::Bytes)>,
}

impl Auditor {
    fn hear(&mut self, other_body: bool, seen: &Seen, outside: &Outside) {
        let truth = outside.lock().truth.map(|status| status.as_u16());
        match seen.status {
            201 | 402 => {
                assert_eq!(Some(seen.status), truth, "told something else than what happened");
                if let Some((body, status, text)) = &self.settled {
                    assert_eq!(
                        (other_body, seen.status, &seen.body),
                        (*body, *status, text),
                        "contradiction"
                    );
                }
                // A success that could not be stored is told as well (P17); what others hear follows from the record.
                if seen.header("idempotency-expires").is_some() {
                    self.settled = Some((other_body, seen.status, seen.body.clone()));
                }
            }
            422 => {
                let settled_here = self.settled.as_ref().is_some_and(|(body, ..)| *body == other_body);
                assert!(!settled_here, "422 for the request that was answered before");
            }
            409 => {
                assert!(self.settled.is_none(), "{} after a final answer", seen.code());
                assert!(seen.header("retry-after").is_some());
            }
            502..=504 => {}
            status => panic!("unexpected {status}: {seen:?}"),
        }
    }
}

/// Plays a history, then lets everything heal and expects one final truth.
fn play(steps: &[Step]) {
    let (world, outside) = (World::new(), Outside::default());
    let (mut process, mut auditor) = (Process::start(&world, &outside), Auditor::default());
    for step in steps {
        perform(step, &world, &outside, &mut process, &mut auditor);
        collect(&mut process, &mut auditor, &outside);
    }
    world.store.heal();
    process.answer.notify_waiters();
    let quiet = [Step::Pass(60), Step::Pass(60)];
    for step in &quiet {
        perform(step, &world, &outside, &mut process, &mut auditor);
    }
    collect(&mut process, &mut auditor, &outside);
    assert!(process.calls.is_empty(), "a call is still not answered");
    let settled = auditor.settled.as_ref().is_some_and(|(other_body, ..)| *other_body);
    for other_body in [settled, !settled] {
        for _ in 0..4 {
            outside.lock().ways.clear();
            perform(
                &Step::Send { other_body, waits: false, way: Way::Approve },
                &world,
                &outside,
                &mut process,
                &mut auditor,
            );
            perform(&Step::Pass(30), &world, &outside, &mut process, &mut auditor);
            collect(&mut process, &mut auditor, &outside);
            assert!(process.calls.is_empty(), "a call is still not answered");
        }
    }
    // A key with three failed sends is held for a person: that is its truth then.
    let held = process.runtime.block_on(world.peek("K1")).is_some_and(|record| record.attempts >= 3);
    assert!(auditor.settled.is_some() || held, "healed, and still no final answer");
}

fn perform(step: &Step, world: &World, outside: &Outside, process: &mut Process, auditor: &mut Auditor) {
    match step {
        Step::Send { other_body, waits, way } => {
            outside.lock().ways = vec![*way];
            let request = post("K1", if *other_body { B2 } else { B1 });
            let request = if *waits { with_header(request, "prefer", "wait=5") } else { request };
            let (app, heard, other_body) = (process.app.clone(), process.heard.clone(), *other_body);
            let call = process.runtime.spawn(async move {
                let seen = send(&app, request).await;
                heard.lock().unwrap().push((other_body, seen));
            });
            process.runtime.block_on(settle());
            process.calls.push(call);
        }
        Step::Answer => process.runtime.block_on(async {
            process.answer.notify_waiters();
            settle().await;
        }),
        Step::Crash => {
            // What clients had heard before stays heard; what was on its way is lost with the process.
            collect(process, auditor, outside);
            *process = Process::start(world, outside);
        }
        Step::Pass(seconds) => process.runtime.block_on(pass(world, *seconds)),
        Step::Expire => {
            process.runtime.block_on(pass(world, 60));
            collect(process, auditor, outside);
            process.runtime.block_on(pass(world, 24 * 3600));
            auditor.settled = None;
        }
        Step::Fault { call, fault } => world.store.fail_call(*call, *fault),
        Step::Recover => process.runtime.block_on(async {
            // A store that fails here fails the pass; the next one tries again.
            let _ = process.worker.pass().await;
        }),
    }
}

/// In small steps, so that timers fire in between and may be set anew.
async fn pass(world: &World, seconds: u64) {
    if seconds > 3600 {
        return world.advance_secs(seconds).await;
    }
    for _ in 0..seconds.div_ceil(2) {
        world.advance_secs(2).await;
        settle().await;
    }
}

fn collect(process: &mut Process, auditor: &mut Auditor, outside: &Outside) {
    for (other_body, seen) in std::mem::take(&mut *process.heard.lock().unwrap()) {
        auditor.hear(other_body, &seen, outside);
    }
    process.calls.retain(|call| !call.is_finished());
}

/// Each history takes a while; `PROPTEST_CASES` scales the number as usual.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases / 4, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn p8_p11_p15_any_history_has_one_winner_no_effect_without_a_claim_and_no_contradiction(steps in steps()) {
        play(&steps);
    }
}
