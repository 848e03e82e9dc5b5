//! Orders that exist once, in a PostgreSQL of one's own: row and stored answer commit in the handler's own transaction.
//!
//! ```text
//! DATABASE_URL=postgres://localhost/shop cargo run -p example-postgres-tx
//! curl -i localhost:3000/orders -H 'Idempotency-Key: o-1' -d 'a book'
//! ```

use std::env;
use std::error::Error;

use axum::Router;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use deadpool_postgres::{Manager, Pool};
use tokio::net::TcpListener;
use tokio_postgres::NoTls;
use unavez_tower::postgres::{Location, Migrate, Options, PostgresStore};
use unavez_tower::problem::{Code, Problem};
use unavez_tower::{Body, IdempotencyLayer, Once, tenant};

#[cfg(test)]
mod tests;

type Failure = Box<dyn Error + Send + Sync>;

async fn create(State(pool): State<Pool>, once: Once, item: String) -> Result<Response<Body>, Problem> {
    insert(&pool, &once, &item).await.map_err(|_| Problem::new(Code::Internal))
}

async fn insert(pool: &Pool, once: &Once, item: &str) -> Result<Response<Body>, Failure> {
    let mut client = pool.get().await?;
    let tx = client.transaction().await?;
    let sql = "insert into orders (item) values ($1) returning id";
    let id: i64 = tx.query_one(sql, &[&item]).await?.get(0);
    let answer = (StatusCode::CREATED, format!("order {id}: {item}\n")).into_response();
    // Stored with the row, and fenced: an attempt that was overtaken fails here, and rolls back.
    let response = once.commit(&*tx, answer).await?;
    tx.commit().await?;
    Ok(response)
}

async fn app(url: &str) -> Result<Router, Failure> {
    let options = Options { migrate: Migrate::Auto, ..Options::default() };
    let store = PostgresStore::open(Location::parse(url)?, options).await?;
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).build()?;
    let schema = "create table if not exists orders (id bigint generated always as identity, item text)";
    pool.get().await?.batch_execute(schema).await?;
    let idempotent = IdempotencyLayer::new(store, tenant::single()).transactional();
    Ok(Router::new().route("/orders", post(create)).route_layer(idempotent).with_state(pool))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app(&env::var("DATABASE_URL")?).await?).await?;
    Ok(())
}
