//! A lane's record: its place among waiters, what it owes, and its counters. Only the lane itself writes to its record,
//! but for its place among waiters.

use super::{PageStore, Refused};
use crate::lane::Lane;
use crate::port::OUTBOX_REQUESTS;
use crate::verbs::LaneId;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

// States of a waiter.
const IDLE: u32 = 0;
/// It waits, in the list of a fill or of a frame, or behind a woken lane.
const WAITING: u32 = 1;
/// It was woken, and has not woken the next yet.
const WOKEN: u32 = 2;

// Words of a record.
const STATE: usize = 0;
/// The lane that comes next among the waiters, plus one.
const NEXT: usize = 1;
/// A frame without a page, which the lane has set aside for its next fill; its number plus one.
const SPARE: usize = 2;
/// Number of fills, flushes and frozen pages that the lane has not ended.
const OWED: usize = 3;
/// Number of these that are flushes.
const STAGED: usize = 4;
/// The fill whose page the lane WRITEs from its scratch; its number plus one.
const WRITING: usize = 5;
/// The frames that the lane has frozen, each as its number plus one.
const FROZEN: usize = 8;
/// Pages that a lane can have frozen at a time. A merge freezes two.
pub(super) const FROZEN_SLOTS: usize = 4;
/// The counters, two words each, in the order of [`Counter`]. They have a line of their own.
const COUNTERS: usize = 16;

/// One lane's record.
pub(super) type RecordWords = [AtomicU32; 32];

/// What a lane counts.
#[derive(Clone, Copy)]
pub(super) enum Counter {
    Hit,
    Miss,
    Join,
    Unadmitted,
    Eviction,
    Flush,
}

/// What a lane has done, or all lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages that were found in a frame.
    pub hits: u64,
    /// Pages that a lane had to READ, admitted or not.
    pub misses: u64,
    /// Times that a lane met the fill of another lane.
    pub joins: u64,
    /// Misses after which the page got no frame.
    pub unadmitted: u64,
    /// Pages that gave up their frame.
    pub evictions: u64,
    /// Flushes that were completed.
    pub flushes: u64,
}

/// One lane's record.
#[derive(Clone, Copy)]
pub(super) struct Record<'s>(&'s RecordWords);

impl Record<'_> {
    pub(super) fn is_idle(self) -> bool {
        self.0[STATE].load(Acquire) == IDLE
    }

    pub(super) fn is_waiting(self) -> bool {
        self.0[STATE].load(Acquire) == WAITING
    }

    /// Takes the frame that was set aside.
    pub(super) fn take_spare(self) -> Option<u32> {
        let spare = self.0[SPARE].load(Relaxed).checked_sub(1)?;
        self.0[SPARE].store(0, Relaxed);
        Some(spare)
    }

    /// Sets a frame aside. `false`: there is one already.
    pub(super) fn set_spare(self, index: u32) -> bool {
        let is_empty = self.0[SPARE].load(Relaxed) == 0;
        if is_empty {
            self.0[SPARE].store(index + 1, Relaxed);
        }
        is_empty
    }

    fn add(self, at: usize, by: u32) {
        self.0[at].store(self.0[at].load(Relaxed).wrapping_add(by), Relaxed);
    }

    /// The lane owes the end of a fill or of a freeze.
    pub(super) fn owe(self) {
        self.add(OWED, 1);
    }

    /// It was paid.
    pub(super) fn paid(self) {
        self.add(OWED, u32::MAX);
    }

    /// The lane owes the end of a flush.
    pub(super) fn owe_flush(self) {
        self.owe();
        self.add(STAGED, 1);
    }

    /// It was paid.
    pub(super) fn paid_flush(self) {
        self.paid();
        self.add(STAGED, u32::MAX);
    }

    /// The fill whose page the lane WRITEs.
    pub(super) fn writing(self) -> Option<u32> {
        self.0[WRITING].load(Relaxed).checked_sub(1)
    }

    /// The same.
    pub(super) fn set_writing(self, fill: Option<u32>) {
        self.0[WRITING].store(fill.map_or(0, |number| number + 1), Relaxed);
    }

    pub(super) fn owes_flush(self) -> bool {
        self.0[STAGED].load(Relaxed) != 0
    }

    pub(super) fn owes(self) -> bool {
        self.0[OWED].load(Relaxed) != 0 || !self.is_idle()
    }

    pub(super) fn frozen(self) -> impl Iterator<Item = u32> {
        let slots = FROZEN..FROZEN + FROZEN_SLOTS;
        slots.filter_map(move |at| self.0.get(at)?.load(Relaxed).checked_sub(1))
    }

    /// Stores `to` where there is `from`: frames as their numbers plus one, 0 for none. `false` if there is no `from`.
    pub(super) fn exchange_frozen(self, from: u32, to: u32) -> bool {
        let slots = self.0.get(FROZEN..FROZEN + FROZEN_SLOTS).unwrap_or_default();
        let Some(slot) = slots.iter().find(|slot| slot.load(Relaxed) == from) else { return false };
        slot.store(to, Relaxed);
        true
    }

    #[inline]
    pub(super) fn count(self, counter: Counter) {
        let at = COUNTERS + 2 * counter as usize;
        let low = self.0[at].load(Relaxed).wrapping_add(1);
        self.0[at].store(low, Relaxed);
        if low == 0 {
            self.add(at + 1, 1);
        }
    }

    fn counted(self, counter: Counter) -> u64 {
        let at = COUNTERS + 2 * counter as usize;
        let read = || u64::from(self.0[at + 1].load(Relaxed)) << 32 | u64::from(self.0[at].load(Relaxed));
        let mut before = read();
        // The lane may count meanwhile. What is wanted is a number without a torn carry, for a report.
        for _ in 0..4 {
            let after = read();
            if after.wrapping_sub(before) < 1 << 31 {
                return after;
            }
            before = after;
        }
        before
    }
}

