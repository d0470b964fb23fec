//! How a lane acquires and releases a lock, for every index: local queue, remote word, handover, release, settlement.
//!
//! What an index says of its own is [`LockKind`]. Everything else is here.
//!
//! **Linearization.** A lock is acquired when its CAS finds the word free. From the completion of that CAS to the
//! release only this lane posts WRITEs to the nodes that the word protects. READs under the lock are posted after the
//! CAS completed, or behind it in its chain (ATOMIC_THEN_READ). So they see every WRITE whose unlock was ordered behind
//! it (WRITE_THEN_ATOMIC, HOST_BEFORE_DEVICE).
//!
//! **Unlocking** is a CAS of the whole word, or a WRITE where the fabric grants what that takes ([`Unlock`]). If another
//! compute node took the lock over, this one was fenced first: the CAS fails and the WRITE is refused, the lane learns that
//! its compute node was fenced, and frees nobody else's lock.
//!
//! **What bounds it.** Remote bytes say who holds a lock, so damage can keep a lock held for ever. A lane waits until its
//! deadline, or without one for a minute (a lease if that is longer), and makes a bounded number of attempts in that time.
//!
//! [`crate::recovery`] deals with a holder that no longer responds.

use super::chained::ChainedRead;
pub(crate) use super::kind::Held;
use super::kind::{LockKind, Techniques};
use super::table::{Entered, Handed, Turn, try_enter_tracked};
use super::unlock::Unlock;
use crate::lane::interrupt::Interrupt;
use crate::lane::watch::Watched;
use crate::lane::{Lane, LockRecord, Stage};
use crate::layout::word_at;
use crate::marks::Mark;
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError, unknown};
use crate::remote::address::Address;
use crate::remote::lock_word::{HELD, LockId, LockWord};
use crate::verbs::{Completion, Label, Request, Status};

/// [`Locks::acquire`] without a future around the common case, in which nobody else wants the lock: the future of a
/// write has its steps itself. This and [`release_with!`] are the only places where the protocol is flattened.
macro_rules! acquire {
    ($locks:expr, $lane:expr, $protects:expr, $follow:expr) => {{
        let (locks, lane, follow) = ($locks, $lane, $follow);
        let $crate::locks::protocol::Claim { mut held, queued } = locks.claim(lane, $protects)?;
        let mut lost = None;
        let mut is_won = false;
        if !queued {
            let cas = locks.push_lock(lane, &held, follow);
            lane.port().submit().await?;
            match locks.judge_lock(lane, held, cas) {
                Ok(won) => (held, is_won) = (won, true),
                Err(found) => lost = Some(found),
            }
        }
        let mut is_read = follow.is_some();
        if !is_won {
            (held, is_read) = locks.acquire_slowly(lane, held, follow, lost).await?;
        }
        (held, is_read)
    }};
}
pub(crate) use acquire;

/// [`Locks::release_with`] likewise.
macro_rules! release_with {
    ($locks:expr, $lane:expr, $held:expr) => {{
        let (locks, lane, held) = ($locks, $lane, $held);
        let unlock = locks.push_unlock(lane, &held)?;
        lane.port().submit().await.map_err(unknown)?;
        match unlock {
            Some(unlock) => locks.released(lane, held, unlock)?,
            None => locks.release_written(lane, held).await?,
        }
    }};
}
pub(crate) use release_with;

/// CAS attempts on one lock word before an operation gives up, if its deadline does not end it earlier.
const ATTEMPTS_MAX: u32 = 1 << 20;

/// First and longest pause between two CAS attempts, in ns. The first is about half a round trip.
const BACK_OFF_NS: (u64, u64) = (1_000, 64_000);

/// A lane that has waited for [`LONG_NS`] pauses for so small a part of its waiting, with or without back-off: the attempts of
/// a minute are a few thousand.
const LONG_PART: u64 = 256;

/// From when on a lane has waited for long, in ns. No holder takes so long, unless it is dead, or damage has put its name
/// there.
const LONG_NS: u64 = BACK_OFF_NS.1 * LONG_PART;

