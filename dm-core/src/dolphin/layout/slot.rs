//! Slot words.
//!
//! ```text
//!        63            26 25   24 23     16 15   14     13     12   11      10..8   7        0
//!       ┌────────────────┬───────┬─────────┬────┬──────┬──────┬────┬───────┬──────┬──────────┐
//!  node │ byte offset / 16       │ MN      │ 0  │frozen│closed│ 0  │special│ type │ low      │
//!       ├────────────────┬───────┼─────────┼────┼──────┼──────┼────┼───────┴──────┼──────────┤
//!  leaf │ byte offset /64│gen 1..0│ MN     │ 1  │frozen│closed│ 0  │ gen 5..2     │ low      │
//!       ├────────────────┴───────┼─────────┼────┼──────┼──────┼────┼──────────────┼──────────┤
//!  void │ 0 ..   │ last (31..24) │ 0       │ 0  │frozen│closed│ 1  │ 0            │ low      │
//!       └────────────────────────┴─────────┴────┴──────┴──────┴────┴──────────────┴──────────┘
//! ```
//!
//! A node's slot, and an empty one, is the word of [`crate::radix::slot`], with one of its three reserved bits in use:
//! *special* says that the node below has tiles, and is searched for the greatest byte that is not above the key's. A
//! leaf is 64-byte aligned, so two bits of its offset are free; with the four bits in which a node has its type and
//! mark they carry the six bits of its generation. A void has no pointer, and carries the last byte of its tile.
//!
//! **Why a void says where it ends.** Where a tile ends follows from the next slot, which may be in another line of the
//! node, and so be READ at another instant: an insert that fills a void could then give its leaf keys that belong to
//! the next tile. The CAS that fills a void compares the whole word, its end included. Leaves say their bounds
//! themselves, and a node's tile has one byte.
//!
//! **Closed.** The structure change that wrote this word has not retired the old leaf yet. Until it has, nobody else
//! changes the word, fills a void below it, or puts a node above the one it leads to: a reader that comes by an old
//! copy may still take the old leaf's word for it that the key is absent. Readers pass.

use crate::dolphin::tile::Tile;
use crate::error::DecodeError;
use crate::layout::fields::Field;
use crate::radix::slot::{MEMORY_NODES_MAX, NodeType, Place, Slot, UNIT_BYTES};
use crate::remote::address::{Address, GENERATION_MASK};
use crate::verbs::NodeId;
use static_assertions::const_assert_eq;

const_assert_eq!(MEMORY_NODES_MAX, 256);

const SPECIAL: u64 = 1 << 11;
const VOID: u64 = 1 << 12;
const CLOSED: u64 = 1 << 13;
const LEAF: u64 = 1 << 15;
const LAST_SHIFT: u32 = 24;
/// Generation bits that lie where a node has type and mark.
const GENERATION_HIGH_SHIFT: u32 = 8;
/// Generation bits that lie in the low bits of the offset.
const GENERATION_LOW_BITS: u32 = 2;

/// A slot word of a node with tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct TileSlot(pub u64);

/// What a slot leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileChild {
    /// Nothing: the slot is not in use yet.
    Empty,
    /// No leaf has keys of this tile.
    Void(Tile),
    /// A leaf; it says its bounds itself.
    Leaf(Address),
    /// A node. The tile has one byte.
    Node {
        /// Its type.
        kind: NodeType,
        /// Where it is.
        place: Place,
        /// It has tiles.
        special: bool,
    },
}

