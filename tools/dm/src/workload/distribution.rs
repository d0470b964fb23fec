//! Which record the next operation touches: uniform, zipfian in both meanings of the word, latest.
//!
//! "Zipfian 0.99" names two different workloads in the literature, and they load an index differently:
//!
//! | name | popular records | used by |
//! |---|---|---|
//! | `ycsb` | scattered over the records by a hash ([`ScrambledZipfian`]) | YCSB A, B, C, E, F |
//! | `ranked` | rank = record number: record 0 is the most popular, its neighbours follow ([`Zipfian`]) | the papers' micro-benchmarks |
//!
//! With `insertorder=ordered` a record number is its place in key order, and `ranked` then puts the hottest keys side by
//! side, into the same few leaves.
//!
//! # Cost of a draw
//!
//! Measured by `draws_are_cheap` below (release build, one core of an Intel Xeon VM, 60 M records, theta 0.99 unless said
//! otherwise):
//!
//! | distribution | ns a draw |
//! |---|---|
//! | uniform | 1.3 |
//! | ranked | 5.6 |
//! | ranked, theta 0.73 (no whole exponent) | 18.7 |
//! | ycsb | 16.0 |
//! | latest, count unchanged / grown before every draw | 5.6 / 26.3 |
//!
//! # Replay
//!
//! The common skews have a whole exponent `1 / (1 - theta)` (0.99, 0.9, 0.8, 0.5, 0), which is raised by multiplication
//! alone: the same bits on every machine. Any other theta goes through the platform's `pow`, whose last bit may differ
//! between C libraries and so may move a draw that falls on the border of two ranks.

use super::random::Random;

/// YCSB's default zipfian constant.
pub const DEFAULT_THETA: f64 = 0.99;

/// The largest skew that is accepted: the method of Gray et al. divides by `1 - theta`.
pub const THETA_MAX: f64 = 0.999;

/// The number of items that YCSB's `ScrambledZipfianGenerator` draws from before it hashes, whatever the record count.
pub const YCSB_ITEM_COUNT: u64 = 10_000_000_000;

/// Zeta of [`YCSB_ITEM_COUNT`] items for theta 0.99, as YCSB's source has it (`ZETAN`).
pub const YCSB_ZETAN: f64 = 26.469_028_201_783_02;

/// `zeta(n) = 1 + 2^-theta + ... + n^-theta`, in constant time for every n.
///
/// The sum of 60 M terms takes more than a second and `latest` needs a new one after every insert. From
/// [`SUMMED_TERMS`](Zeta::SUMMED_TERMS) on, the Euler-Maclaurin formula gives the rest of the sum with an error below
/// 1e-16, at the price of one power, and without the drift of adding terms for hours.
#[derive(Clone, Debug)]
struct Zeta {
    theta: f64,
    inverse_of_one_minus_theta: f64,
    /// What the formula lacks: the exact sum of the first terms less the formula at that point.
    constant: f64,
}

impl Zeta {
    /// How many terms are added one by one. The first neglected term of the formula is
    /// `theta (theta+1) .. (theta+4) / 30240 * n^-(theta+5)`, below 1e-16 from here on.
    const SUMMED_TERMS: u64 = 512;

    fn new(theta: f64) -> Self {
        let mut zeta = Self { theta, inverse_of_one_minus_theta: 1.0 / (1.0 - theta), constant: 0.0 };
        zeta.constant = zeta.summed(Self::SUMMED_TERMS) - zeta.formula(Self::SUMMED_TERMS).0;
        zeta
    }

    /// `zeta(items)` and `items^(1 - theta)`, which the caller needs as well and which comes from the same power.
    fn of(&self, items: u64) -> (f64, f64) {
        let (formula, power) = self.formula(items);
        if items < Self::SUMMED_TERMS { (self.summed(items), power) } else { (self.constant + formula, power) }
    }

