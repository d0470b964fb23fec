//! Leaves: one record each.
//!
//! ```text
//!   0            8                  8 + V'        8 + V' + K      (aligned to 8)
//!  ┌────────────┬──────────────────┬─────────────┬──────────────┬────────────┐
//!  │ seal       │ value            │ key         │ zero         │ lock       │   V' = V rounded up to 8
//!  └────────────┴──────────────────┴─────────────┴──────────────┴────────────┘
//!   WRITTEN by updates: seal, value                              taken by CAS
//! ```
//!
//! The *seal* is the leaf's state and a checksum of state, value and key: an image that mixes two WRITEs does not fit
//! it. The key never changes. The lock is a word of its own that names its holder, behind everything else. Once the leaf is
//! published, no WRITE covers it but one of the holder that frees it, which ends with it.

use crate::error::DecodeError;
use crate::layout::LINE_BYTES;
use crate::layout::fields::Field;
pub use crate::radix::leaf::LeafState;
use crate::radix::slot::{UNIT_BYTES, set_word, word};
use crc::{CRC_64_WE, Crc, Table};

/// The checksum of the paper's authors (CRC-64/WE), sixteen bytes at a time.
static CHECKSUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_WE);

impl LeafState {
    /// The state that a seal names, whatever it seals.
    pub const fn of_seal(seal: u64) -> Option<Self> {
        match seal as u8 {
            1 => Some(Self::Valid),
            2 => Some(Self::Deleted),
            3 => Some(Self::Finalized),
            _ => None,
        }
    }
}

/// Fields, for the goldens; offsets with keys and values of 8 bytes.
pub const LEAF_FIELDS: &[Field] = &[
    Field::bits(0, 0, 8, "state", "1: the record is there, 2: it was deleted, 3: and the leaf is not used any more"),
    Field::bits(0, 8, 56, "checksum", "high 56 bits of CRC-64/WE over state, value with its padding, key"),
    Field::bytes(8, 8, "value", "V bytes, then 0 up to a multiple of 8"),
    Field::bytes(16, 8, "key", "K bytes; they never change; then 0 up to a multiple of 8"),
    Field::bytes(24, 8, "lock", "0 = free; held: row of the holder, low 16 bits, and its acquisition, 48 bits"),
];

/// Sizes of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafShape {
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the value.
    pub value_bytes: usize,
    /// Where the key is.
    pub key_at: usize,
    /// Where the lock is.
    pub lock_at: usize,
    /// Bytes of a leaf's place: a multiple of 16.
    pub place_bytes: usize,
}

/// Where the value is.
pub(crate) const VALUE_AT: usize = 8;

impl LeafShape {
    /// Leaves for such keys and values.
    pub const fn new(key_bytes: usize, value_bytes: usize) -> Self {
        let key_at = VALUE_AT + value_bytes.next_multiple_of(8);
        let lock_at = (key_at + key_bytes).next_multiple_of(8);
        let place_bytes = (lock_at + 8).next_multiple_of(UNIT_BYTES);
        Self { key_bytes, value_bytes, key_at, lock_at, place_bytes }
    }

    /// What a READ covers: everything but the lock.
    #[inline]
    pub const fn read_bytes(&self) -> usize {
        self.key_at + self.key_bytes
    }

    /// What an update WRITEs: seal and value.
    #[inline]
    pub const fn write_bytes(&self) -> usize {
        self.key_at
    }

    /// What the first WRITE of a leaf covers: everything but the lock, which is 0 where memory was never used, and
    /// since then changed by CAS only.
    #[inline]
    pub(crate) const fn fresh_bytes(&self) -> usize {
        self.lock_at
    }

    /// Bytes of a WRITE that ends with the lock.
    #[inline]
    pub(crate) const fn bytes_to_lock(&self) -> usize {
        self.lock_at + 8
    }

    /// Whether the leaf at `offset`, lock included, lies in one line.
    #[inline]
    pub(crate) const fn is_in_line(&self, offset: u64) -> bool {
        let line = LINE_BYTES as u64;
        offset / line == (offset + self.bytes_to_lock() as u64 - 1) / line
    }

