//! A record: one copy of a node, and where its slots are.

use crate::radix::slot::{BYTES_MAX, Header, NodeType, Place, Slot};
use crate::verbs::NodeId;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Words of a unit of the log.
pub(super) const UNIT_WORDS: usize = 4;
/// Words of a record's head: the older record, size and epoch, name.
pub(super) const HEAD_WORDS: usize = 4;
/// Units of it.
pub(super) const HEAD_UNITS: usize = HEAD_WORDS.div_ceil(UNIT_WORDS);
/// Words of the bytes in front of a node's position, in records of nodes that have some.
const FRONT_WORDS: usize = BYTES_MAX.div_ceil(4);
/// So many slots lie as they do in the node. More lie in a hash table.
pub(super) const LIST_SLOTS_MAX: usize = 8;
/// Bits of an epoch that a record has; above them is its size.
pub const EPOCH_BITS: u32 = 24;
pub(super) const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;

/// A record's word of size and epoch. Padding at the end of the log has its size where others have their epoch.
pub(super) const fn sized(units: u32, epoch: u32) -> u32 {
    units << EPOCH_BITS | epoch & EPOCH_MASK
}

/// The size of a record.
pub(super) fn units_in(record: &[AtomicU32]) -> u32 {
    record.get(1).map_or(0, |size| size.load(Relaxed) >> EPOCH_BITS)
}

/// The low bits of a record's epoch.
pub(super) fn epoch_of(record: &[AtomicU32]) -> u32 {
    record.get(1).map_or(0, |size| size.load(Relaxed) & EPOCH_MASK)
}

/// Which node a record is a copy of: the pointer that leads to the node ([`Slot::target`]). Where that has no bits it
/// has the header's position and size. 0: of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    low: u32,
    high: u32,
}

/// Where a name has a header's size.
const SIZE_SHIFT: u32 = 12;
const SIZE: u32 = 7 << SIZE_SHIFT;
const POSITION: u32 = 0xff;

impl Name {
    pub(super) const NONE: Self = Self { low: 0, high: 0 };

    pub(super) const fn new(target: u64, header: &Header) -> Self {
        let header = header.position as u32 | (header.size as u32) << SIZE_SHIFT;
        Self { low: target as u32 | header, high: (target >> 32) as u32 }
    }

    #[inline]
    pub(super) fn load(low: &AtomicU32, high: &AtomicU32) -> Self {
        Self { low: low.load(Relaxed), high: high.load(Relaxed) }
    }

    pub(super) fn store(self, record: &[AtomicU32]) {
        if let [_, _, low, high, ..] = record {
            low.store(self.low, Relaxed);
            high.store(self.high, Relaxed);
        }
    }

    /// Whether it is of the node that `target` points to.
    #[inline]
    pub(super) const fn is_of(self, target: u64) -> bool {
        self.low & !(POSITION | SIZE) == target as u32 && self.high == (target >> 32) as u32
    }

    /// The pointer to the node.
    pub(super) const fn target(self) -> u64 {
        (self.high as u64) << 32 | (self.low & !(POSITION | SIZE)) as u64
    }

    /// The node's position.
    #[inline]
    pub(super) const fn position(self) -> u8 {
        self.low as u8
    }

    /// How many bytes in front of it the header repeats.
    #[inline]
    pub(super) const fn size(self) -> u8 {
        (self.low >> SIZE_SHIFT) as u8 & 7
    }
}

/// Where a record has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    kind: NodeType,
    pub(super) units: usize,
    /// Where the slots begin, or the numbers of those in a hash table.
    begin: usize,
}

impl Form {
    /// Of a record of `units`. `size`: how many bytes in front its node's header repeats.
    #[inline]
    pub(super) const fn new(kind: NodeType, units: usize, size: u8) -> Self {
        Self { kind, units, begin: Self::begin(size) }
    }

    #[inline]
    const fn begin(size: u8) -> usize {
        if size == 0 { HEAD_WORDS } else { HEAD_WORDS + FRONT_WORDS }
    }

    /// The smallest one for the slots in front of `end`.
    pub(super) const fn of_list(kind: NodeType, size: u8, end: usize) -> Self {
        let words = Self::begin(size) + 2 * end;
        Self::new(kind, words.div_ceil(UNIT_WORDS), size)
    }

