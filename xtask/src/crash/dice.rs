//! A small generator of its own, so that a seed means the same draws everywhere and for ever.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice of one of several lanes.
    pub(crate) fn of_lane(seed: u64, lane: u64) -> Self {
        let mut dice = Self(seed);
        let base = dice.next();
        Self(base ^ lane.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the limit, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// One in so many.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of them, which are some.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let place = self.below(choices.len() as u64);
        choices[usize::try_from(place).expect("below a length")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_draws_and_lanes_differ() {
        let draws = |seed, lane| {
            let mut dice = Dice::of_lane(seed, lane);
            [dice.next(), dice.next()]
        };
        assert_eq!(draws(42, 1), draws(42, 1));
        assert_ne!(draws(42, 1), draws(42, 2));
        assert_ne!(draws(42, 1), draws(7, 1));
    }

    #[test]
    fn every_choice_comes_up() {
        let mut dice = Dice::of_lane(42, 0);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[dice.pick(&[0_usize, 1, 2, 3, 4])] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
