//! Deleted leaves leave the tree.
//!
//! A delete leaves its leaf where it is, for the next insert of the key. So that others can have its slot and its place, it is
//! *buried* first: under its lock, if it is still deleted, it gets a state that is final. A buried leaf is in the tree, or
//! out of it, and does not matter either way. It goes
//!
//! - when an insert of any key comes to the slot that leads to it: the CAS that would have split it puts the new leaf in its
//!   place;
//! - when a full node is replaced: it is left out.
//!
//! Deleted leaves in slots that no insert comes to, in nodes that do not fill up, stay; so do nodes all of whose leaves are
//! deleted.
//!
//! **Why an insert of its key is not lost.** It brings the leaf back under the lock, and then the leaf is not deleted any
//! more; or it finds the leaf buried, and looks afresh. Only leaves that are buried ever leave the tree.
//!
//! **Why nothing is written there any more.** Who buries a leaf, or finds it buried, holds its lock by a CAS of its own. When that won,
//! the lock was free: every acquisition that had written the leaf was over, its redo images void. Whoever acquires it
//! later finds it buried, and writes nothing. So no image of a past life is ever replayed over the next one; and as
//! leaves lie on leaves, a lock word stays one from life to life, is changed by CAS only, and may even be held when the next
//! life begins.
//!
//! **What looking costs.** Which leaves of a full node are deleted, a READ of eight bytes of each tells. These are only sent if
//! there is reason to: every delete, and every deleted leaf met, by this compute node is good for [`LOOKS_PER_DELETED`] of them.
//! Where nothing is deleted, nothing is READ.

use super::Smart;
use super::layout::{LeafState, VALUE_AT};
use super::search::{Judged, Way};
use crate::error::OpError;
use crate::lane::{Lane, Mark};
use crate::planted::{Bug, planted};
use crate::port::OUTBOX_REQUESTS;
use crate::radix::slot::{Child, NodeType, Place, SLOTS_AT, Slot, word};
use crate::radix::space::Use;
use crate::verbs::{Label, Request};
use core::sync::atomic::Ordering::Relaxed;

/// READs of leaves' states that a deleted leaf is good for.
const LOOKS_PER_DELETED: u32 = 16;

/// More than that are not saved up: two of the largest nodes.
const LOOKS_MAX: u32 = 512;

/// Slots of a node that are left out of the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut([u64; 4]);

