//! Slots: the values of the index below. A slot has an item, the place of an item, or the next layer.
//!
//! ```text
//!  0        2            4                8                16           V bytes in all, 16..=1024
//! ┌────────┬────────────┬────────────────┬────────────────┬───────────┐
//! │ head   │ the value, zero-padded                                   │  inline: kind 1, length of the value
//! ├────────┼────────────┼────────────────┼────────────────┼───────────┤
//! │ head   │ life, low  │ bytes│life high│ place          │ zeros     │  block: kind 2
//! ├────────┼────────────┴────────────────┼────────────────┼───────────┤
//! │ head   │ zeros      │ checksum       │ layer          │ zeros     │  link: kind 3
//! └────────┴────────────┴────────────────┴────────────────┴───────────┘
//! ```
//!
//! A link has a checksum over its entry key and its layer, since all keys with one beginning are found through it. So a
//! link is read together with its entry key. A link whose bytes or whose entry key were damaged is no link.
//!
//! The meaning of a slot determines all its bytes. So two slots mean the same if and only if their bytes are equal,
//! which is what `update_if` and `delete_if` of the index below compare.

use crate::layout::checksum::CRC;
use crate::layout::fields::Field;
use crate::mutants::{Mutant, planted};
use crate::verbs::NodeId;
use core::ops::Range;

/// Smallest slot, in bytes.
pub const SLOT_BYTES_MIN: usize = 16;

/// Bytes of the head.
const HEAD_BYTES: usize = 2;

/// Generations (`life`) of one place count modulo 2^31.
pub(crate) const LIFE_MASK: u32 = (1 << 31) - 1;

/// Bits of a block's length.
const LENGTH_BITS: u32 = 17;

/// Where the checksum of a link is.
const CHECKSUM_AT: usize = 4;

/// Where the layer of a link is, and where it ends.
const LAYER: Range<usize> = 8..16;

const INLINE: u16 = 1;
const BLOCK: u16 = 2;
const LINK: u16 = 3;

/// The fields, for the goldens.
pub const FIELDS: &[Field] = &[
    Field::bits(0, 0, 2, "kind", "1 = inline, 2 = block, 3 = link"),
    Field::bits(0, 2, 14, "value_bytes", "inline: length of the value, whose bytes follow from offset 2 on; else zero"),
    Field::bits(2, 0, 16, "life_low", "block: low bits of which life of its place it is; link: zero"),
    Field::bits(4, 0, 17, "bytes", "block: length of its image; link: bits 0 to 16 of the checksum"),
    Field::bits(
        4,
        17,
        15,
        "life_high",
        "block: high bits of the life; link: bits 17 to 31 of the checksum, the CRC-32C of the entry key, then of the layer (8 bytes, \
         little-endian)",
    ),
    Field::bytes(8, 8, "place", "block: memory node (16 bits) and byte offset (48); link: the layer that goes on"),
];

/// Where a block is, and which generation of that place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockPointer {
    /// Memory node (16 bits) and byte offset (48 bits, a multiple of 16).
    pub place: u64,
    /// Generation of the place, 31 bits.
    pub life: u32,
    /// Length of the image, 17 bits.
    pub bytes: u32,
}

impl BlockPointer {
    /// A pointer to no block.
    pub const NONE: Self = Self { place: 0, life: 0, bytes: 0 };

    /// The memory node.
    #[inline]
    pub const fn node(&self) -> NodeId {
        NodeId((self.place >> 48) as u16)
    }

    /// Byte offset there.
    #[inline]
    pub const fn offset(&self) -> u64 {
        self.place & ((1 << 48) - 1)
    }

    /// Memory node and offset in one word.
    pub const fn place_of(node: NodeId, offset: u64) -> u64 {
        (node.0 as u64) << 48 | offset & ((1 << 48) - 1)
    }
}

/// A slot, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot<'a> {
    /// The value of the key that ends here.
    Inline(&'a [u8]),
    /// Key and value are in a block.
    Block(BlockPointer),
    /// All keys with this prefix are in this layer.
    Link(u64),
}

/// The longest value a slot of `slot_bytes` holds.
pub const fn inline_bytes_max(slot_bytes: usize) -> usize {
    slot_bytes - HEAD_BYTES
}

