//! Changes to images.

use super::{
    DEAD_BIT, LIVE_BIT, Leaf, LeafShape, REPLICA_BYTES, RETIRED, SPAN_MAX, STATE_IN_BITMAP_MAX, State, WRITTEN,
};
use crate::btree::node::{Header, NodeFlags};
use crate::layout::Bits;
use crate::layout::stripes::{self, VERSION_MASK};
use crate::mutants::{Mutant, planted};
use crate::remote::address::GENERATION_MASK;

/// Which entries an operation changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched([u64; SPAN_MAX / 64]);

impl Touched {
    /// Adds an entry.
    pub fn add(&mut self, slot: usize) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Adds an entry whose bitmap was changed.
    pub(crate) fn add_bitmap(&mut self, slot: usize) {
        if !planted(Mutant::BITMAP_KEEPS_VERSION) {
            self.add(slot);
        }
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, &word)| Bits(word).map(move |bit| at * 64 + usize::from(bit)))
    }
}

/// Changes to an image of a leaf that is locked, or unlinked. Entry versions are raised once, by [`LeafMut::raise`].
pub struct LeafMut<'a> {
    shape: &'a LeafShape,
    image: &'a mut [u8],
}

impl<'a> LeafMut<'a> {
    /// A mutable view of `image`.
    pub fn new(shape: &'a LeafShape, image: &'a mut [u8]) -> Self {
        Self { shape, image }
    }

