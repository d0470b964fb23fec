//! Lookups: from copy to copy, towards a key.

use super::NodeCache;
use super::record::{
    EPOCH_BITS, EPOCH_MASK, FoundSlot, RECORD_WORDS, UNIT_WORDS, has_hints, hints_at, home, is_hashed, search,
    search_above, search_floor, slots_at, units_of,
};
use crate::mutants::{Mutant, planted};
use crate::port::Fetch;
use crate::radix::slot::{Compared, Header, NodeType, Slot};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
    fence,
};

/// Records a reader visits in one chain.
const CHAIN_MAX: usize = 16;
/// Copies of a level that have no more units than this are near the processor: a quarter of its second-level cache.
const NEAR_UNITS: u32 = (256 << 10) / (4 * UNIT_WORDS as u32);
/// Levels that a lookup follows: keys have no more bytes.
pub(super) const LEVELS_MAX: usize = 64;

/// Result of a lookup: a slot, as some copy has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The slot's word in the copy.
    pub word: Slot,
    /// Where its child begins.
    pub depth: usize,
    /// The slot that leads to the node which has this slot, as far as copies know; empty: this is the root slot.
    pub owner: Slot,
    /// Its number there.
    pub index: usize,
}

/// A lookup under way.
#[derive(Clone, Copy)]
pub struct Walk {
    /// Where it is.
    pub route: Route,
    below: Below,
    /// The lines of the next record have been prefetched.
    asked: bool,
    /// How often the log had been emptied when the lookup began: positions keep their meaning until the next time.
    life: u32,
}

/// Result of a look at one copy.
enum Step {
    Miss,
    Down { index: usize, word: Slot, position: usize, place: Below },
}

/// Where a child's record may be, and where to note its position.
#[derive(Clone, Copy, Default)]
struct Below {
    /// The hint in the parent's record; 0: none.
    hint: u32,
    /// The parent's record, 0 if it has no hints, and where in it.
    parent: u32,
    at: u32,
}

