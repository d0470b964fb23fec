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
//! A copy remembers the epoch of the operation that READ the node ([`crate::reclaim::epochs`]); what is patched into it was
//! READ in that epoch or a later one. Places of nodes and leaves are used again, so copies older than the operation that asks
//! count as not there, level by level and the root slot too; the node is READ anew. Of an epoch a copy has [`EPOCH_BITS`]
//! bits: where the others change, all copies go.
//!
//! # Storage
//!
//! Handed in by the host as atomic words, all of it accounted for ([`Usage`]):
//!
//! ```text
//!         ┌───────────────────┬──────────────────────────────────────────────────┐
//!         │ buckets           │ log: a ring                                      │
//!         │ chain, heat       │     head ─► oldest ... newest ─► tail            │
//!         └───────────────────┴──────────────────────────────────────────────────┘
//!  record 0          4      8       12     16           24       32
//!        ┌──────────┬──────┬───────┬──────┬────────────┬────────┬─────────┬───────┬───────┐
//!        │ position │ turn │ older │ size │ slot to it │ header │ numbers │ slots │ hints │
//!        └──────────┴──────┴───────┴──────┴────────────┴────────┴─────────┴───────┴───────┘
//!                               and epoch
//! ```
//!
//! The log is a ring of records of any size, the newest behind the tail; space is made at the head. Positions count on
//! and on, in units of 16 bytes, so a position says by itself whether its record is still there: *between head and tail*.
//! Records of one bucket are linked from newer to older, and a chain ends at the first that is gone; nobody has to unlink.
//!
//! Slots of nodes with four or eight lie as they do in the node. Those of larger ones lie in a hash table with linear probing as
//! large as the node, by the low bits of their bytes, so that the place of a byte follows from the byte; which slot of the
//! node it is, the *numbers* say, a byte each. Nodes that have mostly nodes below have *hints*: where each child's
//! record is, which saves the look into its bucket, a cache line that nothing else brings. Only writers write hints.
//!
//! # Eviction
//!
//! The oldest record goes, unless its bucket has become warm since the hand passed last: then it is appended again, and the
//! bucket cools by one (a CLOCK with counts whose hand is the head of the log). One insertion moves at most
//! [`MOVES_MAX`] records: it ends whatever readers do.
//!
//! # Readers and writers
//!
//! Readers take no lock, and write nothing but a bucket's heat, a word of its own. Writers take turns under one spin lock.
//! A writer moves the head *before* it writes where old records were, and a record that is patched in place has an odd
//! turn meanwhile; a reader looks at both again after it has read. If it saw anything of a newer writing, the fences
//! (release between head or turn and data, acquire between data and the second look) let it see the new head or turn
//! as well, and the answer is a miss.

use super::slot::{BYTES_MAX, Child, Compared, Header, Node, NodeType, SLOTS_AT, Slot};
use crate::planted::{Bug, planted};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use spin::Mutex;

/// Words of a unit of the log.
const UNIT_WORDS: usize = 4;
/// Words of a record before its map.
const RECORD_WORDS: usize = 8;
/// Nodes with at least as many slots have them in a hash table.
const HASHED_SLOTS: usize = 16;
/// Log units per bucket: about two of the smallest records.
const UNITS_PER_BUCKET: usize = 8;
/// Words of a bucket.
const BUCKET_WORDS: usize = 2;
/// Records a reader visits in one chain.
const CHAIN_MAX: usize = 16;
/// Records one insertion moves to the tail.
pub const MOVES_MAX: usize = 8;
/// Records that survive so many passes of the hand after they were last used.
const HEAT_MAX: u32 = 3;
/// Positions begin anew, with an empty log, before they wrap around.
const POSITION_END: u32 = 1 << 31;
/// The smallest log: some of the smallest nodes.
const LOG_UNITS_MIN: usize = 64;
/// The largest log: positions between head and tail are told apart by less than half of them.
const LOG_UNITS_MAX: usize = 1 << 30;
/// Levels a lookup follows: keys have no more bytes.
const LEVELS_MAX: usize = 64;
/// Bits of an epoch that a record has; above them is its size.
pub const EPOCH_BITS: u32 = 24;
const EPOCH_MASK: u32 = (1 << EPOCH_BITS) - 1;

