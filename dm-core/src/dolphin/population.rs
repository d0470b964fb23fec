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
//! `p` than a header has room for ([`crate::radix::chain`]); it leads on under one byte and has voids beside it. Keys that differ in bytes which
//! a header repeats have no tile, and need none: an insert of such a key puts a node above.
//!
//! | function | what it decides |
//! |---|---|
//! | [`halves`] | the first node of an index, at position 0: the root slot leads to a node from then on |
//! | [`cut`] | position and boundary at which a leaf is cut |
//! | [`heirs`] | what owns which part of the tile after the cut |
//! | [`steps`] | the changes of slots that this takes, in order |
//! | [`around`] | the tiles of a node that leads on under one byte: of a path node, and of one put above another |
//! | [`may_merge`] | whether two leaves that lie beside each other become one |
//!
//! **The order of the changes** is from the last byte to the first. So a slot is appended before the tile that it ends
//! is changed, and a void or a node never speaks, not even for an instant, for bytes that are not its own.
//!
//! **Which changes are closed.** A void that replaces a part of a leaf, and a slot that leads to new nodes, could be
//! used by an insert before the old leaf is retired, and a reader that has an old copy would then miss the new record
//! in the old leaf. So these words are written *closed* ([`crate::radix::slot`]) and opened when the old leaf is
//! retired. New leaves are closed by their own words.

use crate::radix::tile::Tile;
use heapless::Vec;

/// Slots that lead to one leaf, at most: a merge makes several, and a replaced node has one again.
pub const SLOTS_PER_LEAF_MAX: usize = 4;

/// Changes of slots that one change of a leaf takes, at most.
pub const STEPS_MAX: usize = SLOTS_PER_LEAF_MAX + 2;

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

/// A leaf that is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Position of its node.
    pub position: usize,
    /// Its tile there.
    pub tile: Tile,
    /// Records that a leaf has room for.
    pub span: usize,
    /// Its keys, the new one included.
    pub count: usize,
    /// Where the new key is among them, in ascending order.
    pub newest: usize,
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
    if leaf.newest == 0 && at_left {
        return cuts().next().map(|left| cut(left, byte(left)));
    }
    if leaf.newest + 1 == leaf.count && at_right {
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

/// Who owns a part of a leaf's tile after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heir {
    /// Nobody.
    Void,
    /// The left one of two leaves, or the only one.
    Left,
    /// The right one.
    Right,
    /// The first of the new nodes. The part has one byte.
    Nodes,
}

/// A part of a leaf's tile, and who owns it.
pub type Share = (Tile, Heir);

/// The parts of a leaf's tile after the cut. `byte`: what its keys have at its node's position; it matters if they all
/// agree there. `None`: the cut does not belong to this leaf.
pub fn heirs(leaf: &Full, cut: &Cut, byte: u8) -> Option<Vec<Share, 3>> {
    let shares = if cut.position == leaf.position {
        [Some((leaf.tile.below(cut.boundary)?, Heir::Left)), Some((leaf.tile.from(cut.boundary)?, Heir::Right)), None]
    } else {
        let (below, behind) = (leaf.tile.below(byte), leaf.tile.behind(byte));
        let nodes = (leaf.tile.has(byte) && cut.position > leaf.position).then_some((Tile::one(byte), Heir::Nodes))?;
        [below.map(|tile| (tile, Heir::Void)), Some(nodes), behind.map(|tile| (tile, Heir::Void))]
    };
    Some(shares.into_iter().flatten().collect())
}

/// A change of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The tile that the slot then has; its first byte is the slot's.
    pub tile: Tile,
    /// What it then leads to.
    pub heir: Heir,
    /// The slot is appended. Else it leads to the old leaf, and is swung.
    pub appends: bool,
    /// The word is written closed, and opened when the old leaf is retired.
    pub closes: bool,
}

/// The changes of slots that give the parts of a leaf's tile to their heirs, in the order in which they are made.
///
/// `slots`: the bytes of the slots that lead to the leaf, or to several leaves that are merged, in ascending order. If
/// the node has no room for what is appended, it is replaced first, and the steps are computed anew: the node that
/// replaces it may have fewer slots for this leaf.
///
/// `None`: more than [`SLOTS_PER_LEAF_MAX`], or the shares are not a cut of what these slots own.
pub fn steps(slots: &[u8], shares: &[Share]) -> Option<Vec<Step, STEPS_MAX>> {
    let (first, last) = (shares.first()?.0, shares.last()?.0);
    let whole = Tile::new(first.low(), last.last())?;
    let cut = shares.iter().skip(1).try_fold(first, |front, (tile, _)| front.joined(*tile));
    let owns = slots.first() == Some(&whole.low()) && slots.is_sorted() && slots.iter().all(|&byte| whole.has(byte));
    if cut != Some(whole) || !owns || slots.len() > SLOTS_PER_LEAF_MAX {
        return None;
    }
    let mut steps = Vec::new();
    let mut behind = None;
    for byte in (whole.low()..=whole.last()).rev() {
        let appends = !slots.contains(&byte);
        if appends && shares.iter().all(|(tile, _)| tile.low() != byte) {
            continue;
        }
        let &(share, heir) = shares.iter().find(|(share, _)| share.has(byte))?;
        let last = behind.map_or(whole.last(), |behind: u8| behind - 1).min(share.last());
        let tile = Tile::new(byte, last)?;
        if heir == Heir::Nodes && tile.width() > 1 {
            return None;
        }
        steps.push(Step { tile, heir, appends, closes: matches!(heir, Heir::Void | Heir::Nodes) }).ok()?;
        behind = Some(byte);
    }
    Some(steps)
}

/// The tiles of a node that leads on under `byte`: below it, itself, behind it.
pub const fn around(byte: u8) -> (Option<Tile>, Tile, Option<Tile>) {
    (Tile::ALL.below(byte), Tile::one(byte), Tile::ALL.behind(byte))
}

/// Whether two leaves with so many records, to which so many slots lead, become one. Together they fill at most half of
/// it, so that a few inserts do not cut it again.
pub const fn may_merge(records: usize, slots: usize, span: usize) -> bool {
    records <= span / 2 && slots <= SLOTS_PER_LEAF_MAX
}

#[cfg(test)]
mod tests;
