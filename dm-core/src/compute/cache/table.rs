//! The table: in which frame the copy of a node is.

use super::IndexCache;
use super::frame::Frame;
use crate::remote::address::Address;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Most frames that a reader visits in one chain of the table. Chains have half a frame on average.
const CHAIN_FRAMES: usize = 16;

impl IndexCache<'_> {
    /// The chain head of a place, in whatever generation.
    #[inline]
    fn head(&self, address: Address) -> Option<&AtomicU32> {
        // Places differ in few, regular bits. So multiply, and take the top bits, which depend on every bit.
        let mixed = (address.place() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.table.get(((mixed * self.table.len() as u64) >> 32) as usize)
    }

    /// Where the copy of `address` seems to be. The chain may change during the walk: the caller checks what it
    /// finds, and a copy that is overlooked is a miss.
    #[inline]
    pub(super) fn find(&self, address: Address) -> Option<u32> {
        if address.is_null() {
            return None;
        }
        let mut next = self.head(address)?.load(Relaxed);
        for _ in 0..CHAIN_FRAMES {
            let at = next.checked_sub(1)?;
            let frame = self.frame(at)?;
            if frame.address() == address {
                return Some(at);
            }
            next = frame.link();
        }
        None
    }

    /// Where the copy of that place is. Only for the holder of the lock.
    pub(super) fn find_place(&self, address: Address) -> Option<u32> {
        let mut next = self.head(address)?.load(Relaxed);
        for _ in 0..self.plan.frames {
            let at = next.checked_sub(1)?;
            let frame = self.frame(at)?;
            if frame.address().place() == address.place() {
                return Some(at);
            }
            next = frame.link();
        }
        None
    }

    pub(super) fn link(&self, address: Address, at: u32, frame: &Frame<'_>) {
        if let Some(head) = self.head(address) {
            frame.set_link(head.load(Relaxed));
            head.store(at + 1, Relaxed);
        }
    }

    pub(super) fn unlink(&self, at: u32, frame: &Frame<'_>) {
        let Some(head) = self.head(frame.address()) else { return };
        let mut next = head.load(Relaxed);
        if next == at + 1 {
            head.store(frame.link(), Relaxed);
            return;
        }
        for _ in 0..self.plan.frames {
            let Some(before) = next.checked_sub(1).and_then(|before| self.frame(before)) else { return };
            next = before.link();
            if next == at + 1 {
                before.set_link(frame.link());
                return;
            }
        }
    }
}
