//! Insert of a key that has no leaf: into an empty slot, or by a split.
//!
//! Steps: carve memory; WRITE what is new; CAS of one slot. The CAS is the linearization point, and the only step that
//! others can see. If it loses, nothing has happened, and what was carved goes to the free lists.
//!
//! An insert may also take a slot that leads to a deleted leaf. It *finalizes* the tombstone ([`super::tombstones`]),
//! and its CAS replaces the old leaf by the new one. [`smart_records`](crate::manual::smart_records) says why two
//! inserts of one byte, and two splits of one slot, exclude each other.

use super::chain::{self, CHAIN_SLOTS};
use super::cursor::{DescentCursor, Why};
use super::leaf::RadixLeaf;
use super::replace::Replace;
use super::slot::{Child, Header, Place, SLOTS_AT, Slot};
use super::tree::{CHAIN_NODES_MAX, Way, corrupt};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::remote::place::NodeClass;
use crate::verbs::NodeId;

/// Result of an attempt to put a leaf in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attached {
    /// The key was inserted.
    Done,
    /// Another lane changed the slot, or the node had to be replaced: descend again, from the copies (`copied`) or from
    /// the root.
    Again { copied: bool },
}

/// New leaves in any radix tree.
pub(crate) trait Attach<'s>: Replace<'s> {
    /// Inserts the operation's record where its descent ended. `tidies`: the operation may, once, first replace a node
    /// that has room, to leave its deleted leaves out.
    async fn attach(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        (cursor, why): (DescentCursor, Why),
        tidies: &mut bool,
    ) -> Result<Attached, Interrupt> {
        match why {
            Why::Slot(node, empty) => {
                let is_filled = |taken: &u16| self.tree().is_filled(way, &cursor, usize::from(*taken));
                let Some(empty) = empty.filter(|taken| !is_filled(taken)) else {
                    // The new node has the record when it is published.
                    let published = self.replace_node(lane, way, &cursor, node, true).await?;
                    return Ok(if published { Attached::Done } else { Attached::Again { copied: false } });
                };
                if *tidies && self.has_tombstones(lane, &cursor, usize::from(empty)).await? {
                    *tidies = false;
                    // The new node does not get the record: before the old one is frozen, another lane may fill a slot
                    // for the record's byte.
                    let published = self.replace_node(lane, way, &cursor, node, false).await?;
                    return Ok(Attached::Again { copied: published });
                }
                self.fill_slot(lane, way, &cursor, node, usize::from(empty)).await
            }
            Why::Leaf(leaf, judged) => match self.is_finalized(lane, leaf, judged).await? {
                true => self.replace_leaf(lane, way, &cursor, leaf).await,
                // It is the key's own leaf. Its lock was handed over to this lane, and only a lane that acquired the
                // lock by a CAS may let the leaf leave the tree.
                false if judged.ours => Ok(Attached::Again { copied: false }),
                false => self.split(lane, way, &cursor, why).await,
            },
            Why::Empty | Why::Header(_) => self.split(lane, way, &cursor, why).await,
        }
    }

