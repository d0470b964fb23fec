//! The local half of hierarchical locks (Sherman section 4.3). Lanes of one compute node that want the same lock word
//! queue here instead of all sending CAS requests. A lane that releases the lock hands the held word over to the next
//! lane in the queue, a bounded number of times.
//!
//! There is one entry per remote lock word. An entry has a *holder*: the lane that may send requests for the word. All
//! others wait in FIFO order, parked. The lane that frees the entry makes the next waiter its holder and has its driver
//! wake it.
//!
//! ```text
//!              enter                  CAS won                  pass (word goes along)
//!   (nobody) ────────► holder ────────────────► holder + word ───────────────────────► next holder + word
//!                        ▲                          │ CAS released
//!                        └───────── leave ──────────┘──────► (nobody), or next holder without the word
//! ```
//!
//! **Cancellation.** A waiter whose future was dropped stays in the queue until [`LockTable::cancel`] takes it out. If
//! it was made holder in the meantime, `cancel` returns this, and the settling lane passes the entry on. A lane decides
//! twice on a handover: by [`LockTable::would_pass`] before it writes data (whether to chain an unlock to the WRITE),
//! and by [`LockTable::pass`] afterwards. If nobody is left in the queue by then, the caller releases the remote word
//! itself.
//!
//! **A lane that is alone pays little.** Holder, handovers and whether anybody waits are one word. To enter a free
//! entry takes one compare-and-swap, and so does leaving one without a queue. A queue is changed only under the entry's
//! *latch*, a bit of the same word. While the bit is set, no compare-and-swap of the word by others succeeds. So what
//! was decided under the latch holds until the latch is released.
//!
//! No latch is held across an await. Each method is a bounded critical section: constant time, except `cancel`, which
//! walks the queue (at most as long as there are lanes).

mod heat;

use crate::error::VerbError;
use crate::lane::{Lane, LockRecord};
use crate::mutants::{Mutant, planted};
use crate::remote::lock_word::LockId;
use crate::verbs::{LaneId, Request};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use spin::Mutex;

const NOBODY: u16 = u16::MAX;

const IDLE: u8 = 0;
const WAITING: u8 = 1;
const GRANTED: u8 = 2;
const GRANTED_WITH_WORD: u8 = 3;
const GRANTED_WITH_IMAGED_WORD: u8 = 4;

/// The local state of one lock word, small so that a table of many stays in a processor's cache. Storage for a
/// [`LockTable`].
///
/// ```text
///  31      26 25     24        23      16 15      0
/// ┌──────────┬──────┬─────────┬──────────┬─────────┐
/// │ heat     │queue │ latch   │hand-overs│ holder  │   word; then the queue's first and last lane
/// └──────────┴──────┴─────────┴──────────┴─────────┘
/// ```
///
/// Heat is what was seen of the contention for the remote word (`heat`).
///
/// The queue bit says whether `head` is a lane. Only the lane that has the latch reads and writes `head` and `tail`.
/// The latch is taken with Acquire and released with Release. A lane that needs no latch changes the word with the
/// same orders.
#[derive(Debug)]
pub struct Entry {
    word: AtomicU32,
    head: AtomicU16,
    tail: AtomicU16,
}

impl Entry {
    const FREE: u32 = NOBODY as u32;
    const LATCH: u32 = 1 << 24;
    const QUEUE: u32 = 1 << 25;

    /// Makes `lane` the holder, if nobody is.
    #[inline]
    fn take(&self, lane: LaneId) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let heat = Self::heat_of(word);
        let taken = heat | u32::from(lane.0);
        word == heat | Self::FREE
            && self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether nobody waits. The holder may act upon the answer: a lane that comes later comes after that.
    #[inline]
    fn is_unwanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (Self::LATCH | Self::QUEUE) == 0
    }

    /// Makes nobody the holder, if nobody waits. Only the holder calls it.
    #[inline]
    fn free(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word & (Self::LATCH | Self::QUEUE) == 0
            && self
                .word
                .compare_exchange(word, Self::heat_of(word) | Self::FREE, Ordering::Release, Ordering::Relaxed)
                .is_ok()
    }

    /// The entry's state, to read and to change. It is written back when the value is dropped.
    #[cold]
    fn latch(&self) -> Latched<'_> {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let latched = word | Self::LATCH;
            if word & Self::LATCH == 0
                && self.word.compare_exchange_weak(word, latched, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                let state = State {
                    holder: word as u16,
                    handed: (word >> 16) as u8,
                    heat: Self::heat_of(word),
                    head: self.head.load(Ordering::Relaxed),
                    tail: self.tail.load(Ordering::Relaxed),
                };
                return Latched { entry: self, state };
            }
            core::hint::spin_loop();
        }
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self { word: AtomicU32::new(Self::FREE), head: AtomicU16::new(NOBODY), tail: AtomicU16::new(NOBODY) }
    }
}

