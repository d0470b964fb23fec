//! Locks of leaves: the word lies in the leaf, and while it is free it says where there is room ([`super::vacancy`]).
//!
//! Acquired by a masked CAS that compares bit 63 only and swaps everything: it returns the vacancy with the lock (CHIME
//! section 4.2.1). Without masked atomics by a plain CAS of the word as it was last seen; if that guess was wrong and the
//! word free, the CAS has returned the right one, and the next comes at once: one round trip more.
//!
//! The linearization point of an acquisition is the CAS that finds bit 63 clear; from its completion to the release only
//! this lane posts WRITEs to the leaf. Released by a CAS of the whole word, chained behind the WRITEs: a word is never
//! written by anything but CAS, in no life of the place, so a CAS by somebody with a stale pointer is never overwritten, and
//! never overwrites.
//!
//! Lanes of one compute node queue in a local table as for every lock of the tree ([`crate::locks::table`]); a leaf's
//! entry is found by a hash of its place.
//!
//! **Taken over** as every lock of the tree ([`crate::recovery`]): the held word names row and acquisition, and bit 63 tells it
//! from a free one, so neither can be mistaken for the other by a CAS that expects the whole of one. What the word said
//! before is lost with the holder. Nothing but the leaf knows it, and the leaf does, so whoever ends a dead holder's
//! acquisition, or settles a dropped one, READs the leaf and says exactly where it has room.

use super::Chime;
use super::layout::Leaf;
use super::vacancy::{ALL_FULL, HELD};
use crate::btree::Tree;
use crate::btree::leaves::{Leaves, slice};
use crate::btree::node::{Header, NodeFlags};
use crate::lane::watch::Watched;
use crate::lane::{Debt, Lane, Stage};
use crate::layout::{stripes, word_at};
use crate::locks::table::{Entered, Handed, LockTable, Turn, try_enter_tracked};
use crate::marks::Mark;
use crate::operation::{Cause, OpError, silent_holder, unknown};
use crate::remote::address::Address;
use crate::remote::lock_word::{LockId, lock_of};
use crate::verbs::{Completion, Label, Request, Status};

/// CAS attempts on one lock word before an operation gives up, if its deadline does not end it earlier.
const ATTEMPTS_MAX: u32 = 1 << 20;

/// First and longest pause between two CAS attempts, in ns. The first is about half a round trip.
const BACK_OFF_NS: (u64, u64) = (1_000, 64_000);

/// A leaf this lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafHeld {
    /// The leaf.
    pub address: Address,
    /// The remote word while it is held.
    pub word: u64,
    /// What the word said when it was free.
    pub vacancy: u64,
    pub lock: LockId,
}

/// A lock asked for.
#[derive(Clone, Copy)]
pub(super) struct LeafClaim {
    /// What will be held.
    pub held: LeafHeld,
    /// Others of this compute node come first.
    pub queued: bool,
}

/// A CAS pushed: its position, and the word it expects if it compares all of it.
#[derive(Clone, Copy)]
pub(super) struct Tried {
    cas: usize,
    guess: u64,
}

impl LeafHeld {
    const fn tag(&self) -> u32 {
        tag_of(self.address)
    }
}

/// Tells leaves that share a local entry apart.
const fn tag_of(leaf: Address) -> u32 {
    (leaf.offset() >> 6) as u32
}

/// The lock as the local table counts.
const fn local(lock: LockId) -> LockId {
    LockId { node: lock.node, index: lock.index & !LockId::IN_NODE }
}

impl<'s> Chime<'s> {
    /// The lock of a leaf. An address that cannot be one's leads nowhere, and no CAS may go there.
    pub(super) fn leaf_lock(&self, leaf: Address) -> Result<LockId, OpError> {
        let inside = self.tree.geometry.get(leaf.node().0 as usize).is_some_and(|node| {
            leaf.offset() >= node.heap && leaf.offset() + self.leaf.place_bytes() as u64 <= node.region_bytes
        });
        if !inside {
            return Err(Tree::corrupt(leaf, "a pointer beyond the pool"));
        }
        let local = lock_of(leaf, self.locks_per_node.max(1));
        Ok(LockId { index: local.index | LockId::IN_NODE, ..local })
    }

    /// The place of a lock in the table of remembered words.
    fn place_of(&self, lock: LockId) -> usize {
        lock.node.0 as usize * self.locks_per_node as usize + local(lock).index as usize
    }

