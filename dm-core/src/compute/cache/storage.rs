//! How the words that the host provides are divided into frames, hint blocks and the table.

use super::shape::{LINE_WORDS, Shape};

/// A frame's number plus one fits into a word.
const FRAMES_MAX: usize = u32::MAX as usize - 1;

/// How storage of a given size is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Number of frames.
    pub(super) frames: usize,
    /// Number of hint blocks.
    pub(super) blocks: usize,
    /// Chain heads of the table.
    pub(super) buckets: usize,
}

impl Plan {
    /// Storage in which not even one frame fits.
    pub(super) const NONE: Self = Self { frames: 0, blocks: 0, buckets: 0 };

    pub(super) const BUCKETS_PER_FRAME: usize = 2;

    /// Most words that alignment can cost.
    pub(super) const ALIGN_WORDS: usize = LINE_WORDS - 1;

    /// Frames per hint block. There is one copy above level 1 for as many copies as a node has children, and nodes
    /// are at least about half full. Twice that number leaves room for a cache that has more of the upper levels than
    /// of level 1.
    pub(super) const fn frames_per_block(shape: &Shape) -> usize {
        let quarter = shape.children_max / 4;
        if quarter == 0 { 1 } else { quarter }
    }

    /// A link of the free list, then one hint per child. The link is a word of its own, since readers store hints at
    /// any time.
    pub(super) const fn block_words(shape: &Shape) -> usize {
        1 + shape.children_max
    }

    /// Words that this takes.
    pub(super) const fn words(self, shape: &Shape) -> usize {
        Self::ALIGN_WORDS + self.frames * shape.frame_words() + self.blocks * Self::block_words(shape) + self.buckets
    }

    /// With so many frames.
    pub(super) const fn with(frames: usize, shape: &Shape) -> Self {
        Self {
            frames,
            blocks: frames.div_ceil(Self::frames_per_block(shape)),
            buckets: frames * Self::BUCKETS_PER_FRAME,
        }
    }

    /// As many frames as fit into `words` words.
    pub(super) const fn of(words: usize, shape: &Shape) -> Self {
        if !shape.is_usable() || words < Self::ALIGN_WORDS {
            return Self::NONE;
        }
        // An upper bound without the hints, which then goes down by what the hints need.
        let each = shape.frame_words() + Self::BUCKETS_PER_FRAME;
        let per_block = Self::frames_per_block(shape);
        let block = Self::block_words(shape);
        let run = each * per_block + block;
        let room = words - Self::ALIGN_WORDS;
        let full = room / run;
        let rest = room % run;
        let extra = if rest > block { (rest - block) / each } else { 0 };
        let mut frames = full * per_block + extra;
        if frames > FRAMES_MAX {
            frames = FRAMES_MAX;
        }
        if frames == 0 { Self::NONE } else { Self::with(frames, shape) }
    }
}
