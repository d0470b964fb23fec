//! Root word and arrays.
//!
//! ```text
//!  63                           30 29            16 15              0
//! ┌───────────────────────────────┬────────────────┬─────────────────┐
//! │ version                       │ records        │ chunk + 1       │   0 = no chunk yet
//! └───────────────────────────────┴────────────────┴─────────────────┘
//! ```
//!
//! The chunk begins with two arrays, each of `capacity` places for records and as long as its lines. A record is its
//! key and its value. Records ascend by key. Version v is in array v mod 2.

use crate::layout::record::{cut, mask};
use core::cmp::Ordering;
use core::ops::Range;

/// Chunks that root words can name.
pub const CHUNKS_MAX: u32 = mask(CHUNK_BITS) as u32;
/// Records that root words can count.
pub const RECORDS_MAX: usize = mask(RECORDS_BITS) as usize;

const CHUNK_BITS: u32 = 16;
const RECORDS_BITS: u32 = 14;
const VERSION_AT: u32 = CHUNK_BITS + RECORDS_BITS;

/// The root word of the index, in the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootWord(pub u64);

impl RootWord {
    /// No chunk yet, and no records.
    pub const NONE: Self = Self(0);

    /// Version 0 in `chunk`, without records.
    pub const fn of_chunk(chunk: u32) -> Self {
        Self((chunk as u64 + 1) & mask(CHUNK_BITS))
    }

    /// The chunk with the arrays.
    pub const fn chunk(self) -> Option<u32> {
        (cut(self.0, 0, CHUNK_BITS) as u32).checked_sub(1)
    }

    /// Number of records.
    pub const fn records(self) -> usize {
        cut(self.0, CHUNK_BITS, RECORDS_BITS) as usize
    }

    /// Which array has them: 0 or 1.
    pub const fn array(self) -> usize {
        cut(self.0, VERSION_AT, 1) as usize
    }

    /// The next version, of `records` records.
    #[must_use]
    pub const fn next(self, records: usize) -> Self {
        let version = (self.0 >> VERSION_AT).wrapping_add(1);
        Self(self.0 & mask(CHUNK_BITS) | (records as u64 & mask(RECORDS_BITS)) << CHUNK_BITS | version << VERSION_AT)
    }
}

/// Shape of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Bytes of every key.
    pub key_bytes: usize,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Most records.
    pub capacity: usize,
}

impl ArrayShape {
    /// Bytes of a record.
    pub const fn record_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// Bytes of an array: whole lines.
    pub const fn bytes(&self) -> usize {
        (self.capacity * self.record_bytes()).next_multiple_of(64)
    }

    /// Bytes of both.
    pub const fn place_bytes(&self) -> usize {
        2 * self.bytes()
    }

    /// The key of record `at` of an image.
    pub fn key<'a>(&self, image: &'a [u8], at: usize) -> &'a [u8] {
        let start = at * self.record_bytes();
        image.get(start..start + self.key_bytes).unwrap_or_default()
    }

    /// Its value.
    pub fn value<'a>(&self, image: &'a mut [u8], at: usize) -> &'a mut [u8] {
        let end = (at + 1) * self.record_bytes();
        image.get_mut(end - self.value_bytes..end).unwrap_or_default()
    }

    /// The record with `key` among `records` records of an image; `Err`: where it would go.
    pub fn find(&self, image: &[u8], records: usize, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, records);
        while low < high {
            let middle = low.midpoint(high);
            match self.key(image, middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Whether the keys of these records of an image ascend.
    pub fn ascend(&self, image: &[u8], records: Range<usize>) -> bool {
        (records.start + 1..records.end).all(|at| self.key(image, at - 1) < self.key(image, at))
    }

    /// Makes room at `at` among `records` records of an image, and puts a record there. The image has room for it.
    pub fn insert(&self, image: &mut [u8], records: usize, at: usize, key: &[u8], value: &[u8]) {
        let (start, bytes) = (at * self.record_bytes(), self.record_bytes());
        if let Some(rest) = image.get_mut(start..(records + 1) * bytes) {
            rest.copy_within(..rest.len() - bytes, bytes);
            copy(rest, key.iter().chain(value));
        }
    }

    /// Takes record `at` out of `records` records of an image.
    pub fn remove(&self, image: &mut [u8], records: usize, at: usize) {
        let bytes = self.record_bytes();
        if let Some(rest) = image.get_mut(at * bytes..records * bytes) {
            rest.copy_within(bytes.min(rest.len()).., 0);
        }
    }
}

/// Copies as many bytes as there is room for.
pub(super) fn copy<'a>(to: &mut [u8], from: impl IntoIterator<Item = &'a u8>) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    #[test]
    fn a_root_word_says_what_it_was_made_of() {
        let mut root = RootWord::of_chunk(CHUNKS_MAX - 1);
        assert_eq!((root.chunk(), root.records(), root.array()), (Some(CHUNKS_MAX - 1), 0, 0));
        root = root.next(RECORDS_MAX);
        assert_eq!((root.chunk(), root.records(), root.array()), (Some(CHUNKS_MAX - 1), RECORDS_MAX, 1));
        assert_ne!(root.next(3), root.next(3).next(3).next(3), "versions differ");
        assert_eq!((RootWord::NONE.chunk(), RootWord::NONE.records()), (None, 0));
        let last = RootWord(u64::MAX).next(0);
        assert_eq!((last.chunk(), last.records(), last.array()), (RootWord(u64::MAX).chunk(), 0, 0));
    }

    #[test]
    fn an_array_is_a_sorted_map() {
        let shape = ArrayShape { key_bytes: 8, value_bytes: 16, capacity: 20 };
        let mut image = std::vec![0; shape.bytes()];
        let mut model = BTreeMap::new();
        let mut records = 0;
        for step in 0..200_u64 {
            let key = (step * 7 % 20).to_be_bytes();
            let value = [step as u8; 16];
            match shape.find(&image, records, &key) {
                Ok(at) if step % 3 == 0 => {
                    shape.remove(&mut image, records, at);
                    model.remove(&key);
                    records -= 1;
                }
                Ok(at) => {
                    shape.value(&mut image, at).copy_from_slice(&value);
                    model.insert(key, value);
                }
                Err(at) => {
                    shape.insert(&mut image, records, at, &key, &value);
                    model.insert(key, value);
                    records += 1;
                }
            }
            let all = image[..records * 24].chunks(24);
            let all: Vec<_> = all.map(|record| (&record[..8], &record[8..])).collect();
            let expected: Vec<_> = model.iter().map(|(key, value)| (&key[..], &value[..])).collect();
            assert_eq!(all, expected);
            assert!(shape.ascend(&image, 0..records));
        }
    }

    #[test]
    fn records_out_of_order_are_noticed() {
        let shape = ArrayShape { key_bytes: 8, value_bytes: 8, capacity: 2 };
        assert!(!shape.ascend(&[0; 32], 0..2), "two equal keys");
        assert!(shape.ascend(&[0; 32], 1..2) && shape.ascend(&[0; 32], 2..2));
    }
}
