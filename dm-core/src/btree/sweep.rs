//! After a death: every lock that names the dead row is recovered, memory nobody uses comes back, the row is free.
//!
//! Safe while the pool is in use, and by several at once: a lock is recovered as a waiter would recover it, a chunk
//! changes hands by CAS, the row is freed by CAS. No lock can come to name a DEAD row, so one walk over the lock tables
//! finds them all; and where locks lie in leaves, a walk over every place in every chunk for leaves of the index: not only
//! over the leaves of the tree, because an old pointer is all it takes to have locked a place that is not in use.
//!
//! **What comes back.** Redo chunks, for redo images. A chunk for nodes stays granted to the dead until somebody who lives
//! adopts it: see [`crate::memory`].
//! [`Swept`] says how many bytes of such chunks were never written.

use crate::btree::Tree;
use crate::btree::leaves::Leaves;
use crate::btree::node::Header;
use crate::index::catalog::{self, CatalogError};
use crate::lane::{Debt, Lane};
use crate::layout::{LINE_BYTES, word_at};
use crate::locks::table::try_enter_tracked;
use crate::marks::Mark;
use crate::membership::rows;
use crate::memory::chunks;
use crate::mutants::{Bug, planted};
use crate::operation::{Cause, OpError};
use crate::port::OUTBOX_REQUESTS;
use crate::recovery::Swept;
use crate::remote::address::Address;
use crate::remote::catalog::{IndexEntry, IndexKind, IndexNumber};
use crate::remote::chunk::{ChunkKind, Grant};
use crate::remote::lock_word::{HELD, LockId, LockWord, RowId};
use crate::remote::place::NodeClass;
use crate::remote::row::{RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};

/// Lock words, or chunk entries, that one READ brings.
const WINDOW: u32 = 64;

/// Passes over the lock tables before a sweep gives up on locks its own compute node is busy with.
const PASSES_MAX: u32 = 64;

/// Between two passes, in ns.
const PASS_NS: u64 = 1_000_000;