    /// Smallest terms first, which keeps the rounding error of the sum at its least.
    fn summed(&self, items: u64) -> f64 {
        (1..=items).rev().map(|item| (item as f64).powf(-self.theta)).sum()
    }

    fn formula(&self, items: u64) -> (f64, f64) {
        let (theta, items) = (self.theta, items as f64);
        let (term, inverse) = (items.powf(-theta), items.recip());
        let power = items * term;
        // The derivatives of x^-theta at the end of the sum: 1/2 f, 1/12 f', -1/720 f'''.
        let third = theta * (theta + 1.0) * (theta + 2.0) / 720.0 * inverse * inverse;
        let sum = power * self.inverse_of_one_minus_theta + term * (0.5 - inverse * (theta / 12.0 - third));
        (sum, power)
    }
}

/// How `x^(1 / (1 - theta))` is computed.
#[derive(Clone, Copy, Debug)]
enum Exponent {
    Whole(u32),
    Real(f64),
}

impl Exponent {
    /// `1 / (1 - 0.99)` is 99.99999999999991 in doubles; taking it as 100 changes no result by more than two parts in
    /// 10^14, far below the step between two ranks of any data set that fits into a machine.
    fn of(exponent: f64) -> Self {
        let whole = exponent.round();
        if (exponent - whole).abs() < 1e-9 && whole <= 1_000.0 {
            Self::Whole(whole as u32)
        } else {
            Self::Real(exponent)
        }
    }

    #[inline]
    fn raise(self, base: f64) -> f64 {
        match self {
            // Written out: the bits of `f64::powi` and `powf` are not promised.
            Self::Whole(mut exponent) => {
                let (mut square, mut result) = (base, 1.0);
                while exponent > 1 {
                    if exponent & 1 == 1 {
                        result *= square;
                    }
                    square *= square;
                    exponent >>= 1;
                }
                result * square
            }
            Self::Real(exponent) => base.powf(exponent),
        }
    }
}

/// Ranks `0..items`, rank 0 the most popular: rank r is drawn about in proportion to `(r + 1)^-theta`.
///
/// The method of Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994, figure 6), as in YCSB
/// and in the generators that the papers' benchmarks use: ranks 0 and 1 exactly, the others by inverting a power curve.
/// That curve is known to lie off the exact law in the head; at theta 0.99 rank 2 comes 18 % too often
/// and the ten most popular ranks together 5 % (1 M items). It is kept, for what users compare with has it too.
#[derive(Clone, Debug)]
pub struct Zipfian {
    zeta: Zeta,
    exponent: Exponent,
    items: u64,
    zeta_of_items: f64,
    /// `zeta(2)`: below it, and above 1, lies rank 1.
    zeta_of_two: f64,
    eta: f64,
}

impl Zipfian {
    /// A distribution over `items` ranks (at least 1) with skew `theta` in `0.0..=`[`THETA_MAX`]; both are clamped into
    /// their ranges, [`Spec`](super::spec::Spec) having refused others with a message.
    pub fn new(items: u64, theta: f64) -> Self {
        let theta = theta.clamp(0.0, THETA_MAX);
        let mut zipfian = Self {
            zeta: Zeta::new(theta),
            exponent: Exponent::of(1.0 / (1.0 - theta)),
            items: 0,
            zeta_of_items: 0.0,
            zeta_of_two: 1.0 + 0.5_f64.powf(theta),
            eta: 0.0,
        };
        zipfian.set_items(items);
        zipfian
    }

    /// Draws from `items` ranks (at least 1) from now on; more or fewer than before, at the price of one power.
    ///
    /// YCSB keeps computing `eta` from the number of items it was *built* with when the count grows; here it follows.
    #[inline]
    pub fn set_items(&mut self, items: u64) {
        let items = items.max(1);
        if items == self.items {
            return;
        }
        let (zeta_of_items, power) = self.zeta.of(items);
        self.set_items_and_zeta(items, zeta_of_items, power);
    }

