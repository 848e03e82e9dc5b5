//! Sealing of stored answers, and the keys it takes (P23).
//!
//! An answer may hold what the database's readers should not see. Sealed, it is XChaCha20-Poly1305 ciphertext
//! bound to its owner (realm, tenant, key): a row copied to another owner's key does not open.
//!
//! 1. A key file holds one key a line, `id hex`: 1 to 32 letters, digits, `.`, `_` or `-`, and 64 hex
//!    digits (`openssl rand -hex 32`). Empty lines and lines that begin with `#` are ignored. The **first**
//!    key seals; all of them open, so a key is rotated by putting a new line on top.
//! 2. The id is stored with what it sealed, and its key must stay in the file as long as such rows live.
//! 3. Each line's key is used through two keys derived from it, one that seals and one for fingerprints, so
//!    that neither use weakens the other. A third value made of it is no secret: stored, it tells later
//!    whether an id still means the same key ([`SealKeys::check_values`]).
//! 4. Nonces are 24 random bytes and an argument: this crate has no randomness. A nonce used twice under
//!    one key reveals both texts.
//!
//! What breaks it in deployment: a key file with a lost or changed line. Its answers no longer open and its
//! fingerprints no longer compare; both are errors that name the id, never an empty answer or a mismatch.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::fingerprint::FingerprintKeys;
use crate::identity::{Collected, Realm, Tenant, frame};
use crate::key::Key;

/// The name of a sealing key, as the key file spells it. Stored beside what the key sealed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SealKeyId(Arc<str>);

const ID_LENGTH_MAX: usize = 32;

impl SealKeyId {
    /// 1 to 32 letters, digits, `.`, `_` or `-`.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        ((1..=ID_LENGTH_MAX).contains(&id.len()) && id.bytes().all(allowed)).then(|| Self(id.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Appends the stored form: a length byte and the name. No key is the length 0.
    pub(crate) fn write_stored(id: Option<&Self>, out: &mut Vec<u8>) {
        let id = id.map_or("", Self::as_str);
        out.push(u8::try_from(id.len()).expect("an id has at most 32 characters"));
        out.extend_from_slice(id.as_bytes());
    }

    /// Reads the stored form; also what follows it.
    pub(crate) fn split_stored(bytes: &[u8]) -> Option<(Option<Self>, &[u8])> {
        let (&length, rest) = bytes.split_first()?;
        let (id, rest) = rest.split_at_checked(length.into())?;
        if id.is_empty() {
            return Some((None, rest));
        }
        let id = Self::parse(core::str::from_utf8(id).ok()?)?;
        Some((Some(id), rest))
    }
}

impl fmt::Display for SealKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

type Secret = Zeroizing<[u8; 32]>;

/// What one line of the file becomes. The file's own key is not kept: it only makes these three.
struct SealKey {
    id: SealKeyId,
    sealing: Secret,
    fingerprint: Secret,
    check: [u8; 32],
}

impl SealKey {
    fn new(id: SealKeyId, secret: &Secret) -> Self {
        let sealing = derive(secret, "unavez/seal-key/v1");
        let fingerprint = derive(secret, "unavez/fingerprint-key/v1");
        Self { id, sealing, fingerprint, check: *derive(secret, "unavez/seal-key-check/v1") }
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.sealing).into())
    }
}

fn derive(secret: &Secret, purpose: &str) -> Secret {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&**secret).expect("HMAC takes any length");
    mac.update(purpose.as_bytes());
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// The sealing keys of a deployment: the one in use and older ones. Cheap to clone; the memory is wiped when
/// the last clone goes.
#[derive(Clone)]
pub struct SealKeys {
    /// Never empty; the first one seals.
    keys: Arc<[SealKey]>,
}

impl SealKeys {
    /// Reads a key file; its format stands at the head of this module. The caller wipes the text.
    ///
    /// # Errors
    /// Names the first line that is wrong, never what it holds.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut keys: Vec<SealKey> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse = |fault| KeyFileError { line: index + 1, fault };
            let key = parse_line(line).map_err(refuse)?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(refuse(KeyFileFault::RepeatedId));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(KeyFileError { line: 0, fault: KeyFileFault::NoKey });
        }
        Ok(Self { keys: keys.into() })
    }

    /// The id of the key that seals.
    #[must_use]
    pub fn current_id(&self) -> &SealKeyId {
        &self.keys[0].id
    }

    /// Seals for this owner. `nonce` must be 24 bytes from a secure random source, new for each call.
    #[must_use]
    pub fn seal(&self, nonce: [u8; 24], owner: Owner<'_>, plain: &[u8]) -> Sealed {
        let key = &self.keys[0];
        let payload = Payload { msg: plain, aad: &owner.associated_data(&key.id) };
        let ciphertext = key
            .cipher()
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a text in memory is shorter than the cipher's limit of 256 GiB");
        Sealed { key_id: key.id.clone(), nonce, ciphertext }
    }

    /// Opens what was sealed for this owner.
    ///
    /// # Errors
    /// The key is not in the file, or the bytes are not what this key sealed for this owner.
    pub fn open(&self, owner: Owner<'_>, sealed: &Sealed) -> Result<Vec<u8>, OpenError> {
        let key = self.keys.iter().find(|key| key.id == sealed.key_id);
        let key = key.ok_or_else(|| OpenError::UnknownKey(sealed.key_id.clone()))?;
        let payload = Payload { msg: &sealed.ciphertext, aad: &owner.associated_data(&key.id) };
        key.cipher().decrypt(&XNonce::from(sealed.nonce), payload).map_err(|_| OpenError::Refused)
    }

    /// Each id with a value that only its key makes, the current one first. Neither the key nor what it sealed
    /// can be found by it, so it may be stored in clear.
    pub fn check_values(&self) -> impl Iterator<Item = (&SealKeyId, &[u8; 32])> {
        self.keys.iter().map(|key| (&key.id, &key.check))
    }

    /// The keys that fingerprints are made with, under the same ids.
    #[must_use]
    pub fn fingerprint_keys(&self) -> FingerprintKeys {
        self.keys.iter().map(|key| (key.id.clone(), key.fingerprint.clone())).collect()
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| &key.id)).finish()
    }
}

