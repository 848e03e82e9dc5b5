//! Who an operation belongs to, and the ids that follow from it (P4).
//!
//! A record is named by (realm, tenant, key). [`RecordId`] is a hash of the three, and [`OperationId`] is
//! the same hash as outside systems see it, so that a webhook finds record, charge and ledger rows from the
//! operation id alone.
//!
//! 1. Fields are hashed length-framed: no tenant and key can be chosen so that their ids meet those of
//!    another pair.
//! 2. The ids are pure functions of their three names. They never change: an acquirer remembers them for
//!    years, and a process restarted after a crash asks by them. The golden values below are the promise.
//! 3. There is one id space over all kinds of operation; a charge and a refund under one key are the same
//!    record.
//!
//! What breaks it in deployment: a second deployment with the same realm at the same acquirer account. Its
//! ids are those of the first one. Realms are therefore random unless named.
//!
//! ```
//! use unavez_core::identity::{Realm, RecordId, Tenant};
//! use unavez_core::key::Key;
//!
//! let realm = Realm::parse("shop-eu")?;
//! let key = Key::parse_path("o-1001").expect("printable and short");
//! let operation = RecordId::of(&realm, &Tenant::single(), &key).operation_id();
//! assert_eq!(operation.to_string(), "op_71dbf60ddff57a65e876c0875e809934");
//! # Ok::<(), unavez_core::identity::NameError>(())
//! ```

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use sha2::{Digest, Sha256};

use crate::key::Key;

/// The deployment. Stored in the database when that is created; survives a restore.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Realm(Arc<str>);

/// Who a key belongs to. Comes from authentication, never from a body (P4).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Realm {
    /// 1 to 128 printable ASCII characters without space (0x21-0x7E).
    ///
    /// # Errors
    /// Says which limit the name breaks.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        check_name("realm", name).map(|()| Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tenant {
    /// 1 to 128 printable ASCII characters without space (0x21-0x7E).
    ///
    /// # Errors
    /// Says which limit the name breaks.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        check_name("tenant", name).map(|()| Self(name.into()))
    }

    /// The tenant `default`, for a deployment that serves a single one. Spelled out, so that sharing all
    /// keys is a choice and never an accident.
    #[must_use]
    pub fn single() -> Self {
        Self("default".into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const NAME_LENGTH_MAX: usize = 128;

/// The alphabet is the one that stands unescaped in log lines, in the API key file (split at spaces) and in
/// the primary keys of every store.
fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError { what, fault: NameFault::Empty });
    }
    if let Some(position) = name.bytes().position(|byte| !byte.is_ascii_graphic()) {
        return Err(NameError { what, fault: NameFault::Character { position } });
    }
    if name.len() > NAME_LENGTH_MAX {
        return Err(NameError { what, fault: NameFault::TooLong { length: name.len() } });
    }
    Ok(())
}

/// Why a name of a realm or tenant is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    what: &'static str,
    fault: NameFault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NameFault {
    Empty,
    Character { position: usize },
    TooLong { length: usize },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what;
        match self.fault {
            NameFault::Empty => write!(f, "{what} is empty"),
            NameFault::Character { position } => {
                write!(f, "{what} has something else than printable ASCII without space at byte {position}")
            }
            NameFault::TooLong { length } => {
                write!(f, "{what} has {length} characters, limit {NAME_LENGTH_MAX}")
            }
        }
    }
}

impl core::error::Error for NameError {}

/// The identity of a record: the first 16 bytes of SHA-256 over length-framed (version, realm, tenant, key).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId([u8; 16]);

impl RecordId {
    /// The identity of (realm, tenant, key).
    #[must_use]
    pub fn of(realm: &Realm, tenant: &Tenant, key: &Key) -> Self {
        let mut hash = Sha256::new();
        frame(&mut hash, b"unavez/operation/v1");
        frame(&mut hash, realm.as_str().as_bytes());
        frame(&mut hash, tenant.as_str().as_bytes());
        frame(&mut hash, key.as_str().as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let (id, _) = digest.split_first_chunk().expect("32 bytes start with 16");
        Self(*id)
    }

    /// From the stored form.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The stored form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The operation this record is about.
    #[must_use]
    pub const fn operation_id(self) -> OperationId {
        OperationId(self)
    }
}

/// The name of an operation at the outside system: `op_` and the 32 hex digits of its [`RecordId`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(RecordId);

impl OperationId {
    /// Reads `op_` and 32 lower-case hex digits. Another spelling of the same bytes is not the same id: it
    /// is not what we sent, so it is not ours.
    ///
    /// # Errors
    /// The text is not of our form.
    pub fn parse(text: &str) -> Result<Self, OperationIdError> {
        let digits = text.strip_prefix("op_").ok_or(OperationIdError)?.as_bytes();
        if digits.len() != 32 {
            return Err(OperationIdError);
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self(RecordId(bytes)))
    }

