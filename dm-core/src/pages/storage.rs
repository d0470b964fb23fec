//! How the words that the host provides are divided, and the frames that have no page.
//!
//! ```text
//! ┌─────────┬─────────┬─────────┬─────┬───────┬───────┬─────────┬─────────┬─────────┬──────────┬───────┐
//! │ align   │ frame 0 │ frame 1 │ ... │ lanes │ fills │ cooling │ control │ victims │ table    │ slack │
//! │ <= 60 B │ 128 B header, page    │ 128 B │ 32 B  │ FIFOs   │ lists   │ to flush│ 1/frame  │       │
//! └─────────┴─────────┴─────────┴─────┴───────┴───────┴─────────┴─────────┴─────────┴──────────┴───────┘
//! ```
//!
//! Everything that a lane may leave behind is in these words, none of it in futures.

use super::admission::Admission;
use super::cooling::Cooling;
use super::departures::Departures;
use super::frame::{Frame, HEADER_WORDS, LINE_WORDS};
use super::latch::{LATCH_TRIES, Latched, content};
use super::record::RecordWords;
use super::slot::FillWords;
use super::{FrameName, Lsn, PageState, Refused};
use crate::layout::LINE_BYTES;
use crate::remote::address::Address;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use thiserror::Error;

/// Frames that a store has for each lane at least: a merge freezes two pages and may fill a third, and a lane may have
/// set a free frame aside.
pub const FRAMES_PER_LANE_MIN: usize = 4;

/// Most frames of a store: a frame's number, and a fill's behind it, fit beside a latch.
const FRAMES_MAX: usize = 1 << 30;

/// Most fills of all lanes together.
pub const FILLS_MAX: usize = 1 << 20;

/// Largest page, in bytes.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Pages that eviction has named to the lanes that flush. Older names are overwritten: they are hints.
const VICTIMS: usize = 64;

// Words of the control block.
/// A latch for both dirty lists.
pub(super) const LISTS: usize = 0;
// The first and the last page of each list follow: see `dirty`.
/// A latch, and the first free frame, as its number plus one.
const FREE: usize = 5;
/// Frames from this one on were never used.
const UNUSED: usize = 6;
/// Where the hand of the last resort is: see `cooling`.
const HAND: usize = 7;
/// Where the next victim is named.
const VICTIM: usize = 8;
const CONTROL_WORDS: usize = LINE_WORDS;

/// What a store is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Length of a page: a multiple of 64 bytes, at most 1 MiB.
    pub page_bytes: usize,
    /// Lanes of the compute node: ids are below this.
    pub lanes: u16,
    /// Pages that one lane can fill at a time: 1, or more for scans that READ several pages at once.
    pub fills_per_lane: u16,
    /// How victims of eviction are found.
    pub cooling: Cooling,
    /// Which pages get a frame.
    pub admission: Admission,
}

/// Why there is no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadStore {
    /// See [`Shape::page_bytes`].
    #[error("a page of {page_bytes} bytes: the length is a multiple of 64, from 64 to 1048576")]
    PageBytes {
        /// The length that was asked for.
        page_bytes: usize,
    },
    /// No lanes, no fills, or too many of them.
    #[error("{lanes} lanes with {fills_per_lane} fills each: there are 1 to {FILLS_MAX} fills")]
    Fills {
        /// The lanes that were asked for.
        lanes: u16,
        /// The fills of each.
        fills_per_lane: u16,
    },
    /// The storage has too few frames.
    #[error(
        "{words} words have room for {frames} frames; {lanes} lanes need at least {frames_needed}, which take \
         {words_needed} words ({bytes_needed} bytes)"
    )]
    TooSmall {
        /// Lanes of the store.
        lanes: u16,
        /// Length of the storage, in words of 4 bytes.
        words: usize,
        /// Frames for which it has room.
        frames: usize,
        /// [`FRAMES_PER_LANE_MIN`] for each lane.
        frames_needed: usize,
        /// Words that so many frames take.
        words_needed: usize,
        /// The same in bytes.
        bytes_needed: usize,
    },
}

impl Shape {
    const fn is_usable(&self) -> bool {
        self.page_bytes > 0 && self.page_bytes.is_multiple_of(LINE_BYTES) && self.page_bytes <= PAGE_BYTES_MAX
    }

    pub(super) const fn frame_words(&self) -> usize {
        HEADER_WORDS + self.page_bytes / 4
    }

    const fn fills(&self) -> usize {
        self.lanes as usize * self.fills_per_lane as usize
    }

    /// Fewest frames of a store of this shape.
    pub const fn frames_needed(&self) -> usize {
        self.lanes as usize * FRAMES_PER_LANE_MIN
    }

    /// Words of storage that a store with `frames` frames takes.
    pub const fn words_for(&self, frames: usize) -> usize {
        let fixed = LINE_WORDS - 1
            + self.lanes as usize * size_of::<RecordWords>() / 4
            + self.fills() * size_of::<FillWords>() / 4
            + CONTROL_WORDS
            + VICTIMS;
        let frame_words = frames.saturating_mul(self.frame_words() + 1);
        frame_words.saturating_add(fixed).saturating_add(self.cooling.words(frames))
    }