    /// Whether no leaf crosses the end of a line, if leaves lie one behind the other.
    pub(crate) const fn divides_lines(&self) -> bool {
        LINE_BYTES.is_multiple_of(self.place_bytes)
    }

    /// Writes what lies behind the key: the lock, free.
    pub(crate) fn free_lock(&self, image: &mut [u8]) {
        if let Some(behind) = image.get_mut(self.read_bytes()..self.bytes_to_lock()) {
            behind.fill(0);
        }
    }

    fn seal(&self, image: &[u8], state: u8) -> u64 {
        let mut digest = CHECKSUM.digest();
        digest.update(&[state]);
        digest.update(image.get(VALUE_AT..self.read_bytes()).unwrap_or_default());
        digest.finalize() & !0xff | u64::from(state)
    }

    /// Writes a record that is there, without the lock word.
    pub fn build(&self, image: &mut [u8], key: &[u8], value: &[u8]) {
        let Some(image) = image.get_mut(..self.place_bytes) else { return };
        image.fill(0);
        copy(image, self.key_at, key, self.key_bytes);
        copy(image, VALUE_AT, value, self.value_bytes);
        self.close(image, LeafState::Valid);
    }

    /// Replaces the value of an image and seals it as valid.
    pub fn set_value(&self, image: &mut [u8], value: &[u8]) {
        copy(image, VALUE_AT, value, self.value_bytes);
        self.close(image, LeafState::Valid);
    }

    /// Seals an image.
    pub fn close(&self, image: &mut [u8], state: LeafState) {
        let seal = self.seal(image, state as u8);
        set_word(image, 0, seal);
    }

    /// The state of an image. [`DecodeError::Torn`]: seal and content do not fit.
    #[inline]
    pub fn state(&self, image: &[u8]) -> Result<LeafState, DecodeError> {
        let seal = word(image, 0);
        if image.len() < self.read_bytes() || self.seal(image, seal as u8) != seal {
            return Err(DecodeError::Torn);
        }
        LeafState::of_seal(seal).ok_or(DecodeError::Corrupt("a leaf in no known state"))
    }

    /// The key of an image.
    #[inline]
    pub fn key<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        image.get(self.key_at..).and_then(|image| image.get(..self.key_bytes)).unwrap_or_default()
    }

    /// The value of an image.
    #[inline]
    pub fn value<'a>(&self, image: &'a [u8]) -> &'a [u8] {
        image.get(VALUE_AT..).and_then(|image| image.get(..self.value_bytes)).unwrap_or_default()
    }
}

fn copy(image: &mut [u8], at: usize, from: &[u8], bytes: usize) {
    if let (Some(to), Some(from)) = (image.get_mut(at..at + bytes), from.get(..bytes)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_fits_one_image() {
        let shape = LeafShape::new(9, 12);
        assert_eq!((shape.key_at, shape.lock_at, shape.place_bytes), (24, 40, 48));
        let mut image = [0xee; 48];
        shape.build(&mut image, b"ninebytes", b"twelve bytes");
        assert_eq!(shape.state(&image), Ok(LeafState::Valid));
        assert_eq!((shape.key(&image), shape.value(&image)), (b"ninebytes".as_slice(), b"twelve bytes".as_slice()));
        for at in 0..shape.read_bytes() {
            let mut torn = image;
            torn[at] ^= 0x10;
            assert_eq!(shape.state(&torn), Err(DecodeError::Torn), "byte {at}");
        }
        for state in [LeafState::Deleted, LeafState::Finalized] {
            shape.close(&mut image, state);
            assert_eq!(shape.state(&image), Ok(state));
        }
        image[0] = LeafState::Valid as u8;
        assert_eq!(shape.state(&image), Err(DecodeError::Torn), "the state is under the checksum");
        assert_eq!(shape.state(&[0; 48]), Err(DecodeError::Torn), "memory never used is no leaf");
        assert_eq!(LeafShape::new(8, 8).place_bytes, 32);
    }
}
