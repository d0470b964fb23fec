//! After a death a sweep recovers every lock that names the dead row, gives back the row's redo chunks, and frees the
//! row.
//!
//! Safe while the pool is in use, and by several compute nodes at once: a lock is recovered as a waiter would recover
//! it, a chunk changes hands by CAS, the row is freed by CAS. No lock can come to name a DEAD row. So one walk finds
//! them all: over the lock tables, and over every place in every chunk for leaves of the index, if locks lie in leaves.
//! A walk over the leaves that the index leads to is not enough: a lane with an old pointer may have locked a place
//! that is not in use.
//!
//! A row that an ownership table needs stays DEAD, with all its chunks, until the index of the table has recovered what
//! the row owned: see [`crate::index::owners`].
//!
//! Chunks for nodes stay granted to the dead row until a live compute node collects the orphans in them: see
//! [`crate::memory`].

use super::Swept;
use super::takeover::{Recoverable, Site};
use crate::lane::{Lane, LockRecord};
use crate::layout::word_at;
use crate::marks::Mark;
use crate::membership::fence::{Fenced, fence, row_error};
use crate::membership::{redo, rows};
use crate::memory::chunks::{self, Entries};
use crate::mutants::{Mutant, planted};
use crate::operation::{Cause, OpError};
use crate::port::OUTBOX_REQUESTS;
use crate::remote::NodeGeometry;
use crate::remote::address::Address;
use crate::remote::catalog::{IndexNumber, IndexSet};
use crate::remote::chunk::{ChunkKind, Grant};
use crate::remote::lock_word::{LockId, LockWord, RowId};
use crate::remote::row::{RowState, RowWord};
use crate::verbs::{Label, NodeId, Request, Space};

/// Lock words of a table that one READ brings.
const WINDOW: u32 = 64;

/// Passes over all locks before a sweep gives up on those that its own compute node is busy with.
const PASSES_MAX: u32 = 64;

/// Between two passes, in ns.
const PASS_NS: u64 = 1_000_000;

/// Locks, as far as a sweep is concerned: where their words are, which of them a dead row has, and how to recover one.
/// Locks that are taken by `crate::locks::protocol` are such.
pub(crate) trait Sweepable {
    /// The lane's record of the lock of the leaf at `address`.
    fn lock_record(&self, address: Address) -> Result<LockRecord, OpError>;

    /// Where the word of a lock is.
    fn place_of_word(&self, lock_record: &LockRecord) -> (NodeId, u64, Space);

    /// Whether a word says that `row` has a part in its lock.
    fn is_of(found: u64, row: RowId) -> bool;

    /// Recovers one lock that the dead row has, as its word said when it was READ last. `false`: a lane of this compute
    /// node is at it, and does that itself.
    async fn sweep_lock(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        lock_record: LockRecord,
        dead: Dead,
    ) -> Result<bool, OpError>;
}

impl<L: Recoverable> Sweepable for L {
    fn lock_record(&self, address: Address) -> Result<LockRecord, OpError> {
        Ok(LockRecord::queued(self.lock_of(address)?, address))
    }

    fn place_of_word(&self, lock_record: &LockRecord) -> (NodeId, u64, Space) {
        self.word_place(lock_record.lock, lock_record.protects)
    }

    fn is_of(found: u64, row: RowId) -> bool {
        L::is_held(found) && LockWord(found).row() == row
    }

    async fn sweep_lock(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        lock_record: LockRecord,
        (row, word): Dead,
    ) -> Result<bool, OpError> {
        if !self.try_enter(lane, lock_record)? {
            return Ok(false);
        }
        let at = site.room.start;
        let (node, offset, space) = self.place_of_word(&lock_record);
        lane.port().call(Request::read(Label::Lock, node, offset, 8, at).in_space(space)).await?;
        let found = lane.port().with(|scratch| word_at(scratch, at));
        if Self::is_of(found, row) {
            self.recover(lane, site, lock_record, LockWord(found), word.incarnation()).await?;
        }
        self.leave(lane, lock_record.lock);
        Ok(true)
    }
}

/// An index whose locks a sweep can find.
pub(crate) trait Sweep {
    /// Locks in tables.
    type Tables: Sweepable;

