//! The example, run against a database.

use axum::http::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

#[tokio::test]
async fn an_order_is_made_once() {
    let database = test_postgres::Server::shared().database();
    let app = super::app(&database.url()).await.unwrap();
    for _ in 0..2 {
        let request = Request::post("/orders").header("idempotency-key", "o-1").body("a book".to_owned());
        let response = app.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "order 1: a book\n");
    }
    assert_eq!(database.query("select id, item from orders"), "1|a book");
}
