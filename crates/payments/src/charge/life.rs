//! The life of a charge: which step is allowed when, and what each leaves behind.
//!
//! 1. A capture or a void takes the charge's one slot: while it is under way, and for good once it is done, there is no
//!    other. It gives the slot back if it comes to nothing.
//! 2. A refund reserves its amount when it is claimed. Reserved and refunded together are never more than was captured,
//!    and what is not known to have failed stays reserved.
//! 3. Money moves with a capture and with a refund. Authorising and voiding move none.
//!
//! Pure: rows are read before and written after. The database checks the same rules once more.

use std::fmt;

use super::request::Capture;
use super::{Charge, ChargeId, Status};
use crate::acquirer::Kind;
use crate::books::EntryKind;
use crate::money::Amount;

/// A charge with all that is under way on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) charge: Charge,
    /// What refunds under way have reserved, in minor units.
    pub(crate) refunding: i64,
    /// The capture or void that is under way.
    pub(crate) slot: Option<Kind>,
}

/// A step in a charge's life, as it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    /// `None`: an id that cannot be a charge's.
    pub(crate) charge: Option<ChargeId>,
    /// `None`: all there is.
    pub(crate) amount: Option<Amount>,
}

/// A step that a charge's state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Illegal {
    /// The charge stands otherwise than the step needs.
    Stands { step: Kind, needed: Status, status: Status },
    /// A capture or void is under way.
    UnderWay { step: Kind, slot: Kind },
    /// More than there is. In minor units.
    Exceeds { step: Kind, asked: i64, left: i64 },
    /// Everything was refunded, or is being refunded.
    NothingLeft,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It took effect.
    Done,
    /// Refused outside, for good.
    Declined,
    /// Certainly never sent. May be claimed again.
    Released,
}

impl Life {
    /// Of a charge whose payment is under way: nothing else can be.
    pub(crate) const fn claimed(charge: Charge) -> Self {
        Self { charge, refunding: 0, slot: None }
    }

    /// The amount of a step, resolved, if the step is allowed now.
    pub(crate) fn admit(&self, step: Kind, asked: Option<Amount>) -> Result<Amount, Illegal> {
        match step {
            Kind::Capture | Kind::Void => self.admit_in_slot(step, asked),
            Kind::Refund => self.admit_refund(asked),
            // A payment makes its charge.
            Kind::Payment => Ok(self.charge.amount),
        }
    }

    fn admit_in_slot(&self, step: Kind, asked: Option<Amount>) -> Result<Amount, Illegal> {
        self.require(step, Status::Authorized)?;
        if let Some(slot) = self.slot {
            return Err(Illegal::UnderWay { step, slot });
        }
        let authorized = self.charge.amount;
        match asked {
            Some(asked) if asked > authorized => {
                Err(Illegal::Exceeds { step, asked: asked.minor_units(), left: authorized.minor_units() })
            }
            asked => Ok(asked.unwrap_or(authorized)),
        }
    }

    fn admit_refund(&self, asked: Option<Amount>) -> Result<Amount, Illegal> {
        self.require(Kind::Refund, Status::Captured)?;
        let left = self.charge.amount_captured - self.charge.amount_refunded - self.refunding;
        let all = Amount::of_minor_units(left).ok_or(Illegal::NothingLeft)?;
        match asked {
            Some(asked) if asked > all => {
                Err(Illegal::Exceeds { step: Kind::Refund, asked: asked.minor_units(), left })
            }
            asked => Ok(asked.unwrap_or(all)),
        }
    }

    fn require(&self, step: Kind, needed: Status) -> Result<(), Illegal> {
        let status = self.charge.status;
        if status == needed { Ok(()) } else { Err(Illegal::Stands { step, needed, status }) }
    }

    /// What a claimed step sets aside.
    pub(crate) fn reserve(&mut self, step: Kind, amount: Amount) {
        match step {
            Kind::Capture | Kind::Void => self.slot = Some(step),
            Kind::Refund => self.refunding += amount.minor_units(),
            Kind::Payment => {}
        }
    }

    /// Sets aside another amount for a step instead of what was set aside for it; `false`: there is not so much.
    pub(crate) fn reserve_instead(&mut self, step: Kind, reserved: Amount, amount: Amount) -> bool {
        let refunding = match step {
            Kind::Refund => self.refunding - reserved.minor_units() + amount.minor_units(),
            Kind::Payment | Kind::Capture | Kind::Void => self.refunding,
        };
        let fits = match step {
            Kind::Refund => refunding <= self.charge.amount_captured - self.charge.amount_refunded,
            Kind::Capture => amount <= self.charge.amount,
            Kind::Payment | Kind::Void => amount == self.charge.amount,
        };
        if fits {
            self.refunding = refunding;
        }
        fits
    }

    /// The acquirer knows the payment and has not decided.
    pub(crate) fn pend(&mut self, step: Kind, next_action: Option<Box<str>>) {
        if step == Kind::Payment {
            self.charge.status = Status::Pending;
            self.charge.next_action = next_action;
        }
    }

    /// The end of an operation; the entry to be booked, where money moved.
    pub(crate) fn end(
        &mut self,
        step: Kind,
        amount: Amount,
        capture: Capture,
        ended: Ended,
    ) -> Option<EntryKind> {
        let units = amount.minor_units();
        match step {
            Kind::Payment => self.charge.next_action = None,
            Kind::Capture | Kind::Void => self.slot = None,
            Kind::Refund => self.refunding -= units,
        }
        match (step, ended) {
            (Kind::Payment, Ended::Declined) => self.charge.status = Status::Declined,
            (_, Ended::Declined | Ended::Released) => {}
            (Kind::Payment, Ended::Done) if capture == Capture::Later => {
                self.charge.status = Status::Authorized;
            }
            (Kind::Payment | Kind::Capture, Ended::Done) => {
                self.charge.status = Status::Captured;
                self.charge.amount_captured = units;
                return Some(EntryKind::Capture);
            }
            (Kind::Void, Ended::Done) => self.charge.status = Status::Voided,
            (Kind::Refund, Ended::Done) => {
                self.charge.amount_refunded += units;
                return Some(EntryKind::Refund);
            }
        }
        None
    }
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stands { step, needed, status } => {
                write!(f, "the charge is {status}, a {} needs one that is {needed}", step.as_str())
            }
            Self::UnderWay { step, slot } => write!(
                f,
                "a {} of the charge is under way, a {} needs one without",
                slot.as_str(),
                step.as_str()
            ),
            Self::Exceeds { step, asked, left } => {
                write!(f, "amount of the {} is {asked}, limit {left}", step.as_str())
            }
            Self::NothingLeft => {
                f.write_str("everything that was captured is refunded, or is being refunded")
            }
        }
    }
}
