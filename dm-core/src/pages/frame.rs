//! A frame: a header of two cache lines, and the page.
//!
//! Readers look at the first line only. Words are changed under the frame's latch, which is in the word of the state,
//! or by the lane whose fill has the frame. What a reader may see, the page and its name, is written while the sequence
//! number is odd; the protocol is that of the index cache ([`cache_frames`](crate::manual::cache_frames)).

use super::latch::{Latched, content};
use super::{FrameName, Lsn, PageState, Refused};
use crate::layout::stripes::Bytes;
use crate::remote::address::Address;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, fence};

/// Words of a cache line.
pub(super) const LINE_WORDS: usize = 16;

/// Words of a frame's header.
pub(super) const HEADER_WORDS: usize = 2 * LINE_WORDS;

/// How often a reader tries anew when the page is written meanwhile.
pub const READ_TRIES: usize = 32;

// Words of the header. The first line:
const SEQUENCE: usize = 0;
/// A latch, and the flags below.
const STATE: usize = 1;
/// The page, low half and high half; 0 is none.
const ID: usize = 2;
const GENERATION: usize = 4;
/// The next node of the chain, or of the free list.
const LINK: usize = 5;
/// Even: hot. Odd: cooling. It rises with every change. See `cooling`.
const HEAT: usize = 6;
/// The lanes that wait until the page is thawed or flushed. See `record`.
const WAITERS: usize = 7;
// The second line:
/// The oldest change that no flush has taken. Its key in the list of dirty pages.
pub(super) const OLDEST: usize = 16;
/// The oldest change that the flush under way has taken. Its key in the list of flushing pages.
pub(super) const STAGED: usize = 18;
/// The newest change.
const NEWEST: usize = 20;
/// The neighbours in the list of dirty pages, and in that of flushing pages.
pub(super) const DIRTY_LINKS: [usize; 2] = [22, 23];
pub(super) const FLUSH_LINKS: [usize; 2] = [24, 25];
/// The lane that has frozen the page, plus one.
const FREEZER: usize = 26;
/// The lane whose flush is under way, plus one.
const FLUSHER: usize = 27;
/// How often a flush has taken a copy of the page.
const COPIES: usize = 28;

// Flags of the state.
/// The frame has a page, and the table has the frame.
pub(super) const MAPPED: u32 = 1;
/// There are changes that no flush has taken.
pub(super) const DIRTY: u32 = 1 << 1;
/// A flush is under way.
pub(super) const FLUSHING: u32 = 1 << 2;
/// A lane has frozen the page.
pub(super) const FROZEN: u32 = 1 << 3;

/// Loads a word of each line that is about to be copied, if there are several. A processor has all of these loads under
/// way at once; of the copy itself, which goes word by word, only a few lines.
#[inline]
fn ask_for_lines(words: &[AtomicU32], bytes: usize) {
    let words = words.get(..(bytes / 4).min(words.len())).unwrap_or_default();
    if words.len() >= 2 * LINE_WORDS {
        core::hint::black_box(words.iter().step_by(LINE_WORDS).fold(0, |all, word| all ^ word.load(Relaxed)));
    }
}

/// The words of a page. A closure that looks at it may see a mixture of two images: what it returned is then dropped,
/// and it is called again.
#[derive(Clone, Copy)]
pub struct Image<'p> {
    words: &'p [AtomicU32],
}

impl Image<'_> {
    /// Length of the page, in bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        self.words.len() * 4
    }

    /// Bytes `4 * at ..` as a little-endian number; 0 behind the end.
    #[inline]
    pub fn word(self, at: usize) -> u32 {
        self.words.get(at).map_or(0, |word| u32::from_le(word.load(Relaxed)))
    }

    /// Copies the bytes from `at` on. Bytes of `out` behind the end of the page stay.
    #[inline]
    pub fn copy(self, at: usize, out: &mut [u8]) {
        let words = self.words.get(at / 4..).unwrap_or_default();
        ask_for_lines(words, out.len());
        let mut words = words.iter().map(|word| word.load(Relaxed).to_ne_bytes());
        let mut out = out;
        if !at.is_multiple_of(4)
            && let Some(word) = words.next()
        {
            let part = word.get(at % 4..).unwrap_or_default();
            let (head, rest) = out.split_at_mut(part.len().min(out.len()));
            head.copy_from_slice(part.get(..head.len()).unwrap_or_default());
            out = rest;
        }
        let (whole, tail) = out.as_chunks_mut();
        for (to, word) in whole.iter_mut().zip(&mut words) {
            *to = word;
        }
        if let Some(word) = words.next() {
            for (to, byte) in tail.iter_mut().zip(word) {
                *to = byte;
            }
        }
    }
}

