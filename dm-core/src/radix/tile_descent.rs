//! Descents in a tree of tiles: from a key to its leaf, which is not READ here, or to where its leaf would be.
//!
//! As in a tree of bytes ([`super::descent`]), the cursor stands at a slot, and only a fresh word may prove that a key
//! is absent. What differs:
//!
//! - A leaf has many keys, and says its bounds itself. The descent ends in front of it. If the caller finds that the
//!   leaf is not the key's, the descent goes on from the node that has the slot ([`Start::Again`]): a slot may have
//!   been appended there. A READ of the slot alone would not tell.
//! - A word that proves that a key is absent is a void, which says its tile, or one that leads to a node with another
//!   header.

use super::cursor::DescentCursor;
use super::slot::{Child, Compared, Header, Node, NodeType, Slot};
use super::tile::Tile;
use super::tree::{Tree, Way, corrupt};
use crate::error::DecodeError;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::remote::address::Address;
use core::ops::Range;

/// Where a descent begins.
#[derive(Clone, Copy)]
pub(crate) enum Start {
    /// Where the copies end.
    Copies,
    /// At the root slot, which is READ.
    Root,
    /// At the node that has the slot of this cursor, which is READ anew.
    Again(TileCursor),
    /// At the node that has the slot of this cursor, which is in node image 0, READ by the same operation.
    Seen(TileCursor),
    /// At this cursor, with nothing READ. Such a descent may not change what it meets.
    At(TileCursor),
}

/// What a lane is going to do where its descent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// READ. Nodes that are being replaced are gone through.
    Read,
    /// As [`Goal::Read`]; or fill a void, by a CAS of its word. A void that only a copy shows then ends the descent: the
    /// CAS proves it.
    Fill,
    /// Change the slot. A node on the way is replaced if another lane has frozen the slot there or the next free one.
    Change,
    /// Change the slot, and append so many slots to its node. The node is replaced if it has fewer free slots; one of
    /// the largest type has a slot for every byte.
    ///
    /// The slot is then fresh, and node image 0 is of its node ([`Tree::with_owner`]). That is so as well if no slot is
    /// appended, but not at [`TileEnd::Header`].
    Append(usize),
}

/// Where a descent stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileCursor {
    /// The slot.
    pub slot: DescentCursor,
}

/// What is at the end of a descent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileEnd {
    /// The root slot, empty.
    Empty,
    /// A leaf, which was not READ. The word may be stale even if it is fresh: the leaf's bounds decide.
    Leaf(Address),
    /// No leaf has keys of this tile, and the key is in it.
    Void(Tile),
    /// A node whose header differs from the key at this position. It is in node image 0.
    Header(usize),
}

/// What a descent finds in a node of tiles.
enum Look {
    /// No node of this index, or one that cannot be here.
    Unfit(&'static str),
    /// The image is of instants between which the node has changed.
    Torn,
    /// The node's header differs from the key at this position.
    Differs(usize),
    /// The slot of the key's byte.
    Found {
        word: Slot,
        index: u8,
        position: u8,
        /// As [`Floor::current`](super::floor::Floor::current).
        current: bool,
        /// This slot, or the next one to be filled, is frozen.
        frozen: bool,
        /// The node has too few free slots for the goal.
        short: bool,
    },
}

/// A descent ends within so many steps, or its tree is corrupt: levels, and repetitions of READs.
const STEPS_MAX: u32 = 1024;

impl TileCursor {
    const fn at(slot: DescentCursor) -> Self {
        Self { slot }
    }
}

impl Goal {
    /// How many free slots the node of `kind` needs that has `slot` on the way to the key.
    fn room(self, kind: NodeType, slot: Slot) -> usize {
        match self {
            Self::Append(room) if slot.below().is_none() && kind != NodeType::LARGEST => room,
            _ => 0,
        }
    }

