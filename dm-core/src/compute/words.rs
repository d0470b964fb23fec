//! Remembered lock words, for indexes whose free lock words carry information.
//!
//! There is one place per entry of a local lock table. It has two uses. A lane that hands over a held lock leaves here
//! the word that the lock will have when it is free again; the receiver, which holds the same local entry, finds it.
//! And a lane that acquires a lock by a plain CAS has to name the whole expected word; it guesses the word that was
//! here last.
//!
//! No result depends on what is found: a wrong word costs a round trip, or a longer READ. So lanes read and write
//! places without a lock. A place that two lanes write at once may be a mixture, which is a wrong word.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One place: the tag of the lock, low half, high half. Storage for a [`WordTable`].
#[derive(Debug, Default)]
pub struct RememberedWord([AtomicU32; 3]);

/// Remembered words of one compute node.
#[derive(Clone, Copy, Debug)]
pub struct WordTable<'s> {
    places: &'s [RememberedWord],
}

impl<'s> WordTable<'s> {
    /// A table in `places`.
    pub const fn new(places: &'s [RememberedWord]) -> Self {
        Self { places }
    }

    /// The word that was last stored for `tag`, if place `at` still has it; otherwise 0.
    #[inline]
    pub(crate) fn recall(&self, at: usize, tag: u32) -> u64 {
        let Some(RememberedWord([known, low, high])) = self.places.get(at) else { return 0 };
        if known.load(Relaxed) != tag {
            return 0;
        }
        u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed))
    }

    /// Stores the word of `tag` in place `at`, over what was there.
    #[inline]
    pub(crate) fn remember(&self, at: usize, tag: u32, word: u64) {
        let Some(RememberedWord([known, low, high])) = self.places.get(at) else { return };
        known.store(tag, Relaxed);
        low.store(word as u32, Relaxed);
        high.store((word >> 32) as u32, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_knows_the_last_word_of_one_lock() {
        let places = [RememberedWord::default(), RememberedWord::default()];
        let table = WordTable::new(&places);
        assert_eq!(table.recall(0, 7), 0);
        table.remember(0, 7, 0x1234_5678_9abc_def0);
        assert_eq!(table.recall(0, 7), 0x1234_5678_9abc_def0);
        assert_eq!(table.recall(0, 8), 0, "another lock");
        assert_eq!(table.recall(2, 7), 0, "no such place");
        table.remember(9, 7, 1);
    }
}
