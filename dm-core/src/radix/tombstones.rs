//! Tombstones: deleted leaves are finalized, and then leave the tree.
//!
//! A delete puts a tombstone in its leaf and leaves the leaf in its slot, for the next insert of the key. Before
//! another key may have the slot or the place, the tombstone is *finalized* (`RadixLeaf::finalize`): under the leaf's
//! lock, if the leaf is still deleted, it gets a final state. A finalized leaf leaves the tree when an insert comes to
//! its slot, or when its node is replaced. [`tombstones`](crate::manual::tombstones) says when exactly, why no insert
//! is lost, and why no redo record is replayed over the next leaf of the place.
//!
//! **What looking costs.** A READ of eight bytes of each leaf tells which leaves of a full node are deleted. A small
//! node below takes one READ of itself, and as many of eight bytes as it has slots. These READs have a budget. Every
//! delete by this compute node, and every deleted leaf that it meets, adds `LOOKS_PER_DELETED` READs to it. Where
//! nothing is deleted, nothing is READ. An insert that looks into a node with room pays a round trip of its own, so
//! each leaf costs `LOOKS_PER_LEAF_ON_INSERT` of the budget there. If the insert finds a deleted leaf, it replaces this node of
//! four slots and descends again.

use super::cursor::DescentCursor;
use super::leaf::{Judged, LeafState, RadixLeaf};
use super::slot::{Child, Node, NodeType, Place, Slot};
use super::tree::Way;
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::marks::Mark;
use crate::operation::OpError;
use crate::operation::span::Span;
use crate::remote::place::NodeClass;
use crate::verbs::{Label, Request};
use core::sync::atomic::Ordering::Relaxed;

/// READs of leaves' states that a deleted leaf adds to the budget.
const LOOKS_PER_DELETED: u32 = 16;

/// The largest budget: READs for two of the largest nodes with only small nodes below.
const LOOKS_MAX: u32 = 2 * 256 * (1 + BELOW_MAX.slots() as u32);

/// The largest type of node that is looked into below a full one. Where new nodes have more slots, none is: what was deleted
/// there leaves the tree when that node is full.
const BELOW_MAX: NodeType = NodeType::SMALLEST;

/// What a look at a leaf takes from the budget where the looks are a round trip of their own, on the way of an insert.
const LOOKS_PER_LEAF_ON_INSERT: u32 = 4;

/// Places that leave the tree with one replacement, at most: the node, and for each slot a small node with its leaves.
pub const RETIRED_AT_ONCE_MAX: usize = 1 + 256 * (1 + BELOW_MAX.slots());

/// Use of node images while a full node is replaced: image 0 has that node; no walk is under way.
const STATES: usize = 1;
const BELOW: usize = 2;
const STATES_BELOW: usize = 3;

/// Tombstones in any radix tree.
pub(crate) trait Tombstones<'s>: RadixLeaf<'s> {
    /// Notes that a leaf was deleted here, or was met deleted.
    fn met_deleted(&self) {
        let looks = self.tree().looks.load(Relaxed);
        self.tree().looks.store((looks + LOOKS_PER_DELETED).min(LOOKS_MAX), Relaxed);
    }

    /// Takes `count` looks from the budget, if it has so many.
    fn may_look(&self, count: u32) -> bool {
        let looks = self.tree().looks.load(Relaxed);
        // Load and store are two steps, so two lanes may take the same part of the budget: that affects only the cost.
        count > 0 && looks >= count && {
            self.tree().looks.store(looks - count, Relaxed);
            true
        }
    }

    /// Whether `leaf`, which is another key's or finalized and in leaf image 0, is finalized and may leave the tree. If
    /// it is deleted, it is finalized now, unless another lane has it locked.
    async fn is_finalized(&self, lane: &Lane<'_>, leaf: Place, judged: Judged) -> Result<bool, Interrupt> {
        if judged.state == LeafState::Valid {
            return Ok(false);
        }
        self.met_deleted();
        // A new leaf of the same key can only have this slot, so the lane waits for the lock of the key's own leaf. The
        // wait also finds out if the lock's holder is dead.
        self.finalize(lane, leaf, judged.ours).await
    }

    /// The leaf in slot `number` of node image `image`.
    fn leaf_in(&self, lane: &Lane<'_>, image: usize, number: usize) -> Option<Place> {
        match self.slot_in(lane, image, number).child() {
            Ok(Child::Leaf(leaf)) if self.tree().is_inside(leaf, self.place_bytes()) => Some(leaf),
            _ => None,
        }
    }

    fn slot_in(&self, lane: &Lane<'_>, image: usize, number: usize) -> Slot {
        Slot(lane.port().with(|scratch| self.tree().scratch.slot(image, number).word(scratch)))
    }

