//! Leaves of Sherman: unsorted entries, each with a control byte.
//!
//! Payload after the node header (`K` key bytes, `V` value bytes), striped as in [`crate::layout::stripes`]. A kind whose
//! leaves have an extension behind the header (`LeafShape::with_extension`) begins its entries behind that:
//!
//! ```text
//!  14+2K                 +1    +1+K     +1+K+V
//! ┌─────────────────────┬─────┬────────┬──
//! │ control of entry 0  │ key │ value  │ entry 1 ...
//! └─────────────────────┴─────┴────────┴──
//!   bits 0..=3  EV, raised by every WRITE of this entry, repeated in each line the entry reaches into
//!   bit  4      occupied
//! ```
//!
//! Occupancy is a bit of the entry, not a reserved key or value, so one WRITE of one entry inserts, updates or deletes.
//!
//! **A free entry is zero** but for its version: a new leaf is, and a WRITE that takes a record out makes key and value zero with
//! the bit. So an entry whose bit was lost shows: the walk finds bytes where there should be none.

use crate::btree::node;
use crate::btree::order::ascending;
use crate::error::DecodeError;
use crate::layout::LINE_BYTES;
use crate::layout::fields::Field;
use crate::layout::stripes::{self, Bytes, BytesMut, Cursor, LINE_PAYLOAD_BYTES, Look, VERSION_MASK};
use crate::mutants::{Mutant, planted};
use core::ops::Range;

pub use crate::btree::leaves::SPAN_MAX;

/// Fewest entries a leaf may have: a split leaves at least one on each side.
pub const SPAN_MIN: usize = 2;

const OCCUPIED: u8 = 1 << 4;

/// An entry's fields for 8-byte keys and values, relative to the entry, for the goldens.
pub const ENTRY_FIELDS: &[Field] = &[
    Field::bits(0, 0, 4, "entry version", "EV; repeated in the version byte of each line the entry reaches into"),
    Field::bits(0, 4, 1, "occupied", "the entry holds a record"),
    Field::bytes(1, 8, "key", "K bytes, memcmp order"),
    Field::bytes(9, 8, "value", "V bytes"),
];

/// Sizes of an index's leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafShape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Entries.
    pub span: usize,
    /// Stored bytes of a leaf.
    pub bytes: usize,
    /// Payload offset of the first entry: behind the header, and the extension.
    pub first: usize,
}

impl LeafShape {
    /// Shape with `span` entries.
    pub(crate) const fn with_span(key_bytes: usize, value_bytes: usize, span: usize) -> Self {
        Self::with_extension(key_bytes, value_bytes, span, 0)
    }

    /// Shape with `span` entries behind `extension` bytes that the kind has besides the header.
    pub(crate) const fn with_extension(key_bytes: usize, value_bytes: usize, span: usize, extension: usize) -> Self {
        let first = node::header_bytes(key_bytes) + extension;
        let payload = first + span * (1 + key_bytes + value_bytes);
        Self { key_bytes, value_bytes, span, bytes: stripes::stored_bytes(payload), first }
    }

    /// The largest span that fits `bytes`.
    pub const fn with_bytes(key_bytes: usize, value_bytes: usize, bytes: usize) -> Self {
        Self::extended_with_bytes(key_bytes, value_bytes, bytes, 0)
    }

    /// The largest span that fits `bytes` behind `extension` bytes that the kind has besides the header.
    pub const fn extended_with_bytes(key_bytes: usize, value_bytes: usize, bytes: usize, extension: usize) -> Self {
        let payload = stripes::payload_bytes(bytes);
        let first = node::header_bytes(key_bytes) + extension;
        let span = if payload > first { (payload - first) / (1 + key_bytes + value_bytes) } else { 0 };
        let span = if span > SPAN_MAX { SPAN_MAX } else { span };
        Self { key_bytes, value_bytes, span, bytes: bytes / 64 * 64, first }
    }

