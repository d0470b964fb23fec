//! Lock words and lock tables.
//!
//! ```text
//!  63                               32 31            16 15             0
//! ┌───────────────────────────────────┬────────────────┬────────────────┐
//! │ tag: which node it is held for    │ turn           │ row of holder  │   0 = free
//! └───────────────────────────────────┴────────────────┴────────────────┘
//! ```
//!
//! Every memory node has a table of such words, in device memory where its NIC has some (Sherman section 4.3), else in
//! host memory; a node is protected by the word its offset hashes to, on its own memory node.
//!
//! The *row* names the compute node (rows start at 1). The *turn* is a counter of the holder and tells two
//! acquisitions of one compute node apart, so that a waiter can see progress and a release (a CAS of the whole word)
//! cannot free a later acquisition. The *tag* is the low half of the protected node's offset / 64: when one word
//! covers many nodes it says which of them a dead holder was about to change.

use crate::lane::LockId;
use crate::layout::fields::Field;
use crate::remote::address::Address;

/// Number of a compute-node row; 0 is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowId(pub u16);

/// A lock word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LockWord(pub u64);

impl LockWord {
    /// Nobody holds it.
    pub const FREE: Self = Self(0);

    /// The fields, for the goldens.
    pub const FIELDS: &'static [Field] = &[
        Field::bits(0, 0, 16, "row", "compute-node row of the holder; 0 = free"),
        Field::bits(0, 16, 16, "turn", "the holder's acquisition counter"),
        Field::bits(0, 32, 32, "tag", "bits 6..=37 of the protected node's offset"),
    ];

    /// The word by which `row` holds the lock of `protects`.
    #[inline]
    pub const fn held(row: RowId, turn: u16, protects: Address) -> Self {
        Self((protects.offset() >> 6 & 0xffff_ffff) << 32 | (turn as u64) << 16 | row.0 as u64)
    }

    /// Whether nobody holds it.
    #[inline]
    pub const fn is_free(self) -> bool {
        self.0 == 0
    }

    /// The holder.
    #[inline]
    pub const fn row(self) -> RowId {
        RowId(self.0 as u16)
    }

    /// The holder's acquisition counter.
    #[inline]
    pub const fn turn(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Bits 6..=37 of the protected node's offset.
    #[inline]
    pub const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The lock that protects `address`, in a table of `locks` words (not 0): a multiplicative hash of its offset / 64
/// (Knuth, The Art of Computer Programming vol. 3, section 6.4), scaled to the table without division.
#[inline]
pub const fn lock_of(address: Address, locks: u32) -> LockId {
    let hash = (address.offset() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    LockId { node: address.node(), index: ((hash * locks as u64) >> 32) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::NodeId;

    #[test]
    fn a_held_word_names_its_holder_and_node() {
        let node = Address::new(NodeId(3), 0x1_2345_6780, 5);
        let word = LockWord::held(RowId(9), 0xbeef, node);
        assert_eq!((word.row(), word.turn(), word.tag()), (RowId(9), 0xbeef, 0x048d_159e));
        assert!(!word.is_free());
    }

    #[test]
    fn the_generation_does_not_move_the_lock() {
        let node = Address::new(NodeId(0), 0x4_0000, 1);
        assert_eq!(lock_of(node, 1000), lock_of(node.next_generation(), 1000));
        assert!(lock_of(node, 1).index == 0);
    }
}
