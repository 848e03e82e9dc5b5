//! One charge as the store sees it: the claim of its request, and the answer that is kept.

use bytes::Bytes;
use serde_json::json;
use unavez_core::{
    answer::{Answer, Conclusion, Content, Headers},
    derive::derive,
    fingerprint::{Fingerprint, RequestParts, Rules},
    identity::{AttemptId, Realm, RecordId, Tenant},
    record::{Claim, Exposure, Finish},
    timing::Timings,
};

use super::world::Memory;
use crate::money::CURRENCY;

/// A charge of the day, ready to be claimed.
pub(super) struct Charge {
    pub(super) id: RecordId,
    pub(super) claim: Claim,
    pub(super) finish: Finish,
}

impl Charge {
    /// The charge of this number, counted from the first one of the day.
    pub(super) fn new(realm: &Realm, number: u64, memory: Memory) -> Self {
        let order = format!("day-{number}");
        let body = json!({ "order_id": order, "amount": 2500, "currency": CURRENCY }).to_string();
        let tenant = Tenant::single();
        let key = derive("charge", &[&order]).expect("order ids are short and printable");
        let id = RecordId::of(realm, &tenant, &key);
        let claim = Claim {
            tenant,
            key,
            fingerprint: fingerprint(body.as_bytes()),
            attempt: AttemptId::from_bytes(*uuid::Uuid::new_v4().as_bytes()),
            timing: Timings::default().attempt(),
            exposure: Exposure::Contained,
        };
        Self { id, claim, finish: finish(id, &order, memory) }
    }
}

fn fingerprint(body: &[u8]) -> Fingerprint {
    let request = RequestParts {
        method: "POST",
        path: "/v1/charges",
        query: None,
        content_type: Some("application/json"),
        content_encoding: None,
        body,
    };
    Fingerprint::of(&request, &Rules::default()).expect("the lab's own bodies are unambiguous JSON")
}

/// The service's answer to such a charge, so that a record is as long as the service's.
fn finish(id: RecordId, order: &str, memory: Memory) -> Finish {
    let (charge, operation) = (format!("ch_{id}"), format!("op_{id}"));
    let body = json!({
        "id": charge, "object": "charge", "order_id": order, "amount": 2500, "currency": CURRENCY,
        "status": "captured", "amount_captured": 2500, "amount_refunded": 0, "operation_id": operation,
        "metadata": {}, "created_at": "2026-01-01T00:00:00.000000Z",
    });
    let headers: Headers = vec![("content-type".into(), Bytes::from_static(b"application/json"))];
    Finish {
        conclusion: Conclusion::Approved,
        answer: Answer { status: 201, content: Content::Kept { headers, body: body.to_string().into() } },
        response_ttl: memory.response_ttl(),
        resource: Some(charge.into()),
    }
}
