//! Blocks: a whole key and its value, immutable within a generation of its place.
//!
//! ```text
//!  0          4          8           10     11      12            16
//! ┌──────────┬──────────┬───────────┬──────┬───────┬─────────────┬──────┬────────┐
//! │ checksum │ life     │ key_bytes │ index│ zero  │ value_bytes │ key  │ value  │
//! └──────────┴──────────┴───────────┴──────┴───────┴─────────────┴──────┴────────┘
//! ```
//!
//! `life` is the generation of the block's place. A block is written once per generation, before any entry points to
//! it, and its place is not written again before it has been retired. A pointer has place, generation and length. A
//! reader accepts what it READ if the generation and the length agree with the pointer, the lengths in the header add
//! up, and the checksum over the place and the rest is right. Anything else is "not that block": the block of the next
//! generation, half of a block, or a longer one.
//!
//! **Size classes.** Places have multiples of 16 bytes up to 256, and eight sizes per doubling beyond. So beyond the
//! first few sizes a place wastes at most an eighth. Places need no alignment to cache lines: only the owner of a place
//! writes there. Images are padded to 16 bytes, so that WRITEs begin and end at multiples of 16.

use crate::layout::checksum::CRC;
use crate::layout::fields::Field;
use crate::layout::record::{Le16, Le32, record};
use crate::mutants::{Mutant, planted};
use static_assertions::{const_assert, const_assert_eq};
use zerocopy::IntoBytes;

use super::slot::BlockPointer;

record! {
    /// Header of a block.
    pub struct BlockHeader {
        checksum: Le32 = "CRC-32C of the place (8 bytes, little-endian), then of all that follows this field: header, key, value",
        life: Le32 = "which life of its place this is, 31 bits",
        key_bytes: Le16 = "length of the key",
        index: u8 = "catalog number of the index, plus 1",
        reserved_11: u8 = "zero",
        value_bytes: Le32 = "length of the value",
    }
}
const_assert_eq!(BlockHeader::BYTES, 16);

/// The header's fields, for the goldens.
pub const FIELDS: &[Field] = BlockHeader::FIELDS;

/// Places are multiples of this many bytes.
pub const UNIT_BYTES: usize = 16;

/// Number of size classes.
pub const CLASSES: usize = SMALL_CLASSES + STEPS * 8 + 1;
/// Number of classes up to [`SMALL_BYTES_MAX`].
const SMALL_CLASSES: usize = SMALL_BYTES_MAX / UNIT_BYTES;
/// Up to this size every multiple of [`UNIT_BYTES`] is a class.
const SMALL_BYTES_MAX: usize = 256;
/// Classes per doubling beyond [`SMALL_BYTES_MAX`].
const STEPS: usize = 8;
/// Length of the longest image.
pub const BLOCK_BYTES_MAX: usize = BlockHeader::BYTES + KEY_BYTES_LIMIT + VALUE_BYTES_LIMIT;
const_assert!(BLOCK_BYTES_MAX < 1 << 17 && BLOCK_BYTES_MAX <= class_bytes(CLASSES - 1));

/// Length of a block's image.
#[inline]
pub const fn block_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    BlockHeader::BYTES + key_bytes + value_bytes
}

/// The smallest class with room for `bytes`, 1..=[`BLOCK_BYTES_MAX`]; for more bytes, the last class.
pub const fn class_of(bytes: usize) -> usize {
    if bytes <= SMALL_BYTES_MAX {
        return if bytes == 0 { 0 } else { bytes.div_ceil(UNIT_BYTES) - 1 };
    }
    let doubling = (bytes - 1).ilog2() as usize;
    let step = 1 << (doubling - 3);
    let class = SMALL_CLASSES + (doubling - 8) * STEPS + (bytes - 1 - (1 << doubling)) / step;
    if class < CLASSES { class } else { CLASSES - 1 }
}

/// Bytes of a place of `class`.
pub const fn class_bytes(class: usize) -> usize {
    if class < SMALL_CLASSES {
        return (class + 1) * UNIT_BYTES;
    }
    let (doubling, step) = ((class - SMALL_CLASSES) / STEPS + 8, (class - SMALL_CLASSES) % STEPS);
    (1 << doubling) + (step + 1) * (1 << (doubling - 3))
}

/// Where the last 16 bytes begin that are not zero, in a part of a chunk that begins at a multiple of 16. Every block
/// begins with a non-zero unit, so no named block begins behind this one. `None`: no block begins there.
pub fn last_beginning(bytes: &[u8]) -> Option<usize> {
    bytes.chunks(UNIT_BYTES).rposition(|unit| unit.iter().any(|&byte| byte != 0)).map(|unit| unit * UNIT_BYTES)
}

fn checksum(place: u64, image: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    digest.update(&place.to_le_bytes());
    digest.update(image.get(4..).unwrap_or_default());
    digest.finalize()
}

/// Writes the image of a block to the beginning of `image`, zero-padded to whole units. A READ of it takes
/// [`BlockPointer::bytes`]. `key` and `value` must not be in `image`. `None`: it does not fit.
pub fn write(image: &mut [u8], pointer: &BlockPointer, index: u8, key: &[u8], value: &[u8]) -> Option<()> {
    let bytes = block_bytes(key.len(), value.len());
    let (image, rest) = image.split_at_mut_checked(bytes)?;
    rest.get_mut(..bytes.next_multiple_of(UNIT_BYTES) - bytes)?.fill(0);
    let (header, items) = image.split_at_mut_checked(BlockHeader::BYTES)?;
    let mut record = BlockHeader::ZERO;
    record.life = pointer.life.into();
    record.key_bytes = (key.len() as u16).into();
    record.index = index;
    record.value_bytes = (value.len() as u32).into();
    header.copy_from_slice(record.as_bytes());
    let (to_key, to_value) = items.split_at_mut_checked(key.len())?;
    to_key.copy_from_slice(key);
    to_value.copy_from_slice(value);
    let checksum = checksum(pointer.place, image);
    image.get_mut(..4)?.copy_from_slice(&checksum.to_le_bytes());
    Some(())
}

