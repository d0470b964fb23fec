//! Frozen pages: reserved by one lane for a structure change, while others go on reading.

use super::frame::{DIRTY, FLUSHING, FROZEN, Frame};
use super::latch::Latched;
use super::record::{FROZEN_SLOTS, Record};
use super::table::Chain;
use super::{FrameName, PageStore, Refused};
use crate::lane::Lane;
use crate::verbs::Request;

/// Pages that one lane can have frozen at a time. A merge freezes two.
pub const FROZEN_PER_LANE: usize = FROZEN_SLOTS;

/// A page that this lane alone may change and flush, until it calls [`PageStore::thaw`] or [`PageStore::discard`]. If
/// it calls neither, the page stays frozen, and [`PageStore::settle`] thaws it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "the page can be changed by no other lane until it is thawed"]
pub struct Frozen(FrameName);

impl Frozen {
    /// The frame, for reads, changes and flushes by the lane that has frozen it.
    pub fn frame(self) -> FrameName {
        self.0
    }
}

impl<'s> PageStore<'s> {
    /// Freezes a page. A change that is under way ends before; a flush may go on.
    pub fn freeze(&self, lane: &Lane<'_>, name: FrameName) -> Result<Frozen, Refused> {
        let record = self.record(lane.id()).ok_or(Refused::UnknownLane)?;
        let frame = self.frame(name.index).ok_or(Refused::Moved)?;
        {
            let state = frame.latch_named(name)?;
            if state.get() & FROZEN != 0 {
                return Err(Refused::Frozen);
            }
            if !record.exchange_frozen(0, name.index + 1) {
                return Err(Refused::TooManyFrozen);
            }
            frame.set_freezer(u32::from(lane.id().0) + 1);
            state.set(state.get() | FROZEN);
        }
        record.owe();
        self.note_debts(lane);
        Ok(Frozen(name))
    }

    /// The frame's latch, if this lane has frozen the page.
    fn latch_frozen(&self, lane: &Lane<'_>, frozen: Frozen) -> Result<(Frame<'s>, Latched<'s>), Refused> {
        let frame = self.frame(frozen.0.index).ok_or(Refused::Moved)?;
        let state = frame.latch_named(frozen.0)?;
        let is_mine = state.get() & FROZEN != 0 && frame.freezer() == u32::from(lane.id().0) + 1;
        if is_mine { Ok((frame, state)) } else { Err(Refused::Moved) }
    }

    /// Ends the freeze: other lanes may change the page again. Wakes the lanes that wait for the page.
    pub fn thaw(&self, lane: &Lane<'_>, frozen: Frozen) -> Result<(), Refused> {
        Self::check_mailbox(lane)?;
        {
            let (frame, state) = self.latch_frozen(lane, frozen)?;
            state.set(state.get() & !FROZEN);
            frame.set_freezer(0);
            self.end_freeze(lane, frozen, frame);
        }
        self.note_debts(lane);
        Ok(())
    }

    fn end_freeze(&self, lane: &Lane<'_>, frozen: Frozen, frame: Frame<'s>) {
        if let Some(record) = self.record(lane.id())
            && record.exchange_frozen(frozen.0.index + 1, 0)
        {
            record.paid();
        }
        if let Some(first) = self.detach(frame.waiters()) {
            lane.port().push(Request::wake(first));
        }
    }

    /// Writes a whole image over a frozen page that is clean: the image is in the pool, and needs no flush.
    pub fn renew(&self, lane: &Lane<'_>, frozen: Frozen, page: &[u8]) -> Result<(), Refused> {
        if page.len() != self.shape.page_bytes {
            return Err(Refused::WrongLength);
        }
        let (frame, state) = self.latch_frozen(lane, frozen)?;
        Self::check_clean(&state)?;
        frame.begin();
        frame.put(0, page);
        frame.end();
        frame.copied_anew();
        Ok(())
    }

    /// Drops a frozen page that is clean, and ends the freeze: the page does not exist any more, or is not this compute
    /// node's. Wakes the lanes that wait for it.
    pub fn discard(&self, lane: &Lane<'_>, frozen: Frozen) -> Result<(), Refused> {
        Self::check_mailbox(lane)?;
        let id = self.frame(frozen.0.index).ok_or(Refused::Moved)?.id();
        {
            let chain = self.chain(id)?;
            let (frame, state) = self.latch_frozen(lane, frozen)?;
            Self::check_clean(&state)?;
            let free = self.free_list()?;
            self.departs(id, frame);
            chain.replace(Chain::frame_node(frozen.0.index), None);
            frame.empty();
            frame.set_freezer(0);
            state.set(0);
            self.end_freeze(lane, frozen, frame);
            PageStore::free(&free, frozen.0.index, frame);
        }
        self.note_debts(lane);
        Ok(())
    }

    fn check_clean(state: &Latched<'_>) -> Result<(), Refused> {
        match state.get() {
            flags if flags & DIRTY != 0 => Err(Refused::Dirty),
            flags if flags & FLUSHING != 0 => Err(Refused::Flushing),
            _ => Ok(()),
        }
    }

    /// The pages that the lane has frozen: what a settling lane has to look after before [`PageStore::settle`] thaws
    /// them.
    pub fn frozen_by(&self, lane: &Lane<'_>) -> impl Iterator<Item = Frozen> {
        let record = self.record(lane.id());
        record.into_iter().flat_map(Record::frozen).filter_map(|index| {
            let generation = self.frame(index)?.generation();
            Some(Frozen(FrameName { index, generation }))
        })
    }
}
