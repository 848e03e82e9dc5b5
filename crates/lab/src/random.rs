//! CPython's `random.Random`, bit for bit, so that the fleet's figures can be drawn again with Python's standard library.
//!
//! CPython seeds MT19937 by `init_by_array` with the absolute value of the seed, cut into 32-bit words, least
//! significant first; the seed 0 is the one word 0.

use rand_mt::Mt;

/// The generator behind `random.Random(seed)`.
#[derive(Debug)]
pub struct PythonRandom {
    twister: Mt,
}

impl PythonRandom {
    /// `random.Random(seed)`. Takes 128 bits so that `seed + 1` of any 64-bit seed exists.
    pub fn new(seed: u128) -> Self {
        Self { twister: Mt::new_with_key(words(seed)) }
    }

    /// `randint(low, high)`: uniform over both ends, by rejection as CPython does it.
    ///
    /// # Panics
    ///
    /// When `low > high`, or when the range is all of `u32`, whose size has no 32-bit form.
    pub fn randint(&mut self, low: u32, high: u32) -> u32 {
        assert!(low <= high, "randint needs low <= high, got {low} and {high}");
        let size = (high - low).checked_add(1).expect("the range is smaller than all of u32");
        let bits = u32::BITS - size.leading_zeros();
        loop {
            let drawn = self.twister.next_u32() >> (u32::BITS - bits);
            if drawn < size {
                return low + drawn;
            }
        }
    }

    /// `random()`: 53 bits from two outputs, in `[0, 1)`.
    pub fn random(&mut self) -> f64 {
        let high = f64::from(self.twister.next_u32() >> 5);
        let low = f64::from(self.twister.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// `getrandbits(64)`: two outputs, the first one below.
    pub fn bits64(&mut self) -> u64 {
        let low = u64::from(self.twister.next_u32());
        u64::from(self.twister.next_u32()) << 32 | low
    }
}

/// The seed as CPython hands it to `init_by_array`.
fn words(seed: u128) -> impl Iterator<Item = u32> + Clone {
    let bits = u128::BITS - seed.leading_zeros();
    let words = bits.div_ceil(u32::BITS).max(1);
    (0..words).map(move |word| {
        u32::try_from((seed >> (word * u32::BITS)) & 0xffff_ffff).expect("masked to 32 bits")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by CPython 3.11: `r = random.Random(seed)`, eight `r.randint(10, 500)`; anew, three `r.random()`.
    const GOLDEN: [(u128, [u32; 8], [f64; 3]); 9] = [
        (
            0,
            [442, 207, 398, 465, 225, 30, 142, 271],
            [0.8444218515250481, 0.7579544029403025, 0.420571580830845],
        ),
        (
            1,
            [78, 301, 443, 420, 401, 42, 140, 70],
            [0.13436424411240122, 0.8474337369372327, 0.763774618976614],
        ),
        (
            7,
            [175, 495, 87, 212, 343, 34, 47, 430],
            [0.32383276483316237, 0.15084917392450192, 0.6509344730398537],
        ),
        (
            42,
            [337, 67, 22, 389, 150, 135, 124, 81],
            [0.6394267984578837, 0.025010755222666936, 0.27502931836911926],
        ),
        (
            0xffff_ffff,
            [335, 327, 114, 120, 320, 277, 159, 318],
            [0.6353574441341173, 0.20319993954407756, 0.6073666030347188],
        ),
        (
            1 << 32,
            [67, 189, 223, 488, 18, 21, 323, 458],
            [0.11299430095636409, 0.41782886486292836, 0.0166763664992291],
        ),
        (
            (1 << 32) + 5,
            [90, 258, 154, 465, 319, 437, 17, 191],
            [0.15727238718789782, 0.2824866316461999, 0.6044540318498407],
        ),
        (
            1 << 63,
            [293, 211, 491, 117, 133, 445, 267, 53],
            [0.5534639983914199, 0.9406144709090462, 0.24199432111690833],
        ),
        (
            1 << 64,
            [386, 200, 57, 265, 329, 81, 328, 273],
            [0.9776462743838505, 0.3711105964481608, 0.49965891230531634],
        ),
    ];

    /// Printed by CPython 3.11: `r = random.Random(42)`, two `r.getrandbits(64)`.
    const GOLDEN_BITS: [u64; 2] = [2_053_695_854_357_871_005, 13_679_192_365_072_849_617];

    #[test]
    fn draws_what_cpython_draws() {
        for (seed, integers, floats) in GOLDEN {
            let mut random = PythonRandom::new(seed);
            assert_eq!(integers.map(|_| random.randint(10, 500)), integers, "randint of seed {seed}");
            let mut random = PythonRandom::new(seed);
            assert_eq!(floats.map(|_| random.random()), floats, "random of seed {seed}");
        }
    }

    #[test]
    fn draws_the_bits_that_cpython_draws() {
        let mut random = PythonRandom::new(42);
        assert_eq!([random.bits64(), random.bits64()], GOLDEN_BITS);
    }

    #[test]
    fn seed_zero_is_one_word() {
        assert_eq!(words(0).collect::<Vec<_>>(), [0]);
        assert_eq!(words(1 << 32).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(words(u128::MAX).count(), 4);
    }

    #[test]
    fn a_range_of_one_needs_no_luck() {
        assert_eq!(PythonRandom::new(3).randint(9, 9), 9);
    }
}
