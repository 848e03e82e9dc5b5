//! Transactional routes on PostgreSQL with the handler's own driver, and the cases that every store runs (P14).

use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse;
use axum::{Extension, Router};
use http::{Response, StatusCode};
use test_postgres::{Database, Server};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, Transaction};
use unavez_store::clock::ManualClock;
use unavez_tower::once::postgres::CommitError;
use unavez_tower::postgres::{FinishInError, Location, Migrate, Options, PostgresStore};
use unavez_tower::problem::Problem;
use unavez_tower::{Body, Once};

use crate::support::*;
use crate::{answers, race};

async fn open(database: &Database<'_>, clock: &ManualClock) -> PostgresStore {
    let clock = Some(Arc::new(clock.clone()) as _);
    let options = Options { migrate: Migrate::Auto, clock, ..Options::default() };
    PostgresStore::open(Location::parse(&database.url()).unwrap(), options).await.unwrap()
}

/// A shop whose orders are rows beside the records.
#[derive(Clone)]
struct Shop {
    store: PostgresStore,
    clock: ManualClock,
    /// A connection of the shop's own.
    client: Arc<Mutex<Client>>,
    database: Arc<Database<'static>>,
}

impl Shop {
    async fn new() -> Self {
        let (database, clock) = (Server::shared().database(), ManualClock::new());
        let store = open(&database, &clock).await;
        database.query("create table orders (id bigint generated always as identity, item text)");
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { store, clock, client: Arc::new(Mutex::new(client)), database: Arc::new(database) }
    }

    fn orders(&self) -> String {
        self.database.query("select count(*) from orders")
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

async fn insert(tx: &Transaction<'_>) -> Result<i64, CommitError> {
    Ok(tx.query_one("insert into orders (item) values ('book') returning id", &[]).await?.get(0))
}

async fn create(shop: Shop, once: Once) -> Result<Response<Body>, Problem> {
    Ok(create_in(&shop, &once).await?)
}

async fn create_in(shop: &Shop, once: &Once) -> Result<Response<Body>, CommitError> {
    let mut client = shop.client.lock().await;
    let tx = client.transaction().await?;
    let answer = format!("order {}", insert(&tx).await?);
    let response = once.commit(&tx, (StatusCode::CREATED, answer).into_response()).await?;
    tx.commit().await?;
    Ok(response)
}

#[tokio::test]
async fn p14_rows_and_answer_commit_together_on_postgres() {
    let shop = Shop::new().await;
    let app = shop.app(create);
    let first = send(&app, post("K1", B1)).await;
    let repeat = send(&app, post("K1", B1)).await;
    assert_eq!((first.status, &first.body[..], first.is_replay()), (201, &b"order 1"[..], false));
    assert_eq!((repeat.status, &repeat.body, repeat.is_replay()), (201, &first.body, true));
    assert_eq!(first.header("idempotency-expires"), repeat.header("idempotency-expires"));
    assert_eq!(send(&app, post("K1", B2)).await.status, 422);
    assert_eq!(shop.orders(), "1");
}

#[tokio::test]
async fn p14_a_failure_before_the_commit_leaves_nothing_and_frees_the_key_on_postgres() {
    let (shop, tries) = (Shop::new().await, Counter::default());
    let count = tries.clone();
    let app = shop.app(async move |shop: Shop, once: Once| {
        if count.hit() > 1 {
            return create(shop, once).await;
        }
        let mut client = shop.client.lock().await;
        let tx = client.transaction().await.unwrap();
        insert(&tx).await?;
        let failed = tx.execute("insert into nowhere values (1)", &[]).await.unwrap_err();
        Err(CommitError::from(failed).into())
    });
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (500, "internal".to_owned(), None));
    assert_eq!(shop.orders(), "0");
    assert_eq!(send(&app, post("K1", B1)).await.status, 201);
    assert_eq!((shop.orders(), tries.count()), ("1".to_owned(), 2));
}

#[tokio::test]
async fn p14_a_success_whose_transaction_rolled_back_is_500_on_postgres() {
    let shop = Shop::new().await;
    let app = shop.app(async |shop: Shop, once: Once| {
        let mut client = shop.client.lock().await;
        let tx = client.transaction().await.unwrap();
        insert(&tx).await?;
        let response = once.commit(&tx, (StatusCode::CREATED, "made").into_response()).await?;
        tx.rollback().await.unwrap();
        Ok::<_, Problem>(response)
    });
    assert_eq!(send(&app, post("K1", B1)).await.problem(), (500, "internal".to_owned(), None));
    assert_eq!(shop.orders(), "0");
}

#[tokio::test]
async fn p14_what_was_committed_is_the_truth_whatever_the_handler_answers_on_postgres() {
    let shop = Shop::new().await;
    let app = shop.app(async |shop: Shop, once: Once| {
        create_in(&shop, &once).await.unwrap();
        (StatusCode::INTERNAL_SERVER_ERROR, "something else")
    });
    let first = send(&app, post("K1", B1)).await;
    assert_eq!((first.status, &first.body[..], first.is_replay()), (201, &b"order 1"[..], false));
}

#[tokio::test]
async fn c18_an_overtaken_owner_is_refused_inside_its_transaction_on_postgres() {
    let (shop, gate, refusals) = (Shop::new().await, Gate::default(), Counter::default());
    let (waits, count) = (gate.clone(), refusals.clone());
    let app = shop.app(async move |shop: Shop, once: Once| {
        if once.attempt() == 1 {
            waits.pass().await;
        }
        let made = create_in(&shop, &once).await;
        if let Err(CommitError::Finish(FinishInError::Overtaken(Some(_)))) = &made {
            count.hit();
        }
        made.map_err(Problem::from)
    });
    let slow = send_aside(&app, post("K1", B1));
    gate.arrived().await;
    shop.clock.advance(Duration::from_secs(11));
    let second = send(&app, post("K1", B1)).await;
    assert_eq!(second.status, 201);
    gate.open();
    let slow = slow.await.unwrap();
    assert_eq!((slow.status, &slow.body, slow.is_replay()), (201, &second.body, true));
    assert_eq!((shop.orders(), refusals.count()), ("1".to_owned(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_a_hundred_equal_requests_have_one_effect_on_postgres() {
    let store = open(&Server::shared().database(), &ManualClock::new()).await;
    race::check_race(Arc::new(store), 5).await;
}

#[tokio::test]
async fn c47_every_final_status_comes_back_as_it_was_on_postgres() {
    answers::check_statuses(Arc::new(open(&Server::shared().database(), &ManualClock::new()).await)).await;
}
