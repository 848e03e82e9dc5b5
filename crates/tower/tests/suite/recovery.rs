//! Finding out what became of an operation, against an outside system that counts what it executes (P16).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use axum::Extension;
use axum::response::IntoResponse;
use http::{Response, StatusCode};
use unavez_core::record::State;
use unavez_core::recovery::Held;
use unavez_tower::observe::{Event, Observer};
use unavez_tower::purge::PurgeWorker;
use unavez_tower::recover::{Promise, Question, Recover, Recovered, RecoveryWorker};
use unavez_tower::{Body, OnLost, Once, OperationId};

/// What the outside system does with the next create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Create {
    Answer,
    /// Executes and never answers.
    ExecuteAndHang,
    /// Answers an error after executing.
    ExecuteAndFail,
    /// Fails before executing.
    Fail,
    /// The request is on its way for ever, until the test lets it arrive.
    Delay,
    /// Connection refused: nothing was sent.
    Refuse,
    /// Asks to come later, 429.
    Throttle,
    /// Accepts, and decides later.
    Accept,
}

/// What it says when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    Truth,
    Down,
    /// Not visible yet, or forgotten.
    NotFound,
    Pending,
    Declined,
}

/// An acquirer that deduplicates by operation id and counts.
#[derive(Clone)]
struct Outside(Arc<Mutex<Inside>>);

struct Inside {
    create: Create,
    lookup: Lookup,
    creates: usize,
    questions: usize,
    executed: HashMap<OperationId, usize>,
    promise: Promise,
    slow_lookup: Option<(World, Duration)>,
}

const V: Duration = Duration::from_secs(3);

impl Outside {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Inside {
            create: Create::Answer,
            lookup: Lookup::Truth,
            creates: 0,
            questions: 0,
            executed: HashMap::new(),
            promise: Promise { visibility_delay: V, resend_window: Some(Duration::from_secs(24 * 3600)) },
            slow_lookup: None,
        })))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inside) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn will(&self, create: Create, lookup: Lookup) {
        self.with(|it| (it.create, it.lookup) = (create, lookup));
    }

    fn effects(&self) -> usize {
        self.with(|it| it.executed.values().sum())
    }

    fn creates(&self) -> usize {
        self.with(|it| it.creates)
    }

    fn questions(&self) -> usize {
        self.with(|it| it.questions)
    }

    /// A create arrives: executed once for each id.
    fn arrive(&self, id: OperationId) {
        self.with(|it| {
            it.executed.entry(id).or_insert(1);
        });
    }

    async fn create(&self, id: OperationId) -> Create {
        let create = self.with(|it| {
            it.creates += 1;
            it.create
        });
        match create {
            Create::Answer | Create::ExecuteAndFail | Create::ExecuteAndHang | Create::Accept => {
                self.arrive(id)
            }
            Create::Fail | Create::Delay | Create::Refuse | Create::Throttle => {}
        }
        if matches!(create, Create::ExecuteAndHang | Create::Delay) {
            std::future::pending::<()>().await;
        }
        create
    }

    async fn handle(self, once: Once) -> axum::response::Response {
        match self.create(once.operation_id()).await {
            Create::Answer => (StatusCode::CREATED, "paid").into_response(),
            Create::Accept => {
                once.pending();
                (StatusCode::ACCEPTED, "accepted").into_response()
            }
            Create::Refuse => {
                once.released();
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
            Create::Throttle => StatusCode::TOO_MANY_REQUESTS.into_response(),
            Create::ExecuteAndFail | Create::Fail => StatusCode::BAD_GATEWAY.into_response(),
            Create::ExecuteAndHang | Create::Delay => unreachable!("never answers"),
        }
    }
}