    /// Locks in leaves.
    type Leaves: Sweepable;

    /// What recoveries work with. `None`: opened without recovery.
    fn site(&self) -> Option<Site<'_>>;

    /// Its number in the catalog.
    fn number(&self) -> IndexNumber;

    /// The locks that lie in the tables of the memory nodes.
    fn tables(&self) -> Option<&Self::Tables>;

    /// The locks that lie in leaves, and the bytes from one place for a leaf to the next.
    fn leaves(&self) -> Option<(&Self::Leaves, usize)>;

    /// The leaf that may be at an offset of a memory node.
    fn leaf_at(&self, node: NodeId, offset: u64) -> Address {
        Address::new(node, offset, 0)
    }

    /// The other indexes of the pool whose locks such a sweep does not find.
    async fn others(&self, lane: &Lane<'_>) -> Result<IndexSet, OpError>;

    /// Whether an ownership table of the pool keeps `row`, which is DEAD: see [`crate::index::owners`].
    async fn keeps_row(&self, lane: &Lane<'_>, row: RowId) -> Result<bool, OpError>;

    /// Whether nothing leads to a dead row's chunk of this index, or ever will: its maker did not publish what it wrote
    /// there.
    async fn is_unpublished(
        &self,
        _lane: &Lane<'_>,
        _chunk: (NodeId, &NodeGeometry, u32),
        _kind: ChunkKind,
    ) -> Result<bool, OpError> {
        Ok(false)
    }

    /// Bytes of a dead row's chunk for nodes of this index that were never written.
    async fn unwritten_bytes(
        &self,
        _lane: &Lane<'_>,
        _chunk: (NodeId, &NodeGeometry, u32),
        _kind: ChunkKind,
    ) -> Result<u64, OpError> {
        Ok(0)
    }

    /// Sweeps up after the compute node of `row`, if that is FENCING or DEAD, or does not respond for the lease that
    /// this waits; one that lives is left alone. The lane must not be in an operation.
    ///
    /// `done`: indexes through which the caller has swept the row since it was DEAD. No lock of these names it: a sweep ends
    /// with a pass that finds none, and no lock comes to name a row that is DEAD.
    ///
    /// Round trips: one per 64 lock words in tables, one per 16 or more leaves that have locks, one per 16 chunks
    /// of every memory node, and what each lock takes.
    async fn sweep_row(&self, lane: &Lane<'_>, row: RowId, done: IndexSet) -> Result<Swept, OpError> {
        let Some(site) = self.site() else {
            return Err(OpError::harmless(Cause::BadInput("this index was opened without recovery")));
        };
        lane.check_settled()?;
        let mut swept = Swept::default();
        let (Some(home), Some(seen)) = (site.geometry.first(), site.read_row(lane, row).await?) else {
            return Ok(swept);
        };
        match seen.word.state() {
            Some(RowState::Fencing | RowState::Dead) => {}
            Some(RowState::Live) if site.recovery.is_self(row) => return Ok(swept),
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
        if fence(lane, site.geometry, row, seen.word).await? == Fenced::Gone {
            return Ok(swept);
        }
        let dead = (row, seen.word.with_state(RowState::Dead));
        let mut clean = planted(Mutant::ROW_FREED_UNSWEPT);
        for _ in 0..PASSES_MAX {
            if clean {
                break;
            }
            let mut pass = Pass::default();
            self.sweep_tables(lane, site, dead, &mut pass).await?;
            self.sweep_leaves(lane, site, dead, &mut pass).await?;
            swept.locks += pass.recovered;
            // A pass that found some is followed by one that finds none: what was busy, or taken by a repairer that
            // died since, is met again.
            clean = pass.recovered == 0 && !pass.busy;
            if !clean {
                lane.check_deadline()?;
                lane.port().call(Request::pause(PASS_NS)).await?;
                // Another sweep may have freed the row. Then the words that name it are its next compute node's, which may
                // keep them for as long as it likes.
                if site.read_row(lane, row).await?.is_none_or(|now| now.word != dead.1) {
                    swept.row_free = true;
                    return Ok(swept);
                }
            }
        }
        if !clean {
            let what = "sweeping the locks of a row";
            return Err(OpError::harmless(Cause::Retries { attempts: PASSES_MAX, what }));
        }
        if self.is_for_others(lane, site, dead, &done).await? {
            return Ok(swept);
        }
        // Before chunks are given back: the row's log ring and its page images lie in them.
        if self.keeps_row(lane, row).await? {
            return Ok(swept);
        }
        self.sweep_chunks(lane, site, dead, &mut swept).await?;
        let (row, word) = dead;
        let next = rows::advance(lane, home, row, word, RowState::Free).await.map_err(row_error)?;
        swept.row_free = next.state() == Some(RowState::Free) || next.incarnation() != word.incarnation();
        lane.mark(Mark::ROW_SWEPT);
        Ok(swept)
    }

    /// Whether locks of another index, which this sweep does not find, may name the row: of one that it had open, or of any
    /// if it has not said what it had open.
    async fn is_for_others(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        (row, word): Dead,
        done: &IndexSet,
    ) -> Result<bool, OpError> {
        let others = self.others(lane).await?.without(done);
        let (false, Some(home)) = (others.is_empty(), site.geometry.first()) else { return Ok(false) };
        let open = redo::open_indexes(lane, home, (row, word.incarnation()), site.room.start).await?;
        Ok(open.is_none_or(|open| others.meets(&open)))
    }

    /// One pass over all lock tables.
    async fn sweep_tables(&self, lane: &Lane<'_>, site: Site<'_>, dead: Dead, pass: &mut Pass) -> Result<(), OpError> {
        let Some(locks) = self.tables() else { return Ok(()) };
        let at = site.room.start;
        for (node, geometry) in (0..).map(NodeId).zip(site.geometry) {
            let mut first = 0;
            while first < geometry.lock_count && !(first > 0 && planted(Mutant::ONE_WINDOW_SWEPT)) {
                let count = WINDOW.min(geometry.lock_count - first);
                let read = Request::read(Label::Lock, node, geometry.lock_offset(first), count as usize * 8, at);
                lane.port().call(read.in_space(geometry.lock_space)).await?;
                let mut named = words_naming::<Self::Tables>(lane, dead, count, |i| at + i as usize * 8);
                while named != 0 {
                    let lock = LockId { node, index: first + named.trailing_zeros() };
                    named &= named - 1;
                    pass.note(locks.sweep_lock(lane, site, LockRecord::queued(lock, Address::NULL), dead).await?);
                }
                first += count;
            }
        }
        Ok(())
    }

    /// One pass over all places for leaves. One request brings the words of as many places as its share of the scratch
    /// has room for, at least one.
    async fn sweep_leaves(&self, lane: &Lane<'_>, site: Site<'_>, dead: Dead, pass: &mut Pass) -> Result<(), OpError> {
        let Some((locks, place_bytes)) = self.leaves() else { return Ok(()) };
        if place_bytes == 0 || planted(Mutant::LEAVES_UNSWEPT) {
            return Ok(());
        }
        let share_bytes = site.room.len() / OUTBOX_REQUESTS;
        let per_request = (1 + share_bytes.saturating_sub(8) / place_bytes).clamp(1, 64 / OUTBOX_REQUESTS);
        let request_bytes = (per_request - 1) * place_bytes + 8;
        let at = |i: u32| {
            let (request, i) = (i as usize / per_request, i as usize % per_request);
            site.room.start + request * request_bytes + i * place_bytes
        };
        let has_leaves = |grant: Grant| grant.kind == ChunkKind::Leaf && grant.index == self.number();
        // What the dead compute node has locked lay in such a chunk before its row was fenced: entries READ since then do.
        let mut entries = Entries::new();
        for (node, geometry) in (0..).map(NodeId).zip(site.geometry) {
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = site.read_grant(lane, &mut entries, (node, geometry, chunk)).await? else { continue };
                if !has_leaves(grant) {
                    continue;
                }
                let places = geometry.chunk_bytes / place_bytes as u64;
                let leaf = |place: u64| self.leaf_at(node, geometry.chunk_offset(chunk) + place * place_bytes as u64);
                let mut first = 0;
                while first < places {
                    // A lane of this compute node may wait for a wake that the last lock left in the outbox.
                    let requests =
                        if planted(Mutant::SWEEP_WITHOUT_ROOM) { OUTBOX_REQUESTS } else { lane.port().room().max(1) };
                    let count = ((requests * per_request) as u64).min(places - first) as u32;
                    for step in (0..count).step_by(per_request) {
                        let address = leaf(first + u64::from(step));
                        let (node, offset, space) = locks.place_of_word(&locks.lock_record(address)?);
                        let last = (count - step).min(per_request as u32) as usize - 1;
                        let read = Request::read(Label::Lock, node, offset, last * place_bytes + 8, at(step));
                        lane.port().push(read.in_space(space).untimed());
                    }
                    lane.port().submit().await?;
                    let mut named = words_naming::<Self::Leaves>(lane, dead, count, at);
                    // The entry may be old: what looks like a lock may be anybody's bytes by now.
                    if named != 0 {
                        let now = site.read_grant(lane, &mut Entries::new(), (node, geometry, chunk)).await?;
                        if !now.is_some_and(has_leaves) {
                            break;
                        }
                    }
                    while named != 0 {
                        let address = leaf(first + u64::from(named.trailing_zeros()));
                        named &= named - 1;
                        let lock_record = locks.lock_record(address)?;
                        pass.note(locks.sweep_lock(lane, site, lock_record, dead).await?);
                    }
                    first += u64::from(count);
                }
            }
        }
        Ok(())
    }

    /// Gives the row's redo chunks back, and those with something that it did not publish; those for nodes stay its own.
    async fn sweep_chunks(
        &self,
        lane: &Lane<'_>,
        site: Site<'_>,
        (row, word): Dead,
        swept: &mut Swept,
    ) -> Result<(), OpError> {
        // What the dead compute node has, it had before its row was fenced: entries that were READ since then do.
        let mut entries = Entries::new();
        for (node, geometry) in (0..).map(NodeId).zip(site.geometry) {
            for chunk in 0..geometry.chunk_count {
                let Some(grant) = site.read_grant(lane, &mut entries, (node, geometry, chunk)).await? else { continue };
                // Another compute node may have freed the row meanwhile, and a later incarnation may have chunks
                // already.
                if grant.row != row || u32::from(grant.incarnation) > word.incarnation() {
                    continue;
                }
                let Grant { kind, index, .. } = grant;
                let is_own = index == self.number();
                let is_free = kind == ChunkKind::Redo
                    || is_own && self.is_unpublished(lane, (node, geometry, chunk), kind).await?;
                if is_free {
                    swept.chunks_freed += u32::from(chunks::set_used(lane, node, geometry, chunk, &grant).await?);
                } else if is_own {
                    // Not even a chunk without a node is free: the dead compute node may have written the end of a
                    // node, and not its first line.
                    swept.chunks_kept += 1;
                    swept.unwritten_bytes += self.unwritten_bytes(lane, (node, geometry, chunk), kind).await?;
                }
            }
        }
        Ok(())
    }
}

/// A row, and its word in state DEAD.
pub(crate) type Dead = (RowId, RowWord);

/// What a pass over the locks of an index came to.
#[derive(Default)]
pub(crate) struct Pass {
    recovered: u32,
    /// A lane of this compute node is at a lock, and recovers that itself.
    busy: bool,
}

impl Pass {
    fn note(&mut self, recovered: bool) {
        self.recovered += u32::from(recovered);
        self.busy |= !recovered;
    }
}

/// Which of `count` words, at most 64, that are in the scratch at `at(i)`, name the dead row.
fn words_naming<L: Sweepable>(lane: &Lane<'_>, (row, _): Dead, count: u32, at: impl Fn(u32) -> usize) -> u64 {
    lane.port()
        .with(|scratch| (0..count).fold(0, |set, i| set | u64::from(L::is_of(word_at(scratch, at(i)), row)) << i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_counts_what_it_recovered_and_knows_of_the_rest() {
        let mut pass = Pass::default();
        pass.note(true);
        pass.note(true);
        assert_eq!((pass.recovered, pass.busy), (2, false));
        pass.note(false);
        assert_eq!((pass.recovered, pass.busy), (2, true));
    }
}
