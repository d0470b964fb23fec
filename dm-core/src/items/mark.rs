//! Marking: a walk over all entries that tells which places of blocks they name, for whoever collects the others.
//!
//! **What it promises.** A block that some entry, reached by links, names from the beginning of the walk to its end is told.
//! Others may be told, too: a block that was named for a while, and one more than once.
//!
//! **Why it holds.** The walk goes through the layers as a scan does (`scan`): in the order of keys, each link followed where
//! it stands. So the place it has come to is a *key*, not an entry key. Blocks do not move in that order: a pointer goes from an
//! entry only into the layer that the same entry then links to, for ever (the room's points 1 and 2), so it stays at the place
//! of its own key, whatever layers are made while the walk is on. When the walk READs an entry, that names
//! the block still or leads to it; and when it has told the block, or come back up the link, what the entry leads to later that was named
//! all the time has been told.
//!
//! A walk over the index below in the order of *its* keys would not do. Layers lie there by their numbers, those of one maker
//! behind each other, those of others anywhere; a block would be missed whose entry, still in front of the walk, becomes a link to a
//! layer whose number is behind it.
//!
//! **Every page is an operation of its own**, with its own pin: a large index takes long, and a pin as long would hold everybody's
//! memory up. Nothing that an entry said of blocks is carried from one to the next. What is told is not a pointer that
//! somebody will follow, but a place that was named at that instant; and the way through the layers, which is carried on, is one of
//! links, which never change.
//!
//! Blocks are not READ: whose they are does not matter.

use super::block::{class_bytes, class_of};
use super::scan::Step;
use super::slot::{BlockPointer, Slot};
use super::{Items, Progress};
use crate::index::Index;
use crate::lane::Lane;
use crate::operation::{Cause, OpError, Operation};
use crate::verbs::NodeId;

impl<I: Index> Items<'_, I> {
    /// Walks over all entries, and calls `mark` with memory node, offset and bytes of the place of each block that one names. The
    /// lane must not be in an operation.
    ///
    /// An entry that nobody can have written ends the walk with an error: then nothing may be taken for unnamed.
    pub async fn walk(&self, lane: &Lane<'_>, mark: &mut dyn FnMut(NodeId, u64, u64)) -> Result<(), OpError> {
        if lane.is_unsettled() {
            return Err(OpError::harmless(Cause::BadInput("the lane is in doubt and has to be settled first")));
        }
        self.set_progress(lane, Progress::of(Operation::scan(u32::MAX)));
        // From the beginning, as for a census.
        self.aim(lane, true);
        loop {
            let mut under_way = self.begin_steps(lane);
            let result = self.mark_next(lane, mark).await;
            under_way.ends(&result);
            if matches!(result?, Step::Done(_)) {
                return Ok(());
            }
        }
    }

    /// Asks for a page of the index below.
    async fn mark_next(&self, lane: &Lane<'_>, mark: &mut dyn FnMut(NodeId, u64, u64)) -> Result<Step, OpError> {
        let mut progress = self.progress(lane);
        // Of this page, not of the walk.
        progress.operation.deadline_ns = lane.port().elapsed_ns().saturating_add(Operation::WAIT_NS_DEFAULT);
        self.set_progress(lane, progress);
        let page = self.ask_page(lane)?;
        let outcome = self.below.execute(lane, page).await;
        self.take_page(lane, outcome)?;
        if lane.has_lock_records() || lane.is_joined() {
            self.below.settle(lane).await.map_err(|error| OpError::harmless(error.cause))?;
        }
        self.mark_page(lane, mark)
    }

    /// Tells what the page of the index below names, up to the first link.
    fn mark_page(&self, lane: &Lane<'_>, mark: &mut dyn FnMut(NodeId, u64, u64)) -> Result<Step, OpError> {
        let mut progress = self.progress(lane);
        let step = lane.port().with(|scratch| {
            while progress.page.at < progress.page.count {
                if let Some(step) = self.mark_record(scratch, &mut progress, mark)? {
                    return Ok(step);
                }
                progress.page.at += 1;
            }
            Ok(self.next_page(scratch, &mut progress))
        });
        self.set_progress(lane, progress);
        step
    }

    /// Tells what the next record of the page names, or goes down its link. `None`: go on with the one behind it.
    fn mark_record(
        &self,
        scratch: &mut [u8],
        progress: &mut Progress,
        mark: &mut dyn FnMut(NodeId, u64, u64),
    ) -> Result<Option<Step>, OpError> {
        let (front, ours) = self.split(scratch);
        let (entry_key, entry, slot) = self.next_entry(front, progress)?;
        match Slot::read(slot) {
            Some(Slot::Inline(_)) if !entry.more => Ok(None),
            Some(Slot::Block(pointer)) => {
                // As somebody who READs it would find out.
                self.block_read(&pointer, self.scratch.blocks.start)?;
                mark(pointer.node(), pointer.offset(), class_bytes(class_of(pointer.bytes as usize)) as u64);
                Ok(None)
            }
            Some(Slot::Link(layer)) if entry.more => {
                self.go_down(ours, progress, (entry_key, entry.slice), layer).map(Some)
            }
            _ => Err(Self::corrupt(&BlockPointer::default(), "an entry that is no item and no link")),
        }
    }
}