impl Recover for Outside {
    async fn recover(&self, question: Question) -> Recovered {
        let slow = self.with(|it| it.slow_lookup.take());
        if let Some((world, took)) = slow {
            world.advance(took).await;
        }
        let (lookup, known) = self.with(|it| {
            it.questions += 1;
            (it.lookup, it.executed.contains_key(&question.operation_id))
        });
        let answer = |status, body: &'static str| {
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = status;
            Recovered::Done(response)
        };
        match lookup {
            Lookup::Truth if known => answer(StatusCode::CREATED, "paid"),
            Lookup::Truth | Lookup::NotFound => Recovered::NotFound,
            Lookup::Down => Recovered::CannotSay,
            Lookup::Pending => Recovered::Pending,
            Lookup::Declined => answer(StatusCode::PAYMENT_REQUIRED, "declined"),
        }
    }

    fn promise(&self) -> Promise {
        self.with(|it| it.promise)
    }
}

fn shop(world: &World, outside: &Outside) -> axum::Router {
    let handler = outside.clone();
    app(world.layer().recoverable(outside.clone()), move |Extension(once): Extension<Once>| {
        handler.handle(once)
    })
}

/// Sends a first request that is cut off by the death of its owner's process: its task is dropped with its runtime.
fn killed(world: &World, outside: &Outside, gate: &str) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let app = shop(world, outside);
    runtime.block_on(async {
        let request = send_aside(&app, post("K1", B1));
        settle().await;
        assert!(!request.is_finished(), "{gate}");
    });
}

