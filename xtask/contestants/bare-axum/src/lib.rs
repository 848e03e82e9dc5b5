//! The bare contestant of `cargo xtask bench`: reads a charge's JSON and answers 201 with a body of the size the
//! service answers with. No key, no store, no validation beyond the types: what axum can do on this machine.
//!
//! Connections are taken and kept as the service does it, so that the ratio measures what happens between request
//! and answer and nothing else. The contestant with the middleware puts its layer around these very routes.

use std::io;

use axum::Router;
use axum::extract::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

/// A charge as it is asked for.
#[derive(Deserialize)]
struct Order {
    order_id: String,
    amount: u64,
    currency: String,
}

/// A charge as it is answered: the members of the service's answer, with made-up ids of the same length.
#[derive(Serialize)]
struct Charge {
    id: &'static str,
    object: &'static str,
    order_id: String,
    amount: u64,
    currency: String,
    status: &'static str,
    amount_captured: u64,
    amount_refunded: u64,
    operation_id: &'static str,
    metadata: Empty,
    created_at: &'static str,
}

#[derive(Serialize)]
struct Empty {}

async fn echo(Json(order): Json<Order>) -> Response {
    let charge = Charge {
        id: "ch_0123456789abcdef0123456789abcdef",
        object: "charge",
        order_id: order.order_id,
        amount: order.amount,
        currency: order.currency,
        status: "captured",
        amount_captured: order.amount,
        amount_refunded: 0,
        operation_id: "op_0123456789abcdef0123456789abcdef",
        metadata: Empty {},
        created_at: "2026-11-30T12:00:00.000000Z",
    };
    (StatusCode::CREATED, Json(charge)).into_response()
}

/// The one route.
pub fn routes() -> Router {
    Router::new().route("/v1/charges", post(echo))
}

/// Listens on any free port of this machine, says on which, and serves until the process ends.
///
/// # Errors
/// The port cannot be listened on, or a connection not be taken.
pub async fn run(routes: Router) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(serve(socket, routes.clone()));
    }
}

/// One connection, for as long as the generator keeps it.
async fn serve(socket: TcpStream, routes: Router) {
    socket.set_nodelay(true).ok();
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(None);
    // A connection that breaks is the generator's to count.
    connection.serve_connection(TokioIo::new(socket), TowerToHyperService::new(routes)).await.ok();
}
