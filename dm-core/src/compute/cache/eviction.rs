//! Which frame a new copy takes: a free one, or the one whose copy is coldest.

use super::{IndexCache, LEVEL_MAX, SWEEP_FRAMES};
use core::sync::atomic::Ordering::Relaxed;

/// What writers change, under their lock.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The frame at which the clock looks next.
    pub(super) hand: u32,
    /// Frames from this one on were never used.
    pub(super) first_unused: u32,
    /// First free frame, as its number plus one; free frames link like chains. 0 is none.
    pub(super) free: u32,
    /// Hint blocks from this one on were never used.
    pub(super) first_unused_block: u32,
    /// First free block, in the same way. The first word of a free block is its link.
    pub(super) free_block: u32,
    /// Frames with copies.
    pub(super) used: u32,
    /// Copies that others displaced.
    pub(super) evictions: u64,
}

impl IndexCache<'_> {
    /// A frame without a copy.
    pub(super) fn take(&self, writer: &mut Writer) -> Option<u32> {
        if let Some(at) = writer.free.checked_sub(1) {
            writer.free = self.frame(at)?.link();
            return Some(at);
        }
        if (writer.first_unused as usize) < self.plan.frames {
            writer.first_unused += 1;
            return Some(writer.first_unused - 1);
        }
        let victim = self.sweep(writer)?;
        self.drop_copy(writer, victim);
        writer.evictions += 1;
        Some(victim)
    }

    /// Moves the hand to a victim. All frames have copies.
    fn sweep(&self, writer: &mut Writer) -> Option<u32> {
        let frames = self.plan.frames as u32;
        let mut coldest = None;
        let mut heat_min = u32::MAX;
        for _ in 0..SWEEP_FRAMES.min(frames.saturating_mul(u32::from(LEVEL_MAX))) {
            let at = writer.hand;
            writer.hand = if at + 1 < frames { at + 1 } else { 0 };
            let heat = self.frame(at)?.cool();
            if heat < heat_min {
                (coldest, heat_min) = (Some(at), heat);
            }
            if heat == 0 {
                break;
            }
        }
        coldest
    }

    /// Empties a frame and takes it out of its chain.
    pub(super) fn drop_copy(&self, writer: &mut Writer, at: u32) {
        let Some(frame) = self.frame(at) else { return };
        let odd = frame.begin();
        self.unlink(at, &frame);
        let block = frame.block();
        frame.empty();
        frame.end(odd);
        writer.used -= 1;
        if let Some(link) = self.block_link(block) {
            link.store(writer.free_block, Relaxed);
            writer.free_block = block;
        }
    }
}
