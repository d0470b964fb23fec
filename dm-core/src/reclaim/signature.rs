//! Whose the place of a leaf is that nothing points to: a name in the leaf itself.

use crate::btree::node::{COUNT_AT, FLAGS_AT, NodeFlags};
use crate::layout::stripes;
use crate::remote::address::LINE_BYTES;
use crate::remote::lock_word::RowId;
use crate::remote::rows::Member;

/// Bits of an incarnation that a signature has room for.
pub const INCARNATION_BITS: u32 = 6;

/// The flags of a node's header take the low bits of their byte.
const FLAG_BITS: u32 = 8 - INCARNATION_BITS;

/// Bytes of a node that have the whole signature, and the version, generation and flags with it: one word.
pub const WORD_BYTES: usize = 8;

/// A compute node's name in a leaf. It lies where inner nodes have their count, and in the bits of the flags that are no
/// flags, so within the first eight bytes of the node.
///
/// While the leaf is reachable it says who brought it into use, which matters to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its row; row 0 = nobody signed.
    pub row: RowId,
    /// Low bits of its incarnation.
    pub incarnation: u8,
}

impl Signature {
    /// That of `member`.
    pub const fn of(member: Member) -> Self {
        Self { row: member.row, incarnation: member.incarnation as u8 & ((1 << INCARNATION_BITS) - 1) }
    }

    /// Whether it is, as far as it goes, that of the tenant `incarnation` of its row.
    pub const fn names(self, incarnation: u32) -> bool {
        self.incarnation as u32 == incarnation & ((1 << INCARNATION_BITS) - 1)
    }

    /// What an image of a leaf says; any bytes say something.
    pub fn read(image: &[u8]) -> Self {
        Self { row: RowId(stripes::half(image, COUNT_AT)), incarnation: stripes::byte(image, FLAGS_AT) >> FLAG_BITS }
    }

    /// Signs an image of a leaf.
    pub fn write(self, image: &mut [u8]) {
        let flags = stripes::byte(image, FLAGS_AT) & NodeFlags::all().bits();
        stripes::write(image, FLAGS_AT, &[flags | self.incarnation << FLAG_BITS]);
        stripes::write(image, COUNT_AT, &self.row.0.to_le_bytes());
    }
}

// All of it, and all flags, in the first word of the first line; and the flags leave the room.
static_assertions::const_assert!(stripes::stored_offset(COUNT_AT) + 2 <= WORD_BYTES);
static_assertions::const_assert!(stripes::stored_offset(FLAGS_AT) < WORD_BYTES && WORD_BYTES <= LINE_BYTES);
static_assertions::const_assert!(NodeFlags::all().bits() < 1 << FLAG_BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::node::Header;

    #[test]
    fn a_signature_leaves_the_flags_alone_and_the_flags_the_signature() {
        let mut image = [0; 128];
        let signature = Signature::of(Member { row: RowId(0xabcd), incarnation: 0x1_2345, nonce: 1 });
        let mut header = Header::read(&image);
        header.flags = NodeFlags::UNBOUNDED;
        header.write(&mut image);
        signature.write(&mut image);
        assert_eq!(Signature::read(&image), signature);
        assert_eq!(Header::read(&image).flags, NodeFlags::UNBOUNDED);
        header = Header::read(&image);
        header.flags = NodeFlags::RETIRED;
        header.write(&mut image);
        assert_eq!(Signature::read(&image), signature);
        assert!(signature.names(0x2_2345) && !signature.names(0x1_2346));
        Signature { row: RowId(1), incarnation: 0 }.write(&mut image);
        assert_eq!((Header::read(&image).flags, Header::read(&image).count), (NodeFlags::RETIRED, 1));
    }
}