/// The state of an entry.
#[derive(Clone, Copy)]
struct State {
    holder: u16,
    head: u16,
    tail: u16,
    handed: u8,
    /// As in the word.
    heat: u32,
}

/// An entry whose latch the caller has.
struct Latched<'e> {
    entry: &'e Entry,
    state: State,
}

impl Deref for Latched<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Latched<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        let State { holder, head, tail, handed, heat } = self.state;
        self.entry.head.store(head, Ordering::Relaxed);
        self.entry.tail.store(tail, Ordering::Relaxed);
        // A free entry has only one value for each heat, the one that `Entry::take` expects.
        let word = if holder == NOBODY { Entry::FREE } else { u32::from(handed) << 16 | u32::from(holder) };
        let queue = if head == NOBODY { 0 } else { Entry::QUEUE };
        self.entry.word.store(word | queue | heat, Ordering::Release);
    }
}

/// One lane's element of a queue. Storage for a [`LockTable`].
#[derive(Debug, Default)]
pub struct Waiter {
    next: AtomicU16,
    state: AtomicU8,
    /// The node for which the lane wants the lock. A word is handed over only to a lane that protects the same node
    /// with it, so that the word stays with one index.
    tag: AtomicU32,
    /// The remote word that came with a handover, low half and high half. Written before the state that announces it.
    word: [AtomicU32; 2],
}

impl Waiter {
    fn word(&self) -> u64 {
        let [low, high] = &self.word;
        u64::from(high.load(Ordering::Relaxed)) << 32 | u64::from(low.load(Ordering::Relaxed))
    }

    fn set_word(&self, word: u64) {
        let [low, high] = &self.word;
        low.store(word as u32, Ordering::Relaxed);
        high.store((word >> 32) as u32, Ordering::Relaxed);
    }
}

/// Result of [`LockTable::enter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// The lane is the holder: it acquires the remote word.
    Holder,
    /// The lane is in the queue: it parks, and calls [`LockTable::turn`] when woken.
    Queued,
}

/// Result of [`LockTable::turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The lane is not the holder yet.
    Wait,
    /// The lane is the holder: it acquires the remote word.
    Acquire,
    /// The lane is the holder, and the remote word came with it.
    Owned(Handed),
}

/// A held word that goes from lane to lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// The remote word.
    pub word: u64,
    /// There is a redo record of this acquisition: every WRITE from now on needs one.
    pub has_redo_record: bool,
}

/// Local lock entries of one compute node.
pub struct LockTable<'s> {
    entries: &'s [Entry],
    locks_per_node: u32,
    waiters: &'s [Waiter],
    hand_overs_max: u8,
    /// The next sequence that no lane has, for an index without recovery.
    sequences: Mutex<u64>,
}

impl<'s> LockTable<'s> {
    /// `entries` has `locks_per_node` for each memory node, and `waiters` one for each lane of the compute node.
    /// `hand_overs_max`: how often in a row a held word may change lanes before other compute nodes get a chance
    /// (Sherman: 4); 0 turns handover off.
    pub const fn new(entries: &'s [Entry], locks_per_node: u32, waiters: &'s [Waiter], hand_overs_max: u8) -> Self {
        Self { entries, locks_per_node, waiters, hand_overs_max, sequences: Mutex::new(1) }
    }

    /// The same with sequences that begin at `first`: a compute node without recovery that has several indexes open gives
    /// each its own.
    #[must_use]
    pub fn starting_at(mut self, first: u64) -> Self {
        *self.sequences.get_mut() = first;
        self
    }