    /// With a hash table, and hints.
    pub(super) const fn of_table(kind: NodeType, size: u8, hints: bool) -> Self {
        let slots = kind.slots();
        let words = Self::begin(size) + slots / 4 + 2 * slots + if hints { slots } else { 0 };
        Self::new(kind, words.div_ceil(UNIT_WORDS), size)
    }

    /// For the slots in front of `end`: a list if there may be one.
    pub(super) const fn for_slots(kind: NodeType, size: u8, end: usize, hints: bool) -> Self {
        if end <= LIST_SLOTS_MAX { Self::of_list(kind, size, end) } else { Self::of_table(kind, size, hints) }
    }

    /// Whether the slots lie in a hash table.
    #[inline]
    pub(super) const fn is_table(self) -> bool {
        self.kind.slots() > LIST_SLOTS_MAX && self.units * UNIT_WORDS >= HEAD_WORDS + 2 * self.kind.slots()
    }

    /// Where the slots begin.
    #[inline]
    pub(super) const fn slots_at(self) -> usize {
        if self.is_table() { self.begin + self.kind.slots() / 4 } else { self.begin }
    }

    /// How many slots there is room for.
    #[inline]
    pub(super) const fn places(self) -> usize {
        let slots = self.kind.slots();
        if self.is_table() {
            return slots;
        }
        let most = if slots < LIST_SLOTS_MAX { slots } else { LIST_SLOTS_MAX };
        let room = (self.units * UNIT_WORDS).saturating_sub(self.begin) / 2;
        if room < most { room } else { most }
    }

    /// Where the hints begin, if there are some.
    #[inline]
    pub(super) const fn hints_at(self) -> Option<usize> {
        let at = self.begin + self.kind.slots() / 4 + 2 * self.kind.slots();
        if self.is_table() && self.units * UNIT_WORDS >= at + self.kind.slots() { Some(at) } else { None }
    }

    /// Whether what has the form `other` can be put where this was.
    pub(super) const fn takes(self, other: Self) -> bool {
        self.begin == other.begin && self.places() >= other.places()
    }

    /// The slots of a record of this form.
    #[inline]
    fn slots(self, record: &[AtomicU32]) -> Option<&[[AtomicU32; 2]]> {
        record.get(self.slots_at()..)?.as_chunks::<2>().0.get(..self.places())
    }
}

/// A slot found in a record.
pub(super) struct FoundSlot {
    /// Its number in the node.
    pub index: usize,
    pub word: Slot,
    /// Where it is in the record's table.
    pub at: usize,
}

/// Looks for the slot of a byte.
#[expect(clippy::inline_always, reason = "a call that returns its result through memory takes 3 % of an update")]
#[inline(always)]
pub(super) fn search(record: &[AtomicU32], form: Form, partial: u8) -> Option<FoundSlot> {
    let slots = form.slots(record)?;
    if !form.is_table() {
        return slots.iter().enumerate().find_map(|(index, slot)| {
            let word = slot_of(slot);
            (word.partial() == partial && !word.is_empty()).then_some(FoundSlot { index, word, at: index })
        });
    }
    let at = probe(slots, partial)?;
    let word = slot_of(slots.get(at)?);
    // A damaged word may look empty by its low half alone.
    if word.is_empty() || word.partial() != partial {
        return None;
    }
    let numbers = record.get(form.begin + at / 4)?.load(Relaxed);
    Some(FoundSlot { index: usize::from((numbers >> (8 * (at % 4))) as u8), word, at })
}

