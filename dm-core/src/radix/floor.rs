//! Nodes of tiles: the floor look-up, and what a node that replaces one keeps.
//!
//! Such a node is like any other: a header that never changes, the mark of its index, and slots that are filled in
//! ascending order of place, not of byte. One slot, always the first, begins at byte 0, so every byte has a tile. Slots
//! are appended and changed; a byte that has a slot keeps it as long as the node lives.
//!
//! **Floor look-up.** The child of a key is that of the greatest slot byte that is not above the key's byte. The words
//! of an image may be of different instants. So the slot that the look-up finds is checked against the key's byte
//! ([`Slot::may_cover`]).

use super::slot::{Child, Node, Slot};
use super::tile::Tile;
use crate::error::DecodeError;
use crate::mutants::{Mutant, planted};
use crate::remote::address::Address;

/// Result of a floor look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The slot's number.
    pub index: usize,
    /// Its word.
    pub slot: Slot,
    /// Its tile, as far as the image tells: from its byte to the one in front of the next slot's.
    pub tile: Tile,
    /// Where it leads: never nothing.
    pub child: Child<Address>,
    /// Some slot, empty or not, is not frozen: the node had not been replaced when that slot was READ.
    pub current: bool,
}

impl Node<'_> {
    /// Where the next slot is appended. `None`: the node is full.
    pub fn free(&self) -> Option<usize> {
        self.slots().position(Slot::is_empty)
    }

    /// The slot of the tile that has `byte`. [`DecodeError::Torn`]: the image is of instants between which the node
    /// changed. READ it again, and drop a copy.
    #[inline]
    pub fn floor(&self, byte: u8) -> Result<Floor, DecodeError> {
        let (mut best, mut behind, mut current): (Option<(usize, Slot)>, Option<u8>, bool) = (None, None, false);
        for (index, slot) in self.slots().enumerate() {
            current |= !slot.is_frozen();
            if slot.is_empty() {
                continue;
            }
            if slot.partial() > byte {
                behind = Some(behind.map_or(slot.partial(), |behind| behind.min(slot.partial())));
            } else if best.is_none_or(|(_, best)| best.partial() < slot.partial()) {
                best = Some((index, slot));
            }
        }
        if planted(Mutant::FLOOR_ABOVE)
            && let Some((index, slot)) = self.slots().enumerate().find(|(_, slot)| Some(slot.partial()) == behind)
            && let Ok(child @ Child::Node(..)) = slot.tile_child()
        {
            return Ok(Floor { index, slot, tile: Tile::one(slot.partial()), child, current });
        }
        let Some((index, slot)) = best else {
            return Err(DecodeError::Corrupt("a node without a tile for the smallest byte"));
        };
        let child = slot.tile_child()?;
        let Some(tile) = Tile::new(slot.partial(), behind.map_or(u8::MAX, |behind| behind - 1)) else {
            return Err(DecodeError::Torn);
        };
        if slot.may_cover(byte) { Ok(Floor { index, slot, tile, child, current }) } else { Err(DecodeError::Torn) }
    }

    /// Checks a quiet node of tiles: filled without a gap, the smallest byte first, no byte twice, every void up to the
    /// next slot, every node under one byte, one slot a leaf.
    pub fn check_tiles(&self) -> Result<(), DecodeError> {
        let mut words = [Slot::EMPTY; 256];
        let mut filled = true;
        for (i, slot) in self.slots().enumerate() {
            if i == 0 && (slot.is_empty() || slot.partial() != 0) {
                return Err(DecodeError::Corrupt("a node whose first slot does not begin at 0"));
            }
            if !filled && !slot.is_empty() {
                return Err(DecodeError::Corrupt("a slot behind an empty one"));
            }
            filled = !slot.is_empty();
            let Some(word) = words.get_mut(usize::from(slot.partial())).filter(|_| filled) else { continue };
            if !word.is_empty() {
                return Err(DecodeError::Corrupt("two slots of one byte"));
            }
            *word = slot;
        }
        let mut behind = 256;
        for (low, slot) in words.iter().enumerate().rev().filter(|(_, slot)| !slot.is_empty()) {
            match slot.tile_child()? {
                Child::Leaf(_) if words.iter().filter(|other| other.target() == slot.target()).count() > 1 => {
                    return Err(DecodeError::Corrupt("two slots of one leaf"));
                }
                Child::Void(tile) if usize::from(tile.last()) + 1 != behind => {
                    return Err(DecodeError::Corrupt("a void that does not end where the next tile begins"));
                }
                Child::Node(..) if low + 1 != behind => {
                    return Err(DecodeError::Corrupt("a node under a tile of more than one byte"));
                }
                _ => behind = low,
            }
        }
        Ok(())
    }
}