    /// Frames of a store in `words` words of storage; 0 if there is no room.
    pub const fn frames_in(&self, words: usize) -> usize {
        if !self.is_usable() {
            return 0;
        }
        let mut frames = words / (self.frame_words() + 1);
        if frames > FRAMES_MAX {
            frames = FRAMES_MAX;
        }
        // What is not frames takes words, too. The number of frames falls with every turn.
        while frames > 0 && self.words_for(frames) > words {
            let excess = (self.words_for(frames) - words) / (self.frame_words() + 2);
            frames -= if excess == 0 {
                1
            } else if excess > frames {
                frames
            } else {
                excess
            };
        }
        frames
    }
}

/// Copies of pages, shared by the lanes of a compute node. See the [module](super).
pub struct PageStore<'s> {
    pub(super) shape: Shape,
    pub(super) frame_count: u32,
    frames: &'s [AtomicU32],
    pub(super) records: &'s [RecordWords],
    pub(super) fills: &'s [FillWords],
    pub(super) cooling: &'s [AtomicU32],
    control: &'s [AtomicU32],
    pub(super) victims: &'s [AtomicU32],
    pub(super) heads: &'s [AtomicU32],
    pub(super) departures: Departures,
}

impl<'s> PageStore<'s> {
    /// A store without pages in `storage`, whatever it contains now. It has [`Shape::frames_in`] frames.
    pub fn new(storage: &'s [AtomicU32], shape: Shape) -> Result<Self, BadStore> {
        if !shape.is_usable() {
            return Err(BadStore::PageBytes { page_bytes: shape.page_bytes });
        }
        if !(1..=FILLS_MAX).contains(&shape.fills()) {
            return Err(BadStore::Fills { lanes: shape.lanes, fills_per_lane: shape.fills_per_lane });
        }
        let (words, frames, frames_needed) = (storage.len(), shape.frames_in(storage.len()), shape.frames_needed());
        if frames < frames_needed {
            let words_needed = shape.words_for(frames_needed);
            let bytes_needed = words_needed.saturating_mul(4);
            let lanes = shape.lanes;
            return Err(BadStore::TooSmall { lanes, words, frames, frames_needed, words_needed, bytes_needed });
        }
        let store = Self::divide(storage, shape, frames);
        store.reset();
        Ok(store)
    }

    /// A store of `frames` frames over words that are in order, or are made so afterwards.
    pub(super) fn divide(storage: &'s [AtomicU32], shape: Shape, frames: usize) -> Self {
        // Frames begin on a cache line, wherever the storage begins. Words were set aside for that.
        let skip = storage.as_ptr().align_offset(64).min(LINE_WORDS - 1);
        let mut rest = storage.get(skip..).unwrap_or_default();
        let mut take = |words: usize| {
            let (taken, behind) = rest.split_at(words.min(rest.len()));
            rest = behind;
            taken
        };
        let frame_words = take(frames * shape.frame_words());
        let (records, _) = take(usize::from(shape.lanes) * size_of::<RecordWords>() / 4).as_chunks();
        let (fills, _) = take(shape.fills() * size_of::<FillWords>() / 4).as_chunks();
        Self {
            shape,
            frame_count: frames as u32,
            frames: frame_words,
            records,
            fills,
            cooling: take(shape.cooling.words(frames)),
            control: take(CONTROL_WORDS),
            victims: take(VICTIMS),
            heads: take(frames),
            departures: Departures::new(),
        }
    }

    fn reset(&self) {
        let parts = [self.frames, self.records.as_flattened(), self.fills.as_flattened()];
        let more = [self.cooling, self.control, self.victims, self.heads];
        for word in parts.into_iter().chain(more).flatten() {
            word.store(0, Relaxed);
        }
    }

    /// What the store was made for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of frames.
    pub fn frames(&self) -> u32 {
        self.frame_count
    }

