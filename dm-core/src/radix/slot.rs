//! Slot words, node headers, and what an image of a node says about a key.
//!
//! ```text
//!  slot  63                        24 23     16 15   14     13..11 10..8  7        0
//!       ┌────────────────────────────┬─────────┬────┬──────┬──────┬──────┬──────────┐
//!       │ byte offset / 16           │ MN      │leaf│frozen│ 0    │ type │ partial  │   0 (or frozen alone) = empty
//!       └────────────────────────────┴─────────┴────┴──────┴──────┴──────┴──────────┘
//!  header                            63                  16 15..13 12..11 10..8 7        0
//!                                   ┌──────────────────────┬──────┬──────┬─────┬──────────┐
//!                                   │ bytes in front       │ size │ 0    │ type│ position │
//!                                   └──────────────────────┴──────┴──────┴─────┴──────────┘
//! ```

pub use crate::remote::place::Place;

use crate::error::DecodeError;
use crate::layout::fields::Field;
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

const FROZEN: u64 = 1 << 14;
const LEAF: u64 = 1 << 15;
const RESERVED: u64 = 0b111 << 11;

/// A slot word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Slot(pub u64);

/// What a slot leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// Nothing.
    Empty,
    /// A leaf.
    Leaf(Place),
    /// A node of that type.
    Node(NodeType, Place),
}

impl Slot {
    /// Nothing there yet.
    pub const EMPTY: Self = Self(0);

    /// The bit that says that this word will not change any more.
    pub const FROZEN: u64 = FROZEN;

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 8, "partial", "byte of the key at the node's position; 0 in a root slot"),
        Field::bits(0, 8, 3, "type", "1..7: a node of 4 << (type - 1) slots; 0: a leaf, or empty"),
        Field::bits(0, 11, 3, "reserved", "0"),
        Field::bits(0, 14, 1, "frozen", "1: the word will not change any more, its node is being or has been replaced"),
        Field::bits(0, 15, 1, "leaf", "1: a leaf"),
        Field::bits(0, 16, 8, "memory node", "logical number"),
        Field::bits(0, 24, 40, "offset", "byte offset / 16"),
    ];

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

    /// The byte that it stands for.
    #[inline]
    pub const fn partial(self) -> u8 {
        self.0 as u8
    }

    /// The same pointer under another byte, not frozen.
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

    /// The pointer alone: a copy of the node it leads to is found by it.
    #[inline]
    pub const fn target(self) -> u64 {
        self.0 & !(FROZEN | 0xff)
    }

    /// Where it leads.
    #[inline]
    pub const fn child(self) -> Result<Child, DecodeError> {
        if self.is_empty() {
            return Ok(Child::Empty);
        }
        if self.0 & RESERVED != 0 {
            return Err(DecodeError::Corrupt("a slot with unknown bits"));
        }
        let place = Place::new(NodeId((self.0 >> 16) as u16 & 0xff), (self.0 >> 24) * UNIT_BYTES as u64);
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

    #[test]
    fn slots_lead_where_they_should() {
        let place = Place::new(NodeId(3), 0x0234_5678_9a00);
        let slot = Slot::node(0xab, NodeType::new(3).unwrap(), place);
        assert_eq!(slot.0, 0x2345_6789_a003_03ab);
        assert_eq!(slot.child(), Ok(Child::Node(NodeType::new(3).unwrap(), place)));
        assert_eq!(slot.frozen().child(), slot.child());
        assert_eq!(slot.under(7).partial(), 7);
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
}
