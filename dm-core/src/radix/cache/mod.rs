//! Copies of nodes on the compute node: from the root to the deepest slot they know, without a round trip.
//!
//! A copy is found by the slot that leads to its node. A lookup begins with the last root slot seen and follows the
//! copies' own slots, comparing headers as a descent does. It ends at a slot that leads to a leaf, or to a node of
//! which there is no copy. That slot's place, its word as copied, and where its child begins are the result.
//!
//! **Tiles.** The word that leads to a node says whether its slots stand for bytes or for tiles. In a copy of a node of
//! tiles a lookup takes the greatest byte that is not above the key's. If the copy lacks a slot that was appended
//! meanwhile, that is the slot in front of it: the lookup ends above if a void or a node there cannot be the key's
//! ([`Slot::may_cover`]); a leaf says its bounds itself.
//!
//! **What a copy may be.** Old, in its slots; a header never changes. So a result is a slot of the key's own path that
//! once had this word. A descent that follows it checks it ([`crate::smart`]). Nothing that a lookup *does not* find in
//! a copy is ever an answer. Copies older than the operation that asks count as absent. The rules for epochs,
//! positions, readers and writers, and why a reader never sees a mixture, are in
//! [`node_copies`](crate::manual::node_copies).
//!
//! # Storage
//!
//! Atomic words from the host, all of them accounted for ([`Usage`]):
//!
//! ```text
//!         ┌─────────┬──────┬──────────────────────────────────────────┬───────┐
//!         │ buckets │ heat │ log: a ring                              │ turns │
//!         │ (chain) │      │     head ─► oldest ... newest ─► tail    │       │
//!         └─────────┴──────┴──────────────────────────────────────────┴───────┘
//!  record 0       4      8                      16
//!        ┌───────┬──────┬──────────────────────┬────────────────┬─────────┬───────┬───────┐
//!        │ older │ size │ name: slot to it,    │ bytes in front │ numbers │ slots │ hints │
//!        │       │ epoch│ position, their size │ (8 or none)    │         │       │       │
//!        └───────┴──────┴──────────────────────┴────────────────┴─────────┴───────┴───────┘
//! ```
//!
//! Positions count on and on, in units of 16 bytes. Records of one bucket are linked from newer to older.
//!
//! **Slots.** Up to eight lie as they do in the node, and a record has room only for those that were in use (a *list*).
//! If one more comes, a larger record replaces it, with room for all slots of the node or for eight. More than eight
//! slots lie in a hash table with linear probing that is as large as the node, by their bytes, so that the place of a
//! byte follows from the byte. The *numbers*, a byte each, say which slot of the node it is. Which form a record has
//! follows from its size. Tables of nodes that have mostly nodes below have *hints*: where each child's record is. A
//! hint saves the look into a bucket, a cache line that nothing else brings.
//!
//! **Bytes.** A node of 60 M random keys has four slots on average, so what a record has besides its slots counts. Copies
//! that lead to all of these keys take 1,037 MB, tables included. Heads of 32 bytes, with position, turn and a header of
//! their own, and room for four or eight slots took more than 1,348 MB. Units of 8 bytes instead of 16 would take 986 MB.
//! Turns are few words that all records share: while one of them is changed, look-ups in others of its turn miss, too.
//!
//! # Memory that is far
//!
//! Copies are a third as large as the tree. A lookup that comes to a copy whose lines are not near the processor waits
//! for them longer than for everything else in a cached search. So it may go in steps ([`NodeCache::follow`]): where
//! the next level has many copies, it prefetches the lines that it will want, which follow from the parent's hint and
//! the key's next byte, and continues when other lanes have had their turns.
//!
//! # Eviction
//!
//! The oldest record goes, unless it was used since it was appended: then it is appended again, one degree cooler (a
//! CLOCK with counts whose hand is the head of the log). Two bits say how warm a record is. They are found by where the
//! record begins, and lie away from it: so they are few lines, all near the processor, and a reader need not write
//! where a record may be gone. One insertion moves at most [`MOVES_MAX`] records.

mod log;
mod lookup;
mod record;

pub use lookup::{Route, Walk};
pub use record::{COPY_BYTES, COPY_BYTES_MIN, EPOCH_BITS};

use super::slot::{BYTES_MAX, Node, NodeType, Slot};
use crate::layout::divisor::Divisor;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use log::{BLOCK_UNITS, Writer};
use lookup::LEVELS_MAX;
use record::{EPOCH_MASK, Form, LIST_SLOTS_MAX, Name, UNIT_WORDS, epoch_of, header_of, listed, set_slot, write};
use spin::Mutex;

