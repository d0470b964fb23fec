//! Leaves by population: where a leaf is cut, and what its slots lead to afterwards. Pure decisions, no verbs.
//!
//! A leaf owns a tile of one node, at the node's position `q`. It never changes its bounds. When it is full, leaves
//! replace it that own parts of its tile:
//!
//! ```text
//!  keys differ at q           node at q  .. │ low ............... last │ ..
//!    cut at byte s                          │ low .. s-1 │ s ..... last │       left leaf, right leaf
//!
//!  keys agree on byte b at q  node at q  .. │ low ............... last │ ..
//!    and differ at p > q                    │ void │ b │ void          │
//!                                                  └► path nodes ─► node at p: │ 0 .. s-1 │ s .. 255 │
//!                                                                               left leaf   right leaf
//! ```
//!
//! So a node has a tile of one byte, always. In the second case the tile is narrowed in the node that it is in: at most
//! two slots are appended. What lies beside `b` becomes void. A *path node* is needed where more bytes lie in front of
//! `p` than a header has room for ([`crate::radix::chain`]); it leads on under one byte and has voids beside it. Keys
//! that differ in bytes which a header repeats have no tile, and need none: an insert of such a key puts a node above.
//!
//! | function | what it decides |
//! |---|---|
//! | [`halves`] | the first node of an index, at position 0: the root slot leads to a node from then on |
//! | [`becomes`] | whether a leaf becomes a void, a leaf with the same bounds, or two leaves |
//! | [`cut`] | position and boundary at which a leaf is cut |
//! | [`Heirs::words`] | the two words in a leaf that name its heirs |
//! | [`shares`] | what these words say: who owns which part of the leaf's tile |
//! | [`next_step`] | the next change of a slot on the way there |
//! | [`around`] | the tiles of a node that leads on under one byte: of a path node, and of one put above another |
//!
//! **One slot a leaf.** Exactly one slot leads to a leaf that is part of the tree: that of the first byte of its tile.
//!
//! **The order of the changes** is from the last byte to the first. So a slot is appended before the tile that it ends
//! is changed, and a void or a node never speaks, not even for an instant, for bytes that are not its own. The leaf's
//! own slot is changed last: as long as it stands, any lane finds the leaf, whose heirs say what is missing.

use super::layout::leaf::differ_early;
use crate::error::DecodeError;
use crate::radix::slot::{Child, Node, NodeType, Place, Slot};
use crate::radix::tile::Tile;
use crate::remote::address::Address;
use heapless::Vec;

/// Changes of slots that one change of a leaf takes, at most: its own slot, and one beside each end of a byte's tile.
pub const STEPS_MAX: usize = 3;

/// The first node of an index is at position 0 and has two tiles, of half the bytes each. The one that has `byte` comes
/// first.
pub const fn halves(byte: u8) -> (Tile, Tile) {
    const MIDDLE: u8 = 128;
    let (Some(low), Some(high)) = (Tile::ALL.below(MIDDLE), Tile::ALL.from(MIDDLE)) else {
        return (Tile::ALL, Tile::ALL);
    };
    if low.has(byte) { (low, high) } else { (high, low) }
}

/// Where a leaf is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Position of the byte.
    pub position: usize,
    /// Keys whose byte is below this one go to the left leaf.
    pub boundary: u8,
    /// How many these are: at least one, and not all.
    pub left: usize,
}

impl Cut {
    /// The tiles of the left and the right leaf, at the cut's position, when `leaf` is cut. `None`: the cut does not
    /// belong to this leaf.
    pub const fn tiles(&self, leaf: &Full) -> Option<(Tile, Tile)> {
        let whole = if self.position == leaf.position { leaf.tile } else { Tile::ALL };
        match (whole.below(self.boundary), whole.from(self.boundary)) {
            (Some(left), Some(right)) if self.position >= leaf.position => Some((left, right)),
            _ => None,
        }
    }
}

/// What a leaf becomes when others replace it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// A void: there is no record.
    Void,
    /// One leaf with the same bounds. Its cells are free that deleted keys had used up.
    Same,
    /// Two leaves.
    Cut(Cut),
}

impl Becomes {
    /// How many slots are appended to the node for it. `byte`: what the keys have at the node's position; it matters if
    /// all of them agree there.
    pub const fn appends(&self, leaf: &Full, byte: u8) -> usize {
        match self {
            Self::Void | Self::Same => 0,
            Self::Cut(cut) if cut.position == leaf.position => 1,
            Self::Cut(_) => leaf.tile.below(byte).is_some() as usize + leaf.tile.behind(byte).is_some() as usize,
        }
    }
}