    /// Payload bytes of an entry.
    #[inline]
    pub(crate) const fn entry_bytes(&self) -> usize {
        1 + self.key_bytes + self.value_bytes
    }

    /// Payload offset of entry `slot`.
    #[inline]
    pub const fn entry_at(&self, slot: usize) -> usize {
        self.first + slot * self.entry_bytes()
    }

    /// Copies the first `bytes` of the records of `slots` out, one behind the other.
    #[inline]
    pub(crate) fn read_records(&self, look: Look<'_>, slots: &[u16], bytes: usize, out: &mut [u8]) {
        // A copy: as far as the compiler knows, what is written may be this shape.
        let shape = *self;
        look.read_each(slots.iter().map(|slot| shape.entry_at((*slot).into()) + 1), bytes, out);
    }

    /// The entries in a payload in one piece, which may be too short: their control bytes, and the first eight bytes of their keys.
    #[inline]
    fn entries_in(&self, payload: &[u8]) -> impl Iterator<Item = (u8, u64)> {
        let entries = payload.get(self.first..).unwrap_or_default();
        let entries = entries.get(..self.span * self.entry_bytes()).unwrap_or(entries);
        // Cut once: keys have eight bytes at least.
        entries.chunks_exact(self.entry_bytes()).map_while(|entry| {
            let [control, key @ ..] = entry.first_chunk::<9>()?;
            Some((*control, u64::from_le_bytes(*key)))
        })
    }

    /// What a WRITE of one entry covers, relative to the node.
    #[inline]
    pub const fn entry_range(&self, slot: usize) -> Range<usize> {
        stripes::stored_range(self.entry_at(slot), self.entry_bytes())
    }
}

/// An image of a leaf whose node versions agree and whose header was judged.
#[derive(Clone, Copy)]
pub struct Leaf<'a, B = &'a [u8]> {
    shape: &'a LeafShape,
    image: B,
    /// See [`Look`].
    piece: Option<&'a [u8]>,
}

impl<'a> Leaf<'a> {
    /// A view of `image`, which should have the shape's size; a shorter one reads as zeros.
    #[inline]
    pub const fn new(shape: &'a LeafShape, image: &'a [u8]) -> Self {
        Self::over(shape, image)
    }

    /// A view of what a look has, for a walk over all entries.
    #[inline]
    pub(crate) const fn in_look(shape: &'a LeafShape, look: Look<'a>) -> Self {
        Self { shape, image: look.image, piece: look.piece }
    }

    /// Whether entry `slot` is of one WRITE.
    #[inline]
    pub fn is_whole(&self, slot: usize) -> bool {
        let version = self.control(slot) & VERSION_MASK;
        stripes::entry_is_whole(self.image, self.shape.entry_at(slot), self.shape.entry_bytes(), version)
    }

    /// Checks the entries that cross lines; those that do not cannot be torn.
    pub(crate) fn all_whole(&self) -> Result<(), DecodeError> {
        let entry_bytes = self.shape.entry_bytes();
        let first = self.shape.entry_at(0);
        let end = self.shape.entry_at(self.shape.span);
        let line = first / LINE_PAYLOAD_BYTES + 1;
        let (mut boundary, mut stored) = (line * LINE_PAYLOAD_BYTES, line * LINE_BYTES);
        // How much of the entry there lies in front. A division for each line took as long as the rest.
        let (mut before, rest) = ((boundary - first) % entry_bytes, LINE_PAYLOAD_BYTES % entry_bytes);
        let mut difference = 0;
        while boundary < end {
            // The line repeats the version of an entry that reaches into it. Usually that begins in the line before.
            let control = match before {
                ..=LINE_PAYLOAD_BYTES => stored - before,
                _ => stripes::stored_offset(boundary - before),
            };
            if before != 0 {
                difference |= self.image.byte_at(stored) >> 4 ^ self.image.byte_at(control) & VERSION_MASK;
            }
            (boundary, stored) = (boundary + LINE_PAYLOAD_BYTES, stored + LINE_BYTES);
            before += rest;
            if before >= entry_bytes {
                before -= entry_bytes;
            }
        }
        if difference == 0 { Ok(()) } else { Err(DecodeError::Torn) }
    }