impl<'a> Slot<'a> {
    /// Writes all of `slot`, the value of the entry with this key. A value that does not fit is cut: callers check
    /// [`inline_bytes_max`] before.
    pub fn write(&self, entry_key: &[u8], slot: &mut [u8]) {
        slot.fill(0);
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = slot.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        match self {
            Self::Inline(value) => {
                put(0, &(INLINE | (value.len() as u16) << 2).to_le_bytes());
                put(HEAD_BYTES, value);
            }
            Self::Block(BlockPointer { place, life, bytes }) => {
                let lengths = bytes & ((1 << LENGTH_BITS) - 1) | (life & LIFE_MASK) >> 16 << LENGTH_BITS;
                put(0, &BLOCK.to_le_bytes());
                put(2, &(*life as u16).to_le_bytes());
                put(4, &lengths.to_le_bytes());
                put(8, &place.to_le_bytes());
            }
            Self::Link(layer) => {
                put(0, &LINK.to_le_bytes());
                put(CHECKSUM_AT, &checksum(entry_key, *layer).to_le_bytes());
                put(LAYER.start, &layer.to_le_bytes());
            }
        }
    }

    /// Decodes the value of the entry with this key. `None`: no code writes such bytes there.
    pub fn read(entry_key: &[u8], slot: &'a [u8]) -> Option<Self> {
        let (head, rest) = slot.split_first_chunk::<HEAD_BYTES>()?;
        let head = u16::from_le_bytes(*head);
        if head & 3 == INLINE {
            return rest.get(..usize::from(head >> 2)).map(Self::Inline);
        }
        let zeros = |range: &[u8]| range.iter().all(|&byte| byte == 0);
        let padding = slot.get(LAYER.end..)?;
        let (low, rest) = rest.split_first_chunk::<2>()?;
        let (lengths, rest) = rest.split_first_chunk::<4>()?;
        let (word, _) = rest.split_first_chunk::<8>()?;
        let (lengths, word) = (u32::from_le_bytes(*lengths), u64::from_le_bytes(*word));
        match head {
            BLOCK => {
                let life = u32::from(u16::from_le_bytes(*low)) | lengths >> LENGTH_BITS << 16;
                Some(Self::Block(BlockPointer { place: word, life, bytes: lengths & ((1 << LENGTH_BITS) - 1) }))
            }
            LINK => {
                let sound = checksum(entry_key, word) == lengths || planted(Mutant::LINK_UNCHECKED);
                (sound && zeros(low) && zeros(padding)).then_some(Self::Link(word))
            }
            _ => None,
        }
    }
}

/// The checksum of a link from the entry with this key to `layer`.
fn checksum(entry_key: &[u8], layer: u64) -> u32 {
    let mut digest = CRC.digest();
    digest.update(entry_key);
    digest.update(&layer.to_le_bytes());
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::with_planted;

    const KEY: &[u8; 16] = b"layer...a slice\x08";

    #[test]
    fn slots_come_back() {
        let block =
            BlockPointer { place: BlockPointer::place_of(NodeId(3), 0xabc0), life: 0x7654_3210, bytes: 0x1_2345 };
        for slot in [
            Slot::Inline(b""),
            Slot::Inline(b"fourteen bytes"),
            Slot::Block(block),
            Slot::Block(BlockPointer { life: LIFE_MASK, bytes: (1 << 17) - 1, place: u64::MAX }),
            Slot::Link(u64::MAX),
        ] {
            let mut bytes = [0xee; 16];
            slot.write(KEY, &mut bytes);
            assert_eq!(Slot::read(KEY, &bytes), Some(slot));
        }
        assert_eq!((block.node(), block.offset()), (NodeId(3), 0xabc0));
        assert_eq!(inline_bytes_max(16), 14);
    }

    #[test]
    fn what_nobody_writes_is_not_read() {
        assert_eq!(Slot::read(KEY, &[0; 16]), None);
        assert_eq!(Slot::read(KEY, &[0xff; 8]), None, "too short");
        let mut long = [0; 16];
        long[0] = 1 | 15 << 2;
        assert_eq!(Slot::read(KEY, &long), None, "fifteen bytes do not fit");
        assert_eq!(Slot::read(KEY, &[6; 16]), None, "a block with a length in its head");
    }

    /// Changes each bit of a link and of its entry key. Returns after how many changes it is still read as a link.
    fn links_read_after_damage() -> usize {
        let mut sound = [0; 40];
        sound[..16].copy_from_slice(KEY);
        Slot::Link(0x3_0001_0000_0007).write(KEY, &mut sound[16..]);
        assert_eq!(Slot::read(KEY, &sound[16..]), Some(Slot::Link(0x3_0001_0000_0007)));
        let changed = (0..sound.len() * 8).map(|bit| {
            let mut entry = sound;
            entry[bit / 8] ^= 1 << (bit % 8);
            entry
        });
        changed.filter(|entry| matches!(Slot::read(&entry[..16], &entry[16..]), Some(Slot::Link(_)))).count()
    }

    #[test]
    fn a_damaged_link_is_no_link() {
        assert_eq!(links_read_after_damage(), 0);
        let unchecked = with_planted(Some(Mutant::LINK_UNCHECKED), links_read_after_damage);
        assert_eq!(unchecked, 8 * (16 + 4 + 8), "of the entry key, the checksum and the layer");
    }
}