/// A leaf that is to be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Position of its node.
    pub position: usize,
    /// Its tile there.
    pub tile: Tile,
    /// Records that a leaf has room for.
    pub span: usize,
    /// Its keys that have a record, and the new one.
    pub count: usize,
    /// Where the new key is among them, in ascending order, if there is one.
    pub newest: Option<usize>,
    /// The keys of a leaf may differ in the last byte only: [`super::parameters::Parameters::paper_leaves`].
    pub by_last_byte: bool,
}

/// Chooses what a leaf becomes. `key(i)` is key `i` of [`Full::count`] in ascending order.
///
/// Keys that were deleted have used up cells. If the others and the new one take at most three quarters of the span, one
/// leaf is enough, and a quarter of the span has to be bound again before it is replaced.
///
/// `None`: the leaf would be cut, but its keys do not differ, or lie in different tiles.
pub fn becomes<'k>(leaf: &Full, key: impl Fn(usize) -> &'k [u8]) -> Option<Becomes> {
    match leaf.count {
        0 => Some(Becomes::Void),
        1 => Some(Becomes::Same),
        count if 4 * count <= 3 * leaf.span && !(leaf.by_last_byte && differ_early(key(0), key(count - 1))) => {
            Some(Becomes::Same)
        }
        _ => cut(leaf, key).map(Becomes::Cut),
    }
}

/// Chooses the cut: at the first position where the keys differ, at the boundary nearest the median.
///
/// `key(i)` is key `i` of [`Full::count`] in ascending order. There are exceptions from the median:
///
/// - The newest key is the greatest, at the right edge of its node: so keys come in ascending order, and the left leaf
///   keeps as many as it can. Likewise the smallest, at the left edge, and the right leaf.
/// - At the last position of the key a tile of at most `span` bytes can never be full. So boundaries that are a
///   multiple of `span` away from the tile's begin are preferred, as long as each side gets an eighth.
///
/// `None`: the keys do not differ, or lie in different tiles.
pub fn cut<'k>(leaf: &Full, key: impl Fn(usize) -> &'k [u8]) -> Option<Cut> {
    let (first, last) = (key(0), key(leaf.count.checked_sub(1)?));
    let position = first.iter().zip(last).position(|(a, b)| a != b).filter(|&at| at >= leaf.position)?;
    let byte = |i: usize| key(i).get(position).copied().unwrap_or_default();
    // Keys in front of a boundary at the byte of key `i`, which differs from the one before.
    let cuts = || (1..leaf.count).filter(|&i| byte(i - 1) != byte(i));
    let narrower = position > leaf.position;
    let (at_left, at_right) = (narrower || leaf.tile.low() == 0, narrower || leaf.tile.last() == u8::MAX);
    let cut = |left: usize, boundary: u8| Cut { position, boundary, left };
    if leaf.newest == Some(0) && at_left {
        return cuts().next().map(|left| cut(left, byte(left)));
    }
    if leaf.newest == Some(leaf.count - 1) && at_right {
        return cuts().next_back().map(|left| cut(left, byte(left)));
    }
    let off_median = |left: &usize| (2 * left).abs_diff(leaf.count);
    let nearest = cuts().min_by_key(off_median)?;
    if position + 1 < first.len() {
        return Some(cut(nearest, byte(nearest)));
    }
    let low = if position == leaf.position { leaf.tile.low() } else { 0 };
    let multiples = (1..=usize::from(u8::MAX)).map_while(|times| {
        let boundary = u8::try_from(usize::from(low) + times * leaf.span).ok()?;
        let left = (0..leaf.count).filter(|&i| byte(i) < boundary).count();
        Some((left, boundary))
    });
    let fair = multiples.filter(|(left, _)| 8 * left >= leaf.count && 8 * (leaf.count - left) >= leaf.count);
    let (left, boundary) = fair.min_by_key(|(left, _)| off_median(left)).unwrap_or((nearest, byte(nearest)));
    Some(cut(left, boundary))
}

/// Who owns the tile of a leaf once it is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heirs {
    /// Nobody: the tile is void.
    Void,
    /// One leaf, which has the same bounds.
    Leaf(Address),
    /// Two leaves. The second one has the part of the tile from this byte on.
    Leaves(Address, u8, Address),
    /// A node under this byte. What lies beside the byte is void.
    Node(u8, NodeType, Place),
}

impl Heirs {
    /// As the retired leaf, whose tile this is, names them: the words of its two heirs. Each is a slot word, and what
    /// its slot will be; a word that is not needed is empty. `None`: these cannot be the heirs of this tile, or a slot
    /// cannot name the memory node.
    pub fn words(self, tile: Tile) -> Option<[Slot; 2]> {
        let words = match self {
            Self::Void => [Slot::void(tile), Slot::EMPTY],
            Self::Leaf(leaf) => [Slot::tile_leaf(tile.low(), leaf)?, Slot::EMPTY],
            Self::Leaves(left, byte, right) => [Slot::tile_leaf(tile.low(), left)?, Slot::tile_leaf(byte, right)?],
            Self::Node(byte, kind, place) => [Slot::tile_node(byte, kind, place), Slot::EMPTY],
        };
        shares(tile, words).ok().map(|_| words)
    }
}

