//! A pool in the memories of a simulated fabric.

use crate::config::Config;
use crate::memory::Memories;
use dm_core::remote::NodeGeometry;
use dm_core::remote::row::{Joiner, Member, Row};
use dm_core::remote::superblock::{FormatError, PoolPlan, Superblock};
use dm_core::verbs::NodeId;
use zerocopy::IntoBytes;

/// The superblocks of a pool's memory nodes, and the layout that they describe.
pub struct Pool {
    geometry: Vec<NodeGeometry>,
    superblocks: Vec<Superblock>,
}

impl Pool {
    /// Plans a pool on the memory nodes of `config`, with `lock_count` lock words on each. The error says what does not
    /// fit.
    pub fn new(config: &Config, chunk_bytes: u64, lock_count: u32) -> Result<Self, FormatError> {
        let nodes = config.host_bytes.len() as u16;
        let plan = |node: u16| PoolPlan {
            pool_id: *b"a simulated pool",
            pool_incarnation: 1,
            node: NodeId(node),
            nodes,
            region_bytes: config.host_bytes[usize::from(node)] as u64,
            chunk_bytes,
            lock_count,
            device_bytes: u64::from(config.device_bytes),
            redo_row_bytes: 0,
            index_count: 15,
        };
        let superblocks = (0..nodes).map(|node| plan(node).format()).collect::<Result<Vec<_>, _>>()?;
        let decode = |block: &Superblock| Superblock::decode(block.as_bytes()).expect("just formatted").geometry;
        Ok(Self { geometry: superblocks.iter().map(decode).collect(), superblocks })
    }

    /// Where things are, per memory node.
    pub fn geometry(&self) -> &[NodeGeometry] {
        &self.geometry
    }

    /// The bytes at offset 0 of each memory node.
    pub fn superblocks(&self) -> impl Iterator<Item = &[u8]> {
        self.superblocks.iter().map(IntoBytes::as_bytes)
    }

    /// Writes the superblocks into zeroed memories.
    pub fn format(&self, memories: &mut Memories) {
        for (number, bytes) in (0..).map(NodeId).zip(self.superblocks()) {
            if let Some(memory) = memories.get_mut(number) {
                memory.host.range_mut(0..bytes.len()).copy_from_slice(bytes);
            }
        }
    }

    /// Writes the row of a compute node that is there without having joined: one that nobody recovers.
    pub fn write_row(&self, memories: &mut Memories, member: Member, host: &str) {
        let Some((home, memory)) = self.geometry.first().zip(memories.get_mut(NodeId(0))) else { return };
        let joiner =
            Joiner { token: u64::from(member.nonce), lanes: 1, memory_nodes: self.geometry.len() as u16, host };
        let offset = home.row_offset(member.row) as usize;
        memory.host.range_mut(offset..offset + Row::BYTES).copy_from_slice(Row::of(member, &joiner).as_bytes());
    }
}