    /// Gives out `count` sequences for lock words, to this caller only.
    pub(crate) fn sequences(&self, count: u64) -> core::ops::Range<u64> {
        let mut next = self.sequences.lock();
        let first = *next;
        *next = first.saturating_add(count);
        first..*next
    }

    #[inline]
    fn entry(&self, lock: LockId) -> Option<&Entry> {
        // An index past the table cannot come from `lock_of` with this table's size. If it does, the lanes share no
        // entry and meet at the remote word, which is slower and still right.
        let index = lock.index & !LockId::IN_NODE;
        (index < self.locks_per_node)
            .then(|| self.entries.get(lock.node.0 as usize * self.locks_per_node as usize + index as usize))?
    }

    /// Whether the queues have an element for `lane`.
    #[inline]
    pub fn knows(&self, lane: LaneId) -> bool {
        usize::from(lane.0) < self.waiters.len()
    }

    fn waiter(&self, lane: u16) -> Option<&Waiter> {
        self.waiters.get(lane as usize)
    }

    /// Asks for `lock`, to protect the node with `tag`.
    #[inline]
    pub fn enter(&self, lock: LockId, lane: LaneId, tag: u32) -> Entered {
        let (Some(entry), Some(waiter)) = (self.entry(lock), self.waiter(lane.0)) else { return Entered::Holder };
        if entry.take(lane) { Entered::Holder } else { self.enter_latched(entry, waiter, lane, tag) }
    }

    fn enter_latched(&self, entry: &Entry, waiter: &Waiter, lane: LaneId, tag: u32) -> Entered {
        let mut entry = entry.latch();
        if entry.holder == NOBODY {
            entry.holder = lane.0;
            entry.handed = 0;
            return Entered::Holder;
        }
        waiter.next.store(NOBODY, Ordering::Relaxed);
        waiter.tag.store(tag, Ordering::Relaxed);
        waiter.state.store(WAITING, Ordering::Relaxed);
        match self.waiter(entry.tail) {
            Some(tail) => tail.next.store(lane.0, Ordering::Relaxed),
            None => entry.head = lane.0,
        }
        entry.tail = lane.0;
        Entered::Queued
    }

    /// Asks for `lock` without waiting. `true`: the lane is the holder.
    pub(crate) fn try_enter(&self, lock: LockId, lane: LaneId) -> bool {
        self.entry(lock).is_none_or(|entry| entry.take(lane))
    }

    /// Whether a queued lane has become the holder.
    pub fn turn(&self, lock: LockId, lane: LaneId) -> Turn {
        let (Some(_), Some(waiter)) = (self.entry(lock), self.waiter(lane.0)) else { return Turn::Acquire };
        // Acquire pairs with the Release of `grant`: what the granting lane did under the lock is visible.
        let state = waiter.state.load(Ordering::Acquire);
        if matches!(state, GRANTED | GRANTED_WITH_WORD | GRANTED_WITH_IMAGED_WORD) {
            // The lane knows it now: a later `cancel` must not report it again.
            waiter.state.store(IDLE, Ordering::Relaxed);
        }
        match state {
            GRANTED => Turn::Acquire,
            GRANTED_WITH_WORD => Turn::Owned(Handed { word: waiter.word(), has_redo_record: false }),
            GRANTED_WITH_IMAGED_WORD => Turn::Owned(Handed { word: waiter.word(), has_redo_record: true }),
            _ => Turn::Wait,
        }
    }

    /// Makes the first waiter the holder.
    fn grant(&self, entry: &mut State, handed: Option<Handed>) -> Option<LaneId> {
        let next = entry.head;
        let Some(waiter) = self.waiter(next) else {
            entry.holder = NOBODY;
            return None;
        };
        entry.head = waiter.next.load(Ordering::Relaxed);
        if entry.head == NOBODY {
            entry.tail = NOBODY;
        }
        entry.holder = next;
        let state = if let Some(handed) = handed {
            waiter.set_word(handed.word);
            entry.handed = entry.handed.saturating_add(1);
            if handed.has_redo_record { GRANTED_WITH_IMAGED_WORD } else { GRANTED_WITH_WORD }
        } else {
            entry.handed = 0;
            GRANTED
        };
        waiter.state.store(state, Ordering::Release);
        Some(LaneId(next))
    }

