//! An acquirer in thirty lines: `PUT /operations/{id}` executes once, `GET` tells.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use serde::{Deserialize, Serialize};

/// What somebody wants executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) kind: String,
    pub(crate) amount: i64,
    pub(crate) currency: String,
    pub(crate) payment: Option<String>,
}

/// What was executed, or refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) order: Order,
    pub(crate) approved: bool,
    pub(crate) at_us: i64,
}

/// Everything it ever did.
pub(crate) type Books = Arc<Mutex<Vec<Entry>>>;

/// The bank, over those books.
pub(crate) fn router(books: Books) -> Router {
    Router::new()
        .route("/operations/{id}", put(execute).get(tell))
        .route("/operations", get(list))
        .with_state(books)
}

async fn execute(
    State(books): State<Books>,
    Path(id): Path<String>,
    Json(order): Json<Order>,
) -> Result<Json<Entry>, StatusCode> {
    let mut books = books.lock().expect("nobody panics while holding it");
    if let Some(before) = books.iter().find(|entry| entry.id == id) {
        return if before.order == order { Ok(Json(before.clone())) } else { Err(StatusCode::CONFLICT) };
    }
    let approved = order.kind != "refund" || order.amount <= left_to_refund(&books, order.payment.as_deref());
    books.push(Entry { id, order, approved, at_us: jiff::Timestamp::now().as_microsecond() });
    Ok(Json(books[books.len() - 1].clone()))
}

fn left_to_refund(books: &[Entry], payment: Option<&str>) -> i64 {
    let refunds = books
        .iter()
        .filter(|it| it.approved && it.order.kind == "refund" && it.order.payment.as_deref() == payment);
    let paid = books.iter().find(|it| Some(&*it.id) == payment).map_or(0, |it| it.order.amount);
    paid - refunds.map(|it| it.order.amount).sum::<i64>()
}

/// What is under an id. That nothing is there is an answer too, and one which no proxy's 404 can be taken for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) id: String,
    pub(crate) entry: Option<Entry>,
}

async fn tell(State(books): State<Books>, Path(id): Path<String>) -> Json<Told> {
    let books = books.lock().expect("nobody panics while holding it");
    let entry = books.iter().find(|entry| entry.id == id).cloned();
    Json(Told { id, entry })
}

/// Everything, oldest first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct List {
    pub(crate) entries: Vec<Entry>,
}

async fn list(State(books): State<Books>) -> Json<List> {
    Json(List { entries: books.lock().expect("nobody panics while holding it").clone() })
}
