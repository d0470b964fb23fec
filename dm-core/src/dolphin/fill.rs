//! A leaf where none was: in a void, below an empty root slot, or beside a node whose header differs from the key.
//!
//! Steps: carve; WRITE leaf (and a node); CAS of one slot. The CAS is the linearization point. It proves that the key
//! was absent, too: the word was not frozen, so the node was part of the tree. If the CAS loses, nothing has happened.
//!
//! So a void is filled as well if only a copy shows it. Its place is that of a slot of the same node still: a copy that
//! this operation may follow is of a node that was in the tree when an operation of the same epoch, or of a later one,
//! READ it, and its place waits for this operation's pin. The header of a node never changes, so the slot is in the key's
//! path. The word has the tile's first and last byte, so the CAS compares how far the void reaches, and that no
//! heir of a leaf has come there.

use super::Dolphin;
use super::layout::leaf::place_of;
use super::layout::shape::LEAF_BYTES;
use super::population;
use super::replace::first_slots;
use super::write::Attempted;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::Outcome;
use crate::radix::chain;
use crate::radix::slot::{Header, NodeType, Place, Slot};
use crate::radix::tile::Tile;
use crate::radix::tile_descent::{Goal, TileCursor, TileEnd};
use crate::radix::tree::{Way, corrupt};
use crate::remote::address::Address;
use crate::remote::place::NodeClass;

/// What is put between the slot and the leaf.
#[derive(Clone, Copy, Debug)]
enum Between {
    /// Nothing.
    Nothing,
    /// The first node, with a void beside the leaf.
    First(Tile),
    /// A node whose header has what the key and the node below have in common. That node gets the slot of this byte.
    Above(u8),
}

impl Dolphin<'_> {
    /// Inserts the operation's record where its descent has ended.
    pub(super) async fn fill(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &TileCursor,
        end: TileEnd,
    ) -> Result<Attempted, Interrupt> {
        let slot = &cursor.slot;
        let parent = slot.place(way);
        let (position, tile, between) =
            self.where_to(lane, cursor, end).ok_or(corrupt(parent, "a tile without the key"))?;
        self.seal(lane);
        let node = match between {
            Between::Nothing => None,
            _ => Some(
                self.tree.carve(lane, way.patient, NodeClass::Inner, parent.node(), self.tree.chain_bytes(1)).await?,
            ),
        };
        let give_back_node = || {
            if let Some(node) = node {
                self.tree.space.put(NodeClass::Inner, node, self.tree.chain_bytes(1));
            }
        };
        let leaf = match self.carve_leaf(lane, way, parent.node()).await {
            Ok(leaf) => leaf,
            Err(error) => {
                give_back_node();
                return Err(error);
            }
        };
        let to = lane.port().with(|scratch| {
            self.build_first(scratch, leaf, (position, tile))?;
            let new = Slot::tile_leaf(tile.low(), leaf)?;
            let Some(node) = node else { return Some(new) };
            let slots = match between {
                Between::Nothing => [None, None, None],
                Between::First(void) => in_order([Some(new), Some(Slot::void(void)), None]),
                Between::Above(byte) => {
                    let (below, _, behind) = population::around(byte);
                    let beside =
                        |side: Option<Tile>| side.map(|side| if side == tile { new } else { Slot::void(side) });
                    [beside(below), Some(slot.word.under(byte)), beside(behind)]
                }
            };
            let mut room = [0; 64];
            let key = room.get_mut(..self.shape.key_bytes)?;
            key.copy_from_slice(scratch.get(self.plan.key.clone())?);
            let path = chain::path(usize::from(slot.depth), position);
            self.tree.build_chain(scratch, (node, path), key, |_, _| first_slots(slots));
            Some(Slot::tile_node(slot.word.partial(), NodeType::SMALLEST, node))
        });
        let Some(to) = to else {
            give_back_node();
            self.tree.space.put(NodeClass::Leaf, place_of(leaf), LEAF_BYTES);
            return Err(corrupt(parent, "a leaf that cannot be built").into());
        };
        let [image, _] = self.new_images();
        self.push_block(lane);
        let birth = Self::push_birth(lane, leaf, image);
        if let Some(node) = node {
            self.tree.push_chain(lane, node, 1);
        }
        let found = self.publish_leaf(lane, (leaf, birth), parent, (slot.word, to)).await?;
        if found != slot.word && !planted(Mutant::FILL_UNJUDGED) {
            give_back_node();
            self.tree.space.put(NodeClass::Leaf, place_of(leaf), LEAF_BYTES);
            if way.copies && !found.is_frozen() {
                self.tree.cache.patch(slot.owner, usize::from(slot.index), found, self.tree.epoch(lane));
            }
            return Ok(Attempted::Again(if found.is_frozen() { Goal::Change } else { Goal::Read }));
        }
        lane.mark(match between {
            Between::Above(_) => Mark::HEADER_SPLIT,
            _ => Mark::VOID_FILLED,
        });
        if way.copies {
            self.tree.cache.patch(slot.owner, usize::from(slot.index), to, self.tree.epoch(lane));
            if node.is_some() {
                self.tree.copy_chain(lane, to, 1);
            }
        }
        Ok(Attempted::Done(Outcome::Inserted))
    }

    /// Ends the birth of the leaf, and then publishes it.
    async fn publish_leaf(
        &self,
        lane: &Lane<'_>,
        (leaf, birth): (Address, usize),
        parent: Place,
        (from, to): (Slot, Slot),
    ) -> Result<Slot, Interrupt> {
        lane.port().submit().await?;
        self.end_birth(lane, leaf, birth).await?;
        lane.change_is_next();
        Ok(self.tree.publish(lane, true, parent, from, to).await?)
    }

    /// Position and tile of the new leaf, and what is put between.
    fn where_to(&self, lane: &Lane<'_>, cursor: &TileCursor, end: TileEnd) -> Option<(usize, Tile, Between)> {
        lane.port().with(|scratch| {
            let key = scratch.get(self.plan.key.clone())?;
            match end {
                TileEnd::Empty => {
                    let (tile, void) = population::halves(*key.first()?);
                    Some((0, tile, Between::First(void)))
                }
                TileEnd::Void(tile) => {
                    let position = usize::from(cursor.slot.depth).checked_sub(1)?;
                    tile.has(*key.get(position)?).then_some((position, tile, Between::Nothing))
                }
                TileEnd::Header(position) => {
                    let header = Header::from_word(self.tree.scratch.node(0).word(scratch))?;
                    let (theirs, ours) = (header.byte_at(position)?, *key.get(position)?);
                    let (below, _, behind) = population::around(theirs);
                    let tile = if ours < theirs { below } else { behind };
                    Some((position, tile?, Between::Above(theirs)))
                }
                TileEnd::Leaf(_) => None,
            }
        })
    }
}

/// The slot of the smallest byte first.
fn in_order([first, second, third]: [Option<Slot>; 3]) -> [Option<Slot>; 3] {
    if first.map(Slot::partial) > second.map(Slot::partial) { [second, first, third] } else { [first, second, third] }
}