    /// A read-only view.
    pub fn view(&self) -> Leaf<'_> {
        Leaf::new(self.shape, self.image)
    }

    /// The shape.
    pub fn shape(&self) -> &'a LeafShape {
        self.shape
    }

    /// Says that the record in `slot` was deleted. Its key and its bit stay, its value becomes zero.
    pub fn delete(&mut self, slot: usize) {
        if !planted(Mutant::DEAD_VALUE_LEFT) {
            let at = self.shape.entry_at(slot) + self.shape.key_at() + self.shape.key_bytes;
            stripes::erase(self.image, at, self.shape.value_bytes);
        }
        self.set_state(slot, State::Dead);
    }

    /// Sets the state of `slot`; its bytes stay.
    pub(crate) fn set_state(&mut self, slot: usize, state: State) {
        let state = match state {
            State::Empty => 0,
            State::Live => LIVE_BIT,
            State::Dead => DEAD_BIT,
        };
        let flags = self.view().generation(slot) | state;
        stripes::write(self.image, self.shape.entry_at(slot) + self.shape.key_at() - 1, &[flags]);
    }

    fn set_generation(&mut self, slot: usize, generation: u8) {
        let flags = self.view().flags(slot) & !GENERATION_MASK | generation & GENERATION_MASK;
        stripes::write(self.image, self.shape.entry_at(slot) + self.shape.key_at() - 1, &[flags]);
    }

    /// Sets or clears the bit that says that a key of home `home` lies `distance` entries further on.
    pub fn set_bit(&mut self, home: usize, distance: usize, set: bool) {
        let bitmap = self.view().bitmap(home);
        let bit = 1u16.checked_shl(distance as u32).unwrap_or(0);
        let bitmap = (if set { bitmap | bit } else { bitmap & !bit }).to_le_bytes();
        let bytes = if self.shape.neighborhood > STATE_IN_BITMAP_MAX { &bitmap[..] } else { &bitmap[..1] };
        stripes::write(self.image, self.shape.entry_at(home) + 1, bytes);
    }

    /// Puts a record into `slot`; the caller sets bitmaps.
    pub fn put(&mut self, slot: usize, key: &[u8], value: &[u8]) {
        let at = self.shape.entry_at(slot) + self.shape.key_at();
        stripes::write(self.image, at, key);
        stripes::write(self.image, at + self.shape.key_bytes, value);
        self.set_state(slot, State::Live);
    }

    /// Replaces the value in `slot`.
    pub fn set_value(&mut self, slot: usize, value: &[u8]) {
        let at = self.shape.entry_at(slot) + self.shape.key_at() + self.shape.key_bytes;
        stripes::write(self.image, at, value);
    }

    /// Copies the record in `from` to `to`; the caller sets states and bitmaps.
    pub fn copy_within(&mut self, from: usize, to: usize) {
        let (from, to) = (self.shape.entry_at(from), self.shape.entry_at(to));
        let key_at = self.shape.key_at();
        let bytes = self.shape.key_bytes + self.shape.value_bytes;
        // In pieces, since values may be long.
        let mut piece = [0; 64];
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(piece.len());
            stripes::read(self.image, from + key_at + done, &mut piece[..now]);
            stripes::write(self.image, to + key_at + done, &piece[..now]);
            done += now;
        }
    }

    /// Copies the live record in `slot` of another image, whose home is `home`, to the same slot of this one, and sets its home's bit.
    pub(crate) fn copy_slot(&mut self, from: &Leaf<'_>, home: usize, slot: usize) {
        let at = self.shape.entry_at(slot) + self.shape.key_at();
        let bytes = self.shape.key_bytes + self.shape.value_bytes;
        let mut piece = [0; 64];
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(piece.len());
            stripes::read(from.image, at + done, &mut piece[..now]);
            stripes::write(self.image, at + done, &piece[..now]);
            done += now;
        }
        self.set_state(slot, State::Live);
        self.set_bit(home, self.shape.distance(home, slot), true);
    }

    /// Empties `slot` and clears its key's bit. Only in images that are written as a whole.
    pub(crate) fn vacate(&mut self, slot: usize) {
        self.vacate_of(self.view().home_of(slot), slot);
    }

    /// As [`LeafMut::vacate`], of a record whose home is `home`.
    pub(crate) fn vacate_of(&mut self, home: usize, slot: usize) {
        self.set_bit(home, self.shape.distance(home, slot), false);
        let at = self.shape.entry_at(slot) + self.shape.key_at();
        stripes::erase(self.image, at, self.shape.key_bytes + self.shape.value_bytes);
        self.set_state(slot, State::Empty);
    }

    /// Empties every entry with a deleted record. Only in images that are written as a whole.
    pub fn purge(&mut self) {
        for slot in 0..self.shape.span {
            if self.view().state(slot) == State::Dead {
                self.vacate(slot);
            }
        }
    }

    /// Raises the entry version of every entry in `touched`, in its control byte and in each line it reaches into.
    pub fn raise(&mut self, touched: &Touched) {
        for slot in touched.slots() {
            let at = self.shape.entry_at(slot);
            let version = self.view().version(slot);
            let raised = (version >> 4).wrapping_add(1) & VERSION_MASK;
            stripes::write(self.image, at, &[version & VERSION_MASK | raised << 4]);
            stripes::set_entry_version(self.image, at, self.shape.entry_bytes(), raised);
        }
    }

    /// Completes an image that is written as a whole: `version` goes to every line, entry and replica, and replicas and
    /// entries repeat the header.
    pub fn seal(&mut self, version: u8) {
        let version = version & VERSION_MASK;
        stripes::set_node_version(self.image, version);
        let header = Header::read(self.image);
        let retired = if header.flags.contains(NodeFlags::RETIRED) { RETIRED } else { 0 };
        let mut replica = [0; REPLICA_BYTES];
        replica[0] = version;
        replica[1] = header.generation & GENERATION_MASK | WRITTEN | retired;
        replica[2..].copy_from_slice(&header.sibling.to_bits().to_le_bytes());
        for group in 0..self.shape.groups() {
            stripes::write(self.image, self.shape.replica_at(group), &replica);
        }
        // A lane that READs an entry of a retired leaf alone must not take it for one of the leaf that was.
        let life = if retired == 0 { header.generation } else { header.generation.wrapping_add(1) };
        for slot in 0..self.shape.span {
            let old = self.view().version(slot);
            stripes::write(self.image, self.shape.entry_at(slot), &[old & !VERSION_MASK | version]);
            self.set_generation(slot, life);
        }
    }
}
