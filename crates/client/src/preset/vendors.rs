//! The presets, from what the vendors' documents say.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;
use unavez_core::key::KEY_LENGTH_MAX;

use super::{Conflict, Hint, KeyPlace, Mark, MarkValue, Preset, Recorded};

const HOUR: Duration = Duration::from_secs(3600);
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SUCCESS: RangeInclusive<u16> = 200..=299;

/// The mark in widest use: Stripe, the Agentic Commerce Protocol, Increase, unavez.
const REPLAYED: Mark = Mark { name: "idempotent-replayed", value: MarkValue::Exactly("true") };

/// Where nothing more is known: a success under the key is the key's.
const SUCCESS_ALONE: Recorded = Recorded { statuses: &[SUCCESS], marks: &[], below: 600 };

/// Of unavez: the record's answers carry when they expire.
const EXPIRES: Mark = Mark { name: "idempotency-expires", value: MarkValue::Time };

impl Preset {
    /// A server of which nothing is known: the header's commonest form, and of the answers what most mean by them. 202 is
    /// read as HTTP defines it: accepted, and not decided.
    #[must_use]
    pub fn any() -> Self {
        Self {
            name: "any",
            key: KeyPlace::BareOrString(IDEMPOTENCY_KEY),
            key_length_max: KEY_LENGTH_MAX,
            recorded: Recorded { statuses: &[200..=201, 203..=299], marks: &[EXPIRES, REPLAYED], below: 600 },
            pending: Some(202),
            conflict: Conflict::Running,
            hint: Hint::Problem,
            key_status: None,
            retention: None,
        }
    }

    /// unavez: the service, and the middleware before a service of one's own.
    ///
    /// What it keeps is marked, so nothing else is believed. It can be asked about a key. No retention is set, since the
    /// service never charges again for a key, however old; before a service of your own with the middleware, set the
    /// response TTL.
    #[must_use]
    pub fn unavez() -> Self {
        Self {
            name: "unavez",
            recorded: Recorded { statuses: &[], marks: &[EXPIRES, REPLAYED], below: 600 },
            conflict: Conflict::Refusal,
            key_status: Some("/v1/idempotency-keys/"),
            ..Self::any()
        }
    }

    /// The IETF draft `Idempotency-Key`, version 07: the key as a String, 409 while it runs.
    #[must_use]
    pub fn ietf() -> Self {
        Self {
            name: "ietf",
            key: KeyPlace::String(IDEMPOTENCY_KEY),
            recorded: SUCCESS_ALONE,
            pending: None,
            ..Self::any()
        }
    }

    /// Stripe. A decline (402) is kept; so is a 500, but that says nothing of what happened.
    #[must_use]
    pub fn stripe() -> Self {
        Self {
            name: "stripe",
            key: KeyPlace::Bare(IDEMPOTENCY_KEY),
            recorded: Recorded { statuses: &[SUCCESS, 402..=402], marks: &[REPLAYED], below: 500 },
            hint: Hint::Header(HeaderName::from_static("stripe-should-retry")),
            retention: Some(24 * HOUR),
            ..Self::ietf()
        }
    }

    /// Mercado Pago. A rejected payment is a 201 whose body says so.
    #[must_use]
    pub fn mercado_pago() -> Self {
        Self {
            name: "mercadopago",
            key: KeyPlace::Bare(HeaderName::from_static("x-idempotency-key")),
            hint: Hint::Nowhere,
            ..Self::ietf()
        }
    }

    /// Adyen. A refused payment is a 200 whose body says so; `transient-error` says that the same request may be sent.
    #[must_use]
    pub fn adyen() -> Self {
        Self {
            name: "adyen",
            key: KeyPlace::Bare(IDEMPOTENCY_KEY),
            key_length_max: 64,
            hint: Hint::Header(HeaderName::from_static("transient-error")),
            retention: Some(7 * 24 * HOUR),
            ..Self::ietf()
        }
    }

    /// PayPal. It keeps keys for 6 to 72 hours, depending on the call; the least is taken.
    #[must_use]
    pub fn paypal() -> Self {
        Self {
            name: "paypal",
            key: KeyPlace::Bare(HeaderName::from_static("paypal-request-id")),
            key_length_max: 108,
            hint: Hint::Nowhere,
            retention: Some(6 * HOUR),
            ..Self::ietf()
        }
    }

    /// Square: the key is a member of the body.
    #[must_use]
    pub fn square() -> Self {
        Self {
            name: "square",
            key: KeyPlace::Member("idempotency_key"),
            key_length_max: 45,
            hint: Hint::Nowhere,
            ..Self::ietf()
        }
    }

    /// Every preset, for those who choose by name.
    #[must_use]
    pub fn all() -> [Self; 8] {
        [
            Self::any(),
            Self::unavez(),
            Self::ietf(),
            Self::stripe(),
            Self::mercado_pago(),
            Self::adyen(),
            Self::paypal(),
            Self::square(),
        ]
    }
}