#[tokio::test(start_paused = true)]
async fn c1_an_owner_that_died_before_the_effect_is_recovered_and_the_effect_happens_once() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::Delay, Lookup::Truth);
    std::thread::scope(|scope| scope.spawn(|| killed(&world, &outside, "sent and lost")).join().unwrap());
    let app = shop(&world, &outside);

    world.advance_secs(5).await;
    assert_eq!(
        send(&app, post("K1", B1)).await.problem(),
        (409, "operation-in-progress".to_owned(), Some("1"))
    );
    assert_eq!(outside.questions(), 0, "an owner that may live is not asked about");

    world.advance_secs(7).await;
    outside.will(Create::Answer, Lookup::Truth);
    let recovered = send(&app, post("K1", B1)).await;
    assert_eq!((recovered.status, &recovered.body[..]), (201, &b"paid"[..]));
    assert_eq!((outside.effects(), outside.questions()), (1, 1), "asked before anything ran again");

    world.advance_secs(24 * 3600 - 60).await;
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((repeat.status, repeat.is_replay(), &repeat.body), (201, true, &recovered.body));
    assert_eq!(outside.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn c2_a_panic_after_the_approval_is_recovered() {
    let (world, outside) = (World::new(), Outside::new());
    let handler = outside.clone();
    let app =
        app(world.layer().recoverable(outside.clone()), async move |Extension(once): Extension<Once>| {
            handler.create(once.operation_id()).await;
            panic!("after the approval");
            #[expect(unreachable_code, reason = "gives the handler its type")]
            StatusCode::CREATED
        });
    let first = send(&app, post("K1", B1)).await;
    assert_eq!(first.problem(), (504, "outcome-unknown".to_owned(), Some("5")));
    assert_eq!(first.json()["next"], "same key, never a new one");
    let recovered = send(&app, post("K1", B1)).await;
    assert_eq!((recovered.status, recovered.is_replay()), (201, true), "asked at once: it ended as unknown");
    assert_eq!((outside.effects(), outside.creates()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn p16_an_answer_that_was_lost_is_found() {
    for create in [Create::ExecuteAndHang, Create::ExecuteAndFail] {
        let (world, outside) = (World::new(), Outside::new());
        outside.will(create, Lookup::Truth);
        let app = shop(&world, &outside);
        let first = send(&app, post("K1", B1)).await;
        assert!(first.status >= 500 && !first.is_replay(), "{create:?}: {first:?}");
        let found = send(&app, post("K1", B1)).await;
        assert_eq!(
            (found.status, found.is_replay(), &found.body[..]),
            (201, true, &b"paid"[..]),
            "{create:?}"
        );
        assert!(found.header("idempotency-expires").is_some());
        assert_eq!((outside.creates(), outside.effects()), (1, 1), "{create:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c25_another_body_is_refused_after_recovery_too() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::ExecuteAndFail, Lookup::Truth);
    let app = shop(&world, &outside);
    send(&app, post("K1", B1)).await;
    assert_eq!(send(&app, post("K1", B2)).await.status, 422, "while unknown, without a question");
    assert_eq!(outside.questions(), 0);
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    assert_eq!(send(&app, post("K1", B2)).await.status, 422);
    assert_eq!(outside.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn p16_what_cannot_be_asked_stays_unknown() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::ExecuteAndFail, Lookup::Down);
    let app = shop(&world, &outside);
    send(&app, post("K1", B1)).await;
    for _ in 0..5 {
        let seen = send(&app, post("K1", B1)).await;
        assert_eq!(seen.problem(), (409, "outcome-unknown".to_owned(), Some("5")));
        world.advance_secs(3600).await;
    }
    assert_eq!(
        (outside.creates(), outside.questions()),
        (1, 5),
        "time alone never turns unknown into failed"
    );
    outside.will(Create::Answer, Lookup::Truth);
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    assert_eq!((outside.creates(), outside.effects()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn p16_concurrent_askers_share_one_question() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::ExecuteAndFail, Lookup::Truth);
    let app = shop(&world, &outside);
    send(&app, post("K1", B1)).await;
    // The answer takes a while, so that all of them come before it.
    outside.with(|it| it.slow_lookup = Some((world.clone(), Duration::from_millis(500))));
    let askers: Vec<_> = (0..20).map(|_| send_aside(&app, post("K1", B1))).collect();
    for asker in askers {
        let seen = asker.await.unwrap();
        assert_eq!((seen.status, seen.is_replay()), (201, true));
    }
    assert_eq!(outside.questions(), 1);
    assert_eq!(world.store.calls_of(unavez_store::fault::Call::Finish), 1);
}

#[tokio::test(start_paused = true)]
async fn p16_not_found_counts_only_after_the_visibility_delay_and_then_is_sent_again() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::Fail, Lookup::Truth);
    let app = shop(&world, &outside);
    send(&app, post("K1", B1)).await;
    // The attempt ended by itself, so nothing is sent after now; V later "not found" is worth something.
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (409, "outcome-pending".to_owned(), Some("5")));
    world.advance(V).await;
    assert_eq!(
        send(&app, post("K1", B1)).await.code(),
        "outcome-pending",
        "exactly V is not yet later than V"
    );
    world.advance_secs(1).await;
    outside.will(Create::Answer, Lookup::Truth);
    let again = send(&app, post("K1", B1)).await;
    assert_eq!((again.status, again.is_replay()), (201, false), "this request ran it");
    assert_eq!((outside.creates(), outside.effects()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn p16_a_takeover_has_one_winner_and_keeps_the_operation_id() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::Fail, Lookup::Truth);
    let app = shop(&world, &outside);
    send(&app, post("K1", B1)).await;
    world.advance_secs(60).await;
    outside.will(Create::Answer, Lookup::Truth);
    let repeats: Vec<_> = (0..20).map(|_| send_aside(&app, post("K1", B1))).collect();
    let mut first_answers = 0;
    for repeat in repeats {
        let seen = repeat.await.unwrap();
        match seen.status {
            201 => first_answers += usize::from(!seen.is_replay()),
            409 => assert_eq!(seen.header("retry-after"), Some("1")),
            other => panic!("{other}"),
        }
    }
    assert_eq!((first_answers, outside.creates(), outside.effects()), (1, 2, 1));
    assert_eq!(outside.with(|it| it.executed.len()), 1, "one operation id over both attempts");
}

#[tokio::test(start_paused = true)]
async fn c107_a_later_attempt_cannot_take_back_that_an_earlier_one_was_sent() {
    for create in [Create::Refuse, Create::Throttle] {
        let (world, outside) = (World::new(), Outside::new());
        let app = shop(&world, &outside);
        outside.will(Create::Delay, Lookup::Truth);
        let first = send_aside(&app, post("K1", B1));
        settle().await;
        world.advance_secs(20).await;
        assert_eq!(first.await.unwrap().status, 504);
        // Not found after V, so it is sent again; now nothing leaves.
        outside.will(create, Lookup::Truth);
        let second = send(&app, post("K1", B1)).await;
        assert!(second.status >= 500, "{create:?}: not told as released: {second:?}");
        let record = world.record("K1").await.expect("not released");
        assert!(matches!(record.state, State::Unknown { .. }), "{create:?}: {:?}", record.state);
        assert_eq!(record.attempts, 2);
        // The first attempt arrives after all: one effect, and it is found.
        outside.arrive(record.id.operation_id());
        let found = send(&app, post("K1", B1)).await;
        assert_eq!((found.status, outside.effects()), (201, 1), "{create:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c107_a_first_attempt_that_sent_nothing_is_released() {
    let (world, outside) = (World::new(), Outside::new());
    let app = shop(&world, &outside);
    outside.will(Create::Refuse, Lookup::Down);
    assert_eq!(send(&app, post("K1", B1)).await.status, 503);
    assert!(world.record("K1").await.is_none());
    outside.will(Create::Answer, Lookup::Down);
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn c108_a_slow_answer_is_as_old_as_its_question() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::Fail, Lookup::Truth);
    let app = shop(&world, &outside);
    send(&app, post("K1", B1)).await;
    // Asked 2 s after the attempt (V is 3 s), answered 5 s later.
    world.advance_secs(2).await;
    outside.with(|it| it.slow_lookup = Some((world.clone(), Duration::from_secs(5))));
    assert_eq!(send(&app, post("K1", B1)).await.code(), "outcome-pending");
    assert_eq!(outside.creates(), 1);
}

/// Remembers why operations were held.
#[derive(Clone, Default)]
struct Alarms(Arc<Mutex<Vec<Held>>>);

impl Observer for Alarms {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Alarmed { held, .. } = event {
            self.0.lock().unwrap().push(*held);
        }
    }
}

/// Runs `story` and expects its last repeat to be held for `why`, with `creates` sends in all.
async fn check_held(why: Held, creates: usize, story: impl AsyncFn(&World, &Outside, &axum::Router)) {
    let (world, outside, alarms) = (World::new(), Outside::new(), Alarms::default());
    let handler = outside.clone();
    let layer = world.layer_with(|settings| settings.observer = Arc::new(alarms.clone()));
    let app =
        app(layer.recoverable(outside.clone()), move |Extension(once): Extension<Once>| handler.handle(once));
    outside.will(Create::Fail, Lookup::Truth);
    send(&app, post("K1", B1)).await;
    story(&world, &outside, &app).await;
    for _ in 0..3 {
        world.advance_secs(60).await;
        let seen = send(&app, post("K1", B1)).await;
        assert_eq!(seen.problem(), (409, "outcome-unknown".to_owned(), Some("5")), "{why:?}");
    }
    assert_eq!(outside.creates(), creates, "{why:?}");
    assert_eq!(*alarms.0.lock().unwrap(), vec![why; 3]);
}

#[tokio::test(start_paused = true)]
async fn c109_a_record_that_cannot_be_sent_again_safely_is_held_and_alarmed() {
    check_held(Held::WindowOver, 1, async |world, _, _| world.advance_secs(25 * 3600).await).await;
    check_held(Held::NeverResend, 1, async |_, outside, _| {
        outside.with(|it| it.promise.resend_window = None)
    })
    .await;
    check_held(Held::TooManyAttempts, 3, async |world, _, app| {
        for _ in 0..2 {
            world.advance_secs(60).await;
            assert_eq!(send(app, post("K1", B1)).await.status, 502);
        }
    })
    .await;
    check_held(Held::SightedBefore, 1, async |world, outside, app| {
        outside.will(Create::Fail, Lookup::Pending);
        assert_eq!(send(app, post("K1", B1)).await.code(), "outcome-pending");
        outside.will(Create::Fail, Lookup::NotFound);
        world.advance_secs(60).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn p15_a_pending_result_is_accepted_once_and_asked_for_later() {
    let (world, outside) = (World::new(), Outside::new());
    let app = shop(&world, &outside);
    outside.will(Create::Accept, Lookup::Pending);
    let first = send(&app, post("K1", B1)).await;
    assert_eq!((first.status, &first.body[..], first.is_replay()), (202, &b"accepted"[..], false));
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (409, "outcome-pending".to_owned(), Some("5")));
    assert_eq!(outside.questions(), 0, "one question per interval");
    world.advance_secs(11).await;
    assert_eq!(send(&app, post("K1", B1)).await.code(), "outcome-pending");
    assert_eq!(outside.questions(), 1);
    outside.will(Create::Answer, Lookup::Truth);
    world.advance_secs(11).await;
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    assert_eq!((outside.creates(), outside.effects()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn p16_a_refusal_of_a_first_attempt_does_not_settle_a_second() {
    let (world, outside) = (World::new(), Outside::new());
    let app = shop(&world, &outside);
    outside.will(Create::Fail, Lookup::Truth);
    send(&app, post("K1", B1)).await;
    world.advance_secs(60).await;
    assert_eq!(send(&app, post("K1", B1)).await.status, 502, "the second attempt");
    outside.will(Create::Fail, Lookup::Declined);
    assert_eq!(send(&app, post("K1", B1)).await.code(), "outcome-pending", "the second may still arrive");
    world.advance_secs(60).await;
    let declined = send(&app, post("K1", B1)).await;
    assert_eq!((declined.status, declined.is_replay(), &declined.body[..]), (402, true, &b"declined"[..]));
}

#[tokio::test(start_paused = true)]
async fn p16_the_worker_settles_what_no_caller_repeats_and_never_sends() {
    let (world, outside) = (World::new(), Outside::new());
    let layer = world.layer();
    let worker = RecoveryWorker::new(layer.engine().clone(), outside.clone());
    let app = shop(&world, &outside);
    outside.will(Create::ExecuteAndFail, Lookup::Truth);
    send(&app, post("K1", B1)).await;
    assert_eq!(worker.pass().await.unwrap().due, 0, "first after one operation timeout");
    world.advance_secs(11).await;
    let pass = worker.pass().await.unwrap();
    assert_eq!((pass.due, pass.settled), (1, 1));
    assert!(send(&app, post("K1", B1)).await.is_replay());

    // Not there after V: a caller would send again, the worker does not.
    outside.will(Create::Fail, Lookup::Truth);
    send(&app, post("K2", B1)).await;
    let mut asked_at = Vec::new();
    for second in 0..200 {
        world.advance_secs(1).await;
        if worker.pass().await.unwrap().due > 0 {
            asked_at.push(second + 1);
        }
    }
    assert_eq!(asked_at, [10, 20, 40, 80, 160], "after 1x, 2x, 4x ... the operation timeout");
    assert_eq!((outside.creates(), outside.effects()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn p16_a_lost_owner_is_found_by_the_worker() {
    let (world, outside) = (World::new(), Outside::new());
    outside.will(Create::ExecuteAndHang, Lookup::Truth);
    std::thread::scope(|scope| {
        scope.spawn(|| killed(&world, &outside, "executed, then killed")).join().unwrap()
    });
    let layer = world.layer();
    let worker = RecoveryWorker::new(layer.engine().clone(), outside.clone());
    world.advance_secs(9).await;
    assert_eq!(worker.pass().await.unwrap().due, 0);
    world.advance_secs(2).await;
    assert_eq!(worker.pass().await.unwrap().settled, 1);
    let repeat = send(&shop(&world, &outside), post("K1", B1)).await;
    assert_eq!((repeat.status, repeat.is_replay(), outside.effects()), (201, true, 1));
}

#[tokio::test(start_paused = true)]
async fn p14_an_opaque_route_holds_then_abandons() {
    let (world, effects) = (World::new(), Counter::default());
    let handler = effects.clone();
    let app = app(world.layer().opaque(OnLost::Hold), async move || {
        handler.hit();
        StatusCode::INTERNAL_SERVER_ERROR
    });
    assert_eq!(send(&app, post("K1", B1)).await.status, 500, "the handler's own");
    for _ in 0..2 {
        assert_eq!(
            send(&app, post("K1", B1)).await.problem(),
            (409, "outcome-unknown".to_owned(), Some("5"))
        );
        world.advance_secs(12 * 3600 - 60).await;
    }
    world.advance_secs(300).await;
    for _ in 0..2 {
        let tombstone = send(&app, post("K1", B1)).await;
        assert_eq!(tombstone.problem(), (409, "outcome-unknown".to_owned(), None));
        assert_eq!(tombstone.json()["retryable"], false);
    }
    assert_eq!(effects.count(), 1);
    assert_eq!(send(&app, post("K1", B2)).await.status, 422);
}

#[tokio::test(start_paused = true)]
async fn p14_rerun_must_be_chosen_by_name() {
    let (world, effects) = (World::new(), Counter::default());
    let handler = effects.clone();
    let app = app(world.layer().opaque(OnLost::Rerun), async move || match handler.hit() {
        1 => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::CREATED,
    });
    assert_eq!(send(&app, post("K1", B1)).await.status, 500);
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    assert!(send(&app, post("K1", B1)).await.is_replay());
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn p16_a_hook_that_panics_cannot_say() {
    struct Broken;
    impl Recover for Broken {
        async fn recover(&self, _: Question) -> Recovered {
            panic!("a hook with a fault")
        }
        fn promise(&self) -> Promise {
            Promise { visibility_delay: V, resend_window: None }
        }
    }
    let world = World::new();
    let app = app(world.layer().recoverable(Broken), async || StatusCode::BAD_GATEWAY);
    send(&app, post("K1", B1)).await;
    assert_eq!(send(&app, post("K1", B1)).await.code(), "outcome-unknown");
}

#[tokio::test(start_paused = true)]
async fn p16_the_worker_runs_until_it_is_stopped() {
    let (world, outside) = (World::new(), Outside::new());
    let layer = world.layer();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = RecoveryWorker::new(layer.engine().clone(), outside.clone());
    let running =
        tokio::spawn(worker.with_interval(Duration::from_secs(2)).run(async { drop(stopped.await) }));
    let app = shop(&world, &outside);
    outside.will(Create::ExecuteAndFail, Lookup::Truth);
    send(&app, post("K1", B1)).await;
    // The store's clock alone: tokio's goes from timer to timer by itself.
    world.clock.advance(Duration::from_secs(11));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(matches!(world.record("K1").await.unwrap().state, State::Finished { .. }));
    drop(stop);
    running.await.unwrap();
    assert_eq!(outside.questions(), 1);
}

#[tokio::test(start_paused = true)]
async fn p21_the_purge_worker_deletes_what_expired_and_nothing_else() {
    let world = World::new();
    let layer = world.layer();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = PurgeWorker::new(layer.engine().clone()).with_interval(Duration::from_secs(2));
    let running = tokio::spawn(worker.run(async { drop(stopped.await) }));
    let app = app(layer.opaque(OnLost::Hold), async |key: http::HeaderMap| {
        match key["idempotency-key"].as_bytes() {
            b"open" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CREATED,
        }
    });
    for key in 0..1200 {
        send(&app, post(&format!("old{key}"), B1)).await;
    }
    send(&app, post("open", B1)).await;
    world.clock.advance(Duration::from_secs(24 * 3600));
    send(&app, post("new", B1)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (key, stays) in [("old0", false), ("old1199", false), ("open", true), ("new", true)] {
        assert_eq!(world.record(key).await.is_some(), stays, "{key}");
    }
    drop(stop);
    running.await.unwrap();
}