    fn set_items_and_zeta(&mut self, items: u64, zeta_of_items: f64, items_to_one_minus_theta: f64) {
        self.items = items;
        self.zeta_of_items = zeta_of_items;
        // Up to two items, every draw is settled before eta is asked for, and the quotient would be 0 / 0.
        self.eta = if items <= 2 {
            0.0
        } else {
            let two_to_one_minus_theta = 2.0 * (self.zeta_of_two - 1.0);
            (1.0 - two_to_one_minus_theta / items_to_one_minus_theta) / (1.0 - self.zeta_of_two / zeta_of_items)
        };
    }

    /// How many ranks there are to draw from.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// The next rank, `0..items`.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let place = unit * self.zeta_of_items;
        if place < 1.0 {
            return 0;
        }
        let rank = if place < self.zeta_of_two {
            1
        } else {
            (self.items as f64 * self.exponent.raise(self.eta * unit - self.eta + 1.0)) as u64
        };
        // Rounding may carry the last sliver of the unit interval to rank `items`.
        rank.min(self.items - 1)
    }
}

/// FNV-1a over the eight octets of `number`, low octet first, then the absolute value as a signed number: YCSB's
/// `Utils.fnvhash64`. Not injective (63 bits remain), which is why keys are made by another hash (`keys.rs`).
#[inline]
pub const fn fnv_hash_64(number: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let mut hash = OFFSET_BASIS;
    let mut octet = 0;
    while octet < 8 {
        hash = (hash ^ (number >> (8 * octet) & 0xff)).wrapping_mul(PRIME);
        octet += 1;
    }
    hash.cast_signed().unsigned_abs()
}

/// YCSB's `ScrambledZipfianGenerator`: a zipfian rank among ten thousand million, hashed, modulo the number of records.
///
/// Two records may share popular ranks and, of few records, some draw no rank of note; both as in YCSB.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    range: u64,
}

impl ScrambledZipfian {
    /// Draws from `0..range` (at least 1) with skew `theta`, clamped as in [`Zipfian::new`].
    pub fn new(range: u64, theta: f64) -> Self {
        // YCSB passes minimum 0 and *maximum* ITEM_COUNT, hence one item more than the zeta it comes with.
        let mut ranks = Zipfian::new(YCSB_ITEM_COUNT + 1, theta);
        let (computed, _) = ranks.zeta.of(YCSB_ITEM_COUNT);
        let zeta = if ranks.zeta.theta.to_bits() == DEFAULT_THETA.to_bits() { YCSB_ZETAN } else { computed };
        let (_, power) = ranks.zeta.of(YCSB_ITEM_COUNT + 1);
        ranks.set_items_and_zeta(YCSB_ITEM_COUNT + 1, zeta, power);
        Self { ranks, range: range.max(1) }
    }

    /// The next number, `0..range`.
    #[inline]
    pub fn number(&self, random: &mut Random) -> u64 {
        fnv_hash_64(self.ranks.rank(random)) % self.range
    }
}

/// YCSB's `SkewedLatestGenerator`: the newest record is the most popular, the one before it the next.
#[derive(Clone, Debug)]
pub struct Latest {
    ages: Zipfian,
}

impl Latest {
    /// A distribution over `records` records (at least 1) to begin with, with skew `theta`, clamped as in
    /// [`Zipfian::new`].
    pub fn new(records: u64, theta: f64) -> Self {
        Self { ages: Zipfian::new(records, theta) }
    }

    /// The next record, of the `records` (at least 1) that there are by now: `records - 1` less a zipfian age.
    ///
    /// YCSB draws ages below `records - 1`, so its record 0 is never read; here it can be.
    #[inline]
    pub fn record(&mut self, random: &mut Random, records: u64) -> u64 {
        self.ages.set_items(records);
        self.ages.items() - 1 - self.ages.rank(random)
    }
}

