//! Node replacement: a full node is replaced by one that has room, mostly of the next type.
//!
//! Steps: freeze all slots; READ nothing more of them, since a frozen word never changes; finalize tombstones
//! ([`super::tombstones`]); WRITE the new node, without finalized leaves; CAS of the slot that leads to the old one.
//! That CAS is the replacement. An insert that has found a node full puts its leaf into the new one before it is
//! published, and linearizes at that CAS. A lane that only helps changes no record.
//!
//! The new type is the smallest of which a quarter stays free, and not smaller than that of new nodes. Of the largest type all
//! slots may be taken.
//!
//! In a tree of tiles there are no tombstones in nodes, and a full leaf's new slots are not put in here: the node is
//! replaced by one that has room for them, and neighbouring voids have one slot there.
//! [`node_replacement`](crate::manual::node_replacement) says why the new node is exact, why no insert is lost, and why
//! any number of lanes may do this at once.
//!
//! Nobody but its loader knows the nodes of a bulk load, so they are not frozen: the image is exact as it is.

use super::cursor::DescentCursor;
use super::floor;
use super::leaf::RadixLeaf;
use super::slot::{self, Child, Node, NodeType, Place, Slot};
use super::tombstones::Tombstones;
use super::tree::{Tree, Way, corrupt};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};

/// The type of the node that replaces one of `kind`, for `count` taken slots, `least` or larger. `None`: there is none.
fn type_for(count: usize, kind: NodeType, least: NodeType) -> Option<NodeType> {
    let mut larger = least;
    while larger.slots() * 3 / 4 < count {
        match larger.next() {
            Some(next) => larger = next,
            None => break,
        }
    }
    (larger.slots() >= count && (larger != kind || count < kind.slots())).then_some(larger)
}

impl Tree<'_> {
    /// Whether a bulk load replaces the node to which `cursor` leads, of which `count` slots are taken, before it is full. If
    /// new nodes have a reserve, those that are loaded have one, too: as much as a node that replaces another one.
    pub(crate) fn is_filled(&self, way: &Way, cursor: &DescentCursor, count: usize) -> bool {
        let has_reserve = self.fresh > NodeType::SMALLEST;
        let larger =
            |(kind, _): &(NodeType, Place)| type_for(count + 1, *kind, self.fresh).is_some_and(|new| new > *kind);
        !way.copies && has_reserve && cursor.word.below().as_ref().is_some_and(larger)
    }

    /// Pushes the WRITE of the node in the build range.
    fn push_node(&self, lane: &Lane<'_>, (kind, place): (NodeType, Place)) {
        let image = self.scratch.build().at;
        lane.port().push(Request::write(Label::Node, place.node(), place.offset(), kind.bytes(), image));
    }

    /// After the CAS of the slot at `cursor` to word `to`, which leads to the node in the build range, from the word
    /// that leads to node `old`. Returns whether `found`, what the CAS found, was that word.
    fn has_replaced(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        (kind, old): (NodeType, Place),
        (to, found): (Slot, Slot),
    ) -> bool {
        let Some((larger, new)) = to.below() else { return false };
        if found != cursor.word {
            lane.mark(Mark::REPLACEMENT_LOST);
            if planted(Mutant::RETIRED_IN_VAIN) {
                self.retire(lane, way, NodeClass::Inner, old, kind.bytes());
            }
            self.space.put(NodeClass::Inner, new, larger.bytes());
            return false;
        }
        lane.mark(Mark::NODE_REPLACED);
        self.retire(lane, way, NodeClass::Inner, old, kind.bytes());
        if way.copies {
            self.cache.patch(cursor.owner, usize::from(cursor.index), to, self.epoch(lane));
            lane.port().with(|scratch| {
                if let Ok(node) = Node::new(self.scratch.build().of(scratch), larger, self.index) {
                    self.cache.insert(to, &node, self.epoch(lane));
                }
            });
        }
        true
    }

    /// Replaces the node of tiles to which `cursor` leads and whose image is node image 0 by one that has `room` free
    /// slots at least. Neighbouring voids have one slot there. Returns the word that leads to the new node;
    /// `None`: another lane was faster.
    ///
    /// The word of the cursor must be fresh.
    pub(crate) async fn replace_tiles(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        room: usize,
    ) -> Result<Option<Slot>, Interrupt> {
        let Some((kind, node)) = cursor.word.below() else { return Ok(None) };
        let _room = self.room_for(lane, way, 1)?;
        if way.copies {
            self.freeze(lane, node, kind, 0).await?;
        }
        let count = lane.port().with(|scratch| {
            let old = Node::new(self.scratch.node(0).of(scratch), kind, self.index).ok()?;
            Some(floor::replaced(&old, &mut [Slot::EMPTY; 256]))
        });
        let larger = count.and_then(|count| type_for(count + room, kind, self.fresh));
        let Some(larger) = larger else {
            return Err(corrupt(node, "a node of the largest type that has no room for a tile").into());
        };
        let place = self.carve(lane, way.patient, NodeClass::Inner, node.node(), larger.bytes()).await?;
        lane.port().with(|scratch| {
            let Some((front, image)) = self.scratch.node(0).split(scratch) else { return };
            let Ok(old) = Node::new(image, kind, self.index) else { return };
            let mut slots = [Slot::EMPTY; 256];
            let count = floor::replaced(&old, &mut slots);
            let header = slot::Header { kind: larger, ..old.header };
            let image = self.scratch.build().of_mut(front);
            slot::build(image, &header, self.index, slots.into_iter().take(count));
        });
        self.push_node(lane, (larger, place));
        let parent = cursor.place(way);
        let to = Slot::tile_node(cursor.word.partial(), larger, place);
        let found = self.publish(lane, place.node() == parent.node(), parent, cursor.word, to).await?;
        Ok(self.has_replaced(lane, way, cursor, (kind, node), (to, found)).then_some(to))
    }
}