    /// READs the states of the leaves of node image `image` into the scratch of node image `states`, which has no node
    /// then.
    async fn read_states(&self, lane: &Lane<'_>, kind: NodeType, image: usize, states: usize) -> Result<(), OpError> {
        let port = lane.port();
        for number in 0..kind.slots() {
            let Some(leaf) = self.leaf_in(lane, image, number) else { continue };
            if port.room() == 0 {
                port.submit().await?;
            }
            port.push(self.state_request(leaf, self.state_in(states, number)));
        }
        Ok(port.submit().await?)
    }

    /// Where the state of the leaf in slot `number` is, in the scratch of node image `states`.
    fn state_in(&self, states: usize, number: usize) -> Span {
        Span::new(self.tree().scratch.node(states).at + 8 * number, 8)
    }

    /// Whether the state that was READ is that of a deleted leaf.
    fn seems_deleted(&self, lane: &Lane<'_>, states: usize, number: usize) -> bool {
        Self::is_tombstone(lane.port().with(|scratch| self.state_in(states, number).word(scratch)))
    }

    /// Whether leaves are deleted in the small node in node image 0, to which `cursor` leads and whose first empty slot
    /// is `empty`. Looks only if the budget allows.
    async fn has_tombstones(&self, lane: &Lane<'_>, cursor: &DescentCursor, empty: usize) -> Result<bool, OpError> {
        let Ok(Child::Node(kind, _)) = cursor.word.child() else { return Ok(false) };
        if kind > BELOW_MAX || empty == 0 {
            return Ok(false);
        }
        let leaves = (0..kind.slots()).filter(|number| self.leaf_in(lane, 0, *number).is_some()).count();
        if !self.may_look(leaves as u32 * LOOKS_PER_LEAF_ON_INSERT) {
            return Ok(false);
        }
        self.read_states(lane, kind, 0, STATES).await?;
        let is_deleted =
            |number: &usize| self.leaf_in(lane, 0, *number).is_some() && self.seems_deleted(lane, STATES, *number);
        let deleted = (0..kind.slots()).filter(is_deleted).count();
        (0..deleted).for_each(|_| self.met_deleted());
        Ok(deleted > 0)
    }

    /// Finalizes deleted leaves of the frozen node in node image 0, and of small nodes below it, if the budget allows
    /// to look for them. Afterwards the image has the slots of the new node: a slot whose leaf or small node is left
    /// out is empty, or leads to the one leaf that is left of the small node. The former words of these slots are in
    /// the image of states, where all other words are 0.
    async fn finalize_some(&self, lane: &Lane<'_>, kind: NodeType) -> Result<(), Interrupt> {
        let (mut leaves, mut below) = (0, 0);
        for number in 0..kind.slots() {
            match self.slot_in(lane, 0, number).child() {
                Ok(Child::Leaf(_)) => leaves += 1,
                Ok(Child::Node(kind, _)) if kind <= BELOW_MAX => below += 1 + BELOW_MAX.slots() as u32,
                _ => {}
            }
        }
        let looks = self.may_look(leaves + below);
        if looks {
            self.read_states(lane, kind, 0, STATES).await?;
        }
        for number in 0..kind.slots() {
            let was = self.slot_in(lane, 0, number);
            let mut now = None;
            if let (true, Some(leaf)) = (looks, self.leaf_in(lane, 0, number)) {
                if self.seems_deleted(lane, STATES, number) {
                    self.met_deleted();
                    now = self.finalize(lane, leaf, false).await?.then_some(Slot::EMPTY);
                }
            } else if let (true, Ok(Child::Node(kind, node))) = (looks, was.child())
                && kind <= BELOW_MAX
                && self.tree().is_inside(node, kind.bytes())
            {
                let left = self.finalize_below(lane, kind, node).await?;
                now = left.map(|left| if left.is_empty() { Slot::EMPTY } else { left.under(was.partial()) });
            }
            lane.port().with(|scratch| {
                if let Some(now) = now {
                    self.tree().scratch.slot(0, number).set_word(scratch, now.frozen().0);
                }
                self.state_in(STATES, number).set_word(scratch, if now.is_some() { was.0 } else { 0 });
            });
            lane.check_deadline()?;
        }
        Ok(())
    }