/// A byte behind the end of the page is 0.
impl Bytes for Image<'_> {
    #[inline]
    fn byte_at(self, at: usize) -> u8 {
        (self.word(at / 4) >> (8 * (at % 4))) as u8
    }

    #[inline]
    fn word_at(self, at: usize) -> u64 {
        let load = |at: usize| u64::from(self.word(at));
        let (first, shift) = (at / 4, 8 * (at % 4));
        let low = load(first + 1) << 32 | load(first);
        if shift == 0 { low } else { low >> shift | load(first + 2) << (64 - shift) }
    }

    #[inline]
    fn copy_at(self, at: usize, out: &mut [u8]) {
        if at + out.len() > self.bytes() {
            out.fill(0);
        }
        self.copy(at, out);
    }
}

/// One frame's words.
#[derive(Clone, Copy)]
pub(super) struct Frame<'s> {
    header: &'s [AtomicU32; HEADER_WORDS],
    page: &'s [AtomicU32],
}

impl<'s> Frame<'s> {
    #[inline]
    pub(super) fn new(words: &'s [AtomicU32]) -> Option<Self> {
        let (header, page) = words.split_first_chunk()?;
        Some(Self { header, page })
    }

    /// The page. What it shows may be a mixture of two images.
    #[inline]
    pub(super) fn image(self) -> Image<'s> {
        Image { words: self.page }
    }

    /// The flags, as they are at this instant.
    #[inline]
    pub(super) fn flags(self) -> u32 {
        content(&self.header[STATE])
    }

    /// The state of its page, as it is at this instant.
    pub(super) fn state(self) -> Option<PageState> {
        let flags = self.flags();
        let has = |flag| flags & flag != 0;
        match () {
            () if !has(MAPPED) => None,
            () if has(FROZEN) => Some(PageState::Frozen),
            () if has(FLUSHING) => Some(PageState::Flushing),
            () if has(DIRTY) => Some(PageState::Dirty),
            () => Some(PageState::Clean),
        }
    }

    /// Takes the frame's latch.
    pub(super) fn latch(self) -> Result<Latched<'s>, Refused> {
        Latched::take(&self.header[STATE])
    }

    /// Takes the frame's latch, if the frame has the named page.
    pub(super) fn latch_named(self, name: FrameName) -> Result<Latched<'s>, Refused> {
        let state = self.latch()?;
        if self.generation() == name.generation && state.get() & MAPPED != 0 { Ok(state) } else { Err(Refused::Moved) }
    }

    /// The page that the frame has or seems to have; null if none.
    #[inline]
    pub(super) fn id(self) -> Address {
        Address::from_bits(self.pair(ID))
    }

    /// The generation, if the frame has the page `id`.
    #[inline]
    pub(super) fn holds(self, id: Address) -> Option<u32> {
        if self.id() != id {
            return None;
        }
        self.look(|| (self.id(), self.generation()))
            .ok()
            .and_then(|(found, generation)| (found == id).then_some(generation))
    }

    /// What `look` returns about the page of that generation.
    #[inline]
    pub(super) fn read<R>(self, generation: u32, look: impl Fn(Image<'_>) -> R) -> Result<R, Refused> {
        self.look(|| (self.generation() == generation).then(|| look(self.image())))?.ok_or(Refused::Moved)
    }

    /// What `look` returns about words that nobody wrote meanwhile.
    #[inline]
    fn look<R>(self, look: impl Fn() -> R) -> Result<R, Refused> {
        for _ in 0..READ_TRIES {
            let before = self.header[SEQUENCE].load(Acquire);
            if before & 1 == 0 {
                let found = look();
                fence(Acquire);
                if self.header[SEQUENCE].load(Relaxed) == before {
                    return Ok(found);
                }
            }
            core::hint::spin_loop();
        }
        Err(Refused::Busy)
    }

    #[inline]
    pub(super) fn generation(self) -> u32 {
        self.header[GENERATION].load(Relaxed)
    }

    #[inline]
    pub(super) fn link(self) -> u32 {
        self.header[LINK].load(Relaxed)
    }

    pub(super) fn set_link(self, link: u32) {
        self.header[LINK].store(link, Relaxed);
    }

    /// Two words as one number.
    #[inline]
    pub(super) fn pair(self, at: usize) -> u64 {
        let half = |at: usize| self.header.get(at).map_or(0, |word| u64::from(word.load(Relaxed)));
        half(at + 1) << 32 | half(at)
    }

    pub(super) fn set_pair(self, at: usize, value: u64) {
        if let Some([low, high]) = self.header.get(at..).and_then(|words| words.first_chunk()) {
            low.store(value as u32, Relaxed);
            high.store((value >> 32) as u32, Relaxed);
        }
    }

    /// A word of the header by its place.
    pub(super) fn word(self, at: usize) -> u32 {
        self.header.get(at).map_or(0, |word| word.load(Relaxed))
    }

    pub(super) fn set_word(self, at: usize, value: u32) {
        if let Some(word) = self.header.get(at) {
            word.store(value, Relaxed);
        }
    }

    /// The lanes that wait for the page.
    pub(super) fn waiters(self) -> &'s AtomicU32 {
        &self.header[WAITERS]
    }

    /// The oldest change that is not flushed, or whose flush is under way.
    pub(super) fn unflushed(self) -> Option<Lsn> {
        let flags = self.flags();
        let of = |flag, at| (flags & flag != 0).then(|| Lsn::from_bits(self.pair(at)));
        of(DIRTY, OLDEST).into_iter().chain(of(FLUSHING, STAGED)).min()
    }

    // What follows is for the holder of the latch.

    pub(super) fn newest(self) -> Lsn {
        Lsn::from_bits(self.pair(NEWEST))
    }

    pub(super) fn set_newest(self, lsn: Lsn) {
        self.set_pair(NEWEST, lsn.to_bits());
    }

    /// The lane that has frozen the page, plus one; 0 if none.
    pub(super) fn freezer(self) -> u32 {
        self.header[FREEZER].load(Relaxed)
    }

    pub(super) fn set_freezer(self, freezer: u32) {
        self.header[FREEZER].store(freezer, Relaxed);
    }

    /// The lane whose flush is under way, plus one.
    pub(super) fn flusher(self) -> u32 {
        self.header[FLUSHER].load(Relaxed)
    }

    pub(super) fn set_flusher(self, flusher: u32) {
        self.header[FLUSHER].store(flusher, Relaxed);
    }

    /// Readers refuse the frame from here to [`Frame::end`].
    pub(super) fn begin(self) {
        // The word is odd already if a writer never came to the end. Readers have refused the frame since.
        self.header[SEQUENCE].store(self.header[SEQUENCE].load(Relaxed) | 1, Relaxed);
        fence(Release);
    }

    /// Readers accept what was written since [`Frame::begin`].
    pub(super) fn end(self) {
        let odd = self.header[SEQUENCE].load(Relaxed) | 1;
        self.header[SEQUENCE].store(odd.wrapping_add(1), Release);
    }

    /// Takes the page out of the frame: no name fits any more.
    pub(super) fn empty(self) {
        self.begin();
        self.header[GENERATION].store(self.generation().wrapping_add(1), Relaxed);
        self.set_pair(ID, 0);
        self.end();
    }

    /// Makes this the frame of page `id`, with the words that it has.
    pub(super) fn name(self, id: Address) {
        self.begin();
        self.set_pair(ID, id.to_bits());
        self.end();
        self.set_newest(Lsn::NONE);
        self.copied_anew();
    }

    /// A flush takes a copy. Returns how many have.
    pub(super) fn next_copy(self) -> u32 {
        let copies = self.header[COPIES].load(Relaxed).wrapping_add(1);
        self.header[COPIES].store(copies, Relaxed);
        copies
    }

    /// The page in the frame is as it is in the pool: copies are counted from here on.
    pub(super) fn copied_anew(self) {
        self.header[COPIES].store(0, Relaxed);
    }

    /// Writes bytes of the page between [`Frame::begin`] and [`Frame::end`]. Bytes behind its end are dropped.
    pub(super) fn put(self, at: usize, bytes: &[u8]) {
        let words = self.page.get(at / 4..).unwrap_or_default();
        ask_for_lines(words, bytes.len());
        let before = at % 4;
        let mut bytes = bytes;
        let mut words = words.iter();
        if before != 0
            && let Some(word) = words.next()
        {
            let (head, rest) = bytes.split_at((4 - before).min(bytes.len()));
            Self::patch(word, before, head);
            bytes = rest;
        }
        let (whole, tail) = bytes.as_chunks();
        for (bytes, word) in whole.iter().zip(&mut words) {
            word.store(u32::from_ne_bytes(*bytes), Relaxed);
        }
        if !tail.is_empty()
            && let Some(word) = words.next()
        {
            Self::patch(word, 0, tail);
        }
    }

    /// Changes some bytes of a word.
    fn patch(word: &AtomicU32, at: usize, bytes: &[u8]) {
        let mut image = word.load(Relaxed).to_ne_bytes();
        for (to, from) in image.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
        word.store(u32::from_ne_bytes(image), Relaxed);
    }

    // The heat. Anybody may store to it at any time; it decides nothing but which page is evicted.

    #[inline]
    pub(super) fn heat(self) -> u32 {
        self.header[HEAT].load(Relaxed)
    }

    /// The page is in use: it is not cooling any more. One load if it was not.
    #[inline]
    pub(super) fn warm(self) {
        let heat = self.heat();
        if heat & 1 != 0 {
            self.header[HEAT].store(heat.wrapping_add(1), Relaxed);
        }
    }

    /// Makes a hot page cool. Returns its new heat, by which its slot in the cooling map is told from older ones.
    pub(super) fn cool(self) -> Option<u32> {
        let heat = self.heat();
        let cooling = heat | 1;
        (heat & 1 == 0 && self.header[HEAT].compare_exchange(heat, cooling, Relaxed, Relaxed).is_ok())
            .then_some(cooling)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{clear, storage};
    use super::*;

    #[test]
    fn bytes_are_put_and_copied_at_any_place() {
        let words = storage(HEADER_WORDS + 16);
        let frame = Frame::new(&words).unwrap();
        let mut expected = [0; 64];
        frame.put(0, &expected);
        for at in 0..64 {
            for length in 0..=64 - at {
                let bytes: [u8; 64] = core::array::from_fn(|i| (at * 7 + length * 3 + i + 1) as u8);
                frame.put(at, &bytes[..length]);
                expected[at..at + length].copy_from_slice(&bytes[..length]);
                let mut found = [0; 64];
                frame.image().copy(0, &mut found);
                assert_eq!(found, expected, "{length} bytes at {at}");
                let mut part = [0xee; 64];
                frame.image().copy(at, &mut part[..length]);
                assert_eq!((&part[..length], &part[length..]), (&expected[at..at + length], &[0xee; 64][length..]));
            }
        }
        assert_eq!(frame.image().word(1), u32::from_le_bytes(*expected[4..].first_chunk().unwrap()));
        frame.put(63, &[1, 2, 3]);
        frame.put(64, &[9]);
        let mut over = [0xee; 4];
        frame.image().copy(63, &mut over);
        assert_eq!((over, frame.image().word(16), frame.image().bytes()), ([1, 0xee, 0xee, 0xee], 0, 64));
    }

    #[test]
    fn a_reader_accepts_no_page_that_was_written_meanwhile_and_no_other_generation() {
        let words = storage(HEADER_WORDS + 16);
        clear(&words);
        let frame = Frame::new(&words).unwrap();
        let id = Address::from_bits(1 << 48 | 128);
        frame.name(id);
        assert_eq!((frame.holds(id), frame.holds(Address::from_bits(64))), (Some(0), None));
        assert_eq!(frame.read(0, |image| image.word(0)), Ok(0));
        // A write that comes between: the closure is called again.
        let calls = AtomicU32::new(0);
        let look = |image: Image<'_>| {
            if calls.fetch_add(1, Relaxed) == 0 {
                frame.begin();
                frame.put(0, &5u32.to_le_bytes());
                frame.end();
            }
            image.word(0)
        };
        assert_eq!((frame.read(0, look), calls.load(Relaxed)), (Ok(5), 2));
        frame.begin();
        assert_eq!(frame.read(0, |image| image.word(0)), Err(Refused::Busy));
        frame.end();
        frame.empty();
        assert_eq!((frame.read(0, |_| ()), frame.holds(id)), (Err(Refused::Moved), None));
    }

    #[test]
    fn heat_tells_one_cooling_from_the_next() {
        let words = storage(HEADER_WORDS);
        clear(&words);
        let frame = Frame::new(&words).unwrap();
        let first = frame.cool().unwrap();
        assert_eq!(frame.cool(), None, "it cools already");
        frame.warm();
        let heat = frame.heat();
        frame.warm();
        assert_eq!((heat & 1, frame.heat()), (0, heat), "a hot page stays as it is");
        assert_ne!(frame.cool().unwrap(), first);
    }
}
