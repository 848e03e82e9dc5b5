//! The bare contestant's routes behind the idempotency layer: what the middleware costs a handler.
//!
//! ```text
//! contestant-middleware memory:         an opaque route on the memory store
//! contestant-middleware sqlite:PATH     a recoverable route on SQLite: claim and answer are a durable commit each
//! ```
//!
//! The handler is the same and calls nobody, so that the difference to the bare contestant is the layer and its store.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use unavez_tower::recover::{Promise, Question, Recover, Recovered};
use unavez_tower::sqlite::{Location, Options, SqliteStore};
use unavez_tower::{IdempotencyLayer, MemoryStore, OnLost, tenant};

/// What the handler would ask after a lost attempt. Nothing is lost here, and nobody is asked.
struct Nobody;

impl Recover for Nobody {
    async fn recover(&self, _: Question) -> Recovered {
        Recovered::CannotSay
    }

    fn promise(&self) -> Promise {
        Promise { visibility_delay: Duration::ZERO, resend_window: None }
    }
}

fn routes(store: &str) -> Result<Router, Box<dyn Error>> {
    let bare = contestant_bare_axum::routes();
    if store == "memory:" {
        let layer = IdempotencyLayer::new(MemoryStore::new(), tenant::single());
        return Ok(bare.route_layer(layer.opaque(OnLost::Hold)));
    }
    let path = store.strip_prefix("sqlite:").ok_or("expected memory: or sqlite:PATH")?;
    let store = SqliteStore::open(Location::File(path.into()), Options::default())?;
    let layer = IdempotencyLayer::new(store, tenant::single());
    Ok(bare.route_layer(layer.recoverable(Nobody)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = std::env::args().nth(1).unwrap_or_default();
    contestant_bare_axum::run(routes(&store)?).await?;
    Ok(())
}