    /// Freezes a node below the full one, if at most one of its leaves is not deleted, and finalizes the others.
    /// Returns what is left of it: an empty slot word, or a leaf's. `None`: the node has to stay, maybe frozen.
    async fn finalize_below(&self, lane: &Lane<'_>, kind: NodeType, node: Place) -> Result<Option<Slot>, Interrupt> {
        self.read_below(lane, kind, node).await?;
        let stay = |deleted: &dyn Fn(usize) -> bool| {
            let mut stay = 0;
            for number in 0..kind.slots() {
                let slot = self.slot_in(lane, BELOW, number);
                stay += match self.leaf_in(lane, BELOW, number) {
                    Some(_) => u32::from(!deleted(number)),
                    // A node counts as two leaves, and so this node stays: only a leaf can take its slot.
                    None if !slot.is_empty() => 2,
                    None => 0,
                };
            }
            stay
        };
        let is_node = lane.port().with(|scratch| {
            let image = self.tree().scratch.node(BELOW).of(scratch);
            Node::new(image, kind, self.tree().index).is_ok()
        });
        if !is_node {
            return Ok(None);
        }
        self.read_states(lane, kind, BELOW, STATES_BELOW).await?;
        if stay(&|number| self.seems_deleted(lane, STATES_BELOW, number)) > 1 {
            return Ok(None);
        }
        self.tree().freeze(lane, node, kind, BELOW).await?;
        // The states of leaves that were inserted before the last slot was frozen are not known yet.
        self.read_states(lane, kind, BELOW, STATES_BELOW).await?;
        if stay(&|number| self.seems_deleted(lane, STATES_BELOW, number)) > 1 {
            lane.mark(Mark::FROZEN_STAYED);
            return Ok(None);
        }
        let mut left = Slot::EMPTY;
        for number in 0..kind.slots() {
            let slot = self.slot_in(lane, BELOW, number);
            if slot.is_empty() {
                continue;
            }
            if let Some(leaf) = self.leaf_in(lane, BELOW, number) {
                if self.seems_deleted(lane, STATES_BELOW, number) {
                    self.met_deleted();
                    if self.finalize(lane, leaf, false).await? {
                        continue;
                    }
                }
                if left.is_empty() {
                    left = slot;
                    continue;
                }
            }
            // More than one is left, or something else than a leaf.
            lane.mark(Mark::FROZEN_STAYED);
            return Ok(None);
        }
        Ok(Some(left))
    }

    async fn read_below(&self, lane: &Lane<'_>, kind: NodeType, node: Place) -> Result<(), OpError> {
        let at = self.tree().scratch.node(BELOW).at;
        let read = Request::read(Label::Inner, node.node(), node.offset(), kind.bytes(), at).untimed();
        lane.port().call(read).await?;
        Ok(())
    }

    /// How many places [`Tombstones::retire_finalized`] retires, at most.
    fn count_finalized(&self, lane: &Lane<'_>, kind: NodeType) -> usize {
        let was = |number| Slot(lane.port().with(|scratch| self.state_in(STATES, number).word(scratch)));
        let pieces = (0..kind.slots()).map(|number| match was(number).child() {
            Ok(Child::Leaf(_)) => 1,
            Ok(Child::Node(below, _)) => 1 + below.slots(),
            _ => 0,
        });
        pieces.sum()
    }

    /// After a replacement that was not published: the small nodes that it would have left out are still in the tree.
    fn keep_finalized(&self, lane: &Lane<'_>, kind: NodeType) {
        for number in 0..kind.slots() {
            let was = Slot(lane.port().with(|scratch| self.state_in(STATES, number).word(scratch)));
            if let Ok(Child::Node(..)) = was.child() {
                lane.mark(Mark::FROZEN_STAYED);
            }
        }
    }

    /// Puts the places of leaves and nodes that [`Tombstones::finalize_some`] has left out into the limbo list.
    async fn retire_finalized(&self, lane: &Lane<'_>, way: &Way, kind: NodeType) -> Result<(), OpError> {
        for number in 0..kind.slots() {
            let was = Slot(lane.port().with(|scratch| self.state_in(STATES, number).word(scratch)));
            match was.child() {
                Ok(Child::Leaf(leaf)) => {
                    lane.mark(Mark::LEAF_LEFT_OUT);
                    self.tree().retire(lane, way, NodeClass::Leaf, leaf, self.place_bytes());
                }
                Ok(Child::Node(below, node)) => {
                    lane.mark(Mark::NODE_LEFT_OUT);
                    let left = self.leaf_in(lane, 0, number);
                    // The node below is frozen and its place is not reused yet, so its slots are as they were.
                    self.read_below(lane, below, node).await?;
                    for number in 0..below.slots() {
                        let leaf = self.leaf_in(lane, BELOW, number);
                        if let Some(leaf) = leaf.filter(|leaf| Some(*leaf) != left) {
                            lane.mark(Mark::LEAF_LEFT_OUT);
                            self.tree().retire(lane, way, NodeClass::Leaf, leaf, self.place_bytes());
                        }
                    }
                    self.tree().retire(lane, way, NodeClass::Inner, node, below.bytes());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'s, L: RadixLeaf<'s>> Tombstones<'s> for L {}