/// Node replacement in a radix tree whose leaves have one key.
pub(crate) trait Replace<'s>: Tombstones<'s> {
    /// Replaces the node at `node`, to which `cursor` leads and whose image is node image 0. With `inserts` it puts the
    /// operation's record into the new node. Returns whether this replacement was published: another lane may have been
    /// faster.
    async fn replace_node(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        node: Place,
        inserts: bool,
    ) -> Result<bool, Interrupt> {
        let Ok(Child::Node(kind, _)) = cursor.word.child() else { return Ok(false) };
        if way.copies {
            self.tree().freeze(lane, node, kind, 0).await?;
            self.finalize_some(lane, kind).await?;
        }
        let count = lane.port().with(|scratch| {
            let slots = (0..kind.slots()).map(|number| Slot(self.tree().scratch.slot(0, number).word(scratch)));
            slots.filter(|slot| !slot.is_empty()).count()
        });
        let Some(larger) = type_for(count + usize::from(inserts), kind, self.tree().fresh) else {
            return Err(corrupt(node, "a node of the largest type that is full or frozen and lacks a byte").into());
        };
        let _room =
            self.tree().room_for(lane, way, 1 + if way.copies { self.count_finalized(lane, kind) } else { 0 })?;
        let place = self.tree().carve(lane, way.patient, NodeClass::Inner, node.node(), larger.bytes()).await?;
        let leaf = if inserts {
            match self.tree().carve(lane, way.patient, NodeClass::Leaf, place.node(), self.place_bytes()).await {
                Ok(leaf) => Some(leaf),
                Err(error) => {
                    self.tree().space.put(NodeClass::Inner, place, larger.bytes());
                    return Err(error);
                }
            }
        } else {
            None
        };
        lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let Some((front, image)) = self.tree().scratch.node(0).split(scratch) else { return };
            let Ok(old) = Node::new(image, kind, self.tree().index) else { return };
            let header = slot::Header { kind: larger, ..old.header };
            let image = self.tree().scratch.build().of_mut(front);
            // A node that was full has no slot for the byte now, if it had none before.
            let partial = key.get(usize::from(header.position)).copied().unwrap_or_default();
            let new = leaf.map(|leaf| Slot::leaf(partial, leaf));
            let stay = old.slots().filter(|slot| !slot.is_empty()).map(Slot::thawed);
            slot::build(image, &header, self.tree().index, stay.chain(new));
        });
        self.tree().push_node(lane, (larger, place));
        if let Some(leaf) = leaf {
            self.push_leaf(lane, leaf);
            lane.change_is_next();
        }
        let parent = cursor.place(way);
        let to = Slot::node(cursor.word.partial(), larger, place);
        let here = place.node() == parent.node() && leaf.is_none_or(|leaf| leaf.node() == parent.node());
        let found = self.tree().publish(lane, here, parent, cursor.word, to).await?;
        if !self.tree().has_replaced(lane, way, cursor, (kind, node), (to, found)) {
            if let Some(leaf) = leaf {
                self.tree().space.put(NodeClass::Leaf, leaf, self.place_bytes());
            }
            if way.copies {
                self.keep_finalized(lane, kind);
            }
            return Ok(false);
        }
        if way.copies {
            // The replacement is done. If this fails, the places that it left out wait for a mark-and-sweep.
            let _ = self.retire_finalized(lane, way, kind).await;
        }
        Ok(true)
    }
}

impl<'s, L: RadixLeaf<'s>> Replace<'s> for L {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_stays_free_and_growth_is_by_one_type() {
        let type_for = |count, kind| type_for(count, kind, NodeType::SMALLEST);
        let mut kind = NodeType::SMALLEST;
        while let Some(next) = kind.next() {
            assert_eq!((type_for(kind.slots(), kind), type_for(kind.slots() + 1, kind)), (Some(next), Some(next)));
            kind = next;
        }
        let kind = NodeType::new(3).unwrap();
        assert_eq!(type_for(0, kind), Some(NodeType::SMALLEST));
        assert_eq!([3, 4, 6, 7, 12, 13].map(|count| type_for(count, kind).unwrap().slots()), [4, 8, 8, 16, 16, 32]);
        let largest = NodeType::LARGEST;
        assert_eq!([255, 256, 257].map(|count| type_for(count, largest)), [Some(largest), None, None]);
        assert_eq!(
            [0, 13].map(|count| super::type_for(count, largest, kind).unwrap().slots()),
            [16, 32],
            "no smaller ones"
        );
    }
}
