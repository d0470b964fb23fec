//! Pages whose changes are not in the pool yet, in the order of their oldest change; and their flushes.
//!
//! There are two lists, under one latch. A *dirty* page has changes that no flush has taken; its key is the oldest of
//! them. A *flushing* page is on its way to the pool; its key is the oldest change that the flush has taken. A page that
//! is changed during its flush is in both. So the least key of both lists is the oldest change that is not in the pool,
//! and it is at the head of one of them.
//!
//! Changes get ascending numbers, so a page that becomes dirty belongs near the end. It is inserted from there.

use super::frame::{DIRTY, DIRTY_LINKS, FLUSH_LINKS, FLUSHING, FROZEN, Frame, MAPPED, OLDEST, STAGED};
use super::latch::Latched;
use super::record::Counter;
use super::storage::LISTS;
use super::{FrameName, Lsn, PageStore, Refused};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::remote::address::Address;
use crate::verbs::Request;
use core::sync::atomic::Ordering::Relaxed;

/// Pages at the head of the dirty list that [`PageStore::stage`] looks at. Those that are being flushed or are frozen
/// by other lanes are passed over.
pub const STAGE_WALK: usize = 32;

/// How often [`PageStore::stage`] goes back to the list when a page that it has chosen was taken by another lane.
const STAGE_TRIES: usize = 4;

/// A list. Links are frame numbers plus one; 0 is the end.
struct List {
    /// Places of the first and the last page in the control block.
    ends: [usize; 2],
    /// Places of the links to the neighbours before and behind, in a frame's header.
    links: [usize; 2],
    /// Place of the key.
    key: usize,
}

const DIRTY_LIST: List = List { ends: [LISTS + 1, LISTS + 2], links: DIRTY_LINKS, key: OLDEST };
const FLUSH_LIST: List = List { ends: [LISTS + 3, LISTS + 4], links: FLUSH_LINKS, key: STAGED };

/// The end of a list from which a page looks for its place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Oldest,
    Newest,
}

/// Which dirty page is flushed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// The one with the oldest change, so that the log can be cut.
    Oldest,
    /// One that eviction wants clean. There may be none.
    Victim,
}

/// A flush under way. The lane WRITEs the copy, and then calls [`PageStore::flushed`]. If it does not, the flush stays,
/// and [`PageStore::settle`] ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "the page is not evicted and not flushed again before the flush ends"]
pub struct Staged {
    name: FrameName,
    id: Address,
    lsn: Lsn,
    copies: u32,
}

impl Staged {
    /// The page.
    pub fn id(&self) -> Address {
        self.id
    }

    /// The newest change that the copy has.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The frame of the page.
    pub fn frame(&self) -> FrameName {
        self.name
    }

    /// How many copies flushes have taken since the page in the frame was as it is in the pool, this one included: what
    /// makes the version of each WRITE another one than that of the WRITE before, whether that has failed or not.
    pub fn copies(&self) -> u32 {
        self.copies
    }
}