fn parse_line(line: &str) -> Result<SealKey, KeyFileFault> {
    let (id, digits) = line.split_once(char::is_whitespace).ok_or(KeyFileFault::NotTwoWords)?;
    let id = SealKeyId::parse(id).ok_or(KeyFileFault::Id)?;
    let secret = parse_secret(digits.trim_start().as_bytes()).ok_or(KeyFileFault::Secret)?;
    Ok(SealKey::new(id, &secret))
}

fn parse_secret(digits: &[u8]) -> Option<Secret> {
    if digits.len() != 64 {
        return None;
    }
    let mut secret = Zeroizing::new([0; 32]);
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(secret)
}

/// Whose answer is sealed.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The deployment.
    pub realm: &'a Realm,
    /// Who the key belongs to.
    pub tenant: &'a Tenant,
    /// The caller's name for the operation.
    pub key: &'a Key,
}

impl Owner<'_> {
    fn associated_data(&self, id: &SealKeyId) -> Vec<u8> {
        let fields =
            ["unavez/seal/v1", id.as_str(), self.realm.as_str(), self.tenant.as_str(), self.key.as_str()];
        let mut data = Collected::default();
        fields.iter().for_each(|field| frame(&mut data, field.as_bytes()));
        data.0
    }
}

/// A sealed text with what it takes to open it, the key aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    key_id: SealKeyId,
    nonce: [u8; 24],
    ciphertext: Vec<u8>,
}

const STORED_VERSION: u8 = 1;

impl Sealed {
    /// The key it was sealed with.
    #[must_use]
    pub fn key_id(&self) -> &SealKeyId {
        &self.key_id
    }

    /// The stored form: version 1, the key id behind its length, the nonce, the ciphertext with its tag.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + ID_LENGTH_MAX + 24 + self.ciphertext.len());
        bytes.push(STORED_VERSION);
        SealKeyId::write_stored(Some(&self.key_id), &mut bytes);
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(&self.ciphertext);
        bytes
    }

    /// Reads the stored form. Whether it is genuine shows when it is opened.
    ///
    /// # Errors
    /// A version this build does not know, or bytes cut short.
    pub fn decode(bytes: &[u8]) -> Result<Self, OpenError> {
        let (&version, rest) = bytes.split_first().ok_or(OpenError::Refused)?;
        if version != STORED_VERSION {
            return Err(OpenError::UnknownVersion(version));
        }
        let (key_id, rest) = SealKeyId::split_stored(rest).ok_or(OpenError::Refused)?;
        let (nonce, ciphertext) = rest.split_first_chunk().ok_or(OpenError::Refused)?;
        Ok(Self { key_id: key_id.ok_or(OpenError::Refused)?, nonce: *nonce, ciphertext: ciphertext.to_vec() })
    }
}

/// Why a sealed text does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Written by a newer version.
    UnknownVersion(u8),
    /// Its key is not in the key file (any more).
    UnknownKey(SealKeyId),
    /// Damaged, or sealed for another owner.
    Refused,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion(version) => {
                write!(f, "sealed answer has version {version}, known is {STORED_VERSION}")
            }
            Self::UnknownKey(id) => write!(f, "sealing key `{id}` is not in the key file"),
            Self::Refused => f.write_str("sealed answer is damaged or belongs to another key"),
        }
    }
}

impl core::error::Error for OpenError {}

/// Why a key file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileError {
    line: usize,
    fault: KeyFileFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyFileFault {
    NoKey,
    NotTwoWords,
    Id,
    Secret,
    RepeatedId,
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match self.fault {
            KeyFileFault::NoKey => f.write_str("sealing key file has no key"),
            KeyFileFault::NotTwoWords => write!(f, "line {line} is not an id, a space and a key"),
            KeyFileFault::Id => {
                write!(f, "id in line {line} is not 1 to {ID_LENGTH_MAX} letters, digits, `.`, `_` or `-`")
            }
            KeyFileFault::Secret => write!(f, "key in line {line} is not 64 hex digits"),
            KeyFileFault::RepeatedId => write!(f, "id in line {line} stands in an earlier line"),
        }
    }
}

impl core::error::Error for KeyFileError {}
