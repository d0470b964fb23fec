//! Bit-exact building blocks that more than one structure uses.
//!
//! - [`stripes`]: cache-line versions, the codec of every striped node.
//! - [`city`]: CityHash64, with which hashed structures place keys.
//! - [`checksum`]: CRC-32C of what is read all the time.
//! - [`record`]: how fixed structures are declared.
//! - [`fields`]: field maps. A structure's table of fields, from which the goldens under `layouts/` are made.

pub mod checksum;
pub mod city;
pub mod fields;
pub(crate) mod marks;
pub mod mutants;
pub mod record;
pub mod stripes;

/// Alignment of nodes, and size of the lines that a NIC moves as one, in bytes.
pub const LINE_BYTES: usize = 64;

/// A little-endian word of the scratch; 0 outside the scratch.
#[inline]
pub(crate) fn word_at(scratch: &[u8], at: usize) -> u64 {
    scratch.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
