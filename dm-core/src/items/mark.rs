//! The walk of a collection: goes through all entries and reports the places of the blocks that they name.
//!
//! The walk goes through the layers in the order of keys, as a scan does (`scan`). Every page is an operation of its
//! own, with its own pin. Blocks are not READ, since their keys do not matter.
//! [`items_memory`](crate::manual::items_memory) shows that the walk reports every block that is named throughout, and
//! why it must not use the order of entry keys.

use super::block::{class_bytes, class_of};
use super::scan::Step;
use super::slot::Slot;
use super::{Items, Progress};
use crate::index::Index;
use crate::lane::Lane;
use crate::operation::{Cause, OpError, Operation};
use crate::verbs::NodeId;

impl<I: Index> Items<'_, I> {
    /// Walks through all entries, and calls `mark` with the memory node, offset and bytes of the place of each block
    /// that an entry names. The lane must not be in an operation.
    ///
    /// An entry that this crate never writes ends the walk with an error. Then the caller must not take any block for
    /// unnamed.
    pub async fn walk(&self, lane: &Lane<'_>, mark: &mut dyn FnMut(NodeId, u64, u64)) -> Result<(), OpError> {
        if lane.is_unsettled() {
            return Err(OpError::harmless(Cause::BadInput("the lane is in doubt and has to be settled first")));
        }
        self.set_progress(lane, Progress::of(Operation::scan(u32::MAX)));
        // The walk begins at the first key, as a census does.
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

    /// Asks the index below for a page, and reports what it names.
    async fn mark_next(&self, lane: &Lane<'_>, mark: &mut dyn FnMut(NodeId, u64, u64)) -> Result<Step, OpError> {
        let mut progress = self.progress(lane);
        // The deadline is that of this page, not of the walk.
        progress.operation.deadline_ns = lane.port().elapsed_ns().saturating_add(Operation::WAIT_NS_DEFAULT);
        self.set_progress(lane, progress);
        let page = self.ask_page(lane)?;
        let outcome = self.execute_below(lane, page).await;
        self.take_page(lane, outcome)?;
        if lane.is_unsettled_below() {
            self.below.settle(lane).await.map_err(|error| OpError::harmless(error.cause))?;
        }
        self.mark_page(lane, mark)
    }

    /// Reports what the page of the index below names, up to the first link.
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

    /// Reports what the next record of the page names, or goes down its link. `None`: continue with the next record.
    fn mark_record(
        &self,
        scratch: &mut [u8],
        progress: &mut Progress,
        mark: &mut dyn FnMut(NodeId, u64, u64),
    ) -> Result<Option<Step>, OpError> {
        let (front, ours) = self.split(scratch);
        let (entry_key, entry, slot) = self.next_entry(front, progress)?;
        match Slot::read(entry_key, slot) {
            Some(Slot::Inline(_)) if !entry.more => Ok(None),
            Some(Slot::Block(pointer)) => {
                // The same check as before a READ of the block.
                self.block_read(&pointer, self.scratch.blocks.start)?;
                mark(pointer.node(), pointer.offset(), class_bytes(class_of(pointer.bytes as usize)) as u64);
                Ok(None)
            }
            Some(Slot::Link(layer)) if entry.more => {
                self.go_down(ours, progress, (entry_key, entry.slice), layer).map(Some)
            }
            _ => Err(Self::strange("an entry that is no item and no link")),
        }
    }
}
