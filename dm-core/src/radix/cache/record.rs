//! A record: one copy of a node, and where its slots are.

use crate::radix::slot::{BYTES_MAX, Node, NodeType, SLOTS_AT, Slot};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
    fence,
};

/// Words of a unit of the log.
pub(super) const UNIT_WORDS: usize = 4;
/// Words of a record before its map.
pub(super) const RECORD_WORDS: usize = 8;
/// Nodes with at least as many slots have them in a hash table.
const HASHED_SLOTS: usize = 16;
/// Bits of an epoch that a record has; above them is its size.
pub const EPOCH_BITS: u32 = 24;
pub(super) const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;

/// A record's word of size and epoch. Padding at the end of the log has its size where others have their epoch.
pub(super) const fn sized(units: u32, epoch: u32) -> u32 {
    units << EPOCH_BITS | epoch & EPOCH_MASK
}

pub(super) const fn is_hashed(kind: NodeType) -> bool {
    kind.slots() >= HASHED_SLOTS
}

/// Words of a record that say which slot is where.
const fn number_words(kind: NodeType) -> usize {
    if is_hashed(kind) { kind.slots() / 4 } else { 0 }
}

/// Units of the record of a node of `kind` without hints.
pub(super) const fn units_of(kind: NodeType) -> usize {
    (RECORD_WORDS + number_words(kind) + 2 * kind.slots()).div_ceil(UNIT_WORDS)
}

/// The same with hints.
pub(super) const fn units_hinted(kind: NodeType) -> usize {
    (hints_at(kind) + kind.slots()).div_ceil(UNIT_WORDS)
}

/// The word of the first slot in a record.
pub(super) const fn slots_at(kind: NodeType) -> usize {
    RECORD_WORDS + number_words(kind)
}

/// The word of the first hint in a record that has some.
pub(super) const fn hints_at(kind: NodeType) -> usize {
    slots_at(kind) + 2 * kind.slots()
}

/// Whether a record of so many units has hints.
pub(super) const fn has_hints(kind: NodeType, units: usize) -> bool {
    is_hashed(kind) && units >= units_hinted(kind)
}

/// A slot found in a record.
pub(super) struct FoundSlot {
    /// Its number in the node.
    pub index: usize,
    pub word: Slot,
    /// Where it is in the record's table.
    pub at: usize,
}

/// The size of a record.
pub(super) fn units_in(record: &[AtomicU32]) -> u32 {
    record.get(3).map_or(0, |size| size.load(Relaxed) >> EPOCH_BITS)
}

/// The low bits of a record's epoch.
pub(super) fn epoch_of(record: &[AtomicU32]) -> u32 {
    record.get(3).map_or(0, |size| size.load(Relaxed) & EPOCH_MASK)
}

/// Looks for the slot of a byte.
#[expect(clippy::inline_always, reason = "a call that returns its result through memory takes 3 % of an update")]
#[inline(always)]
pub(super) fn search(record: &[AtomicU32], kind: NodeType, partial: u8) -> Option<FoundSlot> {
    let (slots, _) = record.get(slots_at(kind)..)?.as_chunks::<2>();
    let slots = slots.get(..kind.slots())?;
    if !is_hashed(kind) {
        return slots.iter().enumerate().find_map(|(index, slot)| {
            let word = slot_of(slot);
            (word.partial() == partial && !word.is_empty()).then_some(FoundSlot { index, word, at: index })
        });
    }
    let at = probe(slots, partial)?;
    let word = slot_of(slots.get(at)?);
    if word.is_empty() {
        return None;
    }
    let numbers = record.get(RECORD_WORDS + at / 4)?.load(Relaxed);
    Some(FoundSlot { index: usize::from((numbers >> (8 * (at % 4))) as u8), word, at })
}

