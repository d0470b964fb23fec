//! What every node of a B+-tree has: a header with fences, and how a reader judges an image.
//!
//! Payload of a node (striped, see [`crate::layout::stripes`]); `K` = key bytes:
//!
//! ```text
//!  0           1      2      3      4      6        14     14+K    14+2K
//! ┌───────────┬──────┬──────┬──────┬──────┬────────┬──────┬───────┬──────────────────
//! │generation │level │index │flags │count │sibling │ low  │ high  │ extension, entries
//! └───────────┴──────┴──────┴──────┴──────┴────────┴──────┴───────┴──────────────────
//! ```
//!
//! The fixed part and `low` of 8-byte keys lie in the node's first line.

use crate::error::DecodeError;
use crate::layout::fields::Field;
use crate::layout::stripes::{self, Bytes, Cursor};
use crate::mutants::{Mutant, planted};
use crate::remote::address::{Address, GENERATION_MASK};
use crate::remote::owner_tag::OwnerTag;
use bitflags::bitflags;
use core::cmp::Ordering;

/// Payload offset of the generation.
pub(crate) const GENERATION_AT: usize = 0;
/// In the byte of the generation: see [`FIELDS`].
const MOVED_BIT: u8 = 1 << 6;
/// Payload offset of the level.
pub(crate) const LEVEL_AT: usize = 1;
/// Payload offset of the index number.
pub(crate) const INDEX_AT: usize = 2;
/// Payload offset of the flags.
pub(crate) const FLAGS_AT: usize = 3;
/// Payload offset of the count of separators.
pub(crate) const COUNT_AT: usize = 4;
/// Payload offset of the sibling pointer.
pub const SIBLING_AT: usize = 6;
/// Payload offset of the low fence.
pub const LOW_AT: usize = 14;

/// Payload offset of the high fence.
#[inline]
pub(crate) const fn high_at(key_bytes: usize) -> usize {
    LOW_AT + key_bytes
}

/// Payload bytes of the header.
#[inline]
pub(crate) const fn header_bytes(key_bytes: usize) -> usize {
    LOW_AT + 2 * key_bytes
}

/// The header's fields for 8-byte keys, for the goldens.
pub const FIELDS: &[Field] = &[
    Field::bits(GENERATION_AT, 0, 6, "generation", "repeats the generation of the node's address"),
    Field::bits(
        GENERATION_AT,
        6,
        1,
        "moved",
        "with `retired`: `sibling` points to the copy of this node on another memory node, `low` is as it was",
    ),
    Field::bytes(LEVEL_AT, 1, "level", "0 = leaf; fixed for the life of the node"),
    Field::bytes(INDEX_AT, 1, "index", "catalog number of the index, plus 1"),
    Field::bits(FLAGS_AT, 0, 1, "unbounded", "there is no high fence: the right edge of the level"),
    Field::bits(
        FLAGS_AT,
        1,
        1,
        "retired",
        "out of the tree: `sibling` points to the left neighbour that takes over, the first 8 bytes of `low` to the right one",
    ),
    Field::bits(FLAGS_AT, 2, 6, "signer, high bits", "leaves: see `count`; inner nodes: zero"),
    Field::bytes(
        COUNT_AT,
        2,
        "count",
        "inner nodes: separators; leaves: signer, low bits: row (as many bits as rows need) and, above, incarnation of the compute node whose place this is if nothing points here",
    ),
    Field::bytes(SIBLING_AT, 8, "sibling", "right neighbour, null at the right edge"),
    Field::bytes(LOW_AT, 8, "low", "inclusive low fence (K bytes)"),
    Field::bytes(high_at(8), 8, "high", "exclusive high fence (K bytes)"),
];

bitflags! {
    /// Header flags.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NodeFlags: u8 {
        /// No high fence.
        const UNBOUNDED = 1 << 0;
        /// Out of the tree; the sibling pointer leads to the left neighbour.
        const RETIRED = 1 << 1;
    }
}

/// The fixed part of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Generation of the node's address.
    pub generation: u8,
    /// 0 = leaf.
    pub level: u8,
    /// Catalog number of the index plus 1; 0 = no node was ever written here.
    pub index: u8,
    /// See [`NodeFlags`].
    pub flags: NodeFlags,
    /// Separators of an inner node; of a leaf a part of its [`OwnerTag`].
    pub count: u16,
    /// Right neighbour, or of a retired node the left one.
    pub sibling: Address,
}