    /// Whether nodes on the way are replaced that are about to be, or are full.
    const fn helps(self) -> bool {
        matches!(self, Self::Change | Self::Append(_))
    }
}

impl Tree<'_> {
    /// Descends to the key at scratch range `key`: any key, also another one than the operation's. A lane that has to
    /// change something there says so by its goal, and then its descent replaces nodes.
    ///
    /// The loop ends: as [`super::descent`] says, and torn images and replacements are attempts, which are limited.
    pub(crate) async fn descend(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        key: &Range<usize>,
        start: Start,
        goal: Goal,
    ) -> Result<(TileCursor, TileEnd), Interrupt> {
        let mut attempts = 0;
        let mut cursor = match start {
            Start::At(cursor) => cursor,
            Start::Again(cursor) => self.look_again(lane, way, key, (&cursor, goal), false, &mut attempts).await?,
            Start::Seen(cursor) => self.look_again(lane, way, key, (&cursor, goal), true, &mut attempts).await?,
            Start::Copies if way.copies => match self.route(lane, key).await {
                Some(route) => TileCursor::at(DescentCursor::copied(&route)),
                None => TileCursor::at(self.read_root(lane, way).await?),
            },
            Start::Copies | Start::Root => TileCursor::at(self.read_root(lane, way).await?),
        };
        for _ in 0..STEPS_MAX {
            let slot = cursor.slot;
            let what = match slot.word.tile_child() {
                Ok(Child::Leaf(leaf)) if slot.fresh || !matches!(goal, Goal::Append(_)) => {
                    return Ok((cursor, TileEnd::Leaf(leaf)));
                }
                Ok(Child::Empty) if slot.fresh && slot.owner.is_empty() => return Ok((cursor, TileEnd::Empty)),
                Ok(Child::Void(tile)) if slot.fresh || goal == Goal::Fill || planted(Mutant::VOID_FROM_COPY) => {
                    return Ok((cursor, TileEnd::Void(tile)));
                }
                // Of a leaf only if the word is a copy's.
                Ok(Child::Empty | Child::Void(_) | Child::Leaf(_)) => "an empty slot",
                Ok(Child::Node(kind, place)) if self.is_inside(place, kind.bytes()) => {
                    lane.port().call(self.node_request(kind, place)).await?;
                    match self.look_at_tiles(lane, way, key, (&slot, goal), Some(slot.depth)) {
                        Look::Differs(at) if slot.fresh => return Ok((cursor, TileEnd::Header(at))),
                        Look::Differs(_) => "a node of another prefix",
                        Look::Torn => {
                            lane.mark(Mark::TORN_READ);
                            lane.attempt(&mut attempts, "reading a node of tiles")?;
                            continue;
                        }
                        Look::Found { frozen, short, word, .. } if (frozen || short) && goal.helps() => {
                            cursor = if slot.fresh {
                                if frozen {
                                    lane.mark(Mark::HELPED_REPLACEMENT);
                                }
                                match self.replace_tiles(lane, way, &slot, goal.room(kind, word)).await? {
                                    Some(word) => TileCursor { slot: DescentCursor { word, ..slot } },
                                    None => TileCursor::at(self.read_root(lane, way).await?),
                                }
                            } else {
                                self.look_again(lane, way, key, (&cursor, goal), false, &mut attempts).await?
                            };
                            lane.attempt(&mut attempts, "replacing full nodes on the way")?;
                            continue;
                        }
                        Look::Found { word, index, position, current, .. } => {
                            if word.is_frozen() {
                                lane.mark(Mark::FROZEN_SLOT);
                            }
                            let below = DescentCursor {
                                word: word.thawed(),
                                depth: position + 1,
                                index,
                                fresh: slot.fresh || current,
                                owner: slot.word,
                            };
                            cursor = TileCursor { slot: below };
                            continue;
                        }
                        Look::Unfit(what) => what,
                    }
                }
                Ok(Child::Node(..)) => "a pointer beyond the pool",
                Err(_) => "a slot with unknown bits",
            };
            if slot.fresh {
                return Err(corrupt(slot.place(way), what).into());
            }
            cursor = self.look_again(lane, way, key, (&cursor, goal), false, &mut attempts).await?;
        }
        Err(corrupt(way.root, "a path that is too long").into())
    }

