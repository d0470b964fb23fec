//! The one random generator of the workloads: xoshiro256++, seeded by splitmix64.
//!
//! A seed must replay for years, on every machine and with every version of every library, so the streams are pinned by
//! known answers. Sources: D. Blackman and S. Vigna, "Scrambled Linear Pseudorandom Number
//! Generators" (ACM TOMS 47, 2021) and the public-domain reference programs `xoshiro256plusplus.c` and `splitmix64.c`.
//!
//! # Streams
//!
//! Every lane of every thread draws from a stream of its own. The rule:
//!
//! ```text
//! origin(seed, stream) = mix(mix(seed) + stream)          (wrapping; mix = the finaliser of splitmix64)
//! state(seed, stream)  = the first four outputs of splitmix64 started at origin
//! ```
//!
//! `mix` is a bijection, so two streams of one seed never start at the same origin. Neighbouring seeds share no stream
//! in practice: `mix(a) + i = mix(b) + j` asks two 64-bit hashes to lie within the number of lanes of each other.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// The increment of splitmix64: 2^64 divided by the golden ratio, made odd.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64 (variant 13 of D. Stafford): a bijection of the 64-bit numbers in which every input bit
/// reaches every output bit. [`unmix`] is its inverse.
pub const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The inverse of [`mix`]: `unmix(mix(number)) == number`.
pub const fn unmix(mixed: u64) -> u64 {
    // x ^ (x >> s) is undone by x ^ (x >> s) ^ (x >> 2s) ^ ... until the shift leaves the word; the two factors are the
    // inverses of the factors of `mix` modulo 2^64.
    let mixed = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let mixed = (mixed ^ (mixed >> 27) ^ (mixed >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    mixed ^ (mixed >> 30) ^ (mixed >> 60)
}

/// splitmix64: a counter with a hash behind it. Seeds [`Random`] and expands keys and values; not used for draws.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the sequence at `state`.
    pub const fn new(state: u64) -> Self {
        Self { state }
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix(self.state)
    }
}

/// xoshiro256++: 256 bits of state, period 2^256 - 1. Not for cryptography.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The generator whose state is the first four outputs of splitmix64 started at `seed`.
    pub fn from_seed(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Stream `stream` of `seed`, by the rule at the head of this file.
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::from_seed(mix(mix(seed).wrapping_add(stream)))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number in `[0, 1)`: the top 53 bits, every multiple of 2^-53 equally likely.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        const TWO_TO_MINUS_53: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * TWO_TO_MINUS_53
    }

    /// A number below `bound`, every one equally likely; 0 when `bound` is 0.
    ///
    /// D. Lemire, "Fast Random Integer Generation in an Interval" (ACM TOMACS 29, 2019): the high word of a product, and a
    /// redraw in the few cases (fewer than `bound` of 2^64) that would favour some numbers.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let mut product = self.next_u64() as u128 * bound as u128;
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = self.next_u64() as u128 * bound as u128;
            }
        }
        (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_answers() {
        let mut words = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| words.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn the_streams_of_a_seed_are_pinned() {
        let first_words: Vec<u64> = (0..4).map(|stream| Random::stream(42, stream).next_u64()).collect();
        assert_eq!(first_words, PINNED_STREAMS_OF_SEED_42);
    }

    /// From a second implementation of the rule, written in Python.
    const PINNED_STREAMS_OF_SEED_42: [u64; 4] =
        [1_618_609_590_191_845_186, 14_919_444_632_682_208_376, 122_276_476_252_420_536, 6_681_616_289_305_375_207];

    #[test]
    fn unmix_undoes_mix() {
        let mut words = SplitMix64::new(7);
        for number in (0..1_000).chain((0..1_000).map(|_| words.next_u64())).chain([u64::MAX, 1 << 63]) {
            assert_eq!(unmix(mix(number)), number);
            assert_eq!(mix(unmix(number)), number);
        }
    }

    #[test]
    fn numbers_below_a_bound_are_equally_likely() {
        const CELLS: usize = 97;
        const DRAWS: u32 = 970_000;
        let mut random = Random::from_seed(11);
        let mut counts = [0_u32; CELLS];
        for _ in 0..DRAWS {
            counts[random.below(CELLS as u64) as usize] += 1;
        }
        let expected = f64::from(DRAWS) / CELLS as f64;
        let chi_square: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        // 96 degrees of freedom: mean 96, standard deviation 13.9; within five of them on both sides (an even spread
        // that is too even is as wrong as one that is not).
        assert!((27.0..165.0).contains(&chi_square), "chi-square {chi_square}");
    }

    #[test]
    fn bounds_at_the_edges_hold() {
        let mut random = Random::from_seed(3);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
        let above_half = (0..1_000).filter(|_| random.below(u64::MAX) > u64::MAX / 2).count();
        assert!((400..600).contains(&above_half));
        assert!((0..100_000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