/// How long a lane without a deadline waits for a lock, in ns, or a lease if that is longer: it has met a dead holder by
/// then.
const WAIT_NS_MAX: u64 = 60_000_000_000;

/// Sequences a lane takes at a time from its compute node's counter, without recovery.
const SEQUENCES_AT_ONCE: u64 = 1 << 10;

/// An acquisition that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// What is to be held.
    pub held: Held,
    /// The lane is in the local queue. Otherwise it is the entry's holder.
    pub queued: bool,
}

/// How a lane acquires and releases a lock of that kind. An index leaves these steps as they are.
pub(crate) trait Locks: LockKind {
    /// The word of a new acquisition.
    fn next_word(&self, lane: &Lane<'_>) -> Result<u64, OpError> {
        let word = match self.recovery() {
            Some(recovery) => recovery.word(lane),
            None => LockWord::new(self.row(), lane.next_sequence(|| self.sequences().sequences(SEQUENCES_AT_ONCE))),
        };
        let used_up = "this incarnation has used all its lock words: join anew";
        word.and_then(Self::formed).map(|word| word.0).ok_or(OpError::harmless(Cause::BadInput(used_up)))
    }

    /// Whether this compute node may post WRITEs: its lease is not over, as far as it knows.
    fn check_lease(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if self.recovery().is_some_and(|recovery| !recovery.lease.may_write()) {
            lane.mark(Mark::SELF_FENCED);
            return Err(OpError::harmless(Cause::Fenced));
        }
        Ok(())
    }

    /// The lane holds the lock from now on.
    #[inline]
    fn hold(&self, lane: &Lane<'_>, lock: LockId) {
        if let Some(recovery) = self.recovery() {
            recovery.holding(lane, true);
        }
        lane.advance(lock, Stage::Held);
    }

    /// Drops the lane's lock record, and tells the heartbeat when it was the last one.
    fn untrack(&self, lane: &Lane<'_>, lock: LockId) {
        lane.untrack(lock);
        if let Some(recovery) = self.recovery()
            && !lane.has_lock_records()
        {
            recovery.holding(lane, false);
        }
    }

    /// Drops the lane's lock record and lets the next lane of this compute node have its turn.
    fn leave(&self, lane: &Lane<'_>, lock: LockId) {
        self.untrack(lane, lock);
        if self.techniques().hierarchical
            && let Some(next) = self.queues().leave(lock)
        {
            lane.port().push(Request::wake(next));
        }
    }

    /// Notes that a CAS lost against the word `found`.
    fn watch_holder(&self, lane: &Lane<'_>, found: u64) -> Watched {
        let Some(recovery) = self.recovery() else { return Watched::Wait(None) };
        recovery.watch_holder(lane, found)
    }

    /// See [`WAIT_NS_MAX`].
    fn wait_ns_max(&self) -> u64 {
        self.recovery().map_or(WAIT_NS_MAX, |recovery| recovery.lease.config().lease_ns().max(WAIT_NS_MAX))
    }

    /// Whether what the lock of the node at `protects` protects is to be READ in the chain of its CAS.
    #[inline]
    fn chains_read(&self, protects: Address) -> bool {
        match self.techniques().chained {
            ChainedRead::Never => false,
            ChainedRead::WhereQuiet => self.lock_of(protects).is_ok_and(|lock| self.queues().is_quiet(lock)),
            ChainedRead::Always => true,
        }
    }

