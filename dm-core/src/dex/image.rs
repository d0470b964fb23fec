//! Page images: what a flush was about to write, in front of its WRITE, where that may land in part.
//!
//! An image lies in a redo slot of the flushing lane, on the memory node of the page ([`crate::membership::redo`]): the
//! same area, slots and announcement. It is told from a redo record by the word 0, which no redo record has. It stays
//! until the flush has completed.
//!
//! **Which image a torn page gets.** Only the owner of an entry writes its leaves, and only a finder after a fence. So
//! the WRITE that tore a page is the last that was posted to it, its image was whole before the page's first line
//! changed, and nobody has written the page since. Images of one page in several slots, of several dead compute nodes,
//! have an order: by the epoch of the tenure under which they were written, since each change of an entry's owner raises
//! it; then by LSN. The greatest one is the last writer's. An LSN alone does not tell: a finder stamps pages with the LSNs
//! of records that it applies, and these may be below the LSN of a page that the dead owner had flushed when its last
//! records were not durable.
//!
//! **Whose place it is.** A place may have been freed and given to a leaf of another entry. So an image counts only for
//! its own entry, and only while the page's first line, which is never torn, has the image's generation.

use crate::layout::record::{Le32, Le64, record};
use crate::membership::redo::{self, HEADER_BYTES};
use crate::pages::lsn::Lsn;
use crate::remote::address::Address;
use static_assertions::const_assert_eq;
use zerocopy::IntoBytes;

record! {
    /// The header of a page image as stored; the page's bytes follow.
    pub struct PageImageHeader {
        checksum: Le32 = "CRC-32C of the header behind it and of the bytes",
        bytes: Le32 = "length of the page",
        word: Le64 = "zero: no redo record of a WRITE under a lock",
        address: Le64 = "of the page, with its generation",
        lsn: Le64 = "of the page: dex_lsn",
        entry: Le32 = "entry of the ownership table to which the page belongs",
        epoch: Le32 = "epoch of the entry's word when the flush was posted",
        incarnation: Le32 = "incarnation of the row whose slot this is",
        reserved_44: [u8; 20] = "zero",
    }
}
const_assert_eq!(PageImageHeader::BYTES, HEADER_BYTES);

/// What an image says, beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageImage {
    /// The page.
    pub address: Address,
    /// Its LSN.
    pub lsn: Lsn,
    /// Its entry of the ownership table.
    pub entry: u32,
    /// The epoch of the entry's word when the flush was posted.
    pub epoch: u32,
}

impl PageImage {
    /// Completes an image: `slot` is room for the header, with the page's bytes behind it. `incarnation` is that of the
    /// row whose slot it will be.
    pub fn seal(&self, incarnation: u32, slot: &mut [u8]) {
        let Some((place, page)) = slot.split_at_mut_checked(HEADER_BYTES) else { return };
        let header = PageImageHeader {
            bytes: (page.len() as u32).into(),
            address: self.address.to_bits().into(),
            lsn: self.lsn.to_bits().into(),
            entry: self.entry.into(),
            epoch: self.epoch.into(),
            incarnation: incarnation.into(),
            ..PageImageHeader::ZERO
        };
        place.copy_from_slice(header.as_bytes());
        let checksum = redo::checksum(slot);
        if let Some(place) = slot.first_chunk_mut() {
            *place = checksum.to_le_bytes();
        }
    }

    /// What a slot of a row of `incarnation` says, if the header could be an image's. The bytes are not looked at.
    pub fn peek(slot: &[u8], incarnation: u32) -> Option<(Self, usize)> {
        let header = PageImageHeader::from_prefix(slot)?;
        let is_image = header.word.get() == 0 && header.incarnation.get() == incarnation && header.bytes.get() > 0;
        is_image.then(|| {
            let image = Self {
                address: Address::from_bits(header.address.get()),
                lsn: Lsn::from_bits(header.lsn.get()),
                entry: header.entry.get(),
                epoch: header.epoch.get(),
            };
            (image, header.bytes.get() as usize)
        })
    }

    /// Reads a whole image of a page of `page_bytes` bytes from a slot. `None`: there is none, or it is not complete.
    pub fn read(slot: &[u8], incarnation: u32, page_bytes: usize) -> Option<(Self, &[u8])> {
        let (image, bytes) = Self::peek(slot, incarnation).filter(|(_, bytes)| *bytes == page_bytes)?;
        let whole = slot.get(..HEADER_BYTES.checked_add(bytes)?)?;
        let header = PageImageHeader::from_prefix(whole)?;
        (redo::checksum(whole) == header.checksum.get()).then(|| (image, &whole[HEADER_BYTES..]))
    }

    /// Whether it may be what a torn page of `entry` at `page` should have been. `page` has the generation that the
    /// page's first line says.
    pub fn is_of(&self, entry: u32, page: Address) -> bool {
        self.entry == entry && self.address == page
    }

    /// Whether it was written after `other`, which is of the same page.
    pub fn is_later_than(&self, other: &Self) -> bool {
        (self.epoch, self.lsn) > (other.epoch, other.lsn)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::verbs::NodeId;
    use std::vec;

    const PAGE: Address = Address::new(NodeId(1), 0x1_2340, 5);
    const IMAGE: PageImage = PageImage { address: PAGE, lsn: Lsn::new(7, 100), entry: 3, epoch: 7 };

    #[test]
    fn only_a_whole_image_of_this_life_is_read() {
        let mut slot = vec![0; HEADER_BYTES];
        slot.extend([0x5a; 200]);
        IMAGE.seal(4, &mut slot);
        assert_eq!(PageImage::read(&slot, 4, 200), Some((IMAGE, &[0x5a; 200][..])));
        assert_eq!(PageImage::read(&slot, 5, 200), None);
        assert_eq!(PageImage::read(&slot, 4, 136), None, "a page of another length");
        for bit in 0..slot.len() * 8 {
            let mut damaged = slot.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(PageImage::read(&damaged, 4, 200), None, "bit {bit}");
        }
        assert_eq!(PageImage::read(&slot[..263], 4, 200), None);
        assert_eq!(PageImage::peek(&[0; HEADER_BYTES], 0), None, "a slot that was never written");
    }

    #[test]
    fn the_last_writer_counts_and_not_the_greatest_lsn() {
        // The dead owner had flushed what was not durable; the finder applied what was, and split the page.
        let of_finder = PageImage { lsn: Lsn::new(7, 90), epoch: 8, ..IMAGE };
        assert!(of_finder.is_later_than(&IMAGE) && !IMAGE.is_later_than(&of_finder));
        assert!(PageImage { lsn: Lsn::new(7, 101), ..IMAGE }.is_later_than(&IMAGE));
        assert!(IMAGE.is_of(3, PAGE) && !IMAGE.is_of(4, PAGE));
        assert!(!IMAGE.is_of(3, PAGE.next_generation()), "the place of another leaf by now");
    }
}