/// Log units per bucket: four of the smallest records, two or three of those that are usual.
const UNITS_PER_BUCKET: usize = 8;
/// Words of storage per turn. With few turns, lines of them would be asked for again after every change.
const WORDS_PER_TURN: usize = 512;
/// The fewest and the most turns, powers of two.
const TURNS: [usize; 2] = [16, 1024];
/// Records one insertion moves to the tail.
pub const MOVES_MAX: usize = 8;
/// Positions start again, with an empty log, before they wrap around.
const POSITION_END: u32 = 1 << 31;
/// The smallest log: some of the smallest nodes.
const LOG_UNITS_MIN: usize = 64;
/// The largest log: positions between head and tail are told apart by less than half of the values.
const LOG_UNITS_MAX: usize = 1 << 30;

/// What epochs that copies can tell apart have in common.
const fn era_of(epoch: u32) -> u32 {
    epoch >> EPOCH_BITS
}

/// What the storage is used for now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes handed in.
    pub budget_bytes: u64,
    /// Bytes of the log between head and tail.
    pub used_bytes: u64,
    /// Bytes of the log that were never used or are free again.
    pub free_bytes: u64,
    /// Bytes of the buckets, of the turns, and of what says how warm records are.
    pub bucket_bytes: u64,
    /// Bytes that are neither.
    pub slack_bytes: u64,
    /// Records that were evicted.
    pub evictions: u64,
    /// Records that were moved to the tail instead.
    pub moves: u64,
}

/// A copy, as its writer sees it.
struct Copied<'s> {
    unit: usize,
    record: &'s [AtomicU32],
    name: Name,
    form: Form,
}

/// Copies of nodes, shared by everything that runs on a compute node. See the [module](self).
pub struct NodeCache<'s> {
    budget_words: usize,
    buckets: &'s [AtomicU32],
    /// Heat of the record that begins in each [`HEAT_UNITS`] of the log.
    heat: &'s [AtomicU32],
    log: &'s [AtomicU32],
    /// Odd while a record is being changed that begins at a unit of that number, modulo their count, a power of two.
    turns: &'s [AtomicU32],
    /// By the units of the log.
    by_units: Divisor,
    /// Oldest record, and where the next one goes.
    head: AtomicU32,
    tail: AtomicU32,
    /// Turn, low half and high half of the last root slot, and the epoch of the operation that READ it.
    root: [AtomicU32; 4],
    /// The era of the epochs of all copies.
    era: AtomicU32,
    /// How often the log was emptied.
    lives: AtomicU32,
    /// Units of records whose nodes are at each position in the key.
    units_at: [AtomicU32; LEVELS_MAX],
    writer: Mutex<Writer>,
    moves_max: usize,
}

impl<'s> NodeCache<'s> {
    /// A cache in `storage`, whose content does not matter. One that is too small always misses, except for the root
    /// slot.
    pub fn new(storage: &'s [AtomicU32]) -> Self {
        // As many units as there is room for with their buckets.
        const BLOCK_WORDS: usize = BLOCK_UNITS * UNIT_WORDS + BLOCK_UNITS / UNITS_PER_BUCKET + 1;
        let [fewest, most] = TURNS;
        let turns = (storage.len() / WORDS_PER_TURN).next_power_of_two().clamp(fewest, most);
        let units = storage.len().saturating_sub(turns) / BLOCK_WORDS * BLOCK_UNITS;
        let mut units = units.min(LOG_UNITS_MAX);
        if units < LOG_UNITS_MIN {
            units = 0;
        }
        let (buckets, rest) = storage.split_at((units / UNITS_PER_BUCKET).min(storage.len()));
        let (heat, rest) = rest.split_at((units / BLOCK_UNITS).min(rest.len()));
        let (log, rest) = rest.split_at((units * UNIT_WORDS).min(rest.len()));
        let cache = Self {
            budget_words: storage.len(),
            buckets,
            heat,
            log,
            turns: rest.get(..turns).filter(|_| units > 0).unwrap_or_default(),
            by_units: Divisor::new((log.len() / UNIT_WORDS) as u32),
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            root: [const { AtomicU32::new(0) }; 4],
            era: AtomicU32::new(0),
            lives: AtomicU32::new(0),
            units_at: [const { AtomicU32::new(0) }; LEVELS_MAX],
            writer: Mutex::new(Writer::default()),
            moves_max: MOVES_MAX,
        };
        for turn in cache.turns {
            turn.store(0, Relaxed);
        }
        cache.clear();
        cache
    }

    /// The same, but the oldest copy always goes: for comparison with [`NodeCache::new`].
    #[must_use]
    pub fn first_in_first_out(mut self) -> Self {
        self.moves_max = 0;
        self
    }

    /// Words to hand in so that the cache takes at most `budget_bytes`.
    pub const fn words_for(budget_bytes: u64) -> usize {
        let words = budget_bytes / 4;
        if words > usize::MAX as u64 / 8 { usize::MAX / 8 } else { words as usize }
    }

