//! Lock words and lock tables.
//!
//! ```text
//!  63                                            16 15             0
//! ┌────────────────────────────────────────────────┬────────────────┐
//! │ sequence                                       │ row of holder  │   0 = free
//! └────────────────────────────────────────────────┴────────────────┘
//! ```
//!
//! Every memory node has a table of lock words. It is in device memory if the NIC has some (Sherman section 4.3), and
//! in host memory otherwise. A node is protected by the word to which its offset hashes, on its own memory node.
//!
//! The *row* names the compute node; rows start at 1. The *sequence* is a number that the holder uses for one
//! acquisition only. So a waiter can see progress. A release, which is a CAS of the whole word, cannot free a later
//! acquisition. And the word alone leads to what a dead holder was about to write ([`crate::recovery`]), however many
//! nodes the word covers.
//!
//! A lock word may be in the node that it protects instead (CHIME), and carry other information while it is free. Then
//! the bit [`HELD`] says whether it is held, and the sequence has 47 bits.

use crate::layout::fields::Field;
use crate::remote::address::Address;
use crate::verbs::NodeId;

/// Number of a compute-node row; 0 is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowId(pub u16);

/// Set in a word that is in its node, while a lane holds it.
pub const HELD: u64 = 1 << 63;

/// Sequences of one incarnation: 48 bits.
pub const SEQUENCES_MAX: u64 = 1 << 48;

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
        Field::bits(0, 16, 48, "sequence", "the holder's acquisitions, counted; none twice in one incarnation"),
    ];

    /// The word of `row`'s acquisition `sequence`. `None` from [`SEQUENCES_MAX`] on.
    #[inline]
    pub const fn new(row: RowId, sequence: u64) -> Option<Self> {
        if sequence < SEQUENCES_MAX { Some(Self(sequence << 16 | row.0 as u64)) } else { None }
    }

    /// The same acquisition, as the word of a lock that is in its node. `None`: the sequence does not fit beside
    /// [`HELD`].
    #[inline]
    pub const fn in_node(self) -> Option<Self> {
        if self.0 & HELD == 0 { Some(Self(self.0 | HELD)) } else { None }
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

    /// The sequence of the holder's acquisition.
    #[inline]
    pub const fn sequence(self) -> u64 {
        self.0 >> 16
    }
}

/// The lock that protects `address`, in a table of `locks` words (not 0): a multiplicative hash of its offset / 64
/// (Knuth, The Art of Computer Programming vol. 3, section 6.4), scaled to the table without a division.
#[inline]
pub const fn lock_of(address: Address, locks: u32) -> LockId {
    let hash = (address.offset() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    LockId { node: address.node(), index: ((hash * locks as u64) >> 32) as u32 }
}

/// The place of a lock word: memory node, and index in its lock table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    /// The memory node.
    pub node: NodeId,
    /// Index of the word in that node's table.
    pub index: u32,
}

impl LockId {
    /// Set in the index of a lock whose word is in the node that it protects. The other bits are then its place in
    /// the index's own local table, and [`LockRecord::protects`](crate::lane::LockRecord::protects) says where the
    /// word is.
    pub(crate) const IN_NODE: u32 = 1 << 31;

    /// Whether the word is in the node that it protects.
    #[inline]
    pub const fn in_node(self) -> bool {
        self.index & Self::IN_NODE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::NodeId;

    #[test]
    fn a_held_word_names_its_holder_and_one_acquisition() {
        let word = LockWord::new(RowId(9), 0xbeef_1234).unwrap();
        assert_eq!((word.row(), word.sequence()), (RowId(9), 0xbeef_1234));
        assert!(!word.is_free());
        assert_eq!(LockWord::new(RowId(9), SEQUENCES_MAX), None, "it would be mistaken for sequence 0");
        let in_node = word.in_node().unwrap();
        assert_eq!((in_node.0 & HELD, in_node.row()), (HELD, RowId(9)));
        assert_eq!(LockWord::new(RowId(9), SEQUENCES_MAX / 2).unwrap().in_node(), None);
    }

    #[test]
    fn the_generation_does_not_move_the_lock() {
        let node = Address::new(NodeId(0), 0x4_0000, 1);
        assert_eq!(lock_of(node, 1000), lock_of(node.next_generation(), 1000));
        assert!(lock_of(node, 1).index == 0);
    }
}