    /// The slot that holds `key`.
    ///
    /// A torn entry is never taken for an absent one: a match must be of one WRITE, and "no match" is said only if all
    /// entries are ([`torn_reads`](crate::manual::torn_reads)).
    #[inline]
    pub fn find(&self, key: &[u8]) -> Result<Option<usize>, DecodeError> {
        match self.scan_for(key) {
            Some(slot) if self.is_whole(slot) => Ok(Some(slot)),
            _ if planted(Mutant::TORN_IS_ABSENT) => Ok(None),
            Some(_) => Err(DecodeError::Torn),
            None => self.all_whole().map(|()| None),
        }
    }

    /// Writes the occupied slots whose keys are not below `low` and, if given, below `high` into `slots`, in ascending
    /// key order, each key once; returns how many.
    pub fn sorted(&self, low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize {
        let read = |slot: usize, key: &mut [u8]| self.read_key(slot, key);
        let occupied =
            |(slot, control, key): (usize, u8, u64)| (control & OCCUPIED != 0).then_some((slot, key.swap_bytes()));
        if let Some(payload) = self.piece {
            let keys = self.shape.entries_in(payload).enumerate().map(|(slot, entry)| (slot, entry.0, entry.1));
            ascending(keys.filter_map(occupied), (low, high), read, slots)
        } else {
            let key = |(slot, entry): (usize, Cursor)| (slot, entry.byte(self.image), entry.next_word(self.image));
            ascending(self.entries().map(key).filter_map(occupied), (low, high), read, slots)
        }
    }

    /// Copies the record of `slot`, key and value, out.
    pub(crate) fn read_record(&self, slot: usize, out: &mut [u8]) {
        stripes::read(self.image, self.shape.entry_at(slot) + 1, out);
    }

    /// Checks a quiet leaf with these fences: entries of one WRITE, keys within the fences, none twice, free entries zero.
    /// Returns its records.
    pub fn check(&self, low: &[u8], high: Option<&[u8]>) -> Result<u64, DecodeError> {
        self.all_whole()?;
        let record_bytes = self.shape.key_bytes + self.shape.value_bytes;
        let is_free = |slot: &usize| !self.is_occupied(*slot);
        let is_zero = |slot| stripes::is_erased(self.image, self.shape.entry_at(slot) + 1, record_bytes);
        if !(0..self.shape.span).filter(is_free).all(is_zero) {
            return Err(DecodeError::UNUSED_NOT_ZERO);
        }
        let count = self.sorted(low, high, &mut [0; SPAN_MAX]);
        if count != self.records() {
            return Err(DecodeError::TWICE_OR_OUTSIDE);
        }
        Ok(count as u64)
    }
}

impl<'a, B: Bytes> Leaf<'a, B> {
    /// A view of the leaf in `image`, wherever that is.
    #[inline]
    pub const fn over(shape: &'a LeafShape, image: B) -> Self {
        Self { shape, image, piece: None }
    }

    /// The entries, with a cursor at the control byte of each.
    #[inline]
    fn entries(&self) -> impl Iterator<Item = (usize, Cursor)> {
        let entry_bytes = self.shape.entry_bytes();
        let mut next = Cursor::at(self.shape.entry_at(0));
        (0..self.shape.span).map(move |slot| {
            let here = next;
            next = next.forward(entry_bytes);
            (slot, here)
        })
    }

    #[inline]
    fn control(&self, slot: usize) -> u8 {
        Cursor::at(self.shape.entry_at(slot)).byte(self.image)
    }

    /// Whether `slot` holds a record.
    #[inline]
    pub fn is_occupied(&self, slot: usize) -> bool {
        self.control(slot) & OCCUPIED != 0
    }

