//! Remembered lock words: for indexes whose free lock words carry information.
//!
//! One place per entry of a local lock table. It serves two ends. A lane that hands a held lock over leaves here what the
//! word will say when it is free again; the receiver, holder of the same local entry, finds it. And where a lock is taken
//! by a plain CAS, which has to name the whole word it expects, what was here last is the guess.
//!
//! Nothing depends on what is found: a wrong word costs a round trip, or a longer READ. So places are read and written
//! without a lock; a place written by two lanes at once may be a mix, which is a wrong word.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// One place: which lock, low half, high half. Storage for a [`WordTable`].
#[derive(Debug, Default)]
pub struct Place([AtomicU32; 3]);

/// Remembered words of one compute node.
#[derive(Clone, Copy, Debug)]
pub struct WordTable<'s> {
    places: &'s [Place],
}

impl<'s> WordTable<'s> {
    /// A table in `places`.
    pub const fn new(places: &'s [Place]) -> Self {
        Self { places }
    }

    /// What the word called `tag` last said, as far as place `at` knows; else 0.
    #[inline]
    pub fn recall(&self, at: usize, tag: u32) -> u64 {
        let Some(Place([known, low, high])) = self.places.get(at) else { return 0 };
        if known.load(Relaxed) != tag {
            return 0;
        }
        u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed))
    }

    /// Remembers what the word called `tag` says, instead of what place `at` knew.
    #[inline]
    pub fn remember(&self, at: usize, tag: u32, word: u64) {
        let Some(Place([known, low, high])) = self.places.get(at) else { return };
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
        let places = [Place::default(), Place::default()];
        let table = WordTable::new(&places);
        assert_eq!(table.recall(0, 7), 0);
        table.remember(0, 7, 0x1234_5678_9abc_def0);
        assert_eq!(table.recall(0, 7), 0x1234_5678_9abc_def0);
        assert_eq!(table.recall(0, 8), 0, "another lock");
        assert_eq!(table.recall(2, 7), 0, "no such place");
        table.remember(9, 7, 1);
    }
}
