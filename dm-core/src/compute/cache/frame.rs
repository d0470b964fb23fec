//! A frame: one copy of an inner node, decoded so that a search in it is short.
//!
//! ```text
//!  line 0        lines 1..                     then, word by word, padded to a line
//! ┌─────────────┬─────────────────────────────┬──────────────┬─────────┬─────────┬──────────┐
//! │ header      │ discriminators, 1 per       │ children,    │ rests,  │ fences  │ tails    │
//! │ 16 words    │ separator, rest of the line │ 2 words each │ 1 per   │ (keys > 8 bytes)   │
//! │             │ filled with ones            │              │ separat.│         │          │
//! └─────────────┴─────────────────────────────┴──────────────┴─────────┴─────────┴──────────┘
//! ```
//!
//! # Discriminators
//!
//! A key is a sequence of big-endian words. All keys of a node begin with the words that its two fences share (the
//! *prefix*). The two words after the prefix are read as one number. The low fence's number (`base`) is subtracted from
//! it, and what remains is in `0..=span`. Its top 32 significant bits, by the width of the span, are the
//! *discriminator*. The bits below, at most 32, are the *rest*. The further words of the key are the *tail*.
//!
//! So one comparison of `t = x - base` with `span` checks both fences. The search counts 4-byte words that spread over
//! the node's own range, whatever prefix the keys share. Only a key whose discriminator equals a separator's needs
//! rests and tails. Nothing is stored twice: a node of 61 children with 8-byte keys takes 17 lines, 1,088 bytes.
//!
//! The count takes two steps: every eighth discriminator, and then eight in a row. The first step touches all lines of
//! discriminators at once. So a frame outside the processor's cache costs one latency for the header and all of these,
//! and one for the child.
//!
//! # The sequence lock
//!
//! Word 0 of the header is odd while the frame is written. A reader accepts what it read if the word was even and equal
//! before and after. [`cache_frames`](crate::manual::cache_frames) has the memory orders and the proof. Until a copy is
//! accepted, its words are numbers without a meaning, and each use of one as an index is checked.

use super::Branch;
use super::key::{Wanted, join};
use super::shape::{LINE_WORDS, Outline, Shape};
use crate::port::Fetch;
use crate::remote::address::Address;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, fence};

/// A cache line of a frame.
pub(super) type Line = [AtomicU32; LINE_WORDS];

/// How often a reader looks at a frame that is being written. With the pauses between, this is about as long as it
/// takes to write a copy, and no longer than the READ that a miss costs.
pub const READ_TRIES: usize = 32;

/// Discriminators counted in a row.
const RUN: usize = 8;

// Words of the header.
const SEQUENCE: usize = 0;
const ADDRESS_LOW: usize = 1;
const ADDRESS_HIGH: usize = 2;
/// Children 0..16, level 16..21, unbounded 21, shift 22..28, prefix words 28..32.
const INFO: usize = 3;
const BASE_HIGH: usize = 4;
const BASE_LOW: usize = 5;
const SPAN_HIGH: usize = 6;
const SPAN_LOW: usize = 7;
/// The number of the hint block plus one; 0 is none.
const BLOCK: usize = 8;
/// The next frame of the chain, plus one; 0 ends it. Writers change it outside the sequence lock when neighbours come
/// and go.
const LINK: usize = 9;
/// See the parent module on eviction. Readers store it.
const HEAT: usize = 10;
/// Epoch of the operation that READ the node.
const EPOCH: usize = 11;

/// The result of a search in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The child that covers the key, the child to its right if the cache keeps it and this is level 1, the child's
    /// number, and the block of hints to children.
    Child { address: Address, next: Address, slot: usize, block: u32 },
    /// The frame has the node, but the node does not cover the key.
    Uncovered,
    /// The frame has another node, is too old, or was being written at every try.
    Other,
}

/// One frame's words.
#[derive(Clone, Copy)]
pub(super) struct Frame<'f> {
    shape: &'f Shape,
    header: &'f Line,
    lines: &'f [Line],
}

impl<'f> Frame<'f> {
    /// `None` if there are no lines.
    #[inline]
    pub(super) fn new(shape: &'f Shape, lines: &'f [Line]) -> Option<Self> {
        Some(Self { shape, header: lines.first()?, lines })
    }

