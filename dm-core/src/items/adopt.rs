//! What a compute node that is gone was granted for blocks, and never wrote to, comes back.
//!
//! **Whose it is.** Where no block was ever written, none was ever named, so nobody but the owner of the chunk can have the place:
//! in front of it in the chunk, on its shelf, or in a lane's hands with the WRITE still to come. If that owner is gone - its row
//! is free or another incarnation's, for ever, and nothing it posted can take effect any more - it is nobody's.
//!
//! **Where that begins.** A chunk is granted with zeros, and a block begins with sixteen bytes that are not all zero
//! ([`super::block`]: its index). They stay so: the place of a block begins where one begins in all of its lives, also when it
//! is cut in two. So let `h` be the last sixteen bytes of the chunk, of those that begin at a multiple of sixteen, that are not zero. A
//! block that was ever written begins at `h` or before, and is no longer than the longest that the index takes. What lies
//! behind that is untouched. (What landed of a WRITE that its sender's death cut short moves `h` further on, or is behind it no
//! block: nothing ever named it, and the next image overwrites it.)
//!
//! **Adoption.** READ the end of the chunk until `h` is found; then make the chunk one's own, by a CAS of its entry from that of the
//! gone. It succeeds once, so from the READ to the CAS nobody had the chunk who writes where nothing was written. A CAS whose
//! outcome is not known is looked up by the next adoption. Who dies with the chunk is somebody gone, and the next one READs
//! anew.
//!
//! The rest of the chunk, its blocks and places that were used, stays what it is: see the limits of the room.

use super::block::UNIT_BYTES;
use super::{Items, Site};
use crate::btree::lock::word_at;
use crate::error::{Cause, OpError};
use crate::index::Index;
use crate::lane::{Lane, Mark};
use crate::planted::{Bug, planted};
use crate::reclaim::Adopted;
use crate::remote::chunks::{self, ChunkEntry, ChunkKind, ChunkWord, Grant};
use crate::remote::rows::{RowState, RowWord};
use crate::remote::{HOME, NodeGeometry};
use crate::verbs::{Label, NodeId, Request};
use core::sync::atomic::{AtomicBool, Ordering};
use spin::Mutex;

/// Where, in part of a chunk that begins at a multiple of sixteen, the last sixteen bytes begin that are not zero: no block
/// begins behind them. `None`: none begins there at all.
pub fn last_beginning(bytes: &[u8]) -> Option<usize> {
    bytes.chunks(UNIT_BYTES).rposition(|unit| unit.iter().any(|&byte| byte != 0)).map(|unit| unit * UNIT_BYTES)
}

/// What a compute node remembers of its adoptions.
#[derive(Debug)]
pub(super) struct Adoption {
    busy: AtomicBool,
    /// Somebody has gone since the chunks were looked at.
    due: AtomicBool,
    /// A chunk that may be this compute node's, by a CAS whose outcome is not known.
    under_way: Mutex<Option<Rest>>,
}

impl Adoption {
    pub(super) const fn new() -> Self {
        Self { busy: AtomicBool::new(false), due: AtomicBool::new(false), under_way: Mutex::new(None) }
    }
}

/// What was never written of a chunk.
#[derive(Clone, Copy, Debug)]
struct Rest {
    node: NodeId,
    chunk: u32,
    /// The entry that makes it this compute node's.
    heir: Grant,
    offset: u64,
    bytes: u64,
}

