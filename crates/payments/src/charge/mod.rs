//! A charge, and the words it is told in.

use std::fmt;

use unavez_core::identity::OperationId;
use unavez_core::time::Time;

use crate::hex::Hex;
use crate::money::{Amount, Currency};

pub mod card;
pub(crate) mod life;
pub mod request;
pub(crate) mod same_order;

pub use request::{ChargeRequest, Fault, Metadata, OrderId, PaymentMethod, TestToken};

/// `ch_` and the 32 hex digits of the charge's operation: whoever knows the one knows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChargeId(OperationId);

impl ChargeId {
    /// The charge that this operation makes.
    #[must_use]
    pub const fn of(operation: OperationId) -> Self {
        Self(operation)
    }

    /// Reads `ch_` and 32 lower-case hex digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("ch_")?;
        OperationId::parse(&["op_", digits].concat()).ok().map(Self)
    }

    /// The operation that made it.
    #[must_use]
    pub const fn operation_id(self) -> OperationId {
        self.0
    }
}

impl fmt::Display for ChargeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ch_")?;
        f.write_str(Hex::of(self.0.record_id().as_bytes()).as_str())
    }
}

/// `re_`, the digits of the charge's id, and which of the charge's refunds it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RefundId {
    /// The charge that is refunded.
    pub charge: ChargeId,
    /// Counted from 1.
    pub number: u32,
}

impl RefundId {
    /// Reads `re_`, 32 hex digits, `_` and a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, number) = text.strip_prefix("re_")?.split_once('_')?;
        let charge = ChargeId::parse(&["ch_", digits].concat())?;
        let id = Self { charge, number: number.parse().ok()? };
        // Only the one spelling: `+1` and `01` also parse as numbers.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for RefundId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "re_{}_{}", self.charge.operation_id().record_id(), self.number)
    }
}

/// Where a charge stands. The words are those of the wire and of stored rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Recorded, not sent.
    Created,
    /// Sent; the acquirer has not decided.
    Pending,
    /// Approved; nothing moved.
    Authorized,
    /// The money moved.
    Captured,
    /// Refused by the acquirer, for good.
    Declined,
    /// Given up before anything moved.
    Voided,
}

impl Status {
    const ALL: [Self; 6] =
        [Self::Created, Self::Pending, Self::Authorized, Self::Captured, Self::Declined, Self::Voided];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Pending => "pending",
            Self::Authorized => "authorized",
            Self::Captured => "captured",
            Self::Declined => "declined",
            Self::Voided => "voided",
        }
    }

    /// The reverse of [`Status::as_str`].
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One charge as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Its id.
    pub id: ChargeId,
    /// The caller's order.
    pub order_id: Box<str>,
    /// What is to be paid.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// Where it stands.
    pub status: Status,
    /// Minor units moved so far.
    pub amount_captured: i64,
    /// Minor units moved back so far.
    pub amount_refunded: i64,
    /// What the caller attached: a JSON object of strings, `None` for none.
    pub metadata: Option<Box<str>>,
    /// An earlier charge of the same order under another key, where that was suspected when this one was claimed.
    pub suspected_duplicate_of: Option<ChargeId>,
    /// What the customer has to do while the acquirer has not decided, as JSON.
    pub next_action: Option<Box<str>>,
    /// When its key was claimed.
    pub created_at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_id_is_its_operation_id_under_another_prefix() {
        let text = "ch_71dbf60ddff57a65e876c0875e809934";
        let id = ChargeId::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(id.operation_id().to_string(), "op_71dbf60ddff57a65e876c0875e809934");
        for other in ["", "ch_", "op_71dbf60ddff57a65e876c0875e809934", "ch_71DBF60ddff57a65e876c0875e809934"]
        {
            assert_eq!(ChargeId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_refund_id_has_one_spelling() {
        let text = "re_71dbf60ddff57a65e876c0875e809934_12";
        assert_eq!(RefundId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        for other in
            ["re_71dbf60ddff57a65e876c0875e809934", "re_71dbf60ddff57a65e876c0875e809934_01", "re__1"]
        {
            assert_eq!(RefundId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn words_read_back() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
    }
}