    /// The slot that has `key`, in an image of one instant; in another one, perhaps.
    #[inline]
    pub(crate) fn scan_for(&self, key: &[u8]) -> Option<usize> {
        if let Ok(key) = <[u8; 8]>::try_from(key) {
            return self.scan_for_8(key);
        }
        let has_key = |entry: Cursor| entry.forward(1).compare(self.image, key).is_eq();
        let is_found = |entry: Cursor| entry.byte(self.image) & OCCUPIED != 0 && has_key(entry);
        self.entries().find(|(_, entry)| is_found(*entry)).map(|(slot, _)| slot)
    }

    /// The 8-byte case: a comparison of words per entry.
    #[inline]
    fn scan_for_8(&self, key: [u8; 8]) -> Option<usize> {
        let wanted = u64::from_le_bytes(key);
        self.entries()
            .find(|(_, entry)| entry.next_word(self.image) == wanted && entry.byte(self.image) & OCCUPIED != 0)
            .map(|(slot, _)| slot)
    }

    /// The first slot without a record.
    #[inline]
    pub(crate) fn free_slot(&self) -> Option<usize> {
        self.entries().find(|(_, entry)| entry.byte(self.image) & OCCUPIED == 0).map(|(slot, _)| slot)
    }

    /// Records in the leaf.
    pub fn records(&self) -> usize {
        self.entries().filter(|(_, entry)| entry.byte(self.image) & OCCUPIED != 0).count()
    }

    /// Copies the key of `slot` out.
    #[inline]
    pub fn read_key(&self, slot: usize, out: &mut [u8]) {
        Cursor::at(self.shape.entry_at(slot) + 1).read(self.image, out);
    }

    /// Copies the value of `slot` out.
    #[inline]
    pub fn read_value(&self, slot: usize, out: &mut [u8]) {
        Cursor::at(self.shape.entry_at(slot) + 1 + self.shape.key_bytes).read(self.image, out);
    }

    /// Whether the value of `slot` is `value`.
    #[inline]
    pub(crate) fn value_is(&self, slot: usize, value: &[u8]) -> bool {
        let value =
            value.first_chunk::<8>().filter(|_| planted(Mutant::VALUE_CUT)).map_or(value, |first| first.as_slice());
        Cursor::at(self.shape.entry_at(slot) + 1 + self.shape.key_bytes).compare(self.image, value).is_eq()
    }
}

/// Changes to an image of a leaf that is locked, or unlinked.
pub struct LeafMut<'a, B: BytesMut + ?Sized = [u8]> {
    shape: &'a LeafShape,
    image: &'a mut B,
}

impl<'a> LeafMut<'a> {
    /// A mutable view of `image`.
    pub fn new(shape: &'a LeafShape, image: &'a mut [u8]) -> Self {
        Self { shape, image }
    }

    /// Copies the record in `slot` of `from` into `to`.
    pub(crate) fn copy_from(&mut self, from: &Leaf<'_>, slot: usize, to: usize) {
        // Key and value are adjacent. They are moved in pieces, since values may be long.
        let mut piece = [0; 64];
        let bytes = self.shape.key_bytes + self.shape.value_bytes;
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(piece.len());
            stripes::read(from.image, self.shape.entry_at(slot) + 1 + done, &mut piece[..now]);
            stripes::write(self.image, self.shape.entry_at(to) + 1 + done, &piece[..now]);
            done += now;
        }
        self.touch(to, true);
    }
}

impl<'a, B: BytesMut + ?Sized> LeafMut<'a, B> {
    /// A mutable view of the leaf in `image`, wherever that is.
    pub fn over(shape: &'a LeafShape, image: &'a mut B) -> Self {
        Self { shape, image }
    }

    /// A read-only view.
    pub fn view(&self) -> Leaf<'_, B::View<'_>> {
        Leaf::over(self.shape, self.image.view())
    }

