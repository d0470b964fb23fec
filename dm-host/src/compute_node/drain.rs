//! Memory nodes that are to become empty.

use super::ComputeNode;
use crate::pool::PoolError;
use crate::solo::block_on;
use dm_core::memory::chunks;
use dm_core::verbs::NodeId;

impl ComputeNode {
    /// Keeps what is free on a memory node from being granted, to any index; `false`: has it granted again. Returns how many chunks
    /// that were. Nodes of indexes stay where they are, and chunks that compute nodes have go on to be filled. A chunk that is
    /// given back later is free, and is withheld by another call only.
    pub fn withhold_chunks(&self, node: NodeId, withholds: bool) -> Result<u32, PoolError> {
        let geometry = self.pool.geometry();
        let count = geometry.len();
        let of_node = geometry.get(usize::from(node.0)).ok_or(PoolError::NoMemoryNode { node: node.0, count })?;
        let changed = self
            .pool
            .with_lane(|fabric, lane| block_on(fabric, lane, chunks::withhold(lane, (node, of_node), withholds, 0)))?;
        Ok(changed?)
    }
}
