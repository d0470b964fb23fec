//! Copies of nodes on the compute node: from the root to the deepest slot they know, without a round trip.
//!
//! A copy is found by the slot that leads to its node: a lookup begins with the last root slot seen and follows the copies'
//! own slots, comparing headers as a descent does. It ends at a slot that leads to a leaf or to a node of which there is
//! no copy; that slot's place, its word as copied, and where its child begins are the answer.
//!
//! # What a copy may be
//!
//! Old, in its slots: they change in memory and nobody tells. A header never does. So an answer is a slot of the
//! key's own path that once had this word; whoever follows it checks ([`crate::smart`] says how). Nothing that a lookup
//! *does not* find in a copy is ever an answer.
//!
//! # Epochs
//!
//! A copy remembers the epoch of the operation that READ the node ([`crate::memory::epochs`]); what is patched into it was
//! READ in that epoch or a later one. Places of nodes and leaves are used again, so copies older than the operation that asks
//! count as not there, level by level and the root slot too; the node is READ anew. Of an epoch a copy has [`EPOCH_BITS`]
//! bits: where the others change, all copies go.
//!
//! # Storage
//!
//! Handed in by the host as atomic words, all of it accounted for ([`Usage`]):
//!
//! ```text
//!         ┌─────────┬──────┬──────────────────────────────────────────────────┐
//!         │ buckets │ heat │ log: a ring                                      │
//!         │ (chain) │      │     head ─► oldest ... newest ─► tail            │
//!         └─────────┴──────┴──────────────────────────────────────────────────┘
//!  record 0          4      8       12     16           24       32
//!        ┌──────────┬──────┬───────┬──────┬────────────┬────────┬─────────┬───────┬───────┐
//!        │ position │ turn │ older │ size │ slot to it │ header │ numbers │ slots │ hints │
//!        └──────────┴──────┴───────┴──────┴────────────┴────────┴─────────┴───────┴───────┘
//!                               and epoch
//! ```
//!
//! The log is a ring of records of any size, the newest behind the tail; space is made at the head ("log"). Positions count on
//! and on, in units of 16 bytes, so a position says by itself whether its record is still there: *between head and tail*.
//! Records of one bucket are linked from newer to older, and a chain ends at the first that is gone; nobody has to unlink.
//!
//! Slots of nodes with four or eight lie as they do in the node ("record"). Those of larger ones lie in a hash table with linear probing as
//! large as the node, by their bytes, so that the place of a byte follows from the byte; which slot of the
//! node it is, the *numbers* say, a byte each. Nodes that have mostly nodes below have *hints*: where each child's
//! record is, which saves the look into its bucket, a cache line that nothing else brings. Only writers write hints.
//!
//! # Memory that is far
//!
//! Copies are a third as large as the tree, and a lookup that comes to one whose lines are nowhere near the processor waits
//! for them longer than for all else in a cached search. So it may go in steps ("lookup", [`NodeCache::follow`]): where copies of the next level are many, it
//! asks for the lines it will want, which follow from the parent's hint and the key's next byte, and comes back
//! when other lanes have had their turns. What it holds meanwhile is a slot's word and a hint, of its own epoch; both are
//! treated as if they had just been loaded: the position is looked at anew, with the node it shall be of.
//!
//! # Eviction
//!
//! The oldest record goes, unless it was used since it was appended: then it is appended again, one degree cooler (a CLOCK with counts whose hand
//! is the head of the log). How warm a record is, two bits say by where it begins, away from it: so they are few lines, all of
//! them near, and a reader has no need to write where a record may be gone. One insertion moves at most [`MOVES_MAX`] records: it ends whatever readers do.
//!
//! # Readers and writers
//!
//! Readers take no lock, and write nothing but heat, which decides about nothing but eviction: a bit that is set late, for a record that
//! is gone, makes its successor warm. Writers take turns under one spin lock.
//! A writer moves the head *before* it writes where old records were, and a record that is patched in place has an odd
//! turn meanwhile; a reader looks at both again after it has read. If it saw anything of a newer writing, the fences
//! (release between head or turn and data, acquire between data and the second look) let it see the new head or turn
//! as well, and the answer is a miss.

