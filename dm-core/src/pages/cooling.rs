//! Cooling and eviction: which page gives up its frame (DEX sections 5.1 and 5.2).
//!
//! A page is picked at random and *cools*: its number goes into one of many short FIFOs, chosen by the page's address.
//! Each FIFO has a latch of its own, so lanes that evict seldom meet. What falls out of a full FIFO is evicted, unless
//! the page was used since: this is its second chance. [`Cooling::OneFifo`] has one long FIFO instead, for comparison.
//!
//! ```text
//!  FIFO   word 0        word 1   2 words per slot                       (to a cache line, 64 bytes)
//!        ┌──────────────┬───────┬────────────┬────────────┬─────┬──────┐
//!        │ latch, count │ first │ frame+1, heat │ ...      │     │ 0    │
//!        └──────────────┴───────┴────────────┴────────────┴─────┴──────┘
//! ```
//!
//! A slot is a hint. It is void if the frame's heat is not the one in the slot: then the page was used, or the frame has
//! another page. Eviction decides by the frame's own words, under the latches of the page's chain and of the frame.

use super::frame::{DIRTY, FLUSHING, FROZEN, Frame, MAPPED};
use super::latch::Latched;
use super::record::{Counter, Record};
use super::table::Chain;
use super::{PageStore, Refused};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, fence};

/// Pages that a lane picks for cooling before it looks for a victim elsewhere.
pub const COOLED_PER_MISS: u32 = 2;

/// Slots of a FIFO of the cooling map.
pub const FIFO_SLOTS: usize = 6;

/// FIFOs in which a lane looks for a victim, from a random one on.
const FIFOS_PROBED: usize = 8;

/// How often a lane picks and probes before the hand goes round.
const ROUNDS: u32 = 8;

/// Frames that the hand visits, at most.
pub const SWEEP_FRAMES: u32 = 64;

/// The share of frames whose pages cool: a tenth.
const FRAMES_PER_SLOT: usize = 10;

/// Words of a FIFO of the cooling map: a cache line.
const FIFO_WORDS: usize = 16;

// Words of a FIFO.
const COUNT: usize = 0;
const FIRST: usize = 1;
const SLOTS: usize = 2;

/// How victims of eviction are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cooling {
    /// Many FIFOs of six, by the address of the page (the cooling map of DEX).
    Map,
    /// One FIFO, with one latch.
    OneFifo,
}

impl Cooling {
    const fn one_fifo_slots(frames: usize) -> usize {
        let slots = frames.div_ceil(FRAMES_PER_SLOT);
        if slots < FIFO_SLOTS { FIFO_SLOTS } else { slots }
    }

    /// Words that it takes beside so many frames.
    pub(super) const fn words(self, frames: usize) -> usize {
        match self {
            Self::Map => frames.div_ceil(FRAMES_PER_SLOT * FIFO_SLOTS) * FIFO_WORDS,
            Self::OneFifo => SLOTS + 2 * Self::one_fifo_slots(frames),
        }
    }

    /// Words and slots of one FIFO.
    const fn fifo(self, frames: usize) -> (usize, usize) {
        match self {
            Self::Map => (FIFO_WORDS, FIFO_SLOTS),
            Self::OneFifo => (self.words(frames), Self::one_fifo_slots(frames)),
        }
    }
}

/// A cooling page: its frame, and the frame's heat at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cooled {
    index: u32,
    heat: u32,
}

/// A FIFO whose latch the caller has.
struct Fifo<'s> {
    count: Latched<'s>,
    words: &'s [AtomicU32],
    slots: usize,
}

impl<'s> Fifo<'s> {
    fn latch(words: &'s [AtomicU32], slots: usize) -> Result<Self, Refused> {
        Ok(Self { count: Latched::take(words.get(COUNT).ok_or(Refused::Busy)?)?, words, slots })
    }

    fn first(&self) -> usize {
        self.words.get(FIRST).map_or(0, |first| first.load(Relaxed) as usize)
    }

    fn slot(&self, at: usize) -> Option<(&'s AtomicU32, &'s AtomicU32)> {
        let at = SLOTS + 2 * (at % self.slots);
        Some((self.words.get(at)?, self.words.get(at + 1)?))
    }