/// Looks for the slot of the greatest byte that is not above `byte`: in a copy of a node of tiles.
///
/// A small node's slots are ranked by numbers, not by tuples: keeping the best tuple in memory took an eighth of an
/// update. In a hash table most look-ups find the byte itself.
#[expect(clippy::inline_always, reason = "as for the search of a byte")]
#[inline(always)]
pub(super) fn search_floor(record: &[AtomicU32], form: Form, byte: u8) -> Option<FoundSlot> {
    if form.is_table() {
        return search(record, form, byte).or_else(|| search_below(record, form, byte));
    }
    let slots = form.slots(record)?;
    let mut best = 0;
    for (index, [low, _]) in slots.iter().enumerate() {
        // The low half has the byte, and says whether the slot is empty.
        let low = Slot(u64::from(low.load(Relaxed)));
        let rank = 1 << 16 | usize::from(low.partial()) << 8 | index;
        best = if !low.is_empty() && low.partial() <= byte { best.max(rank) } else { best };
    }
    let index = best & 0xff;
    let word = slot_of(slots.get(index).filter(|_| best > 0)?);
    // The slot may have been filled between the two loads.
    (!word.is_empty()).then_some(FoundSlot { index, word, at: index })
}

/// The same in a hash table that has no slot of `byte`. The bytes below are tried one after the other, as many as are
/// likely to have a slot; then all slots are.
#[inline(never)]
fn search_below(record: &[AtomicU32], form: Form, byte: u8) -> Option<FoundSlot> {
    let nearest = (0..byte).rev().take(form.places() / 8).find_map(|byte| search(record, form, byte));
    nearest.or_else(|| search(record, form, bytes_of(record, form)?.filter(|&low| low <= byte).max()?))
}

/// Looks for the slot of the smallest byte above `byte`, likewise.
pub(super) fn search_above(record: &[AtomicU32], form: Form, byte: u8) -> Option<FoundSlot> {
    if form.is_table() {
        let mut bytes = (byte..=u8::MAX).skip(1).take(form.places() / 8);
        let nearest = bytes.find_map(|byte| search(record, form, byte));
        if nearest.is_some() {
            return nearest;
        }
    }
    search(record, form, bytes_of(record, form)?.filter(|&low| low > byte).min()?)
}

/// The bytes that have a slot, in no order.
fn bytes_of(record: &[AtomicU32], form: Form) -> Option<impl Iterator<Item = u8>> {
    let lows = form.slots(record)?.iter().map(|[low, _]| Slot(u64::from(low.load(Relaxed))));
    Some(lows.filter(|low| !low.is_empty()).map(Slot::partial))
}

/// The header of a record's node.
#[inline]
pub(super) fn header_of(record: &[AtomicU32], form: Form, name: Name) -> Header {
    let mut bytes = [0; BYTES_MAX];
    if let Some([low, high]) = record.get(HEAD_WORDS..form.begin).and_then(<[_]>::first_chunk) {
        let front = u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed));
        bytes.iter_mut().zip(front.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    Header { position: name.position(), kind: form.kind, size: name.size(), bytes }
}

/// Writes all of a record but the link to an older one and its hints: the bytes in front, and `slots` by their numbers, of
/// which none is empty.
pub(super) fn write(
    record: &[AtomicU32],
    (name, form, front): (Name, Form, [u8; BYTES_MAX]),
    epoch: u32,
    slots: impl Iterator<Item = (usize, Slot)>,
) {
    if let [_, size, ..] = record {
        size.store(sized(form.units as u32, epoch), Relaxed);
    }
    name.store(record);
    let end = form.hints_at().unwrap_or(form.units * UNIT_WORDS);
    for place in record.get(HEAD_WORDS..end).unwrap_or_default() {
        place.store(0, Relaxed);
    }
    let [first, second, third, fourth, fifth, sixth] = front;
    let front = [u32::from_le_bytes([first, second, third, fourth]), u32::from_le_bytes([fifth, sixth, 0, 0])];
    let places = record.get(HEAD_WORDS..form.begin).unwrap_or_default();
    places.iter().zip(front).for_each(|(place, word)| place.store(word, Relaxed));
    let Some(places) = form.slots(record) else { return };
    if form.is_table() {
        slots.for_each(|(index, word)| _ = set_in_table(record, form.begin, places, index, word));
    } else {
        slots.for_each(|(index, word)| _ = set(places.get(index), word));
    }
}

/// Sets slot `index` of the node. `false`: the record has no place for it.
pub(super) fn set_slot(record: &[AtomicU32], form: Form, index: usize, word: Slot) -> bool {
    let Some(places) = form.slots(record) else { return false };
    if word.is_empty() && (form.is_table() || index >= places.len()) {
        // An empty slot has no byte, and needs no place; a slot does not become empty.
        return true;
    }
    let is_set = if form.is_table() {
        set_in_table(record, form.begin, places, index, word)
    } else {
        set(places.get(index), word)
    };
    is_set.is_some()
}

