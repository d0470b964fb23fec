//! Slot words, node headers, and what an image of a node says about a key.
//!
//! A slot stands for one value of a byte of the key, or for a range of values, a *tile* ([`super::tile`]). Both forms
//! have one codec. Which form a tree has, its index knows: a word alone does not say it.
//!
//! ```text
//!        63            26 25   24 23     16 15   14     13   12   11      10..8   7        0
//!       ┌────────────────────────┬─────────┬────┬──────┬────┬────┬───────┬──────┬──────────┐
//!  node │ byte offset / 16       │ MN      │ 0  │frozen│ 0  │ 0  │special│ type │ partial  │  0: empty
//!       ├────────────────────────┼─────────┼────┼──────┼────┼────┼───────┼──────┼──────────┤
//!  leaf │ byte offset / 16       │ MN      │ 1  │frozen│ 0  │ 0  │ 0     │ 0    │ partial  │   of a byte
//!       ├────────────────┬───────┼─────────┼────┼──────┼────┼────┼───────┴──────┼──────────┤
//!  leaf │ byte offset /64│gen 1..0│ MN     │ 1  │frozen│ 0  │ 0  │ gen 5..2     │ partial  │   of a tile
//!       ├────────────────┴───────┼─────────┼────┼──────┼────┼────┼──────────────┼──────────┤
//!  void │ 0 ..   │ last (31..24) │ 0       │ 0  │frozen│ 0  │ 1  │ 0            │ partial  │   tiles only
//!       └────────────────────────┴─────────┴────┴──────┴────┴────┴──────────────┴──────────┘
//!  header                            63                  16 15..13 12..11 10..8 7        0
//!                                   ┌──────────────────────┬──────┬──────┬─────┬──────────┐
//!                                   │ bytes in front       │ size │ 0    │ type│ position │
//!                                   └──────────────────────┴──────┴──────┴─────┴──────────┘
//! ```
//!
//! **The root slot** is in the catalog, and no byte of a key leads to it. Where other slots have *partial* it has a check
//! of the other seven bytes, a CRC-8: a descent that began at a damaged root word would find nothing, and an insert
//! would hide all records. The check finds every damage of up to eight bits in a row and 255 of 256 others.
//!
//! In a tree of bytes, *special* and *void* are 0. In a tree of tiles:
//!
//! - **Special** says that the node below has tiles, and is searched for the greatest byte that is not above the key's.
//! - **A leaf's slot has its generation.** The leaf is 64-byte aligned, so two bits of its offset are free. With the
//!   four bits in which a node has its type and mark they hold the six bits of the generation.
//! - **A void has no pointer, and says where its tile ends.** That follows from the next slot, too, but that slot may
//!   be in another line of the node, and so be READ at another instant. An insert that fills the void could then give
//!   its leaf keys of the next tile. The CAS that fills a void compares the whole word, its end included. A leaf says
//!   its bounds itself, and a node's tile has one byte.

pub use crate::remote::place::Place;

use super::tile::Tile;
use crate::error::DecodeError;
use crate::layout::fields::Field;
use crate::remote::address::{Address, GENERATION_MASK};
use crate::verbs::NodeId;

/// Nodes and leaves begin at multiples of this.
pub const UNIT_BYTES: usize = 16;

/// Memory nodes a slot can name.
pub const MEMORY_NODES_MAX: usize = 256;

/// Bytes of a header and a mark, in front of the slots.
pub const SLOTS_AT: usize = 16;

/// Bytes a header repeats.
pub const BYTES_MAX: usize = 6;

/// Levels of bytes one node covers at most: those in its header and the one at its position.
pub const COVERS_MAX: usize = BYTES_MAX + 1;

/// Type of a node: how many slots it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeType(u8);

impl NodeType {
    /// Four slots.
    pub const SMALLEST: Self = Self(1);

    /// Sixteen slots: the most that a new node may have.
    pub const FRESH_MAX: Self = Self(3);

    /// 256 slots.
    pub const LARGEST: Self = Self(7);

    /// The type of that number, 1..=7.
    #[inline]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number <= 7 { Some(Self(number)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Slots.
    #[inline]
    pub const fn slots(self) -> usize {
        2 << self.0
    }

    /// Bytes of a node.
    #[inline]
    pub const fn bytes(self) -> usize {
        SLOTS_AT + 8 * self.slots()
    }

