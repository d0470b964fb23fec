//! Node locks: local queue, remote word, hand-over, release, settlement.
//!
//! The linearization point of an acquisition is the CAS that finds the word free; from the completion of that CAS to
//! the release only this lane posts WRITEs to the nodes the word protects. Reads of the node under the lock are
//! posted after the CAS completed (or behind it in its chain, ATOMIC_THEN_READ), hence see every WRITE whose
//! unlock was ordered behind it (WRITE_THEN_ATOMIC, HOST_BEFORE_DEVICE).
//!
//! Unlock is a CAS of the whole word: if the lock was taken over, it fails, and the operation learns that it was
//! fenced instead of freeing a stranger's lock.
//!
//! A holder that seems dead is dealt with by [`crate::recovery`].

use super::Tree;
use crate::lane::watch::Watched;
use crate::lane::{Debt, Lane, Stage};
use crate::layout::word_at;
use crate::locks::table::{Entered, Handed, LockTable, Turn, try_enter_tracked};
use crate::marks::Mark;
use crate::membership::push_by_lines;
use crate::membership::redo::Writes;
use crate::mutants::{Bug, planted};
use crate::operation::{Cause, OpError, silent_holder, unknown};
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, LockWord, lock_of};
use crate::verbs::{Completion, Label, NodeId, Request, Space, Status};
use core::ops::Range;

/// CAS attempts on one lock word before an operation gives up, if its deadline does not end it earlier.
const ATTEMPTS_MAX: u32 = 1 << 20;

/// First and longest pause between two CAS attempts, in ns. The first is about half a round trip.
const BACK_OFF_NS: (u64, u64) = (1_000, 64_000);

/// A lock this lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub lock: LockId,
    /// The remote word while it is held.
    pub word: u64,
    tag: u32,
}

/// An acquisition that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// What is to be held.
    pub held: Held,
    /// The lane is in the local queue; otherwise it is the entry's holder.
    pub queued: bool,
}

/// Positions of a lock's CAS, and of what follows it, in their submit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried {
    cas: usize,
    follow: Option<usize>,
}

/// Sequences a lane takes at a time from its compute node's counter, without recovery.
const SEQUENCES_AT_ONCE: u64 = 1 << 10;

