//! A shop that charges each order once, whatever the network does and however often it is started.
//!
//! ```text
//! cargo run -- serve
//! cargo run -p example-client-only -- o-1001
//! ```
//!
//! Started again with the same order it gets the same charge: the key is made of the order's id, so nothing has to be
//! remembered. Kill it at any moment, and start it again.

use std::error::Error;

use unavez_client::{
    Client, Event, Listen, Operation, OperationParts, Outcome, Preset, Received, Wire, derive,
};

struct Stderr;

impl Listen for Stderr {
    fn on(&self, event: &Event<'_>) {
        eprintln!("{event}");
    }
}

fn charge(order: &str) -> Result<Operation, Box<dyn Error>> {
    let body = format!("{{\"order_id\":\"{order}\",\"amount\":500,\"currency\":\"USD\"}}");
    let charge = Operation::post("http://127.0.0.1:8080/v1/charges")?
        .with_key(derive("charge", &[order])?)
        .with_json(body);
    // Nobody here remembers whether an earlier run has sent it.
    Ok(Operation::from_parts(OperationParts { received: Received::Perhaps, ..charge.into_parts() })?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let order = std::env::args().nth(1).unwrap_or_else(|| "o-1001".to_owned());
    let client = Client::builder(Preset::unavez()).build_over(Wire::plain());
    match client.call_heard(&charge(&order)?, &Stderr).await? {
        Outcome::Done(answer) => println!("charged: {}", String::from_utf8_lossy(answer.body())),
        Outcome::Refused(answer) => println!("refused for good: {}", String::from_utf8_lossy(answer.body())),
        Outcome::Unknown(unknown) => println!("start me again with this order: {unknown}"),
    }
    Ok(())
}
