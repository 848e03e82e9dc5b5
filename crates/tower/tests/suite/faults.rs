//! Stores that fail, hang, or leave their callers in doubt (P12, P17).

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::IntoResponse;
use axum::{Extension, Router};
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep};
use unavez_core::record::State;
use unavez_store::fault::{Call, Fault, Truth};
use unavez_tower::recover::{Promise, Question, Recover, Recovered};
use unavez_tower::{Body, OnLost, Once};

use crate::support::*;

/// An outside system that executes once for each operation, and knows what it did.
#[derive(Clone, Default)]
struct Ledger {
    effects: Counter,
    declines: bool,
}

impl Ledger {
    fn status(&self) -> StatusCode {
        if self.declines { StatusCode::PAYMENT_REQUIRED } else { StatusCode::CREATED }
    }
}

impl Recover for Ledger {
    async fn recover(&self, _: Question) -> Recovered {
        if self.effects.count() == 0 {
            return Recovered::NotFound;
        }
        let mut response = Response::new(Body::from("charged"));
        *response.status_mut() = self.status();
        Recovered::Done(response)
    }

    fn promise(&self) -> Promise {
        Promise { visibility_delay: Duration::from_secs(1), resend_window: Some(Duration::from_secs(3600)) }
    }
}

fn shop(world: &World, ledger: &Ledger) -> Router {
    let charged = ledger.clone();
    app(world.layer().recoverable(ledger.clone()), async move |Extension(_): Extension<Once>| {
        charged.effects.hit();
        (charged.status(), "charged")
    })
}

#[tokio::test(start_paused = true)]
async fn c22_a_store_that_is_down_before_the_operation_means_that_nothing_runs() {
    for (fault, took) in [(Fault::BlackHole, 2), (Fault::Fail, 0)] {
        let (world, ledger) = (World::new(), Ledger::default());
        let app = shop(&world, &ledger);
        world.store.fail_all(fault);
        let begun = Instant::now();
        let refused = send(&app, post("K1", B1)).await;
        assert_eq!(refused.problem(), (503, "store-unavailable".to_owned(), Some("1")), "{fault:?}");
        assert_eq!(begun.elapsed().as_secs(), took, "{fault:?}");
        assert_eq!(send(&app, request(http::Method::POST, "/plain", None, B1)).await.body, "plain");
        assert_eq!(
            send(&app, request(http::Method::GET, "/orders", None, "")).await.status,
            500,
            "uncovered"
        );
        sleep(Duration::from_secs(60)).await;
        assert_eq!(ledger.effects.count(), 0, "{fault:?}: never later either");
        world.store.heal();
        assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    }
}

