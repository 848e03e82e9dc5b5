//! What lies between callers and server, and what goes wrong there.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Serialize, Serializer};
use unavez_core::time::Time;

use crate::{Lang, fleet::Loss};

/// What goes wrong for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The line is cut: connections are refused, and answers under way are lost.
    Outage,
    /// Requests get through and are worked for; answers do not come back.
    Silence,
    /// The server is twenty times slower.
    Overload,
}

/// Not a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFault(String);

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Outage, Self::Silence, Self::Overload];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::Silence => "silence",
            Self::Overload => "overload",
        }
    }

    /// As a sentence calls it.
    pub(crate) fn say(self, lang: Lang) -> &'static str {
        match self {
            Self::Outage => lang.say("outage", "caída"),
            Self::Silence => lang.say("silence", "silencio"),
            Self::Overload => lang.say("overload", "sobrecarga"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, UnknownFault> {
        Self::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| UnknownFault(name.to_owned()))
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for UnknownFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no fault {:?}; there are {}", self.0, Fault::ALL.map(Fault::name).join(", "))
    }
}

impl std::error::Error for UnknownFault {}

/// How much slower an overloaded server is: a charge of 40 ms takes 0.8 s.
const SLOWER: u32 = 20;

/// The way from callers to server and back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// How long each way takes.
    pub(crate) latency: Duration,
    /// The share of answers that is lost on any day.
    pub(crate) loss: Loss,
    pub(crate) fault: Fault,
    /// When the fault begins.
    pub(crate) from: Time,
    /// When it is over.
    pub(crate) until: Time,
}

impl Line {
    fn is_faulty(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    /// Whether a request that arrives then finds no open door.
    pub(super) fn refuses(&self, at: Time) -> bool {
        self.fault == Fault::Outage && self.is_faulty(at)
    }

    /// Whether an answer that is sent then never arrives. `drawn` is from 0 to 1.
    pub(super) fn loses(&self, at: Time, drawn: f64) -> bool {
        let is_cut = matches!(self.fault, Fault::Outage | Fault::Silence);
        drawn < self.loss.share() || is_cut && (self.is_faulty(at) || self.is_faulty(at.plus(self.latency)))
    }

    /// How much longer work takes that is begun then.
    pub(super) fn slowness(&self, at: Time) -> u32 {
        if self.fault == Fault::Overload && self.is_faulty(at) { SLOWER } else { 1 }
    }
}
