//! After a death: every lock that names the dead row is recovered, memory nobody uses comes back, the row is free.
//!
//! Safe while the pool is in use, and by several at once: a lock is recovered as a waiter would recover it, a chunk
//! changes hands by CAS, the row is freed by CAS. No lock can come to name a DEAD row, so one walk over the lock tables
//! finds them all.
//!
//! **What comes back.** Redo chunks, and chunks in which no node was ever written, to everybody. A chunk with nodes stays
//! granted to the dead, because nodes of it are in the tree, until somebody who lives adopts it: see [`crate::reclaim`].
//! [`Swept`] says how many bytes of such chunks were never written.

use super::Recovery;
use crate::btree::Tree;
use crate::btree::lock::word_at;
use crate::btree::node::Header;
use crate::compute::nodes::NodeClass;
use crate::error::{Cause, OpError};
use crate::lane::{Debt, Lane, LockId, Mark, Stage};
use crate::planted::{Bug, planted};
use crate::remote::address::{Address, LINE_BYTES};
use crate::remote::chunks::{self, ChunkEntry, ChunkKind, Grant};
use crate::remote::lock_word::{LockWord, RowId};
use crate::remote::rows::{self, RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request, Space};

/// Lock words, or chunk entries, that one READ brings.
const WINDOW: u32 = 64;

/// Passes over the lock tables before a sweep gives up on locks its own compute node is busy with.
const PASSES_MAX: u32 = 64;

/// Between two passes, in ns.
const PASS_NS: u64 = 1_000_000;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Locks that named the row.
    pub locks: u32,
    /// Chunks given back.
    pub chunks_freed: u32,
    /// Chunks with nodes that stay granted to the dead row until they are adopted.
    pub chunks_kept: u32,
    /// Bytes of never written nodes in them.
    pub unwritten_bytes: u64,
    /// Whether the row was freed, by this sweep or another.
    pub row_free: bool,
}

