//! What is certainly not in the tree: most look-ups are for new digests, and need no page of it then.

use super::Digest;

/// Bits for each digest that is expected; with six of them set, about one look-up in a hundred goes to the tree in vain.
const BITS_EACH: usize = 12;

/// Bits set for a digest, all in one block, so that a look-up touches one line of the processor's cache.
const BITS_SET: u32 = 6;

/// Words of a block: 64 bytes.
const BLOCK: usize = 8;

/// A Bloom filter in blocks.
#[derive(Debug)]
pub(super) struct Filter {
    words: Vec<u64>,
    blocks: u64,
    capacity: usize,
    added: usize,
}

impl Filter {
    /// For so many digests; more make it less useful, never wrong.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let blocks = (capacity * BITS_EACH).div_ceil(BLOCK * 64).max(1);
        Self { words: vec![0; blocks * BLOCK], blocks: blocks as u64, capacity, added: 0 }
    }

    pub(super) fn added(&self) -> usize {
        self.added
    }

    pub(super) fn is_full(&self) -> bool {
        self.added >= self.capacity
    }

    pub(super) fn add(&mut self, digest: &Digest) {
        self.added += 1;
        let block = self.block(digest);
        for bit in bits(digest) {
            self.words[block + bit / 64] |= 1 << (bit % 64);
        }
    }

    /// `false`: it was never added.
    pub(super) fn may_hold(&self, digest: &Digest) -> bool {
        let block = self.block(digest);
        bits(digest).all(|bit| self.words[block + bit / 64] & (1 << (bit % 64)) != 0)
    }

    fn block(&self, digest: &Digest) -> usize {
        let [first, _] = halves(digest);
        let number = (u128::from(first) * u128::from(self.blocks)) >> 64;
        usize::try_from(number).expect("below the number of blocks") * BLOCK
    }
}

fn bits(digest: &Digest) -> impl Iterator<Item = usize> {
    let [_, second] = halves(digest);
    (0..BITS_SET).map(move |number| {
        let bit = (second >> (9 * number)) % 512;
        usize::try_from(bit).expect("below 512")
    })
}

fn halves(digest: &Digest) -> [u64; 2] {
    let half = |at: usize| {
        u64::from_be_bytes(digest[at..at + 8].try_into().expect("half of a digest is eight bytes"))
    };
    [half(0), half(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u64) -> Digest {
        // Spread as a hash is.
        let spread = |salt: u64| {
            (number ^ salt)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&spread(1).to_be_bytes());
        digest[8..].copy_from_slice(&spread(2).to_be_bytes());
        digest
    }

    #[test]
    fn what_was_added_may_be_held_and_little_else() {
        let mut filter = Filter::with_capacity(10_000);
        (0..10_000).for_each(|number| filter.add(&digest(number)));
        assert!((0..10_000).all(|number| filter.may_hold(&digest(number))));
        let in_vain = (10_000..20_000).filter(|number| filter.may_hold(&digest(*number))).count();
        assert!(in_vain < 300, "{in_vain} of 10000");
        assert!(filter.is_full());
    }
}