    fn receiver_stands_ready(&self, entry: State, tag: u32) -> bool {
        entry.handed < self.hand_overs_max
            && self.waiter(entry.head).is_some_and(|waiter| waiter.tag.load(Ordering::Relaxed) == tag)
    }

    /// Whether [`LockTable::pass`] would find a receiver now.
    #[inline]
    pub fn would_pass(&self, lock: LockId, tag: u32) -> bool {
        self.entry(lock).is_some_and(|entry| !entry.is_unwanted() && self.receiver_stands_ready(*entry.latch(), tag))
    }

    /// Hands the held word over to the next waiter, which has to be woken. `None`: there is no receiver (any more).
    /// The caller is still the holder, and releases the remote word.
    #[inline]
    pub fn pass(&self, lock: LockId, tag: u32, handed: Handed) -> Option<LaneId> {
        let entry = self.entry(lock)?;
        if entry.is_unwanted() {
            return None;
        }
        let mut entry = entry.latch();
        if !self.receiver_stands_ready(*entry, tag) {
            return None;
        }
        self.grant(&mut entry, Some(handed))
    }

    /// Frees the entry. Its remote word is not held (any more). The next holder, if there is one, has to be woken.
    #[inline]
    pub fn leave(&self, lock: LockId) -> Option<LaneId> {
        let entry = self.entry(lock)?;
        if entry.free() { None } else { self.grant(&mut entry.latch(), None) }
    }

    /// Takes a lane out of the queue. If the lane has become the holder in the meantime, returns this.
    pub fn cancel(&self, lock: LockId, lane: LaneId) -> Turn {
        let (Some(entry), Some(waiter)) = (self.entry(lock), self.waiter(lane.0)) else { return Turn::Wait };
        let mut entry = entry.latch();
        if entry.holder == lane.0 {
            let state = waiter.state.swap(IDLE, Ordering::Relaxed);
            return match state {
                GRANTED_WITH_WORD => Turn::Owned(Handed { word: waiter.word(), has_redo_record: false }),
                GRANTED_WITH_IMAGED_WORD => Turn::Owned(Handed { word: waiter.word(), has_redo_record: true }),
                _ => Turn::Acquire,
            };
        }
        if planted(Mutant::HAND_TO_CANCELLED) {
            return Turn::Wait;
        }
        let mut before = NOBODY;
        let mut at = entry.head;
        for _ in 0..self.waiters.len() {
            let Some(here) = self.waiter(at) else { break };
            let next = here.next.load(Ordering::Relaxed);
            if at == lane.0 {
                match self.waiter(before) {
                    Some(before) => before.next.store(next, Ordering::Relaxed),
                    None => entry.head = next,
                }
                if entry.tail == lane.0 {
                    entry.tail = before;
                }
                break;
            }
            before = at;
            at = next;
        }
        waiter.state.store(IDLE, Ordering::Relaxed);
        Turn::Wait
    }

    /// Number of entries with a holder, for tests and inspection.
    pub fn held(&self) -> usize {
        self.entries.iter().filter(|entry| entry.latch().holder != NOBODY).count()
    }
}

