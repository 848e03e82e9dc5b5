//! A shop's orders: each one that was accepted is charged, and once, whenever this program is killed.
//!
//! ```text
//! cargo run -- serve
//! cargo run -p example-orders
//! curl -i localhost:3000/orders -H 'content-type: application/json' \
//!   -d '{"id":"o-1","amount":500,"currency":"EUR","payment_method":"tok_approve"}'
//! curl localhost:3000/orders/o-1
//! ```
//!
//! 1. An order and the operation that charges it are one commit. 202 says that it is on the disk.
//! 2. A worker sends the operation under the key `charge:{order}`, and after a crash the next process does, with the same
//!    bytes. What became of it is read from the outbox, where it is stored: there is no second place that could differ.
//! 3. The caller names the order, so that whoever got no answer can send it again.
//!
//! Kill it, the service behind it, or both. `cargo xtask orders` does, at random, and compares all books afterwards.

mod shop;

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use unavez_client::outbox::{Happening, Outbox, OutboxError, Worker};
use unavez_client::{Backoff, Client, Preset, Wire};

use shop::{Accepted, Order, Shop};

type Shared = State<Arc<Mutex<Shop>>>;

async fn create(State(shop): Shared, Json(order): Json<Order>) -> Response {
    // The lock and the commit may wait for the disk, and no request to the outside runs meanwhile.
    let accepted = spawn_blocking(move || shop.lock().expect("no handler panics").accept(&order)).await;
    match accepted.expect("no handler panics") {
        Ok(Accepted::Charging) => say(StatusCode::ACCEPTED, "accepted"),
        Ok(Accepted::Invalid) => {
            say(StatusCode::UNPROCESSABLE_ENTITY, "an order has a short id and an amount")
        }
        Ok(Accepted::Differs) => say(StatusCode::CONFLICT, "there is another order with this id"),
        Err(error) => refuse(&error),
    }
}

async fn show(State(shop): Shared, Path(id): Path<String>) -> Response {
    let found = spawn_blocking(move || shop.lock().expect("no handler panics").show(&id)).await;
    match found.expect("no handler panics") {
        Ok(Some(order)) => Json(order).into_response(),
        Ok(None) => say(StatusCode::NOT_FOUND, "there is no such order"),
        Err(error) => refuse(&error),
    }
}

/// How much is still to be charged, and what a person must look at.
async fn backlog(outbox: Outbox) -> Response {
    match outbox.backlog().await {
        Ok(backlog) => {
            Json(json!({ "waiting": backlog.waiting, "unknown": backlog.unknown })).into_response()
        }
        Err(error) => refuse(&error),
    }
}

fn say(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "message": text }))).into_response()
}

/// Nothing was accepted, or nobody knows; the same order can be sent again either way.
fn refuse(error: &OutboxError) -> Response {
    eprintln!("{error}");
    match error {
        OutboxError::KeyTaken { .. } => {
            say(StatusCode::CONFLICT, "this order is charged with another request")
        }
        OutboxError::Database { .. } | OutboxError::Full { .. } => {
            say(StatusCode::SERVICE_UNAVAILABLE, "try again later")
        }
        _ => say(StatusCode::UNPROCESSABLE_ENTITY, "this order cannot be charged"),
    }
}

/// What went wrong is told; what was charged can be asked for.
fn tell(happening: &Happening<'_>) {
    match happening {
        Happening::Delivered(delivered) => eprintln!("{}: {:?}", delivered.key, delivered.end),
        Happening::Failed(error) => eprintln!("{error}"),
        _ => {}
    }
}

/// The value of `--name` on the command line.
fn option(name: &str, default: &str) -> String {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).unwrap_or_else(|| default.to_owned())
}

fn charging(shop: &Shop) -> Worker<Wire> {
    let client = Client::builder(Preset::unavez()).with_attempt_timeout(Duration::from_secs(10));
    // A customer waits: an order whose process was killed is taken up again after three seconds.
    let backoff = Backoff { base: Duration::from_millis(250), cap: Duration::from_secs(10) };
    let worker = shop.outbox().worker(client.build_over(Wire::plain()));
    worker.with_lease(Duration::from_secs(3)).with_backoff(backoff).with_listener(tell)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shop =
        Shop::open(&option("--db", "orders.db"), &option("--charges", "http://127.0.0.1:8080/v1/charges"))?;
    let (outbox, worker) = (shop.outbox(), charging(&shop));
    tokio::spawn(async move { worker.run().await });
    let routes = Router::new()
        .route("/orders", post(create))
        .route("/orders/{id}", get(show))
        .route("/backlog", get(move || backlog(outbox.clone())))
        .with_state(Arc::new(Mutex::new(shop)));
    let listener = TcpListener::bind(option("--listen", "127.0.0.1:3000")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, routes).await?;
    Ok(())
}