#[inline]
fn set_in_table(
    record: &[AtomicU32],
    numbers_at: usize,
    places: &[[AtomicU32; 2]],
    index: usize,
    word: Slot,
) -> Option<()> {
    let at = probe(places, word.partial())?;
    let numbers = record.get(numbers_at + at / 4)?;
    let shift = 8 * (at % 4);
    numbers.store(numbers.load(Relaxed) & !(0xff << shift) | (index as u32) << shift, Relaxed);
    set(places.get(at), word)
}

#[inline]
fn set(place: Option<&[AtomicU32; 2]>, word: Slot) -> Option<()> {
    let [low, high] = place?;
    low.store(word.0 as u32, Relaxed);
    high.store((word.0 >> 32) as u32, Relaxed);
    Some(())
}

/// The slots of a list, by their numbers.
pub(super) fn listed(record: &[AtomicU32], form: Form) -> [Slot; LIST_SLOTS_MAX] {
    let mut all = [Slot::EMPTY; LIST_SLOTS_MAX];
    let slots = form.slots(record).filter(|_| !form.is_table()).unwrap_or_default();
    all.iter_mut().zip(slots).for_each(|(to, slot)| *to = slot_of(slot));
    all
}

#[inline]
fn slot_of([low, high]: &[AtomicU32; 2]) -> Slot {
    Slot(u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed)))
}

/// Where a byte's slot lies in a table of so many, a power of two, if the place is not taken. Multiplied, consecutive
/// bytes lie apart, and so do bytes that are multiples of something.
#[inline]
pub(super) const fn home(partial: u8, slots: usize) -> usize {
    (partial.wrapping_mul(0x9d) as usize * slots) >> 8
}

/// The place of a byte's slot in a table of them, or the empty one where it would be. `None`: the table is full of
/// others. The low half of a word has both its byte and whether it is empty.
#[inline]
fn probe(slots: &[[AtomicU32; 2]], partial: u8) -> Option<usize> {
    let mask = slots.len().wrapping_sub(1);
    let mut at = home(partial, slots.len());
    for _ in 0..slots.len() {
        let low = slots.get(at)?[0].load(Relaxed);
        if low as u8 == partial && low != 0 || Slot(u64::from(low)).is_empty() {
            return Some(at);
        }
        at = (at + 1) & mask;
    }
    None
}

/// Bytes that a copy of a node of each type takes if all its slots are in use, in the order of types.
pub const COPY_BYTES: [usize; 7] = {
    let mut bytes = [0; 7];
    let mut number = 1;
    while number <= 7 {
        if let Some(kind) = NodeType::new(number) {
            bytes[number as usize - 1] = full(kind, 0).units * UNIT_WORDS * 4;
        }
        number += 1;
    }
    bytes
};

/// Bytes that a copy takes at least, of a node with two slots in use.
pub const COPY_BYTES_MIN: usize = Form::of_list(NodeType::SMALLEST, 0, 2).units * UNIT_WORDS * 4;

/// The form with room for all slots, without hints.
pub(super) const fn full(kind: NodeType, size: u8) -> Form {
    if kind.slots() > LIST_SLOTS_MAX {
        Form::of_table(kind, size, false)
    } else {
        Form::of_list(kind, size, kind.slots())
    }
}

const KIND: NodeType = NodeType::LARGEST;
// A record's size has room above its epoch. The size of padding, which is shorter than the record that it makes room
// for, has room in the epoch's place.
static_assertions::const_assert!(Form::of_table(KIND, 6, true).units < 1 << (u32::BITS - EPOCH_BITS));
// A name has room for what a header has: no pointer to a node has these bits.
static_assertions::const_assert!(
    Slot::tile_node(0, KIND, Place::new(NodeId(0xff), u64::MAX)).target() as u32 & (POSITION | SIZE) == 0
);
// A node's numbers are bytes, and are as many as there are slots.
static_assertions::const_assert!(KIND.slots() == 256 && BYTES_MAX <= 7);
