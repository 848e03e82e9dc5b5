//! Attempt ids and nonces, many thousand a second.

use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use unavez_tower::engine::Random;
use uuid::Uuid;

/// SHA-256 over a secret of the process and a counter: as unpredictable as the secret, never the same twice, and without
/// a system call for each.
pub(crate) struct Stream {
    secret: [u8; 32],
    next: AtomicU64,
}

impl Stream {
    /// A stream with 244 random bits from the operating system.
    pub(crate) fn new() -> Self {
        let mut secret = [0; 32];
        secret[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        secret[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Self { secret, next: AtomicU64::new(0) }
    }
}

impl Random for Stream {
    fn bits(&self) -> [u8; 16] {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let digest: [u8; 32] =
            Sha256::new().chain_update(self.secret).chain_update(number.to_be_bytes()).finalize().into();
        let (bits, _) = digest.split_first_chunk().expect("32 bytes start with 16");
        *bits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn bits_never_repeat_within_a_stream_or_between_two() {
        let streams = [Stream::new(), Stream::new()];
        let seen: HashSet<_> =
            streams.iter().flat_map(|stream| std::iter::repeat_with(|| stream.bits()).take(1000)).collect();
        assert_eq!(seen.len(), 2000);
    }
}
