//! Owner tags: which compute node the place of an unreachable leaf belongs to, written in the leaf itself.

use crate::btree::node::{COUNT_AT, FLAGS_AT, NodeFlags};
use crate::layout::{LINE_BYTES, stripes};
use crate::remote::owner_tag::{COUNT_BITS, FLAG_BITS, OwnerTag};

/// Bytes of a node that have the whole owner tag, and the version, generation and flags with it: one word.
pub(crate) const WORD_BYTES: usize = 8;

impl OwnerTag {
    /// The owner tag in an image of a leaf; any bytes give some tag.
    pub fn read(image: &[u8]) -> Self {
        let high = stripes::byte(image, FLAGS_AT) >> FLAG_BITS;
        Self(u32::from(high) << COUNT_BITS | u32::from(stripes::half(image, COUNT_AT)))
    }

    /// Writes the owner tag into an image of a leaf.
    pub fn write(self, image: &mut [u8]) {
        let flags = stripes::byte(image, FLAGS_AT) & NodeFlags::all().bits();
        stripes::write(image, FLAGS_AT, &[flags | ((self.0 >> COUNT_BITS) as u8) << FLAG_BITS]);
        stripes::write(image, COUNT_AT, &(self.0 as u16).to_le_bytes());
    }
}

// All of it, and all flags, in the first word of the first line; and the flags leave room for it.
static_assertions::const_assert!(stripes::stored_offset(COUNT_AT) + 2 <= WORD_BYTES);
static_assertions::const_assert!(stripes::stored_offset(FLAGS_AT) < WORD_BYTES && WORD_BYTES <= LINE_BYTES);
static_assertions::const_assert!(NodeFlags::all().bits() < 1 << FLAG_BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::node::Header;
    use crate::remote::lock_word::RowId;
    use crate::remote::row::Member;
    use crate::remote::row::{INCARNATION_MAX, ROW_COUNT_MAX};

    #[test]
    fn an_owner_tag_leaves_the_flags_alone_and_the_flags_the_owner_tag() {
        let mut image = [0; 128];
        let owner_tag = OwnerTag::of(Member { row: RowId(0x7b), incarnation: 0x7345, nonce: 1 }, 128);
        let mut header = Header::read(&image);
        header.flags = NodeFlags::UNBOUNDED;
        header.write(&mut image);
        owner_tag.write(&mut image);
        assert_eq!(OwnerTag::read(&image), owner_tag);
        assert_eq!(Header::read(&image).flags, NodeFlags::UNBOUNDED);
        header = Header::read(&image);
        header.flags = NodeFlags::RETIRED;
        header.write(&mut image);
        assert_eq!(OwnerTag::read(&image), owner_tag);
        assert_eq!((owner_tag.row(128), owner_tag.incarnation(128)), (RowId(0x7b), 0x7345));
        assert!(owner_tag.names(0x7345, 128) && owner_tag.names(0xf345, 128) && !owner_tag.names(0x7346, 128));
    }

    #[test]
    fn every_row_has_room_whatever_their_number() {
        for rows in [2, 3, 128, 129, ROW_COUNT_MAX] {
            let row = RowId((rows - 1) as u16);
            let owner_tag = OwnerTag::of(Member { row, incarnation: INCARNATION_MAX, nonce: 1 }, rows);
            assert_eq!(owner_tag.row(rows), row);
            assert!(owner_tag.names(INCARNATION_MAX, rows) && !owner_tag.names(INCARNATION_MAX - 1, rows));
        }
    }
}