    /// Frame `index`.
    #[inline]
    pub(super) fn frame(&self, index: u32) -> Option<Frame<'s>> {
        let words = self.shape.frame_words();
        Frame::new(self.frames.get((index as usize).wrapping_mul(words)..)?.get(..words)?)
    }

    /// A word of the control block.
    #[inline]
    pub(super) fn control(&self, at: usize) -> Option<&'s AtomicU32> {
        self.control.get(at)
    }

    /// Whether every frame has had a page.
    pub fn is_full(&self) -> bool {
        self.control(UNUSED).is_none_or(|unused| unused.load(Relaxed) >= self.frame_count)
    }

    /// A frame that never had a page.
    pub(super) fn unused_frame(&self) -> Option<u32> {
        let unused = self.control(UNUSED)?;
        for _ in 0..LATCH_TRIES {
            let at = unused.load(Relaxed);
            if at >= self.frame_count {
                return None;
            }
            if unused.compare_exchange_weak(at, at + 1, Relaxed, Relaxed).is_ok() {
                return Some(at);
            }
        }
        None
    }

    /// A frame that had a page.
    pub(super) fn free_frame(&self) -> Option<u32> {
        let first = self.control(FREE)?;
        if content(first) == 0 {
            return None;
        }
        let first = Latched::take(first).ok()?;
        let index = first.get().checked_sub(1)?;
        first.set(self.frame(index)?.link());
        Some(index)
    }

    /// Takes the latch of the free list, to put a frame there with [`PageStore::free`].
    pub(super) fn free_list(&self) -> Result<Latched<'s>, Refused> {
        Latched::take(self.control(FREE).ok_or(Refused::Busy)?)
    }

    /// Puts a frame without a page into the free list.
    pub(super) fn free(first: &Latched<'_>, index: u32, frame: Frame<'s>) {
        frame.set_link(first.get());
        first.set(index + 1);
    }

    /// Calls `visit` with each page that has a frame or a fill, its state, and its oldest change that is not flushed; none
    /// if there is none.
    /// Lanes may be at work meanwhile: it is a picture for reports, not of one instant.
    pub fn for_each_page(&self, visit: &mut dyn FnMut(Address, PageState, Lsn)) {
        for frame in (0..self.frame_count).filter_map(|index| self.frame(index)) {
            if let Some(state) = frame.state() {
                visit(frame.id(), state, frame.unflushed().unwrap_or(Lsn::NONE));
            }
        }
        for slot in (0..self.fills.len() as u32).filter_map(|number| self.fill_slot(number)) {
            let id = slot.id();
            if !id.is_null() {
                visit(id, PageState::Filling, Lsn::NONE);
            }
        }
    }

    /// The page in frame `index`, if it has one.
    pub fn page_in(&self, index: u32) -> Option<FrameName> {
        let frame = self.frame(index)?;
        frame.state().map(|_| FrameName { index, generation: frame.generation() })
    }

    /// The frame at which the hand of the last resort is; it goes on to the next.
    pub(super) fn turn_hand(&self) -> u32 {
        self.control(HAND).map_or(0, |hand| hand.fetch_add(1, Relaxed) % self.frame_count)
    }

    /// Stores a hint for the lane that flushes: eviction wants this frame clean.
    pub(super) fn name_victim(&self, index: u32) {
        let Some(next) = self.control(VICTIM) else { return };
        let at = next.fetch_add(1, Relaxed) as usize % VICTIMS;
        if let Some(slot) = self.victims.get(at) {
            slot.store(index + 1, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPE, storage};
    use super::*;

    #[test]
    fn a_store_has_as_many_frames_as_fit() {
        for cooling in [Cooling::Map, Cooling::OneFifo] {
            for lanes in [1, 3] {
                let shape = Shape { cooling, lanes, fills_per_lane: 2, page_bytes: 192, ..SHAPE };
                for words in 0..6_000 {
                    let frames = shape.frames_in(words);
                    assert!(frames == 0 || shape.words_for(frames) <= words, "{words} words");
                    assert!(shape.words_for(frames + 1) > words, "{words} words have room for one more than {frames}");
                }
            }
        }
    }

    #[test]
    fn too_few_frames_are_refused_with_the_number_needed() {
        let shape = Shape { lanes: 3, ..SHAPE };
        let words_needed = shape.words_for(12);
        let short = storage(words_needed - 1);
        let bytes_needed = 4 * words_needed;
        let (words, frames, frames_needed) = (words_needed - 1, 11, 12);
        assert_eq!(
            PageStore::new(&short, shape).err(),
            Some(BadStore::TooSmall { lanes: 3, words, frames, frames_needed, words_needed, bytes_needed })
        );
        let enough = storage(words_needed);
        assert_eq!(PageStore::new(&enough, shape).map(|store| store.frames()), Ok(12));
        for page_bytes in [0, 63, 65, 2 * PAGE_BYTES_MAX] {
            let error = PageStore::new(&enough, Shape { page_bytes, ..shape }).err();
            assert_eq!(error, Some(BadStore::PageBytes { page_bytes }));
        }
        for (lanes, fills_per_lane) in [(0, 1), (3, 0), (u16::MAX, u16::MAX)] {
            let error = PageStore::new(&enough, Shape { lanes, fills_per_lane, ..shape }).err();
            assert_eq!(error, Some(BadStore::Fills { lanes, fills_per_lane }));
        }
    }

    #[test]
    fn frames_are_lines_of_their_own_and_given_out_once() {
        let words = storage(SHAPE.words_for(9) + 1);
        for skip in 0..2 {
            let store = PageStore::new(&words[skip..], SHAPE).unwrap();
            assert!(store.frames.as_ptr().addr().is_multiple_of(64));
            let unused: std::vec::Vec<_> = core::iter::from_fn(|| store.unused_frame()).collect();
            assert!(unused.iter().copied().eq(0..9) && store.is_full());
            assert_eq!(store.free_frame(), None);
            for index in [4, 7] {
                PageStore::free(&store.free_list().unwrap(), index, store.frame(index).unwrap());
            }
            assert_eq!([store.free_frame(), store.free_frame(), store.free_frame()], [Some(7), Some(4), None]);
            assert!(store.frame(9).is_none() && store.frame(u32::MAX).is_none());
        }
    }
    extern crate std;
}
