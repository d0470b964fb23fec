//! From record numbers to keys and values, and back: what is written can be recognised when it is read.
//!
//! # Keys
//!
//! ```text
//! byte   0        8                                n        (n = 8..=64, chosen at creation)
//!        +--------+--------+--------+-- ~ --+------+
//!        |  head  |  splitmix64 started at head    |        every word big-endian, the last one cut short
//!        +--------+--------+--------+-- ~ --+------+
//! head:  hashed   mix(record)       scattered evenly; mix is a bijection of the 64-bit numbers
//!        ordered  record            key order = insertion order
//!        shuffled shuffled(record)  the keys of ordered, inserted in a scattered order
//! ```
//!
//! `shuffled` keeps the highest one bit of a record number and scatters the bits below it by a bijection. So `2^k`
//! records have the keys `0..2^k`, without gaps, and nobody has to know `k`.
//!
//! The hash must be injective, or a load of N records leaves fewer than N keys in the index and reads of the others
//! find nothing (the prototype of Sherman hashes into a range, after which about 55 % of the keys exist). Bijective is
//! better still: [`Keys::record_of`] tells which record a scanned key is, and whether it is a key at all.
//!
//! # Values
//!
//! ```text
//! byte   0         4         8                      v       (v >= 8)
//!        +---------+---------+--------+-- ~ --+-----+
//!        | version |   tag   |  splitmix64 (seed)   |       little-endian words, the last one cut short
//!        +---------+---------+--------+-- ~ --+-----+
//! seed = mix(record xor mix(version + 1)), tag = its high half
//! ```
//!
//! A value that belongs to another record, mixes two versions or was damaged does not pass [`check`]: with a chance of
//! 2^-32 in the tag alone, and of nothing worth naming where there are 16 bytes or more.

use super::random::{SplitMix64, mix, unmix};

/// An odd number: multiplying by it is a bijection of the numbers of any count of bits. That of splitmix64.
const FACTOR: u64 = 0xbf58_476d_1ce4_e5b9;

/// Its inverse modulo 2^64, and so modulo any smaller power of two.
const INVERSE: u64 = 0x96de_1b17_3f11_9089;

/// The least bytes of a key: a record number.
pub const KEY_BYTES_MIN: usize = 8;

/// The most bytes of a key: the largest slot of a fixed-size index.
pub const KEY_BYTES_MAX: usize = 64;

/// How keys are made of record numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// Scattered by a bijection (YCSB's `hashed`).
    Hashed,
    /// In the order of the record numbers (YCSB's `ordered`).
    Ordered,
    /// The same keys, but record numbers are scattered over them.
    Shuffled,
}

/// Scatters the bits below the highest one bit: a bijection of the numbers of each length.
const fn shuffled(record: u64) -> u64 {
    let Some(bits) = record.checked_ilog2() else { return record };
    let (top, half) = (1 << bits, bits.div_ceil(2));
    let mask = top - 1;
    let mixed = (record & mask).wrapping_mul(FACTOR) & mask;
    let mixed = (mixed ^ (mixed >> half)).wrapping_mul(FACTOR) & mask;
    top | (mixed ^ (mixed >> half))
}

/// The inverse of [`shuffled`].
const fn unshuffled(head: u64) -> u64 {
    let Some(bits) = head.checked_ilog2() else { return head };
    let (top, half) = (1 << bits, bits.div_ceil(2));
    let mask = top - 1;
    let mixed = head & mask;
    // A shift by half of the bits or more is undone by itself.
    let mixed = (mixed ^ (mixed >> half)).wrapping_mul(INVERSE) & mask;
    top | ((mixed ^ (mixed >> half)).wrapping_mul(INVERSE) & mask)
}

/// Why there are no keys of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys of {bytes} bytes: a key made from a record number has {KEY_BYTES_MIN} to {KEY_BYTES_MAX} bytes")]
pub struct KeySizeError {
    /// The size asked for.
    pub bytes: usize,
}

/// The keys of a workload: their order and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    order: KeyOrder,
    bytes: usize,
}