/// A part of a leaf's tile, and the word of its slot. The slot is that of the part's first byte.
pub type Share = (Tile, Slot);

/// All parts of a leaf's tile, in ascending order.
pub type Shares = Vec<Share, STEPS_MAX>;

/// Who owns which part of the tile of a retired leaf, by the words of its heirs. The parts cover the tile without a gap.
///
/// [`DecodeError::Corrupt`]: no lane writes such heirs.
pub fn shares(tile: Tile, [first, second]: [Slot; 2]) -> Result<Shares, DecodeError> {
    const UNKNOWN: DecodeError = DecodeError::Corrupt("heirs that no lane gives to a leaf");
    if first.is_frozen() || second.is_frozen() {
        return Err(UNKNOWN);
    }
    let begins = first.partial() == tile.low();
    let parts = match (first.tile_child()?, second.tile_child()?) {
        (Child::Void(void), Child::Empty) if void == tile => [Some((tile, first)), None, None],
        (Child::Leaf(_), Child::Empty) if begins => [Some((tile, first)), None, None],
        (Child::Leaf(left), Child::Leaf(right)) if begins && left != right => {
            let byte = second.partial();
            let (Some(left), Some(right)) = (tile.below(byte), tile.from(byte)) else { return Err(UNKNOWN) };
            [Some((left, first)), Some((right, second)), None]
        }
        (Child::Node(..), Child::Empty) if first.is_special() && tile.has(first.partial()) => {
            let void = |tile: Tile| (tile, Slot::void(tile));
            let byte = first.partial();
            [tile.below(byte).map(void), Some((Tile::one(byte), first)), tile.behind(byte).map(void)]
        }
        _ => return Err(UNKNOWN),
    };
    Ok(parts.into_iter().flatten().collect())
}

/// The next change of a slot that gives the parts of a retired leaf's tile to its heirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A slot is appended: the empty slot of this number becomes this word.
    Append {
        /// The slot's number.
        index: usize,
        /// Its word then.
        word: Slot,
    },
    /// The leaf's own slot becomes this word. Nothing is left to do then.
    Swing {
        /// The slot's number.
        index: usize,
        /// Its word then.
        word: Slot,
    },
    /// The slot to change is frozen, or there is none: the node is replaced before, by one with room for so many slots.
    Replace {
        /// How many.
        room: usize,
    },
    /// The leaf has no slot in this node any more: all changes were made.
    Done,
}

/// The next change of a slot of `node`, so that the retired leaf to which the word `leaf` leads gives its tile to its
/// heirs: the greatest byte is next at which a share begins and which has no slot, and after all of these the leaf's own
/// slot. Any lane computes it from any image of the node that it READs, and nothing else says which changes were made.
///
/// A byte that has a slot is done, whatever its word is: the heir may have been replaced, too, or its void filled.
///
/// [`DecodeError::Corrupt`]: these are not the shares of this leaf, or the image is not of a node that lanes make.
pub fn next_step(node: &Node<'_>, leaf: Slot, shares: &[Share]) -> Result<Step, DecodeError> {
    let Some((&(tile, own), appended)) = shares.split_first() else {
        return Err(DecodeError::Corrupt("a retired leaf without heirs"));
    };
    if !leaf.is_leaf() || leaf.partial() != tile.low() || shares.iter().any(|(_, word)| word.target() == leaf.target())
    {
        return Err(DecodeError::Corrupt("heirs that cannot be this leaf's"));
    }
    let Some((index, slot)) = node.slots().enumerate().find(|(_, slot)| slot.thawed() == leaf.thawed()) else {
        return Ok(Step::Done);
    };
    let has_slot = |tile: Tile| node.slots().any(|slot| !slot.is_empty() && slot.partial() == tile.low());
    let mut missing = appended.iter().rev().filter(|(tile, _)| !has_slot(*tile));
    let Some(&(_, word)) = missing.next() else {
        return Ok(if slot.is_frozen() { Step::Replace { room: 0 } } else { Step::Swing { index, word: own } });
    };
    match node.free() {
        Some(index) if !node.slot(index).is_frozen() => Ok(Step::Append { index, word }),
        None if node.header.kind == NodeType::LARGEST => Err(DecodeError::Corrupt("a full node that lacks a byte")),
        _ => Ok(Step::Replace { room: 1 + missing.count() }),
    }
}

/// The tiles of a node that leads on under `byte`: below it, itself, behind it.
pub const fn around(byte: u8) -> (Option<Tile>, Tile, Option<Tile>) {
    (Tile::ALL.below(byte), Tile::one(byte), Tile::ALL.behind(byte))
}

#[cfg(test)]
mod tests;
