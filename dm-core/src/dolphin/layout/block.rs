//! Blocks: values longer than a line.
//!
//! ```text
//!  name  63                24 23     16 15          0        block  0          4           6      7    8       8 + V
//!       ┌────────────────────┬─────────┬─────────────┐             ┌──────────┬───────────┬──────┬────┬───────┬───┐
//!       │ byte offset / 16   │ MN      │ generation  │             │ checksum │generation │index │ 0  │ value │ 0 │
//!       └────────────────────┴─────────┴─────────────┘             └──────────┴───────────┴──────┴────┴───────┴───┘
//! ```
//!
//! A leaf names the block in the value cell, one word that is written as one. So an update has no lines of two writers:
//! it WRITEs a new block beside entering the leaf, and the name when it leaves. A get takes one READ more. A block is
//! written once in a generation of its place, and does not change while a leaf names it; checksum and generation tell a
//! lane that READs it too late.

use crate::error::DecodeError;
use crate::layout::fields::Field;
use crate::layout::record::{Le16, Le32, record};
use crate::radix::slot::{Place, UNIT_BYTES};
use crate::verbs::NodeId;
use core::ops::Range;
use static_assertions::const_assert_eq;
use zerocopy::IntoBytes;

record! {
    /// Head of a block.
    pub struct BlockHead {
        checksum: Le32 = "CRC-32C of the name (8 bytes, little-endian), then of all that follows this field up to the value's end",
        generation: Le16 = "repeats the generation in the name",
        index: u8 = "catalog number of the index, plus 1",
        reserved_7: u8 = "0",
    }
}
const_assert_eq!(BlockHead::BYTES, 8);

/// A byte at a time: a table of 1 KB.
static CRC: crc::Crc<u32, crc::Table<1>> = crc::Crc::<u32, crc::Table<1>>::new(&crc::CRC_32_ISCSI);

/// The name of a block. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockPointer(u64);

impl BlockPointer {
    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 16, "generation", "which of the blocks that were there; the whole word is 0: no block"),
        Field::bits(0, 16, 8, "memory node", "logical number"),
        Field::bits(0, 24, 40, "offset", "byte offset / 16"),
    ];

    /// Generation `generation` of the block at `place`, a multiple of 16. `None`: the name would be 0, or cannot have
    /// its memory node.
    pub const fn new(place: Place, generation: u16) -> Option<Self> {
        if place.node().0 > 0xff {
            return None;
        }
        let unit = place.offset() / UNIT_BYTES as u64;
        Self::from_bits(unit << 24 | (place.node().0 as u64) << 16 | generation as u64)
    }

    /// From its stored form. `None`: no block.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        // Offset 0 of a memory node is the superblock.
        if bits >> 24 == 0 { None } else { Some(Self(bits)) }
    }

    /// Its stored form.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Where the block is.
    #[inline]
    pub const fn place(self) -> Place {
        Place::new(NodeId((self.0 >> 16) as u16 & 0xff), (self.0 >> 24) * UNIT_BYTES as u64)
    }

    /// Its generation.
    #[inline]
    pub const fn generation(self) -> u16 {
        self.0 as u16
    }
}

/// Bytes of the place of a block with such a value.
pub const fn place_bytes(value_bytes: usize) -> usize {
    (BlockHead::BYTES + value_bytes).next_multiple_of(UNIT_BYTES)
}

/// Where the value is in a block.
pub const fn value_range(value_bytes: usize) -> Range<usize> {
    BlockHead::BYTES..BlockHead::BYTES + value_bytes
}

fn checksum(name: BlockPointer, rest: &[u8]) -> u32 {
    let mut digest = CRC.digest();
    digest.update(&name.to_bits().to_le_bytes());
    digest.update(rest);
    digest.finalize()
}

/// Writes the image of a block to the beginning of `image`. `None`: it does not fit.
pub fn write(image: &mut [u8], name: BlockPointer, index: u8, value: &[u8]) -> Option<()> {
    let image = image.get_mut(..place_bytes(value.len()))?;
    image.fill(0);
    let (head, rest) = image.split_at_mut_checked(BlockHead::BYTES)?;
    rest.get_mut(..value.len())?.copy_from_slice(value);
    let mut record = BlockHead::ZERO;
    record.generation = name.generation().into();
    record.index = index;
    head.copy_from_slice(record.as_bytes());
    let sum = checksum(name, image.get(4..BlockHead::BYTES + value.len())?);
    image.get_mut(..4)?.copy_from_slice(&sum.to_le_bytes());
    Some(())
}

/// The value of the block `name`, of `value_bytes`. [`DecodeError::Stale`]: another block is there, so READ the leaf
/// again. [`DecodeError::Torn`]: lines of several blocks.
pub fn read(image: &[u8], name: BlockPointer, index: u8, value_bytes: usize) -> Result<&[u8], DecodeError> {
    const SHORT: DecodeError = DecodeError::Corrupt("an image that is too short for a block");
    let image = image.get(..BlockHead::BYTES + value_bytes).ok_or(SHORT)?;
    let head = BlockHead::from_prefix(image).ok_or(SHORT)?;
    if head.generation.get() != name.generation() || head.index != index {
        return Err(DecodeError::Stale);
    }
    if head.checksum.get() != checksum(name, image.get(4..).ok_or(SHORT)?) {
        return Err(DecodeError::Torn);
    }
    image.get(BlockHead::BYTES..).ok_or(SHORT)
}