    /// The next larger type.
    #[inline]
    pub const fn next(self) -> Option<Self> {
        Self::new(self.0 + 1)
    }
}

/// Bytes of the largest node.
pub const NODE_BYTES_MAX: usize = NodeType::LARGEST.bytes();

const SPECIAL: u64 = 1 << 11;
const VOID: u64 = 1 << 12;
/// No word has it.
const UNUSED: u64 = 1 << 13;
const FROZEN: u64 = 1 << 14;
const LEAF: u64 = 1 << 15;
/// What slots of bytes do not use.
const RESERVED: u64 = SPECIAL | VOID | UNUSED;
/// Where a void has the last byte of its tile.
const LAST_SHIFT: u32 = 24;
/// Where a leaf's slot in a tree of tiles has the high bits of its generation: where a node has type and mark.
const GENERATION_HIGH_SHIFT: u32 = 8;
/// How many bits of the generation lie in the low bits of the offset.
const GENERATION_LOW_BITS: u32 = 2;

/// The check in a root word: CRC-8 (polynomial 0x107) of its other bytes. Bit by bit: it is computed once per look at
/// the root slot.
const fn root_check(word: u64) -> u8 {
    const CRC: crc::Crc<u8, crc::NoTable> = crc::Crc::<u8, crc::NoTable>::new(&crc::CRC_8_SMBUS);
    let [_, rest @ ..] = word.to_le_bytes();
    CRC.checksum(&rest)
}

/// A slot word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Slot(pub u64);

/// What a slot leads to. In a tree of bytes a leaf is named by its [`Place`], in a tree of tiles by its [`Address`],
/// which has the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child<L = Place> {
    /// Nothing: the slot is not in use yet.
    Empty,
    /// No leaf has keys of this tile. Only in a tree of tiles.
    Void(Tile),
    /// A leaf.
    Leaf(L),
    /// A node of that type. Its tile has one byte.
    Node(NodeType, Place),
}

impl Slot {
    /// Nothing there yet.
    pub const EMPTY: Self = Self(0);