impl Tree<'_> {
    /// The lock of the node at `address`.
    pub fn lock_of(&self, address: Address) -> Option<LockId> {
        let locks = self.geometry.get(address.node().0 as usize)?.lock_count;
        Some(lock_of(address, locks))
    }

    /// Offset of the word of `lock` in its memory node's table.
    fn lock_offset(&self, lock: LockId) -> u64 {
        let table = self.geometry.get(lock.node.0 as usize).map_or(0, |node| node.lock_table);
        table + u64::from(lock.index) * 8
    }

    pub(crate) fn lock_request(&self, label: Label, lock: LockId, compare: u64, swap: u64) -> Request {
        let space = self.geometry.get(lock.node.0 as usize).map_or_else(Default::default, |node| node.lock_space);
        Request::cas(label, lock.node, self.lock_offset(lock), compare, swap).in_space(space)
    }

    /// Where the word of a debt's lock is: in a table, or behind the image of the node it lies in.
    pub(crate) fn word_place(&self, debt: &Debt) -> (NodeId, u64, Space) {
        let node = debt.lock.node;
        if debt.lock.in_node() {
            return (node, debt.protects.offset() + self.leaf_bytes as u64, Space::Host);
        }
        let space = self.geometry.get(node.0 as usize).map_or_else(Default::default, |node| node.lock_space);
        (node, self.lock_offset(debt.lock), space)
    }

    /// A CAS of the whole word of a debt's lock.
    pub(crate) fn word_request(&self, label: Label, debt: &Debt, compare: u64, swap: u64) -> Request {
        if !debt.lock.in_node() {
            return self.lock_request(label, debt.lock, compare, swap);
        }
        let (node, offset, _) = self.word_place(debt);
        Request::cas(label, node, offset, compare, swap)
    }

    /// The unlock of what is held.
    fn unlock_request(&self, held: &Held) -> Request {
        let unlock = self.lock_request(Label::Unlock, held.lock, held.word, 0);
        if planted(Bug::UnlockByWrite) {
            return Request::write_word(Label::Unlock, unlock.node, unlock.offset, 0).in_space(unlock.space);
        }
        unlock
    }

    /// A number for one acquisition of this compute node, none twice: shared by all locks of the index, in tables and in nodes.
    pub(crate) fn sequence(&self, lane: &Lane<'_>) -> u64 {
        lane.next_sequence(|| self.locks.sequences(SEQUENCES_AT_ONCE))
    }

    /// The word of a new acquisition of `lock`.
    pub(crate) fn word_for(&self, lane: &Lane<'_>, lock: LockId) -> Result<u64, OpError> {
        let word = match self.recovery {
            Some(recovery) => recovery.word(lane),
            None => LockWord::new(self.owner.row, self.sequence(lane)),
        };
        let word = if lock.in_node() { word.and_then(LockWord::in_node) } else { word };
        word.map(|word| word.0).ok_or(Self::used_up())
    }

    /// Whether this compute node may post WRITEs: its lease is not over, as far as it knows.
    pub(crate) fn check_lease(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if self.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
            lane.mark(Mark::SelfFenced);
            return Err(OpError::harmless(Cause::Fenced));
        }
        Ok(())
    }

    /// The lock is held from now on.
    #[inline]
    pub(crate) fn hold(&self, lane: &Lane<'_>, lock: LockId) {
        if let Some(recovery) = self.recovery {
            recovery.holding(lane, true);
        }
        lane.advance(lock, Stage::Held);
    }

    /// Pushes a WRITE to part of a node in use, whose lock is held: the bytes `within` the node, from its image at
    /// scratch offset `at`. If that WRITE may land in part, a redo image goes before it in its chain.
    ///
    /// The image's header overwrites the 64 bytes in front of those sent - of the node's image, or the gap before it -
    /// so the image in the scratch is good for nothing afterwards unless the whole node is written.
    pub(crate) fn push_in_place(
        &self,
        lane: &Lane<'_>,
        lock: LockId,
        label: Label,
        address: Address,
        within: Range<usize>,
        at: usize,
    ) -> Result<(), OpError> {
        let (offset, bytes, local) = (address.offset() + within.start as u64, within.len(), at + within.start);
        let node = address.node();
        if let Some(recovery) = self.recovery
            && let Some(debt) = lane.holds(lock)
            && (debt.imaged || recovery.may_tear(offset, bytes))
        {
            if planted(Bug::ImageAfterData) {
                self.push_part(lane, label, (node, offset), bytes, local);
            }
            recovery.push_image(lane, debt, node, Writes::one(offset, bytes), local)?;
            if planted(Bug::ImageAfterData) {
                return Ok(());
            }
        }
        self.push_part(lane, label, (node, offset), bytes, local);
        lane.wrote_in_place();
        Ok(())
    }

    /// Pushes a WRITE to part of a node, of which a sender that dies leaves whole lines: also where nobody recovers the dead, so
    /// that versions tell what they left.
    fn push_part(&self, lane: &Lane<'_>, label: Label, place: (NodeId, u64), bytes: usize, local: usize) {
        let unit_bytes = if planted(Bug::CutsWithinLines) { 0 } else { self.capabilities.crash_atomic_bytes };
        push_by_lines(lane.port(), label, place, bytes, local, unit_bytes);
    }

    /// As [`Tree::push_in_place`], of two ranges that have to land both or neither: one image has them both, put together at
    /// scratch offset `spare`, behind a gap. A chain that ends between the two WRITEs is then like a WRITE of which a part
    /// landed.
    pub(crate) fn push_both_in_place(
        &self,
        lane: &Lane<'_>,
        lock: LockId,
        label: Label,
        address: Address,
        [first, second]: [Range<usize>; 2],
        (at, spare): (usize, usize),
    ) -> Result<(), OpError> {
        let port = lane.port();
        let (node, base) = (address.node(), address.offset());
        if let Some(recovery) = self.recovery
            && let Some(debt) = lane.holds(lock)
        {
            port.with(|scratch| {
                let middle = spare + first.len();
                for (range, to) in [(&first, spare), (&second, middle)] {
                    if at + range.end <= scratch.len() && to + range.len() <= scratch.len() {
                        scratch.copy_within(at + range.start..at + range.end, to);
                    }
                }
            });
            let writes = Writes {
                more_offset: base + second.start as u64,
                more_bytes: second.len(),
                ..Writes::one(base + first.start as u64, first.len())
            };
            let writes =
                if planted(Bug::SecondWithoutImage) { Writes::one(writes.offset, writes.bytes) } else { writes };
            recovery.push_image(lane, debt, node, writes, spare)?;
        }
        for range in [first, second] {
            self.push_part(lane, label, (node, base + range.start as u64), range.len(), at + range.start);
        }
        lane.wrote_in_place();
        Ok(())
    }

    /// Acquires the lock of the node at `protects`, waiting for it. `follow` is posted behind every CAS, in its chain.
    ///
    /// Made of steps that who is in a hurry takes one by one, without a future around the common case:
    ///
    /// ```text
    ///  claim ── first ──► push_lock, submit, judge_lock ── won ──► held
    ///    └─ queued ─► acquire_queued            └─ lost ─► acquire_again
    /// ```
    pub async fn acquire(
        &self,
        lane: &Lane<'_>,
        protects: Address,
        follow: Option<Request>,
    ) -> Result<(Held, Option<Completion>), OpError> {
        let claim = self.claim(lane, protects)?;
        if claim.queued {
            return self.acquire_queued(lane, claim.held, follow).await;
        }
        self.acquire_first(lane, claim.held, follow).await
    }

    /// Takes note of what the lane is about to owe, and asks for the local entry.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    pub(crate) fn claim(&self, lane: &Lane<'_>, protects: Address) -> Result<Claim, OpError> {
        let lock =
            self.lock_of(protects).ok_or(Self::corrupt(protects, "a pointer to a memory node beyond the pool"))?;
        let tag = (protects.offset() >> 6) as u32;
        if !self.locks.knows(lane.id()) {
            return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
        }
        self.check_lease(lane)?;
        let word = self.word_for(lane, lock)?;
        lane.owe(Debt { lock, stage: Stage::Queued, word, protects, imaged: false, imaged_again: false })?;
        let queued = self.options.hierarchical && self.locks.enter(lock, lane.id(), tag) == Entered::Queued;
        Ok(Claim { held: Held { lock, word, tag }, queued })
    }

    /// Pushes the CAS and what follows it. The lane is the local entry's holder.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    pub(crate) fn push_lock(&self, lane: &Lane<'_>, held: Held, follow: Option<Request>) -> Tried {
        lane.advance(held.lock, Stage::Posted);
        let cas = lane.port().push(self.lock_request(Label::Lock, held.lock, 0, held.word));
        Tried { cas, follow: follow.map(|follow| lane.port().push(follow)) }
    }

    /// Judges the completions of [`Tree::push_lock`]: `Err` is the word found, of whoever holds the lock. If the submit
    /// failed, the debt stays: whether the CAS won is not known, and settling will look.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    pub(crate) fn judge_lock(&self, lane: &Lane<'_>, held: Held, tried: Tried) -> Result<Option<Completion>, u64> {
        let port = lane.port();
        let found = port.completion(tried.cas).value;
        if found != 0 && !planted(Bug::LostCasWins) {
            return Err(found);
        }
        self.hold(lane, held.lock);
        Ok(tried.follow.map(|follow| port.completion(follow)))
    }

    async fn acquire_first(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Request>,
    ) -> Result<(Held, Option<Completion>), OpError> {
        let tried = self.push_lock(lane, held, follow);
        lane.port().submit().await?;
        match self.judge_lock(lane, held, tried) {
            Ok(follow) => Ok((held, follow)),
            Err(found) => self.acquire_again(lane, held, follow, found).await,
        }
    }

    /// Waits in the local queue, then goes on as who was first, unless the word comes along.
    pub(crate) async fn acquire_queued(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Request>,
    ) -> Result<(Held, Option<Completion>), OpError> {
        let port = lane.port();
        let lock = held.lock;
        lane.mark(Mark::LockQueued);
        loop {
            port.push(Request::park(lane.remaining_ns()));
            port.submit().await?;
            match self.locks.turn(lock, lane.id()) {
                Turn::Wait => {
                    if let Err(late) = lane.check_deadline() {
                        return self.leave_queue(lane, lock, held.tag).await.and(Err(late));
                    }
                }
                Turn::Acquire => break,
                Turn::Owned(handed) => {
                    lane.mark(Mark::HandOver);
                    lane.received(lock, handed.word, handed.imaged);
                    self.hold(lane, lock);
                    return Ok((Held { word: handed.word, ..held }, None));
                }
            }
        }
        self.acquire_first(lane, held, follow).await
    }

    /// Tries again and again, after a CAS that lost against the holder of the word `found`.
    pub(crate) async fn acquire_again(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Request>,
        found: u64,
    ) -> Result<(Held, Option<Completion>), OpError> {
        let port = lane.port();
        let lock = held.lock;
        let mut found = found;
        let mut pause_ns = BACK_OFF_NS.0;
        for _ in 1..ATTEMPTS_MAX {
            lane.mark(Mark::LockLost);
            lane.advance(lock, Stage::Queued);
            if lane.check_deadline().is_err() {
                break;
            }
            let long_ns = match self.watch_holder(lane, found) {
                Watched::Silent => {
                    self.leave(lane, lock, (&self.locks, lock));
                    lane.suspect(Debt::queued(lock, Address::NULL));
                    return Err(silent_holder());
                }
                Watched::Wait(ns) => ns,
            };
            if self.options.back_off {
                // Exponential back-off with a lane-dependent part, so that losers do not return in step.
                let jitter = (u64::from(lane.next_turn() >> 16) * pause_ns) >> 16;
                port.push(Request::pause(long_ns.unwrap_or(pause_ns / 2 + jitter / 2)));
                port.submit().await?;
                pause_ns = (pause_ns * 2).min(BACK_OFF_NS.1);
            }
            let tried = self.push_lock(lane, held, follow);
            port.submit().await?;
            match self.judge_lock(lane, held, tried) {
                Ok(follow) => return Ok((held, follow)),
                Err(other) => found = other,
            }
        }
        self.leave(lane, lock, (&self.locks, lock));
        lane.check_deadline()?;
        Err(OpError::harmless(Cause::Retries { attempts: ATTEMPTS_MAX, what: "acquiring a lock" }))
    }

    /// Notes that a CAS lost against the word `found`.
    pub(crate) fn watch_holder(&self, lane: &Lane<'_>, found: u64) -> Watched {
        let Some(recovery) = self.recovery else { return Watched::Wait(None) };
        recovery.watch_holder(lane, found)
    }

    /// Gives up a place in the local queue. If the turn came after all, passes it on.
    async fn leave_queue(&self, lane: &Lane<'_>, lock: LockId, tag: u32) -> Result<(), OpError> {
        match self.locks.cancel(lock, lane.id()) {
            Turn::Wait => lane.paid(lock),
            Turn::Acquire => self.leave(lane, lock, (&self.locks, lock)),
            Turn::Owned(Handed { word, imaged }) => {
                lane.received(lock, word, imaged);
                self.hold(lane, lock);
                self.release(lane, Held { lock, word, tag }).await?;
            }
        }
        Ok(())
    }

    /// Tries to acquire without waiting: for a second lock, where waiting could deadlock.
    pub async fn try_acquire(&self, lane: &Lane<'_>, protects: Address) -> Result<Option<Held>, OpError> {
        let lock =
            self.lock_of(protects).ok_or(Self::corrupt(protects, "a pointer to a memory node beyond the pool"))?;
        let tag = (protects.offset() >> 6) as u32;
        self.check_lease(lane)?;
        let word = self.word_for(lane, lock)?;
        let queue = self.options.hierarchical.then_some((&self.locks, lock));
        let posted = Debt { stage: Stage::Posted, word, ..Debt::queued(lock, protects) };
        if !try_enter_tracked(queue, lane, posted)? {
            return Ok(None);
        }
        let completion = lane.port().call(self.lock_request(Label::Lock, lock, 0, word)).await?;
        if completion.value != 0 {
            lane.mark(Mark::LockLost);
            self.leave(lane, lock, (&self.locks, lock));
            return Ok(None);
        }
        self.hold(lane, lock);
        Ok(Some(Held { lock, word, tag }))
    }

    /// Strikes the debt out and lets the next lane of this compute node have its turn: `entry` of the local `queues`.
    pub(crate) fn leave(&self, lane: &Lane<'_>, lock: LockId, (queues, entry): (&LockTable<'_>, LockId)) {
        self.paid(lane, lock);
        if self.options.hierarchical
            && let Some(next) = queues.leave(entry)
        {
            lane.port().push(Request::wake(next));
        }
    }

    pub(crate) fn paid(&self, lane: &Lane<'_>, lock: LockId) {
        lane.paid(lock);
        if let Some(recovery) = self.recovery
            && !lane.owes()
        {
            recovery.holding(lane, false);
        }
    }

    /// Writes back and releases: the WRITEs are pushed already, all to the lock's memory node, and nothing else is.
    ///
    /// With command combination the unlock follows them in their chain; when the lock is handed over there is no
    /// unlock. Past this call's first submit the change may have been made: errors say `Unknown`.
    pub async fn release_with(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        let unlock = self.push_unlock(lane, held)?;
        lane.port().submit().await.map_err(unknown)?;
        match unlock {
            Some(unlock) => self.released(lane, held, unlock),
            None => self.release_written(lane, held).await,
        }
    }

    /// What a release with WRITEs pushes itself. `None`: the lock is released when they are done
    /// ([`Tree::release_written`]), because it is handed over or commands are not combined.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    pub(crate) fn push_unlock(&self, lane: &Lane<'_>, held: Held) -> Result<Option<usize>, OpError> {
        let port = lane.port();
        if let Err(late) = self.check_lease(lane) {
            // The debt stays: the word is freed by settling, if others have not taken it by then.
            port.withdraw();
            lane.wrote_nothing();
            return Err(late);
        }
        let passes =
            self.options.hierarchical && self.locks.would_pass(held.lock, held.tag) && lane.may_pass(held.lock);
        if !self.options.combine || passes {
            return Ok(None);
        }
        let unlock = port.push(self.unlock_request(&held));
        Ok(Some(if planted(Bug::UnlockFirst) { port.last_first() } else { unlock }))
    }

    /// Judges the completion of an unlock that followed WRITEs.
    #[inline]
    pub(crate) fn released(&self, lane: &Lane<'_>, held: Held, unlock: usize) -> Result<(), OpError> {
        self.unlocked(lane, held, lane.port().completion(unlock)).map_err(unknown)
    }

    /// Releases after WRITEs that are done.
    pub(crate) async fn release_written(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        self.release(lane, held).await.map_err(|error| unknown(error.cause))
    }

    /// Releases a lock with nothing to write back: hands it over, or unlocks and waits for that.
    pub async fn release(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        let imaged = lane.holds(held.lock).is_some_and(|debt| debt.imaged);
        if self.options.hierarchical
            && lane.may_pass(held.lock)
            && let Some(next) = self.locks.pass(held.lock, held.tag, Handed { word: held.word, imaged })
        {
            self.paid(lane, held.lock);
            lane.port().push(Request::wake(next));
            if planted(Bug::HandOverUnlocks) {
                lane.port().push(self.lock_request(Label::Unlock, held.lock, held.word, 0).unsignaled());
            }
            return Ok(());
        }
        let completion = lane.port().call(self.unlock_request(&held)).await?;
        self.unlocked(lane, held, completion).map_err(OpError::harmless)
    }

    /// Judges the completion of an unlock.
    #[inline]
    fn unlocked(&self, lane: &Lane<'_>, held: Held, completion: Completion) -> Result<(), Cause> {
        let whole = completion.value == held.word || planted(Bug::UnlockByWrite);
        self.leave(lane, held.lock, (&self.locks, held.lock));
        if whole { Ok(()) } else { Err(Cause::Fenced) }
    }

    /// Pays the lane's debts: see [`crate::index::Index::settle`].
    ///
    /// Every posted request has completed by now, so the remote word tells whether a posted CAS won, or whether an unlock
    /// has already freed it. What was held may protect a half-split, which is a legal state that whoever meets it
    /// finishes.
    ///
    /// If the lock's memory node is down, or this compute node was fenced, there is no word to free any more: the debt is
    /// struck out, and whoever waits in the local queue gets its turn and learns the same. Any other failure leaves
    /// that debt, to be settled again, and goes on with the others.
    pub async fn settle(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let mut outcome = Ok(());
        // Locks that lie in nodes are their index's to settle.
        for debt in lane.debts().into_iter().filter(|debt| !debt.lock.in_node()) {
            match self.settle_one(lane, debt).await {
                Ok(()) => {}
                Err(OpError { cause: Cause::Verb(error), .. })
                    if matches!(error.status, Status::NodeDown | Status::Fenced) =>
                {
                    self.leave(lane, debt.lock, (&self.locks, debt.lock));
                }
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            }
            lane.mark(Mark::Settled);
        }
        outcome
    }

    async fn settle_one(&self, lane: &Lane<'_>, debt: Debt) -> Result<(), OpError> {
        lane.close(self.scratch.small).await?;
        let mut held = Held { lock: debt.lock, word: debt.word, tag: (debt.protects.offset() >> 6) as u32 };
        let owned = match debt.stage {
            Stage::Queued => {
                match if self.options.hierarchical { self.locks.cancel(debt.lock, lane.id()) } else { Turn::Wait } {
                    Turn::Wait => {
                        lane.paid(debt.lock);
                        return Ok(());
                    }
                    Turn::Acquire => false,
                    Turn::Owned(Handed { word, imaged }) => {
                        // The table says so once: if this future is dropped too, the debt tells the next.
                        held.word = word;
                        lane.owe(Debt { stage: Stage::Held, word, imaged, ..debt })?;
                        true
                    }
                }
            }
            // Held, too: the future may have been dropped with the unlock on its way.
            Stage::Posted | Stage::Held => {
                let at = self.scratch.small;
                let (node, offset, space) = self.word_place(&debt);
                lane.port().call(Request::read(Label::Lock, node, offset, 8, at).in_space(space)).await?;
                let word = lane.port().with(|scratch| word_at(scratch, at));
                if planted(Bug::SettleFreesStranger) {
                    held.word = word;
                }
                let freed = planted(Bug::SettleFreesStranger) && word != 0;
                freed || word == debt.word && !planted(Bug::SettleForgets)
            }
        };
        if owned {
            if debt.imaged {
                self.replay_own(lane, &debt, held.word).await?;
            }
            return self.release(lane, held).await;
        }
        self.leave(lane, debt.lock, (&self.locks, debt.lock));
        Ok(())
    }
}
