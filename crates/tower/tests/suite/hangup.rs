//! Callers that leave, and shutdown: neither stops a running operation (P12).

use std::time::Duration;

use axum::Router;
use http::StatusCode;
use tokio::time::{Instant, sleep, timeout};
use tower::{ServiceBuilder, ServiceExt};
use tower_http::timeout::TimeoutLayer;
use unavez_core::record::State;
use unavez_tower::OnLost;

use crate::support::*;

/// A handler of three awaits that takes 400 ms.
fn slow(world: &World, steps: &Counter) -> Router {
    let steps = steps.clone();
    app(world.layer().opaque(OnLost::Hold), async move || {
        for pause in [100, 200, 100] {
            sleep(Duration::from_millis(pause)).await;
            steps.hit();
        }
        (StatusCode::CREATED, "made")
    })
}

async fn check_repeat(world: &World, app: &Router, steps: &Counter, what: &str) {
    sleep(Duration::from_secs(1)).await;
    let repeat = send(app, post("K1", B1)).await;
    assert_eq!((repeat.status, repeat.is_replay(), &repeat.body[..]), (201, true, &b"made"[..]), "{what}");
    assert_eq!(steps.count(), 3, "{what}: one run, to its end");
    assert!(matches!(world.record("K1").await.unwrap().state, State::Finished { .. }));
}

#[tokio::test(start_paused = true)]
async fn c11_a_caller_that_leaves_changes_nothing() {
    for patience in [100, 250, 390] {
        let patience = Duration::from_millis(patience);
        let (world, steps) = (World::new(), Counter::default());
        let app = slow(&world, &steps);
        assert!(timeout(patience, app.clone().oneshot(post("K1", B1))).await.is_err());
        check_repeat(&world, &app, &steps, "tokio::time::timeout").await;

        let (world, steps) = (World::new(), Counter::default());
        let app = slow(&world, &steps);
        let outside = TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, patience);
        let hasty = app.clone().layer(ServiceBuilder::new().layer(outside));
        assert_eq!(send(&hasty, post("K1", B1)).await.status, 504);
        check_repeat(&world, &app, &steps, "TimeoutLayer outside").await;
    }
}

#[tokio::test(start_paused = true)]
async fn c12_an_operation_whose_caller_left_completes_every_step() {
    let (world, steps) = (World::new(), Counter::default());
    let app = slow(&world, &steps);
    let caller = send_aside(&app, post("K1", B1));
    sleep(Duration::from_millis(150)).await;
    caller.abort();
    assert_eq!(steps.count(), 1, "in the middle of the second step");
    check_repeat(&world, &app, &steps, "aborted task").await;
}

#[tokio::test(start_paused = true)]
async fn c12_shutdown_waits_for_running_operations_and_leaves_the_rest_to_recovery() {
    let (world, steps) = (World::new(), Counter::default());
    let layer = world.layer();
    let engine = layer.engine().clone();
    let app = {
        let steps = steps.clone();
        app(layer.opaque(OnLost::Hold), async move || {
            sleep(Duration::from_millis(400)).await;
            steps.hit();
            StatusCode::CREATED
        })
    };
    assert_eq!(engine.drain(Duration::from_secs(1)).await, 0, "nothing runs");
    let begun = Instant::now();
    for key in ["K1", "K2"] {
        let _ = timeout(Duration::ZERO, app.clone().oneshot(post(key, B1))).await;
    }
    assert_eq!(engine.drain(Duration::from_millis(100)).await, 2, "left to recovery");
    assert_eq!(engine.drain(Duration::from_secs(10)).await, 0);
    assert_eq!(begun.elapsed().as_millis(), 400, "no longer than the last of them");
    assert_eq!(steps.count(), 2);
    assert!(
        matches!(world.record("K2").await.unwrap().state, State::Finished { .. }),
        "its result is stored"
    );
}
