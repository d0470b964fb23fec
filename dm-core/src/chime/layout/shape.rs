//! Sizes: where replicas and entries are in a leaf, where keys belong, and what READs and WRITEs of some entries cover.

use super::{REPLICA_BYTES, STATE_IN_BITMAP_MAX};
use crate::btree::node;
use crate::layout::LINE_BYTES;
use crate::layout::city::city_hash_64;
use crate::layout::divisor::Divisor;
use crate::layout::stripes::{self, Cursor, Look};
use core::ops::Range;

/// Sizes of an index's leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafShape {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Entries.
    pub span: usize,
    /// Entries of a neighborhood, and of a group.
    pub neighborhood: usize,
    /// Stored bytes of the image: what is READ and written of a leaf as a whole.
    pub bytes: usize,
    /// By the entries of a group.
    by_group: Divisor,
}

/// One or two runs of consecutive entries: cyclic ranges go on at entry 0.
pub type Runs = [Range<usize>; 2];

impl LeafShape {
    /// Shape with `span` entries in groups of `neighborhood`.
    pub const fn new(key_bytes: usize, value_bytes: usize, span: usize, neighborhood: usize) -> Self {
        let by_group = Divisor::new(neighborhood as u32);
        let mut shape = Self { key_bytes, value_bytes, span, neighborhood, bytes: 0, by_group };
        let groups = if neighborhood == 0 { 0 } else { span.div_ceil(neighborhood) };
        let payload = node::header_bytes(key_bytes) + groups * REPLICA_BYTES + span * shape.entry_bytes();
        shape.bytes = stripes::stored_bytes(payload);
        shape
    }

    /// Bytes of a leaf's place: the image, and the line of the lock word.
    pub const fn place_bytes(&self) -> usize {
        self.bytes + LINE_BYTES
    }

    /// Where an entry's key is, relative to the entry.
    pub(super) const fn key_at(&self) -> usize {
        if self.neighborhood > STATE_IN_BITMAP_MAX { 4 } else { 3 }
    }

    /// Payload bytes of an entry.
    #[inline]
    pub(crate) const fn entry_bytes(&self) -> usize {
        self.key_at() + self.key_bytes + self.value_bytes
    }

    /// Payload offset of replica `group`.
    #[inline]
    pub const fn replica_at(&self, group: usize) -> usize {
        node::header_bytes(self.key_bytes) + group * (REPLICA_BYTES + self.neighborhood * self.entry_bytes())
    }

    /// Payload offset of entry `slot`.
    #[inline]
    pub const fn entry_at(&self, slot: usize) -> usize {
        node::header_bytes(self.key_bytes) + (self.group_of(slot) + 1) * REPLICA_BYTES + slot * self.entry_bytes()
    }

    /// The group of entry `slot`.
    #[inline]
    const fn group_of(&self, slot: usize) -> usize {
        self.by_group.quotient(slot as u32) as usize
    }

    /// Whether entry `slot` is the first of its group.
    #[inline]
    const fn begins_group(&self, slot: usize) -> bool {
        self.by_group.remainder(slot as u32) == 0
    }

    /// Copies the first `bytes` of the records of `slots` out, one behind the other.
    #[inline]
    pub(crate) fn read_records(&self, look: Look<'_>, slots: &[u16], bytes: usize, out: &mut [u8]) {
        // A copy: as far as the compiler knows, what is written may be this shape.
        let shape = *self;
        look.read_each(slots.iter().map(|slot| shape.entry_at((*slot).into()) + shape.key_at()), bytes, out);
    }