    /// The record of this operation.
    #[must_use]
    pub const fn record_id(self) -> RecordId {
        self.0
    }
}

fn hex_digit(digit: u8) -> Result<u8, OperationIdError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(OperationIdError),
    }
}

impl From<RecordId> for OperationId {
    fn from(id: RecordId) -> Self {
        id.operation_id()
    }
}

/// A text is not `op_` and 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationIdError;

impl fmt::Display for OperationIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("operation id is not `op_` and 32 lower-case hex digits")
    }
}

impl core::error::Error for OperationIdError {}

/// The name of one attempt: 128 random bits. With the version it is the fence; it tells a released and
/// re-created record from the one a late owner remembers (P11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId([u8; 16]);

impl AttemptId {
    /// From 128 random bits.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The stored form.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op_{}", self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({self})")
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptId({self})")
    }
}

/// Lower-case hex, two digits a byte.
pub(crate) fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Feeds one field to a hash, its length before it: neighbouring fields cannot lend each other bytes, so
/// equal input means equal fields.
pub(crate) fn frame(into: &mut impl sha2::digest::Update, field: &[u8]) {
    into.update(&(field.len() as u64).to_be_bytes());
    into.update(field);
}

/// Framed fields as bytes, where they go into something else than a hash.
#[derive(Default)]
pub(crate) struct Collected(pub(crate) Vec<u8>);

impl sha2::digest::Update for Collected {
    fn update(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn id(realm: &str, tenant: &str, key: &str) -> OperationId {
        let realm = Realm::parse(realm).unwrap();
        let tenant = Tenant::parse(tenant).unwrap();
        RecordId::of(&realm, &tenant, &Key::parse_path(key).unwrap()).operation_id()
    }

    /// Computed apart from this code, with Python's hashlib:
    ///
    /// ```text
    /// f = lambda s: len(s).to_bytes(8, "big") + s
    /// sha256(b"".join(map(f, [b"unavez/operation/v1", realm, tenant, key]))).hexdigest()[:32]
    /// ```
    #[test]
    fn operation_ids_are_golden() {
        let check = |realm, tenant, key, expected: &str| {
            assert_eq!(id(realm, tenant, key).to_string(), expected, "{realm} {tenant} {key}");
        };
        check("shop-eu", "default", "o-1001", "op_71dbf60ddff57a65e876c0875e809934");
        check(
            "shop-eu",
            "default",
            "8e03978e-40d5-43dd-bc93-6894a57f9324",
            "op_59e535aa6c5b2f80dfef75bd91c67cba",
        );
        check("shop-eu", "tenant-b", "o-1001", "op_a4c25b77a46160f6cd2c2cd814b19d75");
        check("lab", "default", "o-1001", "op_0404dd1ff580d040d7535c4a4af5b819");
        check("r", "t", "a key, \"quoted\"", "op_f3e62a377fa6c7d378c6fd23f519b29e");
    }

    #[test]
    fn p4_fields_do_not_lend_each_other_bytes() {
        let ids = [id("r", "ab", "c"), id("r", "a", "bc"), id("ra", "b", "c"), id("r", "abc", "c")];
        for (at, one) in ids.iter().enumerate() {
            assert!(!ids[at + 1..].contains(one), "{one} twice");
        }
    }

    #[test]
    fn an_operation_id_reads_back() {
        let id = id("r", "t", "k");
        assert_eq!(OperationId::parse(&id.to_string()), Ok(id));
        assert_eq!(OperationId::from(RecordId::from_bytes(*id.record_id().as_bytes())), id);
    }

    #[test]
    fn other_spellings_are_not_operation_ids() {
        let digits = "0123456789abcdef0123456789abcdef";
        assert!(OperationId::parse(&["op_", digits].concat()).is_ok());
        for text in [
            "",
            "op_",
            digits,
            "OP_0123456789abcdef0123456789abcdef",
            "op_0123456789ABCDEF0123456789ABCDEF",
            "op_0123456789abcdef0123456789abcde",
            "op_0123456789abcdef0123456789abcdef0",
            "op_+123456789abcdef0123456789abcdef",
            "op_0123456789abcdef0123456789abcd\u{e9}",
        ] {
            assert_eq!(OperationId::parse(text), Err(OperationIdError), "{text:?}");
        }
    }

    #[test]
    fn names_have_limits() {
        let check = |name: &str, expected: &str| {
            assert_eq!(Tenant::parse(name).unwrap_err().to_string(), expected, "{name:?}");
        };
        check("", "tenant is empty");
        check("a b", "tenant has something else than printable ASCII without space at byte 1");
        check("a\u{e9}", "tenant has something else than printable ASCII without space at byte 1");
        check("a\0", "tenant has something else than printable ASCII without space at byte 1");
        check(&"x".repeat(129), "tenant has 129 characters, limit 128");
        assert!(Tenant::parse(&"x".repeat(128)).is_ok());
        assert_eq!(Realm::parse("").unwrap_err().to_string(), "realm is empty");
    }
}
