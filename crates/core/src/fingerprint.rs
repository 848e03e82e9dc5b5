//! The digest of a request, to see that a repeated key carries the same request (P5, P6).
//!
//! 1. Covered are method, path, query, content type (its essence), content encoding and body,
//!    length-framed: no two different requests have the same input, so no two have the same digest.
//! 2. JSON bodies are covered by their canonical form ([`crate::json`]), all others by their bytes, as is
//!    JSON that does not parse, or that a content encoding wraps. An ambiguous body has no fingerprint.
//! 3. A stored fingerprint carries its algorithm's version and its key's id. A request is compared with it by
//!    that version and that key ([`Fingerprint::like`]), never by today's.
//! 4. Beside it stands a digest of the request's bytes as they came: it says "the same" of most repeats
//!    without reading their JSON, and never "another".
//! 5. With sealing keys all digests are HMACs: without them, somebody who reads the database could find short
//!    bodies by trying (P23).
//!
//! What breaks it in deployment: something in front that rewrites bodies or paths differently on each
//! attempt, or rules that are changed while records are open. Honest repeats are then refused with 422;
//! nothing runs twice.
//!
//! ```
//! use unavez_core::fingerprint::{Fingerprint, RequestParts, Rules};
//!
//! let request = RequestParts {
//!     method: "POST",
//!     path: "/v1/charges",
//!     query: None,
//!     content_type: Some("application/json; charset=utf-8"),
//!     content_encoding: None,
//!     body: br#"{"order_id":"o-1001","amount":2500}"#,
//! };
//! let respelled = RequestParts { body: br#"{ "amount": 25e2, "order_id": "o-1001" }"#, ..request };
//! let edited = RequestParts { body: br#"{"order_id":"o-1001","amount":9900}"#, ..request };
//!
//! let rules = Rules::default();
//! let stored = Fingerprint::of(&request, &rules)?;
//! assert!(stored.matches(&Fingerprint::of(&respelled, &rules)?));
//! assert_eq!(Fingerprint::differs(&stored, &Fingerprint::of(&edited, &rules)?), ["amount"]);
//! # Ok::<(), unavez_core::fingerprint::Ambiguous>(())
//! ```

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::identity::write_hex;
use crate::seal::SealKeyId;
use covered::Covered;
use digester::{Digester, FingerprintKey};
use parts::Parts;

mod covered;
mod digester;
mod parts;

pub use crate::json::{Ambiguous, Fields, PointerError};
pub use digester::FingerprintKeys;

/// The algorithm of new fingerprints.
pub const ALGORITHM: u8 = 1;

/// What of a request the fingerprint covers, as the client sent it.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// E.g. `POST`.
    pub method: &'a str,
    /// The whole path, before nesting takes prefixes off.
    pub path: &'a str,
    /// Without its `?`. `None` is a target without `?`, and differs from an empty query.
    pub query: Option<&'a str>,
    /// The header's value; parameters and case do not count.
    pub content_type: Option<&'a str>,
    /// The header's value; case does not count.
    pub content_encoding: Option<&'a str>,
    /// The bytes as received.
    pub body: &'a [u8],
}

/// How fingerprints are made on a route. The default covers everything, by plain SHA-256.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Which fields of JSON bodies are covered.
    pub fields: Fields,
    /// Whether a mismatch can be explained.
    pub differs: Differs,
    /// The keys of the HMACs; without any, plain SHA-256.
    pub keys: FingerprintKeys,
}

/// Whether fingerprints keep what [`Fingerprint::differs`] needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Differs {
    /// Short digests of the parts are kept, and a mismatch names what differs.
    #[default]
    Named,
    /// Nothing is kept beside the digest of the whole.
    Off,
}

/// The digest of a request, with what it takes to make another one like it.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint {
    algorithm: u8,
    key_id: Option<SealKeyId>,
    digest: [u8; 32],
    verbatim: Verbatim,
    parts: Parts,
}

/// A digest of a request as its bytes came.
type Verbatim = [u8; 16];

impl Fingerprint {
    /// The fingerprint of a request, by the current algorithm and key.
    ///
    /// # Errors
    /// The body has more than one reading: `body-ambiguous`.
    pub fn of(request: &RequestParts<'_>, rules: &Rules) -> Result<Self, Ambiguous> {
        Self::by_key(request, rules, rules.keys.current())
    }

    /// The fingerprint of a request, made as `stored` was made: only these two can be compared. Needed
    /// where [`Fingerprint::of`] is not [comparable](Fingerprint::comparable), after a rotation of keys or
    /// an update.
    ///
    /// # Errors
    /// The stored one's algorithm or key is not known here, or the body has more than one reading. None of
    /// these means that the requests differ.
    pub fn like(stored: &Self, request: &RequestParts<'_>, rules: &Rules) -> Result<Self, NotComparable> {
        Self::of_version(stored.algorithm, stored.key_id.as_ref(), request, rules)
    }

    /// The fingerprint of a request, by an algorithm and key of choice.
    ///
    /// # Errors
    /// The algorithm or key is not known here, or the body has more than one reading.
    pub fn of_version(
        algorithm: u8,
        key_id: Option<&SealKeyId>,
        request: &RequestParts<'_>,
        rules: &Rules,
    ) -> Result<Self, NotComparable> {
        let key = key_id.map(|id| rules.keys.find(id).ok_or_else(|| NotComparable::UnknownKey(id.clone())));
        let key = key.transpose()?;
        match algorithm {
            1 => Self::by_key(request, rules, key).map_err(NotComparable::Ambiguous),
            unknown => Err(NotComparable::UnknownAlgorithm(unknown)),
        }
    }

