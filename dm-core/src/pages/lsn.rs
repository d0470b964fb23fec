//! Log sequence numbers.
//!
//! ```text
//!  63          36 35                        0
//! ┌──────────────┬───────────────────────────┐
//! │ epoch        │ line                      │   0 = nothing was logged
//! └──────────────┴───────────────────────────┘
//! ```

use crate::layout::fields::Field;
use crate::layout::record::{cut, mask};

/// Bits of a line number.
const LINE_BITS: u32 = 36;

/// Line numbers lie below this: 4 TiB of log. A compute node that has used them up renews its tenures.
pub const LINES_END: u64 = 1 << LINE_BITS;

/// Epochs are at most this.
pub const EPOCH_MAX: u32 = (1 << (64 - LINE_BITS)) - 1;

/// The place of a record in the history of its entry: the epoch of the tenure, and the record's first line in the
/// owner's ring. Numbers of one entry ascend as its changes were made, by any compute node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Lsn(u64);

impl Lsn {
    /// Before every record.
    pub const NONE: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 36, "line", "number of the record's first line in its ring"),
        Field::bits(0, 36, 28, "epoch", "of the tenure under which it was logged"),
    ];

    /// The record at `line`, below [`LINES_END`], of the tenure of `epoch`, at most [`EPOCH_MAX`].
    #[inline]
    pub const fn new(epoch: u32, line: u64) -> Self {
        Self((epoch as u64) << LINE_BITS | line & mask(LINE_BITS))
    }

    /// From its stored form.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Its stored form.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether this is [`Lsn::NONE`].
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The epoch.
    #[inline]
    pub const fn epoch(self) -> u32 {
        (self.0 >> LINE_BITS) as u32
    }

    /// The line number.
    #[inline]
    pub const fn line(self) -> u64 {
        cut(self.0, 0, LINE_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_tenures_come_later_whatever_their_lines() {
        let (last, first) = (Lsn::new(7, LINES_END - 1), Lsn::new(8, 0));
        assert!(last < first && Lsn::NONE < Lsn::new(0, 1));
        assert_eq!((last.epoch(), last.line()), (7, LINES_END - 1));
        assert_eq!(Lsn::from_bits(Lsn::new(EPOCH_MAX, 5).to_bits()), Lsn::new(EPOCH_MAX, 5));
    }
}