    /// Where the key goes according to this frame, if the frame has `address`.
    #[expect(clippy::inline_always, reason = "a call per level is a fifth of a route")]
    #[inline(always)]
    pub(super) fn look<K: Wanted>(self, address: Address, level: u8, key: K, epoch: u32) -> Look {
        for _ in 0..READ_TRIES {
            let before = self.header[SEQUENCE].load(Acquire);
            if before & 1 == 0 {
                let look = self.look_once(address, level, key, epoch);
                fence(Acquire);
                if self.header[SEQUENCE].load(Relaxed) == before {
                    // Not a read-modify-write, and no store at all if the heat is right: a hot frame's line stays
                    // shared.
                    if look != Look::Other && self.header[HEAT].load(Relaxed) != u32::from(level) {
                        self.header[HEAT].store(u32::from(level), Relaxed);
                    }
                    return look;
                }
            }
            core::hint::spin_loop();
        }
        Look::Other
    }

    /// The child that covers the key and those behind it or, with `down`, those before it, if this frame has `address`.
    /// Returns how many were written.
    pub(super) fn children_from<K: Wanted>(
        &self,
        address: Address,
        key: K,
        epoch: u32,
        down: bool,
        out: &mut [Address],
    ) -> usize {
        for _ in 0..READ_TRIES {
            let before = self.header[SEQUENCE].load(Acquire);
            if before & 1 == 0 {
                let mut count = 0;
                if let Look::Child { slot, .. } = self.look_once(address, 1, key, epoch) {
                    let children = self.header[INFO].load(Relaxed) as usize & 0xffff;
                    let left = if down { slot + 1 } else { children.saturating_sub(slot) };
                    for (i, to) in out.iter_mut().take(left).enumerate() {
                        *to = self.child(if down { slot - i } else { slot + i });
                        count += 1;
                    }
                }
                fence(Acquire);
                if self.header[SEQUENCE].load(Relaxed) == before {
                    return count;
                }
            }
            core::hint::spin_loop();
        }
        0
    }

    /// As [`Frame::look`], on words that may be a mixture of two copies.
    #[expect(clippy::inline_always, reason = "a call per level is a fifth of a route")]
    #[inline(always)]
    fn look_once<K: Wanted>(self, address: Address, level: u8, key: K, epoch: u32) -> Look {
        // Only pointers to leaves age.
        if self.address() != address || level == 1 && self.header[EPOCH].load(Relaxed) < epoch {
            return Look::Other;
        }
        let info = self.header[INFO].load(Relaxed);
        if info >> 16 & 0x1f != u32::from(level) {
            return Look::Uncovered;
        }
        let shift = info >> 22 & 0x3f;
        let prefix = if K::SHORT { 0 } else { (info >> 28) as usize };
        let base = join(self.header[BASE_HIGH].load(Relaxed), self.header[BASE_LOW].load(Relaxed));
        let span = join(self.header[SPAN_HIGH].load(Relaxed), self.header[SPAN_LOW].load(Relaxed));
        // A key below the base wraps around, past any span that a base above zero leaves.
        let t = key.number(prefix).wrapping_sub(base);
        if t > span {
            return Look::Uncovered;
        }
        if !K::SHORT && !self.covers_long(info, prefix, t, span, key) {
            return Look::Uncovered;
        }
        if level == 1 {
            self.ask_for_children();
        }
        let wanted = (t >> (shift & 63)) as u32;
        let last = (info as usize & 0xffff).wrapping_sub(1);
        let mut slot = self.count_up_to(wanted).min(last);
        let exact = K::SHORT && shift == 0;
        if !exact && slot > 0 && self.discriminator(slot - 1) == wanted {
            slot = self.resolve(slot, wanted, t, shift, prefix, key);
        }
        let child = self.child(slot);
        if child.is_null() {
            return Look::Other;
        }
        let next = if self.shape.keeps_next && level == 1 { self.child(slot + 1) } else { Address::NULL };
        Look::Child { address: child, next, slot, block: self.header[BLOCK].load(Relaxed) }
    }

    /// Loads a word of every line of children, so that the wanted line is on its way before the search knows which it
    /// is. Level 1 is nearly all of the cache, and the level that is most likely far from the processor.
    #[expect(clippy::inline_always, reason = "a call per level is a fifth of a route")]
    #[inline(always)]
    fn ask_for_children(self) {
        let Some(lines) = self.lines.get(self.child_lines()) else { return };
        core::hint::black_box(lines.iter().fold(0, |all, line| all ^ line[0].load(Relaxed)));
    }