    /// Looks at the node that has the slot of `cursor`, in node image 0: after a descent with [`Goal::Append`]. `None`:
    /// that is the root slot, or another node's image is there.
    pub(crate) fn with_owner<T>(
        &self,
        lane: &Lane<'_>,
        cursor: &TileCursor,
        look: impl FnOnce(&Node<'_>) -> T,
    ) -> Option<T> {
        let (kind, _) = cursor.slot.owner.below()?;
        lane.port().with(|scratch| {
            let node = Node::new(self.scratch.node(0).of(scratch), kind, self.index).ok()?;
            (usize::from(node.header.position) + 1 == usize::from(cursor.slot.depth)).then(|| look(&node))
        })
    }

    /// READs the node that has the slot of `cursor` anew, and stands at the slot that has the key's byte now. If the
    /// node may have left the tree, it stands at the root slot. The result is fresh. `seen`: the node is in node image 0.
    async fn look_again(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        key: &Range<usize>,
        (cursor, goal): (&TileCursor, Goal),
        mut seen: bool,
        attempts: &mut u32,
    ) -> Result<TileCursor, OpError> {
        let slot = cursor.slot;
        let owner = slot.owner.below().filter(|(kind, place)| self.is_inside(*place, kind.bytes()));
        if let Some((kind, place)) = owner {
            let above = DescentCursor { word: slot.owner, fresh: false, ..slot };
            loop {
                if !core::mem::take(&mut seen) {
                    lane.port().call(self.node_request(kind, place)).await?;
                }
                match self.look_at_tiles(lane, way, key, (&above, goal), None) {
                    Look::Found { word, index, position, current: true, frozen: false, short: false } => {
                        lane.mark(if word == slot.word { Mark::CONFIRMED } else { Mark::STALE_CACHE });
                        let slot = DescentCursor { word, depth: position + 1, index, fresh: true, owner: slot.owner };
                        return Ok(TileCursor { slot });
                    }
                    Look::Torn => {
                        lane.mark(Mark::TORN_READ);
                        lane.attempt(attempts, "reading a node of tiles")?;
                    }
                    _ => break,
                }
            }
            lane.mark(Mark::RESTART);
        }
        Ok(TileCursor::at(self.read_root(lane, way).await?))
    }

    /// Looks for the key in node image 0, to which `cursor` leads. `begin`: where the node begins; `None`: not known,
    /// so all bytes of its header have to be the key's.
    fn look_at_tiles(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        key: &Range<usize>,
        (cursor, goal): (&DescentCursor, Goal),
        begin: Option<u8>,
    ) -> Look {
        let Some((kind, _)) = cursor.word.below().filter(|_| cursor.word.is_special()) else {
            return Look::Unfit("a node without tiles");
        };
        lane.port().with(|scratch| {
            let key = scratch.get(key.clone()).unwrap_or_default();
            let node = match Node::new(self.scratch.node(0).of(scratch), kind, self.index) {
                Ok(node) => node,
                Err(DecodeError::Corrupt(what)) => return Look::Unfit(what),
                Err(_) => return Look::Unfit("no node"),
            };
            let Header { position, size, .. } = node.header;
            match node.header.compare(usize::from(begin.unwrap_or(position - size)), key) {
                Compared::Unfit => return Look::Unfit("a node that cannot be here"),
                Compared::Differs(at) => return Look::Differs(at),
                Compared::Fits => {}
            }
            match node.floor(key.get(usize::from(position)).copied().unwrap_or_default()) {
                Ok(found) => {
                    // An image in which every slot is frozen may be of a node that has been replaced.
                    if way.copies && found.current {
                        self.cache.insert(cursor.word, &node, self.epoch(lane));
                    }
                    let (word, index, current) = (found.slot, found.index as u8, found.current);
                    let frozen = word.is_frozen() || node.free().is_some_and(|free| node.slot(free).is_frozen());
                    let free = node.slots().filter(|slot| *slot == Slot::EMPTY).count();
                    let short = free < goal.room(kind, word);
                    Look::Found { word, index, position, current, frozen, short }
                }
                Err(DecodeError::Corrupt(what)) => Look::Unfit(what),
                Err(_) => Look::Torn,
            }
        })
    }
}

#[cfg(test)]
mod tests;
