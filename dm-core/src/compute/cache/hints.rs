//! Hint blocks: in which frame each child of a copy was last.

use super::IndexCache;
use super::eviction::Writer;
use super::storage::Plan;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

impl IndexCache<'_> {
    #[inline]
    pub(super) fn hint(&self, block: u32, slot: usize) -> Option<&AtomicU32> {
        if slot >= self.shape.children_max {
            return None;
        }
        self.hints.get(self.block_start(block)?.wrapping_add(1 + slot))
    }

    /// Where a block begins, with its link.
    #[inline]
    fn block_start(&self, block: u32) -> Option<usize> {
        (block as usize).checked_sub(1).map(|block| block.wrapping_mul(Plan::block_words(&self.shape)))
    }

    pub(super) fn block_link(&self, block: u32) -> Option<&AtomicU32> {
        self.hints.get(self.block_start(block)?)
    }

    /// The number of a hint block plus one; 0 if none is left.
    pub(super) fn take_block(&self, writer: &mut Writer) -> u32 {
        let block = writer.free_block;
        if let Some(link) = self.block_link(block) {
            writer.free_block = link.load(Relaxed);
            return block;
        }
        if (writer.first_unused_block as usize) < self.plan.blocks {
            writer.first_unused_block += 1;
            return writer.first_unused_block;
        }
        0
    }
}
