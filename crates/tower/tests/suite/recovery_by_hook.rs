//! Hooks that keep rows of their own: they settle by themselves, and say what is promised for one operation (P16).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use bytes::Bytes;
use http::{Response, StatusCode};
use unavez_core::answer::{Answer, Conclusion, Content};
use unavez_core::record::{Change, Finish, State};
use unavez_core::recovery::Held;
use unavez_store::{Store, StoreError};
use unavez_tower::recover::{Promise, Question, Recover, Recovered, Settlement};
use unavez_tower::{Body, OperationId};

/// What the hook finds.
#[derive(Clone, Copy)]
enum Finds {
    Done { positive: bool },
    Unstorable { positive: bool },
    Nothing,
    Held,
}

/// A hook with books of its own, where it notes what it settled.
#[derive(Clone)]
struct Books {
    store: Arc<dyn Store>,
    found: Arc<Mutex<Finds>>,
    settled: Arc<Mutex<Vec<OperationId>>>,
}

impl Books {
    fn of(world: &World, found: Finds) -> Self {
        let store: Arc<dyn Store> = world.store.clone();
        Self { store, found: Arc::new(Mutex::new(found)), settled: Arc::default() }
    }

    fn settlement(&self, id: OperationId, positive: bool, is_storable: bool) -> Recovered {
        let books = self.clone();
        let unstored = Response::new(Body::from("paid, and not stored"));
        Recovered::Settles(Settlement::new(positive, unstored, move |fence| {
            Box::pin(async move {
                if !is_storable {
                    return Err(StoreError::Unavailable("broken by the test".into()));
                }
                let finish = Finish {
                    conclusion: if positive { Conclusion::Approved } else { Conclusion::Declined },
                    answer: Answer {
                        status: if positive { 201 } else { 402 },
                        content: Content::Kept {
                            headers: Vec::new(),
                            body: Bytes::from_static(b"by the hook"),
                        },
                    },
                    response_ttl: Duration::from_secs(3600),
                    resource: Some("ch_1".into()),
                };
                books.settled.lock().unwrap().push(id);
                books.store.swap(id.record_id(), Some(fence), Change::Finish(finish)).await
            })
        }))
    }
}

impl Recover for Books {
    async fn recover(&self, question: Question) -> Recovered {
        let found = *self.found.lock().unwrap();
        match found {
            Finds::Done { positive } => self.settlement(question.operation_id, positive, true),
            Finds::Unstorable { positive } => self.settlement(question.operation_id, positive, false),
            Finds::Nothing => Recovered::NotFound,
            Finds::Held => Recovered::Held(Held::OtherAccount),
        }
    }

    /// Nothing is ever sent twice …
    fn promise(&self) -> Promise {
        Promise { visibility_delay: Duration::ZERO, resend_window: None }
    }

    /// … but what is asked about here.
    async fn promise_for(&self, _: Question) -> Promise {
        Promise { visibility_delay: Duration::ZERO, resend_window: Some(Duration::from_secs(24 * 3600)) }
    }
}

/// A first attempt whose end nobody knows, then a repeat that asks; how often the handler ran.
async fn asked(found: Finds) -> (World, Books, Seen, usize) {
    let (world, counter) = (World::new(), Counter::default());
    let books = Books::of(&world, found);
    let handler = counter.clone();
    let app = app(world.layer().recoverable(books.clone()), async move || {
        handler.hit();
        StatusCode::BAD_GATEWAY
    });
    assert_eq!(send(&app, post("K1", B1)).await.status, 502);
    world.advance_secs(1).await;
    let repeat = send(&app, post("K1", B1)).await;
    (world, books, repeat, counter.count())
}

#[tokio::test(start_paused = true)]
async fn a_hook_finishes_the_record_with_rows_of_its_own() {
    for (positive, status) in [(true, 201), (false, 402)] {
        let (world, books, repeat, ran) = asked(Finds::Done { positive }).await;
        assert_eq!((repeat.status, repeat.is_replay(), ran), (status, true, 1));
        assert_eq!(books.settled.lock().unwrap().len(), 1);
        let record = world.record("K1").await.unwrap();
        let State::Finished { resource, .. } = &record.state else { panic!("{record:?}") };
        assert_eq!(resource.as_deref(), Some("ch_1"), "as the hook wrote it");
    }
}

#[tokio::test(start_paused = true)]
async fn p17_what_a_hook_cannot_store_is_told_if_it_is_positive_and_not_otherwise() {
    let (world, _, repeat, _) = asked(Finds::Unstorable { positive: true }).await;
    assert_eq!((repeat.status, repeat.is_replay()), (200, true));
    assert!(matches!(world.record("K1").await.unwrap().state, State::Unknown { .. }));
    let (_, _, repeat, _) = asked(Finds::Unstorable { positive: false }).await;
    assert_eq!(repeat.problem().0, 504);
}

#[tokio::test(start_paused = true)]
async fn p16_what_is_promised_for_the_operation_counts() {
    let (_, _, repeat, ran) = asked(Finds::Nothing).await;
    assert_eq!((repeat.status, ran), (502, 2), "sent again, which the general promise forbids");
}

#[tokio::test(start_paused = true)]
async fn c106_a_hook_can_say_that_an_operation_is_held() {
    let (world, _, repeat, ran) = asked(Finds::Held).await;
    assert_eq!((repeat.code().as_str(), ran), ("outcome-unknown", 1));
    assert!(matches!(world.record("K1").await.unwrap().state, State::Unknown { .. }));
}