mod log;
mod lookup;
mod record;

pub use lookup::{Route, Walk};
pub use record::{COPY_BYTES, EPOCH_BITS};

use super::slot::{Child, Node, Slot};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use log::{BLOCK_UNITS, Writer};
use lookup::LEVELS_MAX;
use record::{
    EPOCH_MASK, RECORD_WORDS, UNIT_WORDS, epoch_of, fill_slots, is_hashed, patching, set_slot, sized, units_hinted,
    units_in, units_of,
};
use spin::Mutex;

/// Log units per bucket: about two of the smallest records.
const UNITS_PER_BUCKET: usize = 8;
/// Records one insertion moves to the tail.
pub const MOVES_MAX: usize = 8;
/// Positions begin anew, with an empty log, before they wrap around.
const POSITION_END: u32 = 1 << 31;
/// The smallest log: some of the smallest nodes.
const LOG_UNITS_MIN: usize = 64;
/// The largest log: positions between head and tail are told apart by less than half of them.
const LOG_UNITS_MAX: usize = 1 << 30;

/// What epochs whose copies can be told apart have in common.
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
    /// Bytes of the buckets, and of what says how warm records are.
    pub bucket_bytes: u64,
    /// Bytes that are neither.
    pub slack_bytes: u64,
    /// Records that went.
    pub evictions: u64,
    /// Records that were moved instead.
    pub moves: u64,
}

/// Copies of nodes, shared by everything that runs on a compute node. See the [module](self).
pub struct NodeCache<'s> {
    budget_words: usize,
    buckets: &'s [AtomicU32],
    /// How warm the record is that begins in each [`HEAT_UNITS`] of the log.
    heat: &'s [AtomicU32],
    log: &'s [AtomicU32],
    /// Oldest record, and where the next one goes.
    head: AtomicU32,
    tail: AtomicU32,
    /// Turn, low half and high half of the last root slot, and the epoch of who has READ it.
    root: [AtomicU32; 4],
    /// Of the epochs of all copies.
    era: AtomicU32,
    /// How often the log was emptied.
    lives: AtomicU32,
    /// Units of records whose nodes are at each position in the key.
    units_at: [AtomicU32; LEVELS_MAX],
    writer: Mutex<Writer>,
    moves_max: usize,
}

impl<'s> NodeCache<'s> {
    /// A cache in `storage`, whatever that holds now. One that is too small always misses, except for the root slot.
    pub fn new(storage: &'s [AtomicU32]) -> Self {
        // As many units as there is room for with their buckets.
        const BLOCK_WORDS: usize = BLOCK_UNITS * UNIT_WORDS + BLOCK_UNITS / UNITS_PER_BUCKET + 1;
        let units = storage.len() / BLOCK_WORDS * BLOCK_UNITS;
        let mut units = units.min(LOG_UNITS_MAX);
        if units < LOG_UNITS_MIN {
            units = 0;
        }
        let (buckets, rest) = storage.split_at((units / UNITS_PER_BUCKET).min(storage.len()));
        let (heat, rest) = rest.split_at((units / BLOCK_UNITS).min(rest.len()));
        let (log, _) = rest.split_at((units * UNIT_WORDS).min(rest.len()));
        let cache = Self {
            budget_words: storage.len(),
            buckets,
            heat,
            log,
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            root: [const { AtomicU32::new(0) }; 4],
            era: AtomicU32::new(0),
            lives: AtomicU32::new(0),
            units_at: [const { AtomicU32::new(0) }; LEVELS_MAX],
            writer: Mutex::new(Writer::default()),
            moves_max: MOVES_MAX,
        };
        cache.clear();
        cache
    }

    /// The same, but the oldest copy always goes: what [`NodeCache::new`] is compared with.
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
        // Who READ it later knows better.
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

