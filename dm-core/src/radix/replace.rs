//! Node replacement: a full node is replaced by one that has room, mostly of the next type.
//!
//! Steps: freeze all slots; READ nothing more of them, since a frozen word never changes; finalize tombstones
//! ([`super::tombstones`]); WRITE the new node, without finalized leaves; CAS of the slot that leads to the old one.
//! That CAS is the replacement. An insert that has found a node full puts its leaf into the new one before it is
//! published, and linearizes at that CAS. A lane that only helps changes no record.
//!
//! The new type is the smallest of which a quarter stays free. Of the largest type all slots may be taken.
//! [`node_replacement`](crate::manual::node_replacement) says why the new node is exact, why no insert is lost, and why
//! any number of lanes may do this at once.

use super::cursor::DescentCursor;
use super::leaf::RadixLeaf;
use super::slot::{self, Child, Node, NodeType, Place, Slot};
use super::tombstones::Tombstones;
use super::tree::{Way, corrupt};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};

/// The type of the node that replaces one of `kind`, for `count` taken slots. `None`: there is none.
fn type_for(count: usize, kind: NodeType) -> Option<NodeType> {
    let mut larger = NodeType::SMALLEST;
    while larger.slots() * 3 / 4 < count {
        match larger.next() {
            Some(next) => larger = next,
            None => break,
        }
    }
    (larger.slots() >= count && (larger != kind || count < kind.slots())).then_some(larger)
}

/// Node replacement in any radix tree.
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
        self.tree().freeze(lane, node, kind, 0).await?;
        if way.copies {
            self.finalize_some(lane, kind).await?;
        }
        let count = lane.port().with(|scratch| {
            let slots = (0..kind.slots()).map(|number| Slot(self.tree().scratch.slot(0, number).word(scratch)));
            slots.filter(|slot| !slot.is_empty()).count()
        });
        let Some(larger) = type_for(count + usize::from(inserts), kind) else {
            return Err(corrupt(node, "a node of the largest type that is full or frozen and lacks a byte").into());
        };
        let _room = self.tree().room_for(way, 1 + if way.copies { self.count_finalized(lane, kind) } else { 0 })?;
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
        let image = self.tree().scratch.build().at;
        lane.port().push(Request::write(Label::Node, place.node(), place.offset(), larger.bytes(), image));
        if let Some(leaf) = leaf {
            self.push_leaf(lane, leaf);
            lane.change_is_next();
        }
        let parent = cursor.place(way);
        let to = Slot::node(cursor.word.partial(), larger, place);
        let here = place.node() == parent.node() && leaf.is_none_or(|leaf| leaf.node() == parent.node());
        let found = self.tree().publish(lane, here, parent, cursor.word, to).await?;
        if found != cursor.word {
            lane.mark(Mark::REPLACEMENT_LOST);
            if planted(Mutant::RETIRED_IN_VAIN) {
                self.tree().retire(lane, way, NodeClass::Inner, node, kind.bytes());
            }
            self.tree().space.put(NodeClass::Inner, place, larger.bytes());
            if let Some(leaf) = leaf {
                self.tree().space.put(NodeClass::Leaf, leaf, self.place_bytes());
            }
            return Ok(false);
        }
        lane.mark(Mark::NODE_REPLACED);
        self.tree().retire(lane, way, NodeClass::Inner, node, kind.bytes());
        if way.copies {
            self.tree().cache.patch(cursor.owner, usize::from(cursor.index), to, self.tree().epoch(lane));
            lane.port().with(|scratch| {
                let image = self.tree().scratch.build().of(scratch);
                if let Ok(node) = Node::new(image, larger, self.tree().index) {
                    self.tree().cache.insert(to, &node, self.tree().epoch(lane));
                }
            });
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
    }
}