    fn touch(&mut self, slot: usize, occupied: bool) {
        let at = self.shape.entry_at(slot);
        let found = self.view().control(slot);
        let version = match occupied {
            false if planted(Mutant::DELETE_RESETS_VERSION) => 0,
            false if planted(Mutant::DELETE_KEEPS_VERSION) => found & VERSION_MASK,
            _ if planted(Mutant::VERSION_STOPS) && found & VERSION_MASK == VERSION_MASK => VERSION_MASK,
            // The byte is a remote one: in a damaged leaf it may be the largest.
            _ => found.wrapping_add(1) & VERSION_MASK,
        };
        stripes::write_to(self.image, at, &[version | if occupied { OCCUPIED } else { 0 }]);
        stripes::set_entry_version_of(self.image, at, self.shape.entry_bytes(), version);
    }

    /// Puts a record into `slot`.
    pub fn put(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        let at = self.shape.entry_at(slot);
        stripes::write_to(self.image, at + 1, key);
        stripes::write_to(self.image, at + 1 + self.shape.key_bytes, value);
        self.touch(slot, true);
    }

    /// Replaces the value in `slot`.
    pub fn set_value(&mut self, slot: usize, value: &[u8]) {
        stripes::write_to(self.image, self.shape.entry_at(slot) + 1 + self.shape.key_bytes, value);
        self.touch(slot, true);
    }