    /// The bit that says that this word will not change any more.
    pub const FROZEN: u64 = FROZEN;

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(
            0,
            0,
            8,
            "partial",
            "byte of the key at the node's position; in a root slot CRC-8 of the other bytes",
        ),
        Field::bits(0, 8, 3, "type", "1..7: a node of 4 << (type - 1) slots; 0: a leaf, or empty"),
        Field::bits(0, 11, 3, "reserved", "0"),
        Field::bits(0, 14, 1, "frozen", "1: the word will not change any more, its node is being or has been replaced"),
        Field::bits(0, 15, 1, "leaf", "1: a leaf"),
        Field::bits(0, 16, 8, "memory node", "logical number"),
        Field::bits(0, 24, 40, "offset", "byte offset / 16"),
    ];

    /// The fields in a tree of tiles, for the goldens.
    pub const TILE_FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 8, "low", "first byte of the tile; in a root slot CRC-8 of the other bytes"),
        Field::bits(0, 8, 3, "type", "node: 1..7, 4 << (type - 1) slots; void, empty: 0; leaf: generation, bits 2..4"),
        Field::bits(0, 11, 1, "special", "node: 1, it has tiles; void, empty: 0; leaf: generation, bit 5"),
        Field::bits(0, 12, 1, "void", "1: no leaf has keys of this tile"),
        Field::bits(0, 13, 1, "reserved", "0"),
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

    /// The word of a root slot as stored.
    pub const fn in_root(self) -> u64 {
        if self.0 == 0 { 0 } else { self.under(root_check(self.0)).0 }
    }

    /// The root slot with that word, without the check. `Err`: the word was damaged.
    pub const fn of_root(word: u64) -> Result<Self, &'static str> {
        let slot = Self(word);
        if word == 0 || slot.partial() == root_check(word) {
            Ok(slot.under(0))
        } else {
            Err("a root word whose check does not hold")
        }
    }

    const fn pointer(place: Place) -> u64 {
        (place.node().0 as u64 & 0xff) << 16 | (place.offset() / UNIT_BYTES as u64) << 24
    }

    /// A leaf at `place`.
    #[inline]
    pub const fn leaf(partial: u8, place: Place) -> Self {
        Self(Self::pointer(place) | LEAF | partial as u64)
    }

    /// A node at `place`.
    #[inline]
    pub const fn node(partial: u8, kind: NodeType, place: Place) -> Self {
        Self(Self::pointer(place) | (kind.0 as u64) << 8 | partial as u64)
    }

    /// A leaf in a tree of tiles. `None`: a slot cannot name its memory node.
    #[inline]
    pub const fn tile_leaf(partial: u8, leaf: Address) -> Option<Self> {
        if leaf.node().0 as usize >= MEMORY_NODES_MAX {
            return None;
        }
        let generation = leaf.generation() as u64;
        let (high, few) = (generation >> GENERATION_LOW_BITS, generation & ((1 << GENERATION_LOW_BITS) - 1));
        let pointer = Self::pointer(Place::new(leaf.node(), leaf.offset()));
        Some(Self(pointer | few << 24 | LEAF | high << GENERATION_HIGH_SHIFT | partial as u64))
    }

    /// A node with tiles.
    #[inline]
    pub const fn tile_node(partial: u8, kind: NodeType, place: Place) -> Self {
        Self(Self::node(partial, kind, place).0 | SPECIAL)
    }

    /// No leaf for `tile`.
    #[inline]
    pub const fn void(tile: Tile) -> Self {
        Self((tile.last() as u64) << LAST_SHIFT | VOID | tile.low() as u64)
    }

    /// The byte that it stands for, or the first byte of its tile.
    #[inline]
    pub const fn partial(self) -> u8 {
        self.0 as u8
    }

    /// The same pointer under another byte, not frozen. For nodes and leaves: a void says its tile.
    #[inline]
    #[must_use]
    pub const fn under(self, partial: u8) -> Self {
        Self(self.0 & !(FROZEN | 0xff) | partial as u64)
    }

    /// Whether it leads nowhere.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 & !FROZEN == 0
    }

    /// Whether it will not change any more.
    #[inline]
    pub const fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// The same, frozen.
    #[inline]
    #[must_use]
    pub const fn frozen(self) -> Self {
        Self(self.0 | FROZEN)
    }

    /// The same, as it was before it was frozen.
    #[inline]
    #[must_use]
    pub const fn thawed(self) -> Self {
        Self(self.0 & !FROZEN)
    }

    /// Whether it leads to a leaf.
    #[inline]
    pub const fn is_leaf(self) -> bool {
        self.0 & (LEAF | VOID) == LEAF
    }

    /// The node that it leads to, in either form.
    #[inline]
    pub const fn below(self) -> Option<(NodeType, Place)> {
        match NodeType::new((self.0 >> 8) as u8 & 7) {
            Some(kind) if self.0 & (LEAF | VOID | UNUSED) == 0 => Some((kind, self.pointee())),
            _ => None,
        }
    }

    /// Whether it leads to a node with tiles.
    #[inline]
    pub const fn is_special(self) -> bool {
        self.0 & (SPECIAL | LEAF | VOID) == SPECIAL
    }

    /// The pointer alone: a copy of the node it leads to is found by it. Two words lead to one child if they agree in
    /// it, whatever their bytes and marks.
    #[inline]
    pub const fn target(self) -> u64 {
        self.0 & !(FROZEN | 0xff)
    }

    const fn pointee(self) -> Place {
        Place::new(NodeId((self.0 >> 16) as u16 & 0xff), (self.0 >> 24) * UNIT_BYTES as u64)
    }

    /// Where it leads, in a tree of tiles.
    #[inline]
    pub const fn tile_child(self) -> Result<Child<Address>, DecodeError> {
        const UNKNOWN: DecodeError = DecodeError::Corrupt("a slot that no writer of a tree of tiles produces");
        let word = self.0 & !FROZEN;
        if word == 0 {
            return Ok(Child::Empty);
        }
        if word & UNUSED != 0 {
            return Err(UNKNOWN);
        }
        if word & VOID != 0 {
            let Some(tile) = Tile::new(word as u8, (word >> LAST_SHIFT) as u8) else { return Err(UNKNOWN) };
            return if word == Self::void(tile).0 { Ok(Child::Void(tile)) } else { Err(UNKNOWN) };
        }
        if word & LEAF != 0 {
            let few = (word >> 24) as u8 & ((1 << GENERATION_LOW_BITS) - 1);
            let high = (word >> GENERATION_HIGH_SHIFT) as u8 & (GENERATION_MASK >> GENERATION_LOW_BITS);
            let place = self.pointee();
            return Ok(Child::Leaf(Address::new(place.node(), place.offset(), high << GENERATION_LOW_BITS | few)));
        }
        match self.below() {
            Some((kind, place)) => Ok(Child::Node(kind, place)),
            None => Err(UNKNOWN),
        }
    }

    /// Whether it can be the slot of `byte`, if no slot of its node has a byte between its own and that one: a void has
    /// to have the byte, and a node has to be under it. If not, the words of the image were READ at instants between
    /// which the node changed. A leaf is checked when it is READ.
    #[inline]
    pub const fn may_cover(self, byte: u8) -> bool {
        if self.0 & VOID != 0 {
            return byte <= (self.0 >> LAST_SHIFT) as u8;
        }
        self.0 & LEAF != 0 || self.partial() == byte
    }

    /// The leaf that it leads to, in a tree of bytes: what [`child`](Self::child) says of a leaf, in fewer steps.
    #[inline]
    pub const fn leaf_place(self) -> Option<Place> {
        const TYPE: u64 = 7 << 8;
        if self.0 & (LEAF | RESERVED | TYPE) == LEAF { Some(self.pointee()) } else { None }
    }

    /// Where it leads, in a tree of bytes.
    #[inline]
    pub const fn child(self) -> Result<Child, DecodeError> {
        if self.is_empty() {
            return Ok(Child::Empty);
        }
        if self.0 & RESERVED != 0 {
            return Err(DecodeError::Corrupt("a slot with unknown bits"));
        }
        let place = self.pointee();
        match (self.0 & LEAF != 0, NodeType::new((self.0 >> 8) as u8 & 7)) {
            (true, None) => Ok(Child::Leaf(place)),
            (false, Some(kind)) => Ok(Child::Node(kind, place)),
            _ => Err(DecodeError::Corrupt("a slot that leads neither to a leaf nor to a node")),
        }
    }
}