impl TileSlot {
    /// Not in use yet.
    pub const EMPTY: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 8, "low", "first byte of the tile; 0 in a root slot"),
        Field::bits(0, 8, 3, "type", "node: 1..7, 4 << (type - 1) slots; void, empty: 0; leaf: generation, bits 2..4"),
        Field::bits(0, 11, 1, "special", "node: 1, it has tiles; void, empty: 0; leaf: generation, bit 5"),
        Field::bits(0, 12, 1, "void", "1: no leaf has keys of this tile"),
        Field::bits(0, 13, 1, "closed", "1: the structure change that wrote the word has not retired the old leaf yet"),
        Field::bits(0, 14, 1, "frozen", "1: the word will not change any more, its node is being or has been replaced"),
        Field::bits(0, 15, 1, "leaf", "1: a leaf"),
        Field::bits(0, 16, 8, "memory node", "logical number; void: 0"),
        Field::bits(
            0,
            24,
            40,
            "offset",
            "node: byte offset / 16; leaf: likewise, its two low bits are generation, bits 0..1; void: last byte of the tile",
        ),
    ];

    /// No leaf for `tile`.
    #[inline]
    pub const fn void(tile: Tile) -> Self {
        Self((tile.last() as u64) << LAST_SHIFT | VOID | tile.low() as u64)
    }

    /// A leaf. `None`: a slot cannot name its memory node.
    #[inline]
    pub const fn leaf(low: u8, leaf: Address) -> Option<Self> {
        if leaf.node().0 as usize >= MEMORY_NODES_MAX {
            return None;
        }
        let generation = leaf.generation() as u64;
        let (high, few) = (generation >> GENERATION_LOW_BITS, generation & ((1 << GENERATION_LOW_BITS) - 1));
        let offset = (leaf.offset() / UNIT_BYTES as u64) | few;
        Some(Self(offset << 24 | (leaf.node().0 as u64) << 16 | LEAF | high << GENERATION_HIGH_SHIFT | low as u64))
    }

    /// A node with tiles.
    #[inline]
    pub const fn node(low: u8, kind: NodeType, place: Place) -> Self {
        Self(Slot::node(low, kind, place).0 | SPECIAL)
    }

    /// The first byte of its tile.
    #[inline]
    pub const fn low(self) -> u8 {
        self.0 as u8
    }

    /// The same child under another byte, neither frozen nor closed. For nodes and leaves: a void says its tile.
    #[inline]
    #[must_use]
    pub const fn under(self, low: u8) -> Self {
        Self(self.0 & !(Slot::FROZEN | CLOSED | 0xff) | low as u64)
    }

    /// Whether it is not in use yet.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 & !Slot::FROZEN == 0
    }

    /// Whether the word will not change any more.
    #[inline]
    pub const fn is_frozen(self) -> bool {
        self.0 & Slot::FROZEN != 0
    }

    /// The same, frozen.
    #[inline]
    #[must_use]
    pub const fn frozen(self) -> Self {
        Self(self.0 | Slot::FROZEN)
    }

    /// The same, as it was before it was frozen.
    #[inline]
    #[must_use]
    pub const fn thawed(self) -> Self {
        Self(self.0 & !Slot::FROZEN)
    }

    /// Whether a structure change that is not finished has written it.
    #[inline]
    pub const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// The same, closed.
    #[inline]
    #[must_use]
    pub const fn closed(self) -> Self {
        Self(self.0 | CLOSED)
    }

    /// The same, opened.
    #[inline]
    #[must_use]
    pub const fn opened(self) -> Self {
        Self(self.0 & !CLOSED)
    }

    /// Whether both lead to the same child, whatever their bytes and marks.
    #[inline]
    pub const fn leads_as(self, other: Self) -> bool {
        self.under(0).0 == other.under(0).0
    }

    /// Where it leads.
    #[inline]
    pub const fn child(self) -> Result<TileChild, DecodeError> {
        const UNKNOWN: DecodeError = DecodeError::Corrupt("a slot that no writer of a Dolphin index produces");
        let word = self.0 & !(Slot::FROZEN | CLOSED);
        if word == 0 {
            return if self.is_closed() { Err(UNKNOWN) } else { Ok(TileChild::Empty) };
        }
        if word & VOID != 0 {
            let Some(tile) = Tile::new(word as u8, (word >> LAST_SHIFT) as u8) else { return Err(UNKNOWN) };
            return if word == Self::void(tile).0 { Ok(TileChild::Void(tile)) } else { Err(UNKNOWN) };
        }
        let node = NodeId((word >> 16) as u16 & 0xff);
        let offset = (word >> 24) * UNIT_BYTES as u64;
        if word & LEAF != 0 {
            let few = (word >> 24) as u8 & ((1 << GENERATION_LOW_BITS) - 1);
            let high = (word >> GENERATION_HIGH_SHIFT) as u8 & (GENERATION_MASK >> GENERATION_LOW_BITS);
            return Ok(TileChild::Leaf(Address::new(node, offset, high << GENERATION_LOW_BITS | few)));
        }
        match NodeType::new((word >> 8) as u8 & 7) {
            Some(kind) => Ok(TileChild::Node { kind, place: Place::new(node, offset), special: word & SPECIAL != 0 }),
            None => Err(UNKNOWN),
        }
    }
}

/// One slot instead of two neighbours of a node, for the node that replaces theirs: two slots of one leaf, or two open
/// voids. `None`: both are needed.
pub const fn joined(left: TileSlot, right: TileSlot) -> Option<TileSlot> {
    if left.is_closed() || right.is_closed() {
        return None;
    }
    match (left.child(), right.child()) {
        (Ok(TileChild::Leaf(_)), Ok(TileChild::Leaf(_))) if left.leads_as(right) => Some(left.thawed()),
        (Ok(TileChild::Void(low)), Ok(TileChild::Void(high))) => match low.joined(high) {
            Some(tile) => Some(TileSlot::void(tile)),
            None => None,
        },
        _ => None,
    }
}
