//! What a server requires of keys, and how its answers are read.
//!
//! A preset is a plain value: take the nearest one and change what differs.
//!
//! ```
//! use std::time::Duration;
//! use unavez_client::Preset;
//!
//! let ours = Preset { retention: Some(Duration::from_secs(3600)), ..Preset::ietf() };
//! # let _ = ours;
//! ```
//!
//! What counts as the stored outcome is the safety of the whole: an answer that is believed and comes from a layer
//! before the record turns a charge into "refused". Where a vendor does not say, only 2xx counts.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;

mod vendors;

/// The settings for one kind of server.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name, for messages.
    pub name: &'static str,
    /// Where it reads the key.
    pub key: KeyPlace,
    /// The longest key it takes.
    pub key_length_max: usize,
    /// Which answers are the outcome that it keeps for the key (P32).
    pub recorded: Recorded,
    /// A status with which it says that it has accepted the operation and not decided.
    pub pending: Option<u16>,
    /// What a 409 means that does not say more.
    pub conflict: Conflict,
    /// Where it says whether the same request may be sent again.
    pub hint: Hint,
    /// The path below which it answers what became of a key, which follows percent-encoded (P22).
    pub key_status: Option<&'static str>,
    /// For how long it says that it keeps keys; `None`: for ever, or it does not say (P29).
    pub retention: Option<Duration>,
}

/// Where a server reads the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A header, with the value as it is.
    Bare(HeaderName),
    /// A header, with the value as it is where that is possible, and otherwise as a String of RFC 9651.
    BareOrString(HeaderName),
    /// A header, with the value as a String of RFC 9651.
    String(HeaderName),
    /// A member of the JSON body.
    Member(&'static str),
}

/// Which answers come from the key's record.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// Statuses that only come from there. None beside some marks: the server marks all that it keeps, and a success
    /// without a mark is not its own.
    pub statuses: &'static [RangeInclusive<u16>],
    /// Headers that stand on nothing else.
    pub marks: &'static [Mark],
    /// Statuses from this on do not count, with a mark or without.
    pub below: u16,
}

/// A header that marks a stored answer. More than one line of it is no mark.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Its name, in lower case.
    pub name: &'static str,
    /// What it says.
    pub value: MarkValue,
}

/// The value of a mark. Any other one is no mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkValue {
    /// This text.
    Exactly(&'static str),
    /// A time (RFC 3339).
    Time,
}

/// What a 409 means that does not say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The operation is running: the same request later.
    Running,
    /// A refusal.
    Refusal,
}

/// Where a server says whether the same request may be sent again.
#[derive(Clone, Debug)]
pub enum Hint {
    /// Nowhere.
    Nowhere,
    /// In a header: `true` or `false`.
    Header(HeaderName),
    /// In the member `retryable` of a problem document (RFC 9457).
    Problem,
}