/// A node's header: it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Position of the byte that tells the slots apart.
    pub position: u8,
    /// Type.
    pub kind: NodeType,
    /// How many bytes in front of the position it repeats, 0..=6.
    pub size: u8,
    /// These bytes; those past `size` are 0.
    pub bytes: [u8; BYTES_MAX],
}

impl Header {
    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 8, "position", "position in the key of the byte that tells the slots apart"),
        Field::bits(0, 8, 3, "type", "1..7: 4 << (type - 1) slots, as in the slot that leads here"),
        Field::bits(0, 11, 2, "reserved", "0"),
        Field::bits(0, 13, 3, "size", "bytes in front of the position that follow, 0..6"),
        Field::bytes(2, 6, "bytes", "the size bytes of every key below that end in front of the position; then 0"),
        Field::bytes(8, 1, "index", "catalog number of the index, plus 1"),
        Field::bytes(9, 7, "reserved", "0"),
        Field::bytes(16, 0, "slots", "8 bytes each"),
    ];

    /// The header of a node at `position` whose keys all begin like `key`. It repeats the bytes from `begin` on; as
    /// many of the last ones as it can if these are too many.
    pub fn new(kind: NodeType, begin: usize, position: usize, key: &[u8]) -> Self {
        let begin = begin.max(position.saturating_sub(BYTES_MAX)).min(position);
        let mut bytes = [0; BYTES_MAX];
        let from = key.get(begin..position).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
        Self { position: position as u8, kind, size: from.len() as u8, bytes }
    }

    /// As stored.
    pub const fn word(&self) -> u64 {
        let [first, second, third, fourth, fifth, sixth] = self.bytes;
        let flags = self.kind.0 | self.size << 5;
        u64::from_le_bytes([self.position, flags, first, second, third, fourth, fifth, sixth])
    }

    /// Reads a header.
    pub const fn from_word(word: u64) -> Option<Self> {
        let [position, flags, first, second, third, fourth, fifth, sixth] = word.to_le_bytes();
        let (Some(kind), size) = (NodeType::new(flags & 7), flags >> 5) else { return None };
        if flags & 0b0001_1000 != 0 || size as usize > BYTES_MAX || size > position {
            return None;
        }
        Some(Self { position, kind, size, bytes: [first, second, third, fourth, fifth, sixth] })
    }

    /// Compares with `key`, of which everything in front of `begin` is known to match.
    #[inline]
    pub fn compare(&self, begin: usize, key: &[u8]) -> Compared {
        let position = usize::from(self.position);
        if position >= key.len() || begin > position || position - begin > usize::from(self.size) {
            return Compared::Unfit;
        }
        let skip = usize::from(self.size) + begin - position;
        let bytes = self.bytes.get(skip..usize::from(self.size)).unwrap_or_default();
        let wanted = key.get(begin..position).unwrap_or_default();
        match bytes.iter().zip(wanted).position(|(a, b)| a != b) {
            Some(at) => Compared::Differs(begin + at),
            None => Compared::Fits,
        }
    }

    /// The byte at `position` of the key, if the header repeats it.
    pub fn byte_at(&self, position: usize) -> Option<u8> {
        let first = usize::from(self.position) - usize::from(self.size);
        self.bytes.get(position.checked_sub(first)?).filter(|_| position < usize::from(self.position)).copied()
    }
}

