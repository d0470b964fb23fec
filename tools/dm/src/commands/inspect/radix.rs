//! Accounts for the memory of a radix tree: places that the walk reached, and places that were never written. All other
//! places were in the tree once, or were about to be linked. Such a place is in limbo, or ready for reuse, or an
//! orphan. Which of these it is only the compute node knows that took it out of the tree.
//!
//! On a pool in use the account mixes many instants. The sums are exact while no compute node writes.

use super::blocks::BlockAccount;
use crate::failure::Failure;
use crate::members::{WINDOW_BYTES, on_lane};
use dm_core::lane::Lane;
use dm_core::memory::chunks;
use dm_core::operation::Census;
use dm_core::radix::slot::{UNIT_BYTES, word};
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::chunk::{ChunkEntry, ChunkKind};
use dm_core::smart::layout::LeafState;
use dm_core::verbs::{Label, NodeId, Request};
use dm_host::fabric::any::AnyFabric;
use dm_host::pool::Pool;
use dm_host::solo::block_on;
use serde::Serialize;

/// Bytes of all chunks of a radix tree, by what is there.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RadixAccount {
    /// Chunks for leaves.
    pub(super) leaf_chunks_bytes: u64,
    /// Leaves with a record that the walk reached.
    pub(super) live_leaf_bytes: u64,
    /// Leaves it reached whose record was deleted.
    pub(super) deleted_leaf_bytes: u64,
    /// Leaves out of the tree, or not in it yet: in limbo, ready, or orphans.
    pub(super) other_leaf_bytes: u64,
    /// Of all leaves, in the tree and out of it, those whose tombstone was finalized.
    pub(super) finalized_leaf_bytes: u64,
    /// Places of leaves that were never written, and ends of chunks too short for one.
    pub(super) free_leaf_bytes: u64,
    /// Chunks for nodes.
    pub(super) node_chunks_bytes: u64,
    /// Nodes that the walk reached.
    pub(super) live_node_bytes: u64,
    /// Nodes out of the tree, or not in it yet: in limbo, ready, or orphans.
    pub(super) other_node_bytes: u64,
    /// What lies behind the last node that was written in each chunk.
    pub(super) free_node_bytes: u64,
    /// Chunks for blocks.
    #[serde(flatten)]
    pub(super) blocks: BlockAccount,
}

/// Looks at every chunk of `index`, whose leaves take so many bytes, and blocks at most so many. The result of the walk
/// is added later.
pub(super) fn account(
    pool: &Pool,
    fabric: &mut AnyFabric,
    lane: &Lane<'_>,
    index: IndexNumber,
    (leaf_bytes, longest_block_bytes): (usize, usize),
) -> Result<RadixAccount, Failure> {
    let mut account = RadixAccount::default();
    for (number, geometry) in (0..).zip(pool.geometry()) {
        let mut granted = Vec::new();
        let mut see = |chunk, entry| {
            if let Ok(ChunkEntry::Granted(grant)) = entry
                && grant.index == index
            {
                granted.push((chunk, grant.kind));
            }
        };
        on_lane(fabric, lane, |fabric, lane| {
            block_on(fabric, lane, chunks::walk(lane, NodeId(number), geometry, 0, &mut see))
        })
        .map_err(Failure::run)?;
        for (chunk, kind) in granted {
            let (start, bytes) = (geometry.chunk_offset(chunk), geometry.chunk_bytes);
            let place_bytes = match kind {
                ChunkKind::Leaf => leaf_bytes,
                ChunkKind::Inner => UNIT_BYTES,
                ChunkKind::Block => {
                    account.blocks.add_chunk(fabric, lane, (NodeId(number), start), bytes, longest_block_bytes)?;
                    continue;
                }
                _ => continue,
            };
            // Behind the last unit that is not zero.
            let mut written_end = 0;
            let window = (WINDOW_BYTES / place_bytes * place_bytes) as u64;
            let whole = bytes / place_bytes as u64 * place_bytes as u64;
            for at in (0..whole).step_by(window as usize) {
                let length = window.min(whole - at) as usize;
                let read = Request::read(Label::Tool, NodeId(number), start + at, length, 0);
                on_lane(fabric, lane, |fabric, lane| block_on(fabric, lane, lane.port().call(read)))
                    .map_err(Failure::run)?;
                lane.port().with(|scratch| {
                    for (place, image) in (at..).step_by(place_bytes).zip(scratch[..length].chunks_exact(place_bytes)) {
                        if kind == ChunkKind::Inner {
                            if image.iter().any(|&byte| byte != 0) {
                                written_end = place + UNIT_BYTES as u64;
                            }
                            continue;
                        }
                        match word(image, 0) {
                            0 => account.free_leaf_bytes += place_bytes as u64,
                            seal => {
                                let finalized = LeafState::of_seal(seal) == Some(LeafState::Finalized);
                                account.finalized_leaf_bytes += if finalized { place_bytes as u64 } else { 0 };
                            }
                        }
                    }
                });
            }
            if kind == ChunkKind::Leaf {
                account.leaf_chunks_bytes += bytes;
                account.free_leaf_bytes += bytes - whole;
            } else {
                account.node_chunks_bytes += bytes;
                account.free_node_bytes += bytes - written_end;
            }
        }
    }
    Ok(account)
}

impl RadixAccount {
    /// Adds what the walk reached.
    pub(super) fn reached(&mut self, census: &Census, leaf_bytes: usize) {
        let leaf_bytes = leaf_bytes as u64;
        self.deleted_leaf_bytes = census.empty_leaves * leaf_bytes;
        self.live_leaf_bytes = (census.leaves - census.empty_leaves) * leaf_bytes;
        self.blocks.reached(census);
        self.live_node_bytes = census.live_bytes - census.block_bytes - census.leaves * leaf_bytes;
        let leaves = census.leaves * leaf_bytes + self.free_leaf_bytes;
        self.other_leaf_bytes = self.leaf_chunks_bytes.saturating_sub(leaves);
        let nodes = self.live_node_bytes + self.free_node_bytes;
        self.other_node_bytes = self.node_chunks_bytes.saturating_sub(nodes);
    }
}
