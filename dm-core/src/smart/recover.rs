//! Recovery: locks of leaves whose holders died, in the terms of [`crate::recovery`].
//!
//! Only leaves need any. What else a dead compute node leaves behind is whole: a slot has changed or it has not, nodes and
//! leaves that no slot leads to are nobody's business, and whoever needs a node that it had begun to freeze replaces it
//! (`switch`).
//!
//! **What a crash leaves in a leaf.** Its lock, and amid the WRITE of seal and value a mixture, which fits no seal, so that
//! readers know it, even of parts of a line. They end up at the lock, take it over, and the redo image that went ahead of the
//! WRITE is replayed. A WRITE that lands all or nothing has no image.
//!
//! **Sweeping.** Leaves are carved from the first byte of their chunks on, one behind the other, so a walk over the places in
//! all chunks for leaves finds every lock word there is; also of leaves that no slot leads to. Where no leaf was ever written
//! bytes are zero.

use super::Smart;
use super::lock::{LeafHeld, local};
use crate::error::VerbError;
use crate::index::catalog::{self, CatalogError};
use crate::lane::watch::Watched;
use crate::lane::{Debt, Lane, Stage};
use crate::layout::word_at;
use crate::locks::table::{LockTable, try_enter_tracked};
use crate::marks::Mark;
use crate::membership::fence::{Fenced, fence};
use crate::membership::redo::Writes;
use crate::membership::rows;
use crate::memory::chunks;
use crate::mutants::{Bug, planted};
use crate::operation::{Cause, Effect, OpError};
use crate::radix::slot::{NODE_BYTES_MAX, Place};
use crate::recovery::Swept;
use crate::recovery::takeover::{Guarded, Site};
use crate::remote::NodeGeometry;
use crate::remote::catalog::IndexEntry;
use crate::remote::catalog::IndexNumber;
use crate::remote::chunk::ChunkKind;
use crate::remote::lock_word::{LockId, LockWord, RowId};
use crate::remote::row::RowState;
use crate::verbs::{Label, NodeId, Request, Space, Status};

/// Lock word sequences a lane takes at once, without recovery.
const SEQUENCES_AT_ONCE: u64 = 1 << 10;

/// Passes over all leaves before a sweep gives up on locks its own compute node is busy with, and the pause between two, in ns.
const PASSES_MAX: u32 = 64;
const PASS_NS: u64 = 1_000_000;

/// Bytes of leaves that a sweep READs at once, at most: the room for images of nodes.
const WINDOW_BYTES: usize = NODE_BYTES_MAX * super::parameters::NODE_IMAGES;

impl Guarded for Smart<'_> {
    fn site(&self) -> Option<Site<'_>> {
        let (geometry, owner, room) = (self.geometry, self.owner, &self.scratch.recovery);
        self.recovery.map(|recovery| Site { recovery, geometry, owner, room })
    }

    fn queue(&self, lock: LockId) -> Option<(&LockTable<'_>, LockId)> {
        self.options.hierarchical.then_some((&self.locks, local(lock)))
    }

    fn word_place(&self, debt: &Debt) -> (NodeId, u64, Space) {
        let leaf = Place::of(debt.protects);
        (leaf.node(), self.lock_offset(leaf), Space::Host)
    }

    fn word_request(&self, label: Label, debt: &Debt, compare: u64, swap: u64) -> Request {
        let (node, offset, _) = self.word_place(debt);
        Request::cas(label, node, offset, compare, swap)
    }

    fn word_for(&self, lane: &Lane<'_>, _: LockId) -> Result<u64, OpError> {
        self.next_word(lane)
    }

    async fn free_word(&self, _: &Lane<'_>, _: &Debt) -> Result<u64, OpError> {
        Ok(LockWord::FREE.0)
    }

    fn leave(&self, lane: &Lane<'_>, lock: LockId) {
        Smart::leave(self, lane, lock);
    }
}