    /// Asks for the lock's entry in the local queues without waiting, and tracks `lock_record` from then on. `false`:
    /// another lane is the entry's holder.
    fn try_enter(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<bool, OpError> {
        let queues = self.techniques().hierarchical.then(|| self.queues());
        Ok(try_enter_tracked(queues, lane, lock_record)?)
    }

    /// Acquires the lock of the node at `protects`, waiting for it. `follow` is READ behind every CAS, in its chain;
    /// the answer says whether it was: not if the lock was handed over.
    ///
    /// An operation in a hurry takes the steps one by one, without a future around the common case:
    ///
    /// ```text
    ///  claim ── first ──► push_lock, submit, judge_lock ── won ──► held
    ///    └─ queued ─► acquire_slowly            └─ lost ─► acquire_slowly
    /// ```
    async fn acquire(
        &self,
        lane: &Lane<'_>,
        protects: Address,
        follow: Option<Self::Follow>,
    ) -> Result<(Held, bool), Interrupt> {
        let claim = self.claim(lane, protects)?;
        if claim.queued {
            return self.acquire_queued(lane, claim.held, follow).await;
        }
        self.acquire_first(lane, claim.held, follow).await
    }

    /// Begins a lock record and asks for the local entry.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    fn claim(&self, lane: &Lane<'_>, protects: Address) -> Result<Claim, OpError> {
        let lock = self.lock_of(protects)?;
        let queues = self.queues();
        if !queues.knows(lane.id()) {
            return Err(OpError::harmless(Cause::BadInput("a lane number past what the index was opened for")));
        }
        self.check_lease(lane)?;
        let word = self.next_word(lane)?;
        lane.track(LockRecord { word, ..LockRecord::queued(lock, protects) })?;
        let queued =
            self.techniques().hierarchical && queues.enter(lock, lane.id(), self.tag(protects)) == Entered::Queued;
        Ok(Claim { held: Held { lock, protects, word, free: self.expected(lock, protects) }, queued })
    }

