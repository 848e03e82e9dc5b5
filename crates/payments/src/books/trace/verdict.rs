//! Was the order charged twice, and why: read from what is stored.

use unavez_core::record::State;

use super::{ChargeTrace, OrderTrace};
use crate::acquirer::Kind;
use crate::books::{ByOperator, OperationHistory, OperationStanding, Reason, Through};
use crate::charge::{Charge, ChargeId, Status};

/// What became of an order. The gravest truth of all its charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The acquirer executed one operation more than once.
    ExecutedTwice(ChargeId),
    /// The acquirer and the books say different things of one operation.
    Contradicted(ChargeId),
    /// Several charges took money, each under a key of its own.
    SeveralKeys {
        /// Which, oldest first.
        charges: Vec<ChargeId>,
        /// Whether they are of one amount, as a retry with a new key would be.
        same_amount: bool,
        /// Whether all but one of them were paid back in full.
        given_back: bool,
    },
    /// It is not known of these charges whether they took money.
    NotKnown {
        /// Which, oldest first.
        open: Vec<ChargeId>,
        /// Whether one of them waits for a person.
        held: bool,
        /// A charge that did take money.
        taken: Option<ChargeId>,
    },
    /// A charge did not take money by the word of an operator alone: the acquirer has not said so.
    OnlyRuled {
        /// Which.
        ruled: ChargeId,
        /// A charge that did take money.
        taken: Option<ChargeId>,
    },
    /// One charge took money.
    Once(ChargeId, How),
    /// None did.
    Nothing(Nothing),
}

/// How it became known that a charge took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The ledger's line is the effect, and commits with the key.
    Booked,
    /// The first answer of the acquirer said so.
    Answered,
    /// A later attempt was answered, after an earlier one was not found.
    SentAgain,
    /// The answer was lost, and the acquirer was asked.
    Asked,
    /// Asked before anything was sent, since the database may have forgotten, and the acquirer knew it.
    AskedFirst,
    /// Asked before anything was sent, the acquirer did not have it, and it was sent once.
    SentAfterAsking,
    /// The acquirer told by itself.
    Told,
    /// A person ruled.
    Ruled,
}

/// Why no money was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// The acquirer refused.
    Declined,
    /// An operator ruled so, and the acquirer agrees.
    Ruled(ChargeId),
    /// It was authorised and given up.
    Voided,
    /// Nothing was ever sent.
    NeverSent,
}

impl Verdict {
    /// Judges an order by its charges.
    #[must_use]
    pub fn of(order: &OrderTrace) -> Self {
        let charges = &order.charges;
        let found = |reason| charges.iter().find(|it| it.has_finding(reason)).map(|it| it.charge.id);
        if let Some(charge) = found(Reason::SecondPayment) {
            return Self::ExecutedTwice(charge);
        }
        if let Some(charge) = found(Reason::Contradiction) {
            return Self::Contradicted(charge);
        }
        let taken: Vec<&ChargeTrace> = charges.iter().filter(|it| it.has_taken()).collect();
        let open: Vec<&ChargeTrace> = charges.iter().filter(|it| it.is_open()).collect();
        let ruled = charges.iter().find(|it| it.is_only_ruled_out());
        match (taken.as_slice(), open.as_slice()) {
            ([] | [_], []) if let Some(ruled) = ruled => {
                Self::OnlyRuled { ruled: ruled.charge.id, taken: taken.first().map(|it| it.charge.id) }
            }
            ([], []) => Self::Nothing(nothing(charges)),
            ([one], []) => Self::Once(one.charge.id, one.how()),
            ([] | [_], open) => Self::NotKnown {
                open: open.iter().map(|it| it.charge.id).collect(),
                held: open.iter().any(|it| it.is_held()),
                taken: taken.first().map(|it| it.charge.id),
            },
            (several, _) => Self::several(several),
        }
    }

    fn several(taken: &[&ChargeTrace]) -> Self {
        let value = |charge: &Charge| (charge.amount, charge.currency);
        let kept = taken.iter().filter(|it| !it.is_given_back()).count();
        Self::SeveralKeys {
            charges: taken.iter().map(|it| it.charge.id).collect(),
            same_amount: taken.windows(2).all(|pair| value(&pair[0].charge) == value(&pair[1].charge)),
            given_back: kept <= 1,
        }
    }

