//! Numbers of layers: no two layers of an index ever have the same one.
//!
//! ```text
//!  63            48 47            32 31                              0
//! ┌────────────────┬────────────────┬─────────────────────────────────┐
//! │ row            │ incarnation    │ count                           │   0 = the root layer
//! └────────────────┴────────────────┴─────────────────────────────────┘
//! ```
//!
//! A compute node counts the layers that it makes, in whichever index and however often it opens that index. So the
//! count belongs to the compute node, not to one opening ([`LayerNumbers`]). Incarnations have 16 bits
//! ([`INCARNATION_MAX`]): a row that has been joined so often is not joined again. After 2^32 layers a compute node
//! makes no more, and has to join anew.

use crate::remote::row::{INCARNATION_MAX, Member};
use core::sync::atomic::{AtomicU32, Ordering};
use static_assertions::const_assert;

const_assert!(INCARNATION_MAX <= 0xffff);

/// Counts the layers that one compute node makes in one incarnation, in all its indexes; shared by its lanes.
#[derive(Debug, Default)]
pub struct LayerNumbers(AtomicU32);

impl LayerNumbers {
    /// Begins at 0.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The number of a new layer that compute node `maker` makes. `None` when its numbers are used up.
    pub(crate) fn next(&self, maker: Member) -> Option<u64> {
        let next = |count: u32| count.checked_add(1);
        let count = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(u64::from(maker.row.0) << 48 | u64::from(maker.incarnation & INCARNATION_MAX) << 32 | u64::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::lock_word::RowId;

    #[test]
    fn numbers_name_their_maker_and_end() {
        let maker = Member { row: RowId(3), incarnation: INCARNATION_MAX, nonce: 1 };
        let layers = LayerNumbers(AtomicU32::new(u32::MAX - 2));
        assert_eq!(layers.next(maker), Some(0x0003_ffff_ffff_fffd));
        assert_eq!(layers.next(maker), Some(0x0003_ffff_ffff_fffe));
        assert_eq!(layers.next(maker), None, "no number comes twice");
        assert_eq!(layers.next(maker), None);
    }
}