/// Asks for the entry of a lock without waiting, and adds `lock_record` to the lane's lock records. `queues`: `None`
/// if lanes do not queue. `false`: another lane is the entry's holder.
///
/// If the lane has no room for the record, it does not keep the entry: otherwise nobody would ever free it.
pub(crate) fn try_enter_tracked(
    queues: Option<&LockTable<'_>>,
    lane: &Lane<'_>,
    lock_record: LockRecord,
) -> Result<bool, VerbError> {
    if queues.is_some_and(|queues| !queues.try_enter(lock_record.lock, lane.id())) {
        return Ok(false);
    }
    lane.track(lock_record).map(|()| true).inspect_err(|_| {
        if let Some(next) = queues.and_then(|queues| queues.leave(lock_record.lock)) {
            lane.port().push(Request::wake(next));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::LOCK_RECORDS_MAX;
    use crate::remote::address::Address;
    use crate::verbs::{NodeId, Verb};
    extern crate std;
    use std::vec::Vec;

    const LOCK: LockId = LockId { node: NodeId(0), index: 0 };

    /// An odd word has a redo record.
    const fn handed(word: u64) -> Handed {
        Handed { word, has_redo_record: word % 2 == 1 }
    }

    fn with_table(hand_overs_max: u8, test: impl FnOnce(&LockTable<'_>)) {
        let entries: Vec<_> = (0..4).map(|_| Entry::default()).collect();
        let waiters: Vec<_> = (0..8).map(|_| Waiter::default()).collect();
        test(&LockTable::new(&entries, 4, &waiters, hand_overs_max));
    }

    #[test]
    fn waiters_are_served_in_order_of_arrival() {
        with_table(4, |table| {
            assert_eq!(table.enter(LOCK, LaneId(0), 7), Entered::Holder);
            for lane in [3, 1, 2] {
                assert_eq!(table.enter(LOCK, LaneId(lane), 7), Entered::Queued);
                assert_eq!(table.turn(LOCK, LaneId(lane)), Turn::Wait);
            }
            assert_eq!(table.pass(LOCK, 7, handed(99)), Some(LaneId(3)));
            assert_eq!(table.turn(LOCK, LaneId(3)), Turn::Owned(handed(99)));
            assert_eq!(table.leave(LOCK), Some(LaneId(1)));
            assert_eq!(table.turn(LOCK, LaneId(1)), Turn::Acquire);
            assert_eq!(table.leave(LOCK), Some(LaneId(2)));
            assert_eq!(table.leave(LOCK), None);
            assert_eq!(table.held(), 0);
        });
    }

    #[test]
    fn hand_over_is_bounded() {
        with_table(2, |table| {
            assert_eq!(table.enter(LOCK, LaneId(0), 7), Entered::Holder);
            for lane in 1..5 {
                table.enter(LOCK, LaneId(lane), 7);
            }
            assert!(table.pass(LOCK, 7, handed(1)).is_some());
            assert!(table.pass(LOCK, 7, handed(1)).is_some());
            assert!(!table.would_pass(LOCK, 7));
            assert_eq!(table.pass(LOCK, 7, handed(1)), None);
            // A remote release starts the count of handovers anew.
            assert!(table.leave(LOCK).is_some());
            assert!(table.would_pass(LOCK, 7));
        });
    }

    #[test]
    fn a_word_is_not_handed_to_a_lane_that_protects_another_node() {
        with_table(4, |table| {
            table.enter(LOCK, LaneId(0), 7);
            table.enter(LOCK, LaneId(1), 8);
            assert!(!table.would_pass(LOCK, 7));
            assert_eq!(table.pass(LOCK, 7, handed(1)), None);
            assert_eq!(table.leave(LOCK), Some(LaneId(1)));
        });
    }

    #[test]
    fn a_lane_without_room_for_a_lock_record_keeps_no_entry() {
        with_table(4, |table| {
            let lock_record = |index| LockRecord::queued(LockId { node: NodeId(1), index }, Address::NULL);
            let lane = Lane::new(LaneId(0), &mut []);
            let wanted = LockRecord::queued(LOCK, Address::NULL);
            assert_eq!(try_enter_tracked(Some(table), &lane, wanted), Ok(true));
            assert_eq!((table.held(), lane.stage_of(LOCK).is_some()), (1, true));
            assert_eq!(table.leave(LOCK), None);
            lane.untrack(LOCK);
            (0..LOCK_RECORDS_MAX as u32).for_each(|index| lane.track(lock_record(index)).unwrap());
            assert_eq!(try_enter_tracked(Some(table), &lane, wanted), Err(VerbError::OVERFLOW));
            assert_eq!((table.held(), lane.lock_records().len()), (0, LOCK_RECORDS_MAX));
            // Another lane has it: no record is added, and nothing is freed.
            assert_eq!(table.enter(LOCK, LaneId(1), 7), Entered::Holder);
            assert_eq!(try_enter_tracked(Some(table), &lane, wanted), Ok(false));
            assert_eq!(table.held(), 1);
            assert!(lane.port().requests().iter().all(|request| request.verb != Verb::Wake));
        });
    }

    #[test]
    fn a_cancelled_waiter_receives_nothing() {
        with_table(4, |table| {
            table.enter(LOCK, LaneId(0), 7);
            table.enter(LOCK, LaneId(1), 7);
            table.enter(LOCK, LaneId(2), 7);
            assert_eq!(table.cancel(LOCK, LaneId(1)), Turn::Wait);
            assert_eq!(table.pass(LOCK, 7, handed(5)), Some(LaneId(2)));
            // Nobody is left: the caller has to release the remote word.
            assert_eq!(table.pass(LOCK, 7, handed(5)), None);
            // Lane 3 queues at the tail that the cancelled lane left intact.
            table.enter(LOCK, LaneId(3), 7);
            assert_eq!(table.leave(LOCK), Some(LaneId(3)));
        });
    }

    #[test]
    fn a_latched_entry_says_so_until_it_is_written_back() {
        let entry = Entry::default();
        let mut latched = entry.latch();
        assert_ne!(entry.word.load(Ordering::Relaxed) & Entry::LATCH, 0);
        assert!(!entry.take(LaneId(1)) && !entry.free() && !entry.is_unwanted());
        latched.holder = 2;
        drop(latched);
        assert_eq!(entry.word.load(Ordering::Relaxed) & Entry::LATCH, 0);
        assert!(entry.is_unwanted());
        assert_eq!(entry.latch().holder, 2);
    }

    #[test]
    fn threads_that_enter_pass_leave_and_cancel_are_never_two_in_one_lock() {
        use std::sync::atomic::AtomicU32;
        const TURNS: u32 = 20_000;
        with_table(3, |table| {
            let (inside, done) = (AtomicU32::new(0), AtomicU32::new(0));
            let lane = |number: u16| {
                let lane = LaneId(number);
                for turn in 0..TURNS {
                    // An odd number of lanes pause now and then, so that entries are free at times.
                    if (turn + u32::from(number)) % 64 == 0 {
                        std::thread::yield_now();
                    }
                    let mut holds = table.enter(LOCK, lane, 7) == Entered::Holder;
                    while !holds {
                        if turn % 5 == 0 && table.cancel(LOCK, lane) == Turn::Wait {
                            break;
                        }
                        // `cancel` reported that the lane is the holder.
                        holds = turn % 5 == 0 || table.turn(LOCK, lane) != Turn::Wait;
                        core::hint::spin_loop();
                    }
                    if !holds {
                        continue;
                    }
                    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two lanes in one lock");
                    done.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
                    if !table.would_pass(LOCK, 7) || table.pass(LOCK, 7, handed(5)).is_none() {
                        table.leave(LOCK);
                    }
                }
            };
            std::thread::scope(|scope| {
                for number in 0..3 {
                    scope.spawn(move || lane(number));
                }
            });
            assert_eq!(table.held(), 0);
            assert!(done.load(Ordering::Relaxed) >= 3 * (TURNS - TURNS / 5));
            assert!(table.enter(LOCK, LaneId(0), 7) == Entered::Holder, "nobody is left in the queue");
        });
    }

    #[test]
    fn a_hand_over_that_was_noted_is_not_news_to_a_later_cancel() {
        with_table(4, |table| {
            table.enter(LOCK, LaneId(0), 7);
            table.enter(LOCK, LaneId(1), 7);
            assert_eq!(table.pass(LOCK, 7, handed(5)), Some(LaneId(1)));
            assert_eq!(table.turn(LOCK, LaneId(1)), Turn::Owned(handed(5)));
            assert_eq!(table.leave(LOCK), None);
            // When lane 1 holds the entry the next time, it has no word yet.
            assert_eq!(table.enter(LOCK, LaneId(1), 7), Entered::Holder);
            assert_eq!(table.cancel(LOCK, LaneId(1)), Turn::Acquire);
        });
    }

    #[test]
    fn a_waiter_cancelled_after_the_hand_over_learns_that_it_holds_the_word() {
        with_table(4, |table| {
            table.enter(LOCK, LaneId(0), 7);
            table.enter(LOCK, LaneId(1), 7);
            assert_eq!(table.pass(LOCK, 7, handed(5)), Some(LaneId(1)));
            assert_eq!(table.cancel(LOCK, LaneId(1)), Turn::Owned(handed(5)));
            assert_eq!(table.leave(LOCK), None);
            assert_eq!(table.held(), 0);
        });
    }
}
