//! Leaves of CHIME: hopscotch tables whose parts can be READ and checked alone.
//!
//! Payload after the node header (`K` key bytes, `V` value bytes, `H` entries per group), striped as in
//! [`crate::layout::stripes`]:
//!
//! ```text
//!  14+2K                                                   10      +E      +E
//! ┌──────────────────────────────────────────────────────┬───────┬───────┬──
//! │ replica 0: version, generation, sibling (10 bytes)   │entry 0│entry 1│ ... H entries, replica 1, ...
//! └──────────────────────────────────────────────────────┴───────┴───────┴──
//!
//!  entry:    0         1                          3      (+1 if H > 8)   +K        +V
//!           ┌─────────┬──────────────────────────┬──────────────────────┬─────────┬─────────┐
//!           │ NV, EV  │ bitmap, generation, state│ the latter, if H > 8 │ key     │ value   │
//!           └─────────┴──────────────────────────┴──────────────────────┴─────────┴─────────┘
//!
//!  place:   image, whole lines                                   line of its own
//!           ┌───────────────────────────────────────────────────┬────────────┐
//!           │ header, replicas, entries                         │ lock word  │
//!           └───────────────────────────────────────────────────┴────────────┘
//! ```
//!
//! A key's *home* is its hash modulo the span. The key lies in one of the `H` entries from there on, cyclically (its
//! *neighborhood*), and bit `o` of its home's bitmap is set if it lies `o` entries further on.
//!
//! **Versions of parts.** Every replica and every entry begins with a version byte: NV in the low half as in the lines'
//! version bytes, the entry's EV in the high half (0 in replicas). A READ of entries `a..b` begins at the version byte
//! of entry `a`, or of the replica before it; each further line it touches begins with that line's version byte. So
//! every piece that is of one instant shows an NV, wherever the READ begins. READs that agree on NV in all pieces of
//! all their segments saw one image between two WRITEs of the whole node.
//!
//! **Entries repeat the generation of their leaf**; in a retired leaf they show the next one. So an entry that is READ
//! alone, without a replica, tells whether it is of the leaf that a pointer means
//! ([`chime_entries`](crate::manual::chime_entries)).
//!
//! **Dead records.** A delete leaves key and bitmap bit, says *dead*, and makes the value zero. [`super::hop`] says when the
//! entry may be used again, and [`chime_neighborhoods`](crate::manual::chime_neighborhoods) why. An empty entry has a zero for a
//! key, too. So an entry whose state was lost shows: the walk finds bytes where there should be none.

mod change;
mod shape;

use crate::btree::node::Header;
use crate::btree::order::ascending;
use crate::error::DecodeError;
use crate::layout::LINE_BYTES;
use crate::layout::fields::Field;
use crate::layout::stripes::{self, Cursor, Look, VERSION_MASK};
use crate::mutants::{Mutant, planted};
use crate::registry::KEY_BYTES_MAX;
use crate::remote::address::{Address, GENERATION_MASK};
use shape::{Piece, Walk};

pub use crate::btree::leaves::SPAN_MAX;
pub use change::{LeafMut, Touched};
pub use shape::{LeafShape, Runs};

/// Fewest entries a leaf may have.
pub const SPAN_MIN: usize = 8;
/// Fewest and most entries of a neighborhood: bitmaps have two bytes.
pub(crate) const NEIGHBORHOOD_MIN: usize = 2;
/// See [`NEIGHBORHOOD_MIN`].
pub(crate) const NEIGHBORHOOD_MAX: usize = 16;
/// Payload bytes of a replica.
pub(crate) const REPLICA_BYTES: usize = 10;
/// Bit of a replica's second byte: the replica was written.
const WRITTEN: u8 = 1 << 6;
/// Bit of a replica's second byte: the node is out of the tree.
const RETIRED: u8 = 1 << 7;

/// Neighborhoods up to this long leave a byte of the bitmap's word for generation and state; longer ones have it behind
/// the bitmap.
const STATE_IN_BITMAP_MAX: usize = 8;
/// Bit of that byte: the entry holds a record.
const LIVE_BIT: u8 = 1 << 7;
/// Bit of that byte: the entry holds a record that was deleted.
const DEAD_BIT: u8 = 1 << 6;

