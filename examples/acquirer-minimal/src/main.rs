//! The smallest adapter that passes the suite: `bank.rs` is an acquirer in memory, `adapter.rs` its adapter.
//!
//! ```text
//! cargo run -p example-acquirer-minimal     one payment, sent twice, asked about, refunded
//! cargo test -p example-acquirer-minimal    the suite
//! ```

mod adapter;
mod bank;
#[cfg(test)]
mod suite;

use std::error::Error;

use tokio::net::TcpListener;
use unavez_core::identity::{Realm, RecordId, Tenant};
use unavez_core::key::Key;
use unavez_core::time::Time;
use unavez_payments::acquirer::{Acquirer, Instruction, Kind, Payment, Subject};
use unavez_payments::charge::OrderId;
use unavez_payments::money::{Amount, Currency};

use adapter::Bank;
use bank::Books;

/// A bank on a free port.
async fn open(books: Books) -> std::io::Result<Bank> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, bank::router(books)).await });
    Bank::at(base.parse().map_err(|_| std::io::ErrorKind::InvalidInput)?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bank = open(Books::default()).await?;
    let payment = instruction("order-1", Kind::Payment, 2500, None)?;
    let outgoing = bank.compose(&payment)?;
    println!("{} {}\n{}\n", outgoing.method, outgoing.path, String::from_utf8_lossy(&outgoing.body));
    println!("sent:     {:?}", bank.send(&payment.subject, &outgoing).await);
    println!("again:    {:?}", bank.send(&payment.subject, &outgoing).await);
    println!("asked:    {:?}", bank.look_up(&payment.subject).await);

    let refund = instruction("refund-1", Kind::Refund, 500, Some(&payment))?;
    println!("asked:    {:?}", bank.look_up(&refund.subject).await);
    println!("refunded: {:?}", bank.send(&refund.subject, &bank.compose(&refund)?).await);
    println!("executed: {}", bank.list(Time::from_micros(0), None, 100).await?.items.len());
    Ok(())
}

/// What the service makes of a request and its key.
fn instruction(
    key: &str,
    kind: Kind,
    minor_units: i64,
    of: Option<&Instruction>,
) -> Result<Instruction, Box<dyn Error>> {
    let tenant = Tenant::single();
    let key = Key::parse_path(key).map_err(|_| "the key is malformed")?;
    let subject = Subject {
        operation_id: RecordId::of(&Realm::parse("example")?, &tenant, &key).operation_id(),
        kind,
        tenant,
        amount: Amount::of_minor_units(minor_units).ok_or("the amount is out of range")?,
        currency: Currency::parse("EUR").ok_or("the currency is unknown")?,
        payment: of.map(|payment| Payment { operation_id: payment.subject.operation_id, reference: None }),
        claimed_at: Time::from_micros(0),
    };
    Ok(Instruction {
        subject,
        order_id: OrderId::parse("order-1")?,
        payment_method: None,
        captures_at_once: true,
        metadata: None,
    })
}
