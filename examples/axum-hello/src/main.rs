//! A greeting that is sent once, however often the caller repeats its request.
//!
//! ```text
//! cargo run -p example-axum-hello
//! curl -i localhost:3000/greetings -H 'Idempotency-Key: g-1' -d 'ada'
//! ```
//!
//! The second `curl` says `greeting 1` again, with `Idempotent-Replayed: true`. Another name under the same key is 422.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;
use unavez_tower::{IdempotencyLayer, MemoryStore, OnLost, Once, tenant};

async fn greet(State(sent): State<Arc<AtomicU64>>, once: Once, name: String) -> (StatusCode, String) {
    let number = sent.fetch_add(1, Ordering::Relaxed) + 1;
    println!("{}: hello, {name}", once.operation_id());
    (StatusCode::CREATED, format!("greeting {number}\n"))
}

fn app() -> Router {
    let idempotent = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
    Router::new()
        .route("/greetings", post(greet))
        // A greeting can be neither rolled back nor asked about. If its attempt is lost, a person has to look.
        .route_layer(idempotent.opaque(OnLost::Hold))
        .with_state(Arc::default())
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app()).await
}