    /// Whether copies may be added that are of `epoch`: those of another era have gone by then, and of one that is over none is
    /// added. The caller has the writers' lock.
    fn enter(&self, epoch: u32) -> bool {
        let (here, era) = (era_of(epoch), self.era.load(Relaxed));
        if here > era {
            self.write_root(Slot::EMPTY, epoch);
            self.empty();
            self.era.store(here, Release);
        }
        here >= era
    }

    /// Copies the node that slot `to` leads to, which an operation of `epoch` has READ; what an older copy of it knew is forgotten.
    pub fn insert(&self, to: Slot, node: &Node<'_>, epoch: u32) {
        let kind = node.header.kind;
        if self.log.is_empty() {
            return;
        }
        let mut writer = self.writer.lock();
        if !self.enter(epoch) {
            return;
        }
        if let Some(position) = self.find(to.target()) {
            let Some(record) = self.record(position, units_of(kind)) else { return };
            if epoch_of(record) <= epoch & EPOCH_MASK {
                // The place may have had another life, of the same type: all of it is another one.
                let (header, units) = (node.header.word(), units_in(record));
                self.discount(position, units);
                self.count(header, units);
                patching(record, |record| {
                    let [_, _, _, size, _, _, low, high, ..] = record else { return };
                    low.store(header as u32, Relaxed);
                    high.store((header >> 32) as u32, Relaxed);
                    size.store(sized(units, epoch), Relaxed);
                    fill_slots(record, node);
                });
            }
            return;
        }
        let (mut leaves, mut nodes) = (0, 0);
        for slot in node.slots() {
            match slot.child() {
                Ok(Child::Leaf(_)) => leaves += 1,
                Ok(Child::Node(..)) => nodes += 1,
                _ => {}
            }
        }
        let units = if is_hashed(kind) && nodes > leaves { units_hinted(kind) } else { units_of(kind) };
        if !self.make_room(&mut writer, units, self.moves_max) {
            return;
        }
        let position = self.tail.load(Relaxed);
        let Some(record) = self.record(position, units) else { return };
        let header = node.header.word();
        let target = to.target();
        let words = [
            position,
            0,
            0,
            sized(units as u32, epoch),
            target as u32,
            (target >> 32) as u32,
            header as u32,
            (header >> 32) as u32,
        ];
        for (place, word) in record.iter().zip(words) {
            place.store(word, Relaxed);
        }
        record.iter().skip(RECORD_WORDS).for_each(|place| place.store(0, Relaxed));
        fill_slots(record, node);
        self.set_heat(position, 0);
        self.count(header, units as u32);
        self.link(record, target, position);
    }

    /// Notes that slot `index` of the node that `owner` leads to said `word` to an operation of `epoch`. A copy that is younger
    /// stays as it is.
    pub fn patch(&self, owner: Slot, index: usize, word: Slot, epoch: u32) {
        if owner.is_empty() {
            self.set_root(word, epoch);
            return;
        }
        let Ok(Child::Node(kind, _)) = owner.child() else { return };
        if self.log.is_empty() || index >= kind.slots() {
            return;
        }
        let _writer = self.writer.lock();
        if self.era.load(Relaxed) != era_of(epoch) {
            return;
        }
        let Some(position) = self.find(owner.target()) else { return };
        let Some(record) = self.record(position, units_of(kind)) else { return };
        if epoch_of(record) <= epoch & EPOCH_MASK {
            patching(record, |record| set_slot(record, kind, index, word));
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let mut writer = self.writer.lock();
        self.empty();
        *writer = Writer::default();
        // Whoever comes next may be of any epoch.
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
        let (log_bytes, bucket_bytes) = (self.log.len() as u64 * 4, (self.buckets.len() + self.heat.len()) as u64 * 4);
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
        // No position is there while both change; who sees the new head sees the new tail. Position 0 is none.
        self.head.store(u32::MAX, Relaxed);
        fence(Release);
        self.tail.store(self.units(), Relaxed);
        self.head.store(self.units(), Release);
    }
}

#[cfg(test)]
mod tests;