impl<'s> PageStore<'s> {
    #[inline]
    pub(super) fn record(&self, lane: LaneId) -> Option<Record<'s>> {
        self.records.get(usize::from(lane.0)).map(Record)
    }

    /// What a lane has done since the store was made.
    pub fn counts(&self, lane: LaneId) -> Counts {
        self.record(lane).map_or_else(Counts::default, |record| Counts {
            hits: record.counted(Counter::Hit),
            misses: record.counted(Counter::Miss),
            joins: record.counted(Counter::Join),
            unadmitted: record.counted(Counter::Unadmitted),
            evictions: record.counted(Counter::Eviction),
            flushes: record.counted(Counter::Flush),
        })
    }

    /// What all lanes have done since the store was made.
    pub fn total_counts(&self) -> Counts {
        (0..self.shape.lanes).map(|lane| self.counts(LaneId(lane))).fold(Counts::default(), |sum, one| Counts {
            hits: sum.hits + one.hits,
            misses: sum.misses + one.misses,
            joins: sum.joins + one.joins,
            unadmitted: sum.unadmitted + one.unadmitted,
            evictions: sum.evictions + one.evictions,
            flushes: sum.flushes + one.flushes,
        })
    }

    /// Looks before a call that may wake a lane: a wake that does not fit into the mailbox would be lost.
    pub(super) fn check_mailbox(lane: &Lane<'_>) -> Result<(), Refused> {
        if lane.port().requests().len() < OUTBOX_REQUESTS { Ok(()) } else { Err(Refused::MailboxFull) }
    }

    /// Adds a lane to the waiters behind `waiters`, whose latch the caller has. The word names the last of a circle of
    /// lanes, so that both ends are at hand; 0 is nobody.
    pub(super) fn enqueue(&self, waiters: &AtomicU32, lane: LaneId, record: Record<'_>) {
        let last = waiters.load(Relaxed);
        let me = u32::from(lane.0) + 1;
        let first = match self.waiter(last) {
            Some(last) => last.0[NEXT].swap(me, Relaxed),
            None => me,
        };
        record.0[NEXT].store(first, Relaxed);
        record.0[STATE].store(WAITING, Release);
        waiters.store(me, Relaxed);
    }

    /// Takes all waiters off `waiters`, whose latch the caller has, and marks the first as woken: it wakes the next.
    #[must_use = "the lane has to be woken"]
    pub(super) fn detach(&self, waiters: &AtomicU32) -> Option<LaneId> {
        let last = self.waiter(waiters.load(Relaxed))?;
        waiters.store(0, Relaxed);
        let first = last.0[NEXT].swap(0, Relaxed);
        self.mark_woken(first)
    }

    /// What a lane does first when it is woken: it wakes the next.
    #[must_use = "the lane has to be woken"]
    pub(super) fn pass_on(&self, record: Record<'_>) -> Option<LaneId> {
        if record.0[STATE].load(Acquire) != WOKEN {
            return None;
        }
        let next = record.0[NEXT].swap(0, Relaxed);
        record.0[STATE].store(IDLE, Relaxed);
        self.mark_woken(next)
    }

    fn waiter(&self, lane: u32) -> Option<Record<'s>> {
        self.record(LaneId(u16::try_from(lane.checked_sub(1)?).ok()?))
    }

    fn mark_woken(&self, lane: u32) -> Option<LaneId> {
        // Release: a woken lane that loads this with Acquire sees its own NEXT, and the page that it waited for.
        self.waiter(lane)?.0[STATE].store(WOKEN, Release);
        Some(LaneId((lane - 1) as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPE, storage};
    use super::super::{PageStore, Shape};
    use super::*;

    #[test]
    fn each_woken_lane_wakes_the_next_in_order_of_arrival() {
        let shape = Shape { lanes: 4, ..SHAPE };
        let words = storage(shape.words_for(16));
        let store = PageStore::new(&words, shape).unwrap();
        let waiters = AtomicU32::new(0);
        assert_eq!(store.detach(&waiters), None);
        for lane in [2, 0, 3] {
            store.enqueue(&waiters, LaneId(lane), store.record(LaneId(lane)).unwrap());
        }
        let pass = |lane| store.pass_on(store.record(LaneId(lane)).unwrap());
        assert_eq!((pass(0), pass(3)), (None, None), "they wait");
        assert_eq!(store.detach(&waiters), Some(LaneId(2)));
        assert_eq!(store.detach(&waiters), None);
        assert!(store.record(LaneId(0)).unwrap().is_waiting());
        assert_eq!((pass(2), pass(2)), (Some(LaneId(0)), None), "once");
        assert_eq!((pass(0), pass(3)), (Some(LaneId(3)), None));
        assert!((0..4).all(|lane| store.record(LaneId(lane)).unwrap().is_idle()));
    }

    #[test]
    fn counters_carry() {
        let words: [AtomicU32; 32] = core::array::from_fn(|_| AtomicU32::new(0));
        let record = Record(&words);
        words[COUNTERS + 2].store(u32::MAX, Relaxed);
        record.count(Counter::Miss);
        record.count(Counter::Hit);
        assert_eq!((record.counted(Counter::Miss), record.counted(Counter::Hit)), (1 << 32, 1));
    }
}
