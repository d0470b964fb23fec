//! Where the parts of a frame lie, and what a node has to be to fit into one.

use super::key::{Key, Wanted};
use super::{Branch, CHILDREN_MAX, LEVEL_MAX};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::Address;

/// Words of a cache line.
pub(super) const LINE_WORDS: usize = 16;

/// Sizes and offsets within the frames of one cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    key_bytes: usize,
    pub(super) key_words: usize,
    pub(super) children_max: usize,
    /// The leftmost child of the right neighbour is behind the last child.
    pub(super) keeps_next: bool,
    pub(super) discriminator_lines: usize,
    pub(super) children_at: usize,
    pub(super) rests_at: usize,
    pub(super) fences_at: usize,
    pub(super) tails_at: usize,
    lines: usize,
}

impl Shape {
    pub(super) const fn new(key_bytes: usize, children_max: usize) -> Self {
        if key_bytes == 0 || key_bytes > KEY_BYTES_MAX || children_max == 0 || children_max > CHILDREN_MAX {
            return Self {
                key_bytes: 0,
                key_words: 2,
                children_max: 0,
                keeps_next: false,
                discriminator_lines: 0,
                children_at: 0,
                rests_at: 0,
                fences_at: 0,
                tails_at: 0,
                lines: 0,
            };
        }
        let key_words = if key_bytes <= 8 { 2 } else { key_bytes.div_ceil(4) };
        let separators = children_max - 1;
        let discriminator_lines = separators.div_ceil(LINE_WORDS);
        let children_at = (1 + discriminator_lines) * LINE_WORDS;
        let rests_at = children_at + 2 * children_max;
        let fences_at = rests_at + separators;
        let tails_at = fences_at + if key_words > 2 { 2 * key_words } else { 0 };
        let words = tails_at + separators * (key_words - 2);
        let lines = words.div_ceil(LINE_WORDS);
        Self {
            key_bytes,
            key_words,
            children_max,
            keeps_next: false,
            discriminator_lines,
            children_at,
            rests_at,
            fences_at,
            tails_at,
            lines,
        }
    }

    pub(super) const fn is_usable(&self) -> bool {
        self.lines > 0
    }

    pub(super) const fn frame_lines(&self) -> usize {
        self.lines
    }

    pub(super) const fn frame_words(&self) -> usize {
        self.lines * LINE_WORDS
    }

    /// Whether keys have no tails.
    #[inline]
    pub(super) const fn is_short(&self) -> bool {
        self.key_words == 2
    }

    /// Checks that a node can be copied: it fits, and its keys ascend from fence to fence.
    pub(super) fn outline(&self, address: Address, branch: &impl Branch) -> Option<Outline> {
        let level = branch.level();
        let children = branch.children();
        let children_max = self.children_max - usize::from(self.keeps_next);
        if address.is_null() || !(1..=LEVEL_MAX).contains(&level) || !(1..=children_max).contains(&children) {
            return None;
        }
        let low = self.key(|out| branch.low(out));
        let mut bounded = false;
        let high = self.key(|out| bounded = branch.high(out));
        let mut before = low;
        for i in 1..children {
            let separator = self.key(|out| branch.separator(i, out));
            if separator <= before {
                return None;
            }
            before = separator;
        }
        if bounded && high <= before {
            return None;
        }
        if (0..children).any(|i| branch.child(i).is_null()) {
            return None;
        }
        let high = bounded.then_some(high);
        let prefix = high.map_or(0, |high| {
            let shared = low.0.iter().zip(&high.0).take_while(|(a, b)| a == b).count();
            // The number needs two words. Fences that differ do so within `key_words`.
            shared.min(self.key_words - 2)
        });
        let base = low.number(prefix);
        let span = match high {
            // The high fence is exclusive, and a short key has no tail that could make it otherwise.
            Some(high) if self.is_short() => high.number(prefix).wrapping_sub(base).wrapping_sub(1),
            Some(high) => high.number(prefix).wrapping_sub(base),
            None => u64::MAX - base,
        };
        let shift = 32u32.saturating_sub(span.leading_zeros());
        Some(Outline { address, level, children, low, high, prefix, base, span, shift })
    }

    /// A key that `write` puts into bytes of this shape's size.
    pub(super) fn key(&self, write: impl FnOnce(&mut [u8])) -> Key {
        let mut bytes = [0; KEY_BYTES_MAX];
        let Some(slot) = bytes.get_mut(..self.key_bytes) else { return Key::ZERO };
        write(slot);
        Key::new(slot)
    }
}

/// What the header of a copy says.
pub(super) struct Outline {
    pub(super) address: Address,
    pub(super) level: u8,
    pub(super) children: usize,
    pub(super) low: Key,
    pub(super) high: Option<Key>,
    pub(super) prefix: usize,
    pub(super) base: u64,
    pub(super) span: u64,
    pub(super) shift: u32,
}
