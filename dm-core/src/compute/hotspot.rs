//! The hotspot buffer: in which entry of its leaf a popular key was last seen (CHIME section 4.3.2). With it a lane
//! READs one entry of the leaf instead of a neighborhood.
//!
//! A lane that follows a guess checks what it READs: a wrong guess costs a round trip, and nothing else. So lanes read
//! and write entries without a lock. An entry that two lanes write at once may be a mixture, which is a wrong guess, or
//! a second entry of one key, which wastes room.
//!
//! ```text
//!  entry   word 0        word 1                                  word 2         word 3
//!         ┌─────────────┬──────────────┬────────────┬──────────┬──────────────┬───────────┐
//!         │ line of leaf│ memory node  │ generation │ slot     │ fingerprint  │ frequency │   16 bytes
//!         │ 32          │ 16           │ 6          │ 10       │ 32           │ 32        │
//!         └─────────────┴──────────────┴────────────┴──────────┴──────────────┴───────────┘
//!  bucket: eight entries, two cache lines
//! ```
//!
//! The high half of a key's hash chooses the bucket, and the low half is the fingerprint. Leaves are named in full,
//! with place and generation. So a guess is for another key with a probability of 2^-32 per entry of the bucket, and
//! never for another leaf.
//!
//! # Least frequently used
//!
//! A hit raises the frequency by one. A key that is not in its full bucket lowers the lowest frequency there by one,
//! and replaces that entry when its frequency is zero. So a key gets in if it comes more often than the coldest one. A
//! stream of keys that come once wears down the coldest entry, not the hottest (Demaine, López-Ortiz, Munro, ESA 2002,
//! find the most frequent elements of a stream in this way). Before a frequency could overflow, all frequencies of its
//! bucket are halved.
//!
//! The host provides the storage, all of it buckets: the budget is what the buffer takes.

use crate::layout::LINE_BYTES;
use crate::remote::address::Address;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use static_assertions::const_assert_eq;

/// Entries of a bucket.
const WAYS: usize = 8;

/// Bits of a slot number.
const SLOT_BITS: u32 = 10;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// When a frequency gets here, all frequencies of its bucket are halved.
const FREQUENCY_MAX: u32 = 1 << 24;

#[derive(Debug, Default)]
struct Entry {
    line: AtomicU32,
    place: AtomicU32,
    fingerprint: AtomicU32,
    /// 0: the entry is empty.
    frequency: AtomicU32,
}

/// Entries of keys that share a part of their hash. Storage for a [`Hotspot`].
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Bucket([Entry; WAYS]);

/// Bytes of a bucket.
pub(crate) const BUCKET_BYTES: usize = size_of::<Bucket>();
const_assert_eq!(BUCKET_BYTES, WAYS * 16);

/// The hotspot buffer of an index on one compute node, shared by its lanes. See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct Hotspot<'s> {
    buckets: &'s [Bucket],
}

/// A leaf as entries name it: the line of its place, and a word with memory node and generation, but without a slot.
const fn name_of(leaf: Address) -> (u32, u32) {
    let line = (leaf.offset() / LINE_BYTES as u64) as u32;
    (line, (leaf.node().0 as u32) << 16 | (leaf.generation() as u32) << SLOT_BITS)
}

impl<'s> Hotspot<'s> {
    /// A buffer in `buckets`. Without buckets it never has a guess.
    pub const fn new(buckets: &'s [Bucket]) -> Self {
        Self { buckets }
    }

    /// Number of buckets that fit into `bytes`.
    pub const fn buckets_for(bytes: u64) -> usize {
        let buckets = bytes / BUCKET_BYTES as u64;
        // More than any memory could have.
        let buckets = if buckets > 1 << 40 { 1 << 40 } else { buckets };
        if buckets > usize::MAX as u64 { usize::MAX } else { buckets as usize }
    }

