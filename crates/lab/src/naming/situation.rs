//! What happens to a client that charges orders, and how many charges are then right.

use serde::{Serialize, Serializer};

use super::{Naming, shop::Operation};
use crate::lang::Lang;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// The answer is lost, and the same worker repeats.
    AnswerLost,
    /// The answer is lost, the client is started anew and repeats.
    ClientForgets,
    /// A queue delivers the order twice, to two workers.
    DeliveredTwice,
    /// The order is charged once more on purpose, at the same price.
    SecondCharge,
    /// The order is charged once more on purpose, at another price.
    SecondAmount,
    /// The card is declined, and the customer takes another one.
    OtherCard,
    /// Two orders of one price.
    TwoOrders,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// An attempt whose answer arrives.
    Charge(Operation),
    /// An attempt whose answer is lost.
    ChargeLosing(Operation),
    /// From here on it is another worker, or the same one with its memory gone.
    AnotherWorker,
}

const CHARGE: Operation = Operation { order: 1, occurrence: 1, dollars: 500, payment_method: "tok_approve" };
const AGAIN: Operation = Operation { occurrence: 2, ..CHARGE };
const AGAIN_DEARER: Operation = Operation { dollars: 700, ..AGAIN };
const DECLINED: Operation = Operation { payment_method: "tok_decline", ..CHARGE };
const OTHER_ORDER: Operation = Operation { order: 2, ..CHARGE };

impl Situation {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 7] = [
        Self::AnswerLost,
        Self::ClientForgets,
        Self::DeliveredTwice,
        Self::SecondCharge,
        Self::SecondAmount,
        Self::OtherCard,
        Self::TwoOrders,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AnswerLost => "answer-lost",
            Self::ClientForgets => "client-forgets",
            Self::DeliveredTwice => "delivered-twice",
            Self::SecondCharge => "second-charge",
            Self::SecondAmount => "second-amount",
            Self::OtherCard => "other-card",
            Self::TwoOrders => "two-orders",
        }
    }

    /// What a table calls it.
    pub(super) fn label(self, lang: Lang) -> &'static str {
        match self {
            Self::AnswerLost => lang.say("answer lost", "respuesta perdida"),
            Self::ClientForgets => lang.say("client forgets", "cliente olvida"),
            Self::DeliveredTwice => lang.say("delivered twice", "entregado dos veces"),
            Self::SecondCharge => lang.say("second charge", "segundo cobro"),
            Self::SecondAmount => lang.say("second amount", "segundo monto"),
            Self::OtherCard => lang.say("other card", "otra tarjeta"),
            Self::TwoOrders => lang.say("two orders", "dos pedidos"),
        }
    }

    pub(super) fn acts(self) -> &'static [Act] {
        use Act::{AnotherWorker, Charge, ChargeLosing};
        match self {
            Self::AnswerLost => &[ChargeLosing(CHARGE), Charge(CHARGE)],
            Self::ClientForgets => &[ChargeLosing(CHARGE), AnotherWorker, Charge(CHARGE)],
            Self::DeliveredTwice => &[Charge(CHARGE), AnotherWorker, Charge(CHARGE)],
            Self::SecondCharge => &[Charge(CHARGE), Charge(AGAIN)],
            Self::SecondAmount => &[Charge(CHARGE), Charge(AGAIN_DEARER)],
            Self::OtherCard => &[Charge(DECLINED), Charge(AGAIN)],
            Self::TwoOrders => &[Charge(CHARGE), Charge(OTHER_ORDER)],
        }
    }

    /// Charges that are meant, and what they cost.
    pub(super) fn expected(self) -> (u64, u64) {
        match self {
            Self::AnswerLost | Self::ClientForgets | Self::DeliveredTwice | Self::OtherCard => (1, 500),
            Self::SecondCharge | Self::TwoOrders => (2, 1_000),
            Self::SecondAmount => (2, 1_200),
        }
    }

    /// Charges that this kind of key will make.
    pub(super) fn predicted(self, naming: Naming) -> u64 {
        use Naming::{Derived, NamesAmount, NamesAttempt, NamesTime, Random};
        let (right, _) = self.expected();
        match (self, naming) {
            // Made anew by whoever repeats.
            (Self::ClientForgets | Self::DeliveredTwice, Random) => 2,
            (Self::AnswerLost, NamesAttempt) => 2,
            (Self::AnswerLost | Self::ClientForgets | Self::DeliveredTwice, NamesTime) => 2,
            // Taken for a repeat of the first.
            (Self::SecondCharge | Self::SecondAmount, Derived) => 1,
            (Self::SecondCharge | Self::TwoOrders, NamesAmount) => 1,
            (Self::OtherCard, Derived | NamesAmount) => 0,
            _ => right,
        }
    }
}

impl Serialize for Situation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
