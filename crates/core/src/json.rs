//! The canonical form of a JSON text: equal bytes exactly for equal values (P5).
//!
//! The form is itself JSON, without white space:
//!
//! 1. Members are sorted by the UTF-8 bytes of their unescaped names; arrays keep their order; `null` is a
//!    value and not an absent member.
//! 2. Strings are written raw, with `\"`, `\\` and `\u00xx` for control characters as the only escapes.
//! 3. Numbers are exact decimals: the digits without zeros at either end, and an exponent if it is not 0.
//!    2500, 2500.0 and 2.5e3 are all `25e2`, -0 is `0`. Nothing goes through a float, and exponents are
//!    compared, not expanded: `1e999999999` costs eleven bytes.
//! 4. A text with more than one reading is refused ([`Ambiguous`]): parsers disagree on which of two equal
//!    names counts, on half a surrogate pair, and on how deep they follow, so we and the operation could
//!    see two different requests.
//! 5. What is no JSON at all is told apart ([`NotCanonical::Unparsable`]); the fingerprint then takes the
//!    bytes.
//!
//! It runs on every request: one pass over the text and no document tree. Time is bounded by n log n and
//! memory by a small multiple of the text, whatever the text is.
//!
//! ```
//! use unavez_core::json::canonical;
//!
//! let one = canonical(br#"{"order_id": "o-1001", "amount": 2500}"#)?;
//! let other = canonical(br#"{"amount":2.5e3,"order\u005fid":"o-1001"}"#)?;
//! assert_eq!(one.as_bytes(), br#"{"amount":25e2,"order_id":"o-1001"}"#);
//! assert_eq!(one.as_bytes(), other.as_bytes());
//! # Ok::<(), unavez_core::json::NotCanonical>(())
//! ```

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;
use core::ops::Range;

mod fields;
mod number;
mod reader;

pub use fields::{Fields, PointerError};

/// Deepest nesting of arrays and objects, counting the outermost as 1. Parsers in use differ above it.
pub const DEPTH_MAX: usize = 64;

/// The canonical form of a whole JSON text.
///
/// # Errors
/// The text is no JSON, or has more than one reading.
pub fn canonical(text: &[u8]) -> Result<Canonical, NotCanonical> {
    canonical_of(text, &Fields::All)
}

/// The canonical form of the chosen fields of a JSON text. What is not chosen must still be unambiguous: the
/// operation reads it too.
///
/// # Errors
/// The text is no JSON, or has more than one reading.
pub fn canonical_of(text: &[u8], fields: &Fields) -> Result<Canonical, NotCanonical> {
    reader::read(text, fields)
}

/// The canonical form of a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    text: Vec<u8>,
    /// The members of the outermost object, in the order of the form; empty for other values.
    members: Vec<Member>,
}

impl Canonical {
    /// The form.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Whether the outermost value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text.first() == Some(&b'{')
    }

    /// The members of the outermost object, sorted by name: the name as the form spells it between its
    /// quotes, and the canonical form of the value. Nothing if the text is no object.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.members.iter().map(|member| (&self.text[member.name()], &self.text[member.value()]))
    }
}

/// Where one member stands in the form: `"name":value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    start: usize,
    /// Behind the name's closing quote.
    name_end: usize,
    end: usize,
    /// The name has escapes in the form, so its bytes do not sort as the name does.
    escaped: bool,
    /// The member belongs to the chosen fields.
    chosen: bool,
}

impl Member {
    fn name(&self) -> Range<usize> {
        self.start + 1..self.name_end - 1
    }

    fn value(&self) -> Range<usize> {
        self.name_end + 1..self.end
    }

    fn whole(&self) -> Range<usize> {
        self.start..self.end
    }

    /// The same member, standing at another place.
    fn moved_to(self, start: usize) -> Self {
        Self {
            start,
            name_end: start + (self.name_end - self.start),
            end: start + (self.end - self.start),
            ..self
        }
    }
}

/// The bytes a canonical string stands for; `spelled` is what is between its quotes.
fn unescaped(spelled: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = spelled.iter().copied();
    core::iter::from_fn(move || match rest.next()? {
        b'\\' => match rest.next()? {
            // The form's only long escape is `\u00xx`.
            b'u' => Some(hex_value(rest.nth(2)?)? << 4 | hex_value(rest.next()?)?),
            escaped => Some(escaped),
        },
        byte => Some(byte),
    })
}

/// The text a canonical string stands for.
pub(crate) fn unescape(spelled: &[u8]) -> String {
    String::from_utf8_lossy(&unescaped(spelled).collect::<Vec<u8>>()).into_owned()
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Why a text has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCanonical {
    /// It is not JSON by RFC 8259, or not UTF-8.
    Unparsable,
    /// It is JSON with more than one reading.
    Ambiguous(Ambiguous),
}

impl fmt::Display for NotCanonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unparsable => f.write_str("body is no JSON"),
            Self::Ambiguous(ambiguous) => ambiguous.fmt(f),
        }
    }
}

impl core::error::Error for NotCanonical {}

/// Why a JSON text has more than one reading: `body-ambiguous`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ambiguous {
    /// A name stands twice in one object. Holds the name, unescaped, cut to 64 characters.
    DuplicateMember(Box<str>),
    /// Nested deeper than [`DEPTH_MAX`].
    TooDeep,
    /// A string holds half a surrogate pair (`\ud800`): no Unicode text.
    LoneSurrogate,
}

impl Ambiguous {
    fn duplicate(spelled: &[u8]) -> Self {
        Self::DuplicateMember(unescape(spelled).chars().take(64).collect())
    }

    /// The member to name in the answer, if one is at fault.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        match self {
            Self::DuplicateMember(name) => Some(name),
            Self::TooDeep | Self::LoneSurrogate => None,
        }
    }
}

impl fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateMember(name) => write!(f, "member {name:?} stands twice in one object"),
            Self::TooDeep => write!(f, "body is nested deeper than {DEPTH_MAX} levels"),
            Self::LoneSurrogate => f.write_str("a string has half a surrogate pair"),
        }
    }
}

impl core::error::Error for Ambiguous {}
