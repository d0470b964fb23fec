//! A memory node that is added to a pool while compute nodes are at work: see [`dm_core::membership::growth`].

use super::{Pool, PoolError};
use crate::solo::block_on;
use dm_core::membership::growth;
use dm_core::memory::chunks::{self, Tally};
use dm_core::remote::lock_word::RowId;
use dm_core::verbs::NodeId;

impl Pool {
    /// Memory nodes of the pool: as many as it had when it was formatted, and those that were added.
    pub fn memory_nodes(&self) -> Result<u16, PoolError> {
        let added =
            self.with_lane(|fabric, lane| block_on(fabric, lane, growth::memory_nodes(lane, self.home(), 0)))??;
        Ok(added.max(self.formatted()))
    }

    fn formatted(&self) -> u16 {
        // `of` made a fabric, and a fabric refuses a pool without nodes.
        self.descriptions[0].identity.nodes
    }

    /// Adds the last memory node, if the pool does not have it yet ([`Pool::connect_to_add`]). From then on compute nodes that
    /// join have to name it, and it grants nothing before [`Pool::grant_from`]. Returns whether it was added now.
    pub fn add_memory_node(&self) -> Result<bool, PoolError> {
        let unknown = self.descriptions.iter().fold(0, |bits, description| bits | description.read_only_unknown);
        if unknown != 0 {
            return Err(PoolError::ReadOnly { unknown });
        }
        let before = self.nodes.len() as u16 - 1;
        if self.memory_nodes()? > before {
            return Ok(false);
        }
        let (node, geometry) = (NodeId(before), &self.geometry[usize::from(before)]);
        let mut tally = Tally::default();
        let mut see = |_, entry| tally.count(entry);
        self.with_lane(|fabric, lane| block_on(fabric, lane, chunks::walk(lane, node, geometry, 0, &mut see)))??;
        let chunks = tally.granted_total() + tally.used + tally.corrupt;
        if chunks > 0 {
            return Err(PoolError::NotNew { node: node.0, chunks });
        }
        self.with_lane(|fabric, lane| block_on(fabric, lane, chunks::withhold(lane, (node, geometry), true, 0)))??;
        let counts = (self.formatted(), before);
        self.with_lane(|fabric, lane| block_on(fabric, lane, growth::announce(lane, self.home(), counts, 0)))??;
        Ok(true)
    }

    /// Has a memory node that was added grant its memory, if all compute nodes know it. Those that may not have to leave, and may join
    /// again: [`PoolError::Behind`] names their rows. Returns how many chunks it did not grant before.
    pub fn grant_from(&self, node: NodeId) -> Result<u32, PoolError> {
        let count = self.geometry.len();
        let geometry = self.geometry.get(usize::from(node.0)).ok_or(PoolError::NoMemoryNode { node: node.0, count })?;
        let mut rows = Vec::new();
        self.with_lane(|fabric, lane| {
            let mut see = |row: RowId| rows.push(row.0);
            block_on(fabric, lane, growth::behind(lane, self.home(), node.0 + 1, 0, &mut see))
        })??;
        if !rows.is_empty() {
            return Err(PoolError::Behind { node: node.0, rows });
        }
        let fenced = self
            .with_lane(|fabric, lane| block_on(fabric, lane, growth::fence_predecessors(lane, self.home(), node, 0)))?;
        fenced.map_err(|source| PoolError::Fence { node: node.0, source })?;
        Ok(self.with_lane(|fabric, lane| block_on(fabric, lane, chunks::withhold(lane, (node, geometry), false, 0)))??)
    }
}
