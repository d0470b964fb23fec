//! Where the cells of a leaf lie.
//!
//! A leaf has 1024 bytes whatever the sizes of keys and values: a head of one line, or of two if keys are longer than
//! 32 bytes, and lines with cells. No line cuts a cell. First come the lines with key cells, as many to a line as fit.
//! Value cells fill what these lines leave, and the lines behind.
//!
//! ```text
//!  keys of 8, values of 8: 60 records              keys of 32, values of 8: 24 records
//!  line 0      head                                line 0       head
//!  line 1..7   8 keys each                         line 1..12   2 keys each
//!  line 8      4 keys, 4 values                    line 13..15  8 values each
//!  line 9..15  8 values each
//! ```

use crate::layout::LINE_BYTES;
use crate::registry::{KEY_BYTES_MAX, KEY_BYTES_MIN, VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use core::ops::Range;

/// Bytes of a leaf.
pub const LEAF_BYTES: usize = 1024;

/// Records a leaf can have at most: with the shortest keys and values.
pub const SPAN_MAX: usize = LeafShape::with_sizes(KEY_BYTES_MIN, VALUE_BYTES_MIN).span;

/// Bytes of a prefix in the head's first line.
pub const PREFIX_BYTES: usize = 31;

/// How a leaf has its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A word. One value, the leaf's own, means that the record is absent.
    Word,
    /// A state byte and the value, within one line.
    Inline,
    /// A word that names a block elsewhere; 0 means that the record is absent.
    Block,
}

/// Sizes of an index's leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafShape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How it has its values.
    pub kind: ValueKind,
    /// Bytes of the head.
    pub head_bytes: usize,
    /// Records it has room for.
    pub span: usize,
    /// Where key cells and value cells are: divisions take longer than everything else that a look at a cell does.
    keys_at: [u16; CELLS_MAX],
    values_at: [u16; CELLS_MAX],
}

/// More cells than any leaf has.
const CELLS_MAX: usize = LEAF_BYTES / (KEY_BYTES_MIN + VALUE_BYTES_MIN);

impl LeafShape {
    /// The shape for such keys and values. `None`: an index does not take these sizes.
    pub const fn new(key_bytes: usize, value_bytes: usize) -> Option<Self> {
        if key_bytes < KEY_BYTES_MIN
            || key_bytes > KEY_BYTES_MAX
            || value_bytes < VALUE_BYTES_MIN
            || value_bytes > VALUE_BYTES_MAX
        {
            return None;
        }
        Some(Self::with_sizes(key_bytes, value_bytes))
    }

    /// Sizes within the limits.
    const fn with_sizes(key_bytes: usize, value_bytes: usize) -> Self {
        let kind = match value_bytes {
            8 => ValueKind::Word,
            9..LINE_BYTES => ValueKind::Inline,
            _ => ValueKind::Block,
        };
        // The prefix of a leaf is shorter than its keys.
        let head_bytes = if key_bytes <= PREFIX_BYTES + 1 { LINE_BYTES } else { 2 * LINE_BYTES };
        let nowhere = [LEAF_BYTES as u16; CELLS_MAX];
        let mut shape =
            Self { key_bytes, value_bytes, kind, head_bytes, span: 0, keys_at: nowhere, values_at: nowhere };
        let mut span = 1;
        while span <= LEAF_BYTES / KEY_BYTES_MIN {
            if shape.lines_for(span) * LINE_BYTES <= LEAF_BYTES - head_bytes {
                shape.span = span;
            }
            span += 1;
        }
        let (mut cell, mut keys_at, mut values_at) = (0, nowhere, nowhere);
        let (mut keys, mut values) = (keys_at.as_mut_slice(), values_at.as_mut_slice());
        while cell < shape.span
            && let (Some((key, more_keys)), Some((value, more_values))) =
                (keys.split_first_mut(), values.split_first_mut())
        {
            (*key, *value) = (shape.place_of_key(cell) as u16, shape.place_of_value(cell) as u16);
            (keys, values, cell) = (more_keys, more_values, cell + 1);
        }
        (shape.keys_at, shape.values_at) = (keys_at, values_at);
        shape
    }

