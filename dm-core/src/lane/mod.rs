//! A lane: one operation in flight, and what outlives the operation's future.
//!
//! The future of an operation may be dropped between any two polls. By then it may have a place in a lock queue, a CAS
//! under way, or a held lock. The lane's [`LockRecords`] say so. Nodes that it reserved and did not use are in the
//! lane's stock. [`crate::index::Index::settle`] resolves the lock records before the lane is used again.

pub mod interrupt;
pub(crate) mod marks;
pub mod mutants;
pub(crate) mod watch;

use crate::error::VerbError;
use crate::lane::interrupt::Interrupt;
use crate::lane::watch::Watch;
use crate::marks::{MARKS_MAX, Mark};
use crate::mutants::{Mutant, planted};
use crate::operation::span::Span;
use crate::operation::{Cause, OpError};
use crate::port::{Port, State};
use crate::remote::address::Address;
use crate::remote::lock_word::LockId;
use crate::remote::place::{NodeClass, UnlinkedNode};
use crate::verbs::{Label, LaneId, NodeId, Request, Status};
use bitflags::bitflags;
use core::cell::{Cell, RefCell};
use heapless::Vec;

/// State of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The lane is in the local queue, or at its head without the remote word.
    Queued,
    /// The CAS is posted. It is not known whether it won.
    Posted,
    /// The remote word names this compute node, and this lane may write what the lock protects.
    Held,
}

/// What a lane knows of one lock that it asked for or holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// The lock.
    pub lock: LockId,
    /// The state of the acquisition.
    pub stage: Stage,
    /// The word that the CAS writes or wrote.
    pub word: u64,
    /// The node for which the lane wants the lock.
    pub protects: Address,
    /// There is a redo record of this acquisition: every WRITE from now on needs one.
    pub has_redo_record: bool,
    /// There are several redo records of this acquisition. A lane that hands the word over uses its redo slots again;
    /// an older record, left in another lane's slot, would then count as the last one. So this word is not handed
    /// over.
    pub has_several_redo_records: bool,
}

impl LockRecord {
    /// The lock record of a lane that is about to ask for `lock`, to protect the node at `protects`.
    #[inline]
    pub(crate) const fn queued(lock: LockId, protects: Address) -> Self {
        Self { lock, stage: Stage::Queued, word: 0, protects, has_redo_record: false, has_several_redo_records: false }
    }

    /// The lock's name in redo records. For a lock in a table, this is its index in its memory node's table. A lock
    /// that lies in a node has another index on every compute node, so its name is the low bits of the number of the
    /// node's line.
    #[inline]
    pub(crate) const fn lock_name(&self) -> u32 {
        if self.lock.in_node() { (self.protects.offset() >> 6) as u32 } else { self.lock.index }
    }
}

/// Most locks for which one operation can have records at a time: a merge holds two leaves and their parent.
pub(crate) const LOCK_RECORDS_MAX: usize = 4;

/// First and longest pause of a lane that waits until a queue pair is closed, in ns.
const CLOSING_NS: (u64, u64) = (10_000, 10_000_000);

/// How often the lane asks at most, unless its deadline comes first.
const CLOSING_MAX: u32 = 1 << 12;

/// Most nodes that one operation can be about to link: a split that goes up to a new root has linked one node before
/// it takes the next.
pub(crate) const PENDING_MAX: usize = 3;

bitflags! {
    /// What an operation leaves to settle besides lock records and failed requests. The room that left it knows the
    /// details.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Unsettled: u8 {
        /// A place in a batch: see [`crate::compute::batches`].
        const BATCH = 1;
        /// Blocks, layers or chunks of the items over the index.
        const ITEMS = 2;
        /// Fills, flushes, frozen pages, or a place among waiters: see [`crate::pages`].
        const PAGES = 4;
        /// A place among those that sleep behind a flight of the log: see [`crate::dex::log`].
        const LOG = 8;
        /// The turn to open the index, or to take an entry of the ownership table: see [`crate::dex::serve`].
        const OWNERS = 16;
    }
}