/// The distribution of a run, as one lane draws from it.
#[derive(Clone, Debug)]
pub enum Popularity {
    /// Every loaded record alike. As in YCSB, records inserted during the run are not drawn.
    Uniform {
        /// Records loaded before the run.
        records: u64,
    },
    /// Zipfian as YCSB means it. The range includes the records that the run is expected to insert, so that inserts do
    /// not move the popular records; a draw that does not exist yet is drawn again.
    Ycsb(ScrambledZipfian),
    /// Zipfian as the papers' micro-benchmarks mean it, over the loaded records.
    Ranked(Zipfian),
    /// The newest acknowledged record is the most popular.
    Latest(Latest),
}

impl Popularity {
    /// After so many draws of records that do not exist yet, one of the existing records is taken uniformly. YCSB draws
    /// for ever; with one record loaded and a million expected that would be a million draws. With half of the range
    /// present, this bound is met once in 10^38 draws.
    const REDRAWS_MAX: u32 = 128;

    /// The next record, below `existing` (at least 1): how many records, from 0 on, are acknowledged by now.
    #[inline]
    pub fn record(&mut self, random: &mut Random, existing: u64) -> u64 {
        match self {
            Self::Uniform { records } => random.below(*records),
            Self::Ranked(zipfian) => zipfian.rank(random),
            Self::Latest(latest) => latest.record(random, existing),
            Self::Ycsb(scrambled) => {
                for _ in 0..Self::REDRAWS_MAX {
                    let record = scrambled.number(random);
                    if record < existing {
                        return record;
                    }
                }
                random.below(existing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::SmallRng};
    use rand_distr::{Distribution, Zipf};
    use std::time::Instant;

    /// How often each of the `ranks` first ranks was drawn, as a share of all draws.
    fn shares(ranks: usize, draws: u32, mut draw: impl FnMut() -> u64) -> Vec<f64> {
        let mut counts = vec![0_u32; ranks];
        for _ in 0..draws {
            if let Some(count) = counts.get_mut(draw() as usize) {
                *count += 1;
            }
        }
        counts.iter().map(|&count| f64::from(count) / f64::from(draws)).collect()
    }

    #[test]
    fn zeta_agrees_with_the_sum_of_its_terms() {
        // Sums of rounded-to-nearest terms, added without rounding (Python's math.fsum).
        let known = [
            (0.5, 10, 5.020_997_899_292_666_5),
            (0.5, 1_000_000, 1_998.540_145_491_148_7),
            (0.7, 511, 18.875_328_289_467_88),
            (0.7, 513, 18.900_693_854_026_63),
            (0.99, 512, 7.014_544_356_643_603),
            (0.99, 1_000, 7.728_953_217_284_738),
            (0.99, 1_000_000, 15.391_849_746_036_804),
        ];
        for (theta, items, sum) in known {
            let (zeta, power) = Zeta::new(theta).of(items);
            assert!((zeta / sum - 1.0).abs() < 1e-13, "zeta({items}) for {theta}: {zeta}, expected {sum}");
            assert!((power / (items as f64).powf(1.0 - theta) - 1.0).abs() < 1e-13);
        }
    }

    #[test]
    fn zeta_of_ten_thousand_million_is_the_constant_in_ycsbs_source() {
        let (zeta, _) = Zeta::new(DEFAULT_THETA).of(YCSB_ITEM_COUNT);
        assert!((zeta - YCSB_ZETAN).abs() < 1e-9, "{zeta}");
    }

    #[test]
    fn growing_one_by_one_ends_where_starting_there_begins() {
        let mut grown = Zipfian::new(1, 0.99);
        (2..=2_000).for_each(|items| grown.set_items(items));
        let built = Zipfian::new(2_000, 0.99);
        assert_eq!(
            (grown.zeta_of_items.to_bits(), grown.eta.to_bits()),
            (built.zeta_of_items.to_bits(), built.eta.to_bits())
        );
    }

    #[test]
    fn ranks_follow_the_exact_law_as_closely_as_the_method_can() {
        const DRAWS: u32 = 2_000_000;
        // How far above the exact law the method of Gray et al. may come: per rank from rank 2 on, and for the ten most
        // popular ranks together.
        for (theta, rank_excess, top_ten_excess) in [(0.5, 0.10, 0.06), (0.8, 0.18, 0.07), (0.99, 0.21, 0.07)] {
            let items = 1_000_000_u64;
            let (zipfian, mut random) = (Zipfian::new(items, theta), Random::from_seed(5));
            let ours = shares(100_000, DRAWS, || zipfian.rank(&mut random));
            let (oracle, mut rng) = (Zipf::new(items as f64, theta).unwrap(), SmallRng::seed_from_u64(5));
            let exact = shares(100_000, DRAWS, || oracle.sample(&mut rng) as u64 - 1);
            let top = |shares: &[f64], ranks: usize| shares[..ranks].iter().sum::<f64>();

            // Five standard deviations of the difference of two counts of a share p: 5 sqrt(2 p / DRAWS).
            let noise = |share: f64| 5.0 * (2.0 * share / f64::from(DRAWS)).sqrt();
            if theta > 0.5 {
                for rank in 0..2 {
                    assert!((ours[rank] - exact[rank]).abs() < noise(exact[rank]), "theta {theta} rank {rank}");
                }
            }
            for rank in 2..12 {
                let (least, most) = (0.92 * exact[rank], (1.0 + rank_excess) * exact[rank]);
                assert!(ours[rank] > least - noise(least), "theta {theta} rank {rank}: {} {least}", ours[rank]);
                assert!(ours[rank] < most + noise(most), "theta {theta} rank {rank}: {} {most}", ours[rank]);
            }
            assert!((top(&ours, 10) / top(&exact, 10) - 1.0).abs() < top_ten_excess, "theta {theta}: top 10");
            for (ranks, excess) in [(100, 0.035), (1_000, 0.02), (10_000, 0.012), (100_000, 0.006)] {
                let ratio = top(&ours, ranks) / top(&exact, ranks);
                assert!((ratio - 1.0).abs() < excess, "theta {theta}, the first {ranks} ranks: {ratio}");
            }
        }
    }

    #[test]
    fn ranks_follow_the_law_of_the_method() {
        // Chi-square against the shares that the method's own curve gives each rank, which is exact, unlike the
        // comparison with Zipf's law above.
        const DRAWS: u32 = 1_000_000;
        let (zipfian, mut random) = (Zipfian::new(1_000, 0.99), Random::from_seed(9));
        let drawn = shares(100, DRAWS, || zipfian.rank(&mut random));
        // rank >= r, for r > 1, when items * (eta u - eta + 1)^(1 / (1 - theta)) >= r.
        let start_of = |rank: f64| ((rank / 1_000.0).powf(0.01) - 1.0) / zipfian.eta + 1.0;
        let chi_square: f64 = (2..100)
            .map(|rank| {
                let start = start_of(rank as f64).max(zipfian.zeta_of_two / zipfian.zeta_of_items);
                let expected = (start_of((rank + 1) as f64) - start) * f64::from(DRAWS);
                (drawn[rank] * f64::from(DRAWS) - expected).powi(2) / expected
            })
            .sum();
        // 98 cells: mean 98, standard deviation 14.
        assert!((28.0..168.0).contains(&chi_square), "chi-square {chi_square}");
    }

    #[test]
    fn every_rank_of_a_small_set_is_drawn_and_none_beyond() {
        for theta in [0.0, 0.5, 0.7, 0.99, THETA_MAX] {
            for items in 1..=5_u64 {
                let (zipfian, mut random) = (Zipfian::new(items, theta), Random::from_seed(items));
                let drawn = shares(items as usize, 50_000, || zipfian.rank(&mut random));
                assert!(drawn.iter().all(|&share| share > 0.0), "theta {theta}, {items} items: {drawn:?}");
                assert!((drawn.iter().sum::<f64>() - 1.0).abs() < 1e-9, "theta {theta}, {items} items: {drawn:?}");
            }
        }
    }

    #[test]
    fn no_skew_is_uniform() {
        let (zipfian, mut random) = (Zipfian::new(10, 0.0), Random::from_seed(1));
        let drawn = shares(10, 1_000_000, || zipfian.rank(&mut random));
        assert!(drawn.iter().all(|share| (0.098..0.102).contains(share)), "{drawn:?}");
    }

    #[test]
    fn a_whole_exponent_gives_what_the_real_one_gives() {
        let exponent = 1.0 / (1.0 - 0.99);
        assert!(matches!(Exponent::of(exponent), Exponent::Whole(100)));
        assert!(matches!(Exponent::of(1.0 / (1.0 - 0.73)), Exponent::Real(_)));
        for base in [0.8, 0.85, 0.9, 0.95, 0.99, 1.0_f64] {
            let ratio = Exponent::Whole(100).raise(base) / base.powf(exponent);
            assert!((ratio - 1.0).abs() < 1e-13, "{base}: {ratio}");
        }
        for exponent in [1, 2, 3, 5, 10] {
            assert_eq!(Exponent::Whole(exponent).raise(2.0).to_bits(), f64::from(1 << exponent).to_bits());
        }
    }

    #[test]
    fn the_hash_is_ycsbs() {
        // From a transcription of Utils.fnvhash64 into Python. The third and the fifth were negative before Math.abs.
        let known = [
            (0, 6_284_781_860_667_377_211),
            (1, 8_517_097_267_634_966_620),
            (2, 1_820_151_046_732_198_393),
            (255, 8_064_062_821_143_829_734),
            (10_000_000_000, 1_201_321_332_300_452_516),
            (12_345_678_901_234_567, 414_878_429_902_428_728),
        ];
        for (number, hash) in known {
            assert_eq!(fnv_hash_64(number), hash);
        }
    }

    #[test]
    fn scrambled_puts_ycsbs_popular_records_where_ycsb_has_them() {
        let (scrambled, mut random) = (ScrambledZipfian::new(1_000, 0.99), Random::from_seed(2));
        let drawn = shares(1_000, 1_000_000, || scrambled.number(&mut random));
        // Rank 0 lies on record fnv(0) mod 1000, with a share of 1 / zeta and its part of the even rest.
        let (most_popular, second) = ((fnv_hash_64(0) % 1_000) as usize, (fnv_hash_64(1) % 1_000) as usize);
        assert_eq!((most_popular, second), (211, 620));
        let largest = (0..1_000).max_by(|&a, &b| drawn[a].total_cmp(&drawn[b])).unwrap();
        assert_eq!(largest, most_popular);
        assert!((drawn[most_popular] - 1.0 / YCSB_ZETAN).abs() < 0.002, "{}", drawn[most_popular]);
        assert!((drawn[second] - 0.5_f64.powf(0.99) / YCSB_ZETAN).abs() < 0.002, "{}", drawn[second]);
        assert!((drawn.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn draws_of_the_default_skew_are_pinned() {
        let mut random = Random::stream(42, 0);
        let ranked = Zipfian::new(60_000_000, 0.99);
        let ranks: Vec<u64> = (0..8).map(|_| ranked.rank(&mut random)).collect();
        // From a second implementation, in Python, that adds up the 60 M terms of zeta.
        assert_eq!(ranks, [2, 78_579, 38_761_145, 907, 280, 548, 3, 3_632_270]);
        let scrambled = ScrambledZipfian::new(60_000_000, 0.99);
        let numbers: Vec<u64> = (0..8).map(|_| scrambled.number(&mut random)).collect();
        assert_eq!(
            numbers,
            [16_866_257, 7_710_327, 53_780_486, 38_082_542, 17_060_374, 42_898_155, 27_377_211, 32_379_893]
        );
    }

    #[test]
    fn latest_follows_the_newest_record() {
        let (mut latest, mut random) = (Latest::new(100, 0.99), Random::from_seed(8));
        for records in [100, 101, 500, 5_000] {
            let mut drawn = vec![0_u32; records as usize];
            (0..100_000).for_each(|_| drawn[latest.record(&mut random, records) as usize] += 1);
            let most_drawn = (0..drawn.len()).max_by_key(|&record| drawn[record]).unwrap();
            assert_eq!(most_drawn as u64, records - 1);
            assert!(drawn[records as usize - 1] > drawn[records as usize - 2]);
        }
        let oldest = (0..100_000).filter(|_| latest.record(&mut random, 10) == 0).count();
        assert!(oldest > 0, "the first record can be drawn");
    }

    #[test]
    fn records_that_do_not_exist_yet_are_drawn_again() {
        let mut popularity = Popularity::Ycsb(ScrambledZipfian::new(2_000, 0.99));
        let mut random = Random::from_seed(4);
        let drawn: Vec<u64> = (0..10_000).map(|_| popularity.record(&mut random, 1_000)).collect();
        assert!(drawn.iter().all(|&record| record < 1_000));
        // The popular records stay where they are when others appear.
        let counts = |record| drawn.iter().filter(|&&drawn| drawn == record).count();
        let popular = (0..100).map(|rank| fnv_hash_64(rank) % 2_000).find(|&record| record < 1_000).unwrap();
        assert!((0..1_000).all(|record| counts(record) <= counts(popular)));
    }

    #[test]
    fn a_range_that_hardly_exists_yet_still_ends() {
        let mut popularity = Popularity::Ycsb(ScrambledZipfian::new(1 << 40, 0.99));
        assert_eq!(popularity.record(&mut Random::from_seed(4), 1), 0);
    }

    /// Nanoseconds a draw, over two million draws.
    fn cost_ns(mut draw: impl FnMut() -> u64) -> f64 {
        const DRAWS: u32 = 2_000_000;
        let start = Instant::now();
        let mut sum = 0_u64;
        for _ in 0..DRAWS {
            sum = sum.wrapping_add(draw());
        }
        std::hint::black_box(sum);
        start.elapsed().as_nanos() as f64 / f64::from(DRAWS)
    }

    #[test]
    fn draws_are_cheap() {
        const RECORDS: u64 = 60_000_000;
        let mut random = Random::from_seed(1);
        let (ranked, other) = (Zipfian::new(RECORDS, 0.99), Zipfian::new(RECORDS, 0.73));
        let scrambled = ScrambledZipfian::new(RECORDS, 0.99);
        let mut latest = Latest::new(RECORDS, 0.99);
        let mut records = RECORDS;
        let costs = [
            ("uniform", cost_ns(|| random.below(RECORDS))),
            ("ranked, theta 0.99", cost_ns(|| ranked.rank(&mut random))),
            ("ranked, theta 0.73", cost_ns(|| other.rank(&mut random))),
            ("ycsb", cost_ns(|| scrambled.number(&mut random))),
            ("latest", cost_ns(|| latest.record(&mut random, RECORDS))),
            ("latest, growing", {
                cost_ns(|| {
                    records += 1;
                    latest.record(&mut random, records)
                })
            }),
        ];
        for (name, cost_ns) in costs {
            println!("{name}: {cost_ns:.1} ns a draw");
            // Far above the figures at the head of this file, for machines under load; below what one sum over all
            // records, or an allocation and a lock, would cost.
            assert!(cost_ns < 1_000.0, "{name}: {cost_ns} ns a draw");
        }
    }
}