/// Result of [`Header::compare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// All bytes up to the position are the key's.
    Fits,
    /// The first byte that is not the key's is at this position.
    Differs(usize),
    /// A node that cannot be here: too high, too low, or with bytes missing.
    Unfit,
}

/// The little-endian word at `at`, 0 past the end.
#[inline]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Sets the little-endian word at `at`, if there is one.
#[inline]
pub fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes.get_mut(at..).and_then(|bytes| bytes.first_chunk_mut()) {
        *place = word.to_le_bytes();
    }
}

/// An image of a node.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    image: &'a [u8],
    /// Its header.
    pub header: Header,
}

/// Result of a search for a byte among the slots of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The slot of that byte: its number and word.
    pub found: Option<(usize, Slot)>,
    /// The first empty slot.
    pub empty: Option<usize>,
    /// Some slot, empty or not, is not frozen: the node had not been replaced when that slot was READ.
    pub current: bool,
}

impl<'a> Node<'a> {
    /// Checks an image to which a slot for a node of `kind` of index `index` (catalog number plus 1) led.
    #[inline]
    pub fn new(image: &'a [u8], kind: NodeType, index: u8) -> Result<Self, DecodeError> {
        let Some(header) = Header::from_word(word(image, 0)) else {
            return Err(DecodeError::Corrupt("a node's header"));
        };
        if header.kind != kind || word(image, 8) != u64::from(index) {
            return Err(DecodeError::Corrupt("a pointer to something that is not such a node"));
        }
        let image = image.get(..kind.bytes()).ok_or(DecodeError::Corrupt("an image that is too short"))?;
        Ok(Self { image, header })
    }

    /// Slot `i`.
    #[inline]
    pub fn slot(&self, i: usize) -> Slot {
        Slot(word(self.image, SLOTS_AT + 8 * i))
    }

    /// All slots, in the order in which they were filled.
    #[inline]
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<'a> {
        let (words, _) = self.image.get(SLOTS_AT..).unwrap_or_default().as_chunks();
        words.iter().map(|word| Slot(u64::from_le_bytes(*word)))
    }

    /// The children from byte `from` on, of an image whose slots are in order.
    pub(crate) fn slots_from(&self, from: u16) -> impl Iterator<Item = Slot> + use<'a> {
        let (words, _) = self.image.get(SLOTS_AT..).unwrap_or_default().as_chunks();
        let slot = |word: &[u8; 8]| Slot(u64::from_le_bytes(*word));
        let first = words.partition_point(|word| !slot(word).is_empty() && u16::from(slot(word).partial()) < from);
        words.get(first..).unwrap_or_default().iter().map(slot).take_while(|slot| !slot.is_empty())
    }

    /// Looks for the slot of `partial`.
    #[inline]
    pub fn search(&self, partial: u8) -> Searched {
        let mut searched = Searched { found: None, empty: None, current: false };
        for (i, slot) in self.slots().enumerate() {
            searched.current |= !slot.is_frozen();
            if slot.is_empty() {
                searched.empty = searched.empty.or(Some(i));
            } else if slot.partial() == partial && searched.found.is_none() {
                searched.found = Some((i, slot));
            }
        }
        searched
    }
}