    fn lock_offset(&self, leaf: Address) -> u64 {
        leaf.offset() + self.leaf.bytes as u64
    }

    /// The request that takes a lock which is free and says `guess`.
    fn lock_request(&self, leaf: Address, guess: u64, word: u64) -> Request {
        let (node, offset) = (leaf.node(), self.lock_offset(leaf));
        if self.tree.capabilities.masked_atomics {
            Request::masked_cas(Label::Lock, node, offset, [0, word, HELD, u64::MAX])
        } else {
            Request::cas(Label::Lock, node, offset, guess, word)
        }
    }

    fn unlock_request(&self, held: &LeafHeld, vacancy: u64) -> Request {
        let node = held.address.node();
        Request::cas(Label::Unlock, node, self.lock_offset(held.address), held.word, vacancy & ALL_FULL)
    }

    /// The CAS that tells a leaf written for the first time what its lock word shall say. The word is 0 while a place is
    /// not in use, unless somebody with a stale pointer holds it right now: then it stays a hint that is wrong.
    pub(super) fn first_vacancy_request(&self, leaf: Address, vacancy: u64) -> Request {
        Request::cas(Label::Vacancy, leaf.node(), self.lock_offset(leaf), 0, vacancy & ALL_FULL)
    }

    /// Remembers what the word of a leaf that this lane has just made says.
    pub(super) fn remember_vacancy(&self, leaf: Address, vacancy: u64) {
        if let Ok(lock) = self.leaf_lock(leaf) {
            self.words.remember(self.place_of(lock), tag_of(leaf), vacancy);
        }
    }

    /// What the word of a leaf was last seen to say; 0, room everywhere, if that is not known.
    pub(super) fn remembered_vacancy(&self, leaf: Address) -> u64 {
        self.leaf_lock(leaf).map_or(0, |lock| self.words.recall(self.place_of(lock), tag_of(leaf)))
    }

    /// Acquires the lock of `leaf`, waiting for it. `follow` is READ behind every CAS, in its chain; the answer says whether
    /// it was. Made of steps, as [`Tree::acquire`] is, for who is in a hurry.
    pub(super) async fn lock_leaf(
        &self,
        lane: &Lane<'_>,
        leaf: Address,
        follow: Option<Part>,
    ) -> Result<(LeafHeld, bool), OpError> {
        let claim = self.claim_leaf(lane, leaf)?;
        if claim.queued {
            return self.lock_queued(lane, claim.held, follow).await;
        }
        let tried = self.push_lock(lane, &claim.held, self.guess_of(&claim.held), follow);
        lane.port().submit().await?;
        match self.judge_lock(lane, claim.held, tried) {
            Ok(held) => Ok((held, follow.is_some())),
            Err(found) => self.lock_again(lane, claim.held, follow, found).await,
        }
    }

    /// Takes note of what the lane is about to owe, and asks for the local entry.
    #[inline]
    pub(super) fn claim_leaf(&self, lane: &Lane<'_>, leaf: Address) -> Result<LeafClaim, OpError> {
        let lock = self.leaf_lock(leaf)?;
        if !self.locks.knows(lane.id()) {
            return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
        }
        self.tree.check_lease(lane)?;
        let held = LeafHeld { address: leaf, word: self.tree.word_for(lane, lock)?, vacancy: 0, lock };
        lane.owe(Debt { word: held.word, ..Debt::queued(lock, leaf) })?;
        let queued =
            self.tree.options.hierarchical && self.locks.enter(local(lock), lane.id(), held.tag()) == Entered::Queued;
        Ok(LeafClaim { held, queued })
    }

    /// Pushes the CAS, which expects `guess` if it has to expect a whole word, and what follows it. The lane is the local
    /// entry's holder.
    #[inline]
    pub(super) fn push_lock(&self, lane: &Lane<'_>, held: &LeafHeld, guess: u64, follow: Option<Part>) -> Tried {
        lane.advance(held.lock, Stage::Posted);
        let cas = lane.port().push(self.lock_request(held.address, guess, held.word));
        match follow {
            Some(Part::Entries { first, count }) => drop(self.push_runs(lane, held.address, first, count, true)),
            Some(Part::Entry(slot)) => drop(self.push_entry(lane, held.address, slot, true)),
            None => {}
        }
        Tried { cas, guess }
    }

