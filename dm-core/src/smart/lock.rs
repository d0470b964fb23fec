//! Locks of leaves: a word in each, and local queues in front of it as in [`crate::btree::lock`].

use super::Smart;
use crate::lane::watch::Watched;
use crate::lane::{Debt, Lane, Stage};
use crate::locks::table::{Entered, Handed, Turn, try_enter_tracked};
use crate::marks::Mark;
use crate::operation::{Cause, Effect, OpError, silent_holder};
use crate::radix::slot::{Place, UNIT_BYTES, word};
use crate::recovery::takeover::Guarded;
use crate::remote::lock_word::{LockId, LockWord, lock_of};
use crate::smart::corrupt;
use crate::verbs::{Completion, Label, Request, Status};

/// CAS attempts on one lock word before an operation gives up, if its deadline does not end it earlier.
const ATTEMPTS_MAX: u32 = 1 << 20;

/// First and longest pause between two CAS attempts, in ns. The first is about half a round trip.
const BACK_OFF_NS: (u64, u64) = (1_000, 64_000);

/// A leaf this lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafHeld {
    /// The leaf.
    pub place: Place,
    /// The remote word while it is held.
    pub word: u64,
    pub lock: LockId,
}

impl LeafHeld {
    /// Tells leaves that share a local entry apart: memory nodes have less than 2^32 units.
    const fn tag(&self) -> u32 {
        (self.place.offset() / UNIT_BYTES as u64) as u32
    }
}

/// The lock as the local table counts.
pub(super) const fn local(lock: LockId) -> LockId {
    LockId { node: lock.node, index: lock.index & !LockId::IN_NODE }
}

