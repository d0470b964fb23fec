//! The epoch of one operation under way.

use core::sync::atomic::{AtomicU32, Ordering::Release};

/// An operation's epoch: storage for a [`Participant`](super::participant::Participant), one per lane.
#[derive(Debug, Default)]
pub struct Pin(pub(super) AtomicU32);

/// No operation is under way; epochs count from 1.
pub(super) const IDLE: u32 = 0;

/// An operation is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Pinned<'s>(pub(super) Option<&'s Pin>);

impl Pinned<'_> {
    /// Where there are no epochs.
    pub const NONE: Self = Self(None);
}

impl Drop for Pinned<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(Pin(pin)) = self.0 {
            // What was read through its pointers was read before.
            pin.store(IDLE, Release);
        }
    }
}
