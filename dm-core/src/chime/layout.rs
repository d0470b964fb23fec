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
//! A key's *home* is its hash modulo the span; it lies in one of the `H` entries from there on, cyclically (its
//! *neighborhood*), and bit `o` of its home's bitmap is set if it lies `o` entries further on.
//!
//! **Versions of parts.** Every replica and every entry begins with a version byte: NV in the low half as in the lines'
//! version bytes, the entry's EV in the high half (0 in replicas). A READ of entries `a..b` begins at the version byte of
//! entry `a`, or of the replica before it; each further line it touches begins with that line's version byte. So every
//! piece that is of one instant shows an NV, wherever the READ begins, and READs that agree on NV in all pieces of all
//! their segments saw one life of the image between two WRITEs of the whole node.
//!
//! **Entries name the life of their leaf.** Each repeats the generation; in a retired leaf they show the next one. So an entry
//! that is READ alone, without a replica, tells whether it is of the leaf that a pointer means: see [`super`], "Why one
//! entry can be enough".
//!
//! **Dead records.** A delete leaves key and bitmap bit and says *dead*; see [`super::hop`] for when the place may be used
//! again, and [`super`] for why.

use crate::btree::node::{self, Header, KEY_BYTES_MAX, NodeFlags};
use crate::error::DecodeError;
use crate::layout::city::city_hash_64;
use crate::layout::fields::Field;
use crate::layout::stripes::{self, Cursor, VERSION_MASK};
use crate::remote::address::{Address, GENERATION_MASK, LINE_BYTES};
use core::ops::Range;

pub use crate::btree::leaves::SPAN_MAX;

/// Fewest entries a leaf may have.
pub const SPAN_MIN: usize = 8;
/// Fewest and most entries of a neighborhood: bitmaps have two bytes.
pub const NEIGHBORHOOD_MIN: usize = 2;
/// See [`NEIGHBORHOOD_MIN`].
pub const NEIGHBORHOOD_MAX: usize = 16;

/// Payload bytes of a replica.
pub const REPLICA_BYTES: usize = 10;
/// Bit of a replica's second byte: somebody wrote it.
const WRITTEN: u8 = 1 << 6;
/// Bit of a replica's second byte: the node is out of the tree.
const RETIRED: u8 = 1 << 7;

/// Neighborhoods up to this long leave a byte of the bitmap's word for generation and state; behind others' there is one.
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
    Field::bits(1, 14, 1, "dead", "the entry holds a record that was deleted"),
    Field::bits(1, 15, 1, "live", "the entry holds a record"),
    Field::bytes(3, 8, "key", "K bytes, memcmp order"),
    Field::bytes(11, 8, "value", "V bytes"),
];

/// The lock word's line, for the goldens.
pub const LOCK_FIELDS: &[Field] =
    &[Field::bytes(0, 8, "lock word", "free: bit 63 = 0, vacancy in the others; held: bit 63 = 1, turn, row")];

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
}

/// One or two runs of consecutive entries: cyclic ranges go on at entry 0.
pub type Runs = [Range<usize>; 2];

impl LeafShape {
    /// Shape with `span` entries in groups of `neighborhood`.
    pub const fn new(key_bytes: usize, value_bytes: usize, span: usize, neighborhood: usize) -> Self {
        let mut shape = Self { key_bytes, value_bytes, span, neighborhood, bytes: 0 };
        let groups = if neighborhood == 0 { 0 } else { span.div_ceil(neighborhood) };
        let payload = node::header_bytes(key_bytes) + groups * REPLICA_BYTES + span * shape.entry_bytes();
        shape.bytes = stripes::stored_bytes(payload);
        shape
    }

    /// Bytes of a leaf's place: the image, and the line of the lock word.
    pub const fn place_bytes(&self) -> usize {
        self.bytes + LINE_BYTES
    }

    const fn key_at(&self) -> usize {
        if self.neighborhood > STATE_IN_BITMAP_MAX { 4 } else { 3 }
    }

    /// Payload bytes of an entry.
    #[inline]
    pub const fn entry_bytes(&self) -> usize {
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
        node::header_bytes(self.key_bytes) + (slot / self.neighborhood + 1) * REPLICA_BYTES + slot * self.entry_bytes()
    }

