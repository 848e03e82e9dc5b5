//! What the service can be told, and what of it cannot be true together.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use unavez_core::identity::Tenant;
use unavez_core::timing::Timings;

/// Every setting of the service. The defaults are those of `unavez serve`.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where money moves.
    pub acquirer: AcquirerKind,
    /// The two clocks and the store's timeout.
    pub timings: Timings,
    /// How much is let in at once.
    pub limits: Limits,
    /// What happens to a second charge of an order under another key.
    pub same_order: SameOrder,
    /// One API key a line ([`crate::auth`]). `None`: every caller is the tenant `default` with every role.
    pub api_keys_file: Option<PathBuf>,
    /// The tenant of the API key file that owns what was stored under `default` before there were keys.
    pub default_tenant: Option<Tenant>,
    /// Seals stored answers, and makes fingerprints HMACs (P23).
    pub seal_key_file: Option<PathBuf>,
}

/// Where money moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcquirerKind {
    /// The ledger line is the whole effect: one commit a charge.
    #[default]
    Ledger,
}

/// How much is let in at once. What exceeds a limit is refused with a problem that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests inside the service; above: 503 `overloaded`.
    pub in_flight_max: usize,
    /// Bytes of a request's body; above: 413 `too-large`.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_flight_max: 1024, body_bytes_max: 256 * 1024, body_timeout: Duration::from_secs(10) }
    }
}

/// What happens to a second charge of an order under another key. Charges that were declined do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameOrder {
    /// It runs.
    Allow,
    /// It runs, is counted as a suspected duplicate, and logged.
    #[default]
    Warn,
    /// It is refused: 409 `order-already-charged`, final.
    Refuse,
}

/// A word that names none of a setting's choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownChoice {
    what: &'static str,
    choices: &'static str,
    seen: String,
}

impl fmt::Display for UnknownChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}, allowed: {}", self.what, self.seen, self.choices)
    }
}

impl std::error::Error for UnknownChoice {}

impl AcquirerKind {
    /// The word of the command line and of `/healthz`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
        }
    }
}

impl FromStr for AcquirerKind {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        match word {
            "ledger" => Ok(Self::Ledger),
            _ => Err(UnknownChoice { what: "acquirer", choices: "ledger", seen: word.to_owned() }),
        }
    }
}

impl fmt::Display for AcquirerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl SameOrder {
    /// The word of the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Refuse => "refuse",
        }
    }
}

impl FromStr for SameOrder {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        match word {
            "allow" => Ok(Self::Allow),
            "warn" => Ok(Self::Warn),
            "refuse" => Ok(Self::Refuse),
            _ => Err(UnknownChoice {
                what: "same-order",
                choices: "allow, warn, refuse",
                seen: word.to_owned(),
            }),
        }
    }
}

impl fmt::Display for SameOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