    /// Whether the buffer has any buckets.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        !self.buckets.is_empty()
    }

    #[inline]
    fn bucket(&self, hash: u64) -> Option<&Bucket> {
        self.buckets.get((((hash >> 32) * self.buckets.len() as u64) >> 32) as usize)
    }

    /// The slot of `leaf` in which the key with this hash was last seen, if the buffer has it. Counts as a use.
    #[inline]
    pub fn recall(&self, hash: u64, leaf: Address) -> Option<usize> {
        let Bucket(entries) = self.bucket(hash)?;
        let (line, place) = name_of(leaf);
        for entry in entries {
            if entry.fingerprint.load(Relaxed) != hash as u32 {
                continue;
            }
            let known = entry.place.load(Relaxed);
            let frequency = entry.frequency.load(Relaxed);
            if frequency == 0 || entry.line.load(Relaxed) != line || known & !SLOT_MASK != place {
                continue;
            }
            Self::use_once(entries, entry, frequency);
            return Some((known & SLOT_MASK) as usize);
        }
        None
    }

    /// Stores that the key with this hash was found in `slot` of `leaf`. To be called if the buffer did not say so.
    pub fn note(&self, hash: u64, leaf: Address, slot: usize) {
        let Some(Bucket(entries)) = self.bucket(hash) else { return };
        let mut coldest: Option<(&Entry, u32)> = None;
        for entry in entries {
            let frequency = entry.frequency.load(Relaxed);
            if frequency > 0 && entry.fingerprint.load(Relaxed) == hash as u32 {
                // The key has moved.
                Self::use_once(entries, entry, frequency);
                Self::fill(entry, leaf, slot);
                return;
            }
            if coldest.is_none_or(|(_, lowest)| frequency < lowest) {
                coldest = Some((entry, frequency));
            }
        }
        let Some((entry, frequency)) = coldest else { return };
        if frequency > 1 {
            entry.frequency.store(frequency - 1, Relaxed);
            return;
        }
        entry.fingerprint.store(hash as u32, Relaxed);
        Self::fill(entry, leaf, slot);
        entry.frequency.store(1, Relaxed);
    }

    /// Removes the guesses for the key with this hash in `leaf`: the key is not there.
    pub fn forget(&self, hash: u64, leaf: Address) {
        let Some(Bucket(entries)) = self.bucket(hash) else { return };
        let (line, place) = name_of(leaf);
        for entry in entries {
            let is_of = entry.line.load(Relaxed) == line && entry.place.load(Relaxed) & !SLOT_MASK == place;
            if is_of && entry.fingerprint.load(Relaxed) == hash as u32 {
                entry.frequency.store(0, Relaxed);
            }
        }
    }

    fn fill(entry: &Entry, leaf: Address, slot: usize) {
        let (line, place) = name_of(leaf);
        entry.line.store(line, Relaxed);
        entry.place.store(place | slot as u32 & SLOT_MASK, Relaxed);
    }

    #[inline]
    fn use_once(entries: &[Entry], entry: &Entry, frequency: u32) {
        if frequency < FREQUENCY_MAX {
            entry.frequency.store(frequency + 1, Relaxed);
            return;
        }
        for entry in entries {
            // An entry that has been used stays.
            let frequency = entry.frequency.load(Relaxed);
            entry.frequency.store(frequency.div_ceil(2), Relaxed);
        }
    }

    /// Number of entries in use, for reports.
    pub fn used(&self) -> u64 {
        let is_used = |entry: &&Entry| entry.frequency.load(Relaxed) > 0;
        self.buckets.iter().map(|Bucket(entries)| entries.iter().filter(is_used).count() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::city::city_hash_64;
    use crate::verbs::NodeId;
    extern crate std;
    use std::vec::Vec;

    fn buckets(bytes: u64) -> Vec<Bucket> {
        (0..Hotspot::buckets_for(bytes)).map(|_| Bucket::default()).collect()
    }

    fn leaf(line: u64, generation: u8) -> Address {
        Address::new(NodeId(1), line * 64, generation)
    }

    #[test]
    fn a_slot_is_known_of_one_leaf_in_one_life() {
        let storage = buckets(4096);
        let hotspot = Hotspot::new(&storage);
        assert_eq!(hotspot.recall(77, leaf(5, 2)), None);
        hotspot.note(77, leaf(5, 2), 511);
        assert_eq!(hotspot.recall(77, leaf(5, 2)), Some(511));
        assert_eq!(hotspot.recall(77, leaf(5, 3)), None, "the next life");
        assert_eq!(hotspot.recall(77, leaf(6, 2)), None, "another leaf");
        assert_eq!(hotspot.recall(78, leaf(5, 2)), None, "another key");
        hotspot.note(77, leaf(9, 0), 1);
        assert_eq!((hotspot.recall(77, leaf(9, 0)), hotspot.used()), (Some(1), 1), "it moved");
        hotspot.forget(77, leaf(9, 0));
        assert_eq!((hotspot.recall(77, leaf(9, 0)), hotspot.used()), (None, 0));
        let none = Hotspot::new(&[]);
        none.note(1, leaf(1, 0), 1);
        assert!(!none.is_on() && none.recall(1, leaf(1, 0)).is_none());
    }

    #[test]
    fn a_key_that_comes_once_does_not_displace_one_that_comes_often() {
        let storage = buckets(BUCKET_BYTES as u64);
        let hotspot = Hotspot::new(&storage);
        for hash in 0..WAYS as u64 {
            hotspot.note(hash, leaf(1, 0), 0);
            for _ in 0..100 {
                assert!(hotspot.recall(hash, leaf(1, 0)).is_some());
            }
        }
        for hash in 100..150 {
            hotspot.note(hash, leaf(1, 0), 0);
        }
        assert!((0..WAYS as u64).all(|hash| hotspot.recall(hash, leaf(1, 0)).is_some()));
        // A key that keeps coming gets in at last.
        let turns = (0..2000).take_while(|_| {
            hotspot.note(99, leaf(1, 0), 3);
            hotspot.recall(99, leaf(1, 0)).is_none()
        });
        assert!((10..2000).contains(&turns.count()));
    }

    #[test]
    fn frequencies_do_not_overflow() {
        let storage = buckets(BUCKET_BYTES as u64);
        let hotspot = Hotspot::new(&storage);
        hotspot.note(1, leaf(1, 0), 0);
        hotspot.note(2, leaf(1, 0), 0);
        let Bucket(entries) = &storage[0];
        entries[0].frequency.store(FREQUENCY_MAX, Relaxed);
        assert!(hotspot.recall(1, leaf(1, 0)).is_some());
        assert_eq!(entries[0].frequency.load(Relaxed), FREQUENCY_MAX / 2);
        assert_eq!(entries[1].frequency.load(Relaxed), 1, "it stays in");
    }

    /// The share of a skewed stream that finds its key, beside the share of keys for which there is room.
    #[test]
    fn a_skewed_stream_finds_nearly_what_there_is_room_for() {
        // Ranks with probability proportional to 1 / rank, by inversion: n^u.
        let keys = 1u64 << 17;
        let storage = buckets(16 * (keys / 32));
        let hotspot = Hotspot::new(&storage);
        let mut state = 1u64;
        let (mut hits, mut ideal, mut counted) = (0, 0, 0);
        let room = keys / 32;
        for turn in 0..1_500_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = 17 * (state >> 40);
            // 2^(17 u), u in 24 bits: the whole part by shifting, the rest linear.
            let (whole, part) = (bits >> 24, bits & 0xff_ffff);
            let rank = (1u64 << whole) + (((1u64 << whole) * part) >> 24);
            let hash = city_hash_64(&rank.to_be_bytes());
            let hit = hotspot.recall(hash, leaf(rank, 0)).is_some();
            if !hit {
                hotspot.note(hash, leaf(rank, 0), 0);
            }
            if turn >= 750_000 {
                counted += 1;
                hits += u64::from(hit);
                ideal += u64::from(rank <= room);
            }
        }
        let (hits, ideal) = (hits * 100 / counted, ideal * 100 / counted);
        assert!(hits + 6 >= ideal && ideal > 60, "{hits} % found, {ideal} % are of the most frequent keys");
    }
}