/// One adoption at a time; ended by being dropped.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl<I: Index> Items<'_, I> {
    /// See the file. The lane must not be in an operation. `adopted` is what the index below came to.
    ///
    /// Round trips: one for each chunk; one more for those of others; of those of the gone, one for each so many bytes at their
    /// end as a lane has for blocks, and one.
    pub(super) async fn adopt_rests(&self, lane: &Lane<'_>, adopted: &mut Adopted) -> Result<(), OpError> {
        let adoption = &self.adoption;
        if adopted.looked {
            adoption.due.store(true, Ordering::Relaxed);
        }
        if !adoption.due.load(Ordering::Relaxed) || adoption.busy.swap(true, Ordering::Acquire) {
            return Ok(());
        }
        let _busy = Busy(&adoption.busy);
        self.look_up(lane, adopted).await?;
        for (number, geometry) in self.site.geometry.iter().enumerate() {
            for chunk in 0..geometry.chunk_count {
                let node = NodeId(number as u16);
                if let Some(seen) = self.grant_of_the_gone(lane, node, geometry, chunk).await?
                    && let Some((offset, bytes)) = self.untouched(lane, node, geometry.chunk_offset(chunk)).await?
                {
                    let heir = self.heir()?;
                    *adoption.under_way.lock() = Some(Rest { node, chunk, heir, offset, bytes });
                    let mine = chunks::inherit(lane, node, geometry, chunk, &seen, &heir).await?;
                    self.conclude_adoption(lane, mine, adopted);
                }
            }
        }
        adoption.due.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn heir(&self) -> Result<Grant, OpError> {
        let Site { requests, owner, number, .. } = self.site;
        let request = requests.next().ok_or(OpError::harmless(Cause::BadInput(
            "this incarnation has used all its requests for chunks: join anew",
        )))?;
        Ok(Grant::new(owner, ChunkKind::Items, number, request))
    }

    /// Finds out what came of the last CAS, if that is not known.
    async fn look_up(&self, lane: &Lane<'_>, adopted: &mut Adopted) -> Result<(), OpError> {
        let under_way = *self.adoption.under_way.lock();
        let Some(Rest { node, chunk, heir, .. }) = under_way else { return Ok(()) };
        let Some(geometry) = self.site.geometry.get(usize::from(node.0)) else { return Ok(()) };
        let mine = self.entry(lane, node, geometry, chunk).await? == heir.word();
        self.conclude_adoption(lane, mine, adopted);
        Ok(())
    }

    fn conclude_adoption(&self, lane: &Lane<'_>, mine: bool, adopted: &mut Adopted) {
        let rest = self.adoption.under_way.lock().take();
        if let (true, Some(Rest { node, offset, bytes, .. })) = (mine, rest) {
            self.blocks.add_rest(node, offset, bytes);
            lane.mark(Mark::ChunkAdopted);
            adopted.chunks += 1;
            adopted.bytes += bytes;
        }
    }

    async fn entry(
        &self,
        lane: &Lane<'_>,
        node: NodeId,
        geometry: &NodeGeometry,
        chunk: u32,
    ) -> Result<ChunkWord, OpError> {
        let at = self.scratch.small;
        lane.port().call(Request::read(Label::Chunk, node, geometry.chunk_entry(chunk), 8, at)).await?;
        Ok(ChunkWord(lane.port().with(|scratch| word_at(scratch, at))))
    }

    /// What the entry of a chunk says, if it is for blocks of this index and its owner is gone.
    async fn grant_of_the_gone(
        &self,
        lane: &Lane<'_>,
        node: NodeId,
        geometry: &NodeGeometry,
        chunk: u32,
    ) -> Result<Option<Grant>, OpError> {
        let Ok(ChunkEntry::Granted(grant)) = self.entry(lane, node, geometry, chunk).await?.decode() else {
            return Ok(None);
        };
        let Site { owner, number, .. } = self.site;
        let mine = grant.row == owner.row && u32::from(grant.incarnation) == owner.incarnation;
        let home = self.site.geometry.first().filter(|home| u32::from(grant.row.0) < home.row_count);
        let (false, true, Some(home)) = (mine, grant.kind == ChunkKind::Items && grant.index == number, home) else {
            return Ok(None);
        };
        let at = self.scratch.small;
        lane.port().call(Request::read(Label::Row, HOME, home.row_offset(grant.row), 8, at)).await?;
        let tenant = RowWord(lane.port().with(|scratch| word_at(scratch, at)));
        let gone = tenant.state() == Some(RowState::Free) || tenant.incarnation() != u32::from(grant.incarnation);
        Ok((gone || planted(Bug::RestOfTheLiving)).then_some(grant))
    }

    /// Offset and length of what was never written at the end of the chunk at `chunk`, if there is any.
    async fn untouched(&self, lane: &Lane<'_>, node: NodeId, chunk: u64) -> Result<Option<(u64, u64)>, OpError> {
        const UNIT: u64 = UNIT_BYTES as u64;
        let at = self.scratch.blocks.start;
        let chunk_bytes = self.site.geometry.get(usize::from(node.0)).map_or(0, |node| node.chunk_bytes) / UNIT * UNIT;
        let mut end = chunk_bytes;
        while end > 0 {
            let bytes = end.min(self.scratch.blocks.len() as u64 / UNIT * UNIT);
            lane.port().call(Request::read(Label::Walk, node, chunk + end - bytes, bytes as usize, at)).await?;
            let last = lane.port().with(|scratch| last_beginning(scratch.get(at..at + bytes as usize)?));
            if let Some(last) = last {
                let first = end - bytes + last as u64 + self.longest_place_bytes();
                return Ok((first < chunk_bytes).then(|| (chunk + first, chunk_bytes - first)));
            }
            end -= bytes;
        }
        Ok((chunk_bytes > 0).then_some((chunk, chunk_bytes)))
    }

    /// Bytes of the place of the longest block that this index takes.
    fn longest_place_bytes(&self) -> u64 {
        if planted(Bug::RestWithoutMargin) {
            return UNIT_BYTES as u64;
        }
        self.parameters.longest_place_bytes() as u64
    }
}
