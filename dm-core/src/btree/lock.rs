//! Node locks: local queue, remote word, hand-over, release, settlement.
//!
//! The linearization point of an acquisition is the CAS that finds the word free; from the completion of that CAS to
//! the release only this lane posts WRITEs to the nodes the word protects. Reads of the node under the lock are
//! posted after the CAS completed (or behind it in its chain, ATOMIC_THEN_READ), hence see every WRITE whose
//! unlock was ordered behind it (WRITE_THEN_ATOMIC, HOST_BEFORE_DEVICE).
//!
//! Unlock is a CAS of the whole word: if the lock was taken over, it fails, and the operation learns that it was
//! fenced instead of freeing a stranger's lock.

use super::Tree;
use crate::compute::locks::{Entered, Turn};
use crate::error::{Cause, Effect, OpError};
use crate::lane::{Debt, Lane, LockId, Mark, Stage};
use crate::planted::{Bug, planted};
use crate::remote::address::Address;
use crate::remote::lock_word::{LockWord, lock_of};
use crate::verbs::{Completion, Label, Request, Status};

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

/// Bits of one narrow lock word.
const NARROW_BITS: u32 = 16;

impl Tree<'_> {
    /// The lock of the node at `address`.
    pub fn lock_of(&self, address: Address) -> Option<LockId> {
        let locks = self.geometry.get(address.node().0 as usize)?.lock_count;
        Some(lock_of(address, locks * if self.options.narrow_locks { 64 / NARROW_BITS } else { 1 }))
    }

    /// Offset of the 64-bit word that holds `lock`, and the shift within it.
    fn lock_place(&self, lock: LockId) -> (u64, u32) {
        let table = self.geometry.get(lock.node.0 as usize).map_or(0, |node| node.lock_table);
        if self.options.narrow_locks {
            let per_word = 64 / NARROW_BITS;
            (table + u64::from(lock.index / per_word) * 8, lock.index % per_word * NARROW_BITS)
        } else {
            (table + u64::from(lock.index) * 8, 0)
        }
    }

    fn lock_request(&self, label: Label, lock: LockId, compare: u64, swap: u64) -> Request {
        let (offset, shift) = self.lock_place(lock);
        let space = self.geometry.get(lock.node.0 as usize).map_or_else(Default::default, |node| node.lock_space);
        let request = if self.options.narrow_locks {
            let mask = ((1 << NARROW_BITS) - 1) << shift;
            Request::masked_cas(label, lock.node, offset, [compare << shift, swap << shift, mask, mask])
        } else {
            Request::cas(label, lock.node, offset, compare, swap)
        };
        request.in_space(space)
    }

    /// The lock's own bits of the word a CAS returned.
    fn lock_value(&self, lock: LockId, completion: Completion) -> u64 {
        if !self.options.narrow_locks {
            return completion.value;
        }
        let (_, shift) = self.lock_place(lock);
        (completion.value >> shift) & ((1 << NARROW_BITS) - 1)
    }

    fn word_for(&self, protects: Address) -> u64 {
        if self.options.narrow_locks {
            return u64::from(self.owner.row.0);
        }
        LockWord::held(self.owner.row, self.locks.next_turn(), protects).0
    }

    /// Acquires the lock of the node at `protects`, waiting for it. `follow` is posted behind every CAS, in its chain.
    pub async fn acquire(
        &self,
        lane: &Lane<'_>,
        protects: Address,
        follow: Option<Request>,
    ) -> Result<(Held, Option<Completion>), OpError> {
        let lock =
            self.lock_of(protects).ok_or(Self::corrupt(protects, "a pointer to a memory node beyond the pool"))?;
        let tag = (protects.offset() >> 6) as u32;
        let port = lane.port();
        if !self.locks.knows(lane.id()) {
            return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
        }
        lane.owe(Debt { lock, stage: Stage::Queued, word: 0, protects })?;
        if self.options.hierarchical && self.locks.enter(lock, lane.id(), tag) == Entered::Queued {
            lane.mark(Mark::LockQueued);
            loop {
                port.push(Request::park(lane.remaining_ns()));
                port.submit().await?;
                match self.locks.turn(lock, lane.id()) {
                    Turn::Wait => {
                        if let Err(late) = lane.check_deadline() {
                            return self.leave_queue(lane, lock, tag).await.and(Err(late));
                        }
                    }
                    Turn::Acquire => break,
                    Turn::Owned(word) => {
                        lane.mark(Mark::HandOver);
                        lane.owe(Debt { lock, stage: Stage::Held, word, protects })?;
                        return Ok((Held { lock, word, tag }, None));
                    }
                }
            }
        }
        let word = self.word_for(protects);
        let mut pause_ns = BACK_OFF_NS.0;
        for _ in 0..ATTEMPTS_MAX {
            lane.owe(Debt { lock, stage: Stage::Posted, word, protects })?;
            let cas = port.push(self.lock_request(Label::Lock, lock, 0, word));
            let read = follow.map(|follow| port.push(follow));
            // On failure the debt stays: whether the CAS won is not known, and settling will look.
            port.submit().await?;
            if self.lock_value(lock, port.completion(cas)) == 0 || planted(Bug::LostCasWins) {
                lane.owe(Debt { lock, stage: Stage::Held, word, protects })?;
                return Ok((Held { lock, word, tag }, read.map(|read| port.completion(read))));
            }
            lane.mark(Mark::LockLost);
            lane.owe(Debt { lock, stage: Stage::Queued, word: 0, protects })?;
            if lane.check_deadline().is_err() {
                break;
            }
            // Exponential back-off with a lane-dependent part, so that losers do not return in step.
            let jitter = (u64::from(lane.next_turn() >> 16) * pause_ns) >> 16;
            port.push(Request::pause(pause_ns / 2 + jitter / 2));
            port.submit().await?;
            pause_ns = (pause_ns * 2).min(BACK_OFF_NS.1);
        }
        self.leave(lane, lock);
        lane.check_deadline()?;
        Err(OpError::harmless(Cause::Retries { attempts: ATTEMPTS_MAX, what: "acquiring a lock" }))
    }

    /// Gives up a place in the local queue. If the turn came after all, passes it on.
    async fn leave_queue(&self, lane: &Lane<'_>, lock: LockId, tag: u32) -> Result<(), OpError> {
        match self.locks.cancel(lock, lane.id()) {
            Turn::Wait => lane.paid(lock),
            Turn::Acquire => self.leave(lane, lock),
            Turn::Owned(word) => self.release(lane, Held { lock, word, tag }).await?,
        }
        Ok(())
    }

    /// Tries to acquire without waiting: for a second lock, where waiting could deadlock.
    pub async fn try_acquire(&self, lane: &Lane<'_>, protects: Address) -> Result<Option<Held>, OpError> {
        let lock =
            self.lock_of(protects).ok_or(Self::corrupt(protects, "a pointer to a memory node beyond the pool"))?;
        let tag = (protects.offset() >> 6) as u32;
        if self.options.hierarchical && !self.locks.try_enter(lock, lane.id()) {
            return Ok(None);
        }
        let word = self.word_for(protects);
        lane.owe(Debt { lock, stage: Stage::Posted, word, protects })?;
        let completion = lane.port().call(self.lock_request(Label::Lock, lock, 0, word)).await?;
        if self.lock_value(lock, completion) != 0 {
            lane.mark(Mark::LockLost);
            self.leave(lane, lock);
            return Ok(None);
        }
        lane.owe(Debt { lock, stage: Stage::Held, word, protects })?;
        Ok(Some(Held { lock, word, tag }))
    }

    /// Strikes the debt out and lets the next lane of this compute node have its turn.
    fn leave(&self, lane: &Lane<'_>, lock: LockId) {
        lane.paid(lock);
        if self.options.hierarchical
            && let Some(next) = self.locks.leave(lock)
        {
            lane.port().push(Request::wake(next));
        }
    }

    /// Writes back and releases: the WRITEs are pushed already, all to the lock's memory node, and nothing else is.
    ///
    /// With command combination the unlock follows them in their chain; when the lock is handed over there is no
    /// unlock. Past this call's first submit the change may have been made: errors say `Unknown`.
    pub async fn release_with(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        let unknown = |cause: Cause| OpError { effect: Effect::Unknown, cause };
        let port = lane.port();
        let pass = self.options.hierarchical && self.locks.would_pass(held.lock, held.tag);
        if self.options.combine && !pass {
            let unlock = port.push(self.lock_request(Label::Unlock, held.lock, held.word, 0));
            let unlock = if planted(Bug::UnlockFirst) { port.last_first() } else { unlock };
            port.submit().await.map_err(|error| unknown(error.into()))?;
            return self.released(lane, held, port.completion(unlock)).map_err(unknown);
        }
        port.submit().await.map_err(|error| unknown(error.into()))?;
        self.release(lane, held).await.map_err(|error| unknown(error.cause))
    }

    /// Releases a lock with nothing to write back: hands it over, or unlocks and waits for that.
    pub async fn release(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        if self.options.hierarchical
            && let Some(next) = self.locks.pass(held.lock, held.tag, held.word)
        {
            lane.paid(held.lock);
            lane.port().push(Request::wake(next));
            if planted(Bug::HandOverUnlocks) {
                lane.port().push(self.lock_request(Label::Unlock, held.lock, held.word, 0).unsignaled());
            }
            return Ok(());
        }
        let unlock = self.lock_request(Label::Unlock, held.lock, held.word, 0);
        let completion = lane.port().call(unlock).await?;
        self.released(lane, held, completion).map_err(OpError::harmless)
    }

    /// Judges the completion of an unlock.
    fn released(&self, lane: &Lane<'_>, held: Held, completion: Completion) -> Result<(), Cause> {
        let whole = self.lock_value(held.lock, completion) == held.word;
        self.leave(lane, held.lock);
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
                    self.leave(lane, debt.lock);
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
        let mut held = Held { lock: debt.lock, word: debt.word, tag: (debt.protects.offset() >> 6) as u32 };
        let owned = match debt.stage {
            Stage::Queued => {
                match if self.options.hierarchical { self.locks.cancel(debt.lock, lane.id()) } else { Turn::Wait } {
                    Turn::Wait => {
                        lane.paid(debt.lock);
                        return Ok(());
                    }
                    Turn::Acquire => false,
                    Turn::Owned(word) => {
                        // The table says so once: if this future is dropped too, the debt tells the next.
                        held.word = word;
                        lane.owe(Debt { stage: Stage::Held, word, ..debt })?;
                        true
                    }
                }
            }
            Stage::Posted | Stage::Held if self.options.narrow_locks && !self.options.hierarchical => {
                // The word names this compute node, and any of its lanes may be meant.
                return Err(OpError::harmless(Cause::BadInput("16-bit lock words without local queues do not settle")));
            }
            // Held, too: the future may have been dropped with the unlock on its way.
            Stage::Posted | Stage::Held => {
                let at = self.scratch.small;
                let (offset, shift) = self.lock_place(debt.lock);
                let space =
                    self.geometry.get(debt.lock.node.0 as usize).map_or_else(Default::default, |node| node.lock_space);
                let read = Request::read(Label::Lock, debt.lock.node, offset, 8, at).in_space(space);
                lane.port().call(read).await?;
                let word = lane.port().with(|scratch| word_at(scratch, at));
                if planted(Bug::SettleFreesStranger) {
                    held.word = word;
                }
                if self.options.narrow_locks {
                    // A narrow word cannot tell this lane's CAS from another's of this compute node; the local
                    // entry can: nobody else of this compute node sends requests for it.
                    (word >> shift) & ((1 << NARROW_BITS) - 1) == debt.word
                } else {
                    let freed = planted(Bug::SettleFreesStranger) && word != 0;
                    freed || word == debt.word && !planted(Bug::SettleForgets)
                }
            }
        };
        if owned {
            return self.release(lane, held).await;
        }
        self.leave(lane, debt.lock);
        Ok(())
    }
}

/// A little-endian word of the scratch; 0 outside.
#[inline]
pub(crate) fn word_at(scratch: &[u8], at: usize) -> u64 {
    scratch.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
