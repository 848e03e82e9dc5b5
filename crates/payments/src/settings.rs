//! What the service can be told, and what of it cannot be true together.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use unavez_core::identity::Tenant;
use unavez_core::time::Time;
use unavez_core::timing::{Contradiction, Timings};

use crate::acquirer::http::BaseUrl;
use crate::money::Currency;

/// Every setting of the service. The defaults are those of `unavez serve`, but for the acquirer: the ledger needs nothing
/// else.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where money moves.
    pub acquirer: AcquirerKind,
    /// What a real acquirer needs.
    pub vendor: Vendor,
    /// The two clocks and the store's timeout. The timeout of calls outside is made of [`Settings::acquirer_timeout`].
    pub timings: Timings,
    /// How long the acquirer may take to answer; never more than an attempt has room for.
    pub acquirer_timeout: Duration,
    /// V of the acquirer (P16): longest flight, processing and visibility. `None`: what its adapter says.
    pub visibility_delay: Option<Duration>,
    /// Until then the acquirer is asked before the first send of every new claim: for a database that may have forgotten
    /// some, since it was restored. The ledger cannot be asked.
    pub ask_first_until: Option<Time>,
    /// Secrets that the acquirer signs its webhooks with ([`crate::acquirer::signature`]). Without it every webhook is
    /// refused, except those of the sandbox in this process.
    pub webhook_secret_file: Option<PathBuf>,
    /// How much is let in at once.
    pub limits: Limits,
    /// What happens to a second charge of an order under another key.
    pub same_order: SameOrder,
    /// How far back an earlier charge of the order counts.
    pub same_order_window: Duration,
    /// One API key a line ([`crate::auth`]). `None`: every caller is the tenant `default` with every role.
    pub api_keys_file: Option<PathBuf>,
    /// The tenant of the API key file that owns what was stored under `default` before there were keys.
    pub default_tenant: Option<Tenant>,
    /// Seals stored answers, and makes fingerprints HMACs (P23).
    pub seal_key_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            acquirer: AcquirerKind::default(),
            vendor: Vendor::default(),
            timings: Timings::default(),
            acquirer_timeout: Duration::from_secs(30),
            visibility_delay: None,
            ask_first_until: None,
            webhook_secret_file: None,
            limits: Limits::default(),
            same_order: SameOrder::default(),
            same_order_window: Duration::from_secs(24 * 3600),
            api_keys_file: None,
            default_tenant: None,
            seal_key_file: None,
        }
    }
}

impl Settings {
    /// The timings of a service whose acquirer is outside: its timeout is cut down to what an attempt has room for, two
    /// calls of the store beside it (P13).
    ///
    /// # Errors
    /// There is no room at all, or the timings contradict each other otherwise.
    pub fn timings_outside(&self) -> Result<Timings, Contradiction> {
        let timings = self.timings;
        let room = timings.attempt_deadline().saturating_sub(timings.store_timeout.saturating_mul(2));
        let outside_timeout = self.acquirer_timeout.min(room);
        if outside_timeout.is_zero() {
            return Err(Contradiction::DoesNotFit {
                needed: self.acquirer_timeout.saturating_add(timings.store_timeout.saturating_mul(2)),
                attempt_deadline: timings.attempt_deadline(),
            });
        }
        let timings = Timings { outside_timeout, ..timings };
        timings.check().map(|()| timings)
    }
}

/// Where money moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AcquirerKind {
    /// The ledger line is the whole effect: one commit a charge.
    #[default]
    Ledger,
    /// The sandbox in this process, with a database of its own beside the service's.
    Sandbox,
    /// A sandbox at this address.
    SandboxAt(BaseUrl),
    /// Stripe, by PaymentIntents. See [`crate::acquirer::stripe`].
    Stripe,
    /// Mercado Pago, by its Payments API. See [`crate::acquirer::mercadopago`].
    MercadoPago,
}

/// What a real acquirer needs to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vendor {
    /// Where its API is; `None`: where it says.
    pub url: Option<BaseUrl>,
    /// Holds the account's secret key.
    pub key_file: Option<PathBuf>,
    /// Names the account. Stored with every claim, so it never changes for an account.
    pub account: Option<Box<str>>,
    /// The account's one currency, where an acquirer knows only one.
    pub currency: Option<Currency>,
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

/// What happens to a second charge of an order under another key, judged before every send. Declined, voided and
/// wholly refunded charges do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameOrder {
    /// It runs.
    Allow,
    /// It runs, is counted as a suspected duplicate, and logged.
    #[default]
    Warn,
    /// It is refused: 409 `order-already-charged`, final; while the other one is not decided, 409 `outcome-pending`.
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

impl FromStr for AcquirerKind {
    type Err = UnknownChoice;

    fn from_str(word: &str) -> Result<Self, UnknownChoice> {
        let choices = "ledger, sandbox, http://HOST:PORT, stripe, mercadopago";
        match word {
            "ledger" => Ok(Self::Ledger),
            "sandbox" => Ok(Self::Sandbox),
            "stripe" => Ok(Self::Stripe),
            "mercadopago" => Ok(Self::MercadoPago),
            _ => word.parse().map(Self::SandboxAt).map_err(|_| UnknownChoice {
                what: "acquirer",
                choices,
                seen: word.to_owned(),
            }),
        }
    }
}

impl fmt::Display for AcquirerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ledger => f.write_str("ledger"),
            Self::Sandbox => f.write_str("sandbox"),
            Self::SandboxAt(url) => url.fmt(f),
            Self::Stripe => f.write_str("stripe"),
            Self::MercadoPago => f.write_str("mercadopago"),
        }
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