    /// Bytes of a value cell.
    #[inline]
    pub const fn cell_bytes(&self) -> usize {
        match self.kind {
            ValueKind::Word | ValueKind::Block => 8,
            ValueKind::Inline => 1 + self.value_bytes,
        }
    }

    const fn keys_per_line(&self) -> usize {
        LINE_BYTES / self.key_bytes
    }

    /// Where value cells begin in a line with so many key cells. Words are aligned.
    const fn values_begin(&self, keys: usize) -> usize {
        match self.kind {
            ValueKind::Word | ValueKind::Block => (keys * self.key_bytes).next_multiple_of(8),
            ValueKind::Inline => keys * self.key_bytes,
        }
    }

    /// Value cells in a line with so many key cells.
    const fn values_beside(&self, keys: usize) -> usize {
        (LINE_BYTES - self.values_begin(keys)) / self.cell_bytes()
    }

    /// Lines that so many records take.
    const fn lines_for(&self, span: usize) -> usize {
        let (full, rest) = (span / self.keys_per_line(), span % self.keys_per_line());
        let mut beside = full * self.values_beside(self.keys_per_line());
        let mut lines = full;
        if rest > 0 {
            beside += self.values_beside(rest);
            lines += 1;
        }
        lines + span.saturating_sub(beside).div_ceil(self.values_beside(0))
    }

    /// Where key cell `cell` is; behind the leaf if it has no such cell.
    #[inline]
    pub fn key_at(&self, cell: usize) -> usize {
        self.keys_at.get(cell).map_or(LEAF_BYTES, |at| usize::from(*at))
    }

    /// Where value cell `cell` is; behind the leaf if it has no such cell.
    #[inline]
    pub fn value_at(&self, cell: usize) -> usize {
        self.values_at.get(cell).map_or(LEAF_BYTES, |at| usize::from(*at))
    }

    const fn place_of_key(&self, cell: usize) -> usize {
        let keys = self.keys_per_line();
        self.head_bytes + cell / keys * LINE_BYTES + cell % keys * self.key_bytes
    }

    const fn place_of_value(&self, cell: usize) -> usize {
        let keys = self.keys_per_line();
        let (full, rest) = (self.span / keys, self.span % keys);
        // Beside the keys of full lines, beside those of the last one, behind them.
        let (mut cell, mut line, mut in_line) = (cell, 0, keys);
        let beside_full = full * self.values_beside(keys);
        if cell >= beside_full {
            (cell, line, in_line) = (cell - beside_full, full, rest);
            let beside_rest = if rest > 0 { self.values_beside(rest) } else { 0 };
            if cell >= beside_rest {
                (cell, line, in_line) = (cell - beside_rest, if rest > 0 { full + 1 } else { full }, 0);
            }
        }
        let beside = self.values_beside(in_line);
        let (line, cell) = (line + cell / beside, cell % beside);
        self.head_bytes + line * LINE_BYTES + self.values_begin(in_line) + cell * self.cell_bytes()
    }

    /// What a WRITE of key cell `cell` covers.
    #[inline]
    pub fn key_write(&self, cell: usize) -> Range<usize> {
        let at = self.key_at(cell);
        at..at + self.key_bytes
    }

    /// What a WRITE of value cell `cell` covers.
    #[inline]
    pub fn value_write(&self, cell: usize) -> Range<usize> {
        let at = self.value_at(cell);
        at..at + self.cell_bytes()
    }

    /// Where the bytes of the value in cell `cell` are, if the leaf has values itself.
    #[inline]
    pub fn content_of(&self, cell: usize) -> Range<usize> {
        let at = self.value_at(cell) + self.cell_bytes() - self.value_bytes_here();
        at..at + self.value_bytes_here()
    }

    const fn value_bytes_here(&self) -> usize {
        match self.kind {
            ValueKind::Block => 8,
            ValueKind::Word | ValueKind::Inline => self.value_bytes,
        }
    }
}
