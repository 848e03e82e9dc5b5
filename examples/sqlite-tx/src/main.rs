//! Orders that exist once: the row and the stored answer commit in one SQLite transaction, or neither does.
//!
//! ```text
//! cargo run -p example-sqlite-tx
//! curl -i localhost:3000/orders -H 'Idempotency-Key: o-1' -d 'a book'
//! ```
//!
//! The second `curl` names the same order, and `sqlite3 orders.db 'select * from orders'` shows one row. Kill the program
//! at any moment: a repeat finds the order, or makes it.

use axum::Router;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use tokio::net::TcpListener;
use unavez_tower::once::CommitError;
use unavez_tower::problem::Problem;
use unavez_tower::sqlite::{Location, Options, SqliteStore};
use unavez_tower::{Body, IdempotencyLayer, Once, tenant};

async fn create(
    State(store): State<SqliteStore>,
    once: Once,
    item: String,
) -> Result<Response<Body>, Problem> {
    let created = once.transaction(&store, move |tx| {
        tx.execute("insert into orders (item) values (?1)", [&item])?;
        let answer = format!("order {}: {item}\n", tx.last_insert_rowid());
        // The answer is stored here, with the row: fenced, so that an attempt that was overtaken rolls back.
        Ok::<_, CommitError>((StatusCode::CREATED, answer).into_response())
    });
    Ok(created.await?)
}

fn app(store: SqliteStore) -> Router {
    let idempotent = IdempotencyLayer::new(store.clone(), tenant::single());
    Router::new().route("/orders", post(create)).route_layer(idempotent.transactional()).with_state(store)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = SqliteStore::open(Location::File("orders.db".into()), Options::default())?;
    let schema = "create table if not exists orders (id integer primary key, item text not null) strict";
    store.transaction(move |tx| tx.execute_batch(schema)).await?;
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app(store)).await?;
    Ok(())
}
