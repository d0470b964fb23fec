//! Owner tags: a compute node's name in the place of a node that nothing points to.

use crate::remote::lock_word::RowId;
use crate::remote::row::Member;

/// Bits a leaf has for a signature: the two bytes where inner nodes have their count, and what the flags leave of theirs.
pub const BITS: u32 = COUNT_BITS + 8 - FLAG_BITS;

pub(crate) const COUNT_BITS: u32 = 16;

/// The flags of a node's header take the low bits of their byte.
pub(crate) const FLAG_BITS: u32 = 2;

/// A compute node's name in a leaf: as many bits for its row as the pool's rows need, and in the others the low ones of its
/// incarnation: 15 of 16 in a pool of 128 rows. It lies within the first eight bytes of the node.
///
/// While the leaf is reachable it says who brought it into use, which matters to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerTag(pub(crate) u32);

const fn row_bits(row_count: u32) -> u32 {
    u32::BITS - row_count.saturating_sub(1).leading_zeros()
}

impl OwnerTag {
    /// That of `member` in a pool with `row_count` rows.
    pub const fn of(member: Member, row_count: u32) -> Self {
        let bits = row_bits(row_count);
        // At most 16 bits for the row, so some are left.
        Self((member.incarnation << bits | member.row.0 as u32) & ((1 << BITS) - 1))
    }

    /// Its row; row 0 = nobody signed.
    pub const fn row(self, row_count: u32) -> RowId {
        RowId((self.0 & ((1 << row_bits(row_count)) - 1)) as u16)
    }

    /// As much as it says of the incarnation.
    pub const fn incarnation(self, row_count: u32) -> u32 {
        self.0 >> row_bits(row_count)
    }

    /// Whether it is, as far as it goes, that of the tenant `incarnation` of its row.
    pub const fn names(self, incarnation: u32, row_count: u32) -> bool {
        let bits = row_bits(row_count);
        self.incarnation(row_count) == incarnation & ((1 << (BITS - bits)) - 1)
    }
}
