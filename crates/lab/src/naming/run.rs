//! Playing each situation with each kind of key, at one service a situation: keys made of amounts must not meet those of
//! another situation.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use super::{
    Accepted, Naming, Options, Played, Report, Sent, Situation, Tried,
    shop::{Operation, Shop, Worker},
    situation::Act,
};
use crate::{
    Error, accept,
    keys::{KeyPolicy, run_nonce},
    link::Link,
    money::{CENTS, CURRENCY},
    progress::Progress,
    servers::Payments,
    wire::{Call, Route, Wire},
};

/// Orders that a situation can be about.
const ORDERS: [u32; 2] = [1, 2];

/// Measures every kind of key.
///
/// # Errors
///
/// Unreachable: no place for private servers' files. Broken: a test or a situation that could not be played.
pub async fn run(options: &Options, progress: &dyn Progress) -> Result<Report, Error> {
    let tests = accept::Options { executable: options.executable.clone(), ..accept::Options::default() };
    let random = accept::run_with(&tests, KeyPolicy::Random, progress).await?;
    let derived = accept::run_with(&tests, KeyPolicy::Once, progress).await?;
    let cells = Situation::ALL.len() * Naming::ALL.len();
    progress.begin(&("keys in situations", "claves en situaciones").into(), cells as u64);
    let mut situations = Vec::with_capacity(Situation::ALL.len());
    for situation in Situation::ALL {
        let payments = Payments::start().await?;
        let played = play(situation, payments.running().authority(), progress).await;
        payments.stop().await;
        situations.push(played?);
    }
    progress.end();
    Ok(Report { accept: Accepted { random, derived }, situations })
}

async fn play(situation: Situation, authority: &str, progress: &dyn Progress) -> Result<Played, Error> {
    let link = Arc::new(Link::open(authority.to_owned()).await?);
    let run = format!("keys-{}", run_nonce());
    let mut keys = Vec::with_capacity(Naming::ALL.len());
    for naming in Naming::ALL {
        let route = Route::Through(Arc::clone(&link), authority.to_owned());
        let mut client = Client { wire: Wire::new(route), shop: Shop::new(naming, &run) };
        keys.push(client.try_out(situation, naming).await?);
        progress.step();
    }
    let (expected_charges, expected_total) = situation.expected();
    Ok(Played { name: situation, expected_charges, expected_total, keys })
}

/// A shop, and its way to the service.
struct Client {
    wire: Wire,
    shop: Shop,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Charge>,
}

#[derive(Deserialize)]
struct Charge {
    amount_captured: u64,
}

impl Client {
    async fn try_out(&mut self, situation: Situation, naming: Naming) -> Result<Tried, Error> {
        let mut worker = Worker::default();
        let mut sent = Vec::new();
        for &act in situation.acts() {
            match act {
                Act::Charge(operation) => sent.push(self.charge(&mut worker, operation, false).await?),
                Act::ChargeLosing(operation) => sent.push(self.charge(&mut worker, operation, true).await?),
                Act::AnotherWorker => worker = Worker::default(),
            }
        }
        let (charges, total) = self.books().await?;
        Ok(Tried {
            made_of: naming,
            sent,
            charges,
            total,
            right: (charges, total) == situation.expected(),
            as_predicted: charges == situation.predicted(naming),
        })
    }

    /// One attempt. What is answered is what is measured; only silence that nobody ordered is an error.
    async fn charge(&mut self, worker: &mut Worker, operation: Operation, lost: bool) -> Result<Sent, Error> {
        let key = self.shop.key(worker, operation);
        let body = json!({
            "order_id": self.shop.order_id(operation.order),
            "amount": operation.dollars * CENTS,
            "currency": CURRENCY,
            "payment_method": operation.payment_method,
        });
        let call = Call::post("/v1/charges", &key, Bytes::from(body.to_string()));
        let status = match self.wire.send_losing(&call, lost).await {
            Ok(answer) => Some(answer.status.as_u16()),
            Err(_) if lost => None,
            Err(cut) => return Err(Error::cut(("POST /v1/charges", "POST /v1/charges"), &cut)),
        };
        Ok(Sent { key, status })
    }

    /// Charges of the shop's orders that took money, and how much, in whole dollars.
    async fn books(&mut self) -> Result<(u64, u64), Error> {
        let (mut charges, mut cents) = (0, 0);
        for order in ORDERS {
            let path = format!("/v1/charges?order_id={}", self.shop.order_id(order));
            let answer = self.wire.send(&Call::get(&path)).await;
            let listed: Listed = answer.map_err(|cut| Error::cut((path.clone(), path), &cut))?.json()?;
            let taken = listed.data.iter().map(|charge| charge.amount_captured).filter(|&cents| cents > 0);
            for amount in taken {
                charges += 1;
                cents += amount;
            }
        }
        Ok((charges, cents / CENTS))
    }
}
