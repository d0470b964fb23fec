//! Where lanes wait for the store, and how a lane pays what it owes when its operation was dropped.

use super::admission::Admit;
use super::fill::{Fill, Found};
use super::frame::{FLUSHING, FROZEN};
use super::record::Record;
use super::{FrameName, PageStore, Refused};
use crate::lane::{Lane, Unsettled};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::remote::address::Address;
use crate::verbs::Request;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

/// How long a lane pauses that was refused as busy, in ns. The other lane's thread needs less than this, if it runs.
const BUSY_NS: u64 = 500;

/// Result of [`PageStore::acquire`].
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired {
    /// See [`Found::Frame`].
    Frame(FrameName),
    /// See [`Found::Mine`].
    Mine(Fill),
    /// See [`Found::NoFrame`].
    NoFrame,
    /// See [`Found::NoFill`].
    NoFill,
}

/// Result of [`PageStore::pay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paid {
    /// The lane owes nothing.
    Nothing,
    /// One debt was paid.
    One,
    /// The lane is in a list of waiters. It stays until it is woken, since the list goes through its record.
    Waits,
}

impl PageStore<'_> {
    /// Tells the lane whether it owes anything, so that it is settled if its operation is dropped.
    pub(super) fn note_debts(&self, lane: &Lane<'_>) {
        lane.set_unsettled(Unsettled::PAGES, self.owes(lane));
    }

    /// Whether the lane has a fill, a flush or a frozen page that it has not ended, or a place among waiters.
    pub fn owes(&self, lane: &Lane<'_>) -> bool {
        self.record(lane.id()).is_some_and(Record::owes)
    }

    /// What a lane does first when it is woken: it wakes the next. `false`: it was not woken, and parks again.
    pub(super) fn wake_next(&self, lane: &Lane<'_>) -> bool {
        let Some(record) = self.record(lane.id()) else { return true };
        if record.is_waiting() {
            return false;
        }
        if let Some(next) = self.pass_on(record) {
            lane.port().push(Request::wake(next));
        }
        self.note_debts(lane);
        true
    }

    /// Pays one debt of the lane: see [`PageStore::settle`].
    pub(super) fn pay(&self, lane: &Lane<'_>) -> Result<Paid, Refused> {
        let Some(record) = self.record(lane.id()) else { return Ok(Paid::Nothing) };
        if let Some(fill) = self.fill_of(lane.id()).filter(|_| !planted(Mutant::FILL_UNPAID)) {
            self.release(lane, &fill)?;
            return Ok(Paid::One);
        }
        if record.owes_flush()
            && let Some(staged) = self.staged_by(lane)?
        {
            self.flushed(lane, &staged, false)?;
            return Ok(Paid::One);
        }
        if let Some(frozen) = self.frozen_by(lane).next() {
            self.thaw(lane, frozen)?;
            return Ok(Paid::One);
        }
        if !self.wake_next(lane) {
            return Ok(Paid::Waits);
        }
        Ok(Paid::Nothing)
    }

    /// Adds the lane to those that wait for a page, if there is anything to wait for: a freeze by another lane, or a
    /// flush.
    pub(super) fn wait_behind(&self, lane: &Lane<'_>, name: FrameName) -> Result<bool, Refused> {
        let record = self.record(lane.id()).ok_or(Refused::UnknownLane)?;
        let frame = self.frame(name.index).ok_or(Refused::Moved)?;
        let is_kept = {
            let state = frame.latch_named(name)?;
            let is_frozen = state.get() & FROZEN != 0 && frame.freezer() != u32::from(lane.id().0) + 1;
            let is_kept = is_frozen || state.get() & FLUSHING != 0;
            if is_kept && record.is_idle() {
                self.enqueue(frame.waiters(), lane.id(), record);
            }
            is_kept
        };
        self.note_debts(lane);
        Ok(is_kept)
    }

    /// Waits until the lane is woken, and wakes the next; or until the operation's deadline, and then the lane keeps its
    /// place among the waiters until it is settled.
    async fn wait(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        while !self.wake_next(lane) {
            lane.check_deadline()?;
            lane.port().push(Request::park(lane.remaining_ns()));
            lane.port().submit().await?;
        }
        Ok(())
    }

    /// Pauses for a moment: what a lane does that was refused as [`Refused::Busy`].
    pub async fn yield_now(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        lane.check_deadline()?;
        lane.port().call(Request::pause(BUSY_NS)).await?;
        Ok(())
    }

    /// Finds page `id`, as [`PageStore::find`], and waits for fills of other lanes. Fails at the operation's deadline.
    pub async fn acquire(&self, lane: &Lane<'_>, id: Address, admit: Admit) -> Result<Acquired, OpError> {
        loop {
            match self.find(lane, id, admit) {
                Found::Frame(name) => return Ok(Acquired::Frame(name)),
                Found::Mine(fill) => return Ok(Acquired::Mine(fill)),
                Found::NoFrame => return Ok(Acquired::NoFrame),
                Found::NoFill => return Ok(Acquired::NoFill),
                Found::Joined => self.wait(lane).await?,
                Found::Busy => self.yield_now(lane).await?,
            }
            lane.check_deadline()?;
        }
    }

    /// Waits until every fill of another lane has ended that is under way now. The lane has no fills, no flushes and no frozen
    /// pages.
    pub async fn await_fills(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        // One of both sees the other: this lane the fill, or the filler that its compute node gives the page up
        // (`Partition::changes`).
        fence(SeqCst);
        for (number, id) in
            (0..self.fills.len() as u32).filter_map(|number| Some((number, self.fill_slot(number)?.id())))
        {
            while self.fill_slot(number).is_some_and(|slot| slot.is_taken() && slot.id() == id) {
                self.yield_now(lane).await?;
            }
        }
        Ok(())
    }

    /// Waits until no other lane has frozen the page and no flush of it is under way, or until it has left the store.
    /// The lane has no fills, no flushes and no frozen pages: other lanes might wait for these.
    pub async fn wait_for(&self, lane: &Lane<'_>, name: FrameName) -> Result<(), OpError> {
        loop {
            match self.wait_behind(lane, name) {
                Ok(true) => self.wait(lane).await?,
                Err(Refused::Busy) => self.yield_now(lane).await?,
                Ok(false) | Err(_) => return Ok(()),
            }
        }
    }

    /// Pays what the lane owes the store, when its operation has failed or was dropped: releases its fills, ends its
    /// flushes as failed, thaws what it has frozen, and wakes the next lane where it was to do so.
    ///
    /// All requests of the lane have completed, and none can take effect any more: a WRITE of a page that lands later
    /// would lie over a later flush. A half-done structure change of its frozen pages ([`PageStore::frozen_by`]) was
    /// finished or undone.
    pub async fn settle(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        loop {
            match self.pay(lane) {
                Ok(Paid::Nothing) => return Ok(()),
                // A submit for each wake, so that any number of them fits into the mailbox.
                Ok(Paid::One) => lane.port().call(Request::pause(0)).await.map(|_| ())?,
                Ok(Paid::Waits) => self.wait(lane).await?,
                Err(Refused::Busy) => self.yield_now(lane).await?,
                Err(Refused::MailboxFull) => lane.port().submit().await?,
                Err(_) => {
                    let what = "the page store and its record of the lane disagree about what the lane owes";
                    return Err(OpError::harmless(Cause::BadInput(what)));
                }
            }
        }
    }
}