impl Smart<'_> {
    /// The word of a new acquisition.
    pub(super) fn next_word(&self, lane: &Lane<'_>) -> Result<u64, OpError> {
        let word = if let Some(recovery) = self.recovery {
            recovery.word(lane)
        } else {
            LockWord::new(self.owner.row, lane.next_sequence(|| self.locks.sequences(SEQUENCES_AT_ONCE)))
        };
        let used_up = OpError::harmless(Cause::BadInput("this incarnation has used all its lock words: join anew"));
        word.map(|word| word.0).ok_or(used_up)
    }

    /// Whether this compute node may post WRITEs to what is published: its lease is not over, as far as it knows.
    pub(super) fn check_lease(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        if self.recovery.is_some_and(|recovery| !recovery.lease.may_write()) {
            lane.mark(Mark::SelfFenced);
            return Err(OpError::harmless(Cause::Fenced));
        }
        Ok(())
    }

    /// Refuses an operation of a compute node that was fenced off.
    pub(super) fn check_standing(&self) -> Result<(), OpError> {
        if self.recovery.is_some_and(|recovery| recovery.lease.is_fenced()) {
            return Err(OpError::harmless(Cause::Fenced));
        }
        Ok(())
    }

    /// The lock is held from now on.
    pub(super) fn hold(&self, lane: &Lane<'_>, lock: LockId) {
        if let Some(recovery) = self.recovery {
            recovery.holding(lane, true);
        }
        lane.advance(lock, Stage::Held);
    }

    pub(super) fn paid(&self, lane: &Lane<'_>, lock: LockId) {
        lane.paid(lock);
        if let Some(recovery) = self.recovery
            && !lane.owes()
        {
            recovery.holding(lane, false);
        }
    }

    /// Notes that a CAS lost against the word `found`.
    pub(super) fn watch_holder(&self, lane: &Lane<'_>, found: u64) -> Watched {
        let Some(recovery) = self.recovery else { return Watched::Wait(None) };
        recovery.watch_holder(lane, found)
    }

    /// Pushes the WRITE of the first `bytes` of leaf image 0 to the leaf that is held, behind a redo image if it may land in
    /// part.
    pub(super) fn push_in_place(&self, lane: &Lane<'_>, held: &LeafHeld, bytes: usize) -> Result<(), OpError> {
        let port = lane.port();
        let (node, offset, at) = (held.place.node(), held.place.offset(), self.scratch.leaf(0));
        let write = Request::write(Label::Entry, node, offset, bytes, at);
        if planted(Bug::ImageAfterData) {
            port.push(write);
        }
        if let Some(recovery) = self.recovery
            && let Some(debt) = lane.holds(held.lock)
            && (debt.imaged || recovery.may_tear(offset, bytes))
        {
            recovery.push_image(lane, debt, node, Writes::one(offset, bytes), at)?;
        }
        if !planted(Bug::ImageAfterData) {
            port.push(write);
        }
        Ok(())
    }

    /// Passes on how an attempt ended; unless a lock was in the way whose holder is silent: then looks after that, and says
    /// `None`: try again. `leads`: the lane leads a batch, which waits.
    pub(super) async fn unless_silent<T>(
        &self,
        lane: &Lane<'_>,
        leads: bool,
        result: Result<T, OpError>,
    ) -> Result<Option<T>, OpError> {
        let result = match (result, lane.take_suspect()) {
            // One that is met when the operation has made its change is for others to look after.
            (Err(OpError { effect: Effect::None, .. }), Some(debt)) if !lane.owes() && (leads || !lane.is_joined()) => {
                self.look_after(lane, debt).await.map(|()| None)
            }
            (result, _) => result.map(Some),
        };
        result.map_err(|error| self.note_fencing(error))
    }

    /// What a memory node says of a compute node that was fenced off is the end of it, not the failure of a request.
    fn note_fencing(&self, error: OpError) -> OpError {
        let fenced = matches!(error.cause, Cause::Verb(VerbError { status: Status::Fenced, .. }));
        if let (true, Some(recovery)) = (fenced, self.recovery) {
            recovery.lease.fenced();
            return OpError { cause: Cause::Fenced, ..error };
        }
        error
    }

    /// Sweeps up after the compute node of `row`, if that is FENCING or DEAD, or silent for the lease that this waits; one that
    /// lives is left alone. The lane must not be in an operation.
    ///
    /// Round trips: one for 8 KiB of leaves, one per chunk, and what each lock takes.
    pub(super) async fn sweep_row(&self, lane: &Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        let Some(site) = self.site() else {
            return Err(OpError::harmless(Cause::BadInput("this index was opened without recovery")));
        };
        lane.check_settled()?;
        let mut swept = Swept::default();
        let (Some(home), Some(seen)) = (self.geometry.first(), site.read_row(lane, row).await?) else {
            return Ok(swept);
        };
        let word = seen.word;
        match word.state() {
            Some(RowState::Fencing | RowState::Dead) => {}
            Some(RowState::Live) if row == self.owner.row => return Ok(swept),
            Some(RowState::Live) => {
                if !site.lease_is_over(lane, row).await? {
                    return Ok(swept);
                }
            }
            Some(RowState::Free) => {
                swept.row_free = true;
                return Ok(swept);
            }
            _ => return Ok(swept),
        }
        if fence(lane, self.geometry, row, word).await? == Fenced::Gone {
            return Ok(swept);
        }
        let word = word.with_state(RowState::Dead);
        let mut passes = 0;
        loop {
            let (found, busy) = self.sweep_leaves(lane, site, row, word.incarnation()).await?;
            swept.locks += found;
            // A pass that found some is followed by one that finds none: what was busy, or taken by a repairer that
            // died since, is met again.
            if found == 0 && !busy {
                break;
            }
            passes += 1;
            if passes == PASSES_MAX {
                let what = "sweeping the locks of a row";
                return Err(OpError::harmless(Cause::Retries { attempts: PASSES_MAX, what }));
            }
            lane.check_deadline()?;
            lane.port().call(Request::pause(PASS_NS)).await?;
        }
        if self.is_for_others(lane, site, home, row, word.incarnation()).await? {
            return Ok(swept);
        }
        self.sweep_chunks(lane, site, row, word.incarnation(), &mut swept).await?;
        let next = rows::advance(lane, home, row, word, RowState::Free).await;
        let next = next.map_err(|_| OpError::harmless(Cause::BadInput("the row cannot be freed")))?;
        swept.row_free = next.state() == Some(RowState::Free) || next.incarnation() != word.incarnation();
        lane.mark(Mark::RowSwept);
        Ok(swept)
    }

    /// Whether the row may be named by locks of another index, which only those know who know that. A compute node has one index
    /// open, and its redo chunks say which.
    async fn is_for_others(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        home: &NodeGeometry,
        row: RowId,
        incarnation: u32,
    ) -> Result<bool, OpError> {
        let mut others = false;
        let mut look = |entry: &IndexEntry| others |= entry.number != self.number;
        match catalog::list(lane, home, self.scratch.small, &mut look).await {
            Ok(()) if !others => return Ok(false),
            Ok(()) => {}
            Err(CatalogError::Verb(error)) => return Err(error.into()),
            Err(_) => return Err(OpError::harmless(Cause::BadInput("the catalog of the pool cannot be read"))),
        }
        for (number, geometry) in self.geometry.iter().enumerate() {
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = site.read_grant(lane, NodeId(number as u16), geometry, chunk).await? else {
                    continue;
                };
                let is_theirs = grant.row == row && u32::from(grant.incarnation) == incarnation;
                if is_theirs && grant.kind == ChunkKind::Redo && grant.index != IndexNumber::NONE {
                    return Ok(grant.index != self.number);
                }
            }
        }
        Ok(true)
    }

    /// One pass over all leaves: locks recovered, and whether some could not be because a lane of this compute node is at them.
    async fn sweep_leaves(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        row: RowId,
        incarnation: u32,
    ) -> Result<(u32, bool), OpError> {
        let (mut recovered, mut busy) = (0, false);
        if planted(Bug::LeavesUnswept) {
            return Ok((recovered, busy));
        }
        let place_bytes = self.leaf.place_bytes;
        let per_window = (WINDOW_BYTES / place_bytes).max(1) as u64;
        let at = self.scratch.nodes;
        for (number, geometry) in self.geometry.iter().enumerate() {
            let node = NodeId(number as u16);
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = site.read_grant(lane, node, geometry, chunk).await? else { continue };
                if grant.kind != ChunkKind::Leaf || grant.index != self.number {
                    continue;
                }
                let places = geometry.chunk_bytes / place_bytes as u64;
                let leaf = |place: u64| Place::new(node, geometry.chunk_offset(chunk) + place * place_bytes as u64);
                let mut first = 0;
                while first < places {
                    let count = per_window.min(places - first);
                    let bytes = count as usize * place_bytes;
                    let read = Request::read(Label::Lock, node, leaf(first).offset(), bytes, at).untimed();
                    lane.port().call(read).await?;
                    for step in 0..count {
                        let lock_at = at + step as usize * place_bytes + self.leaf.lock_at;
                        let word = LockWord(lane.port().with(|scratch| word_at(scratch, lock_at)));
                        if word.row() != row {
                            continue;
                        }
                        if self.sweep_leaf(lane, site, leaf(first + step), row, incarnation).await? {
                            recovered += 1;
                        } else {
                            busy = true;
                        }
                    }
                    first += count;
                }
            }
        }
        Ok((recovered, busy))
    }

    /// Recovers the lock of one leaf. `false`: a lane of this compute node is at it, and does that itself.
    async fn sweep_leaf(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        leaf: Place,
        row: RowId,
        incarnation: u32,
    ) -> Result<bool, OpError> {
        let lock = self.leaf_lock(leaf)?;
        let debt = Debt::queued(lock, leaf.address());
        if !try_enter_tracked(self.queue(lock), lane, debt)? {
            return Ok(false);
        }
        let at = self.scratch.small;
        lane.port().call(Request::read(Label::Lock, leaf.node(), self.lock_offset(leaf), 8, at)).await?;
        let word = LockWord(lane.port().with(|scratch| word_at(scratch, at)));
        if word.row() == row {
            self.recover(lane, site, debt, word, incarnation).await?;
        }
        self.leave(lane, lock);
        Ok(true)
    }

    /// Gives the row's redo chunks back, for redo images; those for nodes and leaves stay its own.
    async fn sweep_chunks(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        row: RowId,
        incarnation: u32,
        swept: &mut Swept,
    ) -> Result<(), OpError> {
        for (number, geometry) in self.geometry.iter().enumerate() {
            let node = NodeId(number as u16);
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = site.read_grant(lane, node, geometry, chunk).await? else { continue };
                // Somebody may have freed the row meanwhile, and a later incarnation may have chunks already.
                if grant.row != row || u32::from(grant.incarnation) > incarnation {
                    continue;
                }
                if grant.kind != ChunkKind::Redo {
                    swept.chunks_kept += 1;
                    continue;
                }
                swept.chunks_freed += u32::from(chunks::set_used(lane, node, geometry, chunk, &grant).await?);
            }
        }
        Ok(())
    }
}
