//! The one source of randomness: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators",
//! ACM TOMS 47(4), 2021), its state filled from the seed by splitmix64 as its authors advise.
//!
//! Written out here and pinned by its published test values, because seeds in bug reports must replay for years.

/// A stream of random numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut seed)) }
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number in `0..bound`; 0 if `bound` is 0. The bias (below `bound / 2^32`) is of no concern to schedules.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A number in the inclusive range.
    #[inline]
    pub fn within(&mut self, (low, high): (u32, u32)) -> u64 {
        u64::from(low) + u64::from(self.below(high.saturating_sub(low).saturating_add(1)))
    }

    /// True in `percent` of 100 calls.
    #[inline]
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}

/// One step of splitmix64.
const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected =
            [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386, 9_228_616_714_210_784_205];
        assert_eq!(expected.map(|_| rng.bits()), expected);
        let mut seed = 0;
        assert_eq!([split_mix(&mut seed), split_mix(&mut seed)], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
    }

    #[test]
    fn ranges_are_inclusive() {
        let mut rng = Rng::new(7);
        let drawn: Vec<u64> = (0..200).map(|_| rng.within((3, 5))).collect();
        assert!(drawn.iter().all(|number| (3..=5).contains(number)));
        assert!([3, 4, 5].iter().all(|number| drawn.contains(number)));
        assert_eq!(rng.within((9, 9)), 9);
    }
}
