//! Stripe's webhooks: `Stripe-Signature: t=…,v1=…`, an HMAC in hex over `t.body` (P24).

use serde::Deserialize;
use serde_json::value::RawValue;
use unavez_core::time::Time;

use super::compose::CAPTURE_ID;
use super::object::{Object as _, PaymentIntent, Refund};
use super::reading;
use crate::acquirer::signature::{self, Refused};
use crate::acquirer::vendor::{SharedSecrets, unhex, values_of};
use crate::acquirer::{Event, EventRefusal, News, Reason};

const SIGNATURE: &str = "stripe-signature";

#[derive(Deserialize)]
struct Body {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Box<RawValue>,
}

pub(super) fn read(
    secrets: &SharedSecrets,
    headers: &http::HeaderMap,
    body: &[u8],
    now: Time,
) -> Result<Event, EventRefusal> {
    let tenant = verify(secrets, headers, body, now)
        .map_err(|refused| EventRefusal::NotSigned(Reason(refused.to_string().into())))?;
    let malformed = |_| EventRefusal::Malformed(Reason("the body is no event".into()));
    let Body { id, kind, data } = serde_json::from_slice(body).map_err(malformed)?;
    let news = news(&kind, data.object.get()).map_err(EventRefusal::Malformed)?;
    Ok(Event { id: id.into(), tenant, news })
}

fn verify(
    secrets: &SharedSecrets,
    headers: &http::HeaderMap,
    body: &[u8],
    now: Time,
) -> Result<Option<unavez_core::identity::Tenant>, Refused> {
    let header = signature::only(headers, SIGNATURE)?;
    let mut times = values_of(header, "t");
    let (Some(time), None) = (times.next(), times.next()) else { return Err(Refused::Header(SIGNATURE)) };
    let signed_at = signature::seconds(time).ok_or(Refused::Header(SIGNATURE))?;
    let signatures: Vec<_> = values_of(header, "v1").filter_map(unhex).collect();
    let tenant = secrets.verify(&[time.as_bytes(), b".", body], &signatures)?;
    if signature::is_in_time(signed_at, now) { Ok(tenant) } else { Err(Refused::Time) }
}

/// What an event of that type tells. Objects without our mark were not made here.
fn news(kind: &str, object: &str) -> Result<News, Reason> {
    let unreadable = |_| Reason("the event's object cannot be read".into());
    match kind {
        // A cancelled payment is a void or a lapse: which of them, and of what, is for a question to find out.
        "payment_intent.canceled" => Ok(News::Other),
        _ if kind.starts_with("payment_intent.") => {
            let intent: PaymentIntent = serde_json::from_str(object).map_err(unreadable)?;
            if intent.operation_id().is_none() {
                return Ok(News::Other);
            }
            let is_capture = intent.metadata.contains_key(CAPTURE_ID);
            let read = if is_capture { reading::read_capture } else { reading::read_payment };
            read(&intent).map(|(standing, report)| News::Operation(standing, report))
        }
        "refund.created" | "refund.updated" | "refund.failed" | "charge.refund.updated" => {
            let refund: Refund = serde_json::from_str(object).map_err(unreadable)?;
            if refund.operation_id().is_none() {
                return Ok(News::Other);
            }
            reading::read_refund(&refund).map(|(standing, report)| News::Operation(standing, report))
        }
        _ => Ok(News::Other),
    }
}