impl Tree<'_> {
    /// Sweeps up after the compute node of `row`, if that is FENCING or DEAD, or silent for the lease that this waits;
    /// one that lives is left alone. Chunks are those of this index and redo chunks. The lane must not be in an
    /// operation.
    ///
    /// Round trips: one per 64 lock words and one per 64 chunks of every memory node, and what each lock takes.
    pub async fn sweep(&self, lane: &Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        let Some(recovery) = self.recovery else {
            return Err(OpError::harmless(Cause::BadInput("this index was opened without recovery")));
        };
        let Some(home) = self.geometry.first() else { return Ok(Swept::default()) };
        let mut swept = Swept::default();
        let Some(word) = self.row_word(lane, home, row).await? else { return Ok(swept) };
        match word.state() {
            Some(RowState::Fencing | RowState::Dead) => {}
            Some(RowState::Live) if recovery.is_self(row) => return Ok(swept),
            Some(RowState::Live) => {
                if !self.lease_is_over(lane, recovery, row).await? {
                    return Ok(swept);
                }
            }
            Some(RowState::Free) => {
                swept.row_free = true;
                return Ok(swept);
            }
            _ => return Ok(swept),
        }
        if super::fence::fence(lane, self.geometry, row, word).await? == super::fence::Fenced::Gone {
            return Ok(swept);
        }
        let word = word.with_state(RowState::Dead);
        let mut clean = false;
        for _ in 0..PASSES_MAX {
            let (found, busy) = if planted(Bug::RowFreedUnswept) {
                (0, false)
            } else {
                self.sweep_locks(lane, recovery, row, word.incarnation()).await?
            };
            swept.locks += found;
            // A pass that found some is followed by one that finds none: what was busy, or taken by a repairer that
            // died since, is met again.
            clean = found == 0 && !busy;
            if clean {
                break;
            }
            lane.check_deadline()?;
            lane.port().call(Request::pause(PASS_NS)).await?;
        }
        if !clean {
            return Err(OpError::harmless(Cause::Retries {
                attempts: PASSES_MAX,
                what: "sweeping the locks of a row",
            }));
        }
        self.sweep_chunks(lane, row, word.incarnation(), &mut swept).await?;
        let next = rows::advance(lane, home, row, word, RowState::Free).await;
        let next = next.map_err(|_| OpError::harmless(Cause::BadInput("the row cannot be freed")))?;
        swept.row_free = next.state() == Some(RowState::Free) || next.incarnation() != word.incarnation();
        lane.mark(Mark::RowSwept);
        Ok(swept)
    }

    /// Watches a row for a lease. Whether it was silent all the time.
    async fn lease_is_over(&self, lane: &Lane<'_>, recovery: &Recovery<'_>, row: RowId) -> Result<bool, OpError> {
        const LOOKS: u64 = 16;
        let first = self.read_row(lane, row).await?;
        let lease_ns = recovery.lease.terms().lease_ns().max(first.map_or(0, |row| row.lease_ns));
        // The pauses alone make a whole lease.
        for _ in 0..LOOKS {
            lane.port().call(Request::pause(lease_ns.div_ceil(LOOKS))).await?;
            if self.read_row(lane, row).await? != first {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn row_word(&self, lane: &Lane<'_>, home: &NodeGeometry, row: RowId) -> Result<Option<RowWord>, OpError> {
        if row.0 == 0 || u32::from(row.0) >= home.row_count {
            return Ok(None);
        }
        let at = self.scratch.recovery.start;
        lane.port().call(Request::read(Label::Row, HOME, home.row_offset(row), 8, at)).await?;
        Ok(Some(RowWord(lane.port().with(|scratch| word_at(scratch, at)))))
    }

    /// One pass over all lock tables: locks recovered, and whether some could not be because a lane of this compute
    /// node is at them.
    async fn sweep_locks(
        &self,
        lane: &Lane<'_>,
        recovery: &Recovery<'_>,
        row: RowId,
        incarnation: u32,
    ) -> Result<(u32, bool), OpError> {
        let (mut recovered, mut busy) = (0, false);
        for (number, geometry) in self.geometry.iter().enumerate() {
            let node = NodeId(number as u16);
            let mut first = 0;
            while first < geometry.lock_count {
                let count = WINDOW.min(geometry.lock_count - first);
                let at = self.scratch.recovery.start;
                let read = Request::read(Label::Lock, node, geometry.lock_offset(first), count as usize * 8, at);
                lane.port().call(read.in_space(geometry.lock_space)).await?;
                let mut named: u64 = lane.port().with(|scratch| {
                    (0..count).fold(0, |set, i| {
                        let word = LockWord(word_at(scratch, at + i as usize * 8));
                        set | u64::from(word.row() == row) << i
                    })
                });
                while named != 0 {
                    let lock = LockId { node, index: first + named.trailing_zeros() };
                    named &= named - 1;
                    if self.sweep_lock(lane, recovery, lock, row, incarnation).await? {
                        recovered += 1;
                    } else {
                        busy = true;
                    }
                }
                first += count;
            }
        }
        Ok((recovered, busy))
    }

    /// Recovers one lock. `false`: a lane of this compute node is at it, and does that itself.
    async fn sweep_lock(
        &self,
        lane: &Lane<'_>,
        recovery: &Recovery<'_>,
        lock: LockId,
        row: RowId,
        incarnation: u32,
    ) -> Result<bool, OpError> {
        if self.options.hierarchical && !self.locks.try_enter(lock, lane.id()) {
            return Ok(false);
        }
        let debt = Debt { lock, stage: Stage::Queued, word: 0, protects: Address::NULL, imaged: false };
        lane.owe(debt)?;
        let at = self.scratch.recovery.start;
        let geometry = self.geometry.get(usize::from(lock.node.0));
        let (offset, space) =
            geometry.map_or((0, Space::default()), |node| (node.lock_offset(lock.index), node.lock_space));
        lane.port().call(Request::read(Label::Lock, lock.node, offset, 8, at).in_space(space)).await?;
        let word = LockWord(lane.port().with(|scratch| word_at(scratch, at)));
        if word.row() == row {
            self.recover(lane, recovery, debt, word, incarnation).await?;
        }
        self.leave(lane, lock);
        Ok(true)
    }

    async fn sweep_chunks(
        &self,
        lane: &Lane<'_>,
        row: RowId,
        incarnation: u32,
        swept: &mut Swept,
    ) -> Result<(), OpError> {
        for (number, geometry) in self.geometry.iter().enumerate() {
            let node = NodeId(number as u16);
            for chunk in 0..geometry.chunk_count {
                let at = self.scratch.recovery.start;
                lane.port().call(Request::read(Label::Chunk, node, geometry.chunk_entry(chunk), 8, at)).await?;
                let entry = lane.port().with(|scratch| chunks::ChunkWord(word_at(scratch, at)).decode());
                let Ok(ChunkEntry::Granted(grant)) = entry else { continue };
                // Somebody may have freed the row meanwhile, and a later incarnation may have chunks already.
                if grant.row != row || u32::from(grant.incarnation) > incarnation {
                    continue;
                }
                self.sweep_chunk(lane, node, geometry, chunk, grant, swept).await?;
            }
        }
        Ok(())
    }

    async fn sweep_chunk(
        &self,
        lane: &Lane<'_>,
        node: NodeId,
        geometry: &NodeGeometry,
        chunk: u32,
        grant: Grant,
        swept: &mut Swept,
    ) -> Result<(), OpError> {
        let class = match grant.kind {
            ChunkKind::Leaf if grant.index == self.number => Some(NodeClass::Leaf),
            ChunkKind::Inner if grant.index == self.number => Some(NodeClass::Inner),
            ChunkKind::Redo => None,
            _ => return Ok(()),
        };
        if let Some(class) = class {
            let node_bytes = self.nodes.node_bytes(class) as u64;
            let nodes = geometry.chunk_bytes / node_bytes.max(1);
            let mut unwritten = 0;
            for number in 0..nodes {
                let offset = geometry.chunk_offset(chunk) + number * node_bytes;
                let at = self.scratch.recovery.start;
                lane.port().call(Request::read(Label::Header, node, offset, LINE_BYTES, at)).await?;
                let header =
                    lane.port().with(|scratch| Header::read(scratch.get(at..at + LINE_BYTES).unwrap_or_default()));
                unwritten += u64::from(header.index == 0);
            }
            if unwritten < nodes {
                swept.chunks_kept += 1;
                swept.unwritten_bytes += unwritten * node_bytes;
                return Ok(());
            }
        }
        let seen = grant.word().0;
        let free = Request::cas(Label::Chunk, node, geometry.chunk_entry(chunk), seen, chunks::ChunkWord::FREE.0);
        swept.chunks_freed += u32::from(lane.port().call(free).await?.value == seen);
        Ok(())
    }
}