    /// The last root slot seen in `epoch` or later, unless that was empty.
    #[inline]
    pub fn root_slot(&self, epoch: u32) -> Option<Slot> {
        let [turn, low, high, seen] = &self.root;
        let before = turn.load(Acquire);
        let word = u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed));
        let is_known = word != 0 && seen.load(Relaxed) >= epoch && self.era.load(Relaxed) == era_of(epoch);
        fence(Acquire);
        (before & 1 == 0 && turn.load(Relaxed) == before && is_known).then_some(Slot(word))
    }

    /// Remembers the root slot, which an operation of `epoch` has READ.
    pub fn set_root(&self, slot: Slot, epoch: u32) {
        if self.root_slot(epoch) == Some(slot) {
            return;
        }
        let _writer = self.writer.lock();
        let [.., seen] = &self.root;
        // The operation with the later epoch has READ it later.
        if seen.load(Relaxed) <= epoch && self.enter(epoch) {
            self.write_root(slot, epoch);
        }
    }

    fn write_root(&self, slot: Slot, epoch: u32) {
        let [turn, low, high, seen] = &self.root;
        let before = turn.load(Relaxed);
        turn.store(before.wrapping_add(1), Relaxed);
        fence(Release);
        low.store(slot.0 as u32, Relaxed);
        high.store((slot.0 >> 32) as u32, Relaxed);
        seen.store(epoch, Relaxed);
        turn.store(before.wrapping_add(2), Release);
    }

    /// Whether copies of `epoch` may be added. Copies of another era have gone by then, and copies of an era that is
    /// over are not added. The caller has the writers' lock.
    fn enter(&self, epoch: u32) -> bool {
        let (here, era) = (era_of(epoch), self.era.load(Relaxed));
        if here > era {
            self.write_root(Slot::EMPTY, epoch);
            self.empty();
            self.era.store(here, Release);
        }
        here >= era
    }

    /// Copies the node that slot `to` leads to, which an operation of `epoch` has READ. It replaces what an older copy
    /// knew.
    pub fn insert(&self, to: Slot, node: &Node<'_>, epoch: u32) {
        let kind = node.header.kind;
        // Readers know the type by the slot.
        if self.log.is_empty() || to.below().is_none_or(|(below, _)| below != kind) {
            return;
        }
        let mut writer = self.writer.lock();
        if !self.enter(epoch) {
            return;
        }
        let (mut leaves, mut nodes, mut end) = (0, 0, 1);
        for (slot, number) in node.slots().zip(1..) {
            leaves += u32::from(slot.is_leaf());
            nodes += u32::from(slot.below().is_some());
            end = if slot.is_empty() { end } else { number };
        }
        let form = Form::for_slots(kind, node.header.size, end, nodes > leaves);
        let name = Name::new(to.target(), &node.header);
        let slots = node.slots().enumerate().filter(|(_, slot)| !slot.is_empty());
        let mut heat = 0;
        if let Some(old) = self.find(to.target()) {
            let Some(was) = self.copy_at(old, kind) else { return };
            if epoch_of(was.record) > epoch & EPOCH_MASK {
                return;
            }
            // The place may have had another node of the same type: everything of the record is replaced.
            if was.form.takes(form) {
                let units = was.form.units as u32;
                self.discount(old, units);
                self.count(node.header.position, units);
                self.change(was.unit, || write(was.record, (name, was.form, node.header.bytes), epoch, slots));
                return;
            }
            heat = self.heat_of(old);
            self.drop_copy(old, &was);
        }
        self.append(&mut writer, (name, form, node.header.bytes), (epoch, heat), slots);
    }

    /// Appends a record: of a node of that name, with these bytes in front.
    fn append(
        &self,
        writer: &mut Writer,
        (name, form, front): (Name, Form, [u8; BYTES_MAX]),
        (epoch, heat): (u32, u32),
        slots: impl Iterator<Item = (usize, Slot)>,
    ) {
        if !self.make_room(writer, form.units, self.moves_max) {
            return;
        }
        let position = self.tail.load(Relaxed);
        let Some(record) = self.record(position, form.units) else { return };
        let hints = form.hints_at().and_then(|hints| record.get(hints..));
        hints.into_iter().flatten().for_each(|place| place.store(0, Relaxed));
        write(record, (name, form, front), epoch, slots);
        self.set_heat(position, heat);
        self.count(name.position(), form.units as u32);
        self.link(record, name.target(), position);
    }

    /// The copy at `position`, which is of a node of `kind`.
    fn copy_at(&self, position: u32, kind: NodeType) -> Option<Copied<'s>> {
        let unit = self.unit_of(position);
        let [_, size, low, high, ..] = self.record_at(unit)? else { return None };
        let name = Name::load(low, high);
        let form = Form::new(kind, (size.load(Relaxed) >> EPOCH_BITS) as usize, name.size());
        Some(Copied { unit, record: self.record(position, form.units)?, name, form })
    }

    /// Drops a copy: nobody finds it any more. Its record stays until it is the oldest.
    fn drop_copy(&self, position: u32, copy: &Copied<'_>) {
        self.discount(position, copy.form.units as u32);
        self.change(copy.unit, || Name::NONE.store(copy.record));
    }

    /// What says whether the record that begins at `unit` of the log is being changed.
    #[inline]
    fn turn(&self, unit: usize) -> Option<&'s AtomicU32> {
        self.turns.get(unit & self.turns.len().wrapping_sub(1))
    }

    /// Changes a record that readers may be reading.
    fn change<R>(&self, unit: usize, change: impl FnOnce() -> R) -> R {
        let Some(turn) = self.turn(unit) else { return change() };
        let before = turn.load(Relaxed);
        turn.store(before.wrapping_add(1), Relaxed);
        fence(Release);
        let result = change();
        turn.store(before.wrapping_add(2), Release);
        result
    }

    /// Notes that slot `index` of the node that `owner` leads to had `word` when an operation of `epoch` READ it. A
    /// younger copy stays as it is.
    pub fn patch(&self, owner: Slot, index: usize, word: Slot, epoch: u32) {
        if owner.is_empty() {
            self.set_root(word, epoch);
            return;
        }
        let Some((kind, _)) = owner.below() else { return };
        if self.log.is_empty() || index >= kind.slots() {
            return;
        }
        let mut writer = self.writer.lock();
        if self.era.load(Relaxed) != era_of(epoch) {
            return;
        }
        let Some(position) = self.find(owner.target()) else { return };
        let Some(copy) = self.copy_at(position, kind) else { return };
        let seen = epoch_of(copy.record);
        if seen > epoch & EPOCH_MASK {
            return;
        }
        let has_place = self.change(copy.unit, || set_slot(copy.record, copy.form, index, word));
        if has_place || copy.form.is_table() {
            return;
        }
        // What grows once gets room for all slots, or for as many as a list may have.
        let front = header_of(copy.record, copy.form, copy.name).bytes;
        let slots = listed(copy.record, copy.form);
        let nodes = slots.iter().chain([&word]).filter(|slot| slot.below().is_some()).count();
        let end = if index < LIST_SLOTS_MAX { kind.slots().min(LIST_SLOTS_MAX) } else { index + 1 };
        let form = Form::for_slots(kind, copy.name.size(), end, 2 * nodes > LIST_SLOTS_MAX);
        if !self.has_room_ever(form.units) {
            return;
        }
        let heat = self.heat_of(position);
        self.drop_copy(position, &copy);
        let slots = slots.into_iter().enumerate().chain([(index, word)]).filter(|(_, slot)| !slot.is_empty());
        self.append(&mut writer, (copy.name, form, front), (seen, heat), slots);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut writer = self.writer.lock();
        self.empty();
        *writer = Writer::default();
        // The next operation may be of any epoch.
        self.write_root(Slot::EMPTY, 0);
        self.era.store(0, Release);
    }

    /// Bytes of copies.
    pub fn used_bytes(&self) -> u64 {
        u64::from(self.tail.load(Relaxed).wrapping_sub(self.head.load(Relaxed))) * UNIT_WORDS as u64 * 4
    }

    /// What the storage is used for now.
    pub fn usage(&self) -> Usage {
        let writer = self.writer.lock();
        let used = u64::from(self.tail.load(Relaxed).wrapping_sub(self.head.load(Relaxed))) * UNIT_WORDS as u64 * 4;
        let (log_bytes, bucket_bytes) =
            (self.log.len() as u64 * 4, (self.buckets.len() + self.heat.len() + self.turns.len()) as u64 * 4);
        Usage {
            budget_bytes: self.budget_words as u64 * 4,
            used_bytes: used,
            free_bytes: log_bytes - used,
            bucket_bytes,
            slack_bytes: self.budget_words as u64 * 4 - log_bytes - bucket_bytes,
            evictions: writer.evictions,
            moves: writer.moves,
        }
    }

    /// Starts with an empty log.
    fn empty(&self) {
        for word in self.buckets.iter().chain(self.heat) {
            word.store(0, Relaxed);
        }
        for units in &self.units_at {
            units.store(0, Relaxed);
        }
        self.lives.store(self.lives.load(Relaxed).wrapping_add(1), Release);
        // No position is live while both change; a reader that sees the new head sees the new tail. Position 0 is none.
        self.head.store(u32::MAX, Relaxed);
        fence(Release);
        self.tail.store(self.units(), Relaxed);
        self.head.store(self.units(), Release);
    }
}

#[cfg(test)]
mod tests;
