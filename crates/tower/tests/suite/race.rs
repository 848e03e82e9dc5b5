//! Many requests with one key, and many keys of one tenant (P8, P10 to P13).

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use axum::{Extension, Router};
use http::{HeaderMap, StatusCode};
use tokio::sync::{Barrier, mpsc, watch};
use tokio::time::Instant;
use tower::ServiceExt;
use unavez_core::outcome::OnLost;
use unavez_core::record::State;
use unavez_store::Store;
use unavez_store::fault::{Call, Fault};
use unavez_store::memory::MemoryStore;
use unavez_tower::door::CallerDeadline;
use unavez_tower::engine::Limits;
use unavez_tower::tenant::{self, Tenant};
use unavez_tower::{IdempotencyLayer, Once};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn c3_a_request_without_time_left_is_refused_before_the_claim() {
    let (world, effects) = (World::new(), Counter::default());
    let handler = effects.clone();
    let app = app(world.layer().opaque(OnLost::Hold), async move || {
        handler.hit();
        StatusCode::CREATED
    });
    let at = |deadline| {
        let mut request = post("K1", B1);
        request.extensions_mut().insert(CallerDeadline(deadline));
        request
    };
    let now = Instant::now() + Duration::from_secs(1);
    tokio::time::advance(Duration::from_secs(1)).await;
    for deadline in [now, now - Duration::from_millis(5)] {
        assert_eq!(send(&app, at(deadline)).await.problem(), (503, "overloaded".to_owned(), Some("1")));
    }
    assert_eq!((effects.count(), world.store.calls()), (0, 0));
    assert_eq!(send(&app, at(now + Duration::from_millis(5))).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn c3_every_claim_has_a_deadline_and_its_owner_stops_before_it() {
    let (world, gate) = (World::new(), Gate::default());
    let waits = gate.clone();
    let app = app(world.layer().opaque(OnLost::Hold), async move || {
        waits.pass().await;
        StatusCode::CREATED
    });
    let begun = Instant::now();
    let first = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    let record = world.record("K1").await.unwrap();
    let State::InProgress { deadline: Some(deadline) } = record.state else { panic!("{:?}", record.state) };
    assert_eq!(deadline.since(record.created_at), Duration::from_secs(10));
    // Nobody opens the gate: the attempt is cut off at 5/6 of the timeout.
    assert_eq!(first.await.unwrap().problem(), (504, "outcome-unknown".to_owned(), Some("5")));
    assert_eq!(begun.elapsed().as_millis(), 8334, "timers end with the next whole millisecond");
    assert!(matches!(world.record("K1").await.unwrap().state, State::Unknown { .. }));
}

#[tokio::test(start_paused = true)]
async fn c7_a_slow_owner_that_was_overtaken_gives_the_stored_truth() {
    let (world, gate) = (World::new(), Gate::default());
    let waits = gate.clone();
    let app = app(world.layer().opaque(OnLost::Rerun), async move |Extension(once): Extension<Once>| {
        if once.attempt() == 1 {
            waits.pass().await;
        }
        (StatusCode::CREATED, format!("attempt {}", once.attempt()))
    });
    let slow = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    // The owner's process stands still while the store's clock runs on.
    world.clock.advance(Duration::from_secs(11));
    let second = send(&app, post("K1", B1)).await;
    assert_eq!((second.status, second.is_replay(), &second.body[..]), (201, false, &b"attempt 2"[..]));
    gate.open();
    let slow = slow.await.unwrap();
    assert_eq!((slow.status, slow.is_replay(), &slow.body), (201, true, &second.body));
    let later = send(&app, post("K1", B1)).await;
    assert_eq!((later.is_replay(), &later.body), (true, &second.body));
}

#[tokio::test(start_paused = true)]
async fn p11_an_owner_overtaken_by_a_running_attempt_is_told_that_it_runs() {
    let (world, gate) = (World::new(), Gate::default());
    let waits = gate.clone();
    let app = app(world.layer().opaque(OnLost::Rerun), async move || {
        waits.pass().await;
        StatusCode::CREATED
    });
    let slow = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    world.clock.advance(Duration::from_secs(11));
    let second = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    gate.open();
    assert_eq!(
        slow.await.unwrap().code(),
        "operation-in-progress",
        "not its own 201, which nobody will repeat"
    );
    gate.open();
    assert_eq!(second.await.unwrap().status, 201);
}

/// One round of C9: `count` equal requests at once. With `held`, the winner runs until all others are answered.
async fn race(app: &Router, key: &str, count: usize, held: Option<&watch::Sender<bool>>) -> Vec<Seen> {
    let barrier = Arc::new(Barrier::new(count));
    let (answers, mut answered) = mpsc::channel(count);
    for _ in 0..count {
        let (app, barrier, answers, key) = (app.clone(), barrier.clone(), answers.clone(), key.to_owned());
        tokio::spawn(async move {
            barrier.wait().await;
            answers.send(send(&app, post(&key, B1)).await).await.unwrap();
        });
    }
    drop(answers);
    let mut seen = Vec::new();
    while let Some(answer) = answered.recv().await {
        seen.push(answer);
        if let Some(held) = held
            && seen.len() == count - 1
        {
            held.send_replace(true);
        }
    }
    seen
}

/// C9 on any store.
pub(crate) async fn check_race(store: Arc<dyn Store>, rounds: usize) {
    let effects = Counter::default();
    let (hold, held) = watch::channel(true);
    let app = app(layer_over(store, |_| {}).opaque(OnLost::Hold), {
        let effects = effects.clone();
        async move || {
            let effect = effects.hit();
            let _ = held.clone().wait_for(|open| *open).await;
            (StatusCode::CREATED, format!("effect {effect}"))
        }
    });
    for round in 0..rounds {
        // In every other round the winner takes its time; otherwise the others meet it finished or not.
        let slow = round % 2 == 0;
        hold.send_replace(!slow);
        let seen = race(&app, &format!("K{round}"), 100, slow.then_some(&hold)).await;
        assert_eq!(effects.count(), round + 1, "effects of round {round}");
        let first: Vec<_> = seen.iter().filter(|it| it.status == 201 && !it.is_replay()).collect();
        assert_eq!(first.len(), 1, "round {round}");
        for other in &seen {
            match other.status {
                201 => assert_eq!(other.body, first[0].body),
                409 => assert_eq!(other.code(), "operation-in-progress"),
                status => panic!("round {round}: {status}"),
            }
        }
        if slow {
            assert_eq!(seen.iter().filter(|it| it.status == 409).count(), 99);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_a_hundred_equal_requests_have_one_effect() {
    check_race(Arc::new(MemoryStore::new()), 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_the_loser_of_a_race_with_another_body_is_refused() {
    let app = app(World::new().layer().opaque(OnLost::Hold), async || StatusCode::CREATED);
    for round in 0..200 {
        let barrier = Arc::new(Barrier::new(2));
        let [one, two] = [B1, B2].map(|body| {
            let (app, barrier, key) = (app.clone(), barrier.clone(), format!("K{round}"));
            tokio::spawn(async move {
                barrier.wait().await;
                send(&app, post(&key, body)).await.status
            })
        });
        let mut statuses = [one.await.unwrap(), two.await.unwrap()];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 422], "round {round}");
    }
}

fn waiting(key: &str, seconds: &str) -> http::Request<axum::body::Body> {
    with_header(post(key, B1), "prefer", &format!("wait={seconds}"))
}

/// A route whose operation runs until its gate opens, then answers as its header says.
fn gated(world: &World, gate: &Gate) -> Router {
    gated_with(world.layer(), gate)
}

fn gated_with(layer: IdempotencyLayer, gate: &Gate) -> Router {
    let gate = gate.clone();
    app(layer.opaque(OnLost::Hold), async move |headers: HeaderMap| {
        gate.pass().await;
        let status = headers.get("x-status").map_or(201, |status| status.to_str().unwrap().parse().unwrap());
        (StatusCode::from_u16(status).unwrap(), "done").into_response()
    })
}

#[tokio::test(start_paused = true)]
async fn p10_a_waiter_gets_the_result_as_soon_as_it_is_there() {
    let (world, gate) = (World::new(), Gate::default());
    let app = gated(&world, &gate);
    let first = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    let begun = Instant::now();
    let waiter = send_aside(&app, waiting("K1", "7"));
    settle().await;
    assert_eq!(
        send(&app, post("K1", B1)).await.code(),
        "operation-in-progress",
        "without the preference: at once"
    );
    gate.open();
    assert_eq!(first.await.unwrap().header("preference-applied"), None);
    let waited = waiter.await.unwrap();
    assert_eq!((waited.status, waited.is_replay(), &waited.body[..]), (201, true, &b"done"[..]));
    assert_eq!(waited.header("preference-applied"), Some("wait=7"));
    assert!(begun.elapsed() < Duration::from_millis(10), "woken, not polled");
}

#[tokio::test(start_paused = true)]
async fn p10_a_waiter_of_another_process_finds_the_result_by_looking() {
    let (world, gate) = (World::new(), Gate::default());
    let (here, there) = (gated(&world, &gate), gated(&world, &gate));
    let first = send_aside(&here, post("K1", B1));
    gate.arrived().await;
    let begun = Instant::now();
    let waiter = send_aside(&there, waiting("K1", "5"));
    settle().await;
    gate.open();
    first.await.unwrap();
    assert!(waiter.await.unwrap().is_replay());
    assert!(begun.elapsed() <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn p10_a_waiter_never_claims() {
    for (status, code) in [("429", "operation-in-progress"), ("500", "outcome-unknown")] {
        let (world, gate) = (World::new(), Gate::default());
        let app = gated(&world, &gate);
        let first = send_aside(&app, with_header(post("K1", B1), "x-status", status));
        gate.arrived().await;
        let waiter = send_aside(&app, waiting("K1", "5"));
        settle().await;
        gate.open();
        first.await.unwrap();
        let waited = waiter.await.unwrap();
        assert_eq!((waited.status, waited.code()), (409, code.to_owned()), "after {status}");
        assert!(!waited.is_replay());
        let calls = world.store.calls_of(Call::Claim);
        assert_eq!(calls, 2, "one claim for each request, none by waiting");
    }
}

#[tokio::test(start_paused = true)]
async fn p10_waiting_ends_after_the_preferred_time_and_never_later_than_30_s() {
    for (preferred, waits) in [("3", 3), ("600", 30)] {
        let (world, gate) = (World::new(), Gate::default());
        let layer =
            world.layer_with(|settings| settings.timings.operation_timeout = Duration::from_secs(600));
        let app = gated_with(layer, &gate);
        let _first = send_aside(&app, post("K1", B1));
        gate.arrived().await;
        let begun = Instant::now();
        let waited = send(&app, waiting("K1", preferred)).await;
        assert_eq!(waited.problem(), (409, "operation-in-progress".to_owned(), Some("1")));
        assert_eq!(begun.elapsed().as_secs(), waits);
    }
}

#[derive(Clone)]
struct User(String);

#[tokio::test(start_paused = true)]
async fn c103_one_tenants_flood_is_bounded_and_others_are_served() {
    let (world, gate) = (World::new(), Gate::default());
    let engine = world
        .layer_with(|settings| {
            settings.limits = Limits {
                running_max: 64,
                running_per_tenant_max: 32,
                waiting_max: 8,
                waiting_per_tenant_max: 4,
            };
        })
        .engine()
        .clone();
    let source = tenant::from_extension(|user: &User| Tenant::parse(&user.0).ok());
    let (waits, running) = (gate.clone(), Counter::default());
    let count = running.clone();
    let app = app(
        IdempotencyLayer::with_engine(engine.clone(), source).opaque(OnLost::Hold),
        async move |Extension(user): Extension<User>| {
            if user.0 == "flood" {
                count.hit();
                waits.pass().await;
            }
            StatusCode::CREATED
        },
    );
    let by = |user: &str, mut request: http::Request<axum::body::Body>| {
        request.extensions_mut().insert(User(user.to_owned()));
        request
    };
    // Callers that leave at once, each with an operation that goes on.
    for key in 0..10_000 {
        let request = by("flood", waiting(&format!("K{key}"), "30"));
        let _ = tokio::time::timeout(Duration::ZERO, app.clone().oneshot(request)).await;
        settle().await;
    }
    assert_eq!(running.count(), 32, "no more of them than the tenant's bound");
    assert_eq!(
        send(&app, by("flood", post("K-new", B1))).await.problem(),
        (503, "overloaded".to_owned(), Some("1"))
    );
    let calls = world.store.calls();
    assert_eq!(send(&app, by("other", post("K0", B1))).await.status, 201, "others are served");
    assert_eq!(world.store.calls() - calls, 2);
    assert_eq!(world.store.calls_of(Call::Claim), 33, "nothing was claimed for a refused request");
}

#[tokio::test(start_paused = true)]
async fn c103_waiters_are_bounded_and_leave_with_their_callers() {
    let (world, gate) = (World::new(), Gate::default());
    let layer = world.layer_with(|settings| settings.limits.waiting_per_tenant_max = 2);
    let app = gated_with(layer, &gate);
    let first = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    let waiters = [send_aside(&app, waiting("K1", "30")), send_aside(&app, waiting("K1", "30"))];
    settle().await;
    assert_eq!(send(&app, waiting("K1", "30")).await.code(), "operation-in-progress", "full: at once");
    let [gone, stays] = waiters;
    gone.abort();
    settle().await;
    let third = send_aside(&app, waiting("K1", "30"));
    settle().await;
    assert!(!third.is_finished(), "the place of a caller that left is free");
    gate.open();
    first.await.unwrap();
    assert!(third.await.unwrap().is_replay() && stays.await.unwrap().is_replay());
}

#[tokio::test(start_paused = true)]
async fn c117_a_claim_whose_caller_left_has_an_owner() {
    let (world, effects) = (World::new(), Counter::default());
    let handler = effects.clone();
    let app = app(world.layer().opaque(OnLost::Hold), async move || {
        handler.hit();
        StatusCode::CREATED
    });
    // Slow, and still within the store timeout: the operation runs, and its result is there for the repeat.
    world.store.fail_call_of(Call::Claim, 1, Fault::Delay(Duration::from_millis(1500)));
    let request = app.clone().oneshot(post("K1", B1));
    assert!(tokio::time::timeout(Duration::from_millis(100), request).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(world.record("K1").await.unwrap().state, State::Finished { .. }));
    assert!(send(&app, post("K1", B1)).await.is_replay());
    assert_eq!(effects.count(), 1);

    // Slower: its caller, gone or not, counts on it that nothing runs; the late claim is undone by its owner.
    world.store.fail_call_of(Call::Claim, 1, Fault::Delay(Duration::from_secs(5)));
    let begun = Instant::now();
    let refused = send(&app, post("K2", B1)).await;
    assert_eq!(refused.problem(), (503, "store-unavailable".to_owned(), Some("1")));
    assert_eq!(begun.elapsed().as_secs(), 2);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(world.record("K2").await.is_none(), "no record without an owner is left");
    assert_eq!((effects.count(), world.store.calls_of(Call::Release)), (1, 1));
    assert_eq!(send(&app, post("K2", B1)).await.status, 201);
}