    fn by_key(
        request: &RequestParts<'_>,
        rules: &Rules,
        key: Option<&FingerprintKey>,
    ) -> Result<Self, Ambiguous> {
        let covered = Covered::read(request, &rules.fields)?;
        let mut digest = Digester::new(key);
        covered.feed(&mut digest);
        Ok(Self {
            algorithm: ALGORITHM,
            key_id: key.map(|key| key.id.clone()),
            digest: digest.finish(),
            verbatim: covered::verbatim(request, key),
            parts: match rules.differs {
                Differs::Named => covered.parts(key),
                Differs::Off => Parts::default(),
            },
        })
    }

    /// Whether both are made by the same algorithm and key. If not, [`Fingerprint::matches`] says no of equal
    /// requests too.
    #[must_use]
    pub fn comparable(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.key_id == other.key_id
    }

    /// Whether both are of the same request, if they are comparable.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.comparable(other) && self.digest == other.digest
    }

    /// Whether a request is, byte for byte, the one that this fingerprint was made of: then it matches, and its body
    /// need not be read. Most repeats are such. `false` says nothing: the request may be the same, spelled differently,
    /// or the key is not known here.
    #[must_use]
    pub fn is_verbatim(&self, request: &RequestParts<'_>, rules: &Rules) -> bool {
        let key = self.key_id.as_ref().map(|id| rules.keys.find(id));
        !matches!(key, Some(None)) && self.verbatim == covered::verbatim(request, key.flatten())
    }

    /// The names of what differs between the stored request and the new one: `:method`, `:path`, `:query`,
    /// `:type` (with the content encoding), then `:body`, or the members of its outermost object. Names,
    /// never values (P6); at most 20. Empty where one of the two keeps no names, or they are not
    /// comparable.
    #[must_use]
    pub fn differs(stored: &Self, new: &Self) -> Vec<String> {
        if !stored.comparable(new) {
            return Vec::new();
        }
        stored.parts.differs(&new.parts)
    }

    /// The version of the algorithm it is made by.
    #[must_use]
    pub fn algorithm(&self) -> u8 {
        self.algorithm
    }

    /// The key it is made with; `None` for plain SHA-256.
    #[must_use]
    pub fn key_id(&self) -> Option<&SealKeyId> {
        self.key_id.as_ref()
    }

    /// The digest of the whole request.
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The stored form: the form's version 1, the algorithm, the key id behind its length, the digest, the
    /// digest of the bytes as they came, and the short digests of the parts.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let parts = self.parts.as_bytes();
        let mut bytes = Vec::with_capacity(83 + parts.len());
        bytes.extend_from_slice(&[STORED_VERSION, self.algorithm]);
        SealKeyId::write_stored(self.key_id.as_ref(), &mut bytes);
        bytes.extend_from_slice(&self.digest);
        bytes.extend_from_slice(&self.verbatim);
        bytes.extend_from_slice(parts);
        bytes
    }

    /// Reads the stored form. An algorithm that is not known here is read too, since it may never be
    /// compared; [`Fingerprint::like`] names it then.
    ///
    /// # Errors
    /// A version of the form that is not known here, or bytes that are not of the form.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes {
            [STORED_VERSION, rest @ ..] => Self::decode_v1(rest).ok_or(DecodeError::Damaged),
            [version, ..] => Err(DecodeError::UnknownVersion(*version)),
            [] => Err(DecodeError::Damaged),
        }
    }

    fn decode_v1(bytes: &[u8]) -> Option<Self> {
        let (&algorithm, rest) = bytes.split_first()?;
        let (key_id, rest) = SealKeyId::split_stored(rest)?;
        let (digest, rest) = rest.split_first_chunk()?;
        let (verbatim, parts) = rest.split_first_chunk()?;
        let (digest, verbatim) = (*digest, *verbatim);
        Some(Self { algorithm, key_id, digest, verbatim, parts: Parts::from_bytes(parts)? })
    }
}

const STORED_VERSION: u8 = 1;

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint(v{} ", self.algorithm)?;
        if let Some(id) = &self.key_id {
            write!(f, "{id} ")?;
        }
        write_hex(f, &self.digest)?;
        f.write_str(")")
    }
}

/// Why a request cannot be compared with a stored fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotComparable {
    /// The stored one is by an algorithm of a newer version.
    UnknownAlgorithm(u8),
    /// The stored one is by a key that is not in the key file (any more).
    UnknownKey(SealKeyId),
    /// The request's body has more than one reading.
    Ambiguous(Ambiguous),
}

impl fmt::Display for NotComparable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAlgorithm(version) => {
                write!(f, "fingerprint has algorithm {version}, known is {ALGORITHM}")
            }
            Self::UnknownKey(id) => write!(f, "fingerprint's key `{id}` is not in the key file"),
            Self::Ambiguous(ambiguous) => ambiguous.fmt(f),
        }
    }
}

impl core::error::Error for NotComparable {}

/// Why a stored fingerprint cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// Written by a newer version.
    UnknownVersion(u8),
    /// Not the stored form.
    Damaged,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion(version) => {
                write!(f, "stored fingerprint has version {version}, known is {STORED_VERSION}")
            }
            Self::Damaged => f.write_str("stored fingerprint is damaged"),
        }
    }
}

impl core::error::Error for DecodeError {}
