//! Transactional routes on SQLite, and the cases that every store runs (P14).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use axum::{Extension, Router};
use http::StatusCode;
use unavez_core::outcome::OnLost;
use unavez_core::record::State;
use unavez_store::clock::ManualClock;
use unavez_tower::Once;
use unavez_tower::once::CommitError;
use unavez_tower::problem::Problem;
use unavez_tower::sqlite::{Location, Options, SqliteStore, TransactionError, WriteTx};

use crate::privacy::seal_keys;
use crate::support::*;
use crate::{answers, race};

fn open(location: Location, clock: &ManualClock) -> SqliteStore {
    SqliteStore::open(location, Options { clock: Some(Arc::new(clock.clone())), ..Options::default() })
        .unwrap()
}

/// A shop whose orders are rows beside the records.
#[derive(Clone)]
struct Shop {
    store: SqliteStore,
    clock: ManualClock,
}

impl Shop {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let store = open(Location::Memory, &clock);
        store
            .transaction(|tx| tx.execute_batch("create table orders (id integer primary key, item text)"))
            .await
            .unwrap();
        Self { store, clock }
    }

    async fn orders(&self) -> i64 {
        self.store.read(|db| db.query_row("select count(*) from orders", [], |row| row.get(0))).await.unwrap()
    }

    fn app<F, R>(&self, handler: F) -> Router
    where
        F: FnOnce(Self, Once) -> R + Clone + Send + Sync + 'static,
        R: Future<Output: IntoResponse> + Send,
    {
        let shop = self.clone();
        let layer = layer_over(Arc::new(self.store.clone()), |settings| settings.realm = None);
        app(layer.transactional(), async move |Extension(once): Extension<Once>| handler(shop, once).await)
    }
}

fn insert(tx: &WriteTx<'_>) -> rusqlite::Result<i64> {
    tx.execute("insert into orders (item) values ('book')", [])?;
    Ok(tx.last_insert_rowid())
}

async fn create(shop: Shop, once: Once) -> Result<http::Response<unavez_tower::Body>, Problem> {
    let response = once
        .transaction(&shop.store, |tx| {
            Ok::<_, CommitError>((StatusCode::CREATED, format!("order {}", insert(tx)?)).into_response())
        })
        .await?;
    Ok(response)
}

#[tokio::test]
async fn p14_rows_and_answer_commit_together() {
    let shop = Shop::new().await;
    let app = shop.app(create);
    let first = send(&app, post("K1", B1)).await;
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((first.status, &first.body[..], first.is_replay()), (201, &b"order 1"[..], false));
    assert_eq!((repeat.status, &repeat.body, repeat.is_replay()), (201, &first.body, true));
    assert_eq!(first.header("idempotency-expires"), repeat.header("idempotency-expires"));
    assert_eq!(send(&app, post("K1", B2)).await.status, 422);
    assert_eq!(shop.orders().await, 1);
}

/// The two ways to write the outcome: through `Once::transaction`, and with `Once::commit` inside one's own.
#[tokio::test]
async fn p14_commit_inside_the_handlers_own_transaction() {
    let shop = Shop::new().await;
    let app = shop.app(async |shop: Shop, once: Once| {
        let work = move |tx: &WriteTx<'_>| {
            insert(tx)?;
            once.commit(tx, (StatusCode::CREATED, "made").into_response())
        };
        shop.store.transaction(work).await.map_err(Problem::from)
    });
    let first = send(&app, post("K1", B1)).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert!(first.header("idempotency-expires").is_some());
    assert!(send(&app, post("K1", B1)).await.is_replay());
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn p14_a_failure_before_the_commit_leaves_nothing_and_frees_the_key() {
    let (shop, tries) = (Shop::new().await, Counter::default());
    let count = tries.clone();
    let app = shop.app(async move |shop: Shop, once: Once| {
        if count.hit() > 1 {
            return create(shop, once).await;
        }
        let failed = once.transaction(&shop.store, |tx| {
            insert(tx)?;
            tx.execute("insert into nowhere values (1)", [])?;
            Ok::<_, CommitError>("unreachable".into_response())
        });
        Ok(failed.await?)
    });
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (500, "internal".to_owned(), None));
    assert_eq!(shop.orders().await, 0);
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    assert_eq!((shop.orders().await, tries.count()), (1, 2));
}

