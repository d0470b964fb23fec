//! Bit-exact building blocks that more than one structure uses.
//!
//! - [`stripes`]: cache-line versions, the codec of every striped node.
//! - [`city`]: CityHash64, with which hashed structures place keys.
//! - [`checksum`]: CRC-32C of what is read all the time.
//! - [`record`]: how fixed structures are declared.
//! - `divisor`: division by a number that is known when an index is opened.
//! - [`fields`]: field maps. A structure's table of fields, from which the goldens under `layouts/` are made.

pub mod checksum;
pub mod city;
pub(crate) mod divisor;
pub mod fields;
pub(crate) mod marks;
pub mod mutants;
pub mod record;
pub mod stripes;

use core::cmp::Ordering;

/// Alignment of nodes, and size of the lines that a NIC moves as one, in bytes.
pub const LINE_BYTES: usize = 64;

/// A little-endian word of the scratch; 0 outside the scratch.
#[inline]
pub(crate) fn word_at(scratch: &[u8], at: usize) -> u64 {
    scratch.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Copies `from` to `to`, if both are as long.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    if to.len() != from.len() {
        return;
    }
    // A word is the common case, and one move takes a fraction of the time of a call of memcpy.
    match (<&mut [u8; 8]>::try_from(&mut *to), <[u8; 8]>::try_from(from)) {
        (Ok(to), Ok(from)) => *to = from,
        _ => to.copy_from_slice(from),
    }
}

/// The positions of the ones in a word, in ascending order.
pub(crate) struct Bits(pub u64);

impl Iterator for Bits {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let bit = self.0.trailing_zeros() as u8;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

/// How two keys compare.
#[inline]
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    // As in `copy`.
    match (<[u8; 8]>::try_from(left), <[u8; 8]>::try_from(right)) {
        (Ok(left), Ok(right)) => u64::from_be_bytes(left).cmp(&u64::from_be_bytes(right)),
        _ => left.cmp(right),
    }
}
