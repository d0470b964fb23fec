//! Lookups: from copy to copy, towards a key.

use super::NodeCache;
use super::record::{
    EPOCH_BITS, EPOCH_MASK, Form, FoundSlot, HEAD_UNITS, HEAD_WORDS, LIST_SLOTS_MAX, Name, UNIT_WORDS, full, header_of,
    home, search, search_above, search_floor,
};
use crate::mutants::{Mutant, planted};
use crate::port::Fetch;
use crate::radix::slot::{Compared, NodeType, Slot};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
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

/// A copy that a reader has come to.
struct Seen<'c> {
    position: u32,
    /// The unit of the log where it begins.
    unit: usize,
    record: &'c [AtomicU32],
    /// Its turn, and what that was.
    turn: &'c AtomicU32,
    before: u32,
    /// Size and epoch.
    size: u32,
    name: Name,
}

impl Seen<'_> {
    #[inline]
    const fn units(&self) -> usize {
        (self.size >> EPOCH_BITS) as usize
    }
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
        let life = self.lives.load(Acquire);
        let seen = self.see(self.find(owner.target())?, owner.target())?;
        if seen.size & EPOCH_MASK < epoch & EPOCH_MASK {
            return None;
        }
        let form = Form::new(kind, seen.units(), seen.name.size());
        let word = search_above(seen.record, form, byte).map_or(Slot::EMPTY, |found| found.word);
        self.is_unchanged(&seen, life).then_some(word)
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
        let form = full(kind, 0);
        let at = if form.is_table() { home(partial, kind.slots()) } else { kind.slots() - 1 };
        if let Some(slot) = record.get(form.slots_at() + 2 * at) {
            fetch(slot);
        }
        // A node of more slots than a list has may have a list.
        if form.is_table()
            && kind.slots() == 2 * LIST_SLOTS_MAX
            && let Some(slot) = record.get(HEAD_WORDS + 2 * LIST_SLOTS_MAX - 1)
        {
            fetch(slot);
        }
        if kind.slots() > 64 {
            let form = Form::of_table(kind, 0, true);
            if let Some(numbers) = record.get(HEAD_WORDS + at / 4) {
                fetch(numbers);
            }
            if let Some(hint) = form.hints_at().and_then(|hints| record.get(hints + at)) {
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
            let [older, _, low, high, ..] = self.record(position, HEAD_UNITS)? else { return None };
            if Name::load(low, high).is_of(target) {
                return Some(position);
            }
            let next = older.load(Relaxed);
            // If the record is gone, that was something else.
            fence(Acquire);
            if !self.is_live(position) {
                return None;
            }
            position = next;
        }
        None
    }

    /// The copy of the node that `target` points to, if it seems to be at `position`.
    #[inline]
    fn see(&self, position: u32, target: u64) -> Option<Seen<'_>> {
        if position == 0 || !self.is_live(position) {
            return None;
        }
        // Dividing a position by the size of the log takes longer than comparing a name: once a level.
        let unit = self.unit_of(position);
        let (record, turn) = (self.record_at(unit)?, self.turn(unit)?);
        let [_, size, low, high, ..] = record else { return None };
        let before = turn.load(Acquire);
        let (size, name) = (size.load(Relaxed), Name::load(low, high));
        name.is_of(target).then_some(Seen { position, unit, record, turn, before, size, name })
    }

    /// Whether a copy is still what it was when it was seen.
    #[inline]
    fn is_unchanged(&self, seen: &Seen<'_>, life: u32) -> bool {
        fence(Acquire);
        seen.before & 1 == 0
            && seen.turn.load(Relaxed) == seen.before
            && self.is_live(seen.position)
            && self.lives.load(Relaxed) == life
    }

    #[inline]
    fn look(&self, walk: &Walk, kind: NodeType, key: &[u8], epoch: u32) -> Step {
        let Walk { route: Route { word, depth: begin, .. }, below, life, .. } = *walk;
        let target = word.target();
        let seen = self.see(below.hint, target).or_else(|| {
            let position = self.find(target)?;
            if below.parent != 0 {
                self.note_hint(below, life, position);
            }
            self.see(position, target)
        });
        let Some(seen) = seen else { return Step::Miss };
        // All records are of the era that the root slot had, or of a later one. A later one may be taken for too old,
        // which costs a READ.
        if seen.size & EPOCH_MASK < epoch & EPOCH_MASK && !planted(Mutant::COPIES_OUTLIVE) {
            return Step::Miss;
        }
        let Seen { record, name, .. } = seen;
        let at = usize::from(name.position());
        // Mostly nothing is skipped. Then the byte is known, and where slots begin, before the name has come from
        // memory. With branches, which are predicted, the slot is loaded at once; with arithmetic it is not.
        let (found, form) = if name.size() == 0 && at == begin {
            let form = Form::new(kind, seen.units(), 0);
            (search_node(record, form, word, key, core::hint::black_box(begin)), form)
        } else {
            let form = Form::new(kind, seen.units(), name.size());
            (search_behind(record, form, name, word, key, begin), form)
        };
        let mut place = Below::default();
        if let Some(found) = &found
            && let Some(hints) = form.hints_at()
            && let Some(hint) = record.get(hints + found.at)
        {
            place = Below { hint: hint.load(Relaxed), parent: seen.position, at: (hints + found.at) as u32 };
        }
        if !self.is_unchanged(&seen, life) {
            return Step::Miss;
        }
        let Some(FoundSlot { index, word, .. }) = found else { return Step::Miss };
        self.warm(seen.unit);
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
            && let Some(hint) = self.log.get(self.start_of(below.parent) + below.at as usize)
        {
            hint.store(position, Release);
        }
    }
}

/// Looks in a node, to which `word` leads, for the slot of the key's byte at position `at`.
#[expect(clippy::inline_always, reason = "as for the search of a byte")]
#[inline(always)]
fn search_node(record: &[AtomicU32], form: Form, word: Slot, key: &[u8], at: usize) -> Option<FoundSlot> {
    let byte = *key.get(at)?;
    if word.is_special() {
        // A slot that cannot be the byte's: this copy lacks the slot that was appended behind it.
        search_floor(record, form, byte).filter(|found| found.word.may_cover(byte))
    } else {
        search(record, form, byte)
    }
}

/// The same, if bytes lie between `begin` and the node's position.
#[inline(never)]
fn search_behind(
    record: &[AtomicU32],
    form: Form,
    name: Name,
    word: Slot,
    key: &[u8],
    begin: usize,
) -> Option<FoundSlot> {
    let header = header_of(record, form, name);
    let fits = header.compare(begin, key) == Compared::Fits;
    search_node(record, form, word, key, usize::from(header.position)).filter(|_| fits)
}