    /// Puts a leaf into the node at `node`, whose image is node image 0 and has its first empty slot at `empty`.
    async fn fill_slot(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        node: Place,
        empty: usize,
    ) -> Result<Attached, Interrupt> {
        let Ok(Child::Node(kind, _)) = cursor.word.child() else { return Ok(Attached::Again { copied: false }) };
        let leaf = self.tree().carve(lane, way.patient, NodeClass::Leaf, node.node(), self.place_bytes()).await?;
        let partial = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let header = Header::from_word(self.tree().scratch.node(0).word(scratch));
            let position = header.map_or(0, |header| usize::from(header.position));
            self.key(scratch, &mut room).get(position).copied().unwrap_or_default()
        });
        let to = Slot::leaf(partial, leaf);
        self.push_leaf(lane, leaf);
        let mut here = leaf.node() == node.node();
        for index in empty..kind.slots() {
            // A slot that is taken in the image is another byte's: the descent looked at all of them.
            let seen = Slot(lane.port().with(|scratch| self.tree().scratch.slot(0, index).word(scratch)));
            if !seen.is_empty() {
                continue;
            }
            lane.change_is_next();
            let found = self.tree().publish(lane, here, node.plus(SLOTS_AT + 8 * index), Slot::EMPTY, to).await?;
            here = true;
            if found == Slot::EMPTY {
                if way.copies {
                    self.tree().cache.patch(cursor.word, index, to, self.tree().epoch(lane));
                }
                return Ok(Attached::Done);
            }
            if found.is_frozen() {
                // The next slot must not be tried: slots fill in ascending order, and this one, if it is empty, stays
                // so.
                break;
            }
            if found.partial() == partial && !planted(Mutant::SAME_BYTE_TWICE) {
                lane.mark(Mark::SAME_BYTE);
                break;
            }
        }
        // The node is full or frozen, or the byte has a slot by now: the next descent sees which.
        lane.port().withdraw();
        self.tree().space.put(NodeClass::Leaf, leaf, self.place_bytes());
        Ok(Attached::Again { copied: true })
    }

    /// Makes the slot that leads to a finalized leaf lead to the operation's leaf.
    async fn replace_leaf(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        finalized: Place,
    ) -> Result<Attached, Interrupt> {
        let parent = cursor.place(way);
        let _room = self.tree().room_for(lane, way, 1)?;
        let leaf = self.tree().carve(lane, way.patient, NodeClass::Leaf, parent.node(), self.place_bytes()).await?;
        self.push_leaf(lane, leaf);
        let to = Slot::leaf(cursor.word.partial(), leaf);
        lane.change_is_next();
        let found = self.tree().publish(lane, leaf.node() == parent.node(), parent, cursor.word, to).await?;
        if found != cursor.word {
            self.tree().space.put(NodeClass::Leaf, leaf, self.place_bytes());
            if way.copies && !found.is_frozen() {
                self.tree().cache.patch(cursor.owner, usize::from(cursor.index), found, self.tree().epoch(lane));
            }
            return Ok(Attached::Again { copied: !found.is_frozen() });
        }
        lane.mark(Mark::LEAF_REPLACED);
        // That slot was the only one that led there, and a finalized leaf is never brought back.
        self.tree().retire(lane, way, NodeClass::Leaf, finalized, self.place_bytes());
        if way.copies {
            self.tree().cache.patch(cursor.owner, usize::from(cursor.index), to, self.tree().epoch(lane));
        }
        Ok(Attached::Done)
    }

    /// Puts new nodes, or the leaf alone, between a slot and what it leads to.
    ///
    /// - Root slot empty: the leaf.
    /// - Another leaf: as many nodes as the common bytes need. Each has up to six bytes in its header and one at its
    ///   position. They are contiguous and sent by one WRITE. The last one leads to both leaves.
    /// - A node whose header differs: one new node with the bytes in front of the difference, which leads to the old
    ///   node and to the leaf. The old node keeps its header. Some bytes are in both headers then, and a descent
    ///   compares them only once.
    async fn split(&self, lane: &Lane<'_>, way: &Way, cursor: &DescentCursor, why: Why) -> Result<Attached, Interrupt> {
        let place = cursor.place(way);
        // A counter of the lane spreads what is new over the memory nodes; the old child stays where it is.
        let near = match why {
            Why::Empty => place.node(),
            _ => NodeId((lane.next_turn() >> 8) as u16 % self.tree().geometry.len().max(1) as u16),
        };
        let begin = usize::from(cursor.depth);
        // Position of the first byte that differs, and the byte that the old child has there.
        let difference = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            match why {
                Why::Leaf(..) => {
                    let other = self.leaf_key(self.tree().scratch.leaf(0).of(scratch));
                    let at = key.iter().zip(other).position(|(a, b)| a != b)?;
                    Some((at, *other.get(at)?)).filter(|_| at >= begin)
                }
                Why::Header(at) => {
                    let header = Header::from_word(self.tree().scratch.node(0).word(scratch))?;
                    Some((at, header.byte_at(at)?))
                }
                Why::Empty | Why::Slot(..) => Some((0, 0)),
            }
        });
        let Some((at, old_byte)) = difference else {
            return Err(corrupt(place, "a slot that leads to a leaf of another prefix").into());
        };
        let count = if matches!(why, Why::Empty) { 0 } else { chain::path(begin, at).count() };
        if count > CHAIN_NODES_MAX {
            return Err(corrupt(place, "a path that is too long").into());
        }
        let nodes = if count > 0 {
            self.tree().carve(lane, way.patient, NodeClass::Inner, near, self.tree().chain_bytes(count)).await?
        } else {
            place
        };
        let leaf = match self.tree().carve(lane, way.patient, NodeClass::Leaf, nodes.node(), self.place_bytes()).await {
            Ok(leaf) => leaf,
            Err(error) => {
                if count > 0 {
                    self.tree().space.put(NodeClass::Inner, nodes, self.tree().chain_bytes(count));
                }
                return Err(error);
            }
        };
        let to = lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let byte = |at: usize| key.get(at).copied().unwrap_or_default();
            let partial = cursor.word.partial();
            if count == 0 {
                return Slot::leaf(partial, leaf);
            }
            self.tree().build_chain(scratch, (nodes, chain::path(begin, at)), key, |here, next| {
                let mut slots = [Slot::EMPTY; CHAIN_SLOTS];
                let [first, second, ..] = &mut slots;
                if here.position < at {
                    *first = Slot::node(byte(here.position), self.tree().fresh, next);
                } else {
                    (*first, *second) = (cursor.word.under(old_byte), Slot::leaf(byte(at), leaf));
                }
                slots
            });
            Slot::node(partial, self.tree().fresh, nodes)
        });
        if count > 0 {
            self.tree().push_chain(lane, nodes, count);
        }
        self.push_leaf(lane, leaf);
        lane.change_is_next();
        let here = leaf.node() == place.node() && (count == 0 || nodes.node() == place.node());
        let found = self.tree().publish(lane, here, place, cursor.word, to).await?;
        if found != cursor.word {
            if count > 0 {
                self.tree().space.put(NodeClass::Inner, nodes, self.tree().chain_bytes(count));
            }
            self.tree().space.put(NodeClass::Leaf, leaf, self.place_bytes());
            // The node of a frozen slot is being replaced, and the slot of the new node counts. Any other word can be
            // followed.
            if way.copies && !found.is_frozen() {
                self.tree().cache.patch(cursor.owner, usize::from(cursor.index), found, self.tree().epoch(lane));
            }
            return Ok(Attached::Again { copied: !found.is_frozen() });
        }
        match why {
            Why::Leaf(..) => lane.mark(Mark::LEAF_SPLIT),
            Why::Header(_) => lane.mark(Mark::HEADER_SPLIT),
            _ => {}
        }
        if count > 1 {
            lane.mark(Mark::LONG_PATH);
        }
        if way.copies {
            self.tree().cache.patch(cursor.owner, usize::from(cursor.index), to, self.tree().epoch(lane));
            self.tree().copy_chain(lane, to, count);
        }
        Ok(Attached::Done)
    }
}

impl<'s, L: RadixLeaf<'s>> Attach<'s> for L {}
