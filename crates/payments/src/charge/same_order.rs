//! Whether an order may be charged when it has another charge already.
//!
//! 1. It is judged in the transaction that permits a send, before the first one and before every later one: between two
//!    judgements another charge of the order may have come.
//! 2. What holds the order's money, or may have moved it, counts. Declined, voided and wholly refunded charges do not: the
//!    order is still to be paid. Nor does one of which certainly nothing was sent.
//! 3. A refusal is final, so it needs a charge that is decided. While the other one is open, the caller is told to come
//!    again, and nothing is stored: of two charges that nobody has decided, the one whose send was permitted first wins.
//! 4. What may have been sent is never refused for good by this: it may have taken effect. It is only not sent again.

use super::ChargeId;
use crate::settings::SameOrder;

/// Another charge of the order, under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// Authorized or captured.
    Decided(ChargeId),
    /// May have been sent, and nobody knows what became of it.
    Open(ChargeId),
}

/// What follows for a charge that is about to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// It is sent, and names the other one.
    Send { suspected_duplicate_of: Option<ChargeId> },
    /// Never: the order is charged.
    Refuse(ChargeId),
    /// Not now: the other one may turn out to be the order's charge.
    Wait(ChargeId),
}

impl Permission {
    /// What `rule` says about a charge whose order has this other one.
    pub(crate) const fn of(rule: SameOrder, rival: Option<Rival>) -> Self {
        match (rule, rival) {
            (SameOrder::Allow, _) | (_, None) => Self::Send { suspected_duplicate_of: None },
            (SameOrder::Warn, Some(Rival::Decided(first) | Rival::Open(first))) => {
                Self::Send { suspected_duplicate_of: Some(first) }
            }
            (SameOrder::Refuse, Some(Rival::Decided(first))) => Self::Refuse(first),
            (SameOrder::Refuse, Some(Rival::Open(first))) => Self::Wait(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unavez_core::identity::RecordId;

    #[test]
    fn a_refusal_needs_a_charge_that_is_decided() {
        let first = ChargeId::of(RecordId::from_bytes([7; 16]).operation_id());
        let send = |suspected_duplicate_of| Permission::Send { suspected_duplicate_of };
        for (rule, decided, open) in [
            (SameOrder::Allow, send(None), send(None)),
            (SameOrder::Warn, send(Some(first)), send(Some(first))),
            (SameOrder::Refuse, Permission::Refuse(first), Permission::Wait(first)),
        ] {
            assert_eq!(Permission::of(rule, None), send(None), "{rule}");
            assert_eq!(Permission::of(rule, Some(Rival::Decided(first))), decided, "{rule}");
            assert_eq!(Permission::of(rule, Some(Rival::Open(first))), open, "{rule}");
        }
    }
}
