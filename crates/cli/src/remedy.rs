//! What a charge without a line in the ledger means, and what undoes one, ready to be typed: with a key that makes a second try harmless.

use unavez_payments::books::OperationHistory;
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

/// What it means that nothing is booked of a charge. Of one that is not decided it means nothing at all.
pub(crate) fn nothing_booked<'a>(
    charge: &Charge,
    operations: impl IntoIterator<Item = &'a OperationHistory>,
) -> &'static str {
    let may_have_moved = operations.into_iter().any(OperationHistory::may_have_moved);
    match charge.status {
        _ if may_have_moved => "nothing booked here yet; money may have moved",
        Status::Authorized => "nothing booked: authorised, and not captured",
        Status::Voided => "nothing booked: the authorisation was given up, no money moved",
        Status::Declined => "nothing booked: declined, no money moved",
        // Released: whatever may have been sent is not decided, and was said above.
        Status::Created | Status::Pending => "nothing booked: nothing was sent, no money moved",
        Status::Captured => "nothing booked, though it is captured: the books do not fit together",
    }
}