impl<'s> PageStore<'s> {
    /// Takes the latch of both lists.
    fn lists(&self) -> Result<Latched<'s>, Refused> {
        Latched::take(self.control(LISTS).ok_or(Refused::Busy)?)
    }

    fn end_of(&self, list: &List, end: usize) -> u32 {
        let at = list.ends.get(end).copied().unwrap_or(LISTS);
        self.control(at).map_or(0, |word| word.load(Relaxed))
    }

    /// Links `after` behind `before`: frame numbers plus one, or 0 for the ends of the list.
    fn join_links(&self, list: &List, before: u32, after: u32) {
        let [to_before, to_after] = list.links;
        let [first, last] = list.ends;
        let set = |number: u32, link: usize, end: usize, to: u32| match number.checked_sub(1) {
            Some(index) => self.frame(index).into_iter().for_each(|frame| frame.set_word(link, to)),
            None => self.control(end).into_iter().for_each(|word| word.store(to, Relaxed)),
        };
        set(before, to_after, first, after);
        set(after, to_before, last, before);
    }

    /// Puts a page where its key belongs.
    fn insert(&self, _: &Latched<'_>, list: &List, index: u32, key: Lsn, from: From) {
        let Some(frame) = self.frame(index) else { return };
        frame.set_pair(list.key, key.to_bits());
        let key_of =
            |number: u32| number.checked_sub(1).and_then(|at| self.frame(at)).map(|frame| frame.pair(list.key));
        let [to_before, to_after] = list.links;
        let link = |number: u32, at: usize| {
            number.checked_sub(1).and_then(|index| self.frame(index)).map_or(0, |frame| frame.word(at))
        };
        let (mut before, mut after) = match from {
            From::Oldest => (0, self.end_of(list, 0)),
            From::Newest => (self.end_of(list, 1), 0),
        };
        for _ in 0..self.frame_count {
            if from == From::Oldest && key_of(after).is_some_and(|next| next < key.to_bits()) {
                (before, after) = (after, link(after, to_after));
            } else if from == From::Newest && key_of(before).is_some_and(|next| next > key.to_bits()) {
                (before, after) = (link(before, to_before), before);
            } else {
                break;
            }
        }
        self.join_links(list, before, index + 1);
        self.join_links(list, index + 1, after);
    }

    fn remove(&self, _: &Latched<'_>, list: &List, frame: Frame<'_>) {
        let [before, after] = list.links.map(|at| frame.word(at));
        self.join_links(list, before, after);
    }

    /// The oldest change that is not in the pool, whether its page is dirty or on its way; `None` if there is none.
    ///
    /// To cut the log, the caller looks *first* how far the log is durable, and then asks this. The log is needed from
    /// the lesser of both on. In the other order, a change might be made and become durable in between.
    pub fn oldest_unflushed(&self) -> Result<Option<Lsn>, Refused> {
        let _lists = self.lists()?;
        let head = |list: &List| {
            let frame = self.frame(self.end_of(list, 0).checked_sub(1)?)?;
            Some(Lsn::from_bits(frame.pair(list.key)))
        };
        let dirty = head(&DIRTY_LIST);
        if planted(Mutant::FLUSHING_FORGOTTEN) {
            return Ok(dirty);
        }
        Ok(dirty.into_iter().chain(head(&FLUSH_LIST)).min())
    }

    /// A page is about to be changed, under its latch. Its record will not have a number below `floor`.
    pub(super) fn become_dirty(&self, index: u32, state: &Latched<'_>, floor: Lsn) -> Result<(), Refused> {
        if state.get() & DIRTY != 0 {
            return Ok(());
        }
        let lists = self.lists()?;
        self.insert(&lists, &DIRTY_LIST, index, floor, From::Newest);
        state.set(state.get() | DIRTY);
        Ok(())
    }

    /// Begins a flush: copies a dirty page to `out`, which is as long as a page. `None`: there is no such page.
    ///
    /// No page is flushed twice at a time. A page that another lane has frozen is passed over.
    pub fn stage(&self, lane: &Lane<'_>, which: Flush, out: &mut [u8]) -> Result<Option<Staged>, Refused> {
        if out.len() != self.shape.page_bytes {
            return Err(Refused::WrongLength);
        }
        for _ in 0..STAGE_TRIES {
            let candidate = match which {
                Flush::Oldest => self.oldest_to_stage(lane)?,
                Flush::Victim => self.take_victim(),
            };
            let Some(name) = candidate else { return Ok(None) };
            match self.stage_frame(lane, name, out) {
                Ok(staged) => return Ok(Some(staged)),
                // It was flushed, frozen or evicted since.
                Err(Refused::Clean | Refused::Flushing | Refused::Frozen | Refused::Moved) => {}
                Err(refused) => return Err(refused),
            }
        }
        if which == Flush::Victim { Ok(None) } else { Err(Refused::Busy) }
    }

    fn oldest_to_stage(&self, lane: &Lane<'_>) -> Result<Option<FrameName>, Refused> {
        let _lists = self.lists()?;
        let mut next = self.end_of(&DIRTY_LIST, 0);
        for _ in 0..STAGE_WALK {
            let Some((index, frame)) = next.checked_sub(1).and_then(|index| Some((index, self.frame(index)?))) else {
                break;
            };
            let flags = frame.flags();
            let is_kept = flags & FROZEN != 0 && frame.freezer() != u32::from(lane.id().0) + 1;
            if flags & FLUSHING == 0 && !is_kept {
                return Ok(Some(FrameName { index, generation: frame.generation() }));
            }
            next = frame.word(DIRTY_LINKS[1]);
        }
        Ok(None)
    }

    fn take_victim(&self) -> Option<FrameName> {
        let named = self.victims.iter().filter(|slot| slot.load(Relaxed) != 0);
        let index = named.map(|slot| slot.swap(0, Relaxed)).find(|named| *named != 0)? - 1;
        Some(FrameName { index, generation: self.frame(index)?.generation() })
    }

    /// As [`PageStore::stage`], of this page: for a caller that needs it in the pool.
    pub fn stage_frame(&self, lane: &Lane<'_>, name: FrameName, out: &mut [u8]) -> Result<Staged, Refused> {
        if out.len() != self.shape.page_bytes {
            return Err(Refused::WrongLength);
        }
        let record = self.record(lane.id()).ok_or(Refused::UnknownLane)?;
        let frame = self.frame(name.index).ok_or(Refused::Moved)?;
        let me = u32::from(lane.id().0) + 1;
        let staged = {
            let state = frame.latch_named(name)?;
            if state.get() & FROZEN != 0 && frame.freezer() != me {
                return Err(Refused::Frozen);
            }
            if state.get() & FLUSHING != 0 {
                return Err(Refused::Flushing);
            }
            if state.get() & DIRTY == 0 {
                return Err(Refused::Clean);
            }
            let lists = self.lists()?;
            self.remove(&lists, &DIRTY_LIST, frame);
            // Out of order if eviction has chosen the page. The list is short.
            self.insert(&lists, &FLUSH_LIST, name.index, Lsn::from_bits(frame.pair(OLDEST)), From::Newest);
            state.set(state.get() & !DIRTY | FLUSHING);
            drop(lists);
            frame.set_flusher(me);
            frame.image().copy(0, out);
            record.owe_flush();
            Staged { name, id: frame.id(), lsn: frame.newest(), copies: frame.next_copy() }
        };
        self.note_debts(lane);
        Ok(staged)
    }

    /// Ends a flush. With `ok`, the WRITE has completed: what was staged is in the pool. Otherwise the page is as dirty
    /// as before the flush. In either case no WRITE of the copy is under way, nor can one take effect any more. The lane
    /// is the one that staged the page.
    ///
    /// Changes that came during the flush are still to be flushed. Wakes the lanes that wait for the page.
    pub fn flushed(&self, lane: &Lane<'_>, staged: &Staged, ok: bool) -> Result<(), Refused> {
        Self::check_mailbox(lane)?;
        let record = self.record(lane.id()).ok_or(Refused::UnknownLane)?;
        let index = staged.name.index;
        let frame = self.frame(index).ok_or(Refused::Moved)?;
        let is_clean = {
            let state = frame.latch_named(staged.name)?;
            if state.get() & FLUSHING == 0 || frame.flusher() != u32::from(lane.id().0) + 1 {
                return Err(Refused::Moved);
            }
            let lists = self.lists()?;
            self.remove(&lists, &FLUSH_LIST, frame);
            let was_changed = state.get() & DIRTY != 0;
            let mut flags = state.get() & !FLUSHING;
            if was_changed {
                lane.mark(Mark::PAGE_CHANGED_IN_FLUSH);
            }
            if !ok {
                if was_changed {
                    self.remove(&lists, &DIRTY_LIST, frame);
                }
                // The oldest changes are flushed first, so its place is near the head.
                self.insert(&lists, &DIRTY_LIST, index, Lsn::from_bits(frame.pair(STAGED)), From::Oldest);
                flags |= DIRTY;
            } else if was_changed && planted(Mutant::FLUSHED_TAKEN_FOR_CLEAN) {
                self.remove(&lists, &DIRTY_LIST, frame);
                flags &= !DIRTY;
            }
            state.set(flags);
            frame.set_flusher(0);
            if let Some(first) = self.detach(frame.waiters()) {
                lane.port().push(Request::wake(first));
            }
            flags == MAPPED
        };
        record.paid_flush();
        if ok {
            record.count(Counter::Flush);
        }
        if is_clean {
            self.cool_flushed(index, frame);
        }
        self.note_debts(lane);
        Ok(())
    }

    /// A flush that the lane has begun and not ended.
    pub fn staged_by(&self, lane: &Lane<'_>) -> Result<Option<Staged>, Refused> {
        let _lists = self.lists()?;
        let mut next = self.end_of(&FLUSH_LIST, 0);
        for _ in 0..self.frame_count {
            let Some((index, frame)) = next.checked_sub(1).and_then(|index| Some((index, self.frame(index)?))) else {
                break;
            };
            if frame.flusher() == u32::from(lane.id().0) + 1 {
                let name = FrameName { index, generation: frame.generation() };
                return Ok(Some(Staged { name, id: frame.id(), lsn: Lsn::NONE, copies: 0 }));
            }
            next = frame.word(FLUSH_LINKS[1]);
        }
        Ok(None)
    }
}