/// One slot instead of two neighbours of a node, for the node that replaces theirs: two voids. `None`: both are needed.
pub const fn joined(left: Slot, right: Slot) -> Option<Slot> {
    match (left.tile_child(), right.tile_child()) {
        (Ok(Child::Void(low)), Ok(Child::Void(high))) => match low.joined(high) {
            Some(tile) => Some(Slot::void(tile)),
            None => None,
        },
        _ => None,
    }
}

/// The slots of the node that replaces one whose words are frozen, in ascending order of byte: thawed, and neighbouring
/// voids joined.
pub fn replaced(node: &Node<'_>, out: &mut [Slot; 256]) -> usize {
    let mut words = [Slot::EMPTY; 256];
    for slot in node.slots().filter(|slot| !slot.is_empty()) {
        if let Some(word) = words.get_mut(usize::from(slot.partial())) {
            *word = slot.thawed();
        }
    }
    let mut count = 0_usize;
    for slot in words.into_iter().filter(|slot| !slot.is_empty()) {
        let one = count.checked_sub(1).and_then(|last| Some((last, joined(*out.get(last)?, slot)?)));
        let (at, word) = one.unwrap_or((count, slot));
        // There is room: no byte has two.
        if let Some(place) = out.get_mut(at) {
            *place = word;
        }
        count = at + 1;
    }
    count
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::slot::{Header, NodeType, Place, build};
    use super::*;
    use crate::verbs::NodeId;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const INDEX: u8 = 3;
    const ADDRESS: Address = Address::new(NodeId(2), 0x1_2340, 41);

    fn tile(low: u8, last: u8) -> Tile {
        Tile::new(low, last).unwrap()
    }

    fn place(offset: u64) -> Place {
        Place::new(NodeId(1), offset)
    }

    #[test]
    fn neighbouring_voids_are_joined() {
        let leaf = |low| Slot::tile_leaf(low, ADDRESS).unwrap();
        let void = |low, last| Slot::void(tile(low, last));
        assert_eq!(joined(leaf(3), leaf(8)), None, "no leaf has two slots");
        assert_eq!(joined(void(3, 7), void(8, 9)), Some(void(3, 9)));
        assert_eq!(joined(void(3, 6), void(8, 9)), None);
        assert_eq!(joined(void(3, 7), leaf(8)), None);
    }

    /// A node at position 1 with these slots.
    fn image_of(slots: &[Slot]) -> Vec<u8> {
        let kind = NodeType::new(2).unwrap();
        let mut image = vec![0; kind.bytes()];
        let header = Header::new(kind, 0, 1, b"ab");
        build(&mut image, &header, INDEX, slots.iter().copied());
        image
    }

    fn view(image: &[u8]) -> Node<'_> {
        Node::new(image, NodeType::new(2).unwrap(), INDEX).unwrap()
    }

    #[test]
    fn a_floor_is_checked_against_the_byte() {
        let leaf = Slot::tile_leaf(0, ADDRESS).unwrap();
        let below = Slot::tile_node(40, NodeType::SMALLEST, place(0x100));
        let slots = [leaf, Slot::void(tile(41, 255)), below, Slot::void(tile(30, 39))];
        let image = image_of(&slots);
        let node = view(&image);
        assert_eq!(node.check_tiles(), Ok(()));
        for (byte, index) in [(0, 0), (29, 0), (30, 3), (39, 3), (40, 2), (41, 1), (255, 1)] {
            assert_eq!(node.floor(byte).map(|floor| floor.index), Ok(index), "byte {byte}");
        }
        assert_eq!((node.free(), node.floor(0).map(|floor| floor.current)), (Some(4), Ok(true)));
        // The slot behind the node, or behind the void, was READ before it was appended.
        let image = image_of(&[leaf, Slot::void(tile(30, 39)), below]);
        assert_eq!(view(&image).floor(41), Err(DecodeError::Torn), "floor into a node at a greater byte");
        assert!(view(&image).check_tiles().is_err());
        let image = image_of(&[leaf, Slot::void(tile(30, 39))]);
        assert_eq!(view(&image).floor(40), Err(DecodeError::Torn), "a void does not speak for the next tile");
        let image = image_of(&[Slot::tile_leaf(1, ADDRESS).unwrap()]);
        assert!(matches!(view(&image).floor(0), Err(DecodeError::Corrupt(_))));
        for wrong in [
            &[leaf, leaf][..],
            &[leaf, Slot::EMPTY, Slot::void(tile(9, 255))],
            &[leaf, Slot::void(tile(9, 254))],
            &[leaf, leaf.under(9)],
            &[Slot::EMPTY],
        ] {
            assert!(view(&image_of(wrong)).check_tiles().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_replaced_node_keeps_what_it_needs() {
        let leaf = Slot::tile_leaf(0, ADDRESS).unwrap();
        let other = Slot::tile_leaf(20, ADDRESS.next_generation()).unwrap();
        let below = Slot::tile_node(40, NodeType::SMALLEST, place(0x100));
        let void = |low, last| Slot::void(tile(low, last));
        let frozen: Vec<Slot> =
            [leaf, void(41, 99), below, void(100, 150), other, void(151, 255)].map(Slot::frozen).to_vec();
        let image = image_of(&frozen);
        assert_eq!((view(&image).check_tiles(), view(&image).free()), (Ok(()), Some(6)));
        let mut out = [Slot::EMPTY; 256];
        let count = replaced(&view(&image), &mut out);
        assert_eq!(out[..count], [leaf, other, below, void(41, 255)]);
        assert_eq!(view(&image_of(&out[..count])).check_tiles(), Ok(()));
    }

    /// The tiles of a node: its slots in the order in which they are filled.
    fn tiled() -> impl Strategy<Value = Vec<Slot>> {
        let bytes = proptest::collection::btree_set(1_u8..=255, 0..255);
        (bytes, any::<u64>()).prop_map(|(bytes, seed)| {
            let mut lows: Vec<u8> = core::iter::once(0).chain(bytes).collect();
            let lasts: Vec<u8> = lows.iter().skip(1).map(|low| low - 1).chain([255]).collect();
            let mut slots: Vec<Slot> = (lows.drain(..).zip(lasts).enumerate())
                .map(|(n, (low, last))| match (seed >> (n % 61)) % 3 {
                    0 if low == last => Slot::tile_node(low, NodeType::SMALLEST, place(16 + 16 * n as u64)),
                    1 => Slot::void(tile(low, last)),
                    _ => Slot::tile_leaf(low, Address::new(NodeId(3), 64 + 64 * n as u64, n as u8)).unwrap(),
                })
                .collect();
            // The first one stays, the others were filled in any order.
            let count = slots.len();
            (1..count).for_each(|n| slots.swap(n, 1 + (seed as usize).wrapping_mul(n + 7) % (count - 1)));
            slots
        })
    }

    proptest! {
        /// Every byte has the tile that a model gives it; a slot that is missing leads to no other byte's void or node.
        #[test]
        fn a_floor_is_the_models(slots in tiled(), missing in 1_usize..256) {
            let kind = (1..=7).filter_map(NodeType::new).find(|kind| kind.slots() >= slots.len()).unwrap();
            let header = Header::new(kind, 0, 1, b"ab");
            let mut image = vec![0; kind.bytes()];
            build(&mut image, &header, INDEX, slots.iter().copied());
            let node = Node::new(&image, kind, INDEX).unwrap();
            prop_assert_eq!(node.check_tiles(), Ok(()));
            let mut model = [None; 256];
            for (index, slot) in slots.iter().enumerate() {
                let bytes = usize::from(slot.partial())..256;
                let end = bytes.clone().skip(1).find(|byte| slots.iter().any(|slot| usize::from(slot.partial()) == *byte));
                model[bytes.start..end.unwrap_or(256)].fill(Some((index, *slot)));
            }
            for byte in 0..=255 {
                let floor = node.floor(byte).unwrap();
                prop_assert_eq!(Some((floor.index, floor.slot)), model[usize::from(byte)]);
                prop_assert!(floor.tile.has(byte) && floor.tile.low() == floor.slot.partial() && floor.current);
                prop_assert!(floor.tile.low() == 0 || model[usize::from(floor.tile.low()) - 1] != model[usize::from(byte)]);
            }
            // Without one slot, as in an image that is older than it.
            let Some(gone) = slots.get(missing).copied() else { return Ok(()) };
            build(&mut image, &header, INDEX, slots.iter().copied().filter(|slot| *slot != gone));
            let node = Node::new(&image, kind, INDEX).unwrap();
            for byte in 0..=255 {
                let (_, slot) = model[usize::from(byte)].unwrap();
                match node.floor(byte) {
                    Ok(floor) => prop_assert!(floor.slot == slot || floor.slot.is_leaf() && slot == gone),
                    Err(found) => prop_assert_eq!((found, slot), (DecodeError::Torn, gone)),
                }
            }
        }

        /// Any bytes are decoded without a panic.
        #[test]
        fn any_node_is_decoded(mut image in proptest::collection::vec(any::<u8>(), 0..90), byte in any::<u8>()) {
            if let Some([_, flags, ..]) = image.first_chunk_mut::<16>() {
                *flags = 2;
            }
            if let Some(mark) = image.get_mut(8..16) {
                mark.copy_from_slice(&u64::from(INDEX).to_le_bytes());
            }
            if let Ok(node) = Node::new(&image, NodeType::new(2).unwrap(), INDEX) {
                let _ = (node.check_tiles(), node.floor(byte), node.free(), replaced(&node, &mut [Slot::EMPTY; 256]));
            }
        }
    }
}
