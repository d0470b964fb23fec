//! Leaves of DEX: those of Sherman, with an LSN behind the fences.
//!
//! ```text
//!  0        14+2K   22+2K
//! ┌────────┬───────┬──────────────────┬──
//! │ header │ LSN   │ control of entry 0 │ key │ value │ ...
//! └────────┴───────┴──────────────────┴──
//! ```
//!
//! The LSN is that of the newest record that the leaf has: replay skips the records that are not above it. It is looked
//! at in leaves that are whole only, so it need not be in the first line.
//!
//! **Versions.** The node version differs from one WRITE of a leaf to the next, so that a page of two WRITEs shows. Only the
//! owner WRITEs a leaf. The owner READs it when no WRITE of it is under way, and a finder does so after the owner's WRITEs
//! have ended. So neither of them takes a version that has come round for an old one. A memory node that answers a call
//! copies a leaf while its owner WRITEs it: it trusts a copy only if that took too little time for versions to come round
//! ([`walk`](super::offload::walk)).

use crate::btree::node::{self, FenceCheck, Wanted};
use crate::error::DecodeError;
use crate::layout::fields::Field;
use crate::layout::stripes::{self, Bytes, BytesMut, Cursor};
use crate::pages::lsn::Lsn;

pub use crate::sherman::{
    layout::{Leaf, LeafMut, LeafShape, SPAN_MAX, SPAN_MIN},
    split::split_images,
};

/// Payload bytes of the LSN.
pub const LSN_BYTES: usize = 8;

/// The field behind the header of a leaf with keys of 8 bytes, for the goldens.
pub const FIELDS: &[Field] =
    &[Field::bytes(node::header_bytes(8), LSN_BYTES, "lsn", "of the newest record that the leaf has: dex_lsn")];

/// Shape of leaves with `span` entries.
pub const fn shape(key_bytes: usize, value_bytes: usize, span: usize) -> LeafShape {
    LeafShape::with_extension(key_bytes, value_bytes, span, LSN_BYTES)
}

/// Payload offset of the LSN.
#[inline]
const fn lsn_at(shape: &LeafShape) -> usize {
    shape.first - LSN_BYTES
}

/// The LSN of a leaf.
#[inline]
pub fn lsn(shape: &LeafShape, image: impl Bytes) -> Lsn {
    Lsn::from_bits(Cursor::at(lsn_at(shape)).word(image))
}

/// Stamps a leaf with an LSN.
#[inline]
pub fn stamp<B: BytesMut + ?Sized>(shape: &LeafShape, image: &mut B, lsn: Lsn) {
    stripes::write_to(image, lsn_at(shape), &lsn.to_bits().to_le_bytes());
}

/// Where the leaf in a frame stands to `key`. It is of one instant, and it was judged when it came into the frame.
#[inline]
pub(super) fn judge_cached(image: impl Bytes, wanted: &Wanted, key: &[u8]) -> Result<FenceCheck, DecodeError> {
    node::judge_with(image, wanted, key, || Ok(()))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    #[test]
    fn the_lsn_lies_between_the_fences_and_the_entries() {
        for (key_bytes, value_bytes) in [(8, 8), (24, 9), (64, 1024)] {
            let shape = shape(key_bytes, value_bytes, 5);
            let mut image = vec![0; shape.bytes];
            let (low, high) = (vec![0x11; key_bytes], vec![0x22; key_bytes]);
            let header = node::Header::read(&image);
            node::start(&mut image, &header, &low, Some(&high));
            let lsn_of = Lsn::new(0xfff_ffff, 0xf_ffff_ffff);
            for slot in 0..5 {
                LeafMut::new(&shape, &mut image).put(slot, &vec![slot as u8; key_bytes], &vec![0xee; value_bytes]);
            }
            stamp(&shape, &mut *image, lsn_of);
            assert_eq!(lsn(&shape, &*image), lsn_of);
            let mut found = vec![0; key_bytes];
            assert!(node::read_high(&image, &mut found) && found == high);
            assert!((0..5).all(|slot| Leaf::new(&shape, &image).find(&vec![slot as u8; key_bytes]) == Ok(Some(slot))));
            assert_eq!(Leaf::new(&shape, &image).records(), 5);
        }
    }
}