impl Smart<'_> {
    /// The lock of a leaf. A place that cannot be one's leads nowhere, and no CAS may go there.
    pub(super) fn leaf_lock(&self, leaf: Place) -> Result<LockId, OpError> {
        if !self.is_inside(leaf, self.leaf.place_bytes) {
            return Err(corrupt(leaf, "a pointer beyond the pool"));
        }
        let local = lock_of(leaf.address(), self.locks_per_node.max(1));
        Ok(LockId { index: local.index | LockId::IN_NODE, ..local })
    }

    pub(super) fn lock_offset(&self, leaf: Place) -> u64 {
        leaf.offset() + self.leaf.lock_at as u64
    }

    /// The READ of a leaf into leaf image `i`.
    pub(super) fn leaf_request(&self, leaf: Place, i: usize) -> Request {
        let (bytes, at) = (self.leaf.read_bytes(), self.scratch.leaf(i));
        Request::read(Label::Leaf, leaf.node(), leaf.offset(), bytes, at).untimed()
    }

    fn unlock_request(&self, held: &LeafHeld) -> Request {
        Request::cas(Label::Unlock, held.place.node(), self.lock_offset(held.place), held.word, LockWord::FREE.0)
    }

    /// Acquires the lock of `leaf`, waiting for it, and READs the leaf into image 0 in the chain of every CAS. The answer
    /// says whether it was READ: not if the lock was handed over.
    pub(super) async fn lock_leaf(&self, lane: &Lane<'_>, leaf: Place) -> Result<(LeafHeld, bool), OpError> {
        let lock = self.leaf_lock(leaf)?;
        let port = lane.port();
        if !self.locks.knows(lane.id()) {
            return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
        }
        self.check_lease(lane)?;
        let queues = self.options.hierarchical;
        let mut held = LeafHeld { place: leaf, word: 0, lock };
        let queued = Debt::queued(lock, leaf.address());
        lane.owe(queued)?;
        if queues && self.locks.enter(local(lock), lane.id(), held.tag()) == Entered::Queued {
            lane.mark(Mark::LockQueued);
            loop {
                port.push(Request::park(lane.remaining_ns()));
                port.submit().await?;
                match self.locks.turn(local(lock), lane.id()) {
                    Turn::Wait => {
                        if let Err(late) = lane.check_deadline() {
                            return self.leave_queue(lane, held).await.and(Err(late));
                        }
                    }
                    Turn::Acquire => break,
                    Turn::Owned(Handed { word, imaged }) => {
                        lane.mark(Mark::HandOver);
                        lane.received(lock, word, imaged);
                        self.hold(lane, lock);
                        held.word = word;
                        return Ok((held, false));
                    }
                }
            }
        }
        held.word = match self.next_word(lane) {
            Ok(word) => word,
            Err(used_up) => {
                self.leave(lane, lock);
                return Err(used_up);
            }
        };
        let mut pause_ns = BACK_OFF_NS.0;
        for _ in 0..ATTEMPTS_MAX {
            lane.owe(Debt { stage: Stage::Posted, word: held.word, ..queued })?;
            let request = Request::cas(Label::Lock, leaf.node(), self.lock_offset(leaf), LockWord::FREE.0, held.word);
            let cas = port.push(request);
            port.push(self.leaf_request(leaf, 0));
            // On failure the debt stays: whether the CAS won is not known, and settling will look.
            port.submit().await?;
            let found = port.completion(cas).value;
            if found == LockWord::FREE.0 {
                self.hold(lane, lock);
                return Ok((held, true));
            }
            lane.owe(queued)?;
            lane.mark(Mark::LockLost);
            if lane.check_deadline().is_err() {
                break;
            }
            let long_ns = match self.watch_holder(lane, found) {
                Watched::Silent => {
                    self.leave(lane, lock);
                    lane.suspect(queued);
                    return Err(silent_holder());
                }
                Watched::Wait(ns) => ns,
            };
            if self.options.back_off {
                // Exponential, with a lane-dependent part, so that losers do not return in step.
                let jitter = (u64::from(lane.next_turn() >> 16) * pause_ns) >> 16;
                port.push(Request::pause(long_ns.unwrap_or(pause_ns / 2 + jitter / 2)));
                port.submit().await?;
                pause_ns = (pause_ns * 2).min(BACK_OFF_NS.1);
            }
        }
        self.leave(lane, lock);
        lane.check_deadline()?;
        Err(OpError::harmless(Cause::Retries { attempts: ATTEMPTS_MAX, what: "acquiring a lock" }))
    }

    /// Acquires the lock of `leaf` if nobody has it, by a CAS of its own, and READs the leaf into image 0 in the chain of that. A lock
    /// that is handed over would not do: under its word there may be an image of an earlier WRITE.
    pub(super) async fn try_lock_leaf(&self, lane: &Lane<'_>, leaf: Place) -> Result<Option<LeafHeld>, OpError> {
        let lock = self.leaf_lock(leaf)?;
        let port = lane.port();
        self.check_lease(lane)?;
        let word = self.next_word(lane)?;
        let posted = Debt { stage: Stage::Posted, word, ..Debt::queued(lock, leaf.address()) };
        if !self.locks.knows(lane.id()) || !try_enter_tracked(self.queue(lock), lane, posted)? {
            return Ok(None);
        }
        let request = Request::cas(Label::Lock, leaf.node(), self.lock_offset(leaf), LockWord::FREE.0, word);
        let cas = port.push(request);
        port.push(self.leaf_request(leaf, 0));
        port.submit().await?;
        if port.completion(cas).value == LockWord::FREE.0 {
            self.hold(lane, lock);
            return Ok(Some(LeafHeld { place: leaf, word, lock }));
        }
        lane.mark(Mark::LockLost);
        self.leave(lane, lock);
        Ok(None)
    }

    /// Gives up a place in the local queue. If the turn came after all, passes it on.
    async fn leave_queue(&self, lane: &Lane<'_>, held: LeafHeld) -> Result<(), OpError> {
        match self.locks.cancel(local(held.lock), lane.id()) {
            Turn::Wait => lane.paid(held.lock),
            Turn::Acquire => self.leave(lane, held.lock),
            Turn::Owned(Handed { word, imaged }) => {
                lane.received(held.lock, word, imaged);
                self.hold(lane, held.lock);
                self.unlock_leaf(lane, LeafHeld { word, ..held }).await?;
            }
        }
        Ok(())
    }

    /// Strikes the debt out and lets the next lane of this compute node have its turn.
    pub(super) fn leave(&self, lane: &Lane<'_>, lock: LockId) {
        self.paid(lane, lock);
        if self.options.hierarchical
            && let Some(next) = self.locks.leave(local(lock))
        {
            lane.port().push(Request::wake(next));
        }
    }

    /// Writes back and releases: the WRITEs are pushed already, all to the leaf's memory node, and nothing else is.
    ///
    /// With command combination the unlock follows them in their chain; when the lock is handed over there is no
    /// unlock. Past this call's first submit the change may have been made: errors say `Unknown`.
    pub(super) async fn unlock_leaf_with(&self, lane: &Lane<'_>, held: LeafHeld) -> Result<(), OpError> {
        let unknown = |cause: Cause| OpError { effect: Effect::Unknown, cause };
        let port = lane.port();
        if let Err(late) = self.check_lease(lane) {
            // The debt stays: the word is freed by settling, if others have not taken it by then.
            port.withdraw();
            return Err(late);
        }
        lane.wrote_in_place();
        let pass = self.options.hierarchical
            && self.locks.would_pass(local(held.lock), held.tag())
            && lane.may_pass(held.lock);
        if self.options.combine && !pass {
            let unlock = port.push(self.unlock_request(&held));
            port.submit().await.map_err(|error| unknown(error.into()))?;
            return self.unlocked(lane, held, port.completion(unlock)).map_err(unknown);
        }
        port.submit().await.map_err(|error| unknown(error.into()))?;
        self.unlock_leaf(lane, held).await.map_err(|error| unknown(error.cause))
    }

    /// Releases a leaf with nothing to write back: hands it over, or unlocks and waits for that.
    pub(super) async fn unlock_leaf(&self, lane: &Lane<'_>, held: LeafHeld) -> Result<(), OpError> {
        let imaged = lane.holds(held.lock).is_some_and(|debt| debt.imaged);
        // Not with images of two lanes: the second one's slot may be used again while the first one's image stays, and then that would
        // count as the last.
        let handed = Handed { word: held.word, imaged };
        if self.options.hierarchical
            && lane.may_pass(held.lock)
            && let Some(next) = self.locks.pass(local(held.lock), held.tag(), handed)
        {
            self.paid(lane, held.lock);
            lane.port().push(Request::wake(next));
            return Ok(());
        }
        let completion = lane.port().call(self.unlock_request(&held)).await?;
        self.unlocked(lane, held, completion).map_err(OpError::harmless)
    }

    /// Judges the completion of an unlock.
    fn unlocked(&self, lane: &Lane<'_>, held: LeafHeld, completion: Completion) -> Result<(), Cause> {
        self.leave(lane, held.lock);
        if completion.value == held.word { Ok(()) } else { Err(Cause::Fenced) }
    }

    /// Pays what the lane owes.
    pub(super) async fn settle_leaves(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let mut outcome = Ok(());
        for debt in lane.debts() {
            match self.settle_leaf(lane, debt).await {
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

    async fn settle_leaf(&self, lane: &Lane<'_>, debt: Debt) -> Result<(), OpError> {
        lane.close(self.scratch.small).await?;
        let mut debt = debt;
        let mut held = LeafHeld { place: Place::of(debt.protects), word: debt.word, lock: debt.lock };
        let port = lane.port();
        if debt.stage == Stage::Queued {
            match if self.options.hierarchical { self.locks.cancel(local(debt.lock), lane.id()) } else { Turn::Wait } {
                Turn::Wait => {
                    lane.paid(debt.lock);
                    return Ok(());
                }
                Turn::Acquire => {
                    self.leave(lane, debt.lock);
                    return Ok(());
                }
                Turn::Owned(Handed { word, imaged }) => {
                    // The table says so once: if this future is dropped too, the debt tells the next.
                    held.word = word;
                    debt = Debt { stage: Stage::Held, word, imaged, ..debt };
                    lane.owe(debt)?;
                }
            }
        } else {
            // Posted: the CAS may have won. Held: the unlock may be done.
            let at = self.scratch.small;
            let (node, offset) = (held.place.node(), self.lock_offset(held.place));
            port.call(Request::read(Label::Lock, node, offset, 8, at)).await?;
            if port.with(|scratch| word(scratch, at)) != debt.word {
                self.leave(lane, debt.lock);
                return Ok(());
            }
        }
        // What was WRITTEN under it is whole or was not begun, the future's requests being completed by now; or its queue pair
        // failed, and there is an image of what may be torn.
        if let (true, Some(site)) = (debt.imaged, self.site()) {
            site.replay_own(lane, &debt, held.word).await?;
        }
        self.unlock_leaf(lane, held).await
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::super::parameters::Parameters;
    use super::super::{Options, Parts};
    use super::*;
    use crate::compute::batches::Batches;
    use crate::locks::table::{Entry, LockTable, Waiter};
    use crate::machine::{Step, poll_once};
    use crate::memory::chunks::RequestIds;
    use crate::radix::cache::NodeCache;
    use crate::radix::space::Space;
    use crate::remote::catalog::IndexNumber;
    use crate::remote::lock_word::RowId;
    use crate::remote::row::Member;
    use crate::remote::superblock::small_for_tests;
    use crate::verbs::{Capabilities, LaneId, NodeId};
    use core::pin::pin;
    use std::vec;

    const LOCK: LockId = LockId { node: NodeId(0), index: LockId::IN_NODE };

    /// Lane 0 has handed a lock word to lane 1, which was about to give up waiting. Lane 2 waits, too, if `third`.
    fn with_word_for_one_that_gives_up(third: bool, test: impl FnOnce(&Smart<'_>, &[Lane<'_>], LeafHeld)) {
        let geometry = [small_for_tests()];
        let (entries, waiters) = ([Entry::default()], [(); 3].map(|()| Waiter::default()));
        let requests = RequestIds::default();
        let parameters = Parameters::with_sizes(8, 8);
        let parts = Parts {
            number: IndexNumber::new(0).unwrap(),
            owner: Member { row: RowId(1), incarnation: 1, nonce: 1 },
            requests: &requests,
            geometry: &geometry,
            capabilities: Capabilities {
                masked_atomics: false,
                device_bytes: 0,
                inline_bytes_max: 64,
                outstanding_reads_max: 16,
                chain_requests_max: 16,
                fencing: true,
                crash_atomic_bytes: 64,
                write_turn_ns_min: 0,
            },
            options: Options::default(),
            locks: LockTable::new(&entries, 1, &waiters, 4),
            locks_per_node: 1,
            batches: Batches::new(&[], &[], &[]),
            space: Space::new(&[]),
            cache: NodeCache::new(&[]),
            recovery: None,
            epochs: None,
        };
        let plan = parameters.plan(1, 1);
        let mut scratch = vec![vec![0; plan.0.total_bytes]; 3];
        let smart = Smart::new(parts, &parameters, plan).unwrap();
        let lanes: vec::Vec<_> = (0..).zip(&mut scratch).map(|(id, bytes)| Lane::new(LaneId(id), bytes)).collect();
        let held = LeafHeld { place: Place::new(NodeId(0), geometry[0].heap), word: 0, lock: LOCK };
        assert_eq!(smart.locks.enter(local(LOCK), LaneId(0), held.tag()), Entered::Holder);
        for lane in &lanes[1..if third { 3 } else { 2 }] {
            lane.owe(Debt::queued(LOCK, held.place.address())).unwrap();
            assert_eq!(smart.locks.enter(local(LOCK), lane.id(), held.tag()), Entered::Queued);
        }
        let handed = Handed { word: 77, imaged: true };
        assert_eq!(smart.locks.pass(local(LOCK), held.tag(), handed), Some(LaneId(1)));
        test(&smart, &lanes, held);
    }

    #[test]
    fn a_handed_over_word_is_tracked_until_its_unlock_is_done() {
        with_word_for_one_that_gives_up(false, |smart, lanes, held| {
            let port = lanes[1].port();
            let mut leaving = pin!(smart.leave_queue(&lanes[1], held));
            assert!(matches!(poll_once(port, leaving.as_mut()), Step::Requests));
            let unlock = port.requests()[0];
            assert_eq!((unlock.label, unlock.operands[0]), (Label::Unlock, 77));
            let scratch = port.begin().unwrap();
            port.complete(0, Completion { status: Status::Flushed, ..Completion::default() });
            port.finish(scratch, 0);
            assert!(matches!(poll_once(port, leaving.as_mut()), Step::Done(Err(_))));
            // Settling will look whether the word is still this one.
            let known = lanes[1].debts();
            assert_eq!(known.len(), 1);
            assert_eq!((known[0].stage, known[0].word, known[0].imaged), (Stage::Held, 77, true));
        });
    }

    #[test]
    fn a_word_handed_on_at_once_is_known_to_have_a_redo_record() {
        with_word_for_one_that_gives_up(true, |smart, lanes, held| {
            let mut leaving = pin!(smart.leave_queue(&lanes[1], held));
            assert!(matches!(poll_once(lanes[1].port(), leaving.as_mut()), Step::Done(Ok(()))));
            let turn = smart.locks.turn(local(LOCK), LaneId(2));
            assert_eq!(turn, Turn::Owned(Handed { word: 77, imaged: true }));
            assert!(lanes[1].debts().is_empty());
        });
    }
}
