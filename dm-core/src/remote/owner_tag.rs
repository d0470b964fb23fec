//! Owner tags: the name of a compute node in the place of a node to which nothing points.

use crate::remote::lock_word::RowId;
use crate::remote::row::Member;

/// Bits of an owner tag in a leaf: the two bytes where inner nodes have their count, and the bits that the flags
/// leave of their byte.
pub const BITS: u32 = COUNT_BITS + 8 - FLAG_BITS;

pub(crate) const COUNT_BITS: u32 = 16;

/// The flags of a node's header take the low bits of their byte.
pub(crate) const FLAG_BITS: u32 = 2;

/// The name of a compute node in a leaf: as many bits for its row as the pool's rows need, and the low bits of its
/// incarnation in the others. In a pool of 128 rows these are 15 of 16. The tag is within the first eight bytes of
/// the node.
///
/// While the leaf is reachable the tag says which compute node brought it into use, and nobody needs that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerTag(pub(crate) u32);

const fn row_bits(row_count: u32) -> u32 {
    u32::BITS - row_count.saturating_sub(1).leading_zeros()
}

impl OwnerTag {
    /// The tag of `member` in a pool with `row_count` rows.
    pub const fn of(member: Member, row_count: u32) -> Self {
        let bits = row_bits(row_count);
        // The row takes at most 16 bits, so some bits are left.
        Self((member.incarnation << bits | member.row.0 as u32) & ((1 << BITS) - 1))
    }

    /// Its row; row 0 = no owner.
    pub const fn row(self, row_count: u32) -> RowId {
        RowId((self.0 & ((1 << row_bits(row_count)) - 1)) as u16)
    }

    /// The bits of the incarnation that it has.
    pub const fn incarnation(self, row_count: u32) -> u32 {
        self.0 >> row_bits(row_count)
    }

    /// Whether it may be the tag of incarnation `incarnation` of its row, as far as its bits go.
    pub const fn names(self, incarnation: u32, row_count: u32) -> bool {
        let bits = row_bits(row_count);
        self.incarnation(row_count) == incarnation & ((1 << (BITS - bits)) - 1)
    }
}