impl Keys {
    /// Keys of `bytes` bytes, [`KEY_BYTES_MIN`]..=[`KEY_BYTES_MAX`].
    pub const fn new(order: KeyOrder, bytes: usize) -> Result<Self, KeySizeError> {
        if bytes < KEY_BYTES_MIN || bytes > KEY_BYTES_MAX {
            return Err(KeySizeError { bytes });
        }
        Ok(Self { order, bytes })
    }

    /// The size of a key in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the key of `record` into `slot`, which is [`bytes`](Self::bytes) long.
    #[inline]
    pub fn write(&self, record: u64, slot: &mut [u8]) {
        debug_assert_eq!(slot.len(), self.bytes);
        let head = match self.order {
            KeyOrder::Hashed => mix(record),
            KeyOrder::Ordered => record,
            KeyOrder::Shuffled => shuffled(record),
        };
        let mut rest = SplitMix64::new(head);
        let mut word = head;
        for chunk in slot.chunks_mut(8) {
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
            word = rest.next_u64();
        }
    }

    /// The record whose key this is; `None` if no record has this key.
    pub fn record_of(&self, key: &[u8]) -> Option<u64> {
        let head = u64::from_be_bytes(*key.first_chunk()?);
        let record = match self.order {
            KeyOrder::Hashed => unmix(head),
            KeyOrder::Ordered => head,
            KeyOrder::Shuffled => unshuffled(head),
        };
        let mut expected = [0; KEY_BYTES_MAX];
        let expected = &mut expected[..self.bytes];
        self.write(record, expected);
        (key == expected).then_some(record)
    }
}

const fn value_seed(record: u64, version: u32) -> u64 {
    // The version is mixed before it meets the record, so that records and versions next to each other do not cancel.
    mix(record ^ mix(version as u64 + 1))
}

/// The words of a value's body.
const fn body(seed: u64) -> SplitMix64 {
    SplitMix64::new(seed)
}

const fn head(seed: u64, version: u32) -> [u8; 8] {
    (seed >> 32 << 32 | version as u64).to_le_bytes()
}

/// Fills `value`, at least 8 bytes, with version `version` of the value of `record`.
#[inline]
pub fn fill(record: u64, version: u32, value: &mut [u8]) {
    debug_assert!(value.len() >= 8);
    let seed = value_seed(record, version);
    let (mut words, mut word) = (body(seed), head(seed, version));
    for chunk in value.chunks_mut(8) {
        chunk.copy_from_slice(&word[..chunk.len()]);
        word = words.next_u64().to_le_bytes();
    }
}