impl Header {
    /// Reads the fixed part; any bytes give some header.
    #[inline]
    pub fn read(image: &[u8]) -> Self {
        Self::of(image)
    }

    /// As [`Header::read`], wherever the image is.
    #[inline]
    pub fn of(image: impl Bytes) -> Self {
        let byte = |at| Cursor::at(at).byte(image);
        Self {
            generation: byte(GENERATION_AT) & GENERATION_MASK,
            level: byte(LEVEL_AT),
            index: byte(INDEX_AT),
            flags: NodeFlags::from_bits_truncate(byte(FLAGS_AT)),
            count: u16::from_le_bytes([byte(COUNT_AT), byte(COUNT_AT + 1)]),
            sibling: Address::from_bits(Cursor::at(SIBLING_AT).word(image)),
        }
    }

    /// Writes the fixed part; what beside the flags is in their byte stays.
    pub fn write(&self, image: &mut [u8]) {
        let beside = stripes::byte(image, FLAGS_AT) & !NodeFlags::all().bits();
        stripes::write(image, GENERATION_AT, &[self.generation, self.level, self.index, self.flags.bits() | beside]);
        stripes::write(image, COUNT_AT, &self.count.to_le_bytes());
        stripes::write(image, SIBLING_AT, &self.sibling.to_bits().to_le_bytes());
    }
}

/// What a reader expects at a pointer.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The pointer it followed.
    pub address: Address,
    /// Catalog number of the index, plus 1.
    pub index: u8,
    /// The level the pointer promised.
    pub level: u8,
}

/// Fence check: where a sound image stands to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceCheck {
    /// The node covers the key.
    Here,
    /// The key is at or above the high fence: go to the right neighbour.
    Right(Address),
    /// The node was merged away: go to the left neighbour, which took over its keys. Or it was moved: go to its copy.
    Forward(Address),
}

/// Judges an image: of one WRITE, the node that was wanted, and its fence check for `key`.
///
/// A live node never changes its low fence, so a key below it means that the pointer was wrong
/// ([`DecodeError::Stale`]). The generation is compared first: it tells a reused place from the node that a pointer
/// meant.
#[inline]
pub fn judge(image: &[u8], wanted: &Wanted, key: &[u8]) -> Result<FenceCheck, DecodeError> {
    if planted(Mutant::LEAF_UNCHECKED) && wanted.level == 0 && stripes::node_version(image).is_some() {
        return Ok(FenceCheck::Here);
    }
    if planted(Mutant::TORN_IS_RESIDUE) {
        stripes::node_version(image).ok_or(DecodeError::Torn)?;
    }
    // All of these lie in the first line, which is of one instant even if the image is torn. That matters under a lock,
    // too: in the place of a retired node the first WRITE of the next node may be under way, which needs no lock
    // because nothing points there.
    judge_with(image, wanted, key, || stripes::node_version(image).map(|_| ()).ok_or(DecodeError::Torn))
}

/// As [`judge`], of an image wherever it is. `is_whole` is asked if the first line does not decide.
#[inline]
pub(crate) fn judge_with(
    image: impl Bytes,
    wanted: &Wanted,
    key: &[u8],
    is_whole: impl FnOnce() -> Result<(), DecodeError>,
) -> Result<FenceCheck, DecodeError> {
    let header = Header::of(image);
    if header.index != wanted.index || header.generation != wanted.address.generation() || header.level != wanted.level
    {
        return Err(DecodeError::Stale);
    }
    if header.flags.contains(NodeFlags::RETIRED) {
        return Ok(FenceCheck::Forward(header.sibling));
    }
    is_whole()?;
    if Cursor::at(LOW_AT).compare(image, key) == Ordering::Greater {
        return Err(DecodeError::Stale);
    }
    if !header.flags.contains(NodeFlags::UNBOUNDED)
        && Cursor::at(high_at(key.len())).compare(image, key) != Ordering::Greater
        && !planted(Mutant::NO_MOVE_RIGHT)
    {
        if header.sibling.is_null() {
            return Err(DecodeError::Corrupt("a bounded node without a right neighbour"));
        }
        return Ok(FenceCheck::Right(header.sibling));
    }
    Ok(FenceCheck::Here)
}