/// Key and value of the block that `pointer` leads to, from what was READ there. `None`: this is not that block.
pub fn read<'a>(image: &'a [u8], pointer: &BlockPointer, index: u8) -> Option<(&'a [u8], &'a [u8])> {
    let image = image.get(..pointer.bytes as usize)?;
    let header = BlockHeader::from_prefix(image)?;
    let (key_bytes, value_bytes) = (usize::from(header.key_bytes.get()), header.value_bytes.get() as usize);
    let lengths = key_bytes <= KEY_BYTES_LIMIT
        && value_bytes <= VALUE_BYTES_LIMIT
        && block_bytes(key_bytes, value_bytes) == image.len();
    let life = header.life.get() == pointer.life || planted(Mutant::BLOCK_LIFE_UNCHECKED);
    if !lengths || !life || header.index != index || header.reserved_11 != 0 {
        return None;
    }
    if header.checksum.get() != checksum(pointer.place, image) && !planted(Mutant::BLOCK_CHECKSUM_UNCHECKED) {
        return None;
    }
    image.get(BlockHeader::BYTES..)?.split_at_checked(key_bytes)
}

/// Limit of a key's length in bytes, whatever the index was created for: the longest path of Linux.
pub const KEY_BYTES_LIMIT: usize = 4096;

/// Limit of a value's length in bytes, whatever the index was created for.
pub const VALUE_BYTES_LIMIT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_sorted_fit_and_waste_little() {
        let mut last = 0;
        for class in 0..CLASSES {
            assert!(class_bytes(class) > last && class_bytes(class).is_multiple_of(UNIT_BYTES), "class {class}");
            last = class_bytes(class);
            assert_eq!(class_of(last), class);
        }
        for bytes in 1..=BLOCK_BYTES_MAX {
            let place = class_bytes(class_of(bytes));
            assert!(place >= bytes && place - bytes < UNIT_BYTES.max(bytes / 8 + 1), "{bytes} bytes in {place}");
            assert!(place >= bytes.next_multiple_of(UNIT_BYTES), "padding fits");
        }
    }

    /// Lengths at every twentieth of 627,297 paths of one Linux machine (mean 94, longest 227 bytes), and of 92,561
    /// URLs found in the documentation and sources on it (mean 48, longest 203). `dm bench --any-length --keys` computes
    /// them for any file of keys.
    const PATHS: [usize; 20] =
        [33, 45, 57, 63, 68, 72, 76, 80, 86, 91, 96, 102, 108, 113, 117, 122, 129, 134, 140, 148];
    const URLS: [usize; 20] = [35, 41, 42, 42, 42, 42, 42, 45, 49, 49, 49, 49, 49, 49, 49, 49, 49, 49, 53, 79];

    #[test]
    fn places_waste_less_than_15_percent_on_paths_and_urls() {
        for lengths in [PATHS, URLS] {
            for value_bytes in [0, 8, 32, 100, 1000] {
                let sum = |bytes: fn(usize) -> usize| -> usize {
                    lengths.iter().map(|&key_bytes| bytes(block_bytes(key_bytes, value_bytes))).sum()
                };
                let (used, taken) = (sum(|bytes| bytes), sum(|bytes| class_bytes(class_of(bytes))));
                assert!((taken - used) * 100 < taken * 15, "{used} of {taken} bytes, values of {value_bytes}");
            }
        }
    }

    const POINTER: BlockPointer = BlockPointer { place: 0x2_0000_0000_1230, life: 77, bytes: 16 + 3 + 5 };

    fn image() -> [u8; 32] {
        let mut image = [0xee; 32];
        write(&mut image, &POINTER, 1, b"key", b"value").expect("32 bytes are enough");
        image
    }

    #[test]
    fn a_block_gives_back_what_it_was_given() {
        assert_eq!(read(&image(), &POINTER, 1), Some((&b"key"[..], &b"value"[..])));
        let mut image = [0; 16];
        let empty = BlockPointer { bytes: 16, ..POINTER };
        write(&mut image, &empty, 1, b"", b"").expect("a header");
        assert_eq!(read(&image, &empty, 1), Some((&b""[..], &b""[..])));
    }

    #[test]
    fn every_byte_matters() {
        for at in 0..POINTER.bytes as usize {
            for bit in 0..8 {
                let mut image = image();
                image[at] ^= 1 << bit;
                assert_eq!(read(&image, &POINTER, 1), None, "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn another_block_is_not_that_block() {
        let image = image();
        assert_eq!(read(&image, &BlockPointer { life: 78, ..POINTER }, 1), None);
        assert_eq!(read(&image, &BlockPointer { bytes: 25, ..POINTER }, 1), None);
        assert_eq!(read(&image, &BlockPointer { place: POINTER.place + 16, ..POINTER }, 1), None);
        assert_eq!(read(&image, &POINTER, 2), None, "of another index");
        assert_eq!(read(&image[..20], &POINTER, 1), None, "cut off");
        assert_eq!(read(&[0; 32], &POINTER, 1), None, "never written");
    }
}