/// A replica's fields, relative to the replica, for the goldens.
pub const REPLICA_FIELDS: &[Field] = &[
    Field::bits(0, 0, 4, "node version", "NV"),
    Field::bits(1, 0, 6, "generation", "repeats the header's"),
    Field::bits(1, 6, 1, "written", "1: somebody wrote it"),
    Field::bits(1, 7, 1, "retired", "repeats the header's"),
    Field::bytes(2, 8, "sibling", "repeats the header's"),
];

/// An entry's fields for 8-byte keys and values and neighborhoods of at most 8, relative to the entry, for the goldens.
pub const ENTRY_FIELDS: &[Field] = &[
    Field::bits(0, 0, 4, "node version", "NV"),
    Field::bits(0, 4, 4, "entry version", "EV; repeated in the version byte of each line the entry reaches into"),
    Field::bits(1, 0, 8, "bitmap", "bit o: a key whose home is this entry lies o entries further on"),
    Field::bits(1, 8, 6, "generation", "of the leaf's address; the next one in a leaf that is out of the tree"),
    Field::bits(1, 14, 1, "dead", "the entry holds the key of a record that was deleted; its value is zero"),
    Field::bits(1, 15, 1, "live", "the entry holds a record"),
    Field::bytes(3, 8, "key", "K bytes, memcmp order"),
    Field::bytes(11, 8, "value", "V bytes"),
];

/// The lock word's line, for the goldens.
pub const LOCK_FIELDS: &[Field] =
    &[Field::bytes(0, 8, "lock word", "free: bit 63 = 0, vacancy in the others; held: bit 63 = 1, turn, row")];

/// Whether an entry holds a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing since the node was last written as a whole.
    Empty,
    /// A record.
    Live,
    /// A record that was deleted since then.
    Dead,
}

/// Contents of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Generation of the leaf's address.
    pub generation: u8,
    /// Written, and not retired.
    pub in_use: bool,
    /// Right neighbour.
    pub sibling: Address,
}

/// An image of a leaf, all of it or some runs. What was not READ must not be asked for.
#[derive(Clone, Copy)]
pub struct Leaf<'a> {
    shape: &'a LeafShape,
    image: &'a [u8],
    /// See [`Look`].
    piece: Option<&'a [u8]>,
}

/// The state in the byte of generation and state.
#[inline]
const fn state_of(flags: u8) -> State {
    if flags & LIVE_BIT != 0 {
        State::Live
    } else if flags & DEAD_BIT != 0 {
        State::Dead
    } else {
        State::Empty
    }
}

impl<'a> Leaf<'a> {
    /// A view of `image`, which should have the shape's size; a shorter one reads as zeros.
    #[inline]
    pub const fn new(shape: &'a LeafShape, image: &'a [u8]) -> Self {
        Self { shape, image, piece: None }
    }

    /// A view of what a look has, for a walk over all entries.
    #[inline]
    pub(crate) const fn in_look(shape: &'a LeafShape, look: Look<'a>) -> Self {
        Self { shape, image: look.image, piece: look.piece }
    }

    #[inline]
    fn version(&self, slot: usize) -> u8 {
        stripes::byte(self.image, self.shape.entry_at(slot))
    }

    /// Generation and state of an entry, as stored.
    #[inline]
    fn flags(&self, slot: usize) -> u8 {
        stripes::byte(self.image, self.shape.entry_at(slot) + self.shape.key_at() - 1)
    }

    /// Whether `slot` holds a record.
    #[inline]
    pub fn state(&self, slot: usize) -> State {
        state_of(self.flags(slot))
    }

