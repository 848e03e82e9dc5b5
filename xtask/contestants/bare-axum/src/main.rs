//! Serves the bare contestant's routes with nothing in between.

use std::io;

#[tokio::main]
async fn main() -> io::Result<()> {
    contestant_bare_axum::run(contestant_bare_axum::routes()).await
}