    /// Removes the record in `slot`: its bytes become zero.
    pub fn clear(&mut self, slot: usize) {
        let left = if planted(Mutant::DELETE_LEAVES_VALUE) { self.shape.value_bytes } else { 0 };
        let record_bytes = self.shape.key_bytes + self.shape.value_bytes;
        stripes::erase(self.image, self.shape.entry_at(slot) + 1, record_bytes - left);
        self.touch(slot, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec;

    const SHAPE: LeafShape = LeafShape::with_bytes(8, 8, 1024);

    #[test]
    fn a_kilobyte_holds_57_entries_of_16_bytes() {
        assert_eq!(SHAPE.span, 57);
        assert!(stripes::stored_offset(SHAPE.entry_at(57) - 1) < 1024);
    }

    #[test]
    fn records_are_found_in_every_slot() {
        let mut image = vec![0; SHAPE.bytes];
        for slot in 0..SHAPE.span {
            let key = (slot as u64 * 3).to_be_bytes();
            LeafMut::new(&SHAPE, &mut image).put(slot, &key, &(slot as u64).to_le_bytes());
        }
        let leaf = Leaf::new(&SHAPE, &image);
        for slot in 0..SHAPE.span {
            assert_eq!(leaf.find(&(slot as u64 * 3).to_be_bytes()), Ok(Some(slot)));
            assert_eq!(leaf.find(&(slot as u64 * 3 + 1).to_be_bytes()), Ok(None));
            assert!(leaf.value_is(slot, &(slot as u64).to_le_bytes()));
        }
        let mut slots = [0; SPAN_MAX];
        assert_eq!(leaf.sorted(&30u64.to_be_bytes(), Some(&60u64.to_be_bytes()), &mut slots), 10);
        assert_eq!(slots[..10], [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    }

    /// Whatever an image has: what is seen in one piece is what is seen line by line.
    #[test]
    fn a_leaf_in_one_piece_is_the_leaf_in_lines() {
        let (mut state, mut most) = (1_u64, 0);
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for (value_bytes, bytes) in [(8, 1024), (24, 512), (100, 2048)] {
            let shape = LeafShape::with_bytes(8, value_bytes, bytes);
            for _ in 0..300 {
                let mut image = vec![0; shape.bytes];
                for byte in &mut image {
                    *byte = draw() as u8;
                }
                let (low, high) = (draw().to_be_bytes(), draw().to_be_bytes());
                let records = |leaf: &Leaf<'_>, high: Option<&[u8]>| {
                    let mut slots = [0; SPAN_MAX];
                    let count = leaf.sorted(&low, high, &mut slots);
                    let record_bytes = 8 + value_bytes;
                    let mut records = vec![0; count * record_bytes];
                    let look = Look { image: leaf.image, piece: leaf.piece };
                    shape.read_records(look, &slots[..count], record_bytes, &mut records);
                    (slots, records)
                };
                for high in [None, Some(&high[..])] {
                    let lines = records(&Leaf::new(&shape, &image), high);
                    most = most.max(lines.1.len() / (8 + value_bytes));
                    assert_eq!(Look::at(&image, |look| records(&Leaf::in_look(&shape, look), high)), lines);
                }
            }
        }
        assert!(most > 30, "{most}");
    }

    #[test]
    fn a_torn_entry_is_torn_whether_looked_for_or_in_the_way() {
        let mut image = vec![0; SHAPE.bytes];
        // The first slot that crosses a line.
        let slot = (0..SHAPE.span)
            .find(|&slot| stripes::crossings(SHAPE.entry_at(slot), SHAPE.entry_bytes()).count() > 0)
            .unwrap();
        LeafMut::new(&SHAPE, &mut image).put(slot, &7u64.to_be_bytes(), &1u64.to_le_bytes());
        let line = stripes::crossings(SHAPE.entry_at(slot), SHAPE.entry_bytes()).next().unwrap();
        image[line] ^= 0x10;
        let leaf = Leaf::new(&SHAPE, &image);
        assert_eq!(leaf.find(&7u64.to_be_bytes()), Err(DecodeError::Torn));
        assert_eq!(leaf.find(&8u64.to_be_bytes()), Err(DecodeError::Torn));
    }

    /// A damaged leaf had 0xff in the control byte of a free entry, and an insert there overflowed.
    #[test]
    fn an_entry_takes_a_record_whatever_its_control_byte_was() {
        for control in 0..=u8::MAX {
            let mut image = vec![0; SHAPE.bytes];
            stripes::write(&mut image, SHAPE.entry_at(0), &[control]);
            let mut leaf = LeafMut::new(&SHAPE, &mut image);
            leaf.put(0, &7u64.to_be_bytes(), &1u64.to_le_bytes());
            assert_eq!(leaf.view().find(&7u64.to_be_bytes()), Ok(Some(0)));
            leaf.clear(0);
            assert_eq!(leaf.view().records(), 0);
        }
    }

    /// The leaf does not begin at the key of zeros: one that has such an entry may have that record.
    #[test]
    fn a_free_entry_is_zero_and_a_bit_that_says_something_else_is_told() {
        for (key_bytes, value_bytes) in [(8, 8), (24, 100)] {
            let shape = LeafShape::with_bytes(key_bytes, value_bytes, 1024);
            let mut image = vec![0; shape.bytes];
            let (low, key) = (vec![1; key_bytes], vec![7; key_bytes]);
            for slot in 0..shape.span {
                let mut leaf = LeafMut::new(&shape, &mut image);
                leaf.put(slot, &key, &vec![9; value_bytes]);
                leaf.clear(slot);
                assert_eq!(leaf.view().check(&low, None), Ok(0));
                leaf.put(slot, &key, &vec![0; value_bytes]);
                assert_eq!(leaf.view().check(&low, None), Ok(1));
                for mark_of in 0..shape.span {
                    let mut damaged = image.clone();
                    damaged[stripes::stored_offset(shape.entry_at(mark_of))] ^= OCCUPIED;
                    let found = Leaf::new(&shape, &damaged).check(&low, None);
                    let told =
                        if mark_of == slot { DecodeError::UNUSED_NOT_ZERO } else { DecodeError::TWICE_OR_OUTSIDE };
                    assert_eq!(found, Err(told), "the bit of {mark_of}, where {slot} is in use");
                }
                LeafMut::new(&shape, &mut image).clear(slot);
            }
        }
    }

    #[test]
    fn one_write_covers_control_to_end() {
        let range = SHAPE.entry_range(0);
        assert_eq!(range, 31..48);
        let mut longest = 0;
        for slot in 0..SHAPE.span {
            longest = longest.max(SHAPE.entry_range(slot).len());
        }
        assert_eq!(longest, 18, "an entry of 17 bytes and one crossed version byte");
    }
}