/// Starts an image of a node: zeroes it, and writes header and fences. `high` = `None`: unbounded.
pub fn start(image: &mut [u8], header: &Header, low: &[u8], high: Option<&[u8]>) {
    image.fill(0);
    let mut header = *header;
    header.flags.set(NodeFlags::UNBOUNDED, high.is_none());
    header.write(image);
    stripes::write(image, LOW_AT, low);
    if let Some(high) = high {
        stripes::write(image, high_at(low.len()), high);
    }
}

/// Copies the high fence out. `false`: there is none.
#[inline]
pub fn read_high(image: &[u8], out: &mut [u8]) -> bool {
    stripes::read(image, high_at(out.len()), out);
    !NodeFlags::from_bits_truncate(stripes::byte(image, FLAGS_AT)).contains(NodeFlags::UNBOUNDED)
}

/// Copies the low fence out.
pub(crate) fn read_low(image: &[u8], out: &mut [u8]) {
    stripes::read(image, LOW_AT, out);
}

/// Changes `key` to the key just below it. `false`: it was the lowest key, and is the largest now.
pub(crate) fn step_down(key: &mut [u8]) -> bool {
    for byte in key.iter_mut().rev() {
        let (less, borrowed) = byte.overflowing_sub(1);
        *byte = less;
        if !borrowed {
            return true;
        }
    }
    false
}

/// Changes `key` to the key just above it. `false`: it was the largest key, and is the lowest now.
pub(crate) fn step_up(key: &mut [u8]) -> bool {
    for byte in key.iter_mut().rev() {
        let (more, carried) = byte.overflowing_add(1);
        *byte = more;
        if !carried {
            return true;
        }
    }
    false
}

/// Changes the right edge: high fence and sibling.
pub(crate) fn set_right(image: &mut [u8], high: Option<&[u8]>, sibling: Address) {
    let mut header = Header::read(image);
    header.flags.set(NodeFlags::UNBOUNDED, high.is_none());
    header.sibling = sibling;
    header.write(image);
    if let Some(high) = high {
        stripes::write(image, high_at(high.len()), high);
    }
}

/// Marks the image of a leaf as retired in favour of `left`, with the owner tag `owner` of the compute node that will
/// reuse its place. What changes is in the first line, and the version stays: a reader of a retired leaf looks at
/// nothing else. The right neighbour is kept where [`revive`] finds it.
pub fn retire(image: &mut [u8], left: Address, owner: OwnerTag) {
    let mut header = Header::read(image);
    stripes::write(image, LOW_AT, &header.sibling.to_bits().to_le_bytes());
    header.flags.set(NodeFlags::RETIRED, !planted(Mutant::MERGE_FORGETS_FORWARD));
    header.sibling = left;
    header.write(image);
    if !planted(Mutant::RETIRED_UNSIGNED) {
        owner.write(image);
    }
}

/// Undoes [`retire`]. `low` is the node's low fence.
pub fn revive(image: &mut [u8], low: &[u8]) {
    let mut header = Header::read(image);
    header.sibling = Address::from_bits(stripes::word(image, LOW_AT));
    header.flags.remove(NodeFlags::RETIRED);
    header.write(image);
    stripes::write(image, LOW_AT, low);
}

/// Marks the first line of a node as moved to `copy`. What changes is in that line, and the version stays. The place is not
/// used again ([`super::relocate`]).
pub(crate) fn move_to(line: &mut [u8], copy: Address) {
    let mut header = Header::read(line);
    header.flags |= NodeFlags::RETIRED;
    header.sibling = copy;
    header.write(line);
    let first = stripes::byte(line, GENERATION_AT) | MOVED_BIT;
    stripes::write(line, GENERATION_AT, &[first]);
}

/// Whether this is the first line of a node that was moved. Its `sibling` leads to the copy.
#[inline]
pub fn is_moved(line: &[u8]) -> bool {
    stripes::byte(line, GENERATION_AT) & MOVED_BIT != 0 && Header::read(line).flags.contains(NodeFlags::RETIRED)
}

