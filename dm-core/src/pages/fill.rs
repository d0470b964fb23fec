//! Fills: a page on its way into the store, or past it.
//!
//! A lane that misses a page puts a *fill* into the table. It is the only lane that READs the page. Others that want it
//! park, in the order in which they came, and look again when they are woken. Each lane has its own places for fills.
//! A lane ends its fills before it waits for another lane's: otherwise two lanes could wait for each other. So
//! [`PageStore::find`] lets only a lane without fills wait.

use super::admission::Admit;
use super::frame::MAPPED;
use super::record::{Counter, Record};
use super::slot::Slot;
use super::table::{Chain, Node};
use super::{FrameName, PageStore, Refused};
use crate::lane::Lane;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::remote::address::Address;
use crate::verbs::{LaneId, Request};
use core::sync::atomic::Ordering::Relaxed;

/// A page that this lane alone may READ and WRITE, until it calls [`PageStore::admit`] or [`PageStore::release`]. If
/// it calls neither, the fill stays, and [`PageStore::settle`] releases it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "others wait until the fill ends"]
pub struct Fill {
    id: Address,
    number: u32,
    frame: Option<u32>,
}

impl Fill {
    /// The page.
    pub fn id(&self) -> Address {
        self.id
    }

    /// Whether the page gets a frame. If not, the lane does what it has to do with the page in its own scratch, WRITEs
    /// it if it has changed it, and then calls [`PageStore::release`].
    pub fn is_admitted(&self) -> bool {
        self.frame.is_some()
    }
}

/// Result of [`PageStore::find`].
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The page is here.
    Frame(FrameName),
    /// The page is not here, and the lane READs it. If it has asked for this page before, it is the same fill.
    Mine(Fill),
    /// Another lane has a fill of the page. The lane parks, unless it called [`PageStore::claim`].
    Joined,
    /// The page needs a frame ([`Admit::Always`]), and none can be had before pages are flushed.
    NoFrame,
    /// The lane has all the fills that it can have, or it has some and would have to wait.
    NoFill,
    /// See [`Refused::Busy`].
    Busy,
}