    /// Judges the completion of the CAS: `Err` is the word found, a holder's or one that was not guessed. If the submit
    /// failed, the debt stays: whether the CAS won is not known, and settling will look.
    #[inline]
    pub(super) fn judge_lock(&self, lane: &Lane<'_>, held: LeafHeld, tried: Tried) -> Result<LeafHeld, u64> {
        let found = lane.port().completion(tried.cas).value;
        if found & HELD != 0 || !self.tree.capabilities.masked_atomics && found != tried.guess {
            return Err(found);
        }
        self.tree.hold(lane, held.lock);
        Ok(LeafHeld { vacancy: found, ..held })
    }

    /// Waits in the local queue, then goes on as who was first, unless the word comes along.
    pub(super) async fn lock_queued(
        &self,
        lane: &Lane<'_>,
        held: LeafHeld,
        follow: Option<Part>,
    ) -> Result<(LeafHeld, bool), OpError> {
        let port = lane.port();
        let lock = held.lock;
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
                    self.tree.hold(lane, lock);
                    let vacancy = self.words.recall(self.place_of(lock), held.tag());
                    return Ok((LeafHeld { word, vacancy, ..held }, false));
                }
            }
        }
        let tried = self.push_lock(lane, &held, self.guess_of(&held), follow);
        port.submit().await?;
        match self.judge_lock(lane, held, tried) {
            Ok(held) => Ok((held, follow.is_some())),
            Err(found) => self.lock_again(lane, held, follow, found).await,
        }
    }

    /// Tries again and again, after a CAS that found the word `found`.
    pub(super) async fn lock_again(
        &self,
        lane: &Lane<'_>,
        held: LeafHeld,
        follow: Option<Part>,
        found: u64,
    ) -> Result<(LeafHeld, bool), OpError> {
        let port = lane.port();
        let lock = held.lock;
        let entry = self.queue_of(lock);
        let mut found = found;
        let mut guess = self.guess_of(&held);
        let mut pause_ns = BACK_OFF_NS.0;
        for _ in 1..ATTEMPTS_MAX {
            lane.advance(lock, Stage::Queued);
            if lane.check_deadline().is_err() {
                break;
            }
            if found & HELD == 0 {
                lane.mark(Mark::GuessWrong);
                guess = found;
            } else {
                lane.mark(Mark::LockLost);
                let long_ns = match self.tree.watch_holder(lane, found) {
                    Watched::Silent => {
                        self.tree.leave(lane, lock, entry);
                        lane.suspect(Debt::queued(lock, held.address));
                        return Err(silent_holder());
                    }
                    Watched::Wait(ns) => ns,
                };
                if self.tree.options.back_off {
                    // Exponential back-off with a lane-dependent part, so that losers do not return in step.
                    let jitter = (u64::from(lane.next_turn() >> 16) * pause_ns) >> 16;
                    port.push(Request::pause(long_ns.unwrap_or(pause_ns / 2 + jitter / 2)));
                    port.submit().await?;
                    pause_ns = (pause_ns * 2).min(BACK_OFF_NS.1);
                }
            }
            let tried = self.push_lock(lane, &held, guess, follow);
            port.submit().await?;
            match self.judge_lock(lane, held, tried) {
                Ok(held) => return Ok((held, follow.is_some())),
                Err(other) => found = other,
            }
        }
        self.tree.leave(lane, lock, entry);
        lane.check_deadline()?;
        Err(OpError::harmless(Cause::Retries { attempts: ATTEMPTS_MAX, what: "acquiring a lock" }))
    }

    /// Gives up a place in the local queue. If the turn came after all, passes it on.
    async fn leave_queue(&self, lane: &Lane<'_>, held: LeafHeld) -> Result<(), OpError> {
        match self.locks.cancel(local(held.lock), lane.id()) {
            Turn::Wait => lane.paid(held.lock),
            Turn::Acquire => self.tree.leave(lane, held.lock, self.queue_of(held.lock)),
            Turn::Owned(Handed { word, imaged }) => {
                lane.received(held.lock, word, imaged);
                self.tree.hold(lane, held.lock);
                let vacancy = self.words.recall(self.place_of(held.lock), held.tag());
                self.unlock_leaf(lane, LeafHeld { word, vacancy, ..held }, vacancy).await?;
            }
        }
        Ok(())
    }

    /// Tries to acquire without waiting: for a merge, where waiting could deadlock.
    pub(super) async fn try_lock_leaf(&self, lane: &Lane<'_>, leaf: Address) -> Result<Option<LeafHeld>, OpError> {
        let lock = self.leaf_lock(leaf)?;
        self.tree.check_lease(lane)?;
        let mut held = LeafHeld { address: leaf, word: self.tree.word_for(lane, lock)?, vacancy: 0, lock };
        let queue = self.tree.options.hierarchical.then(|| self.queue_of(lock));
        let posted = Debt { stage: Stage::Posted, word: held.word, ..Debt::queued(lock, leaf) };
        if !try_enter_tracked(queue, lane, posted)? {
            return Ok(None);
        }
        let mut guess = self.guess_of(&held);
        // A second time if the first guess was wrong, and not a third: who changes the word is about to use the leaf.
        for _ in 0..2 {
            let found = lane.port().call(self.lock_request(leaf, guess, held.word)).await?.value;
            if found & HELD == 0 && (self.tree.capabilities.masked_atomics || found == guess) {
                self.tree.hold(lane, lock);
                held.vacancy = found;
                return Ok(Some(held));
            }
            if found & HELD != 0 {
                lane.mark(Mark::LockLost);
                break;
            }
            lane.mark(Mark::GuessWrong);
            guess = found;
        }
        self.tree.leave(lane, lock, self.queue_of(lock));
        Ok(None)
    }

    /// Writes back and releases: the WRITEs are pushed already, all to the leaf's memory node, and nothing else is.
    ///
    /// With command combination the unlock follows them in their chain; when the lock is handed over there is no
    /// unlock. Past this call's first submit the change may have been made: errors say `Unknown`.
    pub(super) async fn unlock_leaf_with(&self, lane: &Lane<'_>, held: LeafHeld, vacancy: u64) -> Result<(), OpError> {
        let unlock = self.push_unlock(lane, &held, vacancy)?;
        lane.port().submit().await.map_err(unknown)?;
        match unlock {
            Some(unlock) => self.released(lane, held, vacancy, unlock),
            None => self.release_written(lane, held, vacancy).await,
        }
    }

    /// What a release with WRITEs pushes itself. `None`: the lock is released when they are done, because it is handed over
    /// or commands are not combined.
    #[inline]
    pub(super) fn push_unlock(&self, lane: &Lane<'_>, held: &LeafHeld, vacancy: u64) -> Result<Option<usize>, OpError> {
        let port = lane.port();
        if let Err(late) = self.tree.check_lease(lane) {
            // The debt stays, as in `Tree::push_unlock`.
            port.withdraw();
            lane.wrote_nothing();
            return Err(late);
        }
        let may = self.tree.options.hierarchical && lane.may_pass(held.lock);
        let pass = may && self.locks.would_pass(local(held.lock), held.tag());
        Ok((self.tree.options.combine && !pass).then(|| port.push(self.unlock_request(held, vacancy))))
    }

    /// Judges the completion of an unlock that followed WRITEs.
    #[inline]
    pub(super) fn released(&self, lane: &Lane<'_>, held: LeafHeld, vacancy: u64, unlock: usize) -> Result<(), OpError> {
        self.unlocked(lane, held, vacancy, lane.port().completion(unlock)).map_err(unknown)
    }

    /// Releases after WRITEs that are done.
    pub(super) async fn release_written(&self, lane: &Lane<'_>, held: LeafHeld, vacancy: u64) -> Result<(), OpError> {
        self.unlock_leaf(lane, held, vacancy).await.map_err(|error| unknown(error.cause))
    }

    /// Releases a leaf with nothing to write back: hands it over, or unlocks and waits for that.
    pub(super) async fn unlock_leaf(&self, lane: &Lane<'_>, held: LeafHeld, vacancy: u64) -> Result<(), OpError> {
        let imaged = lane.holds(held.lock).is_some_and(|debt| debt.imaged);
        // While this lane holds the local entry; the next one that does may want to know.
        self.words.remember(self.place_of(held.lock), held.tag(), vacancy & ALL_FULL);
        if self.tree.options.hierarchical
            && lane.may_pass(held.lock)
            && let Some(next) = self.locks.pass(local(held.lock), held.tag(), Handed { word: held.word, imaged })
        {
            self.tree.paid(lane, held.lock);
            lane.port().push(Request::wake(next));
            return Ok(());
        }
        let completion = lane.port().call(self.unlock_request(&held, vacancy)).await?;
        self.unlocked(lane, held, vacancy, completion).map_err(OpError::harmless)
    }

    /// What a free word is expected to say, where a CAS has to expect something.
    pub(super) fn guess_of(&self, held: &LeafHeld) -> u64 {
        if self.tree.capabilities.masked_atomics {
            return 0;
        }
        self.words.recall(self.place_of(held.lock), held.tag())
    }

    /// Judges the completion of an unlock.
    fn unlocked(&self, lane: &Lane<'_>, held: LeafHeld, vacancy: u64, completion: Completion) -> Result<(), Cause> {
        // Who guesses words, or what to READ behind a lock, wants to know.
        if !self.tree.capabilities.masked_atomics || self.tree.options.chain_lock_read {
            self.words.remember(self.place_of(held.lock), held.tag(), vacancy & ALL_FULL);
        }
        self.tree.leave(lane, held.lock, self.queue_of(held.lock));
        if completion.value == held.word { Ok(()) } else { Err(Cause::Fenced) }
    }

    /// Pays what the lane owes for leaves: as [`Tree::settle`], which is for the others.
    pub(super) async fn settle_leaves(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let mut outcome = Ok(());
        for debt in lane.debts().into_iter().filter(|debt| debt.lock.in_node()) {
            match self.settle_leaf(lane, debt).await {
                Ok(()) => {}
                Err(OpError { cause: Cause::Verb(error), .. })
                    if matches!(error.status, Status::NodeDown | Status::Fenced) =>
                {
                    self.tree.leave(lane, debt.lock, self.queue_of(debt.lock));
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
        lane.close(self.tree.scratch.small).await?;
        let mut debt = debt;
        let port = lane.port();
        if debt.stage == Stage::Queued {
            let queues = self.tree.options.hierarchical;
            match if queues { self.locks.cancel(local(debt.lock), lane.id()) } else { Turn::Wait } {
                Turn::Wait => {
                    lane.paid(debt.lock);
                    return Ok(());
                }
                Turn::Acquire => {
                    self.tree.leave(lane, debt.lock, self.queue_of(debt.lock));
                    return Ok(());
                }
                Turn::Owned(Handed { word, imaged }) => {
                    // The table says so once: if this future is dropped too, the debt tells the next.
                    debt = Debt { stage: Stage::Held, word, imaged, ..debt };
                    lane.owe(debt)?;
                }
            }
        } else {
            // Posted: the CAS may have won. Held: the unlock may be done.
            let at = self.tree.scratch.small;
            let (node, offset, space) = self.tree.word_place(&debt);
            port.call(Request::read(Label::Lock, node, offset, 8, at).in_space(space)).await?;
            if port.with(|scratch| word_at(scratch, at)) != debt.word {
                self.tree.leave(lane, debt.lock, self.queue_of(debt.lock));
                return Ok(());
            }
        }
        if debt.imaged {
            self.tree.replay_own(lane, &debt, debt.word).await?;
        }
        let vacancy = self.vacancy_of(lane, debt.protects).await?;
        let held = LeafHeld { address: debt.protects, word: debt.word, vacancy, lock: debt.lock };
        self.unlock_leaf(lane, held, vacancy).await
    }

    /// Where a leaf has room, which nobody is writing: READs it into image 0. A place that is not in use has room
    /// everywhere, and of one in the middle of its next life's first WRITE, which needs no lock, nobody knows.
    pub(super) async fn vacancy_of(&self, lane: &Lane<'_>, leaf: Address) -> Result<u64, OpError> {
        let port = lane.port();
        let at = self.tree.scratch.node(0);
        let (node, offset) = (leaf.node(), leaf.offset());
        port.call(Request::read(Label::Leaf, node, offset, self.leaf.bytes, at).untimed()).await?;
        Ok(port.with(|scratch| {
            let image = slice(scratch, at, self.leaf.bytes);
            let header = Header::read(image);
            if header.flags.contains(NodeFlags::RETIRED) || header.index == 0 {
                0
            } else if stripes::node_version(image).is_some() && header.index == self.tree.index {
                self.buckets.exact(&Leaf::new(&self.leaf, image))
            } else {
                ALL_FULL
            }
        }))
    }

    /// The local entry of a lock that lies in a leaf.
    pub(super) fn leaf_queue(&self, lock: LockId) -> (&LockTable<'s>, LockId) {
        (&self.locks, local(lock))
    }
}

/// A part of a leaf to READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `count` entries from `first` on, with a replica if there are enough of them.
    Entries { first: usize, count: usize },
    /// One entry and nothing else.
    Entry(usize),
}
