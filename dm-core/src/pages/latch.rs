//! Latches: short locks, each in the top bit of a word whose other bits it guards.

use super::Refused;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The bit that says that the word is latched.
const LATCH: u32 = 1 << 31;

/// How often a lane tries to take a latch before it reports [`Refused::Busy`]. What is done under a latch takes no
/// longer than this, unless the thread that holds it does not run; then it is better to yield.
pub const LATCH_TRIES: u32 = 128;

/// The content of a word with a latch, without the latch.
#[inline]
pub(super) fn content(word: &AtomicU32) -> u32 {
    word.load(Relaxed) & !LATCH
}

/// A word whose latch the caller has. The latch is released when this is dropped.
#[must_use = "the latch is released when this is dropped"]
pub(super) struct Latched<'w>(&'w AtomicU32);

impl<'w> Latched<'w> {
    /// Takes the latch of `word`.
    #[inline]
    pub(super) fn take(word: &'w AtomicU32) -> Result<Self, Refused> {
        for _ in 0..LATCH_TRIES {
            let found = word.load(Relaxed);
            if found & LATCH == 0 && word.compare_exchange_weak(found, found | LATCH, Acquire, Relaxed).is_ok() {
                return Ok(Self(word));
            }
            core::hint::spin_loop();
        }
        Err(Refused::Busy)
    }

    /// The content of the word.
    #[inline]
    pub(super) fn get(&self) -> u32 {
        content(self.0)
    }

    /// Changes the content of the word. Others who look at it without the latch see it at once.
    #[inline]
    pub(super) fn set(&self, content: u32) {
        // While the bit is set, nobody else stores to the word.
        self.0.store(content | LATCH, Release);
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        self.0.store(self.get(), Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latch_is_held_once_and_keeps_the_content() {
        let word = AtomicU32::new(7);
        let latched = Latched::take(&word).unwrap();
        assert_eq!(Latched::take(&word).err(), Some(Refused::Busy));
        assert_eq!((latched.get(), content(&word)), (7, 7));
        latched.set(9);
        drop(latched);
        assert_eq!(word.load(Relaxed), 9);
        assert_eq!(Latched::take(&word).unwrap().get(), 9);
    }
}