impl LeftOut {
    pub(super) fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|bits| bits >> (number % 64) & 1 != 0)
    }

    fn add(&mut self, number: usize) {
        if let Some(bits) = self.0.get_mut(number / 64) {
            *bits |= 1 << (number % 64);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

impl Smart<'_> {
    /// A leaf was deleted here, or met deleted.
    pub(super) fn met_deleted(&self) {
        let looks = self.looks.load(Relaxed);
        self.looks.store((looks + LOOKS_PER_DELETED).min(LOOKS_MAX), Relaxed);
    }

    /// Takes `count` looks off those there are reason for.
    fn may_look(&self, count: u32) -> bool {
        let looks = self.looks.load(Relaxed);
        // Lanes that meet here may both look; it is a matter of cost only.
        count > 0 && looks >= count && {
            self.looks.store(looks - count, Relaxed);
            true
        }
    }

    /// What was published at `place` is out of the tree.
    pub(super) fn retire(&self, lane: &Lane<'_>, way: &Way, what: Use, place: Place, bytes: usize) {
        if !way.copies {
            // Of a tree that nobody else knows.
            self.space.put(what, place, bytes);
        } else if self.space.retire(what, place, bytes, self.cache.used_bytes()) {
            lane.mark(Mark::Quarantined);
        }
    }

    /// Whether `leaf`, which is another key's or buried and in leaf image 0, is buried and may leave the tree. If it is deleted,
    /// it is buried now, unless somebody has it locked.
    pub(super) async fn is_buried(&self, lane: &Lane<'_>, leaf: Place, judged: Judged) -> Result<bool, OpError> {
        if judged.state == LeafState::Valid {
            return Ok(false);
        }
        self.met_deleted();
        // The slot of the key's own leaf is the only one that its next leaf can have: it is worth waiting for, and whoever
        // holds the lock may be dead.
        self.bury(lane, leaf, judged.ours).await
    }

    /// Locks a leaf, if nobody has it locked or this `waits`, READs it into leaf image 0, and buries it if it is deleted. Answers
    /// whether it is buried and may leave the tree.
    ///
    /// The operation's own change is still to come: what fails here has no effect.
    async fn bury(&self, lane: &Lane<'_>, leaf: Place, waits: bool) -> Result<bool, OpError> {
        if planted(Bug::BuryUnlocked) {
            return self.bury_unlocked(lane, leaf).await;
        }
        let held = if waits {
            let (held, read) = self.lock_leaf(lane, leaf).await?;
            if !read {
                self.unlock_leaf(lane, held).await?;
                return Ok(false);
            }
            held
        } else {
            let Some(held) = self.try_lock_leaf(lane, leaf).await? else { return Ok(false) };
            held
        };
        let judged = match self.read_locked(lane, &held, true).await {
            Ok(judged) => judged,
            Err(error) => {
                self.unlock_leaf(lane, held).await?;
                return Err(error);
            }
        };
        if judged.state != LeafState::Deleted {
            self.unlock_leaf(lane, held).await?;
            return Ok(judged.state == LeafState::Buried);
        }
        lane.port().with(|scratch| {
            if let Some(image) = scratch.get_mut(self.scratch.leaf(0)..) {
                self.leaf.close(image, LeafState::Buried);
            }
        });
        self.push_in_place(lane, &held, VALUE_AT)?;
        self.unlock_leaf_with(lane, held).await.map_err(|error| OpError::harmless(error.cause))?;
        lane.mark(Mark::Buried);
        Ok(true)
    }

    #[cold]
    async fn bury_unlocked(&self, lane: &Lane<'_>, leaf: Place) -> Result<bool, OpError> {
        lane.port().call(self.leaf_request(leaf, 0)).await?;
        let is_deleted = lane.port().with(|scratch| {
            let image = scratch.get_mut(self.scratch.leaf(0)..).unwrap_or_default();
            let is_deleted = self.leaf.state(image) == Ok(LeafState::Deleted);
            self.leaf.close(image, LeafState::Buried);
            is_deleted
        });
        if is_deleted {
            let at = self.scratch.leaf(0);
            lane.port().call(Request::write(Label::Entry, leaf.node(), leaf.offset(), VALUE_AT, at)).await?;
            lane.mark(Mark::Buried);
        }
        Ok(is_deleted)
    }

    /// Buries leaves of the frozen node in node image 0, if there is reason to look for such that are deleted. Answers which may be
    /// left out.
    pub(super) async fn bury_some(&self, lane: &Lane<'_>, kind: NodeType) -> Result<LeftOut, OpError> {
        let (mut left_out, port) = (LeftOut::default(), lane.port());
        // The image of the next level of a walk, which this is not.
        let (at, seals) = (self.scratch.node(0) + SLOTS_AT, self.scratch.node(1));
        let leaf_of = |number: usize| {
            let slot = Slot(port.with(|scratch| word(scratch, at + 8 * number)));
            match slot.child() {
                Ok(Child::Leaf(leaf)) if self.is_inside(leaf, self.leaf.place_bytes) => Some(leaf),
                _ => None,
            }
        };
        let leaves = (0..kind.slots()).filter(|number| leaf_of(*number).is_some()).count();
        if !self.may_look(leaves as u32) {
            return Ok(left_out);
        }
        let mut pushed = 0;
        for number in 0..kind.slots() {
            let Some(leaf) = leaf_of(number) else { continue };
            let read = Request::read(Label::Leaf, leaf.node(), leaf.offset(), 8, seals + 8 * number).untimed();
            port.push(read);
            pushed += 1;
            if pushed == OUTBOX_REQUESTS {
                port.submit().await?;
                pushed = 0;
            }
        }
        if pushed > 0 {
            port.submit().await?;
        }
        for number in 0..kind.slots() {
            let Some(leaf) = leaf_of(number) else { continue };
            let seal = port.with(|scratch| word(scratch, seals + 8 * number));
            if !matches!(LeafState::of_seal(seal), Some(LeafState::Deleted | LeafState::Buried)) {
                continue;
            }
            self.met_deleted();
            if self.bury(lane, leaf, false).await? {
                left_out.add(number);
            }
            lane.check_deadline()?;
        }
        Ok(left_out)
    }
}
