//! Keys derived from what an operation is about, for callers that can name it (P29).
//!
//! A derived key needs no memory: whoever charges order o-1001 again, after a restart or on another machine,
//! makes the same key. Three rules keep that from melting operations into one:
//!
//! 1. Different arguments give different keys. The separator is escaped in the parts, and a key that would
//!    be too long ends with a hash of all of them.
//! 2. There is at least one part and none is empty: a key made of a missing order id would be shared by all
//!    orders that miss theirs.
//! 3. An operation that can happen again under one name (cancel, resume, cancel) has an occurrence among its
//!    parts, e.g. the number of the cycle. This module cannot know; the caller must say it.
//!
//! What breaks it in deployment: a part that changes between attempts (a time, an amount edited meanwhile),
//! or one that two operations share (the amount alone).
//!
//! ```
//! use unavez_core::derive::derive;
//!
//! assert_eq!(derive("charge", &["o-1001"])?.as_str(), "charge:o-1001");
//! assert_eq!(derive("cancel", &["sub:7", "2"])?.as_str(), "cancel:sub%3A7:2");
//! # Ok::<(), unavez_core::derive::DeriveError>(())
//! ```

use alloc::string::String;
use core::fmt::{self, Write as _};

use sha2::{Digest, Sha256};

use crate::identity::frame;
use crate::key::{KEY_LENGTH_MAX, Key};

/// The key of the operation of this kind on this subject: kind and parts, joined with colons. What cannot
/// stand in a bare header (or is a separator here) is percent-encoded. A key longer than 255 characters is
/// cut and ends with `~` and the SHA-256 of the arguments.
///
/// # Errors
/// The kind or a part is empty, or there is no part.
pub fn derive(kind: &str, parts: &[&str]) -> Result<Key, DeriveError> {
    if kind.is_empty() {
        return Err(DeriveError::EmptyKind);
    }
    if parts.is_empty() {
        return Err(DeriveError::NoParts);
    }
    if let Some(index) = parts.iter().position(|part| part.is_empty()) {
        return Err(DeriveError::EmptyPart { index });
    }
    let mut key = escaped(kind);
    for part in parts {
        key.push(':');
        key.push_str(&escaped(part));
    }
    if key.len() > KEY_LENGTH_MAX {
        end_with_hash(&mut key, kind, parts);
    }
    Ok(Key::parse_path(&key).expect("escaped text is printable, and cut to length"))
}

/// Only hashed keys have a tilde, so they meet no readable one.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"%:~,\"".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a String takes everything");
        }
    }
    escaped
}

fn end_with_hash(key: &mut String, kind: &str, parts: &[&str]) {
    let mut hash = Sha256::new();
    for field in core::iter::once(&kind).chain(parts) {
        frame(&mut hash, field.as_bytes());
    }
    key.truncate(KEY_LENGTH_MAX - 65);
    key.push('~');
    for byte in hash.finalize() {
        write!(key, "{byte:02x}").expect("a String takes everything");
    }
}

/// Why no key can be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeriveError {
    /// The kind is empty.
    EmptyKind,
    /// There is no part: one key for all operations of the kind.
    NoParts,
    /// A part is empty.
    EmptyPart {
        /// Which one, counted from 0.
        index: usize,
    },
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyKind => f.write_str("kind of the operation is empty"),
            Self::NoParts => f.write_str("key has no part to tell operations apart"),
            Self::EmptyPart { index } => write!(f, "part {index} of the key is empty"),
        }
    }
}

impl core::error::Error for DeriveError {}