#[tokio::test(start_paused = true)]
async fn c22_a_store_that_dies_after_the_operation_hides_no_success() {
    for fault in [Fault::BlackHole, Fault::Fail] {
        let (world, ledger) = (World::new(), Ledger::default());
        let charged = ledger.clone();
        let store = world.store.clone();
        let app = app(world.layer().recoverable(ledger.clone()), async move || {
            charged.effects.hit();
            store.fail_all(fault);
            (StatusCode::CREATED, "charged")
        });
        let begun = Instant::now();
        let first = send(&app, post("K1", B1)).await;
        assert_eq!(
            (first.status, &first.body[..], first.is_replay()),
            (201, &b"charged"[..], false),
            "{fault:?}"
        );
        assert_eq!(first.header("idempotency-expires"), None, "not from a finished record");
        assert!(begun.elapsed() <= Duration::from_secs(2));
        // The owner gives up with the end of its attempt; recovery finds the outcome out.
        world.advance_secs(11).await;
        settle().await;
        world.store.heal();
        let repeat = send(&app, post("K1", B1)).await;
        assert_eq!((repeat.status, repeat.is_replay()), (201, true), "{fault:?}");
        assert_eq!(ledger.effects.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn p17_a_refusal_is_told_only_once_it_is_stored() {
    let (world, ledger) = (World::new(), Ledger { declines: true, ..Ledger::default() });
    let app = shop(&world, &ledger);
    world.store.fail_call_of(Call::Finish, 1, Fault::BlackHole);
    let first = send(&app, post("K1", B1)).await;
    assert_eq!(first.problem(), (504, "outcome-unknown".to_owned(), Some("5")));
    world.advance_secs(11).await;
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((repeat.status, repeat.is_replay(), &repeat.body[..]), (402, true, &b"charged"[..]));
    assert_eq!(ledger.effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn p17_an_owner_goes_on_writing_its_result_while_its_attempt_lasts() {
    let (world, ledger) = (World::new(), Ledger::default());
    let app = shop(&world, &ledger);
    world.store.fail_call_of(Call::Finish, 1, Fault::Fail);
    world.store.fail_call_of(Call::Finish, 2, Fault::InDoubt(Truth::DidNotHappen));
    world.store.fail_call_of(Call::Finish, 3, Fault::Fail);
    let first = send(&app, post("K1", B1)).await;
    assert!(first.header("idempotency-expires").is_some(), "stored at the fourth try");
    assert!(send(&app, post("K1", B1)).await.is_replay());
    assert_eq!(ledger.effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn p12_a_claim_in_doubt_is_resolved_by_writes_and_runs_once() {
    for truth in [Truth::Happened, Truth::DidNotHappen] {
        let (world, ledger) = (World::new(), Ledger::default());
        let app = shop(&world, &ledger);
        world.store.fail_call_of(Call::Claim, 1, Fault::InDoubt(truth));
        let first = send(&app, post("K1", B1)).await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{truth:?}");
        assert_eq!(world.store.calls_of(Call::Load), 0, "{truth:?}: never by a read");
        // Where it had happened, our own attempt was in the way, and was released before another one began.
        let releases = u64::from(truth == Truth::Happened);
        assert_eq!(world.store.calls_of(Call::Release), releases, "{truth:?}");
        assert_eq!(world.store.calls_of(Call::Claim), 2 + releases, "{truth:?}");
        assert_eq!(ledger.effects.count(), 1);
        assert!(send(&app, post("K1", B1)).await.is_replay());
    }
}

#[tokio::test(start_paused = true)]
async fn p12_an_owner_in_doubt_sends_nothing_and_its_caller_hears_504() {
    for truth in [Truth::Happened, Truth::DidNotHappen] {
        let (world, ledger) = (World::new(), Ledger::default());
        let app = shop(&world, &ledger);
        world.store.fail_all(Fault::InDoubt(truth));
        let begun = Instant::now();
        let first = send(&app, post("K1", B1)).await;
        assert_eq!(first.problem(), (504, "outcome-unknown".to_owned(), Some("5")), "{truth:?}");
        assert!(begun.elapsed() < Duration::from_millis(2200), "{:?}", begun.elapsed());
        sleep(Duration::from_secs(60)).await;
        assert_eq!(ledger.effects.count(), 0, "{truth:?}");
        world.store.heal();
        // If the claim is there, it counts as lost after the operation timeout, and the outside system is asked.
        world.advance_secs(60).await;
        assert_eq!(send(&app, post("K1", B1)).await.status, 201, "{truth:?}");
        assert_eq!(ledger.effects.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn p12_a_takeover_in_doubt_stays_unknown_and_is_asked_about_again() {
    for truth in [Truth::Happened, Truth::DidNotHappen] {
        let (world, effects) = (World::new(), Counter::default());
        let handler = effects.clone();
        let app = app(world.layer().opaque(OnLost::Rerun), async move || match handler.hit() {
            1 => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CREATED,
        });
        assert_eq!(send(&app, post("K1", B1)).await.status, 500);
        world.store.fail_call_of(Call::TakeOver, 1, Fault::InDoubt(truth));
        assert_eq!(send(&app, post("K1", B1)).await.status, 201, "{truth:?}");
        assert_eq!(effects.count(), 2);
        let record = world.record("K1").await.unwrap();
        assert!(matches!(record.state, State::Finished { .. }));
        assert_eq!(record.attempts, if truth == Truth::Happened { 3 } else { 2 }, "{truth:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn p12_a_finish_in_doubt_is_written_again() {
    for (truth, declines) in [
        (Truth::Happened, false),
        (Truth::DidNotHappen, false),
        (Truth::Happened, true),
        (Truth::DidNotHappen, true),
    ] {
        let (world, ledger) = (World::new(), Ledger { declines, ..Ledger::default() });
        let app = shop(&world, &ledger);
        world.store.fail_call_of(Call::Finish, 1, Fault::InDoubt(truth));
        let first = send(&app, post("K1", B1)).await;
        let expected = match (truth, declines) {
            (_, false) => 201,
            // Acknowledged at the second try.
            (Truth::DidNotHappen, true) => 402,
            // To be seen, but not yet certain to stay: not told.
            (Truth::Happened, true) => 504,
        };
        assert_eq!(first.status, expected, "{truth:?} declines {declines}");
        let repeat = send(&app, post("K1", B1)).await;
        assert_eq!((repeat.status, repeat.is_replay()), (ledger.status().as_u16(), true));
        assert_eq!(ledger.effects.count(), 1);
    }
}

/// Runs a request and its repeats with `fault` at the n-th store call, and checks that the caller ends with one truth.
/// Answers whether the fault was met.
async fn check_fault_at(n: u64, fault: Fault, declines: bool) -> bool {
    let what = format!("{fault:?} at call {n}, declines {declines}");
    let (world, ledger) = (World::new(), Ledger { declines, ..Ledger::default() });
    let app = shop(&world, &ledger);
    world.store.fail_call(n, fault);
    let mut final_answer: Option<Seen> = None;
    for _ in 0..6 {
        let seen = send(&app, post("K1", B1)).await;
        let is_final = matches!(seen.status, 200..=499) && seen.status != 409;
        match &final_answer {
            Some(before) if is_final => {
                assert_eq!((seen.status, &seen.body), (before.status, &before.body), "{what}");
            }
            // A store that fails under a replay hides the answer for a moment; it never tells another one.
            Some(_) => assert_eq!(seen.json()["retryable"], true, "{what}: {seen:?}"),
            None if is_final => final_answer = Some(seen),
            None => {}
        }
        // Long enough for owners to give up and for V to pass; short of the TTL.
        world.advance_secs(30).await;
        settle().await;
    }
    let last = final_answer.unwrap_or_else(|| panic!("{what}: never a final answer"));
    assert_eq!(last.status, ledger.status().as_u16(), "{what}");
    assert_eq!(ledger.effects.count(), 1, "{what}: effects");
    world.store.calls() >= n
}

#[tokio::test(start_paused = true)]
async fn p17_a_fault_at_any_store_call_leaves_one_effect_and_one_answer() {
    let faults = [
        Fault::Fail,
        Fault::BlackHole,
        Fault::Delay(Duration::from_millis(500)),
        Fault::Delay(Duration::from_secs(4)),
        Fault::InDoubt(Truth::Happened),
        Fault::InDoubt(Truth::DidNotHappen),
    ];
    for fault in faults {
        for declines in [false, true] {
            let mut n = 1;
            while check_fault_at(n, fault, declines).await {
                n += 1;
            }
            assert!(n > 6, "the story has at least six store calls");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p14_a_success_without_a_commit_is_500_and_released() {
    let (world, effects) = (World::new(), Counter::default());
    let handler = effects.clone();
    let app = app(world.layer().transactional(), async move |_: Request| match handler.hit() {
        1 => StatusCode::CREATED.into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    });
    let first = send(&app, post("K1", B1)).await;
    assert_eq!(first.problem(), (500, "internal".to_owned(), None));
    assert_eq!(first.json()["retryable"], true);
    assert!(world.record("K1").await.is_none());
    assert_eq!(send(&app, post("K1", B1)).await.status, 404, "nothing was committed, so it runs again");
}

#[tokio::test(start_paused = true)]
async fn p12_a_panic_or_a_cut_off_on_a_transactional_route_is_released() {
    let (world, effects) = (World::new(), Counter::default());
    let handler = effects.clone();
    let app = app(world.layer().transactional(), async move || match handler.hit() {
        1 => panic!("before the commit"),
        2 => std::future::pending().await,
        _ => StatusCode::GONE,
    });
    for expected in [500, 500, 410, 410] {
        assert_eq!(send(&app, post("K1", B1)).await.status, expected);
    }
    assert_eq!(effects.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn p8_neither_won_nor_read_claims_again_then_gives_up() {
    use unavez_core::identity::{Realm, RecordId};
    use unavez_core::record::{Change, Fence};
    use unavez_store::memory::MemoryStore;
    use unavez_store::{BoxFuture, Cursor, Due, Filter, Loaded, Page, Purged, Store, StoreError, Swap};

    /// Loses every race against records that are gone before they can be read.
    struct Ghosts(MemoryStore, Counter);

    impl Store for Ghosts {
        fn swap(&self, id: RecordId, _: Option<Fence>, _: Change) -> BoxFuture<'_, Result<Swap, StoreError>> {
            self.1.hit();
            Box::pin(async move { Ok(Swap::Conflict { record: None, now: self.0.load(id).await?.now }) })
        }
        fn load(&self, id: RecordId) -> BoxFuture<'_, Result<Loaded, StoreError>> {
            self.0.load(id)
        }
        fn due(&self, limit: usize) -> BoxFuture<'_, Result<Due, StoreError>> {
            self.0.due(limit)
        }
        fn purge(&self, limit: usize) -> BoxFuture<'_, Result<Purged, StoreError>> {
            self.0.purge(limit)
        }
        fn list(
            &self,
            filter: Filter,
            after: Option<Cursor>,
            limit: usize,
        ) -> BoxFuture<'_, Result<Page, StoreError>> {
            self.0.list(filter, after, limit)
        }
        fn realm(&self) -> Option<Realm> {
            self.0.realm()
        }
    }

    let (tries, effects) = (Counter::default(), Counter::default());
    let layer = layer_over(Arc::new(Ghosts(MemoryStore::new(), tries.clone())), |_| {});
    let handler = effects.clone();
    let app = app(layer.opaque(OnLost::Hold), async move || {
        handler.hit();
    });
    assert_eq!(send(&app, post("K1", B1)).await.code(), "store-unavailable");
    assert!(tries.count() > 1);
    assert_eq!(effects.count(), 0, "it never falls through to running");
}
