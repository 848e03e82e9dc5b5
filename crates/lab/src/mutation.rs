//! The pieces that can be taken out on purpose, by name.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

/// One piece of the protocol taken out. Two of them sit in the client, the others in the store's reading or writing, or
/// between the service and its acquirer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The client makes a new key for every attempt (against P29).
    KeyPerAttempt,
    /// The client makes the key from the amount, so that two orders of one price become one operation (against P29).
    KeyFromAmount,
    /// A claim looks whether the record is there and then writes it, in two steps (against P8).
    CheckThenWrite,
    /// A repeat is taken for the same request whatever its body says (against P5, P6).
    NoFingerprint,
    /// A write is accepted from an owner that was overtaken (against P11).
    NoFence,
    /// The record finishes, and the answer is thrown away (against P18).
    AnswerNotStored,
    /// The record is written when the work is done, not before it begins (against P8).
    KeyAfterWork,
    /// A record in progress is treated as if nobody had claimed it (against P10).
    InProgressIgnored,
    /// An unknown outcome is sent again, and nobody asks (against P16).
    NoLookup,
    /// A takeover is accepted whatever record its writer saw (against P11, P16).
    UnconditionalTakeover,
    /// Answers are remembered as long as an attempt may take: two clocks are one (against P9).
    OneClock,
    /// A lost attempt is never taken over (against P16).
    ZombieNeverReclaimed,
    /// "Not found" counts at once (against P16).
    NoVisibilityDelay,
    /// Every delivery of an event takes effect (against P25).
    WebhookTwice,
    /// An attempt after the first has a new name at the acquirer (against P16).
    NewOperationIdOnReclaim,
}

impl Mutation {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 15] = [
        Self::KeyPerAttempt,
        Self::KeyFromAmount,
        Self::CheckThenWrite,
        Self::NoFingerprint,
        Self::NoFence,
        Self::AnswerNotStored,
        Self::KeyAfterWork,
        Self::InProgressIgnored,
        Self::NoLookup,
        Self::UnconditionalTakeover,
        Self::OneClock,
        Self::ZombieNeverReclaimed,
        Self::NoVisibilityDelay,
        Self::WebhookTwice,
        Self::NewOperationIdOnReclaim,
    ];

    /// Whether the client makes the mistake, so that any service can be shown it.
    pub fn is_in_the_client(self) -> bool {
        matches!(self, Self::KeyPerAttempt | Self::KeyFromAmount)
    }

    /// Whether the piece is missed where a charge leaves the house: then every test is made without it. The others are
    /// taken out of work that stays in the house, where a race among them has one outcome; going outside adds others.
    pub fn is_about_the_outside(self) -> bool {
        match self {
            Self::NoLookup
            | Self::UnconditionalTakeover
            | Self::OneClock
            | Self::ZombieNeverReclaimed
            | Self::NoVisibilityDelay
            | Self::WebhookTwice
            | Self::NewOperationIdOnReclaim => true,
            Self::KeyPerAttempt
            | Self::KeyFromAmount
            | Self::CheckThenWrite
            | Self::NoFingerprint
            | Self::NoFence
            | Self::AnswerNotStored
            | Self::KeyAfterWork
            | Self::InProgressIgnored => false,
        }
    }

    /// The rules of the protocol that it takes something out of.
    pub(crate) fn rules(self) -> &'static [u8] {
        match self {
            Self::KeyPerAttempt | Self::KeyFromAmount => &[29],
            Self::CheckThenWrite | Self::KeyAfterWork => &[8],
            Self::NoFingerprint => &[5, 6],
            Self::NoFence => &[11],
            Self::AnswerNotStored => &[18],
            Self::InProgressIgnored => &[10],
            Self::UnconditionalTakeover => &[11, 16],
            Self::OneClock => &[9],
            Self::NoLookup
            | Self::ZombieNeverReclaimed
            | Self::NoVisibilityDelay
            | Self::NewOperationIdOnReclaim => &[16],
            Self::WebhookTwice => &[25],
        }
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeyPerAttempt => "key-per-attempt",
            Self::KeyFromAmount => "key-from-amount",
            Self::CheckThenWrite => "check-then-write",
            Self::NoFingerprint => "no-fingerprint",
            Self::NoFence => "no-fence",
            Self::AnswerNotStored => "answer-not-stored",
            Self::KeyAfterWork => "key-after-work",
            Self::InProgressIgnored => "in-progress-ignored",
            Self::NoLookup => "no-lookup",
            Self::UnconditionalTakeover => "unconditional-takeover",
            Self::OneClock => "one-clock",
            Self::ZombieNeverReclaimed => "zombie-never-reclaimed",
            Self::NoVisibilityDelay => "no-visibility-delay",
            Self::WebhookTwice => "webhook-twice",
            Self::NewOperationIdOnReclaim => "new-operation-id-on-reclaim",
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl Serialize for Mutation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that is none of [`Mutation::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMutation(String);

impl fmt::Display for UnknownMutation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no mutation {:?}; there are {}", self.0, Mutation::ALL.map(Mutation::name).join(", "))
    }
}

impl std::error::Error for UnknownMutation {}

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(name: &str) -> Result<Self, UnknownMutation> {
        Self::ALL
            .into_iter()
            .find(|mutation| mutation.name() == name)
            .ok_or_else(|| UnknownMutation(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for mutation in Mutation::ALL {
            assert_eq!(mutation.name().parse(), Ok(mutation));
        }
        let refused = "no-such".parse::<Mutation>().expect_err("not a mutation").to_string();
        assert!(refused.starts_with("no mutation \"no-such\"; there are key-per-attempt, "), "{refused}");
    }
}
