//! Collection of blocks that no compute node knows of any more, by mark-and-sweep ([`crate::memory::collect`]).
//!
//! Such blocks lie in chunks for blocks, and no entry that links lead to names them:
//!
//! - what a compute node had in its free list when it died or left;
//! - what it had written and not named yet, or what had lost its name and was not in the free list yet;
//! - what it had never carved from its chunks;
//! - what live compute nodes have lost.
//!
//! The walk ([`super::mark`]) meets every block that is named throughout. No lane takes a place in a closed chunk, so
//! no live compute node names a block that was unnamed. A takeover may still replay a WRITE that names one. So a walk
//! begins only when no replay can come any more ([`Collects::REPLAYS`]). [`items_memory`](crate::manual::items_memory)
//! has the proof.
//!
//! A crash may leave a layer to which no link leads, with an entry that names a block. The walk does not meet this
//! entry, and the block is collected. No operation follows the entry, since none comes to that layer.

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
        let super::Site { geometry, number, owner, requests, epochs, .. } = self.site;
        let site = Site { part: epochs?, geometry, owner, requests, number, at: self.scratch.small };
        Some((site, self.blocks.collection()?))
    }

    fn carves(&self, kind: ChunkKind) -> Option<(u8, usize)> {
        (kind == ChunkKind::Block).then_some((BLOCKS, UNIT_BYTES))
    }

    fn give_up_closed(&self) {
        self.blocks.give_up_closed();
    }

    async fn mark(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(collection) = self.blocks.collection() else { return Ok(()) };
        self.walk(lane, &mut |node, offset, bytes| collection.reach(node, offset, bytes)).await
    }
}
