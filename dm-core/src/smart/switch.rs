//! Node replacement: a full node is replaced by one that has room, mostly of the next type.
//!
//! Steps: freeze all slots; READ nothing more of them, since a frozen word never changes; finalize tombstones
//! ([`super::bury`]); WRITE the new node, without finalized leaves; CAS of the slot that leads to the old one. That CAS
//! is the replacement. An insert that has found a node full puts its leaf into the new one before it is published, and
//! linearizes at that CAS. A lane that only helps changes no record.
//!
//! The new type is the smallest of which a quarter stays free; of the largest type all of it may be taken.
//! [`node_replacement`](crate::manual::node_replacement) says why the new node is exact, why no insert is lost, and why
//! any number of lanes may do this at once.

use super::Smart;
use super::search::{DescentCursor, Way};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::port::OUTBOX_REQUESTS;
use crate::radix::pieces::AllocationClass;
use crate::radix::slot::{self, Child, Node, NodeType, Place, SLOTS_AT, Slot, set_word, word};
use crate::smart::corrupt;
use crate::verbs::{Label, Request};

/// Passes over the slots. In each that leaves one unfrozen, another lane has split a child.
const PASSES_MAX: u32 = 64;

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

impl Smart<'_> {
    /// Replaces the node at `node`, to which `cursor` leads and whose image is node image 0; `inserts`: and puts the
    /// operation's record into the new one. Returns whether this replacement is the one that was published.
    pub(super) async fn switch(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        cursor: &DescentCursor,
        node: Place,
        inserts: bool,
    ) -> Result<bool, Interrupt> {
        let Ok(Child::Node(kind, _)) = cursor.word.child() else { return Ok(false) };
        self.freeze(lane, node, kind, 0).await?;
        if way.copies {
            self.bury_some(lane, kind).await?;
        }
        let at = self.scratch.node(0) + SLOTS_AT;
        let count = lane.port().with(|scratch| {
            let slots = (0..kind.slots()).map(|number| Slot(word(scratch, at + 8 * number)));
            slots.filter(|slot| !slot.is_empty()).count()
        });
        let Some(larger) = type_for(count + usize::from(inserts), kind) else {
            return Err(corrupt(node, "a node of the largest type that is full or frozen and lacks a byte").into());
        };
        let _room = self.room_for(way, 1 + if way.copies { self.count_buried(lane, kind) } else { 0 })?;
        let place = self.carve(lane, way.patient, AllocationClass::Node, node.node(), larger.bytes()).await?;
        let leaf = if inserts {
            match self.carve(lane, way.patient, AllocationClass::Leaf, place.node(), self.leaf.place_bytes).await {
                Ok(leaf) => Some(leaf),
                Err(error) => {
                    self.space.put(AllocationClass::Node, place, larger.bytes());
                    return Err(error);
                }
            }
        } else {
            None
        };
        let (at, build) = (self.scratch.node(0), self.scratch.build);
        lane.port().with(|scratch| {
            let mut room = [0; 64];
            let key = self.key(scratch, &mut room);
            let Some((front, images)) = scratch.split_at_mut_checked(self.scratch.nodes) else { return };
            let image = images.get(at - self.scratch.nodes..).unwrap_or_default();
            let Ok(old) = Node::new(image, kind, self.index) else { return };
            let header = slot::Header { kind: larger, ..old.header };
            let image = front.get_mut(build..).unwrap_or_default();
            // A node that was full has no slot for the byte now, if it had none before.
            let partial = key.get(usize::from(header.position)).copied().unwrap_or_default();
            let new = leaf.map(|leaf| Slot::leaf(partial, leaf));
            let stay = old.slots().filter(|slot| !slot.is_empty()).map(Slot::thawed);
            slot::build(image, &header, self.index, stay.chain(new));
        });
        let write = Request::write(Label::Node, place.node(), place.offset(), larger.bytes(), build);
        lane.port().push(write);
        if let Some(leaf) = leaf {
            self.push_leaf(lane, leaf);
            lane.change_is_next();
        }
        let parent = cursor.place(way);
        let to = Slot::node(cursor.word.partial(), larger, place);
        let here = place.node() == parent.node() && leaf.is_none_or(|leaf| leaf.node() == parent.node());
        let found = self.publish(lane, here, parent, cursor.word, to).await?;
        if found != cursor.word {
            lane.mark(Mark::SwitchLost);
            if planted(Mutant::RetiredInVain) {
                self.retire(lane, way, AllocationClass::Node, node, kind.bytes());
            }
            self.space.put(AllocationClass::Node, place, larger.bytes());
            if let Some(leaf) = leaf {
                self.space.put(AllocationClass::Leaf, leaf, self.leaf.place_bytes);
            }
            return Ok(false);
        }
        lane.mark(Mark::TypeSwitch);
        self.retire(lane, way, AllocationClass::Node, node, kind.bytes());
        if way.copies {
            self.cache.patch(cursor.owner, usize::from(cursor.index), to, self.epoch(lane));
            lane.port().with(|scratch| {
                let image = scratch.get(build..).unwrap_or_default();
                if let Ok(node) = Node::new(image, larger, self.index) {
                    self.cache.insert(to, &node, self.epoch(lane));
                }
            });
            // The replacement is done, whatever becomes of the leaves that it has left out.
            let _ = self.retire_buried(lane, way, kind).await;
        }
        Ok(true)
    }

    /// Freezes every slot and leaves the frozen words in node image `image`, which is of this node.
    ///
    /// With masked atomics a slot is frozen whatever its word is. Without, the word has to be known: where another lane
    /// was faster the CAS brings it, and it is tried again.
    pub(super) async fn freeze(
        &self,
        lane: &Lane<'_>,
        node: Place,
        kind: NodeType,
        image: usize,
    ) -> Result<(), OpError> {
        if planted(Mutant::SwitchUnfrozen) {
            return Ok(());
        }
        let port = lane.port();
        let at = self.scratch.node(image) + SLOTS_AT;
        let masked = self.capabilities.masked_atomics;
        let slot_at = |i: usize| Slot(port.with(|scratch| word(scratch, at + 8 * i)));
        for _ in 0..PASSES_MAX {
            let (mut from, mut left) = (0, false);
            while from < kind.slots() {
                let mut numbers = [0_u16; OUTBOX_REQUESTS];
                let mut count = 0;
                while from < kind.slots() && count < OUTBOX_REQUESTS {
                    let seen = slot_at(from);
                    if !seen.is_frozen() {
                        let offset = node.offset() + (SLOTS_AT + 8 * from) as u64;
                        port.push(if masked {
                            let operands = [0, Slot::FROZEN, 0, Slot::FROZEN];
                            Request::masked_cas(Label::Freeze, node.node(), offset, operands)
                        } else {
                            Request::cas(Label::Freeze, node.node(), offset, seen.0, seen.frozen().0)
                        });
                        if let Some(number) = numbers.get_mut(count) {
                            *number = from as u16;
                        }
                        count += 1;
                    }
                    from += 1;
                }
                port.submit().await?;
                for (request, number) in numbers.iter().enumerate().take(count) {
                    let found = Slot(port.completion(request).value);
                    let number = usize::from(*number);
                    let now = if masked || found == slot_at(number) { found.frozen() } else { found };
                    left |= !now.is_frozen();
                    port.with(|scratch| set_word(scratch, at + 8 * number, now.0));
                }
            }
            if !left {
                return Ok(());
            }
            lane.check_deadline()?;
        }
        let what = "freezing the slots of a full node";
        Err(OpError::harmless(crate::operation::Cause::Retries { attempts: PASSES_MAX, what }))
    }
}

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
