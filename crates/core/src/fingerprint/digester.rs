//! SHA-256 or, with sealing keys, HMAC under one of them (P5, P23).

use alloc::sync::Arc;
use core::fmt;

use hmac::{Hmac, KeyInit};
use sha2::digest::{FixedOutput, Update};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::parts::Short;
use crate::identity::frame;
use crate::seal::SealKeyId;

/// The keys that fingerprints are made with: the one in use and older ones, by id. Made of the sealing keys
/// ([`crate::seal::SealKeys::fingerprint_keys`]). Cheap to clone.
#[derive(Clone, Default)]
pub struct FingerprintKeys(Arc<[FingerprintKey]>);

pub(super) struct FingerprintKey {
    pub(super) id: SealKeyId,
    /// Keyed once, cloned for each digest: keying costs two blocks of hashing. Not wiped when dropped: that
    /// would cost every digest a tenth of its time, for keys that live as long as the process.
    mac: Hmac<Sha256>,
}

impl FingerprintKeys {
    pub(super) fn current(&self) -> Option<&FingerprintKey> {
        self.0.first()
    }

    pub(super) fn find(&self, id: &SealKeyId) -> Option<&FingerprintKey> {
        self.0.iter().find(|key| key.id == *id)
    }
}

impl FromIterator<(SealKeyId, Zeroizing<[u8; 32]>)> for FingerprintKeys {
    fn from_iter<I: IntoIterator<Item = (SealKeyId, Zeroizing<[u8; 32]>)>>(keys: I) -> Self {
        let keyed = |(id, secret): (_, Zeroizing<[u8; 32]>)| FingerprintKey {
            id,
            mac: Hmac::new_from_slice(&*secret).expect("HMAC takes any length"),
        };
        Self(keys.into_iter().map(keyed).collect())
    }
}

impl fmt::Debug for FingerprintKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

/// The short digest of one part. Its input begins with a letter, the whole's with the zeros of a length, so
/// the two never meet.
pub(super) fn short(key: Option<&FingerprintKey>, name: &[u8], value: impl FnOnce(&mut Digester)) -> Short {
    let mut digest = Digester::new(key);
    digest.update(b"part");
    frame(&mut digest, name);
    value(&mut digest);
    let digest = digest.finish();
    let (short, _) = digest.split_first_chunk().expect("32 bytes start with 8");
    *short
}

/// SHA-256, or its HMAC.
pub(super) enum Digester {
    Plain(Sha256),
    Keyed(Hmac<Sha256>),
}

impl Digester {
    pub(super) fn new(key: Option<&FingerprintKey>) -> Self {
        key.map_or_else(|| Self::Plain(Sha256::new()), |key| Self::Keyed(key.mac.clone()))
    }

    pub(super) fn finish(self) -> [u8; 32] {
        match self {
            Self::Plain(hash) => hash.finalize_fixed().into(),
            Self::Keyed(mac) => mac.finalize_fixed().into(),
        }
    }
}

impl Update for Digester {
    fn update(&mut self, data: &[u8]) {
        match self {
            Self::Plain(hash) => Update::update(hash, data),
            Self::Keyed(mac) => Update::update(mac, data),
        }
    }
}