    /// Replicas.
    pub const fn groups(&self) -> usize {
        self.span.div_ceil(self.neighborhood)
    }

    /// What decides where a key is.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        city_hash_64(key)
    }

    /// The home of a key.
    #[inline]
    pub fn home(&self, key: &[u8]) -> usize {
        self.home_of_hash(self.hash(key))
    }

    /// The home of the keys with this hash.
    #[inline]
    pub fn home_of_hash(&self, hash: u64) -> usize {
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

    /// What a READ of a run covers, relative to the node: the replica travels with a group's first entry.
    #[inline]
    pub const fn read_range(&self, run: &Range<usize>) -> Range<usize> {
        if run.start >= run.end {
            return 0..0;
        }
        let at = self.entry_at(run.start);
        let at = if run.start.is_multiple_of(self.neighborhood) { at - REPLICA_BYTES } else { at };
        let end = self.entry_at(run.end - 1) + self.entry_bytes();
        stripes::stored_offset(at)..stripes::stored_offset(end - 1) + 1
    }

    /// What a WRITE of a run covers, relative to the node.
    #[inline]
    pub const fn write_range(&self, run: &Range<usize>) -> Range<usize> {
        if run.start >= run.end {
            return 0..0;
        }
        let end = self.entry_at(run.end - 1) + self.entry_bytes();
        stripes::stored_offset(self.entry_at(run.start))..stripes::stored_offset(end - 1) + 1
    }

    /// The group whose replica lies within any run of at least `neighborhood` entries from `first` on.
    #[inline]
    pub const fn replica_near(&self, first: usize) -> usize {
        let group = first.div_ceil(self.neighborhood);
        if group >= self.groups() { 0 } else { group }
    }
}

/// Entries one after the other, cyclically, and where they begin. Dividing once, at the start.
#[derive(Clone, Debug)]
struct Walk<'a> {
    shape: &'a LeafShape,
    slot: usize,
    left: usize,
    here: Cursor,
    /// Entries of this group from here on.
    in_group: usize,
}

impl<'a> Walk<'a> {
    #[inline]
    const fn new(shape: &'a LeafShape, first: usize, count: usize) -> Self {
        let here = Cursor::at(shape.entry_at(first));
        let in_group = shape.neighborhood - first % shape.neighborhood;
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

/// What a replica says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Generation of the leaf's address.
    pub generation: u8,
    /// Written, and not retired.
    pub in_use: bool,
    /// Right neighbour.
    pub sibling: Address,
}

/// An image of a leaf, all of it or some runs; what was not READ must not be asked for.
#[derive(Clone, Copy)]
pub struct Leaf<'a> {
    shape: &'a LeafShape,
    image: &'a [u8],
}

