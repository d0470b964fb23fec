//! A tombstone is finalized under its leaf's lock: [`crate::radix::tombstones`] says when and why.

use super::Smart;
use super::layout::{LeafState, VALUE_AT};
use crate::lane::Lane;
use crate::lane::interrupt::Interrupt;
use crate::locks::protocol::Locks;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::OpError;
use crate::radix::leaf::RadixLeaf;
use crate::radix::slot::Place;
use crate::verbs::{Label, Request};

impl Smart<'_> {
    /// Locks a leaf, if it is unlocked or this `waits`, READs it into leaf image 0, and finalizes it if it is deleted:
    /// [`RadixLeaf::finalize`](crate::radix::leaf::RadixLeaf::finalize).
    pub(super) async fn finalize_leaf(&self, lane: &Lane<'_>, leaf: Place, waits: bool) -> Result<bool, Interrupt> {
        if planted(Mutant::FINALIZE_UNLOCKED) {
            return Ok(self.finalize_unlocked(lane, leaf).await?);
        }
        let held = if waits {
            let (held, read) = self.lock_leaf(lane, leaf).await?;
            if !read {
                self.release(lane, held).await?;
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
                self.release(lane, held).await?;
                return Err(error.into());
            }
        };
        if judged.state != LeafState::Deleted {
            self.release(lane, held).await?;
            return Ok(judged.state == LeafState::Finalized);
        }
        lane.port().with(|scratch| {
            self.leaf.close(self.tree.scratch.leaf(0).of_mut(scratch), LeafState::Finalized);
        });
        self.push_in_place(lane, &held, VALUE_AT)?;
        self.release_with(lane, held).await.map_err(|error| OpError::harmless(error.cause))?;
        lane.mark(Mark::FINALIZED);
        Ok(true)
    }

    #[cold]
    async fn finalize_unlocked(&self, lane: &Lane<'_>, leaf: Place) -> Result<bool, OpError> {
        lane.port().call(self.leaf_request(leaf, 0)).await?;
        let is_deleted = lane.port().with(|scratch| {
            let image = self.tree.scratch.leaf(0).of_mut(scratch);
            let is_deleted = self.leaf.state(image) == Ok(LeafState::Deleted);
            self.leaf.close(image, LeafState::Finalized);
            is_deleted
        });
        if is_deleted {
            let at = self.tree.scratch.leaf(0).at;
            lane.port().call(Request::write(Label::Entry, leaf.node(), leaf.offset(), VALUE_AT, at)).await?;
            lane.mark(Mark::FINALIZED);
        }
        Ok(is_deleted)
    }
}
