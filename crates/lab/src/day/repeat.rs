//! Repeats on either side of the TTL, at the payments service over HTTP.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Error,
    keys::{as_segment, run_nonce},
    money::{CENTS, CURRENCY},
    servers::Payments,
    wire::{Answer, Call, Route, Wire},
};

/// What a repeat was answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// The stored answer, byte for byte.
    Replayed,
    /// The record was gone, and the charge itself answered for its operation (P21).
    ExistingResource,
    /// A refusal: the request was not the one the key stands for.
    Refused,
    /// A second charge.
    ChargedAgain,
    /// Something that is none of these.
    Otherwise,
}

/// What repeats of one charge were answered with.
pub(super) struct Repeats {
    pub(super) within_ttl: Repeat,
    pub(super) after_ttl: Repeat,
    pub(super) other_body_after_ttl: Repeat,
}

/// Charges once, and repeats that in the last second of the TTL, and when it is over and the record purged.
pub(super) async fn ask(ttl: Duration) -> Result<Repeats, Error> {
    let payments = Payments::start_with_ttl(ttl).await?;
    let asked = Counter::at(&payments).ask(&payments, ttl).await;
    payments.stop().await;
    asked
}

/// A caller with one order.
struct Counter {
    wire: Wire,
    order: String,
    key: String,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Value>,
}

impl Counter {
    fn at(payments: &Payments) -> Self {
        let order = format!("day-{}", run_nonce());
        let wire = Wire::new(Route::Direct(payments.running().authority().to_owned()));
        Self { wire, key: format!("charge:{order}"), order }
    }

    async fn ask(mut self, payments: &Payments, ttl: Duration) -> Result<Repeats, Error> {
        const PRICE: u64 = 25;
        let moment = Duration::from_secs(1);
        let first = self.charge(PRICE).await?;
        if first.status != StatusCode::CREATED {
            return Err(Error::answered(THE_CHARGE, &first));
        }

        payments.pass(ttl - moment);
        let within_ttl = self.repeat(PRICE, &first).await?;
        payments.pass(moment * 2);
        payments.purge().await?;
        let after_ttl = self.repeat(PRICE, &first).await?;
        let other_body_after_ttl = self.repeat(PRICE * 2, &first).await?;
        Ok(Repeats { within_ttl, after_ttl, other_body_after_ttl })
    }

    async fn charge(&mut self, dollars: u64) -> Result<Answer, Error> {
        let body = json!({ "order_id": self.order, "amount": dollars * CENTS, "currency": CURRENCY });
        let call = Call::post("/v1/charges", &self.key, Bytes::from(body.to_string()));
        self.wire.send(&call).await.map_err(|cut| Error::cut(THE_CHARGE, &cut))
    }

    /// What a repeat gets, by its answer, the service's books, and whether there was a record when it came.
    async fn repeat(&mut self, dollars: u64, first: &Answer) -> Result<Repeat, Error> {
        let had_record = self.has_record().await?;
        let repeat = self.charge(dollars).await?;
        if self.charges().await? != 1 {
            return Ok(Repeat::ChargedAgain);
        }
        let is_marked = repeat.headers.get("idempotent-replayed").is_some_and(|mark| mark == "true");
        Ok(match repeat.status {
            StatusCode::UNPROCESSABLE_ENTITY => Repeat::Refused,
            StatusCode::CREATED if is_marked && had_record && repeat.body == first.body => Repeat::Replayed,
            StatusCode::CREATED if is_marked && !had_record && charge_id(first)? == charge_id(&repeat)? => {
                Repeat::ExistingResource
            }
            _ => Repeat::Otherwise,
        })
    }

    /// Charges of the order in the service's books.
    async fn charges(&mut self) -> Result<usize, Error> {
        let listed: Listed = self.get(&format!("/v1/charges?order_id={}", self.order)).await?.json()?;
        Ok(listed.data.len())
    }

    async fn has_record(&mut self) -> Result<bool, Error> {
        let path = format!("/v1/idempotency-keys/{}", as_segment(&self.key));
        Ok(self.get(&path).await?.status == StatusCode::OK)
    }

    async fn get(&mut self, path: &str) -> Result<Answer, Error> {
        self.wire.send(&Call::get(path)).await.map_err(|cut| Error::cut((path, path), &cut))
    }
}

/// What is asked, as an error names it.
const THE_CHARGE: (&str, &str) = ("the day's charge", "el cobro del día");

fn charge_id(answer: &Answer) -> Result<Value, Error> {
    Ok(answer.json::<Value>()?["id"].take())
}