/// Generation and state, as stored, to state.
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
        Self { shape, image }
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

    /// As [`Leaf::state`], of the entry that begins here.
    #[inline]
    fn state_at(&self, here: Cursor) -> State {
        state_of(here.forward(self.shape.key_at() - 1).byte(self.image))
    }

    /// As [`Leaf::is_whole`], of the entry that begins here.
    #[inline]
    fn is_whole_at(&self, here: Cursor) -> bool {
        let version = here.byte(self.image) >> 4;
        here.crossings(self.shape.entry_bytes())
            .all(|line| self.image.get(line).is_some_and(|byte| byte >> 4 == version))
    }

    /// As [`Leaf::bitmap`], of the entry that begins here.
    #[inline]
    fn bitmap_at(&self, here: Cursor) -> u16 {
        let low = here.forward(1).byte(self.image);
        if self.shape.neighborhood <= STATE_IN_BITMAP_MAX {
            return low.into();
        }
        u16::from_le_bytes([low, here.forward(2).byte(self.image)])
    }

    /// As [`Leaf::home_of`], of the entry `slot`, which begins here.
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

    /// Whether entry `slot`, READ alone, is of one WRITE, of a leaf in its life `generation`, and holds a record with `key`.
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
    pub fn entries_whole(&self, first: usize, count: usize) -> bool {
        self.walk(first, count.min(self.shape.span)).all(|(_, here)| self.is_whole_at(here))
    }

    /// What replica `group` says.
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
    pub fn displacement(&self, slot: usize) -> usize {
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
    pub fn value_is(&self, slot: usize, value: &[u8]) -> bool {
        let at = self.shape.entry_at(slot) + self.shape.key_at() + self.shape.key_bytes;
        stripes::compare(self.image, at, value).is_eq()
    }

    /// Copies the record of `slot`, key and value, out.
    #[inline]
    pub fn read_record(&self, slot: usize, out: &mut [u8]) {
        stripes::read(self.image, self.shape.entry_at(slot) + self.shape.key_at(), out);
    }

    /// The slot of the neighborhood of `home` in which `key` is in this state. No versions are looked at: for images
    /// of a locked leaf.
    #[inline]
    pub fn find_locked(&self, home: usize, key: &[u8], wanted: State) -> Option<usize> {
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

    /// The slot that holds `key`, looked for by a reader in the neighborhood of `home`, whose pieces agree.
    ///
    /// A match counts if it is whole. *No match* counts only if all entries are whole and every bit of the home's bitmap
    /// leads to a key of that home: else a hop was under way, and the key may have been where the reader was not
    /// ([`super`], "Why a key that is there is found").
    #[inline]
    pub fn find(&self, home: usize, key: &[u8]) -> Result<Option<usize>, DecodeError> {
        if let Some(slot) = self.find_locked(home, key, State::Live) {
            return if self.is_whole(slot) { Ok(Some(slot)) } else { Err(DecodeError::Torn) };
        }
        let bitmap = self.bitmap(home);
        for (distance, (slot, here)) in self.walk(home, self.shape.neighborhood).enumerate() {
            let leads = bitmap >> distance & 1 != 0;
            let led_astray = || self.state_at(here) == State::Empty || self.home_at(slot, here) != home;
            if !self.is_whole_at(here) || leads && led_astray() {
                return Err(DecodeError::Torn);
            }
        }
        Ok(None)
    }

    /// Whether an image with one node version has every record that was there throughout the READ: as [`Leaf::find`] for
    /// every home at once.
    pub fn settled(&self) -> Result<(), DecodeError> {
        let mut rebuilt = [0u16; SPAN_MAX];
        for (slot, here) in self.walk(0, self.shape.span) {
            if !self.is_whole_at(here) {
                return Err(DecodeError::Torn);
            }
            if self.state_at(here) == State::Empty {
                continue;
            }
            let home = self.home_at(slot, here);
            let distance = self.shape.distance(home, slot);
            if distance < self.shape.neighborhood
                && let Some(bits) = rebuilt.get_mut(home)
            {
                *bits |= 1 << distance;
            }
        }
        let missing = self
            .walk(0, self.shape.span)
            .zip(&rebuilt)
            .any(|((_, here), &rebuilt)| self.bitmap_at(here) & !rebuilt != 0);
        if missing { Err(DecodeError::Torn) } else { Ok(()) }
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
        // Sorted by the first eight bytes of the keys, which decides almost always.
        let mut order = heapless::Vec::<(u64, u16), SPAN_MAX>::new();
        let (mut left, mut right) = ([0; KEY_BYTES_MAX], [0; KEY_BYTES_MAX]);
        let (Some(left), Some(right)) = (left.get_mut(..self.shape.key_bytes), right.get_mut(..self.shape.key_bytes))
        else {
            return 0;
        };
        let prefix = |key: &[u8]| key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let (low_prefix, high_prefix) = (prefix(low), high.map_or(u64::MAX, prefix));
        let is_long = self.shape.key_bytes > 8;
        for (slot, here) in self.walk(0, self.shape.span) {
            let first = here.forward(self.shape.key_at()).word(self.image).swap_bytes();
            if first < low_prefix || first > high_prefix || self.state_at(here) != State::Live {
                continue;
            }
            // On the edges the rest of the key decides.
            if first == low_prefix || first == high_prefix {
                self.read_key(slot, left);
                if &*left < low || high.is_some_and(|high| &*left >= high) {
                    continue;
                }
            }
            // There is room: as many as slots.
            let _ = order.push((first, slot as u16));
        }
        if is_long {
            order.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0).then_with(|| {
                    self.read_key(a.1 as usize, left);
                    self.read_key(b.1 as usize, right);
                    (*left).cmp(&*right)
                })
            });
        } else {
            order.sort_unstable();
        }
        let mut count = 0;
        let mut before: Option<(u64, u16)> = None;
        for &(first, slot) in &order {
            if let Some((first_before, slot_before)) = before
                && first == first_before
            {
                self.read_key(slot_before as usize, left);
                if self.key_is(slot as usize, left) {
                    continue;
                }
            }
            before = Some((first, slot));
            if let Some(to) = slots.get_mut(count) {
                *to = slot;
                count += 1;
            }
        }
        count
    }

    /// Checks a quiet leaf with these fences: versions, replicas, every key in its neighborhood and within the fences, none
    /// twice, bitmaps exact. Returns its records.
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
        }
        let (records, dead) = (self.records(), self.dead());
        // No bit leads nowhere, as `settled` has seen; so if there are as many as keys, each key has one.
        if bits != records + dead {
            return Err(DecodeError::Corrupt("a key without its bit in its home's bitmap"));
        }
        let mut slots = [0; SPAN_MAX];
        if self.sorted(low, high, &mut slots) != records {
            return Err(DecodeError::Corrupt("a key twice in one leaf, or outside its leaf's fences"));
        }
        Ok(records as u64)
    }
}