    /// The `count` entries from `first` on.
    #[inline]
    const fn walk(&self, first: usize, count: usize) -> Walk<'a> {
        Walk::new(self.shape, first, count)
    }

    /// As [`Leaf::state`], for the entry that begins here.
    #[inline]
    fn state_at(&self, here: Cursor) -> State {
        state_of(here.forward(self.shape.key_at() - 1).byte(self.image))
    }

    /// As [`Leaf::is_whole`], for the entry that begins here.
    #[inline]
    fn is_whole_at(&self, here: Cursor) -> bool {
        let version = here.byte(self.image) >> 4;
        here.crossings(self.shape.entry_bytes())
            .all(|line| self.image.get(line).is_some_and(|byte| byte >> 4 == version))
    }

    /// As [`Leaf::bitmap`], for the entry that begins here.
    #[inline]
    fn bitmap_at(&self, here: Cursor) -> u16 {
        let low = here.forward(1).byte(self.image);
        if self.shape.neighborhood <= STATE_IN_BITMAP_MAX {
            return low.into();
        }
        u16::from_le_bytes([low, here.forward(2).byte(self.image)])
    }

    /// As [`Leaf::home_of`], for the entry `slot`, which begins here.
    #[inline]
    fn home_at(&self, slot: usize, here: Cursor) -> usize {
        if self.shape.key_bytes != 8 {
            return self.home_of(slot);
        }
        self.shape.home(&here.forward(self.shape.key_at()).word(self.image).to_le_bytes())
    }

    /// The generation that `slot` repeats.
    #[inline]
    pub fn generation(&self, slot: usize) -> u8 {
        self.flags(slot) & GENERATION_MASK
    }

    /// Where the keys of home `slot` are: bit `o` = `o` entries further on.
    #[inline]
    pub fn bitmap(&self, slot: usize) -> u16 {
        let at = self.shape.entry_at(slot) + 1;
        if self.shape.neighborhood > STATE_IN_BITMAP_MAX {
            stripes::half(self.image, at)
        } else {
            stripes::byte(self.image, at).into()
        }
    }

    /// Whether entry `slot`, READ alone, is of one WRITE, of a leaf with this generation, and holds a record with
    /// `key`.
    pub fn holds(&self, slot: usize, generation: u8, key: &[u8]) -> bool {
        let version = self.version(slot);
        let of_one_node_write = stripes::crossings(self.shape.entry_at(slot), self.shape.entry_bytes())
            .all(|line| self.image.get(line).is_some_and(|byte| (byte ^ version) & VERSION_MASK == 0));
        of_one_node_write
            && self.is_whole(slot)
            && self.flags(slot) == LIVE_BIT | generation & GENERATION_MASK
            && self.key_is(slot, key)
    }

    /// Whether entry `slot` is of one WRITE.
    #[inline]
    pub fn is_whole(&self, slot: usize) -> bool {
        let version = self.version(slot) >> 4;
        stripes::entry_is_whole(self.image, self.shape.entry_at(slot), self.shape.entry_bytes(), version)
    }

    /// Whether every piece of these runs shows the same node version.
    #[inline]
    pub fn agrees(&self, runs: &Runs) -> bool {
        let mut seen: Option<u8> = None;
        let mut difference = 0;
        for run in runs {
            let range = self.shape.read_range(run);
            if range.is_empty() {
                continue;
            }
            let lines = (range.start.next_multiple_of(LINE_BYTES)..range.end).step_by(LINE_BYTES);
            for at in core::iter::once(range.start).chain(lines) {
                let version = self.image.get(at).map_or(0xf0, |byte| byte & VERSION_MASK);
                difference |= version ^ *seen.get_or_insert(version);
            }
        }
        difference == 0
    }

    /// Whether each of the `count` entries from `first` on is of one WRITE.
    pub(crate) fn entries_whole(&self, first: usize, count: usize) -> bool {
        self.walk(first, count.min(self.shape.span)).all(|(_, here)| self.is_whole_at(here))
    }

    /// The contents of replica `group`.
    #[inline]
    pub fn replica(&self, group: usize) -> Replica {
        let at = self.shape.replica_at(group);
        let flags = stripes::byte(self.image, at + 1);
        Replica {
            generation: flags & GENERATION_MASK,
            in_use: flags & (WRITTEN | RETIRED) == WRITTEN,
            sibling: Address::from_bits(stripes::word(self.image, at + 2)),
        }
    }

    /// How the key of `slot` compares with `key`.
    #[inline]
    fn key_is(&self, slot: usize, key: &[u8]) -> bool {
        stripes::compare(self.image, self.shape.entry_at(slot) + self.shape.key_at(), key).is_eq()
    }

    /// Copies the key of `slot` out.
    #[inline]
    pub fn read_key(&self, slot: usize, out: &mut [u8]) {
        stripes::read(self.image, self.shape.entry_at(slot) + self.shape.key_at(), out);
    }

    /// The home of the key in `slot`.
    #[inline]
    pub fn home_of(&self, slot: usize) -> usize {
        if self.shape.key_bytes == 8 {
            let mut key = [0; 8];
            self.read_key(slot, &mut key);
            return self.shape.home(&key);
        }
        let mut room = [0; KEY_BYTES_MAX];
        let Some(key) = room.get_mut(..self.shape.key_bytes) else { return 0 };
        self.read_key(slot, key);
        self.shape.home(key)
    }

    /// How far the key in `slot` lies from its home.
    #[inline]
    pub(crate) fn displacement(&self, slot: usize) -> usize {
        self.shape.distance(self.home_of(slot), slot)
    }

    /// Copies the value of `slot` out.
    #[inline]
    pub fn read_value(&self, slot: usize, out: &mut [u8]) {
        let at = self.shape.entry_at(slot) + self.shape.key_at() + self.shape.key_bytes;
        stripes::read(self.image, at, out);
    }

    /// Whether the value of `slot` is `value`.
    #[inline]
    pub(crate) fn value_is(&self, slot: usize, value: &[u8]) -> bool {
        let at = self.shape.entry_at(slot) + self.shape.key_at() + self.shape.key_bytes;
        stripes::compare(self.image, at, value).is_eq()
    }

    /// The slot of the neighborhood of `home` in which `key` is in this state. Checks no versions: for images of a
    /// locked leaf.
    #[inline]
    pub(crate) fn find_locked(&self, home: usize, key: &[u8], wanted: State) -> Option<usize> {
        let mut near = self.walk(home, self.shape.neighborhood);
        // Keys of eight bytes are the common case: one word each.
        let found = match <[u8; 8]>::try_from(key) {
            Ok(key) => {
                let key = u64::from_le_bytes(key);
                near.find(|&(_, here)| {
                    here.forward(self.shape.key_at()).word(self.image) == key && self.state_at(here) == wanted
                })
            }
            Err(_) => near.find(|&(slot, here)| self.state_at(here) == wanted && self.key_is(slot, key)),
        };
        found.map(|(slot, _)| slot)
    }

    /// The slot that holds `key`, for a reader of the neighborhood of `home` whose pieces agree.
    ///
    /// A match counts if it is of one WRITE. *No match* counts only if all entries are, and every bit of the home's
    /// bitmap leads to a key of that home. Otherwise a hop was under way, and the key may have been where the reader
    /// was not ([`chime_neighborhoods`](crate::manual::chime_neighborhoods)).
    #[inline]
    pub fn find(&self, home: usize, key: &[u8]) -> Result<Option<usize>, DecodeError> {
        if let Some(slot) = self.find_locked(home, key, State::Live) {
            return if self.is_whole(slot) { Ok(Some(slot)) } else { Err(DecodeError::Torn) };
        }
        let bitmap = self.bitmap(home);
        for (distance, (slot, here)) in self.walk(home, self.shape.neighborhood).enumerate() {
            let leads = bitmap >> distance & 1 != 0 && !planted(Mutant::BITMAP_UNCHECKED);
            let led_astray = || self.state_at(here) == State::Empty || self.home_at(slot, here) != home;
            if !self.is_whole_at(here) || leads && led_astray() {
                return Err(DecodeError::Torn);
            }
        }
        Ok(None)
    }

    /// Whether an image with one node version has every record that was there throughout the READ: as [`Leaf::find`],
    /// for every home at once.
    pub fn settled(&self) -> Result<(), DecodeError> {
        // What each home's bitmap says, and what it should at least: compared as arrays, many homes at a time.
        let (mut stored, mut rebuilt) = ([0u16; SPAN_MAX], [0u16; SPAN_MAX]);
        let mut see = |slot: usize, bitmap: u16, home: Option<usize>| {
            if let Some(stored) = stored.get_mut(slot) {
                *stored = bitmap;
            }
            let Some(home) = home else { return };
            let distance = self.shape.distance(home, slot);
            if distance < self.shape.neighborhood
                && let Some(bits) = rebuilt.get_mut(home)
            {
                *bits |= 1 << distance;
            }
        };
        let mut is_whole = true;
        match self.piece {
            Some(payload) => {
                let mut lines = stripes::Lines::from(self.image, self.shape.entry_at(0));
                let (key_at, key_bytes) = (self.shape.key_at(), self.shape.key_bytes);
                self.shape.entries_in(payload).for_each(|(slot, entry)| {
                    let home = || match key_bytes {
                        8 => self.shape.home(&entry.key),
                        _ => self.shape.home(entry.bytes.get(key_at..key_at + key_bytes).unwrap_or_default()),
                    };
                    see(slot, entry.bitmap, (state_of(entry.flags) != State::Empty).then(home));
                    is_whole &= lines.all_repeat(entry.at, entry.bytes);
                });
            }
            None => self.walk(0, self.shape.span).for_each(|(slot, here)| {
                let is_used = self.state_at(here) != State::Empty;
                see(slot, self.bitmap_at(here), is_used.then(|| self.home_at(slot, here)));
                is_whole &= self.is_whole_at(here);
            }),
        }
        if !is_whole {
            return Err(DecodeError::Torn);
        }
        let missing = stored
            .iter()
            .zip(&rebuilt)
            .take(self.shape.span)
            .fold(0, |missing, (stored, rebuilt)| missing | stored & !rebuilt);
        if missing == 0 { Ok(()) } else { Err(DecodeError::Torn) }
    }

    /// Records in the leaf.
    pub fn records(&self) -> usize {
        self.walk(0, self.shape.span).filter(|&(_, here)| self.state_at(here) == State::Live).count()
    }

    /// Deleted records in the leaf.
    pub fn dead(&self) -> usize {
        self.walk(0, self.shape.span).filter(|&(_, here)| self.state_at(here) == State::Dead).count()
    }

    /// Writes the live slots whose keys are not below `low` and, if given, below `high` into `slots`, in ascending key
    /// order; returns how many. A key that a reader met twice, before and after a hop, is taken once.
    pub fn sorted(&self, low: &[u8], high: Option<&[u8]>, slots: &mut [u16; SPAN_MAX]) -> usize {
        let read = |slot: usize, key: &mut [u8]| self.read_key(slot, key);
        if let Some(payload) = self.piece {
            let live = |(slot, entry): (usize, Piece<'_>)| {
                (state_of(entry.flags) == State::Live).then(|| (slot, u64::from_be_bytes(entry.key)))
            };
            ascending(self.shape.entries_in(payload).filter_map(live), (low, high), read, slots)
        } else {
            let live = |(slot, here): (usize, Cursor)| {
                let key = || here.forward(self.shape.key_at()).word(self.image).swap_bytes();
                (self.state_at(here) == State::Live).then(|| (slot, key()))
            };
            ascending(self.walk(0, self.shape.span).filter_map(live), (low, high), read, slots)
        }
    }

    /// Checks a quiet leaf with these fences: versions, replicas, every key in its neighborhood and within the fences,
    /// none twice, bitmaps exact, zeros where no record is. Returns its records.
    pub fn check(&self, low: &[u8], high: Option<&[u8]>) -> Result<u64, DecodeError> {
        self.settled()?;
        let version = stripes::node_version(self.image).ok_or(DecodeError::Torn)?;
        let header = Header::read(self.image);
        for group in 0..self.shape.groups() {
            let at = self.shape.replica_at(group);
            let expected = Replica { generation: header.generation, in_use: true, sibling: header.sibling };
            if self.replica(group) != expected || stripes::byte(self.image, at) != version {
                return Err(DecodeError::Corrupt("a replica that differs from the header"));
            }
        }
        let mut bits = 0;
        for slot in 0..self.shape.span {
            if self.version(slot) & VERSION_MASK != version {
                return Err(DecodeError::Corrupt("an entry with another node version than its leaf"));
            }
            if self.generation(slot) != header.generation {
                return Err(DecodeError::Corrupt("an entry with another generation than its leaf"));
            }
            bits += self.bitmap(slot).count_ones() as usize;
            if self.state(slot) != State::Empty && self.displacement(slot) >= self.shape.neighborhood {
                return Err(DecodeError::Corrupt("a key outside the neighborhood of its home"));
            }
            let (key_bytes, value_bytes) = (self.shape.key_bytes, self.shape.value_bytes);
            let at = self.shape.entry_at(slot) + self.shape.key_at();
            let is_zero = match self.state(slot) {
                State::Live => true,
                State::Dead => stripes::is_erased(self.image, at + key_bytes, value_bytes),
                State::Empty => stripes::is_erased(self.image, at, key_bytes + value_bytes),
            };
            if !is_zero {
                return Err(DecodeError::UNUSED_NOT_ZERO);
            }
        }
        let (records, dead) = (self.records(), self.dead());
        // Every bit leads to a key, as `settled` has seen; so if there are as many bits as keys, each key has one.
        if bits != records + dead {
            return Err(DecodeError::Corrupt("a key without its bit in its home's bitmap"));
        }
        if self.sorted(low, high, &mut [0; SPAN_MAX]) != records {
            return Err(DecodeError::TWICE_OR_OUTSIDE);
        }
        Ok(records as u64)
    }
}

#[cfg(test)]
mod tests;
