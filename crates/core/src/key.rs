//! The caller's name for an operation: the value of `Idempotency-Key` (P1).
//!
//! 1. A key has 1 to 255 characters of printable ASCII (0x20-0x7E), not only spaces. Case matters.
//! 2. Two spellings are read: the bare one every vendor's SDK sends (`o-1001`; no space, comma or double
//!    quote), and the String of RFC 9651 (`"o-1001"`, with its escapes, parameters ignored). Both spellings
//!    of one value are one key.
//! 3. A header that is there and malformed is an error, never "no key": the caller meant to be safe.
//! 4. A key may name a person or an order, so neither [`Debug`](fmt::Debug) nor an error shows it; logs show
//!    [`Key::log_hash`] (P23).
//!
//! What breaks it in deployment: a gateway that joins repeated headers with a comma, or cuts long ones. The
//! first is refused here; the second makes two operations one, which only the fingerprint can notice (P6).
//!
//! ```
//! use unavez_core::key::Key;
//!
//! let bare = Key::parse_header_values([b"o-1001".as_slice()])?.expect("one line");
//! let string = Key::parse_header_values([b"\"o-1001\"; v=1".as_slice()])?.expect("one line");
//! assert_eq!(bare, string);
//! assert_eq!(Key::parse_header_values([])?, None);
//! # Ok::<(), unavez_core::key::KeyError>(())
//! ```

use alloc::sync::Arc;
use core::fmt;

use sha2::{Digest, Sha256};

use crate::identity::write_hex;

mod structured;

/// Longest key. Long enough for every vendor's format, short enough to stand in an index.
pub const KEY_LENGTH_MAX: usize = 255;

/// The caller's name for one operation: 1 to 255 printable ASCII characters. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Reads the key out of a request: `values` are the values of every configured header name, one item a
    /// header line. No line is `None`.
    ///
    /// # Errors
    /// A header is there and is not one well-formed key; two lines are an error even if they are equal, since
    /// nobody knows which of them an intermediary added.
    pub fn parse_header_values<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Option<Self>, KeyError> {
        let mut values = values.into_iter();
        let Some(line) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(KeyError::Repeated);
        }
        Self::parse_line(line).map(Some)
    }

    /// Reads a key from a path segment or a query value, percent-decoded already. Quotes and escapes are
    /// literal here: only the header has two spellings.
    ///
    /// # Errors
    /// Blank, too long, or something else than printable ASCII.
    pub fn parse_path(value: &str) -> Result<Self, KeyError> {
        check_characters(value.as_bytes(), 0, |_| true)?;
        Self::of_characters(value)
    }

    /// The key itself. For stores and for the caller's own answers, never for logs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What logs and traces show of the key (P23).
    #[must_use]
    pub fn log_hash(&self) -> KeyHash {
        let digest: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let (short, _) = digest.split_first_chunk().expect("32 bytes start with 6");
        KeyHash(*short)
    }

    fn parse_line(line: &[u8]) -> Result<Self, KeyError> {
        let start = line.iter().position(|&byte| !is_space(byte)).ok_or(KeyError::Blank)?;
        let end = line.iter().rposition(|&byte| !is_space(byte)).ok_or(KeyError::Blank)?;
        let line = &line[..=end];
        if line[start] == b'"' {
            return Self::of_characters(&structured::string_item(line, start)?);
        }
        Self::of_characters(check_characters(&line[start..], start, stands_bare)?)
    }

    /// The rules both spellings share, on characters already known to be printable.
    fn of_characters(characters: &str) -> Result<Self, KeyError> {
        if characters.bytes().all(|byte| byte == b' ') {
            return Err(KeyError::Blank);
        }
        if characters.len() > KEY_LENGTH_MAX {
            return Err(KeyError::TooLong { length: characters.len() });
        }
        Ok(Self(characters.into()))
    }
}

/// White space around a header's value is no part of it (RFC 9110, 5.5); HTTP/2 peers may leave it in.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn stands_bare(byte: u8) -> bool {
    !matches!(byte, b' ' | b',' | b'"')
}

/// The characters as text if each is printable ASCII and allowed; `start` is where they stand in the header.
fn check_characters(characters: &[u8], start: usize, allowed: fn(u8) -> bool) -> Result<&str, KeyError> {
    let wrong = characters.iter().position(|&byte| !is_printable(byte) || !allowed(byte));
    match wrong {
        Some(at) => Err(KeyError::Character { position: start + at, byte: characters[at] }),
        None => Ok(core::str::from_utf8(characters).expect("printable ASCII is UTF-8")),
    }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7E)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(#{})", self.log_hash())
    }
}

/// The first 48 bits of the key's SHA-256: enough to follow one key through the logs, too little to keep it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 6]);

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHash({self})")
    }
}

/// Why a key is refused. Positions are bytes from the start of the header's value, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// More than one header line.
    Repeated,
    /// Empty, or spaces only.
    Blank,
    /// Longer than [`KEY_LENGTH_MAX`].
    TooLong {
        /// Characters seen.
        length: usize,
    },
    /// A byte that is not printable ASCII, or that a bare key cannot have: space, comma, double quote.
    Character {
        /// Where.
        position: usize,
        /// The byte.
        byte: u8,
    },
    /// A quoted key without its closing quote.
    Unbalanced,
    /// A backslash in a quoted key before something else than `"` or `\`.
    Escape {
        /// Where the backslash stands.
        position: usize,
    },
    /// Something else than parameters behind a quoted key.
    Trailing {
        /// Where it begins.
        position: usize,
    },
    /// A parameter behind a quoted key that is not of RFC 9651.
    Parameter {
        /// Where reading it failed.
        position: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Repeated => f.write_str("key stands in more than one header line, limit 1"),
            Self::Blank => f.write_str("key is blank"),
            Self::TooLong { length } => write!(f, "key has {length} characters, limit {KEY_LENGTH_MAX}"),
            Self::Character { position, byte } if is_printable(byte) => {
                write!(f, "unquoted key has {:?} at byte {position}", char::from(byte))
            }
            Self::Character { position, byte } => {
                write!(f, "key has 0x{byte:02X} at byte {position}, allowed is printable ASCII")
            }
            Self::Unbalanced => f.write_str("quoted key has no closing quote"),
            Self::Escape { position } => {
                write!(f, "quoted key escapes something else than `\"` or `\\` at byte {position}")
            }
            Self::Trailing { position } => {
                write!(f, "quoted key is followed by something else than parameters at byte {position}")
            }
            Self::Parameter { position } => {
                write!(f, "quoted key has a malformed parameter at byte {position}")
            }
        }
    }
}

impl core::error::Error for KeyError {}