/// Which entries an operation changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched([u64; SPAN_MAX / 64]);

impl Touched {
    /// Takes note of an entry.
    pub fn add(&mut self, slot: usize) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut word = word;
            core::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.checked_sub(1)?;
                Some(at * 64 + bit)
            })
        })
    }
}

/// Changes to a leaf image that is locked, or not linked yet. Entry versions are raised once, by [`LeafMut::raise`].
pub struct LeafMut<'a> {
    shape: &'a LeafShape,
    image: &'a mut [u8],
}

impl<'a> LeafMut<'a> {
    /// A mutable view of `image`.
    pub fn new(shape: &'a LeafShape, image: &'a mut [u8]) -> Self {
        Self { shape, image }
    }

    /// To look at.
    pub fn view(&self) -> Leaf<'_> {
        Leaf { shape: self.shape, image: self.image }
    }

    /// The shape.
    pub fn shape(&self) -> &'a LeafShape {
        self.shape
    }

    /// Says whether `slot` holds a record; its bytes stay.
    pub fn set_state(&mut self, slot: usize, state: State) {
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

    /// Says whether a key of home `home` lies `distance` entries further on.
    pub fn set_bit(&mut self, home: usize, distance: usize, set: bool) {
        let bitmap = self.view().bitmap(home);
        let bit = 1u16.checked_shl(distance as u32).unwrap_or(0);
        let bitmap = (if set { bitmap | bit } else { bitmap & !bit }).to_le_bytes();
        let bytes = if self.shape.neighborhood > STATE_IN_BITMAP_MAX { &bitmap[..] } else { &bitmap[..1] };
        stripes::write(self.image, self.shape.entry_at(home) + 1, bytes);
    }

    /// Puts a record into `slot`; bitmaps are the caller's.
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

    /// Copies the record in `from` to `to`; states and bitmaps are the caller's.
    pub fn copy_within(&mut self, from: usize, to: usize) {
        let (from, to) = (self.shape.entry_at(from), self.shape.entry_at(to));
        let key_at = self.shape.key_at();
        let bytes = self.shape.key_bytes + self.shape.value_bytes;
        // Values may be long: in pieces.
        let mut piece = [0; 64];
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(piece.len());
            stripes::read(self.image, from + key_at + done, &mut piece[..now]);
            stripes::write(self.image, to + key_at + done, &piece[..now]);
            done += now;
        }
    }

    /// Copies the live record in `slot` of another image to the same slot of this one, and gives its home the bit.
    pub fn adopt(&mut self, from: &Leaf<'_>, slot: usize) {
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
        let home = self.view().home_of(slot);
        self.set_bit(home, self.shape.distance(home, slot), true);
    }

    /// Empties `slot` and takes its key's bit away. Only in images that are written as a whole.
    pub fn vacate(&mut self, slot: usize) {
        let home = self.view().home_of(slot);
        self.set_bit(home, self.shape.distance(home, slot), false);
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

    /// Finishes an image that is written as a whole: `version` goes to every line, entry and replica, and replicas and entries
    /// repeat what the header says now.
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
        // Who READs an entry of a retired leaf alone must not take it for one of the life that ended.
        let life = if retired == 0 { header.generation } else { header.generation.wrapping_add(1) };
        for slot in 0..self.shape.span {
            let old = self.view().version(slot);
            stripes::write(self.image, self.shape.entry_at(slot), &[old & !VERSION_MASK | version]);
            self.set_generation(slot, life);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::lock_word::RowId;
    use crate::remote::rows::Member;
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    const OWNER: Member = Member { row: RowId(7), incarnation: 3, nonce: 1 };

    const SHAPE: LeafShape = LeafShape::new(8, 8, 64, 8);

    #[test]
    fn the_papers_sizes_hold() {
        assert_eq!(SHAPE.entry_bytes(), 19);
        assert_eq!(SHAPE.bytes, 1408);
        assert_eq!(SHAPE.place_bytes(), 1472);
        for home in 0..64 {
            let bytes: usize = SHAPE.runs(home, 8).iter().map(|run| SHAPE.read_range(run).len()).sum();
            assert!((164..=166).contains(&bytes), "home {home}: {bytes} bytes");
        }
    }

    #[test]
    fn every_neighborhood_has_a_replica() {
        for (span, neighborhood) in [(8, 2), (8, 8), (9, 4), (64, 8), (61, 7), (512, 16)] {
            let shape = LeafShape::new(8, 8, span, neighborhood);
            for home in 0..span {
                let at = stripes::stored_offset(shape.replica_at(shape.replica_near(home)));
                let runs = shape.runs(home, neighborhood);
                let inside = |offset: usize| runs.iter().any(|run| shape.read_range(run).contains(&offset));
                let last = stripes::stored_offset(shape.replica_at(shape.replica_near(home)) + REPLICA_BYTES - 1);
                assert!(inside(at) && inside(last), "span {span}, H {neighborhood}, home {home}");
            }
        }
    }

    /// A sealed, empty image.
    fn image(shape: &LeafShape) -> Vec<u8> {
        let mut image = vec![0; shape.bytes];
        let header =
            Header { generation: 3, level: 0, index: 1, flags: NodeFlags::empty(), count: 0, sibling: Address::NULL };
        node::start(&mut image, &header, &[0; KEY_BYTES_MAX][..shape.key_bytes], None);
        LeafMut::new(shape, &mut image).seal(5);
        image
    }

    #[test]
    fn pieces_that_begin_anywhere_show_the_node_version() {
        let mut image = image(&SHAPE);
        for home in 0..64 {
            assert!(Leaf::new(&SHAPE, &image).agrees(&SHAPE.runs(home, 8)), "home {home}");
        }
        // One line of another WRITE of the whole node: entries 4..=6 and their parts.
        let mut other = image.clone();
        LeafMut::new(&SHAPE, &mut other).seal(6);
        let line = SHAPE.write_range(&(5..6)).start / 64 * 64;
        image[line..line + 64].copy_from_slice(&other[line..line + 64]);
        for home in 0..64 {
            let runs = SHAPE.runs(home, 8);
            let mixed = {
                let lines: Vec<bool> = runs
                    .iter()
                    .map(|run| SHAPE.read_range(run))
                    .flat_map(|range| range.map(|at| at / 64 * 64 == line).collect::<Vec<_>>())
                    .collect();
                lines.contains(&true) && lines.contains(&false)
            };
            assert_eq!(Leaf::new(&SHAPE, &image).agrees(&runs), !mixed, "home {home}");
        }
    }

    #[test]
    fn a_walk_sees_what_looks_at_single_entries_see() {
        for shape in [SHAPE, LeafShape::new(8, 120, 9, 2), LeafShape::new(24, 8, 61, 16), LeafShape::new(8, 8, 512, 7)]
        {
            let mut image = image(&shape);
            for slot in (0..shape.span).step_by(3) {
                let mut leaf = LeafMut::new(&shape, &mut image);
                leaf.put(slot, &[slot as u8; 64][..shape.key_bytes], &[7; 120][..shape.value_bytes]);
                leaf.set_bit(slot, slot % shape.neighborhood, true);
                if slot % 2 == 0 {
                    leaf.set_state(slot, State::Dead);
                }
            }
            // An entry that is of two WRITEs.
            let lines = |slot: usize| stripes::crossings(shape.entry_at(slot), shape.entry_bytes()).next();
            let torn = (1..shape.span).find_map(lines).expect("an entry that reaches into another line");
            image[torn] ^= 0x10;
            let leaf = Leaf::new(&shape, &image);
            for first in [0, 5, shape.span - 1] {
                let walked: Vec<_> = leaf.walk(first, shape.span).collect();
                assert_eq!(walked.len(), shape.span);
                for (distance, (slot, here)) in walked.into_iter().enumerate() {
                    assert_eq!(slot, shape.after(first, distance));
                    assert_eq!(leaf.state_at(here), leaf.state(slot), "entry {slot}");
                    assert_eq!(leaf.is_whole_at(here), leaf.is_whole(slot), "entry {slot}");
                    assert_eq!(leaf.bitmap_at(here), leaf.bitmap(slot), "entry {slot}");
                    assert_eq!(leaf.home_at(slot, here), leaf.home_of(slot), "entry {slot}");
                }
            }
            assert!(!leaf.entries_whole(0, shape.span));
        }
    }

    #[test]
    fn an_entry_alone_tells_whose_it_is() {
        for shape in [SHAPE, LeafShape::new(8, 120, 16, 16)] {
            let mut image = image(&shape);
            let key = 42u64.to_be_bytes();
            let slot = 7;
            let mut leaf = LeafMut::new(&shape, &mut image);
            leaf.put(slot, &key, &[7; 120][..shape.value_bytes]);
            let part = shape.write_range(&(slot..slot + 1));
            let alone = |image: &[u8], generation| {
                let mut only = vec![0; shape.bytes];
                only[part.clone()].copy_from_slice(&image[part.clone()]);
                Leaf::new(&shape, &only).holds(slot, generation, &key)
            };
            assert!(alone(&image, 3));
            assert!(!alone(&image, 4), "the next life of the place");
            LeafMut::new(&shape, &mut image).set_state(slot, State::Dead);
            assert!(!alone(&image, 3), "deleted");
            LeafMut::new(&shape, &mut image).set_state(slot, State::Live);
            node::retire(&mut image, Address::NULL, OWNER);
            LeafMut::new(&shape, &mut image).seal(6);
            assert!(!alone(&image, 3), "retired");
        }
    }

    #[test]
    fn a_record_deleted_is_not_found_and_its_bit_still_leads_to_it() {
        for (span, neighborhood) in [(64, 8), (16, 16), (9, 15)] {
            let shape = LeafShape::new(8, 8, span, neighborhood.min(span));
            let mut image = image(&shape);
            let key = 42u64.to_be_bytes();
            let home = shape.home(&key);
            let slot = shape.after(home, 1);
            let mut leaf = LeafMut::new(&shape, &mut image);
            leaf.put(slot, &key, &[7; 8]);
            leaf.set_bit(home, 1, true);
            assert_eq!(leaf.view().find(home, &key), Ok(Some(slot)));
            assert_eq!(leaf.view().check(&[0; 8], None), Ok(1));
            leaf.set_state(slot, State::Dead);
            assert_eq!(leaf.view().find(home, &key), Ok(None));
            assert_eq!(leaf.view().check(&[0; 8], None), Ok(0));
            leaf.set_state(slot, State::Empty);
            assert_eq!(leaf.view().find(home, &key), Err(DecodeError::Torn), "a bit that leads nowhere");
        }
    }
}