#[tokio::test]
async fn p15_a_refusal_rolls_its_rows_back_and_is_recorded() {
    let (shop, tries) = (Shop::new().await, Counter::default());
    let count = tries.clone();
    let app = shop.app(async move |shop: Shop, once: Once| {
        count.hit();
        let refused = once.transaction(&shop.store, |tx| {
            insert(tx)?;
            Ok::<_, CommitError>((StatusCode::CONFLICT, "insufficient stock").into_response())
        });
        refused.await.map_err(Problem::from)
    });
    for replay in [false, true] {
        let seen = send(&app, post("K1", B1)).await;
        assert_eq!(
            (seen.status, &seen.body[..], seen.is_replay()),
            (409, &b"insufficient stock"[..], replay)
        );
    }
    assert_eq!((shop.orders().await, tries.count()), (0, 1));
}

#[tokio::test]
async fn p14_a_success_whose_transaction_rolled_back_is_500() {
    let shop = Shop::new().await;
    let app = shop.app(async |shop: Shop, once: Once| {
        let work = move |tx: &WriteTx<'_>| {
            insert(tx)?;
            once.commit(tx, "made".into_response())?;
            Err::<(), _>(CommitError::Sql(rusqlite::Error::QueryReturnedNoRows))
        };
        let rolled_back = shop.store.transaction(work).await;
        assert!(matches!(rolled_back, Err(TransactionError::Refused(_))));
        (StatusCode::CREATED, "a success that is none")
    });
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (500, "internal".to_owned(), None));
    assert_eq!(shop.orders().await, 0);
}

#[tokio::test]
async fn p14_what_was_committed_is_the_truth_whatever_the_handler_answers() {
    for status in [StatusCode::OK, StatusCode::CONFLICT, StatusCode::INTERNAL_SERVER_ERROR] {
        let shop = Shop::new().await;
        let app = shop.app(async move |shop: Shop, once: Once| {
            create(shop, once).await.unwrap();
            (status, "something else")
        });
        let first = send(&app, post("K1", B1)).await;
        assert_eq!(
            (first.status, &first.body[..], first.is_replay()),
            (201, &b"order 1"[..], false),
            "{status}"
        );
        let repeat = send(&app, post("K1", B1)).await;
        assert_eq!((repeat.status, &repeat.body, repeat.is_replay()), (201, &first.body, true), "{status}");
        assert_eq!(shop.orders().await, 1);
    }
    let shop = Shop::new().await;
    let app = shop.app(async |shop: Shop, once: Once| {
        create(shop, once).await.unwrap();
        panic!("after the commit");
        #[expect(unreachable_code, reason = "gives the handler its type")]
        StatusCode::OK
    });
    assert_eq!(send(&app, post("K1", B1)).await.body, "order 1");
}

#[tokio::test]
async fn c18_an_overtaken_owner_is_refused_inside_its_transaction_and_its_rows_roll_back() {
    let (shop, gate, refusals) = (Shop::new().await, Gate::default(), Counter::default());
    let (waits, count) = (gate.clone(), refusals.clone());
    let app = shop.app(async move |shop: Shop, once: Once| {
        let attempt = once.attempt();
        if attempt == 1 {
            waits.pass().await;
        }
        let made = once.transaction(&shop.store, move |tx| {
            insert(tx)?;
            Ok::<_, CommitError>((StatusCode::CREATED, format!("attempt {attempt}")).into_response())
        });
        let made = made.await;
        if let Err(TransactionError::Refused(CommitError::Finish(refusal))) = &made {
            assert!(matches!(refusal, unavez_store::sqlite::FinishInError::Overtaken { record: Some(_) }));
            count.hit();
        }
        made.map_err(Problem::from)
    });
    let slow = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    shop.clock.advance(Duration::from_secs(11));
    let second = send(&app, post("K1", B1)).await;
    assert_eq!((second.status, &second.body[..]), (201, &b"attempt 2"[..]));
    gate.open();
    let slow = slow.await.unwrap();
    assert_eq!((slow.status, &slow.body, slow.is_replay()), (201, &second.body, true));
    assert_eq!((shop.orders().await, refusals.count()), (1, 1));
}

#[tokio::test]
async fn c18_a_handler_that_takes_long_before_its_commit_delays_no_other_key() {
    let (shop, gate) = (Shop::new().await, Gate::default());
    let waits = gate.clone();
    let app = shop.app(async move |shop: Shop, once: Once| {
        if once.operation_id() == operation(&shop, "slow") {
            waits.pass().await;
        }
        create(shop, once).await
    });
    let slow = send_aside(&app, post("slow", B1));
    gate.arrived().await;
    for key in 0..50 {
        assert_eq!(send(&app, post(&format!("K{key}"), B1)).await.status, 201);
    }
    shop.clock.advance(Duration::from_secs(5));
    assert_eq!(
        send(&app, post("slow", B1)).await.problem(),
        (409, "operation-in-progress".to_owned(), Some("1"))
    );
    assert!(!slow.is_finished());
    gate.open();
    assert_eq!(slow.await.unwrap().status, 201);
    assert_eq!(shop.orders().await, 51);
}