    /// Pushes the CAS and what follows it; its position. The lane is the local entry's holder.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    fn push_lock(&self, lane: &Lane<'_>, held: &Held, follow: Option<Self::Follow>) -> usize {
        lane.advance(held.lock, Stage::Posted);
        let cas = lane.port().push(self.take_request(held));
        if let Some(follow) = follow {
            self.push_follow(lane, held, follow);
        }
        cas
    }

    /// Judges the completion of the CAS that [`Locks::push_lock`] pushed: `Err` is the word found, a holder's or one
    /// that the lane did not expect. If the submit failed, the lock record stays: whether the CAS won is not known, and
    /// settling looks.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    fn judge_lock(&self, lane: &Lane<'_>, held: Held, cas: usize) -> Result<Held, u64> {
        let found = lane.port().completion(cas).value;
        let is_held = Self::is_held(found);
        if self.techniques().chained == ChainedRead::WhereQuiet {
            self.queues().saw(held.lock, !is_held);
        }
        let lost = is_held || found != held.free && !self.takes_any_free_word();
        if lost && !planted(Mutant::LOST_CAS_WINS) {
            return Err(found);
        }
        self.hold(lane, held.lock);
        Ok(held.freed_as(found))
    }

    async fn acquire_first(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Self::Follow>,
    ) -> Result<(Held, bool), Interrupt> {
        let cas = self.push_lock(lane, &held, follow);
        lane.port().submit().await?;
        match self.judge_lock(lane, held, cas) {
            Ok(held) => Ok((held, follow.is_some())),
            Err(found) => self.acquire_again(lane, held, follow, found).await,
        }
    }

    /// The rest of an acquisition whose CAS lost against the word `lost`; or, `None`, whose lane is in the local queue.
    async fn acquire_slowly(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Self::Follow>,
        lost: Option<u64>,
    ) -> Result<(Held, bool), Interrupt> {
        match lost {
            Some(found) => self.acquire_again(lane, held, follow, found).await,
            None => self.acquire_queued(lane, held, follow).await,
        }
    }

    /// Waits in the local queue, then goes on as if it had been first, unless the word comes along.
    async fn acquire_queued(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Self::Follow>,
    ) -> Result<(Held, bool), Interrupt> {
        let port = lane.port();
        lane.mark(Mark::LOCK_QUEUED);
        loop {
            port.push(Request::park(lane.remaining_ns()));
            port.submit().await?;
            match self.queues().turn(held.lock, lane.id()) {
                Turn::Wait => {
                    if let Err(late) = lane.check_deadline() {
                        self.leave_queue(lane, held).await?;
                        return Err(late.into());
                    }
                }
                Turn::Acquire => break,
                Turn::Owned(handed) => {
                    lane.mark(Mark::HAND_OVER);
                    return Ok((self.receive(lane, held, handed), false));
                }
            }
        }
        let held = held.freed_as(self.expected(held.lock, held.protects));
        self.acquire_first(lane, held, follow).await
    }

    /// Takes a lock whose word came with the local entry.
    fn receive(&self, lane: &Lane<'_>, held: Held, handed: Handed) -> Held {
        lane.received(held.lock, handed.word, handed.has_redo_record);
        self.hold(lane, held.lock);
        Held { word: handed.word, free: self.handed_free(held.lock, held.protects), ..held }
    }

    /// Tries again and again, after a CAS that found the word `found`.
    async fn acquire_again(
        &self,
        lane: &Lane<'_>,
        held: Held,
        follow: Option<Self::Follow>,
        found: u64,
    ) -> Result<(Held, bool), Interrupt> {
        let port = lane.port();
        let Held { lock, protects, .. } = held;
        let mut found = found;
        // The lock has a holder: what is READ at once is more likely to be READ for nothing.
        let is_quiet = Self::FOLLOWS || self.techniques().chained != ChainedRead::WhereQuiet || !Self::is_held(found);
        let follow = follow.filter(|_| is_quiet);
        let mut held = held.freed_as(self.expected(lock, protects));
        let mut pause_ns = BACK_OFF_NS.0;
        let began_ns = port.elapsed_ns();
        let wait_ns_max = if lane.has_deadline() { u64::MAX } else { self.wait_ns_max() };
        for _ in 1..ATTEMPTS_MAX {
            let waited_ns = port.elapsed_ns() - began_ns;
            lane.mark(if Self::is_held(found) { Mark::LOCK_LOST } else { Mark::GUESS_WRONG });
            lane.advance(lock, Stage::Queued);
            if lane.check_deadline().is_err() || waited_ns > wait_ns_max {
                break;
            }
            if Self::is_held(found) {
                let long_ns = match self.watch_holder(lane, found) {
                    // With the local entry: the others of this compute node wait behind it, and do not look themselves.
                    Watched::Unresponsive => {
                        return Err(Interrupt::Unresponsive(LockRecord::queued(lock, protects)));
                    }
                    Watched::Wait(ns) => ns,
                };
                if self.techniques().back_off || waited_ns > LONG_NS {
                    // Exponential back-off with a lane-dependent part, so that losers do not return in step.
                    pause_ns = pause_ns.max(waited_ns / LONG_PART);
                    let jitter = (u64::from(lane.next_turn() >> 16) * pause_ns) >> 16;
                    port.push(Request::pause(long_ns.unwrap_or(pause_ns / 2 + jitter / 2)));
                    port.submit().await?;
                    pause_ns = (pause_ns * 2).min(BACK_OFF_NS.1);
                }
            } else {
                held.free = found;
            }
            let cas = self.push_lock(lane, &held, follow);
            port.submit().await?;
            match self.judge_lock(lane, held, cas) {
                Ok(held) => return Ok((held, follow.is_some())),
                Err(other) => found = other,
            }
        }
        self.leave(lane, lock);
        lane.check_deadline()?;
        Err(OpError::harmless(Cause::Retries { attempts: ATTEMPTS_MAX, what: "acquiring a lock" }).into())
    }

    /// Gives up a place in the local queue. If the turn came after all, passes it on.
    async fn leave_queue(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        match self.queues().cancel(held.lock, lane.id()) {
            Turn::Wait => lane.untrack(held.lock),
            Turn::Acquire => self.leave(lane, held.lock),
            Turn::Owned(handed) => {
                let held = self.receive(lane, held, handed);
                self.release(lane, held).await?;
            }
        }
        Ok(())
    }

    /// Tries to acquire without waiting, by a CAS of the lane's own: for a second lock, where waiting could deadlock.
    async fn try_acquire(
        &self,
        lane: &Lane<'_>,
        protects: Address,
        follow: Option<Self::Follow>,
    ) -> Result<Option<Held>, OpError> {
        let lock = self.lock_of(protects)?;
        self.check_lease(lane)?;
        let word = self.next_word(lane)?;
        if !self.queues().knows(lane.id())
            || !self.try_enter(lane, LockRecord { stage: Stage::Posted, word, ..LockRecord::queued(lock, protects) })?
        {
            return Ok(None);
        }
        let mut held = Held { lock, protects, word, free: self.expected(lock, protects) };
        // A second time if the word was free and said something else. Not a third: the lane that changes it is about to
        // use the node.
        for _ in 0..2 {
            let cas = self.push_lock(lane, &held, follow);
            lane.port().submit().await?;
            let found = match self.judge_lock(lane, held, cas) {
                Ok(held) => return Ok(Some(held)),
                Err(found) => found,
            };
            if Self::is_held(found) {
                lane.mark(Mark::LOCK_LOST);
                break;
            }
            lane.mark(Mark::GUESS_WRONG);
            held.free = found;
        }
        self.leave(lane, lock);
        Ok(None)
    }

    /// Writes back and releases: the WRITEs are pushed already, all to the lock's memory node, and nothing else is.
    ///
    /// With command combination the unlock follows them in their chain; when the lock is handed over there is no
    /// unlock. Past this call's first submit the change may have been made: errors say `Unknown`.
    async fn release_with(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        let unlock = self.push_unlock(lane, &held)?;
        lane.port().submit().await.map_err(unknown)?;
        match unlock {
            Some(unlock) => self.released(lane, held, unlock),
            None => self.release_written(lane, held).await,
        }
    }

    /// The unlock of what is held.
    #[inline]
    fn unlock_request(&self, held: &Held) -> Request {
        // A word that nobody holds never has that bit.
        let free = held.free & !HELD;
        if self.unlock() == Unlock::Cas {
            return self.word_request(Label::Unlock, (held.lock, held.protects), held.word, free);
        }
        let (node, offset, space) = self.word_place(held.lock, held.protects);
        Request::write_word(Label::Unlock, node, offset, free).in_space(space)
    }

    /// How the word is freed.
    #[inline]
    fn unlock(&self) -> Unlock {
        match self.techniques().unlock {
            Unlock::Cas if planted(Mutant::UNLOCK_BY_WRITE) => Unlock::Write,
            unlock => unlock,
        }
    }

    /// What a release with WRITEs pushes itself. `None`: the lock is released when they are done
    /// ([`Locks::release_written`]), because it is handed over or commands are not combined.
    #[expect(
        clippy::inline_always,
        reason = "its result is taken apart at once; in memory that costs more than it does"
    )]
    #[inline(always)]
    fn push_unlock(&self, lane: &Lane<'_>, held: &Held) -> Result<Option<usize>, OpError> {
        let port = lane.port();
        if let Err(late) = self.check_lease(lane) {
            // The lock record stays: settling frees the word, if nobody has taken the lock over by then.
            port.withdraw();
            lane.wrote_nothing();
            return Err(late);
        }
        let Techniques { hierarchical, combine, .. } = self.techniques();
        let passes =
            hierarchical && self.queues().would_pass(held.lock, self.tag(held.protects)) && lane.may_pass(held.lock);
        if !combine || passes {
            return Ok(None);
        }
        let how = self.unlock();
        let extended = if how > Unlock::Write { self.extend_to_word(lane, held, how) } else { None };
        let unlock = match extended {
            Some(unlock) => unlock,
            None => port.push(self.unlock_request(held)),
        };
        Ok(Some(if planted(Mutant::UNLOCK_FIRST) { port.last_first() } else { unlock }))
    }

    /// Judges the completion of an unlock that followed WRITEs.
    #[inline]
    fn released(&self, lane: &Lane<'_>, held: Held, unlock: usize) -> Result<(), OpError> {
        self.unlocked(lane, held, lane.port().completion(unlock)).map_err(unknown)
    }

    /// Releases after WRITEs that are done.
    async fn release_written(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        self.release(lane, held).await.map_err(|error| unknown(error.cause))
    }

    /// Releases a lock with nothing to write back: hands it over, or unlocks and waits for that.
    async fn release(&self, lane: &Lane<'_>, held: Held) -> Result<(), OpError> {
        let has_redo_record = lane.holds(held.lock).is_some_and(|lock_record| lock_record.has_redo_record);
        // While this lane holds the local entry: the next one that does may want to know.
        self.remember(&held, false);
        if self.techniques().hierarchical
            && lane.may_pass(held.lock)
            && let Some(next) =
                self.queues().pass(held.lock, self.tag(held.protects), Handed { word: held.word, has_redo_record })
        {
            self.untrack(lane, held.lock);
            lane.port().push(Request::wake(next));
            if planted(Mutant::HAND_OVER_UNLOCKS) {
                lane.port().push(self.unlock_request(&held).unsignaled());
            }
            return Ok(());
        }
        let completion = lane.port().call(self.unlock_request(&held)).await?;
        self.unlocked(lane, held, completion).map_err(OpError::harmless)
    }

    /// Judges the completion of an unlock.
    #[inline]
    fn unlocked(&self, lane: &Lane<'_>, held: Held, completion: Completion) -> Result<(), Cause> {
        self.remember(&held, true);
        self.leave(lane, held.lock);
        // A WRITE that completed was executed before this compute node's queue pairs were closed, so before any takeover.
        if self.unlock() != Unlock::Cas || completion.value == held.word { Ok(()) } else { Err(Cause::Fenced) }
    }

    /// Settles the lane's lock records of this kind: see [`crate::index::Index::settle`].
    ///
    /// Every posted request has completed by then, so the remote word tells whether a posted CAS won, or whether an
    /// unlock has freed it. A lock that was held may protect a half-split, which is a legal state: the next operation
    /// that meets it finishes it.
    ///
    /// If the lock's memory node is down, or this compute node was fenced, there is no word to free any more: the
    /// record is dropped, and the lanes in the local queue get their turn and learn the same. Any other failure leaves
    /// that record, to be settled again, and goes on with the others.
    async fn settle_locks(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let mut outcome = Ok(());
        for lock_record in
            lane.lock_records().into_iter().filter(|lock_record| lock_record.lock.in_node() == Self::IN_NODES)
        {
            match self.settle_lock(lane, lock_record).await {
                Ok(()) => {}
                Err(OpError { cause: Cause::Verb(error), .. })
                    if matches!(error.status, Status::NodeDown | Status::Fenced) =>
                {
                    self.leave(lane, lock_record.lock);
                }
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            }
            lane.mark(Mark::SETTLED);
        }
        outcome
    }

    async fn settle_lock(&self, lane: &Lane<'_>, lock_record: LockRecord) -> Result<(), OpError> {
        let at = self.scratch_at();
        lane.close(at).await?;
        let mut lock_record = lock_record;
        if lock_record.stage == Stage::Queued {
            let hierarchical = self.techniques().hierarchical;
            match if hierarchical { self.queues().cancel(lock_record.lock, lane.id()) } else { Turn::Wait } {
                Turn::Wait => {
                    lane.untrack(lock_record.lock);
                    return Ok(());
                }
                Turn::Acquire => {
                    self.leave(lane, lock_record.lock);
                    return Ok(());
                }
                Turn::Owned(Handed { word, has_redo_record }) => {
                    // The table says so once: if this future is dropped too, the record tells the next.
                    lock_record = LockRecord { stage: Stage::Held, word, has_redo_record, ..lock_record };
                    lane.track(lock_record)?;
                }
            }
        } else {
            // Posted: the CAS may have won. Held: the future may have been dropped with the unlock on its way.
            let (node, offset, space) = self.word_place(lock_record.lock, lock_record.protects);
            lane.port().call(Request::read(Label::Lock, node, offset, 8, at).in_space(space)).await?;
            let word = lane.port().with(|scratch| word_at(scratch, at));
            if planted(Mutant::SETTLE_FREES_STRANGER) && word != 0 {
                lock_record.word = word;
            }
            if word != lock_record.word || planted(Mutant::SETTLE_FORGETS) {
                self.leave(lane, lock_record.lock);
                return Ok(());
            }
        }
        // WRITEs under the lock are whole or were not begun, since their requests have completed; or their queue pair
        // failed, and a redo record says what may be torn.
        if lock_record.has_redo_record {
            self.replay_own(lane, &lock_record).await?;
        }
        let free = self.free_word(lane, lock_record.protects).await?;
        self.release(
            lane,
            Held { lock: lock_record.lock, protects: lock_record.protects, word: lock_record.word, free },
        )
        .await
    }
}
