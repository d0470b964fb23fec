//! Collection of blocks that nobody knows of any more, in the terms of [`crate::memory::collect`].
//!
//! What a compute node had on its shelf when it died or left, what it had written and not named yet or unnamed and not kept yet, what
//! it had never carved of its chunks, and what the living have lost: all of it lies in chunks for blocks, and no entry that
//! links lead to names it. What is named throughout is met by the walk ([`super::mark`]). Nobody takes what lies in a closed
//! chunk, so nobody comes to name what no entry named ...
//!
//! **... but for those who died.** An entry is named by a WRITE under a lock (B+-trees, leaves of SMART), and that of a compute node
//! that died may be done again by whoever takes the lock over: after its row is DEAD, for nobody knows when, and even after its row is
//! free, for a repairer has the lock by then that may not be done. The place it names may lie in a closed chunk: the dead had
//! begun before that was closed. So a walk must not begin before that is over ([`Collects::REPLAYS`]).
//!
//! **A layer that nothing leads to** has an entry with a block, too, after a crash. It is not met, and the block is collected. Nobody
//! follows what that entry says: nobody comes there.

use super::Items;
use super::block::UNIT_BYTES;
use super::pool::BLOCKS;
use crate::index::Index;
use crate::lane::Lane;
use crate::memory::Collection;
use crate::memory::collect::{Collects, Site};
use crate::operation::OpError;
use crate::remote::chunk::ChunkKind;

impl<'s, I: Index> Collects<'s> for Items<'s, I> {
    const REPLAYS: bool = true;

    fn site(&self) -> Option<(Site<'s>, &'s Collection<'s>)> {
        let super::Site { geometry, number, owner, requests, epochs } = self.site;
        let site = Site { part: epochs?, geometry, owner, requests, number, at: self.scratch.small };
        Some((site, self.blocks.collection()?))
    }

    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)> {
        (kind == ChunkKind::Items).then_some((BLOCKS, UNIT_BYTES))
    }

    fn heed(&self) {
        self.blocks.heed();
    }

    async fn mark(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(collection) = self.blocks.collection() else { return Ok(()) };
        self.walk(lane, &mut |node, offset, bytes| collection.reach(node, offset, bytes)).await
    }
}
