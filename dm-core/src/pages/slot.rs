//! A place for a fill: its words.

use crate::remote::address::Address;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

// Words of a fill.
const TAKEN: usize = 0;
const ID: usize = 1;
const LINK: usize = 3;
/// The lanes that wait for the end of the fill. See `record`.
const WAITERS: usize = 4;
/// The frame that the page gets, as its number plus one; 0: the page is not admitted.
const FRAME: usize = 5;

/// Storage of a fill.
pub(super) type FillWords = [AtomicU32; 8];

/// A place for a fill.
#[derive(Clone, Copy)]
pub(super) struct Slot<'s>(pub(super) &'s FillWords);

impl<'s> Slot<'s> {
    pub(super) fn id(self) -> Address {
        let half = |at: usize| u64::from(self.0[at].load(Relaxed));
        Address::from_bits(half(ID + 1) << 32 | half(ID))
    }

    pub(super) fn set_id(self, id: Address) {
        self.0[ID].store(id.to_bits() as u32, Relaxed);
        self.0[ID + 1].store((id.to_bits() >> 32) as u32, Relaxed);
    }

    pub(super) fn link(self) -> u32 {
        self.0[LINK].load(Relaxed)
    }

    pub(super) fn set_link(self, link: u32) {
        self.0[LINK].store(link, Relaxed);
    }

    pub(super) fn is_taken(self) -> bool {
        self.0[TAKEN].load(Relaxed) != 0
    }

    pub(super) fn frame(self) -> Option<u32> {
        self.0[FRAME].load(Relaxed).checked_sub(1)
    }

    pub(super) fn take(self, id: Address, frame: Option<u32>) {
        self.set_id(id);
        self.0[WAITERS].store(0, Relaxed);
        self.0[FRAME].store(frame.map_or(0, |frame| frame + 1), Relaxed);
        self.0[TAKEN].store(1, Relaxed);
    }

    /// The lanes that wait for the end of the fill, whose latch is that of the chain.
    pub(super) fn waiters(self) -> &'s AtomicU32 {
        &self.0[WAITERS]
    }

    pub(super) fn free(self) {
        self.set_id(Address::NULL);
        self.0[TAKEN].store(0, Relaxed);
    }
}