/// What has no deadline may wait for as long as this, in ns.
pub(crate) const NO_DEADLINE_NS: u64 = u64::MAX;

/// How often an operation starts over before it reports that it makes no progress.
pub(crate) const RESTARTS_MAX: u32 = 256;

/// The lock records of a lane.
pub type LockRecords = Vec<LockRecord, LOCK_RECORDS_MAX>;

/// The state of one operation in flight.
pub struct Lane<'m> {
    id: LaneId,
    port: Port<'m>,
    lock_records: RefCell<LockRecords>,
    stock: RefCell<[Vec<UnlinkedNode, STOCK_NODES>; NodeClass::COUNT]>,
    /// Nodes that the operation has taken out of the stock and not linked yet.
    pending: RefCell<Vec<(NodeClass, UnlinkedNode), PENDING_MAX>>,
    marks: [Cell<u32>; MARKS_MAX],
    marks_total: Cell<u32>,
    /// A small counter for choices that should differ between lanes and calls, but need no randomness (back-off).
    turn: Cell<u32>,
    drawn: Cell<u32>,
    /// Sequences that this lane may use for lock words.
    sequences: Cell<(u64, u64)>,
    /// What the operation has seen of a lock for which it waits.
    watch: Cell<Watch>,
    /// The lock of an unresponsive holder that kept the operation from finishing a structure change, when it had its
    /// outcome already. It is here and not with the outcome, so that futures need no room for it.
    unfinished: Cell<Option<LockRecord>>,
    /// Redo slots that were taken since the lane last had no lock record: see [`crate::membership::redo`].
    redo_slots: Cell<u8>,
    deadline_ns: Cell<u64>,
    /// The state of the operation's own change.
    change: Cell<Change>,
    /// The pin belongs to an operation whose steps are operations themselves: see [`crate::memory::epochs`].
    steps: Cell<bool>,
    /// What there is to settle besides lock records.
    unsettled: Cell<Unsettled>,
    /// Where messages to other compute nodes lie in the scratch.
    message_room: Cell<Option<Span>>,
    /// Another compute node may still make the change of the operation that was forwarded last.
    may_change_late: Cell<bool>,
    /// The copy of an inner node that was asked for ([`Index::ask_ahead`](crate::index::Index::ask_ahead)), plus one; 0 if none was.
    asked_copy: Cell<u32>,
}

/// State of the operation's own change of an entry of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Not decided yet.
    No,
    /// The next WRITE to a node in use makes it, or the next CAS of a slot.
    Next,
    /// The WRITE that makes it is in the mailbox, or posted; or it is made in a leaf that this compute node owns.
    Posted,
    /// The CAS at this position of the mailbox makes it, if it finds this word.
    Swap { position: usize, expected: u64 },
    /// A memory node was asked to make it, and what it has done is not known.
    Asked,
}

impl<'m> Lane<'m> {
    /// A lane with its scratch.
    pub fn new(id: LaneId, scratch: &'m mut [u8]) -> Self {
        Self {
            id,
            port: Port::new(scratch),
            lock_records: RefCell::new(Vec::new()),
            stock: RefCell::new([const { Vec::new() }; NodeClass::COUNT]),
            pending: RefCell::new(Vec::new()),
            marks: [const { Cell::new(0) }; MARKS_MAX],
            marks_total: Cell::new(0),
            turn: Cell::new(u32::from(id.0)),
            drawn: Cell::new(u32::from(id.0).wrapping_mul(SAMPLE_STEP)),
            sequences: Cell::new((0, 0)),
            watch: Cell::new(Watch::default()),
            unfinished: Cell::new(None),
            redo_slots: Cell::new(0),
            deadline_ns: Cell::new(NO_DEADLINE_NS),
            change: Cell::new(Change::No),
            steps: Cell::new(false),
            unsettled: Cell::new(Unsettled::empty()),
            message_room: Cell::new(None),
            may_change_late: Cell::new(false),
            asked_copy: Cell::new(0),
        }
    }