    /// Asks for the lines at which a search looks.
    pub(super) fn ask(self, fetch: Fetch) {
        self.lines.iter().take(self.child_lines().end).for_each(|line| fetch(&line[0]));
    }

    /// The lines of children, behind those of discriminators.
    #[inline]
    const fn child_lines(self) -> Range<usize> {
        let first = 1 + self.shape.discriminator_lines;
        first..first + (2 * self.shape.children_max).div_ceil(LINE_WORDS)
    }

    /// How many discriminators are at most `wanted`. The filler is counted, too.
    #[expect(clippy::inline_always, reason = "a call per level is a fifth of a route")]
    #[inline(always)]
    fn count_up_to(self, wanted: u32) -> usize {
        let Some(lines) = self.lines.get(1..=self.shape.discriminator_lines) else { return 0 };
        let (runs, _) = lines.as_flattened().as_chunks::<RUN>();
        // A loop on purpose, and so is the borrow of a subtraction further down. Written out, comparisons of loaded
        // words are collected in a vector register by compilers, one by one, which costs more than the whole search.
        let mut full = 0;
        for run in runs {
            full += usize::from(run[RUN - 1].load(Relaxed) <= wanted);
        }
        // All are full: the filler says so, or there is none and the count is complete.
        let Some(run) = runs.get(full) else { return full * RUN };
        let limit = u64::from(wanted) + 1;
        let mut count = 0;
        for discriminator in run {
            count += u64::from(discriminator.load(Relaxed)).wrapping_sub(limit) >> 63;
        }
        full * RUN + count as usize
    }