/// What epochs whose copies can be told apart have in common.
const fn era_of(epoch: u32) -> u32 {
    epoch >> EPOCH_BITS
}

/// A record's word of its size and its epoch. One that pads the end of the log has its size where others have their epoch.
const fn sized(units: u32, epoch: u32) -> u32 {
    units << EPOCH_BITS | epoch & EPOCH_MASK
}

const fn is_hashed(kind: NodeType) -> bool {
    kind.slots() >= HASHED_SLOTS
}

/// Words of a record that say which slot is where.
const fn number_words(kind: NodeType) -> usize {
    if is_hashed(kind) { kind.slots() / 4 } else { 0 }
}

/// Units of the record of a node of `kind` without hints.
const fn units_of(kind: NodeType) -> usize {
    (RECORD_WORDS + number_words(kind) + 2 * kind.slots()).div_ceil(UNIT_WORDS)
}

/// The same with hints.
const fn units_hinted(kind: NodeType) -> usize {
    (hints_at(kind) + kind.slots()).div_ceil(UNIT_WORDS)
}

/// The word of the first slot in a record.
const fn slots_at(kind: NodeType) -> usize {
    RECORD_WORDS + number_words(kind)
}

/// The word of the first hint in a record that has some.
const fn hints_at(kind: NodeType) -> usize {
    slots_at(kind) + 2 * kind.slots()
}

/// Whether a record of so many units has hints.
const fn has_hints(kind: NodeType, units: usize) -> bool {
    is_hashed(kind) && units >= units_hinted(kind)
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
    /// Bytes of the buckets.
    pub bucket_bytes: u64,
    /// Bytes that are neither.
    pub slack_bytes: u64,
    /// Records that went.
    pub evictions: u64,
    /// Records that were moved instead.
    pub moves: u64,
}

#[derive(Debug, Default)]
struct Writer {
    evictions: u64,
    moves: u64,
}

/// Where a lookup ended: a slot, as some copy has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The slot's word in the copy.
    pub word: Slot,
    /// Where its child begins.
    pub depth: usize,
    /// The slot that leads to the node it is in, as far as copies know; empty: it is the root slot.
    pub owner: Slot,
    /// Its number there.
    pub index: usize,
}

/// What one copy said.
enum Step {
    Miss,
    Down { index: usize, word: Slot, position: usize, place: Below },
}

/// Where a child's record may be, and where to note where it is.
#[derive(Clone, Copy, Default)]
struct Below {
    /// What the parent's record says; 0: nothing.
    hint: u32,
    /// The parent's record, 0 if it has no hints, and where in it.
    parent: u32,
    at: u32,
}

/// A slot found in a record.
struct FoundSlot {
    /// Its number in the node.
    index: usize,
    word: Slot,
    /// Where it is in the record's table.
    at: usize,
}

/// Copies of nodes, shared by everything that runs on a compute node. See the [module](self).
pub struct NodeCache<'s> {
    budget_words: usize,
    buckets: &'s [AtomicU32],
    log: &'s [AtomicU32],
    /// Oldest record, and where the next one goes.
    head: AtomicU32,
    tail: AtomicU32,
    /// Turn, low half and high half of the last root slot, and the epoch of who has READ it.
    root: [AtomicU32; 4],
    /// Of the epochs of all copies.
    era: AtomicU32,
    writer: Mutex<Writer>,
    moves_max: usize,
}