impl NodeCache<'_> {
    /// Follows copies from the last root slot towards `key`: those of `epoch` and later ones. `None`: no root slot was
    /// seen since.
    #[inline]
    pub fn route(&self, key: &[u8], epoch: u32) -> Option<Route> {
        let mut walk = self.enter_at_root(epoch)?;
        self.follow(&mut walk, key, epoch, None);
        Some(walk.route)
    }

    /// The first step of [`NodeCache::route`].
    #[inline]
    pub fn enter_at_root(&self, epoch: u32) -> Option<Walk> {
        let word = self.root_slot(epoch)?;
        let route = Route { word, depth: 0, owner: Slot::EMPTY, index: 0 };
        Some(Walk { route, below: Below::default(), asked: false, life: self.lives.load(Acquire) })
    }

    /// Continues: to the end, or, with a `fetch`, until it needs lines that may be far. Then they are being prefetched,
    /// and this returns `false`: to be called again.
    #[inline]
    pub fn follow(&self, walk: &mut Walk, key: &[u8], epoch: u32, fetch: Option<Fetch>) -> bool {
        // Keys have no more levels.
        while walk.route.depth < LEVELS_MAX {
            let Some((kind, _)) = walk.route.word.below() else { break };
            if let Some(fetch) = fetch
                && !walk.asked
                && self.ask(walk, kind, key, fetch)
            {
                walk.asked = true;
                return false;
            }
            let step = self.look(walk, kind, key, epoch);
            let Step::Down { index, word, position, place } = step else { break };
            let route = Route { word, depth: position + 1, owner: walk.route.word, index };
            *walk = Walk { route, below: place, asked: false, ..*walk };
        }
        true
    }

    /// The slot of the smallest byte above `byte` in the node of tiles that `owner` leads to, as a copy of `epoch` or
    /// later has it; empty if there is none. `None`: there is no such copy, or it is being changed.
    pub fn slot_above(&self, owner: Slot, byte: u8, epoch: u32) -> Option<Slot> {
        let (kind, _) = owner.below().filter(|_| owner.is_special())?;
        let position = self.find(owner.target())?;
        let record = self.record(position, units_of(kind))?;
        let [_, turn, _, size, ..] = record else { return None };
        let before = turn.load(Acquire);
        if size.load(Relaxed) & EPOCH_MASK < epoch & EPOCH_MASK {
            return None;
        }
        let word = search_above(record, kind, byte).map_or(Slot::EMPTY, |found| found.word);
        fence(Acquire);
        (before & 1 == 0 && turn.load(Relaxed) == before && self.is_live(position)).then_some(word)
    }

    /// Prefetches the lines of the next record, if the parent's record says where it is, and if its level has so many
    /// copies that the lines are probably far.
    #[inline]
    fn ask(&self, walk: &Walk, kind: NodeType, key: &[u8], fetch: Fetch) -> bool {
        let Some(units) = self.units_at.get(walk.route.depth) else { return false };
        if units.load(Relaxed) < NEAR_UNITS || walk.below.hint == 0 {
            return false;
        }
        let unit = self.unit_of(walk.below.hint);
        let Some(record) = self.record_at(unit) else { return false };
        if let Some(first) = record.first() {
            fetch(first);
        }
        if let Some((heat, _)) = self.heat_at(unit) {
            fetch(heat);
        }
        let partial = key.get(walk.route.depth).copied().unwrap_or_default();
        let at = if is_hashed(kind) { home(partial, kind.slots()) } else { kind.slots() - 1 };
        if let Some(slot) = record.get(slots_at(kind) + 2 * at) {
            fetch(slot);
        }
        // The record of a small node may begin at the end of a line: then it has a line between its first and its last.
        if !is_hashed(kind)
            && let Some(slot) = record.get(slots_at(kind) + kind.slots())
        {
            fetch(slot);
        }
        if kind.slots() > 64 {
            if let Some(numbers) = record.get(RECORD_WORDS + at / 4) {
                fetch(numbers);
            }
            if let Some(hint) = record.get(hints_at(kind) + at) {
                fetch(hint);
            }
        }
        true
    }

    /// The position where a copy of the node that `target` points to seems to be.
    #[inline]
    pub(super) fn find(&self, target: u64) -> Option<u32> {
        let mut position = self.bucket(target)?.load(Acquire);
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

    /// The unit of the log where the copy of the node that `target` points to seems to be, if it is at `position`.
    #[inline]
    fn unit_if_at(&self, position: u32, target: u64) -> Option<usize> {
        if position == 0 || !self.is_live(position) {
            return None;
        }
        let unit = self.unit_of(position);
        let [at, _, _, _, low, high, ..] = self.record_at(unit)? else { return None };
        let is_there = at.load(Relaxed) == position
            && low.load(Relaxed) == target as u32
            && high.load(Relaxed) == (target >> 32) as u32;
        is_there.then_some(unit)
    }

    #[inline]
    fn look(&self, walk: &Walk, kind: NodeType, key: &[u8], epoch: u32) -> Step {
        let Walk { route: Route { word, depth: begin, .. }, below, life, .. } = *walk;
        let target = word.target();
        // Dividing a position by the size of the log takes longer than comparing a header: once a level.
        let (position, unit) = if let Some(unit) = self.unit_if_at(below.hint, target) {
            (below.hint, unit)
        } else {
            let Some(position) = self.find(target) else { return Step::Miss };
            if below.parent != 0 {
                self.note_hint(below, life, position);
            }
            (position, self.unit_of(position))
        };
        let Some(record) = self.record_at(unit) else { return Step::Miss };
        let [_, turn, _, size, _, _, low, high, ..] = record else { return Step::Miss };
        let before = turn.load(Acquire);
        let size = size.load(Relaxed);
        // All records are of the era that the root slot had, or of a later one. A later one may be taken for too old,
        // which costs a READ.
        if size & EPOCH_MASK < epoch & EPOCH_MASK && !planted(Mutant::COPIES_OUTLIVE) {
            return Step::Miss;
        }
        let header = u64::from(high.load(Relaxed)) << 32 | u64::from(low.load(Relaxed));
        let Some(header) = Header::from_word(header) else { return Step::Miss };
        if header.compare(begin, key) != Compared::Fits {
            return Step::Miss;
        }
        let at = usize::from(header.position);
        // Mostly nothing is skipped, and the byte is known before the header has come from memory. With a branch, which
        // is predicted, the slot is loaded at once; with arithmetic it is not.
        let found = if word.is_special() {
            let byte = if at == begin { key.get(core::hint::black_box(begin)) } else { key.get(at) };
            // A slot that cannot be the byte's: this copy lacks the slot that was appended behind it.
            byte.and_then(|byte| search_floor(record, kind, *byte).filter(|found| found.word.may_cover(*byte)))
        } else if at == begin {
            key.get(core::hint::black_box(begin)).and_then(|partial| search(record, kind, *partial))
        } else {
            search_behind(record, kind, key, at)
        };
        let mut place = Below::default();
        if let Some(found) = &found
            && has_hints(kind, (size >> EPOCH_BITS) as usize)
            && let Some(hint) = record.get(hints_at(kind) + found.at)
        {
            place = Below { hint: hint.load(Relaxed), parent: position, at: (hints_at(kind) + found.at) as u32 };
        }
        fence(Acquire);
        if before & 1 != 0 || turn.load(Relaxed) != before || !self.is_live(position) {
            return Step::Miss;
        }
        let Some(FoundSlot { index, word, .. }) = found else { return Step::Miss };
        self.warm(unit);
        Step::Down { index, word, position: at, place }
    }

    /// Notes the position of a child's record in the parent's record, if no writer is at work.
    #[cold]
    fn note_hint(&self, below: Below, life: u32, position: u32) {
        let Some(_writer) = self.writer.try_lock() else { return };
        // Nothing moves now: if the parent's record is still there, the place is one of its hints. If the log was
        // emptied since the lookup saw it, another record may be there.
        if self.lives.load(Relaxed) == life
            && self.is_live(below.parent)
            && let Some([at, ..]) = self.record(below.parent, RECORD_WORDS / UNIT_WORDS)
            && at.load(Relaxed) == below.parent
            && let Some(hint) = self.log.get(self.start_of(below.parent) + below.at as usize)
        {
            hint.store(position, Relaxed);
        }
    }
}

#[inline(never)]
fn search_behind(record: &[AtomicU32], kind: NodeType, key: &[u8], at: usize) -> Option<FoundSlot> {
    search(record, kind, *key.get(at)?)
}
