//! Mercado Pago's webhooks: `x-signature: ts=…,v1=…`, an HMAC in hex over the payment's id, the request's and the time
//! (P24). The body is not covered; all that is taken from it is the id, which the signature proves.

use serde::Deserialize;
use unavez_core::identity::Tenant;
use unavez_core::time::Time;

use crate::acquirer::signature::{self, Refused};
use crate::acquirer::vendor::{SharedSecrets, unhex, values_of};
use crate::acquirer::{EventRefusal, Reason};

const SIGNATURE: &str = "x-signature";
const REQUEST_ID: &str = "x-request-id";

/// Times above are milliseconds: as seconds it would be the year 5138.
const SECONDS_MAX: i64 = 100_000_000_000;

#[derive(Deserialize)]
struct Body {
    #[serde(rename = "type")]
    kind: String,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    id: Id,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
}

impl Id {
    fn into_text(self) -> String {
        match self {
            Self::Number(id) => id.to_string(),
            Self::Text(id) => id,
        }
    }
}

/// A webhook whose signature was right.
pub(super) struct Notice {
    /// The request's id: it is signed, and the body's own is not.
    pub(super) id: Box<str>,
    pub(super) tenant: Option<Tenant>,
    /// Which payment changed; `None`: something else did.
    pub(super) payment: Option<String>,
}

pub(super) fn read(
    secrets: &SharedSecrets,
    headers: &http::HeaderMap,
    body: &[u8],
    now: Time,
) -> Result<Notice, EventRefusal> {
    // Without the id in the body there is nothing that a signature could be checked over.
    let unsigned = |why: String| EventRefusal::NotSigned(Reason(why.into()));
    let Body { kind, data } = serde_json::from_slice(body)
        .map_err(|_| unsigned("the body names nothing that could be signed".to_owned()))?;
    let subject = data.id.into_text();
    let (id, tenant) =
        verify(secrets, headers, &subject, now).map_err(|refused| unsigned(refused.to_string()))?;
    let is_payment = kind == "payment" && subject.bytes().all(|byte| byte.is_ascii_digit());
    Ok(Notice { id, tenant, payment: is_payment.then_some(subject) })
}

fn verify(
    secrets: &SharedSecrets,
    headers: &http::HeaderMap,
    subject: &str,
    now: Time,
) -> Result<(Box<str>, Option<Tenant>), Refused> {
    let header = signature::only(headers, SIGNATURE)?;
    let request_id = signature::only(headers, REQUEST_ID)?;
    let mut times = values_of(header, "ts");
    let (Some(time), None) = (times.next(), times.next()) else { return Err(Refused::Header(SIGNATURE)) };
    let signed_at = time_of(time).ok_or(Refused::Header(SIGNATURE))?;
    let signatures: Vec<_> = values_of(header, "v1").filter_map(unhex).collect();
    let manifest = format!("id:{};request-id:{request_id};ts:{time};", subject.to_ascii_lowercase());
    let tenant = secrets.verify(&[manifest.as_bytes()], &signatures)?;
    if signature::is_in_time(signed_at, now) { Ok((request_id.into(), tenant)) } else { Err(Refused::Time) }
}

/// Older pages show seconds, newer ones milliseconds.
fn time_of(text: &str) -> Option<Time> {
    signature::seconds(text)?;
    let number: i64 = text.parse().ok()?;
    let factor = if number > SECONDS_MAX { 1_000 } else { 1_000_000 };
    Some(Time::from_micros(number.saturating_mul(factor)))
}