fn operation(shop: &Shop, key: &str) -> unavez_tower::OperationId {
    let key = unavez_core::key::Key::parse_path(key).unwrap();
    unavez_core::identity::RecordId::of(shop.store.realm(), &unavez_tower::tenant::Tenant::single(), &key)
        .operation_id()
}

#[tokio::test]
async fn c1_a_claim_whose_owner_died_runs_once() {
    let (shop, gate) = (Shop::new().await, Gate::default());
    let waits = gate.clone();
    let stuck = shop.app(async move |shop: Shop, once: Once| {
        waits.pass().await;
        create(shop, once).await
    });
    let dead = send_aside(&stuck, post("K1", B1));
    gate.arrived().await;
    let app = shop.app(create);
    shop.clock.advance(Duration::from_secs(5));
    assert_eq!(send(&app, post("K1", B1)).await.status, 409);
    shop.clock.advance(Duration::from_secs(6));
    let recovered = send(&app, post("K1", B1)).await;
    assert_eq!(
        (recovered.status, recovered.is_replay()),
        (201, false),
        "nothing left a transactional route: it runs"
    );
    shop.clock.advance(Duration::from_secs(24 * 3600 - 60));
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((repeat.is_replay(), &repeat.body), (true, &recovered.body));
    assert_eq!(shop.orders().await, 1);
    dead.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_a_hundred_equal_requests_have_one_effect_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    race::check_race(Arc::new(open(file(folder.path()), &ManualClock::new())), 20).await;
}

#[tokio::test]
async fn c47_every_final_status_comes_back_as_it_was_on_sqlite() {
    answers::check_statuses(Arc::new(open(Location::Memory, &ManualClock::new()))).await;
}

fn file(folder: &Path) -> Location {
    Location::File(folder.join("records.db"))
}

#[tokio::test]
async fn c25_c26_everything_is_remembered_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let effects = Counter::default();
    let serve = |clock: &ManualClock| {
        let store = open(file(folder.path()), clock);
        let handler = effects.clone();
        let layer = layer_over(Arc::new(store.clone()), |settings| settings.realm = None);
        assert_eq!(layer.engine().realm(), store.realm(), "the realm is the database's own");
        let app = app(layer.opaque(OnLost::Hold), async move || {
            (StatusCode::CREATED, format!("{}", handler.hit()))
        });
        (store, app)
    };
    let (store, app) = serve(&clock);
    let first = send(&app, post("K1", B1)).await;
    store.close().await;
    drop((store, app));

    let (_store, app) = serve(&clock.restarted());
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((repeat.status, &repeat.body, repeat.is_replay()), (201, &first.body, true));
    assert_eq!(repeat.header("idempotency-expires"), first.header("idempotency-expires"));
    assert_eq!(send(&app, post("K1", B2)).await.status, 422, "C25 after a restart");
    assert_eq!(effects.count(), 1);
}

#[tokio::test]
async fn p11_a_record_is_finished_by_the_attempt_that_ran() {
    let shop = Shop::new().await;
    let app = shop.app(create);
    send(&app, post("K1", B1)).await;
    let id = operation(&shop, "K1").record_id();
    let record = unavez_tower::Store::load(&shop.store, id).await.unwrap().record.unwrap();
    assert!(matches!(record.state, State::Finished { .. }));
    assert_eq!((record.attempts, record.fence.version), (1, 2), "one claim and one finish");
}

#[tokio::test]
async fn c60_a_sealed_answer_stands_in_no_file_in_clear() {
    let folder = tempfile::tempdir().unwrap();
    let contains = |clear: &str| {
        let files = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|file| std::fs::read(file.unwrap().path()).unwrap());
        files.into_iter().any(|bytes| bytes.windows(clear.len()).any(|window| window == clear.as_bytes()))
    };
    let store = open(file(folder.path()), &ManualClock::new());
    let layer = layer_over(Arc::new(store.clone()), |_| {});
    let made = async || (StatusCode::CREATED, [("x-answer", "HEADER-TEXT")], "ANSWER-TEXT");
    let sealed = app(layer.clone().with_seal_keys(seal_keys("k1", "a5")).opaque(OnLost::Hold), made);
    let first = send(&sealed, post("K1", B1)).await;
    assert!(send(&sealed, post("K1", B1)).await.is_replay());
    assert_eq!(first.body, "ANSWER-TEXT");
    assert!(!contains("ANSWER-TEXT") && !contains("HEADER-TEXT"), "database and WAL");
    // The same search finds what is not sealed.
    send(&app(layer.opaque(OnLost::Hold), made), post("K2", B1)).await;
    assert!(contains("ANSWER-TEXT"));
    store.close().await;
}
