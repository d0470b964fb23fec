//! What a compute node has seen of the contention for a lock: how often its CASes of the word lost.
//!
//! Each entry has a *heat* of six bits. A CAS that loses adds [`LOST`], one that wins takes 1 away. A lock is quiet below [`LOST`]:
//! as long as fewer than one CAS in nine loses, and again after at most 56 that win. What is chained to a CAS that loses is
//! for nothing, and what is chained to one that wins saves a round trip: it pays as long as most win. A hot lock is better
//! left alone much earlier, for its memory node serves the READs of all that lose.
//!
//! Heat decides what is posted together, and nothing about what is right. A change of it that meets another one is lost.

use super::{Entry, LockTable};
use crate::remote::lock_word::LockId;
use core::sync::atomic::Ordering;

/// What a CAS that loses adds.
const LOST: u32 = 8;

impl Entry {
    /// Where an entry's word has its heat.
    pub(super) const HEAT_AT: u32 = 26;

    const HEAT_MAX: u32 = u32::MAX >> Self::HEAT_AT;

    /// The heat in a word, in place.
    #[inline]
    pub(super) const fn heat_of(word: u32) -> u32 {
        word & Self::HEAT_MAX << Self::HEAT_AT
    }

    /// Changes the heat, unless the word changes meanwhile. Called by the entry's holder, so that a free entry keeps its word.
    fn set_heat(&self, word: u32, heat: u32) {
        let heat = heat.min(Self::HEAT_MAX) << Self::HEAT_AT;
        let changed = word & !Self::heat_of(u32::MAX) | heat;
        if changed != word && word & Self::LATCH == 0 {
            let _ = self.word.compare_exchange(word, changed, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl LockTable<'_> {
    /// Whether few CASes of this lock have lost lately.
    #[inline]
    pub fn is_quiet(&self, lock: LockId) -> bool {
        self.entry(lock).is_some_and(|entry| entry.word.load(Ordering::Relaxed) >> Entry::HEAT_AT < LOST)
    }

    /// Takes note that the holder's CAS of the lock won, or lost against another holder.
    #[inline]
    pub(crate) fn saw(&self, lock: LockId, won: bool) {
        let Some(entry) = self.entry(lock) else { return };
        let word = entry.word.load(Ordering::Relaxed);
        let heat = word >> Entry::HEAT_AT;
        if !won || heat > 0 {
            entry.set_heat(word, if won { heat - 1 } else { heat + LOST });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entered, Handed, Turn, Waiter};
    use super::*;
    use crate::verbs::{LaneId, NodeId};

    const LOCK: LockId = LockId { node: NodeId(0), index: 0 };

    #[test]
    fn a_lock_is_quiet_until_a_cas_loses_and_again_when_enough_have_won() {
        let (entries, waiters) = ([Entry::default()], [Waiter::default(), Waiter::default()]);
        let table = LockTable::new(&entries, 1, &waiters, 4);
        let round = |won| {
            assert_eq!(table.enter(LOCK, LaneId(0), 0), Entered::Holder);
            table.saw(LOCK, won);
            assert_eq!(table.leave(LOCK), None);
            table.is_quiet(LOCK)
        };
        assert!(table.is_quiet(LOCK) && round(true) && !round(false), "one loss is enough");
        assert!(round(true), "and one win after it");
        for _ in 0..20 {
            assert!(!round(false));
        }
        let wins = (1..1_000).find(|_| round(true));
        assert_eq!(wins, Some(56), "heat has a bound");
        assert!((0..100).all(|_| round(true)));
        assert_eq!(entries[0].word.load(Ordering::Relaxed), Entry::FREE);
    }

    #[test]
    fn a_queue_and_a_handover_keep_the_heat_and_heat_keeps_them() {
        let (entries, waiters) = ([Entry::default()], [Waiter::default(), Waiter::default()]);
        let table = LockTable::new(&entries, 1, &waiters, 4);
        assert_eq!(table.enter(LOCK, LaneId(0), 7), Entered::Holder);
        table.saw(LOCK, false);
        assert_eq!(table.enter(LOCK, LaneId(1), 7), Entered::Queued);
        table.saw(LOCK, false);
        assert!(table.would_pass(LOCK, 7));
        let handed = Handed { word: 5, has_redo_record: false };
        assert_eq!(table.pass(LOCK, 7, handed), Some(LaneId(1)));
        assert_eq!(table.turn(LOCK, LaneId(1)), Turn::Owned(handed));
        assert_eq!(entries[0].word.load(Ordering::Relaxed) >> Entry::HEAT_AT, 2 * LOST);
        assert_eq!((table.leave(LOCK), table.held()), (None, 0));
        assert!(!table.is_quiet(LOCK) && table.try_enter(LOCK, LaneId(0)));
    }
}