    /// The answer to the question; `None`: it is not known.
    #[must_use]
    pub fn is_charged_twice(&self) -> Option<bool> {
        match self {
            Self::ExecutedTwice(_) | Self::SeveralKeys { .. } => Some(true),
            Self::Contradicted(_) => None,
            // One key is one charge, whatever becomes of it.
            Self::NotKnown { open, taken, .. } => (open.len() <= 1 && taken.is_none()).then_some(false),
            Self::OnlyRuled { taken, .. } => taken.is_none().then_some(false),
            Self::Once(..) | Self::Nothing(_) => Some(false),
        }
    }

    /// A word for scripts.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::ExecutedTwice(_) => "executed_twice",
            Self::Contradicted(_) => "contradicted",
            Self::SeveralKeys { .. } => "several_keys",
            Self::NotKnown { .. } => "not_known",
            Self::OnlyRuled { .. } => "only_ruled",
            Self::Once(..) => "once",
            Self::Nothing(_) => "nothing",
        }
    }
}

fn nothing(charges: &[ChargeTrace]) -> Nothing {
    let any = |status| charges.iter().any(|it| it.charge.status == status);
    let ruled = charges.iter().find(|it| it.charge.status == Status::Declined && it.ruling().is_some());
    if any(Status::Voided) {
        Nothing::Voided
    } else if let Some(ruled) = ruled {
        Nothing::Ruled(ruled.charge.id)
    } else if any(Status::Declined) {
        Nothing::Declined
    } else {
        Nothing::NeverSent
    }
}

impl ChargeTrace {
    /// The operation that made it, where it went outside.
    #[must_use]
    pub fn payment(&self) -> Option<&OperationHistory> {
        self.operations.iter().map(|(history, _)| history).find(|history| history.kind == Kind::Payment)
    }

    /// What an operator ruled about its payment.
    #[must_use]
    pub fn ruling(&self) -> Option<&ByOperator> {
        self.payment()?.ruling.as_ref()
    }

    /// Whether nothing but an operator's word says that it took no money.
    fn is_only_ruled_out(&self) -> bool {
        self.charge.status == Status::Declined && self.ruling().is_some_and(ByOperator::stands_alone)
    }

    /// Whether the customer's money was taken or set aside.
    #[must_use]
    pub fn has_taken(&self) -> bool {
        matches!(self.charge.status, Status::Captured | Status::Authorized)
    }

    /// Whether it is not known yet what became of its payment.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.charge.status, Status::Created | Status::Pending)
            && self.payment().is_some_and(|payment| !payment.standing.is_decided())
    }

    /// Whether something about it waits for a person.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let abandoned = |state: &State| matches!(state, State::Abandoned { .. });
        let is_held = |history: &OperationHistory| {
            !history.standing.is_decided() && history.anomalies.iter().any(|it| it.reason == Reason::Held)
        };
        self.operations.iter().any(|(history, _)| is_held(history))
            || self.record.as_ref().is_some_and(|record| abandoned(&record.state))
    }

    /// Whether it was authorised first and captured by a step of its own: two lines on some statements, one charge.
    #[must_use]
    pub fn is_captured_later(&self) -> bool {
        let is_capture = |history: &OperationHistory| {
            history.kind == Kind::Capture && history.standing == OperationStanding::Done
        };
        self.operations.iter().any(|(history, _)| is_capture(history))
    }

    fn is_given_back(&self) -> bool {
        self.charge.amount_captured > 0 && self.charge.amount_refunded == self.charge.amount_captured
    }

    fn has_finding(&self, reason: Reason) -> bool {
        self.operations.iter().any(|(history, _)| history.anomalies.iter().any(|it| it.reason == reason))
    }

    fn how(&self) -> How {
        let Some(payment) = self.payment() else { return How::Booked };
        let settled = payment.events.iter().rev().find_map(|event| Some((event, Through::of(event)?)));
        match settled {
            Some((_, Through::FirstQuestion)) => How::AskedFirst,
            Some((_, Through::Answer)) if payment.is_asked_first() && payment.sends() == 1 => {
                How::SentAfterAsking
            }
            Some((_, Through::Question)) => How::Asked,
            Some((_, Through::Webhook)) => How::Told,
            Some((_, Through::Hand)) => How::Ruled,
            Some((event, Through::Answer)) if event.attempt > Some(1) => How::SentAgain,
            Some((_, Through::Answer)) | None => How::Answered,
        }
    }
}