/// The version of a value of `record`; `None` if [`fill`] writes no such value for this record: the value of another
/// record, parts of two versions, damage, or fewer than 8 bytes.
#[inline]
pub fn check(record: u64, value: &[u8]) -> Option<u32> {
    let (first, rest) = value.split_first_chunk::<8>()?;
    let version = u64::from_le_bytes(*first) as u32;
    let seed = value_seed(record, version);
    let mut words = body(seed);
    let is_whole = *first == head(seed, version)
        && rest.chunks(8).all(|chunk| *chunk == words.next_u64().to_le_bytes()[..chunk.len()]);
    is_whole.then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(order: KeyOrder, bytes: usize, record: u64) -> Vec<u8> {
        let mut slot = vec![0; bytes];
        Keys::new(order, bytes).unwrap().write(record, &mut slot);
        slot
    }

    #[test]
    fn keys_are_pinned() {
        assert_eq!(key(KeyOrder::Ordered, 8, 258), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(key(KeyOrder::Hashed, 8, 0), [0; 8]);
        assert_eq!(key(KeyOrder::Hashed, 8, 1), 0x5692_161d_100b_05e5_u64.to_be_bytes());
        // A longer key begins with the shorter one and goes on with splitmix64 started at the head.
        let long = key(KeyOrder::Hashed, 19, 1);
        assert_eq!(long[..8], key(KeyOrder::Hashed, 8, 1));
        let mut words = SplitMix64::new(0x5692_161d_100b_05e5);
        assert_eq!(long[8..16], words.next_u64().to_be_bytes());
        assert_eq!(long[16..], words.next_u64().to_be_bytes()[..3]);
    }

    #[test]
    fn every_record_has_a_key_of_its_own() {
        let hashed: HashSet<Vec<u8>> = (0..100_000).map(|record| key(KeyOrder::Hashed, 8, record)).collect();
        assert_eq!(hashed.len(), 100_000);
    }

    #[test]
    fn ordered_keys_sort_as_their_records() {
        let records = [0, 1, 255, 256, 65_535, 1 << 40, u64::MAX];
        for bytes in [8, 13, 64] {
            assert!(records.is_sorted_by_key(|&record| key(KeyOrder::Ordered, bytes, record)));
        }
    }

    #[test]
    fn shuffled_keys_are_those_of_ordered_in_another_order() {
        let heads: Vec<u64> = (0..1 << 16).map(shuffled).collect();
        let mut sorted = heads.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1 << 16));
        // Neighbours in time are hardly ever neighbours in the index: one pair in 256 of a random order. The numbers of
        // fewer bits are so few that a random order has many, so only those of the greatest length count.
        let longest = &heads[1 << 15..];
        let close = longest.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 64).count();
        assert!(close < longest.len() / 64, "{close}");
    }

    #[test]
    fn hashed_keys_spread_over_the_first_byte() {
        let mut counts = [0_u32; 256];
        (0..256_000).for_each(|record| counts[usize::from(key(KeyOrder::Hashed, 8, record)[0])] += 1);
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_key_tells_its_record_and_nothing_else_does() {
        for (order, bytes) in [
            (KeyOrder::Hashed, 8),
            (KeyOrder::Hashed, 21),
            (KeyOrder::Ordered, 8),
            (KeyOrder::Ordered, 64),
            (KeyOrder::Shuffled, 8),
            (KeyOrder::Shuffled, 13),
        ] {
            let keys = Keys::new(order, bytes).unwrap();
            for record in [0, 1, 77, u64::MAX] {
                let mut key = key(order, bytes, record);
                assert_eq!(keys.record_of(&key), Some(record));
                if bytes > 8 {
                    *key.last_mut().unwrap() ^= 1;
                    assert_eq!(keys.record_of(&key), None);
                }
                assert_eq!(keys.record_of(&key[..7]), None);
            }
        }
    }

    #[test]
    fn sizes_outside_of_the_slots_are_refused() {
        assert_eq!(Keys::new(KeyOrder::Hashed, 7), Err(KeySizeError { bytes: 7 }));
        let error = Keys::new(KeyOrder::Hashed, 65).unwrap_err().to_string();
        assert_eq!(error, "keys of 65 bytes: a key made from a record number has 8 to 64 bytes");
    }

    #[test]
    fn a_value_passes_for_its_record_only() {
        for bytes in [8, 9, 16, 100, 1_024] {
            let mut value = vec![0; bytes];
            for version in [0, 1, u32::MAX] {
                fill(41, version, &mut value);
                assert_eq!(check(41, &value), Some(version));
                assert_eq!(check(42, &value), None);
            }
        }
    }

    #[test]
    fn zeroes_short_values_and_single_flipped_bits_do_not_pass() {
        assert!((0..1_000).all(|record| check(record, &[0; 8]).is_none()));
        let mut value = [0; 29];
        fill(7, 3, &mut value);
        assert_eq!(check(7, &value[..7]), None);
        for bit in 0..value.len() * 8 {
            value[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(7, &value), None, "bit {bit}");
            value[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(check(7, &value), Some(3));
    }

    #[test]
    fn parts_of_two_versions_do_not_pass() {
        let (mut old, mut new) = ([0; 64], [0; 64]);
        fill(7, 1, &mut old);
        fill(7, 2, &mut new);
        for cut in 8..64 {
            let torn: Vec<u8> = new[..cut].iter().chain(&old[cut..]).copied().collect();
            assert_eq!(check(7, &torn), None, "cut at {cut}");
        }
    }
}
