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
use crate::memory::rows;
use crate::operation::{Cause, OpError};
use crate::remote::chunk::ChunkKind;
use crate::remote::owners::Owner;
use crate::remote::row::RowState;

impl<I: Index> Items<'_, I> {
    /// Takes the parts of compute nodes that are dead: nobody asks for a part without keys, and while the ownership table names a
    /// dead row, that is not swept, and nothing is collected. One READ for each owner; nothing before the index below is open.
    pub(super) async fn take_parts_of_the_dead(&self, lane: &Lane<'_>) -> Result<(), OpError> {
        let Some(home) = self.site.geometry.first() else { return Ok(()) };
        let mut known = (self.site.owner.row, false);
        for part in 0.. {
            let Some((word, _)) = self.below.part(part) else { break };
            let row = word.row();
            if row != known.0 {
                let tenant = rows::tenant(lane, home, row, self.scratch.small).await?;
                known = (row, tenant.is_some_and(|word| word.state() == Some(RowState::Dead)));
            }
            if known.1 && !matches!(word.owner(), Ok(Owner::Free)) {
                match self.below.take_part(lane, part).await {
                    // Another one was faster, or it takes longer: the next collection looks again.
                    Ok(()) | Err(OpError { cause: Cause::NotOwner { .. } | Cause::Deadline { .. }, .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

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
