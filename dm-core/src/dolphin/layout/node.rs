//! Nodes of tiles.
//!
//! A node is [`crate::radix`]'s: a header that never changes, the mark of its index, and slots that are filled in
//! ascending order of place, not of byte. One slot, always the first, begins at byte 0, so every byte has a tile. Slots
//! are appended and changed; a byte that has a slot keeps it as long as the node lives.
//!
//! **Floor look-up.** The child of a key is that of the greatest byte that is not above the key's. The words of an
//! image may be of different instants. So what the look-up finds is checked against the key's byte: a void has to have
//! it, and a node's slot has to be it. A leaf is checked when it is READ.

use super::slot::{TileChild, TileSlot, joined};
use crate::error::DecodeError;
use crate::radix::slot::{self, Header, Node, NodeType, Slot};

/// An image of a node of tiles.
#[derive(Clone, Copy, Debug)]
pub struct TileNode<'a>(Node<'a>);

/// Result of a floor look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The slot's number.
    pub index: usize,
    /// Its word.
    pub slot: TileSlot,
    /// Where it leads: never nothing.
    pub child: TileChild,
}

impl<'a> TileNode<'a> {
    /// Checks an image to which a slot for a node of `kind` of index `index` (catalog number plus 1) led.
    #[inline]
    pub fn new(image: &'a [u8], kind: NodeType, index: u8) -> Result<Self, DecodeError> {
        Node::new(image, kind, index).map(Self)
    }

    /// Its header.
    #[inline]
    pub const fn header(&self) -> &Header {
        &self.0.header
    }

    /// Slot `i`.
    #[inline]
    pub fn slot(&self, i: usize) -> TileSlot {
        TileSlot(self.0.slot(i).0)
    }

    /// All slots, in the order in which they were filled.
    #[inline]
    pub fn slots(&self) -> impl Iterator<Item = TileSlot> + use<'a> {
        self.0.slots().map(|slot| TileSlot(slot.0))
    }

    /// Where the next slot is appended. `None`: the node is full.
    pub fn free(&self) -> Option<usize> {
        self.slots().position(TileSlot::is_empty)
    }

    /// The slot of the tile that has `byte`. [`DecodeError::Torn`]: the image is of instants between which the node
    /// changed, so READ it again; a copy is dropped.
    #[inline]
    pub fn floor(&self, byte: u8) -> Result<Floor, DecodeError> {
        let mut best: Option<(usize, TileSlot)> = None;
        for (index, slot) in self.slots().enumerate() {
            if slot.is_empty() || slot.low() > byte {
                continue;
            }
            if best.is_none_or(|(_, best)| best.low() < slot.low()) {
                best = Some((index, slot));
            }
        }
        let Some((index, slot)) = best else {
            return Err(DecodeError::Corrupt("a node without a tile for the smallest byte"));
        };
        let child = slot.child()?;
        match child {
            TileChild::Void(tile) if !tile.has(byte) => Err(DecodeError::Torn),
            TileChild::Node { .. } if slot.low() != byte => Err(DecodeError::Torn),
            _ => Ok(Floor { index, slot, child }),
        }
    }

    /// Whether some slot, empty or not, is not frozen: the node had not been replaced when that slot was READ.
    pub fn is_current(&self) -> bool {
        self.slots().any(|slot| !slot.is_frozen())
    }

    /// Checks a quiet node: filled without a gap, the smallest byte first, no byte twice, every void up to the next
    /// slot, every node under one byte.
    pub fn check(&self) -> Result<(), DecodeError> {
        let mut words = [TileSlot::EMPTY; 256];
        let mut filled = true;
        for (i, slot) in self.slots().enumerate() {
            if i == 0 && (slot.is_empty() || slot.low() != 0) {
                return Err(DecodeError::Corrupt("a node whose first slot does not begin at 0"));
            }
            if !filled && !slot.is_empty() {
                return Err(DecodeError::Corrupt("a slot behind an empty one"));
            }
            filled = !slot.is_empty();
            let Some(word) = words.get_mut(usize::from(slot.low())).filter(|_| filled) else { continue };
            if !word.is_empty() {
                return Err(DecodeError::Corrupt("two slots of one byte"));
            }
            *word = slot;
        }
        let mut behind = 256;
        for (low, slot) in words.iter().enumerate().rev().filter(|(_, slot)| !slot.is_empty()) {
            match slot.child()? {
                TileChild::Void(tile) if usize::from(tile.last()) + 1 != behind => {
                    return Err(DecodeError::Corrupt("a void that does not end where the next tile begins"));
                }
                TileChild::Node { .. } if low + 1 != behind => {
                    return Err(DecodeError::Corrupt("a node under a tile of more than one byte"));
                }
                _ => behind = low,
            }
        }
        Ok(())
    }
}

/// Writes a node: header, mark, and `slots`, of which the first begins at byte 0; the rest is empty.
pub fn build(image: &mut [u8], header: &Header, index: u8, slots: impl IntoIterator<Item = TileSlot>) {
    slot::build(image, header, index, slots.into_iter().map(|slot| Slot(slot.0)));
}

/// The slots of the node that replaces one whose words are frozen, in ascending order of byte: thawed, and neighbours
/// joined that need one slot only.
pub fn replaced(node: &TileNode<'_>, out: &mut [TileSlot; 256]) -> usize {
    let mut words = [TileSlot::EMPTY; 256];
    for slot in node.slots().filter(|slot| !slot.is_empty()) {
        if let Some(word) = words.get_mut(usize::from(slot.low())) {
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
