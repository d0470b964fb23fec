//! A small pool in the memory of a simulated fabric, formatted and ready for an index.

use dm_core::remote::NodeGeometry;
use dm_core::remote::catalog::IndexNumber;
use dm_core::remote::lock_word::RowId;
use dm_core::remote::row::Member;
use dm_core::remote::superblock::{PoolPlan, Superblock};
use dm_core::verbs::{Capabilities, Guarantees, NodeId, Space};
use dm_host::assembly::Place;
use dm_sim::{Config, Memories};
use zerocopy::IntoBytes;

/// A formatted pool's description.
pub struct Pool {
    /// The fabric it is for.
    pub config: Config,
    /// Where things are, per memory node.
    pub geometry: Vec<NodeGeometry>,
    superblocks: Vec<Superblock>,
}

impl Pool {
    /// Plans a pool on the memory nodes of `config`, with chunks of 4 KiB and few lock words, so that chunks run out
    /// and locks are shared often.
    pub fn new(config: &Config) -> Self {
        Self::with(config, 4096, 61)
    }

    /// As [`Pool::new`], with chunks of `chunk_bytes` and `lock_count` lock words per memory node.
    pub fn with(config: &Config, chunk_bytes: u64, lock_count: u32) -> Self {
        let nodes = config.host_bytes.len() as u16;
        let superblocks: Vec<_> = (0..nodes)
            .map(|node| {
                let plan = PoolPlan {
                    pool_id: *b"a pool for tests",
                    pool_incarnation: 1,
                    node: NodeId(node),
                    nodes,
                    region_bytes: config.host_bytes[node as usize] as u64,
                    chunk_bytes,
                    lock_count,
                    device_bytes: u64::from(config.device_bytes),
                    redo_row_bytes: 0,
                };
                plan.format().expect("a test asks for a pool that can be")
            })
            .collect();
        let geometry = superblocks
            .iter()
            .map(|block| Superblock::decode(block.as_bytes()).expect("what was just formatted").geometry)
            .collect();
        Self { config: config.clone(), geometry, superblocks }
    }

    /// The bytes at offset 0 of each memory node.
    pub fn superblocks(&self) -> impl Iterator<Item = &[u8]> {
        self.superblocks.iter().map(IntoBytes::as_bytes)
    }

    /// Writes the superblocks into zeroed memories.
    pub fn format(&self, memories: &mut Memories) {
        for (node, block) in self.superblocks.iter().enumerate() {
            let bytes = block.as_bytes();
            let memory = memories.get_mut(NodeId(node as u16)).expect("a memory node of the plan");
            memory.space_mut(Space::Host).range_mut(0..bytes.len()).copy_from_slice(bytes);
        }
    }

    /// How compute node `number` (0-based) opens index 0.
    pub fn place(&self, number: u16) -> Place<'_> {
        place(&self.geometry, number, self.config.capabilities(), self.config.guarantees())
    }
}

/// How compute node `number` (0-based) opens index 0 of a pool.
pub fn place(geometry: &[NodeGeometry], number: u16, capabilities: Capabilities, guarantees: Guarantees) -> Place<'_> {
    Place {
        geometry,
        number: IndexNumber::new(0).expect("the first entry"),
        member: Member { row: RowId(number + 1), incarnation: 1, nonce: 1 },
        capabilities,
        guarantees,
        recovery: None,
        epochs: None,
    }
}