    /// Has steps of operations on keys of other compute nodes executed by those, where operations are forwarded step by step
    /// ([`Index::forwards_steps`](crate::index::Index::forwards_steps)): messages lie at `room`, behind all that the index
    /// uses. `None`: they end with [`Cause::NotOwner`], as in lanes that execute operations of others.
    pub fn set_message_room(&self, room: Option<Span>) {
        self.message_room.set(room);
    }

    /// Notes the copy that was asked for.
    #[inline]
    pub(crate) fn set_asked_copy(&self, copy: Option<u32>) {
        self.asked_copy.set(copy.map_or(0, |copy| copy.wrapping_add(1)));
    }

    /// The copy that was asked for, if no route has begun there since.
    #[inline]
    pub(crate) fn take_asked_copy(&self) -> Option<u32> {
        self.asked_copy.replace(0).checked_sub(1)
    }

    /// See [`Lane::set_message_room`].
    pub(crate) fn message_room(&self) -> Option<Span> {
        self.message_room.get()
    }

    /// Whether another compute node may still make the change of the operation that was forwarded last: its call has not been
    /// answered, or its answer does not say that it has ended.
    pub(crate) fn may_change_late(&self) -> bool {
        self.may_change_late.get()
    }

    /// See [`Lane::may_change_late`].
    pub(crate) fn set_may_change_late(&self, may: bool) {
        self.may_change_late.set(may);
    }