impl<'s> Tree<'s> {
    /// Sweeps up after the compute node of `row`, if that is FENCING or DEAD, or silent for the lease that this waits;
    /// one that lives is left alone. Chunks are those of this index and redo chunks. The lane must not be in an
    /// operation.
    ///
    /// Round trips: one per 64 lock words (16, if they lie in leaves) and one per chunk of every memory node, and what each
    /// lock takes.
    pub(crate) async fn sweep(&self, index: &impl Leaves<'s>, lane: &Lane<'_>, row: RowId) -> Result<Swept, OpError> {
        let Some(recovery) = self.recovery else {
            return Err(OpError::harmless(Cause::BadInput("this index was opened without recovery")));
        };
        lane.check_settled()?;
        let Some(home) = self.geometry.first() else { return Ok(Swept::default()) };
        let mut swept = Swept::default();
        let Some(word) = self.row_word(lane, home, row).await? else { return Ok(swept) };
        match word.state() {
            Some(RowState::Fencing | RowState::Dead) => {}
            Some(RowState::Live) if recovery.is_self(row) => return Ok(swept),
            Some(RowState::Live) => {
                if !self.is_silent(lane, row).await? {
                    return Ok(swept);
                }
            }
            Some(RowState::Free) => {
                swept.row_free = true;
                return Ok(swept);
            }
            _ => return Ok(swept),
        }
        if crate::membership::fence::fence(lane, self.geometry, row, word).await?
            == crate::membership::fence::Fenced::Gone
        {
            return Ok(swept);
        }
        let word = word.with_state(RowState::Dead);
        let mut clean = false;
        for _ in 0..PASSES_MAX {
            let (found, busy) = if planted(Bug::RowFreedUnswept) {
                (0, false)
            } else {
                let (found, busy) = self.sweep_locks(index, lane, row, word.incarnation()).await?;
                let (more, busier) = self.sweep_leaves(index, lane, row, word.incarnation()).await?;
                (found + more, busy || busier)
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
        if self.is_for_others(lane, home, row, word.incarnation()).await? {
            return Ok(swept);
        }
        self.sweep_chunks(lane, row, word.incarnation(), &mut swept).await?;
        let next = rows::advance(lane, home, row, word, RowState::Free).await;
        let next = next.map_err(|_| OpError::harmless(Cause::BadInput("the row cannot be freed")))?;
        swept.row_free = next.state() == Some(RowState::Free) || next.incarnation() != word.incarnation();
        lane.mark(Mark::RowSwept);
        Ok(swept)
    }

    /// Whether the row may be named by locks in the leaves of another index. A compute node has one index open, and its redo
    /// chunks say which.
    async fn is_for_others(
        &self,
        lane: &Lane<'_>,
        home: &NodeGeometry,
        row: RowId,
        incarnation: u32,
    ) -> Result<bool, OpError> {
        let mut others = 0u32;
        let mut look = |entry: &IndexEntry| {
            if matches!(entry.kind, IndexKind::Chime | IndexKind::Smart) && entry.number != self.number {
                others |= 1 << entry.number.get();
            }
        };
        match catalog::list(lane, home, self.scratch.recovery.start, &mut look).await {
            Ok(()) => {}
            Err(CatalogError::Verb(error)) => return Err(error.into()),
            Err(_) => return Err(OpError::harmless(Cause::BadInput("the catalog of the pool cannot be read"))),
        }
        if others == 0 {
            return Ok(false);
        }
        for (number, geometry) in self.geometry.iter().enumerate() {
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = self.read_grant(lane, NodeId(number as u16), geometry, chunk).await? else {
                    continue;
                };
                let is_theirs = grant.row == row && u32::from(grant.incarnation) == incarnation;
                if is_theirs && grant.kind == ChunkKind::Redo && grant.index != IndexNumber::NONE {
                    return Ok(others >> grant.index.get() & 1 != 0);
                }
            }
        }
        Ok(true)
    }

    /// Whether a row is silent for a lease that this waits.
    async fn is_silent(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError> {
        match self.site() {
            Some(site) => site.lease_is_over(lane, row).await,
            None => Ok(false),
        }
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
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
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
                    let debt = Debt::queued(lock, Address::NULL);
                    if self.sweep_lock(index, lane, debt, row, incarnation).await? {
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

    /// As [`Tree::sweep_locks`], over the locks that lie in leaves of the index.
    async fn sweep_leaves(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        row: RowId,
        incarnation: u32,
    ) -> Result<(u32, bool), OpError> {
        let (mut recovered, mut busy) = (0, false);
        let place_bytes = self.nodes.node_bytes(NodeClass::Leaf) as u64;
        if !index.locks_in_leaves() || place_bytes == 0 || planted(Bug::LeavesUnswept) {
            return Ok((recovered, busy));
        }
        for (number, geometry) in self.geometry.iter().enumerate() {
            let node = NodeId(number as u16);
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = self.read_grant(lane, node, geometry, chunk).await? else { continue };
                if grant.kind != ChunkKind::Leaf || grant.index != self.number {
                    continue;
                }
                let place = |number: u64| Address::new(node, geometry.chunk_offset(chunk) + number * place_bytes, 0);
                let places = geometry.chunk_bytes / place_bytes;
                let mut first = 0;
                while first < places {
                    let count = (OUTBOX_REQUESTS as u64).min(places - first);
                    let mut named = self.words_naming(index, lane, row, |step| place(first + step), count).await?;
                    while named != 0 {
                        let leaf = place(first + u64::from(named.trailing_zeros()));
                        named &= named - 1;
                        let Some(lock) = index.lock_in(leaf) else { continue };
                        if self.sweep_lock(index, lane, Debt::queued(lock, leaf), row, incarnation).await? {
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

    /// READs the words of `count` leaves at once, at most [`OUTBOX_REQUESTS`]; which of them are held by `row`.
    async fn words_naming(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        row: RowId,
        leaf: impl Fn(u64) -> Address,
        count: u64,
    ) -> Result<u32, OpError> {
        let at = self.scratch.recovery.start;
        for step in 0..count {
            let Some(lock) = index.lock_in(leaf(step)) else { continue };
            let (node, offset, space) = self.word_place(&Debt::queued(lock, leaf(step)));
            let to = at + step as usize * 8;
            lane.port().push(Request::read(Label::Lock, node, offset, 8, to).in_space(space));
        }
        lane.port().submit().await?;
        Ok(lane.port().with(|scratch| {
            (0..count).fold(0, |set, step| {
                let word = LockWord(word_at(scratch, at + step as usize * 8));
                set | u32::from(word.0 & HELD != 0 && word.row() == row) << step
            })
        }))
    }

    /// Recovers one lock. `false`: a lane of this compute node is at it, and does that itself.
    async fn sweep_lock(
        &self,
        index: &impl Leaves<'s>,
        lane: &Lane<'_>,
        debt: Debt,
        row: RowId,
        incarnation: u32,
    ) -> Result<bool, OpError> {
        let (queues, entry) = index.queue_of(debt.lock);
        if !try_enter_tracked(self.options.hierarchical.then_some((queues, entry)), lane, debt)? {
            return Ok(false);
        }
        let at = self.scratch.recovery.start;
        let (node, offset, space) = self.word_place(&debt);
        lane.port().call(Request::read(Label::Lock, node, offset, 8, at).in_space(space)).await?;
        let word = LockWord(lane.port().with(|scratch| word_at(scratch, at)));
        let held = !debt.lock.in_node() || word.0 & HELD != 0;
        if held && word.row() == row {
            self.recover(index, lane, debt, word, incarnation).await?;
        }
        self.leave(lane, debt.lock, (queues, entry));
        Ok(true)
    }

    /// What the entry of a chunk says, if it is granted.
    async fn read_grant(
        &self,
        lane: &Lane<'_>,
        node: NodeId,
        geometry: &NodeGeometry,
        chunk: u32,
    ) -> Result<Option<Grant>, OpError> {
        match self.site() {
            Some(site) => site.read_grant(lane, node, geometry, chunk).await,
            None => Ok(None),
        }
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
                let Some(grant) = self.read_grant(lane, node, geometry, chunk).await? else { continue };
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
            // Not even one without a node is free: the dead may have written the end of one, and not its first line.
            swept.chunks_kept += 1;
            swept.unwritten_bytes += unwritten * node_bytes;
            return Ok(());
        }
        swept.chunks_freed += u32::from(chunks::set_used(lane, node, geometry, chunk, &grant).await?);
        Ok(())
    }
}