impl<'s> NodeCache<'s> {
    /// A cache in `storage`, whatever that holds now. One that is too small always misses, except for the root slot.
    pub fn new(storage: &'s [AtomicU32]) -> Self {
        // As many units as there is room for with their buckets.
        let units = storage.len() / (UNITS_PER_BUCKET * UNIT_WORDS + BUCKET_WORDS) * UNITS_PER_BUCKET;
        let mut units = units.min(LOG_UNITS_MAX);
        if units < LOG_UNITS_MIN {
            units = 0;
        }
        let buckets = units / UNITS_PER_BUCKET;
        let (buckets, rest) = storage.split_at((buckets * BUCKET_WORDS).min(storage.len()));
        let (log, _) = rest.split_at((units * UNIT_WORDS).min(rest.len()));
        let cache = Self {
            budget_words: storage.len(),
            buckets,
            log,
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            root: [const { AtomicU32::new(0) }; 4],
            era: AtomicU32::new(0),
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

    /// Follows copies from the last root slot towards `key`, those of `epoch` and later ones. `None`: no root slot was seen since.
    #[inline]
    pub fn route(&self, key: &[u8], epoch: u32) -> Option<Route> {
        let root = self.root_slot(epoch)?;
        let mut route = Route { word: root, depth: 0, owner: Slot::EMPTY, index: 0 };
        let mut below = Below::default();
        for _ in 0..LEVELS_MAX {
            let Ok(Child::Node(kind, _)) = route.word.child() else { break };
            let step = self.look((route.word.target(), kind), route.depth, key, epoch, below);
            let Step::Down { index, word, position, place } = step else { break };
            route = Route { word, depth: position + 1, owner: route.word, index };
            below = place;
        }
        Some(route)
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
            if Self::epoch_of(record) <= epoch & EPOCH_MASK {
                // The place may have had another life, of the same type: all of it is another one.
                Self::patching(record, |record| {
                    let [_, _, _, size, _, _, low, high, ..] = record else { return };
                    let header = node.header.word();
                    low.store(header as u32, Relaxed);
                    high.store((header >> 32) as u32, Relaxed);
                    size.store(sized(size.load(Relaxed) >> EPOCH_BITS, epoch), Relaxed);
                    Self::fill_slots(record, node);
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
        Self::fill_slots(record, node);
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
        if Self::epoch_of(record) <= epoch & EPOCH_MASK {
            Self::patching(record, |record| Self::set_slot(record, kind, index, word));
        }
    }

    /// The epoch of a record, as much of it as that has.
    fn epoch_of(record: &[AtomicU32]) -> u32 {
        record.get(3).map_or(0, |size| size.load(Relaxed) & EPOCH_MASK)
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
        let (log_bytes, bucket_bytes) = (self.log.len() as u64 * 4, self.buckets.len() as u64 * 4);
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

    fn units(&self) -> u32 {
        (self.log.len() / UNIT_WORDS) as u32
    }

    /// Starts with an empty log.
    fn empty(&self) {
        for word in self.buckets {
            word.store(0, Relaxed);
        }
        // No position is there while both change; who sees the new head sees the new tail. Position 0 is none.
        self.head.store(u32::MAX, Relaxed);
        fence(Release);
        self.tail.store(self.units(), Relaxed);
        self.head.store(self.units(), Release);
    }

    /// Whether the record at `position` is still there.
    #[inline]
    fn is_live(&self, position: u32) -> bool {
        position >= self.head.load(Acquire) && position < self.tail.load(Relaxed)
    }

    #[inline]
    fn record(&self, position: u32, units: usize) -> Option<&'s [AtomicU32]> {
        self.log.get(self.start_of(position)..)?.get(..units * UNIT_WORDS)
    }

    /// The word where the record at `position` begins.
    #[inline]
    fn start_of(&self, position: u32) -> usize {
        (position % self.units().max(1)) as usize * UNIT_WORDS
    }

    #[inline]
    fn bucket(&self, target: u64) -> Option<&'s [AtomicU32]> {
        let buckets = (self.buckets.len() / BUCKET_WORDS) as u64;
        // Multiply, and take the top, where every bit has had a say.
        let mixed = (target ^ target >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let at = ((mixed * buckets) >> 32) as usize * BUCKET_WORDS;
        self.buckets.get(at..)?.get(..BUCKET_WORDS)
    }

    /// Where the copy seems to be of the node that `target` points to.
    #[inline]
    fn find(&self, target: u64) -> Option<u32> {
        let mut position = self.bucket(target)?.first()?.load(Acquire);
        for _ in 0..CHAIN_MAX {
            if position == 0 || !self.is_live(position) {
                return None;
            }
            let [at, _, older, _, low, high, ..] = self.record(position, RECORD_WORDS / UNIT_WORDS)? else {
                return None;
            };
            if at.load(Relaxed) != position {
                return None;
            }
            if low.load(Relaxed) == target as u32 && high.load(Relaxed) == (target >> 32) as u32 {
                return Some(position);
            }
            position = older.load(Relaxed);
        }
        None
    }

    /// Whether the copy of the node that `target` points to seems to be at `position`.
    #[inline]
    fn is_at(&self, position: u32, target: u64) -> bool {
        if position == 0 || !self.is_live(position) {
            return false;
        }
        let Some([at, _, _, _, low, high, ..]) = self.record(position, RECORD_WORDS / UNIT_WORDS) else { return false };
        at.load(Relaxed) == position
            && low.load(Relaxed) == target as u32
            && high.load(Relaxed) == (target >> 32) as u32
    }

    #[inline]
    fn look(&self, (target, kind): (u64, NodeType), begin: usize, key: &[u8], epoch: u32, below: Below) -> Step {
        // Asked for before the record: its line is another one, and both come at once.
        let heat = self.bucket(target).and_then(|bucket| bucket.get(1));
        let is_cold = heat.is_some_and(|heat| heat.load(Relaxed) < HEAT_MAX);
        let position = if self.is_at(below.hint, target) {
            below.hint
        } else {
            let Some(position) = self.find(target) else { return Step::Miss };
            if below.parent != 0 {
                self.note_hint(below, position);
            }
            position
        };
        let Some(record) = self.record(position, units_of(kind)) else { return Step::Miss };
        let [_, turn, _, size, _, _, low, high, ..] = record else { return Step::Miss };
        let before = turn.load(Acquire);
        let size = size.load(Relaxed);
        // All records are of the era that the root slot is of.
        if size & EPOCH_MASK < epoch & EPOCH_MASK && !planted(Bug::CopiesOutlive) {
            return Step::Miss;
        }
        let header = u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed));
        let Some(header) = Header::from_word(header) else { return Step::Miss };
        if header.compare(begin, key) != Compared::Fits {
            return Step::Miss;
        }
        let at = usize::from(header.position);
        // Mostly nothing is skipped, and the byte is known before the header has come from memory: by a branch, which is
        // foretold, and not by arithmetic the slot is fetched at once.
        let found = if at == begin {
            key.get(core::hint::black_box(begin)).and_then(|partial| Self::search(record, kind, *partial))
        } else {
            Self::search_behind(record, kind, key, at)
        };
        let mut place = Below::default();
        if let Some(found) = &found
            && has_hints(kind, (size >> EPOCH_BITS) as usize)
            && let Some(record) = self.record(position, units_hinted(kind))
            && let Some(hint) = record.get(hints_at(kind) + found.at)
        {
            place = Below { hint: hint.load(Relaxed), parent: position, at: (hints_at(kind) + found.at) as u32 };
        }
        fence(Acquire);
        if before & 1 != 0 || turn.load(Relaxed) != before || !self.is_live(position) {
            return Step::Miss;
        }
        let Some(FoundSlot { index, word, .. }) = found else { return Step::Miss };
        if is_cold && let Some(heat) = heat {
            heat.store(HEAT_MAX, Relaxed);
        }
        Step::Down { index, word, position: at, place }
    }

    /// Notes in the parent's record where its child's is, if no writer is at work.
    #[cold]
    fn note_hint(&self, below: Below, position: u32) {
        let Some(_writer) = self.writer.try_lock() else { return };
        // Nothing moves now: if the parent's record is still there, the place is one of its hints.
        if self.is_live(below.parent)
            && let Some([at, ..]) = self.record(below.parent, RECORD_WORDS / UNIT_WORDS)
            && at.load(Relaxed) == below.parent
            && let Some(hint) = self.log.get(self.start_of(below.parent) + below.at as usize)
        {
            hint.store(position, Relaxed);
        }
    }

    #[inline(never)]
    fn search_behind(record: &[AtomicU32], kind: NodeType, key: &[u8], at: usize) -> Option<FoundSlot> {
        Self::search(record, kind, *key.get(at)?)
    }

    #[inline]
    fn search(record: &[AtomicU32], kind: NodeType, partial: u8) -> Option<FoundSlot> {
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

    /// Changes a record that readers may be reading.
    fn patching(record: &[AtomicU32], change: impl FnOnce(&[AtomicU32])) {
        let Some(turn) = record.get(1) else { return };
        let before = turn.load(Relaxed);
        turn.store(before.wrapping_add(1), Relaxed);
        fence(Release);
        change(record);
        turn.store(before.wrapping_add(2), Release);
    }

    fn fill_slots(record: &[AtomicU32], node: &Node<'_>) {
        let kind = node.header.kind;
        record.iter().take(hints_at(kind)).skip(RECORD_WORDS).for_each(|place| place.store(0, Relaxed));
        for (index, word) in node.slots().enumerate() {
            Self::set_slot(record, kind, index, word);
        }
    }

    fn set_slot(record: &[AtomicU32], kind: NodeType, index: usize, word: Slot) {
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

    /// Puts the record just written at the tail into its chain.
    fn link(&self, record: &[AtomicU32], target: u64, position: u32) {
        let ([_, _, older, units, ..], Some([chain, _])) = (record, self.bucket(target)) else { return };
        older.store(chain.load(Relaxed), Relaxed);
        self.tail.store(position + (units.load(Relaxed) >> EPOCH_BITS), Release);
        chain.store(position, Release);
    }

    /// Makes room for `units` at the tail, in one piece. `false`: the record is larger than the log.
    fn make_room(&self, writer: &mut Writer, units: usize, moves: usize) -> bool {
        let mut moves = moves;
        let all = self.units();
        if units as u32 > all / 2 {
            return false;
        }
        if self.tail.load(Relaxed) >= POSITION_END {
            self.empty();
        }
        // Ends: every turn frees a record.
        for _ in 0..=all {
            let (head, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
            let pad = Self::pad(tail, units as u32, all);
            if tail - head + pad + units as u32 <= all {
                self.pad_to(tail, pad);
                return true;
            }
            let Some(record) = self.record(head, 1) else { return false };
            let [_, _, _, size, ..] = record else { return false };
            // A pad: no record is of no size.
            let size = size.load(Relaxed);
            let size = if size >> EPOCH_BITS == 0 { size } else { size >> EPOCH_BITS }.clamp(1, all);
            // Readers of it learn that it is gone before anything is written there.
            self.head.store(head + size.min(tail - head), Relaxed);
            fence(Release);
            if moves > 0 && self.keep(head, size) {
                moves -= 1;
                writer.moves += 1;
            } else {
                writer.evictions += 1;
            }
        }
        false
    }

    /// Units from `tail` to the end of the ring, if `units` do not fit there.
    const fn pad(tail: u32, units: u32, all: u32) -> u32 {
        let at = tail % all;
        if at + units > all { all - at } else { 0 }
    }

    /// Fills up to the end of the ring with a record of nothing.
    fn pad_to(&self, tail: u32, pad: u32) {
        if pad == 0 {
            return;
        }
        // With its target, so that nobody takes it for what was here before.
        let units = (pad as usize).min(RECORD_WORDS / UNIT_WORDS);
        for (word, value) in self.record(tail, units).into_iter().flatten().zip([tail, 0, 0, pad, 0, 0, 0, 0]) {
            word.store(value, Relaxed);
        }
        self.tail.store(tail + pad, Relaxed);
    }

    /// Appends the record that was at `from` again, if its bucket is warm and it is the copy that lookups find.
    fn keep(&self, from: u32, size: u32) -> bool {
        if size < (RECORD_WORDS / UNIT_WORDS) as u32 {
            return false;
        }
        let Some(source) = self.record(from, size as usize) else { return false };
        let [_, _, _, _, low, high, ..] = source else { return false };
        let target = u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed));
        let Some([_, heat]) = self.bucket(target) else { return false };
        let warm = heat.load(Relaxed);
        // A pad has no target. A record has no second copy: it is patched in place.
        if warm == 0 || target == 0 {
            return false;
        }
        let (head, tail, all) = (self.head.load(Relaxed), self.tail.load(Relaxed), self.units());
        let pad = Self::pad(tail, size, all);
        if tail - head + pad + size > all {
            return false;
        }
        heat.store(warm - 1, Relaxed);
        self.pad_to(tail, pad);
        let to = tail + pad;
        let Some(place) = self.record(to, size as usize) else { return false };
        // The room is what was free in front of the record, and the record: its new place begins before its old one, so
        // words are copied before they are overwritten.
        for (to, from) in place.iter().zip(source) {
            to.store(from.load(Relaxed), Relaxed);
        }
        if let Some(at) = place.first() {
            at.store(to, Relaxed);
        }
        self.link(place, target, to);
        true
    }
}

#[inline]
fn slot_of([low, high]: &[AtomicU32; 2]) -> Slot {
    Slot(u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed)))
}

/// The place of a byte's slot in a table of them, or the empty one where it would be. `None`: the table is full of others.
/// The low half of a word tells both its byte and whether it is empty.
#[inline]
fn probe(slots: &[[AtomicU32; 2]], partial: u8) -> Option<usize> {
    let mask = slots.len().wrapping_sub(1);
    let mut at = usize::from(partial) & mask;
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

// A record's size has room above its epoch, and that of a pad, which is shorter than the record it makes room for, in its place.
static_assertions::const_assert!(units_hinted(NodeType::LARGEST) < 1 << (u32::BITS - EPOCH_BITS));
// Headers hold what lookups compare; slots begin where images have them.
static_assertions::const_assert!(BYTES_MAX == 6 && SLOTS_AT == 16);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::slot::{self, Place};
    use super::*;
    use crate::verbs::NodeId;
    use std::{vec, vec::Vec};

    fn storage(bytes: usize) -> Vec<AtomicU32> {
        (0..bytes / 4).map(|_| AtomicU32::new(0)).collect()
    }

    fn image(kind: u8, position: usize, key: &[u8], slots: impl IntoIterator<Item = Slot>) -> Vec<u8> {
        let kind = NodeType::new(kind).unwrap();
        let mut image = vec![0; kind.bytes()];
        slot::build(&mut image, &Header::new(kind, 0, position, key), 1, slots);
        image
    }

    fn node_slot(kind: u8, n: u64) -> Slot {
        Slot::node(0, NodeType::new(kind).unwrap(), Place::new(NodeId(0), n * 16))
    }

    fn insert(cache: &NodeCache<'_>, to: Slot, image: &[u8]) {
        let Ok(Child::Node(kind, _)) = to.child() else { panic!() };
        cache.insert(to, &Node::new(image, kind, 1).unwrap(), 0);
    }

    #[test]
    fn lookups_follow_copies_and_patches() {
        let words = storage(1 << 16);
        let cache = NodeCache::new(&words);
        let key = *b"abcdefgh";
        assert_eq!(cache.route(&key, 0), None);
        let (top, below) = (node_slot(7, 100), node_slot(1, 300).under(b'c'));
        cache.set_root(top, 0);
        let leaf = Slot::leaf(b'f', Place::new(NodeId(0), 3200));
        insert(&cache, top, &image(7, 2, &key, (0..100).map(|n| node_slot(1, 500 + n).under(n as u8))));
        let route = cache.route(&key, 0).unwrap();
        assert_eq!((route.word, route.depth, route.owner, route.index), (node_slot(1, 599).under(99), 3, top, 99));
        cache.patch(top, 99, below, 0);
        assert_eq!(cache.route(&key, 0).unwrap().word, below);
        insert(&cache, below, &image(1, 5, &key, [Slot::leaf(b'x', Place::new(NodeId(0), 3232)), leaf]));
        let route = cache.route(&key, 0).unwrap();
        assert_eq!((route.word, route.depth, route.owner, route.index), (leaf, 6, below, 1));
        // A key that differs where the path skips ends above; one whose byte no slot has, too.
        assert_eq!(cache.route(b"abcdXfgh", 0).unwrap().word, below);
        assert_eq!(cache.route(b"abcdeXgh", 0).unwrap().word, below);
        cache.clear();
        assert_eq!(cache.route(&key, 0), None);
    }

    #[test]
    fn copies_older_than_who_asks_count_as_not_there() {
        let words = storage(1 << 16);
        let cache = NodeCache::new(&words);
        let key = *b"abcdefgh";
        let (top, below) = (node_slot(4, 100), node_slot(1, 300).under(b'a'));
        let leaf = |n: u64| Slot::leaf(b'b', Place::new(NodeId(0), 16 * n));
        let copy = |to: Slot, image: &[u8], epoch: u32| {
            let Ok(Child::Node(kind, _)) = to.child() else { panic!() };
            cache.insert(to, &Node::new(image, kind, 1).unwrap(), epoch);
        };
        let word = |epoch: u32| cache.route(&key, epoch).map(|route| route.word);
        cache.set_root(top, 5);
        copy(top, &image(4, 0, &key, [below]), 5);
        copy(below, &image(1, 1, &key, [leaf(7)]), 4);
        assert_eq!((word(4), word(5), word(6)), (Some(leaf(7)), Some(below), None));
        // An operation that began earlier and ends later changes nothing that is younger.
        cache.set_root(Slot::EMPTY, 4);
        cache.patch(top, 0, leaf(9).under(b'a'), 4);
        cache.patch(below, 0, leaf(8), 5);
        assert_eq!((word(4), word(5)), (Some(leaf(8)), Some(below)));
        // The next life of a place: another header under the same slot word.
        copy(below, &image(1, 2, &key, [leaf(6).under(b'c')]), 5);
        assert_eq!(cache.route(&key, 5).unwrap().depth, 3);
        copy(below, &image(1, 1, &key, [leaf(7)]), 4);
        assert_eq!(cache.route(&key, 5).unwrap().depth, 3);
        // Where the bits run out, all copies go, and late ones do not come back.
        let next = 5 + (1 << EPOCH_BITS);
        assert_eq!(word(next), None);
        cache.set_root(top, next);
        assert_eq!((word(5), word(next)), (None, Some(top)));
        copy(top, &image(4, 0, &key, [below]), 5);
        assert_eq!(word(next), Some(top));
        copy(top, &image(4, 0, &key, [below]), next);
        assert_eq!(word(next), Some(below));
    }

    #[test]
    fn every_byte_is_accounted_for() {
        let words = storage(40_000);
        let cache = NodeCache::new(&words);
        for n in 0..2000u64 {
            let kind = 1 + (n % 7) as u8;
            insert(&cache, node_slot(kind, 1000 + n), &image(kind, 0, b"x", []));
            let usage = cache.usage();
            assert_eq!(usage.budget_bytes, 40_000);
            let sum = usage.used_bytes + usage.free_bytes + usage.bucket_bytes + usage.slack_bytes;
            assert_eq!(sum, usage.budget_bytes);
        }
        assert!(cache.usage().evictions > 1000);
        let tiny = storage(512);
        let cache = NodeCache::new(&tiny);
        insert(&cache, node_slot(1, 1), &image(1, 0, b"x", []));
        assert_eq!(cache.usage().used_bytes, 0, "too small for a log");
    }

    /// Two-level tree of `nodes` small nodes under the root's 256; key `[a, b, ..]` has its leaf in node `a`.
    #[test]
    fn warm_copies_outlive_cold_ones() {
        let words = storage(32 << 10);
        let cache = NodeCache::new(&words);
        let top = node_slot(7, 1);
        cache.set_root(top, 0);
        let children: Vec<Slot> = (0..256).map(|n| node_slot(4, 1000 + 100 * n).under(n as u8)).collect();
        insert(&cache, top, &image(7, 0, b"x", children.iter().copied()));
        let child =
            |a: u8| image(4, 1, b"xy", (0..30).map(|n| Slot::leaf(n, Place::new(NodeId(0), 16 * (u64::from(a) + 1)))));
        // 256 copies of 288 bytes do not fit into 32 KiB; eight are used again and again.
        let mut found = 0;
        for round in 0..4000u32 {
            let a =
                if round % 2 == 0 { (round / 2 % 8) as u8 } else { (round.wrapping_mul(2_654_435_761) >> 24) as u8 };
            if cache.route(&[a, 3, 0, 0, 0, 0, 0, 0], 0).is_none_or(|route| route.depth < 2) {
                if cache.route(&[a, 3], 0).is_none_or(|route| route.depth < 1) {
                    insert(&cache, top, &image(7, 0, b"x", children.iter().copied()));
                }
                insert(&cache, children[usize::from(a)], &child(a));
            } else if round % 2 == 0 {
                found += 1;
            }
        }
        assert!(found > 1900, "{found} of 2000 lookups of what is used all the time");
        assert!(cache.usage().evictions > 500 && cache.usage().moves > 100, "{:?}", cache.usage());
    }

    /// A tree of two levels with 4096 nodes of as many sizes as there are, of which the nodes are asked for in proportion to a
    /// Zipf distribution (0.99) over their numbers, scattered. Answers for how many of the lookups the cache knew the node.
    fn hits_on_zipf(cache: &NodeCache<'_>, lookups: u32) -> u32 {
        const NODES: usize = 4096;
        let mut sums = Vec::new();
        let mut sum = 0.0;
        for rank in 1..=NODES {
            sum += 1.0 / std::primitive::f64::powf(rank as f64, 0.99);
            sums.push(sum);
        }
        let mut state = 1_u64;
        let mut hits = 0;
        let key = *b"abcdefgh";
        for _ in 0..lookups {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (state >> 11) as f64 / (1_u64 << 53) as f64 * sum;
            let rank = sums.partition_point(|sum| *sum < drawn).min(NODES - 1);
            let number = (rank * 2_654_435_761 % NODES) as u64;
            let to = node_slot(1 + (number % 4) as u8, 1000 + 100 * number);
            // A tree whose root slot leads to that node: what is asked is whether there is a copy of it.
            cache.set_root(to, 0);
            if cache.route(&key, 0).is_some_and(|route| route.depth > 0) {
                hits += 1;
            } else {
                let leaf = Slot::leaf(key[1], Place::new(NodeId(0), 16));
                insert(cache, to, &image(1 + (number % 4) as u8, 1, &key, [leaf]));
            }
        }
        hits
    }

    #[test]
    fn on_zipf_more_is_found_than_first_in_first_out() {
        // Copies of all nodes take 600 KiB.
        for (cache_kib, gain_permille) in [(30, 30), (60, 30), (150, 20)] {
            let (words, others) = (storage(cache_kib << 10), storage(cache_kib << 10));
            let hits = hits_on_zipf(&NodeCache::new(&words), 200_000);
            let fifo = hits_on_zipf(&NodeCache::new(&others).first_in_first_out(), 200_000);
            std::println!("{cache_kib} KiB: {hits} of 200000 found, first in first out {fifo}");
            assert!(hits > fifo + 200 * gain_permille, "{cache_kib} KiB: {hits} hits, {fifo} first in first out");
        }
    }

    /// A node of every size, full, and one under each of its bytes: every key is led to its own.
    #[test]
    fn every_byte_of_every_size_is_found() {
        for kind in 1..=7 {
            let words = storage(1 << 20);
            let cache = NodeCache::new(&words);
            let slots = NodeType::new(kind).unwrap().slots() as u64;
            let byte = |n: u64| (n * 37) as u8;
            let child = |n: u64| node_slot(1, 5000 + 3 * n).under(byte(n));
            let top = node_slot(kind, 100);
            cache.set_root(top, 0);
            insert(&cache, top, &image(kind, 1, b"k", (0..slots).map(child)));
            for n in 0..slots {
                let leaf = Slot::leaf(7, Place::new(NodeId(0), 16 + 16 * n));
                insert(&cache, child(n), &image(1, 2, &[b'k', byte(n)], [leaf]));
            }
            for round in 0..2 {
                for n in 0..slots {
                    let route = cache.route(&[b'k', byte(n), 7, 0], 0).unwrap();
                    let leaf = Slot::leaf(7, Place::new(NodeId(0), 16 + 16 * n));
                    assert_eq!((route.word, route.owner), (leaf, child(n)), "{slots} slots, {n}, round {round}");
                }
                let above = cache.route(&[b'k', byte(slots - 1), 8, 0], 0).unwrap();
                assert_eq!((above.owner, above.index), (top, slots as usize - 1));
                insert(&cache, node_slot(7, 9_000_000), &image(7, 0, b"x", []));
            }
        }
    }

    #[test]
    fn readers_never_see_a_mix() {
        let words = storage(24 << 10);
        let cache = NodeCache::new(&words);
        let top = node_slot(3, 1);
        cache.set_root(top, 0);
        // Each version of a slot has its number in both halves of the word.
        let version = |n: u64| Slot(node_slot(1, 1 + n * 0x1_0000 + n).0);
        let stop = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..200_000u64 {
                    let n = n % 0xfff0;
                    if n % 5 == 0 {
                        insert(&cache, node_slot(5, 9_000_000 + n), &image(5, 0, b"x", []));
                    }
                    insert(&cache, top, &image(3, 0, b"x", [version(n).under(7)]));
                    cache.patch(top, 0, version(n + 1).under(7), 0);
                }
                stop.store(true, Relaxed);
            });
            while !stop.load(Relaxed) {
                let Some(route) = cache.route(&[7; 8], 0) else { continue };
                if route.depth == 1 {
                    let Ok(Child::Node(_, place)) = route.word.child() else { panic!("{route:?}") };
                    let n = place.offset() / 16 - 1;
                    assert_eq!(n >> 16, n & 0xffff, "a mix: {route:?}");
                }
            }
        });
    }
}
