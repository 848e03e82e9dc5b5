//! What undoes a charge, ready to be typed: with a key that makes a second try harmless.

use unavez_payments::charge::{Charge, Status};

/// The request that gives back what a charge took; `None` where it took nothing, or has given it back.
pub(crate) fn give_back(charge: &Charge) -> Option<String> {
    let id = charge.id;
    let (step, key) = match charge.status {
        Status::Authorized => ("void", "void"),
        Status::Captured if charge.amount_refunded < charge.amount_captured => ("refunds", "refund"),
        _ => return None,
    };
    Some(format!(
        "curl -X POST http://127.0.0.1:8080/v1/charges/{id}/{step} -H 'Idempotency-Key: {key}:dup:{id}' \
         -H 'Content-Type: application/json' -d '{{}}'"
    ))
}