impl<'s> PageStore<'s> {
    pub(super) fn fill_slot(&self, number: u32) -> Option<Slot<'s>> {
        self.fills.get(number as usize).map(Slot)
    }

    fn fills_of(&self, lane: LaneId) -> impl Iterator<Item = (u32, Slot<'s>)> {
        let each = u32::from(self.shape.fills_per_lane);
        let first = u32::from(lane.0) * each;
        (first..first + each).filter_map(|number| Some((number, self.fill_slot(number)?)))
    }

    /// A fill that the lane has not ended.
    pub(super) fn fill_of(&self, lane: LaneId) -> Option<Fill> {
        let (number, slot) = self.fills_of(lane).find(|(_, slot)| slot.is_taken())?;
        Some(Fill { id: slot.id(), number, frame: slot.frame() })
    }

    /// Finds page `id`. If another lane has a fill of the page, the lane is in its list of waiters and parks;
    /// [`PageStore::acquire`] does this.
    #[inline]
    pub fn find(&self, lane: &Lane<'_>, id: Address, admit: Admit) -> Found {
        self.find_or_claim(lane, id, admit, true)
    }

    /// Finds page `id`, and does not wait: for scans, which collect the pages that they READ with one doorbell.
    #[inline]
    pub fn claim(&self, lane: &Lane<'_>, id: Address, admit: Admit) -> Found {
        self.find_or_claim(lane, id, admit, false)
    }

    #[inline]
    fn find_or_claim(&self, lane: &Lane<'_>, id: Address, admit: Admit, joins: bool) -> Found {
        let Some(record) = self.record(lane.id()) else { return Found::NoFill };
        if let Some(name) = self.lookup(id) {
            record.count(Counter::Hit);
            return Found::Frame(name);
        }
        let found = self.begin_fill(lane, record, id, admit, joins);
        self.note_debts(lane);
        found
    }

    #[cold]
    fn begin_fill(&self, lane: &Lane<'_>, record: Record<'s>, id: Address, admit: Admit, joins: bool) -> Found {
        if id.is_null() || record.is_waiting() {
            return if id.is_null() { Found::NoFill } else { Found::Joined };
        }
        // Before the latch of the chain: to take a frame may take the latch of another chain.
        let frame = if self.admits(lane, admit) { self.take_frame(lane, record) } else { None };
        let found = match self.chain(id) {
            Err(_) => Found::Busy,
            Ok(chain) => match chain.find(id) {
                Some(Node::Frame(index, frame)) => {
                    record.count(Counter::Hit);
                    Found::Frame(FrameName { index, generation: frame.generation() })
                }
                Some(Node::Fill(number, slot)) => self.join(lane, record, number, slot, joins),
                None if frame.is_none() && admit == Admit::Always => {
                    lane.mark(Mark::PAGE_NO_FRAME);
                    Found::NoFrame
                }
                None => match self.fills_of(lane.id()).find(|(_, slot)| !slot.is_taken()) {
                    None => Found::NoFill,
                    Some((number, slot)) => {
                        slot.take(id, frame);
                        chain.insert(self.fill_node(number));
                        record.owe();
                        record.count(Counter::Miss);
                        if frame.is_none() {
                            record.count(Counter::Unadmitted);
                            lane.mark(Mark::PAGE_UNADMITTED);
                        }
                        return Found::Mine(Fill { id, number, frame });
                    }
                },
            },
        };
        if let Some(index) = frame {
            // There is room: a frame that was set aside is taken first.
            record.set_spare(index);
        }
        found
    }

    /// Meets a fill under the latch of its chain.
    fn join(&self, lane: &Lane<'_>, record: Record<'s>, number: u32, slot: Slot<'s>, joins: bool) -> Found {
        if self.fills_of(lane.id()).any(|(own, _)| own == number) {
            return Found::Mine(Fill { id: slot.id(), number, frame: slot.frame() });
        }
        if !joins {
            return Found::Joined;
        }
        if self.fill_of(lane.id()).is_some() {
            return Found::NoFill;
        }
        if !record.is_idle() {
            return Found::Busy;
        }
        self.enqueue(slot.waiters(), lane.id(), record);
        record.count(Counter::Join);
        lane.mark(Mark::PAGE_JOINED);
        Found::Joined
    }

    /// Ends an admitted fill: the page, as it was READ or WRITTEN, goes into its frame. Wakes the lanes that wait.
    ///
    /// If it is refused, the fill goes on: the caller tries again, or releases it.
    pub fn admit(&self, lane: &Lane<'_>, fill: &Fill, page: &[u8]) -> Result<FrameName, Refused> {
        Self::check_mailbox(lane)?;
        let record = self.record(lane.id()).ok_or(Refused::UnknownLane)?;
        let slot = self.slot_of(fill)?;
        let index = slot.frame().ok_or(Refused::Moved)?;
        let frame = self.frame(index).ok_or(Refused::Moved)?;
        if page.len() != self.shape.page_bytes {
            return Err(Refused::WrongLength);
        }
        // The frame has no name, and belongs to the fill. A lane with an old name is refused under the latch.
        frame.begin();
        frame.put(0, page);
        frame.end();
        let generation = {
            let chain = self.chain(fill.id)?;
            let state = frame.latch()?;
            frame.name(fill.id);
            frame.warm();
            state.set(MAPPED);
            chain.replace(self.fill_node(fill.number), Some(Chain::frame_node(index)));
            self.end_fill(lane, slot);
            frame.generation()
        };
        record.paid();
        self.note_debts(lane);
        Ok(FrameName { index, generation })
    }

    /// Ends a fill without a frame: the page was not admitted and the lane is done with it, or it was not as expected.
    /// Wakes the lanes that wait. No request of this lane for the page may be under way.
    ///
    /// If it is refused, the fill goes on: the caller tries again.
    pub fn release(&self, lane: &Lane<'_>, fill: &Fill) -> Result<(), Refused> {
        Self::check_mailbox(lane)?;
        let record = self.record(lane.id()).ok_or(Refused::UnknownLane)?;
        let slot = self.slot_of(fill)?;
        {
            let chain = self.chain(fill.id)?;
            if let Some(index) = slot.frame()
                && !record.set_spare(index)
            {
                let frame = self.frame(index).ok_or(Refused::Moved)?;
                PageStore::free(&self.free_list()?, index, frame);
            }
            chain.replace(self.fill_node(fill.number), None);
            self.end_fill(lane, slot);
        }
        record.paid();
        self.note_debts(lane);
        Ok(())
    }

    /// Notes that the lane is about to WRITE the page of a fill that is not admitted. Until it has called
    /// [`PageStore::written`], what lies at the page's place may be torn, and nobody but the lane has all of it.
    pub fn writes(&self, lane: &Lane<'_>, fill: &Fill) {
        if let Some(record) = self.record(lane.id()) {
            record.set_writing(Some(fill.number));
        }
    }

    /// The WRITE has completed.
    pub fn written(&self, lane: &Lane<'_>) {
        if let Some(record) = self.record(lane.id()) {
            record.set_writing(None);
        }
    }

    /// The page that the lane was WRITING when its operation failed or was dropped: it has to WRITE it again, from the
    /// same scratch, before [`PageStore::settle`] releases the fill.
    pub fn unwritten(&self, lane: &Lane<'_>) -> Option<Address> {
        let number = self.record(lane.id())?.writing()?;
        self.fill_slot(number).filter(|slot| slot.is_taken()).map(Slot::id)
    }

    /// The place of a fill that has not ended.
    fn slot_of(&self, fill: &Fill) -> Result<Slot<'s>, Refused> {
        let slot = self.fill_slot(fill.number).ok_or(Refused::Moved)?;
        if slot.is_taken() && slot.id() == fill.id { Ok(slot) } else { Err(Refused::Moved) }
    }

    /// Frees the place of a fill, under the latch of its chain, and wakes the first lane that waits.
    fn end_fill(&self, lane: &Lane<'_>, slot: Slot<'s>) {
        slot.free();
        if planted(Mutant::JOINED_NOT_WOKEN) {
            slot.waiters().store(0, Relaxed);
            return;
        }
        if let Some(first) = self.detach(slot.waiters()) {
            lane.port().push(Request::wake(first));
        }
    }
}