    /// Unique within the compute node.
    #[inline]
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// The mailbox.
    #[inline]
    pub fn port(&self) -> &Port<'m> {
        &self.port
    }

    /// Counts `mark`.
    #[inline]
    pub fn mark(&self, mark: Mark) {
        let cell = &self.marks[mark.number()];
        cell.set(cell.get().wrapping_add(1));
        self.marks_total.set(self.marks_total.get().wrapping_add(1));
    }

    /// How often any mark was counted. While this number does not change, no mark's count does.
    #[inline]
    pub fn marked_at_all(&self) -> u32 {
        self.marks_total.get()
    }

    /// How often `mark` was counted.
    pub fn marked(&self, mark: Mark) -> u32 {
        self.marks[mark.number()].get()
    }

    /// Whether a dropped future left anything to settle.
    pub fn in_doubt(&self) -> bool {
        self.port.in_doubt() || self.is_unsettled()
    }

    /// Whether an operation left anything to settle, whether its requests are under way or not.
    pub fn is_unsettled(&self) -> bool {
        self.must_settle() || !self.unsettled.get().is_empty()
    }

    /// As [`Lane::is_unsettled`], of the index without the items over it.
    pub(crate) fn is_unsettled_below(&self) -> bool {
        self.must_settle() || !self.unsettled.get().difference(Unsettled::ITEMS).is_empty()
    }

    /// Whether a failed request left something that has to be settled before the lane asks for another lock, or begins
    /// another operation: a lock record; or itself, since it may still take effect until its queue pair is closed. Not
    /// every change is made under a lock. Asked while the operation holds no lock.
    #[inline]
    pub(crate) fn must_settle(&self) -> bool {
        self.has_lock_records() || self.has_failed_requests()
    }

    /// As [`Lane::must_settle`], where the operation may have kept the local entry of the lock `kept`, to look after the
    /// holder.
    pub(crate) fn must_settle_besides(&self, kept: LockId) -> bool {
        let is_kept = |record: &LockRecord| record.lock == kept && record.stage == Stage::Queued;
        self.has_failed_requests() || !self.lock_records.borrow().iter().all(is_kept)
    }

    /// Whether requests that failed may still take effect.
    #[inline]
    pub(crate) fn has_failed_requests(&self) -> bool {
        self.port.unclosed().is_some() && !planted(Mutant::FAILED_UNSETTLED)
    }

    /// Whether there are lock records. While an operation holds no lock, these are records that a failed request
    /// left.
    #[inline]
    pub(crate) fn has_lock_records(&self) -> bool {
        !self.lock_records.borrow().is_empty()
    }

    /// Waits until no request of this lane can take effect any more. Requests that failed with their queue pair may
    /// take effect until the queue pair is known to be closed. A READ of the same memory node that succeeds proves
    /// that it is (see [`crate::fabric::Fabric`]). The READ goes to scratch offset `at`.
    ///
    /// Settling calls this before it frees a lock, whichever lane settles and whenever. A lock guards more than its own
    /// node: a lane that has the lock of a parent relies on what the parent's children are, and the lane that had the
    /// lock before may have WRITEs to them under way. The port has to be idle.
    ///
    /// Round trips: none unless a request failed.
    pub(crate) async fn close(&self, at: usize) -> Result<(), VerbError> {
        let (mut pause_ns, mut asked) = (CLOSING_NS.0, 0);
        while let Some(node) = self.port.unclosed() {
            if planted(Mutant::SETTLE_UNCLOSED) {
                return Ok(());
            }
            self.judge_swap();
            match self.port.call(Request::read(Label::Closed, node, 0, 8, at).untimed()).await {
                Err(error) if error.status == Status::Flushed => {
                    asked += 1;
                    if asked == CLOSING_MAX || self.check_deadline().is_err() {
                        return Err(error);
                    }
                    self.port.call(Request::pause(pause_ns)).await?;
                    pause_ns = (pause_ns * 2).min(CLOSING_NS.1);
                }
                // Nothing takes effect on a memory node that is down, or that has fenced this compute node.
                Ok(_) | Err(_) => self.port.closed(),
            }
        }
        Ok(())
    }

    /// Fails while an operation has left the index something to settle, or the driver has its requests. An operation
    /// that used the lane before settling would use its redo slots again, and might wait for a lock that the lane
    /// itself holds. One that used it before the requests ended would have no scratch.
    pub(crate) fn check_settled(&self) -> Result<(), OpError> {
        if self.is_unsettled_below() || self.port.state() != State::Idle {
            return Err(OpError::harmless(Cause::BadInput("the lane is in doubt and has to be settled first")));
        }
        Ok(())
    }

    /// A copy of the lock records, for inspection.
    pub fn lock_records(&self) -> LockRecords {
        self.lock_records.borrow().clone()
    }

    /// Adds or replaces a lock record. Fails if there is no room: then an algorithm took more locks than
    /// [`LOCK_RECORDS_MAX`]. It fails before anything is posted.
    #[inline]
    pub(crate) fn track(&self, lock_record: LockRecord) -> Result<(), VerbError> {
        let mut lock_records = self.lock_records.borrow_mut();
        if let Some(known) = lock_records.iter_mut().find(|known| known.lock == lock_record.lock) {
            *known = lock_record;
            return Ok(());
        }
        lock_records.push(lock_record).map_err(|_| VerbError::OVERFLOW)
    }

    /// Stores the new stage of a lock that has a record.
    #[inline]
    pub(crate) fn advance(&self, lock: LockId, stage: Stage) {
        if let Some(lock_record) =
            self.lock_records.borrow_mut().iter_mut().find(|lock_record| lock_record.lock == lock)
        {
            lock_record.stage = stage;
        }
    }

    /// Stores the word that came with a handover.
    pub(crate) fn received(&self, lock: LockId, word: u64, has_redo_record: bool) {
        if let Some(lock_record) =
            self.lock_records.borrow_mut().iter_mut().find(|lock_record| lock_record.lock == lock)
        {
            lock_record.word = word;
            (lock_record.has_redo_record, lock_record.has_several_redo_records) = (has_redo_record, false);
        }
    }

    /// Removes a lock record.
    #[inline]
    pub(crate) fn untrack(&self, lock: LockId) {
        let mut lock_records = self.lock_records.borrow_mut();
        if let Some(position) = lock_records.iter().position(|lock_record| lock_record.lock == lock) {
            lock_records.swap_remove(position);
        }
        if lock_records.is_empty() {
            self.redo_slots.set(0);
        }
    }

    /// The next redo slot of this lane, from 0. While the lane has a lock record, no slot is taken twice: its content
    /// may be needed as long as the lock is held.
    #[inline]
    pub(crate) fn next_redo_slot(&self) -> usize {
        let slot = self.redo_slots.get();
        self.redo_slots.set(slot.saturating_add(1));
        usize::from(slot)
    }

    /// The redo slot that this lane took last.
    #[inline]
    pub(crate) fn last_redo_slot(&self) -> usize {
        usize::from(self.redo_slots.get().saturating_sub(1))
    }

    /// Whether this lane may hand over the word of a lock that it holds: see
    /// [`LockRecord::has_several_redo_records`].
    #[inline]
    pub(crate) fn may_pass(&self, lock: LockId) -> bool {
        !self
            .lock_records
            .borrow()
            .iter()
            .any(|lock_record| lock_record.lock == lock && lock_record.has_several_redo_records)
    }

    /// The record of `lock`, if this lane holds it.
    #[inline]
    pub(crate) fn holds(&self, lock: LockId) -> Option<LockRecord> {
        self.lock_records
            .borrow()
            .iter()
            .find(|lock_record| lock_record.lock == lock && lock_record.stage == Stage::Held)
            .copied()
    }

    /// Calls `look` with the lane's watch on a lock.
    pub(crate) fn watch<R>(&self, look: impl FnOnce(&mut Watch) -> R) -> R {
        let mut watch = self.watch.get();
        let result = look(&mut watch);
        self.watch.set(watch);
        result
    }

    /// Ends a structure change on which the operation's outcome does not depend: if it was not finished, an operation
    /// that meets it will do so. If an unresponsive holder was in the way, the lane remembers the lock. If a request
    /// failed, [`Lane::must_settle`] says so: a WRITE of a new root, which no lock guards, may still land.
    pub(crate) fn end_change(&self, change: Result<(), Interrupt>) {
        if let Err(Interrupt::Unresponsive(lock_record)) = change {
            self.unfinished.set(Some(lock_record));
        }
    }

    /// The lock that [`Lane::end_change`] has remembered last, once.
    pub(crate) fn take_unfinished(&self) -> Option<LockRecord> {
        self.unfinished.take()
    }

    /// The stage of the lane's acquisition of `lock`.
    pub(crate) fn stage_of(&self, lock: LockId) -> Option<Stage> {
        self.lock_records
            .borrow()
            .iter()
            .find(|lock_record| lock_record.lock == lock)
            .map(|lock_record| lock_record.stage)
    }

    /// Stores that a held lock has a redo record.
    #[inline]
    pub(crate) fn note_redo_record(&self, lock: LockId) {
        if let Some(lock_record) =
            self.lock_records.borrow_mut().iter_mut().find(|lock_record| lock_record.lock == lock)
        {
            lock_record.has_several_redo_records = lock_record.has_redo_record;
            lock_record.has_redo_record = true;
        }
    }

    /// The next sequence for a lock word, from those that the lane has or from `more`.
    #[inline]
    pub(crate) fn next_sequence(&self, more: impl FnOnce() -> core::ops::Range<u64>) -> u64 {
        let (mut next, mut end) = self.sequences.get();
        if next >= end {
            core::ops::Range { start: next, end } = more();
        }
        self.sequences.set((next + 1, end));
        next
    }

    /// Whether the operation, or a failed one, has `what` to settle.
    #[inline]
    pub(crate) fn has_unsettled(&self, what: Unsettled) -> bool {
        self.unsettled.get().contains(what)
    }

    /// Stores whether there is `what` to settle.
    #[inline]
    pub(crate) fn set_unsettled(&self, what: Unsettled, is_unsettled: bool) {
        let mut unsettled = self.unsettled.get();
        unsettled.set(what, is_unsettled);
        self.unsettled.set(unsettled);
    }

    /// The next WRITE to a node in use, or the next CAS of a slot, makes the operation's own change.
    #[inline]
    pub(crate) fn change_is_next(&self) {
        self.change.set(Change::Next);
    }

    /// A WRITE to a node in use is in the mailbox.
    #[inline]
    pub(crate) fn wrote_in_place(&self) {
        if self.change.get() == Change::Next {
            self.change.set(Change::Posted);
        }
    }

    /// The operation's own change is made: in a leaf that this compute node owns, for which settling does what is left.
    #[inline]
    pub(crate) fn change_is_made(&self) {
        self.change.set(Change::Posted);
    }

    /// A memory node will be asked to make the operation's own change.
    #[inline]
    pub(crate) fn change_is_asked(&self) {
        self.change.set(Change::Asked);
    }

    /// The requests in the mailbox were withdrawn before they were submitted; or the memory node that was asked has changed nothing,
    /// and will not.
    #[inline]
    pub(crate) fn wrote_nothing(&self) {
        self.change.set(Change::No);
    }

    /// The CAS of a slot is in the mailbox, at `position`. It makes a change if it finds `expected`.
    #[inline]
    pub(crate) fn swaps_slot(&self, position: usize, expected: u64) {
        if self.change.get() == Change::Next {
            self.change.set(Change::Swap { position, expected });
        }
    }

    /// The CAS of the slot was answered.
    #[inline]
    pub(crate) fn swapped_slot(&self, made: bool) {
        if matches!(self.change.get(), Change::Swap { .. }) {
            self.change.set(if made { Change::Posted } else { Change::No });
        }
    }

    /// Stores the result of a CAS for which no operation has waited, while its completion is there.
    fn judge_swap(&self) {
        if let Change::Swap { position, expected } = self.change.get()
            && !self.port.any_failed()
        {
            self.swapped_slot(self.port.completion(position).value == expected);
        }
    }

    /// Begins a step of an operation: nothing is changed, and nothing has failed.
    pub(crate) fn begin_step(&self) {
        self.change.set(Change::No);
        self.port.forget_failures();
    }

    /// Whether the last step made its change, now that the port is idle. `None`: a request failed, or a memory node has not answered.
    pub(crate) fn made_change(&self) -> Option<bool> {
        match self.change.get() {
            Change::Asked => None,
            Change::Posted | Change::Swap { .. } if self.port.any_failed() => None,
            // No operation has waited for this CAS, and nothing was submitted since.
            Change::Swap { position, expected } => Some(self.port.completion(position).value == expected),
            change => Some(change == Change::Posted),
        }
    }

    /// Whether the lane is in a step of an operation that has a pin.
    #[inline]
    pub(crate) fn is_in_steps(&self) -> bool {
        self.steps.get()
    }

    #[inline]
    pub(crate) fn set_in_steps(&self, steps: bool) {
        self.steps.set(steps);
    }

    /// Number of nodes of `class` in the stock.
    #[inline]
    pub(crate) fn stocked(&self, class: NodeClass) -> usize {
        self.stock.borrow()[class as usize].len()
    }

    /// Puts a reserved node into the stock. Gives it back if the stock is full.
    pub(crate) fn stock(&self, class: NodeClass, fresh: UnlinkedNode) -> Result<(), UnlinkedNode> {
        self.stock.borrow_mut()[class as usize].push(fresh)
    }

    /// Calls `visit` with every node in the stock.
    pub fn for_each_stocked(&self, visit: &mut dyn FnMut(NodeClass, UnlinkedNode)) {
        for (class, free_list) in NodeClass::ALL.into_iter().zip(self.stock.borrow().iter()) {
            free_list.iter().for_each(|fresh| visit(class, *fresh));
        }
    }

    /// Takes a node out of the stock, one on `near` if there is one.
    pub(crate) fn take_stock(&self, class: NodeClass, near: NodeId) -> Option<UnlinkedNode> {
        let mut stock = self.stock.borrow_mut();
        let free_list = &mut stock[class as usize];
        let position = free_list.iter().position(|fresh| fresh.address.node() == near).unwrap_or(0);
        (position < free_list.len()).then(|| free_list.swap_remove(position))
    }

    /// Takes a node out of the stock that is not on `near`.
    pub(crate) fn take_stock_elsewhere(&self, class: NodeClass, near: NodeId) -> Option<UnlinkedNode> {
        let mut stock = self.stock.borrow_mut();
        let free_list = &mut stock[class as usize];
        let position = free_list.iter().position(|fresh| fresh.address.node() != near)?;
        Some(free_list.swap_remove(position))
    }

    /// As [`Lane::take_stock`], for a node that is to be linked. The lane remembers the node until
    /// [`Lane::is_through`] says that it was linked or put back, so that settling can find out what became of it.
    pub(crate) fn take_to_link(&self, class: NodeClass, near: NodeId) -> Option<UnlinkedNode> {
        let fresh = self.take_stock(class, near)?;
        // If there is no room, the place waits until this compute node has departed.
        let _ = self.pending.borrow_mut().push((class, fresh));
        Some(fresh)
    }

    /// It is known what became of a node.
    pub(crate) fn is_through(&self, fresh: UnlinkedNode) {
        let mut pending = self.pending.borrow_mut();
        if let Some(position) = pending.iter().position(|(_, pending)| pending.address == fresh.address) {
            pending.swap_remove(position);
        }
    }

    /// A node of which it is not known whether it was linked.
    pub(crate) fn pending(&self) -> Option<(NodeClass, UnlinkedNode)> {
        self.pending.borrow().first().copied()
    }

    /// Begins an operation, or anything else that an index does: it may wait for `wait_ns`, and what an earlier
    /// operation saw of a lock, by its own clock, is forgotten.
    #[inline]
    pub(crate) fn begin(&self, wait_ns: u64) {
        self.deadline_ns.set(wait_ns);
        self.watch.set(Watch::default());
        self.unfinished.set(None);
    }

    /// Fails if the operation has waited longer than its caller allows.
    #[inline]
    pub(crate) fn check_deadline(&self) -> Result<(), OpError> {
        let elapsed_ns = self.port.elapsed_ns();
        if elapsed_ns > self.deadline_ns.get() {
            return Err(OpError::harmless(Cause::Deadline { elapsed_ns }));
        }
        Ok(())
    }

    /// Counts an attempt at something that others may keep from succeeding, against the operation's limits:
    /// [`RESTARTS_MAX`] attempts, and its deadline.
    pub(crate) fn attempt(&self, attempts: &mut u32, what: &'static str) -> Result<(), OpError> {
        *attempts += 1;
        if *attempts > RESTARTS_MAX {
            return Err(OpError::harmless(Cause::Retries { attempts: RESTARTS_MAX, what }));
        }
        self.check_deadline()
    }

    /// Whether the caller says how long the operation may wait.
    pub(crate) fn has_deadline(&self) -> bool {
        self.deadline_ns.get() != NO_DEADLINE_NS
    }

    /// How long the operation may wait in all, in ns.
    pub(crate) fn wait_ns(&self) -> u64 {
        self.deadline_ns.get()
    }

    /// How long the operation may still wait, in ns; at least 1.
    pub(crate) fn remaining_ns(&self) -> u64 {
        self.deadline_ns.get().saturating_sub(self.port.elapsed_ns()).saturating_add(1)
    }

    /// Whether this is one of the operations that are sampled: one in `share`, evenly spread, also over those of them that come
    /// in any rhythm.
    #[inline]
    pub(crate) fn is_sampled(&self, share: u32) -> bool {
        let drawn = self.drawn.get().wrapping_add(SAMPLE_STEP);
        self.drawn.set(drawn);
        drawn <= u32::MAX / share.max(1)
    }

    /// A number that changes with every call.
    pub(crate) fn next_turn(&self) -> u32 {
        let turn = self.turn.get().wrapping_mul(0x9E37_79B1).wrapping_add(1);
        self.turn.set(turn);
        turn
    }
}

/// 2^32 divided by the golden ratio: its multiples are spread more evenly than those of any other number.
const SAMPLE_STEP: u32 = 0x9E37_79B9;

/// Nodes of each class in the stock: a split takes one, and a new root one more.
pub const STOCK_NODES: usize = 2;

/// The word in the scratch at `at`; 0 outside the scratch.
pub(crate) fn word_at(lane: &Lane<'_>, at: usize) -> u64 {
    lane.port().with(|bytes| {
        let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    })
}