    /// The entries in a payload in one piece, which may be too short.
    #[inline]
    pub(super) fn entries_in<'p>(&self, payload: &'p [u8]) -> impl Iterator<Item = (usize, Piece<'p>)> {
        let (entry_bytes, is_behind) = (self.entry_bytes(), self.neighborhood > STATE_IN_BITMAP_MAX);
        let group_bytes = REPLICA_BYTES + self.neighborhood * entry_bytes;
        let first = self.replica_at(0);
        let end = first + self.groups() * REPLICA_BYTES + self.span * entry_bytes;
        // Group by group, and each cut once: a step from entry to entry adds one number.
        let groups = payload.get(first..end.min(payload.len())).unwrap_or_default().chunks(group_bytes).enumerate();
        let entries = groups.flat_map(move |(group, bytes)| {
            let mut next = first + group * group_bytes + REPLICA_BYTES;
            bytes.get(REPLICA_BYTES..).unwrap_or_default().chunks_exact(entry_bytes).map(move |bytes| {
                let at = next;
                next += entry_bytes;
                Piece::new(at, bytes, is_behind)
            })
        });
        entries.enumerate()
    }

    /// Replicas.
    pub const fn groups(&self) -> usize {
        self.span.div_ceil(self.neighborhood)
    }

    /// The hash that decides the home of a key.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        city_hash_64(key)
    }

    /// The home of a key.
    #[inline]
    pub fn home(&self, key: &[u8]) -> usize {
        self.home_of_hash(self.hash(key))
    }

    /// The home of keys with this hash.
    #[inline]
    pub(crate) fn home_of_hash(&self, hash: u64) -> usize {
        if self.span.is_power_of_two() {
            return hash as usize & (self.span - 1);
        }
        (hash % self.span.max(1) as u64) as usize
    }

    /// The entry `distance` entries after `slot`, cyclically; `distance` is at most the span.
    #[inline]
    pub const fn after(&self, slot: usize, distance: usize) -> usize {
        let sum = slot + distance;
        if sum >= self.span { sum - self.span } else { sum }
    }

    /// How many entries `slot` is after `from`, cyclically.
    #[inline]
    pub const fn distance(&self, from: usize, slot: usize) -> usize {
        if slot >= from { slot - from } else { slot + self.span - from }
    }

    /// The entries `first..first + count`, cyclically, as runs; the second is often empty.
    #[inline]
    pub const fn runs(&self, first: usize, count: usize) -> Runs {
        let end = first + count;
        if end <= self.span { [first..end, 0..0] } else { [first..self.span, 0..end - self.span] }
    }

    /// What a READ of a run covers, relative to the node: a group's replica is READ with its first entry.
    #[inline]
    pub(crate) const fn read_range(&self, run: &Range<usize>) -> Range<usize> {
        if run.start >= run.end {
            return 0..0;
        }
        let at = self.entry_at(run.start);
        let at = if self.begins_group(run.start) { at - REPLICA_BYTES } else { at };
        let end = self.entry_at(run.end - 1) + self.entry_bytes();
        stripes::stored_offset(at)..stripes::stored_offset(end - 1) + 1
    }

    /// What a WRITE of a run covers, relative to the node.
    #[inline]
    pub(crate) const fn write_range(&self, run: &Range<usize>) -> Range<usize> {
        if run.start >= run.end {
            return 0..0;
        }
        let end = self.entry_at(run.end - 1) + self.entry_bytes();
        stripes::stored_offset(self.entry_at(run.start))..stripes::stored_offset(end - 1) + 1
    }

    /// The group whose replica lies within any run of at least `neighborhood` entries from `first` on.
    #[inline]
    pub(crate) const fn replica_near(&self, first: usize) -> usize {
        let group = self.group_of(first + self.neighborhood - 1);
        if group >= self.groups() { 0 } else { group }
    }
}

/// An entry in a payload in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'p> {
    /// Its offset in the payload.
    pub(super) at: usize,
    pub(super) bytes: &'p [u8],
    pub(super) bitmap: u16,
    /// Generation and state.
    pub(super) flags: u8,
    /// The first eight bytes of its key.
    pub(super) key: [u8; 8],
}

impl<'p> Piece<'p> {
    /// The entry at `at`. `is_behind`: generation and state are behind the bitmap, not in its second byte.
    #[inline]
    fn new(at: usize, bytes: &'p [u8], is_behind: bool) -> Self {
        // Keys and values have eight bytes at least.
        let [_, low, high, rest @ ..] = bytes.first_chunk::<12>().copied().unwrap_or_default();
        let [third, behind @ ..] = rest;
        if is_behind {
            Self { at, bytes, bitmap: u16::from_le_bytes([low, high]), flags: third, key: behind }
        } else {
            let key = rest.first_chunk().copied().unwrap_or_default();
            Self { at, bytes, bitmap: low.into(), flags: high, key }
        }
    }
}

/// Entries one after the other, cyclically, and their offsets. It divides once, at the start.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    shape: &'a LeafShape,
    slot: usize,
    left: usize,
    here: Cursor,
    /// Entries of this group from here on.
    in_group: usize,
}

impl<'a> Walk<'a> {
    #[inline]
    pub(super) const fn new(shape: &'a LeafShape, first: usize, count: usize) -> Self {
        let here = Cursor::at(shape.entry_at(first));
        let in_group = shape.neighborhood - shape.by_group.remainder(first as u32) as usize;
        Self { shape, slot: first, left: count, here, in_group }
    }
}

impl Iterator for Walk<'_> {
    type Item = (usize, Cursor);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let item = (self.slot, self.here);
        self.slot += 1;
        self.in_group -= 1;
        if self.slot == self.shape.span {
            (self.slot, self.in_group) = (0, self.shape.neighborhood);
            self.here = Cursor::at(self.shape.entry_at(0));
        } else if self.in_group == 0 {
            self.in_group = self.shape.neighborhood;
            self.here = self.here.forward(self.shape.entry_bytes() + REPLICA_BYTES);
        } else {
            self.here = self.here.forward(self.shape.entry_bytes());
        }
        Some(item)
    }
}