    /// Takes the oldest out.
    fn pop(&self) -> Option<Cooled> {
        let count = self.count.get().checked_sub(1)?;
        let (index, heat) = self.slot(self.first())?;
        self.count.set(count);
        let first = (self.first() + 1) % self.slots;
        self.words.get(FIRST)?.store(first as u32, Relaxed);
        Some(Cooled { index: index.load(Relaxed).checked_sub(1)?, heat: heat.load(Relaxed) })
    }

    /// Puts a page in as the youngest. If there is no room, the oldest falls out.
    fn push(&self, cooled: Cooled) -> Option<Cooled> {
        let oldest = if self.count.get() as usize == self.slots { self.pop() } else { None };
        let (index, heat) = self.slot(self.first() + self.count.get() as usize)?;
        index.store(cooled.index + 1, Relaxed);
        heat.store(cooled.heat, Relaxed);
        self.count.set(self.count.get() + 1);
        oldest
    }
}

/// A number below `end`.
fn draw(lane: &Lane<'_>, end: u32) -> u32 {
    ((u64::from(lane.next_turn()) * u64::from(end)) >> 32) as u32
}

impl<'s> PageStore<'s> {
    fn fifos(&self) -> usize {
        self.cooling.len() / self.shape.cooling.fifo(self.frame_count as usize).0.max(1)
    }