/// Writes a node: header, mark, and `slots`; the rest is empty.
pub fn build(image: &mut [u8], header: &Header, index: u8, slots: impl IntoIterator<Item = Slot>) {
    let Some(image) = image.get_mut(..header.kind.bytes()) else { return };
    image.fill(0);
    set_word(image, 0, header.word());
    set_word(image, 8, u64::from(index));
    for (i, slot) in slots.into_iter().enumerate() {
        set_word(image, SLOTS_AT + 8 * i, slot.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_lead_where_they_should() {
        let place = Place::new(NodeId(3), 0x0234_5678_9a00);
        let slot = Slot::node(0xab, NodeType::new(3).unwrap(), place);
        assert_eq!(slot.0, 0x2345_6789_a003_03ab);
        assert_eq!(slot.child(), Ok(Child::Node(NodeType::new(3).unwrap(), place)));
        assert_eq!(slot.frozen().child(), slot.child());
        assert_eq!(slot.under(7).partial(), 7);
        let root = slot.in_root();
        assert_eq!(Slot::of_root(root), Ok(slot.under(0)));
        for bit in 0..64 {
            for bits in [1, 0b11, 0xff, 0b1000_0001] {
                let damaged = root ^ bits << bit;
                assert!(damaged == root || damaged == 0 || Slot::of_root(damaged).is_err(), "{damaged:#x}");
            }
        }
        assert_eq!((Slot::EMPTY.in_root(), Slot::of_root(0)), (0, Ok(Slot::EMPTY)));
        assert_eq!(Slot::leaf(1, place).child(), Ok(Child::Leaf(place)));
        assert_eq!((Slot::EMPTY.child(), Slot::EMPTY.frozen().child()), (Ok(Child::Empty), Ok(Child::Empty)));
        assert!(Slot(slot.0 | 1 << 11).child().is_err());
        assert!(Slot(slot.0 | LEAF).child().is_err(), "both");
        assert!(Slot(slot.0 & !0x700).child().is_err(), "neither");
    }

    #[test]
    fn headers_repeat_the_last_bytes() {
        let key = *b"abcdefghij";
        let header = Header::new(NodeType::SMALLEST, 5, 8, &key);
        assert_eq!(Header::from_word(header.word()), Some(header));
        assert_eq!((header.size, &header.bytes[..3]), (3, b"fgh".as_slice()));
        assert_eq!(header.compare(5, &key), Compared::Fits);
        assert_eq!(header.compare(7, &key), Compared::Fits, "another node was put above");
        assert_eq!(header.compare(4, &key), Compared::Unfit, "bytes are missing");
        assert_eq!(header.compare(9, &key), Compared::Unfit);
        assert_eq!(header.compare(5, b"abcdefgxij"), Compared::Differs(7));
        assert_eq!(header.compare(5, b"abcdefgh"), Compared::Unfit, "the key has no byte there");
        assert_eq!(
            (header.byte_at(4), header.byte_at(5), header.byte_at(7), header.byte_at(8)),
            (None, Some(b'f'), Some(b'h'), None)
        );
        assert_eq!(Header::new(NodeType::SMALLEST, 0, 9, &key).size, 6);
    }

    #[test]
    fn a_search_says_what_it_saw() {
        let mut image = [0; 48];
        let header = Header::new(NodeType::SMALLEST, 0, 1, b"xy");
        let place = Place::new(NodeId(0), 160);
        build(&mut image, &header, 1, [Slot::leaf(5, place), Slot::leaf(6, place)]);
        let node = Node::new(&image, NodeType::SMALLEST, 1).unwrap();
        assert_eq!(node.search(6), Searched { found: Some((1, Slot::leaf(6, place))), empty: Some(2), current: true });
        assert_eq!(node.search(7).found, None);
        assert!(Node::new(&image, NodeType::SMALLEST, 2).is_err(), "another index");
        assert!(Node::new(&image, NodeType::LARGEST, 1).is_err(), "another type");
        let frozen = [1, 2, 3, 4].map(|partial| Slot::leaf(partial, place).frozen());
        build(&mut image, &header, 1, frozen);
        let node = Node::new(&image, NodeType::SMALLEST, 1).unwrap();
        assert_eq!(node.search(9), Searched { found: None, empty: None, current: false });
    }

    #[test]
    fn slots_of_tiles_lead_where_they_should() {
        for generation in 0..64 {
            let leaf = Address::new(NodeId(255), (1 << 44) - 64, generation);
            let slot = Slot::tile_leaf(0xab, leaf).unwrap();
            for slot in [slot, slot.frozen()] {
                assert_eq!((slot.tile_child(), slot.partial()), (Ok(Child::Leaf(leaf)), 0xab));
                assert_eq!((slot.below(), slot.is_leaf(), slot.is_special()), (None, true, false));
            }
            assert_eq!(slot.under(1).frozen().thawed(), Slot::tile_leaf(1, leaf).unwrap());
        }
        assert_eq!(Slot::tile_leaf(0, Address::new(NodeId(256), 64, 0)), None);
        let kind = NodeType::new(3).unwrap();
        let (place, tile) = (Place::new(NodeId(1), 0x1230), |low, last| Tile::new(low, last).unwrap());
        let (node, plain) = (Slot::tile_node(9, kind, place), Slot::node(9, kind, place));
        for slot in [node, node.frozen(), plain] {
            assert_eq!((slot.tile_child(), slot.below()), (Ok(Child::Node(kind, place)), Some((kind, place))));
            assert_eq!(slot.target(), if slot == plain { plain.target() } else { node.target() });
        }
        assert_eq!((node.is_special(), plain.is_special(), node.child().is_err()), (true, false, true));
        for (low, last) in [(0, 0), (0, 255), (255, 255), (3, 200)] {
            let void = Slot::void(tile(low, last));
            assert_eq!(
                (void.tile_child(), void.partial(), void.is_empty()),
                (Ok(Child::Void(tile(low, last))), low, false)
            );
            assert_eq!((void.below(), void.is_leaf(), void.child().is_err()), (None, false, true));
            assert!(Slot(void.0 | 1 << 40).tile_child().is_err());
        }
        assert_eq!((Slot::EMPTY.tile_child(), Slot::EMPTY.frozen().tile_child()), (Ok(Child::Empty), Ok(Child::Empty)));
        for slot in [Slot::EMPTY, node, Slot::void(tile(7, 9)), Slot::tile_leaf(1, Address::NULL).unwrap()] {
            let unknown = Slot(slot.0 | UNUSED);
            assert!(unknown.tile_child().is_err() && unknown.child().is_err() && unknown.below().is_none());
        }
        assert!(Slot(node.0 & !0x700).tile_child().is_err(), "a node of no type");
        assert!(
            Slot(Slot::void(tile(7, 9)).0 & !0xff | 0x0b).tile_child().is_err(),
            "a void that ends before it begins"
        );
    }

    proptest! {
        #[test]
        fn any_slot_is_decoded(word in any::<u64>(), thinned in any::<u64>()) {
            for slot in [Slot(word), Slot(word & thinned), Slot(word & 0xff00_ffff)] {
                let again = match slot.tile_child() {
                    Ok(Child::Empty) => Slot::EMPTY,
                    Ok(Child::Void(tile)) => Slot::void(tile),
                    Ok(Child::Leaf(leaf)) => Slot::tile_leaf(slot.partial(), leaf).unwrap(),
                    Ok(Child::Node(kind, place)) if slot.is_special() => Slot::tile_node(slot.partial(), kind, place),
                    Ok(Child::Node(kind, place)) => Slot::node(slot.partial(), kind, place),
                    Err(_) => continue,
                };
                // Nothing in the word was overlooked.
                prop_assert_eq!(slot.thawed(), again);
            }
            // What both forms accept leads to the same child.
            match (Slot(word).child(), Slot(word).tile_child()) {
                (Ok(Child::Node(kind, place)), other) => prop_assert_eq!(other, Ok(Child::Node(kind, place))),
                (Ok(Child::Leaf(place)), Ok(Child::Leaf(leaf))) => prop_assert_eq!(place.node(), leaf.node()),
                (Ok(Child::Empty), other) => prop_assert_eq!(other, Ok(Child::Empty)),
                (Ok(other), _) => prop_assert!(matches!(other, Child::Leaf(_)), "{:?}", other),
                (Err(_), _) => {}
            }
        }
    }
}