    /// The last of the first `slot + 1` children whose separator is at most the key, if discriminators do not decide
    /// it.
    #[cold]
    fn resolve<K: Wanted>(&self, slot: usize, wanted: u32, t: u64, shift: u32, prefix: usize, key: K) -> usize {
        let rest = (t & !(u64::MAX << (shift & 63))) as u32;
        let (mut low, mut high) = (0, slot);
        while low < high {
            let middle = low.midpoint(high);
            let mut order = self.discriminator(middle).cmp(&wanted);
            if order.is_eq() {
                order = self.word(self.shape.rests_at + middle).cmp(&rest);
            }
            if !K::SHORT && order.is_eq() {
                let tail_words = self.shape.key_words - 2;
                order = self.compare_words(self.shape.tails_at + middle * tail_words, prefix + 2, key);
            }
            if order.is_le() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// What is left to check when the number is within the span: the prefix, and the tail at either end.
    #[inline]
    fn covers_long<K: Wanted>(self, info: u32, prefix: usize, t: u64, span: u64, key: K) -> bool {
        let low_at = self.shape.fences_at;
        for i in 0..prefix {
            if self.word(low_at + i) != key.word(i) {
                return false;
            }
        }
        if t == 0 && self.compare_words(low_at + prefix + 2, prefix + 2, key).is_gt() {
            return false;
        }
        let bounded = info >> 21 & 1 == 0;
        let high_at = low_at + self.shape.key_words;
        !(bounded && t == span && self.compare_words(high_at + prefix + 2, prefix + 2, key).is_le())
    }

    /// Compares the frame's words from `at` with the key's from `from` to its end.
    #[inline]
    fn compare_words<K: Wanted>(self, at: usize, from: usize, key: K) -> core::cmp::Ordering {
        for i in from..self.shape.key_words {
            let order = self.word(at + i - from).cmp(&key.word(i));
            if order.is_ne() {
                return order;
            }
        }
        core::cmp::Ordering::Equal
    }

    #[inline]
    fn discriminator(self, i: usize) -> u32 {
        self.word(LINE_WORDS + i)
    }

    #[inline]
    fn child(self, i: usize) -> Address {
        let at = self.shape.children_at + 2 * i;
        match self.lines.as_flattened().get(at..).and_then(|words| words.first_chunk()) {
            Some([low, high]) => Address::from_bits(join(high.load(Relaxed), low.load(Relaxed))),
            None => Address::NULL,
        }
    }

    #[inline]
    fn word(self, at: usize) -> u32 {
        self.lines.as_flattened().get(at).map_or(0, |word| word.load(Relaxed))
    }

    /// The node that this frame has or seems to have; null if none.
    #[inline]
    pub(super) fn address(self) -> Address {
        Address::from_bits(join(self.header[ADDRESS_HIGH].load(Relaxed), self.header[ADDRESS_LOW].load(Relaxed)))
    }

    #[inline]
    pub(super) fn link(self) -> u32 {
        self.header[LINK].load(Relaxed)
    }

    // The functions below are for the holder of the writers' lock.

    pub(super) fn set_link(&self, link: u32) {
        self.header[LINK].store(link, Relaxed);
    }

    pub(super) fn block(&self) -> u32 {
        self.header[BLOCK].load(Relaxed)
    }

    /// Lowers the heat by one and returns what it was.
    pub(super) fn cool(&self) -> u32 {
        let heat = self.header[HEAT].load(Relaxed);
        if heat > 0 {
            // A reader may store at the same time. Either result is good.
            self.header[HEAT].store(heat - 1, Relaxed);
        }
        heat
    }

    /// For storage of unknown content: no copy, and not being written.
    pub(super) fn reset(&self) {
        for word in self.header {
            word.store(0, Relaxed);
        }
    }

    /// Readers refuse the frame from here to [`Frame::end`], which takes the returned number.
    #[must_use = "readers refuse the frame until it ends"]
    pub(super) fn begin(&self) -> u32 {
        // The word is odd already if a panic unwound a writer between the two calls. Readers have refused the frame
        // since, and still do.
        let odd = self.header[SEQUENCE].load(Relaxed) | 1;
        self.header[SEQUENCE].store(odd, Relaxed);
        fence(Release);
        odd
    }

    /// Readers accept what was written since [`Frame::begin`].
    pub(super) fn end(&self, odd: u32) {
        self.header[SEQUENCE].store(odd.wrapping_add(1), Release);
    }

    /// Makes this a frame without a copy.
    pub(super) fn empty(&self) {
        for at in [ADDRESS_LOW, ADDRESS_HIGH, INFO, BLOCK, HEAT] {
            self.header[at].store(0, Relaxed);
        }
    }

    /// Writes a copy. Heat and link stay.
    pub(super) fn fill(&self, outline: &Outline, block: u32, branch: &impl Branch, epoch: u32) {
        let shape = self.shape;
        let Outline { address, level, children, low, high, prefix, base, span, shift } = outline;
        let bits = address.to_bits();
        let unbounded = u32::from(high.is_none());
        let info = *children as u32 | u32::from(*level) << 16 | unbounded << 21 | *shift << 22 | (*prefix as u32) << 28;
        for (at, word) in [
            (ADDRESS_LOW, bits as u32),
            (ADDRESS_HIGH, (bits >> 32) as u32),
            (INFO, info),
            (BASE_HIGH, (*base >> 32) as u32),
            (BASE_LOW, *base as u32),
            (SPAN_HIGH, (*span >> 32) as u32),
            (SPAN_LOW, *span as u32),
            (BLOCK, block),
            (EPOCH, epoch),
        ] {
            self.header[at].store(word, Relaxed);
        }
        let tail_words = shape.key_words - 2;
        if !shape.is_short() {
            self.put_words(shape.fences_at, &low.0[..shape.key_words]);
            if let Some(high) = high {
                self.put_words(shape.fences_at + shape.key_words, &high.0[..shape.key_words]);
            }
        }
        for i in 1..*children {
            let separator = shape.key(|out| branch.separator(i, out));
            let t = separator.number(*prefix).wrapping_sub(*base);
            self.put_words(LINE_WORDS + i - 1, &[(t >> shift) as u32]);
            self.put_words(shape.rests_at + i - 1, &[(t & !(u64::MAX << shift)) as u32]);
            let tail = separator.0.get(prefix + 2..shape.key_words).unwrap_or(&[]);
            self.put_words(shape.tails_at + (i - 1) * tail_words, tail);
        }
        for i in *children - 1..shape.discriminator_lines * LINE_WORDS {
            self.put_words(LINE_WORDS + i, &[u32::MAX]);
        }
        let next = shape.keeps_next.then(|| branch.next());
        for (i, child) in (0..*children).map(|i| branch.child(i)).chain(next).enumerate() {
            let bits = child.to_bits();
            self.put_words(shape.children_at + 2 * i, &[bits as u32, (bits >> 32) as u32]);
        }
    }

    fn put_words(&self, at: usize, words: &[u32]) {
        let slots = self.lines.as_flattened().get(at..).unwrap_or(&[]);
        for (slot, word) in slots.iter().zip(words) {
            slot.store(*word, Relaxed);
        }
    }
}