/// The right neighbour that a retired leaf had.
pub fn former_sibling(image: &[u8]) -> Address {
    Address::from_bits(stripes::word(image, LOW_AT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::lock_word::RowId;
    use crate::remote::row::Member;
    use crate::verbs::NodeId;

    const ADDRESS: Address = Address::new(NodeId(1), 0x4000, 3);
    const MEMBER: Member = Member { row: RowId(7), incarnation: 3, nonce: 1 };
    const OWNER: OwnerTag = OwnerTag::of(MEMBER, 128);
    const WANTED: Wanted = Wanted { address: ADDRESS, index: 1, level: 0 };

    fn sample() -> [u8; 128] {
        let mut image = [0; 128];
        let header = Header {
            generation: 3,
            level: 0,
            index: 1,
            flags: NodeFlags::empty(),
            count: 0,
            sibling: Address::new(NodeId(1), 0x8000, 0),
        };
        start(&mut image, &header, &10u64.to_be_bytes(), Some(&20u64.to_be_bytes()));
        stripes::set_node_version(&mut image, 5);
        image
    }

    #[test]
    fn keys_beside_a_key_borrow_and_carry() {
        let mut key = [1, 0, 0];
        assert!(step_down(&mut key));
        assert_eq!(key, [0, 0xff, 0xff]);
        assert!(step_down(&mut key));
        assert_eq!(key, [0, 0xff, 0xfe]);
        assert!(step_up(&mut key) && step_up(&mut key));
        assert_eq!(key, [1, 0, 0]);
        let mut key = [0, 0];
        assert!(!step_down(&mut key));
        assert_eq!(key, [0xff, 0xff]);
        assert!(!step_up(&mut key));
        assert_eq!(key, [0, 0]);
    }

    #[test]
    fn fences_decide_where_a_key_is() {
        let image = sample();
        assert_eq!(judge(&image, &WANTED, &10u64.to_be_bytes()), Ok(FenceCheck::Here));
        assert_eq!(judge(&image, &WANTED, &19u64.to_be_bytes()), Ok(FenceCheck::Here));
        assert_eq!(
            judge(&image, &WANTED, &20u64.to_be_bytes()),
            Ok(FenceCheck::Right(Address::new(NodeId(1), 0x8000, 0)))
        );
        assert_eq!(judge(&image, &WANTED, &9u64.to_be_bytes()), Err(DecodeError::Stale));
    }

    #[test]
    fn another_generation_is_stale_whatever_its_fences_say() {
        let wanted = Wanted { address: ADDRESS.next_generation(), ..WANTED };
        assert_eq!(judge(&sample(), &wanted, &15u64.to_be_bytes()), Err(DecodeError::Stale));
    }

    #[test]
    fn a_mixed_image_is_torn() {
        let mut image = sample();
        image[64] ^= 1;
        assert_eq!(judge(&image, &WANTED, &15u64.to_be_bytes()), Err(DecodeError::Torn));
    }

    #[test]
    fn a_retired_node_forwards_to_the_left() {
        let mut image = sample();
        let left = Address::new(NodeId(1), 0x2000, 0);
        retire(&mut image, left, OWNER);
        assert_eq!(judge(&image, &WANTED, &15u64.to_be_bytes()), Ok(FenceCheck::Forward(left)));
    }

    #[test]
    fn a_moved_node_leads_to_its_copy_and_keeps_its_fences() {
        let mut image = sample();
        OWNER.write(&mut image);
        let (before, copy) = (image, Address::new(NodeId(0), 0x2000, 9));
        move_to(&mut image[..64], copy);
        assert!(is_moved(&image[..64]) && !is_moved(&before[..64]));
        assert_eq!(judge(&image, &WANTED, &15u64.to_be_bytes()), Ok(FenceCheck::Forward(copy)));
        let header = Header { flags: NodeFlags::RETIRED, sibling: copy, ..Header::read(&before) };
        assert_eq!((Header::read(&image), OwnerTag::read(&image)), (header, OWNER));
        assert_eq!(stripes::node_version(&image), stripes::node_version(&before));
        assert_eq!(image[64..], before[64..]);
        let mut low = [0; 8];
        read_low(&image, &mut low);
        assert_eq!(low, 10u64.to_be_bytes());
        let mut merged = before;
        retire(&mut merged, copy, OWNER);
        assert!(!is_moved(&merged));
    }

    #[test]
    fn retiring_changes_the_first_line_only_and_can_be_undone() {
        let mut image = sample();
        OWNER.write(&mut image);
        let before = image;
        retire(&mut image, Address::new(NodeId(1), 0x2000, 0), OWNER);
        assert_eq!(image[64..], before[64..]);
        assert_eq!(former_sibling(&image), Header::read(&before).sibling);
        revive(&mut image, &10u64.to_be_bytes());
        assert_eq!(image, before);
    }
}