    fn fifo(&self, at: usize) -> Result<Fifo<'s>, Refused> {
        let (words, slots) = self.shape.cooling.fifo(self.frame_count as usize);
        let fifo = self.cooling.get(at * words..).and_then(|from| from.get(..words));
        Fifo::latch(fifo.ok_or(Refused::Busy)?, slots)
    }

    /// The FIFO of a frame's page.
    fn fifo_of(&self, frame: Frame<'_>) -> Result<Fifo<'s>, Refused> {
        let mixed = (frame.id().to_bits() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.fifo(((mixed * self.fifos() as u64) >> 32) as usize)
    }

    /// A frame for a fill: one without a page, or one whose page is evicted. `None`: no page could be evicted.
    pub(super) fn take_frame(&self, lane: &Lane<'_>, record: Record<'s>) -> Option<u32> {
        if let Some(index) = record.take_spare().or_else(|| self.unused_frame()).or_else(|| self.free_frame()) {
            return Some(index);
        }
        for _ in 0..ROUNDS {
            for _ in 0..COOLED_PER_MISS {
                if let Some(index) = self.cool_one(lane).and_then(|oldest| self.evict_cooled(lane, record, oldest)) {
                    return Some(index);
                }
            }
            let from = draw(lane, self.fifos() as u32) as usize;
            for step in 0..FIFOS_PROBED.min(self.fifos()) {
                if let Some(index) = self.evict_oldest(lane, record, (from + step) % self.fifos()) {
                    return Some(index);
                }
            }
        }
        let mut turns = (0..SWEEP_FRAMES.min(self.frame_count)).map(|_| self.turn_hand());
        turns.find(|index| self.evict(lane, record, *index, None))
    }

    /// Picks a page and lets it cool. Returns what fell out of its FIFO.
    fn cool_one(&self, lane: &Lane<'_>) -> Option<Cooled> {
        let index = draw(lane, self.frame_count);
        let frame = self.frame(index)?;
        if frame.flags() & (MAPPED | FROZEN) != MAPPED {
            return None;
        }
        let heat = frame.cool()?;
        // One of both sees the other: this lane that the page is flushed, or the end of the flush that the page cools.
        fence(SeqCst);
        if frame.flags() & (DIRTY | FLUSHING) == 0 {
            return self.push_cooled(frame, Cooled { index, heat });
        }
        // It goes on when it is flushed: see `PageStore::cool_flushed`.
        self.name_victim(index);
        None
    }

    fn push_cooled(&self, frame: Frame<'_>, cooled: Cooled) -> Option<Cooled> {
        let Ok(fifo) = self.fifo_of(frame) else {
            // A page in no FIFO is hot, so that it can be picked again.
            frame.warm();
            return None;
        };
        fifo.push(cooled)
    }

    /// A page that was picked while dirty is flushed: it goes into its FIFO, unless it was used since. If both this lane
    /// and the one that picked it put it there, one of the slots is void when the other has led to it.
    pub(super) fn cool_flushed(&self, index: u32, frame: Frame<'_>) {
        fence(SeqCst);
        let heat = frame.heat();
        if heat & 1 == 0 {
            return;
        }
        let oldest = self.push_cooled(frame, Cooled { index, heat });
        if let Some(frame) = oldest.and_then(|oldest| self.frame(oldest.index)) {
            // Nobody needs its frame now, and it is in no FIFO any more.
            frame.warm();
        }
    }

    /// Evicts the oldest page of a FIFO that can be evicted.
    fn evict_oldest(&self, lane: &Lane<'_>, record: Record<'s>, fifo: usize) -> Option<u32> {
        for _ in 0..FIFO_SLOTS {
            // The latch of the FIFO is free again before those of chain and frame are taken.
            let oldest = self.fifo(fifo).ok()?.pop()?;
            if let Some(index) = self.evict_cooled(lane, record, oldest) {
                return Some(index);
            }
        }
        None
    }

    fn evict_cooled(&self, lane: &Lane<'_>, record: Record<'s>, cooled: Cooled) -> Option<u32> {
        let frame = self.frame(cooled.index)?;
        if frame.heat() != cooled.heat {
            lane.mark(Mark::PAGE_SECOND_CHANCE);
            return None;
        }
        if self.evict(lane, record, cooled.index, Some(cooled.heat)) {
            return Some(cooled.index);
        }
        // It is in no FIFO any more.
        frame.warm();
        None
    }

    /// Evicts the page of a frame, if it is clean and its heat is as expected. `false`: it stays.
    fn evict(&self, lane: &Lane<'_>, record: Record<'s>, index: u32, heat: Option<u32>) -> bool {
        let Some(frame) = self.frame(index) else { return false };
        let id = frame.id();
        if id.is_null() {
            return false;
        }
        let Ok(chain) = self.chain(id) else { return false };
        let Ok(state) = frame.latch() else { return false };
        // Under the latch nobody can change, freeze or flush the page. A flush that is under way keeps it here, so a
        // lane that READs the page again finds what was written.
        let evictable = state.get() == MAPPED || planted(Mutant::DIRTY_EVICTED) && state.get() & FROZEN == 0;
        if frame.id() != id || !evictable || heat.is_some_and(|heat| heat != frame.heat()) {
            return false;
        }
        self.departs(id, frame);
        chain.replace(Chain::frame_node(index), None);
        frame.empty();
        state.set(0);
        record.count(Counter::Eviction);
        lane.mark(Mark::PAGE_EVICTED);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{clear, storage};
    use super::*;

    fn cooled(index: u32) -> Cooled {
        Cooled { index, heat: 2 * index + 1 }
    }

    #[test]
    fn what_falls_out_of_a_fifo_is_its_oldest() {
        for slots in [6, 23] {
            let words = storage(SLOTS + 2 * slots);
            clear(&words);
            let fifo = Fifo::latch(&words, slots).unwrap();
            assert!(Fifo::latch(&words, slots).is_err());
            assert_eq!(fifo.pop(), None);
            let count = slots as u32;
            assert!((0..count).all(|index| fifo.push(cooled(index)).is_none()));
            assert!((0..3 * count).all(|index| fifo.push(cooled(count + index)) == Some(cooled(index))));
            assert!((3 * count..4 * count).all(|index| fifo.pop() == Some(cooled(index))));
            assert_eq!(fifo.pop(), None);
        }
    }

    #[test]
    fn the_map_has_a_cache_line_for_six_of_sixty_frames() {
        assert_eq!(Cooling::Map.words(60), 16);
        assert_eq!(Cooling::Map.words(61), 32);
        assert_eq!(SLOTS + 2 * FIFO_SLOTS, 14, "fits into a line");
        assert_eq!(Cooling::OneFifo.words(1_000), SLOTS + 200);
        assert_eq!(Cooling::OneFifo.words(4), SLOTS + 12);
    }
}