/// Looks for the slot of the greatest byte that is not above `byte`: in a copy of a node of tiles.
///
/// A small node's slots are ranked by numbers, not by tuples: keeping the best tuple in memory took an eighth of an
/// update. In a hash table most look-ups find the byte itself.
#[expect(clippy::inline_always, reason = "as for the search of a byte")]
#[inline(always)]
pub(super) fn search_floor(record: &[AtomicU32], kind: NodeType, byte: u8) -> Option<FoundSlot> {
    if is_hashed(kind) {
        return search(record, kind, byte).or_else(|| search_below(record, kind, byte));
    }
    let slots = record.get(slots_at(kind)..)?.as_chunks::<2>().0.get(..kind.slots())?;
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
fn search_below(record: &[AtomicU32], kind: NodeType, byte: u8) -> Option<FoundSlot> {
    let nearest = (0..byte).rev().take(kind.slots() / 8).find_map(|byte| search(record, kind, byte));
    nearest.or_else(|| search(record, kind, bytes_of(record, kind)?.filter(|&low| low <= byte).max()?))
}

/// Looks for the slot of the smallest byte above `byte`, likewise.
pub(super) fn search_above(record: &[AtomicU32], kind: NodeType, byte: u8) -> Option<FoundSlot> {
    if is_hashed(kind) {
        let mut bytes = (byte..=u8::MAX).skip(1).take(kind.slots() / 8);
        let nearest = bytes.find_map(|byte| search(record, kind, byte));
        if nearest.is_some() {
            return nearest;
        }
    }
    search(record, kind, bytes_of(record, kind)?.filter(|&low| low > byte).min()?)
}

/// The bytes that have a slot, in no order.
fn bytes_of(record: &[AtomicU32], kind: NodeType) -> Option<impl Iterator<Item = u8>> {
    let (slots, _) = record.get(slots_at(kind)..)?.as_chunks::<2>();
    let lows = slots.get(..kind.slots())?.iter().map(|[low, _]| Slot(u64::from(low.load(Relaxed))));
    Some(lows.filter(|low| !low.is_empty()).map(Slot::partial))
}

/// Changes a record that readers may be reading.
pub(super) fn patching(record: &[AtomicU32], change: impl FnOnce(&[AtomicU32])) {
    let Some(turn) = record.get(1) else { return };
    let before = turn.load(Relaxed);
    turn.store(before.wrapping_add(1), Relaxed);
    fence(Release);
    change(record);
    turn.store(before.wrapping_add(2), Release);
}

pub(super) fn fill_slots(record: &[AtomicU32], node: &Node<'_>) {
    let kind = node.header.kind;
    record.iter().take(hints_at(kind)).skip(RECORD_WORDS).for_each(|place| place.store(0, Relaxed));
    for (index, word) in node.slots().enumerate() {
        set_slot(record, kind, index, word);
    }
}

pub(super) fn set_slot(record: &[AtomicU32], kind: NodeType, index: usize, word: Slot) {
    let Some((slots, _)) = record.get(slots_at(kind)..).map(<[_]>::as_chunks::<2>) else { return };
    let Some(slots) = slots.get(..kind.slots()) else { return };
    let at = if is_hashed(kind) {
        // An empty slot has no byte, and no place; a slot does not become empty.
        let Some(at) = probe(slots, word.partial()).filter(|_| !word.is_empty()) else { return };
        if let Some(place) = record.get(RECORD_WORDS + at / 4) {
            let shift = 8 * (at % 4);
            place.store(place.load(Relaxed) & !(0xff << shift) | (index as u32) << shift, Relaxed);
        }
        at
    } else {
        index
    };
    if let Some([low, high]) = slots.get(at) {
        low.store(word.0 as u32, Relaxed);
        high.store((word.0 >> 32) as u32, Relaxed);
    }
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

/// Bytes a copy of a node of each type takes, in the order of types.
pub const COPY_BYTES: [usize; 7] = {
    let mut bytes = [0; 7];
    let mut number = 1;
    while number <= 7 {
        if let Some(kind) = NodeType::new(number) {
            bytes[number as usize - 1] = units_of(kind) * UNIT_WORDS * 4;
        }
        number += 1;
    }
    bytes
};

// A record's size has room above its epoch. The size of padding, which is shorter than the record that it makes room
// for, has room in the epoch's place.
static_assertions::const_assert!(units_hinted(NodeType::LARGEST) < 1 << (u32::BITS - EPOCH_BITS));
// Headers hold what lookups compare; slots begin where images have them.
static_assertions::const_assert!(BYTES_MAX == 6 && SLOTS_AT == 16);
