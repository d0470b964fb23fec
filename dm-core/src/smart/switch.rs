//! Type switch: a full node is replaced by one that has room, mostly of the next type.
//!
//! Steps: freeze all slots; READ nothing more of them, since a frozen word never changes; bury the deleted leaves there are
//! ([`super::bury`]); WRITE the new node, without these; CAS of the slot that leads to the old one. That CAS is the switch. An insert that has found a node full puts its leaf into the new one before it is
//! published, and linearizes at that CAS; who only helps changes no record, so nobody's answer depends on when it does.
//!
//! **Why the copy is exact.** A slot is CASed from its word to the same word frozen, and every other change of a slot
//! expects a word that is not frozen. When the last slot is frozen all of them are as they will be for as long as anybody
//! knows of the node, and that is what is written; except for leaves that are buried, which are nobody's any more.
//!
//! **Its type** is the smallest of which a quarter stays free, so that what a replacement costs is shared by as many inserts
//! as it freezes slots, four at most to one; of the largest type all of it may be taken.
//!
//! **Why nobody loses an insert.** An empty slot that is frozen is not filled: the CAS of who was about to loses, and it looks again,
//! as splits of children do.
//!
//! **Helping.** Any number of lanes may do this at once with the same node: they freeze the same words, write the same
//! node in different places, but for deleted leaves that some leave out and some do not, and one CAS wins. Who wins
//! has the old node's place wait, and those of the leaves it has left out: nothing leads there any more. Those that the others have
//! buried may be in the tree, and stay there until somebody needs their slots. So whoever meets a frozen slot that it has to change does it all itself,
//! whether the one who began is slow or dead. It begins at the topmost such node of its way from the root, so that the
//! slot it has to CAS is not frozen itself - or has been frozen since, which the next look from the root sees.

use super::Smart;
use super::search::{Spot, Way};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Bug, planted};
use crate::operation::OpError;
use crate::port::OUTBOX_REQUESTS;
use crate::radix::pieces::Use;
use crate::radix::slot::{self, Child, Node, NodeType, Place, SLOTS_AT, Slot, set_word, word};
use crate::smart::corrupt;
use crate::verbs::{Label, Request};

/// Passes over the slots: in each that leaves one unfrozen, somebody else has split a child.
const PASSES_MAX: u32 = 64;

/// The type of a node in the place of one of `kind`, of which `count` slots are taken. `None`: there is no such.
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
    /// Replaces the node at `node`, to which `spot` leads and whose image is node image 0; `inserts`: and puts the
    /// operation's record into the new one. Answers whether this replacement is the one that was published.
    pub(super) async fn switch(
        &self,
        lane: &Lane<'_>,
        way: &Way,
        spot: &Spot,
        node: Place,
        inserts: bool,
    ) -> Result<bool, OpError> {
        let Ok(Child::Node(kind, _)) = spot.word.child() else { return Ok(false) };
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
            return Err(corrupt(node, "a node of the largest type that is full or frozen and lacks a byte"));
        };
        let _room = self.room_for(way, 1 + if way.copies { self.count_buried(lane, kind) } else { 0 })?;
        let place = self.carve(lane, Use::Node, node.node(), larger.bytes()).await?;
        let leaf = if inserts {
            match self.carve(lane, Use::Leaf, place.node(), self.leaf.place_bytes).await {
                Ok(leaf) => Some(leaf),
                Err(error) => {
                    self.space.put(Use::Node, place, larger.bytes());
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
        let parent = spot.place(way);
        let to = Slot::node(spot.word.partial(), larger, place);
        let here = place.node() == parent.node() && leaf.is_none_or(|leaf| leaf.node() == parent.node());
        let found = self.publish(lane, here, parent, spot.word, to).await?;
        if found != spot.word {
            lane.mark(Mark::SwitchLost);
            if planted(Bug::RetiredInVain) {
                self.retire(lane, way, Use::Node, node, kind.bytes());
            }
            self.space.put(Use::Node, place, larger.bytes());
            if let Some(leaf) = leaf {
                self.space.put(Use::Leaf, leaf, self.leaf.place_bytes);
            }
            return Ok(false);
        }
        lane.mark(Mark::TypeSwitch);
        self.retire(lane, way, Use::Node, node, kind.bytes());
        if way.copies {
            self.cache.patch(spot.owner, usize::from(spot.index), to, self.epoch(lane));
            lane.port().with(|scratch| {
                let image = scratch.get(build..).unwrap_or_default();
                if let Ok(node) = Node::new(image, larger, self.index) {
                    self.cache.insert(to, &node, self.epoch(lane));
                }
            });
            // The switch is done, whatever becomes of what it has left over.
            let _ = self.retire_buried(lane, way, kind).await;
        }
        Ok(true)
    }

    /// Freezes every slot and leaves the frozen words in node image `image`, which is of this node.
    ///
    /// With masked atomics a slot is frozen whatever its word is. Without, the word has to be known: where somebody else was
    /// faster the CAS brings it, and it is tried again.
    pub(super) async fn freeze(
        &self,
        lane: &Lane<'_>,
        node: Place,
        kind: NodeType,
        image: usize,
    ) -> Result<(), OpError> {
        if planted(Bug::SwitchUnfrozen) {
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
